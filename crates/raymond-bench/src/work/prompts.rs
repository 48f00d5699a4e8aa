//! The time between two turns of an agent.

use std::os::unix::fs::symlink;

use crate::agent;
use crate::report::{Kind, Row};
use crate::rig::{Rig, finish};
use crate::sample::{Sample, seconds};

const TURNS: usize = 100;
const REPETITIONS: usize = 5;

pub fn measure(rig: &Rig) -> Result<Vec<Row>, String> {
    rig.durability("power")?;
    rig.write("wf/START.md", "<goto>START</goto>\n")?;
    rig.write("bin/about", "")?;
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    symlink(own, rig.path("bin/claude")).map_err(|error| error.to_string())?;
    let notes = rig.path("turns");
    let (mut ours, mut bare) = (Sample::default(), Sample::default());
    for _ in 0..REPETITIONS {
        let turns = TURNS.to_string();
        let mut raymond = rig.raymond(&["wf", "--backend", "claude", "--max-steps", &turns]);
        raymond.env(agent::NOTES, &notes);
        ours.add(gaps(&notes, || finish(raymond, &[1]).map(drop))?);
        bare.add(gaps(&notes, || {
            for _ in 0..TURNS {
                let mut claude = rig.command(rig.path("bin/claude"), &[]);
                finish_turn(claude.env(agent::NOTES, &notes))?;
            }
            Ok(())
        })?);
    }
    // The baseline loop includes the time of the system to end a process and load the next.
    let own = ours.median() - bare.median();
    let mut row = Row::amount(
        "between the end of a turn and the next program, beside a bare loop",
        own * 1e3,
        seconds(own),
    );
    row.ours = ours.to_string();
    row.baseline = bare.to_string();
    // The time of the one permitted sync is not subtracted, because it is small.
    Ok(vec![row.within(5.0, " ms", Kind::AtMost)])
}

fn finish_turn(command: &mut std::process::Command) -> Result<(), String> {
    let done = command.status().map_err(|error| error.to_string())?;
    if done.success() { Ok(()) } else { Err("the agent failed".to_owned()) }
}

/// The median time from the end of a turn to the beginning of the next.
fn gaps(notes: &std::path::Path, run: impl FnOnce() -> Result<(), String>) -> Result<f64, String> {
    let _ = std::fs::remove_file(notes);
    run()?;
    let turns = agent::notes(notes)?;
    let mut gaps = Sample::default();
    for pair in turns.windows(2) {
        gaps.add(pair[1].0 - pair[0].1);
    }
    Ok(gaps.median())
}
