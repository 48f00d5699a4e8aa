//! Which conversations a run cannot go on with.

use std::ffi::OsString;
use std::path::Path;

use raymond_core::run::{Agent, Run, Session};
use raymond_core::workflow::Platform;

use crate::agent::DEFAULT_BACKEND;
use crate::agent::registry::Backends;
use crate::agent::session::SessionPlace;
use crate::error::UserError;
use crate::workflow::scope::Scope;

/// A conversation that an agent would go on with, and cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    pub agent: String,
    pub session: String,
    pub why: String,
}

/// The conversations that their programs are known to have deleted.
pub fn deleted(run: &Run, backends: &Backends) -> Vec<Gone> {
    let scope = Scope::open(Path::new(&run.scope), Platform::current());
    let environment = scope.map(|scope| scope.manifest().environment.clone()).unwrap_or_default();
    let variable = |name: &str| environment.get(name).map(OsString::from).or_else(|| std::env::var_os(name));
    found(run, |agent, session| {
        let program = backends.get(backend_of(session)).ok()?;
        let cwd = Path::new(session.cwd.as_deref().unwrap_or(&agent.cwd));
        let place = SessionPlace { session: &session.id, cwd, variable: &variable };
        let is_deleted = program.has_conversation(&place) == Some(false);
        is_deleted.then(|| format!("{} has deleted it", backend_of(session)))
    })
}

/// The same, and those that cannot be continued twice: their programs do not branch, so the next turn of one run would
/// change what the other one knows.
pub fn not_shared(run: &Run, backends: &Backends) -> Vec<Gone> {
    let in_place = found(run, |_, session| {
        let program = backends.get(backend_of(session)).ok()?;
        let changes = program.continues_in_place();
        changes.then(|| format!("{} continues it in place, so it is not as it was", backend_of(session)))
    });
    let mut all = deleted(run, backends);
    all.extend(in_place);
    all
}

fn backend_of(session: &Session) -> &str {
    session.backend.as_deref().unwrap_or(DEFAULT_BACKEND)
}

fn found(run: &Run, why: impl Fn(&Agent, &Session) -> Option<String>) -> Vec<Gone> {
    let gone = |(agent, session): (&Agent, &Session)| {
        let why = why(agent, session)?;
        Some(Gone { agent: agent.id.to_string(), session: session.id.clone(), why })
    };
    run.conversations().filter_map(gone).collect()
}

/// The sessions that are begun anew if that is wanted; otherwise an error that says which they are.
pub fn forgotten(gone: Vec<Gone>, fresh: bool) -> Result<Vec<String>, UserError> {
    let Some(first) = gone.first().filter(|_| !fresh) else {
        return Ok(gone.into_iter().map(|gone| gone.session).collect());
    };
    let more = match gone.len() - 1 {
        0 => String::new(),
        more => format!("; the same for {more} more"),
    };
    let Gone { agent, session, why } = first;
    let message = format!("the conversation {session} of {agent} cannot go on: {why}{more}");
    Err(UserError::usage(message)
        .hint("to begin a new conversation there: --fresh")
        .hint("or put the program's session files back"))
}
