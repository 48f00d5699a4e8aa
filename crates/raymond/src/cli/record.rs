//! `raymond record`

use super::args::RecordArgs;
use super::drive::kept_debug_files;
use super::find::{find_run, project_folder, scratch_folder, store};
use super::print::say;
use crate::agent::prepared::cost_of;
use crate::error::{ExitKind, UserError};
use crate::recording;

pub(super) fn record(args: RecordArgs) -> Result<ExitKind, UserError> {
    let store = store(&args.place)?;
    let stored = find_run(&*store, Some(&args.run))?;
    let run = stored.load()?;
    let debug = kept_debug_files(&args.place, stored.id());
    let scratch = scratch_folder(&args.place, stored.id())?;
    let project = project_folder(std::path::Path::new(&run.cwd));
    let turns = recording::of_run(&*stored, &debug, &scratch, &project)?;
    if turns.is_empty() {
        return Err(UserError::usage(format!("no agent of {} has finished a turn", stored.id()))
            .hint("a recording holds turns of agents; scripts run again in a replay"));
    }
    recording::write(&args.output, &turns)
        .map_err(|error| UserError::usage(format!("cannot write {}: {error}", args.output.display())))?;
    say(&format!("wrote {}: {} turns, {}", args.output.display(), turns.len(), cost_of(&turns)));
    let lost = turns.iter().filter(|turn| turn.prompt.is_none()).count();
    if lost > 0 {
        say(&format!(
            "warning: the prompts of {lost} turns were not kept; they are found again only if nothing in them \
             differs from run to run"
        ));
    }
    Ok(ExitKind::Completed)
}
