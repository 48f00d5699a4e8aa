//! Who cannot hold up the server: those without the token, those who go away, and starts that take long.

use std::fs::File;
use std::io::{Read, Write};
use std::time::Duration;

use serde_json::json;
use test_kit::rig::{Rig, wait_until};

use super::site::Site;
use super::with_run;
use crate::RAYMOND;

/// More than may be connected.
const MANY: usize = 1200;
/// More than are started at once, and more than wait for it.
const STARTS: usize = 50;
/// Less than a connection may be idle. It only ends a test that has failed.
const SOON: Duration = Duration::from_secs(30);

#[test]
fn connections_without_a_request_make_room_for_those_with_the_token() {
    let rig = with_run();
    let site = Site::start(&rig);
    let mut silent: Vec<_> = (0..MANY).map(|_| site.connect()).collect();
    for slow in silent.iter_mut().skip(MANY / 2) {
        // Some of them are closed already.
        let _ = slow.write_all(b"GET /api/v1/runs HTT");
    }
    let mut own = site.connect();
    own.set_read_timeout(Some(SOON)).unwrap();
    let (host, token) = (&site.address, &site.token);
    write!(own, "GET /api/v1/runs HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n")
        .unwrap();
    let mut answer = [0; 15];
    own.read_exact(&mut answer).unwrap();
    assert!(answer.ends_with(b"200 OK"));
    let oldest = silent[0].read(&mut answer);
    assert!(matches!(oldest, Ok(0) | Err(_)), "the oldest was closed");
    // The one with the token stays, however many come.
    silent.extend((0..MANY).map(|_| site.connect()));
    write!(own, "GET /api/v1/health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut rest = String::new();
    own.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("\"status\":\"ok\""), "{rest}");
}

#[test]
fn wrong_tokens_that_wait_hold_up_nobody() {
    let rig = with_run();
    let site = Site::start(&rig);
    let wrong =
        format!("GET /api/v1/runs HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer x\r\n\r\n", site.address);
    let ask = || {
        let mut connection = site.connect();
        let _ = connection.write_all(wrong.as_bytes());
        connection
    };
    let mut waiting: Vec<_> = (0..MANY).map(|_| ask()).collect();
    assert_eq!(site.get("/api/v1/runs").status, 200);
    waiting.clear();
    // Those who went away while they waited have not made it easier for others.
    let begun = std::time::Instant::now();
    let late = site.send("GET", "/api/v1/runs", &[("Authorization", "Bearer x")], "");
    assert_eq!(late.status, 429, "{late:?}");
    assert!(begun.elapsed() >= Duration::from_secs(2), "a wrong token waits");
}

#[test]
fn starts_that_take_long_hold_up_no_other_request() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<result>x</result>'");
    rig.run().assert(0, "x\n");
    let site = Site::start(&rig);
    // A process waits for the lock of its run, since the one that is written there as its holder is dead.
    let locked: Vec<File> = (0..STARTS)
        .map(|number| {
            let path = rig.write(&format!(".raymond/state/s{number}.lock"), "{\"pid\":4194999}\n");
            let lock = File::options().read(true).write(true).open(path).unwrap();
            lock.lock().unwrap();
            lock
        })
        .collect();
    std::thread::scope(|scope| {
        let (site, start) =
            (&site, |number: usize| json!({ "workflow": "workflow", "id": format!("s{number}") }));
        let starts: Vec<_> = (0..STARTS)
            .map(|number| scope.spawn(move || site.post("/api/v1/runs", &start(number)).status))
            .collect();
        wait_until("that too many wait", || starts.iter().filter(|start| start.is_finished()).count() >= 10);
        for path in ["runs", "runs/r", "inbox", "workflows", "runs/r/export", "openapi.json"] {
            assert_eq!(site.get(&format!("/api/v1/{path}")).status, 200, "{path}");
        }
        assert_eq!(site.post("/api/v1/runs/r/stop", &json!({})).status, 409, "it is answered");
        let going = starts.iter().filter(|start| !start.is_finished()).count();
        assert_eq!(going, STARTS - 10, "all of them still wait");
        drop(locked);
        let statuses: Vec<u16> = starts.into_iter().map(|start| start.join().unwrap()).collect();
        let count = |status: u16| statuses.iter().filter(|one| **one == status).count();
        assert_eq!((count(201), count(429)), (STARTS - 10, 10), "{statuses:?}");
    });
}
