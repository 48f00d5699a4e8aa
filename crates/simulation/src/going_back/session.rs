//! A process that drives a run for a while: it makes worktrees, and its agents work in them.

use std::collections::BTreeSet;

use raymond::run::engine::{Command, Engine, Preparation, States, StepLaunch};
use raymond::store::{RunStore, RunWriter, StoreError};
use raymond_core::decide;
use raymond_core::event::{FORMAT_VERSION, Interrupted, RunStarted};
use raymond_core::input::{
    Answer, Ended, Input, Lookups, NewWorktree, Plan, Prepared, ProcessExit, ScriptOutcome, StepOutcome,
};
use raymond_core::money::Usd;
use raymond_core::run::{Agent, Options, Run, RunStatus, Status};
use raymond_core::snapshot::FilesSnapshot;
use raymond_core::transition::{Ask, Fork, ForkTarget, Jump, Reading, Transition};
use raymond_core::workflow::StateFile;
use raymond_core::worktree::{Wanted, Worktree, branch};

use super::defect::Defect;
use super::ground::{
    Files, Folder, HIDDEN, Head, IGNORED, IGNORES, IGNORES_NOTHING, LOCKS, NEW, PROJECT, REPOSITORY, RULES,
    TRACKED, head_ref, name_of, number_of,
};
use super::rules::path_of;
use super::world::{Done, JOURNAL, Stop, World};

/// In a snapshot, what an agent keeps outside of the repository.
pub const TASK: &str = "(task)";
/// The states of the workflow: that of the first agent, and that of its workers.
const STATES: [&str; 2] = ["MAIN", "WORK"];
/// The names of worktrees.
const NAMES: [&str; 3] = ["a", "b", "c"];
/// After so many steps an agent is done.
const MOST_STEPS: u64 = 14;

pub type Writer = Box<dyn RunWriter>;

/// Why a run goes on.
#[derive(Clone, Debug)]
pub enum Why {
    /// A person has named it.
    Named,
    /// A person has answered this question of it.
    Answered(String),
}

/// The states are not read from files: what an agent does is chosen when it ends.
pub struct NoFiles;

impl States for NoFiles {
    type Job = ();

    fn prepare(&mut self, _: &Run, _: &Agent) -> Result<Preparation<()>, StoreError> {
        let plan = Plan::Script(Default::default());
        Ok(Ok((Prepared { hash: String::new(), plan, warnings: Vec::new() }, ())))
    }
}

pub fn cents(cents: u32) -> Usd {
    Usd::from_dollars(f64::from(cents) / 100.0)
}

/// What Raymond has to do with a step before its program.
type Made = Result<(), String>;

impl World {
    /// A person starts a run.
    pub fn start(&mut self, snapshots: bool, steps: usize) -> Done<()> {
        self.runs_started += 1;
        let id = format!("r{}", self.runs_started);
        let writer = self.store.create(&id, JOURNAL).map_err(|error| self.stopped(error))?;
        let options = Options { snapshots, budget_usd: cents(100), ..Options::default() };
        let started = RunStarted {
            version: FORMAT_VERSION,
            workflow: "w".to_owned(),
            scope: "/w".to_owned(),
            scope_hash: None,
            entry: state(STATES[0]),
            cwd: PROJECT.to_owned(),
            nonce: format!("nonce-{id}"),
            labels: Default::default(),
            inputs: Default::default(),
            options,
            moved: Default::default(),
            origin: None,
        };
        let opening = decide::start(started, None);
        let (engine, _) =
            Engine::create(&id, self.now(), opening, writer).map_err(|error| self.stopped(error))?;
        self.drive(engine, Vec::new(), steps)
    }

    /// A run goes on for some steps.
    pub fn resume(&mut self, id: &str, why: &Why, budget: Option<u32>, steps: usize) -> Done<()> {
        let keeps_dropped = self.work.dropped.contains(id);
        if let (true, Why::Answered(ask)) = (keeps_dropped, why) {
            self.work.broken.push(format!("{id} was dropped and is resumed by an answer to {ask}"));
        }
        let (mut run, writer) = self.open(id)?;
        if run.status == RunStatus::Completed {
            self.tidy(&run, false)?;
            return Ok(());
        }
        self.check_folders(&run)?;
        self.finish_making(&run)?;
        if let Some(budget) = budget {
            run.options.budget_usd = cents(budget);
        }
        let interrupted = interrupted(&run);
        let options = Box::new(run.options.clone());
        let resume = Input::Resume { options, interrupted, forgotten: Vec::new(), moved: None };
        let mut opening = vec![resume];
        if let Why::Answered(ask) = why {
            let text = "yes".to_owned().into();
            opening.push(Input::Answer(Answer { ask: ask.clone(), text, ..Answer::default() }));
        }
        let done = self.drive(Engine::take_up(run, writer), opening, steps);
        self.note_given(id, budget, None, done.is_ok());
        done
    }

