//! `--adopt`: shows the runs that lie in `.raymond` and were not made there by this user's Raymond, and lets them count.
//!
//! An adopted run is resumed with what its journal says, so all that gives it power is shown before.

use std::collections::BTreeSet;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use raymond_core::run::Run;

use crate::cli::find::{found_home, working_folder};
use crate::cli::print::{print_stdout, say};
use crate::error::{ExitKind, UserError};
use crate::store::{Elsewhere, FolderStore, RunStore, StateDir, StoreError};
use crate::view::text::in_one_line;

/// A run that can be adopted.
struct Foreign {
    id: String,
    /// Its state, if there is a journal.
    run: Option<Result<Run, StoreError>>,
    elsewhere: Option<Elsewhere>,
    /// The runs in which its history begins.
    origins: Vec<String>,
    /// The project in which it was recorded, if that is another one.
    moved_from: Option<String>,
    /// What waits for it.
    messages: usize,
    /// A link among its files.
    link: Option<PathBuf>,
}

pub(super) fn adopt(named: &[String], is_agreed: bool) -> Result<ExitKind, UserError> {
    let dir = found_home(&working_folder()?)?;
    if let Some((link, target)) = dir.stray_link() {
        return Err(UserError::usage(format!(
            "{} is a link, to {}; nothing there can be adopted",
            link.display(),
            target.display()
        )));
    }
    let store = FolderStore::new(dir.clone());
    let all = store.foreign()?;
    let chosen = chosen(&store, &all, named)?;
    if chosen.is_empty() {
        print_stdout(format!("there is nothing to adopt in {}\n", store.place()).as_bytes())?;
        return Ok(ExitKind::Completed);
    }
    let runs = with_origins(&dir, &all, chosen)?;
    show(&dir, &runs)?;
    if let Some(Foreign { id, link: Some(link), .. }) = runs.iter().find(|run| run.link.is_some()) {
        return Err(UserError::usage(format!("{id} is not adopted: {} is a link", link.display()))
            .hint("Raymond makes none; remove it, or adopt only other runs by naming them"));
    }
    if !is_agreed && !agrees(runs.len())? {
        return Err(UserError::usage("nothing was adopted"));
    }
    dir.own().prepare()?;
    for run in &runs {
        store.adopt(&run.id, run.moved_from.clone(), run.elsewhere.as_ref())?;
        print_stdout(format!("adopted {}\n", run.id).as_bytes())?;
    }
    Ok(ExitKind::Completed)
}

/// The runs that are named, or all.
fn chosen(store: &FolderStore, all: &[String], named: &[String]) -> Result<Vec<String>, UserError> {
    if named.is_empty() {
        return Ok(all.to_vec());
    }
    let mut chosen = Vec::new();
    for given in named {
        let matching: Vec<&String> = match all.iter().find(|id| *id == given) {
            Some(id) => vec![id],
            None => all.iter().filter(|id| id.starts_with(given)).collect(),
        };
        match matching.as_slice() {
            [one] => chosen.push((*one).clone()),
            [] if store.find(given).is_ok() => say(&format!("{given} counts already")),
            [] => return Err(StoreError::Unknown { given: given.clone(), existing: all.to_vec() }.into()),
            more => {
                let matches = more.iter().map(|id| (*id).clone()).collect();
                return Err(StoreError::Ambiguous { given: given.clone(), matches }.into());
            }
        }
    }
    Ok(chosen)
}

/// These runs and those that they go on from, with all that is known of each.
fn with_origins(dir: &StateDir, all: &[String], chosen: Vec<String>) -> Result<Vec<Foreign>, UserError> {
    let (mut left, mut seen, mut runs) = (chosen, BTreeSet::new(), Vec::new());
    while let Some(id) = left.pop() {
        if !seen.insert(id.clone()) {
            continue;
        }
        let run = look_at(dir, &id)?;
        left.extend(run.origins.iter().filter(|origin| all.contains(origin)).cloned());
        runs.push(run);
    }
    runs.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(runs)
}

