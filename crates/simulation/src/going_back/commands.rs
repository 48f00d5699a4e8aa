//! What people do with runs that stand still, as a sequence of effects.

use std::collections::BTreeSet;

use raymond::history::{Back, Branch, Point, branch as history_branch, rewind};
use raymond::run::engine::Engine;
use raymond::store::{RunHandle, RunStore, Start};
use raymond_core::event::Body;
use raymond_core::input::Input;
use raymond_core::run::{Run, RunStatus, Status};
use raymond_core::worktree::Worktree;

use super::defect::Defect;
use super::ground::{Files, Folder, Head, IGNORED, PROJECT, Piece, head_ref, name_of, number_of};
use super::rules;
use super::session::{NoFiles, TASK, Writer, cents, interrupted, snapshots_of};
use super::world::{Done, JOURNAL, Stop, World};

/// What to do with the files of a step.
#[derive(Clone, Debug)]
pub enum Restore {
    InPlace { force: bool },
    Into { dir: String },
}

/// What a person says beside the run and the step.
#[derive(Clone, Debug)]
pub struct How {
    pub restore: Option<Restore>,
    pub budget: Option<u32>,
}

impl World {
    /// A new run with the history of another one.
    pub fn branch(&mut self, origin: &str, step: u64, new: &str, how: &How) -> Done<()> {
        let from = self.store.run(origin).map_err(|error| self.stopped(error))?;
        let point = Point::after_step(&*from, step).map_err(|error| Stop::Refused(error.to_string()))?;
        let end = from.load().map_err(|error| self.stopped(error))?;
        // A removed run that has left something keeps its name.
        if self.load(new).is_some() || self.store.taken().contains(new) {
            return Err(Stop::Refused(format!("{new} is there")));
        }
        let mut writer = self.store.create(new, JOURNAL).map_err(|error| self.stopped(error))?;
        let made_for = (new.to_owned(), point.seq + 1);
        let ready = match &how.restore {
            Some(Restore::Into { .. }) => Ok(()),
            // What is in the place of files, or is shared with them, must not be another run's.
            _ => self.check_folder(new, &point.state.cwd),
        };
        let folder = ready.and_then(|()| self.restore((&point.state, &end), how, &point.state.cwd, made_for));
        let folder = folder.inspect_err(|_| writer.abandon())?;
        let moved = rules::of_branch(&self.store.clone(), &point.state, new, folder.clone());
        let moved = moved.map_err(|error| self.stopped(error))?;
        self.copy_task_folder(origin, new)?;
        let mut options = point.state.options.clone();
        options.budget_usd = how.budget.map_or(options.budget_usd, cents);
        let how_begun = Branch { options, reset_cost: false, forgotten: Vec::new(), moved, kept_from: None };
        let begun = history_branch::begin(
            &self.store.clone(),
            (new, writer),
            self.now(),
            (origin, &point),
            how_begun,
        );
        self.note_given(new, how.budget, folder.as_ref().map(|(_, dir)| dir.as_str()), begun.is_ok());
        begun.map_err(|error| self.stopped(error))?;
        folder.iter().try_for_each(|(_, dir)| self.unlock(dir))
    }

    /// A branch has a task folder of its own.
    fn copy_task_folder(&mut self, from: &str, to: &str) -> Done<()> {
        let Some(piece) = self.ground.task_folders.get(from).copied() else { return Ok(()) };
        if self.ground.task_folders.contains_key(to) || self.has(Defect::SharesTaskFolder) {
            return Ok(());
        }
        self.at("copy the task folder to", to, |world| {
            world.ground.task_folders.insert(to.to_owned(), piece);
        })
    }

