//! `raymond answer`

use std::io::Read;
use std::sync::Arc;

use super::args::{AnswerArgs, ResumeArgs, RunOptions};
use super::elsewhere::wedged_there;
use super::find::{find_run, store};
use super::print::say;
use super::resume::resume;
use crate::advice;
use crate::error::{ExitKind, UserError};
use crate::run::answering::{Given, Taker, give, is_ask_id, message_name};
use crate::run::caller::Caller;
use crate::run::driver::Way;
use crate::store::{RunHandle, RunStore};

/// The longest answer.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

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
    if let Some(wedged) = wedged_there(&*stored) {
        return Err(wedged);
    }
    let outside = Caller::Own.outside(&*store, &*stored, "answer")?;
    let given = give(&*stored, ask.as_deref(), read_text(text)?, Way::Command, &outside)?;
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
        Given { ask, to: Taker::Away(why) } => {
            let engine = stored.elsewhere().map(|mark| mark.engine).unwrap_or_default();
            say(&format!(
                "{ask} is answered, but {engine} does not answer: {why}; the next command that reaches it hands the answer over"
            ));
            return Ok(ExitKind::Completed);
        }
        Given { ask, to: Taker::Stopped } if !args.resume => {
            say(&is_answered(&ask, &run));
            return Ok(ExitKind::Completed);
        }
        Given { ask, to: Taker::Stopped } => say(&format!("{ask} is answered")),
    }
    let run = Some(run);
    resume(ResumeArgs { run, fresh: false, diff: false, options: RunOptions::default(), place: args.place })
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

fn is_answered(ask: &str, run: &str) -> String {
    format!("{ask} is answered; continue with: {}", advice::command(&format!("resume {run}")))
}
