//! The end of a prompt's turn.

use std::time::Duration;

use jiff::Timestamp;

use super::EndedStep;
use super::fault::{Fault, failed};
use super::transition::{self, Turn};
use crate::event::{Body, LimitWaiting, NextTry, Reminder, Retry};
use crate::folder::Folder;
use crate::frontmatter::ResultSchema;
use crate::input::{
    BadMessage, CompletedTurn, FailedTurn, FaultClass, PromptPlan, ShownOutput, TurnCost, TurnOutcome,
};
use crate::limits::{MAX_DURATION, MAX_EARLY_STOPS, MAX_PAID_LIMITS, MAX_SHARES};
use crate::payload::Payload;
use crate::policy::{Emitted, Entry, Policy};
use crate::run::{Session, later};
use crate::tag::{Attribute, Collected, Tag};
use crate::transition::{Reading, Transition, read};
use crate::variable::Rules;
use crate::workflow::StateFile;

/// How often an agent is reminded of the permitted transitions.
const MAX_REMINDERS: u32 = 3;
/// A longer schema is not repeated in a reminder.
const MAX_SHOWN_SCHEMA_BYTES: usize = 8 * 1024;
/// How long to wait before each retry of a program that failed.
const RETRY_AFTER: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(20)];
/// How often an attempt goes on at once that was stopped, not by a failure of its own. Shares of a wide fan-out are small.
const STOPS_WITHOUT_PAUSE: u32 = 6;
/// How long to wait for a usage limit that should already have ended.
const OVERDUE_LIMIT: Duration = Duration::from_secs(30);
/// How long to wait for a usage limit that does not say when it ends.
const UNKNOWN_LIMIT: Duration = Duration::from_secs(5 * 60);

pub(super) fn ended(step: &EndedStep<'_>, plan: &PromptPlan, outcome: TurnOutcome) -> Vec<Body> {
    match outcome {
        TurnOutcome::Completed(turn) => completed(step, plan, turn),
        TurnOutcome::Failed(mut turn) => {
            let mut events = transition::warnings(step, std::mem::take(&mut turn.warnings));
            events.push(turn_failed(step, plan, turn));
            events
        }
    }
}

fn completed(step: &EndedStep<'_>, plan: &PromptPlan, turn: CompletedTurn) -> Vec<Body> {
    let CompletedTurn { reading, other_case, message, last_lines, file, session, cost, warnings } = turn;
    let mut events = transition::warnings(step, warnings);
    let reading = match step.lookups.mistake(&other_case) {
        Some(near) => Err(BadMessage { problem: near.mistake(), has_no_tag: false }),
        None => reading,
    };
    let chosen = choose(step, plan, reading).and_then(|chosen| {
        let turn = Turn {
            message: Some(message.clone()),
            session: session.clone(),
            cost,
            implicit: chosen.implicit,
        };
        let mut taken = transition::warnings(step, chosen.warnings);
        let cause = if chosen.implicit { Cause::Author } else { Cause::Tags };
        let events =
            transition::take(step, chosen.transition, turn).map_err(|text| Problem { text, cause })?;
        taken.extend(events);
        Ok(taken)
    });
    match chosen {
        Ok(taken) => events.extend(taken),
        Err(Problem { text, cause: Cause::Author }) => {
            events.push(failed(step, Fault { cost, message: Some(message), ..Fault::new(text, false) }));
        }
        Err(problem) => {
            let said = Said { message, last_lines, file, session, cost };
            events.push(remind_or_fail(step, plan, problem, said));
        }
    }
    events
}

/// Why a turn made no transition.
struct Problem {
    text: String,
    cause: Cause,
}

/// What has to change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// The state itself; a reminder to the agent cannot repair it.
    Author,
    /// The agent's tags.
    Tags,
    /// The agent's result, which does not match the state's schema.
    Result,
}

impl Problem {
    fn of_tags(text: String) -> Self {
        Self { text, cause: Cause::Tags }
    }
}

/// A transition that the state permits.
struct Chosen {
    transition: Transition,
    warnings: Vec<String>,
    implicit: bool,
}