    /// Takes a run back to a step.
    pub fn rewind(&mut self, id: &str, step: u64, how: &How) -> Done<()> {
        let (end, mut writer) = self.hold(id)?;
        let stored = self.store.run(id).map_err(|error| self.stopped(error))?;
        let point = Point::after_step(&*stored, step).map_err(|error| Stop::Refused(error.to_string()))?;
        if point.seq == end.seq {
            return Err(Stop::Refused("nothing came after it".to_owned()));
        }
        let was_done = end.origin.as_ref().is_some_and(|origin| origin.run == id && origin.seq == point.seq);
        if how.restore.is_none() && was_done && self.was_just_rewound(&*stored, &end)? {
            return Ok(());
        }
        if !matches!(how.restore, Some(Restore::Into { .. })) {
            self.check_folder(id, &end.cwd)?;
        }
        let made_for = (id.to_owned(), end.seq + 1);
        let folder = self.restore((&point.state, &end), how, &end.cwd, made_for)?;
        let states = (&point.state, &end);
        let store = self.store.clone();
        let moved = rules::of_rewind(&store, &*stored, states, folder.clone(), self.defect);
        let moved = moved.map_err(|error| self.stopped(error))?;
        let defect = self.defect;
        let handed_over = |dropped: &str| rules::of_dropped(states, dropped, defect);
        let mut last = end.clone();
        if self.has(Defect::TakesOptionsBack) {
            last.options = point.state.options.clone();
        }
        let now = self.now();
        let dropped = rewind(
            &store,
            &mut *writer,
            last,
            Back { point: &point, forgotten: Vec::new(), moved, handed_over: &handed_over },
            JOURNAL,
            now,
        );
        self.note_given(id, None, folder.as_ref().map(|(_, dir)| dir.as_str()), dropped.is_ok());
        dropped.map_err(|error| self.stopped(error))?;
        let rewound = stored.load().map_err(|error| self.stopped(error))?;
        self.finish_rewind(id, &rewound)?;
        drop(writer);
        folder.iter().try_for_each(|(_, dir)| self.unlock(dir))
    }

    /// Whether nothing has happened to a run since it was rewound.
    fn was_just_rewound(&mut self, stored: &dyn RunHandle, run: &Run) -> Done<bool> {
        if run.origin.as_ref().is_none_or(|origin| origin.dropped.is_none()) {
            return Ok(false);
        }
        let last = stored.events(Start::After(run.seq - 1)).and_then(|mut events| events.next_batch());
        let last = last.map_err(|error| self.stopped(error))?;
        Ok(last.is_some_and(|batch| batch.iter().any(|event| matches!(event.body, Body::RunStarted(_)))))
    }

    /// Finishes a rewind of this run, or the one whose dropped events it keeps.
    pub fn finish_rewind(&mut self, id: &str, run: &Run) -> Done<()> {
        let Some(origin) = &run.origin else { return Ok(()) };
        let (rewound, dropped) = if origin.run == id {
            (run.clone(), origin.dropped.clone())
        } else {
            let Some(other) = self.load(&origin.run).filter(|_| run.seq == origin.seq + 1) else {
                return Ok(());
            };
            let dropped = other.origin.as_ref().and_then(|origin| origin.dropped.clone());
            (other, dropped.filter(|dropped| dropped == id))
        };
        let Some(dropped) = dropped else { return Ok(()) };
        let stored = self.store.run(&rewound.id).map_err(|error| self.stopped(error))?;
        if !self.was_just_rewound(&*stored, &rewound)? {
            return Ok(());
        }
        let end = stored.state_after(rewound.seq - 1).map_err(|error| self.stopped(error))?;
        let point = rewound.origin.as_ref().map_or(0, |origin| origin.seq);
        let point = stored.state_after(point).map_err(|error| self.stopped(error))?;
        for worktree in rules::dropped_ones(&point, &end) {
            self.hand_over(&worktree, &dropped)?;
        }
        if end.cwd != rewound.cwd
            && self.ground.folders.get(&end.cwd).is_some_and(|old| old.noted == Some(end.id.clone()))
        {
            self.at("note the new owner of", &end.cwd, |world| {
                let owner = Some(dropped.clone());
                world.folder(&end.cwd).into_iter().for_each(|folder| {
                    folder.noted.clone_from(&owner);
                    folder.owner.clone_from(&owner);
                });
            })?;
        }
        self.copy_task_folder(&rewound.id, &dropped)
    }

