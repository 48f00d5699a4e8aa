//! `raymond test`, `record`, `--record` and `--replay`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::lint::expect;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn raymond(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(crate::RAYMOND);
    command.current_dir(folder).args(args).stdin(Stdio::null()).env("XDG_CONFIG_HOME", folder.join("none"));
    command.output().expect("raymond runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// An agent writes, a script counts and asks, an agent finishes.
const FLOW: &[(&str, &str)] = &[
    (
        "flow/START.sh",
        "echo '<print>begun</print>'; echo one > out.txt; echo '<goto input=\"the text\">WRITE</goto>'\n",
    ),
    (
        "flow/WRITE.md",
        "---\nallowed_transitions:\n  - { tag: goto, target: COUNT }\n---\nWrite about {{input}}.\nBe short.\n",
    ),
    (
        "flow/COUNT.sh",
        "# raymond: max_visits=5\nif [ ${#RAYMOND_INPUT} -gt 3 ]; then echo '<ask next=\"END\">Is it good?</ask>'; \
         else echo '<goto input=\"too short\">WRITE</goto>'; fi\n",
    ),
    ("flow/END.md", "---\nallowed_transitions:\n  - { tag: result }\n---\nThey said: {{input}}\n"),
];

fn flow_with(test: &str) -> tempfile::TempDir {
    let folder = folder(FLOW);
    fs::write(folder.path().join("flow/flow.test.yaml"), test).unwrap();
    folder
}

const REPLIES: &str = "    replies:\n      WRITE: [ <goto input=\"ab\">COUNT</goto>, { reply: '<goto \
    input=\"abcdef\">COUNT</goto>', cost: 0.02 } ]\n      END: '<result>{\"ok\": true}</result>'\n    answers: { END: \
    \"yes\" }\n";

#[test]
fn all_examples_pass_their_tests_and_cover_their_states() {
    let done = raymond(&root(), &["test", "examples", "--format", "json", "--coverage"]);
    assert_eq!(code(&done), 0, "{}\n{}", stdout(&done), stderr(&done));
    let report: Value = serde_json::from_str(&stdout(&done)).unwrap();
    let tested: Vec<&str> =
        report["tests"].as_array().unwrap().iter().map(|t| t["file"].as_str().unwrap()).collect();
    for name in fs::read_dir(root().join("examples")).unwrap() {
        let name = name.unwrap();
        let prefix = format!("examples/{}/", name.file_name().to_string_lossy());
        let is_tested = tested.iter().any(|file| file.starts_with(&prefix));
        assert!(is_tested || !name.path().is_dir(), "{prefix} has no tests");
    }
    assert_eq!(report["coverage"]["states"]["percent"], 100.0, "{:#}", report["coverage"]);
}

#[test]
fn a_new_workflow_comes_with_a_test() {
    let work = tempfile::tempdir().unwrap();
    for template in ["hello", "review", "fan-out"] {
        assert_eq!(code(&raymond(work.path(), &["init", template, "--template", template])), 0);
    }
    let done = raymond(work.path(), &["test"]);
    assert_eq!(code(&done), 0, "{}{}", stdout(&done), stderr(&done));
    assert!(stdout(&done).contains("5 passed"), "{}", stdout(&done));
}

#[test]
fn a_wrong_expectation_of_each_kind_shows_what_came_instead() {
    let wrong = "status: failed\n      result: { json: { ok: false } }\n      path: [ START, WRITE, END ]\n      paths: { \
        main_x1: [ A ] }\n      prompts: { WRITE: { contains: Be brief. }, END: [ 'They said: no', x ] }\n      files: { \
        out.txt: { matches: ^two }, none.txt: x }\n      prints: [ ended, more ]\n      asks: [ { contains: Good? } ]\n      \
        cost: 0.5\n      turns: { at_most: 2 }\n      error: { contains: exit code 3 }\n";
    let folder = flow_with(&format!(
        "tests:\n  - name: all wrong\n{REPLIES}    expect:\n      {wrong}  - name: no reply\n    replies: {{ END: x }}\n  - \
         name: refused\n    options: {{ budget: much }}\n  - name: texts\n{REPLIES}    expect: {{ result: other, prompts: {{ \
         WRITE: \"Write about the text.\\nBe long.\\n\" }} }}\n"
    ));
    let done = raymond(folder.path(), &["test", "--jobs", "1"]);
    assert_eq!(code(&done), 1, "{}", stderr(&done));
    let shown = stdout(&done);
    // Which tests are slow depends on the machine.
    let lines = shown.lines().filter(|line| !line.starts_with("slow: "));
    let shown: String = lines.map(|line| without_times(line) + "\n").collect();
    expect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testing/wrong.expected"), &shown);
}

/// The line without durations such as `0.12s`.
fn without_times(line: &str) -> String {
    let is_time = |word: &str| word.strip_suffix('s').is_some_and(|word| word.parse::<f64>().is_ok());
    let words: Vec<&str> = line.split(' ').map(|word| if is_time(word) { "TIME" } else { word }).collect();
    words.join(" ")
}

#[test]
fn a_killed_run_goes_on_with_the_replies_that_are_left() {
    let folder = flow_with(&format!(
        "tests:\n  - name: killed\n{REPLIES}    kill_after: [ 1, 2, 4 ]\n    expect:\n      result: {{ json: {{ ok: true }} \
         }}\n      path: [ START, WRITE, COUNT, WRITE, COUNT, END ]\n      cost: 0.02\n      turns: 3\n"
    ));
    let done = raymond(folder.path(), &["test", "--keep", "--format", "json"]);
    assert_eq!(code(&done), 0, "{}", stdout(&done));
    let report: Value = serde_json::from_str(&stdout(&done)).unwrap();
    let work = PathBuf::from(report["tests"][0]["folder"].as_str().unwrap());
    let journal = fs::read_to_string(work.parent().unwrap().join("state/test-1.jsonl")).unwrap();
    assert_eq!(journal.matches("\"event\":\"run_resumed\"").count(), 3);
    assert_eq!(journal.matches("\"event\":\"run_stopped\"").count(), 0, "each process was killed");
    fs::remove_dir_all(work.parent().unwrap().parent().unwrap()).unwrap();
}

/// A workflow that waits for days, is limited and retried would take days; a test passes it at once.
#[test]
fn delays_retries_and_limits_pass_at_once() {
    let folder = folder(&[
        ("START.sh", "echo '<goto delay=\"3d\">ASK</goto>'\n"),
        ("ASK.md", "---\nallowed_transitions:\n  - { tag: result }\n---\nSay it.\n"),
        (
            "a.test.yaml",
            "tests:\n  - name: slow\n    kill_after: 1\n    replies:\n      ASK: [ fail: overloaded, fail: crash, fail: silent, \
             fail: limit, fail: no_tag, <result>done</result> ]\n    expect: { result: done, turns: 2, path: [ START, ASK ] \
             }\n  - name: limited\n    options: { no_wait: true }\n    replies: { ASK: { fail: limit } }\n    expect: { \
             status: limited }\n",
        ),
    ]);
    let began = Instant::now();
    let done = raymond(folder.path(), &["test"]);
    assert_eq!(code(&done), 0, "{}", stdout(&done));
    assert!(began.elapsed() < Duration::from_secs(20 * 60), "the clock was real");
}

#[test]
fn a_wrong_file_is_told_with_its_place_and_nothing_runs() {
    let folder = flow_with(&format!("tests:\n  - name: good\n{REPLIES}"));
    fs::write(folder.path().join("flow/b.test.yaml"), "tests:\n  - name: x\n    expect: { paht: [] }\n")
        .unwrap();
    let done = raymond(folder.path(), &["test"]);
    assert_eq!((code(&done), stdout(&done).as_str()), (2, ""));
    let expected = "flow/b.test.yaml:3:15: unknown key `paht` in `expect`; did you mean `path`";
    assert!(stderr(&done).contains(expected), "{}", stderr(&done));
    let done = raymond(folder.path(), &["test", "--no-fail-fast", "--format", "junit"]);
    assert_eq!(code(&done), 2);
    assert!(stdout(&done).contains("<testcase name=\"good\"") && stdout(&done).contains("<error message="));
    for (text, expected) in [
        ("tests:\n- name: x\n  recording: r.jsonl\n", "b.test.yaml:3:14: flow/r.jsonl: cannot read"),
        ("workflow: ../gone\ntests: [ { name: x } ]\n", "b.test.yaml:1:11: "),
    ] {
        fs::write(folder.path().join("flow/b.test.yaml"), text).unwrap();
        let done = raymond(folder.path(), &["test"]);
        assert!(code(&done) == 2 && stderr(&done).contains(expected), "{}", stderr(&done));
    }
    fs::remove_file(folder.path().join("flow/b.test.yaml")).unwrap();
    assert_eq!(code(&raymond(folder.path(), &["test", "--filter", "nothing like it"])), 2);
    // A file that is named in two ways is tested once.
    let done = raymond(folder.path(), &["test", ".", "./flow", "./flow/flow.test.yaml"]);
    assert!(stdout(&done).contains("1 passed"), "{}", stdout(&done));
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(code(&raymond(empty.path(), &["test"])), 2);
}

#[test]
fn coverage_is_counted_and_drawn() {
    let folder = flow_with(
        "tests:\n  - name: part\n    replies: { WRITE: <goto input=\"abcdef\">COUNT</goto> }\n    options: { on_ask: pause }\n    \
         expect: { status: waiting }\n",
    );
    let done = raymond(folder.path(), &["test", "--coverage=c.json", "--min-coverage", "90"]);
    assert_eq!(code(&done), 1, "{}{}", stdout(&done), stderr(&done));
    let shown = stdout(&done);
    for expected in ["3/4    75%", "never reached: END.md", "never taken: COUNT.sh → WRITE.md (goto)"] {
        assert!(shown.contains(expected), "{expected} is not in {shown}");
    }
    let coverage: Value =
        serde_json::from_str(&fs::read_to_string(folder.path().join("c.json")).unwrap()).unwrap();
    assert_eq!(coverage["states"]["total"], 4);
    for (format, mark) in [("svg", "edge plain untested"), ("mermaid", "linkStyle"), ("dot", "penwidth=2")] {
        let drawn = raymond(folder.path(), &["diagram", "flow", "--coverage", "c.json", "--format", format]);
        assert!(stdout(&drawn).contains(mark), "{format}: {}{}", stdout(&drawn), stderr(&drawn));
    }
    assert_eq!(code(&raymond(folder.path(), &["test", "--min-coverage", "10"])), 0);
}

#[test]
fn coverage_counts_states_that_no_text_leads_to() {
    let folder = folder(&[
        ("START.md", "Decide.\n"),
        // No state names it, and it names none.
        ("A.md", "Write.\n"),
        ("B.md", "Wait, then: <result>done</result>\n"),
        (
            "a.test.yaml",
            "tests: [ { name: a, replies: { START: <goto>A</goto>, A: <result>x</result> } } ]\n",
        ),
    ]);
    let done = raymond(folder.path(), &["test", "--coverage"]);
    assert_eq!(code(&done), 0, "{}{}", stdout(&done), stderr(&done));
    for expected in ["2/3    66%", "never reached: B.md"] {
        assert!(stdout(&done).contains(expected), "{expected} is not in {}", stdout(&done));
    }
}

#[test]
fn an_interrupted_suite_leaves_nothing_behind() {
    let folder = folder(&[
        ("START.sh", "echo $$ > \"$PIDS/pid\"; exec sleep 1000\n"),
        ("a.test.yaml", "tests: [ { name: long, env: { PIDS: DIR } } ]\n"),
    ]);
    let test = fs::read_to_string(folder.path().join("a.test.yaml")).unwrap();
    let here = folder.path().to_str().unwrap();
    fs::write(folder.path().join("a.test.yaml"), test.replace("DIR", here)).unwrap();
    let mut command = Command::new(crate::RAYMOND);
    let mut suite = command.current_dir(folder.path()).arg("test").stdout(Stdio::null()).spawn().unwrap();
    let pid_file = folder.path().join("pid");
    let script = loop {
        match fs::read_to_string(&pid_file).ok().and_then(|text| text.trim().parse::<i32>().ok()) {
            Some(pid) => break rustix::process::Pid::from_raw(pid).unwrap(),
            None => std::thread::yield_now(),
        }
    };
    let pid = rustix::process::Pid::from_child(&suite);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(suite.wait().unwrap().code(), Some(130));
    assert!(rustix::process::test_kill_process(script).is_err(), "the script is still running");
}

/// The states of a run's steps, from its journal.
fn states(folder: &Path, run: &str) -> Vec<String> {
    let journal = fs::read_to_string(folder.join(format!(".raymond/state/{run}.jsonl"))).unwrap();
    let events = journal.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events
        .filter(|event| event["event"] == "step_started")
        .map(|event| event["state"].as_str().unwrap().to_owned())
        .collect()
}

/// A workflow that runs anywhere, whose prompts hold what differs from run to run.
const SCRIPTED: &[(&str, &str)] = &[
    ("flow/workflow.yaml", "backend: scripted\n"),
    (
        "flow/replies.yaml",
        "START: { reply: <goto input=\"x\">CHECK</goto>, cost: 0.25 }\nEND: <result>done</result>\n",
    ),
    ("flow/START.md", "In run {{run_id}}, use {{task_folder}} and hide {{input}}.\n"),
    ("flow/CHECK.sh", "echo \"<goto input='$PWD'>END</goto>\"\n"),
    ("flow/END.md", "Finish in {{input}}.\n"),
    (".git/HEAD", ""),
];

#[test]
fn a_recorded_run_is_replayed_without_its_agent() {
    let folder = folder(SCRIPTED);
    let here = folder.path();
    let mut command = Command::new(crate::RAYMOND);
    command.current_dir(here).args([
        "run",
        "flow",
        "--id",
        "first",
        "--record",
        "a.rec.jsonl",
        "--input",
        "s3cret-value",
    ]);
    let done = command.env("MY_TOKEN", "s3cret-value").stdin(Stdio::null()).output().unwrap();
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    let recording = fs::read_to_string(here.join("a.rec.jsonl")).unwrap();
    assert!(!recording.contains("s3cret") && !recording.contains(here.to_str().unwrap()), "{recording}");
    let lines: Vec<Value> = recording.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[0]["state"], &lines[0]["visit"]), (&"START.md".into(), &1.into()));
    assert_eq!(lines[0]["cost_usd"], 0.25);
    let made = raymond(here, &["record", "first", "-o", "b.rec.jsonl"]);
    assert_eq!(code(&made), 0, "{}", stderr(&made));
    assert_eq!(fs::read_to_string(here.join("b.rec.jsonl")).unwrap().lines().count(), 2);

    // Now the agent is gone: only the recording can answer.
    fs::write(here.join("flow/replies.yaml"), "{}\n").unwrap();
    let replay = ["run", "flow", "--id", "second", "--replay", "a.rec.jsonl", "--input", "s3cret-value"];
    let done = raymond(here, &replay);
    assert_eq!((code(&done), stdout(&done).as_str()), (0, "done\n"), "{}", stderr(&done));
    assert_eq!(states(here, "first"), states(here, "second"));
    let status = raymond(here, &["status", "second", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&stdout(&status)).unwrap()["cost_usd"], 0.25);

    // A prompt that has changed stops the run, with the difference.
    fs::write(here.join("flow/END.md"), "End in {{input}}.\n").unwrap();
    let done = raymond(here, &["run", "flow", "--replay", "a.rec.jsonl", "--input", "s3cret-value"]);
    assert_eq!(code(&done), 1);
    assert!(stderr(&done).contains("- Finish in") && stderr(&done).contains("+ End in"), "{}", stderr(&done));
    let closest =
        [&replay[..2], &["--replay", "a.rec.jsonl", "--replay-missing=closest", "--input", "s3cret-value"]]
            .concat();
    assert_eq!(code(&raymond(here, &closest)), 0);
    let half = &recording[..recording.len() - 9];
    fs::write(here.join("half.rec.jsonl"), half).unwrap();
    let done = raymond(here, &["run", "flow", "--replay", "half.rec.jsonl"]);
    assert!(code(&done) == 2 && stderr(&done).contains("line 2, column "), "{}", stderr(&done));
}

