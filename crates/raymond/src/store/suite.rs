//! What every form of store promises, as cases that each form is run through.

use jiff::Timestamp;
use raymond_core::decide;
use raymond_core::event::{Body, Event, FORMAT_VERSION, Moved, Origin, RunStarted, SnapshotLine};
use raymond_core::evolve::evolve;
use raymond_core::payload::Payload;
use raymond_core::run::{Options, Run};
use raymond_core::workflow::StateFile;

use super::error::StoreError;
use super::home::{Durability, JournalOptions, RunHandle, RunStore, RunWriter, Start};
use super::inbox::{Content, MAX_MESSAGE_BYTES, MAX_MESSAGES_AT_ONCE, Posted};

type Case = (&'static str, fn(&dyn RunStore));

const CASES: [Case; 20] = [
    ("an id is used once", an_id_is_used_once),
    ("what is committed is read in its batches", what_is_committed_is_read_in_its_batches),
    ("a second writer is refused", a_second_writer_is_refused),
    ("a run that is opened goes on", a_run_that_is_opened_goes_on),
    ("what is refused changes nothing", what_is_refused_changes_nothing),
    ("reading begins behind any event", reading_begins_behind_any_event),
    ("a run can be followed", a_run_can_be_followed),
    ("deleted events are told", deleted_events_are_told),
    ("every kept state can be computed", every_kept_state_can_be_computed),
    ("a run without events is empty", a_run_without_events_is_empty),
    ("a run that never began is created again", a_run_that_never_began_is_created_again),
    ("runs are listed and found", runs_are_listed_and_found),
    ("payloads are found by their hash", payloads_are_found_by_their_hash),
    ("a branch has the history of its origin", a_branch_has_the_history_of_its_origin),
    ("a long chain of branches is read", a_long_chain_of_branches_is_read),
    ("a branch can begin before its origin left its own", a_branch_can_begin_before_its_origin_left_its_own),
    ("a rewound run goes on from an earlier event", a_rewound_run_goes_on_from_an_earlier_event),
    ("a reader that has seen too much is told", a_reader_that_has_seen_too_much_is_told),
    ("a branch without its origin is told", a_branch_without_its_origin_is_told),
    ("the first message of a name stays", the_first_message_of_a_name_stays),
];

/// Runs all cases, each on a store of its own that holds nothing.
pub(crate) fn run_suite<Guard>(empty_store: &dyn Fn() -> (Guard, Box<dyn RunStore>)) {
    for (name, case) in CASES {
        println!("{name}");
        let (_guard, store) = empty_store();
        case(&*store);
    }
}

/// The events that a run begins with.
pub(crate) fn opening(run: &str) -> Vec<Event> {
    let started = RunStarted {
        version: FORMAT_VERSION,
        workflow: "w".to_owned(),
        scope: "/w".to_owned(),
        scope_hash: None,
        entry: StateFile::new("START.sh").unwrap(),
        cwd: "/".to_owned(),
        nonce: "n".to_owned(),
        inputs: Default::default(),
        labels: Default::default(),
        options: Options::default(),
        moved: Default::default(),
        origin: None,
    };
    let bodies = decide::start(started, None);
    bodies.into_iter().zip(1..).map(|(body, seq)| event(run, seq, body)).collect()
}

/// Events that may follow any others. Each is much longer than a snapshot, so that one is due after it.
pub(crate) fn warnings(run: &str, numbers: std::ops::RangeInclusive<u64>) -> Vec<Event> {
    let message = |seq| format!("ä {seq}\n{}", "x".repeat(8 * 1024));
    let warning = |seq| Body::Warning { agent: None, step: None, state: None, message: message(seq) };
    numbers.map(|seq| event(run, seq, warning(seq))).collect()
}

fn event(run: &str, seq: u64, body: Body) -> Event {
    Event { seq, time: Timestamp::UNIX_EPOCH, run: run.to_owned(), body }
}

fn unsynced() -> JournalOptions {
    JournalOptions { durability: Durability::Process, ..JournalOptions::default() }
}

/// A segment is long after any batch.
fn short_segments(keep_segments: Option<u32>) -> JournalOptions {
    JournalOptions { segment_bytes: 1, keep_segments, ..unsynced() }
}

fn read(run: &dyn RunHandle, start: Start) -> Vec<Vec<Event>> {
    let mut events = run.events(start).unwrap();
    std::iter::from_fn(|| events.next_batch().unwrap()).collect()
}

fn numbers(batches: &[Vec<Event>]) -> Vec<Vec<u64>> {
    batches.iter().map(|batch| batch.iter().map(|event| event.seq).collect()).collect()
}

fn fold<'a>(events: impl IntoIterator<Item = &'a Event>) -> Option<Run> {
    events.into_iter().fold(None, evolve)
}

