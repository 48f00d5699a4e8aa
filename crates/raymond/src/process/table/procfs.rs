//! The process table of Linux, read from `/proc`.
//!
//! Bounds: two small reads for each process and scan, with one buffer that is reused. Recovery also reads the links of
//! its open files.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

use rustix::process::{Pid, PidfdFlags, Signal};

use super::{Delivery, Demand, Group, Process};
use crate::files::{MAX_GIVEN_BYTES, open_plain, read as read_all, read_text};
use crate::process::descent::MOST_ANCESTORS;
use crate::process::{TOKEN_VARIABLE, Target};

/// The kernel allows no more than 6 MiB for arguments and environment together.
const MAX_ENVIRONMENT_BYTES: u64 = 8 * 1024 * 1024;

/// `/proc/PID/stat` has a few hundred bytes.
const MAX_STAT_BYTES: u64 = 4096;

/// The flag of kernel threads (`PF_KTHREAD`), which have no environment.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Whether the process table can be read at all.
pub(in crate::process) fn check() -> io::Result<()> {
    read_all(Path::new("/proc/self/stat"), MAX_GIVEN_BYTES).map(drop).map_err(|error| {
        let reason =
            format!("cannot read the process table, because /proc/self/stat is not readable: {error}");
        io::Error::new(error.kind(), reason)
    })
}

/// What the numbers of processes mean something in: this start of the machine, this pid namespace, and the start of the
/// namespace's first process, because a restarted container may get the same namespace number. None if it cannot be told.
pub(in crate::process) fn host() -> Option<&'static str> {
    static HOST: OnceLock<Option<String>> = OnceLock::new();
    let read = || {
        let boot = read_text(Path::new("/proc/sys/kernel/random/boot_id"), MAX_GIVEN_BYTES).ok()?;
        let namespace = fs::metadata("/proc/self/ns/pid").ok()?.ino();
        let first_started = stat_of(1).ok()??.started;
        Some(format!("{} {namespace} {first_started}", boot.trim()))
    };
    HOST.get_or_init(read).as_deref()
}

/// The group that a process leads. A zombie can be identified, too.
pub(in crate::process) fn identify(pid: i32) -> Option<Group> {
    let stat = stat_of(pid).ok()??;
    Some(Group { id: pid, session: stat.session, started: stat.started })
}

/// Whether a group's number can still be its own: its leader exists, or no other process has its number. While a group
/// has members, its number is given to no new process.
pub(in crate::process) fn is_ours(group: &Group) -> bool {
    match stat_of(group.id) {
        Ok(Some(leader)) => leader.started == group.started,
        Ok(None) => true,
        Err(_) => false,
    }
}

/// Kills all members at once, so that none of them can start another process before its own end. Returns whether there
/// were any; a zombie counts.
pub(in crate::process) fn kill_group(group: &Group) -> bool {
    let Some(id) = Pid::from_raw(group.id).filter(|id| !id.is_init()) else { return false };
    is_ours(group) && !is_own(group) && rustix::process::kill_process_group(id, Signal::KILL).is_ok()
}

/// Whether this process is in the group: a step may itself resume the run that it was a part of.
fn is_own(group: &Group) -> bool {
    // Not asked by `getpgrp`, which panics if the leader is outside this pid namespace.
    let own = stat_of(rustix::process::getpid().as_raw_nonzero().get());
    !own.is_ok_and(|own| own.is_some_and(|own| own.group != group.id))
}

fn stat_of(pid: i32) -> io::Result<Option<Stat>> {
    let mut buffer = Vec::with_capacity(512);
    let is_there = read(pid, "stat", MAX_STAT_BYTES, &mut buffer)?;
    Ok(if is_there { Stat::parse(&buffer) } else { None })
}

pub(super) fn processes(targets: &[&Target]) -> io::Result<Vec<Process>> {
    let own_pid = rustix::process::getpid().as_raw_nonzero().get();
    let pipes: HashSet<u64> = targets.iter().flat_map(|target| &target.pipes).copied().collect();
    let mut buffer = Vec::with_capacity(16 * 1024);
    let mut processes = Vec::new();
    for pid in pids()? {
        let pid = pid?;
        if pid == 1 || pid == own_pid {
            continue;
        }
        if let Some(mut process) = process(pid, &mut buffer)? {
            process.pipes = open_pipes(pid, &pipes)?;
            processes.push(process);
        }
    }
    Ok(processes)
}

