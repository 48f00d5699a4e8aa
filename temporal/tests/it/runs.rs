//! Runs that nothing disturbs.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::harness::{Port, Rig, count, eventually};

/// Starts a run that asks, and stops it then.
fn stop_at_a_question(rig: &Rig) {
    rig.start();
    rig.until("ask_opened");
    assert!(rig.raymond(&["stop", "r"]).status.success());
    rig.until("run_stopped");
}

#[test]
fn a_run_elsewhere_is_followed_to_its_end() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "echo '<goto input=\"from the first\">NEXT</goto>'\n");
    rig.state("NEXT.sh", "echo \"<result>$RAYMOND_RESULT on ${HOST_NAME}</result>\"\n");
    let _worker = rig.worker("a");
    rig.start();
    // A busy server may not answer at once, and then there is nothing yet to follow.
    rig.until("run_started");
    let output = rig.raymond(&["log", "r", "--follow"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}\n{}", rig.logs());
    assert!(said.contains(" on a"), "{output:?}");
}

/// Without a repository there is nothing that git could keep, and starting it takes as long as a short script.
#[test]
fn git_is_not_started_for_a_run_without_a_repository() {
    let Some(mut rig) = Rig::new() else { return };
    rig.state("START.sh", "echo '<goto>NEXT</goto>'\n");
    rig.state("NEXT.sh", "echo '<result>done</result>'\n");
    rig.start();
    rig.put_before_all_programs("git", "touch \"$DIR/git-was-started\"; exit 1\n");
    let _worker = rig.worker("a");
    rig.until("run_finished");
    assert!(!rig.path("git-was-started").exists());
}

#[test]
fn workers_share_the_agents_of_a_fork_and_the_join_is_complete() {
    let Some(rig) = Rig::new() else { return };
    rig.state(
        "START.sh",
        "for n in 1 2 3 4 5 6 7 8; do echo \"<fork N=\\\"$n\\\" next=\\\"ALL\\\">ONE</fork>\"; done\n",
    );
    rig.state("ONE.sh", "echo \"$N $HOST_NAME\" >> $DIR/ran; echo \"<result>$N</result>\"\n");
    rig.state("ALL.sh", "echo '<join>DONE</join>'\n");
    rig.state("DONE.sh", "echo '<result>all</result>'\n");
    let _workers = [rig.worker("a"), rig.worker("b")];
    rig.start();
    let log = rig.until("run_finished");
    assert_eq!(count(&log, "agent_finished"), 9, "{log:#?}");
    let mut ran: Vec<String> = rig.lines("ran", 8).iter().map(|line| line[..1].to_owned()).collect();
    ran.sort();
    assert_eq!(ran.concat(), "12345678");
}

#[test]
fn a_question_is_answered_and_a_stopped_run_goes_on() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "echo '<ask next=\"THEN\">Which?</ask>'\n");
    rig.state("THEN.sh", "echo \"<result>$RAYMOND_RESULT</result>\"\n");
    let _worker = rig.worker("a");
    stop_at_a_question(&rig);
    let mut resumed = rig.spawn(&["resume", "r"]);
    rig.until("run_resumed");
    let answered = rig.raymond(&["answer", "r", "this one", "--no-resume"]);
    assert!(answered.status.success(), "{answered:?}");
    assert!(resumed.ends(), "the one that resumed the run follows it to its end");
    let log = rig.until("run_finished");
    assert_eq!(count(&log, "ask_closed"), 1);
}

#[test]
fn an_answer_to_a_stopped_run_counts_when_it_goes_on() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "echo '<ask next=\"THEN\">Which?</ask>'\n");
    rig.state("THEN.sh", "echo \"<result>$RAYMOND_RESULT</result>\"\n");
    let _worker = rig.worker("a");
    stop_at_a_question(&rig);
    let answered = rig.raymond(&["answer", "r", "this one", "--no-resume"]);
    assert!(answered.status.success(), "{answered:?}");
    // The question counts as answered, whatever command reaches the server meanwhile.
    assert!(rig.raymond(&["list"]).status.success());
    let second = rig.raymond(&["answer", "r", "ask1", "another"]);
    assert_eq!(second.status.code(), Some(1), "{second:?}");
    let mut resumed = rig.spawn(&["resume", "r"]);
    let log = rig.until("run_finished");
    assert!(resumed.ends());
    assert_eq!(log.last().expect("an end")["result"], "this one");
}

