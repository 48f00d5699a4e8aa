//! `RAYMOND_LOG`: what Raymond says about itself.

use crate::rig::Rig;

fn rig() -> Rig {
    let rig = Rig::new();
    rig.state("START.sh", "echo '<result>ok</result>'");
    rig
}

#[test]
fn it_tells_on_stderr_what_it_does_and_nothing_else_changes() {
    let rig = rig();
    let quiet = rig.raymond(&["workflow", "--quiet"]);
    assert_eq!(quiet.stderr, "");
    let mut command = rig.command(&["workflow", "--quiet"]);
    let told = {
        command.env("RAYMOND_LOG", "debug");
        rig.launch(command).wait()
    };
    assert_eq!((told.exit, told.stdout.as_str()), (0, "ok\n"));
    for word in ["commit", "start", "main START.sh step 1 attempt 1", "outcome=\"exited\""] {
        assert!(told.stderr.contains(word), "`{word}` is missing in: {}", told.stderr);
    }
    assert!(!told.stderr.contains('\u{1b}'), "no colours where there is no terminal");
}

#[test]
fn it_tells_in_a_file() {
    let rig = rig();
    let mut command = rig.command(&["workflow", "--quiet"]);
    command.env("RAYMOND_LOG", "raymond::run=debug").env("RAYMOND_LOG_FILE", rig.path("raymond.log"));
    let done = rig.launch(command).wait();
    assert_eq!((done.exit, done.stderr.as_str()), (0, ""));
    assert!(rig.read("raymond.log").contains("commit"));
}

#[test]
fn what_cannot_be_understood_is_refused() {
    let rig = rig();
    let mut command = rig.command(&["workflow"]);
    let done = {
        command.env("RAYMOND_LOG", "raymond=loud");
        rig.launch(command).wait()
    };
    assert_eq!(done.exit, 2);
    assert!(done.stderr.contains("RAYMOND_LOG") && done.stderr.contains("debug"), "{}", done.stderr);
    let mut command = rig.command(&["workflow"]);
    command.env("RAYMOND_LOG", "debug").env("RAYMOND_LOG_FILE", rig.path("none/raymond.log"));
    let done = rig.launch(command).wait();
    assert_eq!(done.exit, 2);
    assert!(done.stderr.contains("none/raymond.log"), "{}", done.stderr);
    assert!(!rig.path(".raymond").exists(), "nothing was run");
}
