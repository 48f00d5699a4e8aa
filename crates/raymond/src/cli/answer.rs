//! `raymond answer`

use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use raymond_core::event::{Body, Closed};
use raymond_core::run::{Refusal, Run};

use super::args::{AnswerArgs, ResumeArgs, RunOptions};
use super::find::{find_run, store};
use super::print::say;
use super::resume::resume;
use crate::advice;
use crate::error::{ExitKind, UserError};
use crate::run::driver::{ANSWER_MESSAGE, Answer};
use crate::store::{Posted, RunHandle, RunStore, Start, StoreError};

/// The longest answer.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;
/// How long to wait until a running process has taken the answer. After that it is only reported as recorded.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn answer(args: AnswerArgs) -> Result<ExitKind, UserError> {
    let store = store(&args.place)?;
    // The words are read from the end: the answer is always there.
    let words: Vec<&String> =
        [args.first.as_ref(), args.second.as_ref(), args.third.as_ref()].into_iter().flatten().collect();
    let (stored, ask, text) = match *words.as_slice() {
        [run, ask, text] => (find_run(&*store, Some(run))?, Some(ask.clone()), text),
        [first, text] => match store.find(first) {
            Ok(run) => (run, None, text),
            Err(_) if is_ask_id(first) => {
                let (run, ask) = only_question(&*store, Some(first))?;
                (run, Some(ask), text)
            }
            Err(error) => return Err(error.into()),
        },
        [text] => {
            refuse_run_alone(&*store, text)?;
            let (run, ask) = only_question(&*store, None)?;
            (run, Some(ask), text)
        }
        _ => {
            return Err(UserError::usage("there is no answer to give")
                .hint(format!("answer the only open question: {}", advice::command("answer TEXT")))
                .hint(format!("or that of a run: {}", advice::command("answer RUN [ASK] TEXT"))));
        }
    };
    if std::env::var_os("RAYMOND_RUN_ID").is_some_and(|own| own == *stored.id()) {
        return Err(UserError::usage(format!("a step of {} cannot answer its own run", stored.id()))
            .hint("a question is for a person"));
    }
    let given = give(&*stored, ask.as_deref(), read_text(text)?)?;
    let run = stored.id().to_owned();
    match given {
        Given { ask, to: Taker::Live } => {
            say(&format!("{ask} is answered"));
            return Ok(ExitKind::Completed);
        }
        Given { ask, to: Taker::Busy } => {
            say(&format!("{ask} is answered; the run has not taken it up yet"));
            return Ok(ExitKind::Completed);
        }
        Given { ask, to: Taker::Stopped } if !args.resume => {
            say(&is_answered(&ask, &run));
            return Ok(ExitKind::Completed);
        }
        Given { ask, to: Taker::Stopped } => say(&format!("{ask} is answered")),
    }
    let run = Some(run);
    resume(ResumeArgs { run, options: RunOptions::default(), place: args.place })
}

