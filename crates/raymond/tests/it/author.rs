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
        for platform in [Platform::Unix, Platform::Windows] {
            let found = check("mine", Around::folder(work.path(), platform));
            assert!(found.is_empty(), "{}: {found:?}", template.name);
        }
        let run = raymond(work.path(), &["mine", "--json", "--input", "loops"]);
        assert_eq!(run.status.code(), Some(0), "{}: {run:?}", template.name);
        let lines = String::from_utf8(run.stdout).unwrap();
        assert!(lines.lines().last().unwrap().contains("run_finished"), "{lines}");
        for line in lines.lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            assert_eq!(problem(Subject::Events, &event), None, "{line}");
        }
        let again = raymond(work.path(), &["init", "mine"]);
        assert_eq!(again.status.code(), Some(2), "existing files are not overwritten");
    }
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
