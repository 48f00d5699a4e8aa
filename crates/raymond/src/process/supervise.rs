//! One program from start to end: its output, its time limits, and what is left of it afterwards.
//!
//! A program has ended when it has exited and its output pipes are closed, or, because a background child
//! may hold them open, a short while ([`Limits::drain`]) after it has exited.

use std::future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

use super::child::Child;
use super::reaper::{Reaper, Target};
use super::spawn::{self, Launch, SpawnError};
use super::stop::StopSignal;
use super::streams::{Feed, Source, Streams};
use super::system;

/// How long a program may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long it may be silent on both streams.
    pub idle: Option<Duration>,
    /// How long it may run in all.
    pub total: Option<Duration>,
    /// How long to wait, once it has exited, for others to close its output.
    pub drain: Duration,
}

impl Limits {
    pub const DEFAULT_DRAIN: Duration = Duration::from_secs(2);
}

impl Default for Limits {
    fn default() -> Self {
        Limits { idle: None, total: None, drain: Limits::DEFAULT_DRAIN }
    }
}

/// Takes a program's output as it comes. It is called on the thread that drives everything, so it must be
/// quick.
pub trait Sink {
    fn stdout(&mut self, bytes: &[u8]) -> Flow;
    fn stderr(&mut self, bytes: &[u8]) -> Flow;
    /// The program runs, in this process group.
    fn started(&mut self, _group: i32) {}
    /// Whether to stop reading for a moment, so that the program waits for those who use its output.
    fn is_held_up(&self) -> bool {
        false
    }
}

/// How often it is asked whether the wait is over.
const HOLD_UP_POLL: Duration = Duration::from_millis(1);

/// What a [`Sink`] wants to happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Go on. From `stdout` this also takes back an earlier `EndWithin`.
    Continue,
    /// End the step now, as failed.
    Abort,
    /// The program has said all it has to say: unless more comes on stdout within this time, end it as
    /// done. While this is pending the time limits can no longer make it fail.
    EndWithin(Duration),
}

/// What to do with the processes that a successful program leaves behind. After anything but a success they
/// are ended in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterExit {
    /// For scripts: a background child is left alone. Its writes to our pipes fail from then on.
    LeaveBackground,
    /// For agents: nothing of them stays.
    EndAll,
}

/// How a program itself ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    /// The system did not tell; counts as a failure.
    Unknown,
}

/// Why a step is over.
#[derive(Debug)]
pub enum Ending {
    Exited(Exit),
    IdleTimeout,
    TotalTimeout,
    /// The sink wanted no more.
    Aborted,
    /// [`Flow::EndWithin`] ran out, and the program was ended.
    Lingered,
    /// The stop signal was triggered before the program had exited.
    Stopped,
    SpawnFailed(SpawnError),
}

impl Ending {
    pub fn is_success(&self) -> bool {
        matches!(self, Ending::Exited(Exit::Code(0)))
    }
}

/// How a step went.
#[derive(Debug)]
pub struct Outcome {
    pub ending: Ending,
    /// The process group of the program, if one was started. Only for use in a [`Target`] right away, when a
    /// success turns out to be none.
    pub group: Option<i32>,
    /// Processes of the step that were to be ended and that the system would not let us end, because they
    /// belong to another user or hang in the kernel.
    pub survivors: Vec<i32>,
}

impl Outcome {
    fn without_processes(ending: Ending) -> Self {
        Outcome { ending, group: None, survivors: Vec::new() }
    }
}

/// Runs a program to its end. Unless it succeeded and `after_exit` says to leave its background children
/// alone, nothing of it is alive when this returns; when it is cancelled, the reaper ends everything on its
/// own.
///
/// A program that has exited when the stop signal comes counts as exited: its work is done.
pub async fn supervise<S: Sink + ?Sized>(
    mut launch: Launch,
    limits: Limits,
    sink: &mut S,
    stop: StopSignal,
    reaper: &Reaper,
    after_exit: AfterExit,
) -> Outcome {
    if stop.is_triggered() {
        return Outcome::without_processes(Ending::Stopped);
    }
    let (child, streams) = match spawn::start(&launch).await {
        Ok(started) => started,
        Err(error) => return Outcome::without_processes(Ending::SpawnFailed(error)),
    };
    let group = child.id().and_then(|pid| i32::try_from(pid).ok());
    if let Some(group) = group {
        sink.started(group);
    }
    let tree = Tree::new(reaper, Target { token: std::mem::take(&mut launch.token), group });
    let mut running = Running::new(child, streams, launch.stdin, limits);
    let ending = running.watch(sink, &stop).await;
    if ending.is_success() && after_exit == AfterExit::LeaveBackground {
        tree.leave_alone();
        return Outcome { ending, group, survivors: Vec::new() };
    }
    let survivors = running.end(tree, sink).await;
    Outcome { ending, group, survivors }
}

/// All processes of a step. Dropping it has them ended without waiting for that.
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

    /// Once asked, the reaper finishes even if nobody waits for it.
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
    exit: Option<Exit>,
    feed: Feed,
    streams: Streams,
    clock: Clock,
}

/// What the loop below waits for; the stop signal aside, all there is.
enum Happening {
    StopRequested,
    Exited(Exit),
    Answered(Flow),
    Quiet,
    TimeUp,
}

