//! `raymond clean`

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use raymond_core::run::Run;

use super::args::CleanArgs;
use super::choose::{Intent, choose};
use super::find::state_dir;
use super::foreign::warn_of_foreign;
use super::print::{print_stdout, say as tell};
use super::rewound::finish_rewind;
use crate::advice;
use crate::error::{ExitKind, UserError};
use crate::fleet::{Address, ENGINE_PROGRAM, Fleet, Trouble, installed};
use crate::git::worktrees::{Kept, Unsaved};
use crate::history::clean::{KnownRefs, Remains};
use crate::store::{Elsewhere, FolderStore, RunHandle, RunStore, StateDir, StoreError, Trace};
use crate::view::text::clean as without_controls;

pub(super) fn clean(args: CleanArgs) -> Result<ExitKind, UserError> {
    let dir = state_dir(&args.place)?;
    warn_of_foreign(&FolderStore::new(dir.clone()));
    let store = FolderStore::new(dir.clone()).listed_once()?;
    let cleaner = Cleaner { dir: &dir, store: &store, args: &args, refs: KnownRefs::default() };
    match (&args.run, args.older_than) {
        (Some(run), _) => cleaner.one(run)?,
        (None, Some(time)) => cleaner.older_than(time)?,
        (None, None) => {
            return Err(UserError::usage("which run?")
                .hint("name one: raymond clean RUN")
                .hint("or all that are old: raymond clean --older-than 30d"));
        }
    }
    Ok(ExitKind::Completed)
}

struct Cleaner<'a> {
    dir: &'a StateDir,
    store: &'a dyn RunStore,
    args: &'a CleanArgs,
    refs: KnownRefs,
}

/// What is known of a run that may be removed.
struct Found {
    run: Arc<dyn RunHandle>,
    /// The segments of its journal, if a listing has shown them.
    listed: Option<Vec<u32>>,
}

/// Why a run stays.
struct Stays(String);