/// A run of two opening events and warnings up to 9, in batches of 2, 1, 3, 1 and 2 events.
fn write_nine(writer: &mut dyn RunWriter) -> Vec<Vec<Event>> {
    let later = [3..=3, 4..=6, 7..=7, 8..=9].map(|numbers| warnings("r", numbers));
    let batches: Vec<Vec<Event>> = std::iter::once(opening("r")).chain(later).collect();
    for batch in &batches {
        writer.commit(batch).unwrap();
    }
    batches
}

/// The same with a snapshot after each batch that makes a segment long.
fn write_nine_in_segments(writer: &mut dyn RunWriter) -> Vec<Event> {
    let mut all = Vec::new();
    for batch in [opening("r"), warnings("r", 3..=3), warnings("r", 4..=6), warnings("r", 7..=9)] {
        writer.commit(&batch).unwrap();
        all.extend(batch);
        let run = fold(&all).unwrap();
        writer.snapshot_if_long(SnapshotLine::of(&run, Timestamp::UNIX_EPOCH)).unwrap();
    }
    all
}

fn an_id_is_used_once(store: &dyn RunStore) {
    let mut writer = store.create("r", unsynced()).unwrap();
    writer.commit(&opening("r")).unwrap();
    let live = store.create("r", unsynced()).unwrap_err();
    assert!(matches!(live, StoreError::Held { .. } | StoreError::Exists { .. }), "{live}");
    drop(writer);
    let ended = store.create("r", unsynced()).unwrap_err();
    assert!(matches!(&ended, StoreError::Exists { run } if run == "r"), "{ended}");
    for bad in ["", ".r", "a/b", "r.0001"] {
        assert!(matches!(store.create(bad, unsynced()), Err(StoreError::BadId(_))), "{bad}");
        assert!(matches!(store.run(bad), Err(StoreError::BadId(_))), "{bad}");
    }
    for bad in ["a..b", "r.", "r.lock"] {
        assert!(matches!(store.create(bad, unsynced()), Err(StoreError::BadId(_))), "{bad}");
    }
    assert_eq!(store.list().unwrap().len(), 1);
}

fn what_is_committed_is_read_in_its_batches(store: &dyn RunStore) {
    let mut writer = store.create("r", JournalOptions::default()).unwrap();
    let batches = write_nine(&mut writer);
    let run = store.run("r").unwrap();
    assert_eq!(read(&*run, Start::After(0)), batches);
    assert_eq!(read(&*run, Start::LATEST_SNAPSHOT), batches);
    assert_eq!(Some(run.load().unwrap()), fold(batches.iter().flatten()));
}

fn a_second_writer_is_refused(store: &dyn RunStore) {
    let mut writer = store.create("r", unsynced()).unwrap();
    writer.commit(&opening("r")).unwrap();
    let run = store.run("r").unwrap();
    let first = writer.incarnation().to_owned();
    assert_eq!(run.holder().unwrap().unwrap().incarnation.as_deref(), Some(first.as_str()));
    for refused in [run.open(unsynced()).map(drop), run.lease().map(drop)] {
        let Err(StoreError::Held { run, holder }) = refused else { panic!("{refused:?}") };
        assert_eq!((run.as_str(), holder.incarnation.as_deref()), ("r", Some(first.as_str())));
        assert_eq!(holder.pid, Some(std::process::id()));
    }
    drop(writer);
    let lease = run.lease().unwrap();
    assert!(matches!(run.open(unsynced()), Err(StoreError::Held { .. })));
    drop(lease);
    let second = run.open(unsynced()).unwrap().writer;
    assert_ne!(second.incarnation(), first);
    drop(second);
}