    /// What a person has given counts once the command is done, and once it is recorded.
    pub fn note_given(&mut self, id: &str, budget: Option<u32>, dir: Option<&str>, is_done: bool) {
        let run = self.load(id);
        let has = |is_it: &dyn Fn(&Run) -> bool| is_done || run.as_ref().is_some_and(is_it);
        if let Some(budget) = budget.filter(|budget| has(&|run| run.options.budget_usd == cents(*budget))) {
            self.work.budgets.insert(id.to_owned(), budget);
        }
        if let Some(dir) = dir.filter(|dir| has(&|run| run.cwd == *dir)) {
            self.work.places.insert(id.to_owned(), dir.to_owned());
        }
    }

    /// Takes the lease of a run, and finishes what a killed rewind has left.
    pub fn open(&mut self, id: &str) -> Done<(Run, Writer)> {
        let opened = self.store.run(id).and_then(|run| run.open(JOURNAL));
        let opened = opened.map_err(|error| self.stopped(error))?;
        let writer = self.store.faulty(opened.writer);
        self.finish_rewind(id, &opened.run)?;
        Ok((opened.run, writer))
    }

    /// No agent works in a folder that was made for another run.
    pub fn check_folders(&self, run: &Run) -> Done<()> {
        for agent in run.agents.values().filter(|agent| agent.worktree.is_none()) {
            self.check_folder(&run.id, &agent.cwd)?;
        }
        Ok(())
    }

    /// Unlocks the folders of a run that a killed command has made for it.
    pub fn finish_making(&mut self, run: &Run) -> Done<()> {
        let folders = run.agents.values().map(|agent| &agent.cwd).chain([&run.cwd]);
        let tops: BTreeSet<String> = folders.filter_map(|folder| self.top_of(folder)).collect();
        let is_for = |top: &&String| {
            let made_for = self.ground.folders.get(*top).and_then(|folder| folder.made_for.as_ref());
            made_for.is_some_and(|(made_for, _)| *made_for == run.id)
        };
        let is_overlooked = self.has(Defect::LeavesFolderLocked);
        let made: Vec<String> = tops.iter().filter(|top| !is_overlooked && is_for(top)).cloned().collect();
        made.iter().try_for_each(|dir| self.unlock(dir))
    }

    pub fn unlock(&mut self, dir: &str) -> Done<()> {
        self.at("unlock", dir, |world| {
            world.folder(dir).into_iter().for_each(|folder| folder.made_for = None);
        })
    }

    pub fn check_folder(&self, id: &str, cwd: &str) -> Done<()> {
        let top = self.top_of(cwd);
        let noted = top.as_ref().and_then(|top| self.ground.folders[top].noted.as_deref());
        match noted {
            Some(other) if other != id && !self.has(Defect::BranchSharesFolder) => {
                Err(Stop::Refused(format!("{cwd} belongs to {other}")))
            }
            _ => Ok(()),
        }
    }

    fn drive(&mut self, mut engine: Engine<Writer>, mut inputs: Vec<Input>, steps: usize) -> Done<()> {
        let mut launched: Vec<StepLaunch<()>> = Vec::new();
        let mut left = steps;
        loop {
            let now = self.now();
            let round = engine.round(now, std::mem::take(&mut inputs), &mut NoFiles);
            let round = round.map_err(|error| self.stopped(error))?;
            let mut is_over = false;
            for command in round.commands {
                match command {
                    Command::Launch(launch) => launched.push(*launch),
                    Command::EndScripts => {}
                    Command::Finish => is_over = true,
                }
            }
            if is_over {
                break;
            }
            if launched.is_empty() {
                // Nothing runs: with the next round it ends.
                engine.drain();
                left = left.saturating_sub(1);
                if left == 0 && steps > 0 {
                    break;
                }
                continue;
            }
            if left == 0 {
                engine.drain();
                inputs = launched.drain(..).map(|launch| ended_early(&launch)).collect();
                continue;
            }
            left -= 1;
            let launch = launched.swap_remove(self.rng.below(launched.len()));
            let ended = self.step(engine.run(), &launch)?;
            inputs = vec![ended];
        }
        let run = engine.run().clone();
        if run.status == RunStatus::Completed {
            self.tidy(&run, false)?;
        }
        Ok(())
    }