fn pids() -> io::Result<impl Iterator<Item = io::Result<i32>>> {
    Ok(fs::read_dir("/proc")?.filter_map(|entry| match entry {
        Ok(entry) => entry.file_name().to_str()?.parse().ok().map(Ok),
        Err(error) => Some(Err(error)),
    }))
}

/// The children of a process that have ended and were not waited for.
pub(in crate::process) fn zombies_of(parent: Pid) -> Vec<Pid> {
    let parent = parent.as_raw_nonzero().get();
    let is_zombie = |stat: &Stat| stat.parent == parent && stat.state == b'Z' && !stat.is_living_program();
    let zombie = |pid: i32| stat_of(pid).ok()?.filter(is_zombie).and_then(|_| Pid::from_raw(pid));
    pids().into_iter().flatten().filter_map(|pid| zombie(pid.ok()?)).collect()
}

/// A process and its ancestors, as far as they can be seen; the process itself comes first.
pub(in crate::process) fn ancestry(pid: i32) -> Vec<Process> {
    let mut buffer = Vec::with_capacity(16 * 1024);
    let mut ancestry = Vec::new();
    let mut next = pid;
    while next > 0 && ancestry.len() < MOST_ANCESTORS {
        let Ok(Some(process)) = process(next, &mut buffer) else { break };
        next = process.parent;
        ancestry.push(process);
    }
    ancestry
}

/// Whether a process has one of these pipes open.
pub(in crate::process) fn holds_output(pid: i32, pipes: &HashSet<u64>) -> bool {
    open_pipes(pid, pipes).is_ok_and(|open| !open.is_empty())
}

fn process(pid: i32, buffer: &mut Vec<u8>) -> io::Result<Option<Process>> {
    if !read(pid, "stat", MAX_STAT_BYTES, buffer)? {
        return Ok(None);
    }
    let Some(stat) = Stat::parse(buffer).filter(Stat::is_living_program) else {
        return Ok(None);
    };
    // The environment of another user's process is not readable. The process may belong to the step all the same.
    let token = if read(pid, "environ", MAX_ENVIRONMENT_BYTES, buffer)? { token_in(buffer) } else { None };
    let Stat { state, parent, group, session, started, .. } = stat;
    let suspended = state == b'T';
    Ok(Some(Process { pid, parent, group, session, started, suspended, token, pipes: Vec::new() }))
}

/// Which of the wanted pipes a process has open. The open files of another user's process are not readable.
fn open_pipes(pid: i32, wanted: &HashSet<u64>) -> io::Result<Vec<u64>> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let entries = match fs::read_dir(format!("/proc/{pid}/fd")) {
        Err(error) if is_resource_shortage(&error) => return Err(error),
        Err(_) => return Ok(Vec::new()),
        Ok(entries) => entries,
    };
    let links = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    let pipes = links.filter_map(|link| {
        let number = link.to_str()?.strip_prefix("pipe:[")?.strip_suffix(']')?;
        number.parse().ok().filter(|pipe| wanted.contains(pipe))
    });
    Ok(pipes.collect())
}

/// Returns whether the file could be read. Processes end during a scan, and some files may not be read. But if *we* have
/// run out of file descriptors or memory, the scan would miss processes, so that is an error.
fn read(pid: i32, file: &str, limit: u64, buffer: &mut Vec<u8>) -> io::Result<bool> {
    buffer.clear();
    let path = format!("/proc/{pid}/{file}");
    match open_plain(Path::new(&path)).and_then(|file| file.take(limit).read_to_end(buffer)) {
        Ok(_) => Ok(true),
        Err(error) if is_resource_shortage(&error) => Err(error),
        Err(_) => Ok(false),
    }
}

fn is_resource_shortage(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOMEM].map(|errno| Some(errno.raw_os_error()));
    shortages.contains(&error.raw_os_error())
}

fn token_in(environment: &[u8]) -> Option<Vec<u8>> {
    environment.split(|byte| *byte == 0).find_map(|variable| {
        let value = variable.strip_prefix(TOKEN_VARIABLE.as_bytes())?.strip_prefix(b"=")?;
        Some(value.to_vec())
    })
}

/// The parts of `/proc/PID/stat` that matter here.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    state: u8,
    parent: i32,
    group: i32,
    session: i32,
    flags: u64,
    threads: u64,
    started: u64,
}

