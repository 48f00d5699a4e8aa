//! Makes the worktree of a worker before its first program starts, and makes it usable again after a crash.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use raymond_core::input::{Plan, ScriptOutcome, StepOutcome, TurnOutcome};
use raymond_core::money::Usd;

use super::LocalExecutor;
use super::prompt::final_fault;
use crate::git::making::{MAKING_LIMIT, begin, finish, remove_locks_from_before};
use crate::git::worktrees::refused;
use crate::git::{Git, GitError, PROGRAM, shown};
use crate::process::{
    AfterExit, Ending, Flow, OutputTail, ProgramSpec, Sink, StopSignal, TimeLimits, supervise,
};
use crate::run::job::{StepJob, WorktreeNeeds};
use crate::run::mailbox::{Message, Trouble};

/// How much of what git says is kept for an error.
const MOST_WORDS_BYTES: usize = 8 * 1024;
const MOST_LINES: usize = 20;

/// Why there is no worktree.
enum NotMade {
    Stopped,
    Failed(String),
    /// The mark could not be written, so that the next process would not know of the worktree.
    Store(Trouble),
}

/// Makes the worktree that the job needs, if it was not made before, or returns how the attempt ended instead.
pub(super) async fn make(
    executor: &LocalExecutor,
    job: &StepJob,
    stop: &StopSignal,
) -> Result<(), StepOutcome> {
    let Some(needs) = &job.needs.worktree else { return Ok(()) };
    // Several agents may work in it. The first one makes it.
    let turn = turn_of(&needs.mark);
    let _turn = turn.lock().await;
    let made = match refused(&needs.worktree, &needs.mark) {
        Some(why) => Err(NotMade::Failed(why)),
        None if needs.mark.exists() => {
            // Programs are killed when Raymond dies, or when they take too long, and git leaves its locks then.
            remove_locks_from_before(executor.began, &needs.worktree);
            return Ok(());
        }
        None => made(executor, job, needs, stop).await,
    };
    made.map_err(|error| match error {
        NotMade::Stopped => StepOutcome::Interrupted { cost: Usd::ZERO },
        NotMade::Store(error) => executor.give_up(error),
        NotMade::Failed(error) => {
            let error = format!("cannot make the worktree `{}`: {error}", needs.worktree.name);
            match &job.plan {
                Plan::Script(_) => StepOutcome::Script(ScriptOutcome::NotStarted { error }),
                Plan::Prompt(_) => StepOutcome::Turn(TurnOutcome::Failed(final_fault(error))),
            }
        }
    })
}

/// What an agent holds while it looks at a worktree, or makes it.
fn turn_of(mark: &Path) -> Arc<tokio::sync::Mutex<()>> {
    static TURNS: Mutex<BTreeMap<PathBuf, Weak<tokio::sync::Mutex<()>>>> = Mutex::new(BTreeMap::new());
    let mut turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(turn) = turns.get(mark).and_then(Weak::upgrade) {
        return turn;
    }
    turns.retain(|_, turn| turn.strong_count() > 0);
    let turn = Arc::default();
    turns.insert(mark.to_owned(), Arc::downgrade(&turn));
    turn
}

async fn made(
    executor: &LocalExecutor,
    job: &StepJob,
    WorktreeNeeds { worktree, mark }: &WorktreeNeeds,
    stop: &StopSignal,
) -> Result<(), NotMade> {
    let begun = {
        let worktree = worktree.clone();
        #[expect(clippy::disallowed_methods, reason = "git has threads of its own beside the driver")]
        let begun = tokio::task::spawn_blocking(move || begin(&worktree)).await;
        begun
    };
    let (git, arguments) = begun.unwrap_or_else(|error| Err(error.to_string())).map_err(NotMade::Failed)?;
    write_files(executor, job, &git, &arguments, stop).await?;
    finish(mark, &worktree.branch).map_err(|error| NotMade::Store(Trouble::new("write", mark, &error)))
}

/// Runs git like the program of the step: it is ended with it, and found again by its token after a crash.
async fn write_files(
    executor: &LocalExecutor,
    job: &StepJob,
    git: &Git,
    arguments: &[String],
    stop: &StopSignal,
) -> Result<(), NotMade> {
    let call = git.call(arguments).map_err(|error| NotMade::Failed(error.to_string()))?;
    if let (Some(about), Some(needs)) = (call.about_filters(), &job.needs.worktree) {
        let message = format!(
            "the worktree `{}` has its files without what their filters do: {about}",
            needs.worktree.name
        );
        executor.send(Message::Warning { agent: job.attempt.agent.clone(), message });
    }
    let mut program = ProgramSpec::new(PROGRAM, &call.folder, job.attempt.token.clone());
    program.args.clone_from(&call.arguments);
    program.env.clone_from(&call.variables);
    let limits = TimeLimits { total: Some(MAKING_LIMIT), ..TimeLimits::default() };
    let mut words = Words(OutputTail::new(MOST_WORDS_BYTES));
    let reaper = &executor.reaper;
    let done = supervise(program, limits, &mut words, stop.clone(), reaper, AfterExit::LeaveBackground).await;
    let failed = |error: GitError| Err(NotMade::Failed(call.explained(error).to_string()));
    match done.ending {
        ending if ending.is_success() => Ok(()),
        Ending::Stopped => Err(NotMade::Stopped),
        Ending::SpawnFailed(error) => Err(NotMade::Failed(error.to_string())),
        Ending::TotalTimeout => failed(GitError::TooSlow(MAKING_LIMIT)),
        _ => failed(GitError::Failed { code: None, words: shown(&words.0.last_lines(MOST_LINES)) }),
    }
}

/// Keeps the end of what git says.
struct Words(OutputTail);

impl Sink for Words {
    fn stdout(&mut self, _bytes: &[u8]) -> Flow {
        Flow::Continue
    }

    fn stderr(&mut self, bytes: &[u8]) -> Flow {
        self.0.push(bytes);
        Flow::Continue
    }
}
