//! Runs that other machines carry out: which program has the engine for them, and copies that are up to date.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use raymond_core::run::RunStatus;

use super::args::Command;
use super::brought::bring;
use super::find::state_dir;
use super::print::say;
use super::settings::of_looking;
use crate::advice;
use crate::config::Config;
use crate::error::{ExitKind, UserError};
use crate::fleet::mirror::{Keeper, Mirror, note_silence};
use crate::fleet::{
    Address, ENGINE_PROGRAM, Fleet, KnownRun, PATIENCE, Patient, Standing, Trouble, installed,
};
use crate::handover;
use crate::run::driver::now;
use crate::store::{Elsewhere, FolderStore, RunHandle, RunStore, Silence, StoreError, check_new_run_id};
use crate::trust::Area;
use crate::view::text::local_time;

/// What a command has to do with runs that are elsewhere.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Concern {
    /// It cannot do without an engine.
    Needs,
    /// It looks at runs.
    Looks,
    /// It leaves messages for runs.
    Sends,
    /// It follows a run.
    Follows,
    /// It shows all runs for as long as it lasts.
    Serves,
    None,
}

impl Concern {
    fn of(command: &Command) -> Self {
        match command {
            Command::Run(args) if args.engine.on.is_some() => Self::Needs,
            Command::Worker(_) => Self::Needs,
            Command::List(_) | Command::Status(_) | Command::Show(_) | Command::Export(_) => Self::Looks,
            Command::Inbox(_) | Command::Overview(_) => Self::Looks,
            Command::Log(args) if !args.follow => Self::Looks,
            Command::Log(_) => Self::Follows,
            Command::Answer(_) | Command::Stop(_) => Self::Sends,
            Command::Serve(_) => Self::Serves,
            Command::Resume(_) | Command::Branch(_) | Command::Rewind(_) | Command::Retry(_) => Self::Looks,
            Command::Jump(_) | Command::Clean(_) | Command::Record(_) => Self::Looks,
            _ => Self::None,
        }
    }
}

/// Gives the command line to the program that has an engine, if the command is about runs elsewhere and this program
/// has none. Returns what that program exited with; nothing if this program goes on.
pub(super) fn hand_over(command: &Command) -> Result<Option<ExitKind>, UserError> {
    let concern = Concern::of(command);
    if installed().is_some() || concern == Concern::None {
        return Ok(None);
    }
    let is_concerned = concern == Concern::Needs || has_runs_elsewhere(command);
    if !is_concerned {
        return Ok(None);
    }
    match engine_program() {
        Some(program) => replace_with(&program).map(Some),
        None if concern == Concern::Needs => Err(not_installed()),
        None => {
            say(&format!(
                "warning: {ENGINE_PROGRAM} was not found; runs on other machines are shown as last seen"
            ));
            Ok(None)
        }
    }
}

pub(super) fn not_installed() -> UserError {
    UserError::usage(format!("runs on other machines need the program {ENGINE_PROGRAM}, which was not found"))
        .hint("put it beside this program or on the PATH; it is built in the folder `temporal`")
}

/// Whether there are copies of such runs, or engines that may have some and that the command has to ask.
fn has_runs_elsewhere(command: &Command) -> bool {
    let Some(store) = command.place().and_then(|place| state_dir(place).ok()).map(FolderStore::new) else {
        return false;
    };
    let has_copies = store.elsewhere().is_ok_and(|runs| !runs.is_empty());
    let is_about_another = || !named_by(command).is_some_and(|given| is_here(&store, given));
    // A mistake in the config file is reported by the command itself.
    let has_engines = || of_looking(Area::Engines).is_ok_and(|config| !config.engine.is_empty());
    // Of a run whose copy was removed, the engine may still have all.
    let has_had_a_copy = || named_by(command).is_some_and(|given| store.removed(given).is_some());
    has_copies || has_had_a_copy() || (is_about_another() && has_engines())
}

