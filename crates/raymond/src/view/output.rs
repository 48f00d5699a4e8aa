//! Stdout and stderr, written by threads of their own: whoever reads them may be slow, and a run must not wait for
//! that, nor become deaf to signals. Files have no reader, so they are written at once.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tokio::sync::Notify;

/// How much may wait to be written before no more is to be produced.
const FULL_AT_BYTES: usize = 8 * 1024 * 1024;
/// What a chunk counts beside its text, so that none is overlooked.
const CHUNK_BYTES: usize = 1;

/// One stream. Clones write to the same.
#[derive(Clone)]
pub struct Output {
    state: Arc<State>,
    /// What was written since the last line break.
    line: Vec<u8>,
}

/// What a stream is, as far as it matters to how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(windows, expect(dead_code, reason = "they are told apart on Unix only"))]
enum Kind {
    /// Somebody may read it, and be slow.
    Read,
    /// Writing never waits for a reader, so that it needs no thread.
    File,
    /// The same, and nobody will ever see it.
    Nowhere,
}

struct State {
    /// Where the stream ends up, until its thread has it.
    sink: Mutex<Option<Box<dyn Sink>>>,
    /// Whether anything but what is written here appears there.
    is_drawn_on: bool,
    kind: Kind,
    /// There is none before there is something to write.
    thread: OnceLock<Writer>,
    queued: AtomicUsize,
    drained: Notify,
    /// Set when nothing is written any more.
    has_ended: AtomicBool,
    failure: Mutex<Option<io::Error>>,
}

/// The thread that writes, and its end of the queue.
struct Writer {
    id: Option<ThreadId>,
    chunks: mpsc::Sender<Chunk>,
}

/// What a stream is given. All but text matters only to a terminal on which something is drawn.
#[derive(Debug)]
pub(crate) enum Chunk {
    Text(Vec<u8>),
    /// A question that somebody is going to answer right there.
    Question(Vec<u8>),
    /// The question is answered or called off.
    GoOn,
    /// Somebody else has written to the terminal.
    DrawAgain,
    /// Nothing is to be drawn any more.
    Close,
}

impl Chunk {
    fn weight(&self) -> usize {
        CHUNK_BYTES
            + match self {
                Chunk::Text(text) | Chunk::Question(text) => text.len(),
                Chunk::GoOn | Chunk::DrawAgain | Chunk::Close => 0,
            }
    }
}

/// Where a stream ends up.
pub(crate) trait Sink: Send {
    fn take(&mut self, chunk: Chunk) -> io::Result<()>;

    /// After how long it wants to do something of its own.
    fn patience(&self) -> Option<Duration> {
        None
    }

