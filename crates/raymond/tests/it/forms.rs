//! Workflows that are archives or single files.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use test_kit::rig::Rig;

use crate::RAYMOND;

/// A script that prints the path of its own file.
const WHERE: &str = "test -f \"$0\" && echo \"<result>$RAYMOND_STATE_FILE</result>\"";

#[test]
fn private_copies_are_gone_after_the_step() {
    for form in ["wf.zip", "wf.yaml"] {
        let rig = Rig::new(RAYMOND);
        rig.state("START.sh", WHERE);
        rig.raymond(&["convert", "workflow", "-o", form]).assert(0, "");
        let done = rig.raymond(&[form, "--id", "r"]);
        assert_eq!(done.exit, 0, "{done:?}");
        let copy = std::path::Path::new(done.stdout.trim());
        assert!(copy.is_absolute() && copy.ends_with("START.sh"), "{copy:?}");
        assert!(!copy.exists() && !copy.parent().unwrap().exists(), "{copy:?} was left");
    }
}

/// The files of a folder and of those in it, with their contents.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut to_visit = vec![folder.to_owned()];
    while let Some(at) = to_visit.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => to_visit.push(path),
                false => {
                    let bytes = fs::read(&path).unwrap();
                    files.insert(path.strip_prefix(folder).unwrap().to_owned(), bytes);
                }
            }
        }
    }
    files
}

#[test]
fn folders_in_a_workflow_are_packed_in_every_form() {
    let rig = Rig::new(RAYMOND);
    let data = "cat \"$(dirname \"$RAYMOND_STATE_FILE\")/data/deep/x.txt\"";
    rig.state("START.sh", format!("echo \"<result>$({data})</result>\""));
    rig.write("workflow/data/deep/x.txt", "x");
    rig.write("workflow/data/bytes", [0, 159, 255]);
    rig.write("workflow/data/START.md", "not a state");
    let forms = ["a.zip", "b.yaml", "c", "d.yaml", "e.zip", "f"];
    let mut from = "workflow";
    for form in forms {
        rig.raymond(&["convert", from, "-o", form]).assert(0, "");
        rig.raymond(&[form]).assert(0, "x\n");
        from = form;
    }
    assert_eq!(tree(&rig.path("c")), tree(&rig.path("workflow")));
    assert_eq!(tree(&rig.path("f")), tree(&rig.path("workflow")));
}

#[test]
fn the_example_with_a_folder_packs_and_runs() {
    let rig = Rig::new(RAYMOND);
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/pipeline");
    let example = example.to_str().unwrap();
    let expected = rig.raymond(&[example]);
    assert_eq!(expected.exit, 0, "{expected:?}");
    for form in ["p.zip", "p.yaml", "p"] {
        rig.raymond(&["convert", example, "-o", form]).assert(0, "");
        rig.raymond(&[form]).assert(0, &expected.stdout);
    }
    assert_eq!(tree(&rig.path("p")), tree(Path::new(example)));
}

#[test]
fn links_out_of_the_workflow_are_not_packed() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<result>ok</result>'");
    rig.write("secret.txt", "s");
    symlink("START.sh", rig.path("workflow/same.sh")).unwrap();
    rig.raymond(&["convert", "workflow", "-o", "good.zip"]).assert(0, "");
    for (number, target) in ["../secret.txt", "/etc/hostname", "..", "/dev/zero", "gone"].iter().enumerate() {
        let link = rig.path("workflow/link.txt");
        symlink(target, &link).unwrap();
        let form = format!("bad{number}.zip");
        rig.raymond(&["convert", "workflow", "-o", &form]).assert(2, "").says("link.txt");
        assert!(!rig.path(&form).exists());
        fs::remove_file(link).unwrap();
    }
}