/// Ids of questions are `ask1`, `ask2` and so on.
fn is_ask_id(word: &str) -> bool {
    word.strip_prefix("ask")
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// A run's id alone is more likely a forgotten answer than an answer.
fn refuse_run_alone(store: &dyn RunStore, text: &str) -> Result<(), UserError> {
    match store.list()?.iter().any(|entry| entry.run.id() == text) {
        true => Err(UserError::usage(format!("{text} is a run; give the answer, too"))
            .hint(advice::command(&format!("answer {text} 'your answer'")))),
        false => Ok(()),
    }
}

/// The only question that waits for an answer, in all runs; with `ask`, the only one of this id.
fn only_question(store: &dyn RunStore, ask: Option<&str>) -> Result<(Arc<dyn RunHandle>, String), UserError> {
    let mut open = Vec::new();
    for entry in store.list()? {
        // A damaged run asks nothing that could be answered.
        let Ok(run) = entry.run.load() else { continue };
        let inbox = entry.run.inbox();
        for (_, question) in run.asks() {
            let is_meant = ask.is_none_or(|ask| question.id == ask);
            if is_meant && !inbox.contains(&message_name(&question.id)) {
                open.push((Arc::clone(&entry.run), question.id.clone()));
            }
        }
    }
    match open.len() {
        0 => Err(UserError::usage(format!("no run in {} waits for an answer", store.place()))),
        1 => Ok(open.remove(0)),
        _ => {
            let named: Vec<String> = open.iter().map(|(run, ask)| format!("{} {ask}", run.id())).collect();
            Err(UserError::usage(format!("there are several open questions: {}", named.join(", ")))
                .hint(format!("say which: {}", advice::command("answer RUN ASK TEXT"))))
        }
    }
}

/// An answer that was recorded.
#[derive(Debug)]
struct Given {
    ask: String,
    to: Taker,
}

/// What becomes of a recorded answer.
#[derive(Debug, PartialEq, Eq)]
enum Taker {
    /// The process that drives the run has taken it.
    Live,
    /// The process that drives the run has not come to it yet.
    Busy,
    /// No process drives the run; it is taken when the run continues.
    Stopped,
}

/// Gives the answer to the run, unless another one was first.
fn give(stored: &dyn RunHandle, ask: Option<&str>, text: String) -> Result<Given, UserError> {
    // If no process drives the run, holding its lease keeps another one from starting meanwhile. A run that is driven
    // is not asked for its lease, because that waits for a while.
    let lease = match stored.holder()? {
        Some(_) => None,
        None => match stored.lease() {
            Ok(lease) => Some(lease),
            Err(StoreError::Held { .. }) => None,
            Err(error) => return Err(error.into()),
        },
    };
    let run = stored.load()?;
    let ask = choose(stored, &run, ask)?;
    let answer = Answer::new(&ask, text);
    check(&run, &answer)?;
    let content = serde_json::to_string(&answer).map_err(|error| UserError::failed(error.to_string()))?;
    let posted = stored
        .inbox()
        .post(&message_name(&ask), &content)
        .map_err(|error| UserError::failed(format!("cannot record the answer: {error}")))?;
    if posted == Posted::AlreadyThere {
        return Err(too_late(&ask));
    }
    let to = match lease {
        Some(_) => Taker::Stopped,
        None => wait_until_taken(stored, &answer)?,
    };
    Ok(Given { ask, to })
}

fn read_text(given: &str) -> Result<String, UserError> {
    let mut bytes = Vec::new();
    if given == "-" {
        std::io::stdin()
            // One byte more for the last line break, and one more to notice that the answer is too long.
            .take(MAX_ANSWER_BYTES as u64 + 2)
            .read_to_end(&mut bytes)
            .map_err(|error| UserError::usage(format!("cannot read the answer from stdin: {error}")))?;
        // The line break at the end of typed or piped text is not part of the answer.
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

/// All answers to a question have the same name, so that only the first can be posted.
fn message_name(ask: &str) -> String {
    format!("{ANSWER_MESSAGE}{ask}")
}

/// The question that is meant: the named one, or the only one.
fn choose(stored: &dyn RunHandle, run: &Run, given: Option<&str>) -> Result<String, UserError> {
    let asks: Vec<&str> = run.asks().into_iter().map(|(_, ask)| ask.id.as_str()).collect();
    // The answer to one of them may already wait for the run to continue.
    let inbox = stored.inbox();
    let open: Vec<&str> = asks.iter().copied().filter(|ask| !inbox.contains(&message_name(ask))).collect();
    let list = if open.is_empty() { "none".to_owned() } else { open.join(", ") };
    match (given, open.as_slice()) {
        (Some(ask), _) if asks.contains(&ask) => Ok(ask.to_owned()),
        (Some(ask), _) if was_asked(run, ask) => Err(closed_already(stored, ask)),
        (Some(ask), _) => {
            let error = format!("the run {} has no question `{}`", run.id, ask.escape_debug());
            let error = UserError::usage(error).hint(format!("open questions: {list}"));
            Err(match is_ask_id(ask) {
                true => error,
                false => error.hint("an answer of several words needs quotes around it"),
            })
        }
        (None, [only]) => Ok((*only).to_owned()),
        (None, []) if !asks.is_empty() => Err(too_late(&asks.join(", "))),
        (None, []) => Err(UserError::usage(format!("the run {} has no open question", run.id))),
        (None, _) => Err(UserError::usage(format!("the run {} has several open questions: {list}", run.id))
            .hint(format!("say which: {}", advice::command(&format!("answer {} ASK TEXT", run.id))))),
    }
}

/// Questions are numbered as they are asked.
fn was_asked(run: &Run, ask: &str) -> bool {
    let number = ask.strip_prefix("ask").and_then(|number| number.parse().ok());
    number.is_some_and(|number: u64| (1..=run.asks_opened).contains(&number))
}

/// Refuses an answer that the run would not take.
fn check(run: &Run, answer: &Answer) -> Result<(), UserError> {
    let found = run.asks().into_iter().find(|(_, ask)| ask.id == answer.ask);
    let Some((_, ask)) = found else { return Ok(()) };
    match ask.refuses(&answer.text, answer.given_at) {
        None => Ok(()),
        Some(Refusal::Empty) => Err(UserError::usage("an empty answer does not count")
            .hint("give a text; a question that may be left empty says so: <ask empty=\"ok\">")),
        Some(Refusal::Late { deadline }) => {
            let next = ask.timeout_next.as_ref();
            let goes_on =
                next.map_or("its agent fails".to_owned(), |next| format!("its agent goes on at {next}"));
            let time = deadline.strftime("%Y-%m-%d %H:%M:%S UTC");
            Err(UserError::failed(format!(
                "{} had to be answered before {time}; this answer was not taken",
                ask.id
            ))
            .hint(format!("{goes_on} when the run continues")))
        }
    }
}

fn too_late(ask: &str) -> UserError {
    UserError::failed(format!("{ask} is closed already; this answer was not taken"))
}

/// Why a question that was asked is not open any more.
fn closed_already(stored: &dyn RunHandle, ask: &str) -> UserError {
    match how_closed(stored, ask) {
        Ok(Some(Closed::TimedOut { .. } | Closed::Unanswered)) => {
            UserError::failed(format!("{ask} was not answered in time; this answer was not taken"))
        }
        _ => too_late(ask),
    }
}

/// Waits until the running process has taken the answer out of the inbox. Then the journal shows which answer counted.
fn wait_until_taken(stored: &dyn RunHandle, answer: &Answer) -> Result<Taker, UserError> {
    let deadline = Instant::now() + PATIENCE;
    let inbox = stored.inbox();
    while inbox.contains(&message_name(&answer.ask)) && Instant::now() < deadline {
        let is_running = stored.holder().is_ok_and(|holder| holder.is_some());
        if !is_running {
            return recorded_or_lost(stored, answer);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    match taken(stored, answer)? {
        Some(true) => Ok(Taker::Live),
        Some(false) => Err(closed_already(stored, &answer.ask)),
        None => Ok(Taker::Busy),
    }
}

/// The process ended before it took this answer. The answer counts at the next resume, unless another was taken before.
fn recorded_or_lost(stored: &dyn RunHandle, answer: &Answer) -> Result<Taker, UserError> {
    if taken(stored, answer)? == Some(false) {
        let _ = stored.inbox().remove(&message_name(&answer.ask));
        return Err(closed_already(stored, &answer.ask));
    }
    Ok(Taker::Stopped)
}

fn is_answered(ask: &str, run: &str) -> String {
    format!("{ask} is answered; continue with: {}", advice::command(&format!("resume {run}")))
}

/// Whether the question was closed with this answer; `None` if it is still open.
fn taken(stored: &dyn RunHandle, answer: &Answer) -> Result<Option<bool>, UserError> {
    let closed = how_closed(stored, &answer.ask)?;
    Ok(closed.map(|closed| is_answered_by(&closed, answer)))
}

/// How a question was closed; `None` if it is still open.
fn how_closed(stored: &dyn RunHandle, ask: &str) -> Result<Option<Closed>, UserError> {
    let mut events = stored.events(Start::LATEST_SNAPSHOT)?;
    let mut how = None;
    while let Some(batch) = events.next_batch()? {
        for event in batch {
            match event.body {
                Body::AskClosed(closed) if closed.ask == ask => how = Some(closed.how),
                Body::AskOpened(opened) if opened.ask == ask => how = None,
                _ => {}
            }
        }
    }
    Ok(how)
}

fn is_answered_by(closed: &Closed, answer: &Answer) -> bool {
    match closed {
        Closed::Answered { answer_id, .. } => answer_id.as_deref() == Some(&answer.answer_id),
        Closed::TimedOut { .. } | Closed::Unanswered => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::JournalOptions;
    use crate::store::memory::MemoryStore;
    use crate::store::suite::opening;
    use raymond_core::event::Event;

    fn event(seq: u64, rest: &str) -> Event {
        let text = format!(
            r#"{{"seq":{seq},"time":"2026-01-01T00:00:00Z","run":"r","agent":"main","ask":"ask1","state":"A.md",{rest}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn question() -> Event {
        event(3, r#""event":"ask_opened","question":"What?","next":"B.md""#)
    }

    fn closed_by(answer_id: &str) -> Event {
        let rest = r#""event":"ask_closed","by":"answer","target":"B.md","answer":"yes","answer_id":"#;
        event(4, &format!("{rest}\"{answer_id}\""))
    }

    /// A run that stopped with an open question.
    fn waiting() -> MemoryStore {
        let store = MemoryStore::default();
        let mut writer = store.create("r", JournalOptions::default()).unwrap();
        writer.commit(&[opening("r"), vec![question()]].concat()).unwrap();
        store
    }

    #[test]
    fn the_first_answer_to_a_stopped_run_is_recorded() {
        let store = waiting();
        let run = store.run("r").unwrap();
        assert_eq!(give(&*run, None, "yes".to_owned()).unwrap().to, Taker::Stopped);
        assert!(run.inbox().contains("answer-ask1"));
        let late = give(&*run, Some("ask1"), "no".to_owned()).unwrap_err();
        assert_eq!(late.message, "ask1 is closed already; this answer was not taken");
        let unknown = give(&*run, Some("ask2"), "no".to_owned()).unwrap_err();
        assert_eq!(unknown.message, "the run r has no question `ask2`");
    }

    #[test]
    fn the_journal_tells_whose_answer_was_taken() {
        let answer = Answer { answer_id: "mine".to_owned(), ..Answer::new("ask1", "yes".to_owned()) };
        for (closed, expected) in [(None, None), (Some("mine"), Some(true)), (Some("another"), Some(false))] {
            let store = waiting();
            let run = store.run("r").unwrap();
            if let Some(id) = closed {
                run.open(JournalOptions::default()).unwrap().writer.commit(&[closed_by(id)]).unwrap();
            }
            assert_eq!(taken(&*run, &answer).unwrap(), expected, "{closed:?}");
        }
    }
}
