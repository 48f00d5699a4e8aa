use std::fs;

use std::time::Instant;

use proptest::prelude::*;
use raymond_core::workflow::source::SourceWarning;

use super::*;
use crate::workflow::scope::{Beside, Scope};

#[test]
fn states_of_all_kinds_are_read() {
    let text = "\u{feff}name: Demo\nstates:\n  1_START:\n    prompt: |\n      Hello\n    model: haiku\n    \
                allowed_transitions: [ { tag: goto, target: BUILD } ]\n  BUILD:\n    sh: make\n    bat: nmake\n    retry: 2\n    \
                timeout: 5s\nfiles:\n  notes.txt: hi\n  logo: { base64: AP8= }\n  EXTRA.md: |\n    ---\n    model: opus\n    ---\n    x\n";
    let contents = parse(text).unwrap();
    assert_eq!(contents.manifest.name.as_deref(), Some("Demo"));
    let names: Vec<String> = contents.listing.states().map(String::from).collect();
    assert_eq!(names, ["1_START.md", "BUILD.sh", "BUILD.bat", "EXTRA.md"]);
    let state = |name: &str| &contents.states[&StateFile::new(name).unwrap()];
    assert_eq!(state("1_START.md").text, "Hello\n");
    match &state("1_START.md").given {
        Given::Beside { plan: Beside::Prompt(settings), text, .. } => {
            assert_eq!(settings.model.as_deref(), Some("haiku"));
            assert!(text.contains("BUILD"), "{text}");
        }
        other => panic!("{other:?}"),
    }
    for name in ["BUILD.sh", "BUILD.bat"] {
        let Given::Beside { plan: Beside::Script(header), .. } = &state(name).given else { panic!("{name}") };
        assert_eq!(
            (header.retry, header.timeout),
            (2, Some(raymond_core::duration::Limit::After(Duration::from_secs(5))))
        );
    }
    assert_eq!(contents.files["logo"], [0, 255]);
}

#[test]
fn twins_of_one_platform_are_ambiguous_as_in_a_folder() {
    let contents = parse("states:\n  A:\n    sh: a\n    py: b\n").unwrap();
    let error = contents.listing.resolve("A", Platform::Unix).unwrap_err().to_string();
    assert!(error.contains("A.sh") && error.contains("A.py"), "{error}");
    assert!(contents.listing.resolve("A", Platform::Windows).is_ok());
}

#[test]
fn comments_of_a_script_count_beside_its_keys() {
    let text = "states:\n  A:\n    sh: |\n      # raymond: retry=2 colour=red\n      true\n    timeout: 5s\n    model: x\n";
    let contents = parse(text).unwrap();
    let Given::Beside { plan: Beside::Script(header), warnings, .. } =
        &contents.states[&StateFile::new("A.sh").unwrap()].given
    else {
        panic!("no header");
    };
    assert_eq!(
        (header.retry, header.timeout),
        (2, Some(raymond_core::duration::Limit::After(Duration::from_secs(5))))
    );
    let warnings: Vec<String> = warnings.iter().map(SourceWarning::to_string).collect();
    assert_eq!(warnings[0], "line 4, column 26: unknown setting `colour` is ignored");
    assert_eq!(warnings[1], "line 7, column 5: unknown setting `model` of a script is ignored");
}