/// One step ends at once, and the other a moment later, when the history has become long enough for a new one.
#[test]
fn a_run_that_is_stopped_at_once_ends_before_it_continues_with_a_new_history() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "echo '<fork next=\"SLOW\">QUICK</fork>'\n");
    rig.state("QUICK.sh", "echo >> $DIR/begun; sleep 300\n");
    rig.state("SLOW.sh", "trap 'sleep 1; exit' TERM; echo >> $DIR/begun; while :; do sleep 0.05; done\n");
    let _worker = rig.worker("a");
    rig.start_with(&[("RAYMOND_CONTINUE_AFTER", "12")]);
    rig.lines("begun", 2);
    assert!(rig.raymond(&["stop", "r", "--now"]).status.success());
    rig.until("run_stopped");
}

#[test]
fn a_worker_without_its_namespace_ends_and_says_why() {
    let Some(rig) = Rig::new() else { return };
    let (server, work) = (rig.server(), rig.path("work"));
    let options =
        ["worker", "--temporal", &server, "--namespace", "no-such-one", "--work", &work.to_string_lossy()];
    let ended = eventually("an answer of the server", || {
        let ended = rig.raymond(&options);
        (!String::from_utf8_lossy(&ended.stderr).contains("does not answer")).then_some(ended)
    });
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("no-such-one"), "{said}");
}

#[test]
fn a_resume_may_choose_another_model_and_another_backend() {
    let Some(rig) = Rig::new() else { return };
    rig.state("workflow.yaml", "backend: scripted\nmodel: first\n");
    rig.state("START.sh", "echo '<ask next=\"TURN\">Which?</ask>'\n");
    rig.state("TURN.md", "Take a turn.\n");
    rig.state("replies.yaml", "TURN: <result>scripted</result>\n");
    let other =
        "[backend.other]\nkind = \"command\"\ncommand = \"echo\"\nargs = [\"<result>other</result>\"]\n";
    rig.configure_worker("a", other);
    let _worker = rig.worker("a");
    stop_at_a_question(&rig);
    let mut resumed = rig.spawn(&["resume", "r", "--backend", "other", "--model", "second"]);
    rig.until("run_resumed");
    assert!(rig.raymond(&["answer", "r", "this", "--no-resume"]).status.success());
    assert!(resumed.ends(), "{:#?}", rig.until("run_resumed"));
    let log = rig.until("run_finished");
    let turn = log.iter().find(|event| event["event"] == "step_started" && event["state"] == "TURN.md");
    let turn = turn.expect("the turn");
    assert_eq!((&turn["backend"], &turn["model"]), (&"other".into(), &"second".into()), "{turn}");
    assert_eq!(log.last().expect("an end")["result"], "other");
}

/// On a machine without the workflow's files, the run has only what is in the store.
#[test]
fn a_resume_without_the_files_keeps_the_states_and_says_if_they_are_missing() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "echo '<ask next=\"THEN\">Which?</ask>'\n");
    rig.state("THEN.sh", "echo '<result>done</result>'\n");
    let _worker = rig.worker("a");
    stop_at_a_question(&rig);
    let (bundles, aside) = (rig.path("blobs/bundles"), rig.path("aside"));
    std::fs::rename(&bundles, &aside).unwrap();
    std::fs::rename(rig.path("project/wf"), rig.path("project/moved")).unwrap();
    let diff = rig.raymond(&["resume", "r", "--diff"]);
    assert!(String::from_utf8_lossy(&diff.stdout).contains("wf is not on this machine"), "{diff:?}");
    let refused = rig.raymond(&["resume", "r", "--model", "other"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("cannot go on: its workflows (bundles/"), "{said}");
    assert!(said.contains("wf is not on this machine; r goes on with the states that it has"), "{said}");
    std::fs::rename(&aside, &bundles).unwrap();
    let mut resumed = rig.spawn(&["resume", "r", "--model", "other"]);
    rig.until("run_resumed");
    assert!(rig.raymond(&["answer", "r", "this", "--no-resume"]).status.success());
    assert!(resumed.ends(), "{}", rig.logs());
    assert_eq!(count(&rig.until("run_finished"), "run_resumed"), 1);
}

