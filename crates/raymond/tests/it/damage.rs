//! Journals that were truncated, changed or replaced.

use std::fs;

use rustix::process::Signal;
use test_kit::rig::{Done, Rig, wait_for_file};

use crate::RAYMOND;

/// A workflow that writes every kind of event; its result does not depend on how often its steps run.
fn workflow() -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<call return=\"BACK\" input=\"in\">CALLED</call><print>hello</print>'");
    rig.state("CALLED.sh", "echo \"<result>called with $RAYMOND_INPUT</result>\"");
    rig.state(
        "BACK.sh",
        "echo \"<goto input='$RAYMOND_RESULT'>LAST</goto><fork i='a'>WORK</fork><fork i='b'>WORK</fork>\"",
    );
    rig.state("WORK.sh", "[ \"$i\" ] && echo '<result>worked</result>'");
    rig.state(
        "LAST.sh",
        "[ -e hold ] && { touch held; sleep 330; }; echo \"<result>$RAYMOND_INPUT, back</result>\"",
    );
    rig
}

const RESULT: &str = "called with in, back\n";

/// Where to cut: near the end of every line, and in between.
fn places(journal: &[u8]) -> Vec<usize> {
    let ends = journal.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
    let mut places: Vec<usize> = ends.flat_map(|end| [end - 1, end, end + 1]).collect();
    places.extend((0..journal.len()).step_by(173));
    places.sort_unstable();
    places.dedup();
    places
}

fn cut_everywhere(rig: &Rig) {
    let journal = fs::read(rig.journal()).unwrap();
    let (mut resumed, mut empty) = (0, 0);
    for place in places(&journal) {
        fs::write(rig.journal(), &journal[..place]).unwrap();
        let done = rig.raymond(&["resume", "r", "--quiet"]);
        // Without a complete first batch there is no run, and the message says what to do.
        if done.exit == 2 && done.stderr.contains("holds no complete event") {
            empty += 1;
            assert!(place < 1000, "cut at {place} of {}: {}", journal.len(), done.stderr);
        } else {
            resumed += 1;
            assert_eq!((done.exit, done.stdout.as_str()), (0, RESULT), "cut at {place}: {}", done.stderr);
            assert_eq!(rig.status()["steps"], 6, "cut at {place}");
        }
    }
    assert!(empty > 0 && resumed > 30, "{empty} empty, {resumed} resumed");
}

#[test]
fn a_finished_run_cut_anywhere_has_the_same_result() {
    let rig = workflow();
    rig.run().assert(0, RESULT);
    cut_everywhere(&rig);
}

#[test]
fn an_unfinished_run_cut_anywhere_has_the_same_result() {
    let rig = workflow();
    rig.write("hold", "");
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("held"));
    live.send(Signal::TERM);
    assert_eq!(live.wait().exit, 143);
    fs::remove_file(rig.path("hold")).unwrap();
    cut_everywhere(&rig);
}

#[track_caller]
fn assert_damaged(done: &Done, line: usize) {
    assert_eq!((done.exit, done.stdout.as_str()), (2, ""), "{}", done.stderr);
    done.says("r.jsonl").says("line");
    let told: usize = done
        .stderr
        .split(" line ")
        .nth(1)
        .and_then(|rest| rest.split(|byte: char| !byte.is_ascii_digit()).next())
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("the message names no line: {}", done.stderr));
    // A batch of lines has one checksum, so the damage may be reported for any of its lines.
    assert!(told.abs_diff(line) <= 8, "line {line} is damaged, but line {told} was reported");
}

#[test]
fn a_flipped_byte_is_reported_with_its_line() {
    let rig = workflow();
    rig.run().assert(0, RESULT);
    let journal = fs::read(rig.journal()).unwrap();
    let lines = journal.split_inclusive(|byte| *byte == b'\n').count();
    let mut start = 0;
    for (index, line) in journal.split_inclusive(|byte| *byte == b'\n').enumerate().take(lines - 4) {
        for place in [start, start + line.len() / 2, start + line.len() - 2] {
            let mut scratched = journal.clone();
            scratched[place] ^= 0x01;
            fs::write(rig.journal(), &scratched).unwrap();
            assert_damaged(&rig.raymond(&["resume", "r"]), index + 1);
            assert_damaged(&rig.raymond(&["status", "r"]), index + 1);
            // The log may show the events before the damage.
            let mut log = rig.raymond(&["log", "r"]);
            log.stdout.clear();
            assert_damaged(&log, index + 1);
            assert_eq!(fs::read(rig.journal()).unwrap(), scratched, "the journal is not changed");
        }
        start += line.len();
    }
}