#[test]
fn the_extension_of_a_called_workflow_may_be_left_out() {
    for (form, target) in
        [("other.zip", "../other"), ("other.yaml", "../other"), ("other.zip", "../other/MORE")]
    {
        let rig = Rig::new(RAYMOND);
        rig.write("other/START.sh", "echo '<goto>MORE</goto>'");
        rig.write("other/MORE.sh", "echo '<result>there</result>'");
        rig.raymond(&["convert", "other", "-o", form]).assert(0, "");
        fs::remove_dir_all(rig.path("other")).unwrap();
        rig.state(
            "START.sh",
            format!("echo '<function-workflow return=\"BACK\">{target}</function-workflow>'"),
        );
        rig.state("BACK.sh", "echo \"<result>$RAYMOND_RESULT</result>\"");
        rig.raymond(&["lint", "workflow"]).assert(0, "");
        rig.run().assert(0, "there\n");
    }
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<result>ok</result>'");
    rig.raymond(&["convert", "workflow", "-o", "other.zip"]).assert(0, "");
    rig.raymond(&["convert", "workflow", "-o", "other.yaml"]).assert(0, "");
    rig.raymond(&["other"]).assert(2, "").says("other.zip").says("other.yaml");
}

/// A workflow that calls two others, one of which calls a third, which calls the first.
fn callers(rig: &Rig) {
    let call = |target: &str, back: &str| {
        format!("echo \"<function-workflow return='{back}'>{target}</function-workflow>\"")
    };
    rig.write("flows/main/START.sh", call("../other", "THEN"));
    rig.write(
        "flows/main/THEN.sh",
        format!("echo \"$RAYMOND_RESULT\" > first\n{}", call("../../tools/third/SHORT", "END")),
    );
    rig.write("flows/main/END.sh", "echo \"<result>$(cat first) and $RAYMOND_RESULT</result>\"");
    rig.write("flows/main/LAST.sh", "echo '<result>back in main</result>'");
    rig.write("flows/other/START.sh", call("../../tools/third", "DONE"));
    rig.write("flows/other/DONE.sh", "echo \"<result>other of $RAYMOND_RESULT</result>\"");
    rig.write(
        "third/START.sh",
        "cat \"$(dirname \"$RAYMOND_STATE_FILE\")/data/say\" >&2; echo '<goto>HOME</goto>'",
    );
    rig.write("third/HOME.sh", call("../../flows/main/LAST", "SHORT"));
    rig.write("third/SHORT.sh", "echo \"<result>third with ${RAYMOND_RESULT:-nothing}</result>\"");
    rig.write("third/data/say", "x");
    fs::create_dir(rig.path("tools")).unwrap();
    rig.raymond(&["convert", "third", "-o", "tools/third.zip"]).assert(0, "");
    fs::remove_dir_all(rig.path("third")).unwrap();
}

#[test]
fn a_bundle_holds_what_a_workflow_calls() {
    const RESULT: &str = "other of third with back in main and third with nothing\n";
    for form in ["away/b.zip", "away/b.yaml", "away/b"] {
        let rig = Rig::new(RAYMOND);
        callers(&rig);
        rig.raymond(&["flows/main"]).assert(0, RESULT);
        fs::create_dir(rig.path("away")).unwrap();
        rig.raymond(&["convert", "--bundle", "flows/main", "-o", form]).assert(0, "");
        for original in ["flows", "tools"] {
            fs::remove_dir_all(rig.path(original)).unwrap();
        }
        rig.raymond(&["lint", "--level", "error", form]).assert(0, "");
        rig.raymond(&[form, "--id", "r"]).assert(0, RESULT);
        let again = if form.ends_with("zip") { "away/c.yaml" } else { "away/c.zip" };
        rig.raymond(&["convert", form, "-o", again]).assert(0, "");
        rig.raymond(&[again]).assert(0, RESULT);
    }
}

#[test]
fn a_run_in_a_called_workflow_of_a_bundle_is_resumed() {
    let rig = Rig::new(RAYMOND);
    rig.write("main/START.sh", "echo '<call-workflow return=\"END\">../other</call-workflow>'");
    rig.write("main/END.sh", "echo \"<result>$RAYMOND_RESULT</result>\"");
    rig.write("other/START.sh", "echo '<ask next=\"SAY\">?</ask>'");
    rig.write("other/SAY.sh", "echo \"<result>said $RAYMOND_INPUT</result>\"");
    rig.raymond(&["convert", "main", "-o", "b.zip", "--bundle"]).assert(0, "");
    fs::remove_dir_all(rig.path("other")).unwrap();
    rig.raymond(&["b.zip", "--id", "r", "--on-ask", "pause"]).assert(3, "");
    rig.raymond(&["answer", "r", "yes", "--no-resume"]).assert(0, "");
    rig.resume().assert(0, "said yes\n");
}

