//! Texts that are longer than a message of the server.

use raymond_temporal::bundle::hash_of;

use crate::harness::{Rig, count, eventually};

/// Prints so many bytes that cannot be compressed much.
const NOISE: &str = "noise() { head -c $1 /dev/urandom | base64 -w 0; }\n";
/// Notes the hash of what the state is handed.
const NOTE: &str = "sha256sum < \"$RAYMOND_INPUT_FILE\" >> $DIR/handed\n";
/// 6 MiB, and 3 MiB, once they are written as base64.
const SIX: u32 = 4_718_592;
const THREE: u32 = 2_359_296;

/// A text that cannot be compressed much.
fn noise(length: usize) -> String {
    let letters = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-";
    let next = |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    let numbers = std::iter::successors(Some(1_u64), next).skip(1);
    numbers.map(|number| letters[(number >> 58) as usize] as char).take(length).collect()
}

/// The hashes that a file has noted, in the order of the notes.
fn noted(rig: &Rig, name: &str, count: usize) -> Vec<String> {
    rig.lines(name, count)
        .iter()
        .map(|line| line.split_whitespace().next().unwrap_or("").to_owned())
        .collect()
}

/// 6 MiB go through a `goto`, to a called state and back to its caller, on two machines and through several histories, and to
/// the one who waits for the result.
#[test]
fn a_long_text_passes_from_state_to_state_and_is_the_result() {
    let Some(rig) = Rig::new() else { return };
    rig.state(
        "START.sh",
        &format!(
            "{NOISE}text=$(noise {SIX}); printf %s \"$text\" | sha256sum > $DIR/made\n\
             printf '<print>%s</print><goto input=\"%s\">CALL</goto>' \"$text\" \"$text\"\n"
        ),
    );
    let pass_on =
        |tag: &str, end: &str| format!("{NOTE}printf '{tag}'; cat \"$RAYMOND_INPUT_FILE\"; printf '{end}'\n");
    rig.state("CALL.sh", &pass_on("<function return=\"MOVE\" input=\"", "\">CALLED</function>"));
    rig.state("CALLED.sh", &pass_on("<result>", "</result>"));
    // The worker that has all of it until now leaves.
    let wait = "touch $DIR/moving; while [ ! -e $DIR/go ]; do sleep 0.05; done\n";
    rig.state("MOVE.sh", &format!("{wait}{}", pass_on("<goto input=\"", "\">END</goto>")));
    rig.state("END.sh", &pass_on("<result>", "</result>"));
    let mut first = rig.worker("a");
    let address = rig.address();
    let output = std::thread::scope(|scope| {
        let follower = scope.spawn(|| {
            eventually("an answer of the server", || {
                let output = rig.raymond_with(
                    &[("RAYMOND_CONTINUE_AFTER", "12")],
                    &["run", "wf", "--id", "r", "--on", &address],
                );
                (!String::from_utf8_lossy(&output.stderr).contains("does not answer")).then_some(output)
            })
        });
        eventually("the third state", || rig.path("moving").exists().then_some(()));
        let _second = rig.worker("b");
        first.terminate();
        rig.write("go");
        let output = follower.join().expect("no panic");
        assert!(first.ends(), "{}", rig.logs());
        output
    });
    assert!(output.status.success(), "{output:?}\n{}", rig.logs());
    let made = noted(&rig, "made", 1).remove(0);
    assert_eq!(noted(&rig, "handed", 4), vec![made.clone(); 4]);
    let result = output.stdout.strip_suffix(b"\n").unwrap_or(&output.stdout);
    assert_eq!((result.len(), hash_of(result)), (6 * 1024 * 1024, made.clone()));
    let log = rig.until("run_finished");
    assert_eq!((count(&log, "step_finished"), count(&log, "step_failed")), (5, 0));
    let print = log.iter().find(|event| event["event"] == "print").and_then(|event| event["text"].as_str());
    assert_eq!(print.map(|text| hash_of(text.as_bytes())), Some(made));
}

