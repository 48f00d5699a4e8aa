//! A thousand workers at once.

use crate::report::{Kind, Row};
use crate::rig::{Rig, finish, finish_watched};
use crate::sample::{Sample, mebibytes};

const WORKERS: usize = 1_000;
const REPETITIONS: usize = 5;

pub fn measure(rig: &Rig) -> Result<Vec<Row>, String> {
    rig.write(
        "wf/START.sh",
        &format!("for ((i = 0; i < {WORKERS}; i++)); do echo '<fork next=\"GATHER\">WORK</fork>'; done\n"),
    )?;
    rig.write("wf/WORK.sh", "sleep 0.2; echo '<result>done</result>'\n")?;
    rig.write("wf/GATHER.sh", "echo '<join>END</join>'\n")?;
    rig.write("wf/END.sh", "echo '<result>done</result>'\n")?;
    rig.write("bare.sh", &format!("for ((i = 0; i < {WORKERS}; i++)); do bash wf/WORK.sh & done; wait\n"))?;
    let (mut bash, mut ours) = (Sample::default(), Sample::default());
    for _ in 0..REPETITIONS {
        bash.add_time(finish(rig.command("bash", &["bare.sh"]), &[0])?);
        ours.add_time(finish(rig.raymond(&["wf", "--no-debug"]), &[0])?);
    }
    // Apart from the others: with both processors busy, whoever looks takes time away.
    let memory = finish_watched(rig.raymond(&["wf", "--no-debug"]), &[0])?.max_memory;
    let mib = memory as f64 / (1024.0 * 1024.0);
    Ok(vec![
        Row::ratio(
            "1,000 forks of `sleep 0.2`, beside bash's `&` and `wait`",
            &ours,
            &bash,
            ours.median() / bash.median(),
        )
        .at_most(1.0),
        Row::amount("1,000 forks: memory", mib, mebibytes(memory)).within(30.0, " MiB", Kind::AtMost),
    ])
}
