//! Stdout and stderr, each written by a thread of its own: a pipe or terminal may be read slowly, and while a write
//! blocks, the run must go on and handle signals. Writing to a file does not block, so it needs no thread.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tokio::sync::Notify;

/// With more than this in the queue, the run waits until some of it has been written.
const FULL_AT_BYTES: usize = 8 * 1024 * 1024;
/// What a chunk counts in addition to its text, so that one without text counts too.
const CHUNK_BYTES: usize = 1;

/// Stdout or stderr. Clones write to the same stream.
#[derive(Clone)]
pub struct Output {
    shared: Arc<Shared>,
    /// What was written since the last line break.
    line: Vec<u8>,
}

/// What a stream leads to, which decides how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(windows, expect(dead_code, reason = "the kinds are distinguished on Unix only"))]
enum Kind {
    /// A terminal or a pipe, or anything else whose reader may be slow.
    Read,
    /// A regular file: writing does not block, so it needs no thread.
    File,
    /// The null device: what is written is lost.
    Nowhere,
}

/// What the clones of an output and its thread share.
struct Shared {
    /// What writes the chunks, until the thread has taken it.
    sink: Mutex<Option<Box<dyn Sink>>>,
    /// Whether the sink also draws a view on the terminal.
    is_drawn_on: bool,
    kind: Kind,
    /// Started with the first chunk.
    thread: OnceLock<Writer>,
    /// The weight of all chunks that are not written yet.
    queued: AtomicUsize,
    drained: Notify,
    /// Set when the thread has ended or could not be started.
    has_ended: AtomicBool,
    /// The first error.
    failure: Mutex<Option<io::Error>>,
}

/// The thread that writes, and the sender of its queue.
struct Writer {
    id: Option<ThreadId>,
    chunks: mpsc::Sender<Chunk>,
}

/// One entry of the queue. All but text matters only to a terminal with a live view.
#[derive(Debug)]
pub(crate) enum Chunk {
    Text(Vec<u8>),
    /// A question that is answered on the same terminal.
    Question {
        text: Vec<u8>,
        /// Dropped when the question has been written.
        shown: mpsc::Sender<()>,
    },
    /// The question is answered or withdrawn.
    GoOn,
    /// Another program has written to the terminal.
    DrawAgain,
    /// The view is to be removed; nothing is drawn after this.
    Close,
}

impl Chunk {
    fn weight(&self) -> usize {
        CHUNK_BYTES
            + match self {
                Chunk::Text(text) | Chunk::Question { text, .. } => text.len(),
                Chunk::GoOn | Chunk::DrawAgain | Chunk::Close => 0,
            }
    }
}

/// What writes the chunks.
pub(crate) trait Sink: Send {
    fn take(&mut self, chunk: Chunk) -> io::Result<()>;

    /// After how long without a chunk [`Sink::idle`] is to be called; never if there is none.
    fn patience(&self) -> Option<Duration> {
        None
    }

