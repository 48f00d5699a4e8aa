//! Stdout and stderr, written by threads of their own: whoever reads them may be slow, and a run must not wait for
//! that, nor become deaf to signals.

use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::Notify;

/// How much may wait to be written before no more is to be produced.
const FULL_AT_BYTES: usize = 8 * 1024 * 1024;

/// One stream. Clones write to the same.
#[derive(Clone)]
pub struct Output {
    state: Arc<State>,
    /// What was written since the last line break.
    line: Vec<u8>,
}

struct State {
    stream: fn() -> Box<dyn Write + Send>,
    /// The thread's end of the queue; there is none before there is something to write.
    chunks: OnceLock<mpsc::Sender<Vec<u8>>>,
    queued: AtomicUsize,
    drained: Notify,
    failure: Mutex<Option<io::Error>>,
}

impl Output {
    pub fn stdout() -> Self {
        Self::to(|| Box::new(io::stdout()))
    }

    pub fn stderr() -> Self {
        Self::to(|| Box::new(io::stderr()))
    }

    fn to(stream: fn() -> Box<dyn Write + Send>) -> Self {
        let state = State {
            stream,
            chunks: OnceLock::new(),
            queued: AtomicUsize::new(0),
            drained: Notify::new(),
            failure: Mutex::new(None),
        };
        Self { state: Arc::new(state), line: Vec::new() }
    }

    /// Whether whoever reads is far behind.
    pub fn is_full(&self) -> bool {
        self.state.queued.load(Ordering::Acquire) > FULL_AT_BYTES
    }

    /// Whether everything has been handed to the system.
    pub fn is_empty(&self) -> bool {
        self.state.queued.load(Ordering::Acquire) == 0
    }

    /// Waits until everything has been handed to the system.
    pub async fn drained(&self) {
        while !self.is_empty() {
            // Whoever finishes between the look and the wait leaves a permit, so nothing is missed.
            self.state.drained.notified().await;
        }
    }

    /// What went wrong first. That nobody reads any more is no failure of ours.
    pub fn failure(&self) -> Option<io::Error> {
        let failure = self.state.failure.lock().ok()?.take()?;
        (failure.kind() != io::ErrorKind::BrokenPipe).then_some(failure)
    }

    fn send(&mut self) {
        let chunk = std::mem::take(&mut self.line);
        self.state.queued.fetch_add(chunk.len(), Ordering::Release);
        // The thread ends only with the program.
        let _ = self.state.chunks.get_or_init(|| start(&self.state)).send(chunk);
    }
}

/// Starts the thread that writes; it ends with the program.
fn start(state: &Arc<State>) -> mpsc::Sender<Vec<u8>> {
    let (chunks, receiver) = mpsc::channel::<Vec<u8>>();
    let shared = Arc::clone(state);
    std::thread::spawn(move || {
        let mut stream = (shared.stream)();
        for chunk in receiver {
            let written = stream.write_all(&chunk).and_then(|()| stream.flush());
            if let (Err(error), Ok(mut failure)) = (written, shared.failure.lock()) {
                failure.get_or_insert(error);
            }
            if shared.queued.fetch_sub(chunk.len(), Ordering::AcqRel) == chunk.len() {
                shared.drained.notify_one();
            }
        }
    });
    chunks
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        if bytes.ends_with(b"\n") {
            self.send();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.line.is_empty() {
            self.send();
        }
        Ok(())
    }
}
