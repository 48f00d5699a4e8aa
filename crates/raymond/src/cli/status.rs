//! `raymond status`

mod last_output;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anstyle::Style;
use jiff::Timestamp;
use raymond_core::duration;
use raymond_core::run::RunStatus;

use super::args::{Place, StatusArgs};
use super::choose::{Intent, choose};
use super::find::{debug_folder, scratch_folder, state_dir, store, working_folder};
use super::print::print_stdout;
use crate::advice;
use crate::error::{ExitKind, UserError};
use crate::history::branch::branches_of;
use crate::process::Containment;
use crate::run::driver::ANSWER_MESSAGE;
use crate::serve::schedules_that_wait;
use crate::store::{Inbox, RunHandle, StoreError};
use crate::view::status::{AgentView, BranchView, RunView, status_words, view};
use crate::view::text::{clean, clean_json, in_one_line, indented, local_time, one_line};
use crate::view::tokens;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const SHOWN_CHARS: usize = 100;
/// How many fan-outs are shown.
const MOST_FAN_OUTS: usize = 10;

pub(super) fn status(args: StatusArgs) -> Result<ExitKind, UserError> {
    let store = store(&args.place)?;
    let stored = choose(&*store, args.run.as_deref(), Intent::Look)?;
    let mut run = load_view(&*stored)?;
    if run.engine.is_none() {
        run.containment = Some(Containment::of_run(&scratch_folder(&args.place, stored.id())?));
    }
    let waiting = schedules_that_wait(&*store, &state_dir(&args.place)?);
    run.schedule_waits_since = waiting.get(stored.id()).map(|held| held.since);
    run.branches = branches_of(&*store, stored.id())?.into_iter().map(BranchView::of).collect();
    if args.json {
        let text = serde_json::to_string_pretty(&run)
            .map(clean_json)
            .map_err(|error| UserError::failed(error.to_string()))?;
        print_stdout(format!("{text}\n").as_bytes())?;
    } else {
        // The reader of stdout may have exited.
        let _ = write_for_people(
            &mut anstream::AutoStream::auto(io::stdout()),
            &run,
            &*stored.inbox(),
            &args.place,
        );
    }
    Ok(ExitKind::Completed)
}

/// Reads a run without changing it, whether it is running or not.
pub(super) fn load_view(stored: &dyn RunHandle) -> Result<RunView, UserError> {
    // The lease is read first: a run that ends between the two reads shows as ended, not as interrupted.
    let is_live = stored.holder()?.is_some();
    let run = stored.load().map_err(|error| match error {
        StoreError::Empty { .. } if is_live => {
            UserError::usage(format!("{} is just starting", stored.id())).hint("look again in a moment")
        }
        other => other.into(),
    })?;
    let mut view = view(&run, is_live, &stored.payloads());
    view.tell_origin(stored)?;
    if let Some(elsewhere) = stored.elsewhere() {
        view.tell_where(&elsewhere);
    }
    Ok(view)
}

