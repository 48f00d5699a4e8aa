//! A turn of any agent program.

use std::path::Path;
use std::time::Duration;

use raymond_core::event::TurnStarted;
use raymond_core::input::{FailedTurn, FaultClass, Input, TurnCost};
use raymond_core::limits::MAX_STDERR_TAIL_BYTES;
use raymond_core::money::Usd;
use raymond_core::run::Session;

use super::session_lock::SessionLock;
use super::{Turned, show_prints};
use crate::agent::registry::Backend;
use crate::agent::session::SessionPlace;
use crate::agent::{
    Class, Continued, Cost, Invocation, Pricing, Turn, TurnEnding, TurnEvent, TurnFault, TurnReader,
};
use crate::process::{
    self, AfterExit, Ending, Flow, OutputTail, Sink, SpawnError, Started, StopSignal, TimeLimits, supervise,
};
use crate::run::job::{StepJob, TurnNeeds};
use crate::run::mailbox::Message;
use crate::run::step::gate::Place;
use crate::run::step::runnable::Runnable;
use crate::run::step::{LocalExecutor, NotReady, environment, make_folders};
use crate::view::Stream;
use crate::view::debug::StepFiles;

/// How many lines of stderr the program's decoder gets.
const STDERR_LINES: usize = 40;

pub(super) async fn take(
    executor: &LocalExecutor,
    job: &StepJob,
    place: &Place<'_>,
    stop: StopSignal,
    files: &mut StepFiles,
) -> Result<Turned, NotReady> {
    let (Some(needs), Some(started)) = (&job.needs.turn, &job.turn) else {
        return Err(NotReady::Step(format!("{} has no prompt", job.attempt.state)));
    };
    files.prompt(&needs.prompt, &needs.changed_values);
    let program = executor.backends.get(&needs.backend)?;
    let mut turn = turn(job, needs, started, program, executor.backends.pricing(program));
    let lost = forget_lost_conversation(program, &mut turn);
    let _lock = match refused(program, needs, &turn).map_or_else(|| lock_session(needs, &turn), Err) {
        Ok(lock) => lock,
        Err(fault) => return Ok(Turned::Failed(failed(&fault, TurnCost::default(), None))),
    };
    let mut sink = TurnSink {
        executor,
        job,
        place,
        files,
        reader: TurnReader::new(&**program, &turn),
        program_chooses_session: turn.session.is_none(),
        share: started.share_usd,
        stderr: OutputTail::new(MAX_STDERR_TAIL_BYTES),
        tools: Vec::new(),
        warnings: lost.into_iter().collect(),
    };
    let ending = match &needs.answer {
        Some(answer) => {
            sink.stdout(&answer.as_ref().map_err(String::clone)?.output);
            TurnEnding::Code(0)
        }
        None => match supervised(&mut sink, needs, program, program.invocation(&turn)?, stop).await? {
            Ok(ending) => ending,
            Err(fault) => return Ok(Turned::Failed(failed(&fault, TurnCost::default(), None))),
        },
    };
    let folder = program.capabilities().folder_bound.then(|| job.needs.cwd.clone());
    Ok(sink.result(ending, &needs.backend, folder))
}

/// Runs the program to its end, or says why it could not be started.
async fn supervised(
    sink: &mut TurnSink<'_>,
    needs: &TurnNeeds,
    program: &Backend,
    invocation: Invocation,
    stop: StopSignal,
) -> Result<Result<TurnEnding, TurnFault>, NotReady> {
    let name = invocation.program.clone();
    // The copy, if there is one, is kept until the end of the turn.
    let (process, _runnable) = process(sink.executor, sink.job, invocation)?;
    sink.files.program(&process);
    let settings = &needs.settings;
    let own_silence = program.capabilities().silence.filter(|_| !settings.timeout_is_chosen);
    let idle = own_silence.or(settings.timeout);
    let limits = TimeLimits { idle, total: settings.max_time, ..TimeLimits::default() };
    let reaper = &sink.executor.reaper;
    let done = supervise(process, limits, sink, stop, reaper, AfterExit::EndAll).await;
    sink.files.ended(&done.ending);
    Ok(match done.ending {
        Ending::SpawnFailed(error) => Err(not_started(name, error)),
        ending => Ok(TurnEnding::of(&ending, &limits)),
    })
}

