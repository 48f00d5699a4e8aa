//! `raymond serve`: how soon it answers, how long its answers take, and how much memory it needs.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Instant;

use crate::history;
use crate::report::{Kind, Row};
use crate::rig::{Rig, finish};
use crate::sample::{Sample, mebibytes, seconds};

const REPETITIONS: usize = 9;
/// Each step is two events.
const LONG_RUN_STEPS: u64 = 500_000;

pub fn measure(rig: &Rig) -> Result<Vec<Row>, String> {
    rig.write("wf/START.sh", "echo '<result>done</result>'\n")?;
    let mut rows = vec![start(rig)?];
    rows.extend(lists(rig)?);
    rows.extend(long_run(rig)?);
    Ok(rows)
}

/// From the start of the program to its first answer.
fn start(rig: &Rig) -> Result<Row, String> {
    let (mut version, mut answer) = (Sample::default(), Sample::default());
    for _ in 0..REPETITIONS {
        version.add_time(finish(rig.raymond(&["--version"]), &[0])?);
        let begin = Instant::now();
        let site = Site::start(rig)?;
        site.get("/api/v1/health")?;
        answer.add_time(begin.elapsed());
    }
    Ok(Row::ratio(
        "serve: start to the first answer, beside `--version`",
        &answer,
        &version,
        answer.beside(&version),
    )
    .at_most(3.0))
}

/// Many runs: the first of them are listed, and all of them are known.
fn lists(rig: &Rig) -> Result<Vec<Row>, String> {
    fill(rig, 1000)?;
    let site = Site::start(rig)?;
    let time = warm(&site, "/api/v1/runs?limit=1000")?;
    let list = Row::amount("serve: a list of 1,000 runs", time * 1e3, seconds(time)).within(
        50.0,
        " ms",
        Kind::AtMost,
    );
    drop(site);
    fill(rig, 10_000)?;
    let site = Site::start(rig)?;
    site.get("/metrics")?;
    site.get("/api/v1/inbox")?;
    let memory = site.memory()?;
    let mib = memory as f64 / (1024.0 * 1024.0);
    let memory = Row::amount("serve: memory with 10,000 runs", mib, mebibytes(memory)).within(
        64.0,
        " MiB",
        Kind::AtMost,
    );
    Ok(vec![list, memory])
}

/// Makes a project with so many short runs.
fn fill(rig: &Rig, runs: usize) -> Result<(), String> {
    let state = rig.path(".raymond/state");
    let _ = fs::remove_dir_all(&state);
    history::write(rig.path("").as_path(), "wf", 10, &|_, _| "<goto>START</goto>".to_owned())?;
    for number in 1..runs {
        fs::copy(state.join("r.jsonl"), state.join(format!("r{number}.jsonl")))
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// One run with a million events.
fn long_run(rig: &Rig) -> Result<Vec<Row>, String> {
    let _ = fs::remove_dir_all(rig.path(".raymond/state"));
    history::write(rig.path("").as_path(), "wf", LONG_RUN_STEPS, &|_, _| "<goto>START</goto>".to_owned())?;
    let site = Site::start(rig)?;
    let window = warm(&site, "/api/v1/runs/r/events?after=600000&limit=200")?;
    let state = warm(&site, "/api/v1/runs/r?at=600000")?;
    Ok(vec![
        Row::amount("serve: 200 of 1,000,000 events", window * 1e3, seconds(window)).within(
            20.0,
            " ms",
            Kind::AtMost,
        ),
        Row::amount("serve: a run as it was, in 1,000,000 events", state * 1e3, seconds(state)).within(
            100.0,
            " ms",
            Kind::AtMost,
        ),
    ])
}

/// How long an answer takes, after the first one.
fn warm(site: &Site, path: &str) -> Result<f64, String> {
    site.get(path)?;
    let mut times = Sample::default();
    for _ in 0..REPETITIONS {
        let begin = Instant::now();
        site.get(path)?;
        times.add_time(begin.elapsed());
    }
    Ok(times.median())
}

/// A server that is ended when this is dropped.
struct Site {
    program: Child,
    address: String,
    token: String,
}

impl Site {
    fn start(rig: &Rig) -> Result<Self, String> {
        let mut command = rig.raymond(&["serve", "--listen", "127.0.0.1:0"]);
        let mut program =
            command.stdout(Stdio::piped()).spawn().map_err(|error| format!("cannot serve: {error}"))?;
        let mut link = String::new();
        let stdout = program.stdout.take().ok_or("no stdout")?;
        BufReader::new(stdout).read_line(&mut link).map_err(|error| error.to_string())?;
        let parts = link.trim().strip_prefix("http://").and_then(|rest| rest.split_once("/#token="));
        let (address, token) = parts.ok_or_else(|| format!("no link: {link}"))?;
        Ok(Self { program, address: address.to_owned(), token: token.to_owned() })
    }

    fn get(&self, path: &str) -> Result<(), String> {
        let mut answer = Vec::new();
        let mut ask = || -> std::io::Result<()> {
            let mut stream = TcpStream::connect(&self.address)?;
            write!(
                stream,
                "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
                self.address, self.token
            )?;
            stream.read_to_end(&mut answer)?;
            Ok(())
        };
        ask().map_err(|error| format!("{path}: {error}"))?;
        match answer.starts_with(b"HTTP/1.1 200") {
            true => Ok(()),
            false => Err(format!("{path}: {}", String::from_utf8_lossy(&answer[..answer.len().min(300)]))),
        }
    }

    /// The most memory it has had.
    fn memory(&self) -> Result<u64, String> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.program.id()))
            .map_err(|error| error.to_string())?;
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).ok_or("no VmHWM")?;
        let kib: u64 =
            line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).ok_or("no number")?;
        Ok(kib * 1024)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