fn a_run_that_is_opened_goes_on(store: &dyn RunStore) {
    let mut writer = store.create("r", short_segments(None)).unwrap();
    let all = write_nine_in_segments(&mut writer);
    drop(writer);
    let run = store.run("r").unwrap();
    let mut opened = run.open(unsynced()).unwrap();
    assert_eq!((Some(opened.run), opened.cut_bytes), (fold(&all), 0));
    opened.writer.commit(&warnings("r", 10..=11)).unwrap();
    assert_eq!(run.load().unwrap().seq, 11);
    let read: Vec<Event> = read(&*run, Start::After(0)).concat();
    assert_eq!(read, [all, warnings("r", 10..=11)].concat());
}

fn what_is_refused_changes_nothing(store: &dyn RunStore) {
    let mut writer = store.create("r", unsynced()).unwrap();
    writer.commit(&opening("r")).unwrap();
    let twice = [warnings("r", 3..=3), warnings("r", 3..=3)].concat();
    for bad in [Vec::new(), warnings("r", 2..=2), twice] {
        assert!(matches!(writer.commit(&bad), Err(StoreError::Refused { .. })), "{bad:?}");
    }
    writer.commit(&warnings("r", 3..=3)).unwrap();
    let run = store.run("r").unwrap();
    assert_eq!(numbers(&read(&*run, Start::After(0))), [vec![1, 2], vec![3]]);
}

fn reading_begins_behind_any_event(store: &dyn RunStore) {
    let mut writer = store.create("r", short_segments(None)).unwrap();
    let all = write_nine_in_segments(&mut writer);
    let run = store.run("r").unwrap();
    for after in 0..=10 {
        let wanted: Vec<Event> = all.iter().filter(|event| event.seq > after).cloned().collect();
        assert_eq!(read(&*run, Start::After(after)).concat(), wanted, "after {after}");
    }
    assert_eq!(numbers(&read(&*run, Start::After(4))), [vec![5, 6], vec![7, 8, 9]]);
}

fn a_run_can_be_followed(store: &dyn RunStore) {
    let mut writer = store.create("r", short_segments(None)).unwrap();
    let run = store.run("r").unwrap();
    let mut events = run.events(Start::After(0)).unwrap();
    assert_eq!(events.next_batch().unwrap(), None);
    let mut all = opening("r");
    writer.commit(&all).unwrap();
    assert_eq!(events.next_batch().unwrap().as_ref(), Some(&all));
    assert_eq!(events.next_batch().unwrap(), None);
    for seq in 3..=6 {
        let batch = warnings("r", seq..=seq);
        writer.commit(&batch).unwrap();
        all.extend(batch.clone());
        let state = fold(&all).unwrap();
        writer.snapshot_if_long(SnapshotLine::of(&state, Timestamp::UNIX_EPOCH)).unwrap();
        assert_eq!(events.next_batch().unwrap(), Some(batch));
        assert_eq!(events.next_batch().unwrap(), None);
    }
}

fn deleted_events_are_told(store: &dyn RunStore) {
    let mut writer = store.create("r", short_segments(Some(1))).unwrap();
    let all = write_nine_in_segments(&mut writer);
    writer.commit(&warnings("r", 10..=10)).unwrap();
    let run = store.run("r").unwrap();
    // The first segment and the last are left, so a snapshot stands for the events 3 to 9.
    for (after, expected) in [
        (0, vec![vec![1, 2], vec![9], vec![10]]),
        (1, vec![vec![2], vec![9], vec![10]]),
        (5, vec![vec![9], vec![10]]),
        (9, vec![vec![10]]),
        (10, vec![]),
    ] {
        let batches = read(&*run, Start::After(after));
        assert_eq!(numbers(&batches), expected, "after {after}");
        for event in batches.iter().flatten() {
            assert_eq!(matches!(event.body, Body::Snapshot { .. }), event.seq == 9);
        }
    }
    let everything = read(&*run, Start::After(0)).concat();
    let tail = warnings("r", 10..=10);
    assert_eq!(fold(&everything), fold(all.iter().chain(&tail)));
}

