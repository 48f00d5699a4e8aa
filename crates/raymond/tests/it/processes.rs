//! Which processes belong to a step, and which only look like it.

use std::os::unix::process::CommandExt;
use std::process::Child;

use rustix::process::{Pid, Signal};
use test_kit::needs::say_skipped;
use test_kit::rig::{Live, Rig, send, wait_for_file, wait_until};

use crate::RAYMOND;

/// The file in which a run notes the process groups of its running steps.
const HINTS: &str = ".raymond/state/r.tasks/groups";

/// Reports which processes of its first attempt are still alive when it runs again. A zombie is dead.
const REPORTS_TWINS: &str = r#"
if [ -e started ]; then
    for pid in $(cat pids); do
        grep -q '^State:.[^ZX]' /proc/$pid/status 2>/dev/null && twins="$twins $pid"
    done
    echo "<result>twins:$twins</result>"; exit
fi
"#;

pub(crate) fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with(['Z', 'X']))
}

/// A Raymond that uses no cgroups, as where it may not make any. With them, processes could not even hide.
fn without_cgroups(rig: &Rig, args: &[&str]) -> Live {
    let mut command = rig.command(args);
    command.env("RAYMOND_CGROUP", "off");
    rig.launch(command)
}

/// A process of its own that is no step's, ended with the test.
struct Stranger(Child);

impl Stranger {
    fn start(rig: &Rig) -> Self {
        Self(rig.program("sleep").arg("340").process_group(0).spawn().unwrap())
    }

    /// One that was not started in this tick of the system's clock. No number is given away twice in a tick.
    fn start_after(rig: &Rig, tick: &str) -> Self {
        loop {
            let stranger = Self::start(rig);
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", stranger.pid())).unwrap();
            let (_, behind_name) = stat.rsplit_once(')').unwrap();
            if behind_name.split_whitespace().nth(19) != Some(tick) {
                return stranger;
            }
        }
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// In a restarted container, and after enough other processes, the number of a step's group belongs to others.
#[test]
fn a_resume_ends_no_group_that_only_has_the_number_of_its_own() {
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        "[ -e started ] && { echo '<result>ok</result>'; exit; }; touch started; sleep 341",
    );
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("started"));
    wait_until("the group is noted", || rig.read(HINTS).contains(' '));
    live.kill();
    let noted = rig.read(HINTS);
    let fields: Vec<&str> = noted.splitn(5, ' ').collect();
    let [token, _group, session, started, rest] = fields[..] else { panic!("{noted}") };
    let stranger = Stranger::start_after(&rig, started);
    rig.write(HINTS, format!("{token} {} {session} {started} {rest}", stranger.pid()));
    rig.resume().assert(0, "ok\n");
    assert!(is_alive(stranger.pid()), "a process that is not the run's was ended");
}

/// They are known only by their group, or by the output that they hold.
#[test]
fn children_without_an_environment_are_ended_by_a_resume_from_another_session() {
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        format!(
            "{REPORTS_TWINS}
            env -i sleep 342 >/dev/null 2>&1 & echo $! >> pids
            setsid env -i sleep 343 & echo $! >> pids
            touch started; wait"
        ),
    );
    let live = without_cgroups(&rig, &["workflow", "--id", "r"]);
    wait_for_file(&rig.path("started"));
    live.kill();
    let pids: Vec<i32> = rig.read("pids").lines().map(|pid| pid.parse().unwrap()).collect();
    wait_until("the children to have cleared their environment", || {
        pids.iter().all(|pid| std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|env| env.is_empty()))
    });
    let mut resume = rig.program("setsid");
    resume.args([RAYMOND, "resume", "r"]);
    let done = rig.launch(resume).wait();
    pids.iter().for_each(|pid| send(*pid, Signal::KILL));
    done.assert(0, "twins:\n");
}

/// Each of these processes lives for microseconds, so no look at all processes finds it for sure. All of them hold the
/// same lock, so it shows whether one of them lives.
#[test]
fn processes_that_start_another_and_exit_are_ended() {
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        r#"echo $$ > group
        perl -e 'open(LOCK, ">lock"); flock(LOCK, 2); open(STARTED, ">started"); while (1) { $p = fork; exit if $p }' &
        sleep 344"#,
    );
    for id in ["r1", "r2", "r3"] {
        let live = without_cgroups(&rig, &["workflow", "--id", id]);
        wait_for_file(&rig.path("started"));
        rig.raymond(&["stop", id, "--now"]).assert(0, "");
        live.wait().assert(143, "");
        let is_over = std::fs::File::open(rig.path("lock")).unwrap().try_lock().is_ok();
        let group = Pid::from_raw(rig.read("group").trim().parse().unwrap()).unwrap();
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
        assert!(is_over, "{id}: the processes live on");
        std::fs::remove_file(rig.path("started")).unwrap();
    }
}

