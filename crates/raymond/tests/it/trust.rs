//! Whose `.raymond` is used, and which commands of a project's config file are run.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;

use test_kit::needs::{is_missing, say_skipped};
use test_kit::rig::{Done, Rig, wait_for_file};

use crate::RAYMOND;
use crate::asking::at_a_terminal;

const ANOTHER: u32 = 12345;

fn cannot_give_away(test: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        say_skipped(test, "root");
    }
    !is_root
}

/// A project with a run `r`, whose config file leaves a trace if it is obeyed.
fn rig() -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<result>ok</result>'");
    rig.run().assert(0, "ok\n");
    rig.write(".raymond/config.toml", "[raymond]\nnotify = \"touch obeyed\"\n");
    rig
}

fn run_with(rig: &Rig, variables: &[(&str, &str)], args: &[&str]) -> Done {
    let mut command = rig.command(args);
    command.envs(variables.iter().copied());
    rig.launch(command).wait()
}

fn assert_refused(rig: &Rig, done: &Done, why: &str) {
    assert_eq!(done.exit, 2, "{done:?}");
    done.says(why).says("safe_folders = [\"").says(".config/raymond/config.toml");
    assert!(!rig.path("obeyed").exists());
}

#[test]
fn the_folder_of_another_user_is_refused() {
    if cannot_give_away("the_folder_of_another_user_is_refused") {
        return;
    }
    for name in [".raymond", ".raymond/config.toml", ".raymond/state"] {
        let rig = rig();
        fs::create_dir_all(rig.path("deep/er")).unwrap();
        chown(rig.path(name), Some(ANOTHER), None).unwrap();
        for args in
            [&["../../workflow"][..], &["resume", "r"], &["list"], &["status"], &["log"], &["stop", "r"]]
        {
            let mut command = rig.command(args);
            command.current_dir(rig.path("deep/er"));
            let done = rig.launch(command).wait();
            assert_refused(&rig, &done, "belongs to another user (uid 12345, you are 0)");
        }
        // The user who called sudo is not another one.
        run_with(&rig, &[("SUDO_UID", "12345")], &["workflow"]).assert(0, "ok\n");
        fs::remove_file(rig.path("obeyed")).unwrap();
        assert_refused(&rig, &run_with(&rig, &[("SUDO_UID", "1")], &["workflow"]), "another user");
        // What has another place than `.raymond` is not affected.
        assert_eq!(rig.raymond(&["list", "--state-dir", ".raymond/state"]).exit, 0);
        // Files of root are fine for all.
        chown(rig.path(name), Some(0), None).unwrap();
        rig.raymond(&["workflow"]).assert(0, "ok\n");
        assert!(rig.path("obeyed").exists());
    }
}

#[test]
fn a_link_of_another_user_is_refused() {
    if cannot_give_away("a_link_of_another_user_is_refused") {
        return;
    }
    let rig = rig();
    fs::rename(rig.path(".raymond"), rig.path("moved")).unwrap();
    symlink("moved", rig.path(".raymond")).unwrap();
    rig.raymond(&["list"]).assert(0, &rig.raymond(&["list"]).stdout);
    std::os::unix::fs::lchown(rig.path(".raymond"), Some(ANOTHER), None).unwrap();
    assert_refused(&rig, &rig.raymond(&["workflow"]), "belongs to another user");
}

#[test]
fn a_folder_that_everyone_can_change_is_refused() {
    let set = |rig: &Rig, name: &str, mode| {
        fs::set_permissions(rig.path(name), Permissions::from_mode(mode)).unwrap()
    };
    for name in [".raymond", ".raymond/config.toml", ".raymond/state"] {
        let rig = rig();
        set(&rig, name, 0o777);
        assert_refused(&rig, &rig.raymond(&["workflow"]), "can be changed by every user");
        // The sticky bit protects a folder, not a file.
        set(&rig, name, 0o1777);
        match name {
            ".raymond/config.toml" => {
                assert_refused(&rig, &rig.raymond(&["workflow"]), "can be changed by every user");
            }
            _ => {
                rig.raymond(&["workflow"]).assert(0, "ok\n");
            }
        }
        for mode in [0o775, 0o700] {
            set(&rig, name, mode);
            rig.raymond(&["workflow"]).assert(0, "ok\n");
        }
    }
}

#[test]
fn the_users_own_config_permits_folders_and_the_projects_does_not() {
    let rig = rig();
    let open = Permissions::from_mode(0o777);
    fs::set_permissions(rig.path(".raymond"), open).unwrap();
    let project = rig.work().display().to_string();
    rig.write(".raymond/config.toml", format!("[raymond]\nsafe_folders = [{project:?}]\n"));
    assert_eq!(rig.raymond(&["workflow"]).exit, 2);
    let own = rig.work().parent().unwrap().join(".config/raymond");
    fs::create_dir_all(&own).unwrap();
    let around = rig.work().parent().unwrap().display().to_string();
    for (safe, exit) in
        [(project.as_str(), 0), (&around, 0), ("~/work", 0), ("/other", 2), ("work", 2), ("", 2)]
    {
        fs::write(own.join("config.toml"), format!("[raymond]\nsafe_folders = [{safe:?}]\n")).unwrap();
        assert_eq!(rig.raymond(&["workflow"]).exit, exit, "{safe}");
    }
    // Another place for it.
    rig.write("xdg/raymond/config.toml", format!("[raymond]\nsafe_folders = [{project:?}]\n"));
    let xdg = rig.path("xdg").display().to_string();
    assert_eq!(run_with(&rig, &[("XDG_CONFIG_HOME", &xdg)], &["workflow"]).exit, 0);
}

