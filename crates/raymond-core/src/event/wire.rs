//! The wire format of events whose fields depend on each other.
//!
//! In Rust such an event cannot have a wrong combination; on the wire all its fields are flat. For each of them there
//! is a struct here with the fields as they are written, in their order. It borrows when writing and owns when reading,
//! so that neither copies. Wrong combinations are refused when reading.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::led_to::OwnedParts;
use super::{
    AgentStarted, AskClosed, Closed, Forked, NextTry, OtherWorkflow, StepFinished, StepStarted, TurnStarted,
};
use crate::money::Usd;
use crate::name::AgentId;
use crate::named_inputs::InputValues;
use crate::payload::Payload;
use crate::run::Session;
use crate::snapshot::FilesSnapshot;
use crate::tag::TagName;
use crate::tokens::{Context, Tokens};
use crate::workflow::StateFile;
use crate::worktree::Worktree;

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "StepFinished")]
pub(super) struct StepFinishedFields<'a> {
    agent: Cow<'a, AgentId>,
    step: u64,
    state: Cow<'a, StateFile>,
    tag: TagName,
    /// The target state: for a fork the state of the worker, for a result the return state of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<Cow<'a, StateFile>>,
    #[serde(default, rename = "return", skip_serializing_if = "Option::is_none")]
    return_to: Option<Cow<'a, StateFile>>,
    /// The state in which an agent that forks or asks continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<Cow<'a, StateFile>>,
    /// Whether an agent that forks continues only when all its workers have ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    joins: bool,
    /// The input of the agent's next state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input: Option<Cow<'a, Payload>>,
    /// The result of an agent that ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<Cow<'a, Payload>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cwd: Option<Cow<'a, str>>,
    /// The workflow that the agent enters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope: Option<Cow<'a, str>>,
    /// The hash of that workflow when it was entered, if it is an archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope_hash: Option<Cow<'a, str>>,
    /// The values of its inputs, if it declares any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inputs: Option<Cow<'a, BTreeMap<String, String>>>,
    /// Those of them that a model gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inputs_from_model: Option<Cow<'a, BTreeSet<String>>>,
    /// The agent's final message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<Cow<'a, Payload>>,
    /// The conversation after this step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<Cow<'a, Session>>,
    /// Whether the state's only permitted transition was taken without a tag.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    implicit: bool,
    /// The total cost of the step, with reminders and failed attempts.
    cost_usd: Usd,
    /// The cost of its last attempt; the costs of earlier attempts are in their own events.
    #[serde(default, skip_serializing_if = "Usd::is_zero")]
    attempt_cost_usd: Usd,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    cost_estimated: bool,
    /// What the model read and wrote in the last attempt.
    #[serde(default, skip_serializing_if = "Tokens::is_zero")]
    tokens: Tokens,
    /// How full the model's window is after it, if the program tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    context: Option<Context>,
    /// Whether the program has summarised the conversation within it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    compacted: bool,
    duration_ms: u64,
    /// The files that the step has left, if the run takes snapshots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    files: Option<Cow<'a, FilesSnapshot>>,
}

impl Serialize for StepFinished {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let parts = self.led_to.parts();
        let fields = StepFinishedFields {
            agent: Cow::Borrowed(&self.agent),
            step: self.step,
            state: Cow::Borrowed(&self.state),
            tag: parts.tag,
            target: parts.target.map(Cow::Borrowed),
            return_to: parts.return_to.map(Cow::Borrowed),
            next: parts.next.map(Cow::Borrowed),
            joins: parts.joins,
            input: parts.input.map(Cow::Borrowed),
            result: parts.result.map(Cow::Borrowed),
            cwd: parts.cwd.map(Cow::Borrowed),
            scope: scope(parts.workflow),
            scope_hash: scope_hash(parts.workflow),
            inputs: inputs(parts.workflow),
            inputs_from_model: inputs_from_model(parts.workflow),
            message: self.message.as_ref().map(Cow::Borrowed),
            session: self.session.as_ref().map(Cow::Borrowed),
            implicit: self.implicit,
            cost_usd: self.cost_usd,
            attempt_cost_usd: self.attempt_cost_usd,
            cost_estimated: self.cost_estimated,
            tokens: self.tokens,
            context: self.context,
            compacted: self.compacted,
            duration_ms: self.duration_ms,
            files: self.files.as_deref().map(Cow::Borrowed),
        };
        fields.serialize(serializer)
    }
}

