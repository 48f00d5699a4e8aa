use super::super::place::StateDir;
use super::super::read::read_all;
use super::super::read::read_tail;
use super::*;
use std::fs;
use tempfile::{TempDir, tempdir};

struct Fixture {
    _dir: TempDir,
    paths: RunPaths,
    lock: RunLock,
}

fn fixture() -> Fixture {
    let dir = tempdir().unwrap();
    let paths = StateDir::at(dir.path()).run("r").unwrap();
    let lock = RunLock::acquire(&paths.lock()).unwrap();
    Fixture { _dir: dir, paths, lock }
}

impl Fixture {
    fn create(&self, options: JournalOptions) -> Journal {
        Journal::create(&self.paths, options, &self.lock).unwrap()
    }

    fn open(&self) -> Result<(Journal, Tail), StoreError> {
        Journal::open(&self.paths, unsynced(), &self.lock)
    }

    fn texts(&self) -> Result<Vec<String>, StoreError> {
        let mut all = read_all(&self.paths)?;
        let mut texts = Vec::new();
        while let Some(batch) = all.next_batch()? {
            texts.extend(batch.into_iter().map(|line| line.text));
        }
        Ok(texts)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.paths.dir())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.contains("jsonl"))
            .collect();
        names.sort();
        names
    }
}

fn unsynced() -> JournalOptions {
    JournalOptions { durability: Durability::Process, ..JournalOptions::default() }
}

fn small(keep_segments: Option<u32>) -> JournalOptions {
    JournalOptions { segment_bytes: 100, keep_segments, ..unsynced() }
}

fn event(seq: u64) -> String {
    format!("{{\"event\":\"e\",\"seq\":{seq},\"text\":\"ä\\n\"}}")
}

fn snapshot(seq: u64) -> String {
    format!("{{\"event\":\"snapshot\",\"seq\":{seq}}}")
}

fn events(range: std::ops::RangeInclusive<u64>) -> Vec<String> {
    range.map(event).collect()
}

#[test]
fn what_is_appended_is_read_again() {
    for durability in [Durability::Power, Durability::Process] {
        let run = fixture();
        let mut journal = run.create(JournalOptions { durability, ..JournalOptions::default() });
        journal.append(&events(1..=1)).unwrap();
        journal.append(&events(2..=4)).unwrap();
        assert_eq!(run.texts().unwrap(), events(1..=4));
        let (mut journal, tail) = run.open().unwrap();
        assert_eq!(tail.torn, None);
        let batches: Vec<bool> = tail.lines.iter().map(|line| line.ends_batch).collect();
        assert_eq!(batches, [true, false, false, true]);
        journal.append(&events(5..=5)).unwrap();
        assert_eq!(run.texts().unwrap(), events(1..=5));
    }
}

#[test]
fn an_existing_run_is_not_begun_again() {
    let run = fixture();
    run.create(unsynced()).append(&events(1..=1)).unwrap();
    let error = Journal::create(&run.paths, unsynced(), &run.lock).unwrap_err();
    assert!(matches!(error, StoreError::Exists { .. }), "{error}");
    assert_eq!(run.texts().unwrap(), events(1..=1));
}

#[test]
fn missing_and_empty_journals_say_so() {
    let run = fixture();
    assert!(matches!(run.open(), Err(StoreError::Missing { .. })));
    drop(run.create(unsynced()));
    assert!(matches!(run.open(), Err(StoreError::Empty { .. })));
    fs::write(run.paths.segment(0), &encode_batch(&events(1..=1))[..20]).unwrap();
    let error = run.open().unwrap_err().to_string();
    assert!(error.ends_with("r.jsonl holds no complete event, so nothing has run; `raymond clean` with the name of the run removes it"), "{error}");
}