fn write_for_people(out: &mut impl Write, run: &RunView, inbox: &dyn Inbox, place: &Place) -> io::Result<()> {
    writeln!(out, "{BOLD}{}{BOLD:#}  {}", run.run, status_words(run.status.as_str(), run.failed_workers))?;
    writeln!(out, "  workflow  {}", in_one_line(&run.workflow))?;
    for origin in run.branched_off.iter().chain(&run.origin) {
        let step = origin.step.map_or("its end".to_owned(), |step| format!("step {step}"));
        match &origin.dropped {
            Some(dropped) => {
                writeln!(out, "  rewound   to {step}; what came then is in {}", clean(dropped))?;
            }
            None => writeln!(out, "  from      {}, {step}", clean(&origin.run))?,
        }
    }
    if let Some(engine) = &run.engine {
        writeln!(out, "  on        {}", clean(engine))?;
    }
    if let (Some(seen), Some(why)) = (run.seen_at, &run.stale) {
        writeln!(out, "  seen      {}; since then {}", local_time(seen), clean(why))?;
    }
    if let Some(how) = &run.ended_there {
        writeln!(out, "  there     it {}, so it does not go on", clean(how))?;
    }
    run.branches.iter().enumerate().try_for_each(|(row, branch)| {
        let label = if row == 0 { "branches" } else { "" };
        let step = branch.step.map_or("its end".to_owned(), |step| format!("step {step}"));
        writeln!(out, "  {label:<9} {}, from {step}", clean(&branch.run))
    })?;
    writeln!(out, "  started   {}", local_time(run.started_at))?;
    if let Some(ended) = run.ended_at {
        writeln!(out, "  ended     {}", local_time(ended))?;
    }
    writeln!(out, "  took      {}", duration::format(rounded(run.elapsed)))?;
    let budget = run.budget_usd.map_or("no budget".to_owned(), |budget| format!("of {budget}"));
    let most = run.steps_used_up.filter(|_| run.status != RunStatus::Completed);
    let most = most.map_or(String::new(), |most| format!(" {DIM}of at most {most}{DIM:#}"));
    writeln!(out, "  steps     {}{most}", run.steps)?;
    let over = run.budget_usd.map(|budget| run.cost_usd.saturating_sub(budget));
    let over = over.filter(|over| !over.is_zero()).map_or(String::new(), |over| format!(", {over} over"));
    let own = run.own_cost_usd.filter(|own| *own != run.cost_usd);
    let own = own.map_or(String::new(), |own| format!(", {own} of it its own"));
    writeln!(out, "  cost      {} {DIM}{budget}{over}{own}{DIM:#}", run.cost_usd)?;
    if !run.tokens.is_zero() {
        writeln!(out, "  tokens    {}", tokens::in_words(run.tokens))?;
    }
    for (key, value) in &run.labels {
        writeln!(out, "  label     {}={}", clean(key), indented(value))?;
    }
    if let Some(since) = run.schedule_waits_since {
        writeln!(out, "  schedule  waits for the end of this run since {}", local_time(since))?;
    }
    if let Some(result) = &run.result {
        writeln!(out, "  result    {}", one_line(result, SHOWN_CHARS))?;
    }
    if let Some(containment) = run.containment {
        writeln!(out, "  held by   a {} for each step", containment.as_str())?;
    }
    let has_failed = run.agents.iter().any(|agent| agent.error.is_some());
    if let Some(debug) = shown_debug_folder(place, &run.run).filter(|_| has_failed) {
        writeln!(out, "  debug     {}", clean(&debug.to_string_lossy()))?;
    }
    let shown = run.fan_outs.iter().take(MOST_FAN_OUTS);
    shown.enumerate().try_for_each(|(row, fan_out)| {
        let label = if row == 0 { "workers" } else { "" };
        writeln!(out, "  {label:<9} {}", clean(&fan_out.to_string()))
    })?;
    if let Some(more) = run.fan_outs.len().checked_sub(MOST_FAN_OUTS).filter(|more| *more > 0) {
        writeln!(out, "  {:<9} {DIM}… and {more} more{DIM:#}", "")?;
    }
    let outputs = debug_files(place, &run.run).map(|folder| last_output::of_running(&folder, &run.agents));
    let outputs = outputs.unwrap_or_default();
    for agent in &run.agents {
        write_agent(out, agent)?;
        if let Some(output) = outputs.get(&agent.id) {
            let ago = duration::format(rounded(output.ago));
            writeln!(out, "    {DIM}{ago} ago:{DIM:#} {}", one_line(&output.line, SHOWN_CHARS))?;
        }
    }
    run.asks.iter().try_for_each(|ask| {
        writeln!(out, "{BOLD}{}{BOLD:#} {}", ask.id, indented(ask.question.trim_end()))?;
        let is_answered = inbox.contains(&format!("{ANSWER_MESSAGE}{}", ask.id));
        if is_answered && run.stale.is_some() {
            return writeln!(out, "    is answered; the answer waits here for the engine");
        }
        if is_answered {
            return writeln!(
                out,
                "    is answered; continue with: {}",
                advice::command(&format!("resume {}", run.run))
            );
        }
        if ask.deadline.is_some_and(|deadline| deadline <= Timestamp::now()) {
            let resume = advice::command(&format!("resume {}", run.run));
            return writeln!(out, "    was not answered in time; continue with: {resume}");
        }
        let answer = format!("answer {} {} 'your answer'", run.run, ask.id);
        writeln!(out, "    {}", advice::command(&answer))
    })?;
    match how_to_go_on(run) {
        Some(command) => writeln!(out, "continue with: {command}"),
        None => Ok(()),
    }
}

