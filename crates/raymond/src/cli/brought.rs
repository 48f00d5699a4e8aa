//! The debug files of runs on other machines that a command is about to show.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::args::{Command, Place, Steps};
use super::choose::{Intent, choose};
use super::find::debug_root;
use super::print::say;
use super::settings::harmless;
use crate::fleet::debug::{DebugCopy, Rules, bring_step, keep_all};
use crate::fleet::{Fleet, PATIENCE};
use crate::store::{RunHandle, RunStore};
use crate::view::debug::DEFAULT_KEPT_STEPS;

/// What a command shows of debug files.
enum Shown {
    Step(u64),
    /// All steps, as far as their files can be fetched in this time.
    All(Duration),
}

/// A page and a recording are made once, so they wait for all files; a store that is away ends that before.
const AS_LONG_AS_IT_TAKES: Duration = Duration::MAX;

impl Shown {
    /// The run that the command names, and what it shows of it.
    fn by(command: &Command) -> Option<(Option<&str>, Self)> {
        match command {
            Command::Show(args) if args.open => None,
            Command::Show(args) => {
                let step = args.steps.and_then(Steps::single);
                Some((args.run.as_deref(), step.map_or(Self::All(PATIENCE), Self::Step)))
            }
            Command::Log(args) if args.json => None,
            Command::Log(args) => Some((args.run.as_deref(), Self::Step(args.number.or(args.step)?))),
            Command::Export(args) => Some((args.run.as_deref(), Self::All(AS_LONG_AS_IT_TAKES))),
            Command::Record(args) => Some((args.run.as_deref(), Self::All(AS_LONG_AS_IT_TAKES))),
            _ => None,
        }
    }
}

/// Brings what the command shows. What is missing then is said.
pub(super) fn bring(fleet: &'static dyn Fleet, store: &Arc<dyn RunStore>, command: &Command) {
    let Some(rules) = command.place().and_then(rules) else { return };
    if let Command::Serve(_) = command {
        return keep_all(fleet, Arc::clone(store), rules);
    }
    let Some((given, shown)) = Shown::by(command) else { return };
    // A run that is not there is reported by the command itself.
    let Ok(run) = choose(&**store, given, Intent::Look) else { return };
    let brought = match shown {
        Shown::Step(step) => bring_step(fleet, &**store, &*run, step, &rules).map(|()| true),
        Shown::All(limit) => bring_all(fleet, Arc::clone(&run), &rules, limit),
    };
    match brought {
        Ok(true) => {}
        Ok(false) => say(&format!(
            "warning: {}: not all of its debug files could be fetched in time; show one step, or try again",
            run.id()
        )),
        Err(why) => say(&format!("warning: {}: its debug files cannot be fetched: {why}", run.id())),
    }
}

fn bring_all(
    fleet: &'static dyn Fleet,
    run: Arc<dyn RunHandle>,
    rules: &Rules,
    limit: Duration,
) -> Result<bool, String> {
    let begun = Instant::now();
    let Some(mut copy) = DebugCopy::of(fleet, run, rules) else { return Ok(true) };
    copy.catch_up(&|| begun.elapsed() < limit)
}

/// Where debug files are kept; nothing if the config file says that there are to be none.
fn rules(place: &Place) -> Option<Rules> {
    let settings = harmless().unwrap_or_default().raymond;
    if settings.no_debug.unwrap_or(false) {
        return None;
    }
    Some(Rules { root: debug_root(place)?, keep: settings.debug_steps.unwrap_or(DEFAULT_KEPT_STEPS) })
}
