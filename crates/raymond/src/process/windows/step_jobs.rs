//! The job objects of all steps of this process, by their tokens.
//!
//! Bounds: a job is kept while its step runs, and after that while any of its processes lives.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use os_process::{Job, Member, send_ctrl_break};
use tokio::process::Child;

use crate::process::table::Demand;

/// How many jobs of finished steps are checked when a step begins. More than one, so that their number decreases.
const CHECKED_AT_ONCE: usize = 2;

static JOBS: LazyLock<Mutex<Jobs>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Jobs {
    by_token: HashMap<String, StepJob>,
    /// The jobs of finished steps whose background children may still run.
    finished: VecDeque<String>,
}

struct StepJob {
    job: Job,
    /// The program that the step started.
    program: Member,
}

/// A panic in another thread leaves the map valid.
fn jobs() -> MutexGuard<'static, Jobs> {
    JOBS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name by which a later Raymond finds the job.
pub(super) fn name_of(token: &str) -> String {
    format!("Local\\raymond-step-{token}")
}

/// Puts a suspended program into a new job, and lets it run.
pub(in crate::process) fn begin(child: &Child, token: &str) -> io::Result<()> {
    let job = Job::create(Some(&name_of(token)))?;
    let program = job.assign_and_resume(child)?;
    let mut jobs = jobs();
    jobs.remove_empty();
    jobs.by_token.insert(token.to_owned(), StepJob { job, program });
    Ok(())
}

impl Jobs {
    fn remove_empty(&mut self) {
        for _ in 0..CHECKED_AT_ONCE.min(self.finished.len()) {
            let Some(token) = self.finished.pop_front() else { return };
            match self.by_token.get(&token) {
                Some(step) if matches!(step.job.any_member(), Ok(Some(_))) => self.finished.push_back(token),
                _ => drop(self.by_token.remove(&token)),
            }
        }
    }
}

/// The step has succeeded, and its background children may outlive this process.
pub(in crate::process) fn let_live(token: &str) {
    let mut jobs = jobs();
    let Some(step) = jobs.by_token.get(token) else { return };
    // If the members are not known, the job is kept.
    let is_empty = matches!(step.job.any_member(), Ok(None));
    if is_empty {
        jobs.by_token.remove(token);
    } else {
        let _ = step.job.outlive_handles();
        jobs.finished.push_back(token.to_owned());
    }
}

/// The process id of a living step: that of its program or, for a job of an earlier Raymond, of any member. `None` if no
/// process of the step lives.
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

/// Ends a step or asks it to end. If it cannot be asked, it is ended.
pub(in crate::process) fn terminate(token: &str, demand: Demand) -> io::Result<()> {
    let jobs = jobs();
    match jobs.by_token.get(token) {
        Some(step) if demand == Demand::Terminate && send_ctrl_break(step.program.pid()).is_ok() => Ok(()),
        Some(step) => step.job.terminate(),
        None => Job::open(&name_of(token))?.map_or(Ok(()), |job| job.terminate()),
    }
}