fn turn(
    job: &StepJob,
    needs: &TurnNeeds,
    started: &TurnStarted,
    program: &Backend,
    pricing: Pricing,
) -> Turn {
    let settings = needs.settings.clone();
    let conversation = needs.conversation.as_ref();
    Turn {
        prompt: needs.prompt.clone(),
        cwd: job.needs.cwd.clone().into(),
        session: started.session.clone(),
        continues: started.branch_of.clone().map(|session| Continued {
            session,
            total_usd: conversation.and_then(|session| session.total_usd).map(Usd::dollars),
            total_tokens: conversation.and_then(|session| session.total_tokens),
            model: conversation.and_then(|session| session.model.clone()),
            effort: conversation.and_then(|session| session.effort.clone()),
        }),
        model: settings.model,
        effort: settings.effort,
        grants: needs.grants.clone(),
        require_mcp: settings.require_mcp,
        skip_permissions: needs.skip_permissions,
        permission_mode: settings.permission_mode,
        budget_usd: started.share_usd.filter(|_| program.capabilities().budget_share).map(Usd::dollars),
        pricing,
    }
}

/// Why a turn is not started, because the program could not do what it asks for, or would do something else.
fn refused(program: &Backend, needs: &TurnNeeds, turn: &Turn) -> Option<TurnFault> {
    let can = program.capabilities();
    let backend = needs.backend.clone();
    if let Some(limit) = can.prompt_limit.filter(|limit| !limit.permits(&turn.prompt)) {
        return Some(TurnFault::PromptTooLong { backend, limit: limit.to_string() });
    }
    turn.continues.as_ref()?;
    let began_in = needs.conversation.as_ref().and_then(|session| session.cwd.clone());
    if let Some(folder) = began_in.filter(|folder| can.folder_bound && Path::new(folder) != turn.cwd) {
        return Some(TurnFault::OtherFolder { backend, folder });
    }
    let continues = if turn.is_in_place() { program.continues_in_place() } else { can.branch };
    (!continues).then_some(TurnFault::CannotBranch { backend })
}

/// Two programs that continue one conversation at the same time damage it. The lock holds for all runs of the user.
fn lock_session(needs: &TurnNeeds, turn: &Turn) -> Result<Option<SessionLock>, TurnFault> {
    match &turn.session {
        Some(session) if turn.is_in_place() => SessionLock::take(&needs.backend, session),
        _ => Ok(None),
    }
}

/// A replay that asks the agent goes on in a recorded conversation, which the program may not have any more. Then the
/// turn starts a new one; this is the warning about it.
fn forget_lost_conversation(program: &Backend, turn: &mut Turn) -> Option<String> {
    let continued = turn.continues.as_ref().filter(|_| program.continues_only_what_is_there())?;
    let variable = |name: &str| std::env::var_os(name);
    let place = SessionPlace { session: &continued.session, cwd: &turn.cwd, variable: &variable };
    let is_gone = program.session_files(&place).is_some_and(|files| !files.are_there());
    let session = is_gone.then(|| continued.session.clone())?;
    turn.continues = None;
    Some(format!("the recorded conversation {session} is not here any more; the agent starts a new one"))
}

fn process(
    executor: &LocalExecutor,
    job: &StepJob,
    invocation: Invocation,
) -> Result<(process::ProgramSpec, Runnable), NotReady> {
    make_folders(job)?;
    let runnable = Runnable::of(executor, job)?;
    let token = job.attempt.token.clone();
    let mut process = invocation.into_process(&job.needs.cwd, token);
    // What the program needs takes precedence.
    process.env.splice(..0, environment(executor, job, &runnable));
    Ok((process, runnable))
}

