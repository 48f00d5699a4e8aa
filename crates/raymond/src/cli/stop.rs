//! `raymond stop`

use super::args::StopArgs;
use super::find::{find_run, state_dir};
use super::print::say;
use crate::error::{Exit, UserError};
use crate::run::driver::{STOP_MESSAGE, StopRequest};
use crate::store::{is_live, post};

pub(super) fn stop(args: StopArgs) -> Result<Exit, UserError> {
    let dir = state_dir(&args.place)?;
    let paths = find_run(&dir, Some(&args.run))?;
    let holder = is_live(&paths.lock())
        .map_err(|error| UserError::failed(format!("cannot look at the run's lock: {error}")))?;
    let Some(holder) = holder else {
        say(&format!("{} is not running; nothing to stop", paths.id()));
        return Ok(Exit::Completed);
    };
    let request = StopRequest { incarnation: holder.incarnation, now: args.now };
    let content = serde_json::to_string(&request).map_err(|error| UserError::failed(error.to_string()))?;
    // A gentle request must not keep a later, urgent one from being posted.
    let name = if args.now { format!("{STOP_MESSAGE}-now") } else { STOP_MESSAGE.to_owned() };
    post(&paths.inbox(), &name, &content)
        .map_err(|error| UserError::failed(format!("cannot reach the run: {error}")))?;
    match args.now {
        true => say(&format!("{}: running steps are being ended", paths.id())),
        false => say(&format!("{}: stops when its running steps are done", paths.id())),
    }
    Ok(Exit::Completed)
}