/// The edited state names a new one and a workflow in the folder of the first. Until then the run has continued with several histories, and it
/// does so again.
#[test]
fn a_resume_uses_the_states_as_they_are_then() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "echo '<goto>BUILD</goto>'\n");
    rig.state("BUILD.sh", "exit 1\n");
    let _worker = rig.worker("a");
    rig.start_with(&[("RAYMOND_CONTINUE_AFTER", "12")]);
    rig.until("run_stopped");
    rig.state("BUILD.sh", "# raymond: retry=often\necho '<goto>AGAIN</goto>'\n");
    let refused = rig.raymond(&["resume", "r"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(said.contains("BUILD.sh") && said.contains("retry"), "{said}");
    rig.state("BUILD.sh", "echo '<goto>AGAIN</goto>'\n");
    rig.state(
        "AGAIN.sh",
        "[ $RAYMOND_VISITS -gt 8 ] && echo '<call-workflow return=\"END\">inner</call-workflow>' || \
         echo '<goto>AGAIN</goto>'\n",
    );
    rig.state("END.sh", "echo \"<result>$RAYMOND_RESULT</result>\"\n");
    let inner = rig.path("project/wf/inner");
    std::fs::create_dir(&inner).unwrap();
    std::fs::write(inner.join("START.sh"), "echo '<result>from the inner one</result>'\n").unwrap();
    let diff = rig.raymond(&["resume", "r", "--diff"]);
    assert_eq!(String::from_utf8_lossy(&diff.stdout), "changed  wf/BUILD.sh\n", "{diff:?}");
    let resumed = rig.raymond(&["resume", "r"]);
    assert!(resumed.status.success(), "{resumed:?}\n{}", rig.logs());
    let log = rig.until("run_finished");
    assert_eq!(log.last().expect("an end")["result"], "from the inner one");
    assert_eq!((count(&log, "run_resumed"), count(&log, "warning")), (1, 1), "{log:#?}");
    let warning = log.iter().find(|event| event["event"] == "warning").expect("a warning");
    assert_eq!(warning["message"], "BUILD.sh has changed since it last ran; the new text is used");
}

/// A resume that is asked for on the page is one by the command line, in the folder of the project.
#[test]
fn a_resume_on_the_page_uses_the_states_as_they_are_then() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "exit 1\n");
    let _worker = rig.worker("a");
    rig.start();
    rig.until("run_stopped");
    rig.state("START.sh", "echo '<result>mended</result>'\n");
    let port = Port::reserve();
    let address = format!("127.0.0.1:{}", port.number);
    let _server = rig.spawn(&["serve", "--listen", &address]);
    let mut page = eventually("the page", || TcpStream::connect(&address).ok());
    let token = rig.read("project/.raymond/serve.token");
    let headers = format!("Host: {address}\r\nAuthorization: Bearer {}\r\nConnection: close", token.trim());
    let body = "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    write!(page, "POST /api/v1/runs/r/resume HTTP/1.1\r\n{headers}\r\n{body}").unwrap();
    let mut answer = String::new();
    page.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 2"), "{answer}");
    let log = rig.until("run_finished");
    assert_eq!(log.last().expect("an end")["result"], "mended");
}

/// The list of backends that the states of these tests have. Where the run is started, both have a program.
fn take_turns_with_two_backends(rig: &Rig) {
    let backend =
        |name: &str| format!("[backend.{name}]\nkind = \"command\"\ncommand = \"sh\"\ncost = \"none\"\n");
    let config = backend("first") + &backend("second");
    std::fs::write(rig.path("project/.raymond/config.toml"), config).unwrap();
    rig.state("workflow.yaml", "backend: [first, second]\n");
    rig.state("START.md", "Take a turn.\n");
    rig.state("NEXT.md", "Take another one.\n");
}

/// A worker's settings for a backend that leads from the first state to the second, and from there to the end.
fn backend_of_worker(name: &str, program: &str) -> String {
    let settings = format!("kind = \"command\"\ncommand = \"{program}\"\ncost = \"none\"");
    let script = "grep -q another && echo '<result>done</result>' || echo '<reset>NEXT</reset>'";
    format!("[backend.{name}]\n{settings}\nargs = [\"-c\", \"{script}\"]\n")
}