impl TryFrom<StepFinishedFields<'_>> for StepFinished {
    type Error = String;

    fn try_from(fields: StepFinishedFields<'_>) -> Result<Self, String> {
        let parts = OwnedParts {
            tag: fields.tag,
            target: fields.target.map(Cow::into_owned),
            return_to: fields.return_to.map(Cow::into_owned),
            next: fields.next.map(Cow::into_owned),
            input: fields.input.map(Cow::into_owned),
            result: fields.result.map(Cow::into_owned),
            cwd: fields.cwd.map(Cow::into_owned),
            workflow: other_workflow(
                fields.scope,
                fields.scope_hash,
                input_values(fields.inputs, fields.inputs_from_model)?,
            )?,
            joins: fields.joins,
        };
        Ok(Self {
            agent: fields.agent.into_owned(),
            step: fields.step,
            state: fields.state.into_owned(),
            led_to: parts.into_led_to()?,
            message: fields.message.map(Cow::into_owned),
            session: fields.session.map(Cow::into_owned),
            implicit: fields.implicit,
            cost_usd: fields.cost_usd,
            attempt_cost_usd: fields.attempt_cost_usd,
            cost_estimated: fields.cost_estimated,
            tokens: fields.tokens,
            context: fields.context,
            compacted: fields.compacted,
            duration_ms: fields.duration_ms,
            files: fields.files.map(|files| Box::new(files.into_owned())),
        })
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AgentStarted")]
pub(super) struct AgentStartedFields<'a> {
    agent: Cow<'a, AgentId>,
    state: Cow<'a, StateFile>,
    cwd: Cow<'a, str>,
    /// Its workflow, if that is not the run's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope: Option<Cow<'a, str>>,
    /// The hash of that workflow when it was entered, if it is an archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope_hash: Option<Cow<'a, str>>,
    /// The values of its inputs, if it declares any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inputs: Option<Cow<'a, BTreeMap<String, String>>>,
    /// Those of them that a model gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inputs_from_model: Option<Cow<'a, BTreeSet<String>>>,
    /// The agent that forked it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<Cow<'a, AgentId>>,
    /// The number in a worker's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    /// The number of this fork among all forks of its parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fork: Option<u64>,
    /// What a worker is called for people; made of its attributes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "is_empty")]
    attributes: Cow<'a, BTreeMap<String, String>>,
    /// Whether a model emitted the fork, so that its attributes are not all variables of scripts by their own names.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    from_model: bool,
    /// The git worktree that is made for it before its first step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    worktree: Option<Cow<'a, Worktree>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input: Option<Cow<'a, Payload>>,
}

fn is_empty(attributes: &BTreeMap<String, String>) -> bool {
    attributes.is_empty()
}

impl Serialize for AgentStarted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let forked = self.forked.as_ref();
        let fields = AgentStartedFields {
            agent: Cow::Borrowed(&self.agent),
            state: Cow::Borrowed(&self.state),
            cwd: Cow::Borrowed(&self.cwd),
            scope: scope(self.workflow.as_ref()),
            scope_hash: scope_hash(self.workflow.as_ref()),
            inputs: inputs(self.workflow.as_ref()),
            inputs_from_model: inputs_from_model(self.workflow.as_ref()),
            parent: forked.map(|forked| Cow::Borrowed(&forked.parent)),
            number: forked.map(|forked| forked.number),
            fork: forked.map(|forked| forked.fork),
            title: self.title().map(Cow::Owned),
            attributes: forked.map(|forked| Cow::Borrowed(&forked.attributes)).unwrap_or_default(),
            from_model: forked.is_some_and(|forked| forked.from_model),
            worktree: self.worktree.as_deref().map(Cow::Borrowed),
            input: self.input.as_ref().map(Cow::Borrowed),
        };
        fields.serialize(serializer)
    }
}

impl TryFrom<AgentStartedFields<'_>> for AgentStarted {
    type Error = &'static str;

    fn try_from(fields: AgentStartedFields<'_>) -> Result<Self, Self::Error> {
        let attributes = fields.attributes.into_owned();
        let forked = match (fields.parent, fields.number, fields.fork) {
            (Some(parent), Some(number), Some(fork)) => {
                let from_model = fields.from_model;
                Some(Forked { parent: parent.into_owned(), number, fork, attributes, from_model })
            }
            (None, None, None) if attributes.is_empty() => None,
            _ => {
                return Err(
                    "an agent has `parent`, `number` and `fork`, or none of them and no `attributes`",
                );
            }
        };
        Ok(Self {
            agent: fields.agent.into_owned(),
            state: fields.state.into_owned(),
            cwd: fields.cwd.into_owned(),
            workflow: other_workflow(
                fields.scope,
                fields.scope_hash,
                input_values(fields.inputs, fields.inputs_from_model)?,
            )?,
            forked,
            worktree: fields.worktree.map(|worktree| Box::new(worktree.into_owned())),
            input: fields.input.map(Cow::into_owned),
        })
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "StepStarted")]
pub(super) struct StepStartedFields<'a> {
    agent: Cow<'a, AgentId>,
    step: u64,
    attempt: u32,
    state: Cow<'a, StateFile>,
    visits: u64,
    /// The hash of the state's file.
    hash: Cow<'a, str>,
    /// No other step with this name starts before this one has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exclusive: Option<Cow<'a, str>>,
    /// The backend that takes a prompt's turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    backend: Option<Cow<'a, str>>,
    /// The model that the backend is told to use, if one is chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<Cow<'a, str>>,
    /// The session chosen for this attempt of a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<Cow<'a, str>>,
    /// The number of this turn among all turns of the run in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turn: Option<u64>,
    /// The session that this attempt continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    branch_of: Option<Cow<'a, str>>,
    /// How much of the budget this turn may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    share_usd: Option<Usd>,
    /// The SHA-256 of the prompt as sent, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prompt_sha256: Option<Cow<'a, str>>,
    /// The number of the prepared reply that this turn uses up, in a test or a replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reply: Option<u64>,
}

