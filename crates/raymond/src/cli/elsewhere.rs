//! Runs that other machines carry out: which program has the engine for them, and copies that are up to date.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::args::{Command, Place};
use super::brought::bring;
use super::find::{load_config, state_dir};
use super::print::say;
use crate::config::Config;
use crate::error::{ExitKind, UserError};
use crate::fleet::mirror::{Keeper, Mirror, note_silence};
use crate::fleet::{Address, ENGINE_PROGRAM, Fleet, KnownRun, PATIENCE, Patient, Standing, installed};
use crate::run::driver::now;
use crate::store::{Elsewhere, FolderStore, RunHandle, RunStore, Silence, StoreError, check_new_run_id};
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
    let is_concerned = concern == Concern::Needs || command.place().is_some_and(has_runs_elsewhere);
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

/// Whether there are copies of such runs, or engines that may have some.
fn has_runs_elsewhere(place: &Place) -> bool {
    let has_copies = state_dir(place)
        .is_ok_and(|dir| FolderStore::new(dir).elsewhere().is_ok_and(|runs| !runs.is_empty()));
    // A mistake in the config file is reported by the command itself.
    has_copies || load_config().is_ok_and(|config| !config.engine.is_empty())
}

fn engine_program() -> Option<PathBuf> {
    let name = format!("{ENGINE_PROGRAM}{}", std::env::consts::EXE_SUFFIX);
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(&name)));
    let on_path = std::env::var_os("PATH")
        .into_iter()
        .flat_map(|path| std::env::split_paths(&path).map(|folder| folder.join(&name)).collect::<Vec<_>>());
    beside.into_iter().chain(on_path).find(|program| program.is_file())
}

#[cfg(unix)]
fn replace_with(program: &std::path::Path) -> Result<ExitKind, UserError> {
    use std::os::unix::process::CommandExt;
    let error = std::process::Command::new(program).args(own_arguments()).exec();
    Err(UserError::failed(format!("cannot start {}: {error}", program.display())))
}

#[cfg(not(unix))]
fn replace_with(program: &std::path::Path) -> Result<ExitKind, UserError> {
    let cannot = |error| UserError::failed(format!("cannot start {}: {error}", program.display()));
    let status = std::process::Command::new(program).args(own_arguments()).status().map_err(cannot)?;
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

/// Brings the copies up to date before a command looks at them. What cannot be reached in time is said. What is returned
/// keeps copies up to date while the command works, where it needs that.
pub(super) fn prepare(command: &Command) -> Vec<Keeper> {
    let (Some(fleet), Some(place)) = (installed(), command.place()) else { return Vec::new() };
    let concern = Concern::of(command);
    let (false, Ok(dir)) = (matches!(concern, Concern::None | Concern::Needs), state_dir(place)) else {
        return Vec::new();
    };
    let store: Arc<dyn RunStore> = Arc::new(FolderStore::new(dir));
    let engines = engines_for(command, &*store);
    catch_up(fleet, &store, engines, &|run| is_worth_a_note(command, run));
    bring(fleet, &store, command);
    match concern {
        Concern::Sends => deliver_from_now_on(fleet, store),
        Concern::Follows => return keep_open_runs(fleet, &store),
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

/// The engines that a command has to ask. One that names a run of this machine asks none, so that it waits for none.
fn engines_for(command: &Command, store: &dyn RunStore) -> BTreeMap<String, Address> {
    let mut engines = engines_of(store, &load_config().unwrap_or_default());
    let Some(named) = command.run() else { return engines };
    let mark = store.run(named).ok().and_then(|run| run.elsewhere());
    let is_here = || store.list().is_ok_and(|runs| runs.iter().any(|entry| entry.run.id() == named));
    match mark {
        Some(mark) => engines.retain(|engine, _| *engine == mark.engine),
        None if is_here() => engines.clear(),
        None => {}
    }
    engines
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

/// Asks all engines at once, and goes on without those that do not answer in time.
fn catch_up(
    fleet: &'static Patient,
    store: &Arc<dyn RunStore>,
    engines: BTreeMap<String, Address>,
    is_worth_a_note: &dyn Fn(&str) -> bool,
) {
    let (sender, heard) = channel();
    for (name, address) in engines.clone() {
        let (store, sender) = (Arc::clone(store), sender.clone());
        std::thread::spawn(move || {
            let last = catch_up_with(fleet, &store, &address, &sender);
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
        warn(&**store, &name, "not all of its runs were told of in time");
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

/// Finds the runs of one engine and copies what is new in them.
fn catch_up_with(
    fleet: &'static dyn Fleet,
    store: &Arc<dyn RunStore>,
    at: &Address,
    sender: &Sender<(String, Heard)>,
) -> Heard {
    let engine = at.to_string();
    let ids = match find_runs(fleet, &**store, at) {
        Ok(ids) => ids,
        Err(why) => return Heard::Nothing(why),
    };
    let _ = sender.send((engine, Heard::Answers));
    let ids: Vec<String> = ids.into_iter().collect();
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

/// The runs of an engine that have to be asked what is new, with those that were not known here.
fn find_runs(fleet: &dyn Fleet, store: &dyn RunStore, at: &Address) -> Result<BTreeSet<String>, String> {
    let engine = at.to_string();
    let known = fleet.runs(at).map_err(|trouble| {
        note_silence_of(store, &engine, trouble.why());
        trouble.to_string()
    })?;
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
        _ => Ok(None),
    }
}

fn is_open(store: &dyn RunStore, run: &str) -> bool {
    store.run(run).ok().and_then(|run| run.elsewhere()).is_some_and(|mark| mark.is_open)
}

/// Whether a run that an engine lists may have news. One that is not known here is marked. One that was removed here, and
/// a run of the same name that is of this machine, stay as they are.
fn is_to_be_asked(store: &dyn RunStore, engine: &str, known: &KnownRun) -> Result<bool, StoreError> {
    if check_new_run_id(&known.id).is_err() {
        return Ok(false);
    }
    if let Some(mark) = store.run(&known.id)?.elsewhere() {
        return Ok(mark.engine == engine && (mark.is_open || known.is_open));
    }
    if store.was_removed(&known.id) || store.list()?.iter().any(|entry| entry.run.id() == known.id) {
        return Ok(false);
    }
    // What has ended is copied too, once.
    store.mark_elsewhere(&known.id, &Elsewhere::open(engine.to_owned(), now()))?;
    Ok(true)
}

fn keep_open_runs(fleet: &'static dyn Fleet, store: &Arc<dyn RunStore>) -> Vec<Keeper> {
    let started =
        |(run, _): (Arc<dyn RunHandle>, Elsewhere)| Keeper::start(fleet, store, run.id()).ok().flatten();
    open_runs(&**store).into_iter().filter_map(started).collect()
}

/// How often inboxes are looked at while a command leaves messages.
const LOOK_INTO_INBOXES: Duration = Duration::from_millis(20);

/// Delivers what the command leaves in the inboxes of open runs, until the program ends. The command itself waits for that.
fn deliver_from_now_on(fleet: &'static dyn Fleet, store: Arc<dyn RunStore>) {
    let runs = open_runs(&*store);
    std::thread::spawn(move || {
        loop {
            for (run, _) in &runs {
                if run.inbox().messages().is_ok_and(|messages| !messages.is_empty())
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
            for (_, at) in engines_of(&*store, &load_config().unwrap_or_default()) {
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
