//! `raymond serve`: the runs and workflows of a project over HTTP, for the page and for other programs.
//!
//! It reads the same journals as every other command, through the same store and the same fold, and keeps no truth of its
//! own. It runs nothing itself: what it starts are `raymond` processes that outlive it.
//!
//! | file | what happens there |
//! |---|---|
//! | `listen`, `door` | the socket; connections and their limits |
//! | `lanes` | threads for what waits, so that one kind of work does not hold up another |
//! | `guard`, `token` | which requests are let in |
//! | `answer`, `route`, `problem` | from a request to a handler and back |
//! | `api` | the table of routes, and the handlers; `openapi` describes them |
//! | `index` | what is known of runs |
//! | `story` | what happened in a run, as a table of its steps |
//! | `feed`, `watch`, `sse`, `output` | what happens in runs as it happens |
//! | `launch` | starting processes that outlive this one |
//! | `schedule`, `cron` | starting workflows when their manifests say so |
//! | `discover` | the workflows below the roots |
//! | `presence` | telling other commands that a server runs |
//! | `assets` | the files of the page |

mod answer;
mod answering;
mod api;
mod assets;
mod counters;
mod discover;
mod door;
mod feed;
mod guard;
mod index;
mod lanes;
mod launch;
mod listen;
mod openapi;
mod output;
mod presence;
mod problem;
mod route;
mod schedule;
mod sse;
mod story;
#[cfg(test)]
mod tests;
mod token;
mod watch;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, Semaphore};

use crate::agent::registry::Backends;
use crate::error::{ExitKind, UserError};
use crate::process::Containment;
use crate::store::{RunStore, StateDir};
use answering::Answering;
pub use api::inbox::{Inbox, Item};
use discover::{Readings, Workflows};
use door::Door;
use feed::Feed;
use guard::Guard;
use index::Index;
use lanes::{Lane, Lanes};
use launch::Launcher;
pub use launch::detach;
pub use presence::Presence;
pub use schedule::{HeldBack, ScheduledWorkflow};
use sse::MAX_STREAMS;
use story::Stories;
use token::Token;

/// What all addresses of the API begin with.
const API: &str = "/api/v1";

/// What the command line asks for.
#[derive(Debug)]
pub struct Settings {
    /// The address to listen on; nothing means the usual one.
    pub listen: Option<SocketAddr>,
    /// The file of the token, unless it is the usual one.
    pub token_file: Option<PathBuf>,
    /// Names of this server for those who reach it through a proxy.
    pub allowed_hosts: Vec<String>,
    /// Where the runs are.
    pub state: StateDir,
    /// Where workflows are looked for.
    pub roots: Vec<PathBuf>,
    /// The folder that contains `.raymond`.
    pub project: PathBuf,
    /// Folders outside the project whose workflows may be entered, as written in the config file.
    pub workflow_paths: Vec<String>,
    /// The folder of `--state-dir`, for the processes that are started.
    pub state_dir: Option<PathBuf>,
    /// Whether workflows are started when their manifests say so.
    pub schedules: bool,
    /// Whether the runs that are started may do anything without asking.
    pub skip_permissions: bool,
    /// The programs whose output is shown while they run.
    pub backends: Backends,
}

/// What all requests share.
struct Server {
    guard: Guard,
    door: Door,
    lanes: Lanes,
    state: StateDir,
    index: Index,
    stories: Stories,
    workflows: Workflows,
    /// What was read of workflows.
    readings: Readings<api::workflows::Read>,
    launcher: Launcher,
    answering: Answering,
    backends: Backends,
    project: PathBuf,
    workflow_paths: Vec<String>,
    /// The workflows whose schedules are not kept.
    held: Mutex<Vec<schedule::Held>>,
    feed: Feed,
    streams: Arc<Semaphore>,
    /// Wakes the task that notices changes, when the first stream begins.
    wake: Notify,
}

impl Server {
    /// The folder of the debug files of a run.
    fn debug_folder(&self, run: &str) -> PathBuf {
        index::debug_folder(&self.state).join(run)
    }

    /// What holds the processes of a run's steps together.
    fn containment(&self, run: &str) -> Option<Containment> {
        Some(Containment::of_run(&self.state.scratch(run).ok()?))
    }

    /// The id of the workflow at a path, if it is below a root.
    fn workflow_id(&self, scope: &str) -> Option<String> {
        self.workflows.id_of(std::path::Path::new(scope))
    }
}

/// Serves until a signal ends it.
pub fn serve(settings: Settings) -> Result<ExitKind, UserError> {
    crate::process::raise_file_limit();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(lanes::threads())
        .build()
        .map_err(|error| UserError::failed(format!("cannot start: {error}")))?;
    runtime.block_on(serve_until_signal(settings))
}

async fn serve_until_signal(settings: Settings) -> Result<ExitKind, UserError> {
    let address = settings.listen;
    if address.is_some_and(|address| !address.ip().is_loopback()) && settings.token_file.is_none() {
        return Err(UserError::usage(
            "an address that others can reach needs a token that you chose to share",
        )
        .hint("name its file: --token-file FILE; it is made if it is not there"));
    }
    let listener = listen::bind(address).await?;
    let address = listener
        .local_addr()
        .map_err(|error| UserError::failed(format!("cannot tell the address: {error}")))?;
    let token = open_token(&settings)?;
    let link = login_link(address, &settings.allowed_hosts, &token);
    let has_schedules = settings.schedules;
    let token_file = settings.token_file.clone().unwrap_or_else(|| token_file(&settings.state));
    let presence = Presence { address, schedules: has_schedules, token_file };
    // Only `doctor` looks at it, so a server does without.
    let _told = presence::tell(&settings.state, &presence);
    let server = Arc::new(assemble(settings, address, token)?);
    let router = answer::router(&server);
    tokio::spawn(watch::watch(Arc::clone(&server)));
    tokio::spawn(tend_processes(Arc::clone(&server)));
    if has_schedules {
        tokio::spawn(schedule::keep(Arc::clone(&server)));
    }
    let mut stdout = std::io::stdout();
    let _ = writeln!(stdout, "{link}").and_then(|()| stdout.flush());
    if !link.contains(&format!(":{}/", address.port())) {
        eprintln!("listens on {address}");
    }
    tokio::select! {
        () = listen::accept(listener, server, router) => {}
        () = ended() => {}
    }
    Ok(ExitKind::Completed)
}