    /// Carries out a step, and returns what Raymond is told of it.
    fn step(&mut self, run: &Run, launch: &StepLaunch<()>) -> Done<Input> {
        let agent = &launch.agent;
        if let Some(worktree) = agent.worktree.as_deref()
            && let Err(error) = self.make(&run.id, worktree)?
        {
            self.work.broken.push(format!("{} of {} cannot go on: {error}", agent.id, run.id));
            return Ok(self.told(launch, ScriptOutcome::NotStarted { error }, Lookups::default()));
        }
        let Some(top) = self.top_of(&agent.cwd) else {
            self.work
                .broken
                .push(format!("{} of {} works in {}, which is not there", agent.id, run.id, agent.cwd));
            let error = "no folder".to_owned();
            return Ok(self.told(launch, ScriptOutcome::NotStarted { error }, Lookups::default()));
        };
        self.remove_locks(&top)?;
        for _ in 0..1 + self.rng.below(3) {
            self.act(&run.id, &top)?;
        }
        let is_worker = agent.parent.is_some();
        if self.rng.one_in(9) {
            let outcome = exited(1, Err("it failed".to_owned()));
            return Ok(self.told(launch, outcome, Lookups::default()));
        }
        let transition = self.transition(run, agent, is_worker);
        let mut lookups = self.look_up(run, &top, &transition);
        lookups.snapshot = self.snapshot(run, &top)?.map(Box::new);
        let reading = Ok(Reading { transition, warnings: Vec::new() });
        Ok(self.told(launch, exited(0, reading), lookups))
    }

    fn told(&self, launch: &StepLaunch<()>, outcome: ScriptOutcome, lookups: Lookups) -> Input {
        Input::Ended(Box::new(Ended {
            agent: launch.agent.id.clone(),
            step: launch.started.step,
            attempt: launch.started.attempt,
            duration_ms: 1,
            plan: Plan::Script(Default::default()),
            outcome: StepOutcome::Script(outcome),
            lookups,
        }))
    }

    /// Makes the worktree of a worker, if it is not marked as whole: the branch, the folder, the files, the mark.
    fn make(&mut self, run: &str, worktree: &Worktree) -> Done<Made> {
        let path = worktree.path.as_str();
        if self.ground.marks.contains(path) {
            return Ok(Ok(()));
        }
        // A branch of this name is the run's own. It has commits if the folder was removed when the run was done.
        let base = match self.ground.branch(&worktree.branch) {
            Some(tip) if self.has(Defect::RefusesOwnBranch) && tip != number_of(&worktree.base) => {
                return Ok(Err(format!(
                    "there is a branch `{}` already, at another commit",
                    worktree.branch
                )));
            }
            Some(tip) => tip,
            None => self.at("make the branch", &worktree.branch, |world| {
                let (base, time) = (number_of(&worktree.base), world.seconds);
                world.ground.set_ref(&head_ref(&worktree.branch), base, time);
                base
            })?,
        };
        if self.ground.folders.contains_key(path) {
            self.work.uses(run, path, "removes", &self.ground);
            self.at("remove what is half made", path, |world| world.ground.folders.remove(path))?;
        }
        self.at("add the worktree", path, |world| {
            let head = Head::Branch(worktree.branch.clone());
            let folder = Folder {
                head,
                files: Files::new(),
                made_for: None,
                noted: Some(run.to_owned()),
                lock: None,
                owner: Some(run.to_owned()),
            };
            world.ground.folders.insert(path.to_owned(), folder);
        })?;
        self.at("write the files", path, |world| {
            let files = world.ground.commits[base].files.clone();
            world.folder(path).into_iter().for_each(|folder| folder.files.clone_from(&files));
        })?;
        self.at("mark", path, |world| world.ground.marks.insert(path.to_owned()))?;
        Ok(Ok(()))
    }

    /// Removes what a killed git has left.
    fn remove_locks(&mut self, top: &str) -> Done<()> {
        let Some(lock) = self.ground.folders[top].lock else { return Ok(()) };
        // In the folder of the project, a person does it.
        if top != PROJECT && self.has(Defect::LeavesLocks) && lock == LOCKS[2] {
            return Ok(());
        }
        self.at("remove the lock", top, |world| {
            world.folder(top).into_iter().for_each(|folder| folder.lock = None);
        })
    }

