//! Arguments of the commands for authors.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use clap_complete::engine::ArgValueCompleter;
use raymond_core::diagnostic::Severity;
use raymond_core::workflow::Platform;

use super::examples;
use crate::cli::completions::{rule_codes, templates};
use crate::error::UserError;

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LintFormat {
    Text,
    Json,
    Sarif,
    Github,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LevelName {
    Info,
    Warning,
    Error,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum PlatformName {
    Unix,
    Windows,
}

impl PlatformName {
    fn platform(self) -> Platform {
        match self {
            PlatformName::Unix => Platform::Unix,
            PlatformName::Windows => Platform::Windows,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = examples::LINT)]
pub struct LintArgs {
    /// The workflows, or their test files, to look at
    #[arg(default_value = ".", value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<String>,
    /// How findings are written
    #[arg(long, value_enum, default_value = "text")]
    pub format: LintFormat,
    /// Show only findings that are at least this severe
    #[arg(long, value_enum, default_value = "info")]
    level: LevelName,
    /// The platform the workflow is to run on [default: this one]
    #[arg(long, value_enum)]
    platform: Option<PlatformName>,
    /// Make the repairs that are certain to be right
    #[arg(long)]
    pub fix: bool,
    /// Accept the settings of the project's config file that give power, such as `workflow_paths`
    #[arg(long)]
    pub trust: bool,
    /// Say what a rule is about
    #[arg(long, value_name = "CODE", add = ArgValueCompleter::new(rule_codes))]
    pub explain: Option<String>,
}

impl LintArgs {
    pub fn platform(&self) -> Platform {
        self.platform.map_or(Platform::current(), PlatformName::platform)
    }

    pub fn level(&self) -> Severity {
        match self.level {
            LevelName::Info => Severity::Info,
            LevelName::Warning => Severity::Warning,
            LevelName::Error => Severity::Error,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DiagramFormat {
    Mermaid,
    Svg,
    Dot,
    Html,
}

#[derive(Debug, Args)]
#[command(after_help = examples::DIAGRAM)]
pub struct DiagramArgs {
    /// The workflow to draw
    #[arg(default_value = ".", value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub path: String,
    /// How it is drawn [default: what FILE ends in, else mermaid]
    #[arg(long, value_enum)]
    format: Option<DiagramFormat>,
    /// Write to this file instead of stdout
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Mark what no test has reached, as `test --coverage=FILE` wrote it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub coverage: Option<PathBuf>,
    /// The platform the workflow is to run on [default: this one]
    #[arg(long, value_enum)]
    platform: Option<PlatformName>,
}

impl DiagramArgs {
    /// The given format, or else the one that the file's extension stands for.
    pub fn format(&self) -> Result<DiagramFormat, UserError> {
        if let Some(format) = self.format {
            return Ok(format);
        }
        let Some(file) = &self.output else { return Ok(DiagramFormat::Mermaid) };
        let extension = file.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
        match extension.as_deref() {
            Some("svg") => Ok(DiagramFormat::Svg),
            Some("dot" | "gv") => Ok(DiagramFormat::Dot),
            Some("html" | "htm") => Ok(DiagramFormat::Html),
            None | Some("mmd" | "mermaid" | "md" | "txt") => Ok(DiagramFormat::Mermaid),
            Some(other) => {
                let known = ".svg, .html, .dot, .gv and .mmd (Mermaid)";
                let error = format!("cannot draw {}: `.{other}` is none of {known}", file.display());
                Err(UserError::usage(error)
                    .hint("choose another name, or say how to draw it with `--format`"))
            }
        }
    }

    pub fn platform(&self) -> Platform {
        self.platform.map_or(Platform::current(), PlatformName::platform)
    }
}

#[derive(Debug, Args)]
#[command(after_help = examples::INIT)]
pub struct InitArgs {
    /// The folder to make [default: the template's name]
    pub name: Option<String>,
    /// What to start from: hello, review or fan-out [default: hello]
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(templates))]
    pub template: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = examples::SCHEMA)]
pub struct SchemaArgs {
    /// What to describe
    #[arg(value_enum)]
    pub subject: crate::author::schema::Subject,
}

#[derive(Debug, Args)]
#[command(after_help = examples::EMIT)]
pub struct EmitArgs {
    /// The tag: goto, reset, call, function, fork, result, ask, join, print or one of the -workflow tags
    #[arg(required_unless_present = "json")]
    pub tag: Option<String>,
    /// The target, or the text of result, ask and print (from stdin if it is missing or `-`), then attributes
    #[arg(value_name = "TARGET|TEXT NAME=VALUE", allow_negative_numbers = true)]
    pub words: Vec<String>,
    /// The text, where it begins with a dash ([`super::super::emit::with_text`])
    #[arg(long, hide = true, allow_hyphen_values = true, require_equals = true, conflicts_with = "json")]
    pub text: Option<String>,
    /// Where the agent itself continues after a fork, or after the answer
    #[arg(long, value_name = "STATE")]
    pub next: Option<String>,
    /// Where a called state returns to
    #[arg(long = "return", value_name = "STATE")]
    pub return_to: Option<String>,
    /// What to hand over; `-` reads it from stdin
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub input: Option<String>,
    /// The working directory
    #[arg(long, value_name = "DIR")]
    pub cd: Option<String>,
    /// How long to wait before the target starts
    #[arg(long, value_name = "TIME")]
    pub delay: Option<String>,
    /// The name of a worker, for people
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Read tags from stdin, a JSON object on each line: {"tag", "target" or "text", "attributes"}
    #[arg(long, conflicts_with_all = ["tag", "words", "next", "return_to", "input", "cd", "delay", "title"])]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum TestFormat {
    Text,
    Json,
    Junit,
}

#[derive(Debug, Args)]
#[command(after_help = examples::TEST)]
pub struct TestArgs {
    /// Test files (*.test.yaml), or folders in which they are
    #[arg(default_value = ".", value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// Run only tests with this text in their file or name
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// How many tests run at the same time [default: one more than there are processors]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// How results are written
    #[arg(long, value_enum, default_value = "text")]
    pub format: TestFormat,
    /// Show which states and transitions the tests reached; FILE gets it as JSON
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, value_hint = ValueHint::FilePath)]
    pub coverage: Option<Option<PathBuf>>,
    /// Fail if fewer of the states, or of the transitions, are reached
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub min_coverage: Option<f64>,
    /// Keep the folders in which the tests ran, and name them
    #[arg(long)]
    pub keep: bool,
    /// Run the other tests even if a test file is wrong
    #[arg(long)]
    pub no_fail_fast: bool,
    /// Ask the agent again for what is not in a recording, and write it there; this costs money
    #[arg(long)]
    pub update_recordings: bool,
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let percent = text.trim_end_matches('%').parse().ok();
    percent
        .filter(|percent: &f64| (0.0..=100.0).contains(percent))
        .ok_or_else(|| "give a number from 0 to 100".to_owned())
}
