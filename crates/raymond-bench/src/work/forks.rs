//! A thousand workers at once.

use std::fs;
use std::time::{Duration, Instant};

use crate::report::{Kind, Row};
use crate::rig::{Rig, finish, finish_watched};
use crate::sample::{Sample, mebibytes, seconds};

const WORKERS: usize = 1_000;
const REPETITIONS: usize = 9;

pub fn measure(rig: &Rig) -> Result<Vec<Row>, String> {
    rig.write(
        "wf/START.sh",
        &format!("for ((i = 0; i < {WORKERS}; i++)); do echo '<fork next=\"GATHER\">WORK</fork>'; done\n"),
    )?;
    rig.write("wf/WORK.sh", "sleep 0.2; echo '<result>done</result>'\n")?;
    rig.write("wf/GATHER.sh", "echo '<join>END</join>'\n")?;
    rig.write("wf/END.sh", "echo '<result>done</result>'\n")?;
    rig.write("bare.sh", &format!("for ((i = 0; i < {WORKERS}; i++)); do bash wf/WORK.sh & done; wait\n"))?;
    let [mut bash, mut ours, mut folders] = [const { Sample::new() }; 3];
    for repetition in 0..REPETITIONS {
        folders.add_time(create_folders(rig, repetition)?);
        bash.add_time(finish(rig.command("bash", &["bare.sh"]), &[0])?);
        ours.add_time(finish(rig.raymond(&["wf", "--no-debug"]), &[0])?);
    }
    // Measured separately: with both processors busy, reading the memory would take time from the run.
    let memory = finish_watched(rig.raymond(&["wf", "--no-debug"]), &[0])?.max_memory;
    let mib = memory as f64 / (1024.0 * 1024.0);
    Ok(vec![
        Row::ratio(
            "1,000 forks of `sleep 0.2`, beside bash's `&` and `wait`",
            &ours,
            &bash,
            ours.beside(&bash),
        )
        .at_most(1.0),
        Row::amount(
            "1,000 forks: creating 1,000 folders in the same place",
            folders.median(),
            seconds(folders.median()),
        ),
        Row::amount("1,000 forks: memory", mib, mebibytes(memory)).within(30.0, " MiB", Kind::AtMost),
    ])
}

/// Each worker has its own folder. The time to create it depends on the file system and its recent work.
fn create_folders(rig: &Rig, repetition: usize) -> Result<Duration, String> {
    let place = rig.path(&format!(".raymond/state/folders-{repetition}"));
    let create = || -> std::io::Result<()> {
        fs::create_dir_all(&place)?;
        (0..WORKERS).try_for_each(|number| fs::create_dir(place.join(format!("main_work{number}"))))
    };
    let started = Instant::now();
    create().map_err(|error| error.to_string())?;
    Ok(started.elapsed())
}
