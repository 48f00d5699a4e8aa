//! One program from start to end: its output, its time limits, and the processes it leaves behind.
//!
//! A program is finished when it has exited and its output pipes have reached EOF. A background child may keep the pipes
//! open, so they are read for at most [`TimeLimits::drain`] after the exit.

use std::future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::cgroup::Cgroup;
use super::child::Child;
use super::reaper::{Reaper, Target};
use super::spawn::{self, ProgramSpec, SpawnError};
use super::stop::StopSignal;
use super::streams::{Source, StdinWriter, Streams};
use super::trace::Trace;
use super::{suspend, system};

/// How long a program may run.
#[derive(Clone, Copy, Debug)]
pub struct TimeLimits {
    /// How long it may write nothing to stdout and stderr.
    pub idle: Option<Duration>,
    /// How long it may run altogether.
    pub total: Option<Duration>,
    /// How long to wait for EOF on its output after it has exited.
    pub drain: Duration,
}

impl TimeLimits {
    pub const DEFAULT_DRAIN: Duration = Duration::from_secs(2);
}

impl Default for TimeLimits {
    fn default() -> Self {
        TimeLimits { idle: None, total: None, drain: TimeLimits::DEFAULT_DRAIN }
    }
}

/// Receives a program's output as it arrives. It is called on the main thread, so it must return quickly.
pub trait Sink {
    fn stdout(&mut self, bytes: &[u8]) -> Flow;
    fn stderr(&mut self, bytes: &[u8]) -> Flow;
    /// The program was started, and can be found by this later.
    fn started(&mut self, _started: Started) {}
    /// The program could not be started. If that may work later, after how long to try again.
    fn start_again_after(&mut self, _error: &SpawnError) -> Option<Duration> {
        None
    }
    /// What is written to the program's stdin now. It is asked for at the start and after each piece of output.
    fn input(&mut self) -> Input {
        Input::default()
    }
    /// Whether to stop reading for a moment, so that the program does not write faster than its output is used.
    fn is_held_up(&self) -> bool {
        false
    }
}

/// A part of what a program reads on its stdin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    pub bytes: Vec<u8>,
    /// Whether stdin is closed after it, because the program has nothing more to ask.
    pub is_last: bool,
}

impl Default for Input {
    /// Nothing, now or later.
    fn default() -> Self {
        Input { bytes: Vec::new(), is_last: true }
    }
}

/// What the processes of a started program are found by.
#[derive(Debug)]
pub struct Started {
    pub trace: Option<Trace>,
    pub cgroup: Option<Arc<Cgroup>>,
}

/// How often [`Sink::is_held_up`] is asked again.
const HOLD_UP_POLL: Duration = Duration::from_millis(1);

/// What a [`Sink`] wants to happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Continue. From `stdout` this also cancels an earlier `EndWithin`.
    Continue,
    /// Continue, and cancel an earlier `EndWithin`.
    GoOn,
    /// End the step now, as failed.
    Abort,
    /// The program has written its last output. If it writes no more to stdout within this time, end it as
    /// successful. Until then it cannot fail by a time limit.
    EndWithin(Duration),
}

/// What to do with the processes that a successful program leaves behind. After a failure they are always ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterExit {
    /// For scripts: background children keep running. Their writes to our pipes fail from then on.
    LeaveBackground,
    /// For agents: everything is ended.
    EndAll,
    /// For Raymond itself, which ends its own processes: they are left alone however it exits.
    TidiesUpItself,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessExit {
    Code(i32),
    Signal(i32),
    /// The system did not report it; counts as a failure.
    Unknown,
}

impl ProcessExit {
    /// The signal that ended the program, or one of its own children if it reports that like a shell.
    fn signal(self) -> Option<i32> {
        const SHELL_OFFSET: i32 = 128;
        match self {
            ProcessExit::Signal(signal) => Some(signal),
            ProcessExit::Code(code) => code.checked_sub(SHELL_OFFSET).filter(|signal| *signal > 0),
            ProcessExit::Unknown => None,
        }
    }
}

