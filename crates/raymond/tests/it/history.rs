//! Going back: branches and rewinds at any step, also of live runs and under kills.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;
use test_kit::rig::{Live, Rig, wait_for_file};

use crate::RAYMOND;

/// What was done, by which run: the agent, its state and its visit.
type Trace = BTreeMap<String, usize>;

const BEGIN: &str =
    r#"echo "$RAYMOND_RUN_ID $RAYMOND_AGENT_ID $(basename "$RAYMOND_STATE_FILE") $RAYMOND_VISITS" >> trace"#;

/// Two workers that are joined, one of which calls four states deep, and then some steps more.
pub fn busy() -> Rig {
    let rig = Rig::new(RAYMOND);
    let state = |name: &str, text: &str| {
        rig.state(name, format!("{BEGIN}\n{text}"));
    };
    state("START.sh", r#"echo '<goto input="go">FAN</goto>'"#);
    state("FAN.sh", r#"echo '<fork item="a">DEEP</fork><fork item="b">FLAT</fork><join>JOINED</join>'"#);
    state("FLAT.sh", r#"echo "<result>flat $item</result>""#);
    state("DEEP.sh", r#"echo '<call return="R1">D2</call>'"#);
    state("D2.sh", r#"echo '<call return="R2">D3</call>'"#);
    state("D3.sh", r#"echo '<call return="R3">D4</call>'"#);
    state("D4.sh", r#"echo '<result>deep</result>'"#);
    for (name, input) in [("R3", "3"), ("R2", "2"), ("R1", "1")] {
        state(&format!("{name}.sh"), &format!(r#"echo "<result>$RAYMOND_RESULT {input} $item</result>""#));
    }
    state("JOINED.sh", r#"echo '<goto>LAST</goto>'"#);
    state("LAST.sh", r#"echo '<result>the end</result>'"#);
    rig
}

/// What a run has done itself.
fn done_by(rig: &Rig, run: &str) -> Trace {
    let mut done = Trace::new();
    let trace = rig.read("trace");
    for line in trace.lines().filter_map(|line| line.strip_prefix(&format!("{run} "))) {
        *done.entry(line.to_owned()).or_default() += 1;
    }
    done
}

pub fn events(rig: &Rig, run: &str) -> Vec<Value> {
    let done = rig.raymond(&["log", run, "--json"]);
    assert_eq!(done.exit, 0, "{done:?}");
    done.lines().collect()
}

pub fn status(rig: &Rig, run: &str) -> Value {
    let done = rig.raymond(&["status", run, "--json"]);
    assert_eq!(done.exit, 0, "{done:?}");
    serde_json::from_str(&done.stdout).expect("a JSON object")
}

/// What the steps did that had not ended after an event, by the events of the run that has all of them.
fn left_after(events: &[Value], seq: u64) -> Trace {
    let of = |kind: &'static str| events.iter().filter(move |event| event["event"] == kind);
    // A step that was under way at a branch has started twice.
    let steps: BTreeMap<u64, &Value> =
        of("step_started").map(|started| (started["step"].as_u64().expect("a number"), started)).collect();
    let mut left = Trace::new();
    for (step, started) in steps {
        let ended = of("step_finished").find(|event| event["step"] == step);
        if ended.is_none_or(|ended| ended["seq"].as_u64().expect("a number") > seq) {
            let text = |name: &str| started[name].as_str().expect("a text").to_owned();
            *left.entry(format!("{} {} {}", text("agent"), text("state"), started["visits"])).or_default() +=
                1;
        }
    }
    left
}

#[test]
fn a_branch_at_any_step_does_exactly_what_was_left() {
    let rig = busy();
    rig.run().assert(0, "the end\n");
    let all = events(&rig, "r");
    let steps = status(&rig, "r")["steps"].as_u64().unwrap();
    assert_eq!(steps, 12);
    for step in 1..=steps {
        let id = format!("b{step}");
        rig.raymond(&["branch", "r", "--at", &step.to_string(), "--id", &id]).assert(0, &format!("{id}\n"));
        let first: Value = serde_json::from_str(
            fs::read_to_string(rig.path(&format!(".raymond/state/{id}.jsonl")))
                .unwrap()
                .lines()
                .next()
                .unwrap(),
        )
        .unwrap();
        assert_eq!((&first["event"], &first["origin"]["run"]), (&"run_started".into(), &"r".into()));
        assert_eq!(first["origin"]["step"], step);
        rig.raymond(&["resume", &id]).assert(0, "the end\n");
        let seq = first["origin"]["seq"].as_u64().unwrap();
        assert_eq!(done_by(&rig, &id), left_after(&all, seq), "after step {step}");
        assert_eq!(status(&rig, &id)["steps"], steps);
        let own = events(&rig, &id);
        assert_eq!(own[..usize::try_from(seq).unwrap()], all[..usize::try_from(seq).unwrap()]);
    }
    assert_eq!(events(&rig, "r"), all, "the origin was changed");
}

#[test]
fn a_run_can_be_rewound_to_any_step_again_and_again() {
    let rig = busy();
    rig.run().assert(0, "the end\n");
    let all = events(&rig, "r");
    for (number, step) in [11, 9, 7, 5, 4, 2, 1].into_iter().enumerate() {
        let dropped = format!("dropped-{}-r", number + 1);
        let before = events(&rig, "r");
        fs::write(rig.path("trace"), "").unwrap();
        rig.raymond(&["rewind", "r", "--to", &step.to_string()])
            .assert(0, &format!("{dropped}\n"))
            .says(&dropped);
        let seq = status(&rig, "r")["origin"]["seq"].as_u64().unwrap();
        rig.resume().assert(0, "the end\n");
        assert_eq!(done_by(&rig, "r"), left_after(&before, seq), "after step {step}");
        assert_eq!(status(&rig, "r")["steps"], 12);
        // What was dropped is whole, and so is what was dropped first.
        let kept = events(&rig, &dropped);
        assert_eq!(kept[..kept.len() - 1], before);
        assert_eq!(events(&rig, "dropped-1-r")[..all.len()], all);
        rig.raymond(&["resume", &dropped]).assert(0, "the end\n");
    }
}

#[test]
fn a_live_run_can_be_branched_and_not_be_changed() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", format!("{BEGIN}\necho '<goto>WAIT</goto>'"));
    rig.state(
        "WAIT.sh",
        format!("{BEGIN}\nwhile [ ! -e open ]; do sleep 0.02; done; echo '<result>over</result>'"),
    );
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("trace"));
    test_kit::rig::wait_until("the second step", || done_by(&rig, "r").len() == 2);
    rig.raymond(&["branch", "r", "--at", "1", "--id", "b"]).assert(0, "b\n");
    rig.raymond(&["branch", "r", "--at", "2"]).assert(2, "").says("step 2 of r has not ended");
    for refused in [vec!["rewind", "r", "--to", "1"], vec!["retry", "r"], vec!["jump", "r", "main", "WAIT"]] {
        rig.raymond(&refused).assert(2, "").says("another Raymond is running r");
    }
    fs::write(rig.path("open"), "").unwrap();
    rig.raymond(&["resume", "b"]).assert(0, "over\n");
    live.wait().assert(0, "over\n");
    assert_eq!(done_by(&rig, "b").into_keys().collect::<Vec<_>>(), ["main WAIT.sh 1"]);
}

/// Starts a command and kills it after a part of the time that it takes.
fn kill_after(rig: &Rig, args: &[&str], after: Duration) {
    let live: Live = rig.start(args);
    std::thread::sleep(after);
    live.kill();
}

#[test]
fn a_killed_command_leaves_the_run_as_it_was_or_as_it_should_be() {
    const KILLS: u32 = 10;
    let rig = busy();
    rig.state("LAST.sh", format!("{BEGIN}\n[ -e fixed ] && echo '<result>the end</result>' || exit 4"));
    assert_eq!(rig.run().exit, 1);
    let before = events(&rig, "r");
    let begin = Instant::now();
    rig.raymond(&["branch", "r", "--at", "3", "--id", "timed"]).assert(0, "timed\n");
    let whole = begin.elapsed() * 2;
    for kill in 0..KILLS {
        let id = format!("b{kill}");
        kill_after(&rig, &["branch", "r", "--at", "3", "--id", &id], whole * kill / KILLS);
        let listed = rig.raymond(&["list", "--json"]);
        let listed: Vec<Value> = serde_json::from_str(&listed.stdout).unwrap();
        if let Some(run) = listed.iter().find(|run| run["run"] == id.as_str()) {
            assert_eq!((&run["status"], &run["origin"]["step"]), (&"interrupted".into(), &3.into()), "{run}");
        }
        assert_eq!(events(&rig, "r"), before);
    }
    for kill in 0..KILLS {
        let before = status(&rig, "r");
        kill_after(&rig, &["rewind", "r", "--to", "5"], whole * kill / KILLS);
        let after = status(&rig, "r");
        // The run that keeps what is dropped may be there already.
        if after["origin"] != before["origin"] {
            assert_eq!(after["origin"]["step"], 5);
            let dropped = after["origin"]["dropped"].as_str().unwrap().to_owned();
            assert_eq!(status(&rig, &dropped)["steps"], before["steps"]);
            fs::write(rig.path("fixed"), "").unwrap();
            rig.raymond(&["resume", "r"]).assert(0, "the end\n");
        }
    }
}

/// Killed at any moment, a command that changes a run leaves one event or none, and given again it has its effect.
#[test]
fn a_killed_retry_jump_or_diff_leaves_its_event_or_nothing() {
    const KILLS: u32 = 8;
    let rig = busy();
    rig.state("LAST.sh", format!("{BEGIN}\n[ -e fixed ] && echo '<result>the end</result>' || exit 4"));
    assert_eq!(rig.run().exit, 1);
    let failed = status(&rig, "r")["steps"].as_u64().unwrap() + 1;
    let branch = |id: &str| rig.raymond(&["branch", "r", "--at", &failed.to_string(), "--id", id]);
    let begin = Instant::now();
    branch("timed").assert(0, "timed\n");
    let whole = begin.elapsed() * 2;
    let commands: [(&[&str], &[&str], Option<&str>); 3] = [
        (&["retry"], &["--no-run"], Some("agent_retried")),
        (&["jump"], &["main", "JOINED", "--input", "again", "--no-run"], Some("agent_moved")),
        (&["resume"], &["--diff"], None),
    ];
    for (number, (command, more, event)) in commands.into_iter().enumerate() {
        for kill in 0..KILLS {
            let id = format!("k{number}-{kill}");
            branch(&id).assert(0, &format!("{id}\n"));
            let before = events(&rig, &id);
            let args = [command, &[&id], more].concat();
            kill_after(&rig, &args, whole * kill / KILLS);
            let mut after = events(&rig, &id);
            if after.len() == before.len() {
                assert_eq!(rig.raymond(&args).exit, 0, "{args:?}");
                after = events(&rig, &id);
            }
            let new: Vec<&str> =
                after[before.len()..].iter().map(|event| event["event"].as_str().unwrap()).collect();
            assert_eq!(new, Vec::from_iter(event), "{args:?} killed after {kill} of {KILLS} parts");
        }
    }
    rig.write("fixed", "");
    for (number, steps) in [(0, 1), (1, 2), (2, 1)] {
        let id = format!("k{number}-{}", KILLS - 1);
        rig.raymond(&["resume", &id]).assert(0, "the end\n");
        assert_eq!(done_by(&rig, &id).values().sum::<usize>(), steps, "{id}");
    }
}

#[test]
fn conversations_of_a_branch_know_what_was_known_and_no_more() {
    let rig = Rig::new(RAYMOND);
    for (state, text) in [("START.md", "one"), ("B.md", "two"), ("C.md", "three"), ("D.md", "four")] {
        rig.state(state, text);
    }
    rig.agent(
        r#"[{"match":"one","reply":"<goto>B</goto>","cost":0.25},{"match":"two","reply":"<goto>C</goto>","cost":0.25},
            {"match":"three","reply":"<goto>D</goto>","cost":0.25},{"match":"four","reply":"<result>{{history}} before</result>","cost":0.25}]"#,
    );
    rig.run().assert(0, "3 before\n");
    rig.raymond(&["branch", "r", "--at", "2", "--id", "b", "--run"]).assert(0, "3 before\n");
    rig.raymond(&["rewind", "r", "--to", "1", "--run"]).assert(0, "3 before\n");
    let histories: Vec<usize> =
        rig.calls().iter().map(|call| call["history"].as_array().unwrap().len()).collect();
    assert_eq!(histories, [0, 1, 2, 3, 2, 3, 1, 2, 3]);
    assert_eq!(status(&rig, "b")["cost_usd"], 1.0);
    let own = |id: &str| status(&rig, id)["own_cost_usd"].clone();
    assert_eq!((own("b"), own("r")), (0.5.into(), 1.0.into()), "a branch counts only its own turns");
    let listed: Value = serde_json::from_str(&rig.raymond(&["list", "--json"]).stdout).unwrap();
    let of_branch = listed.as_array().unwrap().iter().find(|run| run["run"] == "b").unwrap();
    assert_eq!((&of_branch["cost_usd"], &of_branch["own_cost_usd"]), (&1.0.into(), &0.5.into()));
    let told = rig.raymond(&["status", "b"]).stdout;
    assert!(told.contains("$0.50 of it its own"), "{told}");
    assert_eq!(status(&rig, "r")["cost_usd"], 1.0);
    rig.raymond(&["branch", "r", "--at", "3", "--id", "free", "--reset-cost"]).assert(0, "free\n");
    assert_eq!(status(&rig, "free")["cost_usd"], 0.0);
}

#[test]
fn a_deleted_conversation_is_told_before_anything_is_paid() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", "one").state("B.md", "two");
    rig.agent(r#"[{"match":"one","reply":"<goto>B</goto>","cost":0.25},{"match":"two","reply":"<result>{{history}} before</result>"}]"#);
    rig.run().assert(0, "1 before\n");
    // The program has a folder for its conversations, and this one is not in it.
    fs::create_dir_all(rig.home().join(".claude/projects/x")).unwrap();
    let calls = rig.calls().len();
    rig.raymond(&["branch", "r", "--at", "1", "--id", "b"])
        .assert(2, "")
        .says("has deleted it")
        .says("--fresh");
    rig.raymond(&["branch", "r", "--at", "1", "--id", "b", "--fresh", "--run"]).assert(0, "0 before\n");
    assert_eq!(rig.calls().len(), calls + 1);
}

#[test]
fn a_branch_that_was_rewound_tells_of_both() {
    let rig = busy();
    rig.run().assert(0, "the end\n");
    rig.raymond(&["branch", "r", "--at", "3", "--id", "b", "--run"]).assert(0, "the end\n");
    rig.raymond(&["rewind", "b", "--to", "6"]).assert(0, "dropped-1-b\n");
    let status = status(&rig, "b");
    assert_eq!((&status["origin"]["run"], &status["origin"]["step"]), (&"b".into(), &6.into()));
    assert_eq!((&status["branched_off"]["run"], &status["branched_off"]["step"]), (&"r".into(), &3.into()));
    let said = rig.raymond(&["status", "b"]).stdout;
    assert!(
        said.contains("from      r, step 3\n  rewound   to step 6; what came then is in dropped-1-b"),
        "{said}"
    );
}

/// Four turns, of which each costs a quarter of a dollar.
pub fn four_turns() -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", "one").state("B.md", "two").state("C.md", "three").state("D.md", "four");
    rig.agent(
        r#"[{"match":"one","reply":"<goto>B</goto>","cost":0.25},{"match":"two","reply":"<goto>C</goto>","cost":0.25},
            {"match":"three","reply":"<goto>D</goto>","cost":0.25},{"match":"four","reply":"<result>done</result>","cost":0.25}]"#,
    );
    rig
}

#[test]
fn a_branch_shows_its_own_history_after_the_other_run_was_rewound() {
    let rig = four_turns();
    rig.run().assert(0, "done\n");
    rig.raymond(&["branch", "r", "--at", "3", "--id", "b"]).assert(0, "b\n");
    rig.raymond(&["branch", "b", "--at", "2", "--id", "c"]).assert(0, "c\n");
    rig.state("B.md", "two, and more");
    rig.raymond(&["rewind", "r", "--to", "1", "--run"]).assert(0, "done\n");
    for (run, prompt) in [("r", "two, and more"), ("b", "two"), ("c", "two"), ("dropped-1-r", "two")] {
        let said = rig.raymond(&["show", run, "2"]).stdout;
        assert!(said.contains(&format!("  prompt\n    {prompt}\n  reply")), "{run}: {said}");
    }
}
