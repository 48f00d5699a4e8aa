//! `raymond status`

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anstyle::Style;

use super::args::StatusArgs;
use super::find::{find_run, state_dir, working_folder};
use super::print::print_stdout;
use crate::error::{Exit, UserError};
use crate::run::driver::ANSWER_MESSAGE;
use crate::store::events::Folding;
use crate::store::{Durability, JournalError, Payloads, RunPaths, StateDir, is_live, visit_tail};
use crate::view::status::{AgentView, RunView, view};
use crate::view::text::{clean, one_line};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const SHOWN_CHARS: usize = 100;

pub(super) fn status(args: StatusArgs) -> Result<Exit, UserError> {
    let paths = find_run(&state_dir(&args.place)?, args.run.as_deref())?;
    let run = load_view(&paths)?;
    if args.json {
        let text =
            serde_json::to_string_pretty(&run).map_err(|error| UserError::failed(error.to_string()))?;
        print_stdout(format!("{text}\n").as_bytes())?;
    } else {
        // Whoever reads may have left.
        let _ = write_for_people(&mut anstream::AutoStream::auto(io::stdout()), &run, &paths);
    }
    Ok(Exit::Completed)
}

/// Reads a run without disturbing it, live or not.
pub(super) fn load_view(paths: &RunPaths) -> Result<RunView, UserError> {
    // The lock is looked at first: a run that ends in between shows as ended, not as interrupted.
    let is_live = is_live(&paths.lock())
        .map_err(|error| UserError::usage(format!("cannot look at {}: {error}", paths.lock().display())))?
        .is_some();
    let mut folding = Folding::new(paths);
    visit_tail(paths, &mut |line| folding.take(&line)).map_err(|error| match error {
        JournalError::Empty { .. } if is_live => {
            UserError::usage(format!("{} is just starting", paths.id())).hint("look again in a moment")
        }
        other => UserError::usage(other.to_string()),
    })?;
    let run = folding.finish()?;
    Ok(view(&run, is_live, &Payloads::new(paths.payloads(), Durability::Process)))
}

fn write_for_people(out: &mut impl Write, run: &RunView, paths: &RunPaths) -> io::Result<()> {
    writeln!(out, "{BOLD}{}{BOLD:#}  {}", run.run, run.status.as_str().replace('_', " "))?;
    writeln!(out, "  workflow  {}", clean(&run.workflow))?;
    writeln!(out, "  started   {}", run.started_at.strftime("%Y-%m-%d %H:%M:%S UTC"))?;
    if let Some(ended) = run.ended_at {
        writeln!(out, "  ended     {}", ended.strftime("%Y-%m-%d %H:%M:%S UTC"))?;
    }
    let budget = run.budget_usd.map_or("no budget".to_owned(), |budget| format!("of {budget}"));
    writeln!(out, "  steps     {}", run.steps)?;
    writeln!(out, "  cost      {} {DIM}{budget}{DIM:#}", run.cost_usd)?;
    for (key, value) in &run.labels {
        writeln!(out, "  label     {}={}", clean(key), clean(value))?;
    }
    if let Some(result) = &run.result {
        writeln!(out, "  result    {}", one_line(result, SHOWN_CHARS))?;
    }
    let has_failed = run.agents.iter().any(|agent| agent.error.is_some());
    if let Some(debug) = shown_debug_folder(&run.run).filter(|_| has_failed) {
        writeln!(out, "  debug     {}", clean(&debug.to_string_lossy()))?;
    }
    run.agents.iter().try_for_each(|agent| write_agent(out, agent))?;
    run.asks.iter().try_for_each(|ask| {
        writeln!(out, "{BOLD}{}{BOLD:#} {}", ask.id, clean(ask.question.trim_end()))?;
        if paths.inbox().join(format!("{ANSWER_MESSAGE}{}", ask.id)).exists() {
            return writeln!(out, "    is answered; continue with: raymond resume {}", run.run);
        }
        writeln!(out, "    raymond answer {} {} 'your answer'", run.run, ask.id)
    })
}

/// What the run's steps were asked and printed, seen from here.
fn shown_debug_folder(run: &str) -> Option<PathBuf> {
    let cwd = working_folder().ok()?;
    let folder = StateDir::find(&cwd).ok()?.home()?.join("debug").join(run);
    folder.is_dir().then(|| folder.strip_prefix(&cwd).map(Path::to_owned).unwrap_or(folder))
}

fn write_agent(out: &mut impl Write, agent: &AgentView) -> io::Result<()> {
    let until = agent
        .until
        .map(|until| format!(" until {}", until.strftime("%Y-%m-%d %H:%M:%S UTC")))
        .unwrap_or_default();
    writeln!(out, "{BOLD}[{}]{BOLD:#} {} at {}{until}", clean(&agent.id), agent.status, clean(&agent.state))?;
    for frame in agent.stack.iter().rev() {
        writeln!(out, "    returns to {}", clean(&frame.state))?;
    }
    if let Some(error) = &agent.error {
        writeln!(out, "    {}", clean(error))?;
    }
    for line in agent.stderr.iter().flat_map(|stderr| stderr.lines()) {
        writeln!(out, "    {DIM}stderr:{DIM:#} {}", clean(line))?;
    }
    Ok(())
}
