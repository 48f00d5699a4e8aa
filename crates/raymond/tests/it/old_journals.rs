//! Journals written by version 0.1: their status and log are shown, and a resume has the same result.
//!
//! Each folder under `data/journals-0.1` is a working folder with a run in `state`, and what is expected of it: `status`
//! and `log` of the unchanged run, and `exit` and `stdout` of the last of the commands in `then`. They are the output of
//! that version, except for what later versions show besides; after such a change `UPDATE=1` writes them again. The
//! journals name their folder `$WORK`; replacing it changes the bytes, so the commit marks are computed again.

use std::fs;
use std::path::{Path, PathBuf};

use test_kit::rig::Rig;

use crate::RAYMOND;

/// The files that are not part of the working folder.
const KEPT_BESIDE: [&str; 6] = ["state", "status", "log", "then", "exit", "stdout"];
const PLACE: &str = "$WORK";

pub fn journals() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/journals-0.1");
    let mut journals: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    journals.sort();
    journals
}

/// A working folder with the run in it.
pub fn laid_out(journal: &Path) -> Rig {
    let rig = Rig::new(RAYMOND);
    for entry in fs::read_dir(journal).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if !KEPT_BESIDE.contains(&name.as_str()) {
            copy(&entry.path(), &rig.path(&name));
        }
    }
    let state = rig.path(".raymond/state");
    copy(&journal.join("state"), &state);
    for entry in fs::read_dir(&state).unwrap().map(Result::unwrap) {
        if entry.path().extension().is_some_and(|extension| extension == "jsonl") {
            let text = fs::read_to_string(entry.path()).unwrap();
            fs::write(entry.path(), marked(&text.replace(PLACE, rig.work().to_str().unwrap()))).unwrap();
        }
    }
    rig.adopt();
    rig
}

pub fn copy(from: &Path, to: &Path) {
    if !from.is_dir() {
        fs::copy(from, to).unwrap();
        return;
    }
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        copy(&entry.path(), &to.join(entry.file_name()));
    }
}

/// A segment with correct commit marks: each ends the last line of a batch, with the CRC-32 of the batch before it.
pub fn marked(segment: &str) -> String {
    let (mut marked, mut batch) = (String::new(), String::new());
    for line in segment.lines() {
        match line.rsplit_once(r#","commit":""#) {
            Some((line, mark)) if mark.len() == r#"01234567"}"#.len() => {
                batch.push_str(line);
                let crc = crc32fast::hash(batch.as_bytes());
                marked.push_str(&format!("{batch},\"commit\":\"{crc:08x}\"}}\n"));
                batch.clear();
            }
            _ => {
                batch.push_str(line);
                batch.push('\n');
            }
        }
    }
    marked + &batch
}

#[test]
fn old_journals_show_the_same() {
    for journal in journals() {
        let rig = laid_out(&journal);
        let work = rig.work().to_str().unwrap().to_owned();
        let expected = |name: &str| {
            let text = fs::read_to_string(journal.join(name)).unwrap();
            text.replace(PLACE, &work)
        };
        if std::env::var_os("UPDATE").is_some() {
            let update = |name: &str, args: &[&str]| {
                fs::write(journal.join(name), rig.raymond(args).stdout.replace(&work, PLACE)).unwrap();
            };
            update("status", &["status", "r", "--json"]);
            update("log", &["log", "r"]);
        }
        let name = journal.file_name().unwrap().display();
        let status = rig.raymond(&["status", "r", "--json"]);
        assert_eq!((status.exit, status.stdout), (0, expected("status")), "{name}: {}", status.stderr);
        let log = rig.raymond(&["log", "r"]);
        assert_eq!((log.exit, log.stdout), (0, expected("log")), "{name}: {}", log.stderr);
        let json = rig.raymond(&["log", "r", "--json"]);
        assert_eq!(json.exit, 0, "{name}: {}", json.stderr);
        assert_same_events(&rig, &json.stdout);
    }
}

/// Events that are read from an old journal and written again are unchanged, except that workers now have titles.
fn assert_same_events(rig: &Rig, log: &str) {
    let mut segments: Vec<PathBuf> =
        fs::read_dir(rig.path(".raymond/state")).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    // The first segment has no number.
    segments.sort_by_key(|path| (path.file_name() != Some("r.jsonl".as_ref()), path.clone()));
    let lines = segments.iter().flat_map(|path| {
        let text = fs::read_to_string(path).unwrap();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    });
    let mut shown = log.lines();
    for line in lines.filter(|line| !line.contains(r#""event":"snapshot""#)) {
        let line = line.rsplit_once(r#","commit":""#).map_or(line.clone(), |(line, _)| format!("{line}}}"));
        // A long text is shown in place of its reference.
        let shown = without_title(shown.next().unwrap_or_default());
        assert!(shown == line || line.contains(r#"{"payload":"#), "{line}\n{shown}");
    }
    assert_eq!(shown.next(), None);
}

/// A title is made of the attributes, and stands before them.
fn without_title(line: &str) -> String {
    match line.split_once(r#","title":"#) {
        Some((before, rest)) => match rest.split_once(r#","attributes":"#) {
            Some((_, after)) => format!(r#"{before},"attributes":{after}"#),
            None => line.to_owned(),
        },
        None => line.to_owned(),
    }
}

#[test]
fn old_journals_resume_with_the_same_result() {
    for journal in journals() {
        let rig = laid_out(&journal);
        let expected = |name: &str| fs::read_to_string(journal.join(name)).unwrap();
        let name = journal.file_name().unwrap().display();
        let commands = expected("then");
        let mut last = None;
        for command in commands.lines() {
            let words: Vec<&str> = command.split(' ').collect();
            last = Some(rig.raymond(&words));
        }
        let done = last.unwrap();
        assert_eq!(done.exit.to_string() + "\n", expected("exit"), "{name}: {}", done.stderr);
        assert_eq!(done.stdout, expected("stdout"), "{name}: {}", done.stderr);
        assert_eq!(rig.status()["status"], "completed", "{name}");
    }
}