impl Running {
    fn new(mut child: Child, streams: Streams, stdin: Vec<u8>, limits: Limits) -> Self {
        let feed = Feed::new(child.take_stdin(), stdin);
        Running { child, exit: None, feed, streams, clock: Clock::new(limits) }
    }

    async fn watch<S: Sink + ?Sized>(&mut self, sink: &mut S, stop: &StopSignal) -> Ending {
        let mut stop = pin!(stop.triggered());
        loop {
            if let Some(exit) = self.exit
                && self.streams.are_closed()
            {
                return Ending::Exited(exit);
            }
            let is_held_up = sink.is_held_up();
            let last_moment = self.clock.last_moment();
            // The order is random, so that a flood of output cannot keep the other events waiting.
            let happening = tokio::select! {
                () = &mut stop, if self.exit.is_none() => Happening::StopRequested,
                status = self.child.wait(), if self.exit.is_none() => Happening::Exited(exit_of(status)),
                happening = next_output(&mut self.streams, &mut self.clock, sink), if !is_held_up => happening,
                () = tokio::time::sleep(HOLD_UP_POLL), if is_held_up => continue,
                () = sleep_until(last_moment) => Happening::TimeUp,
                never = self.feed.run() => match never {},
            };
            if let Some(ending) = self.react(happening, sink) {
                return ending;
            }
        }
    }

    fn react<S: Sink + ?Sized>(&mut self, happening: Happening, sink: &mut S) -> Option<Ending> {
        match happening {
            Happening::Answered(Flow::Abort) => return Some(Ending::Aborted),
            Happening::Answered(Flow::Continue | Flow::EndWithin(_)) => return None,
            Happening::Exited(exit) => {
                self.note_exit(exit);
                return None;
            }
            Happening::TimeUp if self.exit.is_some() => return Some(self.take_the_rest(sink)),
            Happening::StopRequested | Happening::Quiet | Happening::TimeUp => {}
        }
        // Raymond itself may have been held up. A program that ended in time is not one that timed out.
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

    fn note_exit(&mut self, exit: Exit) {
        self.exit = Some(exit);
        self.feed.close();
        self.clock.program_exited();
    }

    /// Someone else holds the pipes open; what the program itself wrote lies in them completely.
    fn take_the_rest<S: Sink + ?Sized>(&mut self, sink: &mut S) -> Ending {
        let mut aborted = false;
        self.streams.sweep(|source, bytes| {
            aborted = deliver(sink, source, bytes) == Flow::Abort;
            !aborted
        });
        if aborted { Ending::Aborted } else { Ending::Exited(self.exit.unwrap_or(Exit::Unknown)) }
    }

    /// Has the whole tree ended. Its output is read on, since a program that cannot write cannot end in
    /// good order, but only stderr is handed over: it may explain things, and nothing is decided by it.
    async fn end<S: Sink + ?Sized>(mut self, tree: Tree<'_>, sink: &mut S) -> Vec<i32> {
        self.feed.close();
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
                // A dead child stays in the process table until it is asked for.
                _ = self.child.wait(), if self.exit.is_none() => self.exit = Some(Exit::Unknown),
            }
        };
        // It may have been found dead before that was noticed here.
        let _ = self.child.try_wait();
        self.streams.sweep(|source, bytes| {
            explain(source, bytes);
            true
        });
        survivors
    }
}

/// Output that has already come wins over the end of the silence it breaks.
async fn next_output<S: Sink + ?Sized>(streams: &mut Streams, clock: &mut Clock, sink: &mut S) -> Happening {
    let (source, bytes) = tokio::select! {
        biased;
        output = streams.next() => output,
        () = sleep_until(clock.end_of_patience()) => return Happening::Quiet,
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

fn exit_of(status: std::io::Result<std::process::ExitStatus>) -> Exit {
    status.map_or(Exit::Unknown, system::exit_of)
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => future::pending().await,
    }
}

/// Which moments matter to a running program.
struct Clock {
    limits: Limits,
    started: Instant,
    last_output: Instant,
    done_talking: Option<Instant>,
    exited: Option<Instant>,
}

impl Clock {
    fn new(limits: Limits) -> Self {
        let now = Instant::now();
        Clock { limits, started: now, last_output: now, done_talking: None, exited: None }
    }

    fn output_came(&mut self, source: Source, flow: Flow) {
        self.last_output = Instant::now();
        match flow {
            Flow::EndWithin(time) => self.done_talking = self.last_output.checked_add(time),
            Flow::Continue if source == Source::Stdout => self.done_talking = None,
            Flow::Continue | Flow::Abort => {}
        }
    }

    fn program_exited(&mut self) {
        self.exited = Some(Instant::now());
    }

    fn is_done_talking(&self) -> bool {
        self.done_talking.is_some()
    }

    /// When silence becomes a reason to end the program. Times too far away to be counted never come.
    fn end_of_patience(&self) -> Option<Instant> {
        if self.exited.is_some() {
            return None;
        }
        self.done_talking.or_else(|| self.last_output.checked_add(self.limits.idle?))
    }

    /// When it is over whatever comes.
    fn last_moment(&self) -> Option<Instant> {
        match self.exited {
            Some(exited) => exited.checked_add(self.limits.drain),
            None => self.started.checked_add(self.limits.total?),
        }
    }
}
