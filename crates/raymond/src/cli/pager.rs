//! Long texts on a terminal are shown by the user's pager.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::process::{Command, Stdio};

use anstream::{AutoStream, ColorChoice};

/// What `less` is told if the user has not said it: to end if all fits, to keep colours, to leave the text on the screen.
const LESS: &str = "FRX";

/// Stdout. On a terminal, a text that is longer than the screen goes to a pager; elsewhere all of it is written as it
/// comes.
pub(super) enum Pager {
    /// It is not known yet how long the text is.
    Held(Vec<u8>),
    Direct(BufWriter<AutoStream<Stdout>>),
}

impl Pager {
    pub(super) fn new() -> Self {
        let stdout = io::stdout();
        match stdout.is_terminal() {
            true => Self::Held(Vec::new()),
            false => Self::Direct(BufWriter::new(AutoStream::auto(stdout))),
        }
    }

    /// Shows what waits. The reader may leave before its end.
    pub(super) fn finish(self) {
        let text = match self {
            Self::Held(text) => text,
            Self::Direct(mut out) => return drop(out.flush()),
        };
        let height = terminal_size::terminal_size().map_or(usize::MAX, |(_, height)| usize::from(height.0));
        let lines = text.iter().filter(|byte| **byte == b'\n').count();
        if lines < height || !page(&text) {
            let _ = AutoStream::auto(io::stdout()).write_all(&text);
        }
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Held(text) => text.write(bytes),
            Self::Direct(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Held(_) => Ok(()),
            Self::Direct(out) => out.flush(),
        }
    }
}

/// Hands the text to the pager of the user, or to `less`. False if there is none.
fn page(text: &[u8]) -> bool {
    let chosen = std::env::var("PAGER").ok().filter(|pager| !pager.trim().is_empty());
    let mut words = chosen.as_deref().unwrap_or("less").split_whitespace();
    let Some(program) = words.next() else { return false };
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", LESS);
    }
    let Ok(mut pager) = command.spawn() else { return false };
    if let Some(stdin) = pager.stdin.take() {
        // Only `less` is known to show colours.
        let is_coloured = chosen.is_none() && AutoStream::choice(&io::stdout()) != ColorChoice::Never;
        let choice = if is_coloured { ColorChoice::AlwaysAnsi } else { ColorChoice::Never };
        let _ = AutoStream::new(Box::new(stdin) as Box<dyn Write>, choice).write_all(text);
    }
    let _ = pager.wait();
    true
}
