//! Which run and which steps the words of a command line mean, and the lists from which one is chosen.

use test_kit::rig::{Done, Rig};

use crate::RAYMOND;

/// Workflows that ask, fail and complete.
fn several() -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.write("asks/START.sh", "echo '<ask next=\"GOT\">why, then?</ask>'");
    rig.write("asks/GOT.sh", "echo \"<result>got $RAYMOND_INPUT</result>\"");
    rig.write("fails/START.sh", "test -f mended && echo '<result>fine</result>' || exit 3");
    rig.write("works/START.sh", "echo '<goto>NEXT</goto>'");
    rig.write("works/NEXT.sh", "echo '<goto>LAST</goto>'");
    rig.write("works/LAST.sh", "echo '<result>ok</result>'");
    rig
}

/// The first words of the lines of a table, without its heading.
fn first_words(done: &Done) -> Vec<String> {
    done.assert_is(0);
    done.stdout.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn a_run_is_named_by_either_end_by_its_place_or_by_its_workflow() {
    let rig = several();
    rig.raymond(&["works", "--id", "one-ab", "-q"]).assert_is(0);
    rig.raymond(&["works", "--id", "two-cd", "-q"]).assert_is(0);
    rig.raymond(&["fails", "--id", "three-ef", "-q"]).assert_is(1);
    for (given, run) in [
        ("one-ab", "one-ab"),
        ("on", "one-ab"),
        ("cd", "two-cd"),
        ("@", "three-ef"),
        ("@2", "two-cd"),
        ("@3", "one-ab"),
        ("works", "two-cd"),
        ("fails", "three-ef"),
    ] {
        let done = rig.raymond(&["status", given]);
        done.assert_is(0);
        assert!(done.stdout.starts_with(run), "{given}: {done:?}");
    }
    for given in ["b", "@4", "@0", "@last", "asks", ""] {
        rig.raymond(&["status", given]).assert(2, "");
    }
    // The latest is one that the command can be used for.
    rig.raymond(&["works", "--id", "four-gh", "-q"]).assert_is(0);
    rig.raymond(&["resume", "@", "-q"]).assert_is(1).says("three-ef");
    rig.raymond(&["resume", "works"]).assert(2, "").says("no run of works can go on");
    rig.raymond(&["retry", "-q"]).assert_is(1).says("three-ef");
    rig.raymond(&["stop"]).assert(2, "").says("no run").says("is running");
}

#[test]
fn what_could_be_several_runs_is_refused_and_ten_of_them_are_listed() {
    let rig = several();
    for number in 1..=11 {
        let id = format!("again-{number}");
        rig.raymond(&["works", "--id", &id, "--input", "some text", "-q"]).assert_is(0);
    }
    rig.raymond(&["fails", "--id", "again-fails", "-q"]).assert_is(1);
    rig.raymond(&["works", "--id", "again-last", "-q"]).assert_is(0);
    for command in ["status", "clean"] {
        let done = rig.raymond(&[command, "again-"]);
        done.assert(2, "")
            .says("`again-` could be 13 runs")
            .says("again-last  completed")
            .says("some text")
            .says("and 3 more");
        assert_eq!(done.stderr.matches("→ again-").count(), 10, "{}", done.stderr);
    }
    // What the command can be used for is the likeliest.
    let done = rig.raymond(&["retry", "again-"]);
    done.assert(2, "");
    assert!(done.stderr.lines().nth(1).unwrap().contains("again-fails  failed"), "{}", done.stderr);
}

#[test]
fn a_step_is_a_number_everywhere() {
    let rig = several();
    rig.raymond(&["works", "--id", "r", "-q"]).assert_is(0);
    let show = |args: &[&str]| {
        let done = rig.raymond(&[&["show"], args].concat());
        done.assert_is(0);
        done.stdout
            .lines()
            .filter(|line| line.starts_with("step "))
            .map(|line| line[5..6].to_owned())
            .collect::<String>()
    };
    assert_eq!(show(&["r", "2"]), "2");
    assert_eq!(show(&["r", "2..3"]), "23");
    assert_eq!(show(&["3"]), "3", "of the latest run");
    assert_eq!(show(&["1..2"]), "12");
    for wrong in ["0", "9", "4..7"] {
        rig.raymond(&["show", "r", wrong]).assert(2, "").says("its steps are 1 to 3");
    }
    for wrong in ["3..2", "x", "..", "-1"] {
        rig.raymond(&["show", "r", wrong]).assert(2, "");
    }
    let log = rig.raymond(&["log", "r", "2"]);
    assert_eq!(log.stdout, rig.raymond(&["log", "r", "--step", "2"]).stdout);
    log.assert_is(0);
    rig.raymond(&["branch", "r", "1", "--id", "b"]).assert(0, "b\n");
    rig.raymond(&["branch", "r", "--at", "1", "--id", "c"]).assert(0, "c\n");
    for args in [&["branch", "r"][..], &["branch", "r", "1", "--at", "1"], &["rewind", "r"]] {
        rig.raymond(args).assert(2, "");
    }
    rig.raymond(&["rewind", "r", "1", "--run", "-q"]).assert(0, "ok\n");
    assert_eq!(rig.status()["steps"], 3);
}

#[test]
fn the_list_is_narrowed_and_says_what_runs_are_about_and_what_is_wrong() {
    let rig = several();
    rig.raymond(&["works", "--id", "w1", "--input", "the first text", "-q"]).assert_is(0);
    rig.raymond(&["works", "--id", "w2", "--label", "team=docs", "--label", "title=A title", "-q"])
        .assert_is(0);
    rig.raymond(&["fails", "--id", "f", "--label", "team=code", "-q"]).assert_is(1);
    rig.raymond(&["asks", "--id", "a", "--label", "team=docs", "-q"]).assert_is(3);
    let list = |args: &[&str]| first_words(&rig.raymond(&[&["list"], args].concat()));
    assert_eq!(list(&[]), ["a", "f", "w2", "w1"]);
    assert_eq!(list(&["--status", "failed", "--status", "waiting"]), ["a", "f"]);
    assert_eq!(list(&["--workflow", "works"]), ["w2", "w1"]);
    assert_eq!(list(&["--label", "team=docs"]), ["a", "w2"]);
    assert_eq!(list(&["--label", "team=docs", "--workflow", "works", "-n", "3"]), ["w2"]);
    assert_eq!(list(&["-n", "2"]), ["a", "f"]);
    assert_eq!(list(&["--since", "1h", "-n", "1"]), ["a"]);
    rig.raymond(&["list", "--status", "limited"]).assert(0, "").says("none of the runs");
    rig.raymond(&["list", "--status", "fine"]).assert(2, "");
    // The second list is read from what the first one remembered.
    for _ in 0..2 {
        let text = rig.raymond(&["list"]).stdout;
        for shown in
            ["INPUT", "WRONG", "the first text", "A title", "ended with exit code 3", "asks: why, then?"]
        {
            assert!(text.contains(shown), "{shown}: {text}");
        }
    }
}

#[test]
fn retry_and_jump_go_on_unless_they_are_told_not_to() {
    let rig = several();
    rig.raymond(&["fails", "--id", "r", "-q"]).assert_is(1);
    rig.raymond(&["retry", "r", "--no-run"]).assert(0, "").says("main tries again with the next resume");
    rig.raymond(&["retry", "r", "--no-run", "--run"]).assert(2, "");
    rig.raymond(&["resume", "r", "-q"]).assert(1, "");
    rig.raymond(&["retry", "r", "-q"]).assert(1, "");
    rig.write("mended", "");
    rig.raymond(&["retry"]).assert(0, "fine\n").says("main tries again");
    rig.raymond(&["asks", "--id", "a", "-q"]).assert_is(3);
    rig.raymond(&["jump", "a", "main", "GOT", "--input", "x", "--no-run"]).assert(0, "");
    rig.raymond(&["jump", "a", "main", "GOT", "--input", "y"]).assert(0, "got y\n");
}

#[test]
fn a_word_that_can_be_no_answer_is_none() {
    let rig = several();
    rig.raymond(&["asks", "--id", "r", "-q"]).assert_is(3);
    for args in [&["r", "ask1"][..], &["ask1"], &["r"], &[], &["r", "--", "ask1"]] {
        rig.raymond(&[&["answer"], args].concat()).assert(2, "").says("the answer is missing");
    }
    for args in
        [&["r", "-q"][..], &["r", "--resum"], &["r", "ask1", "-x"], &["r", "a", "b", "c"], &["ask1", "yes"]]
    {
        rig.raymond(&[&["answer"], args].concat()).assert(2, "");
    }
    assert_eq!(rig.status()["asks"].as_array().map(Vec::len), Some(1));
    assert!(rig.events().iter().all(|event| event["event"] != "ask_closed"));
    rig.raymond(&["answer", "r", "--", "-q"]).assert(0, "got -q\n").says("ask1 is answered");
    rig.raymond(&["asks", "--id", "s", "-q"]).assert_is(3);
    rig.raymond(&["answer", "s", "ask1", "ask1"]).assert(0, "got ask1\n");
}

#[test]
fn an_answer_lets_a_run_go_on_unless_it_is_told_not_to() {
    let rig = several();
    for id in ["r", "s", "t"] {
        rig.raymond(&["asks", "--id", id, "-q"]).assert_is(3);
    }
    rig.raymond(&["answer", "r", "later", "--no-resume"])
        .assert(0, "")
        .says("continue with: raymond resume r");
    rig.raymond(&["resume", "r", "-q"]).assert(0, "got later\n");
    rig.raymond(&["answer", "s", "now", "--resume"]).assert(0, "got now\n");
    rig.raymond(&["answer", "beside", "--detach"]).assert(0, "").says("raymond log t --follow");
    rig.raymond(&["log", "t", "--follow"]).assert_is(0);
    rig.raymond(&["resume", "t", "-q"]).assert(0, "got beside\n");
    rig.raymond(&["answer", "t", "x", "--detach", "--no-resume"]).assert(2, "");
}

#[test]
fn the_inbox_shows_what_needs_a_person() {
    let rig = several();
    let empty = rig.raymond(&[""; 0]);
    empty.assert_is(0);
    assert!(empty.stdout.contains("raymond init hello"), "{empty:?}");
    assert!(!rig.path(".raymond").exists());
    rig.raymond(&["inbox"]).assert(0, "").says("nothing needs you");
    rig.raymond(&["inbox", "--json"]).assert(0, "{\n  \"items\": []\n}\n");
    assert!(!rig.path(".raymond").exists());
    rig.raymond(&["asks", "--id", "a", "-q"]).assert_is(3);
    rig.raymond(&["fails", "--id", "f", "-q"]).assert_is(1);
    rig.raymond(&["works", "--id", "w", "-q"]).assert_is(0);
    let inbox: serde_json::Value = serde_json::from_str(&rig.raymond(&["inbox", "--json"]).stdout).unwrap();
    let told = |place: usize, field: &str| inbox["items"][place][field].as_str().map(str::to_owned);
    assert_eq!((told(0, "kind"), told(0, "run")), (Some("ask".to_owned()), Some("a".to_owned())));
    assert_eq!(
        (told(0, "question"), told(1, "kind")),
        (Some("why, then?".to_owned()), Some("failed".to_owned()))
    );
    let text = rig.raymond(&["inbox"]).stdout;
    assert!(
        text.contains("raymond answer a ask1") && text.contains("raymond resume f") && !text.contains("  w "),
        "{text}"
    );
    let all = rig.raymond(&[""; 0]).stdout;
    assert!(all.starts_with("Needs you:\n"), "{all}");
    let ended = all.split_once("Ended:").unwrap().1;
    assert!(ended.contains("\nw ") && !ended.contains("\nf "), "{all}");
    rig.raymond(&["--quiet"]).assert(2, "").says("nothing to do");
}
