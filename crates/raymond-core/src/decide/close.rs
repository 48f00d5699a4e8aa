//! The end of a run, or of the work of this process on it.

use jiff::Timestamp;

use crate::event::{Body, FinishedStatus, Interrupted, OpenAsk, StoppedStatus, Totals};
use crate::run::{Halt, Run, Status};

pub(super) fn close(
    run: &Run,
    now: Timestamp,
    (stop_requested, terminated): (bool, bool),
    ended: Vec<Interrupted>,
) -> Body {
    let mut interrupted = run.interrupted();
    interrupted.extend(ended);
    interrupted.sort_by_key(|step| run.agents.get(&step.agent).map(|agent| agent.birth));
    let totals = Totals {
        steps: run.steps_completed,
        agents: run.agents_started,
        cost_usd: run.cost_usd + interrupted.iter().map(|step| step.estimated_cost_usd).sum(),
        duration_ms: run.duration_ms(now),
        failed_workers: run.failed_workers,
    };
    if run.agents.is_empty() {
        return Body::RunFinished { status: FinishedStatus::Completed, result: run.result.clone(), totals };
    }
    let (status, error) = stopped(run, stop_requested);
    let asks = run.asks().into_iter().map(|(agent, ask)| OpenAsk {
        ask: ask.id.clone(),
        agent: agent.id.clone(),
        title: agent.title(),
        question: ask.question.clone(),
    });
    let terminated = terminated && status == StoppedStatus::Interrupted;
    Body::RunStopped { status, error, asks: asks.collect(), interrupted, terminated, totals }
}

/// Why a run stops although it has agents left; the most serious reason first.
fn stopped(run: &Run, stop_requested: bool) -> (StoppedStatus, Option<String>) {
    match &run.halt {
        Some(Halt::OverBudget) if run.has_only_ended() => {}
        Some(Halt::OverBudget) => {
            let error = format!("spent {} of a budget of {}", run.cost_usd, run.options.budget_usd);
            return (StoppedStatus::OverBudget, Some(error));
        }
        Some(Halt::Limited { error }) => return (StoppedStatus::Limited, Some(error.clone())),
        Some(Halt::Failed { .. }) | None => {}
    }
    let has_failed = run.halt.is_some() || run.failed_agents().next().is_some();
    if !run.asks().is_empty() && !stop_requested {
        return (StoppedStatus::Waiting, has_failed.then(|| failure(run)));
    }
    if run.halt.is_none() && stop_requested && run.failed_agents().count() < run.agents.len() {
        return (StoppedStatus::Interrupted, None);
    }
    (StoppedStatus::Failed, Some(failure(run)))
}

fn failure(run: &Run) -> String {
    if let Some(Halt::Failed { error }) = &run.halt {
        return error.clone();
    }
    let mut failures = run.failed_agents().filter_map(|id| run.agents.get(id)).filter_map(|agent| {
        let Status::Failed { error, .. } = &agent.status else { return None };
        Some(format!("{} failed in {}: {error}", agent.named(), agent.state))
    });
    let Some(first) = failures.next() else {
        let most = run.options.max_steps.unwrap_or(run.steps_started);
        let plural = if most == 1 { "" } else { "s" };
        return format!("reached the limit of {most} step{plural}; resume with a higher --max-steps");
    };
    match failures.count() {
        0 => first,
        more => format!("{first} (and {more} more failed)"),
    }
}