fn every_kept_state_can_be_computed(store: &dyn RunStore) {
    let mut writer = store.create("r", short_segments(None)).unwrap();
    let all = write_nine_in_segments(&mut writer);
    let run = store.run("r").unwrap();
    for seq in 1..=9 {
        let read = read(&*run, Start::SnapshotUpTo(seq)).concat();
        let wanted = read.iter().filter(|event| event.seq <= seq);
        assert_eq!(fold(wanted), fold(&all[..seq as usize]), "the state after event {seq}");
    }
    assert_eq!(numbers(&read(&*run, Start::LATEST_SNAPSHOT)), [[9]]);
}

fn a_run_without_events_is_empty(store: &dyn RunStore) {
    let none = store.run("none").unwrap();
    assert!(matches!(none.load(), Err(StoreError::Missing { .. })));
    assert!(matches!(none.events(Start::After(0)), Err(StoreError::Missing { .. })));
    assert_eq!(none.holder().unwrap(), None);
    assert!(store.list().unwrap().is_empty());
    drop(store.create("r", unsynced()).unwrap());
    let run = store.run("r").unwrap();
    assert!(matches!(run.load(), Err(StoreError::Empty { .. })));
    assert!(matches!(run.open(unsynced()), Err(StoreError::Empty { .. })));
    assert!(read(&*run, Start::After(0)).is_empty());
    assert!(run.place().contains('r') && !store.place().is_empty());
}

fn a_run_that_never_began_is_created_again(store: &dyn RunStore) {
    drop(store.create("r", unsynced()).unwrap());
    let mut writer = store.create("r", unsynced()).unwrap();
    assert!(matches!(store.create("r", unsynced()), Err(StoreError::Held { .. })));
    writer.abandon();
    drop(writer);
    assert!(matches!(store.run("r").unwrap().load(), Err(StoreError::Missing { .. })));
    let mut writer = store.create("r", unsynced()).unwrap();
    writer.commit(&opening("r")).unwrap();
    writer.abandon();
    drop(writer);
    assert!(matches!(store.create("r", unsynced()), Err(StoreError::Exists { .. })));
    assert_eq!(numbers(&read(&*store.run("r").unwrap(), Start::After(0))), [[1, 2]]);
}

fn runs_are_listed_and_found(store: &dyn RunStore) {
    let unknown = store.find("x").err().unwrap().to_string();
    assert_eq!(unknown, "no run 'x'; there are none yet");
    for id in ["test", "build-2", "build"] {
        drop(store.create(id, unsynced()).unwrap());
    }
    let found = |given: &str| store.find(given).map(|run| run.id().to_owned());
    assert_eq!(found("build").unwrap(), "build");
    assert_eq!((found("te").unwrap(), found("st").unwrap()), ("test".to_owned(), "test".to_owned()));
    assert!(matches!(found("t"), Err(StoreError::Unknown { .. })), "one character is too short");
    assert!(matches!(found("bu"), Err(StoreError::Ambiguous { matches, .. }) if matches.len() == 2));
    assert!(matches!(found("x"), Err(StoreError::Unknown { existing, .. }) if existing.len() == 3));
    let listed = store.list().unwrap();
    assert!(listed.is_sorted_by(|one, other| one.modified >= other.modified));
    assert_eq!(listed.len(), 3);
}