/// The servers that run for these runs.
pub fn servers(state: &StateDir) -> Vec<Presence> {
    presence::servers(state)
}

/// Where the token is kept, unless another file is named.
pub fn token_file(state: &StateDir) -> PathBuf {
    own_folder(state).join("serve.token")
}

/// The runs that hold back the schedules by which they were started, with the time since when.
pub fn schedules_that_wait(store: &dyn RunStore, state: &StateDir) -> BTreeMap<String, HeldBack> {
    let is_live = |run: &str| store.run(run).is_ok_and(|run| index::holds(&*run));
    schedule::held_back(state, is_live)
}

/// The workflows below these folders that have a schedule.
pub fn scheduled_workflows(roots: Vec<PathBuf>) -> Vec<ScheduledWorkflow> {
    schedule::all_of(&Workflows::new(roots))
}

/// What needs a person, as `GET inbox` tells it.
pub fn inbox(settings: Settings) -> Result<Inbox, UserError> {
    Ok(api::inbox::gather(&for_one_look(settings)?, None)?)
}

/// A server without a listening socket: only this process asks it.
fn for_one_look(settings: Settings) -> Result<Server, UserError> {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let token = Token::passing().map_err(|error| UserError::failed(error.to_string()))?;
    assemble(settings, address, token)
}

/// A run as one HTML file.
pub fn export(settings: Settings, run: &str) -> Result<String, UserError> {
    let server = for_one_look(settings)?;
    let failed = |problem: problem::Problem| UserError::failed(problem.detail);
    let run = server.index.find(run)?;
    api::export::page(&server, &run).map_err(failed)
}

/// What all requests share, for a server at this address.
fn assemble(settings: Settings, address: SocketAddr, token: Token) -> Result<Server, UserError> {
    let folder = own_folder(&settings.state).to_owned();
    let launcher = Launcher::new(
        settings.project.clone(),
        settings.state_dir,
        folder,
        settings.state.own_file("serve.runs"),
        settings.skip_permissions,
    )?;
    Ok(Server {
        guard: Guard::new(address, &settings.allowed_hosts, token),
        door: Door::default(),
        lanes: Lanes::default(),
        index: Index::new(settings.state.clone()),
        stories: Stories::new(own_folder(&settings.state)),
        workflows: Workflows::new(settings.roots),
        readings: Readings::default(),
        launcher,
        answering: Answering::default(),
        backends: settings.backends,
        project: settings.project,
        workflow_paths: settings.workflow_paths,
        held: Mutex::default(),
        feed: Feed::new(own_folder(&settings.state).join("serve.feed"), settings.state.own().clone()),
        state: settings.state,
        streams: Arc::new(Semaphore::new(MAX_STREAMS)),
        wake: Notify::new(),
    })
}

/// Resumes what an earlier `serve` started and whose process died, and clears away processes that have ended.
async fn tend_processes(server: Arc<Server>) {
    const LOOK_EVERY: std::time::Duration = std::time::Duration::from_secs(1);
    let worker = Arc::clone(&server);
    let _ = server.lanes.work(Lane::Own, move || launch::resume_dead(&worker)).await;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        server.launcher.clear_ended();
    }
}

/// The folder for what `serve` itself keeps.
fn own_folder(state: &StateDir) -> &std::path::Path {
    state.home().unwrap_or(state.path())
}

fn open_token(settings: &Settings) -> Result<Token, UserError> {
    if let Some(file) = &settings.token_file {
        if others_may_read(file) {
            eprintln!("warning: other users of this machine may read the token in {}", file.display());
        }
        return Token::keep(file);
    }
    let folder = own_folder(&settings.state);
    let cannot =
        |error: std::io::Error| UserError::usage(format!("cannot create {}: {error}", folder.display()));
    match settings.state.home() {
        Some(_) => settings.state.create_home().map_err(cannot)?,
        None => settings.state.create().map_err(cannot)?,
    }
    settings.state.own().prepare()?;
    if settings.state.is_ignored_otherwise() {
        eprintln!(
            "warning: {} is not the one that Raymond makes; see that {} gets into no commit",
            folder.join(".gitignore").display(),
            token_file(&settings.state).display()
        );
    }
    Token::keep_own(&token_file(&settings.state), settings.state.own())
}

/// A file that a person has named is used as it is: where secrets are handed to containers, its mode is often not theirs
/// to choose.
#[cfg(unix)]
fn others_may_read(file: &std::path::Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|data| data.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn others_may_read(_file: &std::path::Path) -> bool {
    false
}

/// The address that logs a browser in. The part behind `#` stays in the browser.
fn login_link(address: SocketAddr, allowed: &[String], token: &Token) -> String {
    let host = match allowed.first() {
        Some(name) if address.ip().is_unspecified() => name.clone(),
        _ => address.to_string(),
    };
    format!("http://{host}/#token={}", token.as_str())
}

/// Waits for a signal that ends the program.
#[cfg(unix)]
async fn ended() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(windows)]
async fn ended() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}
