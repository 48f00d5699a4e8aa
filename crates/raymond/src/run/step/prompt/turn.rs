//! A turn of an agent program, whichever it is.

use std::ffi::OsString;
use std::time::Duration;

use raymond_core::event::TurnStarted;
use raymond_core::input::{FailedTurn, FaultClass, Input, PromptPlan, TurnCost};
use raymond_core::limits::MAX_STDERR_TAIL_BYTES;
use raymond_core::money::Usd;
use raymond_core::run::Session;

use super::{Turned, show_prints};
use crate::agent::{
    AgentProgram, Class, Continued, Cost, Invocation, Turn, TurnEnding, TurnEvent, TurnFault, TurnReader,
    TurnStart,
};
use crate::process::{
    self, AfterExit, Ending, Flow, Limits, ParentDeath, Sink, SpawnError, StopSignal, Tail, supervise,
};
use crate::run::engine::Launch;
use crate::run::mailbox::Message;
use crate::run::step::runnable::Runnable;
use crate::run::step::variables::{StepFacts, agent_environment};
use crate::run::step::{NotReady, StepContext, token};
use crate::view::Stream;
use crate::view::debug::StepFiles;

/// How long a program may stay after its final message.
const LINGER: Duration = Duration::from_secs(10);
/// How many lines of stderr the agent program's decoder looks at.
const STDERR_LINES: usize = 40;

/// A turn that is to be taken.
pub(super) struct Asked<'a> {
    pub(super) started: &'a TurnStarted,
    pub(super) plan: &'a PromptPlan,
    pub(super) program: &'a dyn AgentProgram,
    pub(super) prompt: String,
}

pub(super) async fn take(
    context: &StepContext,
    launch: &Launch,
    asked: Asked<'_>,
    stop: StopSignal,
    files: &mut StepFiles,
) -> Result<Turned, NotReady> {
    let Asked { plan, program, .. } = asked;
    let turn = turn(context, launch, asked);
    if let Some(fault) = cannot_continue(program, plan, &turn) {
        return Ok(Turned::Failed(failed(&fault, Cost::default(), None)));
    }
    let start = program.begin(&turn, &*context.scopes.borrow_mut().of(&launch.agent)?)?;
    let mut sink = TurnSink {
        context,
        launch,
        files,
        reader: TurnReader::new(program, &turn),
        program_chooses_session: turn.session.is_none(),
        stderr: Tail::new(MAX_STDERR_TAIL_BYTES),
    };
    let ending = match start {
        TurnStart::Answered(output) => {
            sink.stdout(&output);
            TurnEnding::Code(0)
        }
        TurnStart::Program(invocation) => match supervised(&mut sink, plan, invocation, stop).await? {
            Ok(ending) => ending,
            Err(fault) => return Ok(Turned::Failed(failed(&fault, Cost::default(), None))),
        },
    };
    Ok(sink.result(ending, &plan.backend))
}

/// Runs the program to its end, or says why it could not be started.
async fn supervised(
    sink: &mut TurnSink<'_>,
    plan: &PromptPlan,
    invocation: Invocation,
    stop: StopSignal,
) -> Result<Result<TurnEnding, TurnFault>, NotReady> {
    let name = invocation.program.clone();
    // The copy, if there is one, lasts as long as the turn.
    let (process, _runnable) = process(sink.context, sink.launch, invocation)?;
    sink.files.program(&process);
    let limits = Limits { idle: plan.timeout, total: plan.max_time, ..Limits::default() };
    let reaper = &sink.context.reaper;
    let done = supervise(process, limits, sink, stop, reaper, AfterExit::EndAll).await;
    sink.files.ended(&done.ending);
    Ok(match done.ending {
        Ending::SpawnFailed(error) => Err(not_started(name, error)),
        ending => Ok(ending_of(ending, &limits)),
    })
}