fn choose(
    step: &EndedStep<'_>,
    plan: &PromptPlan,
    reading: Result<Reading, BadMessage>,
) -> Result<Chosen, Problem> {
    let implied = plan.policy.as_ref().and_then(Policy::implicit);
    match (reading, implied) {
        (_, Some(entry)) if plan.force_implicit => implied_by(entry),
        (Err(message), Some(entry)) if message.has_no_tag => implied_by(entry),
        (Err(message), _) => Err(Problem::of_tags(message.problem)),
        (Ok(Reading { transition, warnings }), _) => {
            match &plan.policy {
                Some(policy) => check(step, policy, &transition),
                None => check_choices(step, &transition),
            }
            .map_err(Problem::of_tags)?;
            match (&transition, &step.lookups.result_problem) {
                (Transition::Result { .. }, Some(problem)) => {
                    Err(Problem { text: problem.clone(), cause: Cause::Result })
                }
                _ => Ok(()),
            }?;
            Ok(Chosen { transition, warnings, implicit: false })
        }
    }
}

/// An entry sets no variables.
const OF_POLICY: Rules = Rules { from_model: false, case_insensitive: false };

/// The transition of a complete policy entry. If it is invalid, a reminder to the agent cannot repair it.
fn implied_by(entry: &Entry) -> Result<Chosen, Problem> {
    match read(Collected::single(entry.as_tag()), OF_POLICY) {
        Ok(Reading { transition, warnings }) => Ok(Chosen { transition, warnings, implicit: true }),
        Err(error) => Err(Problem { text: error.to_string(), cause: Cause::Author }),
    }
}

/// Checks that a policy permits all tags of a transition, by the resolved names of their states.
fn check(step: &EndedStep<'_>, policy: &Policy, transition: &Transition) -> Result<(), String> {
    let resolve = |name: &str| step.lookups.state(name).ok();
    let state = |name: Option<&str>| name.map(|name| step.lookups.state(name)).transpose();
    for names in transition.tags() {
        let tag = names.tag;
        let (return_to, next) = (state(names.return_to)?, state(names.next)?);
        let timeout_next = state(names.timeout_next)?;
        let target = if tag.is_workflow() { None } else { state(names.target)? };
        let cd = names.cd.map(|cd| step.lookups.folder(cd)).transpose()?;
        let emitted = Emitted {
            tag,
            target: target.as_ref().map(StateFile::as_str).or(names.target),
            return_to: return_to.as_ref().map(StateFile::as_str),
            next: next.as_ref().map(StateFile::as_str),
            timeout_next: timeout_next.as_ref().map(StateFile::as_str),
            cd,
        };
        if !policy.permits(&emitted, &resolve) {
            return Err(format!("`{}` is not permitted here", shown(&emitted, names.cd)));
        }
        if !policy.names_folder(&emitted, &resolve) {
            cd.map_or(Ok(()), check_folder)?;
        }
    }
    check_workflows(step, transition)
}

/// An agent that may do everything may still not choose any folder or any workflow.
fn check_choices(step: &EndedStep<'_>, transition: &Transition) -> Result<(), String> {
    // Only people read the advice. A model must not learn how to permit more to itself.
    let of_folders = "to permit it, list the folder in `cd_paths` of the config file, or in `cd` of a policy";
    transition.directories().into_iter().try_for_each(|cd| {
        check_folder(step.lookups.folder(cd)?).map_err(|error| format!("{error}; {of_folders}"))
    })?;
    let of_workflows = "to permit it, name it in a policy of this workflow, or list its folder in `workflow_paths` of \
                        the config file";
    check_workflows(step, transition).map_err(|error| format!("{error}; {of_workflows}"))
}

/// The workflows that a model enters must be named by the author of the one that it is in. One that cannot be entered at
/// all is told of where the transition is taken.
fn check_workflows(step: &EndedStep<'_>, transition: &Transition) -> Result<(), String> {
    let entered =
        transition.scopes().into_iter().filter_map(|scope| step.lookups.scopes.get(scope)?.as_ref().ok());
    entered.filter_map(|entry| entry.unnamed.clone()).next().map_or(Ok(()), Err)
}

fn check_folder(folder: &Folder) -> Result<(), String> {
    folder.outside.clone().map_or(Ok(()), Err)
}

/// A tag with all that a policy looks at.
fn shown(emitted: &Emitted<'_>, cd: Option<&str>) -> Tag {
    let attributes = [
        (Attribute::Return, emitted.return_to),
        (Attribute::Next, emitted.next),
        (Attribute::TimeoutNext, emitted.timeout_next),
        (Attribute::Cd, cd),
    ];
    let given =
        attributes.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?.to_owned())));
    Tag {
        name: emitted.tag, attributes: given.collect(), content: emitted.target.unwrap_or("…").to_owned()
    }
}

