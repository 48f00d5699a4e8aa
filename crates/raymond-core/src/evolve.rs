//! Folds events into the state of a run. Total: an event that does not fit is ignored, so any prefix of a journal can
//! be folded.

#![warn(clippy::wildcard_enum_match_arm, reason = "a new event must be handled here")]

mod again;
mod branch;
mod relocate;

pub use relocate::relocate;

use jiff::Timestamp;

use crate::event::{
    AgentStarted, AskClosed, AskOpened, Body, Closed, Event, LedTo, LimitWaiting, NextTry, OtherWorkflow,
    Parts, Reminder, Retry, RunResumed, SessionStarted, StepFinished, StepStarted,
};
use crate::limits::{MAX_REMEMBERED_STDERR_BYTES, MAX_UNJOINED_WORKERS};
use crate::money::Usd;
use crate::name::AgentId;
use crate::payload::Payload;
use crate::run::{
    Agent, Ask, Frame, Halt, LastOutput, Run, RunStatus, Say, Session, Status, Wait, Work, Worker,
};
use crate::snapshot::{FilesSnapshot, TaskFiles};
use crate::tag::{SessionEffect, StackEffect, Waits};
use crate::workflow::StateFile;

/// Folds one event into a run. The first event of a journal makes the run, as does a snapshot.
pub fn evolve(run: Option<Run>, event: &Event) -> Option<Run> {
    match (run, &event.body) {
        (None, Body::RunStarted(started)) if started.origin.is_none() => {
            let mut run = Run::new(event.run.clone(), started, event.time);
            run.seq = event.seq;
            Some(run)
        }
        (_, Body::Snapshot { state }) => Some(restore((**state).clone(), event.seq)),
        (Some(mut run), _) => {
            apply(&mut run, event);
            Some(run)
        }
        (None, _) => None,
    }
}

/// The last whole lines of a text that fit the limit, or the end of the last line if that alone is too long.
fn end_of(text: &str) -> &str {
    let mut start = text.len().saturating_sub(MAX_REMEMBERED_STDERR_BYTES);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    match (start, text[start..].split_once('\n')) {
        (0, _) | (_, None) => &text[start..],
        (_, Some((_, whole_lines))) => whole_lines,
    }
}

/// Restores a run from a snapshot that was taken after the event `seq`.
pub fn restore(mut run: Run, seq: u64) -> Run {
    run.rebuild_queues();
    run.fill_in();
    run.seq = seq;
    run
}

/// Folds one event into a run that exists.
pub fn apply(run: &mut Run, event: &Event) {
    run.seq = event.seq;
    run.wake(event.time);
    run.cost_usd += event.body.cost();
    run.tokens = run.tokens.plus(event.body.tokens());
    match &event.body {
        Body::AgentStarted(started) => agent_started(run, event.seq, started),
        Body::StepStarted(started) => step_started(run, event.time, started),
        Body::SessionStarted(started) => session_started(run, started),
        Body::StepFinished(finished) => step_finished(run, event.seq, finished),
        Body::StepFailed(failed) => {
            if failed.fatal {
                let named = run.agents.get(&failed.agent).map(Agent::named);
                let named = named.unwrap_or_else(|| failed.agent.to_string());
                let error = format!("{named} failed in {}: {}", failed.state, failed.error);
                run.halt.get_or_insert(Halt::Failed { error });
            }
            let (error, stderr) = (failed.error.clone(), end_of(&failed.stderr).to_owned());
            run.update(&failed.agent, |agent| {
                let waited = matches!(agent.status, Status::Asking { .. } | Status::Joining { .. });
                let waited = waited.then(|| Box::new(agent.status.clone()));
                let output = (!failed.output.is_empty()).then(|| {
                    let lines = end_of(&failed.output).to_owned();
                    Box::new(LastOutput { lines, file: failed.output_file.clone() })
                });
                agent.status = Status::Failed { error, stderr, output, waited };
            });
        }
        Body::Retry(retry) => retried(run, event.seq, retry),
        Body::Reminder(reminder) => reminded(run, event.seq, reminder),
        Body::LimitWaiting(limit) => limited(run, event.seq, limit),
        Body::Delayed { agent, until, .. } => run.update(agent, |agent| {
            agent.status = Status::Waiting {
                until: *until,
                why: Wait::Delay,
                since: event.seq,
                work: None,
                error: None,
            };
        }),
        Body::ExclusiveWaiting { agent, exclusive, .. } => {
            run.update(agent, |agent| agent.waits_for_name = Some(exclusive.clone()));
        }
        Body::AgentFinished { agent, result, .. } => agent_finished(run, agent, result),
        Body::Joined { agent, workers, result, .. } => joined(run, event.seq, agent, workers, result),
        Body::AskOpened(opened) => ask_opened(run, event.time, opened),
        Body::AskClosed(closed) => ask_closed(run, event.seq, closed),
        Body::BudgetExceeded { .. } => run.halt = Some(Halt::OverBudget),
        Body::AgentRetried { agent, .. } => again::retried(run, event, agent),
        Body::AgentMoved { agent, target, input, .. } => {
            again::moved(run, event.seq, agent, target, input.as_ref());
        }
        Body::RunResumed(resumed) => run_resumed(run, event, resumed),
        Body::RunFinished { status, .. } => ended(run, event.time, (*status).into()),
        Body::RunStopped { status, interrupted, terminated, .. } => {
            run.was_terminated = *terminated;
            for step in interrupted {
                give_reply_back(run, &step.agent);
                run.update(&step.agent, |agent| {
                    cut_off(&mut agent.status, step.step);
                    charge(&mut agent.status, step.estimated_cost_usd);
                });
            }
            ended(run, event.time, (*status).into());
        }
        Body::RunStarted(started) => branch::begun(run, event, started),
        Body::Print { .. } | Body::Warning { .. } | Body::Snapshot { .. } => {}
    }
    note_time(run, event);
    note_cost(run, event);
    run.last_time = event.time;
}

