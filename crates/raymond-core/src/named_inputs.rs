//! The named inputs of a workflow: what its manifest declares, and the values that a run or a tag gives.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::MAX_ENVIRONMENT_PAYLOAD_BYTES;
use crate::workflow::wording::{did_you_mean, nearest, quoted, quoted_list};

/// An input that a workflow declares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredInput {
    pub name: String,
    pub kind: InputKind,
    /// Whether it must be given. One that is neither required nor given is an empty text.
    pub required: bool,
    /// What it is if it is not given.
    pub default: Option<String>,
    pub description: Option<String>,
}

impl DeclaredInput {
    /// Whether a run cannot begin without a value for it.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        self.required && self.default.is_none()
    }

    /// Its name and what it holds: `` `issue` (a whole number; the number of the issue) ``.
    #[must_use]
    pub fn in_words(&self) -> String {
        let about = self.description.as_deref().map(str::trim).filter(|about| !about.is_empty());
        let about = about.map(|about| format!("; {about}")).unwrap_or_default();
        format!("{} ({}{about})", quoted(&self.name), self.kind.in_words())
    }
}

/// What an input holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum InputKind {
    #[default]
    String,
    Integer,
    Number,
    Boolean,
    Choice(Vec<String>),
    /// The path of a file that can be read.
    File,
}

impl InputKind {
    /// What it holds, for messages.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self {
            Self::String => "text".to_owned(),
            Self::Integer => "a whole number".to_owned(),
            Self::Number => "a number".to_owned(),
            Self::Boolean => "`true` or `false`".to_owned(),
            Self::Choice(choices) => quoted_list(choices, "or"),
            Self::File => "a file".to_owned(),
        }
    }

    /// Checks a value. Whether a file is there is not known here.
    ///
    /// # Errors
    ///
    /// When the value is not of this kind.
    pub fn check(&self, value: &str) -> Result<(), String> {
        let digits = value.strip_prefix('-').unwrap_or(value);
        let is_fit = match self {
            Self::String => true,
            Self::Integer => !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()),
            Self::Number => {
                let is_part = |byte: u8| byte.is_ascii_digit() || b".eE+-".contains(&byte);
                let begins = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.');
                begins && value.bytes().all(is_part) && value.parse::<f64>().is_ok_and(f64::is_finite)
            }
            Self::Boolean => matches!(value, "true" | "false"),
            Self::Choice(choices) => choices.iter().any(|choice| choice == value),
            Self::File => !value.is_empty(),
        };
        match is_fit {
            true => Ok(()),
            false => Err(format!("{} is not {}", quoted(value), self.in_words())),
        }
    }
}

/// The values of the inputs of the workflow that an agent is in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputValues {
    pub values: BTreeMap<String, String>,
    /// Those that a model gave, which are not all variables of scripts by their own names.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub from_model: BTreeSet<String>,
}

impl InputValues {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// Why values do not fit the inputs that a workflow declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputProblem {
    Unknown { name: String, meant: Vec<String>, declared: Vec<String> },
    Twice { name: String },
    Wrong { name: String, why: String },
    Missing(DeclaredInput),
    TooLong { name: String },
}

impl fmt::Display for InputProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, declared, .. } if declared.is_empty() => {
                write!(f, "it has no inputs, so {} cannot be given", quoted(name))
            }
            Self::Unknown { name, meant, declared } if meant.is_empty() => {
                write!(f, "it has no input {}; it has {}", quoted(name), quoted_list(declared, "and"))
            }
            Self::Unknown { name, meant, .. } => {
                write!(f, "it has no input {}{}", quoted(name), did_you_mean(meant))
            }
            Self::Twice { name } => write!(f, "the input {} is given twice", quoted(name)),
            Self::Wrong { name, why } => write!(f, "the input {}: {why}", quoted(name)),
            Self::Missing(declared) => write!(f, "it needs the input {}", declared.in_words()),
            Self::TooLong { name } => write!(
                f,
                "with {} its inputs are longer than {} KiB; hand long texts over with `input`, or as a file",
                quoted(name),
                MAX_ENVIRONMENT_PAYLOAD_BYTES / 1024
            ),
        }
    }
}

/// The value of every declared input: what was given, else its default, else an empty text. `file` looks up the path of
/// a file.
///
/// # Errors
///
/// Everything that is wrong with what was given.
pub fn fill_in(
    declared: &[DeclaredInput],
    given: &[(String, String)],
    file: impl Fn(&str) -> Result<String, String>,
) -> Result<BTreeMap<String, String>, Vec<InputProblem>> {
    let mut problems = Vec::new();
    let mut values: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in given {
        let Some(input) = declared.iter().find(|input| input.name == *name) else {
            problems.push(unknown(declared, name));
            continue;
        };
        match fitting(input, value, &file) {
            Ok(_) if values.contains_key(name) => problems.push(InputProblem::Twice { name: name.clone() }),
            Ok(value) => drop(values.insert(name.clone(), value)),
            Err(why) => problems.push(InputProblem::Wrong { name: name.clone(), why }),
        }
    }
    let is_given = |input: &&DeclaredInput| given.iter().any(|(name, _)| *name == input.name);
    for input in declared.iter().filter(|input| !is_given(input)) {
        match &input.default {
            None if input.required => problems.push(InputProblem::Missing(input.clone())),
            None => drop(values.insert(input.name.clone(), String::new())),
            Some(default) => match fitting(input, default, &file) {
                Ok(value) => drop(values.insert(input.name.clone(), value)),
                Err(why) => problems.push(InputProblem::Wrong { name: input.name.clone(), why }),
            },
        }
    }
    problems.extend(too_long(&values));
    if problems.is_empty() { Ok(values) } else { Err(problems) }
}

