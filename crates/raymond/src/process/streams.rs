//! The pipes of a running program: two to read, one to write.
//!
//! Bounds: one buffer for each output pipe, reused for every chunk, and no larger than [`CHUNK_BYTES`]. Nothing is read
//! ahead of what is passed on.

use std::convert::Infallible;
use std::future;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::ChildStdin;

use super::CHUNK_BYTES;
use super::supervise::Input;
use super::system::{self, Output, Stderr, Stdout};

/// The most that is read after a program's exit. It is more than a pipe holds, unless an administrator raised the
/// system's limit, so all output of the program is read. It is bounded, so that a background child that never stops
/// writing cannot delay the step.
const MAX_PIPE_BYTES: usize = 1024 * 1024;

/// Small, because most programs print little and thousands may run at once. The buffer grows when it is filled.
const FIRST_BUFFER_BYTES: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Stdout,
    Stderr,
}

pub(super) struct Streams {
    stdout: Pipe<Stdout>,
    stderr: Pipe<Stderr>,
}

impl Streams {
    pub(super) fn new(stdout: Option<Stdout>, stderr: Option<Stderr>) -> Self {
        Streams { stdout: Pipe::new(stdout), stderr: Pipe::new(stderr) }
    }

    /// The numbers of the pipes, by which a process that holds one is found; zero where they are not known.
    pub(super) fn numbers(&self) -> [u64; 2] {
        [
            self.stdout.reader.as_ref().map_or(0, system::pipe_number),
            self.stderr.reader.as_ref().map_or(0, system::pipe_number),
        ]
    }

    pub(super) fn are_closed(&self) -> bool {
        self.stdout.reader.is_none() && self.stderr.reader.is_none()
    }

    /// The next chunk of either stream, in fair order; an empty one means EOF. Never returns after both streams have
    /// reached EOF. If it is cancelled, no output is lost.
    pub(super) async fn next(&mut self) -> (Source, &[u8]) {
        let source = tokio::select! {
            () = self.stdout.fill() => Source::Stdout,
            () = self.stderr.fill() => Source::Stderr,
        };
        match source {
            Source::Stdout => (source, &self.stdout.buffer),
            Source::Stderr => (source, &self.stderr.buffer),
        }
    }

    /// Reads what is in the pipes, without waiting. Stops early when `deliver` returns `false`.
    pub(super) fn sweep(&mut self, mut deliver: impl FnMut(Source, &[u8]) -> bool) {
        let _ = self.stdout.sweep(|bytes| deliver(Source::Stdout, bytes))
            && self.stderr.sweep(|bytes| deliver(Source::Stderr, bytes));
    }
}

struct Pipe<R> {
    reader: Option<R>,
    buffer: Vec<u8>,
    /// Whether the last chunk filled the buffer, so that a larger one is useful.
    is_full: bool,
}

impl<R: AsyncRead + Output + Unpin> Pipe<R> {
    fn new(reader: Option<R>) -> Self {
        Pipe { reader, buffer: Vec::with_capacity(FIRST_BUFFER_BYTES), is_full: false }
    }

    /// Afterwards the buffer holds what was read; it is empty at EOF.
    async fn fill(&mut self) {
        let Some(reader) = &mut self.reader else {
            return future::pending().await;
        };
        self.buffer.clear();
        if self.is_full && self.buffer.capacity() < CHUNK_BYTES {
            self.buffer.reserve_exact((self.buffer.capacity() * 4).min(CHUNK_BYTES));
            system::widen(&*reader);
        }
        // A read error is treated like EOF.
        let length = reader.read_buf(&mut self.buffer).await.unwrap_or(0);
        self.is_full = length == self.buffer.capacity();
        if length == 0 {
            self.reader = None;
        }
    }
}

impl<R: Output> Pipe<R> {
    /// Reads the pipe directly, because tokio may not know yet that it is readable.
    fn sweep(&mut self, mut deliver: impl FnMut(&[u8]) -> bool) -> bool {
        let Some(reader) = &self.reader else { return true };
        self.buffer.resize(self.buffer.capacity(), 0);
        let mut budget = MAX_PIPE_BYTES;
        while budget > 0 {
            let length = system::read_ready(reader, &mut self.buffer);
            if length == 0 {
                break;
            }
            if !deliver(&self.buffer[..length]) {
                return false;
            }
            budget = budget.saturating_sub(length);
        }
        true
    }
}

/// The input for a program's stdin. The pipe is closed when all of it is written and no more is to come.
pub(super) struct StdinWriter {
    pipe: Option<ChildStdin>,
    bytes: Vec<u8>,
    written: usize,
    is_complete: bool,
}

impl StdinWriter {
    pub(super) fn new(pipe: Option<ChildStdin>, first: Input) -> Self {
        StdinWriter { pipe, bytes: first.bytes, written: 0, is_complete: first.is_last }
    }

    /// Adds to the input.
    pub(super) fn add(&mut self, input: Input) {
        self.is_complete = input.is_last;
        if self.pipe.is_some() && !input.bytes.is_empty() {
            self.bytes.drain(..self.written);
            self.written = 0;
            self.bytes.extend(input.bytes);
        }
    }

    pub(super) fn close(&mut self) {
        self.pipe = None;
        self.bytes = Vec::new();
        self.written = 0;
    }

    /// Writes the input and never returns. May be cancelled and called again.
    pub(super) async fn run(&mut self) -> Infallible {
        while let Some(pipe) = &mut self.pipe {
            if self.written == self.bytes.len() {
                if !self.is_complete {
                    break;
                }
                self.close();
                continue;
            }
            match pipe.write(&self.bytes[self.written..]).await {
                Ok(length) if length > 0 => self.written += length,
                // The program has closed its stdin, which is no error.
                _ => self.close(),
            }
        }
        future::pending().await
    }
}