/// Notes when an agent entered its state or began to wait. A further attempt is still the same stay in the state.
fn note_time(run: &mut Run, event: &Event) {
    let agent = match &event.body {
        Body::AgentStarted(started) => &started.agent,
        Body::StepStarted(started) if started.attempt <= 1 => &started.agent,
        Body::StepFinished(finished) => &finished.agent,
        Body::StepFailed(failed) => &failed.agent,
        Body::Delayed { agent, .. } | Body::Joined { agent, .. } => agent,
        Body::AskOpened(opened) => &opened.agent,
        Body::AskClosed(closed) => &closed.agent,
        Body::AgentRetried { agent, .. } | Body::AgentMoved { agent, .. } => agent,
        Body::RunResumed(_) => {
            let is_ready = |agent: &&mut Agent| matches!(agent.status, Status::Ready { .. });
            return run.agents.values_mut().filter(is_ready).for_each(|agent| agent.since = event.time);
        }
        Body::StepStarted(_)
        | Body::SessionStarted(_)
        | Body::Retry(_)
        | Body::Reminder(_)
        | Body::LimitWaiting(_)
        | Body::ExclusiveWaiting { .. }
        | Body::AgentFinished { .. }
        | Body::RunStarted(_)
        | Body::Print { .. }
        | Body::Warning { .. }
        | Body::BudgetExceeded { .. }
        | Body::RunFinished { .. }
        | Body::RunStopped { .. }
        | Body::Snapshot { .. } => return,
    };
    if let Some(agent) = run.agents.get_mut(agent) {
        agent.since = event.time;
    }
}

/// Adds the cost of an attempt to the cost of its agent.
fn note_cost(run: &mut Run, event: &Event) {
    let mut add = |agent: &AgentId, cost: Usd| {
        if let Some(agent) = run.agents.get_mut(agent) {
            agent.cost_usd += cost;
        }
    };
    if let Some(agent) = event.body.ended_attempt_of() {
        add(agent, event.body.cost());
    }
    if let Body::RunResumed(RunResumed { interrupted, .. }) | Body::RunStopped { interrupted, .. } =
        &event.body
    {
        interrupted.iter().for_each(|step| add(&step.agent, step.estimated_cost_usd));
    }
}