#[test]
fn mistakes_have_a_place_and_the_line() {
    let cases = [
        ("", "line 1, column 1: the file is empty; its states go under `states:`"),
        (
            "- a",
            "line 1, column 1: a one-file workflow holds `key: value` lines with its states under `states:`, not a list, in `- a`",
        ),
        ("name: x", "line 1, column 1: there are no states; they go under `states:`, in `name: x`"),
        (
            "name: x\nSTART:\n  prompt: x\nB: { sh: y }",
            "line 2, column 1: there are no states under `states:`, but `START` and `B` outside of it; states go below a line `states:`, indented, in `START:`",
        ),
        (
            "states: [A]",
            "line 1, column 9: `states` must be a mapping of names to states, not a list, in `states: [A]`",
        ),
        (
            "states:\n  A: hello",
            "line 2, column 6: the state `A` must be a mapping with `prompt` or a script, not text, in `A: hello`",
        ),
        (
            "states:\n  A: { model: x }",
            "line 2, column 3: the state `A` has neither `prompt` nor a script (`sh`, `bat`, `ps1`, `py` or `js`), in `A: { model: x }`",
        ),
        (
            "states:\n  A:\n    prompt: x\n    sh: y",
            "line 4, column 5: the state `A` has both `prompt` and `sh`; it is one or the other, in `sh: y`",
        ),
        (
            "states:\n  A.md: { prompt: x }",
            "line 2, column 3: `A.md` names a file; leave the extension out, the key of its text says what it is, in `A.md: { prompt: x }`",
        ),
        (
            "states:\n  ../A: { prompt: x }",
            "line 2, column 3: `../A` cannot be the name of a state, in `../A: { prompt: x }`",
        ),
        (
            "states:\n  A: { prompt: 5 }",
            "line 2, column 16: `prompt` must be text, not a whole number; put it in quotes, in `A: { prompt: 5 }`",
        ),
        ("states:\n  A:\n    prompt:", "line 3, column 11: `prompt` must be text, not empty, in `prompt:`"),
        (
            "states:\n  A: { prompt: x, timeout: soon }",
            "line 2, column 28: `timeout`: `soon` is not a duration; write a whole number and one of the units `ms`, `s`, `m`, `h` or `d`, as in `30s`, in `A: { prompt: x, timeout: soon }`",
        ),
        (
            "states:\n  A: { sh: x, retry: many }",
            "line 2, column 22: `many` is not a whole number from 0 to 1000 for `retry`, in `A: { sh: x, retry: many }`",
        ),
        (
            "states:\n  A: { sh: x, retry: [1] }",
            "line 2, column 22: `retry` cannot be a list, in `A: { sh: x, retry: [1] }`",
        ),
        (
            "states:\n  A:\n    sh: '# raymond: retry=1'\n    retry: 2",
            "line 4, column 5: `retry` is also set in a comment of the script; keep one of them, in `retry: 2`",
        ),
        (
            "states:\n  A: { sh: '# raymond: retry=x' }",
            "line 2, column 24: `x` is not a whole number from 0 to 1000 for `retry`, in `A: { sh: '# raymond: retry=x' }`",
        ),
        (
            "states:\n  A: { sh: x }\n  A: { sh: y }",
            "line 3, column 3: invalid YAML: duplicate mapping key: A not allowed here, in `A: { sh: y }`",
        ),
        (
            "states:\n  A: { sh: x }\nfiles:\n  A.sh: x",
            "line 4, column 3: `A.sh` stands under `states` and under `files`; keep one of them, in `A.sh: x`",
        ),
        (
            "states:\n  A: { sh: x }\nfiles:\n  a/../b: x",
            "line 4, column 3: `a/../b` cannot be the name of a file: it has a name that leads elsewhere, in `a/../b: x`",
        ),
        (
            "states:\n  A: { sh: x }\nfiles:\n  A.sh/b: x",
            "line 4, column 3: `A.sh` is a file and a folder at once, in `A.sh/b: x`",
        ),
        (
            "states:\n  A: { sh: x }\nfiles:\n  a: { base64: '*' }",
            "line 4, column 16: this is not base64: Invalid symbol 42, offset 0., in `a: { base64: '*' }`",
        ),
        (
            "states:\n  A: { sh: x }\nname: 5",
            "line 3, column 7: `name` must be text, not a whole number; put it in quotes, in `name: 5`",
        ),
        ("states:\n  A: { sh: x", "line 2, column 6: invalid YAML: unclosed bracket '{', in `A: { sh: x`"),
    ];
    for (text, expected) in cases {
        assert_eq!(parse(text).unwrap_err().to_string(), expected, "{text}");
    }
}

#[test]
fn states_outside_get_a_hint() {
    let contents = parse("states:\n  A: { sh: x }\nB: { prompt: y }\ncolor: red\n").unwrap();
    let warnings: Vec<String> = contents.manifest.warnings.iter().map(SourceWarning::to_string).collect();
    assert_eq!(
        warnings,
        [
            "line 4, column 1: unknown key `color` is ignored",
            "line 3, column 1: `B` is ignored: it looks like a state, and states go under `states:`",
        ]
    );
}

