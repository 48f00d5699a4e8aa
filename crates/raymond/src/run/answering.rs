//! Giving an answer to a run, whether a process drives it or not. `raymond answer` and `serve` both do it like this.

use std::time::{Duration, Instant};

use raymond_core::event::{Body, Closed};
use raymond_core::run::{Ask, Refusal, Run};

use crate::advice;
use crate::error::UserError;
use crate::fleet::delivery::{Delivery, delivery_of};
use crate::run::caller::Outside;
use crate::run::driver::{ANSWER_MESSAGE, Answer, Way};
use crate::store::{Content, Posted, RunHandle, Start, StoreError};

/// How long to wait until a running process has taken the answer. After that it is only reported as recorded.
const PATIENCE: Duration = Duration::from_secs(10);

/// Ids of questions are `ask1`, `ask2` and so on.
pub fn is_ask_id(word: &str) -> bool {
    word.strip_prefix("ask")
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// An answer that was recorded.
#[derive(Debug)]
pub struct Given {
    pub ask: String,
    pub to: Taker,
}

/// What becomes of a recorded answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Taker {
    /// The process that drives the run has taken it.
    Live,
    /// The process that drives the run has not come to it yet.
    Busy,
    /// No process drives the run; it is taken when the run continues.
    Stopped,
    /// The engine that carries out the run does not answer; it gets the answer when it does.
    Away(String),
}

/// Gives the answer to the run, unless another one was first. `caller` proves that it is not from a step of the run.
pub fn give(
    stored: &dyn RunHandle,
    ask: Option<&str>,
    text: String,
    way: Way,
    caller: &Outside,
) -> Result<Given, UserError> {
    if !caller.is_of(stored.id()) {
        return Err(UserError::failed(format!("it was not found out who answers {}", stored.id())));
    }
    // If no process drives the run, holding its lease keeps another one from starting meanwhile. A run that is driven
    // is not asked for its lease, because that waits for a while.
    let is_answered = ask.is_some_and(|ask| stored.inbox().contains(&message_name(ask)));
    let lease = match stored.holder()? {
        Some(_) => None,
        // The run goes on with the answer that was first, and needs the lease for that.
        None if is_answered => None,
        None => match stored.lease() {
            Ok(lease) => Some(lease),
            Err(StoreError::Held { .. }) => None,
            Err(error) => return Err(error.into()),
        },
    };
    let run = stored.load()?;
    if run.is_dropped() {
        return Err(is_dropped(&run.id));
    }
    let ask = choose(stored, &run, ask)?;
    let answer = Answer::new((&ask.id, ask.opened_at), text, way);
    check(ask, &answer)?;
    let ask = ask.id.clone();
    let content = serde_json::to_string(&answer).map_err(|error| UserError::failed(error.to_string()))?;
    let posted = stored
        .inbox()
        .post(&message_name(&ask), &content)
        .map_err(|error| UserError::failed(format!("cannot record the answer: {error}")))?;
    if posted == Posted::AlreadyThere {
        return Err(too_late(&ask, way_of_waiting(stored, &ask)));
    }
    let to = match lease {
        Some(_) => Taker::Stopped,
        None if stored.elsewhere().is_some() => wait_until_delivered(stored, &answer)?,
        None => wait_until_taken(stored, &answer)?,
    };
    Ok(Given { ask, to })
}

/// Why a run that keeps what a rewind has dropped takes no answer.
pub fn is_dropped(run: &str) -> UserError {
    UserError::usage(format!("{run} keeps what a rewind has dropped, and takes no answers"))
        .hint(format!("to go on with it all the same: {}", advice::command(&format!("resume {run}"))))
}

/// All answers to a question have the same name, so that only the first can be posted.
pub fn message_name(ask: &str) -> String {
    format!("{ANSWER_MESSAGE}{ask}")
}

/// The question that is meant: the named one, or the only one.
fn choose<'r>(stored: &dyn RunHandle, run: &'r Run, given: Option<&str>) -> Result<&'r Ask, UserError> {
    let asks: Vec<&Ask> = run.asks().into_iter().map(|(_, ask)| ask).collect();
    if let Some(named) = asks.iter().find(|ask| given == Some(&ask.id)) {
        return Ok(named);
    }
    // The answer to one of them may already wait for the run to continue.
    let inbox = stored.inbox();
    let open: Vec<&Ask> =
        asks.iter().copied().filter(|ask| !inbox.contains(&message_name(&ask.id))).collect();
    let ids = |asks: &[&Ask]| asks.iter().map(|ask| ask.id.as_str()).collect::<Vec<_>>().join(", ");
    let list = if open.is_empty() { "none".to_owned() } else { ids(&open) };
    match (given, open.as_slice()) {
        (Some(ask), _) if was_asked(run, ask) => Err(closed_already(stored, ask)),
        (Some(ask), _) => {
            let error = format!("the run {} has no question `{}`", run.id, ask.escape_debug());
            let error = UserError::usage(error).hint(format!("open questions: {list}"));
            Err(match is_ask_id(ask) {
                true => error,
                false => error.hint("an answer of several words needs quotes around it"),
            })
        }
        (None, [only]) => Ok(only),
        (None, []) if !asks.is_empty() => Err(too_late(&ids(&asks), None)),
        (None, []) => {
            let error = UserError::usage(format!("the run {} has no open question", run.id));
            Err(match run.asks_opened {
                0 => error,
                last => error.hint(closed_already(stored, &format!("ask{last}")).message),
            })
        }
        (None, _) => Err(UserError::usage(format!("the run {} has several open questions: {list}", run.id))
            .hint(format!("say which: {}", advice::command(&format!("answer {} ASK TEXT", run.id))))),
    }
}