/// The array that a join hands over, as the state notes it. Results of 3 MiB come from texts of the store, and short ones from
/// the run.
#[test]
fn long_results_are_joined_as_in_a_local_run() {
    let Some(rig) = Rig::new() else { return };
    rig.state(
        "START.sh",
        "for n in 1 2 3; do echo \"<fork N=\\\"$n\\\" next=\\\"ALL\\\">ONE</fork>\"; done\n",
    );
    rig.state(
        "ONE.sh",
        &format!(
            "{NOISE}[ -e $DIR/text-$N ] || {{ if [ $N = 2 ]; then echo '\"a\" < b'; else noise {THREE}; fi; }} > $DIR/text-$N\n\
             printf '<result>'; cat $DIR/text-$N; printf '</result>'\n"
        ),
    );
    rig.state("ALL.sh", "echo '<join>DONE</join>'\n");
    rig.state("DONE.sh", &format!("{NOTE}echo '<result>all</result>'\n"));
    let _workers = [rig.worker("a"), rig.worker("b")];
    rig.start_with(&[("RAYMOND_CONTINUE_AFTER", "12")]);
    rig.until("run_finished");
    let local = rig.raymond(&["run", "wf", "--id", "local"]);
    assert!(local.status.success(), "{local:?}");
    let handed = noted(&rig, "handed", 2);
    assert_eq!(handed[0], handed[1]);
    let joined = |id: &str| rig.until_in(id, "joined").into_iter().find(|event| event["event"] == "joined");
    assert_eq!(
        joined("r").map(|event| event["result"].clone()),
        joined("local").map(|event| event["result"].clone())
    );
}

/// Each of these inputs and results is short enough for an event, and all of them are longer than a message: the report of the
/// forks, what is joined, and the state of the run when it continues with a new history.
#[test]
fn many_texts_that_are_long_together_are_handed_on_and_joined() {
    let Some(rig) = Rig::new() else { return };
    rig.state(
        "START.sh",
        &format!(
            "{NOISE}for n in $(seq 60); do echo \"<fork next='ALL' input='$(noise 30000)'>ONE</fork>\"; done\n"
        ),
    );
    rig.state(
        "ONE.sh",
        &format!("{NOISE}wc -c < \"$RAYMOND_INPUT_FILE\" >> $DIR/inputs; printf \"<result>$(noise 48000)</result>\"\n"),
    );
    rig.state("ALL.sh", "echo '<join>DONE</join>'\n");
    rig.state("DONE.sh", "wc -c < \"$RAYMOND_INPUT_FILE\" > $DIR/joined; echo '<result>all</result>'\n");
    let _worker = rig.worker("a");
    rig.start_with(&[("RAYMOND_CONTINUE_AFTER", "12")]);
    let log = rig.until("run_finished");
    assert_eq!((count(&log, "agent_finished"), count(&log, "step_failed")), (61, 0));
    assert_eq!(rig.lines("inputs", 60), vec!["40000"; 60]);
    assert!(rig.read("joined").trim().parse::<usize>().is_ok_and(|length| length > 60 * 64_000));
    // Results were kept in the store only because the state was too large.
    let kept = std::fs::read_dir(rig.path("blobs/runs/r/texts")).expect("texts").flatten();
    assert!(kept.filter_map(|file| file.metadata().ok()).any(|file| file.len() == 64_000));
    // They are in the events of the copy, as in a local run.
    let journal = rig.read("project/.raymond/state/r.jsonl");
    let started = journal.lines().filter(|line| line.contains("\"agent_started\"")).skip(1);
    assert!(started.clone().count() == 60 && started.into_iter().all(|line| line.len() > 40_000));
}