fn not_started(program: String, error: SpawnError) -> TurnFault {
    match error {
        SpawnError::NotOnPath(_) | SpawnError::FileMissing(_) => TurnFault::MissingProgram { program },
        other => TurnFault::NotStarted { program, message: other.to_string() },
    }
}

fn failed(fault: &TurnFault, cost: TurnCost, session: Option<Session>) -> FailedTurn {
    let class = match fault.class() {
        Class::Retry => FaultClass::Retry,
        Class::WaitUntil(seconds) => FaultClass::Limit {
            until: seconds.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok()),
        },
        Class::ShareUsed => FaultClass::ShareUsed,
        Class::NeedsPerson | Class::Fatal => FaultClass::Final,
    };
    FailedTurn {
        error: fault.to_string(),
        class,
        cost,
        session,
        exit_code: None,
        message: None,
        warnings: Vec::new(),
    }
}

const IMPOSSIBLE_COST: &str = "the agent program reported nothing that can be the cost of the turn";

fn warnings(cost: &Cost, share: Option<Usd>, denied: &[String]) -> Vec<String> {
    let unknown = cost.unknown.then(|| match share {
        Some(share) => format!("{IMPOSSIBLE_COST}; its share of the budget, {share}, is counted"),
        None => format!("{IMPOSSIBLE_COST}, and it had no share of a budget; what its texts cost is counted"),
    });
    unknown.into_iter().chain(denials(denied)).collect()
}

fn without_server(name: &str) -> String {
    format!(
        "the tool server `{}` did not start, and the agent worked without its tools; `require_mcp: true` makes that a failure",
        name.escape_debug()
    )
}

fn denials(tools: &[String]) -> Vec<String> {
    tools
        .iter()
        .map(|tool| format!("the agent was not permitted to use {tool}; `allow_tools` would permit it"))
        .collect()
}

/// Decodes the program's output as it arrives.
struct TurnSink<'a> {
    executor: &'a LocalExecutor,
    job: &'a StepJob,
    place: &'a Place<'a>,
    files: &'a mut StepFiles,
    reader: TurnReader,
    program_chooses_session: bool,
    /// How much of the budget the turn may use.
    share: Option<Usd>,
    stderr: OutputTail,
    /// The tools that the agent has used.
    tools: Vec<String>,
    warnings: Vec<String>,
}