#[test]
fn a_test_is_answered_from_a_recording_behind_its_replies() {
    let folder = folder(SCRIPTED);
    let here = folder.path();
    let done = raymond(here, &["run", "flow", "--record", "flow/a.rec.jsonl", "--input", "x"]);
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    let test = "tests:\n  - { name: all, input: x, recording: a.rec.jsonl, expect: { result: done, cost: 0.25 } }\n  - { name: \
        one, input: x, recording: a.rec.jsonl, replies: { END: <result>other</result> }, expect: { result: other } }\n";
    fs::write(here.join("flow/a.test.yaml"), test).unwrap();
    let done = raymond(here, &["test"]);
    assert_eq!(code(&done), 0, "{}", stdout(&done));
    fs::write(here.join("flow/END.md"), "End in {{input}}.\n").unwrap();
    let done = raymond(here, &["test", "--filter", "all"]);
    assert!(code(&done) == 1 && stdout(&done).contains("+ End in"), "{}", stdout(&done));
    // The agent is asked again for what has changed, and only for that.
    let done = raymond(here, &["test", "--filter", "all", "--update-recordings"]);
    assert!(code(&done) == 0 && stdout(&done).contains("1 turns asked again"), "{}", stdout(&done));
    assert_eq!(code(&raymond(here, &["test"])), 0);
}