/// A turn whose message makes no transition.
struct Said {
    message: Payload,
    last_lines: Option<String>,
    file: Option<String>,
    session: Option<Session>,
    cost: TurnCost,
}

impl Said {
    fn failed(self, step: &EndedStep<'_>, error: String) -> Body {
        let shown = match (self.last_lines, self.message.text()) {
            (None, Some(message)) => ShownOutput::of_message(message, self.file),
            (last_lines, _) => ShownOutput { last_lines: last_lines.unwrap_or_default(), file: self.file },
        };
        failed(
            step,
            Fault { cost: self.cost, message: Some(self.message), shown, ..Fault::new(error, false) },
        )
    }
}

/// The reminder lists the entries of the policy. Without a conversation there is no reminder, and without a policy only
/// one about a result.
fn remind_or_fail(step: &EndedStep<'_>, plan: &PromptPlan, problem: Problem, said: Said) -> Body {
    let number = step.work.reminders + 1;
    let Problem { text: problem, cause } = problem;
    let Some(text) = reminder(step, plan, &problem, cause) else {
        let hint = "list what it may emit in `allowed_transitions` of its frontmatter, and Raymond reminds the agent";
        return said.failed(step, format!("{problem}; {hint}"));
    };
    if number > MAX_REMINDERS {
        return said.failed(step, still_wrong(&problem, cause));
    }
    // A reminder goes on in the conversation of the turn that it is about.
    let Some(session) = said.session.clone() else { return said.failed(step, problem) };
    let Said { message, cost, .. } = said;
    Body::Reminder(Reminder {
        agent: step.agent.id.clone(),
        step: step.work.step,
        state: step.agent.state.clone(),
        attempt: step.work.attempt + 1,
        number,
        problem,
        message: Some(message),
        text: text.into(),
        session,
        attempt_cost_usd: cost.usd(),
        cost_estimated: cost.is_estimated(),
        tokens: cost.tokens(),
    })
}

fn still_wrong(problem: &str, cause: Cause) -> String {
    let (what, advice) = match cause {
        Cause::Author | Cause::Tags => {
            ("no permitted transition", "change the prompt, or permit more in its `allowed_transitions`")
        }
        Cause::Result => ("no result that matches", "change the prompt, or its `result_schema`"),
    };
    format!("still {what} after {MAX_REMINDERS} reminders: {problem}; {advice}")
}

/// The text of a reminder, if there is anything that the agent can be reminded of.
fn reminder(step: &EndedStep<'_>, plan: &PromptPlan, problem: &str, cause: Cause) -> Option<String> {
    let policy = plan.policy.as_ref();
    let tags = policy.map(|policy| {
        let inputs = |scope: &str| step.lookups.needed_inputs(scope);
        policy.reminder(problem, &|name| step.lookups.state(name).ok(), &inputs)
    });
    if cause != Cause::Result {
        return tags;
    }
    let mut text = tags.unwrap_or_else(|| {
        format!(
            "Your last message could not be used: {problem}.\n\n\
             Reply with exactly one tag that holds the whole result, corrected:\n\n<result>JSON</result>\n"
        )
    });
    if let Some(ResultSchema::Inline(schema)) = &plan.result_schema {
        let schema = schema.to_string();
        if schema.len() <= MAX_SHOWN_SCHEMA_BYTES {
            text.push_str(&format!("\nA result must be JSON that matches this JSON Schema:\n\n{schema}\n"));
        }
    }
    Some(text)
}

/// The backend that takes a turn instead of one that is at its usage limit, or whose program is missing. The other one does
/// not know what was said, so that only a new conversation may go to it, unless the state says that this does not matter.
fn fallback(step: &EndedStep<'_>, plan: &PromptPlan) -> Option<String> {
    let conversation = step.work.conversation(step.agent);
    let is_new = conversation.is_none_or(|session| !session.is_of(&plan.backend));
    plan.fallbacks.first().filter(|_| is_new || plan.may_forget).cloned()
}