/// Whether this machine itself carries out a run.
fn is_here(store: &dyn RunStore, given: &str) -> bool {
    let is_known = || store.list().is_ok_and(|runs| runs.iter().any(|entry| entry.run.id() == given));
    is_known() && store.run(given).is_ok_and(|run| matches!(run.try_elsewhere(), Ok(None)))
}

fn engine_program() -> Option<PathBuf> {
    let name = format!("{ENGINE_PROGRAM}{}", std::env::consts::EXE_SUFFIX);
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(&name)));
    let on_path = std::env::var_os("PATH")
        .into_iter()
        .flat_map(|path| std::env::split_paths(&path).map(|folder| folder.join(&name)).collect::<Vec<_>>())
        // In a cloned project a relative path would lead to a program of the project.
        .filter(|program| program.is_absolute());
    beside.into_iter().chain(on_path).find(|program| program.is_file())
}

#[cfg(unix)]
fn replace_with(program: &std::path::Path) -> Result<ExitKind, UserError> {
    use std::os::unix::process::CommandExt;
    let _ = handover::hand_on();
    let error = std::process::Command::new(program).args(own_arguments()).exec();
    Err(UserError::failed(format!("cannot start {}: {error}", program.display())))
}

#[cfg(not(unix))]
fn replace_with(program: &std::path::Path) -> Result<ExitKind, UserError> {
    let cannot = |error| UserError::failed(format!("cannot start {}: {error}", program.display()));
    let mut command = std::process::Command::new(program);
    command.args(own_arguments());
    let handed = handover::hand_on();
    if handed.is_some() {
        command.stdin(std::process::Stdio::piped());
    }
    let mut child = command.spawn().map_err(cannot)?;
    if let (Some(text), Some(mut stdin)) = (handed, child.stdin.take()) {
        let _ = std::io::Write::write_all(&mut stdin, text);
    }
    let status = child.wait().map_err(cannot)?;
    // The exit codes of both programs are the same.
    std::process::exit(status.code().unwrap_or(1))
}

fn own_arguments() -> Vec<OsString> {
    std::env::args_os().skip(1).collect()
}

/// What to say of a run that its engine has ended without asking it; nothing if it did not.
pub(super) fn ended_there(run: &dyn RunHandle) -> Option<String> {
    let Elsewhere { engine, ended, .. } = run.elsewhere()?;
    Some(format!("{} {} on {engine}, so it does not go on", run.id(), ended?))
}

/// What to say of a run that its engine cannot have decided any further, so that nothing reaches it; nothing if it can.
pub(super) fn wedged_there(run: &dyn RunHandle) -> Option<UserError> {
    let mark = run.elsewhere()?;
    let (id, why) = (run.id(), mark.why_wedged()?);
    let error = UserError::failed(format!("{id} is wedged on {}, so nothing reaches it: {why}", mark.engine));
    Some(error.hint(format!("a way on: {}", advice::command(&format!("resume {id}")))))
}

/// Brings the copies up to date before a command looks at them. What cannot be reached in time is said. What is returned
/// keeps copies up to date while the command works, where it needs that.
pub(super) fn prepare(command: &Command) -> Vec<Keeper> {
    let (Some(fleet), Some(place)) = (installed(), command.place()) else { return Vec::new() };
    let concern = Concern::of(command);
    let (false, Ok(dir)) = (matches!(concern, Concern::None | Concern::Needs), state_dir(place)) else {
        return Vec::new();
    };
    let store: Arc<dyn RunStore> = Arc::new(FolderStore::new(dir));
    let named = named_by(command).and_then(|given| find_elsewhere(&*store, given));
    let engines = engines_for(command, named.as_ref(), &*store);
    let only = named.map(|(run, _)| run);
    catch_up(fleet, &store, engines, only.clone(), &|run| is_worth_a_note(command, run));
    bring(fleet, &store, command);
    match concern {
        Concern::Sends => deliver_from_now_on(fleet, store, only.as_deref()),
        Concern::Follows => return keep_open_runs(fleet, &store, only.as_deref()),
        Concern::Serves => look_for_runs_from_now_on(fleet, store),
        Concern::Looks | Concern::Needs | Concern::None => {}
    }
    Vec::new()
}

