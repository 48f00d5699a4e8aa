//! The work of Raymond itself for a step, in instructions, which have no noise.

use super::{COUNTDOWN, FOREVER};
use crate::callgrind::{instructions, is_there};
use crate::report::Row;
use crate::rig::Rig;

const STEPS: usize = 50;

pub fn measure(rig: &Rig) -> Result<Vec<Row>, String> {
    if !is_there() {
        eprintln!("  valgrind is not installed; no instructions are counted");
        return Ok(Vec::new());
    }
    rig.write("wf/START.sh", COUNTDOWN)?;
    rig.write("count", "1\n")?;
    let one = instructions(rig, &["wf", "--no-debug", "--id", "one"], &[0])?;
    rig.write("count", &format!("{}\n", STEPS + 1))?;
    let all = instructions(rig, &["wf", "--no-debug", "--id", "all"], &[0])?;
    rig.write("count", &format!("{}\n", STEPS + 1))?;
    let debug = instructions(rig, &["wf", "--id", "debug"], &[0])?;
    let step = |total: u64| (total.saturating_sub(one)) as f64 / STEPS as f64;
    let alone = step(all);
    let mut rows = vec![
        Row::amount("instructions: the whole program, one state", one as f64 / 1e6, millions(one as f64)),
        Row::amount("instructions: one more step", alone / 1e6, millions(alone)),
        Row::amount("instructions: one more step with debug files", step(debug) / 1e6, millions(step(debug))),
    ];
    rig.write("wf/START.sh", FOREVER)?;
    rows.extend(super::crowd::instructions(rig)?);
    rows.extend(super::past::instructions(rig)?);
    Ok(rows)
}

fn millions(count: f64) -> String {
    format!("{:.2} M", count / 1e6)
}

/// The same for a resumed run: the instructions of some more steps, minus those of the resume.
pub fn of_a_resumed_step(rig: &Rig, name: &str, past: u64) -> Result<f64, String> {
    let mut counted = [0, 0];
    for (count, more) in counted.iter_mut().zip([10, 10 + STEPS as u64]) {
        super::crowd::restore(rig, name)?;
        let steps = (past + more).to_string();
        *count = instructions(rig, &["resume", "r", "--no-debug", "--max-steps", &steps], &[1])?;
    }
    Ok((counted[1] - counted[0]) as f64 / STEPS as f64)
}