fn turn(context: &StepContext, launch: &Launch, asked: Asked<'_>) -> Turn {
    let Asked { started, plan, program, prompt } = asked;
    let capabilities = program.capabilities();
    let agent = &launch.agent;
    let conversation = agent.work().and_then(|work| work.conversation(agent));
    Turn {
        prompt,
        state: agent.state.name().to_owned(),
        number: started.number,
        session: started.session.clone(),
        continues: started.branch_of.clone().map(|session| Continued {
            total_usd: conversation.and_then(|earlier| earlier.total_usd).map(Usd::dollars),
            session,
        }),
        model: plan.model.clone(),
        effort: plan.effort.clone(),
        allow_tools: plan.allow_tools.clone(),
        deny_tools: plan.deny_tools.clone(),
        add_dirs: plan.add_dirs.clone(),
        mcp_config: plan.mcp_config.clone(),
        skip_permissions: context.skip_permissions,
        budget_usd: started.share_usd.filter(|_| capabilities.budget_share).map(Usd::dollars),
    }
}

/// A turn that would have to go on in a conversation, with a program that cannot branch one. A backend that may
/// continue the conversation itself instead (`without_branch`) would be let through here.
fn cannot_continue(program: &dyn AgentProgram, plan: &PromptPlan, turn: &Turn) -> Option<TurnFault> {
    let is_refused = turn.continues.is_some() && !program.capabilities().branch;
    is_refused.then(|| TurnFault::CannotBranch { backend: plan.backend.clone() })
}

fn process(
    context: &StepContext,
    launch: &Launch,
    invocation: Invocation,
) -> Result<(process::Launch, Runnable), NotReady> {
    let agent = &launch.agent;
    let task_folder = context.task_folder(agent)?;
    let runnable = Runnable::of(context, agent)?;
    let mut scopes = context.scopes.borrow_mut();
    let scope = scopes.of(agent)?;
    let facts = StepFacts {
        run_id: &context.run_id,
        agent,
        scope: scope.path(),
        environment: &scope.manifest().environment,
        state_file: runnable.path(),
        task_folder: &task_folder,
        input: None,
    };
    let token = token(&context.nonce, launch.started.step, launch.started.attempt);
    let mut process = process::Launch::new(invocation.program, &agent.cwd, token);
    process.args = invocation.args.into_iter().map(OsString::from).collect();
    process.stdin = invocation.stdin;
    process.env = agent_environment(&facts);
    process.env.extend(invocation.unset.into_iter().map(|name| (name.into(), None)));
    process.env.extend(invocation.set.into_iter().map(|(name, value)| (name.into(), Some(value.into()))));
    // The program ends its own tools when it is asked to end.
    process.on_parent_death = ParentDeath::Terminate;
    Ok((process, runnable))
}

fn ending_of(ending: Ending, limits: &Limits) -> TurnEnding {
    match ending {
        Ending::Exited(process::Exit::Code(code)) => TurnEnding::Code(code),
        Ending::Exited(process::Exit::Signal(signal)) => TurnEnding::Signal(signal),
        Ending::Exited(process::Exit::Unknown) | Ending::SpawnFailed(_) | Ending::Aborted => {
            TurnEnding::Code(-1)
        }
        Ending::IdleTimeout => TurnEnding::Silent(limits.idle.unwrap_or_default()),
        Ending::TotalTimeout => TurnEnding::OverTime(limits.total.unwrap_or_default()),
        Ending::Lingered => TurnEnding::Lingered,
        Ending::Stopped => TurnEnding::Stopped,
    }
}

fn not_started(program: String, error: SpawnError) -> TurnFault {
    match error {
        SpawnError::NotOnPath(_) | SpawnError::FileMissing(_) => TurnFault::MissingProgram { program },
        other => TurnFault::NotStarted { program, message: other.to_string() },
    }
}

fn failed(fault: &TurnFault, cost: Cost, session: Option<Session>) -> FailedTurn {
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
        cost: turn_cost(&cost),
        session,
        exit_code: None,
        message: None,
    }
}

fn turn_cost(cost: &Cost) -> TurnCost {
    TurnCost { usd: Usd::from_dollars(cost.usd), estimated: cost.estimated }
}

