//! `raymond answer`

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::args::{AnswerArgs, Place, ResumeArgs, RunOptions};
use super::choose::{Intent, choose};
use super::elsewhere::wedged_there;
use super::find::store;
use super::print::say;
use super::resume::resume;
use crate::advice;
use crate::error::{ExitKind, UserError};
use crate::run::answering::{Given, Taker, give, is_ask_id, message_name, was_asked};
use crate::run::caller::Caller;
use crate::run::driver::Way;
use crate::store::{RunHandle, RunStore};

/// The longest answer.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

pub(super) fn answer(args: AnswerArgs) -> Result<ExitKind, UserError> {
    let store = store(&args.place)?;
    // The words are read from the end: the answer is always there. Nothing else is guessed.
    let words: Vec<&String> =
        [args.first.as_ref(), args.second.as_ref(), args.third.as_ref()].into_iter().flatten().collect();
    let (stored, ask, text) = match *words.as_slice() {
        [run, ask, text] => (choose(&*store, Some(run), Intent::Answer)?, Some(ask.clone()), text),
        [run, text] => {
            let stored = choose(&*store, Some(run), Intent::Answer)?;
            refuse_ask_alone(&*stored, text)?;
            (stored, None, text)
        }
        [text] => {
            refuse_run_alone(&*store, text)?;
            let (stored, ask) = only_question(&*store)?;
            refuse_ask_alone(&*stored, text)?;
            (stored, Some(ask), text)
        }
        _ => {
            return Err(UserError::usage("the answer is missing")
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
    let ask = match given {
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
        Given { ask, to: Taker::Stopped } if args.no_resume => {
            say(&is_answered(&ask, &run));
            return Ok(ExitKind::Completed);
        }
        Given { ask, to: Taker::Stopped } => {
            say(&format!("{ask} is answered; {run} goes on"));
            ask
        }
    };
    if args.detach {
        return resume_beside(&*stored, &ask, &args.place);
    }
    let run = Some(run);
    resume(ResumeArgs { run, fresh: false, diff: false, options: RunOptions::default(), place: args.place })
}

/// How long a process of its own may take until it has the run.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lets a run go on in a process that outlives this one.
fn resume_beside(stored: &dyn RunHandle, ask: &str, place: &Place) -> Result<ExitKind, UserError> {
    let cannot = |error: std::io::Error| {
        UserError::failed(format!("{} does not go on: {error}", stored.id()))
            .hint(advice::command(&format!("resume {}", stored.id())))
    };
    let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
    command.arg("resume").arg("--quiet");
    if let Some(folder) = &place.state_dir {
        command.arg("--state-dir").arg(folder);
    }
    command.arg("--").arg(stored.id()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    crate::serve::detach(&mut command);
    let mut child = command.spawn().map_err(cannot)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let ended = child.try_wait().map_err(cannot)?;
        if !stored.inbox().contains(&message_name(ask)) {
            say(&format!(
                "see how it goes on: {}",
                advice::command(&format!("log {} --follow", stored.id()))
            ));
            return Ok(ExitKind::Completed);
        }
        if ended.is_some() || Instant::now() > deadline {
            return Err(UserError::failed(format!("{} does not go on", stored.id()))
                .hint(format!("see why: {}", advice::command(&format!("resume {}", stored.id())))));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The id of a question alone is more likely a forgotten answer than an answer.
fn refuse_ask_alone(stored: &dyn RunHandle, text: &str) -> Result<(), UserError> {
    match stored.load().is_ok_and(|run| is_ask_id(text) && was_asked(&run, text)) {
        true => {
            Err(UserError::usage(format!("the answer is missing: {text} is a question of {}", stored.id()))
                .hint(advice::command(&format!("answer {} {text} 'your answer'", stored.id()))))
        }
        false => Ok(()),
    }
}

/// A run's id alone is more likely a forgotten answer than an answer.
fn refuse_run_alone(store: &dyn RunStore, text: &str) -> Result<(), UserError> {
    match store.list()?.iter().any(|entry| entry.run.id() == text) {
        true => Err(UserError::usage(format!("the answer is missing: {text} is a run"))
            .hint(advice::command(&format!("answer {text} 'your answer'")))),
        false => Ok(()),
    }
}

/// The only question that waits for an answer, in all runs.
fn only_question(store: &dyn RunStore) -> Result<(Arc<dyn RunHandle>, String), UserError> {
    let mut open = Vec::new();
    for entry in store.list()? {
        // A damaged run asks nothing that could be answered.
        let Ok(run) = entry.run.load() else { continue };
        let inbox = entry.run.inbox();
        for (_, question) in run.asks().into_iter().filter(|_| !run.is_dropped()) {
            if !inbox.contains(&message_name(&question.id)) {
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
