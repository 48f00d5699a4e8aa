//! The named inputs of a new run: asking for those that are missing, and saying what is wrong with the others.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

use raymond_core::named_inputs::{DeclaredInput, InputKind, InputProblem};

use crate::error::UserError;
use crate::view::text::clean;
use crate::workflow::given_inputs::readable_file;

/// Asks on the terminal for every input that is needed and not given. Without a terminal nothing is asked.
pub(super) fn ask_for_missing(
    declared: &[DeclaredInput],
    given: &[(String, String)],
    cwd: &Path,
) -> Result<Vec<(String, String)>, UserError> {
    let is_missing =
        |input: &&DeclaredInput| input.is_needed() && !given.iter().any(|(name, _)| *name == input.name);
    let missing: Vec<&DeclaredInput> = declared.iter().filter(is_missing).collect();
    if missing.is_empty() || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(Vec::new());
    }
    let mut lines = io::stdin().lock();
    missing.into_iter().map(|input| ask(input, &mut lines, cwd)).collect()
}

/// Asks until the answer is one that the input can hold.
fn ask(input: &DeclaredInput, lines: &mut impl BufRead, cwd: &Path) -> Result<(String, String), UserError> {
    loop {
        // If the terminal cannot be written to, reading from it ends the loop.
        let _ = write!(io::stderr(), "{}: ", clean(&input.in_words()));
        let _ = io::stderr().flush();
        let mut line = String::new();
        let read = lines.read_line(&mut line);
        if !matches!(read, Ok(bytes) if bytes > 0) {
            let error = format!("the input `{}` is missing", input.name);
            return Err(UserError::usage(error).hint(format!("give it with --set {}=VALUE", input.name)));
        }
        let value = line.trim_end_matches(['\r', '\n']);
        let problem = match (value, &input.kind) {
            ("", _) => Some("it cannot be left out".to_owned()),
            (value, InputKind::File) => readable_file(cwd, value).err(),
            (value, kind) => kind.check(value).err(),
        };
        match problem {
            None => return Ok((input.name.clone(), value.to_owned())),
            Some(problem) => drop(writeln!(io::stderr(), "  {}", clean(&problem))),
        }
    }
}

/// What is wrong with the values that were given, all of it.
pub(super) fn refused(workflow: &str, problems: &[InputProblem]) -> UserError {
    let missing: Vec<&DeclaredInput> = problems
        .iter()
        .filter_map(|problem| match problem {
            InputProblem::Missing(input) => Some(input),
            _ => None,
        })
        .collect();
    let others = problems.iter().filter(|problem| !matches!(problem, InputProblem::Missing(_)));
    let mut lines: Vec<String> = others.map(InputProblem::to_string).collect();
    let words: Vec<String> = missing.iter().map(|input| input.in_words()).collect();
    let options: Vec<String> = missing.iter().map(|input| format!("--set {}=VALUE", input.name)).collect();
    let (noun, pronoun) = if missing.len() == 1 { ("input", "it") } else { ("inputs", "them") };
    lines.extend((!words.is_empty()).then(|| format!("it needs the {noun} {}", words.join(", "))));
    let error = UserError::usage(format!("{workflow}: {}", lines.join("\n  ")));
    match options.is_empty() {
        true => error,
        false => error.hint(format!("give {pronoun} with {}", options.join(" "))),
    }
}
