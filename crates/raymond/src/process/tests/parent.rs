//! Tests of Raymond's own process, which is killed or started in unusual ways: the test binary starts itself again to run
//! a single test.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::rig::*;
use crate::process::*;

const ROLE: &str = "RAYMOND_TEST_ROLE";
const FOLDER: &str = "RAYMOND_TEST_FOLDER";

/// A command that runs only the named test of this test binary. A `wrapper` is put in front of it.
fn again(test: &str, wrapper: &[&str]) -> Command {
    let binary = std::env::current_exe().unwrap();
    let mut command = match wrapper {
        [] => Command::new(&binary),
        [program, args @ ..] => {
            let mut command = Command::new(program);
            command.args(args).arg(&binary);
            command
        }
    };
    let test = format!("process::tests::{test}");
    command.args([&test, "--exact", "--nocapture", "--test-threads=1"]).env(ROLE, &test);
    command
}

/// Runs the body in a new process, and fails if the body fails.
pub(super) fn in_a_process_of_its_own(test: &str, wrapper: &[&str], body: impl FnOnce()) {
    if std::env::var_os(ROLE).is_some() {
        return body();
    }
    let output = again(test, wrapper).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    print!("{text}");
}

#[test]
fn exit_codes_arrive_even_if_raymond_was_started_to_ignore_its_children() {
    let test = "parent::exit_codes_arrive_even_if_raymond_was_started_to_ignore_its_children";
    let wrapper = ["bash", "-c", "trap '' CHLD TERM; exec \"$0\" \"$@\""];
    in_a_process_of_its_own(test, &wrapper, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (outcome, _) = runtime.block_on(async { Rig::new().run("exit 5").await });
        assert!(matches!(outcome.ending, Ending::Exited(ProcessExit::Code(5))), "{outcome:?}");
        // The same applies to SIGTERM, which the child would otherwise ignore, too.
        let (outcome, _) = runtime.block_on(async { Rig::new().run("kill -TERM $$; exit 6").await });
        assert!(matches!(outcome.ending, Ending::Exited(ProcessExit::Signal(15))), "{outcome:?}");
    });
}

#[tokio::test]
async fn a_killed_raymond_takes_its_programs_along() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return be_killed(PathBuf::from(folder)).await;
    }
    let folder = TempDir::new().unwrap();
    let mut raymond = again("parent::a_killed_raymond_takes_its_programs_along", &[])
        .env(FOLDER, folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pids = || -> Vec<i32> {
        let text = fs::read_to_string(folder.path().join("pids")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    eventually("the program runs", || pids().len() == 1).await;
    raymond.kill().unwrap();
    raymond.wait().unwrap();
    eventually("the program is dead", || !is_alive(pids()[0])).await;
}

/// The program ignores SIGTERM and SIGHUP, so that only SIGKILL ends it.
async fn be_killed(folder: PathBuf) {
    let rig = Rig::new();
    let mut spec = rig.spec("trap '' TERM HUP; echo $$ > pids; while :; do sleep 0.1; done");
    spec.cwd = folder;
    rig.supervise(spec, &mut Collector::default()).await;
}
