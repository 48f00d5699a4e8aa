//! The backends that states, manifests and the command line pick from by name.

use std::collections::BTreeMap;

use super::claude;
use crate::config::BackendSettings;
use crate::error::UserError;

/// What a table `[backend.NAME]` may give as its `kind`; each is there under its own name, too.
pub const KINDS: [&str; 2] = ["claude", "scripted"];

/// An agent program and how to start it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    Claude {
        command: String,
        args: Vec<String>,
    },
    /// `replies` names the file with the replies; without it, it lies beside the workflow.
    Scripted {
        replies: Option<String>,
    },
}

/// Every backend that can be named.
#[derive(Clone, Debug)]
pub struct Backends {
    named: BTreeMap<String, Backend>,
}

impl Backends {
    /// What is there by itself, and what the config file adds or changes.
    pub fn new(configured: &BTreeMap<String, BackendSettings>) -> Result<Self, UserError> {
        let mut named = BTreeMap::new();
        for name in KINDS {
            named.insert(name.to_owned(), backend(name, &BackendSettings::default())?);
        }
        for (name, settings) in configured {
            named.insert(name.clone(), backend(name, settings)?);
        }
        Ok(Self { named })
    }

    pub fn get(&self, name: &str) -> Result<&Backend, String> {
        self.named.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.named.keys().map(String::as_str).collect();
            format!("there is no backend `{}`; known are: {}", name.escape_debug(), known.join(", "))
        })
    }
}

fn backend(name: &str, settings: &BackendSettings) -> Result<Backend, UserError> {
    match settings.kind.as_deref().unwrap_or(name) {
        "claude" => Ok(Backend::Claude {
            command: settings.command.clone().unwrap_or_else(|| claude::COMMAND.to_owned()),
            args: settings.args.clone(),
        }),
        "scripted" => Ok(Backend::Scripted { replies: settings.replies.clone() }),
        other => {
            let error = format!("config: the backend `{name}` is of the unknown kind `{other}`");
            Err(UserError::usage(error).hint("known kinds are claude and scripted"))
        }
    }
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
        assert_eq!(
            backends.get("mine"),
            Ok(&Backend::Claude { command: "my-claude".into(), args: Vec::new() })
        );
        assert_eq!(
            backends.get("claude"),
            Ok(&Backend::Claude { command: "claude".into(), args: Vec::new() })
        );
        assert_eq!(
            backends.get("x").unwrap_err(),
            "there is no backend `x`; known are: claude, mine, scripted"
        );
        let error =
            Backends::new(&BTreeMap::from([("y".to_owned(), BackendSettings::default())])).unwrap_err();
        assert!(error.message.contains("unknown kind `y`"), "{}", error.message);
    }
}
