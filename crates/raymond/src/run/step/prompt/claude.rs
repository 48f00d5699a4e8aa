//! A turn of Claude Code.

use std::ffi::OsString;
use std::time::Duration;

use raymond_core::event::TurnStarted;
use raymond_core::input::{FailedTurn, FaultClass, PromptPlan, TurnCost};
use raymond_core::limits::MAX_STDERR_TAIL_BYTES;
use raymond_core::money::Usd;
use raymond_core::run::Session;

use super::{Turned, show_prints};
use crate::agent::claude::{Decoder, invocation};
use crate::agent::{self, Class, Cost, Invocation, Seen, Turn, TurnFault};
use crate::process::{
    self, AfterExit, Ending, Flow, Limits, ParentDeath, Sink, SpawnError, StopSignal, Tail, supervise,
};
use crate::run::engine::Launch;
use crate::run::step::runnable::Runnable;
use crate::run::step::variables::{StepFacts, agent_environment};
use crate::run::step::{NotReady, StepContext, token};
use crate::view::Stream;
use crate::view::debug::StepFiles;

/// How long a program may stay after its final message.
const LINGER: Duration = Duration::from_secs(10);
/// How many lines of stderr the backend looks at.
const STDERR_LINES: usize = 40;

/// How the program is started.
pub(super) struct Program<'a> {
    pub(super) command: &'a str,
    pub(super) args: &'a [String],
    pub(super) prompt: String,
    pub(super) files: &'a mut StepFiles,
}

pub(super) async fn turn(
    context: &StepContext,
    launch: &Launch,
    started: &TurnStarted,
    plan: &PromptPlan,
    program: Program<'_>,
    stop: StopSignal,
) -> Result<Turned, NotReady> {
    let session = started.session.clone();
    let previous_total = launch
        .agent
        .work()
        .and_then(|work| work.conversation(&launch.agent))
        .and_then(|session| session.total_usd);
    let invocation = invocation(
        &ask(started, plan, program.prompt, context.skip_permissions),
        program.command,
        program.args,
    );
    let name = invocation.program.clone();
    // The copy, if there is one, lasts as long as the turn.
    let (process, _runnable) = process(context, launch, invocation)?;
    program.files.program(&process);
    let limits = Limits { idle: plan.timeout, total: plan.max_time, ..Limits::default() };
    let mut sink = TurnSink {
        context,
        launch,
        files: program.files,
        decoder: Decoder::new(session.clone(), previous_total.map(Usd::dollars)),
        stderr: Tail::new(MAX_STDERR_TAIL_BYTES),
    };
    let done = supervise(process, limits, &mut sink, stop, &context.reaper, AfterExit::EndAll).await;
    sink.files.ended(&done.ending);
    let exit = match done.ending {
        Ending::SpawnFailed(error) => {
            return Ok(Turned::Failed(failed(&not_started(name, error), Cost::default(), None)));
        }
        ending => exit_of(ending, &limits),
    };
    Ok(result(sink, exit, session, &plan.backend))
}

fn result(sink: TurnSink<'_>, exit: agent::Exit, session: String, backend: &str) -> Turned {
    let stderr = sink.stderr.last_lines(STDERR_LINES);
    let session_with = |cost: &Cost| Session {
        id: session.clone(),
        total_usd: cost.session_total_usd.map(Usd::from_dollars),
        backend: Some(backend.to_owned()),
    };
    match sink.decoder.finish(exit, &stderr) {
        Ok(report) => Turned::Completed {
            session: session_with(&report.cost),
            cost: turn_cost(&report.cost),
            warnings: denials(&report.permission_denials),
            text: report.text,
        },
        // It went over its share with its last words; they were said and paid for.
        Err(turn) if turn.final_text.is_some() => Turned::Completed {
            session: session_with(&turn.cost),
            cost: turn_cost(&turn.cost),
            warnings: denials(&turn.permission_denials),
            text: turn.final_text.unwrap_or_default(),
        },
        Err(turn) if exit == agent::Exit::Stopped => {
            Turned::Interrupted { cost: Usd::from_dollars(turn.cost.usd) }
        }
        Err(turn) => {
            let exit_code = match exit {
                agent::Exit::Code(code) => Some(code),
                _ => None,
            };
            let failed = failed(&turn.fault, turn.cost, Some(session_with(&turn.cost)));
            Turned::Failed(FailedTurn { exit_code, message: turn.last_text, ..failed })
        }
    }
}

fn ask(started: &TurnStarted, plan: &PromptPlan, prompt: String, skip_permissions: bool) -> Turn {
    Turn {
        prompt,
        session: started.session.clone(),
        branch_from: started.branch_of.clone(),
        model: plan.model.clone(),
        effort: plan.effort.clone(),
        allow_tools: plan.allow_tools.clone(),
        deny_tools: plan.deny_tools.clone(),
        add_dirs: plan.add_dirs.clone(),
        mcp_config: plan.mcp_config.clone(),
        skip_permissions,
        budget_usd: started.share_usd.map(Usd::dollars),
    }
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

fn exit_of(ending: Ending, limits: &Limits) -> agent::Exit {
    match ending {
        Ending::Exited(process::Exit::Code(code)) => agent::Exit::Code(code),
        Ending::Exited(process::Exit::Signal(signal)) => agent::Exit::Signal(signal),
        Ending::Exited(process::Exit::Unknown) | Ending::SpawnFailed(_) | Ending::Aborted => {
            agent::Exit::Code(-1)
        }
        Ending::IdleTimeout => agent::Exit::Silent(limits.idle.unwrap_or_default()),
        Ending::TotalTimeout => agent::Exit::OverTime(limits.total.unwrap_or_default()),
        Ending::Lingered => agent::Exit::Lingered,
        Ending::Stopped => agent::Exit::Stopped,
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
    decoder: Decoder,
    stderr: Tail,
}

impl TurnSink<'_> {
    fn show(&self, seen: &Seen) {
        if let Seen::Text(text) = seen {
            show_prints(self.context, self.launch, text);
        }
        let line = match seen {
            Seen::Text(text) => text.clone(),
            Seen::Tool { name, summary } => format!("{name}: {summary}"),
            Seen::PermissionDenied { tool } => format!("not permitted: {tool}"),
            Seen::ApiRetry { attempt, of, error, .. } => {
                format!("the model's service: {error}; retry {attempt} of {of}")
            }
            Seen::Unreadable(line) => format!("unreadable: {line}"),
            Seen::Started { .. } | Seen::TextDelta(_) | Seen::RateLimit { .. } | Seen::Final { .. } => return,
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
        for seen in self.decoder.feed(bytes) {
            self.show(&seen);
        }
        if self.decoder.is_final() { Flow::EndWithin(LINGER) } else { Flow::Continue }
    }

    fn stderr(&mut self, bytes: &[u8]) -> Flow {
        self.files.stderr(bytes);
        self.context.show(&self.launch.agent.id, Stream::Stderr, bytes);
        self.stderr.push(bytes);
        Flow::Continue
    }
}
