//! `raymond completions`

use super::args::CompletionsArgs;
use super::print::print_stdout;
use crate::error::{Exit, UserError};

pub(super) fn completions(args: CompletionsArgs) -> Result<Exit, UserError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::command(), "raymond", &mut script);
    print_stdout(&script)?;
    Ok(Exit::Completed)
}