    /// Gives a worktree, its branch and its mark to the run that keeps what was dropped. What is done stays done.
    fn hand_over(&mut self, old: &Worktree, id: &str) -> Done<()> {
        let new = rules::as_of(id, old);
        let is_left = |world: &Self, name: &str| world.ground.branch(name).is_some();
        if is_left(self, &old.branch) && !is_left(self, &new.branch) && !self.has(Defect::LeavesBranchBehind)
        {
            self.at("rename the branch", &old.branch, |world| {
                world.ground.rename_branch(&old.branch, &new.branch);
            })?;
        }
        let marks_last = self.has(Defect::MarksTooLate);
        let is_whole = self.ground.marks.contains(&old.path);
        if is_whole && !marks_last {
            self.at("mark", &new.path, |world| world.ground.marks.insert(new.path.clone()))?;
        }
        let is_there = |world: &Self, path: &str| world.ground.folders.contains_key(path);
        if is_there(self, &old.path) && !is_there(self, &new.path) {
            self.at("move the worktree to", &new.path, |world| {
                if let Some(mut folder) = world.ground.folders.remove(&old.path) {
                    folder.owner = Some(id.to_owned());
                    folder.noted = Some(id.to_owned());
                    world.ground.folders.insert(new.path.clone(), folder);
                }
            })?;
        }
        if is_whole && marks_last {
            self.at("unmark", &old.path, |world| world.ground.marks.remove(&old.path))?;
            self.at("mark", &new.path, |world| world.ground.marks.insert(new.path.clone()))?;
        }
        if self.ground.marks.contains(&old.path) {
            self.at("unmark", &old.path, |world| world.ground.marks.remove(&old.path))?;
        }
        Ok(())
    }

    /// The run without a process. If the last one died, the run is stopped in its place.
    fn hold(&mut self, id: &str) -> Done<(Run, Writer)> {
        let (run, writer) = if self.has(Defect::LeavesRewindUnfinished) {
            let opened = self.store.run(id).and_then(|run| run.open(JOURNAL));
            let opened = opened.map_err(|error| self.stopped(error))?;
            (opened.run, self.store.faulty(opened.writer))
        } else {
            self.open(id)?
        };
        if run.status != RunStatus::Running {
            return Ok((run, writer));
        }
        let interrupted = interrupted(&run);
        self.change((run, writer), Input::Close { stop_requested: true, terminated: false, interrupted })
    }

    fn change(&mut self, (run, writer): (Run, Writer), input: Input) -> Done<(Run, Writer)> {
        let mut engine = Engine::take_up(run, writer);
        let now = self.now();
        engine.round(now, [input], &mut NoFiles).map_err(|error| self.stopped(error))?;
        Ok(engine.into_parts())
    }

    /// Lets a failed agent try again, or all of them.
    pub fn retry(&mut self, id: &str, share: u8) -> Done<()> {
        let held = self.hold(id)?;
        let failed: Vec<_> = held.0.failed_agents().cloned().collect();
        if failed.is_empty() {
            return Err(Stop::Refused("none has failed".to_owned()));
        }
        let agents = vec![failed[usize::from(share) % failed.len()].clone()];
        self.change(held, Input::Retry { agents }).map(drop)
    }

    /// Sends an agent to the state that it is in.
    pub fn jump(&mut self, id: &str, share: u8) -> Done<()> {
        let held = self.hold(id)?;
        let can_jump = |status: &Status| !matches!(status, Status::Joining { .. } | Status::Ending { .. });
        let agents: Vec<_> = held.0.agents.values().filter(|agent| can_jump(&agent.status)).collect();
        if agents.is_empty() || held.0.status == RunStatus::Completed {
            return Err(Stop::Refused("no agent can jump".to_owned()));
        }
        let agent = agents[usize::from(share) % agents.len()];
        let jump = Input::Jump { agent: agent.id.clone(), target: agent.state.clone(), input: None };
        self.change(held, jump).map(drop)
    }