impl TurnSink<'_> {
    fn result(mut self, ending: TurnEnding, backend: &str, folder: Option<String>) -> Turned {
        self.reader.close();
        let settings = self.job.needs.turn.as_ref().map(|needs| &needs.settings);
        let model = settings.and_then(|settings| settings.model.clone());
        let effort = settings.and_then(|settings| settings.effort.clone());
        self.warnings.extend(self.reader.missing_servers().iter().map(|name| without_server(name)));
        let answered = self.job.needs.turn.as_ref().and_then(|needs| needs.answer.as_ref()?.as_ref().ok());
        let answered_in = answered.and_then(|answer| answer.session.clone());
        let session_id = answered_in.or_else(|| self.reader.session().map(str::to_owned));
        let session = |cost: &Cost| {
            Some(Session {
                id: session_id.clone()?,
                total_usd: cost.session_total_usd.map(Usd::from_dollars),
                backend: Some(backend.to_owned()),
                model: model.clone(),
                effort: effort.clone(),
                total_tokens: cost.session_tokens,
                cwd: folder.clone(),
            })
        };
        let stderr = self.stderr.last_lines(STDERR_LINES);
        let finished = self.reader.finish(ending, &stderr);
        let (cost, denied) = match &finished {
            Ok(report) => (report.cost, &report.permission_denials),
            Err(failure) => (failure.cost, &failure.permission_denials),
        };
        let warnings = self.warnings.into_iter().chain(warnings(&cost, self.share, denied)).collect();
        let (session, cost) = (session(&cost), cost.counted(self.share));
        match finished {
            Ok(report) => Turned::Completed { session, cost, warnings, tools: self.tools, text: report.text },
            // It exceeded its share with its last message, which is complete and paid for.
            Err(failure) if failure.final_text.is_some() => Turned::Completed {
                session,
                cost,
                warnings,
                tools: self.tools,
                text: failure.final_text.unwrap_or_default(),
            },
            Err(_) if ending == TurnEnding::Stopped => Turned::Interrupted { cost: cost.usd() },
            Err(failure) => {
                let exit_code = match ending {
                    TurnEnding::Code(code) => Some(code),
                    _ => None,
                };
                let message = failure.last_text.map(Into::into);
                let failed = failed(&failure.fault, cost, session);
                Turned::Failed(FailedTurn { exit_code, message, warnings, ..failed })
            }
        }
    }

    /// A session that the program chose is recorded as soon as it is known.
    fn record_session(&self, session: String) {
        let (step, attempt) = (self.job.attempt.step, self.job.attempt.number);
        let agent = self.job.attempt.agent.clone();
        self.executor.send(Message::Input(Input::SessionKnown { agent, step, attempt, session }));
    }

    /// Shows what was seen, and keeps what matters later.
    fn note(&mut self, seen: Vec<TurnEvent>) {
        for seen in seen {
            self.show(&seen);
            if let (TurnEvent::ToolUse { name, .. }, Some(_)) = (&seen, &self.executor.recorder) {
                self.tools.push(name.clone());
            }
            if let TurnEvent::Session(session) = seen
                && self.program_chooses_session
            {
                self.record_session(session);
            }
        }
    }

    fn show(&self, seen: &TurnEvent) {
        if let TurnEvent::Text(text) = seen {
            show_prints(self.executor, self.job, text);
        }
        let line = match seen {
            TurnEvent::Text(text) => text.clone(),
            TurnEvent::ToolUse { name, summary } => format!("{name}: {summary}"),
            TurnEvent::ToolRefused { tool } => format!("not permitted: {tool}"),
            TurnEvent::ServerMissing { name } => {
                format!("the tool server `{}` did not start", name.escape_debug())
            }
            TurnEvent::Retrying { of: 0, error, .. } => {
                format!("the model's service: {error}; the agent program tries again")
            }
            TurnEvent::Retrying { attempt, of, error } => {
                format!("the model's service: {error}; retry {attempt} of {of}")
            }
            TurnEvent::Unreadable(line) => format!("unreadable: {line}"),
            TurnEvent::Session(_) | TurnEvent::Usage(_) | TurnEvent::Limit { .. } | TurnEvent::End { .. } => {
                return;
            }
        };
        self.executor.show(&self.job.attempt.agent, Stream::Stdout, format!("{line}\n").as_bytes());
    }
}

impl Sink for TurnSink<'_> {
    fn started(&mut self, started: Started) {
        self.place.started();
        self.executor.remember(self.job, started);
    }

    fn start_again_after(&mut self, error: &SpawnError) -> Option<Duration> {
        self.executor.start_again_after(self.job, self.place, error)
    }

    fn is_held_up(&self) -> bool {
        self.executor.messages.is_full()
    }

    fn input(&mut self) -> process::Input {
        self.reader.input()
    }

    fn stdout(&mut self, bytes: &[u8]) -> Flow {
        self.files.stdout(bytes);
        let seen = self.reader.feed(bytes);
        self.note(seen);
        self.executor.show_spending(&self.job.attempt.agent, Usd::from_dollars(self.reader.cost_so_far()));
        self.reader.flow_after_stdout()
    }

    fn stderr(&mut self, bytes: &[u8]) -> Flow {
        self.files.stderr(bytes);
        let mut text = bytes.to_vec();
        let seen = self.reader.feed_stderr(&mut text);
        self.note(seen);
        self.executor.show(&self.job.attempt.agent, Stream::Stderr, &text);
        self.stderr.push(&text);
        self.reader.flow_after_stderr()
    }
}
