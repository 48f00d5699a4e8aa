//! Takes over from a process that died: its steps are ended before they run again, and their cost is counted.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use jiff::Timestamp;
use raymond_core::event::Interrupted;
use raymond_core::input::Input;
use raymond_core::money::Usd;
use raymond_core::run::{Agent, Run, Session, Status, Work};

use crate::agent::registry::{Backend, Backends};
use crate::agent::{Continued, DEFAULT_BACKEND, Turn};
use crate::error::UserError;
use crate::files::open_plain;
use crate::process::{Reaper, Target};
use crate::run::driver::now;
pub use crate::run::job::token;
use crate::run::step::leftovers;
use crate::view::debug::{DebugFolder, StepName};

/// An attempt that was running when its process died.
#[derive(Clone, Copy, Debug)]
pub struct Lost<'a> {
    pub agent: &'a Agent,
    pub work: &'a Work,
    pub since: Timestamp,
    /// Whether a program is known to have been started for it.
    pub had_started: bool,
}

/// Ends the processes of steps that were running when the last process died, so that no step runs twice at the same
/// time, and says which steps have to run again. `identity` distinguishes the run from copies of it. `debug` is the folder of debug files, if there is one. Returns the
/// input that opens the resumed run.
pub fn take_over(
    run: &Run,
    identity: &str,
    scratch: &Path,
    reaper: &Reaper,
    debug: &DebugFolder,
    backends: &Backends,
) -> Result<(Vec<Interrupted>, Vec<Input>), UserError> {
    let end = |targets| reaper.end_blocking(targets);
    let model = run.options.model.as_deref();
    let mut costs = Costs { debug, backends, model, warnings: Vec::new() };
    let interrupted = take_over_with(run, identity, scratch, end, |lost| costs.of(lost))?;
    Ok((interrupted, costs.warnings))
}

/// The same with other functions: `end` returns what it could not end, `estimate` returns what a lost attempt cost.
pub fn take_over_with(
    run: &Run,
    identity: &str,
    scratch: &Path,
    end: impl FnOnce(Vec<Target>) -> Vec<i32>,
    mut estimate: impl FnMut(Lost<'_>) -> Usd,
) -> Result<Vec<Interrupted>, UserError> {
    let mut interrupted = run.interrupted();
    let running: Vec<(&Agent, &Work, Timestamp)> = run
        .agents_by_birth()
        .into_iter()
        .filter_map(|agent| match &agent.status {
            Status::Running { work, started } => Some((agent, work.as_ref(), *started)),
            _ => None,
        })
        .collect();
    if running.is_empty() {
        return Ok(interrupted);
    }
    let tokens = running.iter().map(|(_, work, _)| token(&run.nonce, identity, work.step, work.attempt));
    tracing::debug!(attempts = running.len(), "end what is left of interrupted steps");
    let leftovers = leftovers(scratch, tokens.collect());
    for ((agent, work, since), left) in running.into_iter().zip(&leftovers) {
        let lost = Lost { agent, work, since, had_started: left.had_started };
        interrupted.push(Interrupted {
            agent: agent.id.clone(),
            step: work.step,
            state: agent.state.clone(),
            estimated_cost_usd: estimate(lost),
        });
    }
    let survivors = end(leftovers.into_iter().map(|left| left.target).collect());
    if survivors.is_empty() {
        return Ok(interrupted);
    }
    Err(UserError::failed(format!("processes of the interrupted steps could not be ended: {survivors:?}"))
        .hint("end them yourself, then resume again"))
}

/// Estimates the cost of lost turns.
struct Costs<'a> {
    debug: &'a DebugFolder,
    backends: &'a Backends,
    /// The model of turns that choose none, in journals of earlier versions, which do not name the model of a turn.
    model: Option<&'a str>,
    /// Warnings for the user about the estimate.
    warnings: Vec<Input>,
}

