//! Flags and file → resolved options.

use std::fs;
use std::io;
use std::path::Path;

use serde::Deserialize;

use crate::error::UserError;
use crate::store::Durability;

/// `.raymond/config.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConfigFile {
    pub raymond: Settings,
}

/// The table `[raymond]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    pub max_steps: Option<u64>,
    pub verbose: Option<bool>,
    pub durability: Option<DurabilitySetting>,
    pub keep_segments: Option<u32>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DurabilitySetting {
    Power,
    Process,
}

impl Settings {
    pub fn durability(&self) -> Durability {
        match self.durability {
            None | Some(DurabilitySetting::Power) => Durability::Power,
            Some(DurabilitySetting::Process) => Durability::Process,
        }
    }
}

/// Reads the config file, if there is one.
pub fn load(file: &Path) -> Result<ConfigFile, UserError> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ConfigFile::default()),
        Err(error) => {
            return Err(UserError::usage(format!(
                "cannot read {}: {error}",
                file.display()
            )));
        }
    };
    toml::from_str(&text).map_err(|error| describe(file, &text, &error))
}

fn describe(file: &Path, text: &str, error: &toml::de::Error) -> UserError {
    let line = error
        .span()
        .map(|span| text[..span.start.min(text.len())].lines().count().max(1));
    let place = line.map(|line| format!(" line {line}")).unwrap_or_default();
    let quoted = line
        .and_then(|line| text.lines().nth(line - 1))
        .map(|line| format!(" in `{}`", line.trim()));
    let message = error.message().lines().next().unwrap_or("not valid TOML");
    UserError::usage(format!(
        "{}{place}: {message}{}",
        file.display(),
        quoted.unwrap_or_default()
    ))
    .hint("mend the file, or move it away to use the defaults")
}
