//! Who asks for something that only a person may decide: to answer a question, for example.
//!
//! A step may not do that for its own run. Whether the caller is a process of a step is found out from the process itself
//! ([`process::sign_of`]), never from something that a step can leave out. [`Outside`] is the proof that it is not; what
//! only a person may do asks for one.

use std::net::SocketAddr;

use raymond_core::run::Run;

use crate::error::UserError;
use crate::process::{self, RunMarks};
use crate::run::job::token_prefix;
use crate::run::step::traces;
use crate::store::RunHandle;

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

    /// Refuses a caller inside a step of the run. `run` is its present state. `what` is what a step cannot do, such as
    /// `answer`.
    pub fn outside(self, stored: &dyn RunHandle, run: &Run, what: &str) -> Result<Outside, UserError> {
        let refused = || {
            UserError::usage(format!("a step of {} cannot {what} its own run", run.id))
                .hint("a question is for a person")
        };
        let pids = match self {
            // It can be left out, so it proves nothing but that this is a step.
            Self::Own if std::env::var_os("RAYMOND_RUN_ID").is_some_and(|own| own == *run.id) => {
                return Err(refused());
            }
            Self::Own => i32::try_from(std::process::id()).into_iter().collect(),
            #[cfg(target_os = "linux")]
            Self::Connected(connection) => match process::peer_of(&connection) {
                process::Peer::Processes(pids) => pids,
                process::Peer::Gone => {
                    return Err(UserError::usage("the caller did not wait for an answer"));
                }
                process::Peer::Unknown => Vec::new(),
            },
            Self::Unknown => Vec::new(),
        };
        if !pids.is_empty() {
            let marks = marks_of(stored, run)?;
            if let Some((pid, sign)) =
                pids.iter().find_map(|pid| Some((pid, process::sign_of(*pid, &marks)?)))
            {
                tracing::debug!(pid, ?sign, run = run.id, "the caller is inside a step");
                return Err(refused());
            }
        }
        Ok(Outside { run: run.id.clone() })
    }
}

/// What the processes of the run's steps are known by.
fn marks_of(stored: &dyn RunHandle, run: &Run) -> Result<RunMarks, UserError> {
    let token_prefix = token_prefix(&run.nonce);
    let scratch = stored.scratch();
    let traces = scratch.as_deref().map(|scratch| traces(scratch, &token_prefix)).unwrap_or_default();
    let driver =
        stored.holder()?.filter(|holder| holder.is_in_this_namespace()).and_then(|holder| holder.pid);
    let driver = driver.and_then(|pid| i32::try_from(pid).ok());
    Ok(RunMarks { run: run.id.clone(), token_prefix, scratch, traces, driver })
}
