//! A prompt state: one turn of an agent.

mod session_lock;
mod turn;

use raymond_core::input::FaultClass;
use raymond_core::input::{BadMessage, CompletedTurn, FailedTurn, StepOutcome, TurnCost, TurnOutcome};
use raymond_core::money::Usd;
use raymond_core::payload::Payload;
use raymond_core::run::Session;
use raymond_core::tag::{Collected, NearMiss, Tag, TagCollector, TagError, TagReader};
use raymond_core::transition::{self, ProtocolError, Reading};
use raymond_core::variable::Rules;
use raymond_core::workflow::Platform;

use super::gate::Place;
use super::script::print;
use super::{LocalExecutor, NotReady};
use crate::process::StopSignal;
use crate::run::job::StepJob;
use crate::view::debug::StepFiles;
use crate::view::recorder::Said;

/// How a turn ended, before its final message is read.
enum Turned {
    Completed {
        text: String,
        session: Option<Session>,
        cost: TurnCost,
        warnings: Vec<String>,
        tools: Vec<String>,
    },
    Failed(FailedTurn),
    Interrupted {
        cost: Usd,
    },
}

pub(super) async fn run(
    executor: &LocalExecutor,
    job: &StepJob,
    place: &Place<'_>,
    stop: StopSignal,
    files: &mut StepFiles,
) -> StepOutcome {
    let began = tokio::time::Instant::now();
    let turned = match turn::take(executor, job, place, stop, files).await {
        Ok(turned) => turned,
        Err(NotReady::Store(error)) => return executor.give_up(error),
        Err(NotReady::Step(error)) => Turned::Failed(final_fault(error)),
    };
    StepOutcome::Turn(match turned {
        Turned::Interrupted { cost } => return StepOutcome::Interrupted { cost },
        Turned::Failed(failed) => {
            let message = failed.message.map(|message| match message {
                Payload::Inline(text) => executor.without_secrets(job, text).into(),
                stored @ Payload::Stored { .. } => stored,
            });
            TurnOutcome::Failed(FailedTurn { message, ..failed })
        }
        Turned::Completed { text, session, cost, warnings, tools } => {
            let (reading, other_case) = read(&text, executor.platform);
            let file = files.output_path();
            let message = executor.without_secrets(job, text);
            if let Some(recorder) = &executor.recorder {
                let hide = |text: String| executor.without_secrets(job, text);
                let session = session.as_ref().map(|session| session.id.clone());
                let duration = began.elapsed();
                recorder.completed(
                    job,
                    Said { reply: &message, cost: cost.usd(), session, duration, tools },
                    hide,
                );
            }
            TurnOutcome::Completed(CompletedTurn {
                reading,
                other_case,
                message: message.into(),
                last_lines: None,
                file,
                session,
                cost,
                warnings,
            })
        }
    })
}

/// The transition in a final message, and the tags in another case.
fn read(text: &str, platform: Platform) -> (Result<Reading, BadMessage>, Vec<NearMiss>) {
    let mut collected = match collect(text) {
        Ok(collected) => collected,
        Err(error) => {
            return (Err(BadMessage { problem: error.to_string(), has_no_tag: false }), Vec::new());
        }
    };
    let other_case = std::mem::take(&mut collected.near.if_state);
    let rules = Rules { from_model: true, case_insensitive: platform == Platform::Windows };
    let reading = transition::read(collected, rules).map_err(|error| BadMessage {
        problem: error.problem(),
        has_no_tag: matches!(error, ProtocolError::NoTag { .. }),
    });
    (reading, other_case)
}

fn collect(text: &str) -> Result<Collected, TagError> {
    let mut tags = TagCollector::new();
    // Printed text was shown when it arrived.
    tags.feed(text.as_bytes(), &mut |_| {})?;
    tags.finish(&mut |_| {})
}

/// Shows the printed text in a piece of the agent's text.
fn show_prints(executor: &LocalExecutor, job: &StepJob, text: &str) {
    let mut reader = TagReader::new();
    let mut show = |tag: Tag| {
        if !tag.name.is_transition() {
            print(executor, job, tag.content);
        }
    };
    // Errors in the tags are found when the final message is read.
    if reader.feed(text.as_bytes(), &mut show).is_ok() {
        let _ = reader.finish(&mut show);
    }
}

/// A turn that could not be run and would fail again in the same way.
pub(super) fn final_fault(error: String) -> FailedTurn {
    FailedTurn {
        error,
        class: FaultClass::Final,
        cost: TurnCost::default(),
        session: None,
        exit_code: None,
        message: None,
        warnings: Vec::new(),
    }
}
