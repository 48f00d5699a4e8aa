//! What only cgroups can do: find processes of a step that hid from everything else. Skipped where the user may not make
//! cgroups.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use test_kit::needs::say_skipped;
use test_kit::rig::{Rig, send, wait_for_file, wait_until};

use crate::RAYMOND;
use crate::processes::is_alive;

/// Starts a process that has another session, no environment, no open files of the step and no parent in it, and one that
/// does nothing but start another in a new session and exit. The first is noted in `pids`; the second holds `lock`.
const HIDES: &str = r#"
env -i setsid /bin/sh -c 'exec <&- >/dev/null 2>&1; setsid /bin/sleep 350 & echo $! >> pids'
env -i "$(command -v perl)" -MPOSIX -e '
    open(LOCK, ">lock"); flock(LOCK, 2); close(STDOUT); close(STDERR); open(STARTED, ">chain");
    while (1) { $p = fork; exit if $p; POSIX::setsid() }' &
until [ -e chain ]; do sleep 0.01; done
"#;

/// Whether this user may make cgroups here; otherwise it says that the test is skipped.
fn has_cgroups(test: &str) -> bool {
    let can = own_cgroup().is_some_and(|own| {
        let probe = own.join(format!("probe-{}-{test}", std::process::id()));
        fs::create_dir(&probe).is_ok() && fs::remove_dir(&probe).is_ok()
    });
    if !can {
        say_skipped(test, "a writable cgroup file system (version 2)");
    }
    can
}

/// The folder of this process's cgroup.
fn own_cgroup() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mount = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let folder = fields.next()?;
        (fields.next()? == "cgroup2").then_some(folder)
    })?;
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new(mount).join(own)).filter(|folder| folder.is_dir())
}

/// The folder of the run's cgroups, as it is noted for a resume.
fn folder(rig: &Rig) -> PathBuf {
    PathBuf::from(rig.read(".raymond/state/r.tasks/cgroup").lines().next().unwrap_or_default())
}

fn pids(rig: &Rig) -> Vec<i32> {
    rig.read("pids").lines().map(|pid| pid.parse().unwrap()).collect()
}

/// Nothing of what [`HIDES`] started lives.
fn assert_all_ended(rig: &Rig) {
    let living: Vec<i32> = pids(rig).into_iter().filter(|pid| is_alive(*pid)).collect();
    living.iter().for_each(|pid| send(*pid, Signal::KILL));
    assert!(!pids(rig).is_empty() && living.is_empty(), "they live on: {living:?}");
    let is_over = fs::File::open(rig.path("lock")).unwrap().try_lock().is_ok();
    assert!(is_over, "the chain lives on");
}

/// Nobody is left who could tell what it is: it has no environment, no parent and no output of the step, and the process that
/// carried out the run has ended.
#[test]
fn what_a_step_has_left_behind_cannot_answer_its_run() {
    if !has_cgroups("what_a_step_has_left_behind_cannot_answer_its_run") {
        return;
    }
    let rig = Rig::new(RAYMOND);
    rig.write("hidden", "until [ -e go ]; do sleep 0.01; done; \"$1\" answer r no; echo $? > exit\n");
    rig.state(
        "START.sh",
        "env -i /bin/sh -c '(setsid /bin/sh hidden \"$1\" &) </dev/null >/dev/null 2>&1' sh \"$RAYMOND\"\n\
         echo '<ask next=\"GOT\">why?</ask>'",
    );
    rig.state("GOT.sh", "echo \"<result>got $RAYMOND_RESULT</result>\"");
    rig.run().assert(3, "");
    rig.write("go", "");
    wait_until("the answer", || rig.read("exit").ends_with('\n'));
    assert_eq!(rig.read("exit"), "2\n");
    rig.raymond(&["answer", "r", "yes", "--no-resume"]).assert(0, "");
    rig.resume().assert(0, "got yes\n");
}

/// Some kernels kill every process that is started in a cgroup that was killed once.
#[test]
fn a_step_that_had_to_be_killed_can_be_tried_again() {
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        "# raymond: timeout=300ms retry=1 backoff=1ms\n\
         [ -e tried ] && { echo '<result>ok</result>'; exit; }\n\
         touch tried; trap '' TERM; while :; do sleep 0.05; done",
    );
    rig.raymond(&["workflow", "--id", "r"]).assert(0, "ok\n");
}