#[test]
fn a_bundle_that_lacks_a_called_workflow_is_refused() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<reset-workflow>../gone</reset-workflow>'");
    rig.raymond(&["convert", "workflow", "-o", "b.zip", "--bundle"]).assert(2, "").says("../gone");
}

#[test]
fn a_failed_step_leaves_no_copy_either() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo \"$RAYMOND_STATE_FILE\" > where; sleep 340");
    rig.raymond(&["convert", "workflow", "-o", "wf.zip"]).assert(0, "");
    let live = rig.start(&["wf.zip", "--id", "r"]);
    test_kit::rig::wait_until("the script", || rig.read("where").ends_with('\n'));
    live.send(rustix::process::Signal::TERM);
    assert_eq!(live.wait().exit, 143);
    let place = rig.read("where");
    assert!(!std::path::Path::new(place.trim()).exists(), "{place} was left");
}

#[test]
fn after_a_kill_a_run_of_an_archive_can_be_resumed() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo \"<goto>SLOW</goto>\"");
    rig.state(
        "SLOW.sh",
        "if test -f slow; then echo \"<result>ok</result>\"; else touch slow; sleep 340; fi",
    );
    rig.raymond(&["convert", "workflow", "-o", "wf.zip"]).assert(0, "");
    fs::remove_dir_all(rig.path("workflow")).unwrap();
    let live = rig.start(&["wf.zip", "--id", "r"]);
    test_kit::rig::wait_for_file(&rig.path("slow"));
    live.kill();
    rig.resume().assert(0, "ok\n");
    rig.assert_nothing_lives();
}

