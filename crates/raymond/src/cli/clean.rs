//! `raymond clean`

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use jiff::Timestamp;

use super::args::CleanArgs;
use super::find::{state_dir, store};
use super::print::{print_stdout, say as tell};
use super::rewound::finish_rewind;
use crate::advice;
use crate::error::{ExitKind, UserError};
use crate::fleet::{Address, ENGINE_PROGRAM, Fleet, Trouble, installed};
use crate::git::worktrees::{Kept, Unsaved};
use crate::history::clean::Remains;
use crate::store::{Elsewhere, FolderStore, RunStore, StateDir, StoreError};
use crate::view::text::clean as without_controls;

pub(super) fn clean(args: CleanArgs) -> Result<ExitKind, UserError> {
    let (dir, store) = (state_dir(&args.place)?, store(&args.place)?);
    let cleaner = Cleaner { dir: &dir, store: &*store, args: &args };
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
}

impl Cleaner<'_> {
    fn traces(&self) -> Result<BTreeMap<String, SystemTime>, UserError> {
        let cannot_read = |error| UserError::failed(format!("cannot read {}: {error}", self.store.place()));
        let mut traces = self.dir.traces().map_err(cannot_read)?;
        // What somebody else has made stays as it is.
        for foreign in FolderStore::new(self.dir.clone()).foreign()? {
            traces.remove(&foreign);
        }
        Ok(traces)
    }

    /// Whether files or refs of a run are there whose journal is gone.
    fn is_left(&self, id: &str) -> Result<bool, UserError> {
        let put_aside = || Remains::of(self.dir, id, None).is_ok_and(|remains| !remains.kept_refs.is_empty());
        Ok(self.traces()?.contains_key(id) || put_aside())
    }

    fn one(&self, given: &str) -> Result<(), UserError> {
        let id = match self.store.find(given) {
            Ok(run) => run.id().to_owned(),
            // What an interrupted removal has left, or an earlier one has kept, has no journal any more.
            Err(StoreError::Unknown { .. }) if self.is_left(given)? => given.to_owned(),
            Err(error) => match FolderStore::new(self.dir.clone()).removed(given) {
                Some(mark) => return self.there(&mark, given, error),
                None => return Err(error.into()),
            },
        };
        if let Some(why) = self.needed(&id, &BTreeSet::new())? {
            return Err(UserError::usage(format!("{id} is not removed: {why}")));
        }
        if self.store.run(&id)?.holder()?.is_some() {
            return Err(UserError::usage(format!("{id} is running"))
                .hint(format!("stop it first: {}", advice::command(&format!("stop {id}")))));
        }
        let mark = self.store.run(&id)?.elsewhere();
        let is_forgotten = match &mark {
            Some(mark) if self.args.discard_changes && !self.args.dry_run => self.forgets(mark, &id)?,
            _ => false,
        };
        self.remove(&id)?;
        match mark {
            Some(mark) if !is_forgotten => say(&format!(
                "  only its copy: {} still has the run; --discard-changes removes it there, too",
                mark.engine
            )),
            _ => Ok(()),
        }
    }

    /// Removes what its engine still has of a run whose copy here was removed before.
    fn there(&self, mark: &Elsewhere, id: &str, unknown: StoreError) -> Result<(), UserError> {
        let way = advice::command(&format!("clean {id} --discard-changes"));
        if !self.args.discard_changes {
            return Err(UserError::from(unknown)
                .hint(format!("{} still has it; remove it there: {way}", mark.engine)));
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

    /// Branches go before the runs that they need, however old each of them is.
    fn older_than(&self, time: Timestamp) -> Result<(), UserError> {
        let is_old =
            |modified: &SystemTime| Timestamp::try_from(*modified).is_ok_and(|modified| modified < time);
        let mut left: BTreeSet<String> =
            self.traces()?.into_iter().filter(|(_, modified)| is_old(modified)).map(|(id, _)| id).collect();
        let mut gone = BTreeSet::new();
        loop {
            let mut next = None;
            for id in &left {
                if matches!(self.store.run(id)?.holder(), Ok(None)) && self.needed(id, &gone)?.is_none() {
                    next = Some(id.clone());
                    break;
                }
            }
            let Some(id) = next else { break };
            left.remove(&id);
            self.remove(&id)?;
            gone.insert(id);
        }
        for id in left {
            let why = match (self.needed(&id, &gone)?, self.store.run(&id)?.holder()) {
                (Some(why), _) => why,
                (None, Ok(_)) => "it is running".to_owned(),
                (None, Err(error)) => error.to_string(),
            };
            say(&format!("{id} stays: {why}"))?;
        }
        match gone.is_empty() {
            true => say("nothing to remove"),
            false => Ok(()),
        }
    }

    /// Why a run cannot be removed: branches of it are there that are not among those that are gone.
    fn needed(&self, id: &str, gone: &BTreeSet<String>) -> Result<Option<String>, UserError> {
        let branches: Vec<String> =
            self.store.branches_of(id)?.into_iter().filter(|branch| !gone.contains(branch)).collect();
        Ok(match branches.as_slice() {
            [] => None,
            [one] => Some(format!("the history of {one} begins in it")),
            more => Some(format!("the histories of {} begin in it", more.join(", "))),
        })
    }

    fn remove(&self, id: &str) -> Result<(), UserError> {
        let run = self.store.run(id)?;
        let cannot = |error: std::io::Error| UserError::failed(format!("cannot remove all of {id}: {error}"));
        if self.args.dry_run {
            let remains = Remains::of(self.dir, id, run.load().ok().as_ref()).map_err(cannot)?;
            let kept = if self.args.discard_changes { Vec::new() } else { remains.unsaved() };
            return self.report("would remove", &remains, &kept);
        }
        let _lease = run.lease()?;
        if let Ok(state) = run.load() {
            // What a killed rewind has not given to this run yet belongs to it.
            finish_rewind(self.store, &*run, &state, &self.args.place)?;
        }
        let remains = Remains::of(self.dir, id, run.load().ok().as_ref()).map_err(cannot)?;
        let how = if self.args.discard_changes { Unsaved::Discard } else { Unsaved::Keep };
        self.store.note_removal(id)?;
        let kept = remains.remove(how).map_err(cannot)?;
        self.report("removed", &remains, &kept)
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
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (bytes, text) in [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB")] {
            assert_eq!(size(bytes), text);
        }
    }
}
