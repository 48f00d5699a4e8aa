//! The backends that states, manifests and the command line choose by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{AgentProgram, KINDS};
use crate::config::BackendSettings;
use crate::error::UserError;

/// Every backend that can be named: an agent program with its settings.
#[derive(Clone, Debug)]
pub struct Backends {
    named: BTreeMap<String, Arc<dyn AgentProgram>>,
}

impl Backends {
    /// The built-in backends: each kind under its own name.
    pub fn built_in() -> Self {
        let named = KINDS.iter().map(|kind| (kind.name.to_owned(), (kind.make)(&BackendSettings::default())));
        Self { named: named.collect() }
    }

    /// The built-in backends, and those that the config file adds or changes.
    pub fn new(configured: &BTreeMap<String, BackendSettings>) -> Result<Self, UserError> {
        let mut backends = Self::built_in();
        for (name, settings) in configured {
            backends.add(name, program(name, settings)?);
        }
        Ok(backends)
    }

    /// Adds a backend, or replaces the one with that name.
    pub fn add(&mut self, name: &str, program: Arc<dyn AgentProgram>) {
        self.named.insert(name.to_owned(), program);
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.named.keys().map(String::as_str)
    }

    pub fn get(&self, name: &str) -> Result<&dyn AgentProgram, String> {
        self.named.get(name).map(|program| &**program).ok_or_else(|| {
            let known: Vec<&str> = self.names().collect();
            format!("there is no backend `{}`; known are: {}", name.escape_debug(), known.join(", "))
        })
    }
}

/// The agent program of a backend. Without a `kind` in its settings, the backend's name is the kind.
pub fn program(name: &str, settings: &BackendSettings) -> Result<Arc<dyn AgentProgram>, UserError> {
    let wanted = settings.kind.as_deref().unwrap_or(name);
    match KINDS.iter().find(|kind| kind.name == wanted) {
        Some(kind) => Ok((kind.make)(settings)),
        None => {
            let error = format!("config: the backend `{name}` is of the unknown kind `{wanted}`");
            Err(UserError::usage(error).hint(known_kinds()))
        }
    }
}

pub fn is_kind(name: &str) -> bool {
    KINDS.iter().any(|kind| kind.name == name)
}

/// The error message for an unknown kind.
pub fn known_kinds() -> String {
    let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    format!("known kinds are {}", names.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up_and_kinds_checked() {
        let settings = BackendSettings {
            kind: Some("claude".into()),
            command: Some("my-claude".into()),
            ..Default::default()
        };
        let backends = Backends::new(&BTreeMap::from([("mine".to_owned(), settings)])).unwrap();
        let shown = |name: &str| format!("{:?}", backends.get(name).unwrap());
        assert_eq!(shown("mine"), r#"Claude { command: "my-claude", args: [] }"#);
        assert_eq!(shown("claude"), r#"Claude { command: "claude", args: [] }"#);
        let unknown = backends.get("x").unwrap_err();
        assert!(unknown.starts_with("there is no backend `x`; known are: "), "{unknown}");
        assert!(
            KINDS.iter().all(|kind| unknown.contains(kind.name)) && unknown.contains("mine"),
            "{unknown}"
        );
        let error =
            Backends::new(&BTreeMap::from([("y".to_owned(), BackendSettings::default())])).unwrap_err();
        assert!(error.message.contains("unknown kind `y`"), "{}", error.message);
    }
}
