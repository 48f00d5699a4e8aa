//! `init`: its files have no lint findings and run. `diagram`: the requested format is written.

use std::path::Path;
use std::process::{Command, Output};

use raymond::author::check::{Around, check};
use raymond::author::schema::Subject;
use raymond::author::templates::TEMPLATES;
use raymond_core::workflow::Platform;
use serde_json::Value;

use crate::schemas::problem;

fn raymond(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(crate::RAYMOND);
    command.current_dir(folder).args(args).output().unwrap()
}

#[test]
fn every_template_lints_clean_and_runs_at_once() {
    for template in &TEMPLATES {
        let work = tempfile::tempdir().unwrap();
        let made = raymond(work.path(), &["init", "mine", "--template", template.name]);
        assert!(made.status.success(), "{made:?}");
        let how = String::from_utf8_lossy(&made.stderr).into_owned();
        let uses_input =
            std::fs::read_to_string(work.path().join("mine/START.md")).unwrap().contains("{{input}}");
        assert_eq!(how.contains("raymond mine --input"), uses_input, "{how}");
        let found = check("mine", Around::folder(work.path(), Platform::current()));
        assert!(found.is_empty(), "{}: {found:?}", template.name);
        let run = raymond(work.path(), &["mine", "--json", "--input", "loops"]);
        assert_eq!(run.status.code(), Some(0), "{}: {run:?}", template.name);
        let lines = String::from_utf8(run.stdout).unwrap();
        assert!(lines.lines().last().unwrap().contains("run_finished"), "{lines}");
        for line in lines.lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            assert_eq!(problem(Subject::Events, &event), None, "{line}");
        }
    }
}

/// The names of a folder's files, with their contents.
fn files_in(folder: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    let mut files: Vec<_> = files
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn init_writes_only_what_runs_on_this_platform() {
    let work = tempfile::tempdir().unwrap();
    raymond(work.path(), &["init"]);
    let names: Vec<String> = files_in(&work.path().join("hello")).into_iter().map(|(name, _)| name).collect();
    let expected = ["CHECK.sh", "START.md", "hello.test.yaml", "replies.yaml", "workflow.yaml"];
    assert_eq!(names, expected);
}

#[test]
fn init_leaves_a_workflow_that_is_there_as_it_is_and_says_what_it_has() {
    let work = tempfile::tempdir().unwrap();
    raymond(work.path(), &["init", "mine"]);
    let folder = work.path().join("mine");
    let before = files_in(&folder);
    for (cwd, args) in [(work.path(), &["init", "mine", "--template", "review"][..]), (&folder, &["init"])] {
        let done = raymond(cwd, args);
        let error = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{error}");
        for shown in ["is a workflow already", "nothing was changed", "CHECK.sh, START.md", "run it: raymond"]
        {
            assert!(error.contains(shown), "{shown}: {error}");
        }
        assert_eq!(files_in(&folder), before);
        assert!(!folder.join("hello").exists());
    }
    assert!(raymond(&folder, &["init", "other"]).status.success(), "another name makes another workflow");
}

#[test]
fn the_extension_of_the_file_sets_the_format_of_a_diagram() {
    let work = tempfile::tempdir().unwrap();
    raymond(work.path(), &["init", "mine"]);
    let cases: [(&[&str], &str); 6] = [
        (&["-o", "a.svg"], "<svg"),
        (&["-o", "a.HTML"], "<!doctype html"),
        (&["-o", "a.dot"], "digraph"),
        (&["-o", "a.mmd"], "flowchart"),
        (&["-o", "a"], "flowchart"),
        (&["-o", "b.svg", "--format", "dot"], "digraph"),
    ];
    for (args, opening) in cases {
        let done = raymond(work.path(), &[&["diagram", "mine"], args].concat());
        assert!(done.status.success(), "{done:?}");
        let text = std::fs::read_to_string(work.path().join(args[1])).unwrap();
        assert!(text.starts_with(opening), "{args:?}: {text}");
    }
}

#[test]
fn a_diagram_in_an_unknown_format_is_refused() {
    let work = tempfile::tempdir().unwrap();
    raymond(work.path(), &["init", "mine"]);
    for name in ["a.png", "a.pdf"] {
        let done = raymond(work.path(), &["diagram", "mine", "-o", name]);
        let error = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{error}");
        assert!([name, ".svg", ".html", ".dot", ".mmd"].iter().all(|word| error.contains(word)), "{error}");
        assert!(!work.path().join(name).exists());
    }
}
