//! A workflow's own settings, in the `workflow.yaml` of its folder.

use std::path::Path;

use raymond_core::frontmatter::yaml::{self, Value};

use crate::error::UserError;

/// The file's name.
pub const FILE: &str = "workflow.yaml";

/// What of a manifest matters to a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifest {
    pub backend: Option<String>,
    pub default_budget: Option<f64>,
}

/// Reads the manifest of a folder, if it has one.
pub fn load(folder: &Path) -> Result<Manifest, UserError> {
    let file = folder.join(FILE);
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Manifest::default()),
        Err(error) => return Err(UserError::usage(format!("cannot read {}: {error}", file.display()))),
    };
    parse(&text).map_err(|error| UserError::usage(format!("{}: {error}", file.display())))
}

fn parse(text: &str) -> Result<Manifest, String> {
    let root = yaml::parse(text).map_err(|fault| format!("{}: {}", fault.position, fault.message))?;
    let Value::Map(fields) = root.value else { return Ok(Manifest::default()) };
    let mut manifest = Manifest::default();
    for field in &fields {
        match (field.key.as_str(), &field.node.value) {
            ("backend", Value::Text(name)) => manifest.backend = Some(name.clone()),
            ("default_budget", Value::Integer(dollars)) if *dollars >= 0 => {
                manifest.default_budget = Some(*dollars as f64)
            }
            ("default_budget", Value::Float(dollars)) if dollars.is_finite() && *dollars >= 0.0 => {
                manifest.default_budget = Some(*dollars);
            }
            ("backend" | "default_budget", other) => {
                let what = other.description();
                return Err(format!("{}: `{}` cannot be {what}", field.node.position, field.key));
            }
            _ => {}
        }
    }
    Ok(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_is_read_and_checked() {
        let manifest = parse("name: Demo\nbackend: scripted\ndefault_budget: 2.5\n").unwrap();
        assert_eq!(manifest, Manifest { backend: Some("scripted".into()), default_budget: Some(2.5) });
        assert_eq!(parse("").unwrap(), Manifest::default());
        assert_eq!(parse("backend: [x]\n").unwrap_err(), "line 1, column 10: `backend` cannot be a list");
    }
}
