//! A snapshot of the living processes, and which of them belong to a step.
//!
//! A process belongs to a step if it is in the step's cgroup, or has the step's token in its environment, or is in the
//! step's process group, or was already known to belong to it, or is a descendant of such a process. Recovery also finds it by the step's output
//! pipes, if it still holds one.
//!
//! What this cannot find where there are no cgroups: a process that left its process group, cleared its environment *and* lost its parent before
//! the first scan, and, at recovery, also closed its output; and processes that other services run for the step (a
//! container's daemon, `at`, `cron`). On Unix systems without `/proc` only the process group is known. On Windows a step
//! is a job object, which no process can leave.
//!
//! Raymond itself and process 1 are never in the table. So they are never signalled, and their other descendants do not
//! belong to a step.

#[cfg(windows)]
mod job_objects;
#[cfg(all(unix, not(target_os = "linux")))]
mod process_groups;
#[cfg(target_os = "linux")]
mod procfs;

#[cfg(windows)]
use job_objects as system;
#[cfg(all(unix, not(target_os = "linux")))]
use process_groups as system;
#[cfg(target_os = "linux")]
use procfs as system;

use std::collections::{HashMap, HashSet};
use std::io;

#[cfg(target_os = "linux")]
pub(super) use system::zombies_of;
pub(super) use system::{ancestry, check, holds_output, host, identify, is_ours, kill_group, send};

use super::reaper::Target;
use super::trace::Group;

/// One living process. A zombie is dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    /// In clock ticks since the system started; together with the pid it identifies a process.
    pub(super) started: u64,
    /// Stopped by SIGSTOP or SIGTSTP, so that it handles SIGTERM only after SIGCONT.
    pub(super) suspended: bool,
    pub(super) token: Option<Vec<u8>>,
    /// Those of the pipes that are looked for which it has open.
    pub(super) pipes: Vec<u64>,
}

/// How a process is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Demand {
    Terminate,
    Kill,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    Sent,
    Gone,
    Refused,
}

/// The processes that were alive during a scan.
pub(super) struct Table {
    processes: Vec<Process>,
    by_pid: HashMap<i32, usize>,
    by_token: HashMap<Vec<u8>, Vec<usize>>,
    by_group: HashMap<i32, Vec<usize>>,
    by_parent: HashMap<i32, Vec<usize>>,
    by_pipe: HashMap<u64, Vec<usize>>,
    /// The numbers of the processes in each cgroup, by its name.
    by_cgroup: HashMap<String, Vec<i32>>,
    /// The groups of targets whose numbers were not given to others.
    proven: HashSet<Group>,
}

impl Table {
    /// Scans the system's processes once. `targets` are all targets that will be passed to [`Table::members`].
    pub(super) fn scan(targets: &[&Target]) -> io::Result<Self> {
        let processes = system::processes(targets)?;
        // Checked after the scan: a number that was given away before or during it shows now.
        let groups = targets.iter().filter_map(|target| target.group);
        let mut table = Table::new(processes, groups.filter(system::is_ours).collect());
        // Also after the scan: a number that was given to another process meanwhile finds the process that had it before,
        // which is gone and gets no signal.
        let cgroups = targets.iter().filter_map(|target| target.cgroup.as_ref());
        table.by_cgroup = cgroups.map(|cgroup| (cgroup.name().to_owned(), cgroup.pids())).collect();
        Ok(table)
    }

    fn new(processes: Vec<Process>, proven: HashSet<Group>) -> Self {
        let mut table = Table {
            processes: Vec::new(),
            by_pid: HashMap::with_capacity(processes.len()),
            by_token: HashMap::new(),
            by_group: HashMap::new(),
            by_parent: HashMap::new(),
            by_pipe: HashMap::new(),
            by_cgroup: HashMap::new(),
            proven,
        };
        for (index, process) in processes.iter().enumerate() {
            table.by_pid.insert(process.pid, index);
            table.by_group.entry(process.group).or_default().push(index);
            table.by_parent.entry(process.parent).or_default().push(index);
            if let Some(token) = &process.token {
                table.by_token.entry(token.clone()).or_default().push(index);
            }
            for pipe in &process.pipes {
                table.by_pipe.entry(*pipe).or_default().push(index);
            }
        }
        table.processes = processes;
        table
    }

    /// All processes of the targets, the oldest first, so that parents are usually signalled before their children.
    pub(super) fn members(
        &self,
        targets: &[Target],
        known: impl Iterator<Item = (i32, u64)>,
    ) -> Vec<&Process> {
        let mut open: Vec<usize> = known.filter_map(|(pid, started)| self.find(pid, started)).collect();
        for target in targets {
            open.extend(self.by_token.get(target.token.as_bytes()).into_iter().flatten());
            open.extend(self.in_cgroup(target));
            open.extend(self.in_group(target));
            open.extend(self.holding_pipes(target));
        }
        let mut found = HashSet::new();
        while let Some(index) = open.pop() {
            if found.insert(index) {
                open.extend(self.by_parent.get(&self.processes[index].pid).into_iter().flatten());
            }
        }
        let mut members: Vec<&Process> = found.into_iter().map(|index| &self.processes[index]).collect();
        members.sort_by_key(|process| (process.started, process.pid));
        members
    }

    fn find(&self, pid: i32, started: u64) -> Option<usize> {
        self.by_pid.get(&pid).copied().filter(|index| self.processes[*index].started == started)
    }