fn agent_started(run: &mut Run, seq: u64, started: &AgentStarted) {
    run.agents_started = run.agents_started.saturating_add(1);
    entered(run, started.workflow.as_ref());
    if let Some(worktree) = started.worktree.as_deref() {
        run.worktrees.insert(worktree.name.to_ascii_lowercase(), worktree.clone());
    }
    if let Some(forked) = &started.forked {
        run.update(&forked.parent, |parent| parent.forks = forked.fork);
        run.used_names.insert(&started.agent, forked.number);
        let worker = Worker {
            agent: started.agent.clone(),
            state: started.state.clone(),
            attributes: forked.attributes.clone(),
            worktree: started.worktree.clone(),
            result: None,
        };
        run.add_worker(&forked.parent, forked.fork, worker);
    }
    let mut agent = Agent {
        id: started.agent.clone(),
        parent: started.parent().cloned(),
        birth: run.agents_started,
        state: started.state.clone(),
        payload: None,
        cwd: started.cwd.clone(),
        scope: started.workflow.as_ref().map(|workflow| workflow.scope.clone()),
        inputs: started.workflow.as_ref().and_then(|workflow| workflow.inputs.clone()),
        session: None,
        stack: Vec::new(),
        attributes: started.forked.as_ref().map(|forked| forked.attributes.clone()).unwrap_or_default(),
        attributes_from_model: started.forked.as_ref().is_some_and(|forked| forked.from_model),
        worktree: started.worktree.clone(),
        task_files: run.options.snapshots.then(|| Box::new(TaskFiles::Empty)),
        visits: Default::default(),
        forks: 0,
        fork: started.forked.as_ref().map_or(0, |forked| forked.fork),
        ask_id: None,
        since: run.last_time,
        cost_usd: Usd::ZERO,
        waits_for_name: None,
        status: Status::Joining { since: seq },
    };
    enter(&mut agent, seq, &started.state, started.input.as_ref());
    run.add(agent);
}

/// Moves an agent into a state. The state's input is dropped when the agent leaves the state.
fn enter(agent: &mut Agent, seq: u64, state: &StateFile, payload: Option<&Payload>) {
    agent.state = state.clone();
    let visits = agent.visits.entry(agent.place()).or_default();
    *visits = visits.saturating_add(1);
    agent.payload = payload.cloned();
    agent.ask_id = None;
    agent.waits_for_name = None;
    agent.status = Status::Ready { since: seq, work: None };
}

fn step_started(run: &mut Run, time: Timestamp, started: &StepStarted) {
    run.steps_started = run.steps_started.max(started.step);
    let Some(place) = run.agents.get(&started.agent).map(Agent::place) else { return };
    run.hashes.insert(place.clone(), started.hash.clone());
    let turn = started.turn.as_ref();
    if let Some(turn) = turn {
        let turns = run.turns.entry(place).or_default();
        *turns = turn.number.max(*turns);
    }
    run.used_replies.extend(turn.and_then(|turn| turn.reply));
    run.update(&started.agent, |agent| {
        let before = agent.work().filter(|work| work.step == started.step).cloned();
        let work = Work {
            attempt: started.attempt,
            turn: turn.map(|turn| turn.number),
            backend: turn.and_then(|turn| turn.backend.clone()),
            model: turn.and_then(|turn| turn.model.clone()),
            session: turn.and_then(|turn| turn.session.clone()),
            share_usd: turn.and_then(|turn| turn.share_usd),
            interrupted: None,
            exclusive: started.exclusive.clone(),
            reply: turn.and_then(|turn| turn.reply),
            ..before.unwrap_or_else(|| Work::first(started.step))
        };
        agent.waits_for_name = None;
        agent.status = Status::Running { work: Box::new(work), started: time };
    });
}

fn session_started(run: &mut Run, started: &SessionStarted) {
    run.update(&started.agent, |agent| {
        if let Status::Running { work, .. } = &mut agent.status
            && (work.step, work.attempt) == (started.step, started.attempt)
        {
            work.session = Some(started.session.clone());
        }
    });
}

/// An archive is remembered as it was when it was last entered.
fn entered(run: &mut Run, workflow: Option<&OtherWorkflow>) {
    if let Some(OtherWorkflow { scope, scope_hash: Some(hash), .. }) = workflow {
        run.scope_hashes.insert(scope.clone(), hash.clone());
    }
}

fn step_finished(run: &mut Run, seq: u64, finished: &StepFinished) {
    run.steps_completed = run.steps_completed.saturating_add(1);
    if let Some(files) = &finished.files {
        run.snapshots.insert(files.folder.clone(), files.commit.clone());
    }
    entered(run, finished.led_to.parts().workflow);
    run.update(&finished.agent, |agent| {
        if let Some(session) = &finished.session {
            agent.session = Some(session.clone());
        }
        agent.task_files = finished.files.as_deref().and_then(task_files);
        take_transition(agent, seq, &finished.led_to);
    });
}

