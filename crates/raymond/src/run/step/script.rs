//! A script state: run directly, at no cost.

use raymond_core::duration::Limit;
use raymond_core::header::Header;
use raymond_core::input::{Exit, Input, Lookups, Outcome, ScriptOutcome, TimeLimit};
use raymond_core::limits::MAX_STDERR_TAIL_BYTES;
use raymond_core::money::Usd;
use raymond_core::tag::{TagCollector, TagError};
use raymond_core::transition;
use raymond_core::workflow::Platform;

use super::runnable::Runnable;
use super::{NotReady, StepContext, token};
use crate::process::{self, AfterExit, Ending, Flow, Limits, Sink, StopSignal, Tail, Target, supervise};
use crate::run::engine::Launch;
use crate::run::lookups;
use crate::run::mailbox::Message;
use crate::run::step::interpreter::command_line;
use crate::run::step::variables::{StepFacts, script_environment};
use crate::view::Stream;
use crate::view::debug::StepFiles;

/// How many lines of stderr an error shows.
const SHOWN_STDERR_LINES: usize = 20;

pub(super) async fn run(
    context: &StepContext,
    launch: &Launch,
    header: &Header,
    stop: StopSignal,
    files: &mut StepFiles,
) -> (Outcome, Lookups) {
    // The copy, if there is one, lasts as long as the step.
    let (program, _runnable) = match prepare(context, launch) {
        Ok(prepared) => prepared,
        Err(NotReady::Store(error)) => return (context.give_up(error), Lookups::default()),
        Err(NotReady::Step(error)) => {
            return (Outcome::Script(ScriptOutcome::NotStarted { error }), Lookups::default());
        }
    };
    let group_of = Target::by_token(program.token.clone());
    files.program(&program);
    let mut sink = ScriptSink::new(context, launch, files);
    let limits = Limits {
        idle: header.timeout.and_then(Limit::duration),
        total: header.max_time,
        ..Limits::default()
    };
    let done = supervise(program, limits, &mut sink, stop, &context.reaper, AfterExit::LeaveBackground).await;
    sink.files.ended(&done.ending);
    let stderr = context.without_secrets(&launch.agent, sink.stderr.last_lines(SHOWN_STDERR_LINES));
    let exit = match done.ending {
        Ending::Exited(exit) => exit,
        other => return (ended_early(other, header, sink.error, stderr), Lookups::default()),
    };
    let ignores_case = context.platform == Platform::Windows;
    let reading = sink
        .finish()
        .and_then(|collected| transition::read(collected, ignores_case).map_err(|error| error.to_string()));
    let lookups = match &reading {
        Ok(reading) => {
            lookups::of_transition(&mut context.scopes.borrow_mut(), &launch.agent, &reading.transition)
        }
        Err(_) => Lookups::default(),
    };
    // A step that succeeded may leave children behind; one that turns out to have failed may not.
    let is_success = exit == process::Exit::Code(0);
    if is_success && (reading.is_err() || !lookups.all_found()) {
        context.reaper.end(vec![Target { group: done.group, ..group_of }]).await;
    }
    (Outcome::Script(ScriptOutcome::Exited { exit: core_exit(exit), reading, stderr }), lookups)
}

fn ended_early(ending: Ending, header: &Header, error: Option<TagError>, stderr: String) -> Outcome {
    let timed_out = |kind, after: Option<std::time::Duration>, stderr| ScriptOutcome::TimedOut {
        kind,
        after: after.unwrap_or_default(),
        stderr,
    };
    Outcome::Script(match ending {
        Ending::Stopped => return Outcome::Interrupted { cost: Usd::ZERO },
        Ending::IdleTimeout => timed_out(TimeLimit::Idle, header.timeout.and_then(Limit::duration), stderr),
        Ending::TotalTimeout => timed_out(TimeLimit::Total, header.max_time, stderr),
        Ending::SpawnFailed(error) => ScriptOutcome::NotStarted { error: error.to_string() },
        Ending::Aborted | Ending::Lingered | Ending::Exited(_) => {
            let error =
                error.map_or_else(|| "its output could not be read".to_owned(), |error| error.to_string());
            ScriptOutcome::BadOutput { error, stderr }
        }
    })
}

fn core_exit(exit: process::Exit) -> Exit {
    match exit {
        process::Exit::Code(code) => Exit::Code(code),
        process::Exit::Signal(signal) => Exit::Signal(signal),
        process::Exit::Unknown => Exit::Code(-1),
    }
}

/// The program to start, with everything it needs on disk.
fn prepare(context: &StepContext, launch: &Launch) -> Result<(process::Launch, Runnable), NotReady> {
    let agent = &launch.agent;
    let task_folder = context.task_folder(agent)?;
    let handed = context.handed(agent)?;
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
        input: handed.as_ref().map(|(text, file)| (text.as_str(), file.clone())),
    };
    let (program, args) = command_line(agent.state.kind(), runnable.path(), context.platform)
        .ok_or_else(|| format!("{} is no script", agent.state))?;
    let token = token(&context.nonce, launch.started.step, launch.started.attempt);
    let mut program = process::Launch::new(program, &agent.cwd, token);
    program.args = args;
    program.env = script_environment(&facts);
    Ok((program, runnable))
}

/// Reads tags out of a script's output as it comes.
struct ScriptSink<'a> {
    context: &'a StepContext,
    launch: &'a Launch,
    files: &'a mut StepFiles,
    tags: TagCollector,
    error: Option<TagError>,
    stderr: Tail,
}

impl<'a> ScriptSink<'a> {
    fn new(context: &'a StepContext, launch: &'a Launch, files: &'a mut StepFiles) -> Self {
        Self {
            context,
            launch,
            files,
            tags: TagCollector::new(),
            error: None,
            stderr: Tail::new(MAX_STDERR_TAIL_BYTES),
        }
    }

    fn finish(self) -> Result<raymond_core::tag::Collected, String> {
        let Self { context, launch, tags, .. } = self;
        tags.finish(&mut |text| print(context, launch, text)).map_err(|error| error.to_string())
    }
}

fn print(context: &StepContext, launch: &Launch, text: String) {
    let (step, attempt) = (launch.started.step, launch.started.attempt);
    context.send(Message::Input(Input::Print { agent: launch.agent.id.clone(), step, attempt, text }));
}

impl Sink for ScriptSink<'_> {
    fn started(&mut self, group: i32) {
        self.context.remember_group(self.launch, group);
    }

    fn is_held_up(&self) -> bool {
        self.context.messages.is_full()
    }

    fn stdout(&mut self, bytes: &[u8]) -> Flow {
        self.files.stdout(bytes);
        self.context.show(&self.launch.agent.id, Stream::Stdout, bytes);
        let (context, launch) = (self.context, self.launch);
        match self.tags.feed(bytes, &mut |text| print(context, launch, text)) {
            Ok(()) => Flow::Continue,
            Err(error) => {
                self.error = Some(error);
                Flow::Abort
            }
        }
    }

    fn stderr(&mut self, bytes: &[u8]) -> Flow {
        self.files.stderr(bytes);
        self.context.show(&self.launch.agent.id, Stream::Stderr, bytes);
        self.stderr.push(bytes);
        Flow::Continue
    }
}
