//! `raymond completions`

use super::args::CompletionsArgs;
use crate::error::{Exit, UserError};

pub(super) fn completions(args: CompletionsArgs) -> Result<Exit, UserError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::command(), "raymond", &mut script);
    super::drive::print_stdout(&script);
    Ok(Exit::Completed)
}
