//! Whether a process was started by a step of a run, also if it hides that.
//!
//! A process can drop any variable, leave its session and its group, and lose its parent. It cannot change who its
//! ancestors were while they live, nor what is in their environment. So all of these count, of the process itself and of
//! each living ancestor: the token of a step, a cgroup of the run, the group of a step, its output pipe, and the process
//! that carries out the run. On Linux that process adopts what loses its parent ([`adopt_orphans`](super::adopt_orphans)).
//!
//! What cannot be told where there are no cgroups: a process that has lost its parent *and* left its group, its variables
//! and its output, once the process that carries out the run has ended; and what another service runs for a step (a
//! container's daemon, `at`, `cron`). On Unix systems without `/proc`, ancestors are known but not their variables; on
//! Windows only the caller's own variables.

use std::path::PathBuf;

use super::cgroup;
use super::table::{self, Process};
use super::trace::Trace;

/// More ancestors are not looked at. A table that changes meanwhile could lead in a circle.
#[cfg(unix)]
pub(super) const MOST_ANCESTORS: usize = 1024;

/// What the processes of a run's steps are known by.
#[derive(Clone, Debug, Default)]
pub struct RunMarks {
    pub run: String,
    /// What the tokens of all its steps begin with.
    pub token_prefix: String,
    /// The folder for files of its steps, in which its cgroups are noted.
    pub scratch: Option<PathBuf>,
    /// The programs of its steps, as far as they are known.
    pub traces: Vec<Trace>,
    /// The process that carries it out now.
    pub driver: Option<i32>,
}

/// By what a process was found to belong to a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    Token,
    Cgroup,
    Group,
    Output,
    Driver,
}

/// By what a process belongs to the steps of a run; nothing if it does not, or if that cannot be told.
pub fn sign_of(pid: i32, marks: &RunMarks) -> Option<Sign> {
    let ancestry = table::ancestry(pid);
    let mut foreign = false;
    for process in &ancestry {
        match &process.token {
            Some(token) if token.starts_with(marks.token_prefix.as_bytes()) => return Some(Sign::Token),
            Some(_) => foreign = true,
            None => {}
        }
    }
    if is_in_cgroup(pid, marks, foreign) {
        return Some(Sign::Cgroup);
    }
    if ancestry.iter().any(|process| marks.traces.iter().any(|trace| is_in_group(process, trace))) {
        return Some(Sign::Group);
    }
    // The process that carries out the run reads from the pipes, so it is not looked at.
    let below: Vec<&Process> =
        ancestry.iter().take_while(|process| Some(process.pid) != marks.driver).collect();
    let pipes = marks.traces.iter().flat_map(|trace| trace.pipes).filter(|pipe| *pipe != 0).collect();
    if below.iter().any(|process| table::holds_output(process.pid, &pipes)) {
        return Some(Sign::Output);
    }
    (below.len() < ancestry.len() && !below.is_empty()).then_some(Sign::Driver)
}

/// Whether a process or one of its ancestors has the token of any step, of whatever run.
pub fn has_token(pid: i32) -> bool {
    table::ancestry(pid).iter().any(|process| process.token.is_some())
}

/// A cgroup of an earlier process of the run is known by the run's id alone. So it does not count for a step of another
/// run, which may have the same id in another project.
fn is_in_cgroup(pid: i32, marks: &RunMarks, is_of_another: bool) -> bool {
    let Some(scratch) = &marks.scratch else { return false };
    let run = (!is_of_another).then_some(marks.run.as_str());
    cgroup::holds(scratch, run, pid)
}

fn is_in_group(process: &Process, Trace { group, .. }: &Trace) -> bool {
    process.group == group.id
        && process.session == group.session
        && process.started >= group.started
        && table::is_ours(group)
}