#[test]
fn two_hundred_tests_run_side_by_side() {
    let tests: String =
        (0..200).map(|n| format!("  - {{ name: t{n}, expect: {{ result: ok }} }}\n")).collect();
    let folder =
        folder(&[("START.sh", "echo '<result>ok</result>'\n"), ("a.test.yaml", &format!("tests:\n{tests}"))]);
    let done = raymond(folder.path(), &["test"]);
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    assert!(stdout(&done).contains("200 passed"), "{}", stdout(&done));
}

/// A workflow of prompts with any transitions, made up from a seed. It only leads forwards, so it ends.
fn made_up(seed: u64) -> tempfile::TempDir {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = |most: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % most
    };
    const STATES: usize = 9;
    let name = |number: usize| if number == 0 { "START".to_owned() } else { format!("S{number}") };
    let work = tempfile::tempdir().unwrap();
    let flow = work.path().join("flow");
    fs::create_dir_all(&flow).unwrap();
    let mut replies = "W: <result>worked</result>\n".to_owned();
    fs::write(flow.join("W.md"), "Work on {{part}} in {{task_folder}}.\n").unwrap();
    for number in 0..STATES {
        let text =
            format!("{number}: {{{{input}}}}, visit {{{{visits}}}} of {{{{agent_id}}}} in {{{{run_id}}}}.\n");
        fs::write(flow.join(format!("{}.md", name(number))), text).unwrap();
        let reply = if number + 2 >= STATES {
            format!("<result>end {number}</result>")
        } else {
            let next = number + 1 + below(STATES - number - 2);
            let later = next + 1 + below(STATES - next - 1);
            let (next, later) = (name(next), name(later));
            match below(6) {
                0 => format!("<goto input='from {number}'>{next}</goto>"),
                1 => format!("<reset>{next}</reset>"),
                2 => format!("<call return='{later}' input='call'>{next}</call>"),
                3 => format!("<function return='{later}'>{next}</function>"),
                4 => format!("<fork part='{number}'>W</fork><join>{next}</join>"),
                _ => format!("<fork part='{number}' next='{next}'>W</fork>"),
            }
        };
        replies.push_str(&format!("{}: {{ reply: \"{reply}\", cost: 0.01 }}\n", name(number)));
    }
    fs::write(flow.join("replies.yaml"), replies).unwrap();
    fs::write(flow.join("workflow.yaml"), "backend: scripted\n").unwrap();
    work
}

