//! Questions to a person: answers at the same time, late, long and from a terminal.

use std::fs::File;

use rustix::process::Signal;
use serde_json::Value;
use test_kit::needs::is_missing;
#[cfg(target_os = "linux")]
use test_kit::needs::say_skipped;
use test_kit::rig::{Done, Live, Rig, wait_until};

use crate::RAYMOND;

fn asking() -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo x >> trace; echo '<ask next=\"GOT\">why?</ask>'");
    rig.state("GOT.sh", "echo \"<result>got $(cat $RAYMOND_INPUT_FILE)</result>\"");
    rig
}

/// A run that has asked a question and waits for the answer.
fn live_ask(rig: &Rig) -> Live {
    let live = rig.start(&["workflow", "--id", "r", "--on-ask", "wait"]);
    live.wait_for_stderr("asks (ask1)");
    live
}

#[test]
fn a_live_run_takes_an_answer_at_once() {
    let rig = asking();
    let live = live_ask(&rig);
    let status = rig.status();
    assert_eq!((&status["status"], &status["asks"][0]["question"]), (&"running".into(), &"why?".into()));
    rig.assert_no_step_lives(&live);
    rig.raymond(&["answer", "r", "because", "--no-resume"]).assert(0, "").says("ask1 is answered");
    live.wait().assert(0, "got because\n");
    assert_eq!(rig.status()["asks"], Value::Array(Vec::new()));
}

/// The status that the list shows for a run.
fn listed(rig: &Rig, args: &[&str], run: &str) -> Option<String> {
    let done = rig.raymond(&[&["list"], args].concat());
    let line = done.stdout.lines().find(|line| line.starts_with(run))?.to_owned();
    line.split_whitespace().nth(1).map(str::to_owned)
}

#[test]
fn the_list_shows_a_live_run_that_only_waits_for_a_person_as_waiting() {
    let rig = asking();
    let live = live_ask(&rig);
    assert_eq!(listed(&rig, &[], "r").as_deref(), Some("waiting"));
    assert_eq!(listed(&rig, &["--status", "waiting"], "r").as_deref(), Some("waiting"));
    assert_eq!(listed(&rig, &["--status", "failed"], "r"), None);
    rig.raymond(&["answer", "yes", "--no-resume"]).assert(0, "");
    live.wait().assert(0, "got yes\n");
    assert_eq!(
        listed(&rig, &[], "r").as_deref(),
        Some("completed"),
        "the cache is not used for a changed journal"
    );
}

#[test]
fn the_list_can_be_narrowed() {
    let rig = asking();
    rig.state("DONE.sh", "echo '<result>done</result>'");
    rig.run().assert(3, "");
    rig.raymond(&["workflow/DONE.sh", "--id", "done"]).assert(0, "done\n");
    let runs = |args: &[&str]| {
        let done = rig.raymond(&[&["list"], args].concat());
        done.stdout
            .lines()
            .skip(1)
            .filter_map(|line| line.split(' ').next())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    for _ in 0..2 {
        assert_eq!(runs(&[]), ["done", "r"]);
        assert_eq!(runs(&["--limit", "1"]), ["done"]);
        assert_eq!(runs(&["--status", "waiting"]), ["r"]);
        assert_eq!(runs(&["--workflow", "workflow"]), ["r"]);
        assert_eq!(runs(&["--since", "1h"]), ["done", "r"]);
        assert_eq!(runs(&["--since", "2100-01-01"]), Vec::<String>::new());
    }
    rig.raymond(&["list", "--since", "soon"]).assert(2, "");
    rig.raymond(&["list", "--status", "sleeping"]).assert(2, "").says("over_budget");
    rig.write(".raymond/state/.list.json", "damaged");
    assert_eq!(runs(&[]), ["done", "r"]);
    rig.write(".raymond/state/done.jsonl", "damaged\nmore\n");
    assert_eq!(listed(&rig, &[], "done").as_deref(), Some("damaged"));
    assert_eq!(listed(&rig, &["--status", "damaged"], "done").as_deref(), Some("damaged"));
    assert!(rig.raymond(&["list", "--json"]).stdout.contains("\"status\": \"damaged\""));
}

#[test]
fn the_status_of_a_live_run_shows_its_last_output_and_of_a_stopped_one_how_to_go_on() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo 'half way'; touch begun; until [ -e go ]; do sleep 0.01; done; exit 3");
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_until("the step", || rig.path("begun").exists());
    wait_until("its output", || rig.raymond(&["status", "r"]).stdout.contains("ago: half way"));
    assert!(rig.raymond(&["status", "r"]).stdout.contains("took"));
    rig.write("go", "");
    live.wait().assert(1, "");
    let status = rig.raymond(&["status", "r"]).stdout;
    assert!(status.contains("continue with: raymond resume r"), "{status}");
}

