//! `raymond inbox`, and `raymond` without a word: what needs a person, what runs, and what has ended lately.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use super::args::{InboxArgs, Place};
use super::choose::{Listed, age_of, warn_of_damage};
use super::export::looking;
use super::find::{state_dir, store, working_folder};
use super::list::write_table;
use super::print::{print_stdout, say};
use crate::advice;
use crate::error::{ExitKind, UserError};
use crate::serve::{self, HeldBack, Inbox, Item};
use crate::view::summary::Cache;
use crate::view::text::{clean, clean_json, one_line};
use crate::workflow::scope::Form;

/// How much of a question or an error is shown.
const SHOWN_CHARS: usize = 100;
/// How many things that need a person are shown beside what runs.
const MOST_ITEMS: usize = 20;
/// How many runs that have ended are shown.
const MOST_ENDED: usize = 5;

pub(super) fn inbox(args: InboxArgs) -> Result<ExitKind, UserError> {
    if working_folder().is_ok_and(|cwd| Form::of(&cwd.join("inbox")).is_some()) {
        say("to run the workflow of that name, write ./inbox");
    }
    let inbox = serve::inbox(looking(&args.place)?)?;
    if args.json {
        let text = serde_json::to_string_pretty(&inbox).map(clean_json);
        let text = text.map_err(|error| UserError::failed(error.to_string()))?;
        print_stdout(format!("{text}\n").as_bytes())?;
        return Ok(ExitKind::Completed);
    }
    let mut out = Vec::new();
    match inbox.items.is_empty() {
        true => say("nothing needs you"),
        false => write_items(&mut out, &inbox.items, usize::MAX).map_err(|error| cannot(&error))?,
    }
    print_stdout(&out)?;
    Ok(ExitKind::Completed)
}

/// What `raymond` shows if it is given nothing to do. It only looks.
pub(super) fn overview(place: &Place) -> Result<ExitKind, UserError> {
    let store = store(place)?;
    let entries = store.list()?;
    if entries.is_empty() {
        let begin = "nothing has run here yet\n\n  raymond init hello    write a first workflow\n  \
                     raymond hello         run it\n  raymond --help        all commands\n";
        print_stdout(begin.as_bytes())?;
        return Ok(ExitKind::Completed);
    }
    let mut cache = Cache::open(store.cache());
    let listed: Vec<Listed<'_>> =
        entries.iter().filter_map(|entry| Listed::look_at(entry, &mut cache)).collect();
    cache.keep();
    warn_of_damage(&listed);
    let inbox = serve::inbox(looking(place)?)?;
    let mut out = Vec::new();
    let waiting = serve::schedules_that_wait(&*store, &state_dir(place)?);
    write_overview(&mut out, &inbox, listed, &waiting).map_err(|error| cannot(&error))?;
    print_stdout(&out)?;
    Ok(ExitKind::Completed)
}

fn write_overview(
    out: &mut Vec<u8>,
    inbox: &Inbox,
    listed: Vec<Listed<'_>>,
    waiting: &BTreeMap<String, HeldBack>,
) -> io::Result<()> {
    if !inbox.items.is_empty() {
        writeln!(out, "Needs you:")?;
        write_items(out, &inbox.items, MOST_ITEMS)?;
    }
    let (live, mut ended): (Vec<_>, Vec<_>) = listed.into_iter().partition(|run| run.is_live);
    if !live.is_empty() {
        writeln!(out, "{}Running:", gap(out))?;
        write_table(out, &live, waiting)?;
    }
    let told: BTreeSet<&str> = inbox.items.iter().filter_map(|item| item.run.as_deref()).collect();
    ended.retain(|run| !told.contains(run.id()));
    ended.truncate(MOST_ENDED);
    if !ended.is_empty() {
        writeln!(out, "{}Ended:", gap(out))?;
        write_table(out, &ended, waiting)?;
    }
    writeln!(out, "{}all runs: raymond list; all commands: raymond --help", gap(out))
}

/// An empty line between two parts.
fn gap(out: &[u8]) -> &'static str {
    if out.is_empty() { "" } else { "\n" }
}

fn write_items(out: &mut impl Write, items: &[Item], most: usize) -> io::Result<()> {
    for item in items.iter().take(most) {
        let run = item.run.as_deref().unwrap_or_default();
        let what = item.question.as_deref().or(item.error.as_deref()).map(|text| one_line(text, SHOWN_CHARS));
        let about = match (item.kind, what) {
            ("over_budget", None) => {
                let budget = item.budget_usd.map(|budget| format!(" of {budget}")).unwrap_or_default();
                format!("{}{budget} are spent", item.cost_usd)
            }
            ("silent", None) => format!("step {} writes nothing", item.step.unwrap_or_default()),
            (_, what) => what.unwrap_or_default(),
        };
        let kind = item.kind.replace('_', " ");
        let name = if run.is_empty() { item.workflow.as_str() } else { run };
        let age = age_of(item.since);
        writeln!(out, "  {kind:11}  {}  {age}  {}", clean(name), clean(&about).trim_end())?;
        if let Some(command) = what_to_do(item, run) {
            writeln!(out, "               → {}", advice::command(&command))?;
        }
    }
    match items.len().checked_sub(most).filter(|more| *more > 0) {
        Some(more) => writeln!(out, "  and {more} more: {}", advice::command("inbox")),
        None => Ok(()),
    }
}

/// The command that deals with an item.
fn what_to_do(item: &Item, run: &str) -> Option<String> {
    match item.kind {
        "ask" => Some(format!("answer {run} {} 'your answer'", item.ask.as_deref()?)),
        "failed" => Some(format!("resume {run}")),
        "over_budget" => Some(format!("resume {run} --budget +5")),
        "limited" => Some(format!("resume {run}")),
        "silent" => Some(format!("show {run} {}", item.step?)),
        _ => None,
    }
}

fn cannot(error: &io::Error) -> UserError {
    UserError::failed(error.to_string())
}