#[test]
fn an_edit_counts_from_the_next_look_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wf.yaml");
    let write = |text: &str| fs::write(&path, text).unwrap();
    write("states:\n  A: { sh: one }\n");
    let mut scope = Scope::open(&path, Platform::Unix).unwrap();
    let state = scope.resolve("A").unwrap();
    let first = scope.read(&state).unwrap();
    assert_eq!((first.bytes.as_slice(), first.file), (b"one".as_slice(), None));
    write("states:\n  A: { sh: two }\n");
    assert_eq!(scope.read(&state).unwrap().bytes, b"two");
    write("states:\n  A: { sh: two, retry: 1 }\n  B: { sh: b }\n");
    let with_setting = scope.read(&state).unwrap();
    write("\n\nstates:\n  A: { sh: two, retry: 1 }\n");
    assert_eq!(scope.read(&state).unwrap().hash(), with_setting.hash(), "only its place changed");
    write("states:\n  A: { sh: two, retry: 2 }\n");
    assert_ne!(scope.read(&state).unwrap().hash(), with_setting.hash(), "a setting belongs to the state");
    assert!(scope.resolve("B").is_err());
    write("states: [");
    assert!(scope.read(&state).unwrap_err().contains("line 1, column 9"));
    fs::remove_file(&path).unwrap();
    assert!(scope.resolve("A").unwrap_err().contains("is gone"));
}

#[test]
fn the_manifest_of_a_folder_is_told_from_a_workflow() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("workflow.yaml");
    fs::write(&path, "name: x\n").unwrap();
    let error = OneFile::open(&path, Platform::Unix).unwrap_err();
    assert!(error.hints[0].contains("is the name of a folder's manifest"), "{error:?}");
    fs::write(&path, b"name: \xff").unwrap();
    assert!(
        OneFile::open(&path, Platform::Unix).unwrap_err().message.ends_with("line 1: it is not valid UTF-8")
    );
}

/// A workflow of so many states, and how long it takes to read it.
fn with_states(folder: &Path, count: usize) -> (Scope, Duration) {
    let mut text = "states:\n".to_owned();
    for number in 0..count {
        let next = number + 1;
        text.push_str(&format!(
            "  S{number}:\n    prompt: |\n      Do it, then <goto>S{next}</goto>.\n    model: haiku\n    \
             allowed_transitions:\n      - {{ tag: goto, target: S{next} }}\n      - {{ tag: result }}\n"
        ));
    }
    let path = folder.join(format!("wf{count}.yaml"));
    fs::write(&path, &text).unwrap();
    let clock = Instant::now();
    let scope = Scope::open(&path, Platform::Unix).unwrap();
    let loading = clock.elapsed();
    assert_eq!(scope.states().count(), count);
    (scope, loading)
}

/// Times are only compared with each other, because machines differ, and are measured again, because other programs
/// run at the same time.
#[test]
fn the_time_to_read_states_grows_with_their_number_alone() {
    let folder = tempfile::tempdir().unwrap();
    let is_linear = (0..5).any(|_| {
        let (few, many) = (with_states(folder.path(), 250).1, with_states(folder.path(), 1_000).1);
        many < 8 * few
    });
    assert!(is_linear, "four times as many states take more than eight times as long");
}

#[test]
fn a_transition_does_not_read_everything_again() {
    let folder = tempfile::tempdir().unwrap();
    let (mut scope, loading) = with_states(folder.path(), 1_000);
    std::thread::sleep(STAMP_GRAIN * 2);
    let is_quick = (0..5).any(|_| {
        scope.resolve("S1").unwrap();
        let clock = Instant::now();
        for number in 0..1_000 {
            let state = scope.resolve(&format!("S{number}")).unwrap();
            scope.read(&state).unwrap();
        }
        clock.elapsed() < 100 * loading
    });
    assert!(is_quick, "1,000 transitions take more than 100 times as long as reading all states once");
}

proptest! {
    #[test]
    fn no_text_panics(
        text in "(?s).{0,200}",
        keys in "(states|files|input|environment): ?(\n? {0,4}(A|B.md|prompt|sh|retry|base64|mode|[|>&*!-]|x): ?[a-z0-9{\\[\"'|]{0,4}){0,8}"
    ) {
        let _ = parse(&text);
        let _ = parse(&keys);
        let _ = parse(&format!("states:\n  A: {{ sh: x }}\n{keys}"));
        let _ = parse(&format!("states:\n  {keys}"));
    }
}
