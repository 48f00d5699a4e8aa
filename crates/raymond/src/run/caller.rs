//! Who asks for something that only a person may decide: to answer a question, or to go back.
//!
//! A step may not do that for its own run, nor for a run that goes on from it: such a branch has the same questions. It may
//! not have a process started in its place either, which would not be known for one of the step any more. Whether the caller is a process of a step is found out from the process itself
//! ([`process::sign_of`]), never from something that a step can leave out. [`Outside`] is the proof that it is not; what
//! only a person may do asks for one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use raymond_core::run::Run;

use crate::error::UserError;
use crate::process::{self, Blind, RunMarks};
use crate::run::job::token_prefix;
use crate::run::step::traces;
use crate::store::{Holder, RunHandle, RunStore};

/// The process that asks.
#[derive(Clone, Copy, Debug, Default)]
pub enum Caller {
    /// This one.
    Own,
    /// The one at the other end of a connection to this machine.
    #[cfg(target_os = "linux")]
    Connected(process::Connection),
    /// It is on another machine, or cannot be told here.
    #[default]
    Unknown,
}

/// The proof that a caller is not inside a step of a run.
#[derive(Debug)]
pub struct Outside {
    run: String,
}

impl Outside {
    /// Whether this is a proof for the run.
    pub fn is_of(&self, run: &str) -> bool {
        self.run == run
    }
}

impl Caller {
    /// The one at the other end of a connection.
    pub fn connected(peer: SocketAddr, own: SocketAddr) -> Self {
        #[cfg(target_os = "linux")]
        return Self::Connected(process::Connection { peer, own });
        #[cfg(not(target_os = "linux"))]
        {
            let _ = (peer, own);
            Self::Unknown
        }
    }

    /// Refuses a caller inside a step of the run, or of a run that it goes on from, and one of which that cannot be told.
    /// `what` is what a step cannot do, such as `answer`.
    pub fn outside(
        self,
        store: &dyn RunStore,
        stored: &dyn RunHandle,
        what: &str,
    ) -> Result<Outside, UserError> {
        let family = family(store, stored)?;
        let refused = |of: &str| match of == stored.id() {
            true => refused(of, &format!("{what} its own run")),
            false => refused(of, &format!("{what} {}, which goes on from its own run", stored.id())),
        };
        // It can be left out, so it proves nothing but that this is a step.
        let said = std::env::var_os("RAYMOND_RUN_ID").filter(|_| matches!(self, Self::Own));
        if let Some(own) = family.iter().find(|own| said.as_ref().is_some_and(|said| *said == *own.id)) {
            return Err(refused(&own.id));
        }
        let asking = self.asking()?;
        for member in family.iter().filter(|_| asking.is_here) {
            check_sight(member)?;
            if asking.are_inside(member) {
                return Err(refused(&member.id));
            }
        }
        Ok(Outside { run: stored.id().to_owned() })
    }

    /// Refuses a caller inside a step of any run, as far as that can be told. For what `serve` starts in its place: that
    /// is a process of `serve`, and nothing tells any more that a step wanted it.
    pub fn outside_all(self, store: &dyn RunStore, what: &str) -> Result<(), UserError> {
        let asking = self.asking()?;
        if asking.pids.is_empty() {
            return Ok(());
        }
        if asking.pids.iter().any(|pid| process::has_token(*pid)) {
            return Err(refused("a run", what));
        }
        for entry in store.list()? {
            let Some(holder) = entry.run.holder()? else { continue };
            // It has not begun, or nothing can be said about it.
            let Ok(run) = entry.run.load() else { continue };
            let member = Member::new(&*entry.run, &run, Some(holder), [run.nonce.clone()].into());
            if asking.are_inside(&member) {
                return Err(refused(entry.run.id(), what));
            }
        }
        Ok(())
    }