/// Why supervision of a program ended.
#[derive(Debug)]
pub enum Ending {
    Exited(ProcessExit),
    IdleTimeout,
    TotalTimeout,
    /// The sink returned [`Flow::Abort`].
    Aborted,
    /// The time of [`Flow::EndWithin`] was over, and the program was ended.
    Lingered,
    /// The stop signal was triggered before the program had exited.
    Stopped,
    SpawnFailed(SpawnError),
}

impl Ending {
    pub fn is_success(&self) -> bool {
        matches!(self, Ending::Exited(ProcessExit::Code(0)))
    }

    fn is_failed_exit(&self) -> bool {
        matches!(self, Ending::Exited(_)) && !self.is_success()
    }

    /// Whether the program ended by a signal with which services and containers are stopped.
    fn is_by_stop_signal(&self) -> bool {
        matches!(self, Ending::Exited(exit) if exit.signal().is_some_and(system::is_stop_signal))
    }
}

/// What [`supervise`] returns.
#[derive(Debug)]
pub struct Supervised {
    pub ending: Ending,
    /// The processes of the program, if it was started.
    pub target: Option<Target>,
    /// Processes of the step that could not be ended, because they belong to another user or hang in the kernel.
    pub survivors: Vec<i32>,
}

impl Supervised {
    fn not_started(ending: Ending) -> Self {
        Supervised { ending, target: None, survivors: Vec::new() }
    }
}

/// Runs a program to its end. When this returns, no process of it is alive, unless the program succeeded and
/// `after_exit` lets background children run. If this is cancelled, the reaper ends all processes.
///
/// A program that has already exited when the stop signal comes counts as exited, unless it failed at the moment in which
/// Raymond got a signal: it got the same one.
pub async fn supervise<S: Sink + ?Sized>(
    mut spec: ProgramSpec,
    limits: TimeLimits,
    sink: &mut S,
    stop: StopSignal,
    reaper: &Reaper,
    after_exit: AfterExit,
) -> Supervised {
    if stop.is_triggered() {
        return Supervised::not_started(Ending::Stopped);
    }
    // A program without any input gets the null device and no pipe.
    let first = sink.input();
    spec.stdin.extend(first.bytes);
    let cgroup = reaper.cgroup();
    let (child, streams) = match start(&spec, cgroup.as_deref(), sink, &stop).await {
        Ok(started) => started,
        Err(ending) => return Supervised::not_started(ending),
    };
    let cgroup = cgroup.filter(|cgroup| {
        let is_in_it = child.is_in_cgroup();
        if !is_in_it {
            cgroup.refuse();
        }
        is_in_it
    });
    // It was not waited for yet, so no other process can have its number.
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    let trace = pid.and_then(|pid| Trace::of(pid, streams.numbers()));
    sink.started(Started { trace, cgroup: cgroup.clone() });
    let group = trace.map(|trace| trace.group);
    let target = Target { group, cgroup, ..Target::by_token(std::mem::take(&mut spec.token)) };
    let tree = Tree::new(reaper, target.clone());
    let input = Input { bytes: spec.stdin, is_last: first.is_last };
    let mut running = Running::new(child, streams, input, limits);
    let mut ending = running.watch(sink, &stop).await;
    let tidied_up = after_exit == AfterExit::TidiesUpItself && matches!(ending, Ending::Exited(_));
    if !tidied_up
        && ending.is_failed_exit()
        && stop.includes_what_just_ended(ending.is_by_stop_signal()).await
    {
        ending = Ending::Stopped;
    }
    if tidied_up || ending.is_success() && after_exit == AfterExit::LeaveBackground {
        tree.leave_alone();
        return Supervised { ending, target: Some(target), survivors: Vec::new() };
    }
    let survivors = running.end(tree, sink).await;
    Supervised { ending, target: Some(target), survivors }
}

