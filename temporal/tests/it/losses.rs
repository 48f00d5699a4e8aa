//! Workers that die, and machines that are gone.

use std::fs;
use std::path::{Path, PathBuf};

use mock_api::{Api, say};

use test_kit::needs::{installed, say_skipped};

use crate::harness::{Process, Rig, Way, count, eventually, is_alive, signal};

/// Notes its start, and waits for the file `go` on its machine or for all.
const SLOW: &str = "echo \"$$ $HOST_NAME $(date +%s%N)\" >> $DIR/begun\n\
    while [ ! -e $DIR/go ]; do sleep 0.05; done\n\
    echo '<result>done</result>'\n";

/// Looks whether an earlier execution lives; a zombie does not. Then it starts a program that leaves its session, which
/// writes down again and again that it lives.
const WITH_A_STRAY: &str = "for p in $(cut -d' ' -f1 $DIR/begun $DIR/left 2>/dev/null); do grep -q ') [^Z] ' /proc/$p/stat 2>/dev/null && echo both >> $DIR/both; done\n\
    setsid bash -c 'echo $$ >> $DIR/left; while [ -e $DIR/left -a ! -e $DIR/go ]; do date +%s%N >> $DIR/alive-$HOST_NAME; sleep 0.02; done' >/dev/null 2>&1 &\n\
    while [ ! -e $DIR/alive-$HOST_NAME ]; do sleep 0.02; done\n";

/// The last time in a text.
fn time_of(text: &str) -> Option<u128> {
    text.split_whitespace().last().and_then(|time| time.parse().ok())
}

#[test]
fn a_step_whose_worker_was_killed_runs_once_more_on_its_machine() {
    let Some(rig) = Rig::quick() else { return };
    rig.state("START.sh", SLOW);
    let mut worker = rig.worker("a");
    rig.start();
    let first = rig.lines("begun", 1)[0].clone();
    worker.kill();
    let pid = first.split(' ').next().unwrap();
    eventually("the end of the step's program", || (!is_alive(pid)).then_some(()));
    let _again = rig.worker("a");
    rig.lines("begun", 2);
    rig.write("go");
    let log = rig.until("run_finished");
    let retries: Vec<_> = log.iter().filter(|event| event["event"] == "retry").collect();
    assert_eq!(retries.len(), 1, "{log:#?}");
    assert_eq!(retries[0]["lost"], true);
    assert_eq!(count(&log, "step_finished"), 1);
    assert_eq!(rig.read("begun").lines().count(), 2);
}

#[test]
fn an_agent_moves_with_its_files_when_its_machine_is_gone() {
    let Some(rig) = Rig::quick() else { return };
    rig.commit_all(&[("kept", "as committed\n"), ("gone", "")]);
    rig.state(
        "START.sh",
        "echo changed > new; rm gone; echo task > $RAYMOND_TASK_FOLDER/t\n\
         git add new && git -c user.name=n -c user.email=e commit -qm second new && echo more >> new\n\
         echo '<goto>SLOW</goto>'\n",
    );
    rig.state("SLOW.sh", &format!("{SLOW}echo \"$(cat kept new $RAYMOND_TASK_FOLDER/t) $(git log --format=%s | head -1) $(ls gone)\" > $DIR/seen\n"));
    let mut first = rig.worker("a");
    rig.start();
    rig.lines("begun", 1);
    first.kill();
    let _second = rig.worker("b");
    assert!(rig.lines("begun", 2)[1].contains(" b "));
    rig.write("go");
    rig.until("run_finished");
    assert_eq!(
        rig.read("seen").split_whitespace().collect::<Vec<_>>().join(" "),
        "as committed changed more task second"
    );
}

