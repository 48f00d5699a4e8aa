//! Handlers over journals that no test of the whole program can make quickly: with deleted segments, with many texts.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Barrier};

use jiff::Timestamp;
use raymond_core::event::{Body, Event, SnapshotLine};
use raymond_core::name::AgentId;
use raymond_core::payload::Payload;
use raymond_core::workflow::StateFile;
use serde_json::Value;

use super::route::{Answer, Call, Method};
use super::token::Token;
use super::{Server, Settings, api, assemble};
use crate::agent::registry::Backends;
use crate::store::suite::{opening, warnings};
use crate::store::{Durability, FolderStore, JournalOptions, RunStore, RunWriter, StateDir};

fn server(folder: &Path) -> Arc<Server> {
    let settings = Settings {
        listen: None,
        token_file: None,
        allowed_hosts: Vec::new(),
        state: StateDir::at(folder),
        roots: vec![folder.to_owned()],
        project: folder.to_owned(),
        workflow_paths: Vec::new(),
        state_dir: None,
        schedules: false,
        skip_permissions: false,
        backends: Backends::built_in(),
    };
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    Arc::new(assemble(settings, address, Token::passing().unwrap()).unwrap())
}

/// What is told about the run `r`, or the status of the error.
fn ask(server: &Arc<Server>, what: &str, query: &[(&str, &str)]) -> Result<Value, u16> {
    let path = format!("/api/v1/runs/{{run}}{what}");
    let route = api::ROUTES.iter().find(|route| route.path == path && route.method == Method::Get).unwrap();
    let pairs = |all: &[(&str, &str)]| -> Vec<(String, String)> {
        all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let call = Call { path: pairs(&[("run", "r")]), query: pairs(query), ..Call::default() };
    match (route.handler)(server, &call) {
        Ok(Answer::Json { body, .. }) => Ok(serde_json::from_slice(&body).unwrap()),
        Ok(_) => panic!("not JSON"),
        Err(problem) => Err(problem.status),
    }
}

fn writer(folder: &Path, keep_segments: Option<u32>) -> Box<dyn RunWriter> {
    let options = JournalOptions { durability: Durability::Process, segment_bytes: 1, keep_segments };
    FolderStore::new(StateDir::at(folder)).create("r", options).unwrap()
}

#[test]
fn what_was_deleted_is_gone_and_the_rest_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = writer(folder.path(), Some(1));
    let run = FolderStore::new(StateDir::at(folder.path())).run("r").unwrap();
    for batch in [opening("r"), warnings("r", 3..=6), warnings("r", 7..=9)] {
        writer.commit(&batch).unwrap();
        writer.snapshot_if_long(SnapshotLine::of(&run.load().unwrap(), Timestamp::UNIX_EPOCH)).unwrap();
    }
    writer.commit(&warnings("r", 10..=10)).unwrap();
    let server = server(folder.path());
    let events = |after: &str| ask(&server, "/events", &[("after", after)]);
    let numbers = |window: Value| -> Vec<u64> {
        window["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()).collect()
    };
    // The first segment always stays.
    let first = events("0").unwrap();
    assert_eq!((first["next"].as_u64(), numbers(first)), (Some(2), vec![1, 2]));
    assert_eq!(events("2"), Err(410));
    assert_eq!(events("5"), Err(410));
    assert_eq!(numbers(events("9").unwrap()), [10]);
    for what in ["", "/overview", "/graph"] {
        assert_eq!(ask(&server, what, &[("at", "5")]), Err(410));
        assert!(ask(&server, what, &[("at", "9")]).is_ok());
        assert!(ask(&server, what, &[]).is_ok());
    }
    let overview = ask(&server, "/overview", &[]).unwrap();
    assert_eq!((&overview["last_seq"], &overview["agents"][0]["id"]), (&10.into(), &"main".into()));
}

#[test]
fn the_texts_of_any_moment_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = writer(folder.path(), None);
    writer.commit(&opening("r")).unwrap();
    let print = |seq: u64| {
        let body = Body::Print {
            agent: AgentId::main(),
            step: 1,
            state: StateFile::new("START.sh").unwrap(),
            text: Payload::Inline(format!("text {seq}")),
        };
        Event { seq, time: Timestamp::UNIX_EPOCH, run: "r".to_owned(), body }
    };
    writer.commit(&(3..=1000).map(print).collect::<Vec<_>>()).unwrap();
    writer.commit(&warnings("r", 1001..=1001)).unwrap();
    let server = server(folder.path());
    let run = server.index.find("r").unwrap();
    let texts = |seq| {
        let prints = server.stories.with(&run, |story| story.prints_until(seq)).unwrap();
        let texts: Vec<String> = prints.iter().map(|print| print.text.clone()).collect();
        (texts.len(), texts.first().cloned(), texts.last().cloned())
    };
    let text = |seq: u64| Some(format!("text {seq}"));
    assert_eq!(texts(2), (0, None, None));
    assert_eq!(texts(7), (5, text(3), text(7)));
    assert_eq!(texts(500), (200, text(301), text(500)));
    assert_eq!(texts(900), (200, text(701), text(900)), "partly in memory");
    assert_eq!(texts(1001), (200, text(801), text(1000)));
}

#[test]
fn the_feed_is_opened_once_by_readers_that_come_at_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    writer(folder.path(), None).commit(&opening("r")).unwrap();
    let first = server(folder.path());
    let start = Barrier::new(8);
    let cursors: Vec<String> = std::thread::scope(|scope| {
        let read = || {
            start.wait();
            first.feed.update(&first.index, None).unwrap();
            first.feed.write(&first.feed.end())
        };
        let readers: Vec<_> = (0..8).map(|_| scope.spawn(read)).collect();
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    });
    assert!(cursors.iter().all(|cursor| *cursor == cursors[0]), "{cursors:?}");
    drop(first);
    // The file is that of the feed which the readers were told about: the next process knows their place.
    let next = server(folder.path());
    next.feed.update(&next.index, None).unwrap();
    assert!(next.feed.read(&cursors[0]).is_some());
}