fn turn_failed(step: &EndedStep<'_>, plan: &PromptPlan, mut turn: FailedTurn) -> Body {
    match (turn.class, turn.session.take()) {
        (FaultClass::ShareUsed, Some(session)) => go_on(step, turn, session),
        (FaultClass::Retry, _) => match RETRY_AFTER.get(step.work.retries as usize) {
            Some(wait) => retry(step, turn, *wait, NextTry::FromTheStart),
            None => {
                let error = format!("{} (after {} retries)", turn.error, RETRY_AFTER.len());
                final_failure(step, FailedTurn { error, ..turn })
            }
        },
        (FaultClass::Limit { .. }, _)
            if step.work.paid_limits >= MAX_PAID_LIMITS && !turn.cost.usd().is_zero() =>
        {
            let error = format!(
                "{}; it was paid for {MAX_PAID_LIMITS} times before, and begins anew each time",
                turn.error
            );
            final_failure(step, FailedTurn { error, ..turn })
        }
        (FaultClass::Limit { until }, _) => Body::LimitWaiting(LimitWaiting {
            agent: step.agent.id.clone(),
            step: step.work.step,
            state: step.agent.state.clone(),
            attempt: step.work.attempt + 1,
            until: limit_end(step.now, until),
            fallback: fallback(step, plan),
            error: turn.error,
            message: turn.message,
            attempt_cost_usd: turn.cost.usd(),
            cost_estimated: turn.cost.is_estimated(),
            tokens: turn.cost.tokens(),
        }),
        (FaultClass::NotInstalled, _) => match fallback(step, plan) {
            Some(next) if (step.work.retries as usize) < RETRY_AFTER.len() => {
                let error = format!("{}; the next one is `{next}`", turn.error);
                retry(step, FailedTurn { error, ..turn }, Duration::ZERO, NextTry::FromTheStart)
            }
            _ => final_failure(step, turn),
        },
        (FaultClass::ShareUsed, None) | (FaultClass::Final, _) => final_failure(step, turn),
    }
}

/// The turn has stopped at its share of the budget, and goes on with another one. A program that does so long before its
/// share is used up counts in another way than it tells, or does not do what it says.
fn go_on(step: &EndedStep<'_>, turn: FailedTurn, session: Session) -> Body {
    let work = step.work;
    let cost = turn.cost.usd();
    let problem = match work.share_usd.filter(|_| work.would_stop_early(cost)) {
        Some(share) if work.early_stops >= MAX_EARLY_STOPS => {
            format!("but its share was {share} and it has cost {cost}, as {MAX_EARLY_STOPS} times before")
        }
        _ if work.shares >= MAX_SHARES => {
            let advice = "raise the budget, or lower `max_parallel`, and resume";
            format!("and the step has gone on with another one {MAX_SHARES} times; {advice}")
        }
        _ => {
            let wait = pause_after_stops(work.shares, turn.cost);
            return retry(step, turn, wait, NextTry::GoOn(session));
        }
    };
    let error = format!("{}, {problem}", turn.error);
    final_failure(step, FailedTurn { error, ..turn })
}

/// How long to wait before an attempt that was stopped so often before, not by a failure of its own. What costs nothing
/// needs no pause.
pub(super) fn pause_after_stops(before: u32, cost: TurnCost) -> Duration {
    let Some(again) = before.checked_sub(STOPS_WITHOUT_PAUSE).filter(|_| !cost.usd().is_zero()) else {
        return Duration::ZERO;
    };
    let longest = RETRY_AFTER[RETRY_AFTER.len() - 1];
    RETRY_AFTER.get(again as usize).copied().unwrap_or(longest)
}

/// When to try again. If the limit should already have ended, wait a little, so that retries do not run in a tight
/// loop.
fn limit_end(now: Timestamp, named: Option<Timestamp>) -> Timestamp {
    match named {
        // A time that is too far away to be meant counts as none.
        Some(until) if until > later(now, MAX_DURATION) => later(now, UNKNOWN_LIMIT),
        Some(until) if until > now => until,
        Some(_) => later(now, OVERDUE_LIMIT),
        None => later(now, UNKNOWN_LIMIT),
    }
}

fn retry(step: &EndedStep<'_>, turn: FailedTurn, wait: Duration, next_try: NextTry) -> Body {
    Body::Retry(Retry {
        agent: step.agent.id.clone(),
        step: step.work.step,
        state: step.agent.state.clone(),
        attempt: step.work.attempt + 1,
        until: later(step.now, wait),
        error: turn.error,
        stderr: String::new(),
        message: turn.message,
        attempt_cost_usd: turn.cost.usd(),
        cost_estimated: turn.cost.is_estimated(),
        tokens: turn.cost.tokens(),
        next_try,
    })
}

/// A prompt that failed fails only its agent.
fn final_failure(step: &EndedStep<'_>, turn: FailedTurn) -> Body {
    let FailedTurn { error, cost, exit_code, message, .. } = turn;
    failed(step, Fault { cost, exit_code, message, ..Fault::new(error, false) })
}