#[test]
fn an_agent_outside_a_repository_moves_with_the_one_that_it_has_made() {
    let Some(rig) = Rig::quick() else { return };
    rig.state(
        "START.sh",
        "git init -q made && git -C made -c user.name=n -c user.email=e commit -q --allow-empty -m first\n\
         ln -s made link; mkdir empty; echo '<goto>SLOW</goto>'\n",
    );
    rig.state("SLOW.sh", &format!("{SLOW}echo \"$(git -C link log --format=%s) $(ls)\" > $DIR/seen\n"));
    let mut first = rig.worker("a");
    rig.start();
    rig.lines("begun", 1);
    first.kill();
    let _second = rig.worker("b");
    rig.lines("begun", 2);
    rig.write("go");
    rig.until("run_finished");
    assert_eq!(rig.read("seen").split_whitespace().collect::<Vec<_>>(), ["first", "empty", "link", "made"]);
}

#[test]
fn an_agent_moves_without_the_files_that_it_has_removed() {
    let Some(rig) = Rig::quick() else { return };
    rig.commit_all(&[("kept", "as committed\n")]);
    rig.state("START.sh", "echo new > new; echo task > $RAYMOND_TASK_FOLDER/t; echo '<goto>UNDO</goto>'");
    rig.state("UNDO.sh", "cat new; rm new $RAYMOND_TASK_FOLDER/t; echo '<goto>SLOW</goto>'");
    rig.state("SLOW.sh", &format!("{SLOW}echo \"$(ls) $(ls $RAYMOND_TASK_FOLDER)\" > $DIR/seen\n"));
    let mut first = rig.worker("a");
    rig.start();
    rig.lines("begun", 1);
    first.kill();
    let _second = rig.worker("b");
    assert!(rig.lines("begun", 2)[1].contains(" b "));
    rig.write("go");
    rig.until("run_finished");
    assert_eq!(rig.read("seen").split_whitespace().collect::<Vec<_>>(), ["kept"]);
}

/// What a machine still has of an agent is old when the agent has gone on elsewhere.
#[test]
fn an_agent_that_comes_back_to_a_machine_has_what_it_left_on_the_other() {
    let Some(rig) = Rig::quick() else { return };
    rig.commit_all(&[("kept", "as committed\n")]);
    rig.state(
        "START.sh",
        "echo $HOST_NAME >> trail; echo $HOST_NAME >> $RAYMOND_TASK_FOLDER/t; echo $HOST_NAME >> $DIR/ran\n\
         n=$(($(wc -l < trail))); while [ ! -e $DIR/go$n ]; do sleep 0.05; done\n\
         if [ $n = 3 ]; then echo \"<result>$(echo $(cat trail $RAYMOND_TASK_FOLDER/t))</result>\"; else echo '<goto>START</goto>'; fi\n",
    );
    let mut on = rig.worker("a");
    rig.start();
    for (n, next) in [(1, "b"), (2, "a")] {
        rig.lines("ran", n);
        on.terminate();
        let other = rig.worker(next);
        rig.write(&format!("go{n}"));
        assert!(on.ends(), "{}", rig.logs());
        on = other;
    }
    rig.write("go3");
    let log = rig.until("run_finished");
    assert_eq!(log.last().expect("an end")["result"], "a b a a b a");
}

#[test]
fn a_cut_off_machine_ends_its_step_before_another_begins_and_its_late_report_is_ignored() {
    let Some(rig) = Rig::quick() else { return };
    // The second to begin looks whether the first still lives.
    rig.state(
        "START.sh",
        &format!("for p in $(cut -d' ' -f1 $DIR/begun 2>/dev/null); do kill -0 $p 2>/dev/null && echo both >> $DIR/both; done\n{SLOW}"),
    );
    let way = Way::to(&rig);
    let _cut_off = rig.worker_through("a", way.port);
    rig.start();
    let first = rig.lines("begun", 1)[0].clone();
    let _other = rig.worker("b");
    way.cut(true);
    let pid = first.split(' ').next().unwrap().to_owned();
    eventually("the end of the step that was cut off", || (!is_alive(&pid)).then_some(()));
    assert!(rig.lines("begun", 2)[1].contains(" b "));
    way.cut(false);
    rig.write("go");
    let log = rig.until("run_finished");
    assert_eq!(rig.read("both"), "", "two ran at the same time");
    assert_eq!((count(&log, "retry"), count(&log, "step_finished")), (1, 1), "{log:#?}");
}

