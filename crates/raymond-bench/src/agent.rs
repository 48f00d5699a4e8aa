//! This program as an agent: called `claude`, it answers at once and records when it began and ended, so that the time
//! between two turns can be measured to the microsecond.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// The variable with the file for the notes: a line `begin end` for each turn, in nanoseconds.
pub const NOTES: &str = "BENCH_TURNS";

pub fn is_asked_for() -> bool {
    let name = std::env::args().next().unwrap_or_default();
    Path::new(&name).file_name().is_some_and(|name| name == "claude")
}

pub fn take_a_turn() -> ExitCode {
    let begin = nanoseconds();
    let mut prompt = String::new();
    let _ = std::io::stdin().read_to_string(&mut prompt);
    let args: Vec<String> = std::env::args().collect();
    let session = args.windows(2).find(|pair| pair[0] == "--session-id").map_or("", |pair| &pair[1]);
    // The prompt is the reply.
    let reply = serde_json::Value::from(prompt.trim());
    println!(r#"{{"type":"system","subtype":"init","session_id":"{session}"}}"#);
    println!(
        r#"{{"type":"result","subtype":"success","is_error":false,"result":{reply},"session_id":"{session}","total_cost_usd":0.001}}"#
    );
    let Some(notes) = std::env::var_os(NOTES) else { return ExitCode::FAILURE };
    let line = format!("{begin} {}\n", nanoseconds());
    let written = OpenOptions::new()
        .append(true)
        .create(true)
        .open(notes)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The notes: when each turn began and ended, in seconds.
pub fn notes(path: &Path) -> Result<Vec<(f64, f64)>, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let number = |text: &str| text.parse::<u128>().map_err(|error| error.to_string());
    let line = |line: &str| {
        let (begin, end) = line.split_once(' ').ok_or("half a note")?;
        let (begin, end) = (number(begin)?, number(end)?);
        // Only differences matter, and the precision of a float is enough for them.
        Ok(((begin % 1_000_000_000_000_000) as f64 / 1e9, (end % 1_000_000_000_000_000) as f64 / 1e9))
    };
    text.lines().map(line).collect()
}

fn nanoseconds() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos())
}
