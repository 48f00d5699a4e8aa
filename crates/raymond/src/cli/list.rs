//! `raymond list`

use std::io::{self, Write};

use super::args::ListArgs;
use super::find::store;
use super::print::{print_stdout, say};
use super::status::load_view;
use crate::error::{ExitKind, UserError};
use crate::view::status::RunView;
use crate::view::text::{clean, clean_json};

pub(super) fn list(args: ListArgs) -> Result<ExitKind, UserError> {
    let store = store(&args.place)?;
    let runs = store.list()?;
    let mut views = Vec::new();
    for entry in &runs {
        match load_view(&*entry.run) {
            Ok(view) => views.push(view),
            // One damaged journal must not hide the others.
            Err(error) => say(&format!("warning: {}: {}", entry.run.id(), clean(&error.message))),
        }
    }
    if args.json {
        let text = serde_json::to_string_pretty(&views)
            .map(clean_json)
            .map_err(|error| UserError::failed(error.to_string()))?;
        print_stdout(format!("{text}\n").as_bytes())?;
    } else if runs.is_empty() {
        say(&format!("there are no runs in {}", store.place()));
    } else if !views.is_empty() {
        // The reader of stdout may have exited.
        let _ = write_table(&mut io::stdout().lock(), &views);
    }
    Ok(ExitKind::Completed)
}

fn write_table(out: &mut impl Write, runs: &[RunView]) -> io::Result<()> {
    let width = runs.iter().map(|run| run.run.len()).max().unwrap_or(0).max(3);
    writeln!(
        out,
        "{:width$}  {:11}  {:>7}  {:>8}  {:20}  WORKFLOW",
        "RUN", "STATUS", "STEPS", "COST", "STARTED (UTC)"
    )?;
    for run in runs {
        let started = run.started_at.strftime("%Y-%m-%d %H:%M:%S").to_string();
        let status = run.status.as_str().replace('_', " ");
        let cost = run.cost_usd.to_string();
        writeln!(
            out,
            "{:width$}  {status:11}  {:>7}  {cost:>8}  {started:20}  {}",
            run.run,
            run.steps,
            clean(&run.workflow)
        )?;
    }
    Ok(())
}
