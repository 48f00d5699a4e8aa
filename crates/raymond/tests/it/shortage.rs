//! A host that is short of processes or file descriptors. No worker may fail because of it.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use test_kit::rig::{Done, Rig};

use crate::RAYMOND;

/// `count` workers of which each needs one process, and that all run at the same time if they can.
fn fan_out(count: usize) -> Rig {
    let rig = Rig::new(RAYMOND);
    let forks = "<fork next=\"WAIT\">WORK</fork>".repeat(count);
    rig.state("START.sh", format!("mkfifo fifo; echo '{forks}'"));
    rig.state("WAIT.sh", "echo '<join>DONE</join>'");
    // Reading from a pipe with a time limit waits without another process.
    rig.state(
        "WORK.sh",
        "# raymond: fatal=agent retry=0\nexec 3<> fifo; read -t 0.2 -u 3 x; echo '<result>ok</result>'",
    );
    rig.state("DONE.py", "import os,json\nr=json.loads(os.environ['RAYMOND_RESULT'])\nprint('<result>%d</result>' % sum(w['status'] == 'done' for w in r))\n");
    rig
}

fn assert_all_done(rig: &Rig, done: &Done, count: usize) {
    done.assert(0, &format!("{count}\n"));
    let events = rig.events();
    let named = |name: &str| events.iter().filter(|event| event["event"] == name).collect::<Vec<&Value>>();
    assert!(named("step_failed").is_empty() && named("retry").is_empty(), "{}", done.stderr);
}

#[test]
fn few_file_descriptors_let_fewer_steps_run_at_once() {
    let rig = fan_out(30);
    let mut command = rig.program("bash");
    command.args(["-c", &format!("ulimit -n 40; exec '{RAYMOND}' workflow --id r")]);
    let done = rig.launch(command).wait();
    assert_all_done(&rig, &done, 30);
}

/// A control group that allows so many processes, if this host lets us make one.
struct Processes(PathBuf);

impl Processes {
    fn at_most(count: u32) -> Option<Self> {
        let name = format!("raymond-test-{}", std::process::id());
        for (parent, member) in [("/sys/fs/cgroup/pids", "pids.max"), ("/sys/fs/cgroup", "pids.max")] {
            let folder = PathBuf::from(parent).join(&name);
            if fs::create_dir(&folder).is_ok() {
                let group = Self(folder);
                if fs::write(group.0.join(member), count.to_string()).is_ok() {
                    return Some(group);
                }
            }
        }
        None
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn few_processes_let_fewer_steps_run_at_once() {
    let Some(group) = Processes::at_most(60) else {
        return;
    };
    let rig = fan_out(100);
    let mut command = rig.program("bash");
    let enter = format!("echo $$ > '{}'", group.0.join("cgroup.procs").display());
    command.args(["-c", &format!("{enter}; exec '{RAYMOND}' workflow --id r")]);
    let done = rig.launch(command).wait();
    assert_all_done(&rig, &done, 100);
    let warned = rig.events().iter().filter(|event| event["event"] == "warning").count();
    assert_eq!(warned, 1, "the shortage is recorded once: {}", done.stderr);
}
