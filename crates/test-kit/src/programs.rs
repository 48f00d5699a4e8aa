//! Programs of this workspace that tests start.
//!
//! Cargo builds a package's own programs before its integration tests and says where they are (`CARGO_BIN_EXE_name`). A test
//! that starts its own package's program uses that. For every other program it asks Cargo here, so that no test ever runs an
//! old build.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The stand-in for Claude Code, built once by each test process that needs it.
pub fn fake_claude() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| build("fake-claude", "claude"))
}

/// Lets Cargo build a package's program where the calling program was built, with the same profile.
///
/// # Panics
///
/// If it cannot be built; Cargo has told why.
pub fn build(package: &str, program: &str) -> PathBuf {
    let folder = profile_folder(&std::env::current_exe().unwrap());
    let mut build = Command::new(env!("CARGO"));
    build.args([
        "build",
        "--quiet",
        "--bin",
        program,
        "-p",
        package,
        "--profile",
        profile(&folder),
        "--target-dir",
    ]);
    build.arg(folder.parent().unwrap()).current_dir(env!("CARGO_MANIFEST_DIR"));
    // With it, by which scripts/test-runner.py has the test harness tell more, Cargo would build everything anew.
    build.env_remove("RUSTC_BOOTSTRAP");
    let is_built = build.status().is_ok_and(|status| status.success());
    assert!(is_built, "{package} cannot be built: cargo build -p {package}");
    folder.join(program)
}

/// `TARGET/PROFILE`. Programs are in it, tests in `deps` below it, and examples in `examples`.
fn profile_folder(own: &Path) -> PathBuf {
    let folder = own.parent().unwrap();
    let is_below = folder.ends_with("deps") || folder.ends_with("examples");
    if is_below { folder.parent().unwrap().to_owned() } else { folder.to_owned() }
}

/// The profile that is built into a folder: they have the same name, except for the default one.
fn profile(folder: &Path) -> &str {
    match folder.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        name => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_and_the_profile_follow_from_where_a_program_is() {
        for (own, folder, name) in [
            ("/t/debug/deps/it-0123", "/t/debug", "dev"),
            ("/t/release/examples/shows", "/t/release", "release"),
            ("/t/x86_64-unknown-linux-musl/slim/simulate", "/t/x86_64-unknown-linux-musl/slim", "slim"),
        ] {
            assert_eq!(profile_folder(Path::new(own)), Path::new(folder));
            assert_eq!(profile(Path::new(folder)), name);
        }
    }
}
