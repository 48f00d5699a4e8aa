//! A script state: run directly and without cost.

use std::time::Duration;

use raymond_core::duration::Limit;
use raymond_core::header::Header;
use raymond_core::input::{
    Input, ProcessExit, SHOWN_OUTPUT_LINES, ScriptOutcome, ShownOutput, StepOutcome, TimeLimit,
};
use raymond_core::limits::MAX_STDERR_TAIL_BYTES;
use raymond_core::money::Usd;
use raymond_core::tag::{TagCollector, TagError};
use raymond_core::transition;
use raymond_core::variable::Rules;
use raymond_core::workflow::Platform;

use super::gate::Place;
use super::interpreter::command_line;
use super::runnable::Runnable;
use super::{LocalExecutor, NotReady, environment, make_folders};
use crate::process::{
    self, AfterExit, Ending, Flow, OutputTail, Sink, SpawnError, Started, StopSignal, TimeLimits, supervise,
};
use crate::run::job::{Attempt, StepJob};
use crate::run::mailbox::Message;
use crate::view::Stream;
use crate::view::debug::StepFiles;

/// How many lines of stderr an error shows.
const SHOWN_STDERR_LINES: usize = 20;
/// How much of stdout is kept for an error about it.
const MAX_OUTPUT_TAIL_BYTES: usize = 2 * 1024;

pub(super) async fn run(
    executor: &LocalExecutor,
    job: &StepJob,
    place: &Place<'_>,
    header: &Header,
    stop: StopSignal,
    files: &mut StepFiles,
) -> StepOutcome {
    // The copy, if there is one, is kept until the end of the step.
    let (program, _runnable) = match prepare(executor, job) {
        Ok(prepared) => prepared,
        Err(NotReady::Store(error)) => return executor.give_up(error),
        Err(NotReady::Step(error)) => return StepOutcome::Script(ScriptOutcome::NotStarted { error }),
    };
    files.program(&program);
    let mut sink = ScriptSink::new(executor, job, place, files);
    let limits = TimeLimits {
        idle: header.timeout.and_then(Limit::duration),
        total: header.max_time.and_then(Limit::duration),
        ..TimeLimits::default()
    };
    let reaper = &executor.reaper;
    let done = supervise(program, limits, &mut sink, stop.clone(), reaper, AfterExit::LeaveBackground).await;
    sink.files.ended(&done.ending);
    let stderr = sink.stderr.last_lines(SHOWN_STDERR_LINES);
    let exit = match done.ending {
        Ending::Exited(exit) => exit,
        other => return ended_early(other, header, sink.error, stderr),
    };
    let rules = Rules { from_model: false, case_insensitive: executor.platform == Platform::Windows };
    let shown = ShownOutput {
        file: sink.files.output_path(),
        // Its lines are cut, and half a secret would not be found.
        ..ShownOutput::of_message(
            &executor.without_secrets(job, sink.output.last_lines(SHOWN_OUTPUT_LINES)),
            None,
        )
    };
    let mut other_case = Vec::new();
    let reading = sink.finish().and_then(|mut collected| {
        other_case = std::mem::take(&mut collected.near.if_state);
        transition::read(collected, rules).map_err(|error| error.to_string())
    });
    // A step that succeeded may leave children behind; one that failed may not.
    if exit == process::ProcessExit::Code(0) && reading.is_err() {
        let is_stopped = stop.includes_what_just_ended(false).await;
        executor.reaper.end(done.target.into_iter().collect()).await;
        if is_stopped {
            return StepOutcome::Interrupted { cost: Usd::ZERO };
        }
    }
    StepOutcome::Script(ScriptOutcome::Exited { exit: core_exit(exit), reading, other_case, stderr, shown })
}