/// Both workers, the server and the command line are in networks of their own, and what is dropped are packets.
#[test]
fn when_packets_to_a_machine_are_dropped_its_programs_are_dead_before_others_begin() {
    let Some(rig) = Rig::on_network(&["a", "b"]) else { return };
    rig.state("START.sh", &format!("{WITH_A_STRAY}{SLOW}"));
    let _cut_off = rig.worker("a");
    rig.start();
    let first = rig.lines("begun", 1)[0].clone();
    let _other = rig.worker("b");
    rig.network().drop_packets("a", true);
    assert!(!rig.network().reaches_server(Some("a")), "packets are not dropped");
    let second = rig.lines("begun", 2)[1].clone();
    assert!(first.contains(" a ") && second.contains(" b "), "{first}, {second}");
    rig.network().drop_packets("a", false);
    rig.write("go");
    let log = rig.until("run_finished");
    let (last_seen, begun) = (time_of(&rig.read("alive-a")), time_of(&second));
    assert!(last_seen.is_some() && last_seen < begun, "{last_seen:?}, {begun:?}");
    assert_eq!(rig.read("both"), "", "two ran at the same time");
    assert_eq!((count(&log, "retry"), count(&log, "step_finished")), (1, 1), "{log:#?}");
}

#[test]
fn a_killed_worker_leaves_no_programs_behind() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", &format!("{WITH_A_STRAY}{SLOW}"));
    let mut worker = rig.worker("a");
    rig.start();
    let step = rig.lines("begun", 1)[0].split(' ').next().unwrap().to_owned();
    let stray = rig.lines("left", 1)[0].clone();
    let guard = worker.guard();
    worker.kill();
    for (what, pid) in [("program", step), ("program in a session of its own", stray), ("guard", guard)] {
        eventually(&format!("the end of the {what}"), || (!is_alive(&pid)).then_some(()));
    }
}

#[test]
fn a_worker_that_stays_frozen_is_ended_and_its_programs_are_dead_before_others_begin() {
    let Some(rig) = Rig::quick() else { return };
    rig.state("START.sh", &format!("{WITH_A_STRAY}{SLOW}"));
    let mut frozen = rig.worker("a");
    rig.start();
    let first = rig.lines("begun", 1)[0].clone();
    let _other = rig.worker("b");
    frozen.signal("STOP");
    let second = rig.lines("begun", 2)[1].clone();
    assert!(first.contains(" a ") && second.contains(" b "), "{first}, {second}");
    assert!(!frozen.ends(), "its guard has killed it");
    rig.write("go");
    let log = rig.until("run_finished");
    let (last_seen, begun) = (time_of(&rig.read("alive-a")), time_of(&second));
    assert!(last_seen.is_some() && last_seen < begun, "{last_seen:?}, {begun:?}");
    assert_eq!(rig.read("both"), "", "two ran at the same time");
    assert_eq!((count(&log, "retry"), count(&log, "step_finished")), (1, 1), "{log:#?}");
}

#[test]
fn a_worker_that_is_thawed_in_time_goes_on() {
    let Some(rig) = Rig::quick() else { return };
    rig.state("START.sh", &format!("{WITH_A_STRAY}{SLOW}"));
    let mut worker = rig.worker("a");
    rig.start();
    let step = rig.lines("begun", 1)[0].split(' ').next().unwrap().to_owned();
    let stray = rig.lines("left", 1)[0].clone();
    worker.signal("STOP");
    for (what, pid) in [("program", step), ("program in a session of its own", stray)] {
        eventually(&format!("the end of the {what}"), || (!is_alive(&pid)).then_some(()));
    }
    worker.signal("CONT");
    rig.write("go");
    let log = rig.until("run_finished");
    assert_eq!(rig.read("both"), "", "two ran at the same time");
    assert_eq!((count(&log, "retry"), count(&log, "step_finished")), (1, 1), "{log:#?}");
    worker.terminate();
    assert!(worker.ends(), "{}", rig.logs());
}