    /// That time has passed.
    fn idle(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes what comes, as it comes.
struct Plain<W>(W);

impl<W: Write + Send> Sink for Plain<W> {
    fn take(&mut self, chunk: Chunk) -> io::Result<()> {
        match chunk {
            Chunk::Text(text) | Chunk::Question(text) => {
                self.0.write_all(&text)?;
                self.0.flush()
            }
            Chunk::GoOn | Chunk::DrawAgain | Chunk::Close => Ok(()),
        }
    }
}

impl Output {
    pub fn stdout() -> Self {
        Self::new(Plain(io::stdout()), kind_of(io::stdout()))
    }

    pub fn stderr() -> Self {
        Self::new(Plain(io::stderr()), kind_of(io::stderr()))
    }

    pub(crate) fn to(sink: impl Sink + 'static) -> Self {
        Self::new(sink, Kind::Read)
    }

    fn new(sink: impl Sink + 'static, kind: Kind) -> Self {
        let is_drawn_on = sink.patience().is_some();
        let state = Arc::new(State {
            sink: Mutex::new(Some(Box::new(sink))),
            is_drawn_on,
            kind,
            thread: OnceLock::new(),
            queued: AtomicUsize::new(0),
            drained: Notify::new(),
            has_ended: AtomicBool::new(false),
            failure: Mutex::new(None),
        });
        Self { state, line: Vec::new() }
    }

    /// Whether nobody will ever see what is written, so that it need not be put into words.
    pub fn is_nowhere(&self) -> bool {
        self.state.kind == Kind::Nowhere
    }

    /// Whether whoever reads is far behind.
    pub fn is_full(&self) -> bool {
        self.state.queued.load(Ordering::Acquire) > FULL_AT_BYTES && !self.has_ended()
    }

    /// Whether everything has been handed to the system.
    pub fn is_empty(&self) -> bool {
        self.state.queued.load(Ordering::Acquire) == 0 || self.has_ended()
    }

    /// Waits until everything has been handed to the system.
    pub async fn drained(&self) {
        while !self.is_empty() {
            // Whoever finishes between the look and the wait leaves a permit, so nothing is missed.
            self.state.drained.notified().await;
        }
    }

    fn has_ended(&self) -> bool {
        self.state.has_ended.load(Ordering::Acquire)
    }

    /// What went wrong first. That nobody reads any more is no failure of ours.
    pub fn failure(&self) -> Option<io::Error> {
        let failure = self.state.failure.lock().ok()?.take()?;
        (failure.kind() != io::ErrorKind::BrokenPipe).then_some(failure)
    }

    /// Puts a question to whoever sits there.
    pub fn ask(&mut self, question: &str) {
        self.send_line();
        self.send(Chunk::Question(question.as_bytes().to_vec()));
    }

    /// Nobody is answering any more.
    pub fn go_on(&mut self) {
        self.send(Chunk::GoOn);
    }

    /// Draws from scratch what is drawn on the terminal.
    pub fn draw_again(&mut self) {
        self.send(Chunk::DrawAgain);
    }

    /// Leaves the terminal as it was found; what is written after this simply appears.
    pub fn close(&mut self) {
        self.send_line();
        if self.state.is_drawn_on {
            self.send(Chunk::Close);
        }
    }

    /// Whether this is the thread that writes.
    pub fn is_written_here(&self) -> bool {
        self.state.thread.get().is_some_and(|writer| writer.id == Some(thread::current().id()))
    }

    fn send_line(&mut self) {
        if !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            self.send(Chunk::Text(line));
        }
    }

    fn send(&mut self, chunk: Chunk) {
        if self.state.kind != Kind::Read {
            return self.state.write_at_once(chunk);
        }
        self.state.queued.fetch_add(chunk.weight(), Ordering::Release);
        // The thread ends only with the program.
        let _ = self.state.thread.get_or_init(|| start(&self.state)).chunks.send(chunk);
    }
}

impl State {
    fn write_at_once(&self, chunk: Chunk) {
        let Ok(mut sink) = self.sink.lock() else { return };
        if let Some(Err(error)) = sink.as_mut().map(|sink| sink.take(chunk)) {
            self.note_failure(error);
        }
    }

    fn note_failure(&self, error: io::Error) {
        if let Ok(mut failure) = self.failure.lock() {
            failure.get_or_insert(error);
        }
    }
}

#[cfg(unix)]
fn kind_of(stream: impl std::os::fd::AsFd) -> Kind {
    use rustix::fs::{FileType, fstat, stat};
    let Ok(found) = fstat(stream) else { return Kind::Read };
    let is_null = || stat("/dev/null").is_ok_and(|null| null.st_rdev == found.st_rdev);
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::CharacterDevice if is_null() => Kind::Nowhere,
        _ => Kind::Read,
    }
}

#[cfg(windows)]
fn kind_of<S>(_stream: S) -> Kind {
    Kind::Read
}

/// Starts the thread that writes; it ends with the program.
fn start(state: &Arc<State>) -> Writer {
    let (chunks, receiver) = mpsc::channel();
    let shared = Arc::clone(state);
    let work = move || {
        let _end = End(&shared);
        let sink = shared.sink.lock().ok().and_then(|mut sink| sink.take());
        if let Some(sink) = sink {
            write_all(receiver, sink, &shared);
        }
    };
    match thread::Builder::new().name("output".to_owned()).spawn(work) {
        Ok(thread) => Writer { id: Some(thread.thread().id()), chunks },
        // The system has no thread to spare. The run matters more than what is said about it.
        Err(error) => {
            state.note_failure(error);
            state.has_ended.store(true, Ordering::Release);
            Writer { id: None, chunks }
        }
    }
}

/// Nobody waits for a thread that panicked.
struct End<'a>(&'a State);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.has_ended.store(true, Ordering::Release);
        self.0.drained.notify_one();
    }
}

fn write_all(chunks: Receiver<Chunk>, mut sink: Box<dyn Sink>, state: &State) {
    loop {
        let chunk = match sink.patience() {
            Some(time) => chunks.recv_timeout(time),
            None => chunks.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let (written, weight) = match chunk {
            Ok(chunk) => {
                let weight = chunk.weight();
                (sink.take(chunk), weight)
            }
            Err(RecvTimeoutError::Timeout) => (sink.idle(), 0),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if let Err(error) = written {
            state.note_failure(error);
        }
        if weight > 0 && state.queued.fetch_sub(weight, Ordering::AcqRel) == weight {
            state.drained.notify_one();
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        if bytes.ends_with(b"\n") {
            self.send_line();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send_line();
        Ok(())
    }
}