    /// The processes that ask.
    fn asking(self) -> Result<Asking, UserError> {
        match self {
            Self::Own => {
                let pids = i32::try_from(std::process::id()).into_iter().collect();
                Ok(Asking { pids, is_here: true })
            }
            #[cfg(target_os = "linux")]
            Self::Connected(connection) => match process::peer_of(&connection) {
                process::Peer::Processes(pids) => Ok(Asking { pids, is_here: true }),
                process::Peer::Gone => Err(UserError::usage("the caller did not wait for an answer")),
                process::Peer::Unknown => {
                    let is_here = connection.peer.ip().to_canonical().is_loopback();
                    Ok(Asking { pids: Vec::new(), is_here })
                }
            },
            Self::Unknown => Ok(Asking { pids: Vec::new(), is_here: false }),
        }
    }
}

/// The processes that ask, as far as they are known.
struct Asking {
    pids: Vec<i32>,
    /// Whether they are on this machine.
    is_here: bool,
}

impl Asking {
    fn are_inside(&self, member: &Member) -> bool {
        let sign = |pid: &i32| member.marks.iter().find_map(|marks| process::sign_of(*pid, marks));
        let found = self.pids.iter().find_map(|pid| Some((*pid, sign(pid)?)));
        if let Some((pid, sign)) = found {
            tracing::debug!(pid, ?sign, run = member.id, "the caller is inside a step");
        }
        found.is_some()
    }
}

fn refused(of: &str, what: &str) -> UserError {
    UserError::usage(format!("a step of {of} cannot {what}"))
        .hint("a question is for a person, and so is where a run goes on")
}

/// A run whose steps may not do something.
struct Member {
    id: String,
    holder: Option<Holder>,
    /// What its steps are known by; several if it was rewound, which gives their tokens another beginning.
    marks: Vec<RunMarks>,
}

impl Member {
    fn new(stored: &dyn RunHandle, run: &Run, holder: Option<Holder>, nonces: BTreeSet<String>) -> Self {
        let scratch = stored.scratch();
        let driver = holder.as_ref().and_then(driver);
        let marks = |nonce: String| {
            let token_prefix = token_prefix(&nonce);
            let traces = scratch.as_deref().map(|scratch| traces(scratch, &token_prefix)).unwrap_or_default();
            RunMarks { run: run.id.clone(), token_prefix, scratch: scratch.clone(), traces, driver }
        };
        Self { id: run.id.clone(), marks: nonces.into_iter().map(marks).collect(), holder }
    }
}

/// The run, and those that it goes on from.
fn family(store: &dyn RunStore, stored: &dyn RunHandle) -> Result<Vec<Member>, UserError> {
    let mut nonces: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    nonces.entry(stored.id().to_owned()).or_default();
    for origin in stored.origins()? {
        let nonce = store.run(&origin.run)?.state_after(origin.seq)?.nonce;
        nonces.entry(origin.run).or_default().insert(nonce);
    }
    let member = |(id, mut nonces): (String, BTreeSet<String>)| {
        let other = (id != stored.id()).then(|| store.run(&id)).transpose()?;
        let stored = other.as_deref().unwrap_or(stored);
        let run = stored.load()?;
        nonces.insert(run.nonce.clone());
        Ok(Member::new(stored, &run, stored.holder()?, nonces))
    };
    nonces.into_iter().map(member).collect()
}

/// The process that carries out the run, if its number means it here.
fn driver(holder: &Holder) -> Option<i32> {
    holder.pid.filter(|_| holder.is_in_this_namespace()).and_then(|pid| i32::try_from(pid).ok())
}

/// Refuses if this process does not see whether the caller belongs to the steps of a run.
fn check_sight(member: &Member) -> Result<(), UserError> {
    let seen = match &member.holder {
        Some(holder) if !holder.is_in_this_namespace() => {
            Err(Blind("it is carried out in another container or pid namespace".to_owned()))
        }
        holder => {
            let driver = holder.as_ref().and_then(driver);
            process::check_sight().and_then(|()| driver.map_or(Ok(()), process::check_user_namespace))
        }
    };
    seen.map_err(|Blind(why)| {
        UserError::usage(format!("cannot tell whether a step of {} asks: {why}", member.id))
            .hint("do it on the machine, or in the container, where the run is")
    })
}
