//! `raymond record`

use super::args::RecordArgs;
use super::choose::{Intent, choose};
use super::drive::traces;
use super::find::{project_folder, store};
use super::print::say;
use crate::agent::prepared::cost_of;
use crate::error::{ExitKind, UserError};
use crate::recording;

pub(super) fn record(args: RecordArgs) -> Result<ExitKind, UserError> {
    let store = store(&args.place)?;
    let stored = choose(&*store, args.run.as_deref(), Intent::Look)?;
    let run = stored.load()?;
    let project = project_folder(std::path::Path::new(&run.cwd));
    let turns = recording::of_run(&*stored, &|run| traces(&args.place, run), &project)?;
    if turns.is_empty() {
        return Err(UserError::usage(format!("no agent of {} has finished a turn", stored.id()))
            .hint("a recording holds turns of agents; scripts run again in a replay"));
    }
    recording::write(&args.output, &turns)
        .map_err(|error| UserError::usage(format!("cannot write {}: {error}", args.output.display())))?;
    let counted = |number: usize| if number == 1 { "1 turn".to_owned() } else { format!("{number} turns") };
    say(&format!("wrote {}: {}, {}", args.output.display(), counted(turns.len()), cost_of(&turns)));
    let lost = turns.iter().filter(|turn| turn.prompt.is_none()).count();
    if lost > 0 {
        say(&format!(
            "warning: the prompts of {} were not kept; they are found again only if nothing in them differs \
             from run to run",
            counted(lost)
        ));
    }
    Ok(ExitKind::Completed)
}