fn payloads_are_found_by_their_hash(store: &dyn RunStore) {
    let mut writer = store.create("r", JournalOptions::default()).unwrap();
    let stored = writer.keep_payload("abc").unwrap();
    assert_eq!(writer.keep_payload("abc").unwrap(), stored);
    let Payload::Stored { payload: hash, bytes: 3 } = &stored else { panic!("{stored:?}") };
    assert_eq!(hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    let payloads = store.run("r").unwrap().payloads();
    assert_eq!(payloads.get(hash).unwrap(), "abc");
    assert_eq!(payloads.text_of(&stored).unwrap(), "abc");
    assert_eq!(payloads.text_of(&Payload::from("inline")).unwrap(), "inline");
    assert_eq!(writer.load_payload(&stored).unwrap(), "abc");
    assert!(matches!(payloads.get(&"0".repeat(64)), Err(StoreError::PayloadMissing { .. })));
    for bad in ["", "../r.jsonl", &"A".repeat(64)] {
        assert!(matches!(payloads.get(bad), Err(StoreError::NotAHash)), "{bad}");
    }
    let other = store.create("other", unsynced()).unwrap();
    assert!(other.load_payload(&stored).is_err(), "the payload of another run was found");
}

/// Creates a run that goes on from an event of another one.
fn branch(store: &dyn RunStore, id: &str, (origin, seq): (&str, u64), options: JournalOptions) -> Event {
    let state = store.run(origin).unwrap().state_after(seq).unwrap();
    let named = Origin {
        run: origin.to_owned(),
        seq,
        step: None,
        reset_cost: false,
        forgotten: Vec::new(),
        dropped: None,
        kept_from: None,
    };
    let first = event(id, seq + 1, decide::branch(&state, format!("nonce of {id}"), named, Moved::default()));
    store.create(id, options).unwrap().commit(std::slice::from_ref(&first)).unwrap();
    first
}

fn a_branch_has_the_history_of_its_origin(store: &dyn RunStore) {
    let mut writer = store.create("r", short_segments(None)).unwrap();
    let all = write_nine_in_segments(&mut writer);
    let text = writer.keep_payload("a text of the origin").unwrap();
    for at in [2, 3, 6, 9] {
        let id = format!("b{at}");
        let first = branch(store, &id, ("r", at), unsynced());
        let run = store.run(&id).unwrap();
        assert_eq!(run.origins().unwrap().len(), 1);
        let mut expected = all[..at as usize].to_vec();
        expected.push(first);
        // What the origin does later does not matter.
        let mut opened = run.open(short_segments(None)).unwrap();
        assert_eq!(opened.writer.load_payload(&text).unwrap(), "a text of the origin");
        for seq in at + 2..=at + 4 {
            let batch = warnings(&id, seq..=seq);
            opened.writer.commit(&batch).unwrap();
            expected.extend(batch);
            let state = fold(&expected).unwrap();
            assert_eq!(run.load().unwrap(), state);
            assert_eq!(
                (state.id.as_str(), state.nonce.as_str()),
                (id.as_str(), format!("nonce of {id}").as_str())
            );
            opened.writer.snapshot_if_long(SnapshotLine::of(&state, Timestamp::UNIX_EPOCH)).unwrap();
        }
        for after in 0..=at + 4 {
            let wanted: Vec<Event> = expected.iter().filter(|event| event.seq > after).cloned().collect();
            assert_eq!(read(&*run, Start::After(after)).concat(), wanted, "{id} after {after}");
        }
        for seq in 1..=at + 4 {
            let known = read(&*run, Start::SnapshotUpTo(seq)).concat();
            assert_eq!(fold(known.iter().filter(|event| event.seq <= seq)), fold(&expected[..seq as usize]));
        }
        assert_eq!(run.payloads().text_of(&text).unwrap(), "a text of the origin");
    }
    assert_eq!(read(&*store.run("r").unwrap(), Start::After(0)).concat(), all);
    let mut branches = store.branches_of("r").unwrap();
    branches.sort();
    assert_eq!(branches, ["b2", "b3", "b6", "b9"]);
    assert!(store.branches_of("b2").unwrap().is_empty());
}

fn a_long_chain_of_branches_is_read(store: &dyn RunStore) {
    store.create("b0", unsynced()).unwrap().commit(&opening("b0")).unwrap();
    for number in 1..=50 {
        let (before, id) = (format!("b{}", number - 1), format!("b{number}"));
        branch(store, &id, (&before, number + 1), unsynced());
    }
    let run = store.run("b50").unwrap();
    assert_eq!(run.load().unwrap().seq, 52);
    let numbers: Vec<u64> = read(&*run, Start::After(0)).iter().flatten().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=52).collect::<Vec<u64>>());
    assert_eq!(store.branches_of("b0").unwrap().len(), 50);
}

