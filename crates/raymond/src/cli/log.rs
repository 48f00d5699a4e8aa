//! `raymond log`

use std::io::{self, Write};
use std::time::Duration;

use raymond_core::event::{Body, Event};
use raymond_core::name::AgentId;

use super::args::{LogArgs, Steps};
use super::choose::choose_with_steps;
use super::elsewhere::ended_there;
use super::find::store;
use super::pager::Pager;
use super::show::{Shown, show_steps};
use crate::error::{ExitKind, UserError};
use crate::history::point::check_kept;
use crate::run::driver::exit_of;
use crate::store::{Events, Payloads, RunHandle, Start};
use crate::view::json::event_line;
use crate::view::status::status_of;
use crate::view::{Console, Detail};

/// How often a run that is followed is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

pub(super) fn log(args: LogArgs) -> Result<ExitKind, UserError> {
    let given = args.number.or(args.step).map(Steps::one);
    let (run, steps) = choose_with_steps(&*store(&args.place)?, args.run.as_deref(), given)?;
    if let Some(steps) = steps.filter(|_| !args.json) {
        let how = Shown { has_details: true, in_pager: !args.no_pager };
        return show_steps(&*run, Some(steps), &args.place, how);
    }
    let mut log = Log {
        // What is still to come, and what is for programs, is written as it comes.
        out: Pager::new(!args.no_pager && !args.follow && !args.json),
        payloads: run.payloads(),
        json: args.json,
        agent: args.agent.map(AgentId::new),
        steps,
        last_seq: 0,
        found: 0,
    };
    let mut events = run.events(Start::After(0))?;
    if !log.print(&mut *events)? {
        log.out.finish();
        return Ok(ExitKind::Completed);
    }
    // A run that is just starting will have events.
    let will_come = args.follow && run.holder()?.is_some();
    if log.last_seq == 0 && !will_come {
        // Gives the error that explains why there are no events.
        run.load()?;
    }
    if args.follow {
        return log.follow(&*run, &mut *events);
    }
    log.check_found(&*run)?;
    log.out.finish();
    Ok(ExitKind::Completed)
}

/// What is printed, and how far it is.
struct Log<W: Write> {
    out: W,
    payloads: Payloads,
    json: bool,
    /// Only the events of this agent, or of this step.
    agent: Option<AgentId>,
    steps: Option<Steps>,
    last_seq: u64,
    /// How many events were printed.
    found: u64,
}

impl<W: Write> Log<W> {
    /// Prints all events up to the present end. False if the reader of stdout has exited.
    fn print(&mut self, events: &mut dyn Events) -> Result<bool, UserError> {
        while let Some(batch) = events.next_batch()? {
            for event in batch {
                if self.print_event(&event).is_err() {
                    return Ok(false);
                }
            }
        }
        Ok(self.out.flush().is_ok())
    }

    fn print_event(&mut self, event: &Event) -> io::Result<()> {
        let before = std::mem::replace(&mut self.last_seq, event.seq);
        if matches!(event.body, Body::Snapshot { .. }) {
            self.out.flush()?;
            tell_what_is_gone(before, event.seq);
            return Ok(());
        }
        if !self.is_wanted(event) {
            return Ok(());
        }
        self.found += 1;
        match self.json {
            true => writeln!(self.out, "{}", event_line(event, &self.payloads).unwrap_or_default()),
            false => write_for_people(&mut self.out, event, &self.payloads),
        }
    }

    fn is_wanted(&self, event: &Event) -> bool {
        let is_own = |agent: &AgentId| event.body.agent() == Some(agent);
        let is_part = |steps: Steps| event.body.step().is_some_and(|step| steps.contain(step));
        self.agent.as_ref().is_none_or(is_own) && self.steps.is_none_or(is_part)
    }

    /// Prints what comes until the run is over, and returns what it exits with.
    fn follow(&mut self, run: &dyn RunHandle, events: &mut dyn Events) -> Result<ExitKind, UserError> {
        loop {
            // The lease is read first: what its holder wrote before it ended is read below.
            let is_live = run.holder()?.is_some();
            if !self.print(events)? {
                return Ok(ExitKind::Completed);
            }
            if !is_live {
                break;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        if let Some(ended) = ended_there(run) {
            return Err(UserError::failed(ended));
        }
        let ended = run.load()?;
        let interrupted = if ended.was_terminated { ExitKind::Terminated } else { ExitKind::Interrupted };
        Ok(exit_of(status_of(ended.status, false), interrupted))
    }

    /// A log about nothing is a mistake in the name or number.
    fn check_found(&self, run: &dyn RunHandle) -> Result<(), UserError> {
        if self.found > 0 {
            return Ok(());
        }
        if let Some(step) = self.steps.and_then(Steps::single) {
            check_kept(run, step)?;
        }
        let what = match (&self.agent, self.steps) {
            (Some(agent), None) => format!("agent `{agent}`"),
            (None, Some(steps)) => steps.to_string(),
            (Some(agent), Some(steps)) => format!("{steps} of an agent `{agent}`"),
            (None, None) => return Ok(()),
        };
        Err(UserError::usage(format!("{} has no {what}", run.id()))
            .hint(format!("see its agents and steps: raymond log {}", run.id())))
    }
}

/// A log that lacks events must not look complete.
fn tell_what_is_gone(last_seen: u64, reached: u64) {
    anstream::eprintln!(
        "warning: the events {} to {reached} are in segments that were deleted",
        last_seen + 1
    );
}

/// The lines that the console shows for an event, each with the time and the number of the step before it.
fn write_for_people(out: &mut impl Write, event: &Event, payloads: &Payloads) -> io::Result<()> {
    let mut text = Vec::new();
    Console::new(&mut text, Detail::Verbose, payloads.clone()).show(event);
    let time = event.time.strftime("%Y-%m-%d %H:%M:%S");
    let step = event.body.step().map(|step| step.to_string()).unwrap_or_default();
    for line in String::from_utf8_lossy(&text).lines() {
        writeln!(out, "{time} {step:>4}  {line}")?;
    }
    Ok(())
}
