//! Replies that were prepared for a run: those of a test, and those of a recording. No agent program is started.
//!
//! Every backend of such a run is wrapped: it keeps the capabilities of its own program, so that a workflow is checked
//! as for a real run, and is answered from the replies. Which reply a turn used up is in the journal, so nothing is
//! remembered here: a reply is a function of the prompt and of the replies that are used.

use std::collections::BTreeSet;
use std::io::{Cursor, Read};
use std::sync::Arc;
use std::time::Duration;

use raymond_core::money::Usd;
use regex_lite::Regex;
use serde::{Deserialize, Serialize};

use super::session::{SessionFiles, SessionPlace};
use super::{
    AgentProgram, Answer, Asked, Capabilities, Cost, Filled, Inspection, Invocation, Plain, SessionId,
    TokensTold, Turn, TurnDecoder, TurnEnding, TurnEvent, TurnFailure, TurnFault, TurnReport, WorkflowFiles,
};
use crate::process::Input;
use crate::process::secrets::Secrets;
use crate::recording::{RecordedTurn, line_diff, prompt_hash};

/// How the error of a turn begins for which a test has no reply. It fails the test, whatever the test expects.
pub const NO_REPLY: &str = "the test has no reply left";

/// The text of the reply that has no tag.
const WITHOUT_TAG: &str = "This reply has no tag.";
/// A silent program is ended after the default limit.
const SILENCE: Duration = Duration::from_secs(30 * 60);
/// The beginning of the line in which an answer is handed over.
const MARK: &[u8] = b"{\"prepared\":";

/// Trouble with an agent program, as a test can order it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    Crash,
    Overloaded,
    Limit,
    Silent,
    NotLoggedIn,
    NoTag,
}

impl Trouble {
    pub const ALL: [Trouble; 6] = [
        Trouble::Crash,
        Trouble::Overloaded,
        Trouble::Limit,
        Trouble::Silent,
        Trouble::NotLoggedIn,
        Trouble::NoTag,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Trouble::Crash => "crash",
            Trouble::Overloaded => "overloaded",
            Trouble::Limit => "limit",
            Trouble::Silent => "silent",
            Trouble::NotLoggedIn => "not_logged_in",
            Trouble::NoTag => "no_tag",
        }
    }

    /// The fault that it is. A reply without a tag is no fault: the turn completes.
    fn fault(self) -> Option<TurnFault> {
        let message = "ordered by the test".to_owned();
        Some(match self {
            Trouble::Crash => TurnFault::Crashed { ending: "exit code 1".to_owned(), stderr: message },
            Trouble::Overloaded => TurnFault::Overloaded { message },
            Trouble::Limit => TurnFault::LimitReached { resets_at: None, message },
            Trouble::Silent => TurnFault::Silent { after: SILENCE },
            Trouble::NotLoggedIn => TurnFault::NotLoggedIn { message },
            Trouble::NoTag => return None,
        })
    }
}

/// What a turn is answered with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Says {
    Reply(String),
    Fail(Trouble),
}

/// A reply of a test.
#[derive(Clone, Debug)]
pub struct TestReply {
    /// The state's name without extension.
    pub state: String,
    /// It answers only prompts in which this is found.
    pub when: Option<Regex>,
    pub says: Says,
    pub cost_usd: f64,
    /// Whether it is never used up.
    pub is_lasting: bool,
}

/// What to do with a prompt that is not in the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// The step fails.
    #[default]
    Fail,
    /// Take the recorded turn of the same state and visit.
    Closest,
    /// Ask the agent program.
    Live,
}

impl Missing {
    pub fn as_str(self) -> &'static str {
        match self {
            Missing::Fail => "fail",
            Missing::Closest => "closest",
            Missing::Live => "live",
        }
    }
}

/// All replies of a run. They are numbered: those of the test first, then the recorded turns.
#[derive(Debug, Default)]
pub struct Prepared {
    pub is_test: bool,
    pub replies: Vec<TestReply>,
    pub recorded: Vec<RecordedTurn>,
    pub missing: Missing,
    /// What errors must not show.
    pub secrets: Secrets,
}