    /// An agent does something in its folder.
    fn act(&mut self, run: &str, top: &str) -> Done<()> {
        self.work.uses(run, top, "works in", &self.ground);
        match self.rng.below(12) {
            0..=2 => self.commits(run, top),
            3 if top != PROJECT => self.at("detach HEAD", top, |world| {
                let head = world.ground.head_of(&world.ground.folders[top]);
                world.folder(top).into_iter().for_each(|folder| folder.head = Head::Detached(head));
            }),
            4 => self.at("change what is ignored", top, |world| {
                let ignores = world.ground.folders[top].files.get(RULES) == Some(&IGNORES);
                let rules = if ignores { IGNORES_NOTHING } else { IGNORES };
                world.folder(top).into_iter().for_each(|folder| {
                    folder.files.insert(RULES, rules);
                });
            }),
            5 => self.at("remove a file", top, |world| {
                let removed = world.folder(top).and_then(|folder| folder.files.remove(NEW));
                removed.into_iter().for_each(|piece| world.work.gave_up(piece));
            }),
            6 => self.writes_task(run),
            _ => {
                let name = *self.rng.pick(&[TRACKED[0], HIDDEN, NEW, IGNORED]);
                self.writes(&format!("written by {run}"), top, name)
            }
        }
    }

    /// Somebody writes a file, and gives up what was in it.
    pub fn writes(&mut self, who: &str, top: &str, name: &'static str) -> Done<()> {
        self.at("write", &format!("{top}/{name}"), |world| {
            if !world.ground.folders.contains_key(top) {
                return;
            }
            let piece = world.new_piece(&format!("{who} to {top}/{name}"));
            let old = world.folder(top).and_then(|folder| folder.files.insert(name, piece));
            old.into_iter().for_each(|old| world.work.gave_up(old));
        })
    }

    fn writes_task(&mut self, run: &str) -> Done<()> {
        self.at("write the task folder of", run, |world| {
            let folder = world.task_folder_of(run);
            world
                .work
                .expect(folder == run, || format!("two owners: {run} writes the task folder of {folder}"));
            let piece = world.new_piece(&format!("in the task folder of {run}"));
            let old = world.ground.task_folders.insert(folder, piece);
            old.into_iter().for_each(|old| world.work.gave_up(old));
        })
    }

    /// Commits all that git sees, unless a lock is in the way. A git that is killed leaves one.
    fn commits(&mut self, run: &str, top: &str) -> Done<()> {
        if let Some(lock) = self.ground.folders[top].lock {
            self.work.broken.push(format!("{run} cannot commit in {top} for ever, because {lock} was left"));
            return Ok(());
        }
        let lock = *self.rng.pick(&LOCKS);
        self.at("take a lock", top, |world| {
            world.folder(top).into_iter().for_each(|folder| folder.lock = Some(lock));
        })?;
        self.at("commit", top, |world| {
            let files = world.ground.files_of(top, false);
            let parent = world.ground.head_of(&world.ground.folders[top]);
            let commit = world.ground.commit(Some(parent), files);
            let (head, time) = (world.ground.folders[top].head.clone(), world.seconds);
            match head {
                Head::Branch(name) => world.ground.set_ref(&head_ref(&name), commit, time),
                Head::Detached(_) => {
                    world.folder(top).into_iter().for_each(|folder| folder.head = Head::Detached(commit));
                }
            }
            world.folder(top).into_iter().for_each(|folder| folder.lock = None);
        })
    }

    /// Where an agent goes on.
    fn transition(&mut self, run: &Run, agent: &Agent, is_worker: bool) -> Transition {
        let here = STATES[usize::from(is_worker)];
        let goes_on = || Transition::Goto(jump(here));
        let result = || Transition::Result { payload: "done".to_owned().into() };
        let asks = || {
            let question = "what now?".to_owned().into();
            let next = here.to_owned();
            Transition::Ask(Ask { question, next, timeout: None, timeout_next: None, empty_ok: false })
        };
        let is_last = run.steps_started >= MOST_STEPS;
        if is_worker {
            return match self.rng.below(6) {
                _ if is_last => result(),
                0 | 1 => result(),
                2 => asks(),
                _ => goes_on(),
            };
        }
        let has_workers = run.live_workers(&agent.id) > 0
            || run.workers.get(&agent.id).is_some_and(|workers| !workers.is_empty());
        let free: Vec<&str> =
            NAMES.into_iter().filter(|name| !run.worktrees.contains_key(*name)).take(2).collect();
        match self.rng.below(6) {
            _ if is_last && has_workers => Transition::Join { target: here.to_owned(), input: None },
            _ if is_last => result(),
            0..=2 if !free.is_empty() => {
                let forks = free.into_iter().map(fork).collect();
                Transition::Fork { forks, next: jump(here), joins: false }
            }
            3 if has_workers => Transition::Join { target: here.to_owned(), input: None },
            3 => result(),
            4 => asks(),
            _ => goes_on(),
        }
    }

