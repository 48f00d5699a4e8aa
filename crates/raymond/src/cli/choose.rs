//! Which run the words of a command line mean: an id, the start or the end of one, `@` for the latest, or a workflow's name.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use raymond_core::run::{Run, RunStatus};

use super::args::Steps;
use super::find::latest_resumable;
use super::print::say;
use crate::advice;
use crate::error::UserError;
use crate::run::answering::message_name;
use crate::store::{RunEntry, RunHandle, RunStore, StoreError, is_part_of_id};
use crate::view::summary::{Cache, Summary};
use crate::view::text::clean;
use crate::workflow::scope::Form;

/// How many runs an error lists.
const MOST_LISTED: usize = 10;
/// How much of a run's input stands beside it.
const INPUT_CHARS: usize = 60;

/// What a command does with the run that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    Look,
    Resume,
    Retry,
    /// It changes a run that no process drives, or removes it.
    Change,
    Stop,
    Answer,
}

impl Intent {
    /// Whether the command can be used for the run; others are passed over unless the id names them.
    fn can_take(self, run: &Listed<'_>) -> bool {
        let Some(summary) = &run.summary else { return matches!(self, Self::Look | Self::Change) };
        match self {
            Self::Look => true,
            Self::Resume => !run.is_live && summary.recorded != RunStatus::Completed,
            Self::Retry => !run.is_live && has_failed_agents(&*run.entry.run),
            Self::Change => !run.is_live,
            Self::Stop => run.is_live,
            Self::Answer => summary.open_asks > 0 && has_open_question(&*run.entry.run),
        }
    }

    /// What no run could be used for.
    fn in_words(self) -> &'static str {
        match self {
            Self::Look => "has begun",
            Self::Resume => "can go on",
            Self::Retry => "has a failed agent and stands still",
            Self::Change => "stands still",
            Self::Stop => "is running",
            Self::Answer => "waits for an answer",
        }
    }
}

fn has_failed_agents(run: &dyn RunHandle) -> bool {
    run.load().is_ok_and(|run| run.failed_agents().len() > 0)
}

/// Whether a question of the run has no answer yet, also none that waits for the run to go on.
fn has_open_question(run: &dyn RunHandle) -> bool {
    let inbox = run.inbox();
    let is_open = |run: &Run| run.asks().iter().any(|(_, ask)| !inbox.contains(&message_name(&ask.id)));
    run.load().is_ok_and(|run| !run.is_dropped() && is_open(&run))
}

/// A run as a list shows it.
pub(super) struct Listed<'a> {
    pub(super) entry: &'a RunEntry,
    pub(super) status: &'static str,
    pub(super) is_live: bool,
    /// Nothing if the journal is damaged.
    pub(super) summary: Option<Summary>,
    /// What is wrong with the journal.
    pub(super) damage: Option<String>,
}

impl<'a> Listed<'a> {
    /// Reads a run, or takes what is known of it. Nothing if it has no events yet.
    pub(super) fn look_at(entry: &'a RunEntry, cache: &mut Cache) -> Option<Self> {
        let known = entry.version.as_deref().and_then(|version| cache.get(entry.run.id(), version));
        let summary = match known {
            Some(summary) => summary,
            None => match entry.run.load() {
                Ok(run) => {
                    let summary = Summary::of(&run, &*entry.run);
                    if let Some(version) = &entry.version {
                        cache.put(entry.run.id(), version, summary.clone());
                    }
                    summary
                }
                Err(StoreError::Empty { .. }) => return None,
                // One damaged journal must not hide the others.
                Err(error) => {
                    let damage = Some(clean(&error.to_string()).into_owned());
                    return Some(Self { entry, status: "damaged", is_live: false, summary: None, damage });
                }
            },
        };
        let is_live =
            summary.recorded == RunStatus::Running && entry.run.holder().is_ok_and(|holder| holder.is_some());
        let status = summary.status_of(&*entry.run, is_live).as_str();
        Some(Self { entry, status, is_live, summary: Some(summary), damage: None })
    }

    pub(super) fn id(&self) -> &str {
        self.entry.run.id()
    }

    /// Whether it is a run of the workflow that is called so: by the path that was given for it, or by its name.
    pub(super) fn is_of_workflow(&self, name: &str) -> bool {
        let Some(summary) = &self.summary else { return false };
        let wanted = name.trim_end_matches('/');
        let given = summary.workflow.trim_end_matches('/');
        // A workflow that was given as `.` is called like its folder.
        let path = Path::new(given).file_name().map_or(Path::new(&summary.scope), |_| Path::new(given));
        let is_packed = matches!(Form::of_name(path), Some(Form::Archive | Form::OneFile));
        let names = [path.file_name(), path.file_stem().filter(|_| is_packed)];
        given == wanted || names.into_iter().flatten().any(|name| name == wanted)
    }