    /// Restores the files of a point, and returns the folder they were in with the one that was made for them.
    fn restore(
        &mut self,
        (point, end): (&Run, &Run),
        how: &How,
        place: &str,
        made_for: (String, u64),
    ) -> Done<Option<(String, String)>> {
        let Some(restore) = &how.restore else { return Ok(None) };
        let snapshot = point.snapshots.get(&point.cwd).map(|name| number_of(name));
        let Some(snapshot) = snapshot else { return Err(Stop::Refused("there is no snapshot".to_owned())) };
        match restore {
            Restore::Into { dir } => {
                self.restore_into(snapshot, dir, made_for)?;
                Ok(Some((point.cwd.clone(), dir.clone())))
            }
            Restore::InPlace { force } => {
                let Some(top) = self.top_of(place) else {
                    return Err(Stop::Refused(format!("{place} is not there")));
                };
                self.restore_in_place(snapshot, &top, end, *force)?;
                Ok(None)
            }
        }
    }

    fn restore_into(&mut self, snapshot: usize, dir: &str, made_for: (String, u64)) -> Done<()> {
        if let Some(folder) = self.ground.folders.get(dir) {
            let Some((run, seq)) = folder.made_for.clone() else {
                return Err(Stop::Refused(format!("{dir} is not empty")));
            };
            let is_used = self.load(&run).is_some_and(|run| run.seq >= seq);
            if is_used && !self.has(Defect::TrustsNoLock) {
                return Err(Stop::Refused(format!("{dir} is a folder of {run}")));
            }
            let user = self.runs().find(|(_, run)| run.cwd == dir).map(|(id, _)| id.clone());
            self.work.expect(user.is_none(), || format!("{dir} is removed, in which {user:?} works"));
            self.at("remove what is half made", dir, |world| world.ground.folders.remove(dir))?;
        }
        self.at("add the worktree", dir, |world| {
            let head = Head::Detached(world.ground.head_of(&world.ground.folders[PROJECT]));
            let owner = Some(made_for.0.clone());
            let noted = owner.clone();
            let made_for = Some(made_for);
            let folder = Folder { head, files: Files::new(), made_for, noted, lock: None, owner };
            world.ground.folders.insert(dir.to_owned(), folder);
        })?;
        self.at("write the files", dir, |world| {
            let mut files = world.ground.commits[snapshot].files.clone();
            files.remove(TASK);
            world.folder(dir).into_iter().for_each(|folder| folder.files.clone_from(&files));
        })
    }

