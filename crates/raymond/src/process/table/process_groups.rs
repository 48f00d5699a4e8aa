//! On Unix systems that do not show the environment of other processes, a step is its process group. Each living group
//! is one entry of the table, and a signal to it reaches all its members.

use std::io;

use rustix::process::{Pid, Signal};

use super::{Delivery, Demand, Process};
use crate::process::Target;

const NO_SESSION: i32 = 0;

pub(in crate::process) fn check() -> io::Result<()> {
    Ok(())
}

/// Sessions are not used here.
pub(super) fn own_session() -> io::Result<i32> {
    Ok(NO_SESSION)
}

pub(super) fn processes(targets: &[&Target]) -> io::Result<Vec<Process>> {
    let own_group = rustix::process::getpgrp().as_raw_nonzero().get();
    let others =
        targets.iter().filter_map(|target| target.group).filter(|group| *group > 1 && *group != own_group);
    Ok(others.filter(|group| is_alive(*group)).map(whole_group).collect())
}

fn is_alive(group: i32) -> bool {
    Pid::from_raw(group).is_some_and(|group| rustix::process::test_kill_process_group(group).is_ok())
}

fn whole_group(group: i32) -> Process {
    Process { pid: group, parent: 0, group, session: NO_SESSION, started: 0, suspended: false, token: None }
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