fn look_at(dir: &StateDir, id: &str) -> Result<Foreign, UserError> {
    let whatever = FolderStore::new(dir.whatever_is_there());
    let stored = whatever.run(id)?;
    let run = match stored.load() {
        Err(StoreError::Missing { .. }) => None,
        other => Some(other),
    };
    let claimed = dir.own().claim(id).map(|claim| claim.project);
    let moved_from = match &run {
        Some(Ok(run)) => dir.home().and_then(Path::parent).and_then(|here| recorded_in(run, claimed, here)),
        _ => None,
    };
    let is_link = |path: &PathBuf| std::fs::symlink_metadata(path).is_ok_and(|data| data.is_symlink());
    Ok(Foreign {
        id: id.to_owned(),
        elsewhere: stored.elsewhere(),
        origins: stored.origins().unwrap_or_default().into_iter().map(|origin| origin.run).collect(),
        moved_from,
        messages: stored.inbox().messages().map_or(0, |messages| messages.len()),
        link: dir.files_of(id).map_err(StoreError::BadId)?.into_iter().find(is_link),
        run,
    })
}

/// The project in which a run was recorded, if it is not this one: what an earlier event says, what its mark claims, or the
/// folder in which its workflow was where it is here.
fn recorded_in(run: &Run, claimed: Option<String>, here: &Path) -> Option<String> {
    let here = here.canonicalize().unwrap_or_else(|_| here.to_owned());
    if let Some(known) = run.project.clone().or(claimed) {
        return Some(known).filter(|known| Path::new(known) != here);
    }
    let (cwd, scope) = (Path::new(&run.cwd), Path::new(&run.scope));
    if cwd.starts_with(&here) {
        return None;
    }
    let was_there = |project: &&Path| {
        let rest = scope.strip_prefix(project).ok().filter(|rest| !rest.as_os_str().is_empty());
        rest.is_some_and(|rest| here.join(rest).exists()) && cwd.starts_with(project)
    };
    let project = scope.ancestors().filter(|above| above.parent().is_some()).filter(was_there).last()?;
    project.to_str().map(str::to_owned)
}

fn show(dir: &StateDir, runs: &[Foreign]) -> Result<(), UserError> {
    print_stdout(text_about(dir, runs).as_bytes())
}

/// What a journal says is in one line each, so that none of it looks like a line of Raymond's own.
fn text_about(dir: &StateDir, runs: &[Foreign]) -> String {
    let mut text = format!(
        "These runs in {} were made by an earlier version, in another folder or by another user:\n",
        dir.path().display()
    );
    for foreign in runs {
        for line in describe(foreign) {
            text.push_str(&format!("  {}\n", in_one_line(&line)));
        }
    }
    text
}

fn describe(foreign: &Foreign) -> Vec<String> {
    let mut lines = match &foreign.run {
        None => vec![foreign.id.clone()],
        Some(Err(error)) => vec![format!("{}  damaged: {error}", foreign.id)],
        Some(Ok(run)) => {
            let (status, started) =
                (run.status.as_str().replace('_', " "), run.started_at.strftime("%Y-%m-%d %H:%M"));
            let steps = match run.steps_completed {
                1 => "1 step".to_owned(),
                more => format!("{more} steps"),
            };
            let mut lines =
                vec![format!("{}  {status}, {steps}, {}, started {started} UTC", foreign.id, run.cost_usd)];
            lines.push(format!("    workflow {}, in {}", run.scope, run.cwd));
            lines.extend(powers(run).into_iter().map(|power| format!("    {power}")));
            lines
        }
    };
    if let Some(from) = &foreign.moved_from {
        lines.push(format!("    recorded in {from}; it would go on in this project"));
    }
    if let Some(mark) = &foreign.elsewhere {
        lines
            .push(format!("    carried out by the engine at {}, which would be asked about it", mark.engine));
    }
    if foreign.messages > 0 {
        lines.push(format!(
            "    {} that it would take (answers, stops)",
            counted(foreign.messages, "message")
        ));
    }
    lines
}