/// Whether it is said that no worker answers for a run: by commands that show it and do not say so themselves.
fn is_worth_a_note(command: &Command, run: &str) -> bool {
    match command {
        Command::Status(_) | Command::Stop(_) | Command::Answer(_) => false,
        other => other.run().is_none_or(|named| run.starts_with(named)),
    }
}

/// The run that a command is about, by its id or the start of it, if it names one.
fn named_by(command: &Command) -> Option<&str> {
    match command {
        // Without a second word, the first is the answer.
        Command::Answer(args) => args.first.as_deref().filter(|_| args.second.is_some()),
        other => other.run(),
    }
}

/// The run of this id, if other machines carry it out. The start of an id is not enough: the engine may have a run that
/// begins like this and is not copied yet.
fn find_elsewhere(store: &dyn RunStore, given: &str) -> Option<(String, Elsewhere)> {
    let id = store.elsewhere().ok()?.into_iter().find(|id| id == given)?;
    let mark = store.run(&id).ok()?.elsewhere()?;
    Some((id, mark))
}

/// The engines that a command has to ask. One that names a run of this machine asks none, so that it waits for none. Neither
/// does one that names a run of which nothing new can come. A mark that cannot be read is written anew by its engine.
fn engines_for(
    command: &Command,
    named: Option<&(String, Elsewhere)>,
    store: &dyn RunStore,
) -> BTreeMap<String, Address> {
    match named {
        Some((run, mark)) if is_over(store, run, mark) => BTreeMap::new(),
        // Its own engine, whatever the config file says now.
        Some((_, mark)) => {
            Address::parse(&mark.engine).ok().map(|at| (at.to_string(), at)).into_iter().collect()
        }
        None if named_by(command).is_some_and(|given| is_here(store, given)) => BTreeMap::new(),
        None => engines_of(store, &of_looking(Area::Engines).unwrap_or_default()),
    }
}

/// Whether all of a run is copied and it never goes on.
fn is_over(store: &dyn RunStore, run: &str, mark: &Elsewhere) -> bool {
    let is_completed = || {
        let state = store.run(run).and_then(|run| run.load());
        state.is_ok_and(|state| state.status == RunStatus::Completed)
    };
    !mark.is_open && (mark.ended.is_some() || is_completed())
}

/// All engines that may have runs: those of the config file, and those that runs were started on.
fn engines_of(store: &dyn RunStore, config: &Config) -> BTreeMap<String, Address> {
    let configured = config.engine.values().filter_map(|settings| Address::of_settings(settings).ok());
    let marked = open_runs(store).into_iter().filter_map(|(_, mark)| Address::parse(&mark.engine).ok());
    configured.chain(marked).map(|address| (address.to_string(), address)).collect()
}

/// The marked runs that were going on when they were last seen.
fn open_runs(store: &dyn RunStore) -> Vec<(Arc<dyn RunHandle>, Elsewhere)> {
    let runs = store.elsewhere().unwrap_or_default();
    let marked = runs.iter().filter_map(|id| {
        let run = store.run(id).ok()?;
        let mark = run.elsewhere()?;
        Some((run, mark))
    });
    marked.filter(|(_, mark)| mark.is_open).collect()
}

/// The same, of one engine.
fn open_runs_of(store: &dyn RunStore, engine: &str) -> Vec<(Arc<dyn RunHandle>, Elsewhere)> {
    open_runs(store).into_iter().filter(|(_, mark)| mark.engine == engine).collect()
}

/// What an engine has said.
enum Heard {
    /// It answers.
    Answers,
    /// All of its runs were asked.
    All(Caught),
    Nothing(String),
}

