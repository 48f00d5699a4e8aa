//! Taking over from a process that died: its steps are ended before they run again, and what they cost is counted.

use std::fs::File;
use std::io::Read;

use raymond_core::event::Interrupted;
use raymond_core::money::Usd;
use raymond_core::run::{Agent, Run, Status, Work};

use crate::agent::claude::Decoder;
use crate::agent::{Cost, Exit};
use crate::error::UserError;
use crate::process::{Reaper, Target};
use crate::run::step::leftovers;
pub use crate::run::step::token;
use crate::store::RunPaths;
use crate::view::debug::{DebugFolder, StepName};

/// How much of what a lost turn streamed is looked at.
const MAX_STREAM_BYTES: u64 = 64 * 1024 * 1024;

/// Ends what is left of steps that were running when the last process died, so that none gets a twin, and says which
/// steps have to run again.
pub fn take_over(
    run: &Run,
    paths: &RunPaths,
    reaper: &Reaper,
    debug: &DebugFolder,
) -> Result<Vec<Interrupted>, UserError> {
    let end = |targets| reaper.end_blocking(targets);
    take_over_with(run, paths, end, |agent, work| estimated_cost(agent, work, debug))
}

/// The same with other means: `end` gives back what it could not end, `estimate` what a lost attempt cost.
pub fn take_over_with(
    run: &Run,
    paths: &RunPaths,
    end: impl FnOnce(Vec<Target>) -> Vec<i32>,
    estimate: impl Fn(&Agent, &Work) -> Usd,
) -> Result<Vec<Interrupted>, UserError> {
    let mut tokens = Vec::new();
    let mut interrupted = run.interrupted();
    for agent in run.agents_by_birth() {
        if let Status::Running { work, .. } = &agent.status {
            tokens.push(token(&run.nonce, work.step, work.attempt));
            interrupted.push(Interrupted {
                agent: agent.id.clone(),
                step: work.step,
                state: agent.state.clone(),
                estimated_cost_usd: estimate(agent, work),
            });
        }
    }
    if tokens.is_empty() {
        return Ok(interrupted);
    }
    let survivors = end(leftovers(paths, tokens));
    if survivors.is_empty() {
        return Ok(interrupted);
    }
    Err(UserError::failed(format!("processes of the interrupted steps could not be ended: {survivors:?}"))
        .hint("end them yourself, then resume again"))
}

/// What a lost turn is thought to have cost, by what its program had streamed.
fn estimated_cost(agent: &Agent, work: &Work, debug: &DebugFolder) -> Usd {
    if !agent.state.kind().is_prompt() {
        return Usd::ZERO;
    }
    let name = StepName { agent: &agent.id, state: &agent.state, step: work.step, attempt: work.attempt };
    let mut stream = Vec::new();
    let file = debug.streamed(name).and_then(|path| File::open(path).ok());
    let read = file.map(|file| file.take(MAX_STREAM_BYTES).read_to_end(&mut stream));
    if !matches!(read, Some(Ok(_))) {
        return Usd::ZERO;
    }
    let previous = work.conversation(agent).and_then(|session| session.total_usd).map(Usd::dollars);
    let mut decoder = Decoder::new("", previous);
    decoder.feed(&stream);
    let cost: Cost = match decoder.finish(Exit::Stopped, "") {
        Ok(report) => report.cost,
        Err(turn) => turn.cost,
    };
    Usd::from_dollars(cost.usd)
}