/// What a resume of a run may do because its journal says so.
fn powers(run: &Run) -> Vec<String> {
    let options = &run.options;
    let mut powers = Vec::new();
    if options.skip_permissions {
        powers.push("its agents may do anything without asking (--dangerously-skip-permissions)".to_owned());
    }
    powers.push(match options.budget_usd.is_zero() {
        true => "it has no budget".to_owned(),
        false => format!("its budget is {}", options.budget_usd),
    });
    powers.extend(options.backend.as_ref().map(|backend| format!("its backend is {backend}")));
    powers.extend(options.record.as_ref().map(|file| format!("it writes its turns to {file}")));
    powers.extend(options.replay.as_ref().map(|file| format!("it answers prompts from {file}")));
    powers
}

fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Asks whether the runs may count.
fn agrees(number: usize) -> Result<bool, UserError> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(UserError::usage("nothing was adopted, because there is no terminal to ask on")
            .hint("to adopt them without a terminal: raymond doctor --adopt --yes")
            .hint("or only some: raymond doctor --adopt RUN --yes"));
    }
    // What was typed before the question is no answer to it.
    #[cfg(unix)]
    let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
    let what = if number == 1 { "it" } else { "them" };
    let _ = write!(io::stderr(), "A resume does what a run's journal says. Adopt {what}? [y/N] ");
    let mut answer = String::new();
    let _ = io::stdin().lock().read_line(&mut answer);
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use raymond_core::event::{Body, Event, RunStarted};
    use raymond_core::evolve::evolve;

    fn run(scope: &str, cwd: &str) -> Run {
        let started = serde_json::json!({"version": 1, "workflow": "w", "scope": scope, "entry": "START.sh",
            "cwd": cwd, "nonce": "n", "options": {}});
        let started: RunStarted = serde_json::from_value(started).unwrap();
        let time = jiff::Timestamp::UNIX_EPOCH;
        let event = Event { seq: 1, time, run: "r".to_owned(), body: Body::RunStarted(Box::new(started)) };
        evolve(None, &event).unwrap()
    }

    #[test]
    fn what_a_journal_says_cannot_look_like_another_line() {
        let run = run("/a\n  other  completed, 1 step", "/b\r\u{1b}[2K\n    its budget is $1.00");
        let foreign = Foreign {
            id: "r".to_owned(),
            run: Some(Ok(run)),
            elsewhere: None,
            origins: Vec::new(),
            moved_from: Some("/c\n  d".to_owned()),
            messages: 0,
            link: None,
        };
        let folder = tempfile::tempdir().unwrap();
        let text = text_about(&StateDir::at(folder.path().to_owned()), &[foreign]);
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[1].contains(r"workflow /a\n  other  completed, 1 step, in /b\r\u{1b}[2K\n"), "{text}");
        assert_eq!(lines[3].trim(), r"recorded in /c\n  d; it would go on in this project");
    }

    #[test]
    fn where_a_run_was_recorded_is_told_by_its_mark_or_by_its_workflow() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(here.join("flows/wf")).unwrap();
        let own = |name: &str| here.join(name).display().to_string();
        let old = run("/old/proj/flows/wf", "/old/proj/sub");
        let recorded = |run: &Run, claimed: Option<&str>| recorded_in(run, claimed.map(str::to_owned), &here);
        assert_eq!(recorded(&old, None).as_deref(), Some("/old/proj"));
        assert_eq!(recorded(&old, Some("/old")).as_deref(), Some("/old"));
        assert_eq!(recorded(&run(&own("flows/wf"), &own("sub")), None), None, "it was recorded here");
        assert_eq!(recorded(&old, Some(&own(""))).as_deref(), Some(own("").as_str()).filter(|_| false));
        assert_eq!(recorded(&run("/old/other/wf", "/old"), None), None, "the journal does not tell");
    }
}