/// What is worth saying after the runs of an engine were asked.
#[derive(Default)]
struct Caught {
    /// The runs that no worker answers for, by the reason.
    unheard: BTreeMap<String, BTreeSet<String>>,
    /// What is wrong with single runs.
    troubles: Vec<String>,
}

/// Asks all engines at once, and goes on without those that do not answer in time. They are asked for all of their runs, or
/// only for one.
fn catch_up(
    fleet: &'static Patient,
    store: &Arc<dyn RunStore>,
    engines: BTreeMap<String, Address>,
    only: Option<String>,
    is_worth_a_note: &dyn Fn(&str) -> bool,
) {
    let (sender, heard) = channel();
    for (name, address) in engines.clone() {
        let (store, sender, only) = (Arc::clone(store), sender.clone(), only.clone());
        std::thread::spawn(move || {
            let last = catch_up_with(fleet, &store, &address, only.as_deref(), &sender);
            let _ = sender.send((name, last));
        });
    }
    drop(sender);
    let mut silent = engines;
    let mut unfinished = BTreeSet::new();
    let deadline = Instant::now() + PATIENCE;
    while let Ok((name, heard)) = heard.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        silent.remove(&name);
        unfinished.remove(&name);
        match heard {
            Heard::Answers => drop(unfinished.insert(name)),
            Heard::All(caught) => caught.tell(&name, is_worth_a_note),
            Heard::Nothing(why) => warn(&**store, &name, &why),
        }
    }
    for (name, address) in silent {
        let why = format!("no answer within {} s", PATIENCE.as_secs());
        fleet.leave_alone(&address, &why);
        note_silence_of(&**store, &name, &why);
        warn(&**store, &name, &format!("does not answer: {why}"));
    }
    for name in unfinished {
        warn(&**store, &name, "not everything was told in time");
    }
}

impl Caught {
    fn tell(&self, engine: &str, is_worth_a_note: &dyn Fn(&str) -> bool) {
        for (why, runs) in &self.unheard {
            let names: Vec<&str> =
                runs.iter().map(String::as_str).filter(|run| is_worth_a_note(run)).collect();
            match names.as_slice() {
                [] => {}
                [one] => say(&format!("note: {why}; {one} is shown as last seen")),
                [first, .., last] if names.len() > MOST_NAMED => say(&format!(
                    "note: {why}; {} runs, {first} to {last}, are shown as last seen",
                    names.len()
                )),
                several => say(&format!("note: {why}; {} are shown as last seen", several.join(", "))),
            }
        }
        for trouble in &self.troubles {
            say(&format!("warning: {engine}: {trouble}"));
        }
    }
}

fn warn(store: &dyn RunStore, engine: &str, why: &str) {
    let seen = match open_runs_of(store, engine).into_iter().map(|(_, mark)| mark.seen_at).min() {
        Some(time) => format!("they were at {}", local_time(time)),
        None => "they were last seen".to_owned(),
    };
    say(&format!("warning: {engine}: {why}; its runs are shown as {seen}"));
}

fn note_silence_of(store: &dyn RunStore, engine: &str, why: &str) {
    for (run, _) in open_runs_of(store, engine) {
        // What cannot be written now is said all the same.
        let _ = note_silence(store, &*run, Silence::Engine(why.to_owned()));
    }
}

/// So many runs are named in a note.
const MOST_NAMED: usize = 10;
/// How many runs of an engine are asked at once. One that does not answer keeps the others waiting only if there are so many.
const RUNS_AT_ONCE: usize = 8;