fn a_branch_can_begin_before_its_origin_left_its_own(store: &dyn RunStore) {
    let mut writer = store.create("r", short_segments(None)).unwrap();
    let all = write_nine_in_segments(&mut writer);
    branch(store, "b", ("r", 9), unsynced());
    branch(store, "c", ("b", 6), unsynced());
    for (id, origin, at) in [("d", "b", 3), ("e", "c", 3)] {
        assert_eq!(Some(store.run(origin).unwrap().state_after(at).unwrap()), fold(&all[..at as usize]));
        let first = branch(store, id, (origin, at), unsynced());
        let mut expected = all[..at as usize].to_vec();
        expected.push(first);
        let run = store.run(id).unwrap();
        assert_eq!(read(&*run, Start::After(0)).concat(), expected, "{id}");
        assert_eq!(Some(run.load().unwrap()), fold(&expected), "{id}");
    }
}

/// Takes a run back to an event.
fn rewind(store: &dyn RunStore, seq: u64, options: JournalOptions) -> Box<dyn RunWriter> {
    let run = store.run("r").unwrap();
    let mut opened = run.open(options).unwrap();
    let state = run.state_after(seq).unwrap();
    let named = Origin {
        run: "r".to_owned(),
        seq,
        step: None,
        reset_cost: false,
        forgotten: Vec::new(),
        dropped: None,
        kept_from: None,
    };
    let start =
        event("r", opened.run.seq + 1, decide::branch(&state, "second".to_owned(), named, Moved::default()));
    opened.writer.rewind(&start).unwrap();
    opened.writer
}

fn a_rewound_run_goes_on_from_an_earlier_event(store: &dyn RunStore) {
    let mut writer = store.create("r", short_segments(None)).unwrap();
    let all = write_nine_in_segments(&mut writer);
    drop(writer);
    branch(store, "dropped", ("r", 9), unsynced());
    let mut writer = rewind(store, 3, short_segments(None));
    let run = store.run("r").unwrap();
    assert_eq!(run.load().unwrap().nonce, "second");
    writer.commit(&warnings("r", 11..=12)).unwrap();
    let state = run.load().unwrap();
    writer.snapshot_if_long(SnapshotLine::of(&state, Timestamp::UNIX_EPOCH)).unwrap();
    writer.commit(&warnings("r", 13..=13)).unwrap();
    drop(writer);
    assert_eq!(
        numbers(&read(&*run, Start::After(0))),
        [vec![1, 2], vec![3], vec![10], vec![11, 12], vec![13]]
    );
    assert_eq!(numbers(&read(&*run, Start::After(2))), [vec![3], vec![10], vec![11, 12], vec![13]]);
    for dropped in 3..=9 {
        let behind = numbers(&read(&*run, Start::After(dropped)));
        assert_eq!(behind, [vec![10], vec![11, 12], vec![13]], "after {dropped}");
    }
    assert_eq!(run.open(unsynced()).unwrap().run, run.load().unwrap());
    let everything = read(&*run, Start::After(0)).concat();
    assert_eq!(fold(&everything), Some(run.load().unwrap()));
    assert_eq!(fold(&everything[..3]), Some(run.state_after(3).unwrap()));
    // What was dropped is still there for others.
    let dropped = store.run("dropped").unwrap();
    assert_eq!(read(&*dropped, Start::After(0)).concat()[..9], all);
    // And the run can be taken back again, also beyond the first time.
    drop(rewind(store, 11, unsynced()));
    assert_eq!(numbers(&read(&*run, Start::After(3))), [vec![10], vec![11], vec![14]]);
    drop(rewind(store, 2, unsynced()));
    assert_eq!(numbers(&read(&*run, Start::After(0))), [vec![1, 2], vec![15]]);
    assert_eq!(run.load().unwrap().seq, 15);
}

