//! Stdout and stderr, written by threads of their own: whoever reads them may be slow, and a run must not wait for
//! that, nor become deaf to signals.

use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

/// How much may wait to be written before no more is to be produced.
const FULL_AT_BYTES: usize = 8 * 1024 * 1024;

/// One stream. Clones write to the same.
#[derive(Clone)]
pub struct Output {
    chunks: mpsc::Sender<Vec<u8>>,
    state: Arc<State>,
    /// What was written since the last line break.
    line: Vec<u8>,
}

#[derive(Default)]
struct State {
    queued: AtomicUsize,
    failure: Mutex<Option<io::Error>>,
}

impl Output {
    pub fn stdout() -> Self {
        Self::to(io::stdout())
    }

    pub fn stderr() -> Self {
        Self::to(io::stderr())
    }

    fn to(mut stream: impl Write + Send + 'static) -> Self {
        let (chunks, receiver) = mpsc::channel::<Vec<u8>>();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for chunk in receiver {
                let written = stream.write_all(&chunk).and_then(|()| stream.flush());
                if let (Err(error), Ok(mut failure)) = (written, shared.failure.lock()) {
                    failure.get_or_insert(error);
                }
                shared.queued.fetch_sub(chunk.len(), Ordering::Release);
            }
        });
        Self { chunks, state, line: Vec::new() }
    }

    /// Whether whoever reads is far behind.
    pub fn is_full(&self) -> bool {
        self.state.queued.load(Ordering::Acquire) > FULL_AT_BYTES
    }

    /// Whether everything has been handed to the system.
    pub fn is_empty(&self) -> bool {
        self.state.queued.load(Ordering::Acquire) == 0
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
        let _ = self.chunks.send(chunk);
    }
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
