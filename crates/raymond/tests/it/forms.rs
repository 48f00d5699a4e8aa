//! Workflows that are archives or single files.

use std::fs;

use crate::rig::Rig;

/// A script that says where its own file is.
const WHERE: &str = "test -f \"$0\" && echo \"<result>$RAYMOND_STATE_FILE</result>\"";

#[test]
fn private_copies_are_gone_after_the_step() {
    for form in ["wf.zip", "wf.yaml"] {
        let rig = Rig::new();
        rig.state("START.sh", WHERE);
        rig.raymond(&["convert", "workflow", "-o", form]).assert(0, "");
        let done = rig.raymond(&[form, "--id", "r"]);
        assert_eq!(done.exit, 0, "{done:?}");
        let copy = std::path::Path::new(done.stdout.trim());
        assert!(copy.is_absolute() && copy.ends_with("START.sh"), "{copy:?}");
        assert!(!copy.exists() && !copy.parent().unwrap().exists(), "{copy:?} was left");
    }
}

#[test]
fn a_failed_step_leaves_no_copy_either() {
    let rig = Rig::new();
    rig.state("START.sh", "echo \"$RAYMOND_STATE_FILE\" > where; sleep 60");
    rig.raymond(&["convert", "workflow", "-o", "wf.zip"]).assert(0, "");
    let live = rig.start(&["wf.zip", "--id", "r"]);
    crate::rig::wait_until("the script", || rig.read("where").ends_with('\n'));
    live.send(rustix::process::Signal::TERM);
    assert_eq!(live.wait().exit, 143);
    let place = rig.read("where");
    assert!(!std::path::Path::new(place.trim()).exists(), "{place} was left");
}

#[test]
fn after_a_kill_an_archive_goes_on_where_it_was() {
    let rig = Rig::new();
    rig.state("START.sh", "echo \"<goto>SLOW</goto>\"");
    rig.state("SLOW.sh", "if test -f slow; then echo \"<result>ok</result>\"; else touch slow; sleep 60; fi");
    rig.raymond(&["convert", "workflow", "-o", "wf.zip"]).assert(0, "");
    fs::remove_dir_all(rig.path("workflow")).unwrap();
    let live = rig.start(&["wf.zip", "--id", "r"]);
    crate::rig::wait_for_file(&rig.path("slow"));
    live.kill();
    rig.resume().assert(0, "ok\n");
    rig.assert_nothing_lives();
}

#[test]
fn an_id_of_the_manifest_begins_the_ids_of_runs() {
    let rig = Rig::new();
    rig.write(
        "some file.yaml",
        "id: my.flow\nstates:\n  START:\n    sh: echo \"<result>$RAYMOND_RUN_ID</result>\"\n",
    );
    rig.write("plain.yaml", "states:\n  START:\n    sh: echo \"<result>$RAYMOND_RUN_ID</result>\"\n");
    let id = rig.raymond(&["some file.yaml"]).stdout;
    assert!(id.starts_with("my.flow-2"), "{id}");
    let id = rig.raymond(&["plain.yaml"]).stdout;
    assert!(id.starts_with("plain-2"), "{id}");
}

#[test]
fn mistakes_in_one_file_have_its_own_lines_before_anything_is_run() {
    let rig = Rig::new();
    let start = "states:\n  START:\n    prompt: Go to NEXT.\nfiles:\n";
    rig.write("a.yaml", format!("{start}  NEXT.md: |\n    ---\n    timeout: soon\n    ---\n    x\n"));
    rig.write("b.yaml", format!("{start}  NEXT.sh: |\n    #!/bin/bash\n    # raymond: retry=often\n"));
    for (file, place) in [("a.yaml", "line 7, column 14"), ("b.yaml", "line 7, column 16")] {
        let refused = rig.raymond(&[file]);
        assert_eq!(refused.exit, 2, "{refused:?}");
        assert!(refused.stderr.contains(&format!("{file}: {place}: ")), "{refused:?}");
    }
}