/// A workflow outside the project of `rig`.
fn outside(rig: &Rig) -> PathBuf {
    let folder = rig.work().parent().unwrap().join("mine");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("START.sh"), "echo '<result>ok</result>'").unwrap();
    folder
}

#[test]
fn commands_of_a_project_need_trust_for_a_workflow_from_elsewhere() {
    let configs = [
        ("[raymond]\nnotify = \"touch obeyed\"\n", "notify = \"touch obeyed\""),
        ("[backend.claude]\ncommand = \"./evil\"\n", "[backend.claude] command = \"./evil\""),
        ("[backend.claude]\nargs = [\"--x\"]\n", "[backend.claude] args = [\"--x\"]"),
        ("[raymond]\ndangerously_skip_permissions = true\n", "dangerously_skip_permissions = true"),
    ];
    for (config, shown) in configs {
        let rig = rig();
        let mine = outside(&rig).display().to_string();
        rig.write(".raymond/config.toml", config);
        let done = rig.raymond(&[&mine, "--id", "x"]);
        assert_eq!(done.exit, 2, "{done:?}");
        done.says(shown).says("--trust");
        assert!(!rig.path("obeyed").exists() && !rig.path(".raymond/state/x.jsonl").exists());
        // A workflow of the project is as trusted as the project.
        rig.raymond(&["workflow"]).assert(0, "ok\n");
        let _ = fs::remove_file(rig.path("obeyed"));
        // Once accepted, it is remembered until it changes.
        rig.raymond(&[&mine, "--trust"]).assert(0, "ok\n");
        rig.raymond(&[&mine]).assert(0, "ok\n");
        rig.write(
            ".raymond/config.toml",
            format!("{config}\n[backend.other]\nkind = \"claude\"\ncommand = \"x\"\n"),
        );
        assert_eq!(rig.raymond(&[&mine]).exit, 2);
    }
    // Other settings need no trust.
    let rig = rig();
    rig.write(".raymond/config.toml", "[raymond]\nbudget = 1\ndangerously_skip_permissions = false\n");
    rig.raymond(&[&outside(&rig).display().to_string()]).assert(0, "ok\n");
}

#[test]
fn a_resume_needs_the_same_trust() {
    let rig = rig();
    let mine = outside(&rig);
    fs::write(mine.join("START.sh"), "test -e mended && echo '<result>ok</result>'").unwrap();
    fs::remove_file(rig.path(".raymond/config.toml")).unwrap();
    assert_eq!(rig.raymond(&[mine.to_str().unwrap(), "--id", "x"]).exit, 1);
    rig.write("mended", "");
    rig.write(".raymond/config.toml", "[raymond]\nnotify = \"touch obeyed\"\n");
    let done = rig.raymond(&["resume", "x"]);
    assert_eq!(done.exit, 2, "{done:?}");
    done.says("--trust");
    assert!(!rig.path("obeyed").exists());
    rig.raymond(&["resume", "x", "--trust"]).assert(0, "ok\n");
    assert!(rig.path("obeyed").exists());
    let list = rig.work().parent().unwrap().join(".local/state/raymond/trusted");
    assert_eq!(fs::metadata(list).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn on_a_terminal_a_person_is_asked_once() {
    if is_missing("python3", "on_a_terminal_a_person_is_asked_once") {
        return;
    }
    let rig = rig();
    let mine = outside(&rig).display().to_string();
    let done = at_a_terminal(&rig, &[("Do you trust them? [y/N]", "\r")], &[&mine]);
    assert_eq!(done.exit, 2, "{done:?}");
    let done = at_a_terminal(&rig, &[("Do you trust them? [y/N]", "y\r")], &[&mine]);
    assert!(done.exit == 0 && done.stdout.contains("notify = \"touch obeyed\""), "{done:?}");
    rig.raymond(&[&mine]).assert(0, "ok\n");
}

#[test]
fn commands_that_only_look_run_nothing() {
    let rig = rig();
    rig.state("START.md", "---\nbackend: claude\n---\nGo.");
    fs::remove_file(rig.path("workflow/START.sh")).unwrap();
    rig.state("NEXT.sh", "touch script-ran; echo '<result>x</result>'");
    let touch = rig.write("touch.sh", "#!/bin/bash\ntouch \"$(dirname \"$0\")/backend-ran\"\n");
    fs::set_permissions(&touch, Permissions::from_mode(0o755)).unwrap();
    let touch = touch.display();
    rig.write(
        ".raymond/config.toml",
        format!(
            "[raymond]\nnotify = {:?}\n[backend.claude]\ncommand = {:?}\n",
            touch.to_string(),
            touch.to_string()
        ),
    );
    let commands: [&[&str]; 11] = [
        &["list"],
        &["lint", "workflow"],
        &["lint", "workflow", "--fix"],
        &["status"],
        &["status", "r", "--json"],
        &["diagram", "workflow"],
        &["convert", "workflow", "-o", "packed.zip"],
        &["log", "r"],
        &["schema", "config"],
        &["completions", "bash"],
        &["--help"],
    ];
    for args in commands {
        let done = rig.raymond(args);
        assert_eq!(done.exit, 0, "{args:?}: {done:?}");
        for trace in ["obeyed", "script-ran", "backend-ran"] {
            assert!(!rig.path(trace).exists(), "{args:?} left {trace}");
        }
    }
    // The trap works.
    let live = rig.start(&["workflow"]);
    wait_for_file(&rig.path("backend-ran"));
    live.kill();
}
