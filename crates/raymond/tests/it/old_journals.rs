//! Journals that the version 0.1 has written: they show the same, and go on to the same end.
//!
//! Each folder under `data/journals-0.1` is a working folder with a run in `state`, and beside it what that version printed:
//! `status` and `log` of the run as it stands, and `exit` and `stdout` of the last of the commands in `then`. The journals
//! name their folder `$WORK`; putting in another one changes the bytes, so that the commit marks are computed anew.

use std::fs;
use std::path::{Path, PathBuf};

use crate::rig::Rig;

/// What is not part of the working folder.
const KEPT_BESIDE: [&str; 6] = ["state", "status", "log", "then", "exit", "stdout"];
const PLACE: &str = "$WORK";

fn journals() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/journals-0.1");
    let mut journals: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    journals.sort();
    journals
}

/// A working folder with the run in it.
fn laid_out(journal: &Path) -> Rig {
    let rig = Rig::new();
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
    rig
}

fn copy(from: &Path, to: &Path) {
    if !from.is_dir() {
        fs::copy(from, to).unwrap();
        return;
    }
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        copy(&entry.path(), &to.join(entry.file_name()));
    }
}

/// A segment with right commit marks: each ends the last line of a batch, with the CRC-32 of the batch before it.
fn marked(segment: &str) -> String {
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
        let expected = |name: &str| {
            let text = fs::read_to_string(journal.join(name)).unwrap();
            text.replace(PLACE, rig.work().to_str().unwrap())
        };
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

/// What is read from an old journal and written again is what was there.
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
        let shown = shown.next().unwrap_or_default();
        assert!(shown == line || line.contains(r#"{"payload":"#), "{line}\n{shown}");
    }
    assert_eq!(shown.next(), None);
}

#[test]
fn old_journals_go_on_to_the_same_end() {
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