    /// The run with its status, its age and what it is about.
    fn in_a_line(&self) -> String {
        let status = self.status.replace('_', " ");
        let Some(summary) = &self.summary else { return format!("{}  {status}", self.id()) };
        let about: String = summary.about.chars().take(INPUT_CHARS).collect();
        let age = age_of(summary.last_at);
        format!("{}  {status}, {age}  {about}", self.id()).trim_end().to_owned()
    }
}

/// How long ago a time was, in one unit.
pub(super) fn age_of(time: Timestamp) -> String {
    let age = Duration::try_from(crate::clock::now().duration_since(time)).unwrap_or_default().as_secs();
    match age {
        0..60 => format!("{age} s ago"),
        60..3_600 => format!("{} min ago", age / 60),
        3_600..172_800 => format!("{} h ago", age / 3_600),
        _ => format!("{} d ago", age / 86_400),
    }
}

/// The run that a command names, or the latest that it can be used for.
pub(super) fn choose(
    store: &dyn RunStore,
    given: Option<&str>,
    intent: Intent,
) -> Result<Arc<dyn RunHandle>, UserError> {
    let entries = store.list()?;
    if let Some(given) = given
        && let Some(entry) = entries.iter().find(|entry| entry.run.id() == given)
    {
        return Ok(Arc::clone(&entry.run));
    }
    let choice = Choice { store, entries: &entries, intent };
    match given.map(|given| (given, given.strip_prefix('@'))) {
        None if intent == Intent::Resume => latest_resumable(store),
        None => choice.latest(1),
        Some((_, Some(number))) => choice.latest(place_of(number)?),
        Some((given, None)) => choice.named(given),
    }
}

/// The only run that a command can be used for.
pub(super) fn choose_only(store: &dyn RunStore, intent: Intent) -> Result<Arc<dyn RunHandle>, UserError> {
    let entries = store.list()?;
    let choice = Choice { store, entries: &entries, intent };
    let fit: Vec<Listed<'_>> = choice.listed().filter(|run| intent.can_take(run)).collect();
    match fit.as_slice() {
        [_, _, ..] => Err(several("which run?", &fit)),
        _ => choice.latest(1),
    }
}

/// An error that lists the runs that could be meant.
fn several(message: &str, meant: &[Listed<'_>]) -> UserError {
    let shown = meant.iter().take(MOST_LISTED).map(Listed::in_a_line);
    let error = shown.fold(UserError::usage(message), UserError::hint);
    match meant.len().checked_sub(MOST_LISTED).filter(|more| *more > 0) {
        Some(more) => error.hint(format!("and {more} more: {}", advice::command("list"))),
        None => error,
    }
}

/// Which of the latest runs `@` or `@2` means.
fn place_of(number: &str) -> Result<usize, UserError> {
    match number {
        "" => Ok(1),
        _ => number.parse().ok().filter(|place| *place > 0).ok_or_else(|| {
            UserError::usage(format!("`@{}` is not a run", number.escape_debug()))
                .hint("`@` is the latest run, `@2` the one before it")
        }),
    }
}

struct Choice<'a> {
    store: &'a dyn RunStore,
    /// The one written last first.
    entries: &'a [RunEntry],
    intent: Intent,
}

impl<'a> Choice<'a> {
    /// Reads the runs one by one, in the order of the list.
    fn listed(&self) -> impl Iterator<Item = Listed<'a>> + use<'a> {
        let mut cache = Cache::open(self.store.cache());
        self.entries.iter().filter_map(move |entry| Listed::look_at(entry, &mut cache))
    }

    /// The latest run that the command can be used for is number 1.
    fn latest(&self, place: usize) -> Result<Arc<dyn RunHandle>, UserError> {
        let mut fit = self.listed().filter(|run| self.intent.can_take(run));
        match fit.nth(place - 1) {
            Some(run) => Ok(Arc::clone(&run.entry.run)),
            None if self.entries.is_empty() => {
                Err(UserError::usage(format!("there are no runs in {}", self.store.place()))
                    .hint("start one: raymond WORKFLOW"))
            }
            None => {
                let what = self.intent.in_words();
                let count = self.listed().filter(|run| self.intent.can_take(run)).count();
                let message = match count {
                    0 => format!("no run in {} {what}", self.store.place()),
                    count => format!("there is no run `@{place}`: only {count} of this kind ({what})"),
                };
                Err(UserError::usage(message).hint(format!("see: {}", advice::command("list"))))
            }
        }
    }

    /// The run whose id begins or ends like this, or the latest of the workflow of this name.
    fn named(&self, given: &str) -> Result<Arc<dyn RunHandle>, UserError> {
        let alike = || self.entries.iter().filter(|entry| is_part_of_id(given, entry.run.id()));
        let mut first = alike();
        if let (Some(only), None) = (first.next(), first.next()) {
            return Ok(Arc::clone(&only.run));
        }
        let of_workflow = || self.listed().filter(|run| run.is_of_workflow(given));
        // What begins like the name may be of another workflow.
        let is_clear = self.intent == Intent::Look
            || self
                .listed()
                .filter(|run| is_part_of_id(given, run.id()))
                .all(|run| run.is_of_workflow(given));
        if is_clear && let Some(run) = of_workflow().find(|run| self.intent.can_take(run)) {
            return Ok(Arc::clone(&run.entry.run));
        }
        if alike().next().is_some() {
            return Err(self.ambiguous(given));
        }
        if of_workflow().next().is_some() {
            let message = format!("no run of {} {}", clean(given), self.intent.in_words());
            return Err(UserError::usage(message).hint(format!("see: {}", advice::command("list"))));
        }
        self.store.find(given).map_err(|error| without_copy(self.store, given).unwrap_or(error.into()))
    }