impl Costs<'_> {
    /// From the output of the turn's program, if it was kept. Otherwise the share of the budget that the turn was
    /// given, because it may have used all of it.
    fn of(&mut self, lost: Lost<'_>) -> Usd {
        if !lost.agent.state.kind().is_prompt() {
            return Usd::ZERO;
        }
        let program = self.program_of(lost);
        // A conversation of another backend is not continued, so its total says nothing about this turn.
        let is_continued = |session: &&Session| session.is_of(backend_of(lost));
        let earlier = lost.work.conversation(lost.agent).filter(is_continued);
        let continues = earlier.map(|session| Continued {
            total_usd: session.total_usd.map(Usd::dollars),
            total_tokens: session.total_tokens,
            ..Continued::default()
        });
        let of_turn = lost.work.model.as_deref();
        let of_session = earlier.and_then(|session| session.model.as_deref());
        let of_backend = program.and_then(|program| program.model.as_deref());
        let model = of_turn.or(of_session).or(self.model).or(of_backend).map(str::to_owned);
        let pricing = program.map(|program| self.backends.pricing(program)).unwrap_or_default();
        let session = lost.work.session.clone();
        let turn = Turn { session, continues, model, pricing, ..Turn::default() };
        let [mut kept, mut stderr] = self.kept_output(lost);
        let [kept, stderr] =
            [&mut kept, &mut stderr].map(|file| file.as_mut().map(|file| file as &mut dyn Read));
        if let Some(cost) = program.and_then(|program| program.cost_of_lost_turn(&turn, kept, stderr)) {
            return cost.counted(lost.work.share_usd).usd();
        }
        if !lost.had_started && !has_host_restarted_since(lost.since) {
            return Usd::ZERO;
        }
        let holds_share = program.is_none_or(|program| program.capabilities().budget_share);
        let share = lost.work.share_usd.filter(|_| holds_share);
        self.warn(lost, share);
        share.unwrap_or(Usd::ZERO)
    }

    /// The agent program of the turn; `None` if its backend is no longer in the config.
    fn program_of(&self, lost: Lost<'_>) -> Option<&Backend> {
        self.backends.get(backend_of(lost)).ok()
    }

    /// What the program printed, and what it wrote to stderr.
    fn kept_output(&self, lost: Lost<'_>) -> [Option<File>; 2] {
        let Lost { agent, work, .. } = lost;
        let name = StepName { agent: &agent.id, state: &agent.state, step: work.step, attempt: work.attempt };
        [self.debug.streamed(name), self.debug.stderr(name)].map(|path| open_plain(&path?).ok())
    }

    fn warn(&mut self, lost: Lost<'_>, share: Option<Usd>) {
        let what = format!("nothing was kept of what the interrupted turn in {} printed", lost.agent.state);
        let message = match share {
            Some(share) => format!("{what}; its share of the budget, {share}, is counted as its cost"),
            None => {
                format!("{what}, and it had no share of a budget; what it cost is not known and not counted")
            }
        };
        self.warnings.push(Input::Warning { agent: Some(lost.agent.id.clone()), message });
    }
}

/// The backend of the turn. Journals of version 0.1 do not tell it.
fn backend_of(lost: Lost<'_>) -> &str {
    lost.work.backend.as_deref().unwrap_or(DEFAULT_BACKEND)
}

/// Whether the machine was started again since then, so that notes about started programs may be gone: they are not
/// synced. Where this cannot be told, they are believed.
fn has_host_restarted_since(time: Timestamp) -> bool {
    let uptime = crate::files::read_text(Path::new("/proc/uptime"), crate::files::MAX_GIVEN_BYTES).ok();
    let seconds = uptime.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    let booted_at = seconds
        .and_then(|seconds| now().checked_sub(std::time::Duration::try_from_secs_f64(seconds).ok()?).ok());
    booted_at.is_some_and(|booted_at| booted_at > time)
}
