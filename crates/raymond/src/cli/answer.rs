//! `raymond answer`

use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use raymond_core::event::{Body, Closed};
use raymond_core::run::Run;

use super::args::AnswerArgs;
use super::find::{find_run, state_dir};
use super::print::say;
use crate::error::{Exit, UserError};
use crate::run::driver::{ANSWER_MESSAGE, Answer};
use crate::store::events::{Folding, to_event};
use crate::store::{LockError, Posted, RunLock, RunPaths, is_live, post, read_tail, visit_tail};

/// The longest answer.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;
/// How long a live run may take to pick an answer up before it is called recorded all the same.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn answer(args: AnswerArgs) -> Result<Exit, UserError> {
    let dir = state_dir(&args.place)?;
    let paths = find_run(&dir, Some(&args.run))?;
    let (ask, text) = match args.words.as_slice() {
        [ask, text] => (Some(ask.as_str()), text.as_str()),
        [text] => (None, text.as_str()),
        _ => return Err(UserError::usage("give the answer")),
    };
    let text = read_text(text)?;
    // While nobody drives the run, holding its lock keeps everything as it is.
    let lock = match RunLock::acquire(&paths.lock()) {
        Ok(lock) => Some(lock),
        Err(LockError::Held { .. }) => None,
        Err(error) => return Err(UserError::usage(error.to_string())),
    };
    let run = load(&paths)?;
    let ask = choose(&run, ask)?;
    let answer = Answer { ask: ask.clone(), text, answer_id: uuid::Uuid::new_v4().to_string() };
    let content = serde_json::to_string(&answer).map_err(|error| UserError::failed(error.to_string()))?;
    let posted = post(&paths.inbox(), &format!("{ANSWER_MESSAGE}{ask}"), &content)
        .map_err(|error| UserError::failed(format!("cannot record the answer: {error}")))?;
    if posted == Posted::AlreadyThere {
        return Err(too_late(&ask));
    }
    match lock {
        Some(_) => say(&format!("{ask} is answered; continue with: raymond resume {}", run.id)),
        None => wait_until_taken(&paths, &answer)?,
    }
    Ok(Exit::Completed)
}

fn read_text(given: &str) -> Result<String, UserError> {
    let mut bytes = Vec::new();
    if given == "-" {
        std::io::stdin()
            // One more for a last line break, and one that shows that there is more.
            .take(MAX_ANSWER_BYTES as u64 + 2)
            .read_to_end(&mut bytes)
            .map_err(|error| UserError::usage(format!("cannot read the answer from stdin: {error}")))?;
        // A line typed or piped in ends with a line break that is not part of the answer.
        if bytes.ends_with(b"\n") {
            bytes.pop();
        }
    } else {
        bytes.extend_from_slice(given.as_bytes());
    }
    if bytes.len() > MAX_ANSWER_BYTES {
        return Err(UserError::usage("the answer is longer than 1 MiB")
            .hint("put it into a file and answer with the file's name"));
    }
    Ok(String::from_utf8_lossy(&bytes).replace('\0', "\u{fffd}"))
}

fn load(paths: &RunPaths) -> Result<Run, UserError> {
    let mut folding = Folding::new(paths);
    visit_tail(paths, &mut |line| folding.take(&line))
        .map_err(|error| UserError::usage(error.to_string()))?;
    folding.finish()
}

/// The question that is meant: the named one, or the only one.
fn choose(run: &Run, given: Option<&str>) -> Result<String, UserError> {
    let open: Vec<&str> = run.asks().into_iter().map(|(_, ask)| ask.id.as_str()).collect();
    let list = if open.is_empty() { "none".to_owned() } else { open.join(", ") };
    match (given, open.as_slice()) {
        (Some(ask), _) if open.contains(&ask) => Ok(ask.to_owned()),
        (Some(ask), _) if was_asked(run, ask) => Err(too_late(ask)),
        (Some(ask), _) => {
            let error = format!("the run {} has no question `{}`", run.id, ask.escape_debug());
            Err(UserError::usage(error).hint(format!("open questions: {list}")))
        }
        (None, [only]) => Ok((*only).to_owned()),
        (None, []) => Err(UserError::usage(format!("the run {} has no open question", run.id))),
        (None, _) => Err(UserError::usage(format!("the run {} has several open questions: {list}", run.id))
            .hint(format!("say which: raymond answer {} ASK TEXT", run.id))),
    }
}

/// Questions are numbered as they are asked.
fn was_asked(run: &Run, ask: &str) -> bool {
    let number = ask.strip_prefix("ask").and_then(|number| number.parse().ok());
    number.is_some_and(|number: u64| (1..=run.asks_opened).contains(&number))
}

fn too_late(ask: &str) -> UserError {
    UserError::failed(format!("{ask} is closed already; this answer was not taken"))
}

/// A live run takes an answer within moments; then its journal tells whose it was.
fn wait_until_taken(paths: &RunPaths, answer: &Answer) -> Result<(), UserError> {
    let deadline = Instant::now() + PATIENCE;
    let file = paths.inbox().join(format!("{ANSWER_MESSAGE}{}", answer.ask));
    while file.exists() && Instant::now() < deadline {
        let is_running = is_live(&paths.lock()).is_ok_and(|holder| holder.is_some());
        if !is_running {
            return recorded_or_lost(paths, answer, &file);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    match taken(paths, answer)? {
        Some(true) => say(&format!("{} is answered", answer.ask)),
        Some(false) => return Err(too_late(&answer.ask)),
        None => say(&format!("{} is answered; the run has not taken it up yet", answer.ask)),
    }
    Ok(())
}

/// The run ended before it took the answer: it counts, unless another one was taken before.
fn recorded_or_lost(paths: &RunPaths, answer: &Answer, file: &Path) -> Result<(), UserError> {
    if taken(paths, answer)? == Some(false) {
        let _ = std::fs::remove_file(file);
        return Err(too_late(&answer.ask));
    }
    say(&format!("{} is answered; continue with: raymond resume {}", answer.ask, paths.id()));
    Ok(())
}

/// Whether the question was closed with this answer or without it; nothing if it is still open.
fn taken(paths: &RunPaths, answer: &Answer) -> Result<Option<bool>, UserError> {
    let tail = read_tail(paths).map_err(|error| UserError::usage(error.to_string()))?;
    for line in tail.lines.iter().rev() {
        match to_event(paths, line)?.body {
            Body::AskClosed(closed) if closed.ask == answer.ask => {
                return Ok(Some(is_answered_by(&closed.how, answer)));
            }
            Body::AskOpened(opened) if opened.ask == answer.ask => return Ok(None),
            _ => {}
        }
    }
    Ok(None)
}

fn is_answered_by(closed: &Closed, answer: &Answer) -> bool {
    match closed {
        Closed::Answered { answer_id, .. } => answer_id.as_deref() == Some(&answer.answer_id),
        Closed::TimedOut { .. } | Closed::Unanswered => false,
    }
}
