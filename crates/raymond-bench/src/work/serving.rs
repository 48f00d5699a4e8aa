//! `raymond serve`: how soon it answers, how long its answers take, and how much memory it needs.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::COUNTDOWN;
use crate::history;
use crate::report::{Kind, Row};
use crate::rig::{Rig, finish};
use crate::sample::{Sample, mebibytes, seconds};

const REPETITIONS: usize = 9;
/// Each step is two events.
const LONG_RUN_STEPS: u64 = 500_000;
const PAINTED_RUN_STEPS: u64 = 100_000;
/// How many streams are open while a run is timed, and how many steps it has.
const STREAMS: usize = 200;
const TIMED_STEPS: usize = 300;

pub fn measure(rig: &Rig) -> Result<Vec<Row>, String> {
    let mut rows = vec![start(rig)?, assets()?];
    rows.push(streams(rig)?);
    rig.write("wf/START.sh", "echo '<result>done</result>'\n")?;
    rows.extend(lists(rig)?);
    rows.extend(painted_run(rig)?);
    rows.extend(long_run(rig)?);
    Ok(rows)
}

fn milliseconds(work: &str, time: f64, most: f64) -> Row {
    Row::amount(work, time * 1e3, seconds(time)).within(most, " ms", Kind::AtMost)
}

fn memory(work: &str, bytes: u64, most: f64) -> Row {
    let mib = bytes as f64 / (1024.0 * 1024.0);
    Row::amount(work, mib, mebibytes(bytes)).within(most, " MiB", Kind::AtMost)
}

/// All files of the page, as they are in the program.
fn assets() -> Result<Row, String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../raymond/src/serve/page");
    let files = fs::read_dir(folder).map_err(|error| error.to_string())?;
    let bytes: u64 = files.flatten().filter_map(|file| Some(file.metadata().ok()?.len())).sum();
    let kilobytes = bytes as f64 / 1000.0;
    let shown = format!("{kilobytes:.0} kB");
    Ok(Row::amount("serve: all files of the page", kilobytes, shown).within(200.0, " kB", Kind::AtMost))
}

/// A run's steps while many streams follow it, one of which takes nothing, beside the same without streams.
fn streams(rig: &Rig) -> Result<Row, String> {
    rig.write("wf/START.sh", COUNTDOWN)?;
    let site = Site::start(rig)?;
    let (mut alone, mut followed) = (Sample::default(), Sample::default());
    for _ in 0..REPETITIONS {
        alone.add_time(timed_run(rig)?);
        let readers = site.follow(STREAMS)?;
        followed.add_time(timed_run(rig)?);
        readers.wait()?;
    }
    let ratio = followed.beside(&alone);
    let work = "serve: a run that 200 streams follow, one of them stalled, beside none";
    Ok(Row::ratio(work, &followed, &alone, ratio).at_most(1.05))
}

fn timed_run(rig: &Rig) -> Result<Duration, String> {
    rig.write("count", &format!("{TIMED_STEPS}\n"))?;
    finish(rig.raymond(&["wf", "--no-debug"]), &[0])
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
    let list = milliseconds("serve: a list of 1,000 runs", warm(&site, "/api/v1/runs?limit=1000")?, 50.0);
    drop(site);
    fill(rig, 10_000)?;
    let site = Site::start(rig)?;
    for path in ["/metrics", "/api/v1/inbox", "/api/v1/runs?limit=1000"] {
        site.get(path)?;
    }
    let readers = site.follow(2)?;
    let all = memory("serve: memory with 10,000 runs", site.memory()?, 64.0);
    drop(readers);
    Ok(vec![list, all])
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
    rig.adopt()
}

/// What the page of a run asks for first.
const FIRST_LOOK: [&str; 4] = ["", "/overview", "/graph", "/steps?from=99901&limit=100"];

