//! What is noted about a started program, so that a later process of the run can prove that a group of processes is the
//! one that the program was started in.
//!
//! Numbers of processes and groups are used again: after a restart of the machine or of a container, and after enough
//! other processes have run. So a number alone proves nothing, and without a proof nothing is signalled.

use super::table;

/// A process group, and what distinguishes it from others with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// Its number, which is the process id of its leader.
    pub id: i32,
    /// A group cannot leave its session. Zero where sessions are not used.
    pub session: i32,
    /// When its leader started, in the system's own unit.
    pub started: u64,
}

/// What a started program is found by when Raymond itself is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    pub group: Group,
    /// The numbers of the pipes that it writes its output to; zero where they are not known.
    pub pipes: [u64; 2],
}

impl Trace {
    /// The program that this process has just started and has not waited for.
    pub(super) fn of(pid: i32, pipes: [u64; 2]) -> Option<Self> {
        Some(Trace { group: table::identify(pid)?, pipes })
    }

    /// A line that tells this to a later process; none if that process could prove nothing by it.
    pub fn to_note(self) -> Option<String> {
        let Trace { group: Group { id, session, started }, pipes: [stdout, stderr] } = self;
        let host = table::host()?;
        Some(format!("{id} {session} {started} {stdout} {stderr} {host}"))
    }

    /// Reads a note. None if it is from another start of the machine or another container: the numbers in it mean
    /// other processes here.
    pub fn from_note(note: &str) -> Option<Self> {
        let mut fields = note.splitn(6, ' ');
        let group = Group {
            id: fields.next()?.parse().ok().filter(|id| *id > 1)?,
            session: fields.next()?.parse().ok()?,
            started: fields.next()?.parse().ok()?,
        };
        let pipes = [fields.next()?.parse().ok()?, fields.next()?.parse().ok()?];
        (fields.next()? == table::host()?).then_some(Trace { group, pipes })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_note_counts_only_where_its_numbers_mean_the_same() {
        let trace = Trace { group: Group { id: 77, session: 5, started: 123 }, pipes: [8, 9] };
        let note = trace.to_note().unwrap();
        assert_eq!(Trace::from_note(&note), Some(trace));
        let host = table::host().unwrap();
        let parts: Vec<&str> = host.split(' ').collect();
        assert_eq!(parts.len(), 3, "boot, namespace and the start of its first process: {host}");
        for part in parts {
            assert_eq!(Trace::from_note(&note.replace(part, &format!("{part}1"))), None, "{part}");
        }
        for damaged in ["", "77", "77 5 123 8 9", &note[..note.len() - 1], &note.replacen("77", "1", 1)] {
            assert_eq!(Trace::from_note(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn a_process_is_identified_until_it_was_waited_for() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let group = Trace::of(pid, [0, 0]).unwrap().group;
        assert!(table::is_ours(&group));
        let reused = Group { started: group.started - 1, ..group };
        assert!(!table::is_ours(&reused), "the number belongs to another process");
        child.wait().unwrap();
        assert_eq!(Trace::of(pid, [0, 0]), None);
    }
}