#[test]
fn results_that_are_too_long_together_fail_the_agent() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "for n in 1 2; do echo \"<fork next=\\\"ALL\\\">ONE</fork>\"; done\n");
    rig.state("ONE.sh", &format!("{NOISE}printf \"<result>$(noise 3932160)</result>\"\n"));
    rig.state("ALL.sh", "echo '<join>DONE</join>'\n");
    rig.state("DONE.sh", "echo '<result>all</result>'\n");
    let _worker = rig.worker("a");
    rig.start();
    let log = rig.until("run_stopped");
    let failed =
        log.iter().find(|event| event["event"] == "step_failed").map(|event| event["error"].to_string());
    assert!(
        failed.is_some_and(|error| error.contains("the results of 2 workers are longer than 8 MiB together")),
        "{log:#?}"
    );
}

#[test]
fn a_run_is_given_a_long_input_and_a_long_answer() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", &format!("{NOTE}echo '<ask next=\"THEN\">Which?</ask>'\n"));
    rig.state("THEN.sh", &format!("{NOTE}echo '<result>done</result>'\n"));
    let _worker = rig.worker("a");
    // Of quotes there are two bytes when they are written as JSON.
    let (input, answer) = (noise(6_000_000).replace('a', "\""), noise(1_000_000));
    let address = rig.address();
    eventually("the start of the run", || {
        let run = ["run", "wf", "--id", "r", "--on", &address, "--detach", "--input", "-"];
        let output = rig.raymond_reading(&run, input.as_bytes());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() || said.contains("does not answer"), "{said}");
        output.status.success().then_some(())
    });
    rig.until("ask_opened");
    let answered = rig.raymond_reading(&["answer", "r", "-"], answer.as_bytes());
    assert!(answered.status.success(), "{answered:?}");
    rig.until("run_finished");
    let hashes = [input, answer].map(|text| hash_of(text.as_bytes()));
    assert_eq!(noted(&rig, "handed", 2), hashes, "{}", rig.logs());
}

/// The store is a folder, and is away while that has another name.
#[test]
fn a_join_waits_for_the_store_of_blobs_and_the_run_can_be_stopped_meanwhile() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "echo '<fork next=\"ALL\">ONE</fork><fork>ONE</fork>'\n");
    rig.state("ONE.sh", &format!("{NOISE}printf \"<result>$(noise 60000)</result>\"\n"));
    rig.state(
        "ALL.sh",
        "touch $DIR/waits; while [ ! -e $DIR/go ]; do sleep 0.05; done; echo '<join>DONE</join>'\n",
    );
    rig.state("DONE.sh", &format!("{NOTE}echo '<result>all</result>'\n"));
    let _worker = rig.worker("a");
    rig.start();
    rig.until_count("agent_finished", 2);
    let (texts, aside) = (rig.path("blobs/runs/r/texts"), rig.path("aside"));
    std::fs::rename(&texts, &aside).unwrap();
    // The store does not say that a text is missing, but that it cannot be read.
    std::fs::write(&texts, "").unwrap();
    rig.write("go");
    rig.until_count("step_finished", 4);
    assert!(rig.raymond(&["stop", "r"]).status.success());
    rig.until("run_stopped");
    std::fs::remove_file(&texts).unwrap();
    std::fs::rename(&aside, &texts).unwrap();
    let mut resumed = rig.spawn(&["resume", "r"]);
    let log = rig.until("run_finished");
    assert!(resumed.ends());
    assert_eq!((count(&log, "joined"), count(&log, "step_failed")), (1, 0), "{log:#?}");
}

#[test]
fn a_step_whose_texts_cannot_be_kept_waits_for_the_store() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", &format!("{NOISE}printf \"<goto input='$(noise 60000)'>NEXT</goto>\"\n"));
    rig.state("NEXT.sh", "echo '<result>done</result>'\n");
    rig.start();
    std::fs::create_dir_all(rig.path("blobs/runs/r")).unwrap();
    rig.write("blobs/runs/r/texts");
    let _worker = rig.worker("a");
    eventually("a step that waits", || {
        rig.logs().contains("its texts wait for the blob store").then_some(())
    });
    std::fs::remove_file(rig.path("blobs/runs/r/texts")).unwrap();
    let log = rig.until("run_finished");
    assert_eq!((count(&log, "step_finished"), count(&log, "step_failed")), (2, 0), "{log:#?}");
}
