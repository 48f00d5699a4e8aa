//! The named inputs that a manifest declares.

use raymond_core::frontmatter::yaml::{Fault, Field, Node, Value};
use raymond_core::named_inputs::{DeclaredInput, InputKind};
use raymond_core::tag::{Applies, Attribute};
use raymond_core::variable::{self, Rules, VariableError};
use raymond_core::workflow::Platform;
use raymond_core::workflow::source::SourceWarning;
use raymond_core::workflow::wording::{did_you_mean, nearest, quoted, quoted_list};

use super::{Reader, mapping, text, wrong_type};

/// The keys of an input.
pub const INPUT_KEYS: [&str; 5] = ["type", "required", "default", "description", "choices"];

/// The types, in the order of the documentation.
const TYPES: [&str; 6] = ["string", "integer", "number", "boolean", "choice", "file"];

/// How many inputs a workflow may declare; an attribute of a tag is needed for each.
const MAX_INPUTS: usize = 200;

impl Reader<'_> {
    pub(super) fn read_inputs(&mut self, field: &Field) -> Result<(), Fault> {
        let fields = mapping(field, "a mapping of names such as `issue: { type: integer, required: true }`")?;
        if fields.len() > MAX_INPUTS {
            let message = format!("a workflow can declare at most {MAX_INPUTS} inputs");
            return Err(Fault::new(field.node.position, message));
        }
        for input in fields {
            check_name(input, &self.manifest.inputs)?;
            let declared = self.read_one_input(input)?;
            self.manifest.inputs.push(declared);
        }
        Ok(())
    }

    fn read_one_input(&mut self, input: &Field) -> Result<DeclaredInput, Fault> {
        let parts = mapping(input, "a mapping such as `{ type: integer, required: true }`")?;
        let part = |key: &str| parts.iter().find(|part| part.key == key);
        for unknown in parts.iter().filter(|part| !INPUT_KEYS.contains(&part.key.as_str())) {
            self.warn_of_key(unknown, "key of an input", &INPUT_KEYS);
        }
        let kind = kind(input, part("type"), part("choices"))?;
        let default = part("default").map(|part| default(part, &kind)).transpose()?;
        let required = part("required").map(flag).transpose()?.unwrap_or(false);
        if let (Some(part), true, true) = (part("required"), required, default.is_some()) {
            let message = format!("`required` means nothing for {}, which has a default", quoted(&input.key));
            self.manifest.warnings.push(SourceWarning { position: part.key_position, message });
        }
        let description = part("description").map(text).transpose()?;
        Ok(DeclaredInput { name: input.key.clone(), kind, required, default, description })
    }
}

/// Inputs are attributes of tags and variables of scripts, so they have the names that a fork's attributes can have.
fn check_name(input: &Field, others: &[DeclaredInput]) -> Result<(), Fault> {
    let fail = |message: String| Err(Fault::new(input.key_position, message));
    let name = &input.key;
    let attribute = Attribute::from_name(name).map(|attribute| attribute.facts().applies);
    if attribute.is_some_and(|applies| !matches!(applies, Applies::Beside(_))) {
        return fail(format!("{} is an attribute of tags; use another name for the input", quoted(name)));
    }
    let case_insensitive = Platform::current() == Platform::Windows;
    match variable::check(name, Rules { from_model: false, case_insensitive }) {
        Ok(()) => {}
        Err(VariableError::Reserved { .. }) => {
            return fail(format!(
                "the variable {} changes how programs run and cannot be an input; use another name",
                quoted(name)
            ));
        }
        Err(VariableError::BuiltIn { .. }) => {
            return fail(format!(
                "{} is a variable that Raymond sets itself; use another name for the input",
                quoted(name)
            ));
        }
        Err(invalid @ VariableError::Invalid { .. }) => return fail(invalid.to_string()),
    }
    let same =
        |other: &&DeclaredInput| other.name.replace('-', "_").eq_ignore_ascii_case(&name.replace('-', "_"));
    match others.iter().find(same) {
        Some(other) => fail(format!(
            "the inputs {} and {} would be one variable of scripts on some systems; rename one of them",
            quoted(&other.name),
            quoted(name)
        )),
        None => Ok(()),
    }
}

fn kind(input: &Field, given: Option<&Field>, choices: Option<&Field>) -> Result<InputKind, Fault> {
    let name = match (given, choices) {
        (Some(given), _) => text(given)?,
        (None, Some(_)) => "choice".to_owned(),
        (None, None) => "string".to_owned(),
    };
    let position = given.map_or(input.key_position, |given| given.node.position);
    let kind = match (name.as_str(), choices) {
        ("choice", Some(choices)) => return choice(choices),
        ("choice", None) => {
            let message = "a `choice` needs `choices`, such as `choices: [ short, long ]`";
            return Err(Fault::new(position, message));
        }
        ("string", _) => InputKind::String,
        ("integer", _) => InputKind::Integer,
        ("number", _) => InputKind::Number,
        ("boolean", _) => InputKind::Boolean,
        ("file", _) => InputKind::File,
        _ => {
            let near = nearest(&name, TYPES);
            let known = match near.is_empty() {
                true => format!("; there are {}", quoted_list(&TYPES, "and")),
                false => did_you_mean(&near),
            };
            return Err(Fault::new(position, format!("{} is not a type of inputs{known}", quoted(&name))));
        }
    };
    match choices {
        Some(choices) => {
            let message = format!("`choices` belong to the type `choice`, not {}", quoted(&name));
            Err(Fault::new(choices.key_position, message))
        }
        None => Ok(kind),
    }
}

