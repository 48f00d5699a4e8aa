//! Long texts, from state to state.

use std::fs;
use std::process::Stdio;

use crate::rig::{Done, Rig};

const REPORT: &str = r#"echo "<result>$(wc -c < "$RAYMOND_INPUT_FILE") ${#RAYMOND_INPUT} ${#RAYMOND_RESULT} ${RAYMOND_INPUT+set}</result>""#;

/// Hands a text of this many bytes to REPORT, by every way there is.
fn hand_over(bytes: usize) -> Vec<(&'static str, Rig, Done)> {
    let make = format!("text=$(head -c {bytes} /dev/zero | tr '\\0' x)");
    let ways = [
        ("goto", format!("{make}; echo \"<goto input='$text'>REPORT</goto>\"")),
        ("reset", format!("{make}; echo \"<reset input='$text'>REPORT</reset>\"")),
        (
            "result",
            format!(
                "{make}; [ $RAYMOND_VISITS = 1 ] && echo '<call return=\"REPORT\">START</call>' || echo \"<result>$text</result>\""
            ),
        ),
        ("call", format!("{make}; echo \"<call return='START' input='$text'>PASS</call>\"")),
        (
            "--input -",
            "cp \"$RAYMOND_INPUT_FILE\" copy; exec bash \"$RAYMOND_STATE_DIR/REPORT.sh\"".to_owned(),
        ),
    ];
    let mut results = Vec::new();
    for (name, start) in ways {
        let rig = Rig::new();
        rig.state("REPORT.sh", REPORT).state("START.sh", start);
        rig.state(
            "PASS.sh",
            "printf '<reset input=\"%s\">REPORT</reset>' \"$(cat \"$RAYMOND_INPUT_FILE\")\"",
        );
        rig.state("BACK.sh", "exit 1");
        if name == "call" {
            rig.state(
                "REPORT.sh",
                REPORT.replace("<result>", "<goto input='").replace("</result>", "'>OUT</goto>"),
            );
            rig.state("OUT.sh", "echo \"<call return='DONE'>GIVE</call>\" > /dev/null; cat > /dev/null; echo \"<result>$RAYMOND_INPUT</result>\"");
            let start = rig.read("workflow/START.sh");
            rig.state("START.sh", format!("[ $RAYMOND_VISITS = 2 ] && {{ echo \"<result>$RAYMOND_RESULT</result>\"; exit; }}; {start}"));
        }
        let mut command = rig.command(&["workflow", "--id", "r", "--quiet", "--input", "-"]);
        let input = rig.write("input", vec![b'x'; bytes]);
        command.stdin(Stdio::from(fs::File::open(input).unwrap()));
        if name != "--input -" {
            command.stdin(Stdio::null());
        }
        let done = rig.launch(command).wait();
        results.push((name, rig, done));
    }
    results
}

fn payload_files(rig: &Rig) -> usize {
    fs::read_dir(rig.path(".raymond/state/r.d")).map_or(0, Iterator::count)
}

#[test]
fn short_texts_are_in_variables_and_in_the_journal() {
    for (name, rig, done) in hand_over(1000) {
        assert_eq!(done.stdout, "1000 1000 1000 set\n", "{name}: {done:?}");
        assert_eq!(payload_files(&rig), 0, "{name}");
    }
}

#[test]
fn texts_over_64_kib_lie_beside_the_journal() {
    for (name, rig, done) in hand_over(65 * 1024) {
        assert_eq!(done.stdout, "66560 66560 66560 set\n", "{name}: {done:?}");
        assert_eq!(payload_files(&rig), 1, "{name}: the same text is stored once");
        assert!(fs::metadata(rig.journal()).unwrap().len() < 10_000, "{name}");
    }
}

#[test]
fn texts_over_96_kib_are_handed_over_by_file_alone() {
    for (name, _, done) in hand_over(200_000) {
        assert_eq!(done.stdout, "200000 0 0 \n", "{name}: {done:?}");
    }
}

#[test]
fn the_limit_of_the_environment_is_exact() {
    let rig = Rig::new();
    rig.state("REPORT.sh", REPORT);
    rig.state(
        "START.sh",
        "printf '<goto input=\"%s\">REPORT</goto>' $(head -c $RAYMOND_INPUT /dev/zero | tr '\\0' x)",
    );
    for (bytes, expected) in [(98_304, "98304 98304 98304 set\n"), (98_305, "98305 0 0 \n")] {
        rig.raymond(&["workflow", "--quiet", "--input", &bytes.to_string()]).assert(0, expected);
    }
}

#[test]
fn a_long_result_is_printed_whole_and_again() {
    let rig = Rig::new();
    rig.state("START.sh", "echo \"<result>$(seq 40000)</result>\"");
    let expected: String = (1..=40_000).map(|number| format!("{number}\n")).collect();
    let done = rig.run();
    assert!(done.exit == 0 && done.stdout == expected, "{} bytes", done.stdout.len());
    let again = rig.resume();
    assert!(again.exit == 0 && again.stdout == expected, "{} bytes", again.stdout.len());
    assert_eq!(rig.status()["result"].as_str().unwrap(), expected.trim_end());
    let last = rig.events().pop().unwrap();
    assert_eq!(
        last["result"].as_str().unwrap(),
        expected.trim_end(),
        "the stream has the text, not a reference"
    );
}

#[test]
fn eight_mebibytes_pass_and_one_byte_more_does_not() {
    const MOST: usize = 8 * 1024 * 1024;
    let rig = Rig::new();
    rig.state(
        "START.sh",
        "printf '<result>'; head -c $RAYMOND_INPUT /dev/zero | tr '\\0' x; printf '</result>'",
    );
    let done = rig.raymond(&["workflow", "--quiet", "--input", &MOST.to_string()]);
    assert_eq!((done.exit, done.stdout.len()), (0, MOST + 1), "{}", done.stderr);
    let done = rig.raymond(&["workflow", "--quiet", "--input", &(MOST + 1).to_string()]);
    assert_eq!((done.exit, done.stdout.len()), (1, 0), "{}", done.stderr);
    done.says("8 MiB");
}

#[test]
fn an_input_over_eight_mebibytes_is_refused() {
    let rig = Rig::new();
    rig.state("START.sh", "echo '<result>ok</result>'");
    let input = rig.write("input", vec![b'x'; 8 * 1024 * 1024 + 1]);
    let mut command = rig.command(&["workflow", "--id", "r", "--input", "-"]);
    command.stdin(Stdio::from(fs::File::open(input).unwrap()));
    rig.launch(command).wait().assert(2, "").says("8 MiB");
    assert!(!rig.journal().exists(), "nothing was begun");
}

#[test]
fn a_long_message_lies_in_a_file_and_is_shown_whole() {
    let rig = Rig::new();
    let said = format!("{} <result>done</result>", "word ".repeat(20_000));
    rig.state("START.md", "Talk.").state("workflow.yaml", "backend: scripted\n");
    rig.state("replies.yaml", format!("START: \"{said}\"\n"));
    rig.run().assert(0, "done\n");
    let journal = fs::read_to_string(rig.journal()).unwrap();
    assert!(journal.contains(r#""message":{"payload":"#), "{journal}");
    let finished = rig.events().into_iter().find(|event| event["event"] == "step_finished").unwrap();
    assert_eq!(finished["message"], said);
}
