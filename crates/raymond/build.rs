//! Tells the program which commit it is of: `raymond --version` is the first thing asked of who reports a bug.

use std::env;
use std::process::Command;

fn main() {
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let version = match commit() {
        Some(commit) => format!("{version} ({commit})"),
        // Built from a package, where there is no history.
        None => version,
    };
    println!("cargo::rustc-env=RAYMOND_VERSION={version}");
}

/// The commit and its date.
fn commit() -> Option<String> {
    println!("cargo::rerun-if-changed=build.rs");
    // A copy inside of another project is not of that project's commit.
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    // The reflog grows with every commit and every change of branch.
    println!("cargo::rerun-if-changed={}", git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    git(&["log", "-1", "--format=%h %cs"])
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
