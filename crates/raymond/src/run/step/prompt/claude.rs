//! A turn of Claude Code.

use std::ffi::OsString;
use std::time::Duration;

use raymond_core::input::{FailedTurn, FaultClass, TurnCost};
use raymond_core::limits::MAX_STDERR_TAIL_BYTES;
use raymond_core::money::Usd;
use raymond_core::run::Session;

use super::{Turned, session_of, show_prints};
use crate::agent::claude::{Decoder, invocation};
use crate::agent::{self, Class, Cost, Invocation, Seen, Turn, TurnFault};
use crate::process::{
    self, AfterExit, Ending, Flow, OutputTail, ParentDeath, Sink, SpawnError, StopSignal, TimeLimits,
    supervise,
};
use crate::run::job::{StepJob, TurnNeeds};
use crate::run::step::runnable::Runnable;
use crate::run::step::{LocalExecutor, NotReady, environment, make_folders};
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
    pub(super) files: &'a mut StepFiles,
}

pub(super) async fn turn(
    executor: &LocalExecutor,
    job: &StepJob,
    needs: &TurnNeeds,
    program: Program<'_>,
    stop: StopSignal,
) -> Result<Turned, NotReady> {
    let session = session_of(job);
    let invocation = invocation(&ask(job, needs), program.command, program.args);
    let name = invocation.program.clone();
    // The copy, if there is one, lasts as long as the turn.
    let (process, _runnable) = process(executor, job, invocation)?;
    program.files.program(&process);
    let settings = &needs.settings;
    let limits = TimeLimits { idle: settings.timeout, total: settings.max_time, ..TimeLimits::default() };
    let mut sink = TurnSink {
        executor,
        job,
        files: program.files,
        decoder: Decoder::new(session.clone(), needs.conversation_total_usd.map(Usd::dollars)),
        stderr: OutputTail::new(MAX_STDERR_TAIL_BYTES),
    };
    let done = supervise(process, limits, &mut sink, stop, &executor.reaper, AfterExit::EndAll).await;
    sink.files.ended(&done.ending);
    let exit = match done.ending {
        Ending::SpawnFailed(error) => {
            return Ok(Turned::Failed(failed(&not_started(name, error), Cost::default(), None)));
        }
        ending => exit_of(ending, &limits),
    };
    Ok(result(sink, exit, session, &needs.backend))
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

fn ask(job: &StepJob, needs: &TurnNeeds) -> Turn {
    let settings = needs.settings.clone();
    Turn {
        prompt: needs.prompt.clone(),
        session: session_of(job),
        branch_from: job.turn.as_ref().and_then(|turn| turn.branch_of.clone()),
        model: settings.model,
        effort: settings.effort,
        allow_tools: settings.allow_tools,
        deny_tools: settings.deny_tools,
        add_dirs: settings.add_dirs,
        mcp_config: settings.mcp_config,
        skip_permissions: needs.skip_permissions,
        budget_usd: job.turn.as_ref().and_then(|turn| turn.share_usd).map(Usd::dollars),
    }
}

fn process(
    executor: &LocalExecutor,
    job: &StepJob,
    invocation: Invocation,
) -> Result<(process::ProgramSpec, Runnable), NotReady> {
    make_folders(job)?;
    let runnable = Runnable::of(executor, job)?;
    let token = job.attempt.token.clone();
    let mut process = process::ProgramSpec::new(invocation.program, &job.needs.cwd, token);
    process.args = invocation.args.into_iter().map(OsString::from).collect();
    process.stdin = invocation.stdin;
    process.env = environment(job, runnable.path());
    process.env.extend(invocation.unset.into_iter().map(|name| (name.into(), None)));
    process.env.extend(invocation.set.into_iter().map(|(name, value)| (name.into(), Some(value.into()))));
    // The program ends its own tools when it is asked to end.
    process.on_parent_death = ParentDeath::Terminate;
    Ok((process, runnable))
}

fn exit_of(ending: Ending, limits: &TimeLimits) -> agent::Exit {
    match ending {
        Ending::Exited(process::ProcessExit::Code(code)) => agent::Exit::Code(code),
        Ending::Exited(process::ProcessExit::Signal(signal)) => agent::Exit::Signal(signal),
        Ending::Exited(process::ProcessExit::Unknown) | Ending::SpawnFailed(_) | Ending::Aborted => {
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
    executor: &'a LocalExecutor,
    job: &'a StepJob,
    files: &'a mut StepFiles,
    decoder: Decoder,
    stderr: OutputTail,
}

impl TurnSink<'_> {
    fn show(&self, seen: &Seen) {
        if let Seen::Text(text) = seen {
            show_prints(self.executor, self.job, text);
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
        self.executor.show(&self.job.attempt.agent, Stream::Stdout, format!("{line}\n").as_bytes());
    }
}

impl Sink for TurnSink<'_> {
    fn started(&mut self, group: i32) {
        self.executor.remember_group(self.job, group);
    }

    fn is_held_up(&self) -> bool {
        self.executor.messages.is_full()
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
        self.executor.show(&self.job.attempt.agent, Stream::Stderr, bytes);
        self.stderr.push(bytes);
        Flow::Continue
    }
}