impl Cleaner<'_> {
    fn traces(&self) -> Result<BTreeMap<String, Trace>, UserError> {
        let cannot_read = |error| UserError::failed(format!("cannot read {}: {error}", self.store.place()));
        let mut traces = self.dir.traces().map_err(cannot_read)?;
        // What somebody else has made stays as it is.
        for foreign in FolderStore::new(self.dir.clone()).foreign()? {
            traces.remove(&foreign);
        }
        Ok(traces)
    }

    fn remains(&self, id: &str, state: Option<&Run>, listed: Option<&[u32]>) -> Result<Remains, UserError> {
        Remains::of(self.dir, id, (state, listed), &self.refs).map_err(|error| cannot_remove(id, &error))
    }

    /// Whether files or refs of a run are there whose journal is gone.
    fn is_left(&self, id: &str) -> Result<bool, UserError> {
        let put_aside = || self.remains(id, None, None).is_ok_and(|remains| !remains.kept_refs.is_empty());
        Ok(self.traces()?.contains_key(id) || put_aside())
    }

    fn is_unknown(&self, given: &str) -> bool {
        matches!(self.store.find(given), Err(StoreError::Unknown { .. }))
    }

    fn one(&self, given: &str) -> Result<(), UserError> {
        let run = match choose(self.store, Some(given), Intent::Change) {
            Ok(run) if self.dir.has_run(run.id()) => run,
            Ok(other) => {
                let what = format!("{} is no journal of a run, so it stays", other.place());
                return Err(UserError::usage(what));
            }
            // What an interrupted removal has left, or an earlier one has kept, has no journal any more.
            Err(_) if self.is_unknown(given) && self.is_left(given)? => self.store.run(given)?,
            Err(error) => match FolderStore::new(self.dir.clone()).removed(given) {
                Some(mark) if self.is_unknown(given) => return self.there(&mark, given, error),
                _ => return Err(error),
            },
        };
        let id = run.id().to_owned();
        let branches = self.store.branches_of(&id)?;
        if !branches.is_empty() {
            return Err(UserError::usage(format!("{id} is not removed: {}", needed_by(&branches))));
        }
        if run.holder()?.is_some() {
            return Err(UserError::usage(format!("{id} is running"))
                .hint(format!("stop it first: {}", advice::command(&format!("stop {id}")))));
        }
        let mark = run.elsewhere();
        let is_forgotten = match &mark {
            Some(mark) if self.args.discard_changes && !self.args.dry_run => self.forgets(mark, &id)?,
            _ => false,
        };
        // It is named, so it goes whatever it waits for.
        self.remove(&Found { run, listed: None }, |_| None)?;
        match mark {
            Some(mark) if !is_forgotten => say(&format!(
                "  only its copy: {} still has the run; --discard-changes removes it there, too",
                mark.engine
            )),
            _ => Ok(()),
        }
    }

    /// Removes what its engine still has of a run whose copy here was removed before.
    fn there(&self, mark: &Elsewhere, id: &str, unknown: UserError) -> Result<(), UserError> {
        let way = advice::command(&format!("clean {id} --discard-changes"));
        if !self.args.discard_changes {
            return Err(unknown.hint(format!("{} still has it; remove it there: {way}", mark.engine)));
        }
        if self.args.dry_run {
            return say(&format!("would remove {id} from {}", mark.engine));
        }
        if !self.forgets(mark, id)? {
            return Err(UserError::failed(format!("{id} is not removed: {ENGINE_PROGRAM} was not found")));
        }
        FolderStore::new(self.dir.clone()).forget_removal(id)?;
        say(&format!("removed {id} from {}", mark.engine))
    }

    /// Has its engine remove a run for good that other machines carry out, if this program has one. What the run's agents left
    /// may be nowhere else.
    fn forgets(&self, mark: &Elsewhere, id: &str) -> Result<bool, UserError> {
        let Some(fleet) = installed() else { return Ok(false) };
        let at = Address::parse(&mark.engine).map_err(UserError::failed)?;
        tell(&format!("removing {id} from {at}; that may take a minute"));
        match fleet.forget(&at, id) {
            Ok(()) => Ok(true),
            Err(Trouble::Refused(why)) => Err(UserError::usage(format!("{id} is not removed: {why}"))),
            Err(trouble) => Err(UserError::failed(format!("{id} is not removed: {at} {trouble}"))
                .hint("without --discard-changes, only its copy here is removed")),
        }
    }

    /// Branches go before the runs that they need, however old each of them is. Each run is looked at once.
    fn older_than(&self, time: Timestamp) -> Result<(), UserError> {
        let is_old =
            |trace: &Trace| Timestamp::try_from(trace.modified).is_ok_and(|modified| modified < time);
        let mut old = self.traces()?;
        old.retain(|_, trace| is_old(trace));
        let mut handles: BTreeMap<String, Arc<dyn RunHandle>> =
            self.store.list()?.into_iter().map(|entry| (entry.run.id().to_owned(), entry.run)).collect();
        let mut needs = Needs::new(self.store.origins_of_all()?);
        let mut ready: BTreeSet<String> = old.keys().filter(|id| needs.is_free(id)).cloned().collect();
        let mut stay: BTreeMap<String, Stays> = BTreeMap::new();
        let mut is_any_gone = false;
        while let Some(id) = ready.pop_first() {
            let Some(trace) = old.remove(&id) else { continue };
            let run = handles.remove(&id).map_or_else(|| self.store.run(&id), Ok)?;
            let why = match run.holder() {
                Ok(None) => {
                    let found = Found { run, listed: Some(trace.segments) };
                    self.remove(&found, |state| self.why_by_name_only(state))?
                }
                Ok(Some(_)) => Some(Stays("it is running".to_owned())),
                Err(error) => Some(Stays(error.to_string())),
            };
            match why {
                Some(why) => drop(stay.insert(id, why)),
                None => {
                    is_any_gone = true;
                    ready.extend(needs.let_go(&id).into_iter().filter(|freed| old.contains_key(freed)));
                }
            }
        }
        stay.extend(old.into_keys().map(|id| (id.clone(), Stays(needed_by(&needs.branches_of(&id))))));
        for (id, Stays(why)) in stay {
            say(&format!("{id} stays: {why}"))?;
        }
        match is_any_gone {
            true => Ok(()),
            false => say("nothing to remove"),
        }
    }

    /// Why a run is not removed for its age alone: a person may still answer it, or it cannot be told whether it asks.
    fn why_by_name_only(&self, state: &Result<Run, StoreError>) -> Option<Stays> {
        if self.args.waiting {
            return None;
        }
        let name = "remove it by its name, or with --waiting";
        match state {
            Ok(run) if !run.is_dropped() && !run.asks().is_empty() => {
                Some(Stays(format!("it waits for an answer; {name}")))
            }
            // Without a journal, it is what an interrupted removal has left.
            Ok(_) | Err(StoreError::Missing { .. } | StoreError::Empty { .. }) => None,
            Err(error) if error.is_not_found() => None,
            Err(error) => {
                Some(Stays(format!("it cannot be told whether it waits for an answer: {error}; {name}")))
            }
        }
    }

    /// Removes a run, unless there is a reason for which it stays.
    fn remove(
        &self,
        found: &Found,
        why_not: impl Fn(&Result<Run, StoreError>) -> Option<Stays>,
    ) -> Result<Option<Stays>, UserError> {
        let (run, id) = (&*found.run, found.run.id());
        let listed = found.listed.as_deref();
        if self.args.dry_run {
            let state = run.load();
            if let Some(why) = why_not(&state) {
                return Ok(Some(why));
            }
            let remains = self.remains(id, state.ok().as_ref(), listed)?;
            let kept = if self.args.discard_changes { Vec::new() } else { remains.unsaved() };
            return self.report("would remove", &remains, &kept).map(|()| None);
        }
        // Where only refs are left, there is nothing to hold.
        let _lease = match self.dir.has_run(id) {
            true => Some(run.lease()?),
            false => None,
        };
        let mut state = run.load();
        if let Some(why) = why_not(&state) {
            return Ok(Some(why));
        }
        if let Some(known) = state.as_ref().ok().filter(|state| state.origin.is_some()) {
            // What a killed rewind has not given to this run yet belongs to it.
            finish_rewind(self.store, run, known, &self.args.place)?;
            state = run.load();
        }
        let remains = self.remains(id, state.ok().as_ref(), listed)?;
        let how = if self.args.discard_changes { Unsaved::Discard } else { Unsaved::Keep };
        self.store.note_removal(id)?;
        let kept = remains.remove(how).map_err(|error| cannot_remove(id, &error))?;
        self.report("removed", &remains, &kept).map(|()| None)
    }

    fn report(&self, verb: &str, remains: &Remains, kept: &[Kept]) -> Result<(), UserError> {
        let mut what = vec![size(remains.bytes)];
        what.extend(counted(remains.worktrees_there.saturating_sub(kept.len()), "worktree"));
        let dropped = if self.args.discard_changes { remains.kept_refs.as_slice() } else { &[] };
        what.extend(counted(remains.refs.len() + dropped.len(), "git ref"));
        say(&format!("{verb} {} ({})", remains.id, what.join(", ")))?;
        for kept in kept {
            say(&format!("  {kept}"))?;
        }
        if !self.args.discard_changes {
            for (_, name) in &remains.kept_refs {
                say(&format!("  kept {name}, with files that a rewind put aside"))?;
            }
        }
        Ok(())
    }
}

