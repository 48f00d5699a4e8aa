//! Files that are pipes, devices or far too large are refused at once, and our own files are for the owner only.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use test_kit::rig::{Rig, wait_until};

use crate::RAYMOND;

#[derive(Clone, Copy, Debug)]
enum Strange {
    Zero,
    Pipe,
    Sparse,
    Folder,
}

fn put(path: &Path, what: Strange) {
    let _ = fs::remove_file(path);
    match what {
        Strange::Zero => symlink("/dev/zero", path).unwrap(),
        Strange::Pipe => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        Strange::Sparse => File::create(path).unwrap().set_len(10 << 30).unwrap(),
        Strange::Folder => fs::create_dir(path).unwrap(),
    }
}

fn rig() -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", "Say it.").state("workflow.yaml", "backend: scripted\n");
    rig.state("replies.yaml", "START: <result>ok</result>\n");
    rig
}

#[test]
fn settings_and_replies_that_are_no_plain_files_are_refused() {
    for what in [Strange::Zero, Strange::Pipe, Strange::Sparse, Strange::Folder] {
        for name in ["workflow/workflow.yaml", "workflow/replies.yaml", ".raymond/config.toml"] {
            let rig = rig();
            fs::create_dir_all(rig.path(".raymond")).unwrap();
            put(&rig.path(name), what);
            let done = rig.raymond(&["workflow"]);
            let file = Path::new(name).file_name().unwrap().to_str().unwrap();
            assert!([1, 2].contains(&done.exit) && done.stderr.contains(file), "{what:?} {name}: {done:?}");
            let why = if matches!(what, Strange::Sparse) { "larger than" } else { "not a plain file" };
            done.says(why);
        }
    }
}

#[test]
fn states_and_packed_workflows_that_are_no_plain_files_are_refused() {
    for what in [Strange::Zero, Strange::Pipe, Strange::Sparse] {
        let rig = rig();
        put(&rig.path("workflow/START.md"), what);
        for command in [&["workflow"][..], &["lint", "workflow"], &["convert", "workflow", "-o", "x.zip"]] {
            let done = rig.raymond(command);
            assert!([1, 2].contains(&done.exit), "{what:?} {command:?}: {done:?}");
        }
        for name in ["wf.zip", "wf.yaml"] {
            put(&rig.path(name), what);
            rig.raymond(&[name]).assert(2, "").says(name);
        }
    }
}

#[test]
fn journals_and_payloads_that_are_no_plain_files_are_refused() {
    for what in [Strange::Zero, Strange::Pipe, Strange::Sparse] {
        let rig = Rig::new(RAYMOND);
        rig.state(
            "START.sh",
            "head -c 100000 /dev/zero | tr '\\0' x > long\necho \"<goto input='$(cat long)'>ASK</goto>\"",
        );
        rig.state("ASK.sh", "echo '<ask next=\"ASK\">?</ask>'");
        rig.raymond(&["workflow", "--id", "r", "--on-ask", "pause"]).assert(3, "");
        let payload = fs::read_dir(rig.path(".raymond/state/r.d")).unwrap().next().unwrap().unwrap().path();
        put(&payload, what);
        let done = rig.raymond(&["resume", "r", "--on-ask", "pause"]);
        assert!([1, 2, 3].contains(&done.exit), "{what:?}: {done:?}");
        put(&rig.journal(), what);
        for command in [&["resume", "r"][..], &["status", "r"], &["log", "r"], &["list"]] {
            let done = rig.raymond(command);
            assert!([0, 1, 2].contains(&done.exit), "{what:?} {command:?}: {done:?}");
        }
    }
}

#[test]
fn what_raymond_keeps_for_itself_is_never_waited_for() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<result>x</result>'");
    rig.run().assert(0, "x\n");
    for name in [".raymond/state/.list.json", ".raymond/.gitignore", ".raymond/debug/r/transitions.log"] {
        put(&rig.path(name), Strange::Pipe);
    }
    // Anyone can put such a pipe beside the file that is about to be written.
    assert_eq!(rig.raymond(&["list"]).exit, 0);
    rig.raymond(&["workflow", "--id", "s"]).assert(0, "x\n");
    let kept = ["serve.feed", "serve.runs", "serve.schedules", "serve-1.here"];
    kept.iter().for_each(|name| put(&rig.path(&format!(".raymond/{name}")), Strange::Pipe));
    let site = crate::serving::site::Site::start_with(&rig, &["--listen", "127.0.0.1:0", "--schedules"]);
    assert_eq!(site.get("/api/v1/runs").status, 200);
    assert!(rig.raymond(&["doctor"]).stdout.contains("serve"), "doctor looks for servers");
    site.live.kill();
    put(&rig.path(".raymond/serve.token"), Strange::Pipe);
    let site = crate::serving::site::Site::start_with(&rig, &["--listen", "127.0.0.1:0"]);
    site.live.wait_for_stderr("there is a new token now");
    assert_eq!(site.get("/api/v1/runs").status, 200);
}

