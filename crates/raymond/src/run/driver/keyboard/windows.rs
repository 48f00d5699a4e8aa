//! Typed lines on Windows, where a blocking read cannot be cancelled. One thread reads as long as the process lives;
//! `read_line` waits for a line from it or for the cancellation.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, Once, PoisonError};

use super::Line;

/// Dropping it cancels the wait.
pub(in crate::run::driver) struct CallOff(Arc<AtomicBool>);
pub(in crate::run::driver) struct CalledOff(Arc<AtomicBool>);

/// The line that was typed and not yet taken. The reading thread waits until it is taken before it reads the next.
struct Typed {
    line: Option<String>,
    has_ended: bool,
}

static TYPED: Mutex<Typed> = Mutex::new(Typed { line: None, has_ended: false });
static CHANGED: Condvar = Condvar::new();
static READER: Once = Once::new();

pub(in crate::run::driver) fn call_off() -> io::Result<(CalledOff, CallOff)> {
    let switch = Arc::new(AtomicBool::new(false));
    Ok((CalledOff(Arc::clone(&switch)), CallOff(switch)))
}

impl Drop for CallOff {
    fn drop(&mut self) {
        // Under the lock, so that it cannot happen between the check of the switch and the wait (a lost wake-up).
        let _typed = TYPED.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.store(true, Ordering::Release);
        CHANGED.notify_all();
    }
}

/// What is typed from now on, for one question.
pub(in crate::run::driver) struct Keyboard<'a>(&'a CalledOff);

impl<'a> Keyboard<'a> {
    /// Begins to read. A line that was typed before is thrown away.
    pub(in crate::run::driver) fn open(called_off: &'a CalledOff) -> Self {
        let mut typed = TYPED.lock().unwrap_or_else(PoisonError::into_inner);
        typed.line = None;
        CHANGED.notify_all();
        Self(called_off)
    }

    /// Reads one line of the answer, with a prompt before it. The console has its own editing.
    pub(in crate::run::driver) fn read_line(&mut self) -> Line {
        eprint!("> ");
        read_line(self.0)
    }
}

fn read_line(called_off: &CalledOff) -> Line {
    READER.call_once(|| drop(std::thread::spawn(read_all)));
    let typed = TYPED.lock().unwrap_or_else(PoisonError::into_inner);
    let is_off = || called_off.0.load(Ordering::Acquire);
    let waited = CHANGED.wait_while(typed, |typed| typed.line.is_none() && !typed.has_ended && !is_off());
    let mut typed = waited.unwrap_or_else(PoisonError::into_inner);
    if is_off() {
        return Line::CalledOff;
    }
    let line = typed.line.take();
    CHANGED.notify_all();
    line.map_or(Line::End, Line::Text)
}

fn read_all() {
    loop {
        let mut line = String::new();
        let has_ended = !matches!(io::stdin().read_line(&mut line), Ok(length) if length > 0);
        let typed = TYPED.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = CHANGED.wait_while(typed, |typed| typed.line.is_some());
        let mut typed = waited.unwrap_or_else(PoisonError::into_inner);
        if has_ended {
            typed.has_ended = true;
        } else {
            typed.line = Some(line.trim_end_matches(['\r', '\n']).to_owned());
        }
        CHANGED.notify_all();
        if has_ended {
            return;
        }
    }
}
