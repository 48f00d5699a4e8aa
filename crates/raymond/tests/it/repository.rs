//! Git repositories for tests.

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