#[test]
fn the_id_in_the_manifest_is_the_prefix_of_run_ids() {
    let rig = Rig::new(RAYMOND);
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
fn errors_in_a_one_file_workflow_have_its_lines_and_are_found_before_anything_runs() {
    let rig = Rig::new(RAYMOND);
    let start = "states:\n  START:\n    prompt: Go to NEXT.\nfiles:\n";
    rig.write("a.yaml", format!("{start}  NEXT.md: |\n    ---\n    timeout: soon\n    ---\n    x\n"));
    rig.write("b.yaml", format!("{start}  NEXT.sh: |\n    #!/bin/bash\n    # raymond: retry=often\n"));
    for (file, place) in [("a.yaml", "line 7, column 14"), ("b.yaml", "line 7, column 16")] {
        let refused = rig.raymond(&[file]);
        assert_eq!(refused.exit, 2, "{refused:?}");
        assert!(refused.stderr.contains(&format!("{file}: {place}: ")), "{refused:?}");
    }
}

/// A workflow whose scripts use files next to them, as a folder and in its other forms.
fn with_data(rig: &Rig) -> [&'static str; 3] {
    rig.state("START.sh", "source \"$(dirname \"$0\")/lib.sh\"\nsay_goto NEXT");
    rig.state("NEXT.py", "import os\nhere = os.path.dirname(os.path.abspath(__file__))\nprint('<goto input=\"' + open(here + '/data.txt').read().strip() + '\">LAST</goto>')");
    rig.state("LAST.sh", "# raymond: retry=1\ncd \"$(dirname \"$RAYMOND_STATE_FILE\")\"\necho \"<result>$RAYMOND_INPUT $(cksum < bytes.bin) $(head -1 NOTE.md) $(ls | tr '\\n' ' ')</result>\"");
    rig.write("workflow/lib.sh", "say_goto() { echo \"<goto>$1</goto>\"; }\n");
    rig.write("workflow/data.txt", "from a file\n");
    rig.write("workflow/NOTE.md", "---\nmodel: haiku\n---\nA note.\n");
    rig.write("workflow/workflow.yaml", "name: Data\n");
    fs::write(rig.path("workflow/bytes.bin"), [0, 255, 254, 10]).unwrap();
    for form in ["wf.zip", "wf.yaml"] {
        rig.raymond(&["convert", "workflow", "-o", form]).assert(0, "");
    }
    ["workflow", "wf.zip", "wf.yaml"]
}

#[test]
fn files_next_to_a_script_exist_in_every_form() {
    let rig = Rig::new(RAYMOND);
    let results = with_data(&rig).map(|form| {
        let done = rig.raymond(&[form]);
        assert_eq!(done.exit, 0, "{form}: {done:?}");
        done.stdout
    });
    let [in_folder, in_archive, in_one_file] = results;
    assert!(in_folder.starts_with("from a file "), "{in_folder}");
    assert_eq!(in_folder, in_archive);
    assert_eq!(in_folder, in_one_file);
    let left: Vec<_> = walk(&rig.path(".raymond/state"))
        .into_iter()
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("files-")))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A folder with the workflow's files, the same in every form, from scripts and for prompts.
#[test]
fn the_folder_of_a_workflow_is_one_in_every_form() {
    let rig = Rig::new(RAYMOND);
    rig.agent(r#"[ { "match": "Look", "run": "ls \"$RAYMOND_STATE_DIR\" > listed", "reply": "<goto>LAST</goto>" } ]"#);
    rig.state("START.sh", "cat \"$RAYMOND_STATE_DIR/texts/a.txt\" > seen; echo '<goto>LOOK</goto>'");
    rig.state("LOOK.md", "Look around.");
    rig.state("LAST.sh", "echo \"<result>$(cat seen) $(basename \"$RAYMOND_STATE_DIR\") $(tr '\\n' ' ' < listed)$(test \"$RAYMOND_STATE_DIR/LAST.sh\" = \"$RAYMOND_STATE_FILE\" && echo same)</result>\"");
    rig.write("workflow/texts/a.txt", "a text\n");
    for form in ["zip", "yaml"] {
        fs::create_dir(rig.path(form)).unwrap();
        rig.raymond(&["convert", "workflow", "-o", &format!("{form}/workflow.{form}")]).assert(0, "");
    }
    for form in ["workflow", "zip/workflow.zip", "yaml/workflow.yaml"] {
        rig.raymond(&[form, "-q"]).assert(0, "a text workflow LAST.sh LOOK.md START.sh texts same\n");
    }
}

#[test]
fn what_would_not_work_packed_is_not_packed() {
    let rig = Rig::new(RAYMOND);
    for (script, says) in [
        ("cat \"$RAYMOND_STATE_DIR/../shared\"", "START.sh, line 2: the script leaves its workflow's folder"),
        (
            "echo x > \"$RAYMOND_STATE_DIR/log\"",
            "START.sh, line 2: the script writes in its workflow's folder",
        ),
    ] {
        rig.state("START.sh", format!("# A script.\n{script}\necho '<result>ok</result>'"));
        for form in ["wf.zip", "wf.yaml"] {
            rig.raymond(&["convert", "workflow", "-o", form]).assert(2, "").says(says);
            assert!(!rig.path(form).exists());
        }
        rig.raymond(&["convert", "workflow", "-o", "copy", "--force"]).assert(0, "");
    }
}

/// The copy of a packed workflow is read-only; a workflow that was edited has another one at its next step, while a step
/// that still runs keeps its own.
#[test]
fn an_edited_workflow_gets_a_new_copy_at_its_next_step() {
    use std::os::unix::fs::PermissionsExt;
    let rig = Rig::new(RAYMOND);
    let workflow = |text: &str| {
        format!(
            "states:\n  START:\n    sh: echo '<fork next=\"MAIN\">SLOW</fork>'\n  SLOW:\n    sh: |\n      echo \"$RAYMOND_STATE_DIR\" > slow.tmp; \
             mv slow.tmp slow; until [ -e go ]; do sleep 0.01; done; cat \"$RAYMOND_STATE_DIR/data\" > kept; echo '<result>ok</result>'\n\
             \x20 MAIN:\n    sh: until [ -e edited ]; do sleep 0.01; done; echo '<goto>NEXT</goto>'\n  NEXT:\n    sh: |\n      echo \"$RAYMOND_STATE_DIR\" > next; \
             cp \"$RAYMOND_STATE_DIR/data\" taken; touch go; echo '<join>END</join>'\n  END:\n    sh: echo \"<result>$(cat kept) $(cat taken)</result>\"\n\
             files:\n  data: {text}\n"
        )
    };
    rig.write("wf.yaml", workflow("old"));
    let live = rig.start(&["wf.yaml", "--id", "r", "-q"]);
    test_kit::rig::wait_for_file(&rig.path("slow"));
    let first = std::path::PathBuf::from(rig.read("slow").trim());
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o222;
    assert_eq!((mode(&first), mode(&first.join("data"))), (0, 0));
    fs::write(rig.path("new.yaml"), workflow("new")).unwrap();
    fs::rename(rig.path("new.yaml"), rig.path("wf.yaml")).unwrap();
    rig.write("edited", "");
    live.wait().assert(0, "old new\n");
    assert_ne!(rig.read("slow"), rig.read("next"));
    assert!(!first.exists(), "the copies are removed");
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() {
            found.extend(walk(&entry.path()));
        }
        found.push(entry.path());
    }
    found
}