#[cfg(unix)]
#[test]
fn journals_are_for_the_owner() {
    use std::os::unix::fs::PermissionsExt;
    let run = fixture();
    let mut journal = run.create(small(None));
    journal.append(&events(1..=1)).unwrap();
    journal.rotate(snapshot(1)).unwrap();
    for segment in [0, 1] {
        let mode = fs::metadata(run.paths.segment(segment)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn cut_at_every_byte_the_journal_goes_on_from_the_whole_batches() {
    let run = fixture();
    let mut journal = run.create(unsynced());
    for batch in [events(1..=1), events(2..=4), events(5..=6)] {
        journal.append(&batch).unwrap();
    }
    let path = run.paths.segment(0);
    let whole = fs::read(&path).unwrap();
    let first_batch = encode_batch(&events(1..=1)).len();
    for cut in 0..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        if cut < first_batch - 1 {
            assert!(matches!(run.open(), Err(StoreError::Empty { .. })));
            continue;
        }
        let (mut journal, tail) = run.open().unwrap();
        let kept = tail.lines.len() as u64;
        assert!([1, 4, 6].contains(&kept));
        let texts: Vec<&String> = tail.lines.iter().map(|line| &line.text).collect();
        assert_eq!(texts, events(1..=kept).iter().collect::<Vec<_>>());
        journal.append(&events(kept + 1..=kept + 2)).unwrap();
        assert_eq!(run.texts().unwrap(), events(1..=kept + 2), "cut {cut}");
    }
}

#[test]
fn reading_does_not_cut() {
    let run = fixture();
    run.create(unsynced()).append(&events(1..=1)).unwrap();
    let path = run.paths.segment(0);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend(b"{\"seq\":2");
    fs::write(&path, &bytes).unwrap();
    let tail = read_tail(&run.paths).unwrap();
    assert_eq!(tail.torn.unwrap().bytes, 8);
    assert_eq!(run.texts().unwrap(), events(1..=1));
    assert_eq!(fs::read(&path).unwrap(), bytes);
    drop(run.open().unwrap());
    assert_eq!(fs::read(&path).unwrap(), bytes[..bytes.len() - 8]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_failed_write_poisons() {
    let run = fixture();
    let mut journal = run.create(unsynced());
    journal.append(&events(1..=1)).unwrap();
    let good = std::mem::replace(
        &mut journal.file,
        Box::new(fs::File::options().write(true).open("/dev/full").unwrap()),
    );
    assert!(matches!(journal.append(&events(2..=2)), Err(StoreError::Io { action: "write", .. })));
    journal.file = good;
    assert!(matches!(journal.append(&events(2..=2)), Err(StoreError::Poisoned { .. })));
    assert!(matches!(journal.rotate(snapshot(2)), Err(StoreError::Poisoned { .. })));
    assert_eq!(run.texts().unwrap(), events(1..=1));
}

#[cfg(target_os = "linux")]
#[test]
fn a_failed_sync_poisons() {
    let run = fixture();
    let mut journal = run.create(JournalOptions::default());
    // Writing to /dev/null works and syncing it does not.
    journal.file = Box::new(fs::File::options().write(true).open("/dev/null").unwrap());
    assert!(matches!(journal.append(&events(1..=1)), Err(StoreError::Io { action: "sync", .. })));
    assert!(matches!(journal.append(&events(1..=1)), Err(StoreError::Poisoned { .. })));
}

#[test]
fn what_is_refused_leaves_the_journal_usable() {
    let run = fixture();
    let mut journal = run.create(unsynced());
    journal.append(&events(1..=1)).unwrap();
    for bad in [vec![], vec!["x".to_owned()], events(1..=1)] {
        assert!(matches!(journal.append(&bad), Err(StoreError::Refused { .. })));
    }
    assert!(matches!(journal.rotate(event(2)), Err(StoreError::Refused { .. })));
    journal.append(&events(2..=2)).unwrap();
    assert_eq!(run.texts().unwrap(), events(1..=2));
    assert_eq!(run.names(), ["r.jsonl"]);
}

#[test]
fn rotation_begins_a_segment_that_stands_alone() {
    let run = fixture();
    let mut journal = run.create(small(None));
    journal.append(&events(1..=1)).unwrap();
    assert!(!journal.should_rotate());
    journal.append(&events(2..=3)).unwrap();
    assert!(journal.should_rotate());
    journal.rotate(snapshot(3)).unwrap();
    assert!(!journal.should_rotate());
    journal.append(&events(4..=5)).unwrap();
    let (mut journal, tail) = run.open().unwrap();
    assert_eq!(tail.segment, 1);
    let texts: Vec<String> = tail.lines.into_iter().map(|line| line.text).collect();
    assert_eq!(texts, [snapshot(3), event(4), event(5)]);
    journal.append(&events(6..=6)).unwrap();
    let all = [events(1..=3), vec![snapshot(3)], events(4..=6)].concat();
    assert_eq!(run.texts().unwrap(), all);
    assert_eq!(run.names(), ["r.0001.jsonl", "r.jsonl"]);
}

#[test]
fn large_snapshots_are_made_less_often() {
    let run = fixture();
    let mut journal = run.create(small(None));
    journal.append(&events(1..=5)).unwrap();
    let large = format!("{{\"event\":\"snapshot\",\"state\":\"{}\"}}", "x".repeat(1000));
    journal.rotate(large).unwrap();
    let mut seq = 5;
    while !journal.should_rotate() {
        seq += 1;
        journal.append(&[event(seq)]).unwrap();
    }
    assert!(journal.bytes() > 4000);
    let (reopened, _) = run.open().unwrap();
    assert_eq!(reopened.snapshot_bytes, journal.snapshot_bytes);
}

#[test]
fn a_crash_before_the_rename_leaves_the_old_segment() {
    let run = fixture();
    let mut journal = run.create(small(None));
    journal.append(&events(1..=3)).unwrap();
    let batch = encode_batch(&[snapshot(3)]);
    for cut in 0..=batch.len() {
        fs::write(run.paths.unfinished_segment(1), &batch[..cut]).unwrap();
        assert_eq!(read_tail(&run.paths).unwrap().segment, 0);
        let (_, tail) = run.open().unwrap();
        assert_eq!((tail.segment, tail.lines.len()), (0, 3));
        assert_eq!(run.names(), ["r.jsonl"]);
    }
    fs::write(run.paths.unfinished_segment(1), &batch[..9]).unwrap();
    journal.rotate(snapshot(3)).unwrap();
    assert_eq!(run.names(), ["r.0001.jsonl", "r.jsonl"]);
}

#[test]
fn a_later_segment_without_a_whole_snapshot_is_damage() {
    let run = fixture();
    run.create(small(None)).append(&events(1..=3)).unwrap();
    let batch = encode_batch(&[snapshot(3)]);
    for cut in 0..batch.len() - 1 {
        fs::write(run.paths.segment(1), &batch[..cut]).unwrap();
        assert!(matches!(run.open(), Err(StoreError::Damaged { line: 1, .. })), "cut {cut}");
    }
    fs::write(run.paths.segment(1), encode_batch(&[event(4)])).unwrap();
    assert!(matches!(run.open(), Err(StoreError::Damaged { line: 1, .. })));
}

#[test]
fn a_torn_end_before_a_later_segment_is_damage_for_who_reads_all() {
    let run = fixture();
    let mut journal = run.create(small(None));
    journal.append(&events(1..=3)).unwrap();
    journal.rotate(snapshot(3)).unwrap();
    let path = run.paths.segment(0);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend(b"{\"seq\":4}\n");
    fs::write(&path, bytes).unwrap();
    let Err(StoreError::Damaged { place, line, .. }) = run.texts() else { panic!() };
    assert_eq!((place, line), (path.display().to_string(), 4));
    assert!(run.open().is_ok());
}

#[test]
fn lost_segments_are_damage() {
    let run = fixture();
    let mut journal = run.create(small(None));
    journal.append(&events(1..=1)).unwrap();
    for _ in 0..3 {
        journal.rotate(snapshot(1)).unwrap();
    }
    fs::remove_file(run.paths.segment(2)).unwrap();
    assert!(matches!(run.texts(), Err(StoreError::Damaged { line: 0, .. })));
    fs::remove_file(run.paths.segment(0)).unwrap();
    assert!(matches!(run.open(), Err(StoreError::Damaged { line: 0, .. })));
}

#[test]
fn old_segments_go_but_never_the_first_or_the_current() {
    for (keep, expected) in [
        (None, vec![0, 1, 2, 3, 4]),
        (Some(0), vec![0, 4]),
        (Some(1), vec![0, 4]),
        (Some(2), vec![0, 3, 4]),
        (Some(9), vec![0, 1, 2, 3, 4]),
    ] {
        let run = fixture();
        let mut journal = run.create(small(keep));
        for seq in 1..=4 {
            journal.append(&[event(seq)]).unwrap();
            journal.rotate(snapshot(seq)).unwrap();
        }
        assert_eq!(run.paths.segments().unwrap(), expected);
        assert_eq!(run.open().unwrap().1.segment, 4);
        let all = run.texts().unwrap();
        assert_eq!(all.last(), Some(&snapshot(4)));
    }
}