fn denials(tools: &[String]) -> Vec<String> {
    tools
        .iter()
        .map(|tool| format!("the agent was not permitted to use {tool}; `allow_tools` would permit it"))
        .collect()
}

/// Decodes what the program prints as it comes.
struct TurnSink<'a> {
    context: &'a StepContext,
    launch: &'a Launch,
    files: &'a mut StepFiles,
    reader: TurnReader,
    program_chooses_session: bool,
    stderr: Tail,
}

impl TurnSink<'_> {
    fn result(mut self, ending: TurnEnding, backend: &str) -> Turned {
        self.reader.close();
        let session_id = self.reader.session().map(str::to_owned);
        let session = |cost: &Cost| {
            Some(Session {
                id: session_id.clone()?,
                total_usd: cost.session_total_usd.map(Usd::from_dollars),
                backend: Some(backend.to_owned()),
            })
        };
        let stderr = self.stderr.last_lines(STDERR_LINES);
        match self.reader.finish(ending, &stderr) {
            Ok(report) => Turned::Completed {
                session: session(&report.cost),
                cost: turn_cost(&report.cost),
                warnings: denials(&report.permission_denials),
                text: report.text,
            },
            // It went over its share with its last words; they were said and paid for.
            Err(failure) if failure.final_text.is_some() => Turned::Completed {
                session: session(&failure.cost),
                cost: turn_cost(&failure.cost),
                warnings: denials(&failure.permission_denials),
                text: failure.final_text.unwrap_or_default(),
            },
            Err(failure) if ending == TurnEnding::Stopped => {
                Turned::Interrupted { cost: Usd::from_dollars(failure.cost.usd) }
            }
            Err(failure) => {
                let exit_code = match ending {
                    TurnEnding::Code(code) => Some(code),
                    _ => None,
                };
                let failed = failed(&failure.fault, failure.cost, session(&failure.cost));
                Turned::Failed(FailedTurn { exit_code, message: failure.last_text, ..failed })
            }
        }
    }

    /// A session that the program chose is recorded as soon as it is known.
    fn record_session(&self, session: String) {
        let (step, attempt) = (self.launch.started.step, self.launch.started.attempt);
        let agent = self.launch.agent.id.clone();
        self.context.send(Message::Input(Input::SessionKnown { agent, step, attempt, session }));
    }

    fn show(&self, seen: &TurnEvent) {
        if let TurnEvent::Text(text) = seen {
            show_prints(self.context, self.launch, text);
        }
        let line = match seen {
            TurnEvent::Text(text) => text.clone(),
            TurnEvent::ToolUse { name, summary } => format!("{name}: {summary}"),
            TurnEvent::ToolRefused { tool } => format!("not permitted: {tool}"),
            TurnEvent::Retrying { attempt, of, error } => {
                format!("the model's service: {error}; retry {attempt} of {of}")
            }
            TurnEvent::Unreadable(line) => format!("unreadable: {line}"),
            TurnEvent::Session(_) | TurnEvent::Usage(_) | TurnEvent::Limit { .. } | TurnEvent::End { .. } => {
                return;
            }
        };
        self.context.show(&self.launch.agent.id, Stream::Stdout, format!("{line}\n").as_bytes());
    }
}

impl Sink for TurnSink<'_> {
    fn started(&mut self, group: i32) {
        self.context.remember_group(self.launch, group);
    }

    fn is_held_up(&self) -> bool {
        self.context.messages.is_full()
    }

    fn stdout(&mut self, bytes: &[u8]) -> Flow {
        self.files.stdout(bytes);
        for seen in self.reader.feed(bytes) {
            self.show(&seen);
            if let TurnEvent::Session(session) = seen
                && self.program_chooses_session
            {
                self.record_session(session);
            }
        }
        if self.reader.is_final() { Flow::EndWithin(LINGER) } else { Flow::Continue }
    }

    fn stderr(&mut self, bytes: &[u8]) -> Flow {
        self.files.stderr(bytes);
        self.context.show(&self.launch.agent.id, Stream::Stderr, bytes);
        self.stderr.push(bytes);
        Flow::Continue
    }
}