impl Prepared {
    /// The answer to a turn; `None` if the agent program is asked.
    fn answer(&self, asked: &Asked<'_>) -> Option<Result<Answer, String>> {
        if let Some(answer) = self.reply_of_test(asked).or_else(|| self.recorded_reply(asked)) {
            return Some(Ok(answer));
        }
        match self.missing {
            Missing::Live => None,
            Missing::Fail | Missing::Closest => Some(Err(self.complaint(asked))),
        }
    }

    fn reply_of_test(&self, asked: &Asked<'_>) -> Option<Answer> {
        let own = self.replies.iter().enumerate().filter(|(_, reply)| reply.state == asked.state);
        let mut left = own.filter(|(number, reply)| reply.is_lasting || !is_used(asked.used, *number));
        let (number, reply) =
            left.find(|(_, reply)| reply.when.as_ref().is_none_or(|pattern| pattern.is_match(asked.prompt)))?;
        let number = (!reply.is_lasting).then_some(number as u64);
        Some(Answer {
            output: line(&reply.says, reply.cost_usd, Some(uuid::Uuid::new_v4().to_string())),
            reply: number,
            session: None,
        })
    }

    fn recorded_reply(&self, asked: &Asked<'_>) -> Option<Answer> {
        let prompt = asked.portable.unwrap_or(asked.prompt);
        let hash = prompt_hash(prompt);
        let same = |turn: &RecordedTurn| turn.prompt_sha256 == hash;
        // Agents that are asked the same may come in another order than in the recorded run.
        let is_other = |turn: &RecordedTurn| turn.agent != asked.agent;
        let exact = self.unused(asked).filter(|(_, turn)| same(turn)).min_by_key(|(_, turn)| is_other(turn));
        let closest = || self.closest(asked).filter(|(number, _)| !self.is_recorded_used(asked, *number));
        let (number, turn) = match self.missing {
            Missing::Closest => exact.or_else(closest)?,
            Missing::Fail | Missing::Live => exact?,
        };
        let text = asked.places.map_or_else(|| turn.reply.clone(), |places| places.restore(&turn.reply));
        Some(Answer {
            output: line(&Says::Reply(text), turn.cost_usd.dollars(), turn.session.clone()),
            reply: Some((self.replies.len() + number) as u64),
            session: turn.session.clone(),
        })
    }

    fn is_recorded_used(&self, asked: &Asked<'_>, number: usize) -> bool {
        is_used(asked.used, self.replies.len() + number)
    }

    /// The recorded turns of the state that are not used up.
    fn unused<'a>(&'a self, asked: &'a Asked<'_>) -> impl Iterator<Item = (usize, &'a RecordedTurn)> {
        let turns = self.recorded.iter().enumerate();
        turns.filter(|(number, turn)| {
            turn.state_name() == asked.state && !self.is_recorded_used(asked, *number)
        })
    }

    /// The recorded turn of the same state and visit: one that is not used up, and of the same agent, if there is one.
    fn closest(&self, asked: &Asked<'_>) -> Option<(usize, &RecordedTurn)> {
        let own = self.recorded.iter().enumerate().filter(|(_, turn)| turn.state_name() == asked.state);
        own.min_by_key(|(number, turn)| {
            (
                self.is_recorded_used(asked, *number),
                turn.visit != asked.visit,
                turn.agent != asked.agent,
                *number,
            )
        })
    }

    /// Why there is no answer.
    fn complaint(&self, asked: &Asked<'_>) -> String {
        let state = asked.state;
        let prompt = asked.portable.unwrap_or(asked.prompt);
        let recorded = self.closest(asked).map(|(_, turn)| turn);
        let what = match (self.is_test, recorded) {
            (true, None) => return format!("{NO_REPLY} for `{state}`; add one to its `replies`"),
            (true, Some(_)) => format!("{NO_REPLY} for `{state}`, and its prompt is not in the recording"),
            (false, Some(_)) => format!("the prompt of `{state}` is not in the recording"),
            (false, None) => {
                return format!(
                    "the recording has no turn of `{state}`; record the run again, or ask the agent with \
                     --replay-missing=live"
                );
            }
        };
        let old = recorded.and_then(|turn| turn.prompt.as_deref());
        let (visit, agent) = recorded.map_or((0, ""), |turn| (turn.visit, turn.agent.as_str()));
        match old {
            Some(old) if self.secrets.hide(prompt.to_owned()) == old => {
                format!("{what} again: every turn with this prompt is used up")
            }
            Some(old) => {
                let diff = line_diff(old, &self.secrets.hide(prompt.to_owned()));
                format!("{what}; against the recorded one (visit {visit} of {agent}):\n{diff}")
            }
            None => format!("{what}, which does not hold prompts"),
        }
    }
}