/// The command that continues a run which has stopped. A question shows its own.
fn how_to_go_on(run: &RunView) -> Option<String> {
    if run.ended_there.is_some() {
        return None;
    }
    let more = match run.status {
        RunStatus::Running | RunStatus::Completed => return None,
        RunStatus::Waiting if !run.asks.is_empty() => return None,
        RunStatus::OverBudget => " --budget +5",
        RunStatus::Failed if run.steps_used_up.is_some() => " --max-steps MORE",
        RunStatus::Waiting
        | RunStatus::Failed
        | RunStatus::Limited
        | RunStatus::Interrupted
        | RunStatus::Wedged => "",
    };
    Some(advice::command(&format!("resume {}{more}", run.run)))
}

/// People need no milliseconds of a run that took longer than a second.
fn rounded(time: Duration) -> Duration {
    if time < Duration::from_secs(1) { time } else { Duration::from_secs(time.as_secs()) }
}

/// The folder of the run's debug files, relative to the current directory if it is inside.
fn shown_debug_folder(place: &Place, run: &str) -> Option<PathBuf> {
    let cwd = working_folder().ok()?;
    debug_files(place, run).map(|folder| folder.strip_prefix(&cwd).map(Path::to_owned).unwrap_or(folder))
}

fn debug_files(place: &Place, run: &str) -> Option<PathBuf> {
    let (_, folder) = debug_folder(place, run)?;
    folder.is_dir().then_some(folder)
}

fn write_agent(out: &mut impl Write, agent: &AgentView) -> io::Result<()> {
    let until = agent.until.map(|until| format!(" until {}", local_time(until))).unwrap_or_default();
    let title = agent.title.as_ref().map(|title| format!(" {DIM}({}){DIM:#}", indented(title)));
    let (id, title, state) = (clean(&agent.id), title.unwrap_or_default(), clean(&agent.state));
    let host = agent.host.as_ref().map(|host| format!(" {DIM}on {}{DIM:#}", clean(host))).unwrap_or_default();
    writeln!(out, "{BOLD}[{id}]{BOLD:#}{title} {} at {state}{until}{host}", agent.status)?;
    for frame in agent.stack.iter().rev() {
        writeln!(out, "    returns to {}", clean(&frame.state))?;
    }
    if let Some(error) = &agent.error {
        writeln!(out, "    {}", indented(error))?;
    }
    for line in agent.output.iter().flat_map(|output| output.lines()) {
        writeln!(out, "    {DIM}output:{DIM:#} {}", clean(line))?;
    }
    if let Some(file) = &agent.output_file {
        writeln!(out, "    {DIM}all of it:{DIM:#} {}", clean(file))?;
    }
    for line in agent.stderr.iter().flat_map(|stderr| stderr.lines()) {
        writeln!(out, "    {DIM}stderr:{DIM:#} {}", clean(line))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory::MemoryStore;
    use crate::store::suite::opening;
    use crate::store::{JournalOptions, RunStore};

    #[test]
    fn a_run_is_shown_as_its_lease_and_its_events_say() {
        let store = MemoryStore::default();
        let mut writer = store.create("r", JournalOptions::default()).unwrap();
        let run = store.run("r").unwrap();
        let status = || load_view(&*run).map(|view| view.status.as_str()).map_err(|error| error.message);
        assert_eq!(status(), Err("r is just starting".to_owned()));
        writer.commit(&opening("r")).unwrap();
        assert_eq!(status(), Ok("running"));
        drop(writer);
        assert_eq!(status(), Ok("interrupted"), "its process is gone");
        store.damage("r", "a test damaged it");
        assert!(status().unwrap_err().contains("a test damaged it"));
    }
}
