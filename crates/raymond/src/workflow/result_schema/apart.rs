//! Judging a result in a process of its own, which can be given up.
//!
//! A schema is written by anyone, and a small one can take longer than the universe is old: references that double at each
//! level, alternatives inside alternatives, patterns that go back and forth. No look at the schema tells which ones do. So
//! only what is obviously cheap is judged here ([`is_cheap`]); everything else in a process that the system ends when it has
//! used [`CPU_SECONDS`], and whose memory is bounded.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Problem, judge};
use crate::store::hash_of;

/// The only argument of a process that judges what comes on its stdin.
const ARGUMENT: &str = "--judge-result";
/// How much time such a process may use, and how long it is waited for on a machine that has much else to do.
const CPU_SECONDS: u64 = 5;
const PATIENCE: Duration = Duration::from_secs(60);
/// How much memory it may have.
#[cfg(target_os = "linux")]
const MEMORY_BYTES: u64 = 4 << 30;
/// How long its stdin and its answer may be.
const MOST_BYTES: u64 = 256 * 1024 * 1024;
/// How many steps are obviously cheap.
const CHEAP: u64 = 1_000_000;
/// How many schemas are remembered that were found to be right.
const MOST_REMEMBERED: usize = 1000;

/// Keywords whose cost their place in the schema does not show.
const COSTLY: [&str; 8] = [
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "unevaluatedItems",
    "unevaluatedProperties",
    "pattern",
    "patternProperties",
    "format",
];
/// Keywords that look at the same value once more for each level, to tell what is wrong with it.
const AGAIN: [&str; 9] =
    ["anyOf", "oneOf", "allOf", "not", "if", "then", "else", "contains", "dependentSchemas"];

/// The program that judges: this one. It is not known in tests of the library, which judge in their own process.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
/// Hashes of schemas that are right.
static RIGHT: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

#[derive(Serialize, Deserialize)]
struct Case<'a> {
    schema: std::borrow::Cow<'a, Value>,
    /// Absent if only the schema is to be checked.
    payload: Option<std::borrow::Cow<'a, str>>,
}

/// Judges what comes on stdin, if this process was started for that.
pub fn answer() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|first| first != ARGUMENT) || arguments.next().is_some() {
        let _ = own_program().map(|program| PROGRAM.set(program));
        return false;
    }
    bound_this_process();
    let mut text = Vec::new();
    let read = io::stdin().lock().take(MOST_BYTES).read_to_end(&mut text);
    if let (Ok(_), Ok(case)) = (read, serde_json::from_slice::<Case<'_>>(&text)) {
        let problem = judge(&case.schema, case.payload.as_deref());
        let _ = io::stdout().write_all(&serde_json::to_vec(&problem).unwrap_or_default());
    }
    true
}

/// This program, also if its file was replaced since it was started.
fn own_program() -> io::Result<PathBuf> {
    match cfg!(target_os = "linux") {
        true => Ok(PathBuf::from("/proc/self/exe")),
        false => std::env::current_exe(),
    }
}

fn bound_this_process() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, setrlimit};
        let limit = |most: u64| Rlimit { current: Some(most), maximum: Some(most) };
        let _ = setrlimit(Resource::Core, limit(0));
        let _ = setrlimit(Resource::Cpu, limit(CPU_SECONDS));
        #[cfg(target_os = "linux")]
        let _ = setrlimit(Resource::As, limit(MEMORY_BYTES));
    }
}

/// What is wrong with a schema, or with a result that should match it.
pub fn judged(schema: &Value, payload: Option<&str>) -> Option<Problem> {
    let hash = || hash_of(schema.to_string().as_bytes());
    let right = || RIGHT.lock().unwrap_or_else(PoisonError::into_inner);
    if payload.is_none() && right().contains(&hash()) {
        return None;
    }
    let problem = match PROGRAM.get() {
        Some(program) if !is_cheap(schema, payload) => judged_apart(program, schema, payload),
        _ => crate::cli::panics::catch(|| judge(schema, payload)).unwrap_or(Some(Problem::TooCostly)),
    };
    if payload.is_none() && problem.is_none() {
        let mut right = right();
        if right.len() >= MOST_REMEMBERED {
            right.pop_first();
        }
        right.insert(hash());
    }
    problem
}