#[test]
fn a_question_survives_a_kill_and_can_be_answered_before_the_resume() {
    let rig = asking();
    live_ask(&rig).kill();
    let status = rig.status();
    assert_eq!(
        (&status["status"], &status["agents"][0]["status"]),
        (&"interrupted".into(), &"asking".into())
    );
    rig.raymond(&["answer", "r", "ask1", "meanwhile", "--no-resume"]).assert(0, "");
    rig.resume().assert(0, "got meanwhile\n");
    assert_eq!(rig.read("trace"), "x\n");
}

#[test]
fn a_question_survives_a_kill_and_is_asked_again() {
    let rig = asking();
    live_ask(&rig).kill();
    let live = rig.start(&["resume", "r", "--on-ask", "wait"]);
    wait_until("the resumed run", || rig.status()["status"] == "running");
    rig.raymond(&["answer", "r", "ask1", "later", "--no-resume"]).assert(0, "");
    live.wait().assert(0, "got later\n");
    assert_eq!(rig.read("trace"), "x\n");
}

/// Gives many answers at the same time; returns those that were accepted.
fn race(rig: &Rig) -> Vec<String> {
    let racers: Vec<(String, Live)> = (0..12)
        .map(|number| {
            let text = format!("racer {number}");
            (text.clone(), rig.start(&["answer", "r", "ask1", &text]))
        })
        .collect();
    let mut winners = Vec::new();
    for (text, racer) in racers {
        let done: Done = racer.wait();
        match done.exit {
            0 => winners.push(text),
            _ => drop(done.assert(1, "").says("closed already")),
        }
    }
    winners
}

/// Exactly one answer was taken, and its command reported success.
fn assert_one_was_taken(rig: &Rig, winners: &[String], done: &Done) {
    let taken = closed(rig);
    assert_eq!(taken.len(), 1, "{taken:?}");
    assert!(winners.contains(&taken[0]), "{taken:?}, {winners:?}");
    done.assert(0, &format!("got {}\n", taken[0]));
}

#[test]
fn one_of_many_racing_answers_is_taken_by_a_live_run() {
    let rig = asking();
    let live = live_ask(&rig);
    let winners = race(&rig);
    assert_one_was_taken(&rig, &winners, &live.wait());
}

#[test]
fn one_of_many_racing_answers_is_taken_while_the_run_is_stopped() {
    let rig = asking();
    rig.run().assert(3, "");
    let winners = race(&rig);
    assert_eq!(winners.len(), 1, "{winners:?}");
    assert_one_was_taken(&rig, &winners, &rig.resume());
}

#[test]
fn one_of_many_racing_answers_is_taken_while_the_run_is_resumed() {
    let rig = asking();
    rig.run().assert(3, "");
    let live = rig.start(&["resume", "r", "--on-ask", "wait"]);
    let winners = race(&rig);
    let mut done = live.wait();
    // An answer holds the run's lock for a moment; on a very busy machine that may be longer than a resume waits.
    if done.exit == 2 {
        done.says("another Raymond is running");
        done = rig.resume();
    }
    assert_one_was_taken(&rig, &winners, &done);
}

#[test]
fn answers_that_lose_the_race_are_refused() {
    for _ in 0..20 {
        let rig = asking();
        let live = live_ask(&rig);
        let winners = race(&rig);
        assert_eq!(winners.len(), 1, "{winners:?}");
        live.wait();
    }
}

fn closed(rig: &Rig) -> Vec<String> {
    let events = rig.events();
    let closed = events.iter().filter(|event| event["event"] == "ask_closed");
    closed.map(|event| event["answer"].as_str().unwrap().to_owned()).collect()
}

fn answer_from(rig: &Rig, file: &str) -> Done {
    let mut command = rig.command(&["answer", "r", "ask1", "-", "--no-resume"]);
    command.stdin(File::open(rig.path(file)).unwrap());
    rig.launch(command).wait()
}

#[test]
fn an_answer_may_be_a_mebibyte_long_and_no_longer() {
    let rig = asking();
    rig.run().assert(3, "");
    let most = 1024 * 1024;
    rig.write("long", "x".repeat(most + 1));
    answer_from(&rig, "long").assert(2, "").says("longer than 1 MiB");
    let text = "x".repeat(most);
    rig.write("most", format!("{text}\n"));
    answer_from(&rig, "most").assert(0, "");
    rig.resume().assert(0, &format!("got {text}\n"));
}

/// An answer that is too long is refused, wherever its line breaks are.
#[test]
fn a_long_answer_is_never_cut() {
    let rig = asking();
    rig.run().assert(3, "");
    rig.write("long", format!("{}\nand more", "x".repeat(1024 * 1024)));
    answer_from(&rig, "long").assert(2, "").says("longer than 1 MiB");
}

