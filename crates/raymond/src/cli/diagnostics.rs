//! `RAYMOND_LOG`: messages about what Raymond itself does, for people who debug it.
//!
//! Switched off, it costs reading one variable at the start and one atomic load for each message that is not written.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::error::UserError;
use crate::files;

/// Which messages are written: a level, or `module=level` pairs with commas between them.
const FILTER: &str = "RAYMOND_LOG";
/// The file that they are appended to, instead of stderr.
const FILE: &str = "RAYMOND_LOG_FILE";

static ON_STDERR: AtomicBool = AtomicBool::new(false);

/// Starts to write messages, if the environment asks for it.
pub(super) fn start() -> Result<(), UserError> {
    let Some(filter) = std::env::var_os(FILTER).filter(|filter| !filter.is_empty()) else { return Ok(()) };
    let filter: Targets = filter.to_string_lossy().parse().map_err(|error| {
        UserError::usage(format!("{FILTER}: {error}"))
            .hint(format!("for example {FILTER}=debug, or {FILTER}=raymond::store=trace,info"))
    })?;
    let registry = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer();
    match std::env::var_os(FILE).filter(|path| !path.is_empty()) {
        Some(path) => {
            let file = open(&path).map_err(|error| {
                UserError::usage(format!("{FILE}: cannot open {}: {error}", path.display()))
            })?;
            registry.with(lines.with_ansi(false).with_writer(Mutex::new(file))).init();
        }
        None => {
            ON_STDERR.store(true, Ordering::Relaxed);
            registry.with(lines.with_ansi(io::stderr().is_terminal()).with_writer(io::stderr)).init();
        }
    }
    Ok(())
}

/// Whether messages go to stderr, where they would break a live view.
pub(super) fn writes_to_stderr() -> bool {
    ON_STDERR.load(Ordering::Relaxed)
}

/// Only the owner can read the file: messages contain files' names, programs and their arguments.
fn open(path: &std::ffi::OsStr) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    files::open_output(&mut options, Path::new(path))
}
