//! On Unix systems that do not show the environment of other processes, a step is its process group. Each living group
//! is one entry of the table, and a signal to it reaches all its members.

use std::collections::HashSet;
use std::io;
use std::sync::OnceLock;

use rustix::process::{Pid, Signal};

use super::{Delivery, Demand, Group, Process};
use crate::process::descent::MOST_ANCESTORS;
use crate::process::{TOKEN_VARIABLE, Target};

const NO_SESSION: i32 = 0;

pub(in crate::process) fn check() -> io::Result<()> {
    Ok(())
}

/// This start of the machine. None if it cannot be told.
pub(in crate::process) fn host() -> Option<&'static str> {
    static HOST: OnceLock<Option<String>> = OnceLock::new();
    HOST.get_or_init(os_process::boot_session).as_deref()
}

/// The group that a process leads.
pub(in crate::process) fn identify(pid: i32) -> Option<Group> {
    // Where start times cannot be read, there is none to compare with later either.
    Some(Group { id: pid, session: NO_SESSION, started: os_process::start_time(pid).unwrap_or_default() })
}

/// Whether a group's number can still be its own: its leader exists, or no other process has its number.
pub(in crate::process) fn is_ours(group: &Group) -> bool {
    os_process::start_time(group.id).is_none_or(|started| started == group.started)
}

/// A signal reaches the whole group in any case.
pub(in crate::process) fn kill_group(_group: &Group) -> bool {
    false
}

/// A process and its ancestors. Only the variables of this process itself are known.
pub(in crate::process) fn ancestry(pid: i32) -> Vec<Process> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let mut ancestry = Vec::new();
    let mut next = Some(pid).filter(|pid| *pid > 0);
    while let Some(pid) = next.filter(|_| ancestry.len() < MOST_ANCESTORS) {
        let group = rustix::process::getpgid(Pid::from_raw(pid));
        let id = group.map_or(0, |group| group.as_raw_nonzero().get());
        let started = os_process::start_time(pid).unwrap_or_default();
        let token = std::env::var(TOKEN_VARIABLE).ok().filter(|_| pid == own).map(String::into_bytes);
        next = os_process::parent(pid).filter(|parent| *parent > 0);
        let group = Group { id, session: NO_SESSION, started };
        ancestry.push(Process { pid, parent: next.unwrap_or_default(), token, ..whole_group(group) });
    }
    ancestry
}

/// The open files of other processes are not looked at.
pub(in crate::process) fn holds_output(_pid: i32, _pipes: &HashSet<u64>) -> bool {
    false
}

pub(super) fn processes(targets: &[&Target]) -> io::Result<Vec<Process>> {
    let own_group = rustix::process::getpgrp().as_raw_nonzero().get();
    let others = targets
        .iter()
        .filter_map(|target| target.group)
        .filter(|group| group.id > 1 && group.id != own_group);
    Ok(others.filter(|group| is_ours(group) && is_alive(group.id)).map(whole_group).collect())
}

fn is_alive(group: i32) -> bool {
    Pid::from_raw(group).is_some_and(|group| rustix::process::test_kill_process_group(group).is_ok())
}

fn whole_group(group: Group) -> Process {
    let Group { id, session, started } = group;
    Process {
        pid: id,
        parent: 0,
        group: id,
        session,
        started,
        suspended: false,
        token: None,
        pipes: Vec::new(),
    }
}

pub(in crate::process) fn send(process: &Process, demand: Demand) -> Delivery {
    let Some(group) = Pid::from_raw(process.group) else {
        return Delivery::Gone;
    };
    let signal = match demand {
        Demand::Terminate => Signal::TERM,
        Demand::Kill => Signal::KILL,
    };
    match rustix::process::kill_process_group(group, signal) {
        Ok(()) => Delivery::Sent,
        Err(rustix::io::Errno::SRCH) => Delivery::Gone,
        Err(_) => Delivery::Refused,
    }
}