/// Starts the program, perhaps after the sink has let it wait.
async fn start<S: Sink + ?Sized>(
    spec: &ProgramSpec,
    cgroup: Option<&Cgroup>,
    sink: &mut S,
    stop: &StopSignal,
) -> Result<(Child, Streams), Ending> {
    loop {
        let error = match spawn::start(spec, cgroup).await {
            Ok(started) => return Ok(started),
            Err(error) => error,
        };
        let Some(pause) = sink.start_again_after(&error) else { return Err(Ending::SpawnFailed(error)) };
        tokio::select! {
            () = stop.triggered() => return Err(Ending::Stopped),
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// All processes of a step. Dropping it asks the reaper to end them and does not wait.
struct Tree<'a> {
    reaper: &'a Reaper,
    target: Option<Target>,
}

impl<'a> Tree<'a> {
    fn new(reaper: &'a Reaper, target: Target) -> Self {
        Tree { reaper, target: Some(target) }
    }

    fn leave_alone(mut self) {
        if let Some(target) = self.target.take() {
            system::let_live(&target.token);
        }
    }

    /// The reaper continues even if this future is dropped.
    async fn end(mut self) -> Vec<i32> {
        let targets = self.target.take().into_iter().collect();
        self.reaper.end(targets).await
    }
}

impl Drop for Tree<'_> {
    fn drop(&mut self) {
        if let Some(target) = self.target.take() {
            self.reaper.end_unattended(vec![target]);
        }
    }
}

/// A program that has been started.
struct Running {
    child: Child,
    exit: Option<ProcessExit>,
    stdin: StdinWriter,
    streams: Streams,
    clock: Clock,
}

/// What [`Running::watch`] waits for.
enum Happening {
    StopRequested,
    Exited(ProcessExit),
    Answered(Flow),
    Quiet,
    TimeUp,
}

impl Running {
    fn new(mut child: Child, streams: Streams, input: Input, limits: TimeLimits) -> Self {
        let stdin = StdinWriter::new(child.take_stdin(), input);
        Running { child, exit: None, stdin, streams, clock: Clock::new(limits) }
    }

    async fn watch<S: Sink + ?Sized>(&mut self, sink: &mut S, stop: &StopSignal) -> Ending {
        let mut stop = pin!(stop.triggered());
        loop {
            if let Some(exit) = self.exit
                && self.streams.are_closed()
            {
                return Ending::Exited(exit);
            }
            self.stdin.add(sink.input());
            let is_held_up = sink.is_held_up();
            let final_deadline = self.clock.final_deadline();
            // `select!` polls in random order, so that endless output cannot starve the other branches.
            let happening = tokio::select! {
                () = &mut stop, if self.exit.is_none() => Happening::StopRequested,
                status = self.child.wait(), if self.exit.is_none() => Happening::Exited(exit_of(status)),
                happening = next_output(&mut self.streams, &mut self.clock, sink), if !is_held_up => happening,
                () = tokio::time::sleep(HOLD_UP_POLL), if is_held_up => continue,
                () = sleep_until(final_deadline) => Happening::TimeUp,
                never = self.stdin.run() => match never {},
            };
            if let Some(ending) = self.react(happening, sink) {
                return ending;
            }
        }
    }

    fn react<S: Sink + ?Sized>(&mut self, happening: Happening, sink: &mut S) -> Option<Ending> {
        match happening {
            Happening::Answered(Flow::Abort) => return Some(Ending::Aborted),
            Happening::Answered(Flow::Continue | Flow::GoOn | Flow::EndWithin(_)) => return None,
            Happening::Exited(exit) => {
                self.note_exit(exit);
                return None;
            }
            Happening::TimeUp if self.exit.is_some() => return Some(self.drain_pipes(sink)),
            Happening::StopRequested | Happening::Quiet | Happening::TimeUp => {}
        }
        // Raymond itself may have been delayed. A program that exited in time has not timed out.
        if let Ok(Some(status)) = self.child.try_wait() {
            self.note_exit(system::exit_of(status));
            return None;
        }
        Some(match happening {
            Happening::StopRequested => Ending::Stopped,
            _ if self.clock.is_done_talking() => Ending::Lingered,
            Happening::TimeUp => Ending::TotalTimeout,
            _ => Ending::IdleTimeout,
        })
    }

    fn note_exit(&mut self, exit: ProcessExit) {
        self.exit = Some(exit);
        self.stdin.close();
        self.clock.program_exited();
    }

    /// A background child keeps the pipes open. Everything that the program itself wrote is in them by now.
    fn drain_pipes<S: Sink + ?Sized>(&mut self, sink: &mut S) -> Ending {
        let mut aborted = false;
        self.streams.sweep(|source, bytes| {
            aborted = deliver(sink, source, bytes) == Flow::Abort;
            !aborted
        });
        if aborted { Ending::Aborted } else { Ending::Exited(self.exit.unwrap_or(ProcessExit::Unknown)) }
    }

    /// Ends the whole process tree. Output is still read, because a program that is blocked on a full pipe cannot clean
    /// up. Only stderr is passed on: it may contain an explanation, and no decision depends on it.
    async fn end<S: Sink + ?Sized>(mut self, tree: Tree<'_>, sink: &mut S) -> Vec<i32> {
        self.stdin.close();
        let mut explain = |source, bytes: &[u8]| {
            if source == Source::Stderr && !bytes.is_empty() {
                sink.stderr(bytes);
            }
        };
        let mut ended = pin!(tree.end());
        let survivors = loop {
            tokio::select! {
                survivors = &mut ended => break survivors,
                (source, bytes) = self.streams.next() => explain(source, bytes),
                // Otherwise the child would stay a zombie.
                _ = self.child.wait(), if self.exit.is_none() => self.exit = Some(ProcessExit::Unknown),
            }
        };
        // The reaper may have seen the exit before `wait` did.
        let _ = self.child.try_wait();
        self.streams.sweep(|source, bytes| {
            explain(source, bytes);
            true
        });
        survivors
    }
}

/// Output that has already arrived takes precedence over an idle timeout.
async fn next_output<S: Sink + ?Sized>(streams: &mut Streams, clock: &mut Clock, sink: &mut S) -> Happening {
    let (source, bytes) = tokio::select! {
        biased;
        output = streams.next() => output,
        () = sleep_until(clock.idle_deadline()) => return Happening::Quiet,
    };
    if bytes.is_empty() {
        return Happening::Answered(Flow::Continue);
    }
    let flow = deliver(sink, source, bytes);
    clock.output_came(source, flow);
    Happening::Answered(flow)
}

fn deliver<S: Sink + ?Sized>(sink: &mut S, source: Source, bytes: &[u8]) -> Flow {
    match source {
        Source::Stdout => sink.stdout(bytes),
        Source::Stderr => sink.stderr(bytes),
    }
}

fn exit_of(status: std::io::Result<std::process::ExitStatus>) -> ProcessExit {
    status.map_or(ProcessExit::Unknown, system::exit_of)
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => suspend::sleep_until(deadline).await,
        None => future::pending().await,
    }
}