/// The states of each agent, and what the run ended with.
fn course(folder: &Path, run: &str) -> (BTreeMap<String, Vec<String>>, Value) {
    let journal = fs::read_to_string(folder.join(format!(".raymond/state/{run}.jsonl"))).unwrap();
    let events: Vec<Value> = journal.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut paths: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["event"] == "step_started") {
        let path = paths.entry(event["agent"].as_str().unwrap().to_owned()).or_default();
        path.push(event["state"].as_str().unwrap().to_owned());
    }
    let last = events.last().unwrap();
    (paths, serde_json::json!([last["event"], last["result"], last["cost_usd"]]))
}

#[test]
fn a_replayed_run_takes_the_path_of_the_recorded_one() {
    for seed in 1..=8 {
        let folder = made_up(seed);
        let here = folder.path();
        let args = ["run", "flow", "--id", "recorded", "--record", "r.jsonl", "--no-debug", "-q"];
        let recorded = raymond(here, &args);
        fs::write(here.join("flow/replies.yaml"), "{}\n").unwrap();
        let args = ["run", "flow", "--id", "again", "--replay", "r.jsonl", "--no-debug", "-q"];
        let replayed = raymond(here, &args);
        assert_eq!(code(&recorded), code(&replayed), "seed {seed}: {}", stderr(&replayed));
        assert_eq!(course(here, "recorded"), course(here, "again"), "seed {seed}");
    }
}