fn cannot_remove(id: &str, error: &std::io::Error) -> UserError {
    UserError::failed(format!("cannot remove all of {id}: {error}"))
}

fn needed_by(branches: &[String]) -> String {
    match branches {
        [one] => format!("the history of {one} begins in it"),
        more => format!("the histories of {} begin in it", more.join(", ")),
    }
}

/// Which runs are needed by others, while some of them are removed.
struct Needs {
    origins: BTreeMap<String, BTreeSet<String>>,
    branches: BTreeMap<String, BTreeSet<String>>,
}

impl Needs {
    fn new(origins: BTreeMap<String, BTreeSet<String>>) -> Self {
        let mut branches: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (branch, begins_in) in &origins {
            for origin in begins_in {
                branches.entry(origin.clone()).or_default().insert(branch.clone());
            }
        }
        Self { origins, branches }
    }

    fn is_free(&self, id: &str) -> bool {
        self.branches.get(id).is_none_or(BTreeSet::is_empty)
    }

    fn branches_of(&self, id: &str) -> Vec<String> {
        self.branches.get(id).into_iter().flatten().cloned().collect()
    }

    /// Notes that a run is gone, and returns those that no run needs any more.
    fn let_go(&mut self, id: &str) -> Vec<String> {
        let mut freed = Vec::new();
        for origin in self.origins.remove(id).unwrap_or_default() {
            let Some(branches) = self.branches.get_mut(&origin) else { continue };
            branches.remove(id);
            if branches.is_empty() {
                freed.push(origin);
            }
        }
        freed
    }
}

fn counted(number: usize, what: &str) -> Option<String> {
    match number {
        0 => None,
        1 => Some(format!("1 {what}")),
        more => Some(format!("{more} {what}s")),
    }
}

/// A number of bytes, for people.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

fn say(text: &str) -> Result<(), UserError> {
    print_stdout(format!("{}\n", without_controls(text)).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::args::Place;
    use super::*;
    use crate::history::{Branch, Point, branch};
    use crate::run::driver::now;
    use crate::store::suite::opening;
    use crate::store::{JournalOptions, LISTINGS};

    /// The listings of folders that it takes to remove so many runs: one, and branches of it.
    fn listings_of_removing(runs: u64) -> u64 {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::at(folder.path());
        let store = FolderStore::new(dir.clone());
        store.create("r", JournalOptions::default()).unwrap().commit(&opening("r")).unwrap();
        let state = store.run("r").unwrap().load().unwrap();
        let point = Point { seq: state.seq, step: None, state };
        for number in 1..runs {
            let how = Branch {
                options: point.state.options.clone(),
                reset_cost: false,
                forgotten: Vec::new(),
                moved: Default::default(),
                kept_from: None,
            };
            let now = Timestamp::UNIX_EPOCH;
            branch(&store, &format!("b{number}"), JournalOptions::default(), now, ("r", &point), how)
                .unwrap();
        }
        let in_a_minute = now() + jiff::SignedDuration::from_secs(60);
        let args = CleanArgs {
            run: None,
            older_than: Some(in_a_minute),
            waiting: false,
            dry_run: false,
            discard_changes: false,
            place: Place { state_dir: Some(folder.path().to_owned()) },
        };
        let store = store.listed_once().unwrap();
        let cleaner = Cleaner { dir: &dir, store: &store, args: &args, refs: KnownRefs::default() };
        let before = LISTINGS.get();
        cleaner.older_than(in_a_minute).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        LISTINGS.get() - before
    }

    #[test]
    fn the_folder_is_not_listed_again_for_each_run() {
        let few = listings_of_removing(2);
        assert!(few > 0);
        assert_eq!(listings_of_removing(40), few);
    }

    #[test]
    fn sizes_have_units() {
        for (bytes, text) in [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB")] {
            assert_eq!(size(bytes), text);
        }
    }
}
