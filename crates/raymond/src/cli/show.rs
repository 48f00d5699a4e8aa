//! `raymond show`, and what `raymond log --step` shares with it

use std::io;
use std::path::Path;
use std::process::Command;

use super::args::{Place, ShowArgs, Steps as Numbers};
use super::choose::choose_with_steps;
use super::find::{debug_root, store};
use super::pager::Pager;
use super::settings::{self, of_looking};
use crate::agent::registry::Backends;
use crate::agent::{DEFAULT_BACKEND, Invocation};
use crate::error::{ExitKind, UserError};
use crate::history::point::check_kept;
use crate::store::{RunHandle, Start};
use crate::trust::Area;
use crate::view::steps::{Step, Steps};
use crate::view::transcript::Transcript;

pub(super) fn show(args: ShowArgs) -> Result<ExitKind, UserError> {
    let (run, steps) = choose_with_steps(&*store(&args.place)?, args.run.as_deref(), args.steps)?;
    if args.open {
        return match steps.map(Numbers::single) {
            Some(None) => Err(UserError::usage("only one step can be opened")),
            step => open(&*run, step.flatten()),
        };
    }
    show_steps(&*run, steps, &args.place, Shown { has_details: false, in_pager: !args.no_pager })
}

/// How steps are shown.
pub(super) struct Shown {
    pub(super) has_details: bool,
    /// Whether a long text may be shown in a pager.
    pub(super) in_pager: bool,
}

/// Shows some steps, or all, in the order of their numbers.
pub(super) fn show_steps(
    run: &dyn RunHandle,
    steps: Option<Numbers>,
    place: &Place,
    Shown { has_details, in_pager }: Shown,
) -> Result<ExitKind, UserError> {
    let transcript = Transcript {
        debug: debug_root(place),
        run: run.id().to_owned(),
        payloads: run.payloads(),
        backends: backends()?,
        has_details,
    };
    let mut out = Pager::new(in_pager);
    let mut shown = 0_u64;
    let mut write = |one: &Step| -> io::Result<()> {
        shown += 1;
        transcript.write(&mut out, one)
    };
    // The reader of stdout may have exited.
    let _ = each_step(run, steps, &mut write)?;
    if shown == 0 {
        return Err(no_such_step(run, steps));
    }
    out.finish();
    Ok(ExitKind::Completed)
}

/// Calls `take` for some steps, or for all. Its first error ends the reading.
fn each_step(
    run: &dyn RunHandle,
    wanted: Option<Numbers>,
    take: &mut dyn FnMut(&Step) -> io::Result<()>,
) -> Result<io::Result<()>, UserError> {
    let is_wanted = |step: &Step| wanted.is_none_or(|numbers| numbers.contain(step.number));
    let mut steps = Steps::default();
    let mut events = run.events(Start::After(0))?;
    while let Some(batch) = events.next_batch()? {
        for event in batch {
            for step in steps.take(&event).iter().filter(|step| is_wanted(step)) {
                if let Err(error) = take(step) {
                    return Ok(Err(error));
                }
            }
        }
    }
    if steps.run().is_none() {
        // Gives the error that explains why there are no events.
        run.load()?;
    }
    Ok(steps.rest().filter(is_wanted).try_for_each(|step| take(&step)))
}

fn no_such_step(run: &dyn RunHandle, wanted: Option<Numbers>) -> UserError {
    if let Some(Err(deleted)) = wanted.and_then(Numbers::single).map(|step| check_kept(run, step)) {
        return deleted.into();
    }
    let started = run.load().map_or(0, |run| run.steps_started);
    let steps = match started {
        0 => "no step has started in it yet".to_owned(),
        most => format!("its steps are 1 to {most}"),
    };
    match wanted {
        Some(numbers) => UserError::usage(format!("{} has no {numbers}: {steps}", run.id())),
        None => UserError::usage(format!("{} has nothing to show: {steps}", run.id())),
    }
}

pub(super) fn backends() -> Result<Backends, UserError> {
    Backends::new(&of_looking(Area::Kinds)?)
}

/// Continues the conversation of a step in the agent's own program, on a branch of it. The run is not changed.
fn open(run: &dyn RunHandle, wanted: Option<u64>) -> Result<ExitKind, UserError> {
    let mut found: Option<Step> = None;
    let mut last = None;
    let mut events = run.events(Start::After(0))?;
    let mut steps = Steps::default();
    let mut take = |step: Step| {
        last = Some(step.number);
        let is_wanted = wanted.is_none_or(|number| number == step.number);
        if is_wanted && (wanted.is_some() || step.conversation().is_some()) {
            found = Some(step);
        }
    };
    while let Some(batch) = events.next_batch()? {
        batch.iter().for_each(|event| steps.take(event).into_iter().for_each(&mut take));
    }
    steps.rest().for_each(&mut take);
    let Some(step) = found else {
        return Err(match (wanted, last) {
            (None, Some(_)) => UserError::usage(format!("no step of {} has a conversation", run.id())),
            _ => no_such_step(run, wanted.map(Numbers::one)),
        });
    };
    let Some((session, backend)) = step.conversation() else {
        let why = match step.state.kind().is_prompt() {
            true => "its session is not known",
            false => "it ran a script",
        };
        let message = format!("step {} of {} has no conversation: {why}", step.number, run.id());
        return Err(UserError::usage(message).hint(format!("see what it did: raymond show {}", run.id())));
    };
    let backend = backend.unwrap_or(DEFAULT_BACKEND);
    // Here a program is started.
    let config = settings::of_resume(&settings::read()?, Path::new(&run.load()?.scope), false)?;
    let backends = Backends::new(&config)?;
    let program = backends.get(backend).map_err(UserError::usage)?;
    let Some(invocation) = program.interactive(session) else {
        let message = format!("the backend `{backend}` cannot open a conversation for a person");
        return Err(UserError::usage(message));
    };
    start(&invocation, step.cwd.as_deref())
}

/// Starts the program on this terminal and waits for its end.
fn start(invocation: &Invocation, cwd: Option<&str>) -> Result<ExitKind, UserError> {
    let mut command = Command::new(&invocation.program);
    command.args(&invocation.args);
    command.envs(invocation.set.iter().map(|(name, value)| (name, value)));
    for name in &invocation.unset {
        command.env_remove(name);
    }
    if let Some(cwd) = cwd {
        if !Path::new(cwd).is_dir() {
            return Err(UserError::usage(format!("the step's folder is gone: {cwd}")));
        }
        command.current_dir(cwd);
    }
    let status = command
        .status()
        .map_err(|error| UserError::usage(format!("cannot start `{}`: {error}", invocation.program)))?;
    Ok(if status.success() { ExitKind::Completed } else { ExitKind::Failed })
}