impl Serialize for StepStarted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let turn = self.turn.as_ref();
        let fields = StepStartedFields {
            agent: Cow::Borrowed(&self.agent),
            step: self.step,
            attempt: self.attempt,
            state: Cow::Borrowed(&self.state),
            visits: self.visits,
            hash: Cow::Borrowed(&self.hash),
            exclusive: self.exclusive.as_deref().map(Cow::Borrowed),
            backend: turn.and_then(|turn| turn.backend.as_deref()).map(Cow::Borrowed),
            model: turn.and_then(|turn| turn.model.as_deref()).map(Cow::Borrowed),
            session: turn.and_then(|turn| turn.session.as_deref()).map(Cow::Borrowed),
            turn: turn.map(|turn| turn.number),
            branch_of: turn.and_then(|turn| turn.branch_of.as_deref()).map(Cow::Borrowed),
            share_usd: turn.and_then(|turn| turn.share_usd),
            prompt_sha256: turn.and_then(|turn| turn.prompt_sha256.as_deref()).map(Cow::Borrowed),
            reply: turn.and_then(|turn| turn.reply),
        };
        fields.serialize(serializer)
    }
}

impl TryFrom<StepStartedFields<'_>> for StepStarted {
    type Error = &'static str;

    fn try_from(fields: StepStartedFields<'_>) -> Result<Self, Self::Error> {
        let of_turns =
            [&fields.backend, &fields.model, &fields.session, &fields.branch_of, &fields.prompt_sha256];
        let has_number = fields.share_usd.is_some() || fields.reply.is_some();
        let has_more = has_number || of_turns.into_iter().any(Option::is_some);
        // Journals of version 0.1 have a session and no backend.
        let is_turn = fields.session.is_some() || fields.backend.is_some();
        let turn = match fields.turn {
            Some(number) if is_turn => Some(TurnStarted {
                backend: fields.backend.map(Cow::into_owned),
                model: fields.model.map(Cow::into_owned),
                session: fields.session.map(Cow::into_owned),
                number,
                branch_of: fields.branch_of.map(Cow::into_owned),
                share_usd: fields.share_usd,
                prompt_sha256: fields.prompt_sha256.map(Cow::into_owned),
                reply: fields.reply,
            }),
            None if !has_more => None,
            _ => return Err("the start of a turn needs `turn`, and `backend` or `session`"),
        };
        Ok(Self {
            agent: fields.agent.into_owned(),
            step: fields.step,
            attempt: fields.attempt,
            state: fields.state.into_owned(),
            visits: fields.visits,
            hash: fields.hash.into_owned(),
            exclusive: fields.exclusive.map(Cow::into_owned),
            turn,
        })
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AskClosed")]
pub(super) struct AskClosedFields<'a> {
    agent: Cow<'a, AgentId>,
    ask: Cow<'a, str>,
    /// The state that asked.
    state: Cow<'a, StateFile>,
    by: ClosedBy,
    /// The state in which the agent continues, unless it fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<Cow<'a, StateFile>>,
    answer: Cow<'a, Payload>,
    /// Distinguishes answers that were given at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer_id: Option<Cow<'a, str>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ClosedBy {
    Answer,
    Timeout,
}

impl Serialize for AskClosed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let none = || Cow::Owned(Payload::from(""));
        let (by, target, answer, answer_id) = match &self.how {
            Closed::Answered { target, answer, answer_id } => {
                (ClosedBy::Answer, Some(target), Cow::Borrowed(answer), answer_id.as_deref())
            }
            Closed::TimedOut { target } => (ClosedBy::Timeout, Some(target), none(), None),
            Closed::Unanswered => (ClosedBy::Timeout, None, none(), None),
        };
        let fields = AskClosedFields {
            agent: Cow::Borrowed(&self.agent),
            ask: Cow::Borrowed(&self.ask),
            state: Cow::Borrowed(&self.state),
            by,
            target: target.map(Cow::Borrowed),
            answer,
            answer_id: answer_id.map(Cow::Borrowed),
        };
        fields.serialize(serializer)
    }
}