impl Stat {
    /// The second field is the program's name in parentheses. The name may contain spaces and parentheses itself.
    fn parse(line: &[u8]) -> Option<Stat> {
        let name_end = line.iter().rposition(|byte| *byte == b')')?;
        let fields = std::str::from_utf8(&line[name_end + 1..]).ok()?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        // `man 5 proc` counts from one, and `fields` begins with the third field.
        let field = |number: usize| fields.get(number - 3).copied();
        Some(Stat {
            state: *field(3)?.as_bytes().first()?,
            parent: field(4)?.parse().ok()?,
            group: field(5)?.parse().ok()?,
            session: field(6)?.parse().ok()?,
            flags: field(9)?.parse().ok()?,
            threads: field(20)?.parse().ok()?,
            started: field(22)?.parse().ok()?,
        })
    }

    /// A process whose first thread has ended is shown as a zombie while its other threads still run.
    fn is_living_program(&self) -> bool {
        let is_dead = matches!(self.state, b'Z' | b'X' | b'x') && self.threads <= 1;
        !is_dead && self.flags & KERNEL_THREAD == 0
    }
}

/// Signals exactly the process that was scanned, not another one that got its pid later.
pub(in crate::process) fn send(process: &Process, demand: Demand) -> Delivery {
    let Some(pid) = Pid::from_raw(process.pid) else {
        return Delivery::Gone;
    };
    let signal = match demand {
        Demand::Terminate => Signal::TERM,
        Demand::Kill => Signal::KILL,
    };
    let delivery = send_signal(process, pid, signal);
    if process.suspended && demand == Demand::Terminate && delivery == Delivery::Sent {
        send_signal(process, pid, Signal::CONT);
    }
    delivery
}

/// The pidfd is opened before the start time is compared, so it cannot belong to another process. Without pidfds (old
/// kernels, some sandboxes) there is a very short race.
fn send_signal(process: &Process, pid: Pid, signal: Signal) -> Delivery {
    let handle = rustix::process::pidfd_open(pid, PidfdFlags::empty());
    if !is_still(process) {
        return Delivery::Gone;
    }
    let sent = match handle {
        Ok(handle) => rustix::process::pidfd_send_signal(handle, signal),
        Err(error) => Err(error),
    };
    match sent.or_else(|_| rustix::process::kill_process(pid, signal)) {
        Ok(()) => Delivery::Sent,
        Err(rustix::io::Errno::SRCH) => Delivery::Gone,
        Err(_) => Delivery::Refused,
    }
}

fn is_still(process: &Process) -> bool {
    match stat_of(process.pid) {
        Ok(stat) => stat.is_some_and(|stat| stat.started == process.started),
        // Without an answer, assume that the process that was just scanned still exists.
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "4242 (a ) b (c) R 10 20 30 34816 30 4194304 1 0 0 0 0 0 0 0 20 0 3 0 987654 1 2 3";

    #[test]
    fn a_name_with_parentheses_does_not_confuse_the_fields() {
        let stat = Stat::parse(LINE.as_bytes()).unwrap();
        assert_eq!((stat.state, stat.parent, stat.group, stat.session), (b'R', 10, 20, 30));
        assert_eq!((stat.flags, stat.threads, stat.started), (4_194_304, 3, 987_654));
        assert!(stat.is_living_program());
    }

    #[test]
    fn a_torn_line_is_no_process() {
        for length in 0..LINE.find("987654").unwrap() {
            assert_eq!(Stat::parse(&LINE.as_bytes()[..length]), None);
        }
    }

    #[test]
    fn a_zombie_is_dead_unless_other_threads_live_on() {
        let threaded = LINE.replace(" R ", " Z ");
        assert!(Stat::parse(threaded.as_bytes()).unwrap().is_living_program());
        let dead = threaded.replace(" 0 3 0 ", " 0 1 0 ");
        assert!(!Stat::parse(dead.as_bytes()).unwrap().is_living_program());
    }

    #[test]
    fn the_token_is_the_whole_value_of_the_whole_name() {
        let environment = b"XRAYMOND_STEP_TOKEN=no\0RAYMOND_STEP_TOKENS=no\0RAYMOND_STEP_TOKEN=yes=1\0A=b\0";
        assert_eq!(token_in(environment).unwrap(), b"yes=1");
        assert_eq!(token_in(b""), None);
    }

    #[test]
    fn we_are_not_in_our_own_table() {
        let own_pid = i32::try_from(std::process::id()).unwrap();
        let processes = processes(&[]).unwrap();
        assert!(processes.iter().all(|process| process.pid != own_pid && process.pid != 1));
    }
}