    /// The runs that could be meant; first those that the command can be used for, and of these the latest.
    fn ambiguous(&self, given: &str) -> UserError {
        let meant = self.listed().filter(|run| is_part_of_id(given, run.id()) || run.is_of_workflow(given));
        let (mut meant, others): (Vec<_>, Vec<_>) = meant.partition(|run| self.intent.can_take(run));
        meant.extend(others);
        several(&format!("`{}` could be {} runs", clean(given), meant.len()), &meant)
    }
}

/// What to say about a run on other machines of which nothing was copied yet.
fn without_copy(store: &dyn RunStore, id: &str) -> Option<UserError> {
    let engine = store.run(id).ok()?.elsewhere()?.engine;
    Some(
        UserError::failed(format!("{id} was started on {engine}, and nothing has been heard of it yet"))
            .hint("look again when the engine answers"),
    )
}

/// A run and steps of it. A number alone is a step of the latest run, unless it stands for a run.
pub(super) fn choose_with_steps(
    store: &dyn RunStore,
    run: Option<&str>,
    steps: Option<Steps>,
) -> Result<(Arc<dyn RunHandle>, Option<Steps>), UserError> {
    if let (Some(word), None) = (run, steps)
        && let Ok(alone) = word.parse::<Steps>()
        && !store.list()?.iter().any(|entry| entry.run.id() == word || is_part_of_id(word, entry.run.id()))
    {
        let run = choose(store, None, Intent::Look)?;
        return Ok((run, Some(alone)));
    }
    Ok((choose(store, run, Intent::Look)?, steps))
}

/// The ids that begin with `start` of runs that a command can be used for, the latest first.
pub(super) fn ids_for(store: &dyn RunStore, start: &str, intent: Intent, most: usize) -> Vec<String> {
    let mut entries = store.list().unwrap_or_default();
    entries.retain(|entry| entry.run.id().starts_with(start));
    if intent == Intent::Look {
        return entries.into_iter().map(|entry| entry.run.id().to_owned()).take(most).collect();
    }
    let choice = Choice { store, entries: &entries, intent };
    choice.listed().filter(|run| intent.can_take(run)).map(|run| run.id().to_owned()).take(most).collect()
}

/// Says which journals cannot be read.
pub(super) fn warn_of_damage(listed: &[Listed<'_>]) {
    for run in listed {
        if let Some(damage) = &run.damage {
            say(&format!("warning: {}: {damage}", run.id()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::JournalOptions;
    use crate::store::memory::MemoryStore;
    use crate::store::suite::opening;

    fn begun(ids: &[&str]) -> MemoryStore {
        let store = MemoryStore::default();
        for id in ids {
            let mut writer = store.create(id, JournalOptions::default()).unwrap();
            writer.commit(&opening(id)).unwrap();
        }
        store
    }

    fn chosen(store: &MemoryStore, given: Option<&str>, intent: Intent) -> Result<String, String> {
        let run = choose(store, given, intent);
        run.map(|run| run.id().to_owned()).map_err(|error| error.message)
    }

    #[test]
    fn the_latest_run_is_the_last_that_recorded_something() {
        let store = MemoryStore::default();
        assert!(chosen(&store, None, Intent::Look).is_err());
        let store = begun(&["first"]);
        drop(store.create("second", JournalOptions::default()).unwrap());
        assert_eq!(chosen(&store, None, Intent::Look).unwrap(), "first");
        assert_eq!(chosen(&store, Some("@"), Intent::Look).unwrap(), "first");
        assert_eq!(chosen(&store, Some("sec"), Intent::Look).unwrap(), "second");
    }

    #[test]
    fn a_run_is_named_by_either_end_of_its_id_or_by_its_place() {
        let store = begun(&["build-one-ab", "build-two-cd"]);
        for (given, expected) in [
            ("build-one-ab", "build-one-ab"),
            ("build-o", "build-one-ab"),
            ("cd", "build-two-cd"),
            ("@", "build-two-cd"),
            ("@1", "build-two-cd"),
            ("@2", "build-one-ab"),
        ] {
            for intent in [Intent::Look, Intent::Change] {
                assert_eq!(chosen(&store, Some(given), intent).as_deref(), Ok(expected), "{given}");
            }
        }
        for given in ["d", "@3", "@0", "@x", "", "build-", "nothing"] {
            assert!(chosen(&store, Some(given), Intent::Look).is_err(), "{given}");
        }
    }
}