/// Whether a schema is obviously cheap to apply, whatever the result is like.
fn is_cheap(schema: &Value, payload: Option<&str>) -> bool {
    // A value of JSON has at least one byte, and a comma or a bracket.
    let values = payload.map_or(1, |payload| payload.len() as u64 / 2 + 1);
    cost(schema).is_some_and(|cost| cost.saturating_mul(values) <= CHEAP)
}

/// How often parts of a schema are applied to one value at most; nothing if that cannot be told.
fn cost(schema: &Value) -> Option<u64> {
    match schema {
        Value::Object(members) => members.iter().try_fold(1_u64, |sum, (name, value)| {
            if COSTLY.contains(&name.as_str()) {
                return None;
            }
            let again = if AGAIN.contains(&name.as_str()) { 4 } else { 1 };
            Some(sum.saturating_add(cost(value)?.saturating_mul(again)))
        }),
        Value::Array(items) => {
            items.iter().try_fold(1_u64, |sum, item| Some(sum.saturating_add(cost(item)?)))
        }
        _ => Some(1),
    }
}

fn judged_apart(program: &std::path::Path, schema: &Value, payload: Option<&str>) -> Option<Problem> {
    let case = Case { schema: std::borrow::Cow::Borrowed(schema), payload: payload.map(Into::into) };
    let asked = serde_json::to_vec(&case).map_err(io::Error::other).and_then(|case| ask(program, case));
    match asked {
        Ok(Some(answer)) => serde_json::from_slice(&answer).unwrap_or(Some(Problem::TooCostly)),
        Ok(None) => Some(Problem::TooCostly),
        Err(error) => Some(Problem::NotJudged(error.to_string())),
    }
}

/// What the process says; nothing if it did not come to an end.
fn ask(program: &std::path::Path, case: Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let mut command = Command::new(program);
    command.arg(ARGUMENT).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    #[cfg(unix)]
    // A Ctrl-C is for Raymond, which finishes what it has begun.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn()?;
    let (mut stdin, stdout) = (child.stdin.take(), child.stdout.take());
    thread::spawn(move || stdin.take().map(|mut stdin| stdin.write_all(&case)));
    let (sender, answered) = mpsc::channel();
    thread::spawn(move || {
        let mut answer = Vec::new();
        let _ = stdout.map(|stdout| stdout.take(MOST_BYTES).read_to_end(&mut answer));
        let _ = sender.send(answer);
    });
    let answer = answered.recv_timeout(PATIENCE);
    let has_succeeded = end(&mut child, answer.is_ok())?;
    Ok(answer.ok().filter(|_| has_succeeded))
}

/// Whether the process has done its work. It is ended if it has not.
fn end(child: &mut Child, has_answered: bool) -> io::Result<bool> {
    if !has_answered {
        let _ = child.kill();
    }
    Ok(child.wait()?.success())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_obviously_cheap_is_judged_in_the_same_process() {
        let plain = json!({ "type": "object", "properties": { "a": { "enum": ["x", "y"] } } });
        assert!(is_cheap(&plain, None) && is_cheap(&plain, Some("{\"a\":1}")));
        assert!(!is_cheap(&plain, Some(&"[1],".repeat(1_000_000))));
        for keyword in COSTLY {
            assert!(!is_cheap(&json!({ "items": { keyword: "x" } }), None), "{keyword}");
        }
        let nested = (0..100).fold(json!({}), |inner, _| json!({ "anyOf": [inner, { "type": "null" }] }));
        assert!(!is_cheap(&nested, None));
    }
}