#[test]
fn a_killed_replay_goes_on_with_the_turns_that_are_left() {
    let folder = folder(SCRIPTED);
    let here = folder.path();
    assert_eq!(code(&raymond(here, &["run", "flow", "--record", "r.jsonl", "--input", "x"])), 0);
    let check = here.join("flow/CHECK.sh");
    let script = fs::read_to_string(&check).unwrap();
    // The script kills Raymond in the middle of the replay.
    fs::write(&check, "kill -9 $PPID; sleep 1000\n").unwrap();
    let done = raymond(here, &["run", "flow", "--id", "killed", "--replay", "r.jsonl", "--input", "x"]);
    assert_eq!(done.status.code(), None, "{}", stderr(&done));
    fs::write(&check, script).unwrap();
    fs::write(here.join("flow/replies.yaml"), "{}\n").unwrap();
    let done = raymond(here, &["resume", "killed"]);
    assert_eq!((code(&done), stdout(&done).as_str()), (0, "done\n"), "{}", stderr(&done));
}

#[test]
fn a_killed_recording_is_completed_by_the_resume() {
    let files = [
        ("flow/workflow.yaml", "backend: scripted\n"),
        ("flow/replies.yaml", "START: <goto>HOLD</goto>\nEND: [ no tag, <result>done</result> ]\n"),
        ("flow/START.md", "Begin.\n"),
        ("flow/HOLD.sh", "kill -9 $PPID; sleep 1000\n"),
        ("flow/END.md", "End.\n"),
        (".git/HEAD", ""),
    ];
    let folder = folder(&files);
    let here = folder.path();
    let recording = here.join("r.jsonl");
    let done = raymond(here, &["run", "flow", "--id", "r", "--record", "r.jsonl"]);
    assert_eq!(done.status.code(), None, "{}", stderr(&done));
    // The process died while it wrote the line.
    let line = fs::read_to_string(&recording).unwrap();
    fs::write(&recording, &line[..line.len() / 2]).unwrap();
    fs::write(here.join("flow/HOLD.sh"), "echo '<goto>END</goto>'\n").unwrap();
    // The last state has no tag at first, and is tried again by a second resume.
    assert_eq!(code(&raymond(here, &["resume", "r"])), 1);
    let done = raymond(here, &["resume", "r"]);
    assert_eq!((code(&done), stdout(&done).as_str()), (0, "done\n"), "{}", stderr(&done));
    let turns = fs::read_to_string(&recording).unwrap();
    let turns = turns.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let said: Vec<String> = turns.map(|turn| turn["reply"].as_str().unwrap().to_owned()).collect();
    assert_eq!(said, ["<goto>HOLD</goto>", "no tag", "<result>done</result>"]);
}

