//! Where the paths of a run are found on this machine.

use std::path::{Path, PathBuf};

use raymond_core::input::{Lookups, ScopeEntry, StepOutcome, TurnOutcome};
use raymond_core::name::AgentId;
use raymond_core::run::{Agent, Session};
use raymond_core::worktree::Worktree;

use super::StepReport;
use crate::paths::shown;
use crate::run::prepare::input_file;

/// The folder for task folders, among the folders of an agent. No path of a run begins with it.
const TASKS: &str = ".tasks";

/// Where the paths of a run are found on this machine.
#[derive(Clone, Debug)]
pub struct Roots {
    /// Holds a copy of the workflows.
    pub workflows: PathBuf,
    /// Holds the folders of one agent.
    pub folder: PathBuf,
}

impl Roots {
    /// The place of one of the agent's folders.
    pub fn folder_of(&self, path: &str) -> PathBuf {
        below(&self.folder, path)
    }

    /// The folder for task folders.
    pub fn tasks(&self) -> PathBuf {
        self.folder.join(TASKS)
    }

    /// The file that holds what is handed to the agent's state. It is written anew before each step.
    pub fn input_file(&self, agent: &AgentId) -> PathBuf {
        input_file(&self.tasks(), agent)
    }

    pub(super) fn workflow_of(&self, path: &str) -> PathBuf {
        below(&self.workflows, path)
    }

    /// The agent as this machine sees it.
    pub(super) fn enter(&self, agent: &mut Agent) {
        let folder = |path: &mut String| *path = as_text(&self.folder_of(path));
        let workflow = |path: &mut String| *path = as_text(&self.workflow_of(path));
        let session = |session: &mut Option<Session>| {
            session.as_mut().and_then(|session| session.cwd.as_mut()).map(folder).unwrap_or_default();
        };
        let visits = agent.visits_here();
        folder(&mut agent.cwd);
        agent.scope.as_mut().map(workflow).unwrap_or_default();
        // States are counted by the paths of their workflows.
        agent.visits.insert(agent.place(), visits);
        session(&mut agent.session);
        if let Some(worktree) = &mut agent.worktree {
            folder(&mut worktree.path);
            folder(&mut worktree.repository);
        }
        for frame in &mut agent.stack {
            folder(&mut frame.cwd);
            frame.scope.as_mut().map(workflow).unwrap_or_default();
            session(&mut frame.session);
        }
    }

    /// A path, or a text with paths, without the roots.
    pub(super) fn leave(&self, text: &mut String) {
        for root in [&self.workflows, &self.folder] {
            // Messages name files relative to the folder in which the worker was started.
            for root in [root.as_path(), shown(root)] {
                if let Some(root) = root.to_str().filter(|root| !root.is_empty() && text.contains(root)) {
                    *text = text.replace(root, "");
                }
            }
        }
    }

    /// The report as the run sees it.
    pub(super) fn report(&self, mut report: StepReport) -> StepReport {
        let Lookups { states, directories, scopes, files, snapshot, worktrees, .. } = &mut report.lookups;
        states.values_mut().filter_map(|state| state.as_mut().err()).for_each(|error| self.leave(error));
        files.values_mut().filter_map(|file| file.as_mut().err()).for_each(|error| self.leave(error));
        for found in directories.values_mut() {
            match found {
                Ok(folder) => {
                    self.leave(&mut folder.path);
                    folder.outside.iter_mut().for_each(|why| self.leave(why));
                }
                Err(error) => self.leave(error),
            }
        }
        for found in scopes.values_mut() {
            match found {
                Ok(entry) => self.leave_entry(entry),
                Err(error) => self.leave(error),
            }
        }
        for found in worktrees.values_mut() {
            match found {
                Ok(new) => {
                    let Worktree { path, repository, .. } = &mut new.worktree;
                    [path, repository, &mut new.cwd].into_iter().for_each(|path| self.leave(path));
                }
                Err(error) => self.leave(error),
            }
        }
        if let Some(snapshot) = snapshot {
            self.leave(&mut snapshot.folder);
            self.leave(&mut snapshot.repository);
        }
        let session = match &mut report.outcome {
            StepOutcome::Turn(TurnOutcome::Completed(turn)) => turn.session.as_mut(),
            StepOutcome::Turn(TurnOutcome::Failed(turn)) => turn.session.as_mut(),
            StepOutcome::Script(_) | StepOutcome::Interrupted { .. } => None,
        };
        session.and_then(|session| session.cwd.as_mut()).into_iter().for_each(|cwd| self.leave(cwd));
        report
    }

    fn leave_entry(&self, entry: &mut ScopeEntry) {
        self.leave(&mut entry.scope);
        if let Some(Ok(text) | Err(text)) = &mut entry.directory {
            self.leave(text);
        }
        entry.unnamed.iter_mut().for_each(|why| self.leave(why));
    }
}

pub(super) fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

pub(super) fn as_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