/// The last line counts, too: its batch was committed, so it is not the rest of an interrupted write.
#[test]
fn a_journal_that_another_program_rewrote_is_reported_and_kept() {
    type Rewrite = fn(&str) -> String;
    let rewrites: [(&str, Rewrite); 5] = [
        ("CRLF", |line| format!("{}\r\n", line.trim_end())),
        ("trailing blank", |line| format!("{} \n", line.trim_end())),
        ("no line break but a blank", |line| format!("{} ", line.trim_end())),
        ("blanks in the JSON", |line| line.replace("\":", "\": ")),
        ("CR", |line| format!("{}\r", line.trim_end())),
    ];
    let rig = workflow();
    rig.run().assert(0, RESULT);
    let journal = fs::read_to_string(rig.journal()).unwrap();
    let lines: Vec<&str> = journal.split_inclusive('\n').collect();
    for (what, rewrite) in rewrites {
        let last = lines.len() - 1;
        let changed = lines[..last].concat() + &rewrite(lines[last]);
        fs::write(rig.journal(), &changed).unwrap();
        assert_damaged(&rig.raymond(&["resume", "r"]), lines.len());
        assert_damaged(&rig.raymond(&["resume"]), lines.len());
        assert_damaged(&rig.raymond(&["status", "r"]), lines.len());
        rig.raymond(&["list"]).says("r.jsonl");
        assert_eq!(fs::read_to_string(rig.journal()).unwrap(), changed, "{what}: the journal is not changed");
    }
    fs::write(rig.journal(), journal.trim_end()).unwrap();
    rig.resume().assert(0, RESULT);
    assert_eq!(fs::read_to_string(rig.journal()).unwrap(), journal, "the line break is back");
}

#[test]
fn a_lost_line_in_the_middle_is_reported() {
    let rig = workflow();
    rig.run().assert(0, RESULT);
    let journal = fs::read_to_string(rig.journal()).unwrap();
    let kept: String = journal
        .split_inclusive('\n')
        .enumerate()
        .filter(|(index, _)| *index != 4)
        .map(|(_, line)| line)
        .collect();
    fs::write(rig.journal(), kept).unwrap();
    assert_damaged(&rig.resume(), 5);
}

/// A complete batch has a correct checksum at any place; only the sequence numbers show that one is missing.
#[test]
fn lost_doubled_and_swapped_batches_are_reported() {
    let rig = workflow();
    rig.run().assert(0, RESULT);
    let journal = fs::read_to_string(rig.journal()).unwrap();
    let mut batches: Vec<String> = vec![String::new()];
    for line in journal.split_inclusive('\n') {
        batches.last_mut().unwrap().push_str(line);
        if line.contains("\"commit\":\"") {
            batches.push(String::new());
        }
    }
    assert!(batches.len() > 4);
    let change = |change: fn(&mut Vec<String>)| {
        let mut changed = batches.clone();
        change(&mut changed);
        fs::write(rig.journal(), changed.concat()).unwrap();
        let done = rig.resume();
        assert_eq!(done.exit, 2, "{done:?}");
        done.says("r.jsonl").says("line");
    };
    change(|batches| drop(batches.remove(2)));
    change(|batches| batches.insert(2, batches[2].clone()));
    change(|batches| batches.swap(2, 3));
}

#[test]
fn garbage_is_not_a_journal() {
    let rig = workflow();
    rig.run().assert(0, RESULT);
    let binary: Vec<u8> = (0..4000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for garbage in [
        binary,
        b"not a journal\n".repeat(20),
        b"{\"event\":\"run_started\"}\n".repeat(20),
        b"[1,2,3]\n{}\nnull\n".to_vec(),
        vec![b'\n'; 50],
        vec![0; 5000],
    ] {
        fs::write(rig.journal(), &garbage).unwrap();
        for command in [vec!["resume", "r"], vec!["status", "r", "--json"], vec!["log", "r", "--json"]] {
            let done = rig.raymond(&command);
            assert_eq!((done.exit, done.stdout.as_str()), (2, ""), "{command:?}: {done:?}");
            done.says("r.jsonl");
        }
        rig.run().assert(2, "");
        assert_eq!(fs::read(rig.journal()).unwrap(), garbage, "the journal is not changed");
    }
}

#[test]
fn a_damaged_run_does_not_hide_the_others() {
    let rig = workflow();
    rig.run().assert(0, RESULT);
    rig.raymond(&["workflow", "--id", "good", "--quiet"]).assert(0, RESULT);
    fs::write(rig.journal(), "nonsense\nnonsense\n").unwrap();
    let done = rig.raymond(&["list", "--json"]);
    assert_eq!(done.exit, 0);
    done.says("r");
    assert!(done.stdout.contains("\"good\""), "{}", done.stdout);
}

#[test]
fn a_missing_or_changed_payload_is_reported() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "printf '<goto input=\"%s\">NEXT</goto>' $(head -c 70000 /dev/zero | tr '\\0' x)");
    rig.state("NEXT.sh", "[ -e go ] && echo \"<result>${#RAYMOND_INPUT}</result>\" || exit 1");
    rig.run().assert(1, "");
    rig.write("go", "");
    let folder = rig.path(".raymond/state/r.d");
    let payload = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let text = fs::read(&payload).unwrap();
    assert_eq!(text.len(), 70000);
    fs::remove_file(&payload).unwrap();
    let done = rig.resume();
    assert_eq!(done.exit, 1, "{done:?}");
    done.says(payload.file_name().unwrap().to_str().unwrap());
    fs::write(&payload, [&text[1..], b"y"].concat()).unwrap();
    let done = rig.resume();
    assert_eq!(done.exit, 1, "{done:?}");
    done.says(payload.file_name().unwrap().to_str().unwrap());
    fs::write(&payload, text).unwrap();
    rig.resume().assert(0, "70000\n");
}

