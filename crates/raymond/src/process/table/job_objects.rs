//! On Windows a step is its job object. Each living job is one entry of the table, and a signal to it reaches all its
//! members.

use std::collections::HashSet;
use std::io;

use super::{Delivery, Demand, Group, Process};
use crate::process::{TOKEN_VARIABLE, Target, system};

const NO_SESSION: i32 = 0;

pub(in crate::process) fn check() -> io::Result<()> {
    Ok(())
}

/// The system ends the jobs of a dead Raymond, so there is nothing to find and to prove.
pub(in crate::process) fn host() -> Option<&'static str> {
    None
}

pub(in crate::process) fn identify(pid: i32) -> Option<Group> {
    Some(Group { id: pid, session: NO_SESSION, started: 0 })
}

/// There are no process groups.
pub(in crate::process) fn is_ours(_group: &Group) -> bool {
    false
}

pub(in crate::process) fn kill_group(_group: &Group) -> bool {
    false
}

/// Only this process itself, by its own variables.
pub(in crate::process) fn ancestry(pid: i32) -> Vec<Process> {
    let is_own = u32::try_from(pid).is_ok_and(|pid| pid == std::process::id());
    let token = std::env::var(TOKEN_VARIABLE).ok().filter(|_| is_own);
    token.map(|token| whole_job(&token, pid)).into_iter().collect()
}

pub(in crate::process) fn holds_output(_pid: i32, _pipes: &HashSet<u64>) -> bool {
    false
}

pub(super) fn processes(targets: &[&Target]) -> io::Result<Vec<Process>> {
    let mut processes = Vec::new();
    for target in targets {
        let pid = system::living(&target.token)?.and_then(|pid| i32::try_from(pid).ok());
        processes.extend(pid.map(|pid| whole_job(&target.token, pid)));
    }
    Ok(processes)
}

fn whole_job(token: &str, pid: i32) -> Process {
    let token = Some(token.as_bytes().to_vec());
    Process {
        pid,
        parent: 0,
        group: pid,
        session: NO_SESSION,
        started: 0,
        suspended: false,
        token,
        pipes: Vec::new(),
    }
}

pub(in crate::process) fn send(process: &Process, demand: Demand) -> Delivery {
    let token = process.token.as_deref().and_then(|token| std::str::from_utf8(token).ok());
    let Some(token) = token else { return Delivery::Gone };
    match system::terminate(token, demand) {
        Ok(()) => Delivery::Sent,
        Err(_) => Delivery::Refused,
    }
}
