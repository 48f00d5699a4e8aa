//! `raymond lint`

use std::io::Write;

use raymond_core::diagnostic::Severity;
use raymond_core::lint::{RULES, Rule, rule};

use super::args::author::{LintArgs, LintFormat};
use super::find::{project_folder, working_folder};
use super::print::{cannot_write, print_stdout, say};
use super::settings::of_looking_with;
use crate::author::check::{Around, Fixed, Found, check, fix};
use crate::author::report;
use crate::error::{ExitKind, UserError};
use crate::trust::Area;

pub(super) fn lint(args: LintArgs) -> Result<ExitKind, UserError> {
    if let Some(code) = &args.explain {
        return explain(code);
    }
    let cwd = working_folder()?;
    let project = project_folder(&cwd);
    // A broken config file is reported by the commands that need it.
    let config = of_looking_with(args.trust, Area::Places).unwrap_or_default();
    let around = Around {
        cwd: &cwd,
        platform: args.platform(),
        project: &project,
        workflow_paths: &config.raymond.workflow_paths,
    };
    let mut found: Vec<Found> = Vec::new();
    for path in &args.paths {
        if args.fix {
            match fix(path, around).map_err(UserError::failed)? {
                Fixed::Places(number) => say(&format!("{path}: {number} fixed")),
                Fixed::Not(why) => say(&format!("{path}: {why}")),
            }
        }
        found.extend(check(path, around));
    }
    let has_error = found.iter().any(|found| found.severity == Severity::Error);
    found.retain(|found| found.severity >= args.level());
    match args.format {
        LintFormat::Text => print_text(&found)?,
        LintFormat::Json => print_stdout(report::json(&found).as_bytes())?,
        LintFormat::Sarif => print_stdout(report::sarif(&found).as_bytes())?,
        LintFormat::Github => print_stdout(report::github(&found).as_bytes())?,
    }
    Ok(if has_error { ExitKind::Failed } else { ExitKind::Completed })
}

fn print_text(found: &[Found]) -> Result<(), UserError> {
    let mut stdout = anstream::stdout();
    match write!(stdout, "{}", report::text(found)) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => return Err(cannot_write(&error)),
        _ => {}
    }
    say(&report::summary(found));
    Ok(())
}

fn explain(code: &str) -> Result<ExitKind, UserError> {
    let Some(Rule { code, name, severity, summary, explanation, .. }) = rule(code) else {
        let codes: Vec<&str> = RULES.iter().map(|rule| rule.code).collect();
        return Err(UserError::usage(format!("there is no rule `{}`", code.escape_debug()))
            .hint(format!("there are {}", codes.join(", "))));
    };
    print_stdout(format!("{code} {name} ({severity})\n\n{summary}\n\n{explanation}\n").as_bytes())?;
    Ok(ExitKind::Completed)
}