    /// Replaces the files of a folder by those of a snapshot. What would be lost is kept first.
    fn restore_in_place(&mut self, snapshot: usize, top: &str, end: &Run, force: bool) -> Done<()> {
        self.work.uses(&end.id, top, "restores files in", &self.ground);
        let sees_hidden = !self.has(Defect::OverlooksHidden);
        let mut wanted = self.ground.commits[snapshot].files.clone();
        let task = wanted.remove(TASK);
        let seen = self.ground.files_of(top, sees_hidden);
        let folder = &self.ground.folders[top];
        let there = folder.files.clone();
        // Git removes what it sees and the snapshot has not, and writes what differs.
        let mut after = there.clone();
        after.retain(|name, _| !seen.contains_key(name));
        after.extend(wanted.iter().map(|(name, piece)| (*name, *piece)));
        let mut kept = seen.clone();
        let overwrites_ignored = there.contains_key(IGNORED)
            && !seen.contains_key(IGNORED)
            && after.get(IGNORED) != there.get(IGNORED);
        if overwrites_ignored && !self.has(Defect::OverwritesIgnored) {
            kept.insert(IGNORED, there[IGNORED]);
        }
        let task_now = self.ground.task_folders.get(&end.id).copied();
        kept.extend(task_now.map(|piece| (TASK, piece)).filter(|_| !self.has(Defect::LosesTaskFolder)));
        let is_saved = |commit: usize| {
            let files = &self.ground.commits[commit].files;
            kept.iter().all(|(name, piece)| files.get(name) == Some(piece))
        };
        // A removal that was killed may have deleted the ref of a snapshot.
        let is_kept =
            |commit: &usize| self.has(Defect::TrustsLostSnapshot) || self.ground.is_on_ref(*commit, "refs/");
        let saved = end.snapshots.get(top).map(|name| number_of(name)).filter(is_kept);
        let head = self.ground.head_of(folder);
        let is_unsaved = !is_saved(snapshot) && !is_saved(head) && !saved.is_some_and(is_saved);
        if is_unsaved && !self.has(Defect::KeepsNothing) {
            if !force {
                return Err(Stop::Refused("it has changes that are not committed".to_owned()));
            }
            let below = format!("refs/raymond-kept/{}/", end.id);
            let number = self.ground.refs.keys().filter(|name| name.starts_with(&below)).count();
            let number = if self.has(Defect::KeepsOnlyTheLast) { 1 } else { number + 1 };
            let name = format!("{below}{number}");
            self.at("keep what is replaced as", &name, |world| {
                let commit = world.ground.commit(Some(head), kept);
                let time = world.seconds;
                world.ground.set_ref(&name, commit, time);
            })?;
        }
        let names: BTreeSet<&'static str> = there.keys().chain(after.keys()).copied().collect();
        for name in names.into_iter().filter(|name| there.get(name) != after.get(name)) {
            self.at("restore", &format!("{top}/{name}"), |world| {
                let Some(folder) = world.folder(top) else { return };
                match after.get(name) {
                    Some(piece) => folder.files.insert(name, *piece),
                    None => folder.files.remove(name),
                };
            })?;
        }
        if task_now != task {
            self.at("restore the task folder of", &end.id, |world| match task {
                Some(piece) => world.ground.task_folders.insert(end.id.clone(), piece),
                None => world.ground.task_folders.remove(&end.id),
            })?;
        }
        Ok(())
    }

    /// What would be lost with a worktree.
    fn is_unsaved(&self, path: &str) -> bool {
        let folder = &self.ground.folders[path];
        let head = self.ground.head_of(folder);
        let files = self.ground.files_of(path, !self.has(Defect::OverlooksHidden));
        let is_detached = matches!(folder.head, Head::Detached(_)) && !self.has(Defect::OverlooksDetached);
        files != self.ground.commits[head].files
            || (is_detached && !self.ground.is_on_ref(head, "refs/heads/"))
    }

    /// Removes the worktrees of a run in which nothing would be lost, or all. Returns whether some stay.
    pub fn tidy(&mut self, run: &Run, discards: bool) -> Done<bool> {
        let mut some_stay = false;
        let own: Vec<Worktree> = run.own_worktrees().cloned().collect();
        for worktree in own {
            let path = worktree.path.as_str();
            if self.ground.folders.contains_key(path) {
                if !discards && self.is_unsaved(path) {
                    some_stay = true;
                    continue;
                }
                self.work.uses(&run.id, path, "removes", &self.ground);
                let folder = &self.ground.folders[path];
                // What git ignores goes with a worktree of which nothing else is needed.
                let is_given_up = |name: &str| discards || self.ground.ignores(folder, name);
                let files = folder.files.iter().filter(|(name, _)| is_given_up(name));
                let mut given_up: BTreeSet<Piece> = files.map(|(_, piece)| *piece).collect();
                if discards {
                    let commits = self.ground.chain(self.ground.head_of(folder));
                    given_up.extend(
                        commits.flat_map(|commit| self.ground.commits[commit].files.values().copied()),
                    );
                }
                self.at("remove the worktree", path, |world| {
                    world.ground.folders.remove(path);
                    world.work.removed_on_purpose(&given_up, &world.ground);
                })?;
            }
            if self.ground.branch(&worktree.branch).map(name_of) == Some(worktree.base.clone()) {
                self.at("remove the branch", &worktree.branch, |world| {
                    world.ground.delete_ref(&head_ref(&worktree.branch));
                })?;
            }
            if self.ground.marks.contains(path) {
                self.at("unmark", path, |world| world.ground.marks.remove(path))?;
            }
        }
        Ok(some_stay)
    }

