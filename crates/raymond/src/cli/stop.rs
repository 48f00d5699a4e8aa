//! `raymond stop`

use super::args::StopArgs;
use super::find::{find_run, store};
use super::print::say;
use crate::error::{ExitKind, UserError};
use crate::run::driver::StopRequest;

pub(super) fn stop(args: StopArgs) -> Result<ExitKind, UserError> {
    let run = find_run(&*store(&args.place)?, Some(&args.run))?;
    let holder = run
        .holder()
        .map_err(|error| UserError::failed(format!("cannot tell whether the run is live: {error}")))?;
    let Some(holder) = holder else {
        say(&format!("{} is not running; nothing to stop", run.id()));
        return Ok(ExitKind::Completed);
    };
    let name = StopRequest::name(holder.incarnation.as_deref(), args.now);
    let request = StopRequest { incarnation: holder.incarnation, now: args.now };
    let content = serde_json::to_string(&request).map_err(|error| UserError::failed(error.to_string()))?;
    run.inbox()
        .post(&name, &content)
        .map_err(|error| UserError::failed(format!("cannot reach the run: {error}")))?;
    match args.now {
        true => say(&format!("{}: running steps are being ended", run.id())),
        false => say(&format!("{}: stops when its running steps are done", run.id())),
    }
    Ok(ExitKind::Completed)
}
