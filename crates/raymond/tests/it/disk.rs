//! A disk that is full or read-only, and files that cannot be read or created.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use test_kit::needs::say_skipped;
use test_kit::rig::{Rig, wait_until};

use crate::RAYMOND;

const OK: &str = "echo '<result>ok</result>'";

#[test]
fn state_files_are_private_to_the_owner_and_ignored_by_git() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "touch \"$RAYMOND_TASK_FOLDER/note\"; echo '<result>ok</result>'");
    rig.raymond(&["workflow", "--id", "r", "--input", "secret"]).assert(0, "ok\n");
    assert_eq!(rig.read(".raymond/.gitignore"), "*\n!.gitignore\n!config.toml\n");
    let mode = |name: &str| fs::metadata(rig.path(name)).unwrap().permissions().mode() & 0o777;
    for folder in [".raymond", ".raymond/state", ".raymond/state/r.tasks", ".raymond/state/r.tasks/main"] {
        assert_eq!(mode(folder), 0o700, "{folder}");
    }
    assert_eq!(mode(".raymond/state/r.jsonl"), 0o600);
    assert_eq!(mode(".raymond/state/r.lock"), 0o600);
}

#[test]
fn a_state_folder_that_cannot_be_made_is_named() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", OK).write("file", "");
    rig.raymond(&["workflow", "--state-dir", "file/below"]).assert(2, "").says("file/below");
    rig.raymond(&["workflow", "--state-dir", "file"]).assert(2, "").says("/file");
    rig.write(".raymond", "in the way");
    rig.run().assert(2, "").says(".raymond");
}

#[test]
fn a_read_only_disk_is_named() {
    let Some(disk) = Disk::mount("size=1m,ro") else {
        return;
    };
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", OK);
    let place = disk.path().join("runs");
    rig.raymond(&["workflow", "--state-dir", place.to_str().unwrap()])
        .assert(2, "")
        .says(place.to_str().unwrap())
        .says("Read-only");
}

#[test]
fn a_full_disk_stops_the_run_and_with_free_space_it_can_be_resumed() {
    let Some(disk) = Disk::mount("size=64k") else {
        return;
    };
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        "echo $RAYMOND_VISITS >> trace; [ $RAYMOND_VISITS = 400 ] && echo '<result>ok</result>' || echo '<goto>START</goto>'",
    );
    let place = disk.path().to_str().unwrap().to_owned();
    fs::write(disk.path().join("ballast"), vec![0; 30_000]).unwrap();
    let done = rig.raymond(&["workflow", "--id", "r", "--state-dir", &place, "--quiet"]);
    done.assert(1, "").says("r.jsonl").says("No space left").says("raymond resume r");
    rig.assert_nothing_lives();
    let before = rig.read("trace").lines().count();
    disk.remount("size=4m");
    rig.raymond(&["resume", "r", "--state-dir", &place, "--quiet"]).assert(0, "ok\n");
    let trace = rig.read("trace");
    let last = before.to_string();
    assert_eq!(
        trace.lines().filter(|line| **line != last).count(),
        399,
        "only the step that could not be recorded was run twice"
    );
}