/// Finds the runs of one engine, or takes the only one, and copies what is new in them.
fn catch_up_with(
    fleet: &'static dyn Fleet,
    store: &Arc<dyn RunStore>,
    at: &Address,
    only: Option<&str>,
    sender: &Sender<(String, Heard)>,
) -> Heard {
    let found = match only {
        Some(run) => find_one(fleet, &**store, at, run),
        None => find_runs(fleet, &**store, at).map(Vec::from_iter),
    };
    let ids: Vec<String> = match found {
        Ok(ids) => ids,
        Err(why) => return Heard::Nothing(why),
    };
    let _ = sender.send((at.to_string(), Heard::Answers));
    let (next, caught) = (AtomicUsize::new(0), Mutex::new(Caught::default()));
    std::thread::scope(|scope| {
        for _ in 0..RUNS_AT_ONCE.min(ids.len()) {
            scope.spawn(|| {
                while let Some(run) = ids.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let asked = catch_up_run(fleet, store, run);
                    let mut caught = caught.lock().unwrap_or_else(PoisonError::into_inner);
                    match asked {
                        Ok(Some(why)) => drop(caught.unheard.entry(why).or_default().insert(run.clone())),
                        Ok(None) => {}
                        Err(why) => caught.troubles.push(format!("{run}: {why}")),
                    }
                }
            });
        }
    });
    Heard::All(caught.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// The run that a command is about, then those for which messages wait here. The engine is not asked for all of its runs,
/// because it may have thousands, and asking each of them takes longer than a command waits.
fn find_one(fleet: &dyn Fleet, store: &dyn RunStore, at: &Address, run: &str) -> Result<Vec<String>, String> {
    fleet.answers(at).map_err(|trouble| not_heard(store, at, &trouble))?;
    let others = open_runs_of(store, &at.to_string()).into_iter().map(|(other, _)| other);
    let others = others.filter(|other| other.id() != run && has_messages(&**other));
    Ok(std::iter::once(run.to_owned()).chain(others.map(|other| other.id().to_owned())).collect())
}

fn has_messages(run: &dyn RunHandle) -> bool {
    run.inbox().messages().is_ok_and(|messages| !messages.is_empty())
}

/// Notes that an engine does not answer, and says why.
fn not_heard(store: &dyn RunStore, at: &Address, trouble: &Trouble) -> String {
    note_silence_of(store, &at.to_string(), trouble.why());
    trouble.to_string()
}

/// The runs of an engine that have to be asked what is new, with those that were not known here.
fn find_runs(fleet: &dyn Fleet, store: &dyn RunStore, at: &Address) -> Result<BTreeSet<String>, String> {
    let engine = at.to_string();
    let known = fleet.runs(at).map_err(|trouble| not_heard(store, at, &trouble))?;
    let cannot = |error: StoreError| error.to_string();
    store.forget_removals(&engine, &known.iter().map(|run| run.id.as_str()).collect()).map_err(cannot)?;
    let mut asked: BTreeSet<String> =
        open_runs_of(store, &engine).iter().map(|(run, _)| run.id().to_owned()).collect();
    for run in known {
        if is_to_be_asked(store, &engine, &run).map_err(cannot)? {
            asked.insert(run.id);
        }
    }
    Ok(asked)
}

/// Copies what is new in a run. Why no worker answers, if none does and the run goes on.
fn catch_up_run(
    fleet: &'static dyn Fleet,
    store: &Arc<dyn RunStore>,
    run: &str,
) -> Result<Option<String>, String> {
    let mirror = Mirror::of(fleet, Arc::clone(store), run).map_err(|error| error.to_string())?;
    let Some(mut mirror) = mirror else { return Ok(None) };
    match mirror.catch_up(Duration::ZERO).map_err(|error| error.to_string())? {
        Standing::Unheard(why) if is_open(&**store, run) => Ok(Some(why)),
        Standing::Wedged(why) => Ok(Some(format!("a run is wedged: {why}"))),
        _ => Ok(None),
    }
}

fn is_open(store: &dyn RunStore, run: &str) -> bool {
    store.run(run).ok().and_then(|run| run.elsewhere()).is_some_and(|mark| mark.is_open)
}

/// Whether a run that an engine lists may have news. One that is not known here is marked, and so is one whose mark was
/// damaged. One that was removed here, and a run of the same name that is of this machine, stay as they are.
fn is_to_be_asked(store: &dyn RunStore, engine: &str, known: &KnownRun) -> Result<bool, StoreError> {
    if check_new_run_id(&known.id).is_err() {
        return Ok(false);
    }
    let is_here = || Ok(store.list()?.iter().any(|entry| entry.run.id() == known.id));
    match store.run(&known.id)?.try_elsewhere() {
        Ok(Some(mark)) => return Ok(mark.engine == engine && (mark.is_open || known.is_open)),
        Ok(None) if store.was_removed(&known.id) || is_here()? => return Ok(false),
        Err(error) if !error.is_nonsense() => return Err(error),
        Ok(None) | Err(_) => {}
    }
    // What has ended is copied too, once.
    store.mark_elsewhere(&known.id, &Elsewhere::open(engine.to_owned(), now()))?;
    Ok(true)
}

/// The runs that were going on when they were last seen, or only this one of them.
fn open_runs_or(store: &dyn RunStore, only: Option<&str>) -> Vec<Arc<dyn RunHandle>> {
    let runs = open_runs(store).into_iter().map(|(run, _)| run);
    runs.filter(|run| only.is_none_or(|only| run.id() == only)).collect()
}

fn keep_open_runs(fleet: &'static dyn Fleet, store: &Arc<dyn RunStore>, only: Option<&str>) -> Vec<Keeper> {
    let started = |run: Arc<dyn RunHandle>| Keeper::start(fleet, store, run.id()).ok().flatten();
    open_runs_or(&**store, only).into_iter().filter_map(started).collect()
}

/// How often inboxes are looked at while a command leaves messages.
const LOOK_INTO_INBOXES: Duration = Duration::from_millis(20);

/// Delivers what the command leaves in the inboxes of open runs, until the program ends. The command itself waits for that.
fn deliver_from_now_on(fleet: &'static dyn Fleet, store: Arc<dyn RunStore>, only: Option<&str>) {
    let runs = open_runs_or(&*store, only);
    std::thread::spawn(move || {
        loop {
            for run in &runs {
                if has_messages(&**run)
                    && let Err(error) = catch_up_run(fleet, &store, run.id())
                {
                    tracing::debug!(run = run.id(), error, "a message could not be delivered");
                }
            }
            std::thread::sleep(LOOK_INTO_INBOXES);
        }
    });
}

/// How often a program that goes on for long looks for runs that were started since.
const LOOK_FOR_RUNS: Duration = Duration::from_secs(5);

fn look_for_runs_from_now_on(fleet: &'static dyn Fleet, store: Arc<dyn RunStore>) {
    std::thread::spawn(move || {
        let mut kept: BTreeMap<String, Keeper> = BTreeMap::new();
        loop {
            let mut open: BTreeSet<String> =
                open_runs(&*store).iter().map(|(run, _)| run.id().to_owned()).collect();
            for (_, at) in engines_of(&*store, &of_looking(Area::Engines).unwrap_or_default()) {
                // An engine that is away is asked again the next time.
                open.extend(find_runs(fleet, &*store, &at).unwrap_or_default());
            }
            kept.retain(|_, keeper| !keeper.is_done());
            for run in open {
                if !kept.contains_key(&run)
                    && let Ok(Some(keeper)) = Keeper::start(fleet, &store, &run)
                {
                    kept.insert(run, keeper);
                }
            }
            std::thread::sleep(LOOK_FOR_RUNS);
        }
    });
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::args::Cli;
    use super::*;
    use crate::fleet::fake::FakeFleet;
    use crate::store::suite::opening;
    use crate::store::{JournalOptions, StateDir};

    const ENGINE: &str = "temporal://localhost:7233/default?queue=q";

    /// A store with the local run `here`, and with marks of runs elsewhere.
    fn store_with(folder: &tempfile::TempDir, marked: &[&str]) -> FolderStore {
        let store = FolderStore::new(StateDir::at(folder.path()));
        store.create("here", JournalOptions::default()).unwrap().commit(&opening("here")).unwrap();
        for run in marked {
            store.mark_elsewhere(run, &Elsewhere::open(ENGINE.to_owned(), now())).unwrap();
        }
        store
    }

    #[test]
    fn only_a_whole_id_names_a_run_elsewhere_before_its_engine_was_asked() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_with(&folder, &["review", "review-2"]);
        for (given, expected) in
            [("review", true), ("review-2", true), ("rev", false), ("review-", false), ("here", false)]
        {
            let found = find_elsewhere(&store, given).map(|(run, _)| run);
            assert_eq!(found.as_deref(), expected.then_some(given), "{given}");
        }
    }

    #[test]
    fn no_engine_is_asked_for_a_run_of_this_machine_and_one_is_for_a_run_whose_mark_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_with(&folder, &["goes-on", "r"]);
        store.create("r", JournalOptions::default()).unwrap().commit(&opening("r")).unwrap();
        std::fs::write(folder.path().join(".elsewhere/r.json"), "").unwrap();
        for (run, expected) in [("here", 0), ("r", 1), ("goes-on", 1)] {
            let words = ["raymond", "status", run];
            let command = Cli::try_parse_from(words).unwrap().into_command().unwrap();
            let named = named_by(&command).and_then(|given| find_elsewhere(&store, given));
            assert_eq!(engines_for(&command, named.as_ref(), &store).len(), expected, "{run}");
        }
    }

    /// The config file may name another address by now, or none.
    #[test]
    fn a_run_that_is_named_is_asked_for_where_it_was_started() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_with(&folder, &["goes-on", "stopped", "ended"]);
        let stopped = Elsewhere { is_open: false, ..Elsewhere::open(ENGINE.to_owned(), now()) };
        store.mark_elsewhere("stopped", &stopped).unwrap();
        let ended = Elsewhere { ended: Some("was terminated".to_owned()), ..stopped };
        store.mark_elsewhere("ended", &ended).unwrap();
        for (run, expected) in [("goes-on", vec![ENGINE]), ("stopped", vec![ENGINE]), ("ended", vec![])] {
            let command = Cli::try_parse_from(["raymond", "log", run]).unwrap().into_command().unwrap();
            let named = named_by(&command).and_then(|given| find_elsewhere(&store, given));
            let engines: Vec<String> = engines_for(&command, named.as_ref(), &store).into_keys().collect();
            assert_eq!(engines, expected, "{run}");
        }
    }

    #[test]
    fn a_damaged_mark_is_written_anew_when_the_engine_lists_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_with(&folder, &["r"]);
        store.create("r", JournalOptions::default()).unwrap().commit(&opening("r")).unwrap();
        std::fs::write(folder.path().join(".elsewhere/r.json"), "").unwrap();
        let known = |id: &str| KnownRun { id: id.to_owned(), is_open: true };
        assert!(is_to_be_asked(&store, ENGINE, &known("r")).unwrap());
        assert_eq!(store.run("r").unwrap().elsewhere().unwrap().engine, ENGINE);
        assert!(!is_to_be_asked(&store, ENGINE, &known("here")).unwrap(), "a run of this machine");
    }

    #[test]
    fn an_engine_is_not_asked_for_all_of_its_runs_if_a_command_names_one() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_with(&folder, &["a", "r", "waits"]);
        store.run("waits").unwrap().inbox().post("stop-any", "{}").unwrap();
        let (fleet, at): (&'static FakeFleet, _) =
            (Box::leak(Box::default()), Address::parse(ENGINE).unwrap());
        let store: Arc<dyn RunStore> = Arc::new(store);
        let (sender, heard) = channel();
        catch_up_with(fleet, &store, &at, Some("r"), &sender);
        assert!(matches!(heard.try_recv(), Ok((_, Heard::Answers))));
        assert_eq!((fleet.listings(), fleet.heard_of()), (0, vec!["r".to_owned(), "waits".to_owned()]));
        catch_up_with(fleet, &store, &at, None, &sender);
        assert_eq!((fleet.listings(), fleet.heard_of().len()), (1, 3), "all are asked if none is named");
    }
}
