//! A step among many waiting agents, and the cost of the waiting agents.

use std::fs;

use super::FOREVER;
use super::instructions::of_a_resumed_step;
use crate::history;
use crate::report::{Kind, Row};
use crate::rig::{Rig, Watched};
use crate::sample::{Sample, mebibytes, seconds};

const STEPS: usize = 300;
const REPETITIONS: usize = 9;
/// Steps before the measured ones, so that the next snapshot (one in thousands of steps) is not among those.
const MORE_STEPS: u64 = 10_000;

/// A run `r` with `waiting` agents that wait for an hour; the first agent keeps running.
fn prepare(rig: &Rig, waiting: usize) -> Result<(), String> {
    rig.write("wf/START.sh", FOREVER)?;
    rig.write("wf/WAIT.sh", "echo '<result>late</result>'\n")?;
    let _ = fs::remove_dir_all(rig.path(".raymond/state"));
    let forks = "<fork next=\"START\">FIRST</fork>".repeat(waiting);
    let prints = move |state: &str, step: u64| match (state, step) {
        ("START", 1) if waiting > 0 => forks.clone(),
        ("FIRST", _) => "<goto delay=\"1h\">WAIT</goto>".to_owned(),
        _ => "<goto>START</goto>".to_owned(),
    };
    // The first step forks, each worker takes one step, and enough steps follow that a new segment begins after them.
    history::write(rig.path("").as_path(), "wf", waiting as u64 + MORE_STEPS, &prints)?;
    rig.adopt()
}

/// Resumes `r` and measures some of its steps once it runs.
fn resumed_step(rig: &Rig) -> Result<f64, String> {
    let mut watched = Watched::start(rig.raymond(&["resume", "r", "--no-debug", "--json"]))?;
    let begin = watched.wait_for("step_finished", 20)?;
    let end = watched.wait_for("step_finished", STEPS)?;
    Ok((end - begin).as_secs_f64() / STEPS as f64)
}

pub fn measure(rig: &Rig) -> Result<Vec<Row>, String> {
    let crowds = [0, 1_000, 10_000];
    let mut samples = [Sample::default(), Sample::default(), Sample::default()];
    for (crowd, name) in crowds.iter().zip(["none", "some", "many"]) {
        prepare(rig, *crowd)?;
        fs::rename(rig.path(".raymond/state"), rig.path(name)).map_err(|error| error.to_string())?;
    }
    for _ in 0..REPETITIONS {
        for (sample, name) in samples.iter_mut().zip(["none", "some", "many"]) {
            restore(rig, name)?;
            sample.add(resumed_step(rig)?);
        }
    }
    let [alone, some, many] = samples;
    let row =
        |work: &str, sample: &Sample| Row::ratio(work, sample, &alone, sample.beside(&alone)).at_most(1.05);
    Ok(vec![
        row("a step among 1,000 waiting agents, beside none", &some),
        row("a step among 10,000 waiting agents, beside none", &many),
    ])
}

/// The same in instructions, which have no noise.
pub fn instructions(rig: &Rig) -> Result<Vec<Row>, String> {
    let mut counted = [0.0, 0.0];
    for (count, crowd) in counted.iter_mut().zip([0, 10_000]) {
        prepare(rig, crowd)?;
        let _ = fs::remove_dir_all(rig.path("crowd"));
        fs::rename(rig.path(".raymond/state"), rig.path("crowd")).map_err(|error| error.to_string())?;
        *count = of_a_resumed_step(rig, "crowd", crowd as u64 + MORE_STEPS)?;
    }
    let [alone, many] = counted;
    let shown = |count: f64| format!("{:.0} k", count / 1e3);
    Ok(vec![
        Row::ratio(
            "instructions: a step among 10,000 waiting agents, beside none",
            shown(many),
            shown(alone),
            many / alone,
        )
        .at_most(1.05),
    ])
}

/// Puts a copy of a folder of journals where Raymond looks for them.
pub fn restore(rig: &Rig, name: &str) -> Result<(), String> {
    let state = rig.path(".raymond/state");
    let _ = fs::remove_dir_all(&state);
    let copy = || -> std::io::Result<()> {
        fs::create_dir_all(&state)?;
        for entry in fs::read_dir(rig.path(name))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                fs::copy(entry.path(), state.join(entry.file_name()))?;
            }
        }
        Ok(())
    };
    copy().map_err(|error| error.to_string())
}

/// Ten thousand waiting agents: the memory, and the time to resume after a crash.
pub fn delayed(rig: &Rig) -> Result<Vec<Row>, String> {
    prepare(rig, 10_000)?;
    fs::rename(rig.path(".raymond/state"), rig.path("many")).map_err(|error| error.to_string())?;
    let mut times = Sample::default();
    let mut memory = 0;
    for _ in 0..REPETITIONS {
        restore(rig, "many")?;
        let mut watched = Watched::start(rig.raymond(&["resume", "r", "--no-debug", "--json"]))?;
        times.add_time(watched.wait_for("run_resumed", 1)? - watched.started);
        watched.wait_for("step_finished", 20)?;
        memory = memory.max(watched.max_memory()?);
    }
    let mib = memory as f64 / (1024.0 * 1024.0);
    Ok(vec![
        Row::amount("10,000 waiting agents: memory", mib, mebibytes(memory)).within(
            60.0,
            " MiB",
            Kind::AtMost,
        ),
        Row::amount("10,000 waiting agents: time to resume", times.median() * 1e3, seconds(times.median()))
            .within(500.0, " ms", Kind::AtMost),
    ])
}