#[test]
fn nul_and_invalid_bytes_in_an_answer_are_replaced() {
    let rig = asking();
    rig.run().assert(3, "");
    rig.write("odd", b"a\0b\xff\xc3\xa4\r\n\n");
    answer_from(&rig, "odd").assert(0, "");
    rig.resume().assert(0, "got a\u{fffd}b\u{fffd}ä\r\n");
}

#[test]
fn a_stop_during_a_question_ends_at_once_and_keeps_it() {
    for how in ["stop", "signal"] {
        let rig = asking();
        let live = live_ask(&rig);
        match how {
            "stop" => drop(rig.raymond(&["stop", "r"]).assert(0, "")),
            _ => live.send(Signal::INT),
        }
        let done = live.wait();
        assert!([130, 3].contains(&done.exit), "{done:?}");
        assert_eq!(rig.status()["asks"][0]["id"], "ask1");
        rig.raymond(&["answer", "r", "after all", "--no-resume"]).assert(0, "");
        rig.resume().assert(0, "got after all\n");
    }
}

#[test]
fn terminate_during_a_question_keeps_it() {
    let rig = asking();
    let live = live_ask(&rig);
    live.send(Signal::TERM);
    live.wait().assert(143, "");
    rig.raymond(&["answer", "r", "after all", "--no-resume"]).assert(0, "");
    rig.resume().assert(0, "got after all\n");
}

/// A question that timed out while no process ran. A later answer is too late and is refused.
fn overdue() -> Option<Rig> {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<ask next=\"GOT\" timeout=\"2s\" timeout_next=\"LATE\">why?</ask>'");
    rig.state("GOT.sh", "echo \"<result>got $RAYMOND_RESULT</result>\"");
    rig.state("LATE.sh", "echo \"<result>late ${RAYMOND_RESULT-unset}</result>\"");
    let done = rig.run();
    let asked = std::time::Instant::now();
    wait_until("the end of the time", || asked.elapsed().as_millis() > 2000);
    // On a very busy machine the question may have timed out before the run could pause.
    (done.exit == 3).then_some(rig)
}

#[test]
fn a_timeout_while_the_run_was_stopped_is_noticed_on_resume() {
    let Some(rig) = overdue() else { return };
    rig.resume().assert(0, "late \n");
}

#[test]
fn an_answer_after_the_timeout_is_refused_while_the_run_is_stopped() {
    let Some(rig) = overdue() else { return };
    rig.raymond(&["answer", "r", "ask1", "too late", "--no-resume"])
        .assert(1, "")
        .says("had to be answered before")
        .says("LATE.sh");
    rig.resume().assert(0, "late \n");
    rig.raymond(&["answer", "r", "ask1", "too late", "--no-resume"])
        .assert(1, "")
        .says("was not answered in time");
}

#[test]
fn an_answer_after_the_timeout_is_refused_by_a_live_run() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<ask next=\"GOT\" timeout=\"10ms\" timeout_next=\"LATE\">why?</ask>'");
    rig.state("GOT.sh", "echo \"<result>got $RAYMOND_RESULT</result>\"");
    rig.state("LATE.sh", "touch late; until [ -e go ]; do sleep 0.01; done; echo '<result>late</result>'");
    let live = rig.start(&["workflow", "--id", "r", "--on-ask", "wait"]);
    wait_until("the timeout", || rig.path("late").exists());
    rig.raymond(&["answer", "r", "ask1", "too late", "--no-resume"])
        .assert(1, "")
        .says("was not answered in time");
    rig.write("go", "");
    live.wait().assert(0, "late\n");
}

#[test]
fn without_a_run_the_only_open_question_is_answered() {
    let rig = asking();
    rig.raymond(&["answer", "yes", "--no-resume"]).assert(2, "").says("no run").says("waits for an answer");
    rig.run().assert(3, "");
    rig.raymond(&["answer", "r", "--no-resume"]).assert(2, "").says("the answer is missing");
    rig.raymond(&["workflow", "--id", "s"]).assert(3, "");
    rig.raymond(&["answer", "yes", "--no-resume"]).assert(2, "").says("r ask1").says("s ask1");
    rig.raymond(&["answer", "ask1", "yes"]).assert(2, "").says("no run 'ask1'");
    rig.raymond(&["answer", "s", "one", "--resume"]).assert(0, "got one\n");
    rig.raymond(&["answer", "--resume", "two"]).assert(0, "got two\n").says("ask1 is answered");
}

#[test]
fn a_step_cannot_answer_its_own_run() {
    let rig = asking();
    rig.run().assert(3, "");
    for (own, exit) in [("r", 2), ("another", 0)] {
        let mut command = rig.command(&["answer", "r", "yes", "--no-resume"]);
        command.env("RAYMOND_RUN_ID", own);
        let done = rig.launch(command).wait();
        assert_eq!(done.exit, exit, "{own}: {done:?}");
    }
}