fn is_used(used: &BTreeSet<u64>, number: usize) -> bool {
    used.contains(&(number as u64))
}

/// An answer as the output of a program: one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
struct AnswerLine {
    prepared: Says,
    cost_usd: f64,
    #[serde(default)]
    session: Option<String>,
}

fn line(says: &Says, cost_usd: f64, session: Option<String>) -> Vec<u8> {
    let says = match says {
        Says::Fail(Trouble::NoTag) => Says::Reply(WITHOUT_TAG.to_owned()),
        other => other.clone(),
    };
    let mut line = serde_json::to_vec(&AnswerLine { prepared: says, cost_usd, session }).unwrap_or_default();
    line.push(b'\n');
    line
}

/// A backend that is answered from prepared replies.
#[derive(Debug)]
pub struct PreparedProgram {
    /// The program of the backend; absent if the backend is not known here.
    inner: Option<Arc<dyn AgentProgram>>,
    prepared: Arc<Prepared>,
}

impl PreparedProgram {
    pub fn new(inner: Option<Arc<dyn AgentProgram>>, prepared: Arc<Prepared>) -> Self {
        Self { inner, prepared }
    }
}

impl AgentProgram for PreparedProgram {
    /// No program is started, so what a program could not do with conversations and costs does not matter, unless it is
    /// asked after all.
    fn capabilities(&self) -> Capabilities {
        let inner = self.inner.as_ref().map_or(Capabilities::ALL, |inner| inner.capabilities());
        match self.prepared.missing {
            Missing::Live => inner,
            Missing::Fail | Missing::Closest => Capabilities {
                resume: true,
                branch: true,
                session_id: SessionId::Chosen,
                folder_bound: false,
                cost: true,
                tokens: TokensTold::No,
                ..inner
            },
        }
    }

    /// A program that is not started need not be there.
    fn inspection(&self) -> Option<Inspection> {
        self.inner.as_ref().filter(|_| self.prepared.missing == Missing::Live)?.inspection()
    }

    fn known_efforts(&self) -> Option<&'static [&'static str]> {
        self.inner.as_ref().and_then(|inner| inner.known_efforts())
    }

    /// The files of replies that a workflow brings along are not used, so they need not be there.
    fn check(&self, _files: &dyn WorkflowFiles) -> Result<(), String> {
        Ok(())
    }

    fn answer(&self, asked: &Asked<'_>, files: &dyn WorkflowFiles) -> Option<Result<Answer, String>> {
        match self.prepared.answer(asked) {
            Some(answer) => Some(answer),
            None => self.inner.as_ref()?.answer(asked, files),
        }
    }

    fn invocation(&self, turn: &Turn) -> Result<Invocation, String> {
        match &self.inner {
            Some(inner) => inner.invocation(turn),
            None => Err("this backend is not known here, so it cannot be asked".to_owned()),
        }
    }

    fn decoder(&self, turn: &Turn) -> Box<dyn TurnDecoder> {
        Box::new(Decoder {
            inner: self.inner.as_ref().map(|inner| inner.decoder(turn)),
            reports_session: !self.capabilities().takes_session_id(),
            own: Own::default(),
        })
    }

    fn plain(&self, filled: &Filled<'_>) -> Plain {
        match &self.inner {
            Some(inner) => inner.plain(filled),
            None => Plain { text: filled.text.to_owned(), changed: Vec::new() },
        }
    }

    fn session_files(&self, place: &SessionPlace<'_>) -> Option<SessionFiles> {
        self.inner.as_ref()?.session_files(place)
    }

    fn continues_only_what_is_there(&self) -> bool {
        self.prepared.missing == Missing::Live
    }

    /// A prepared answer that was not recorded is given again, and its cost is counted then.
    fn cost_of_lost_turn(
        &self,
        turn: &Turn,
        kept: Option<&mut dyn Read>,
        stderr: Option<&mut dyn Read>,
    ) -> Option<Cost> {
        let Some(kept) = kept else { return Some(Cost::default()) };
        let mut start = Vec::new();
        kept.take(MARK.len() as u64).read_to_end(&mut start).ok()?;
        match &self.inner {
            Some(inner) if !start.is_empty() && start != MARK => {
                let mut whole = Cursor::new(start).chain(kept);
                inner.cost_of_lost_turn(turn, Some(&mut whole), stderr)
            }
            _ => Some(Cost::default()),
        }
    }
}

