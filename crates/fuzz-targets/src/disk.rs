//! What a run finds in its own folder.

use std::fs;
use std::path::Path;

use raymond::run::driver::{ANSWER_MESSAGE, Answer, STOP_MESSAGE, StopRequest};
use raymond::store::folder::{
    InboxFolder, Journal, Line, Lines, RunLock, RunPaths, fold, read_all, read_tail,
};
use raymond::store::{Content, Durability, Inbox, JournalOptions, StateDir, StoreError};
use tempfile::TempDir;

use crate::pieces::lengths;

/// An event of no kind that there is.
const NEXT_EVENT: &str = r#"{"event":"next"}"#;

/// Any bytes as a journal, and any lines as its events.
pub fn journal(data: &[u8]) {
    as_file(data);
    as_events(&String::from_utf8_lossy(data));
}

/// Whole batches are read up to the first damage or the end; a shorter file gives a part of them; and a process that
/// goes on with the run finds them again, with what it adds behind them.
fn as_file(data: &[u8]) {
    let (_folder, paths) = run_folder();
    let path = paths.segment(0);
    fs::write(&path, data).expect("write the journal");
    let (lines, damage) = read(&paths);
    check_lines(&lines);
    if damage.is_none() {
        let tail = read_tail(&paths).expect("what is read as a whole has an end");
        assert_eq!(tail.lines, lines);
        // Whether it is a run is told by its first event; it must only not panic.
        let _ = fold(&paths, &lines);
    } else {
        assert!(read_tail(&paths).is_err(), "{damage:?} is not seen by a resume");
    }
    if let Ok(followed) = follow(&paths) {
        assert_eq!(followed, lines);
    }
    for length in lengths(data) {
        fs::write(&path, &data[..length]).expect("cut the journal");
        let shorter = read(&paths).0;
        assert!(lines.starts_with(&shorter), "cut to {length} bytes it holds something else: {shorter:?}");
        if let Ok(longer) = go_on(&paths) {
            assert_eq!(longer, [texts(&shorter), vec![NEXT_EVENT.to_owned()]].concat());
        }
    }
}

/// What is appended is read again, and adds up to a run or to an error.
fn as_events(text: &str) {
    let (_folder, paths) = run_folder();
    let lock = RunLock::acquire(&paths.lock()).expect("lock a new run");
    let mut journal = Journal::create(&paths, options(), &lock).expect("begin a journal");
    let mut appended = Vec::new();
    // Batches are what stands between empty lines.
    for batch in text.split("\n\n") {
        let lines: Vec<String> = batch.lines().map(str::to_owned).collect();
        match journal.append(&lines) {
            Ok(()) => appended.extend(lines),
            Err(StoreError::Refused { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let (lines, damage) = read(&paths);
    assert_eq!(texts(&lines), appended);
    assert!(damage.is_none() || appended.is_empty(), "{damage:?}");
    for length in 0..=lines.len().min(20) {
        let _ = fold(&paths, &lines[..length]);
    }
    let _ = fold(&paths, &lines);
}

/// All lines before the first damage, and the damage.
fn read(paths: &RunPaths) -> (Vec<Line>, Option<StoreError>) {
    let mut lines = Vec::new();
    let mut all = read_all(paths).expect("there is a journal");
    loop {
        match all.next_batch() {
            Ok(Some(batch)) => lines.extend(batch),
            Ok(None) if lines.is_empty() => return (lines, read_tail(paths).err()),
            Ok(None) => return (lines, None),
            Err(error) => return (lines, Some(error)),
        }
    }
}

fn follow(paths: &RunPaths) -> Result<Vec<Line>, StoreError> {
    let mut follower = Lines::from_segment(paths, 0);
    let mut lines = Vec::new();
    while let Some(batch) = follower.next_batch()? {
        lines.extend(batch);
    }
    Ok(lines)
}

/// Opens the journal as a resume does, adds an event, and reads everything again.
fn go_on(paths: &RunPaths) -> Result<Vec<String>, StoreError> {
    let lock = RunLock::acquire(&paths.lock()).expect("nobody else has it");
    let (mut journal, _) = Journal::open(paths, options(), &lock)?;
    journal.append(&[NEXT_EVENT.to_owned()])?;
    let (lines, damage) = read(paths);
    assert!(damage.is_none(), "damage behind a tail that was cut off: {damage:?}");
    Ok(texts(&lines))
}

fn check_lines(lines: &[Line]) {
    for (index, line) in lines.iter().enumerate() {
        assert_eq!((line.segment, line.number), (0, index as u64 + 1));
        assert!(line.text.starts_with('{') && line.text.ends_with('}') && !line.text.contains('\n'));
    }
    assert!(lines.last().is_none_or(|line| line.ends_batch), "half a batch was read");
}

fn texts(lines: &[Line]) -> Vec<String> {
    lines.iter().map(|line| line.text.clone()).collect()
}

fn options() -> JournalOptions {
    JournalOptions { durability: Durability::Process, ..JournalOptions::default() }
}

/// Any bytes as a message: read as they are, told why not, and gone when removed.
pub fn inbox(data: &[u8]) {
    let (_folder, paths) = run_folder();
    let folder = paths.inbox();
    fs::create_dir(&folder).expect("make the inbox");
    let names = [format!("{ANSWER_MESSAGE}ask1"), STOP_MESSAGE.to_owned()];
    for name in &names {
        fs::write(folder.join(name), data).expect("leave a message");
    }
    // Not a message: its name is that of an unfinished one.
    fs::write(folder.join(".x.tmp"), data).expect("leave half a message");
    let inbox = InboxFolder::new(folder);
    let messages = inbox.messages().expect("read the inbox");
    assert_eq!(messages.len(), names.len());
    for message in messages {
        assert!(names.contains(&message.name));
        match (&message.content, std::str::from_utf8(data)) {
            (Content::Text(text), Ok(given)) => {
                assert_eq!(text, given);
                check_message(text);
            }
            (Content::NotUtf8, Err(_)) => {}
            (content, _) => panic!("read as {content:?}"),
        }
        inbox.remove(&message.name).expect("remove a message");
    }
    assert_eq!(inbox.messages().expect("read the inbox"), []);
}

/// What a run makes of a message comes out the same when it is written again.
fn check_message(text: &str) {
    if let Ok(answer) = serde_json::from_str::<Answer>(text) {
        let again = serde_json::to_string(&answer).expect("write an answer");
        let read: Answer = serde_json::from_str(&again).expect("read an answer");
        assert_eq!((read.ask, read.text, read.answer_id), (answer.ask, answer.text, answer.answer_id));
    }
    if let Ok(stop) = serde_json::from_str::<StopRequest>(text) {
        let again = serde_json::to_string(&stop).expect("write a request");
        let read: StopRequest = serde_json::from_str(&again).expect("read a request");
        assert_eq!((read.incarnation, read.now), (stop.incarnation, stop.now));
    }
}

/// A folder with room for one run, in memory where there is such a place.
fn run_folder() -> (TempDir, RunPaths) {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let folder = folder.expect("make a folder");
    let paths = StateDir::at(folder.path()).run("r").expect("name a run");
    (folder, paths)
}