#[test]
fn a_stop_ends_processes_that_hide() {
    if !has_cgroups("a_stop_ends_processes_that_hide") {
        return;
    }
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", format!("{HIDES} touch started; sleep 351"));
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("started"));
    assert_eq!(rig.status()["containment"], "cgroup");
    let folder = folder(&rig);
    assert!(folder.is_dir(), "{}", folder.display());
    rig.raymond(&["stop", "r", "--now"]).assert(0, "");
    live.wait().assert(143, "");
    assert_all_ended(&rig);
    assert!(!folder.exists(), "{} is left behind", folder.display());
}

#[test]
fn a_resume_ends_processes_that_hid_from_a_killed_raymond() {
    if !has_cgroups("a_resume_ends_processes_that_hid_from_a_killed_raymond") {
        return;
    }
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        format!("[ -e started ] && {{ echo '<result>ok</result>'; exit; }} {HIDES} touch started; sleep 352"),
    );
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("started"));
    let folder = folder(&rig);
    live.kill();
    assert!(pids(&rig).into_iter().all(is_alive));
    rig.resume().assert(0, "ok\n");
    assert_all_ended(&rig);
    assert!(!folder.exists(), "{} is left behind", folder.display());
}

#[test]
fn a_failed_step_leaves_no_process_that_hides() {
    if !has_cgroups("a_failed_step_leaves_no_process_that_hides") {
        return;
    }
    for end in
        ["exit 1", "echo no tag", "echo '<goto>NOWHERE</goto>'", "echo '<goto>WORK</goto><goto>WORK</goto>'"]
    {
        let rig = Rig::new(RAYMOND);
        rig.state("START.sh", format!("{HIDES} {end}")).state("WORK.sh", "");
        rig.run().assert(1, "");
        assert_all_ended(&rig);
    }
}

/// They stay in their cgroup, which no other step gets, and which is removed after their end.
#[test]
fn background_children_of_a_successful_step_live_on() {
    if !has_cgroups("background_children_of_a_successful_step_live_on") {
        return;
    }
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "sleep 353 >/dev/null 2>&1 & echo $! > pids; echo '<goto>WORK</goto>'").state(
        "WORK.sh",
        "[ -e twice ] && { echo '<result>ok</result>'; exit; }
        [ -e once ] && touch twice; touch once; until [ ! -e once ]; do sleep 0.01; done; exit 1",
    );
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("once"));
    let of_the_child = folder(&rig);
    rig.raymond(&["stop", "r", "--now"]).assert(0, "");
    live.wait().assert(143, "");
    let [child] = pids(&rig)[..] else { panic!("one child") };
    assert!(is_alive(child), "a stop ended it");
    let live = rig.start(&["resume", "r"]);
    wait_for_file(&rig.path("twice"));
    live.kill();
    rig.resume().assert(0, "ok\n");
    assert!(is_alive(child), "a resume ended it");
    assert!(of_the_child.is_dir());
    send(child, Signal::KILL);
    wait_until("its end", || !is_alive(child));
    // Any later run clears away what is not used any more.
    rig.raymond(&["workflow", "--id", "other"]).assert(0, "ok\n");
    assert!(!of_the_child.exists(), "{} is left behind", of_the_child.display());
}

#[test]
fn steps_use_the_cgroups_of_steps_that_ended() {
    if !has_cgroups("steps_use_the_cgroups_of_steps_that_ended") {
        return;
    }
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        r#"grep 0:: /proc/self/cgroup >> used
        [ "$RAYMOND_VISITS" = 20 ] && echo '<result>ok</result>' || echo '<goto>START</goto>'"#,
    );
    rig.run().assert(0, "ok\n");
    let mut used: Vec<String> = rig.read("used").lines().map(str::to_owned).collect();
    assert_eq!(used.len(), 20);
    used.sort();
    used.dedup();
    assert!(used.len() < 4 && used.iter().all(|path| path.contains("/raymond-r-")), "{used:?}");
}

/// Whether there are cgroups or not, they can be left unused.
#[test]
fn without_cgroups_a_step_is_a_process_group() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "grep 0:: /proc/self/cgroup > used; echo '<result>ok</result>'");
    let mut command = rig.command(&["workflow", "--id", "r"]);
    command.env("RAYMOND_CGROUP", "off");
    rig.launch(command).wait().assert(0, "ok\n");
    assert!(!rig.read("used").contains("raymond-r-"));
    assert_eq!(rig.status()["containment"], "process group");
    let shown = rig.raymond(&["status", "r"]).stdout;
    assert!(shown.contains("a process group for each step"), "{shown}");
}