    /// Called when that time has passed.
    fn idle(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes each chunk as it is.
struct Plain<W>(W);

impl<W: Write + Send> Sink for Plain<W> {
    fn take(&mut self, chunk: Chunk) -> io::Result<()> {
        match chunk {
            Chunk::Text(text) | Chunk::Question { text, .. } => {
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
        let shared = Arc::new(Shared {
            sink: Mutex::new(Some(Box::new(sink))),
            is_drawn_on,
            kind,
            thread: OnceLock::new(),
            queued: AtomicUsize::new(0),
            drained: Notify::new(),
            has_ended: AtomicBool::new(false),
            failure: Mutex::new(None),
        });
        Self { shared, line: Vec::new() }
    }

    /// Whether all that is written is lost, so that no text has to be made for it.
    pub fn is_nowhere(&self) -> bool {
        self.shared.kind == Kind::Nowhere
    }

    /// Whether the reader is so far behind that the run has to wait.
    pub fn is_full(&self) -> bool {
        self.shared.queued.load(Ordering::Acquire) > FULL_AT_BYTES && !self.has_ended()
    }

    /// Whether everything has been handed to the operating system.
    pub fn is_empty(&self) -> bool {
        self.shared.queued.load(Ordering::Acquire) == 0 || self.has_ended()
    }

    /// Waits until everything has been handed to the operating system.
    pub async fn drained(&self) {
        while !self.is_empty() {
            // `notify_one` leaves a permit if nothing waits yet, so there is no race between check and wait.
            self.shared.drained.notified().await;
        }
    }

    fn has_ended(&self) -> bool {
        self.shared.has_ended.load(Ordering::Acquire)
    }

    /// The first error, unless it only says that the reader has closed the pipe.
    pub fn failure(&self) -> Option<io::Error> {
        let failure = self.shared.failure.lock().ok()?.take()?;
        (failure.kind() != io::ErrorKind::BrokenPipe).then_some(failure)
    }

    /// Asks a question that is answered on the same terminal. The receiver is disconnected once it has been written.
    pub fn ask(&mut self, question: &str) -> Receiver<()> {
        self.send_line();
        let (shown, is_shown) = mpsc::channel();
        self.send(Chunk::Question { text: question.as_bytes().to_vec(), shown });
        is_shown
    }

    /// Ends the question: it is answered or withdrawn.
    pub fn go_on(&mut self) {
        self.send(Chunk::GoOn);
    }

    /// Draws the view again, after another program has written to the terminal.
    pub fn draw_again(&mut self) {
        self.send(Chunk::DrawAgain);
    }

    /// Removes the view from the terminal; later lines are written without one.
    pub fn close(&mut self) {
        self.send_line();
        if self.shared.is_drawn_on {
            self.send(Chunk::Close);
        }
    }

    /// Whether this is the thread that writes.
    pub fn is_written_here(&self) -> bool {
        self.shared.thread.get().is_some_and(|writer| writer.id == Some(thread::current().id()))
    }

    fn send_line(&mut self) {
        if !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            self.send(Chunk::Text(line));
        }
    }

    fn send(&mut self, chunk: Chunk) {
        if self.shared.kind != Kind::Read {
            return self.shared.write_at_once(chunk);
        }
        self.shared.queued.fetch_add(chunk.weight(), Ordering::Release);
        // Sending fails only after the thread has panicked; then there is nothing left to do.
        let _ = self.shared.thread.get_or_init(|| start(&self.shared)).chunks.send(chunk);
    }
}

impl Shared {
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
fn start(shared: &Arc<Shared>) -> Writer {
    let (chunks, receiver) = mpsc::channel();
    let own = Arc::clone(shared);
    let work = move || {
        let _mark = MarkEnd(&own);
        let sink = own.sink.lock().ok().and_then(|mut sink| sink.take());
        if let Some(sink) = sink {
            write_all(receiver, sink, &own);
        }
    };
    match thread::Builder::new().name("output".to_owned()).spawn(work) {
        Ok(thread) => Writer { id: Some(thread.thread().id()), chunks },
        // The run goes on without output: it matters more than what is printed about it.
        Err(error) => {
            shared.note_failure(error);
            shared.has_ended.store(true, Ordering::Release);
            Writer { id: None, chunks }
        }
    }
}

/// Marks the output as ended when the thread ends, also by a panic, so that nothing waits for it.
struct MarkEnd<'a>(&'a Shared);

impl Drop for MarkEnd<'_> {
    fn drop(&mut self) {
        self.0.has_ended.store(true, Ordering::Release);
        self.0.drained.notify_one();
    }
}

fn write_all(chunks: Receiver<Chunk>, mut sink: Box<dyn Sink>, shared: &Shared) {
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
            shared.note_failure(error);
        }
        if weight > 0 && shared.queued.fetch_sub(weight, Ordering::AcqRel) == weight {
            shared.drained.notify_one();
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