/// Reads an answer that was prepared, or the output of the backend's own program.
#[derive(Debug)]
struct Decoder {
    inner: Option<Box<dyn TurnDecoder>>,
    /// Whether a turn has to tell its session, because its program would choose one.
    reports_session: bool,
    own: Own,
}

/// What was read of a prepared answer.
#[derive(Debug, Default)]
struct Own {
    is_begun: bool,
    bytes: Vec<u8>,
    line: Option<AnswerLine>,
}

impl TurnDecoder for Decoder {
    fn feed(&mut self, bytes: &[u8]) -> Vec<TurnEvent> {
        if !self.own.is_begun && !bytes.starts_with(MARK) {
            return self.inner.as_mut().map(|inner| inner.feed(bytes)).unwrap_or_default();
        }
        self.own.is_begun = true;
        self.own.bytes.extend_from_slice(bytes);
        if self.own.line.is_some() || !self.own.bytes.ends_with(b"\n") {
            return Vec::new();
        }
        self.own.line = serde_json::from_slice(&self.own.bytes).ok();
        match self.own.line.as_ref().map(|line| &line.prepared) {
            Some(Says::Reply(text)) => {
                let session = self.own.line.as_ref().and_then(|line| line.session.clone());
                let session = session.filter(|_| self.reports_session).map(TurnEvent::Session);
                let said = [TurnEvent::Text(text.clone()), TurnEvent::End { is_error: false }];
                session.into_iter().chain(said).collect()
            }
            Some(Says::Fail(_)) | None => Vec::new(),
        }
    }

    fn close(&mut self) -> Vec<TurnEvent> {
        match (&mut self.inner, self.own.is_begun) {
            (Some(inner), false) => inner.close(),
            _ => Vec::new(),
        }
    }

    fn is_final(&self) -> bool {
        match self.own.is_begun {
            true => self.own.line.is_some(),
            false => self.inner.as_ref().is_some_and(|inner| inner.is_final()),
        }
    }

    fn feed_stderr(&mut self, text: &mut Vec<u8>) -> Vec<TurnEvent> {
        self.inner.as_mut().map(|inner| inner.feed_stderr(text)).unwrap_or_default()
    }

    fn waits_for_service(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.waits_for_service())
    }

    fn input(&mut self) -> Input {
        self.inner.as_mut().map(|inner| inner.input()).unwrap_or_default()
    }

    fn model(&self) -> Option<&str> {
        self.inner.as_ref().and_then(|inner| inner.model())
    }

    fn cost_so_far(&self) -> f64 {
        self.inner.as_ref().map_or(0.0, |inner| inner.cost_so_far())
    }

    fn finish(self: Box<Self>, ending: TurnEnding, stderr: &str) -> Result<TurnReport, Box<TurnFailure>> {
        if let (Some(inner), false) = (self.inner, self.own.is_begun) {
            return inner.finish(ending, stderr);
        }
        let failed = |fault, usd| {
            Err(Box::new(TurnFailure {
                fault,
                cost: Cost { usd, ..Cost::default() },
                final_text: None,
                last_text: None,
                permission_denials: Vec::new(),
            }))
        };
        match self.own.line {
            Some(AnswerLine { prepared: Says::Reply(text), cost_usd, .. }) => Ok(TurnReport {
                text,
                cost: Cost { usd: cost_usd.max(0.0), ..Cost::default() },
                permission_denials: Vec::new(),
            }),
            Some(AnswerLine { prepared: Says::Fail(trouble), cost_usd, .. }) => {
                let fault = trouble.fault().unwrap_or(TurnFault::Interrupted);
                failed(fault, cost_usd)
            }
            None => failed(TurnFault::Junk { detail: "there is no reply in it".to_owned() }, 0.0),
        }
    }
}