#[test]
fn a_guard_that_is_killed_or_frozen_is_replaced() {
    for how in ["KILL", "STOP"] {
        let Some(rig) = Rig::quick() else { return };
        rig.state("START.sh", &format!("{WITH_A_STRAY}{SLOW}"));
        let mut worker = rig.worker("a");
        rig.start();
        rig.lines("begun", 1);
        let stray = rig.lines("left", 1)[0].clone();
        let first = worker.guard();
        signal(&first, how);
        eventually("another guard", || rig.logs().contains("another guard is there").then_some(()));
        assert!(!is_alive(&first) && is_alive(&stray));
        let second = worker.guard();
        worker.kill();
        for (what, pid) in [("program", stray), ("second guard", second)] {
            eventually(&format!("the end of the {what}"), || (!is_alive(&pid)).then_some(()));
        }
    }
}

/// A control group in which no process can be started, if this host lets us make one.
struct NoMoreProcesses(PathBuf);

impl NoMoreProcesses {
    fn new() -> Option<Self> {
        let name = format!("raymond-test-{}", std::process::id());
        let made = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"].iter().find_map(|parent| {
            let folder = Path::new(parent).join(&name);
            fs::create_dir(&folder).ok()?;
            let group = Self(folder);
            fs::write(group.0.join("pids.max"), "0").is_ok().then_some(group)
        });
        if made.is_none() {
            say_skipped("a limited number of processes", "root and cgroups");
        }
        made
    }

    fn hold(&self, process: &Process) {
        fs::write(self.0.join("cgroup.procs"), process.0.id().to_string()).expect("a cgroup");
    }
}

impl Drop for NoMoreProcesses {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_worker_that_can_write_no_records_hands_its_steps_on() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "echo \"<result>$HOST_NAME</result>\"\n");
    // There cannot be a folder where a file is.
    fs::create_dir_all(rig.path("a/runs/r")).expect("a folder");
    rig.write("a/runs/r/.records");
    let _broken = rig.worker("a");
    rig.start();
    eventually("the loss", || rig.logs().contains("no records can be written").then_some(()));
    let _other = rig.worker("b");
    let log = rig.until("run_finished");
    assert_eq!(log.last().expect("an end")["result"], "b");
    let retry = log.iter().find(|event| event["event"] == "retry").expect("a retry");
    assert!(retry.to_string().contains("no records can be written"), "{retry}");
}

#[test]
fn a_worker_that_can_start_no_programs_hands_its_steps_on() {
    let Some(rig) = Rig::new() else { return };
    let Some(group) = NoMoreProcesses::new() else { return };
    rig.state("START.sh", &SLOW.replace("<result>done</result>", "<goto>NEXT</goto>"));
    rig.state("NEXT.sh", "echo \"<result>$HOST_NAME</result>\"\n");
    let mut short = rig.worker("a");
    rig.start();
    rig.lines("begun", 1);
    group.hold(&short);
    let _other = rig.worker("b");
    rig.write("go");
    let log = rig.until("run_finished");
    assert_eq!(log.last().expect("an end")["result"], "b", "{log:#?}");
    let retry = log.iter().find(|event| event["event"] == "retry").expect("a retry");
    assert!(retry["error"].as_str().is_some_and(|error| error.contains("cannot start /bin/bash")), "{retry}");
    short.kill();
}

#[test]
fn a_step_whose_files_cannot_be_had_fails_and_says_why() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "echo '<result>done</result>'\n");
    rig.start();
    std::fs::remove_dir_all(rig.path("blobs/bundles")).unwrap();
    let _worker = rig.worker("a");
    let log = rig.until("run_stopped");
    let said =
        log.iter().find(|event| event["event"] == "step_failed").map(|event| event["error"].to_string());
    assert!(said.is_some_and(|said| said.contains("is not in the blob store of this machine")), "{log:#?}");
}

#[test]
fn a_run_may_be_started_below_the_top_of_a_repository() {
    let Some(rig) = Rig::new() else { return };
    rig.commit_all(&[("below/kept", "committed")]);
    rig.state("START.sh", "cat kept > $DIR/seen; echo '<result>done</result>'\n");
    let _worker = rig.worker("a");
    let run = ["run", "../wf", "--id", "r", "--on", &rig.address(), "--detach"];
    assert!(rig.raymond_in("project/below", &run).status.success());
    rig.until("run_finished");
    assert_eq!(rig.read("seen"), "committed");
}

