//! Typed lines on Unix, where `poll` can wait for a key or for a cancellation.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios};
use rustix::termios::{tcflush, tcgetattr, tcgetpgrp, tcsetattr};
use terminal_size::{Width, terminal_size_of};

use super::Line;
use super::editor::{Edited, Editor};

/// The ends of a pipe. Dropping the first cancels the wait.
pub(in crate::run::driver) type CallOff = io::PipeWriter;
pub(in crate::run::driver) type CalledOff = io::PipeReader;

/// How often to look whether this process is in the foreground again.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often to look whether the terminal still gives each key.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };
const USUAL_COLUMNS: usize = 80;
const PROMPT: &str = "> ";
/// Pasted text then comes between two marks, so that its line breaks are not taken for Enter.
const MARK_PASTES: &str = "\x1b[?2004h";
const LEAVE_PASTES: &str = "\x1b[?2004l";

pub(in crate::run::driver) fn call_off() -> io::Result<(CalledOff, CallOff)> {
    io::pipe()
}

/// What is typed from now on, for one question. Dropping it leaves the terminal as it was.
pub(in crate::run::driver) struct Keyboard<'a> {
    called_off: &'a CalledOff,
    /// Bytes that were read and not yet used.
    typed: VecDeque<u8>,
    /// The terminal's settings before keys were read one by one; without them, whole lines are read.
    before: Option<Termios>,
}

/// What a wait for input has led to.
enum Woken {
    Typed,
    CalledOff,
    /// The process was in the background meanwhile, and the terminal has other settings now.
    Returned,
    End,
}

impl<'a> Keyboard<'a> {
    /// What was typed on the terminal before the first line is read is thrown away.
    pub(in crate::run::driver) fn open(called_off: &'a CalledOff) -> Self {
        Self { called_off, typed: VecDeque::new(), before: None }
    }

    /// Reads one line of the answer, with a prompt before it.
    pub(in crate::run::driver) fn read_line(&mut self) -> Line {
        if !io::stdin().is_terminal() {
            show(PROMPT);
            return self.read_whole_line();
        }
        if !self.wait_for_foreground() {
            return Line::CalledOff;
        }
        if self.before.is_none() && !self.take_keys(OptionalActions::Flush) {
            show(PROMPT);
            let _ = tcflush(io::stdin(), QueueSelector::IFlush);
            return self.read_whole_line();
        }
        self.edit_line()
    }

    fn edit_line(&mut self) -> Line {
        let mut editor = Editor::default();
        let mut is_changed = true;
        loop {
            while let Some(byte) = self.typed.pop_front() {
                let before_enter = editor.is_enter(byte).then(|| editor.leave(PROMPT, columns()));
                match editor.press(byte) {
                    Edited::More => {}
                    Edited::End => return Line::End,
                    Edited::Done(text) => {
                        show(&before_enter.unwrap_or_default());
                        return Line::Text(text);
                    }
                }
            }
            if std::mem::take(&mut is_changed) {
                show(&editor.draw(PROMPT, columns()));
            }
            match self.wait() {
                Woken::Typed => is_changed = !self.typed.is_empty(),
                Woken::Returned => {
                    is_changed = true;
                    self.take_keys(OptionalActions::Now);
                    editor.forget_place();
                }
                Woken::CalledOff => {
                    // What was typed so far is no answer.
                    show(&editor.erase());
                    return Line::CalledOff;
                }
                Woken::End => return Line::End,
            }
        }
    }

    /// Lets the terminal collect the line. Reading byte by byte leaves the next line for the next question.
    fn read_whole_line(&mut self) -> Line {
        let mut bytes = Vec::new();
        loop {
            match self.typed.pop_front() {
                Some(b'\n') => return Line::Text(String::from_utf8_lossy(&bytes).into_owned()),
                Some(byte) => bytes.push(byte),
                None => match self.wait() {
                    Woken::Typed | Woken::Returned => {}
                    Woken::CalledOff => return Line::CalledOff,
                    Woken::End => return Line::End,
                },
            }
        }
    }

    /// Waits for input or the cancellation.
    fn wait(&mut self) -> Woken {
        if !is_in_foreground() {
            return if self.wait_for_foreground() { Woken::Returned } else { Woken::CalledOff };
        }
        let stdin = io::stdin();
        let mut ends = [
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::from_borrowed_fd(self.called_off.as_fd(), PollFlags::IN),
        ];
        match poll(&mut ends, Some(&LOOK_AGAIN)) {
            Ok(0) if self.has_lost_keys() => return Woken::Returned,
            Ok(0) => return Woken::Typed,
            Err(rustix::io::Errno::INTR) => return Woken::Typed,
            Err(_) => return Woken::End,
            Ok(_) if !ends[1].revents().is_empty() => return Woken::CalledOff,
            Ok(_) => {}
        }
        if !is_in_foreground() {
            return Woken::Returned;
        }
        let is_whole_lines = self.before.is_none();
        let mut bytes = [0; 4096];
        let most = if is_whole_lines { 1 } else { bytes.len() };
        match unbuffered_stdin().read(&mut bytes[..most]) {
            Ok(0) => Woken::End,
            Ok(length) => {
                self.typed.extend(&bytes[..length]);
                Woken::Typed
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Woken::Typed,
            Err(_) => Woken::End,
        }
    }

    /// After Ctrl-Z and `fg`, the terminal has the settings of the shell.
    fn has_lost_keys(&self) -> bool {
        self.before.is_some()
            && tcgetattr(io::stdin()).is_ok_and(|now| now.local_modes.contains(LocalModes::ICANON))
    }

    /// A process in the background that reads from the terminal, or changes its settings, is stopped by the system.
    /// Returns false if the wait was cancelled.
    fn wait_for_foreground(&self) -> bool {
        while !is_in_foreground() {
            let mut end = [PollFd::from_borrowed_fd(self.called_off.as_fd(), PollFlags::IN)];
            let time = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK_EVERY.subsec_nanos()) };
            if poll(&mut end, Some(&time)).is_ok_and(|ready| ready > 0) {
                return false;
            }
        }
        true
    }

    /// Makes the terminal give each key as it is pressed and show nothing itself. Ctrl-C and Ctrl-Z work as always.
    /// Returns false if this terminal cannot show an edited line.
    fn take_keys(&mut self, action: OptionalActions) -> bool {
        let is_dumb = std::env::var_os("TERM").is_none_or(|name| name == "dumb");
        if is_dumb || !io::stderr().is_terminal() {
            return false;
        }
        let Ok(now) = tcgetattr(io::stdin()) else { return false };
        let mut keys = now.clone();
        keys.local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ECHONL | LocalModes::IEXTEN);
        keys.special_codes[SpecialCodeIndex::VMIN] = 1;
        keys.special_codes[SpecialCodeIndex::VTIME] = 0;
        if tcsetattr(io::stdin(), action, &keys).is_err() {
            return false;
        }
        self.before.get_or_insert(now);
        show(MARK_PASTES);
        true
    }
}

impl Drop for Keyboard<'_> {
    fn drop(&mut self) {
        if let Some(before) = &self.before
            && is_in_foreground()
        {
            show(LEAVE_PASTES);
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

fn columns() -> usize {
    match terminal_size_of(io::stderr()) {
        Some((Width(columns), _)) if columns > 0 => columns.into(),
        _ => USUAL_COLUMNS,
    }
}

/// Writes to the terminal at once. While a question is on the screen, nothing else is written there.
fn show(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// Whether this process may use the terminal; true if stdin is none.
fn is_in_foreground() -> bool {
    tcgetpgrp(io::stdin()).map_or(true, |group| group == getpgrp())
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