impl TryFrom<AskClosedFields<'_>> for AskClosed {
    type Error = &'static str;

    fn try_from(fields: AskClosedFields<'_>) -> Result<Self, Self::Error> {
        let is_answered = *fields.answer != Payload::from("") || fields.answer_id.is_some();
        let how = match (fields.by, fields.target.map(Cow::into_owned)) {
            (ClosedBy::Answer, Some(target)) => Closed::Answered {
                target,
                answer: fields.answer.into_owned(),
                answer_id: fields.answer_id.map(Cow::into_owned),
            },
            (ClosedBy::Answer, None) => return Err("a question that was answered needs a `target`"),
            (ClosedBy::Timeout, _) if is_answered => {
                return Err("a question that timed out has no `answer`");
            }
            (ClosedBy::Timeout, Some(target)) => Closed::TimedOut { target },
            (ClosedBy::Timeout, None) => Closed::Unanswered,
        };
        Ok(Self {
            agent: fields.agent.into_owned(),
            ask: fields.ask.into_owned(),
            state: fields.state.into_owned(),
            how,
        })
    }
}

fn scope(workflow: Option<&OtherWorkflow>) -> Option<Cow<'_, str>> {
    workflow.map(|workflow| Cow::Borrowed(workflow.scope.as_str()))
}

fn scope_hash(workflow: Option<&OtherWorkflow>) -> Option<Cow<'_, str>> {
    workflow.and_then(|workflow| workflow.scope_hash.as_deref()).map(Cow::Borrowed)
}

fn inputs(workflow: Option<&OtherWorkflow>) -> Option<Cow<'_, BTreeMap<String, String>>> {
    workflow.and_then(|workflow| workflow.inputs.as_deref()).map(|inputs| Cow::Borrowed(&inputs.values))
}

fn inputs_from_model(workflow: Option<&OtherWorkflow>) -> Option<Cow<'_, BTreeSet<String>>> {
    let inputs = workflow.and_then(|workflow| workflow.inputs.as_deref());
    inputs.map(|inputs| &inputs.from_model).filter(|names| !names.is_empty()).map(Cow::Borrowed)
}

fn input_values(
    values: Option<Cow<'_, BTreeMap<String, String>>>,
    from_model: Option<Cow<'_, BTreeSet<String>>>,
) -> Result<Option<Box<InputValues>>, &'static str> {
    let from_model = from_model.map(Cow::into_owned);
    match (values, from_model) {
        (Some(values), from_model) => Ok(Some(Box::new(InputValues {
            values: values.into_owned(),
            from_model: from_model.unwrap_or_default(),
        }))),
        (None, Some(_)) => Err("`inputs_from_model` needs `inputs`"),
        (None, None) => Ok(None),
    }
}

fn other_workflow(
    scope: Option<Cow<'_, str>>,
    scope_hash: Option<Cow<'_, str>>,
    inputs: Option<Box<InputValues>>,
) -> Result<Option<OtherWorkflow>, &'static str> {
    match (scope, scope_hash, inputs) {
        (Some(scope), hash, inputs) => {
            let scope_hash = hash.map(Cow::into_owned);
            Ok(Some(OtherWorkflow { scope: scope.into_owned(), scope_hash, inputs }))
        }
        (None, Some(_), _) => Err("a `scope_hash` needs a `scope`"),
        (None, None, Some(_)) => Err("`inputs` need a `scope`"),
        (None, None, None) => Ok(None),
    }
}

/// The fields of a `retry` that say where the next attempt continues.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(super) struct NextTryFields {
    /// The conversation that it goes on from, because the last attempt stopped at its share of the budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<Session>,
    /// Whether the last attempt was lost together with the machine that it ran on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    lost: bool,
}

impl From<NextTryFields> for NextTry {
    fn from(fields: NextTryFields) -> Self {
        match fields {
            NextTryFields { session: Some(session), .. } => NextTry::GoOn(session),
            NextTryFields { session: None, lost: true } => NextTry::AfterLoss,
            NextTryFields { session: None, lost: false } => NextTry::FromTheStart,
        }
    }
}

impl From<NextTry> for NextTryFields {
    fn from(next_try: NextTry) -> Self {
        let lost = next_try == NextTry::AfterLoss;
        match next_try {
            NextTry::GoOn(session) => Self { session: Some(session), lost },
            NextTry::FromTheStart | NextTry::AfterLoss => Self { session: None, lost },
        }
    }
}
