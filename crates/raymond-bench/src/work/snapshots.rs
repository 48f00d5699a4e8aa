//! Snapshots of a large working folder, beside the two calls of git that no snapshot can do without.

use std::fs;

use crate::report::Row;
use crate::rig::{Rig, finish};
use crate::sample::Sample;

const FOLDERS: usize = 500;
const FILES_IN_EACH: usize = 100;
const STEPS: usize = 5;
const REPETITIONS: usize = 5;
/// Changes ten files in each step.
const CHANGE: &str = "for f in 0 1 2 3 4 5 6 7 8 9; do echo more >> files/$f/$f; done\n";

pub fn measure(rig: &Rig) -> Result<Vec<Row>, String> {
    for copy in ["with-raymond", "bare"] {
        make_repository(rig, copy)?;
    }
    let step = format!(
        "{CHANGE}if [ $RAYMOND_VISITS -lt {STEPS} ]; then echo '<goto>START</goto>'; else echo '<result>done</result>'; fi\n"
    );
    rig.write("with-raymond/wf/START.sh", &step)?;
    rig.write("bare/step.sh", CHANGE)?;
    let bare = format!(
        "cd bare; git add -A; git write-tree; for ((i = 0; i < {STEPS}; i++)); do bash step.sh; git add -A; git write-tree; done"
    );
    let (mut ours, mut bash) = (Sample::default(), Sample::default());
    for _ in 0..REPETITIONS {
        let mut raymond = rig.raymond(&["wf", "--snapshots", "--no-debug"]);
        raymond.current_dir(rig.path("with-raymond"));
        ours.add_time(finish(raymond, &[0])?);
        bash.add_time(finish(rig.command("bash", &["-c", &bare]), &[0])?);
    }
    let ratio = ours.beside(&bash);
    Ok(vec![Row::ratio(
        "5 steps with snapshots of 50,000 files, 10 changed in each, beside `git add -A && git write-tree` as often",
        &ours,
        &bash,
        ratio,
    )])
}

/// A repository in which all files are committed.
fn make_repository(rig: &Rig, name: &str) -> Result<(), String> {
    for folder in 0..FOLDERS {
        let folder = rig.path(&format!("{name}/files/{folder}"));
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        for file in 0..FILES_IN_EACH {
            fs::write(folder.join(file.to_string()), format!("{file}\n"))
                .map_err(|error| error.to_string())?;
        }
    }
    rig.write(&format!("{name}/.gitignore"), "/.raymond\n/wf\n/step.sh\n")?;
    let commit = format!(
        "cd {name} && git init -q && git add -A && git -c user.name=b -c user.email=b@localhost commit -qm files"
    );
    finish(rig.command("bash", &["-c", &commit]), &[0]).map(drop)
}
