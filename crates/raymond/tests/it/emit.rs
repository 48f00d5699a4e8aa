//! `raymond emit`, by itself and in scripts.

use std::io::Write;
use std::process::Stdio;

use test_kit::rig::{Done, Rig};

use crate::RAYMOND;

fn with_stdin(rig: &Rig, args: &[&str], stdin: &str) -> Done {
    let mut command = rig.command(args);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    Done {
        exit: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn tags_are_printed_with_everything_escaped() {
    let rig = Rig::new(RAYMOND);
    let cases: [(&[&str], &str, &str); 7] = [
        (&["goto", "NEXT"], "", "<goto>NEXT</goto>"),
        (
            &["fork", "REVIEW", "file=a \"b\".c", "--next", "WAIT"],
            "",
            "<fork file=\"a &quot;b&quot;.c\" next=\"WAIT\">REVIEW</fork>",
        ),
        (
            &["goto", "NEXT", "--input", "-", "--delay", "5m"],
            "a\nb",
            "<goto input=\"a\nb\" delay=\"5m\">NEXT</goto>",
        ),
        (&["result"], "report\n", "<result>report\n</result>"),
        (&["result", "a=b"], "", "<result>a=b</result>"),
        (&["ask", "Go on?", "timeout=2h", "--next", "N"], "", "<ask timeout=\"2h\" next=\"N\">Go on?</ask>"),
        (&["call", "A", "--return", "B"], "", "<call return=\"B\">A</call>"),
    ];
    for (args, stdin, expected) in cases {
        let args = [&["emit"], args].concat();
        with_stdin(&rig, &args, stdin).assert(0, &format!("{expected}\n"));
    }
}

#[test]
fn a_text_that_looks_like_an_option_is_data() {
    let rig = Rig::new(RAYMOND);
    let cases: [(&[&str], &str); 9] = [
        (&["result", "- a"], "<result>- a</result>"),
        (&["result", "--json"], "<result>--json</result>"),
        (&["result", "--text=x"], "<result>--text=x</result>"),
        (&["print", "--help"], "<print>--help</print>"),
        (&["print", "-h"], "<print>-h</print>"),
        (&["result", "--", "- a"], "<result>- a</result>"),
        (&["ask", "- go on?", "empty=ok", "--next", "N"], "<ask empty=\"ok\" next=\"N\">- go on?</ask>"),
        (&["ask", "--next", "N", "--", "- go on?"], "<ask next=\"N\">- go on?</ask>"),
        (&["ask", "--next=N", "go on?"], "<ask next=\"N\">go on?</ask>"),
    ];
    for (args, expected) in cases {
        with_stdin(&rig, &[&["emit"], args].concat(), "").assert(0, &format!("{expected}\n"));
    }
}

#[test]
fn what_is_wrong_is_refused_and_nothing_is_printed() {
    let rig = Rig::new(RAYMOND);
    let cases: [(&[&str], &str, &str); 9] = [
        (&["gotoo", "A"], "", "did you mean `goto`"),
        (&["goto"], "", "needs a target"),
        (&["goto", "A/B"], "", "not the name of a state"),
        (&["goto", "A", "--cd", "x"], "", "cd"),
        (&["fork", "W", "PATH=x"], "", "PATH"),
        (&["fork", "W", "x"], "", "name=value"),
        (&["result", "</result>"], "", "</result>"),
        (&["--json"], "{\"tag\":\"goto\",\"target\":\"A\"}\n{\"tag\":\"goto\",\"text\":\"A\"}\n", "line 2"),
        (&["--json"], "{\"tag\":\"fork\",\"target\":\"A\",\"tilte\":\"x\"}\n", "line 1"),
    ];
    for (args, stdin, says) in cases {
        let args = [&["emit"], args].concat();
        with_stdin(&rig, &args, stdin).assert(2, "").says(says);
    }
}

#[test]
fn scripts_find_it_on_path_and_in_a_variable() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "for f in 'a \"x\"' b; do raymond emit fork WORK file=\"$f\" || exit 1; done; ls \"${PATH##*:}\" > folder; \"$RAYMOND\" emit join PY");
    rig.state("WORK.sh", "\"$RAYMOND\" emit result \"$file & more\"");
    rig.state(
        "PY.py",
        "import json, os, subprocess\n\
         results = [w['result'] for w in json.loads(os.environ['RAYMOND_RESULT'])]\n\
         lines = ''.join(json.dumps({'tag': 'fork', 'target': 'WORK', 'attributes': {'file': str(i), 'n': i}}) + '\\n' for i in range(50))\n\
         lines += json.dumps({'tag': 'join', 'target': 'END'}) + '\\n'\n\
         open('results', 'w').write('|'.join(results))\n\
         subprocess.run(['raymond', 'emit', '--json'], input=lines.encode(), check=True)\n",
    );
    rig.state(
        "END.py",
        "import json, os\nprint('<result>%d</result>' % len(json.loads(os.environ['RAYMOND_RESULT'])))\n",
    );
    rig.run().assert(0, "50\n");
    assert_eq!(rig.read("folder"), "raymond\n", "nothing else is put on PATH");
    assert_eq!(rig.read("results"), "a \"x\" & more|b & more");
}

/// The folder for the search path lies in the user's cache, which may not be there.
#[test]
fn the_program_is_told_where_no_link_to_it_can_be_made() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "\"$RAYMOND\" emit result 'a < b'");
    let mut command = rig.command(&["workflow", "--state-dir", "s"]);
    command.env_remove("HOME").env_remove("XDG_CACHE_HOME");
    rig.launch(command).wait().assert(0, "a < b\n");
    rig.write("file", "");
    let mut command = rig.command(&["workflow", "--state-dir", "s"]);
    command.env("XDG_CACHE_HOME", rig.path("file"));
    rig.launch(command).wait().assert(0, "a < b\n");
}