/// A turn that was paid for is recorded with its cost, though the disk has filled up while it ran. Its text may be lost.
#[test]
fn a_turn_is_recorded_though_the_disk_filled_up_meanwhile() {
    // (what the agent replies, and how often the agent is called in total)
    let reply = |text: &str| format!(r#"[{{"reply": "{text}", "cost": 0.25, "hold": "gate"}}]"#);
    let long = "x".repeat(60_000);
    let cases = [
        ("short", reply("<result>short</result>"), "short\n", 1),
        ("a long message", reply(&format!("{long}{long}<result>short</result>")), "short\n", 1),
        ("a long result", reply(&format!("<result>{long}</result>")), "", 2),
        ("a result in a file", reply(&format!("<result>{}</result>", "x".repeat(200_000))), "", 2),
    ];
    for (what, script, result, calls) in cases {
        let Some(disk) = Disk::mount("size=128k") else { return };
        let rig = Rig::new(RAYMOND);
        rig.agent(&script).state("START.md", "Go.");
        let place = disk.path().to_str().unwrap().to_owned();
        let options = ["--state-dir", &place, "--no-debug"];
        let live = rig.start(&[&["workflow", "--id", "r"], &options[..]].concat());
        rig.wait_for_calls(1);
        let mut ballast = fs::File::create(disk.path().join("ballast")).unwrap();
        while std::io::Write::write(&mut ballast, &[0; 1024]).is_ok_and(|written| written > 0) {}
        rig.open_gate("gate");
        let done = live.wait();
        disk.remount("size=4m");
        let status = rig.raymond(&["status", "r", "--json", "--state-dir", &place]);
        let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
        assert_eq!(status["cost_usd"], 0.25, "{what}: {}", done.stderr);
        if done.exit != 0 {
            done.assert(1, "").says("No space left").says("raymond resume r");
        }
        let done = rig.raymond(&[&["resume", "r"], &options[..]].concat());
        assert_eq!(done.exit, 0, "{what}: {}", done.stderr);
        assert!(done.stdout.ends_with(result), "{what}: {}", done.stdout);
        assert_eq!(rig.calls().len(), calls, "{what}");
    }
}

#[test]
fn a_state_that_cannot_be_read_is_named() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<goto>NEXT</goto>'");
    std::os::unix::fs::symlink("nowhere", rig.path("workflow/NEXT.sh")).unwrap();
    rig.run().assert(1, "").says("NEXT.sh");
}

#[test]
fn a_working_folder_may_have_a_name_with_special_characters() {
    let rig = Rig::new(RAYMOND);
    rig.write("odd 'n\"ame $x/wörk flow/START.sh", "echo '<goto>NEXT</goto>'");
    rig.write("odd 'n\"ame $x/wörk flow/NEXT.sh", OK);
    let mut command = rig.command(&["wörk flow"]);
    command.current_dir(rig.path("odd 'n\"ame $x"));
    rig.launch(command).wait().assert(0, "ok\n");
}

/// A small file system in memory; only root can mount it.
struct Disk {
    folder: tempfile::TempDir,
}

impl Disk {
    /// `None`, with a printed note, where mounting is not permitted.
    fn mount(options: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let done =
            Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(folder.path()).output();
        match done {
            Ok(output) if output.status.success() => Some(Self { folder }),
            other => {
                say_skipped("a small disk", &format!("the right to mount one: {other:?}"));
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn remount(&self, options: &str) {
        let done =
            Command::new("mount").args(["-o", &format!("remount,{options}")]).arg(self.path()).status();
        assert!(done.unwrap().success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        wait_until("the small disk to be free", || {
            let done = Command::new("umount").arg(self.path()).output();
            done.is_ok_and(|output| output.status.success())
        });
    }
}

#[test]
fn a_file_size_limit_stops_the_run_like_a_full_disk() {
    let rig = Rig::new(RAYMOND);
    let long = "x".repeat(2000);
    rig.state(
        "START.sh",
        format!(
            "[ $RAYMOND_VISITS = 100 ] && echo '<result>ok</result>' || echo '<goto input=\"{long}\">START</goto>'"
        ),
    );
    let limited = |limit: &str| {
        let mut command = rig.program("/bin/bash");
        command.args(["-c", "ulimit -f \"$1\"; exec \"$2\" workflow --id r --no-debug", "-", limit, RAYMOND]);
        rig.launch(command).wait()
    };
    // In units of 1 KiB.
    let done = limited("100");
    done.assert(1, "").says("ulimit -f").says("raymond resume r");
    rig.resume().assert(0, "ok\n");
}

#[test]
fn programs_that_raymond_starts_do_not_ignore_a_file_size_limit() {
    let rig = Rig::new(RAYMOND);
    rig.write(".raymond/config.toml", "[raymond]\nnotify = \"grep SigIgn /proc/self/status > notified\"\n");
    rig.state("START.sh", "echo \"<result>$(grep SigIgn /proc/self/status)</result>\"");
    // SIGXFSZ is the 25th signal.
    let ignores = |text: &str| {
        let mask = text.split_whitespace().last().map(|mask| u64::from_str_radix(mask, 16).unwrap());
        mask.unwrap() & (1 << 24) != 0
    };
    let done = rig.run();
    assert!(done.exit == 0 && !ignores(&done.stdout), "{done:?}");
    assert!(!ignores(&rig.read("notified")));
}