/// Adds up to the cost that a recording counts, for people.
pub fn cost_of<'a>(turns: impl IntoIterator<Item = &'a RecordedTurn>) -> Usd {
    turns.into_iter().map(|turn| turn.cost_usd).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(state: &str, when: Option<&str>, text: &str, is_lasting: bool) -> TestReply {
        TestReply {
            state: state.to_owned(),
            when: when.map(|pattern| Regex::new(pattern).unwrap()),
            says: Says::Reply(text.to_owned()),
            cost_usd: 0.0,
            is_lasting,
        }
    }

    fn ask<'a>(state: &'a str, prompt: &'a str, used: &'a BTreeSet<u64>) -> Asked<'a> {
        Asked { state, number: 1, prompt, agent: "main", visit: 1, used, portable: None, places: None }
    }

    fn said(prepared: &Prepared, asked: &Asked<'_>) -> Result<(String, Option<u64>), String> {
        prepared.answer(asked).unwrap().map(|answer| {
            let line: AnswerLine = serde_json::from_slice(&answer.output).unwrap();
            match line.prepared {
                Says::Reply(text) => (text, answer.reply),
                Says::Fail(trouble) => (trouble.as_str().to_owned(), answer.reply),
            }
        })
    }

    #[test]
    fn a_list_is_used_up_and_a_pattern_chooses_among_what_is_left() {
        let prepared = Prepared {
            is_test: true,
            replies: vec![
                reply("A", Some("too long"), "shorter", false),
                reply("A", None, "first", false),
                reply("A", None, "second", false),
                reply("B", None, "always", true),
            ],
            ..Prepared::default()
        };
        let mut used = BTreeSet::new();
        let mut next = |state: &str, prompt: &str| {
            let given = said(&prepared, &ask(state, prompt, &used));
            used.extend(given.as_ref().ok().and_then(|(_, number)| *number));
            given.map(|(text, _)| text)
        };
        assert_eq!(next("A", "write").unwrap(), "first");
        assert_eq!(next("A", "this is too long").unwrap(), "shorter");
        assert_eq!(next("A", "this is too long").unwrap(), "second");
        assert!(next("A", "write").unwrap_err().starts_with(NO_REPLY));
        assert_eq!((next("B", "x").unwrap(), next("B", "x").unwrap()), ("always".into(), "always".into()));
    }

    #[test]
    fn a_recorded_turn_of_the_same_agent_comes_first() {
        let turn = |agent: &str, reply: &str| RecordedTurn {
            state: "A.md".to_owned(),
            visit: 1,
            agent: agent.to_owned(),
            prompt_sha256: prompt_hash("same"),
            prompt: Some("same".to_owned()),
            reply: reply.to_owned(),
            cost_usd: Usd::ZERO,
            session: None,
            duration_ms: 0,
            tools: Vec::new(),
        };
        let recorded = vec![turn("main_a2", "two"), turn("main_a1", "one"), turn("main_a1", "again")];
        let prepared = Prepared { recorded, ..Prepared::default() };
        for (agent, used, expected) in
            [("main_a1", vec![], "one"), ("main_a2", vec![], "two"), ("main_a1", vec![1, 2], "two")]
        {
            let used = used.into_iter().collect();
            let asked = Asked { agent, ..ask("A", "same", &used) };
            assert_eq!(said(&prepared, &asked).unwrap().0, expected, "{agent} {used:?}");
        }
    }

    #[test]
    fn each_trouble_is_a_fault_or_a_reply_without_tag() {
        for trouble in Trouble::ALL {
            let program = PreparedProgram::new(None, Arc::default());
            let mut decoder = program.decoder(&Turn::default());
            decoder.feed(&line(&Says::Fail(trouble), 0.5, None));
            let ended = decoder.finish(TurnEnding::Code(0), "");
            assert_eq!(ended.is_ok(), trouble == Trouble::NoTag, "{trouble:?}");
        }
    }
}
