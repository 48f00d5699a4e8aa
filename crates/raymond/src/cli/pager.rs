//! Long texts on a terminal are shown by the user's pager.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::process::{Child, Command, Stdio};

use anstream::{AutoStream, ColorChoice};

/// What `less` is told if the user has not said it: to end if all fits, to keep colours, to leave the text on the screen.
const LESS: &str = "FRX";

/// Stdout. On a terminal, a text that is longer than the screen goes to a pager as it comes; elsewhere all of it is written
/// directly.
pub(super) enum Pager {
    /// It is not known yet how long the text is.
    Held {
        text: Vec<u8>,
        lines: usize,
        most_lines: usize,
    },
    Direct(BufWriter<AutoStream<Stdout>>),
    Paged {
        pager: Child,
        text: BufWriter<AutoStream<Box<dyn Write>>>,
    },
}

impl Pager {
    /// Without a terminal nothing is ever paged.
    pub(super) fn new(is_wanted: bool) -> Self {
        let height = || terminal_size::terminal_size().map(|(_, height)| usize::from(height.0));
        match is_wanted && io::stdout().is_terminal() {
            true => Self::Held { text: Vec::new(), lines: 0, most_lines: height().unwrap_or(usize::MAX) },
            false => Self::direct(),
        }
    }

    fn direct() -> Self {
        Self::Direct(BufWriter::new(AutoStream::auto(io::stdout())))
    }

    /// Shows what waits, and lets the user read to the end or leave before it.
    pub(super) fn finish(mut self) {
        if matches!(self, Self::Held { .. }) {
            let _ = self.go_to(Self::direct());
        }
        let _ = self.flush();
        if let Self::Paged { mut pager, text } = self {
            // The pager sees the end of the text.
            drop(text);
            let _ = pager.wait();
        }
    }

    /// Hands on what is held.
    fn go_to(&mut self, mut to: Self) -> io::Result<()> {
        if let Self::Held { text, .. } = self {
            to.write_all(text)?;
        }
        *self = to;
        Ok(())
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Held { text, lines, most_lines } => {
                text.extend_from_slice(bytes);
                *lines += bytes.iter().filter(|byte| **byte == b'\n').count();
                if lines >= most_lines {
                    self.go_to(start().unwrap_or_else(Self::direct))?;
                }
                Ok(bytes.len())
            }
            Self::Direct(out) => out.write(bytes),
            Self::Paged { text, .. } => text.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Held { .. } => Ok(()),
            Self::Direct(out) => out.flush(),
            Self::Paged { text, .. } => text.flush(),
        }
    }
}

/// The pager of the user, or `less`, if there is one.
fn start() -> Option<Pager> {
    let chosen = std::env::var("PAGER").ok().filter(|pager| !pager.trim().is_empty());
    let mut words = chosen.as_deref().unwrap_or("less").split_whitespace();
    let mut command = Command::new(words.next()?);
    command.args(words).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", LESS);
    }
    let mut pager = command.spawn().ok()?;
    let stdin: Box<dyn Write> = Box::new(pager.stdin.take()?);
    // Only `less` is known to show colours.
    let is_coloured = chosen.is_none() && AutoStream::choice(&io::stdout()) != ColorChoice::Never;
    let choice = if is_coloured { ColorChoice::AlwaysAnsi } else { ColorChoice::Never };
    Some(Pager::Paged { pager, text: BufWriter::new(AutoStream::new(stdin, choice)) })
}