    fn look_up(&mut self, run: &Run, top: &str, transition: &Transition) -> Lookups {
        let mut lookups = Lookups::default();
        lookups.states.extend(STATES.map(|name| (name.to_owned(), Ok(state(name)))));
        let Transition::Fork { forks, .. } = transition else { return lookups };
        let base = self.ground.head_of(&self.ground.folders[top]);
        for wanted in forks.iter().filter_map(|fork| fork.worktree.as_ref()) {
            let worktree = Worktree {
                name: wanted.name.clone(),
                path: path_of(&run.id, &wanted.name),
                branch: branch(&run.id, &wanted.name),
                base: name_of(base),
                repository: REPOSITORY.to_owned(),
            };
            let is_taken = self.ground.branch(&worktree.branch).is_some()
                || self.ground.folders.contains_key(&worktree.path);
            self.work.expect(!is_taken, || {
                format!("{} cannot have the worktree {}, which is there already", run.id, worktree.path)
            });
            let cwd = worktree.path.clone();
            lookups.worktrees.insert(wanted.clone(), Ok(NewWorktree { worktree, cwd }));
        }
        lookups
    }

    /// Keeps the files that a step has left, with the task folder, on the ref of the run.
    fn snapshot(&mut self, run: &Run, top: &str) -> Done<Option<FilesSnapshot>> {
        if !run.options.snapshots {
            return Ok(None);
        }
        let tree = self.tree_of(&run.id, top);
        let last = run.snapshots.get(top).map(|name| number_of(name));
        let is_same = last.is_some_and(|last| self.ground.commits[last].files == tree);
        let commit = match last {
            Some(last) if is_same => last,
            _ => {
                let name = snapshots_of(&run.id);
                self.at("keep a snapshot of", top, |world| {
                    let parent = world.ground.refs.get(&name).copied().or(last);
                    let commit = world.ground.commit(parent, tree);
                    let time = world.seconds;
                    world.ground.set_ref(&name, commit, time);
                    commit
                })?
            }
        };
        Ok(Some(FilesSnapshot {
            commit: name_of(commit),
            before: last.map(name_of),
            folder: top.to_owned(),
            repository: REPOSITORY.to_owned(),
            shared: false,
            task_folder: None,
        }))
    }

    /// What a snapshot of a folder has now.
    pub fn tree_of(&self, run: &str, top: &str) -> Files {
        let mut tree = self.ground.files_of(top, !self.has(Defect::OverlooksHidden));
        tree.extend(self.ground.task_folders.get(run).map(|piece| (TASK, *piece)));
        tree
    }

    /// The run whose task folder a run uses.
    pub fn task_folder_of(&self, run: &str) -> String {
        let origin = self.load(run).and_then(|run| run.origin).filter(|origin| origin.run != run);
        match origin {
            Some(origin) if self.has(Defect::SharesTaskFolder) => origin.run,
            _ => run.to_owned(),
        }
    }
}

pub fn snapshots_of(run: &str) -> String {
    format!("refs/raymond/{run}")
}

fn state(name: &str) -> StateFile {
    StateFile::new(&format!("{name}.sh")).expect("a name of a state")
}

fn jump(target: &str) -> Jump {
    Jump { target: target.to_owned(), input: None, delay: None }
}

fn fork(name: &str) -> Fork {
    Fork {
        target: ForkTarget::State(STATES[1].to_owned()),
        input: None,
        cd: None,
        worktree: Some(Wanted { name: name.to_owned(), from: None }),
        variables: Vec::new(),
    }
}

fn exited(code: i32, reading: Result<Reading, String>) -> ScriptOutcome {
    ScriptOutcome::Exited {
        exit: ProcessExit::Code(code),
        reading,
        other_case: Vec::new(),
        stderr: String::new(),
        shown: Default::default(),
    }
}

fn ended_early(launch: &StepLaunch<()>) -> Input {
    Input::Ended(Box::new(Ended {
        agent: launch.agent.id.clone(),
        step: launch.started.step,
        attempt: launch.started.attempt,
        duration_ms: 1,
        plan: Plan::Script(Default::default()),
        outcome: StepOutcome::Interrupted { cost: Usd::ZERO },
        lookups: Lookups::default(),
    }))
}

/// The steps that a killed process has not finished.
pub fn interrupted(run: &Run) -> Vec<Interrupted> {
    let of = |agent: &Agent| match &agent.status {
        Status::Running { work, .. } => Some(Interrupted {
            agent: agent.id.clone(),
            step: work.step,
            state: agent.state.clone(),
            estimated_cost_usd: Usd::ZERO,
        }),
        _ => None,
    };
    run.agents.values().filter_map(of).collect()
}
