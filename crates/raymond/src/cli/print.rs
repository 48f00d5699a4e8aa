//! What commands print on stdout and stderr.

use std::io::{self, ErrorKind, IsTerminal, Write};

use raymond_core::run::Run;

use crate::error::UserError;
use crate::store::Payloads;
use crate::view::text::clean;

/// Prints the result. Nothing else goes to stdout, so that it can be piped.
pub(super) fn print_result(run: &Run, payloads: &Payloads) -> Result<(), UserError> {
    let Some(result) = &run.result else { return Ok(()) };
    let text = payloads.text_of(result)?;
    let shown = if io::stdout().is_terminal() { clean(&text).into_owned() } else { text };
    let mut bytes = shown.into_bytes();
    if !bytes.ends_with(b"\n") {
        bytes.push(b'\n');
    }
    print_stdout(&bytes)
}

/// A broken pipe is no error: the reader has read as much as it wanted. Any other failure loses output.
pub(super) fn print_stdout(bytes: &[u8]) -> Result<(), UserError> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(cannot_write(&error)),
        _ => Ok(()),
    }
}

pub(super) fn cannot_write(error: &io::Error) -> UserError {
    UserError::failed(format!("cannot write to stdout: {error}"))
}

/// Prints a message on stderr; names in it may be anything. If that fails, there is no place to report it.
pub(super) fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{}", clean(text));
}