fn ended_early(ending: Ending, header: &Header, error: Option<TagError>, stderr: String) -> StepOutcome {
    let timed_out = |kind, after: Option<std::time::Duration>, stderr| ScriptOutcome::TimedOut {
        kind,
        after: after.unwrap_or_default(),
        stderr,
    };
    StepOutcome::Script(match ending {
        Ending::Stopped => return StepOutcome::Interrupted { cost: Usd::ZERO },
        Ending::IdleTimeout => timed_out(TimeLimit::Idle, header.timeout.and_then(Limit::duration), stderr),
        Ending::TotalTimeout => {
            timed_out(TimeLimit::Total, header.max_time.and_then(Limit::duration), stderr)
        }
        Ending::SpawnFailed(error) => ScriptOutcome::NotStarted { error: error.to_string() },
        Ending::Aborted | Ending::Lingered | Ending::Exited(_) => {
            let error =
                error.map_or_else(|| "its output could not be read".to_owned(), |error| error.to_string());
            ScriptOutcome::BadOutput { error, stderr }
        }
    })
}

fn core_exit(exit: process::ProcessExit) -> ProcessExit {
    match exit {
        process::ProcessExit::Code(code) => ProcessExit::Code(code),
        process::ProcessExit::Signal(signal) => ProcessExit::Signal(signal),
        process::ProcessExit::Unknown => ProcessExit::Code(-1),
    }
}

/// The program to start, with everything it needs on disk.
fn prepare(executor: &LocalExecutor, job: &StepJob) -> Result<(process::ProgramSpec, Runnable), NotReady> {
    make_folders(job)?;
    let runnable = Runnable::of(executor, job)?;
    let state = &job.attempt.state;
    let (program, args) = command_line(state.kind(), runnable.path(), executor.platform)
        .ok_or_else(|| format!("{state} is no script"))?;
    let mut program = process::ProgramSpec::new(program, &job.needs.cwd, job.attempt.token.clone());
    program.args = args;
    program.env = environment(executor, job, &runnable);
    Ok((program, runnable))
}

/// Reads tags from a script's output as it arrives.
struct ScriptSink<'a> {
    executor: &'a LocalExecutor,
    job: &'a StepJob,
    place: &'a Place<'a>,
    files: &'a mut StepFiles,
    tags: TagCollector,
    error: Option<TagError>,
    output: OutputTail,
    stderr: OutputTail,
}

impl<'a> ScriptSink<'a> {
    fn new(
        executor: &'a LocalExecutor,
        job: &'a StepJob,
        place: &'a Place<'a>,
        files: &'a mut StepFiles,
    ) -> Self {
        Self {
            executor,
            job,
            place,
            files,
            tags: TagCollector::new(),
            error: None,
            output: OutputTail::new(MAX_OUTPUT_TAIL_BYTES),
            stderr: OutputTail::new(MAX_STDERR_TAIL_BYTES),
        }
    }

    fn finish(self) -> Result<raymond_core::tag::Collected, String> {
        let Self { executor, job, tags, .. } = self;
        tags.finish(&mut |text| print(executor, job, text)).map_err(|error| error.to_string())
    }
}

/// Shows what a step prints.
pub(super) fn print(executor: &LocalExecutor, job: &StepJob, text: String) {
    let Attempt { agent, step, number, .. } = &job.attempt;
    let text = executor.without_secrets(job, text).into();
    let print = Input::Print { agent: agent.clone(), step: *step, attempt: *number, text };
    executor.send(Message::Input(print));
}

impl Sink for ScriptSink<'_> {
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

    fn stdout(&mut self, bytes: &[u8]) -> Flow {
        self.files.stdout(bytes);
        self.output.push(bytes);
        self.executor.show(&self.job.attempt.agent, Stream::Stdout, bytes);
        let (executor, job) = (self.executor, self.job);
        match self.tags.feed(bytes, &mut |text| print(executor, job, text)) {
            Ok(()) => Flow::Continue,
            Err(error) => {
                self.error = Some(error);
                Flow::Abort
            }
        }
    }

    fn stderr(&mut self, bytes: &[u8]) -> Flow {
        self.files.stderr(bytes);
        self.executor.show(&self.job.attempt.agent, Stream::Stderr, bytes);
        self.stderr.push(bytes);
        Flow::Continue
    }
}
