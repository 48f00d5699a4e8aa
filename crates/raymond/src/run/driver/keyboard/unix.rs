//! Typed lines on Unix, where `poll` can wait for a line or for a cancellation.

use std::io::{self, Read};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};

use super::Line;

/// Dropping it cancels the wait: the two types are the ends of a pipe.
pub(in crate::run::driver) type CallOff = io::PipeWriter;
pub(in crate::run::driver) type CalledOff = io::PipeReader;

pub(in crate::run::driver) fn call_off() -> io::Result<(CalledOff, CallOff)> {
    io::pipe()
}

/// Reads one line. Reading byte by byte leaves the next line for the next question.
pub(in crate::run::driver) fn read_line(called_off: &CalledOff) -> Line {
    let stdin = io::stdin();
    let mut bytes = Vec::new();
    loop {
        let mut ends =
            [PollFd::new(&stdin, PollFlags::IN), PollFd::from_borrowed_fd(called_off.as_fd(), PollFlags::IN)];
        match poll(&mut ends, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return Line::End,
            Ok(_) if !ends[1].revents().is_empty() => return Line::CalledOff,
            Ok(_) => {}
        }
        let mut byte = [0];
        match unbuffered_stdin().read(&mut byte) {
            Ok(1) if byte[0] == b'\n' => return Line::Text(String::from_utf8_lossy(&bytes).into_owned()),
            Ok(1) => bytes.push(byte[0]),
            _ => return Line::End,
        }
    }
}

/// Stdin without the standard library's buffer: `poll` cannot see lines that are already in a buffer.
fn unbuffered_stdin() -> impl Read {
    struct Stdin;
    impl Read for Stdin {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            Ok(rustix::io::read(io::stdin(), buffer)?)
        }
    }
    Stdin
}
