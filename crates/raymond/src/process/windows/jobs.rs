//! The jobs of all steps of this process, by their tokens.
//!
//! Bounds: a job is kept while its step runs, and after that for as long as any of its processes lives.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use os_process::{Job, Member, send_ctrl_break};
use tokio::process::Child;

use crate::process::table::Demand;

/// How many jobs of steps that are over are looked at when a new one begins. More than one, so that they get fewer.
const LOOKED_AT: usize = 2;

static JOBS: LazyLock<Mutex<Jobs>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Jobs {
    by_token: HashMap<String, StepJob>,
    /// Those whose steps are over and whose background children may live on.
    left: VecDeque<String>,
}

struct StepJob {
    job: Job,
    /// What the step began with.
    program: Member,
}

/// What is said here stays true whatever happened to another thread.
fn jobs() -> MutexGuard<'static, Jobs> {
    JOBS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name under which a successor of this process would find the job.
pub(super) fn name_of(token: &str) -> String {
    format!("Local\\raymond-step-{token}")
}

/// Puts a suspended program into a new job, and lets it run.
pub(in crate::process) fn begin(child: &Child, token: &str) -> io::Result<()> {
    let job = Job::create(Some(&name_of(token)))?;
    let program = job.assign_and_resume(child)?;
    let mut jobs = jobs();
    jobs.forget_the_empty();
    jobs.by_token.insert(token.to_owned(), StepJob { job, program });
    Ok(())
}

impl Jobs {
    fn forget_the_empty(&mut self) {
        for _ in 0..LOOKED_AT.min(self.left.len()) {
            let Some(token) = self.left.pop_front() else { return };
            match self.by_token.get(&token) {
                Some(step) if matches!(step.job.any_member(), Ok(Some(_))) => self.left.push_back(token),
                _ => drop(self.by_token.remove(&token)),
            }
        }
    }
}

/// A step has succeeded; its background children are no concern of this process any more.
pub(in crate::process) fn let_live(token: &str) {
    let mut jobs = jobs();
    let Some(step) = jobs.by_token.get(token) else { return };
    // A job that cannot be asked is kept, and so are its children for as long as this process lives.
    let is_empty = matches!(step.job.any_member(), Ok(None));
    if is_empty {
        jobs.by_token.remove(token);
    } else {
        let _ = step.job.outlive_handles();
        jobs.left.push_back(token.to_owned());
    }
}

/// A number for a step that lives: that of the program it began with or, where only its name is known, of another
/// of its processes.
pub(in crate::process) fn living(token: &str) -> io::Result<Option<u32>> {
    let mut jobs = jobs();
    let Some(step) = jobs.by_token.get(token) else {
        let left_over = Job::open(&name_of(token))?;
        return left_over.map_or(Ok(None), |job| job.any_member());
    };
    if step.job.any_member()?.is_some() {
        return Ok(Some(step.program.pid()));
    }
    jobs.by_token.remove(token);
    Ok(None)
}

/// Ends a step, or asks it to; where it cannot be asked, it is ended.
pub(in crate::process) fn terminate(token: &str, demand: Demand) -> io::Result<()> {
    let jobs = jobs();
    match jobs.by_token.get(token) {
        Some(step) if demand == Demand::Terminate && send_ctrl_break(step.program.pid()).is_ok() => Ok(()),
        Some(step) => step.job.terminate(),
        None => Job::open(&name_of(token))?.map_or(Ok(()), |job| job.terminate()),
    }
}
