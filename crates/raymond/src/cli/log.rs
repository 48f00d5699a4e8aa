//! `raymond log`

use std::io::{self, BufWriter, Write};

use raymond_core::event::{Body, Event};

use super::args::LogArgs;
use super::find::{find_run, store};
use crate::error::{Exit, UserError};
use crate::store::{Payloads, Start};
use crate::view::json::event_line;
use crate::view::{Console, Detail};

pub(super) fn log(args: LogArgs) -> Result<Exit, UserError> {
    let run = find_run(&*store(&args.place)?, args.run.as_deref())?;
    let payloads = run.payloads();
    let mut out = BufWriter::new(anstream::AutoStream::auto(io::stdout()));
    let mut events = run.events(Start::After(0))?;
    let mut last_seq = 0;
    while let Some(batch) = events.next_batch()? {
        for event in batch {
            let before = std::mem::replace(&mut last_seq, event.seq);
            if matches!(event.body, Body::Snapshot { .. }) {
                let _ = out.flush();
                tell_what_is_gone(before, event.seq);
                continue;
            }
            let written = match args.json {
                true => writeln!(out, "{}", event_line(&event, &payloads).unwrap_or_default()),
                false => write_for_people(&mut out, &event, &payloads),
            };
            // The reader of stdout may have seen enough.
            if written.is_err() {
                return Ok(Exit::Completed);
            }
        }
    }
    let _ = out.flush();
    if last_seq == 0 {
        // Says why there is nothing.
        run.load()?;
    }
    Ok(Exit::Completed)
}

/// A log with a hole must not look like a whole one.
fn tell_what_is_gone(last_seen: u64, reached: u64) {
    anstream::eprintln!(
        "warning: the events {} to {reached} are in segments that were deleted",
        last_seen + 1
    );
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
