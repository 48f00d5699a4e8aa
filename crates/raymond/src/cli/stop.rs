//! `raymond stop`

use super::args::StopArgs;
use super::choose::{Intent, choose, choose_only};
use super::elsewhere::{ended_there, wedged_there};
use super::find::store;
use super::print::say;
use crate::error::{ExitKind, UserError};
use crate::fleet::delivery::{Delivery, delivery_of};
use crate::run::driver::StopRequest;
use crate::store::Elsewhere;

pub(super) fn stop(args: StopArgs) -> Result<ExitKind, UserError> {
    let store = store(&args.place)?;
    let run = match &args.run {
        Some(run) => choose(&*store, Some(run), Intent::Stop)?,
        None => choose_only(&*store, Intent::Stop)?,
    };
    let holder = run
        .holder()
        .map_err(|error| UserError::failed(format!("cannot tell whether the run is live: {error}")))?;
    let Some(holder) = holder else {
        say(&format!("{} is not running; nothing to stop", run.id()));
        return Ok(ExitKind::Completed);
    };
    if let Some(wedged) = wedged_there(&*run) {
        return Err(wedged);
    }
    let request = StopRequest::for_run(&*run, holder.incarnation, args.now);
    let name = request.name();
    let content = serde_json::to_string(&request).map_err(|error| UserError::failed(error.to_string()))?;
    run.inbox()
        .post(&name, &content)
        .map_err(|error| UserError::failed(format!("cannot reach the run: {error}")))?;
    let id = run.id();
    let how =
        if args.now { "running steps are being ended" } else { "stops when its running steps are done" };
    let Some(Elsewhere { engine, .. }) = run.elsewhere() else {
        say(&format!("{id}: {how}"));
        return Ok(ExitKind::Completed);
    };
    say(&match delivery_of(&*run, &name) {
        Delivery::Taken => ended_there(&*run).unwrap_or_else(|| format!("{id}: {how}")),
        Delivery::Left(why) => format!("{id} stops as soon as a worker takes it up: {why}"),
        Delivery::Waits(why) => format!(
            "{id} goes on: {engine} does not answer: {why}; the next command that reaches it asks {id} to stop"
        ),
    });
    Ok(ExitKind::Completed)
}