    fn in_cgroup(&self, target: &Target) -> impl Iterator<Item = usize> {
        let pids = target.cgroup.as_ref().and_then(|cgroup| self.by_cgroup.get(cgroup.name()));
        pids.into_iter().flatten().filter_map(|pid| self.by_pid.get(pid)).copied()
    }

    fn in_group(&self, target: &Target) -> impl Iterator<Item = usize> {
        let group = target.group.filter(|group| self.proven.contains(group));
        let indices = group.and_then(|group| self.by_group.get(&group.id));
        indices.into_iter().flatten().copied().filter(|index| self.fits(*index, target))
    }

    /// A process may have left the group, so its session says nothing.
    fn holding_pipes(&self, target: &Target) -> impl Iterator<Item = usize> {
        let indices = target.pipes.iter().filter_map(|pipe| self.by_pipe.get(pipe)).flatten().copied();
        let leader_started = target.group.map_or(u64::MAX, |group| group.started);
        indices.filter(move |index| {
            let process = &self.processes[*index];
            process.started >= leader_started && !is_of_another_step(process, target)
        })
    }

    /// Whether a process in the target's group can be the target's.
    fn fits(&self, index: usize, target: &Target) -> bool {
        let process = &self.processes[index];
        target.group.is_some_and(|group| process.session == group.session && process.started >= group.started)
            && !is_of_another_step(process, target)
    }

    /// The target's group, if it can be killed as a whole: every process in it is the target's.
    pub(super) fn whole_group(&self, target: &Target) -> Option<Group> {
        let group = target.group.filter(|group| self.proven.contains(group))?;
        let members = self.by_group.get(&group.id).into_iter().flatten();
        members.copied().all(|index| self.fits(index, target)).then_some(group)
    }
}

/// A process with the token of another step belongs to that step.
fn is_of_another_step(process: &Process, target: &Target) -> bool {
    process.token.as_ref().is_some_and(|token| token != target.token.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, group: i32, session: i32, token: &str) -> Process {
        let token = (!token.is_empty()).then(|| token.as_bytes().to_vec());
        let started = u64::from(pid.unsigned_abs());
        Process { pid, parent, group, session, started, suspended: false, token, pipes: Vec::new() }
    }

    const GROUP: Group = Group { id: 10, session: 5, started: 10 };

    fn table(processes: Vec<Process>) -> Table {
        Table::new(processes, HashSet::from([GROUP]))
    }

    fn pids(table: &Table, target: &Target, known: &[(i32, u64)]) -> Vec<i32> {
        let targets = std::slice::from_ref(target);
        table.members(targets, known.iter().copied()).iter().map(|process| process.pid).collect()
    }

    fn target(token: &str, group: Option<Group>) -> Target {
        Target { group, ..Target::by_token(token) }
    }

    #[test]
    fn members_are_found_by_token_group_descent_and_memory() {
        let table = table(vec![
            process(10, 5, 10, 5, "a"),   // the program
            process(11, 10, 11, 11, ""),  // its child in another session, without an environment
            process(12, 11, 11, 11, "b"), // a step of a Raymond started by the step
            process(13, 1, 10, 5, ""),    // an orphan in its group
            process(14, 1, 14, 14, "a"),  // an orphan in another session
            process(15, 1, 15, 15, ""),   // an orphan known from before
            process(20, 5, 20, 5, "ab"),  // another step, whose token only starts alike
            process(21, 20, 20, 5, ""),
        ]);
        assert_eq!(pids(&table, &target("a", Some(GROUP)), &[(15, 15)]), [10, 11, 12, 13, 14, 15]);
        assert_eq!(pids(&table, &target("a", None), &[(15, 99)]), [10, 11, 12, 14]);
        assert_eq!(pids(&table, &target("none", None), &[]), [] as [i32; 0]);
        assert_eq!(table.whole_group(&target("a", Some(GROUP))), Some(GROUP));
    }

    #[test]
    fn a_group_number_given_to_someone_else_is_not_trusted() {
        let ours = target("a", Some(GROUP));
        for stranger in [
            process(11, 1, 10, 7, ""),      // in another session
            process(11, 5, 10, 5, "other"), // of another step
            process(9, 5, 10, 5, ""),       // older than the group's leader
        ] {
            let table = table(vec![stranger]);
            assert_eq!(pids(&table, &ours, &[]), [] as [i32; 0]);
            assert_eq!(table.whole_group(&ours), None);
        }
        let unproven = Table::new(vec![process(11, 1, 10, 5, "")], HashSet::new());
        assert_eq!(pids(&unproven, &ours, &[]), [] as [i32; 0]);
        assert_eq!(unproven.whole_group(&ours), None);
    }

    #[test]
    fn what_holds_the_output_of_a_step_belongs_to_it() {
        let holding = |pid, token| Process { pipes: vec![700], ..process(pid, 1, pid, pid, token) };
        let ours = Target { pipes: vec![700, 701], ..target("a", Some(GROUP)) };
        let table =
            table(vec![holding(30, ""), holding(31, "other"), holding(9, ""), process(32, 1, 32, 32, "")]);
        assert_eq!(pids(&table, &ours, &[]), [30], "not another step's, nor one that is older");
        assert_eq!(
            pids(&table, &target("a", Some(GROUP)), &[]),
            [] as [i32; 0],
            "only if pipes are looked for"
        );
    }
}
