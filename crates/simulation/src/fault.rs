//! Which faults happen, and when: every call that matters is a numbered point, and a plan says which fault happens at
//! which point.

use std::fmt;
use std::io;

use crate::program::Program;

/// The kind of call at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Site {
    /// A call to the whole store, if the run is kept in memory.
    Store,
    Read,
    Create,
    Write,
    Cut,
    Sync,
    SyncDir,
    Rename,
    Remove,
    /// Inputs were received and nothing has been decided.
    Receive,
    /// Events are committed and not yet shown.
    Publish,
    /// A program is about to start.
    Spawn,
    /// A process left by a dead Raymond is about to be ended.
    End,
    /// A call of git, or of the disk for files that are no journal.
    Effect,
}

/// What happens at a point. A fault that does not fit the point has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Raymond is killed before the call, or after it.
    Kill,
    KillAfter,
    /// Raymond is killed in the middle of a write, after this share (of 256) is written.
    KillWithin(u8),
    /// The power fails after the call. The number says what is left on the disk: 0 is only what was synced, 1 is
    /// everything.
    Power(u64),
    /// The call fails and Raymond continues.
    Refuse(Refusal),
    /// A person asks the run to stop.
    StopGently,
    StopNow,
    /// The machine that a step runs on is lost. That is told late and twice, and the step may report after all.
    LoseMachine,
    /// Raymond is killed, and a person takes the run back. The share (of 256) of the steps that have ended says to which.
    Rewind(u8),
    /// The same with a branch, which then goes on instead of the run.
    Branch(u8),
    /// Raymond is killed, and a person lets a failed agent try again. The share (of 256) says which of them.
    Retry(u8),
    /// Raymond is killed, and a person sends an agent to the state in which it goes on anyway.
    Jump(u8),
    /// The clock is changed by this many seconds.
    ClockJump(i32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    NoSpace,
    Io,
}

impl Refusal {
    pub fn error(self) -> io::Error {
        match self {
            Refusal::NoSpace => io::Error::new(io::ErrorKind::StorageFull, "simulated: no space left"),
            Refusal::Io => io::Error::other("simulated: the disk does not answer"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub at: usize,
    pub kind: Kind,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?} at point {}", self.kind, self.at)
    }
}

impl Site {
    /// Every fault that can happen at such a point.
    pub fn kinds(self) -> &'static [Kind] {
        use Kind::*;
        match self {
            Site::Write => &[
                Kill,
                KillWithin(80),
                KillWithin(255),
                KillAfter,
                Power(0),
                Power(1),
                Power(7),
                Power(8),
                Power(9),
                Refuse(Refusal::NoSpace),
            ],
            Site::Sync | Site::SyncDir => &[Kill, Power(0), Refuse(Refusal::Io)],
            Site::Create | Site::Cut | Site::Rename | Site::Remove => {
                &[Kill, KillAfter, Power(0), Power(1), Refuse(Refusal::NoSpace)]
            }
            Site::Store => &[Kill, KillAfter, Power(0), Refuse(Refusal::NoSpace)],
            Site::Read => &[Kill, Refuse(Refusal::Io)],
            Site::Receive => &[
                Kill,
                Power(0),
                StopGently,
                StopNow,
                LoseMachine,
                Rewind(0),
                Rewind(170),
                Branch(0),
                Branch(170),
                Retry(0),
                Retry(170),
                Jump(0),
                Jump(170),
                ClockJump(86_400),
                ClockJump(-3_600),
            ],
            Site::Publish => &[Kill, Power(0)],
            Site::Spawn => &[Kill, KillAfter, Power(0), Refuse(Refusal::Io)],
            Site::End => &[Kill, KillAfter, Refuse(Refusal::Io)],
            Site::Effect => &[Kill, KillAfter],
        }
    }
}

/// How Raymond ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Down {
    Killed,
    PowerCut(u64),
}

/// Counts the points and applies the plan.
#[derive(Clone, Debug, Default)]
pub struct Tape {
    plan: Vec<Fault>,
    pub sites: Vec<Site>,
    /// How many faults have happened.
    pub hits: usize,
    pub down: Option<Down>,
    /// What happened, to understand a failure; kept only if asked for.
    pub log: Option<Vec<String>>,
}

impl Tape {
    pub fn new(plan: &[Fault], keeps_log: bool) -> Self {
        Self { plan: plan.to_vec(), log: keeps_log.then(Vec::new), ..Self::default() }
    }

    /// Plans one more fault.
    pub fn plan_also(&mut self, fault: Fault) {
        self.plan.push(fault);
    }

    pub fn forget_plan(&mut self) {
        self.plan.clear();
    }

    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(line());
        }
    }

    /// Reaches a point; there are no points while Raymond is down.
    pub fn pass(&mut self, site: Site, what: impl FnOnce() -> String) -> Option<Kind> {
        let at = self.sites.len();
        self.sites.push(site);
        let is_due =
            |fault: &&Fault| fault.at == at && site.kinds().iter().any(|kind| like(*kind, fault.kind));
        let kind = self.plan.iter().find(is_due).map(|fault| fault.kind);
        self.hits += usize::from(kind.is_some());
        self.note(|| match kind {
            Some(kind) => format!("{at:5} {site:?} {}  ** {kind:?}", what()),
            None => format!("{at:5} {site:?} {}", what()),
        });
        kind
    }

    pub fn go_down(&mut self, down: Down) {
        self.down.get_or_insert(down);
    }
}

/// Whether two kinds differ only in their numbers.
fn like(one: Kind, other: Kind) -> bool {
    std::mem::discriminant(&one) == std::mem::discriminant(&other)
}

/// The error of every call after Raymond is down.
pub fn gone() -> io::Error {
    io::Error::other("simulated: this process is dead")
}

impl Kind {
    /// Whether it leaves the same state, or almost the same, as another kind at this point or the next.
    pub fn is_doubled(self, site: Site) -> bool {
        match self {
            Kind::KillAfter => !matches!(site, Site::Spawn | Site::End | Site::Store | Site::Effect),
            Kind::KillWithin(share) => share != u8::MAX,
            Kind::Rewind(share) | Kind::Branch(share) | Kind::Retry(share) | Kind::Jump(share) => share == 0,
            Kind::Power(what_stays) => site == Site::Write && matches!(what_stays, 1 | 9),
            _ => false,
        }
    }

    pub fn is_crash(self) -> bool {
        matches!(self, Kind::Kill | Kind::KillAfter | Kind::KillWithin(_) | Kind::Power(_))
    }

    /// Whether a run with this fault must have the same outcome: without syncs a run does not survive a power cut, and
    /// a worker may fail because its program cannot be started.
    pub fn suits(self, program: &Program, site: Site) -> bool {
        match self {
            Kind::Power(_) => program.is_synced,
            Kind::Refuse(_) if site == Site::Spawn => program.names_no_error,
            _ => true,
        }
    }
}