/// The deadlines of a running program, on a clock that stands still while Raymond is suspended.
struct Clock {
    limits: TimeLimits,
    started: Instant,
    last_output: Instant,
    done_talking: Option<Instant>,
    exited: Option<Instant>,
}

impl Clock {
    fn new(limits: TimeLimits) -> Self {
        let now = suspend::now();
        Clock { limits, started: now, last_output: now, done_talking: None, exited: None }
    }

    fn output_came(&mut self, source: Source, flow: Flow) {
        self.last_output = suspend::now();
        match flow {
            Flow::EndWithin(time) => self.done_talking = self.last_output.checked_add(time),
            Flow::GoOn => self.done_talking = None,
            Flow::Continue if source == Source::Stdout => self.done_talking = None,
            Flow::Continue | Flow::Abort => {}
        }
    }

    fn program_exited(&mut self) {
        self.exited = Some(suspend::now());
    }

    fn is_done_talking(&self) -> bool {
        self.done_talking.is_some()
    }

    /// When the program is ended if it writes nothing. `None` also if the time is too large to represent.
    fn idle_deadline(&self) -> Option<Instant> {
        if self.exited.is_some() {
            return None;
        }
        self.done_talking.or_else(|| self.last_output.checked_add(self.limits.idle?))
    }

    /// When supervision ends in any case.
    fn final_deadline(&self) -> Option<Instant> {
        match self.exited {
            Some(exited) => exited.checked_add(self.limits.drain),
            None => self.started.checked_add(self.limits.total?),
        }
    }
}