fn task_files(files: &FilesSnapshot) -> Option<Box<TaskFiles>> {
    let tree = files.task_folder.clone()?;
    Some(Box::new(TaskFiles::Tree { tree, repository: files.repository.clone() }))
}

/// Moves an agent on as the row of its tag says.
fn take_transition(agent: &mut Agent, seq: u64, led_to: &LedTo) {
    let Parts { tag, return_to, input, result, cwd, workflow, joins, target: _, next: _ } = led_to.parts();
    let facts = tag.facts();
    match facts.stack {
        StackEffect::Kept => {}
        StackEffect::Pushed => {
            let frame = return_to.map(|return_to| frame(agent, return_to));
            agent.stack.extend(frame);
        }
        StackEffect::Popped => {
            if let Some(frame) = agent.stack.pop() {
                agent.session = frame.session;
                agent.cwd = frame.cwd;
                agent.scope = frame.scope;
                agent.inputs = frame.inputs;
            }
        }
        StackEffect::Cleared => agent.stack.clear(),
    }
    match facts.session {
        SessionEffect::Fresh => agent.session = None,
        // The next turn branches off whatever is there, and what comes back came from the stack.
        SessionEffect::Kept | SessionEffect::Branched | SessionEffect::Restored => {}
    }
    if let Some(cwd) = cwd {
        cwd.clone_into(&mut agent.cwd);
    }
    if let Some(workflow) = workflow {
        agent.scope = Some(workflow.scope.clone());
        agent.inputs = workflow.inputs.clone();
    }
    if let Some(state) = led_to.enters() {
        enter(agent, seq, state, input);
    }
    if let Some(result) = result {
        agent.status = Status::Ending { result: result.clone() };
    }
    match facts.waits {
        // The event that opens the question follows.
        Waits::No | Waits::ForAnswer if !joins => {}
        Waits::No | Waits::ForAnswer | Waits::ForWorkers => agent.status = Status::Joining { since: seq },
    }
}

/// A frame remembers what its call left, so that the return finds it as it was.
fn frame(agent: &Agent, return_to: &StateFile) -> Frame {
    Frame {
        return_to: return_to.clone(),
        session: agent.session.clone(),
        cwd: agent.cwd.clone(),
        scope: agent.scope.clone(),
        inputs: agent.inputs.clone(),
    }
}

fn retried(run: &mut Run, seq: u64, retry: &Retry) {
    if retry.next_try == NextTry::AfterLoss {
        give_reply_back(run, &retry.agent);
    }
    let wait = (retry.until, Wait::Retry, Some(retry.error.clone()));
    wait_with_work(run, &retry.agent, seq, wait, |work| {
        let is_early = work.would_stop_early(retry.attempt_cost_usd);
        work.cost_usd += retry.attempt_cost_usd;
        match &retry.next_try {
            NextTry::GoOn(session) => {
                work.shares = work.shares.saturating_add(1);
                work.early_stops = work.early_stops.saturating_add(u32::from(is_early));
                work.say = Say::GoOn { session: session.clone() };
                work.turn = None;
            }
            NextTry::FromTheStart => work.retries = work.retries.saturating_add(1),
            NextTry::AfterLoss => work.losses = work.losses.saturating_add(1),
        }
    });
}

fn reminded(run: &mut Run, seq: u64, reminder: &Reminder) {
    run.update(&reminder.agent, |agent| {
        if let Status::Running { work, .. } = &agent.status {
            let say = Say::Reminder { text: reminder.text.clone(), session: reminder.session.clone() };
            let cost_usd = work.cost_usd + reminder.attempt_cost_usd;
            let work = Work {
                reminders: reminder.number,
                retries: 0,
                say,
                turn: None,
                share_usd: None,
                cost_usd,
                ..(**work).clone()
            };
            agent.status = Status::Ready { since: seq, work: Some(Box::new(work)) };
        }
    });
}

fn limited(run: &mut Run, seq: u64, limit: &LimitWaiting) {
    if let Some(fallback) = &limit.fallback {
        return fall_back(run, seq, limit, fallback);
    }
    if run.options.no_wait {
        // Being over budget is a more serious reason to stop than a usage limit; a failure is not.
        if run.halt != Some(Halt::OverBudget) {
            run.halt = Some(Halt::Limited { error: limit.error.clone() });
        }
    }
    wait_with_work(run, &limit.agent, seq, (limit.until, Wait::Limit, None), |work| {
        work.cost_usd += limit.attempt_cost_usd;
        work.paid_limits = work.paid_limits.saturating_add(is_paid(limit));
        // After the wait, the list of backends begins again.
        work.fallback = None;
    });
}

