//! A run with a long history: a step costs the same as at the beginning, and a resume is fast.

use std::fs;

use super::FOREVER;
use super::crowd::restore;
use super::instructions::of_a_resumed_step;
use crate::history;
use crate::report::{Kind, Row};
use crate::rig::{Rig, Watched, finish_watched};
use crate::sample::{Sample, mebibytes, seconds};

const STEPS: usize = 300;
const REPETITIONS: usize = 9;

fn prepare(rig: &Rig, steps: u64, name: &str) -> Result<(), String> {
    let _ = fs::remove_dir_all(rig.path(".raymond/state"));
    history::write(rig.path("").as_path(), "wf", steps, &|_, _| "<goto>START</goto>".to_owned())?;
    rig.adopt()?;
    fs::rename(rig.path(".raymond/state"), rig.path(name)).map_err(|error| error.to_string())
}

pub fn step(rig: &Rig) -> Result<Vec<Row>, String> {
    rig.write("wf/START.sh", FOREVER)?;
    prepare(rig, 100, "early")?;
    prepare(rig, 100_000, "late")?;
    let (mut early, mut late) = (Sample::default(), Sample::default());
    for _ in 0..REPETITIONS {
        for (sample, name) in [(&mut early, "early"), (&mut late, "late")] {
            restore(rig, name)?;
            let mut watched = Watched::start(rig.raymond(&["resume", "r", "--no-debug", "--json"]))?;
            let begin = watched.wait_for("step_finished", 20)?;
            let end = watched.wait_for("step_finished", STEPS)?;
            sample.add((end - begin).as_secs_f64() / STEPS as f64);
        }
    }
    Ok(vec![
        Row::ratio("a step at step 100,000, beside step 100", &late, &early, late.beside(&early))
            .at_most(1.05),
    ])
}

/// The same in instructions, which have no noise.
pub fn instructions(rig: &Rig) -> Result<Vec<Row>, String> {
    prepare(rig, 100, "early")?;
    prepare(rig, 100_000, "late")?;
    let (early, late) = (of_a_resumed_step(rig, "early", 100)?, of_a_resumed_step(rig, "late", 100_000)?);
    let shown = |count: f64| format!("{:.0} k", count / 1e3);
    Ok(vec![
        Row::ratio(
            "instructions: a step at step 100,000, beside step 100",
            shown(late),
            shown(early),
            late / early,
        )
        .at_most(1.05),
    ])
}

pub fn resume(rig: &Rig) -> Result<Vec<Row>, String> {
    rig.write("wf/START.sh", "echo '<result>done</result>'\n")?;
    prepare(rig, 1_000_000, "million")?;
    let mut times = Sample::default();
    let mut memory = 0;
    for _ in 0..REPETITIONS {
        restore(rig, "million")?;
        let done = finish_watched(rig.raymond(&["resume", "r", "--no-debug"]), &[0])?;
        times.add_time(done.time);
        memory = memory.max(done.max_memory);
    }
    let mib = memory as f64 / (1024.0 * 1024.0);
    Ok(vec![
        Row::amount(
            "resume after 1,000,000 steps: time, with one more step",
            times.median() * 1e3,
            seconds(times.median()),
        )
        .within(1000.0, " ms", Kind::AtMost),
        Row::amount("resume after 1,000,000 steps: memory", mib, mebibytes(memory)).within(
            64.0,
            " MiB",
            Kind::AtMost,
        ),
    ])
}