/// A name that no input has, with those that it may stand for.
#[must_use]
pub fn unknown(declared: &[DeclaredInput], name: &str) -> InputProblem {
    let names: Vec<&str> = declared.iter().map(|input| input.name.as_str()).collect();
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    let meant = owned(nearest(name, names.iter().copied()));
    InputProblem::Unknown { name: name.to_owned(), meant, declared: owned(names) }
}

fn fitting(
    input: &DeclaredInput,
    value: &str,
    file: impl Fn(&str) -> Result<String, String>,
) -> Result<String, String> {
    input.kind.check(value)?;
    match input.kind {
        InputKind::File => file(value),
        _ => Ok(value.to_owned()),
    }
}

/// Inputs become environment variables of scripts, and the system limits their size.
fn too_long(values: &BTreeMap<String, String>) -> Option<InputProblem> {
    let mut bytes = 0;
    values.iter().find_map(|(name, value)| {
        bytes += name.len() + value.len();
        (bytes > MAX_ENVIRONMENT_PAYLOAD_BYTES).then(|| InputProblem::TooLong { name: name.clone() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(name: &str, kind: InputKind, required: bool, default: Option<&str>) -> DeclaredInput {
        let default = default.map(str::to_owned);
        DeclaredInput { name: name.to_owned(), kind, required, default, description: None }
    }

    fn given(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn kinds_know_their_values() {
        let choice = InputKind::Choice(vec!["a".into(), "b c".into()]);
        let fit = [
            (&InputKind::String, ""),
            (&InputKind::Integer, "-007"),
            (&InputKind::Integer, "123456789012345678901234567890"),
            (&InputKind::Number, "-1.5e3"),
            (&InputKind::Number, ".5"),
            (&InputKind::Boolean, "false"),
            (&choice, "b c"),
        ];
        for (kind, value) in fit {
            assert_eq!(kind.check(value), Ok(()), "{kind:?} {value}");
        }
        let unfit = [
            (&InputKind::Integer, ""),
            (&InputKind::Integer, "-"),
            (&InputKind::Integer, "+5"),
            (&InputKind::Integer, "1.0"),
            (&InputKind::Number, "NaN"),
            (&InputKind::Number, "inf"),
            (&InputKind::Number, "1e999"),
            (&InputKind::Number, "+1"),
            (&InputKind::Boolean, "yes"),
            (&choice, "c"),
            (&InputKind::File, ""),
        ];
        for (kind, value) in unfit {
            assert!(kind.check(value).is_err(), "{kind:?} {value}");
        }
        assert_eq!(choice.check("c").unwrap_err(), "`c` is not `a` or `b c`");
    }

    #[test]
    fn what_is_not_given_is_filled_in() {
        let inputs = [
            declared("issue", InputKind::Integer, true, None),
            declared("style", InputKind::String, false, Some("short")),
            declared("note", InputKind::Boolean, false, None),
            declared("log", InputKind::File, false, None),
        ];
        let file = |path: &str| Ok(format!("/abs/{path}"));
        let values = fill_in(&inputs, &given(&[("issue", "5"), ("log", "x")]), file).unwrap();
        let shown: Vec<String> = values.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(shown, ["issue=5", "log=/abs/x", "note=", "style=short"]);
        let wrong = given(&[("isue", "5"), ("style", "a"), ("style", "b"), ("note", "maybe")]);
        let problems: Vec<String> =
            fill_in(&inputs, &wrong, file).unwrap_err().iter().map(InputProblem::to_string).collect();
        assert_eq!(
            problems,
            [
                "it has no input `isue`; did you mean `issue`?",
                "the input `style` is given twice",
                "the input `note`: `maybe` is not `true` or `false`",
                "it needs the input `issue` (a whole number)",
            ]
        );
    }

    #[test]
    fn inputs_have_a_size_that_scripts_can_take() {
        let inputs = [declared("text", InputKind::String, true, None)];
        let long = "x".repeat(MAX_ENVIRONMENT_PAYLOAD_BYTES);
        let problems = fill_in(&inputs, &given(&[("text", &long)]), |_| Err(String::new())).unwrap_err();
        assert_eq!(problems, [InputProblem::TooLong { name: "text".into() }]);
    }
}