/// The next backend takes the turn at once.
fn fall_back(run: &mut Run, seq: u64, limit: &LimitWaiting, fallback: &str) {
    run.update(&limit.agent, |agent| {
        if let Status::Running { work, .. } = &agent.status {
            let work = Work {
                fallback: Some(fallback.to_owned()),
                cost_usd: work.cost_usd + limit.attempt_cost_usd,
                paid_limits: work.paid_limits.saturating_add(is_paid(limit)),
                share_usd: None,
                ..(**work).clone()
            };
            agent.status = Status::Ready { since: seq, work: Some(Box::new(work)) };
        }
    });
}

/// 1 if the attempt has cost something.
fn is_paid(limit: &LimitWaiting) -> u32 {
    u32::from(!limit.attempt_cost_usd.is_zero())
}

fn wait_with_work(
    run: &mut Run,
    id: &AgentId,
    seq: u64,
    (until, why, error): (Timestamp, Wait, Option<String>),
    change: impl FnOnce(&mut Work),
) {
    run.update(id, |agent| {
        if let Status::Running { work, .. } = &agent.status {
            let mut work = (**work).clone();
            change(&mut work);
            work.share_usd = None;
            agent.status = Status::Waiting { until, why, since: seq, work: Some(Box::new(work)), error };
        }
    });
}

fn agent_finished(run: &mut Run, id: &AgentId, result: &Payload) {
    if *id == AgentId::main() {
        run.result = Some(result.clone());
    }
    if let Some(agent) = run.agents.get(id)
        && let Some(parent) = agent.parent.clone()
    {
        run.finish_worker(&parent, agent.fork, result);
        forget_old_workers(run, &parent);
    }
    run.remove(id);
    run.release_workers(id);
}

/// A dispatcher that never joins must not use more and more memory: above a limit, its oldest workers' results are
/// dropped.
fn forget_old_workers(run: &mut Run, parent: &AgentId) {
    let Some(workers) = run.workers.get(parent) else { return };
    if workers.len() > MAX_UNJOINED_WORKERS
        && let Some(oldest) =
            workers.iter().find(|(_, worker)| worker.result.is_some()).map(|(fork, _)| *fork)
    {
        run.forget_worker(parent, oldest);
    }
}

/// A worker whose failure was delivered by a join counts as ended.
fn joined(run: &mut Run, seq: u64, id: &AgentId, workers: &[AgentId], result: &Payload) {
    for worker in workers {
        if run.agents.get(worker).is_some_and(|agent| matches!(agent.status, Status::Failed { .. })) {
            run.failed_workers = run.failed_workers.saturating_add(1);
        }
        run.remove(worker);
        run.release_workers(worker);
    }
    run.forget_workers(id);
    run.update(id, |agent| {
        agent.payload = Some(result.clone());
        agent.status = Status::Ready { since: seq, work: None };
    });
}