/// The folder with the real Claude Code, or nothing; then the test is skipped.
fn real_claude() -> Option<PathBuf> {
    let program = "claude-code/2.1.325/node_modules/.bin/claude";
    let found = installed(program, "a moved conversation of Claude Code", "install-claude.sh")?;
    found.parent().map(Path::to_owned)
}

#[test]
fn an_agent_moves_with_its_conversation_of_the_real_claude_code() {
    let Some(mut rig) = Rig::quick() else { return };
    let Some(claude) = real_claude() else { return };
    let api = Api::start();
    api.on("begin", [say("<goto>SLOW</goto>")]);
    api.on("go on", [say("<result>done</result>")]);
    let path = std::env::var("PATH").unwrap_or_default();
    rig.variables = vec![
        ("PATH", format!("{}:{path}", claude.display())),
        ("ANTHROPIC_BASE_URL", api.url()),
        ("ANTHROPIC_API_KEY", "dummy".to_owned()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
        ("DISABLE_AUTOUPDATER", "1".to_owned()),
    ];
    rig.state("START.md", "begin");
    rig.state("SLOW.sh", &SLOW.replace("<result>done</result>", "<goto>NEXT</goto>"));
    rig.state("NEXT.md", "go on");
    let mut first = rig.worker("a");
    rig.start();
    rig.lines("begun", 1);
    first.kill();
    std::fs::remove_dir_all(rig.path("home-of-a")).unwrap();
    let _second = rig.worker("b");
    rig.lines("begun", 2);
    rig.write("go");
    let log = rig.until("run_finished");
    assert_eq!((count(&log, "step_finished"), count(&log, "retry")), (3, 1), "{log:#?}");
    let requests = api.requests();
    assert_eq!(requests[1].history, ["user: begin", "agent: <goto>SLOW</goto>", "user: go on"]);
    assert_eq!(count(&log, "warning"), 0, "nothing was left behind: {log:#?}");
}

/// Stands for Claude Code, in a turn without an end.
const ENDLESS_TURN: &str = "case $1 in --version) echo '2.1.325 (Claude Code)'; exit;; esac\n\
    echo begun >> $DIR/begun; while true; do sleep 0.05; done\n";

/// The server itself ends the turn then: it waits to be delivered to its machine again, and no machine has it.
#[test]
fn a_turn_counts_that_is_stopped_after_its_machine_was_lost() {
    let Some(mut rig) = Rig::quick() else { return };
    rig.put_before_all_programs("claude", ENDLESS_TURN);
    rig.state("workflow.yaml", "backend: claude\ndefault_budget: 4\n");
    rig.state("START.md", "Take a turn.\n");
    let mut lost = rig.worker("a");
    rig.start_with(&[("RAYMOND_HOST_PATIENCE_MS", "600000")]);
    rig.lines("begun", 1);
    lost.kill();
    let _other = rig.worker("b");
    eventually("another delivery", || {
        let output = rig.temporal(&["workflow", "describe", "--workflow-id", "r", "--output", "json"]);
        let described: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        let pending = &described["pendingActivities"][0];
        let waits = pending["state"] == "PENDING_ACTIVITY_STATE_SCHEDULED" && pending["attempt"] == 2;
        waits.then_some(())
    });
    assert!(rig.raymond(&["stop", "r", "--now"]).status.success());
    let log = rig.until("run_stopped");
    let of = |kind: &str| log.iter().find(|event| event["event"] == kind).expect("an event");
    let (started, stopped) = (of("step_started"), of("run_stopped"));
    assert!(started["share_usd"].as_f64().is_some_and(|share| share > 0.0), "{started}");
    assert_eq!(stopped["interrupted"][0]["estimated_cost_usd"], started["share_usd"], "{stopped}");
    assert_eq!(stopped["cost_usd"], started["share_usd"], "{stopped}");
    // It runs again when the run is resumed.
    let _again = rig.worker("a");
    let _resumed = rig.spawn(&["resume", "r", "--budget", "20"]);
    rig.lines("begun", 2);
}