/// Questions are numbered as they are asked.
pub fn was_asked(run: &Run, ask: &str) -> bool {
    let number = ask.strip_prefix("ask").and_then(|number| number.parse().ok());
    number.is_some_and(|number: u64| (1..=run.asks_opened).contains(&number))
}

/// Refuses an answer that the run would not take.
fn check(ask: &Ask, answer: &Answer) -> Result<(), UserError> {
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

fn too_late(ask: &str, first: Option<Way>) -> UserError {
    let first = first.map(|way| format!(", answered {}", way.told())).unwrap_or_default();
    UserError::failed(format!("{ask} is closed already{first}; this answer was not taken"))
}

/// The way in which the answer came that waits in the inbox, or has just been taken from there.
pub fn way_of_waiting(stored: &dyn RunHandle, ask: &str) -> Option<Way> {
    let waiting = stored.inbox().messages().unwrap_or_default();
    let message = waiting.into_iter().find(|message| message.name == message_name(ask));
    match message.map(|message| message.content) {
        Some(Content::Text(text)) => {
            serde_json::from_str::<Answer>(&text).ok().and_then(|answer| Way::of(&answer.answer_id))
        }
        _ => way_of_closed(how_closed(stored, ask).ok().flatten().as_ref()),
    }
}

fn way_of_closed(closed: Option<&Closed>) -> Option<Way> {
    match closed {
        Some(Closed::Answered { answer_id, .. }) => answer_id.as_deref().and_then(Way::of),
        Some(Closed::TimedOut { .. } | Closed::Unanswered) | None => None,
    }
}

/// Why a question that was asked is not open any more.
fn closed_already(stored: &dyn RunHandle, ask: &str) -> UserError {
    match how_closed(stored, ask) {
        Ok(Some(Closed::TimedOut { .. } | Closed::Unanswered)) => {
            UserError::failed(format!("{ask} was not answered in time; this answer was not taken"))
        }
        closed => too_late(ask, way_of_closed(closed.ok().flatten().as_ref())),
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
    taken_or_late(stored, answer)
}

/// The same for a run that other machines carry out.
fn wait_until_delivered(stored: &dyn RunHandle, answer: &Answer) -> Result<Taker, UserError> {
    match delivery_of(stored, &message_name(&answer.ask)) {
        Delivery::Taken => taken_or_late(stored, answer),
        Delivery::Left(_) => Ok(Taker::Busy),
        Delivery::Waits(why) => Ok(Taker::Away(why)),
    }
}

fn taken_or_late(stored: &dyn RunHandle, answer: &Answer) -> Result<Taker, UserError> {
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

/// Whether the question was closed with this answer; `None` if it is still open.
fn taken(stored: &dyn RunHandle, answer: &Answer) -> Result<Option<bool>, UserError> {
    let closed = how_closed(stored, &answer.ask)?;
    Ok(closed.map(|closed| is_answered_by(&closed, answer)))
}

/// How a question was closed; `None` if it is still open.
pub fn how_closed(stored: &dyn RunHandle, ask: &str) -> Result<Option<Closed>, UserError> {
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
    use crate::run::caller::Caller;
    use crate::store::JournalOptions;
    use crate::store::RunStore;
    use crate::store::memory::MemoryStore;
    use crate::store::suite::opening;
    use jiff::Timestamp;
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
        let outside = Caller::Unknown.outside(&store, &*run, "answer").unwrap();
        let given = give(&*run, None, "yes".to_owned(), Way::Command, &outside).unwrap();
        assert_eq!(given.to, Taker::Stopped);
        assert!(run.inbox().contains("answer-ask1"));
        let late = give(&*run, Some("ask1"), "no".to_owned(), Way::Api, &outside).unwrap_err();
        assert_eq!(
            late.message,
            "ask1 is closed already, answered by `raymond answer`; this answer was not taken"
        );
        let unknown = give(&*run, Some("ask2"), "no".to_owned(), Way::Api, &outside).unwrap_err();
        assert_eq!(unknown.message, "the run r has no question `ask2`");
    }

    #[test]
    fn the_journal_tells_whose_answer_was_taken() {
        let answer = Answer {
            answer_id: "mine".to_owned(),
            ..Answer::new(("ask1", Timestamp::UNIX_EPOCH), "yes".to_owned(), Way::Command)
        };
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