fn choice(field: &Field) -> Result<InputKind, Fault> {
    let Value::List(items) = &field.node.value else {
        return Err(wrong_type(field, "a list of texts such as `[ short, long ]`"));
    };
    if items.is_empty() {
        return Err(Fault::new(field.node.position, "`choices` is empty; an input needs at least one"));
    }
    let item = |item: &Node| {
        scalar(item).ok_or_else(|| {
            let found = item.value.description();
            Fault::new(item.position, format!("`choices` must hold texts or numbers, not {found}"))
        })
    };
    items.iter().map(item).collect::<Result<_, _>>().map(InputKind::Choice)
}

fn default(field: &Field, kind: &InputKind) -> Result<String, Fault> {
    let value =
        scalar(&field.node).ok_or_else(|| wrong_type(field, "a text, a number, `true` or `false`"))?;
    match kind.check(&value) {
        Ok(()) => Ok(value),
        Err(why) => Err(Fault::new(field.node.position, format!("`default`: {why}"))),
    }
}

/// A value as it would be written on the command line.
fn scalar(node: &Node) -> Option<String> {
    match &node.value {
        Value::Text(text) => Some(text.clone()).filter(|text| !text.contains('\0')),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::List(_) | Value::Map(_) => None,
    }
}

pub(super) fn flag(field: &Field) -> Result<bool, Fault> {
    match field.node.value {
        Value::Bool(flag) => Ok(flag),
        _ => Err(wrong_type(field, "`true` or `false`")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn read(text: &str) -> Vec<DeclaredInput> {
        parse(text).unwrap().inputs
    }

    #[test]
    fn inputs_are_read_in_order() {
        let text = "inputs:\n  issue: { type: integer, required: true, description: its number }\n  \
                    style: { choices: [ short, 5 ], default: 5 }\n  plain:\n  ratio: { type: number, default: 0.5 }\n";
        let declared = |name: &str, kind| DeclaredInput {
            name: name.to_owned(),
            kind,
            required: false,
            default: None,
            description: None,
        };
        let expected = [
            DeclaredInput {
                required: true,
                description: Some("its number".into()),
                ..declared("issue", InputKind::Integer)
            },
            DeclaredInput {
                default: Some("5".into()),
                ..declared("style", InputKind::Choice(vec!["short".into(), "5".into()]))
            },
            declared("plain", InputKind::String),
            DeclaredInput { default: Some("0.5".into()), ..declared("ratio", InputKind::Number) },
        ];
        assert_eq!(read(text), expected);
    }

    #[test]
    fn what_means_nothing_is_warned_of() {
        let manifest = parse("inputs: { a: { default: x, required: true, kind: file } }").unwrap();
        let warnings: Vec<String> = manifest.warnings.iter().map(SourceWarning::to_string).collect();
        assert_eq!(
            warnings,
            [
                "line 1, column 44: unknown key of an input `kind` is ignored",
                "line 1, column 28: `required` means nothing for `a`, which has a default",
            ]
        );
    }

    #[test]
    fn mistakes_are_refused() {
        let cases = [
            ("inputs: [a]", "`inputs` must be a mapping of names"),
            ("inputs: { a: 5 }", "`a` must be a mapping such as"),
            ("inputs: { a: { type: int } }", "`int` is not a type of inputs; there are `string`, "),
            ("inputs: { a: { type: fil } }", "`fil` is not a type of inputs; did you mean `file`?"),
            ("inputs: { a: { type: choice } }", "a `choice` needs `choices`"),
            ("inputs: { a: { choices: [] } }", "`choices` is empty"),
            ("inputs: { a: { choices: [[]] } }", "`choices` must hold texts or numbers, not a list"),
            (
                "inputs: { a: { type: file, choices: [b] } }",
                "`choices` belong to the type `choice`, not `file`",
            ),
            ("inputs: { a: { type: integer, default: x } }", "`default`: `x` is not a whole number"),
            ("inputs: { a: { choices: [b], default: c } }", "`default`: `c` is not `b`"),
            ("inputs: { a: { required: 1 } }", "`required` must be `true` or `false`, not a whole number"),
            ("inputs: { 5a: {} }", "`5a` is no name for a variable"),
            ("inputs: { PATH: {} }", "changes how programs run and cannot be an input"),
            ("inputs: { state: {} }", "`state` is a variable that Raymond sets itself"),
            ("inputs: { cd: {} }", "`cd` is an attribute of tags"),
            ("inputs: { a-b: {}, a_b: {} }", "would be one variable of scripts"),
        ];
        for (text, message) in cases {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
