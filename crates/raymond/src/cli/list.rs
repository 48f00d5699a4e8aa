//! `raymond list`

use std::io::{self, Write};
use std::num::NonZeroUsize;

use raymond_core::run::RunStatus;
use serde::Serialize;

use super::args::ListArgs;
use super::find::store;
use super::print::{print_stdout, say};
use super::status::load_view;
use crate::error::{ExitKind, UserError};
use crate::store::{RunEntry, StoreError};
use crate::view::summary::{Cache, Summary};
use crate::view::text::{clean, clean_json, in_one_line, local_zone};

/// One line of the list.
struct Listed<'a> {
    entry: &'a RunEntry,
    status: &'static str,
    /// Nothing if the journal is damaged.
    summary: Option<Summary>,
}

pub(super) fn list(args: ListArgs) -> Result<ExitKind, UserError> {
    let store = store(&args.place)?;
    let mut runs = store.list()?;
    let limit = args.limit.map_or(usize::MAX, NonZeroUsize::get);
    let is_filtered = args.status.is_some() || args.workflow.is_some() || args.since.is_some();
    let is_empty = runs.is_empty();
    if !is_filtered {
        // Runs that are not shown need not be read.
        runs.truncate(limit);
    }
    let mut cache = Cache::open(store.cache().filter(|_| is_filtered || args.limit.is_none()));
    let mut listed: Vec<Listed<'_>> = runs.iter().filter_map(|entry| look_at(entry, &mut cache)).collect();
    cache.keep();
    listed.retain(|run| is_wanted(run, &args));
    listed.truncate(limit);
    if args.json {
        print_json(&listed)?;
    } else if is_empty {
        say(&format!("there are no runs in {}", store.place()));
    } else if !listed.is_empty() {
        // The reader of stdout may have exited.
        let _ = write_table(&mut io::BufWriter::new(io::stdout().lock()), &listed);
    }
    Ok(ExitKind::Completed)
}

/// Reads a run, or takes what is known of it. Nothing if it has no events yet.
fn look_at<'a>(entry: &'a RunEntry, cache: &mut Cache) -> Option<Listed<'a>> {
    let known = entry.version.as_deref().and_then(|version| cache.get(entry.run.id(), version));
    let summary = match known {
        Some(summary) => summary,
        None => match entry.run.load() {
            Ok(run) => {
                let summary = Summary::of(&run, &*entry.run);
                if let Some(version) = &entry.version {
                    cache.put(entry.run.id(), version, summary.clone());
                }
                summary
            }
            Err(StoreError::Empty { .. }) => return None,
            // One damaged journal must not hide the others.
            Err(error) => {
                say(&format!("warning: {}: {}", entry.run.id(), clean(&error.to_string())));
                return Some(Listed { entry, status: "damaged", summary: None });
            }
        },
    };
    let is_live =
        summary.recorded == RunStatus::Running && entry.run.holder().is_ok_and(|holder| holder.is_some());
    let status = summary.status(is_live);
    Some(Listed { entry, status: status.as_str(), summary: Some(summary) })
}

fn is_wanted(run: &Listed<'_>, args: &ListArgs) -> bool {
    let same_status = |wanted: &String| wanted.replace([' ', '-'], "_") == run.status;
    let workflow = run.summary.as_ref().map(|summary| summary.workflow.as_str());
    let same_workflow = |wanted: &String| {
        let wanted = wanted.trim_end_matches('/');
        workflow.is_some_and(|workflow| {
            let workflow = workflow.trim_end_matches('/');
            workflow == wanted || workflow.rsplit('/').next() == Some(wanted)
        })
    };
    let started = run.summary.as_ref().map(|summary| summary.started_at);
    args.status.as_ref().is_none_or(same_status)
        && args.workflow.as_ref().is_none_or(same_workflow)
        && args.since.is_none_or(|since| started.is_some_and(|started| started >= since))
}

/// What `--json` says of a run whose journal cannot be read.
#[derive(Serialize)]
struct Damaged<'a> {
    run: &'a str,
    status: &'static str,
    error: String,
}

fn print_json(listed: &[Listed<'_>]) -> Result<(), UserError> {
    let failed = |error: serde_json::Error| UserError::failed(error.to_string());
    let mut views = Vec::new();
    for run in listed {
        views.push(match load_view(&*run.entry.run) {
            Ok(mut view) => {
                if run.status == RunStatus::Waiting.as_str() {
                    view.status = RunStatus::Waiting;
                }
                serde_json::to_value(view).map_err(failed)?
            }
            Err(error) => {
                let (run, error) = (run.entry.run.id(), error.message);
                serde_json::to_value(Damaged { run, status: "damaged", error }).map_err(failed)?
            }
        });
    }
    let text = serde_json::to_string_pretty(&views).map(clean_json).map_err(failed)?;
    print_stdout(format!("{text}\n").as_bytes())
}

fn write_table(out: &mut impl Write, runs: &[Listed<'_>]) -> io::Result<()> {
    let width = runs.iter().map(|run| run.entry.run.id().len()).max().unwrap_or(0).max(3);
    let zone = local_zone();
    writeln!(
        out,
        "{:width$}  {:11}  {:>7}  {:>8}  {:19}  WORKFLOW",
        "RUN", "STATUS", "STEPS", "COST", "STARTED"
    )?;
    for run in runs {
        let id = run.entry.run.id();
        let status = run.status.replace('_', " ");
        let Some(summary) = &run.summary else {
            writeln!(out, "{id:width$}  {status}")?;
            continue;
        };
        let started = summary.started_at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string();
        let (cost, workflow) = (summary.cost_usd.to_string(), in_one_line(&summary.workflow));
        writeln!(out, "{id:width$}  {status:11}  {:>7}  {cost:>8}  {started:19}  {workflow}", summary.steps)?;
    }
    out.flush()
}