#[test]
fn a_backend_that_the_worker_lacks_is_passed_over() {
    let Some(rig) = Rig::new() else { return };
    take_turns_with_two_backends(&rig);
    let backends = backend_of_worker("first", "/no/such/program") + &backend_of_worker("second", "sh");
    rig.configure_worker("a", &backends);
    let _worker = rig.worker("a");
    rig.start();
    let log = rig.until("run_finished");
    let name = rig.read("a/name");
    let started = |state: &str| {
        let of_state =
            |event: &&serde_json::Value| event["event"] == "step_started" && event["state"] == state;
        log.iter().filter(of_state).map(|event| event["backend"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(started("START.md"), ["first", "second"], "{log:#?}");
    assert_eq!(started("NEXT.md"), ["second"], "{log:#?}");
    let retry = log.iter().find(|event| event["event"] == "retry").expect("a retry");
    let missing = format!("the program of the backend `first` is not on the machine {name}");
    assert_eq!(retry["error"], format!("{missing}; the next one is `second`"));
    let warned = |event: &&serde_json::Value| event["event"] == "warning" && event["state"] == "NEXT.md";
    let warning = log.iter().find(warned).expect("a warning");
    assert_eq!(warning["message"], format!("{missing}; `second` is used"));
    assert_eq!(count(&log, "retry"), 1, "{log:#?}");
}

#[test]
fn a_worker_that_lacks_all_backends_is_named() {
    let Some(rig) = Rig::new() else { return };
    take_turns_with_two_backends(&rig);
    let missing = |name| backend_of_worker(name, "/no/such/program");
    rig.configure_worker("a", &(missing("first") + &missing("second")));
    let _worker = rig.worker("a");
    rig.start();
    let log = rig.until("run_stopped");
    let failed = log.iter().find(|event| event["event"] == "step_failed").expect("a failure");
    let expected = "the programs of the backends `first`, `second` are not on the machine ";
    assert_eq!(failed["error"], format!("{expected}{}", rig.read("a/name")), "{log:#?}");
    assert_eq!(count(&log, "retry"), 0);
}

#[test]
fn a_run_elsewhere_can_be_branched_and_not_taken_back() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "echo '<goto>NEXT</goto>'\n");
    rig.state("NEXT.sh", "[ -e $DIR/fixed ] && echo '<result>here</result>'\n");
    let _worker = rig.worker("a");
    rig.start();
    let before = rig.until("run_stopped").len();
    for refused in [
        &["rewind", "r", "--to", "1"][..],
        &["retry", "r"],
        &["jump", "r", "main", "START"],
        &["resume", "r", "--replay", "x.rec.jsonl"],
        &["resume", "r", "--record", "x.rec.jsonl"],
        &["run", "wf", "--on", "temporal://x", "--replay", "x.rec.jsonl"],
    ] {
        let output = rig.raymond(refused);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{refused:?}: {output:?}");
        assert!(said.contains("r is carried out by temporal://") || said.contains("--replay"), "{said}");
    }
    assert!(!rig.path("project/x.rec.jsonl").exists());
    assert_eq!(rig.until("run_stopped").len(), before);
    rig.write("fixed");
    let branch = rig.raymond(&["branch", "r", "--at", "1", "--id", "b", "--run"]);
    assert_eq!(String::from_utf8_lossy(&branch.stdout), "here\n", "{branch:?}");
}

#[test]
fn a_run_that_cannot_be_read_is_named_and_the_others_are_shown() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "echo '<result>done</result>'\n");
    let _worker = rig.worker("a");
    let start =
        ["workflow", "start", "--type", "raymond_run", "--task-queue", "q", "--workflow-id", "a-bad-one"];
    // The server's own command line has to wait for the server, too.
    eventually("the start of the bad run", || {
        let started = rig.temporal(&[&start[..], &["--input", "{\"written\": \"by another\"}"]].concat());
        started.status.success().then_some(())
    });
    rig.start_as("good", &[]);
    eventually("the end of the good run", || {
        let listed = rig.raymond(&["list"]);
        let (out, said) = (String::from_utf8_lossy(&listed.stdout), String::from_utf8_lossy(&listed.stderr));
        (out.contains("good")
            && out.contains("completed")
            && said.contains("the run a-bad-one cannot be read"))
        .then_some(())
    });
}

#[test]
fn nothing_is_lost_when_a_run_continues_with_a_new_history() {
    let Some(rig) = Rig::new() else { return };
    rig.state(
        "START.sh",
        "n=$(cat n 2>/dev/null || echo 0); n=$((n+1)); echo $n > n; echo $n >> $DIR/ran\n\
         if [ $n = 20 ]; then echo '<ask next=\"END\">Go on?</ask>'; else echo '<goto>START</goto>'; fi\n",
    );
    rig.state("END.sh", "echo '<result>done</result>'\n");
    let _worker = rig.worker("a");
    rig.start_with(&[("RAYMOND_CONTINUE_AFTER", "40")]);
    rig.until("ask_opened");
    assert!(rig.raymond(&["answer", "r", "yes", "--no-resume"]).status.success());
    let log = rig.until("run_finished");
    assert_eq!(count(&log, "step_finished"), 21);
    let seqs: Vec<u64> = log.iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "an event is missing or told twice");
    let ran: Vec<u64> = rig.lines("ran", 20).iter().map(|line| line.parse().unwrap()).collect();
    assert_eq!(ran, (1..=20).collect::<Vec<_>>());
}

