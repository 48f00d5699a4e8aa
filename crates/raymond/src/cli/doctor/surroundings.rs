//! What Raymond needs of the machine: a place for its files, git, and a terminal for people.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use super::Finding;
use crate::cli::find::{found_home, working_folder};
use crate::config;
use crate::process::Containment;

/// A sync that takes longer makes each step noticeably slower.
const SLOW_SYNC: Duration = Duration::from_millis(100);
/// Less room than this is soon used up.
const LITTLE_SPACE: u64 = 1024 * 1024 * 1024;
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn findings() -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(files());
    findings.push(environment());
    findings.push(processes());
    findings.push(git());
    findings.push(terminal());
    findings
}

/// Whether journals can be kept here: written, locked and synced.
fn files() -> Vec<Finding> {
    const ABOUT: &str = "files";
    let folder = working_folder().and_then(|cwd| {
        let home = found_home(&cwd)?;
        let kept = home.path().to_owned();
        Ok(kept.ancestors().find(|folder| folder.is_dir()).unwrap_or(&cwd).to_owned())
    });
    let folder = match folder {
        Ok(folder) => folder,
        Err(error) => {
            let advice = error.hints.first().cloned().unwrap_or_default();
            return vec![Finding::error(ABOUT, error.message, advice)];
        }
    };
    let advice = "work in another folder, or keep runs in another one with --state-dir";
    let tried = match try_files(&folder) {
        Ok(took) if took > SLOW_SYNC => Finding::warning(
            ABOUT,
            format!("a sync in {} takes {} ms", folder.display(), took.as_millis()),
            "durability = \"process\" in the config file does without",
        ),
        Ok(_) => Finding::good(ABOUT, format!("{} can be written, locked and synced", folder.display())),
        Err(error) => Finding::error(ABOUT, format!("in {}: {error}", folder.display()), advice),
    };
    let space = free_space(&folder).filter(|bytes| *bytes < LITTLE_SPACE).map(|bytes| {
        let message = format!("only {} MiB are free in {}", bytes >> 20, folder.display());
        Finding::warning(ABOUT, message, "make room before a long run")
    });
    [tried].into_iter().chain(space).collect()
}

/// Writes, locks and syncs a file, and says how long the sync took.
fn try_files(folder: &Path) -> io::Result<Duration> {
    let path = folder.join(format!(".raymond-doctor-{}", std::process::id()));
    let tried = try_file(&path);
    let _ = fs::remove_file(&path);
    tried
}

fn try_file(path: &Path) -> io::Result<Duration> {
    let mut file = File::create_new(path)?;
    file.write_all(b"whether files can be written here\n")?;
    file.try_lock().map_err(|error| io::Error::other(format!("a file cannot be locked: {error}")))?;
    if crate::files::open_plain(path)?.try_lock().is_ok() {
        return Err(io::Error::other("two processes can lock the same file, so that a run is not safe"));
    }
    let began = Instant::now();
    file.sync_data()?;
    Ok(began.elapsed())
}

#[cfg(unix)]
fn free_space(folder: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(folder).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(not(unix))]
fn free_space(_folder: &Path) -> Option<u64> {
    None
}

fn environment() -> Finding {
    const ABOUT: &str = "environment";
    if config::user_state_folder().is_none() {
        let advice = "set HOME; consent and locks of conversations are kept there";
        return Finding::warning(ABOUT, "there is no home folder", advice);
    }
    match std::env::var_os("RAYMOND_RUN_ID") {
        Some(_) => Finding::good(ABOUT, "this is a step of a run"),
        None => Finding::good(ABOUT, "there is a home folder"),
    }
}

/// How all processes of a step are known.
fn processes() -> Finding {
    let way = Containment::here();
    let escapes = match way {
        Containment::Cgroup => "its processes are found by it, unless they may change cgroups and leave it",
        Containment::JobObject => "none of its processes can leave it",
        Containment::ProcessGroup => "processes can leave it, and are then looked for in other ways",
    };
    Finding::good("processes", format!("each step has a {}; {escapes}", way.as_str()))
}

fn git() -> Finding {
    match crate::git::version(PATIENCE) {
        Ok(version) => Finding::good("git", version),
        Err(_) => Finding::warning(
            "git",
            "`git` was not found",
            "install it; most agents and many workflows use it",
        ),
    }
}

fn terminal() -> Finding {
    const ABOUT: &str = "terminal";
    let is_terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
    match is_terminal {
        true => Finding::good(ABOUT, "questions can be asked here"),
        false => Finding::good(ABOUT, "there is none: a workflow that asks a person pauses"),
    }
}