fn a_reader_that_has_seen_too_much_is_told(store: &dyn RunStore) {
    let mut writer = store.create("r", unsynced()).unwrap();
    write_nine(&mut writer);
    drop(writer);
    let run = store.run("r").unwrap();
    let mut events = run.events(Start::After(0)).unwrap();
    let mut state = None;
    let mut follow = || {
        while let Some(batch) = events.next_batch().unwrap() {
            state = batch.iter().fold(state.take(), evolve);
        }
        state.clone()
    };
    assert_eq!(follow(), Some(run.load().unwrap()));
    drop(rewind(store, 3, unsynced()));
    assert_eq!(follow(), Some(run.load().unwrap()));
}

fn a_branch_without_its_origin_is_told(store: &dyn RunStore) {
    let state = fold(&opening("gone")).unwrap();
    let named = Origin {
        run: "gone".to_owned(),
        seq: 2,
        step: None,
        reset_cost: false,
        forgotten: Vec::new(),
        dropped: None,
        kept_from: None,
    };
    let first = event("b", 3, decide::branch(&state, "n".to_owned(), named, Moved::default()));
    store.create("b", unsynced()).unwrap().commit(&[first]).unwrap();
    let run = store.run("b").unwrap();
    let error = run.load().unwrap_err().to_string();
    assert!(error.starts_with("the history of b begins in the run gone, which cannot be read: "), "{error}");
    assert!(run.events(Start::After(0)).is_err());
    // An origin that lost its end does not have the history either.
    store.create("gone", unsynced()).unwrap().commit(&opening("gone")[..1]).unwrap();
    assert!(matches!(run.load(), Err(StoreError::OriginLost { .. })));
    assert!(
        run.events(Start::After(0))
            .and_then(|mut events| {
                while events.next_batch()?.is_some() {}
                Ok(())
            })
            .is_err()
    );
}

fn the_first_message_of_a_name_stays(store: &dyn RunStore) {
    drop(store.create("r", unsynced()).unwrap());
    let inbox = store.run("r").unwrap().inbox();
    let mut watch = inbox.watch();
    assert!(!watch.changed());
    assert_eq!(inbox.messages().unwrap(), []);
    assert_eq!(inbox.post("ask-1", "yes").unwrap(), Posted::Posted);
    assert_eq!(inbox.post("ask-1", "no").unwrap(), Posted::AlreadyThere);
    assert!(watch.changed());
    let messages = store.run("r").unwrap().inbox().messages().unwrap();
    let [message] = messages.as_slice() else { panic!("{messages:?}") };
    assert_eq!((message.name.as_str(), &message.content), ("ask-1", &Content::Text("yes".to_owned())));
    assert!(inbox.contains("ask-1") && !inbox.contains("ask-2"));
    inbox.remove("ask-1").unwrap();
    inbox.remove("ask-1").unwrap();
    assert!(!inbox.contains("ask-1"));
    assert_eq!(inbox.post("ask-1", "later").unwrap(), Posted::Posted);
    for bad in ["", ".x", "../x", "a/b"] {
        assert!(inbox.post(bad, "x").is_err() && inbox.remove(bad).is_err(), "{bad}");
    }
    assert!(inbox.post("long", &"x".repeat(MAX_MESSAGE_BYTES as usize + 1)).is_err());
    for number in 0..MAX_MESSAGES_AT_ONCE {
        inbox.post(&number.to_string(), "x").unwrap();
    }
    assert_eq!(inbox.messages().unwrap().len(), MAX_MESSAGES_AT_ONCE);
    only_one_of_many_at_once_wins(store);
}

fn only_one_of_many_at_once_wins(store: &dyn RunStore) {
    let inbox = store.run("crowded").unwrap().inbox();
    let wins: Vec<bool> = std::thread::scope(|scope| {
        let post = |number: i32| {
            let inbox = &inbox;
            scope.spawn(move || inbox.post("ask", &number.to_string()).unwrap() == Posted::Posted)
        };
        let posters: Vec<_> = (0..8).map(post).collect();
        posters.into_iter().map(|poster| poster.join().unwrap()).collect()
    });
    assert_eq!(wins.iter().filter(|wins| **wins).count(), 1);
    assert_eq!(inbox.messages().unwrap().len(), 1);
}