    /// The questions that people are shown, with the runs that ask them.
    pub fn inbox(&self) -> Vec<(String, String)> {
        let is_shown = |id: &str| !self.work.dropped.contains(id) || self.has(Defect::DroppedAsks);
        let runs = self.runs().filter(|(id, _)| is_shown(id));
        runs.flat_map(|(id, run)| run.asks().into_iter().map(|(_, ask)| (id.clone(), ask.id.clone())))
            .collect()
    }

    /// Removes old runs, unless somebody waits for them.
    pub fn clean_old(&mut self, waiting: bool) -> Done<()> {
        if self.has(Defect::RemovesForeign) {
            self.ground.foreign.clear();
        }
        for _ in 0..2 {
            for id in self.ids() {
                let Some(run) = self.load(&id) else { continue };
                let asks = !run.asks().is_empty() && !self.work.dropped.contains(&id);
                if asks && !waiting {
                    if !self.has(Defect::RemovesAsking) {
                        continue;
                    }
                    self.work.broken.push(format!("{id} is removed, and has an open question"));
                }
                match self.clean(&id, false) {
                    Ok(()) | Err(Stop::Refused(_)) => {}
                    Err(killed) => return Err(killed),
                }
            }
        }
        Ok(())
    }

    /// Removes a run: its worktrees and refs, then its journal. Work that is not saved stays, unless it is to be discarded.
    pub fn clean(&mut self, id: &str, discards: bool) -> Done<()> {
        let needed = self.store.branches_of(id).map_err(|error| self.stopped(error))?;
        if !needed.is_empty() && !self.has(Defect::RemovesNeeded) {
            return Err(Stop::Refused(format!("{needed:?} need it")));
        }
        let (run, writer) = self.open(id)?;
        self.finish_making(&run)?;
        let some_stay = self.tidy(&run, discards)?;
        let kept = format!("refs/raymond-kept/{id}/");
        let is_removed = |name: &&String| **name == snapshots_of(id) || (discards && name.starts_with(&kept));
        let names: Vec<String> = self.ground.refs.keys().filter(is_removed).cloned().collect();
        for name in names {
            let commits = self.ground.chain(self.ground.refs[&name]);
            let pieces: BTreeSet<Piece> =
                commits.flat_map(|commit| self.ground.commits[commit].files.values().copied()).collect();
            self.at("delete the ref", &name, |world| {
                world.ground.delete_ref(&name);
                world.work.removed_on_purpose(&pieces, &world.ground);
            })?;
        }
        if let Some(piece) = self.ground.task_folders.get(id).copied() {
            self.at("remove the task folder of", id, |world| {
                world.ground.task_folders.remove(id);
                world.work.removed_on_purpose(&BTreeSet::from([piece]), &world.ground);
            })?;
        }
        drop(writer);
        let branches = format!("refs/heads/raymond-run/{id}/");
        let is_of_it = |name: &String| name.starts_with(&branches) || name.starts_with(&kept);
        let leaves_something = some_stay || self.ground.refs.keys().any(is_of_it);
        self.at("remove the journal of", id, |world| {
            world.store.inner.remove(id);
            world.work.budgets.remove(id);
            world.work.places.remove(id);
            if leaves_something && !world.has(Defect::UsesNameAgain) {
                world.store.taken().insert(id.to_owned());
            }
        })
    }
}