#[test]
fn an_edit_of_a_one_file_workflow_changes_the_files_next_to_its_scripts() {
    let rig = Rig::new(RAYMOND);
    let workflow = |data: &str| {
        format!(
            "states:\n  START:\n    sh: |\n      cat \"$(dirname \"$0\")/data\" >> seen; cp new.yaml wf.yaml; \
             if test -f \"$(dirname \"$0\")/more\"; then echo '<result>ok</result>'; else echo '<goto>START</goto>'; fi\n\
             files:\n  data: |\n    {data}\n"
        )
    };
    rig.write("wf.yaml", workflow("one"));
    rig.write("new.yaml", workflow("two") + "  more: x\n");
    rig.raymond(&["wf.yaml", "--id", "r"]).assert(0, "ok\n");
    assert_eq!(rig.read("seen"), "one\ntwo\n");
}

#[test]
fn every_command_prints_the_same_for_every_form() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", "---\nallowed_transitions:\n  - { tag: goto, target: CHECK }\n---\nGo on.\n");
    rig.state("CHECK.sh", "# raymond: retry=1\ntest -f ready && echo '<result>ok</result>'");
    rig.write("workflow/replies.yaml", "START: <goto>CHECK</goto>\n");
    rig.write("workflow/workflow.yaml", "id: same\nbackend: scripted\n");
    for form in ["other.zip", "other.yaml"] {
        rig.raymond(&["convert", "workflow", "-o", form]).assert(0, "");
    }
    fs::rename(rig.path("workflow"), rig.path("other")).unwrap();
    let said = ["other", "other.zip", "other.yaml"].map(|form| {
        let _ = fs::remove_file(rig.path("ready"));
        let id = format!("run{}", form.len());
        let plain = |text: &str| text.replace(&id, "ID").replace(form, "FORM");
        let mut said = Vec::new();
        let mut tell = |args: &[&str]| {
            let done = rig.raymond(args);
            said.push((plain(&args.join(" ")), done.exit, plain(&done.stdout)));
        };
        for format in ["mermaid", "svg", "dot", "html"] {
            tell(&["diagram", form, "--format", format]);
        }
        // Positions in an archive or a single file differ from those in a folder, so only the findings are compared.
        tell(&["lint", form]);
        tell(&[form, "--id", &id]);
        fs::write(rig.path("ready"), "").unwrap();
        tell(&["resume", &id]);
        let back = format!("back-{id}");
        rig.raymond(&["convert", form, "-o", &back]).assert(0, "");
        said.push(("back".to_owned(), 0, rig.read(&format!("{back}/START.md"))));
        let status: serde_json::Value =
            serde_json::from_str(&rig.raymond(&["status", &id, "--json"]).stdout).unwrap();
        said.push((format!("{} {}", status["status"], status["result"]), 0, String::new()));
        let log = rig.raymond(&["log", &id, "--json"]).stdout;
        let names = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let names: Vec<String> =
            names.map(|event| format!("{} {}", event["event"], event["state"])).collect();
        said.push(("log".to_owned(), 0, names.join("\n")));
        said
    });
    let [in_folder, in_archive, in_one_file] = said;
    for ((folder, archive), one_file) in in_folder.iter().zip(&in_archive).zip(&in_one_file) {
        let unplaced = |(what, exit, text): &(String, i32, String)| match what.starts_with("lint") {
            true => {
                let found = text.lines().filter(|line| !line.contains("-->") && !line.contains(" |"));
                (what.clone(), *exit, found.collect::<Vec<_>>().join("\n"))
            }
            false => (what.clone(), *exit, text.clone()),
        };
        assert_eq!(unplaced(folder), unplaced(archive));
        assert_eq!(unplaced(folder), unplaced(one_file));
    }
}
