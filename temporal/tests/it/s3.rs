//! Blobs in a store that speaks S3.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::harness::{Port, Process, Rig, eventually};

/// A server that speaks S3, or nothing; then the test is skipped.
fn s3_program() -> Option<PathBuf> {
    let named = std::env::var_os("RAYMOND_S3_SERVER").map(PathBuf::from);
    let cache =
        std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/raymond-ci/s3/bin/moto_server"));
    let found = named.or(cache).filter(|path| path.is_file());
    if found.is_none() {
        eprintln!("SKIPPED: no S3 server; run scripts/install-s3.sh, or set RAYMOND_S3_SERVER");
    }
    found
}

/// The answer to a request without a body.
fn http(port: u16, request: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let head =
        format!("{request} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn blobs_are_kept_in_an_s3_store() {
    let (Some(program), Some(mut rig)) = (s3_program(), Rig::new()) else { return };
    let reserved = Port::reserve();
    let port = reserved.number;
    let mut server = Command::new(program);
    server.args(["-H", "127.0.0.1", "-p", &port.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
    let _server = Process(server.spawn().expect("the server starts"));
    eventually("the S3 server", || http(port, "PUT /bucket").filter(|answer| answer.contains(" 200 ")));
    rig.blobs = "s3://bucket/raymond".to_owned();
    rig.variables = vec![
        ("AWS_ENDPOINT", format!("http://127.0.0.1:{port}")),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", "key".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
    ];
    rig.state("START.sh", "echo '<result>done</result>'\n");
    let _worker = rig.worker("a");
    rig.start();
    rig.until("run_finished");
    let listed = http(port, "GET /bucket?list-type=2").expect("an answer");
    assert!(listed.contains("<Key>raymond/"), "{listed}");
}
