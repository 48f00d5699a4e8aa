//! Why a name is not a state, with advice on what to do.

use std::fmt;

use super::wording::{did_you_mean, quoted, quoted_list};
use super::{Kind, Platform, StateFile};

/// Why a text cannot be the name of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameProblem {
    Empty,
    Path,
    ControlCharacter,
    LeadingDot,
}

impl fmt::Display for NameProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            NameProblem::Empty => "it is empty; name a state of this workflow",
            NameProblem::Path => {
                "states are named, not given as paths; leave out everything up to the last `/` or `\\`"
            }
            NameProblem::ControlCharacter => "it holds control characters; write the name alone, on one line",
            NameProblem::LeadingDot => "a state's name does not start with a dot",
        })
    }
}

/// Why a name could not be resolved. Texts are clipped, so that an error stays small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolveError {
    BadName {
        target: String,
        problem: NameProblem,
    },
    UnknownExtension {
        target: String,
        extension: String,
        suggestions: Vec<String>,
    },
    WrongPlatform {
        target: String,
        kind: Kind,
        platform: Platform,
    },
    /// `elsewhere` are files of the same name that run only on the other platform.
    NotFound {
        target: String,
        suggestions: Vec<String>,
        elsewhere: Vec<StateFile>,
    },
    Ambiguous {
        target: String,
        candidates: Vec<StateFile>,
    },
    /// `other_case` are files that differ from the wanted ones in upper and lower case only.
    NoEntry {
        elsewhere: Vec<StateFile>,
        other_case: Vec<StateFile>,
    },
    TwoEntries {
        candidates: Vec<StateFile>,
    },
}

impl std::error::Error for ResolveError {}

impl fmt::Display for ResolveError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResolveError::BadName { target, problem } => {
                write!(formatter, "{} cannot be a state: {problem}", quoted(target))
            }
            ResolveError::UnknownExtension { target, extension, suggestions } => write!(
                formatter,
                "{} has the unknown extension {} (known are {}){}",
                quoted(target),
                quoted(extension),
                quoted_list(&Kind::ALL.map(Kind::extension), "and"),
                did_you_mean(suggestions)
            ),
            ResolveError::WrongPlatform { target, kind, platform } => write!(
                formatter,
                "{} runs on {} only, and this is {platform}; name the state without an extension to let each platform \
                 take its own file",
                quoted(target),
                platform_names(kind.facts().platforms)
            ),
            ResolveError::NotFound { target, suggestions, elsewhere } => {
                write!(formatter, "there is no state {}{}", quoted(target), did_you_mean(suggestions))?;
                write_elsewhere(formatter, elsewhere)
            }
            ResolveError::Ambiguous { target, candidates } => write!(
                formatter,
                "{} is ambiguous: {} exist; add the extension or remove all but one",
                quoted(target),
                quoted_list(candidates, "and")
            ),
            ResolveError::NoEntry { elsewhere, other_case } => {
                formatter.write_str(
                    "there is no state `1_START` or `START` to begin with; add one or name a state",
                )?;
                if !other_case.is_empty() {
                    let names = quoted_list(other_case, "and");
                    write!(formatter, "; {names} would be one if its name were in upper case")?;
                }
                write_elsewhere(formatter, elsewhere)
            }
            ResolveError::TwoEntries { candidates } => write!(
                formatter,
                "it is not clear where to begin: {} exist; name one of them or remove the other",
                quoted_list(candidates, "and")
            ),
        }
    }
}

/// Adds the files that run only on the other platform.
fn write_elsewhere(formatter: &mut fmt::Formatter<'_>, elsewhere: &[StateFile]) -> fmt::Result {
    for state in elsewhere {
        let platforms = platform_names(state.kind().facts().platforms);
        write!(formatter, "; {} exists but runs on {platforms} only", quoted(state.as_str()))?;
    }
    Ok(())
}

fn platform_names(platforms: &[Platform]) -> String {
    let names: Vec<String> = platforms.iter().map(Platform::to_string).collect();
    names.join(" and ")
}