#[test]
fn a_worker_that_is_told_to_stop_finishes_its_steps_and_the_agent_goes_on_elsewhere() {
    let Some(rig) = Rig::new() else { return };
    rig.state(
        "START.sh",
        "echo $HOST_NAME >> $DIR/ran\nwhile [ ! -e $DIR/go ]; do sleep 0.05; done\necho '<goto>NEXT</goto>'\n",
    );
    rig.state("NEXT.sh", "echo $HOST_NAME >> $DIR/ran\necho '<result>done</result>'\n");
    let mut leaving = rig.worker("a");
    rig.start();
    rig.lines("ran", 1);
    leaving.terminate();
    let _other = rig.worker("b");
    rig.write("go");
    assert!(leaving.ends(), "{}", rig.logs());
    let log = rig.until("run_finished");
    assert_eq!((count(&log, "step_finished"), count(&log, "retry")), (2, 0), "{log:#?}");
    assert_eq!(rig.read("ran"), "a\nb\n");
}

#[test]
fn answers_and_stops_reach_a_run_that_keeps_continuing_with_new_histories() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "echo '<fork next=\"BUSY\">ASK</fork>'\n");
    // It keeps the run continuing with new histories, until all questions are answered.
    rig.state("BUSY.sh", "[ -e $DIR/answered ] && echo '<join>END</join>' || echo '<goto>BUSY</goto>'\n");
    rig.state("ASK.sh", "echo '<ask next=\"NOTE\">Which?</ask>'\n");
    rig.state(
        "NOTE.sh",
        "echo \"$RAYMOND_RESULT\" >> $DIR/answers\n\
         if [ \"$RAYMOND_RESULT\" = 6 ]; then touch $DIR/answered; echo '<result>all</result>'; \
         else echo '<goto>ASK</goto>'; fi\n",
    );
    rig.state("END.sh", "echo '<result>done</result>'\n");
    let _worker = rig.worker("a");
    rig.start_with(&[("RAYMOND_CONTINUE_AFTER", "12")]);
    let mut follower = None;
    for n in 1..=6 {
        rig.until_count("ask_opened", n);
        assert!(rig.raymond(&["answer", "r", &n.to_string(), "--no-resume"]).status.success());
        rig.until_count("ask_closed", n);
        if n == 3 {
            assert!(rig.raymond(&["stop", "r"]).status.success());
            rig.until("run_stopped");
            follower = Some(rig.spawn(&["resume", "r"]));
        }
    }
    assert!(follower.is_some_and(|mut follower| follower.ends()));
    let log = rig.until("run_finished");
    assert_eq!(rig.read("answers"), "1\n2\n3\n4\n5\n6\n");
    assert_eq!((count(&log, "ask_closed"), count(&log, "run_stopped")), (6, 1), "{log:#?}");
}

/// A pipe takes what is written later than a file does.
#[test]
fn a_follower_shows_a_run_to_its_last_event_and_notifies_of_its_end() {
    let Some(rig) = Rig::new() else { return };
    std::fs::write(
        rig.path("project/.raymond/config.toml"),
        "[raymond]\nnotify = \"echo $RAYMOND_EVENT >> $DIR/notes\"\n",
    )
    .unwrap();
    rig.state("START.sh", "exit 3\n");
    let _worker = rig.worker("a");
    let address = rig.address();
    for id in ["r", "s", "t"] {
        let output = eventually("an answer of the server", || {
            let output = rig.raymond(&["run", "wf", "--id", id, "--on", &address, "--json"]);
            (!String::from_utf8_lossy(&output.stderr).contains("does not answer")).then_some(output)
        });
        let events = String::from_utf8_lossy(&output.stdout);
        assert!(events.lines().last().is_some_and(|line| line.contains("run_stopped")), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("failed (0 steps"), "{output:?}");
    }
    assert_eq!(rig.read("notes").lines().filter(|line| *line == "run_stopped").count(), 3);
    let refused = rig.raymond(&["run", "wf", "--id", "a..b", "--on", &address]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}