/// Ways in which a step answers a question of its own run and hides what it is. `$1` is Raymond; the exit code is left in the
/// file `exit`.
const HIDDEN_ANSWERS: [(&str, &str); 7] = [
    ("as it is", r#""$1" answer r no; echo $? > exit"#),
    (
        "without the run's id",
        r#"env -u RAYMOND_RUN_ID -u RAYMOND_WORKFLOW_ID "$1" answer r no; echo $? > exit"#,
    ),
    ("without the token", r#"env -u RAYMOND_RUN_ID -u RAYMOND_STEP_TOKEN "$1" answer r no; echo $? > exit"#),
    ("in another session", r#"env -i setsid --wait "$1" answer r no; echo $? > exit"#),
    ("in place of the step", r#"exec env -i /bin/sh -c '"$1" answer r no; echo $? > exit' sh "$1""#),
    (
        "below what is in place of the step",
        r#"exec env -i /bin/sh -c 'setsid --wait "$1" answer r no >/dev/null 2>&1; echo $? > exit' sh "$1""#,
    ),
    (
        "without a parent",
        r#"env -i /bin/sh -c '(setsid /bin/sh hidden "$1" &) </dev/null >/dev/null 2>&1' sh "$1"; touch orphaned
           until [ -e exit ]; do sleep 0.01; done"#,
    ),
];

/// Whether a step is refused is decided by what its processes are, and never by what they can leave out.
#[test]
fn a_step_that_hides_cannot_answer_its_own_run() {
    for (way, answers) in HIDDEN_ANSWERS {
        let rig = Rig::new(RAYMOND);
        rig.state("START.sh", "echo '<fork next=\"ASK\">WORK</fork>'");
        rig.state("ASK.sh", "echo '<ask next=\"GOT\">why?</ask>'");
        rig.state("GOT.sh", "echo \"<result>got $RAYMOND_RESULT</result>\"");
        rig.write(
            "hidden",
            "until [ -e orphaned ]; do sleep 0.01; done; \"$1\" answer r no; echo $? > exit\n",
        );
        rig.write("work", answers);
        let work = "until grep -q '\"ask_opened\"' .raymond/state/r.jsonl; do sleep 0.01; done\n\
                    . ./work\n";
        rig.state(
            "WORK.sh",
            format!("# raymond: fatal=agent\nset -- \"$RAYMOND\"\n{work}echo '<result></result>'\n"),
        );
        let mut run = rig.command(&["workflow", "--id", "r", "--on-ask", "wait"]);
        run.env("RAYMOND_CGROUP", "off");
        let live = rig.launch(run);
        wait_until("the step's answer", || rig.read("exit").ends_with('\n'));
        assert_eq!(rig.read("exit"), "2\n", "{way}");
        // What a person starts has nothing to do with the steps.
        rig.raymond(&["answer", "r", "yes", "--no-resume"]).assert(0, "");
        live.wait();
        let closed = rig.events().into_iter().find(|event| event["event"] == "ask_closed").unwrap();
        assert_eq!(closed["answer"], "yes", "{way}");
        rig.assert_nothing_lives();
    }
}

/// Another run's question is for that run's steps as for everyone else.
#[test]
fn a_step_can_answer_another_run() {
    let rig = asking();
    rig.run().assert(3, "");
    rig.write("other/START.sh", "\"$RAYMOND\" answer r yes >&2 && echo '<result>done</result>'\n");
    rig.raymond(&["other", "--id", "other"]).assert(0, "done\n");
    rig.resume().assert(0, "got yes\n");
}

/// A branch has the questions of the run that it was made from, so a step must neither make nor answer one.
#[test]
fn a_step_can_do_nothing_about_its_run_or_a_branch_but_stop_it() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<goto>FORK</goto>'");
    rig.state("FORK.sh", "echo '<fork next=\"ASK\">WORK</fork>'");
    rig.state("ASK.sh", "echo '<ask next=\"GOT\">why?</ask>'");
    rig.state("GOT.sh", "echo \"<result>got $RAYMOND_RESULT</result>\"");
    rig.write(
        "work",
        r#"try() { env -u RAYMOND_RUN_ID setsid --wait "$RAYMOND" "$@" 2> said; echo "$? $1 $(grep -c '^error: a step of r cannot' said)" >> tried; }
           try branch r --at 2 --id mine
           try rewind r --to 2
           try retry r
           try jump r main GOT
           try resume r
           try answer b ask1 no --resume
           try branch b --at 1 --id mine
           try rewind b --to 1
           try resume b
           try stop r
           touch tried-all"#,
    );
    rig.state(
        "WORK.sh",
        "# raymond: fatal=agent\nuntil [ -e branched ]; do sleep 0.01; done\n. ./work\necho '<result></result>'\n",
    );
    let live = rig.start(&["workflow", "--id", "r", "--on-ask", "wait"]);
    live.wait_for_stderr("asks (ask1)");
    let asking = rig.events().into_iter().rfind(|event| event["event"] == "ask_opened").unwrap();
    let step = asking["step"].to_string();
    rig.raymond(&["branch", "r", "--at", &step, "--id", "b"]).assert(0, "b\n");
    rig.write("branched", "");
    wait_until("all attempts", || rig.path("tried-all").exists());
    let expected = ["branch", "rewind", "retry", "jump", "resume", "answer", "branch", "rewind", "resume"];
    let expected: String = expected.iter().map(|command| format!("2 {command} 1\n")).collect();
    assert_eq!(rig.read("tried"), format!("{expected}0 stop 0\n"));
    live.wait();
    assert!(!rig.path(".raymond/state/mine.jsonl").exists());
    // A person may do all of it.
    rig.raymond(&["answer", "b", "ask1", "yes", "--no-resume"]).assert(0, "");
    rig.raymond(&["answer", "r", "ask1", "yes", "--resume"]).assert(0, "got yes\n");
}

/// Ways to start a program that does not see who its ancestors are. `$@` is what it runs.
#[cfg(target_os = "linux")]
const BLINDFOLDS: [(&str, &str); 4] = [
    ("another pid namespace", r#"exec unshare -rpf --mount-proc "$@""#),
    ("another folder as /proc", r#"exec unshare -rm sh -c 'mount -t tmpfs none /proc; exec "$@"' sh "$@""#),
    (
        "covered ancestors",
        r#"exec unshare -rm sh -c 'mount --bind /dev/null /proc/1/environ; exec "$@"' sh "$@""#,
    ),
    ("another user namespace", r#"exec unshare -r "$@""#),
];

/// Where it cannot be told who asks, nobody answers; whoever sees the run's process from beside it is not hindered.
#[cfg(target_os = "linux")]
#[test]
fn who_cannot_see_the_processes_of_a_run_does_not_answer_it() {
    if is_missing("unshare", "who_cannot_see_the_processes_of_a_run_does_not_answer_it") {
        return;
    }
    let rig = asking();
    let live = live_ask(&rig);
    for (way, script) in BLINDFOLDS {
        let raymond = rig.command(&["answer", "r", "no"]);
        let under = |script: &str, args: Vec<std::ffi::OsString>| {
            let mut command = rig.program("/bin/sh");
            command.arg("-c").arg(script).arg("sh").args(args);
            rig.launch(command).wait()
        };
        if under(script, vec!["true".into()]).exit != 0 {
            say_skipped("who_cannot_see_the_processes_of_a_run_does_not_answer_it", way);
            continue;
        }
        let args = [raymond.get_program()].into_iter().chain(raymond.get_args());
        let done = under(script, args.map(ToOwned::to_owned).collect());
        done.assert(2, "").says("cannot tell whether a step of r asks").says("where the run is");
    }
    rig.raymond(&["answer", "r", "yes", "--no-resume"]).assert(0, "");
    live.wait().assert(0, "got yes\n");
}

#[test]
fn a_resume_takes_the_latest_run_that_can_go_on() {
    let rig = asking();
    rig.raymond(&["resume"]).assert(2, "").says("there are no runs");
    rig.run().assert(3, "");
    rig.raymond(&["answer", "r", "first", "--no-resume"]).assert(0, "");
    rig.state("DONE.sh", "echo '<result>done</result>'");
    rig.raymond(&["workflow/DONE.sh", "--id", "done"]).assert(0, "done\n");
    rig.raymond(&["resume"]).assert(0, "got first\n");
    rig.raymond(&["resume"]).assert(2, "").says("can go on");
    rig.raymond(&["resume", "done"]).assert(0, "done\n");
}

#[test]
fn the_state_file_of_an_earlier_program_is_named() {
    let rig = asking();
    rig.run().assert(3, "");
    rig.write(".raymond/state/old-1.json", "{}");
    let done = rig.raymond(&["resume", "old-1"]);
    done.assert(2, "").says("old-1.json").says("cannot be resumed");
}

#[test]
fn an_empty_answer_is_refused_unless_the_question_takes_one() {
    let rig = asking();
    rig.run().assert(3, "");
    for empty in ["", "  "] {
        rig.raymond(&["answer", "r", empty, "--no-resume"])
            .assert(2, "")
            .says("an empty answer does not count");
    }
    rig.raymond(&["answer", "r", "full", "--no-resume"]).assert(0, "");
    rig.resume().assert(0, "got full\n");

    let rig = asking();
    rig.state("START.sh", "echo '<ask next=\"GOT\" empty=\"ok\">why?</ask>'");
    rig.run().assert(3, "");
    rig.raymond(&["answer", "r", "", "--no-resume"]).assert(0, "");
    rig.resume().assert(0, "got \n");
}

/// An answer given in time counts, even if the run is resumed after the deadline.
#[test]
fn an_answer_in_time_counts_though_the_resume_is_late() {
    // A slow machine needs more time for that.
    let was_in_time = [3, 12, 48].into_iter().any(|seconds| {
        let rig = Rig::new(RAYMOND);
        let ask = format!("<ask next=\"GOT\" timeout=\"{seconds}s\" timeout_next=\"LATE\">why?</ask>");
        rig.state("START.sh", format!("echo '{ask}'"));
        rig.state("GOT.sh", "echo \"<result>got $RAYMOND_RESULT</result>\"")
            .state("LATE.sh", "echo '<result>late</result>'");
        let begin = std::time::Instant::now();
        rig.run();
        let asked = std::time::Instant::now();
        rig.raymond(&["answer", "r", "ask1", "in time", "--no-resume"]);
        if begin.elapsed().as_secs() >= seconds {
            return false;
        }
        wait_until("the end of the time", || asked.elapsed().as_secs() >= seconds);
        rig.resume().assert(0, "got in time\n");
        true
    });
    assert!(was_in_time, "answering takes too long");
}

/// Runs a command on its own terminal and prints all output. Types each answer when its question appears: the arguments
/// are pairs of the two, then `--` and the command.
const TERMINAL: &str = r#"
import os, pty, sys
split = sys.argv.index('--')
words, command = [word.encode() for word in sys.argv[1:split]], sys.argv[split + 1:]
steps = list(zip(words[::2], words[1::2]))
pid, terminal = pty.fork()
if pid == 0:
    os.execv(command[0], command)
seen, read = b'', 0
while True:
    try:
        piece = os.read(terminal, 4096)
    except OSError:
        break
    if not piece:
        break
    seen += piece
    while steps and steps[0][0] in seen[read:]:
        question, answer = steps.pop(0)
        read = seen.index(question, read) + len(question)
        os.write(terminal, answer)
        open('typed', 'ab').write(answer)
sys.stdout.buffer.write(seen)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) % 256)
"#;

/// What is on the screen when Raymond has begun to read an answer.
const READS: &str = "\u{1b}[?2004h";

pub fn at_a_terminal(rig: &Rig, steps: &[(&str, &str)], args: &[&str]) -> Done {
    let mut command = rig.program("python3");
    command.args(["-c", TERMINAL]);
    for (question, answer) in steps {
        command.args([question, answer]);
    }
    command.args(["--", RAYMOND]).args(args).env("TERM", "xterm").env_remove("CI");
    rig.launch(command).wait()
}

/// Types the answer once the question is on the screen and the answer is read.
fn on_a_terminal(rig: &Rig, question: &str, answer: &str, args: &[&str]) -> Done {
    at_a_terminal(rig, &[(question, ""), (READS, answer)], args)
}

#[test]
fn a_question_is_asked_and_answered_on_a_terminal() {
    if is_missing("python3", "a_terminal_asks_and_takes_what_is_typed") {
        return;
    }
    let rig = asking();
    let done = on_a_terminal(&rig, "why?", "typed in\r", &["workflow", "--id", "r"]);
    assert_eq!(done.exit, 0, "{done:?}");
    assert!(done.stdout.contains("why?") && done.stdout.contains("got typed in"), "{}", done.stdout);
    assert_eq!(closed(&rig), ["typed in"]);
}

/// Enter pressed while a step runs must not answer the question that comes next.
#[test]
fn what_was_typed_before_the_question_does_not_answer_it() {
    if is_missing("python3", "what_was_typed_before_the_question_does_not_answer_it") {
        return;
    }
    for has_live_view in [true, false] {
        let rig = asking();
        rig.state("START.sh", "echo '<print>begins</print>'; until [ -e go ]; do sleep 0.01; done; echo '<ask next=\"GOT\">why?</ask>'");
        let mut command = rig.program("python3");
        command.args([
            "-c",
            TERMINAL,
            "begins",
            "\rtoo early\r",
            "why?",
            "",
            READS,
            "in time\r",
            "--",
            RAYMOND,
        ]);
        command.args(["workflow", "--id", "r", "--no-debug"]).env("TERM", "xterm").env_remove("CI");
        if !has_live_view {
            command.env("CI", "1");
        }
        let live = rig.launch(command);
        wait_until("the typing", || rig.path("typed").exists());
        rig.write("go", "");
        let done = live.wait();
        assert_eq!((done.exit, closed(&rig)), (0, vec!["in time".to_owned()]), "{done:?}");
    }
}

#[test]
fn an_empty_line_is_no_answer_and_the_line_can_be_edited() {
    if is_missing("python3", "an_empty_line_is_no_answer_and_the_line_can_be_edited") {
        return;
    }
    let rig = asking();
    let typed = "ys\u{1b}[De\u{1b}[H\u{1b}[Cx\u{7f}\u{1b}[F!\r";
    let steps = [("why?", ""), (READS, "\r"), ("does not count", typed)];
    let done = at_a_terminal(&rig, &steps, &["workflow", "--id", "r"]);
    assert_eq!((done.exit, closed(&rig)), (0, vec!["yes!".to_owned()]), "{done:?}");

    let rig = asking();
    rig.state("START.sh", "echo '<ask next=\"GOT\" empty=\"ok\">why?</ask>'");
    let done = on_a_terminal(&rig, "why?", "\r", &["workflow", "--id", "r"]);
    assert_eq!((done.exit, closed(&rig)), (0, vec![String::new()]), "{done:?}");
}

/// Each key is shown at once: the next is typed only when the one before is on the screen.
#[test]
fn what_is_typed_is_shown_at_once() {
    if is_missing("python3", "what_is_typed_is_shown_at_once") {
        return;
    }
    let rig = asking();
    let steps = [("why?", ""), (READS, "a"), ("> a", "b"), ("> ab", "\r")];
    let done = at_a_terminal(&rig, &steps, &["workflow", "--id", "r"]);
    assert_eq!((done.exit, closed(&rig)), (0, vec!["ab".to_owned()]), "{done:?}");
}

#[test]
fn an_answer_may_have_several_lines() {
    if is_missing("python3", "an_answer_may_have_several_lines") {
        return;
    }
    let rig = asking();
    let typed = "one\\\rtwo\\\r\u{1b}[200~three\nfour\u{1b}[201~\r";
    on_a_terminal(&rig, "why?", typed, &["workflow", "--id", "r"]);
    assert_eq!(closed(&rig), ["one\ntwo\nthree\nfour"]);
}

#[test]
fn with_pause_no_question_is_asked_on_a_terminal() {
    if is_missing("python3", "a_terminal_that_is_told_to_pause_does_not_ask") {
        return;
    }
    let rig = asking();
    let done = on_a_terminal(&rig, "nothing", "", &["workflow", "--id", "r", "--on-ask", "pause"]);
    assert_eq!(done.exit, 3, "{done:?}");
}

#[test]
fn several_questions_are_asked_one_after_the_other_on_a_terminal() {
    if is_missing("python3", "a_terminal_asks_one_question_after_the_other") {
        return;
    }
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<ask next=\"TWO\">first?</ask>'");
    rig.state("TWO.sh", "echo \"$RAYMOND_RESULT\" > first; echo '<ask next=\"GOT\">second?</ask>'");
    rig.state("GOT.sh", "echo \"<result>$(cat first) and $RAYMOND_RESULT</result>\"");
    let steps = [("first?", ""), (READS, "one\r"), ("second?", ""), (READS, "two\r")];
    let done = at_a_terminal(&rig, &steps, &["workflow", "--id", "r", "--on-ask", "prompt"]);
    assert_eq!(done.exit, 0, "{done:?}");
    assert_eq!(closed(&rig), ["one", "two"]);
}

#[test]
fn ctrl_c_at_a_question_stops_the_run_and_keeps_the_question() {
    if is_missing("python3", "an_interrupt_typed_at_a_question_stops_and_keeps_it") {
        return;
    }
    let rig = asking();
    let done = on_a_terminal(&rig, "why?", "\u{3}", &["workflow", "--id", "r"]);
    assert!([130, 3].contains(&done.exit), "{done:?}");
    rig.raymond(&["answer", "r", "later", "--no-resume"]).assert(0, "");
    rig.resume().assert(0, "got later\n");
}

#[test]
fn a_resume_prints_its_first_line_before_it_asks_again() {
    if is_missing("python3", "a_resume_says_that_the_run_goes_on_before_it_asks_again") {
        return;
    }
    let rig = asking();
    rig.raymond(&["workflow", "--id", "r"]).assert(3, "");
    let done = on_a_terminal(&rig, "why?", "again\r", &["resume", "r"]);
    let (resumed, asked) = (done.stdout.find(" resumed").unwrap(), done.stdout.find("why?").unwrap());
    assert!(resumed < asked, "{}", done.stdout);
}

#[test]
fn an_answered_question_is_not_asked_again() {
    if is_missing("python3", "what_is_answered_already_is_not_asked_again") {
        return;
    }
    let rig = asking();
    rig.raymond(&["workflow", "--id", "r"]).assert(3, "");
    rig.raymond(&["answer", "r", "before", "--no-resume"]).assert(0, "");
    let done = on_a_terminal(&rig, "why?", "", &["resume", "r"]);
    // The live view may show the question for a moment, but no answer is read.
    assert!(!done.stdout.contains(READS), "{}", done.stdout);
}

/// The command answers before the person at the terminal, and the terminal shows it.
#[test]
fn an_answer_from_the_command_ends_the_question_on_the_terminal() {
    if is_missing("python3", "an_answer_from_elsewhere_ends_the_question_on_the_terminal") {
        return;
    }
    let rig = asking();
    let mut command = rig.program("python3");
    command.args(["-c", TERMINAL, "--", RAYMOND, "workflow", "--id", "r", "--on-ask", "prompt"]);
    let live = rig.launch(command);
    wait_until("the question", || rig.read(".raymond/state/r.jsonl").contains("ask_opened"));
    rig.raymond(&["answer", "r", "from elsewhere", "--no-resume"]).assert(0, "");
    let done = live.wait();
    assert_eq!(done.exit, 0, "{done:?}");
    assert!(done.stdout.contains("got from elsewhere"), "{}", done.stdout);
}

#[test]
fn without_a_terminal_prompting_is_refused_or_the_run_pauses() {
    let rig = asking();
    let done = rig.raymond(&["workflow", "--id", "r", "--on-ask", "prompt"]);
    assert!([2, 3].contains(&done.exit), "{done:?}");
}

#[test]
fn missing_inputs_are_asked_for_on_a_terminal() {
    if is_missing("python3", "missing_inputs_are_asked_for_on_a_terminal") {
        return;
    }
    let rig = Rig::new(RAYMOND);
    rig.write(
        "workflow/workflow.yaml",
        "inputs:\n  issue: { type: integer, required: true, description: its number }\n  \
         style: { choices: [ short, long ], required: true }\n  given: { required: true }\n",
    );
    rig.state("START.sh", "echo \"<result>$issue $style $given</result>\"");
    let steps = [
        ("`issue` (a whole number; its number): ", "five\r"),
        ("`five` is not a whole number", ""),
        ("`issue` (a whole number; its number): ", "5\r"),
        ("`style` (`short` or `long`): ", "\r"),
        ("it cannot be left out", ""),
        ("`style` (`short` or `long`): ", "long\r"),
    ];
    let done = at_a_terminal(&rig, &steps, &["workflow", "--id", "r", "--set", "given=yes"]);
    assert!(done.stdout.contains("5 long yes"), "{}", done.stdout);
}

/// The question of a run that was taken back has the number of one that was dropped.
#[test]
fn an_answer_is_for_its_own_question_whatever_has_its_number_later() {
    let rig = asking();
    rig.state("ASK.sh", "echo '<ask next=\"GOT\">why?</ask>'").state("START.sh", "echo '<goto>ASK</goto>'");
    assert_eq!(rig.run().exit, 3);
    rig.raymond(&["answer", "r", "before", "--no-resume"]).assert(0, "");
    let message = rig.path(".raymond/state/r.in/answer-ask1");
    let before = std::fs::read(&message).unwrap();
    rig.raymond(&["rewind", "r", "--to", "1"]).assert(0, "dropped-1-r\n");
    // As if the rewind had been killed before it gave the answer to the other run.
    std::fs::write(&message, &before).unwrap();
    std::fs::remove_file(rig.path(".raymond/state/dropped-1-r.in/answer-ask1")).unwrap();
    let live = rig.start(&["resume", "r", "--on-ask", "wait"]);
    live.wait_for_stderr("asks (ask1)");
    // As if it had come while the run was taken back.
    std::fs::write(&message, &before).unwrap();
    wait_until("the answer to be read", || !message.exists());
    rig.raymond(&["answer", "r", "after", "--no-resume"]).assert(0, "");
    live.wait().assert(0, "got after\n");
    rig.raymond(&["resume", "dropped-1-r"]).assert(0, "got before\n");
}

#[test]
fn an_answer_that_is_given_after_a_rewind_is_for_the_run_that_was_taken_back() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<ask next=\"END\">really?</ask>'");
    rig.state("END.sh", "echo \"<result>$RAYMOND_INPUT</result>\"");
    rig.run().assert_is(3);
    rig.raymond(&["answer", "r", "ask1", "first", "--resume"]).assert(0, "first\n");
    rig.raymond(&["rewind", "r", "--to", "1"]).assert(0, "dropped-1-r\n");
    rig.raymond(&["answer", "r", "ask1", "second", "--no-resume"]).assert_is(0);
    rig.raymond(&["resume", "r"]).assert(0, "second\n");
}
