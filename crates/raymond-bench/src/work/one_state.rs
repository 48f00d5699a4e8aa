//! The whole program, for the smallest possible workflow.

use std::fs;
use std::time::{Duration, Instant};

use crate::report::Row;
use crate::rig::{Rig, finish};
use crate::sample::Sample;

const REPETITIONS: usize = 60;

pub fn measure(rig: &Rig) -> Result<Vec<Row>, String> {
    rig.write("wf/START.sh", "echo '<result>done</result>'\n")?;
    let [mut bash, mut ours, mut peers, mut files, mut start, mut least] = [const { Sample::new() }; 6];
    for repetition in 0..REPETITIONS {
        files.add_time(create_files(rig, repetition)?);
        start.add_time(finish(rig.raymond(&["--version"]), &[0])?);
        least.add_time(finish(rig.command("true", &[]), &[0])?);
        bash.add_time(finish(rig.command("bash", &["wf/START.sh"]), &[0])?);
        ours.add_time(finish(rig.raymond(&["wf", "--no-debug"]), &[0])?);
        if let Some(peer) = rig.peer(&["wf"]) {
            peers.add_time(finish(peer, &[0])?);
        }
    }
    let ratio = ours.beside(&bash);
    let peer = rig.peer(&[]).map(|_| peers);
    let floor = bash.median() + start.median() + files.median();
    Ok(vec![
        Row::ratio(
            "whole program for one script state (`process`, no debug files), beside `bash` alone",
            &ours,
            &bash,
            ratio,
        )
        .at_most(2.0)
        .beside(peer),
        Row::ratio(
            "its floor: `raymond --version`, `bash`, and as many files created, one after the other",
            format!("{start} + {bash} + {files}"),
            &bash,
            floor / bash.median(),
        ),
        Row::ratio("`raymond --version`, beside `true`", &start, &least, start.beside(&least)),
    ])
}

/// Creates only the files of a run: a lock, a journal, two folders and a hint.
fn create_files(rig: &Rig, repetition: usize) -> Result<Duration, String> {
    let path = |name: &str| rig.path(&format!(".raymond/state/bare-{repetition}{name}"));
    let create = || -> std::io::Result<()> {
        fs::create_dir_all(rig.path(".raymond/state"))?;
        fs::write(path(".lock"), "x")?;
        fs::write(path(".jsonl"), "x")?;
        fs::create_dir(path(".tasks"))?;
        fs::create_dir(path(".tasks/main"))?;
        fs::write(path(".tasks/groups"), "x")
    };
    let started = Instant::now();
    create().map_err(|error| error.to_string())?;
    Ok(started.elapsed())
}
