//! Many small tests, beside as many bare starts of `bash`.

use std::fmt::Write;

use crate::report::Row;
use crate::rig::{Rig, finish};
use crate::sample::Sample;

const TESTS: usize = 200;
const REPETITIONS: usize = 5;

pub fn measure(rig: &Rig) -> Result<Vec<Row>, String> {
    rig.write("wf/START.sh", "echo '<result>done</result>'\n")?;
    let mut tests = "tests:\n".to_owned();
    for number in 0..TESTS {
        let _ = writeln!(tests, "  - {{ name: t{number}, expect: {{ result: done }} }}");
    }
    rig.write("wf/wf.test.yaml", &tests)?;
    let bare = format!("for ((i = 0; i < {TESTS}; i++)); do bash wf/START.sh > one; done");
    let (mut ours, mut bash) = (Sample::default(), Sample::default());
    for _ in 0..REPETITIONS {
        ours.add_time(finish(rig.raymond(&["test", "wf"]), &[0])?);
        bash.add_time(finish(rig.command("bash", &["-c", &bare]), &[0])?);
    }
    let ratio = ours.beside(&bash);
    Ok(vec![Row::ratio(
        "200 small tests (`raymond test`), beside 200 starts of `bash` in a row",
        &ours,
        &bash,
        ratio,
    )])
}
