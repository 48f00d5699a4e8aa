//! A script that prints 200 MB, which are searched for tags, compared with `cat > /dev/null`.

use std::fs::File;
use std::io::Write;

use crate::report::{Kind, Row};
use crate::rig::{Rig, finish, finish_watched};
use crate::sample::{Sample, mebibytes};

const MEGABYTES: usize = 200;
const REPETITIONS: usize = 5;
const LINE: &str = "a line of a build log, with 0.2 numbers < 3 and a few <angles> that are no tags at all\n";

pub fn measure(rig: &Rig) -> Result<Vec<Row>, String> {
    write_log(rig).map_err(|error| error.to_string())?;
    rig.write("wf/START.sh", "cat log\necho '<result>done</result>'\n")?;
    rig.write("bare.sh", "bash wf/START.sh | cat > /dev/null\n")?;
    let (mut cat, mut ours, mut with_files) = (Sample::default(), Sample::default(), Sample::default());
    let mut memory = 0;
    for _ in 0..REPETITIONS {
        cat.add_time(finish(rig.command("bash", &["bare.sh"]), &[0])?);
        let done = finish_watched(rig.raymond(&["wf", "--no-debug"]), &[0])?;
        ours.add_time(done.time);
        memory = memory.max(done.max_memory);
        let done = finish_watched(rig.raymond(&["wf"]), &[0])?;
        with_files.add_time(done.time);
        memory = memory.max(done.max_memory);
    }
    let speed = |sample: &Sample| format!("{:.0} MB/s", MEGABYTES as f64 / sample.median());
    let mib = memory as f64 / (1024.0 * 1024.0);
    Ok(vec![
        Row::ratio(
            "200 MB of script output: throughput, beside `cat > /dev/null`",
            speed(&ours),
            speed(&cat),
            cat.beside(&ours),
        )
        .within(0.5, "×", Kind::AtLeast),
        Row::ratio("the same with debug files", speed(&with_files), speed(&cat), cat.beside(&with_files)),
        Row::amount("200 MB of script output: memory", mib, mebibytes(memory)).within(
            32.0,
            " MiB",
            Kind::AtMost,
        ),
    ])
}

fn write_log(rig: &Rig) -> std::io::Result<()> {
    let mut file = File::create(rig.path("log"))?;
    let piece = LINE.repeat(1_000_000 / LINE.len());
    for _ in 0..MEGABYTES {
        file.write_all(piece.as_bytes())?;
    }
    file.sync_all()
}
