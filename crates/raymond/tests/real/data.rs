//! Values are only data, with any content and length.

use std::fs::File;

use mock_api::say;
use test_kit::rig::Done;

use crate::Case;
use crate::bench::Bench;
use crate::programs::Program;

pub(crate) const CASES: &[Case] = &[
    ("a_value_is_not_run_as_a_command", no_command),
    ("a_value_does_not_include_a_file", no_file),
    ("a_value_that_names_no_file_arrives_as_it_was", unchanged),
    ("an_author_may_use_commands_and_files", author),
    ("a_reminder_does_not_include_a_file", reminder),
    ("a_prompt_of_a_megabyte_arrives", megabyte),
    ("a_prompt_over_the_limit_of_the_program_fails_at_once", too_long),
];

/// The text that must not be in a request.
const SECRET: &str = "the content of the file";

fn bench(program: &Program, body: &str) -> Bench {
    let bench = Bench::new(program);
    bench.write("secret.txt", SECRET);
    bench.state("START.md", body);
    bench.api.on("", [say("<result>done</result>")]);
    bench
}

/// Runs with this on stdin, as the input of the first state.
fn run_with_input(bench: &Bench, input: &str) -> Done {
    let file = bench.write("input", input);
    let mut command = bench.command(&["workflow", "--id", "r", "--input", "-"]);
    command.stdin(File::open(file).unwrap());
    bench.launch(command).wait()
}

/// Text that the program would run as its own command, without a model.
fn no_command(program: &Program) {
    let bench = bench(program, "{{input}}");
    run_with_input(&bench, "/cost").assert(0, "done\n");
    assert_eq!(bench.api.requests()[0].history, ["user:  /cost"]);
    bench.assert_paid();
}

fn no_file(program: &Program) {
    let bench = bench(program, "Look at {{input}}txt and {{run_id}}.");
    bench.state("NEXT.md", "next");
    bench.api.on("Look", [say("<goto>NEXT</goto>")]);
    let outside = bench.path("../outside.txt");
    std::fs::write(&outside, SECRET).unwrap();
    // Every kind of place where the program would recognize a file name, and an `@` that is completed by the author's
    // text.
    let names =
        ["secret.txt", "\"secret.txt\"", outside.to_str().unwrap(), "./secret.txt#L1-2", "secret.txt,"];
    let blanks =
        [" ", "\n", "\t", "\u{A0}", "\u{FEFF}", "\u{3000}", "\u{3001}", "\u{3002}", "\u{2028}", "\r\n"];
    let mut value = "@secret.txt".to_owned();
    for (index, blank) in blanks.iter().enumerate() {
        value += &format!("{blank}@{}", names[index % names.len()]);
    }
    value += " a@secret.txt and @secret.";
    run_with_input(&bench, &value).assert(0, "done\n");
    let requests = bench.api.requests();
    for request in &requests {
        assert!(!request.raw.contains(SECRET), "{request:#?}");
    }
    let request = &requests[0];
    let visible = request.prompt.replace('\u{200B}', "");
    assert_eq!(visible, format!("Look at {value}txt and r."), "nothing else is changed");
    assert_eq!(request.prompt.matches('\u{200B}').count(), blanks.len() + 2);
}

fn unchanged(program: &Program) {
    let bench = bench(program, "Look: {{input}}");
    let value = "npm install @types/node\n@dataclass\n@app.route('/x') by @someone, me@example.org @secret";
    run_with_input(&bench, value).assert(0, "done\n");
    assert_eq!(bench.api.requests()[0].prompt, format!("Look: {value}"));
}

fn author(program: &Program) {
    let bench = bench(program, "/brew {{input}}");
    bench.write(".claude/commands/brew.md", "Make a pot of $ARGUMENTS.");
    bench.state("NEXT.md", "See @secret.txt and {{input}}");
    bench.api.on("pot", [say("<goto input=\"@input\">NEXT</goto>")]);
    run_with_input(&bench, "green tea").assert(0, "done\n");
    let requests = bench.api.requests();
    assert!(requests[0].prompt.contains("Make a pot of green tea."), "{requests:#?}");
    assert!(!requests[0].raw.contains(SECRET));
    assert!(requests[1].raw.contains(SECRET), "{requests:#?}");
    assert!(!requests[1].raw.contains("green tea\\n"), "the file that the value names is not included");
    bench.assert_paid();
}

fn reminder(program: &Program) {
    let policy = "---\nallowed_transitions: [ { tag: result }, { tag: goto, target: START } ]\n---\n";
    let bench = bench(program, &format!("{policy}begin"));
    bench.api.on("begin", [say("<goto>to @secret.txt</goto>")]);
    bench.run(&[]).assert(0, "done\n");
    let request = &bench.api.requests()[1];
    assert!(request.prompt.contains("@secret.txt"), "{request:#?}");
    assert!(!request.raw.contains(SECRET), "{request:#?}");
}

fn megabyte(program: &Program) {
    let bench = bench(program, "{{input}}.");
    let value = "0123456789 abcdefghijklmnopqrst\n".repeat(1024 * 1024 / 32);
    run_with_input(&bench, &value).assert(0, "done\n");
    let requests = bench.api.requests();
    assert_eq!(requests.len(), 1);
    assert!(requests[0].prompt == format!("{value}."), "{} bytes arrived", requests[0].prompt.len());
    bench.assert_paid();
}

fn too_long(program: &Program) {
    let bench = bench(program, "{{input}}{{input}}");
    let value = "0123456789 abcdefghijklmnopqrst\n".repeat(6 * 1024 * 1024 / 32);
    let done = run_with_input(&bench, &value);
    done.assert(1, "").says("shorten the prompt");
    assert_eq!(bench.events_of("retry").len(), 0, "{}", done.stderr);
}