/// One run with 100,000 steps, as the page asks for it when nothing of it is known yet.
fn painted_run(rig: &Rig) -> Result<Vec<Row>, String> {
    begin_anew(rig, PAINTED_RUN_STEPS)?;
    let mut first = Sample::default();
    for _ in 0..REPETITIONS {
        let site = Site::start(rig)?;
        let begin = Instant::now();
        look(&site)?;
        first.add_time(begin.elapsed());
    }
    let site = Site::start(rig)?;
    look(&site)?;
    let mut again = Sample::default();
    for _ in 0..REPETITIONS {
        let begin = Instant::now();
        look(&site)?;
        again.add_time(begin.elapsed());
    }
    Ok(vec![
        milliseconds(
            "serve: all that the page of a run of 100,000 steps needs, at first",
            first.median(),
            1000.0,
        ),
        milliseconds("the same again", again.median(), 200.0),
    ])
}

fn look(site: &Site) -> Result<(), String> {
    FIRST_LOOK.iter().try_for_each(|part| site.get(&format!("/api/v1/runs/r{part}")))
}

/// A project with one run of so many steps.
fn begin_anew(rig: &Rig, steps: u64) -> Result<(), String> {
    let _ = fs::remove_dir_all(rig.path(".raymond/state"));
    history::write(rig.path("").as_path(), "wf", steps, &|_, _| "<goto>START</goto>".to_owned())?;
    rig.adopt()
}

/// One run with a million events.
fn long_run(rig: &Rig) -> Result<Vec<Row>, String> {
    begin_anew(rig, LONG_RUN_STEPS)?;
    let site = Site::start(rig)?;
    let window = warm(&site, "/api/v1/runs/r/events?after=600000&limit=200")?;
    let state = warm(&site, "/api/v1/runs/r?at=600000")?;
    let steps = warm(&site, "/api/v1/runs/r/steps?from=250000&limit=100")?;
    let overview = warm(&site, "/api/v1/runs/r/overview")?;
    Ok(vec![
        milliseconds("serve: 200 of 1,000,000 events", window, 20.0),
        milliseconds("serve: a run as it was, in 1,000,000 events", state, 100.0),
        milliseconds("serve: 100 of 500,000 steps", steps, 20.0),
        Row::amount("serve: the whole course of 500,000 steps", overview * 1e3, seconds(overview)),
        memory("serve: memory with a run of 1,000,000 events", site.memory()?, 64.0),
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

    /// Opens streams of all events. All but the first are read.
    fn follow(&self, count: usize) -> Result<Readers, String> {
        let mut readers = Readers { _stalled: self.stream()?, others: Vec::new() };
        for _ in 1..count {
            let stream = self.stream()?;
            readers.others.push(thread::spawn(move || read_to_end_of_run(stream)));
        }
        Ok(readers)
    }

    fn stream(&self) -> Result<TcpStream, String> {
        let failed = |error: std::io::Error| format!("a stream: {error}");
        let mut stream = TcpStream::connect(&self.address).map_err(failed)?;
        let request = format!(
            "GET /api/v1/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
            self.address, self.token
        );
        stream.write_all(request.as_bytes()).map_err(failed)?;
        // The beginning of the answer: the stream is open now.
        let mut head = [0; 256];
        stream.read(&mut head).map_err(failed)?;
        Ok(stream)
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

/// Streams that follow all runs.
struct Readers {
    /// Nothing is read from this one.
    _stalled: TcpStream,
    others: Vec<JoinHandle<Result<(), String>>>,
}

impl Readers {
    /// Waits until all but the stalled one have read the end of a run.
    fn wait(self) -> Result<(), String> {
        let ended = |reader: JoinHandle<_>| reader.join().map_err(|_| "a reader panicked".to_owned())?;
        self.others.into_iter().try_for_each(ended)
    }
}

fn read_to_end_of_run(stream: TcpStream) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("a stream: {error}");
    stream.set_read_timeout(Some(Duration::from_secs(60))).map_err(failed)?;
    let mut lines = BufReader::new(stream).split(b'\n');
    let is_end = |line: &[u8]| line.windows(14).any(|part| part == b"\"run_finished\"");
    loop {
        let line = lines.next().ok_or("a stream has ended early")?.map_err(failed)?;
        if is_end(&line) {
            return Ok(());
        }
    }
}