#[test]
fn a_recording_is_a_plain_file_and_other_output_is_not_waited_for() {
    for what in [Strange::Zero, Strange::Pipe, Strange::Folder] {
        let rig = rig();
        put(&rig.path("to"), what);
        let done = rig.raymond(&["workflow", "--record", "to"]);
        done.assert(2, "").says("not a plain file");
        assert!(rig.raymond(&["list", "--json"]).stdout.trim() == "[]", "no run is left behind: {what:?}");
    }
    let rig = rig();
    put(&rig.path("pipe"), Strange::Pipe);
    for command in [&["diagram", "workflow", "-o", "pipe"][..], &["test", "workflow", "--coverage=pipe"]] {
        let done = rig.raymond(command);
        assert!(done.exit != 0, "{command:?}: {done:?}");
    }
    rig.raymond(&["diagram", "workflow", "--coverage", "pipe"]).assert(2, "").says("not a plain file");
}

#[test]
fn a_pipe_that_git_waits_for_does_not_keep_a_run_from_stopping() {
    for name in [".gitignore", ".gitattributes"] {
        let rig = Rig::new(RAYMOND);
        rig.state("START.sh", "exec sleep 345");
        assert!(rig.program("git").args(["init", "--quiet"]).status().unwrap().success());
        put(&rig.path(name), Strange::Pipe);
        let live = rig.start(&["workflow", "--id", "r", "--snapshots"]);
        let is_git = |(_, command): &(i32, String)| command.starts_with("git ");
        wait_until("a git that waits", || rig.survivors().iter().any(is_git));
        live.send(Signal::TERM);
        live.wait().assert(143, "");
        rig.assert_nothing_lives();
    }
}

fn modes(folder: &Path) -> Vec<(PathBuf, bool, u32)> {
    let mut found = Vec::new();
    let mut to_visit = vec![folder.to_owned()];
    while let Some(at) = to_visit.pop() {
        let data = fs::symlink_metadata(&at).unwrap();
        if data.is_dir() {
            to_visit.extend(fs::read_dir(&at).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.push((at, data.is_dir(), data.permissions().mode() & 0o777));
    }
    found
}

#[test]
fn whatever_the_umask_is_our_files_are_for_the_owner_only() {
    for umask in ["000", "022", "077"] {
        for place in [".raymond", "kept"] {
            let rig = Rig::new(RAYMOND);
            rig.state("START.sh", "head -c 100000 /dev/zero | tr '\\0' x > long\necho \"<goto input='$(cat long)'>NEXT</goto>\"");
            rig.state("NEXT.sh", "echo '<ask next=\"END\">?</ask>'").state("END.md", "End.");
            rig.agent(r#"[{"reply": "<result>ok</result>"}]"#);
            let option = if place == "kept" { " --state-dir kept" } else { "" };
            let run = format!(
                "{RAYMOND} workflow --id r --on-ask pause{option}; {RAYMOND} answer{option} r yes; {RAYMOND} resume r{option}"
            );
            let config = if place == "kept" { "" } else { "raymond --init-config;" };
            let config = config.replace("raymond", RAYMOND);
            let done =
                rig.program("sh").args(["-c", &format!("umask {umask}; {config} {run}")]).output().unwrap();
            assert!(done.status.success(), "{done:?}");
            let modes = modes(&rig.path(place));
            assert!(modes.len() > 8, "{modes:?}");
            for (path, is_folder, mode) in modes {
                let is_payload = path.parent().is_some_and(|parent| parent.ends_with("r.d"));
                let expected = if is_folder {
                    0o700
                } else if is_payload {
                    0o400
                } else {
                    0o600
                };
                assert_eq!(mode, expected, "umask {umask}: {} has {mode:o}", path.display());
            }
        }
    }
}