/// The number of a question; questions are numbered in the order they are asked.
fn ask_number(ask: &str) -> u64 {
    ask.strip_prefix("ask").and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn ask_opened(run: &mut Run, time: Timestamp, opened: &AskOpened) {
    run.asks_opened = run.asks_opened.max(ask_number(&opened.ask));
    let ask = Ask {
        id: opened.ask.clone(),
        question: opened.question.clone(),
        next: opened.next.clone(),
        opened_at: time,
        timeout_ms: opened.timeout_ms,
        deadline: opened.deadline,
        timeout_next: opened.timeout_next.clone(),
        empty_ok: opened.empty_ok,
    };
    run.update(&opened.agent, |agent| agent.status = Status::Asking { ask: Box::new(ask) });
}

fn ask_closed(run: &mut Run, seq: u64, closed: &AskClosed) {
    let empty = Payload::from("");
    let (target, answer) = match &closed.how {
        Closed::Answered { target, answer, .. } => (target, answer),
        Closed::TimedOut { target } => (target, &empty),
        // The event that fails the agent follows.
        Closed::Unanswered => return,
    };
    run.update(&closed.agent, |agent| {
        enter(agent, seq, target, Some(answer));
        agent.ask_id = Some(closed.ask.clone());
    });
}

/// A resume runs interrupted, failed and limited steps again at once.
fn run_resumed(run: &mut Run, event: &Event, resumed: &RunResumed) {
    if run.status == RunStatus::Running {
        // The last process died without a final event; it worked at least until its last event.
        run.spent_ms = run.duration_ms(run.last_time);
    }
    run.status = RunStatus::Running;
    run.halt = None;
    run.was_terminated = false;
    run.ended_at = None;
    run.resumed_at = event.time;
    run.options = resumed.options.clone();
    if let Some(moved) = &resumed.moved {
        relocate(run, moved);
    }
    for step in &resumed.interrupted {
        run.update(&step.agent, |agent| charge(&mut agent.status, step.estimated_cost_usd));
    }
    let retries_are_named = std::mem::take(&mut run.retries_are_named);
    let ids: Vec<AgentId> = run.agents.keys().cloned().collect();
    for id in ids {
        give_reply_back(run, &id);
        run.update(&id, |agent| {
            forget(agent, &resumed.forgotten);
            if !(retries_are_named && matches!(agent.status, Status::Failed { .. })) {
                agent.status = status_after_resume(agent, event);
            }
        });
    }
}

/// Drops conversations that cannot be continued any more.
fn forget(agent: &mut Agent, sessions: &[String]) {
    let is_gone = |session: &Session| sessions.contains(&session.id);
    agent.session.take_if(|session| is_gone(session));
    for frame in &mut agent.stack {
        frame.session.take_if(|session| is_gone(session));
    }
    if let Status::Ready { work: Some(work), .. }
    | Status::Waiting { work: Some(work), .. }
    | Status::Running { work, .. } = &mut agent.status
        && let Say::Reminder { session, .. } | Say::GoOn { session } = &work.say
        && is_gone(session)
    {
        // What the turn had said is gone with it.
        work.say = Say::Prompt;
    }
}

fn status_after_resume(agent: &Agent, event: &Event) -> Status {
    match &agent.status {
        Status::Running { work, .. } => {
            let work = Work { share_usd: None, ..(**work).clone() };
            Status::Ready { since: work.step, work: Some(Box::new(work)) }
        }
        // A question that timed out is opened again by a separate event.
        Status::Failed { waited: Some(waited), .. } => (**waited).clone(),
        Status::Failed { waited: None, .. } => Status::Ready { since: event.seq, work: None },
        Status::Waiting { why: Wait::Limit, since, work, .. } => {
            Status::Ready { since: *since, work: work.clone() }
        }
        same @ (Status::Ready { .. }
        | Status::Waiting { why: Wait::Delay | Wait::Retry, .. }
        | Status::Asking { .. }
        | Status::Joining { .. }
        | Status::Ending { .. }) => same.clone(),
    }
}

/// A turn that is interrupted runs again, so its prepared reply is not used up.
fn give_reply_back(run: &mut Run, agent: &AgentId) {
    if let Some(Status::Running { work, .. }) = run.agents.get(agent).map(|agent| &agent.status)
        && let Some(reply) = work.reply
    {
        run.used_replies.remove(&reply);
    }
}

/// Takes back an attempt that was ended because the run stops.
fn cut_off(status: &mut Status, step: u64) {
    if let Status::Running { work, .. } = status
        && work.step == step
    {
        let work = Work { share_usd: None, ..(**work).clone() };
        *status = Status::Ready { since: work.step, work: Some(Box::new(work)) };
    }
}

/// Counts what a lost attempt is thought to have cost, once.
fn charge(status: &mut Status, cost: Usd) {
    if let Status::Ready { work: Some(work), .. } | Status::Running { work, .. } = status {
        work.cost_usd += cost;
        work.interrupted = Some(Usd::ZERO);
    }
}

fn ended(run: &mut Run, time: Timestamp, status: RunStatus) {
    run.spent_ms = run.duration_ms(time);
    run.status = status;
    run.ended_at = Some(time);
    run.resumed_at = time;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_text_the_last_whole_lines_are_remembered() {
        assert_eq!(end_of("one\ntwo"), "one\ntwo");
        let long = format!("{}\nlast but one\nlast", "é".repeat(MAX_REMEMBERED_STDERR_BYTES));
        assert_eq!(end_of(&long), "last but one\nlast");
        let one_line = format!("x{}", "é".repeat(MAX_REMEMBERED_STDERR_BYTES));
        let end = end_of(&one_line);
        assert!(!end.is_empty() && end.len() <= MAX_REMEMBERED_STDERR_BYTES && one_line.ends_with(end));
    }
}
