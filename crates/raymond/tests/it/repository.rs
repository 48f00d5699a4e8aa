//! Git repositories for tests.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use test_kit::rig::Rig;

/// Runs git in a folder, given from the rig's working folder, and returns what it says.
#[track_caller]
pub fn git(rig: &Rig, folder: &str, arguments: &[&str]) -> String {
    let mut command = rig.program("git");
    command.args(arguments).current_dir(rig.path(folder));
    let done = rig.launch(command).wait();
    assert_eq!(done.exit, 0, "git {arguments:?}: {done:?}");
    done.stdout.trim_end().to_owned()
}

/// A new repository on the branch `master`.
pub fn init(rig: &Rig, folder: &str) {
    std::fs::create_dir_all(rig.path(folder)).unwrap();
    git(rig, folder, &["init", "-q", "-b", "master"]);
    // The rig's home is the same for all programs of a test.
    for (key, value) in [("user.name", "Someone"), ("user.email", "someone@example.org")] {
        git(rig, folder, &["config", "--global", key, value]);
    }
}

/// Commits everything in a folder.
pub fn commit(rig: &Rig, folder: &str, message: &str) {
    git(rig, folder, &["add", "-A"]);
    git(rig, folder, &["commit", "-qm", message]);
}

/// Writes a program `git` that comes before the real one. `script` is told the path of the real one. Returns the PATH to use.
pub fn front_git(folder: &Path, script: impl FnOnce(&str) -> String) -> String {
    std::fs::create_dir_all(folder).unwrap();
    let found = std::process::Command::new("which").arg("git").output().unwrap().stdout;
    let real = String::from_utf8(found).unwrap();
    let program = folder.join("git");
    std::fs::write(&program, format!("#!/bin/bash\n{}\n", script(real.trim()))).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default())
}
