//! The whole program, for the smallest workflow there is.

use crate::report::Row;
use crate::rig::{Rig, finish};
use crate::sample::Sample;

const REPETITIONS: usize = 60;

pub fn measure(rig: &Rig) -> Result<Vec<Row>, String> {
    rig.write("wf/START.sh", "echo '<result>done</result>'\n")?;
    let (mut bash, mut ours, mut peers) = (Sample::default(), Sample::default(), Sample::default());
    for _ in 0..REPETITIONS {
        bash.add_time(finish(rig.command("bash", &["wf/START.sh"]), &[0])?.time);
        ours.add_time(finish(rig.raymond(&["wf", "--no-debug"]), &[0])?.time);
        if let Some(peer) = rig.peer(&["wf"]) {
            peers.add_time(finish(peer, &[0])?.time);
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