/// If Raymond cannot read its own files, that must not look like the failure of a worker to the workflow.
#[test]
fn a_payload_that_cannot_be_read_does_not_fail_the_worker() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<fork next=\"WAIT\">WORK</fork>'");
    rig.state("WORK.sh", "printf '<goto input=\"%s\">NEXT</goto>' $(head -c 70000 /dev/zero | tr '\\0' x)");
    rig.state(
        "NEXT.sh",
        "# raymond: fatal=agent retry=1 backoff=1ms
        [ -e moved ] && { echo \"<result>${#RAYMOND_INPUT}</result>\"; exit; }
        mkdir moved; mv .raymond/state/r.d/* moved; exit 1",
    );
    rig.state("WAIT.sh", "echo '<join>END</join>'");
    rig.state("END.sh", "echo \"<result>$RAYMOND_RESULT</result>\"");
    let payload = |folder: &str| fs::read_dir(rig.path(folder)).unwrap().next().unwrap().unwrap().path();
    let done = rig.run();
    assert_eq!(done.exit, 1, "{done:?}");
    let name = payload("moved").file_name().unwrap().to_str().unwrap().to_owned();
    done.says(&name).says("raymond resume r");
    assert!(!rig.events().iter().any(|event| event["event"] == "step_failed"));
    fs::rename(payload("moved"), rig.path(".raymond/state/r.d").join(name)).unwrap();
    rig.resume().assert(
        0,
        "[{\"agent\":\"main_work1\",\"state\":\"WORK.sh\",\"attributes\":{},\"status\":\"done\",\"result\":\"70000\",\"error\":null}]\n",
    );
}

/// The same for a worker that joins its own workers.
#[test]
fn a_result_that_cannot_be_read_does_not_fail_the_agent_that_joins_it() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<fork next=\"WAIT\">MIDDLE</fork>'");
    rig.state("WAIT.sh", "echo '<join>END</join>'");
    rig.state("MIDDLE.sh", "echo '<fork next=\"LATE\">WORK</fork>'");
    rig.state("WORK.sh", "printf '<result>%s</result>' $(head -c 70000 /dev/zero | tr '\\0' x)");
    rig.state(
        "LATE.sh",
        "until [ -e .raymond/state/r.d/* ]; do sleep 0.01; done 2>/dev/null
        until grep -q '\"agent_finished\"' .raymond/state/r.jsonl; do sleep 0.01; done
        mkdir moved; mv .raymond/state/r.d/* moved; echo '<join>TELL</join>'",
    );
    rig.state("TELL.sh", "echo '<result>joined</result>'");
    rig.state("END.sh", "echo \"<result>$RAYMOND_RESULT</result>\"");
    let payload = |folder: &str| fs::read_dir(rig.path(folder)).unwrap().next().unwrap().unwrap().path();
    let done = rig.run();
    assert_eq!(done.exit, 1, "{done:?}");
    let name = payload("moved").file_name().unwrap().to_str().unwrap().to_owned();
    done.says(&name).says("raymond resume r");
    // Earlier steps are recorded.
    let finished = rig.events().iter().filter(|event| event["event"] == "step_finished").count();
    assert_eq!(finished, 5);
    fs::rename(payload("moved"), rig.path(".raymond/state/r.d").join(name)).unwrap();
    let done = rig.resume();
    assert_eq!(done.exit, 0, "{done:?}");
    assert!(done.stdout.contains("\"result\":\"joined\""), "{done:?}");
}

#[test]
fn a_log_shows_where_segments_were_deleted() {
    let rig = Rig::new(RAYMOND);
    rig.write(".raymond/config.toml", "[raymond]\nkeep_segments = 1\ndurability = \"process\"\n");
    // More than 8 MiB for each step, so that each begins a new segment.
    rig.state(
        "START.sh",
        r#"long=$(printf '%060000d' 1); for i in {1..150}; do echo "<print>$long</print>"; done
        [ "$RAYMOND_VISITS" = 3 ] && echo '<result>done</result>' || echo '<goto>START</goto>'"#,
    );
    rig.raymond(&["workflow", "--id", "r", "--quiet", "--no-debug"]).assert(0, "done\n");
    let log = rig.raymond(&["log", "r", "--json"]);
    log.says("are in segments that were deleted");
    let numbers: Vec<u64> = log.lines().filter_map(|event| event["seq"].as_u64()).collect();
    let gaps: Vec<&[u64]> = numbers.windows(2).filter(|pair| pair[0] + 1 != pair[1]).collect();
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    log.says(&format!("the events {} to {} are", gaps[0][0] + 1, gaps[0][1] - 1));
}
