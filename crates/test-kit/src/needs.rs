//! Programs and rights that a machine may lack. A test that needs one is then skipped, and a line says so.
//!
//! Where nothing may be skipped (`RAYMOND_NO_SKIPS=1`, as in `.ci/run`), the test fails instead.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Says that a test is skipped. Past the test harness, which would hide it.
///
/// # Panics
///
/// Where nothing may be skipped.
#[track_caller]
pub fn say_skipped(test: &str, need: &str) {
    let is_forbidden = std::env::var_os("RAYMOND_NO_SKIPS").is_some_and(|value| value == "1");
    assert!(!is_forbidden, "{test} needs {need}, and nothing may be skipped (RAYMOND_NO_SKIPS)");
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test} needs {need}");
}

/// The folder in which the scripts `install-*.sh` keep what they install: `$RAYMOND_CI_CACHE` or `~/.cache/raymond-ci`.
pub fn cache() -> PathBuf {
    let named = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
    named("RAYMOND_CI_CACHE").unwrap_or_else(|| named("HOME").unwrap_or_default().join(".cache/raymond-ci"))
}

/// What one of those scripts installs, if it is there. Otherwise it says that a test is skipped.
pub fn installed(path: &str, test: &str, script: &str) -> Option<PathBuf> {
    let found = Some(cache().join(path)).filter(|path| path.exists());
    if found.is_none() {
        say_skipped(test, &format!("{path}, which scripts/{script} installs"));
    }
    found
}

/// Whether a test has to be skipped because a program is not installed.
pub fn is_missing(program: &str, test: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_missing = !std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if is_missing {
        say_skipped(test, &format!("`{program}`, which is not installed"));
    }
    is_missing
}

/// Whether a folder of states, or anything that holds states, needs an interpreter that is not installed.
pub fn lacks_an_interpreter(states: &Path, test: &str) -> bool {
    let needs = |extension: &str, key: &str| holds(states, extension, key);
    (needs("py", "py:") && is_missing("python3", test)) || (needs("js", "js:") && is_missing("node", test))
}

fn holds(path: &Path, extension: &str, key: &str) -> bool {
    if path.is_dir() {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        return entries.map(|entry| entry.path()).any(|path| holds(&path, extension, key));
    }
    match path.extension().and_then(|found| found.to_str()) {
        Some(found) if found == extension => true,
        Some("yaml") => {
            let text = fs::read_to_string(path).unwrap_or_default();
            text.lines().any(|line| line.trim_start().starts_with(key))
        }
        _ => false,
    }
}
