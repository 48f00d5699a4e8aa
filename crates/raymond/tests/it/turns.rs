//! Steps that share an `exclusive` name, and limits on what runs at the same time.

use std::fs;
use std::process::Command;

use test_kit::rig::{Rig, wait_for_file};

use crate::RAYMOND;

/// Fails if another step is inside at the same time; otherwise stays inside for a moment.
const ALONE: &str = "mkdir inside || exit 9\nfor i in 1 2 3 4 5; do echo $i >> log; done\nrmdir inside\n";

fn git(rig: &Rig, args: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=t", "-c", "user.email=t@example.org"]).args(args).current_dir(rig.work());
    let output = git.output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn six_workers(rig: &Rig) {
    rig.state("START.sh", "for i in 1 2 3 4 5 6; do echo \"<fork next='END' item='$i'>W</fork>\"; done");
    rig.state("END.sh", "echo '<join>LAST</join>'").state("LAST.sh", "echo '<result>ok</result>'");
}

#[test]
fn six_workers_commit_in_one_tree() {
    let rig = Rig::new(RAYMOND);
    git(&rig, &["init", "-q"]);
    six_workers(&rig);
    rig.state(
        "W.sh",
        "# raymond: exclusive=git\nset -e\necho $item > file$item\ngit add file$item\n\
         git -c user.name=t -c user.email=t@example.org commit -q -m \"$item\"\necho '<result>done</result>'\n",
    );
    rig.run().assert(0, "ok\n");
    assert_eq!(git(&rig, &["log", "--format=%s"]), "6\n5\n4\n3\n2\n1\n");
}

#[test]
fn prompts_scripts_and_other_workflows_take_turns_with_one_name() {
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        "echo '<fork next=\"END\">W</fork><fork next=\"END\">P</fork><fork next=\"END\">W</fork>'\n\
              echo '<fork-workflow next=\"END\">../other.yaml</fork-workflow>'",
    );
    rig.state("END.sh", "echo '<join>LAST</join>'").state("LAST.sh", "echo '<result>ok</result>'");
    rig.state("W.sh", format!("# raymond: exclusive=tree\n{ALONE}echo '<result>w</result>'"));
    rig.state("P.md", "---\nexclusive: tree\n---\nWork.");
    let script = format!("{ALONE}echo '<result>o</result>'").replace('\n', "\n      ");
    rig.write("other.yaml", format!("states:\n  START:\n    exclusive: tree\n    sh: |\n      {script}\n"));
    rig.agent(r#"[{"reply": "<result>p</result>"}]"#);
    rig.raymond(&["workflow", "--id", "r", "--max-parallel", "1", "--max-parallel-scripts", "2"])
        .assert(0, "ok\n");
    let events = rig.events();
    let mut inside: Vec<String> = Vec::new();
    let mut entered = 0;
    for event in &events {
        let agent = event["agent"].as_str().unwrap_or_default().to_owned();
        match event["event"].as_str().unwrap() {
            "step_started" if event["exclusive"] == "tree" => {
                assert_eq!(inside, Vec::<String>::new(), "{event}");
                inside.push(agent);
                entered += 1;
            }
            "step_finished" => inside.retain(|other| *other != agent),
            _ => {}
        }
    }
    assert_eq!(entered, 4);
}

#[test]
fn after_a_kill_a_name_is_still_for_one_step_only() {
    let rig = Rig::new(RAYMOND);
    six_workers(&rig);
    let hold = "[ $item = 2 ] && [ ! -e went ] && { touch went; sleep 600; }\n";
    // What the lost step left behind must not be in the way.
    let clean = "rmdir inside 2>/dev/null; true\n";
    rig.state("W.sh", format!("# raymond: exclusive=tree\n{hold}{clean}{ALONE}echo '<result>w</result>'"));
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("went"));
    live.kill();
    rig.resume().assert(0, "ok\n");
    let started = rig.events().into_iter().filter(|event| event["event"] == "step_started");
    let workers: Vec<String> = started
        .filter(|event| event["exclusive"] == "tree")
        .map(|event| event["agent"].as_str().unwrap().to_owned())
        .collect();
    let expected = [1, 2, 2, 3, 4, 5, 6].map(|number| format!("main_w{number}"));
    assert_eq!(workers, expected);
}

#[test]
fn at_most_max_parallel_scripts_run_at_once() {
    for (args, config) in
        [(vec!["--max-parallel-scripts", "1"], ""), (vec![], "[raymond]\nmax_parallel_scripts = 1\n")]
    {
        let rig = Rig::new(RAYMOND);
        six_workers(&rig);
        fs::create_dir_all(rig.path(".raymond")).unwrap();
        rig.write(".raymond/config.toml", config);
        rig.state("W.sh", format!("{ALONE}echo '<result>w</result>'"));
        rig.raymond(&[vec!["workflow", "--id", "r"], args].concat()).assert(0, "ok\n");
    }
    let rig = Rig::new(RAYMOND);
    six_workers(&rig);
    rig.raymond(&["workflow", "--max-parallel-scripts", "0"]).assert(2, "").says("--max-parallel-scripts");
}
