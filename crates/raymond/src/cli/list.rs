//! `raymond list`

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::num::NonZeroUsize;

use raymond_core::run::RunStatus;
use serde::Serialize;

use super::args::ListArgs;
use super::choose::{Listed, warn_of_damage};
use super::find::{state_dir, store};
use super::print::{print_stdout, say};
use super::status::load_view;
use crate::error::{ExitKind, UserError};
use crate::serve::{HeldBack, schedules_that_wait};
use crate::view::status::status_words;
use crate::view::summary::Cache;
use crate::view::text::{clean_json, in_one_line, local_time, local_zone, one_line};

pub(super) fn list(args: ListArgs) -> Result<ExitKind, UserError> {
    let store = store(&args.place)?;
    let mut runs = store.list()?;
    let limit = args.limit.map_or(usize::MAX, NonZeroUsize::get);
    let is_filtered =
        !args.status.is_empty() || args.workflow.is_some() || !args.labels.is_empty() || args.since.is_some();
    let is_empty = runs.is_empty();
    if !is_filtered {
        // Runs that are not shown need not be read.
        runs.truncate(limit);
    }
    let mut cache = Cache::open(store.cache().filter(|_| is_filtered || args.limit.is_none()));
    let mut listed: Vec<Listed<'_>> =
        runs.iter().filter_map(|entry| Listed::look_at(entry, &mut cache)).collect();
    cache.keep();
    warn_of_damage(&listed);
    listed.retain(|run| is_wanted(run, &args));
    listed.truncate(limit);
    let waiting = schedules_that_wait(&*store, &state_dir(&args.place)?);
    if args.json {
        print_json(&listed, &waiting)?;
    } else if is_empty {
        say(&format!("there are no runs in {}", store.place()));
    } else if listed.is_empty() {
        say(&format!("none of the runs in {} is like this", store.place()));
    } else {
        // The reader of stdout may have exited.
        let _ = write_table(&mut io::BufWriter::new(io::stdout().lock()), &listed, &waiting);
    }
    Ok(ExitKind::Completed)
}

fn is_wanted(run: &Listed<'_>, args: &ListArgs) -> bool {
    let labels = run.summary.as_ref().map(|summary| &summary.labels);
    let has_label = |(key, value): &(String, String)| {
        labels.and_then(|labels| labels.get(key)).is_some_and(|given| given == value)
    };
    let started = run.summary.as_ref().map(|summary| summary.started_at);
    (args.status.is_empty() || args.status.iter().any(|wanted| wanted == run.status))
        && args.workflow.as_ref().is_none_or(|wanted| run.is_of_workflow(wanted))
        && args.labels.iter().all(has_label)
        && args.since.is_none_or(|since| started.is_some_and(|started| started >= since))
}

/// What `--json` says of a run whose journal cannot be read.
#[derive(Serialize)]
struct Damaged<'a> {
    run: &'a str,
    status: &'static str,
    error: String,
}

fn print_json(listed: &[Listed<'_>], waiting: &BTreeMap<String, HeldBack>) -> Result<(), UserError> {
    let failed = |error: serde_json::Error| UserError::failed(error.to_string());
    let mut views = Vec::new();
    for run in listed {
        views.push(match load_view(&*run.entry.run) {
            Ok(mut view) => {
                if run.status == RunStatus::Waiting.as_str() {
                    view.status = RunStatus::Waiting;
                }
                view.schedule_waits_since = waiting.get(run.entry.run.id()).map(|held| held.since);
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

/// How wide the columns of what a run is about and of what is wrong with it are.
const ABOUT_WIDTH: usize = 40;
const WRONG_WIDTH: usize = 60;

pub(super) fn write_table(
    out: &mut impl Write,
    runs: &[Listed<'_>],
    waiting: &BTreeMap<String, HeldBack>,
) -> io::Result<()> {
    let width = |text: &dyn Fn(&Listed<'_>) -> usize, least: usize| {
        runs.iter().map(text).max().unwrap_or(0).max(least)
    };
    let of_id = width(&|run| run.id().len(), 3);
    let shown =
        |run: &Listed<'_>| run.summary.as_ref().map(|summary| in_one_line(&summary.workflow).to_string());
    let of_workflow = width(&|run| shown(run).map_or(0, |name| name.chars().count()), 8);
    let about =
        |run: &Listed<'_>| run.summary.as_ref().map_or(String::new(), |one| cut(&one.about, ABOUT_WIDTH));
    let of_about = width(&|run| about(run).chars().count(), 5);
    let failed = |run: &Listed<'_>| run.summary.as_ref().map_or(0, |summary| summary.failed_workers);
    let status = |run: &Listed<'_>| status_words(run.status, failed(run));
    let of_status = width(&|run| status(run).len(), 11);
    let zone = local_zone();
    let line = |cells: [&str; 8]| {
        let [id, status, steps, cost, started, workflow, about, wrong] = cells;
        let line = format!(
            "{id:of_id$}  {status:of_status$}  {steps:>7}  {cost:>8}  {started:19}  {workflow:of_workflow$}  {about:of_about$}  {wrong}"
        );
        line.trim_end().to_owned()
    };
    writeln!(out, "{}", line(["RUN", "STATUS", "STEPS", "COST", "STARTED", "WORKFLOW", "INPUT", "WRONG"]))?;
    for run in runs {
        let status = status(run);
        let Some(summary) = &run.summary else {
            let damage = cut(run.damage.as_deref().unwrap_or_default(), WRONG_WIDTH);
            writeln!(out, "{}", line([run.id(), &status, "", "", "", "", "", &damage]))?;
            continue;
        };
        let started = summary.started_at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string();
        let (steps, cost) = (summary.steps.to_string(), summary.cost_usd.to_string());
        let workflow = shown(run).unwrap_or_default();
        let wrong = cut(&summary.trouble, WRONG_WIDTH);
        writeln!(
            out,
            "{}",
            line([run.id(), &status, &steps, &cost, &started, &workflow, &about(run), &wrong])
        )?;
        if let Some(held) = waiting.get(run.id()) {
            let since = local_time(held.since);
            writeln!(out, "{:of_id$}  its schedule waits for the end of this run since {since}", "")?;
        }
    }
    out.flush()
}

/// The first line of a text, for a column.
fn cut(text: &str, most: usize) -> String {
    one_line(text, most).replace('\t', " ")
}
