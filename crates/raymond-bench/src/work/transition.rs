//! From one script state to the next, compared with a loop that only starts the same script and reads its output.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::process::Command;
use std::time::Instant;

use super::COUNTDOWN;
use crate::report::Row;
use crate::rig::{Rig, finish, spawn_and_read};
use crate::sample::Sample;

const STEPS: usize = 300;
const REPETITIONS: usize = 15;
/// As long as the batch of a transition.
const BATCH: [u8; 700] = [b'x'; 700];

#[derive(Default)]
struct Samples {
    bare: Sample,
    process: Sample,
    told: Sample,
    power: Sample,
    debug: Sample,
    peer: Sample,
    sync: Sample,
}

pub fn measure(rig: &Rig) -> Result<Vec<Row>, String> {
    rig.write("wf/START.sh", COUNTDOWN)?;
    let mut samples = Samples::default();
    for _ in 0..REPETITIONS {
        count(rig, STEPS)?;
        let time = spawn_and_read(rig, "bash", &["wf/START.sh"], STEPS)?;
        samples.bare.add(time.as_secs_f64() / STEPS as f64);
        samples.process.add(step(rig, "process", &["wf", "--no-debug"])?);
        samples.told.add(steps(rig, told_to_a_file)?);
        samples.power.add(step(rig, "power", &["wf", "--no-debug"])?);
        samples.debug.add(step(rig, "power", &["wf"])?);
        samples.sync.add(sync(rig)?);
        if rig.peer(&[]).is_some() {
            samples.peer.add(steps(rig, |rig| rig.peer(&["wf"]).ok_or_else(|| "no peer".to_owned()))?);
        }
    }
    let Samples { bare, process, told, power, debug, peer, sync } = samples;
    let beside_sync = |time: &Sample| time.less(&sync).beside(&bare);
    let peer = rig.peer(&[]).map(|_| peer);
    let with_sync = format!("{bare} + {sync}");
    Ok(vec![
        Row::ratio(
            "one script transition, `durability = \"process\"`, beside spawn and read",
            &process,
            &bare,
            process.beside(&bare),
        )
        .at_most(1.10)
        .beside(peer),
        Row::ratio("the same with progress lines, to a file", &told, &bare, told.beside(&bare)),
        Row::ratio(
            "the same, `durability = \"power\"`, less one fdatasync",
            &power,
            &with_sync,
            beside_sync(&power),
        )
        .at_most(1.10),
        Row::ratio("the same with debug files (the default)", &debug, &with_sync, beside_sync(&debug))
            .at_most(1.25),
    ])
}

fn count(rig: &Rig, steps: usize) -> Result<(), String> {
    rig.write("count", &format!("{steps}\n"))
}

fn step(rig: &Rig, durability: &str, args: &[&str]) -> Result<f64, String> {
    rig.durability(durability)?;
    steps(rig, |rig| Ok(rig.raymond(args)))
}

/// Writes the progress lines to a file. In other measurements they are not even formatted.
fn told_to_a_file(rig: &Rig) -> Result<Command, String> {
    let file = File::create(rig.path("told")).map_err(|error| error.to_string())?;
    let mut command = rig.raymond(&["wf", "--no-debug"]);
    command.stderr(file);
    Ok(command)
}

/// Seconds for a step, without the start and the end of the program.
fn steps(rig: &Rig, command: impl Fn(&Rig) -> Result<Command, String>) -> Result<f64, String> {
    count(rig, 1)?;
    let one = finish(command(rig)?, &[0])?;
    count(rig, STEPS + 1)?;
    let all = finish(command(rig)?, &[0])?;
    Ok((all.as_secs_f64() - one.as_secs_f64()) / STEPS as f64)
}

/// Seconds that the disk needs to sync a transition.
fn sync(rig: &Rig) -> Result<f64, String> {
    const TIMES: usize = 100;
    let path = rig.path("synced");
    let mut file =
        OpenOptions::new().append(true).create(true).open(path).map_err(|error| error.to_string())?;
    let started = Instant::now();
    for _ in 0..TIMES {
        file.write_all(&BATCH).and_then(|()| file.sync_data()).map_err(|error| error.to_string())?;
    }
    Ok(started.elapsed().as_secs_f64() / TIMES as f64)
}