/// An id of one letter may also be a word of a prompt.
#[test]
fn a_recording_made_afterwards_is_replayed_under_another_id() {
    let files = [
        ("flow/workflow.yaml", "backend: scripted\n"),
        ("flow/replies.yaml", "START: <result>done in {{run_id}}</result>\n"),
        ("flow/START.md", "Write a text for run {{run_id}} in {{task_folder}}.\n"),
        (".git/HEAD", ""),
    ];
    let folder = folder(&files);
    let here = folder.path();
    for (id, debug) in [("a", "--verbose"), ("text", "--no-debug")] {
        assert_eq!(code(&raymond(here, &["run", "flow", "--id", id, debug])), 0);
        assert_eq!(code(&raymond(here, &["record", id, "-o", "r.jsonl"])), 0);
        let done = raymond(here, &["run", "flow", "--replay", "r.jsonl", "--backend", "claude"]);
        assert_eq!(code(&done), 0, "{id}: {}", stderr(&done));
    }
}

/// The agent is asked only for what is not in the recording. Its program no longer has the recorded conversation.
#[test]
fn a_replay_can_ask_the_agent_for_what_is_missing() {
    let rig = test_kit::rig::Rig::new(crate::RAYMOND);
    rig.state("START.md", "Start.").state("WORK.md", "Work.");
    rig.agent(
        r#"[{"match": "Start", "reply": "<goto>WORK</goto>", "cost": 0.01},
            {"match": "ork", "reply": "<result>worked</result>", "cost": 0.02}]"#,
    );
    rig.raymond(&["workflow", "--id", "r", "--record", "r.jsonl"]).assert(0, "worked\n");
    assert_eq!(rig.calls().len(), 2);
    let recording = rig.read("r.jsonl");
    assert_eq!(recording.lines().count(), 2, "{recording}");
    rig.state("WORK.md", "More work.");
    rig.raymond(&["workflow", "--id", "s", "--replay", "r.jsonl"]).assert(1, "").says("+ More work.");
    let live = ["workflow", "--id", "t", "--replay", "r.jsonl", "--replay-missing=live"];
    rig.raymond(&live).assert(0, "worked\n").says("is not here any more");
    assert_eq!(rig.calls().len(), 3, "only the changed prompt is asked");
}

#[test]
fn a_test_gives_named_inputs() {
    let folder = folder(&[
        ("workflow.yaml", "inputs:\n  issue: { type: integer, required: true }\n"),
        ("START.sh", "echo \"<result>issue $issue</result>\"\n"),
        (
            "a.test.yaml",
            "tests:\n  - { name: given, inputs: { issue: 195 }, expect: { result: issue 195 } }\n",
        ),
    ]);
    let done = raymond(folder.path(), &["test"]);
    assert_eq!(code(&done), 0, "{}", stdout(&done));
}