/// Both have the same steps and attempts, but not the same processes.
#[test]
fn a_copy_of_a_run_leaves_the_processes_of_the_original_alone() {
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        "echo $$ >> pids; touch started; until [ -e go ]; do sleep 0.01; done; echo '<result>ok</result>'",
    );
    let original = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("started"));
    let copied = rig.program("cp").args(["-a", ".raymond/state", "copy"]).status().unwrap();
    assert!(copied.success());
    let copy = rig.start(&["resume", "r", "--state-dir", "copy"]);
    wait_until("the step of the copy", || rig.read("pids").lines().count() == 2 || !is_alive(copy.pid()));
    rig.write("go", "");
    copy.wait().assert(0, "ok\n");
    original.wait().assert(0, "ok\n");
    assert_eq!(rig.read("pids").lines().count(), 2);
}

/// Programs that handle the signal end with a code of their own, or with 0 and without a tag.
#[test]
fn a_step_that_handles_the_signal_for_all_processes_is_interrupted() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<fork>CODE</fork><goto>ZERO</goto>'");
    let works = "[ -e go ] && { echo '<result>ok</result>'; exit; }";
    rig.state("CODE.sh", format!("{works}; trap 'exit 3' TERM INT HUP; sleep 346"))
        .state("ZERO.sh", format!("{works}; trap 'exit 0' TERM INT HUP; sleep 346"));
    for number in 0..6 {
        let command = if number == 0 { ["workflow", "--id", "r"] } else { ["resume", "r", "--quiet"] };
        let live = rig.start(&command);
        let mut alive = Vec::new();
        wait_until("all steps", || {
            alive = rig.survivors();
            alive.iter().filter(|(_, command)| command == "sleep 346 ").count() == 2
        });
        // Raymond comes first or last.
        alive.sort_by_key(|(pid, _)| (*pid == live.pid()) == (number % 2 == 0));
        alive.iter().for_each(|(pid, _)| send(*pid, Signal::TERM));
        live.wait().assert(143, "");
    }
    rig.write("go", "");
    rig.resume().assert(0, "ok\n");
    let failed: Vec<_> = rig.events().into_iter().filter(|event| event["event"] == "step_failed").collect();
    assert_eq!(failed, [] as [serde_json::Value; 0]);
}

/// A service manager or a container signals all processes at once; in which order they end is chance.
#[test]
fn a_signal_for_all_processes_interrupts_steps_and_fails_none() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<fork>WORK</fork><fork>WORK</fork><fork>WORK</fork><goto>LAST</goto>'");
    let works = "[ -e go ] && { echo '<result>ok</result>'; exit; }";
    rig.state("WORK.sh", format!("{works}; exec sleep 345"))
        .state("LAST.sh", format!("{works}; sleep 345; exit $?"));
    for (number, (signal, exit)) in
        [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 143)].into_iter().cycle().take(12).enumerate()
    {
        let command = if number == 0 { ["workflow", "--id", "r"] } else { ["resume", "r", "--quiet"] };
        let live = rig.start(&command);
        let mut alive = Vec::new();
        wait_until("all steps", || {
            alive = rig.survivors();
            alive.iter().filter(|(_, command)| command == "sleep 345 ").count() == 4
        });
        // Raymond comes first or last.
        alive.sort_by_key(|(pid, _)| (*pid == live.pid()) == (number % 2 == 0));
        alive.iter().for_each(|(pid, _)| send(*pid, signal));
        live.wait().assert(exit, "");
    }
    rig.write("go", "");
    rig.resume().assert(0, "ok\n");
    let failed: Vec<_> = rig.events().into_iter().filter(|event| event["event"] == "step_failed").collect();
    assert_eq!(failed, [] as [serde_json::Value; 0]);
}

/// As the first process of a container, Raymond is the parent of all orphans there.
#[test]
fn dead_orphans_are_removed_in_a_container() {
    let container = ["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"];
    let can = |output: std::io::Result<std::process::Output>| output.is_ok_and(|it| it.status.success());
    if !can(std::process::Command::new("unshare").args(container).arg("true").output()) {
        return say_skipped("orphans of a container", "`unshare` and the right to use it");
    }
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        r#"# raymond: max_time=60s
        for one in 1 2 3 4 5; do (true & echo $! >> pids); done
        for pid in $(cat pids); do while [ -e /proc/$pid ]; do sleep 0.05; done; done
        for step in 1 2 3 4 5; do echo "<fork>WORK</fork>"; done; echo '<goto>LAST</goto>'"#,
    );
    // Steps that end beside orphans keep their own exit codes.
    rig.state("WORK.sh", "# raymond: fatal=agent\n(sleep 0.1 &); sleep 1; exit 7");
    rig.state("LAST.sh", "echo '<join>END</join>'").state("END.sh", "echo '<result>ok</result>'");
    let mut command = rig.program("unshare");
    command.args(container).args([RAYMOND, "workflow", "--id", "r"]);
    rig.launch(command).wait().assert(0, "ok\n");
    let failed: Vec<_> = rig.events().into_iter().filter(|event| event["event"] == "step_failed").collect();
    assert_eq!(failed.len(), 5);
    assert!(failed.iter().all(|event| event["exit_code"] == 7), "{failed:?}");
}
