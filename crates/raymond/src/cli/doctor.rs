//! `raymond doctor`: what works here and what does not, and what to do about it.

mod adopt;
mod backends;
mod listen;
mod own;
mod ping;
mod serving;
mod surroundings;

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::args::DoctorArgs;
use super::print::print_stdout;
use super::settings;
use crate::agent::DEFAULT_BACKEND;
use crate::agent::registry::Backends;
use crate::config::Config;
use crate::error::{ExitKind, UserError};
use crate::view::text::{clean, clean_json, indented};
use backends::BackendReport;

/// Everything that was found out.
#[derive(Debug, Serialize)]
struct Report {
    /// Whether the default backend can work.
    ok: bool,
    version: &'static str,
    default_backend: String,
    backends: Vec<BackendReport>,
    /// The day of the shipped prices.
    prices_dated: String,
    priced_models: Vec<String>,
    findings: Vec<Finding>,
}

/// Something that was looked at.
#[derive(Debug, Serialize)]
struct Finding {
    level: Level,
    about: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Level {
    Good,
    Warning,
    Error,
}

impl Finding {
    fn good(about: &'static str, message: impl Into<String>) -> Self {
        Self { level: Level::Good, about, message: message.into(), advice: None }
    }

    fn warning(about: &'static str, message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: Level::Warning, about, message: message.into(), advice: Some(advice.into()) }
    }

    fn error(about: &'static str, message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: Level::Error, ..Self::warning(about, message, advice) }
    }
}

pub(super) fn doctor(args: DoctorArgs) -> Result<ExitKind, UserError> {
    if let Some(runs) = &args.adopt {
        return adopt::adopt(runs, args.yes);
    }
    if args.yes && !args.ping {
        return Err(UserError::usage("--yes agrees to --ping or to --adopt, and neither was given"));
    }
    let mut findings = Vec::new();
    let config = config(&mut findings, args.trust);
    let (config, known) = match config {
        Some((config, backends)) => (config, backends),
        None => (Config::default(), Backends::built_in()),
    };
    let mut reports = backends::look_at(&known, &config);
    let default_backend = default_backend(&config, &reports);
    if args.ping {
        ping::agree(&default_backend, args.yes)?;
        ping::ping(&mut reports, &known, &default_backend, config.raymond.model.as_deref());
    }
    let default = reports.iter().find(|report| report.name == default_backend);
    findings.extend(backends::findings(default, &default_backend, &known, &config));
    findings.extend(surroundings::findings());
    findings.extend(own::findings());
    findings.extend(serving::findings());
    let is_config_bad =
        findings.iter().any(|finding| finding.about == "config" && finding.level == Level::Error);
    let report = Report {
        ok: default.is_some_and(BackendReport::works) && !is_config_bad,
        version: super::version(),
        default_backend,
        backends: reports,
        prices_dated: known.prices.dated().to_owned(),
        priced_models: known.prices.models().map(str::to_owned).collect(),
        findings,
    };
    show(&report, args.json)?;
    Ok(if report.ok { ExitKind::Completed } else { ExitKind::Failed })
}

/// The backend that prompts use: of a list the first that can work.
fn default_backend(config: &Config, reports: &[BackendReport]) -> String {
    let named = config.raymond.backend.as_deref().unwrap_or(DEFAULT_BACKEND);
    let works = |name: &&str| reports.iter().any(|report| report.name == *name && report.works());
    let mut names = named.split(',').map(str::trim);
    let first = names.clone().next().unwrap_or_default();
    names.find(works).unwrap_or(first).to_owned()
}

/// The settings, if they can be read.
fn config(findings: &mut Vec<Finding>, is_trusted: bool) -> Option<(Config, Backends)> {
    match read_settings(findings, is_trusted) {
        Ok(settings) => Some(settings),
        Err(error) => {
            let advice = error.hints.first().cloned().unwrap_or_else(|| "correct the file".to_owned());
            findings.push(Finding::error("config", error.message, advice));
            None
        }
    }
}

fn read_settings(findings: &mut Vec<Finding>, is_trusted: bool) -> Result<(Config, Backends), UserError> {
    let layers = settings::read()?;
    let (config, left_out) = settings::of_doctor(&layers, is_trusted)?;
    let backends = Backends::new(&config)?;
    findings.push(Finding::good("config", "the config files can be read"));
    let Some(wanted) = layers.wanted() else { return Ok((config, backends)) };
    let file = wanted.shown_file();
    if is_trusted && !wanted.settings.is_empty() {
        let settings = wanted.settings.join("; ");
        findings.push(Finding::good("config", format!("these settings of {file} are trusted: {settings}")));
    }
    if !left_out.is_empty() {
        findings.push(Finding::warning(
            "config",
            format!(
                "settings of {file} that give power are left out here: {}",
                settings::names_of(&left_out)
            ),
            format!("look at them, and accept them from now on: {}", settings::HOW_TO_ACCEPT),
        ));
    }
    Ok((config, backends))
}

fn show(report: &Report, as_json: bool) -> Result<(), UserError> {
    if as_json {
        let text = serde_json::to_string_pretty(report)
            .map(clean_json)
            .map_err(|error| UserError::failed(error.to_string()))?;
        return print_stdout(format!("{text}\n").as_bytes());
    }
    // The reader of stdout may have exited.
    let _ = write_for_people(&mut anstream::AutoStream::auto(io::stdout()), report);
    Ok(())
}

fn write_for_people(out: &mut impl Write, report: &Report) -> io::Result<()> {
    const BOLD: Style = Style::new().bold();
    const DIM: Style = Style::new().dimmed();
    writeln!(out, "{BOLD}Agent programs{BOLD:#}")?;
    for backend in &report.backends {
        let is_default = backend.name == report.default_backend;
        let mark = if is_default { " (default)" } else { "" };
        let level = match backend.works() {
            true => Level::Good,
            false if is_default => Level::Error,
            false => Level::Warning,
        };
        writeln!(out, "  {} {}{mark}: {}", sign(level), clean(&backend.name), clean(&backend.summary()))?;
        // What to do about the default backend is among the findings.
        if let Some(advice) = backend.advice().filter(|_| !is_default) {
            writeln!(out, "          → to use it, {}", clean(&advice))?;
        }
        if backend.installed {
            writeln!(out, "          {DIM}{}{DIM:#}", clean(&backend.abilities()))?;
            if let Some(accounts) = backend.accounts {
                writeln!(out, "          {DIM}{accounts}{DIM:#}")?;
            }
        }
    }
    writeln!(out, "{BOLD}Here{BOLD:#}")?;
    for finding in &report.findings {
        writeln!(out, "  {} {}: {}", sign(finding.level), finding.about, indented(&finding.message))?;
        if let Some(advice) = &finding.advice {
            writeln!(out, "      → {}", indented(advice))?;
        }
    }
    let models = report.priced_models.len();
    writeln!(
        out,
        "Prices of {models} models, dated {}; [prices] in the config file adds others.",
        report.prices_dated
    )?;
    match report.ok {
        true => writeln!(out, "The default backend `{}` can work.", clean(&report.default_backend)),
        false => writeln!(out, "The default backend `{}` cannot work.", clean(&report.default_backend)),
    }
}

fn sign(level: Level) -> String {
    let (colour, text) = match level {
        Level::Good => (AnsiColor::Green, "ok   "),
        Level::Warning => (AnsiColor::Yellow, "note "),
        Level::Error => (AnsiColor::Red, "wrong"),
    };
    let style = colour.on_default();
    format!("{style}{text}{style:#}")
}
