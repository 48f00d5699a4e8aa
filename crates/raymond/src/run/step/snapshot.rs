//! Keeps the files that a step has found and left, if the run takes snapshots.

use std::path::PathBuf;
use std::sync::Arc;

use raymond_core::input::StepOutcome;
use raymond_core::snapshot::FilesSnapshot;

use super::LocalExecutor;
use crate::git::snapshots::Snapshots;
use crate::run::job::StepJob;
use crate::run::mailbox::Message;

/// Comes before the program starts.
pub(super) async fn before(executor: &LocalExecutor, job: &StepJob) {
    let snapshots = executor.snapshots.as_ref().filter(|_| job.needs.takes_snapshots);
    let Some(snapshots) = snapshots else { return };
    let (step, cwd) = (job.attempt.step, PathBuf::from(&job.needs.cwd));
    let found = in_background(snapshots, move |snapshots| {
        snapshots.before_step(&cwd, step)?;
        Ok((snapshots.top_of(&cwd)?, snapshots.notes(&cwd)))
    });
    match found.await {
        Ok((top, notes)) => {
            executor.busy_folders.borrow_mut().insert(job.attempt.agent.clone(), top);
            notes.into_iter().for_each(|note| warn(executor, snapshots, job, note));
        }
        Err(error) => warn(executor, snapshots, job, error),
    }
}

/// Comes after the program has ended. Of a step that did not succeed nothing is kept.
pub(super) async fn after(
    executor: &LocalExecutor,
    job: &StepJob,
    outcome: &StepOutcome,
) -> Option<FilesSnapshot> {
    let snapshots = executor.snapshots.as_ref()?;
    let top = executor.busy_folders.borrow_mut().remove(&job.attempt.agent)?;
    if !outcome.has_succeeded() {
        return None;
    }
    let shared = executor.busy_folders.borrow().values().any(|other| *other == top);
    if shared {
        let folder = top.display();
        let message = format!(
            "several agents work in {folder} at the same time, so its snapshots may hold what others have half written; \
             give them worktrees to keep their files apart"
        );
        warn(executor, snapshots, job, message);
    }
    let (cwd, about) = (PathBuf::from(&job.needs.cwd), about(job));
    let (agent, task_folder) = (job.attempt.agent.to_string(), job.needs.task_folder.clone());
    let taken = in_background(snapshots, move |snapshots| {
        let mut taken = snapshots.after_step(&cwd, &about, shared)?;
        let kept = snapshots.of_task_folder(&cwd, (&agent, &task_folder), &about);
        let trouble = kept.map(|tree| taken.task_folder = Some(tree)).err();
        Ok((taken, trouble))
    });
    match taken.await {
        Ok((taken, trouble)) => {
            trouble.into_iter().for_each(|trouble| warn(executor, snapshots, job, trouble));
            Some(taken)
        }
        Err(error) => {
            warn(executor, snapshots, job, error);
            None
        }
    }
}

fn about(job: &StepJob) -> String {
    format!("step {}: {} in {}", job.attempt.step, job.attempt.agent, job.attempt.state)
}

/// Each problem is told once.
fn warn(executor: &LocalExecutor, snapshots: &Snapshots, job: &StepJob, message: String) {
    if snapshots.is_news(&message) {
        executor.send(Message::Warning { agent: job.attempt.agent.clone(), message });
    }
}

/// Git may take a while to read a large folder, and other steps go on meanwhile.
async fn in_background<T: Send + 'static>(
    snapshots: &Arc<Snapshots>,
    work: impl FnOnce(&Snapshots) -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let snapshots = Arc::clone(snapshots);
    #[expect(clippy::disallowed_methods, reason = "git has threads of its own beside the driver")]
    let done = tokio::task::spawn_blocking(move || work(&snapshots)).await;
    done.unwrap_or_else(|error| Err(format!("no snapshot: {error}")))
}
