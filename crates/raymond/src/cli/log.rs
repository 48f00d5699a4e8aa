//! `raymond log`

use std::io::{self, BufWriter, Write};

use raymond_core::event::{Body, Event};

use super::args::LogArgs;
use super::find::{find_run, state_dir};
use crate::error::{Exit, UserError};
use crate::store::events::{check_order, to_event};
use crate::store::{Durability, Payloads, read_all};
use crate::view::json::event_line;
use crate::view::{Console, Detail};

pub(super) fn log(args: LogArgs) -> Result<Exit, UserError> {
    let dir = state_dir(&args.place)?;
    let paths = find_run(&dir, args.run.as_deref())?;
    let payloads = Payloads::new(paths.payloads(), Durability::Process);
    let mut out = BufWriter::new(anstream::AutoStream::auto(io::stdout()));
    let lines = read_all(&paths).map_err(|error| UserError::usage(error.to_string()))?;
    let mut last_seq = 0;
    for line in lines {
        let line = line.map_err(|error| UserError::usage(error.to_string()))?;
        let event = to_event(&paths, &line)?;
        if matches!(event.body, Body::Snapshot { .. }) {
            // Old segments may have been deleted; from here on the numbers go on.
            let _ = out.flush();
            tell_what_is_gone(last_seq, event.seq);
            last_seq = event.seq;
            continue;
        }
        check_order(&paths, &line, last_seq, event.seq)?;
        last_seq = event.seq;
        let written = match args.json {
            true => writeln!(out, "{}", event_line(&event, &payloads).unwrap_or_default()),
            false => write_for_people(&mut out, &event, &payloads),
        };
        // Whoever reads may have seen enough.
        if written.is_err() {
            return Ok(Exit::Completed);
        }
    }
    let _ = out.flush();
    Ok(Exit::Completed)
}

/// A log with a hole must not look like a whole one.
fn tell_what_is_gone(last_seen: u64, reached: u64) {
    if last_seen < reached {
        anstream::eprintln!(
            "warning: the events {} to {reached} are in segments that were deleted",
            last_seen + 1
        );
    }
}

/// The lines a person saw, with the time before them.
fn write_for_people(out: &mut impl Write, event: &Event, payloads: &Payloads) -> io::Result<()> {
    let mut text = Vec::new();
    Console::new(&mut text, Detail::Verbose, payloads.clone()).show(event);
    let time = event.time.strftime("%Y-%m-%d %H:%M:%S");
    for line in String::from_utf8_lossy(&text).lines() {
        writeln!(out, "{time}  {line}")?;
    }
    Ok(())
}
