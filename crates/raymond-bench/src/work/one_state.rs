//! The whole program, for the smallest workflow there is.

use std::fs;
use std::time::{Duration, Instant};

use crate::report::Row;
use crate::rig::{Rig, finish};
use crate::sample::Sample;

const REPETITIONS: usize = 60;

pub fn measure(rig: &Rig) -> Result<Vec<Row>, String> {
    rig.write("wf/START.sh", "echo '<result>done</result>'\n")?;
    let [mut bash, mut ours, mut peers, mut files] = [const { Sample::new() }; 4];
    for repetition in 0..REPETITIONS {
        files.add_time(create_files(rig, repetition)?);
        bash.add_time(finish(rig.command("bash", &["wf/START.sh"]), &[0])?);
        ours.add_time(finish(rig.raymond(&["wf", "--no-debug"]), &[0])?);
        if let Some(peer) = rig.peer(&["wf"]) {
            peers.add_time(finish(peer, &[0])?);
        }
    }
    let ratio = ours.median() / bash.median();
    let peer = rig.peer(&[]).map(|_| peers);
    Ok(vec![
        Row::ratio("whole program for one script state, beside `bash` alone", &ours, &bash, ratio)
            .at_most(2.0)
            .beside(peer),
    ])
}
