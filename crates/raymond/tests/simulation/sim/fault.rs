//! What goes wrong, and when: every call that matters is a numbered point, and a plan says what happens at which.

use std::fmt;
use std::io;

use super::program::Program;

/// What kind of call a point is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Site {
    /// The whole store is called, where the run lives in memory.
    Store,
    Read,
    Create,
    Write,
    Cut,
    Sync,
    SyncDir,
    Rename,
    Remove,
    /// Inputs were taken in and nothing has been decided.
    Receive,
    /// Events are committed and not yet shown.
    Publish,
    /// A program is about to start.
    Spawn,
    /// A leftover of a dead Raymond is about to be ended.
    End,
}

/// What happens at a point. What does not fit the point does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Raymond is killed before the call, or after it.
    Kill,
    KillAfter,
    /// Raymond is killed in the middle of a write, of which this share of 256 is done.
    KillWithin(u8),
    /// The power fails after the call; the number says what the disk still holds: 0 only what was synced, 1 all.
    Power(u64),
    /// The call fails and Raymond lives.
    Refuse(Refusal),
    /// Somebody asks the run to stop.
    StopGently,
    StopNow,
    /// The clock is set, by so many seconds.
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
    /// Everything that can go wrong at such a point.
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
            Site::Receive => &[Kill, Power(0), StopGently, StopNow, ClockJump(86_400), ClockJump(-3_600)],
            Site::Publish => &[Kill, Power(0)],
            Site::Spawn => &[Kill, KillAfter, Power(0), Refuse(Refusal::Io)],
            Site::End => &[Kill, KillAfter, Refuse(Refusal::Io)],
        }
    }
}

/// How Raymond went down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Down {
    Killed,
    PowerCut(u64),
}

/// Counts the points and carries out the plan.
#[derive(Clone, Debug, Default)]
pub struct Tape {
    plan: Vec<Fault>,
    pub sites: Vec<Site>,
    /// How many faults there were.
    pub hits: usize,
    pub down: Option<Down>,
    /// What happened, for whoever has to understand a failure; kept only when asked for.
    pub log: Option<Vec<String>>,
}

impl Tape {
    pub fn new(plan: &[Fault], keeps_log: bool) -> Self {
        Self { plan: plan.to_vec(), log: keeps_log.then(Vec::new), ..Self::default() }
    }

    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(line());
        }
    }

    /// Passes a point; while Raymond is down there is none.
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

/// Whether two kinds differ in their numbers only.
fn like(one: Kind, other: Kind) -> bool {
    std::mem::discriminant(&one) == std::mem::discriminant(&other)
}

/// What calls give back once Raymond is down.
pub fn gone() -> io::Error {
    io::Error::other("simulated: this process is dead")
}

impl Kind {
    /// Whether it leaves the same behind as another kind at this point or the next, or almost.
    pub fn is_doubled(self, site: Site) -> bool {
        match self {
            Kind::KillAfter => !matches!(site, Site::Spawn | Site::End | Site::Store),
            Kind::KillWithin(share) => share != u8::MAX,
            Kind::Power(what_stays) => site == Site::Write && matches!(what_stays, 1 | 9),
            _ => false,
        }
    }

    pub fn is_crash(self) -> bool {
        matches!(self, Kind::Kill | Kind::KillAfter | Kind::KillWithin(_) | Kind::Power(_))
    }

    /// Whether a run with it must come to the same end: without syncs no power cut is survived, and a program that
    /// cannot be started may be what a worker fails of.
    pub fn suits(self, program: &Program, site: Site) -> bool {
        match self {
            Kind::Power(_) => program.is_synced,
            Kind::Refuse(_) if site == Site::Spawn => program.names_no_error,
            _ => true,
        }
    }
}
