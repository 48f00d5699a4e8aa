//! The examples run as they are, and have no lint findings.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use raymond::author::load::load;
use raymond_core::diagram::{Diagram, svg::svg};
use raymond_core::workflow::Platform;
use test_kit::needs::lacks_an_interpreter;

use crate::lint::expect;

/// Each example, its exit code, and a part of its result.
const EXAMPLES: [(&str, i32, &str); 13] = [
    ("approval", 3, ""),
    ("compose/notes", 0, ""),
    ("cross-platform", 0, "4 parcels are here"),
    ("evaluator", 0, "config.toml is missing"),
    ("fan-out", 0, "writer.c: the last block is not flushed"),
    ("forms/weekday", 0, "day"),
    ("forms/weekday.yaml", 0, "day"),
    ("forms/weekday.zip", 0, "day"),
    ("parallel-worktrees", 0, "merged: upper TEXT prints the text in capital letters\nmerged: words TEXT"),
    ("pipeline", 0, "rain: rain 3"),
    ("plan-then-implement", 0, "slug()"),
    ("poll", 0, "wrong year"),
    ("review-loop", 0, "Skerry Point"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn raymond(args: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder for the journals");
    let mut command = Command::new(crate::RAYMOND);
    command.current_dir(root()).args(args);
    if args.first() != Some(&"lint") {
        command.args(["--no-debug", "--state-dir"]).arg(folder.path());
    }
    command.stdin(std::process::Stdio::null()).output().expect("raymond runs")
}

#[test]
fn every_example_has_its_documented_result() {
    for (name, exit, result) in EXAMPLES {
        if lacks_an_interpreter(&root().join("examples").join(name), name) {
            continue;
        }
        let done = raymond(&[&format!("examples/{name}")]);
        let (stdout, stderr) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert_eq!(done.status.code(), Some(exit), "{name}: {stderr}");
        assert!(stdout.contains(result), "{name}: {stdout}");
    }
}

/// Each script has a file for both platforms, so nothing is missing on either.
#[test]
fn the_example_for_all_platforms_lints_on_each() {
    for platform in ["unix", "windows"] {
        let args = ["lint", "--level", "warning", "--platform", platform, "examples/cross-platform"];
        let done = raymond(&args);
        assert_eq!(done.status.code(), Some(0), "{platform}: {}", String::from_utf8_lossy(&done.stdout));
    }
}

#[test]
fn no_example_has_lint_findings() {
    for (name, ..) in EXAMPLES {
        let done = raymond(&["lint", "--level", "warning", &format!("examples/{name}")]);
        assert_eq!(done.status.code(), Some(0), "{name}: {}", String::from_utf8_lossy(&done.stdout));
    }
}

#[test]
fn the_pictures_are_up_to_date() {
    let page = fs::read_to_string(root().join("examples/README.md")).unwrap();
    let folders = EXAMPLES.iter().map(|(name, ..)| *name).filter(|name| !name.contains('.'));
    for name in folders {
        let file = format!("docs/pictures/{}.svg", name.replace('/', "-"));
        let mut loaded = load(&format!("examples/{name}"), &root(), Platform::Unix).unwrap();
        let diagram = Diagram::of(&loaded.graph(Platform::Unix));
        let title = Path::new(name).file_name().unwrap().to_string_lossy().into_owned();
        expect(&root().join(&file), &svg(&diagram, &title));
        assert!(page.contains(&format!("(../{file})")), "examples/README.md does not show {file}");
    }
}

/// Copies a folder with all that is in it.
fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// Packs each example, and runs the tests of its folder with what was packed.
fn pass_their_tests_packed(form: &str) {
    for (name, ..) in EXAMPLES.into_iter().filter(|(name, ..)| !name.contains('.')) {
        if lacks_an_interpreter(&root().join("examples").join(name), name) {
            continue;
        }
        let work = tempfile::tempdir().unwrap();
        let (group, own) = name.split_once('/').unwrap_or(("", name));
        // What an example calls lies beside it.
        let around = if group.is_empty() { name } else { group };
        copy_folder(&root().join("examples").join(around), &work.path().join(around));
        let folder = work.path().join(name);
        let packed = folder.with_extension(form);
        let raymond = |args: &[&std::ffi::OsStr]| {
            let mut command = Command::new(crate::RAYMOND);
            command.current_dir(work.path()).args(args).stdin(std::process::Stdio::null()).output().unwrap()
        };
        let test = folder.with_file_name(format!("{own}.test.yaml"));
        if !test.exists() {
            fs::copy(folder.join(format!("{own}.test.yaml")), &test).unwrap();
        }
        let to: [&std::ffi::OsStr; 5] =
            ["convert".as_ref(), folder.as_ref(), "-o".as_ref(), packed.as_ref(), "--force".as_ref()];
        let done = raymond(&to);
        assert_eq!(done.status.code(), Some(0), "{name}: {}", String::from_utf8_lossy(&done.stderr));
        fs::remove_dir_all(&folder).unwrap();
        for other in ["zip", "yaml"].into_iter().filter(|other| *other != form) {
            let _ = fs::remove_file(folder.with_extension(other));
        }
        let done = raymond(&["test".as_ref(), test.as_ref()]);
        let (stdout, stderr) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert_eq!(done.status.code(), Some(0), "{name}.{form}: {stdout}{stderr}");
    }
}

#[test]
fn every_example_passes_its_own_tests_as_an_archive() {
    pass_their_tests_packed("zip");
}

#[test]
fn every_example_passes_its_own_tests_as_one_file() {
    pass_their_tests_packed("yaml");
}
