//! What the settings of a project's config file may do for a workflow that is not the project's, and for commands that only
//! look.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::Value;
use test_kit::rig::{Done, Rig, wait_until};

use crate::RAYMOND;

/// A cloned project with a run `r` of its own, and a workflow of the user's outside of it.
struct Clone {
    rig: Rig,
    /// Where an engine of the project would be.
    listener: TcpListener,
}

impl Clone {
    fn new() -> Self {
        let rig = Rig::alone(RAYMOND);
        rig.state("START.sh", "echo '<result>ok</result>'");
        rig.run().assert(0, "ok\n");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let clone = Self { rig, listener };
        for program in ["canary.sh", "bin/raymond-temporal"] {
            clone.program(program);
        }
        let mine = clone.home("mine/START.sh");
        fs::create_dir_all(mine.parent().unwrap()).unwrap();
        fs::write(mine, "echo '<result>mine</result>'").unwrap();
        clone
    }

    /// A program that leaves a trace when it is started.
    fn program(&self, name: &str) {
        self.write_program(name, &format!("#!/bin/sh\necho \"$0 $*\" >> {:?}\n", self.rig.path("trace")));
    }

    /// Another process writes it: what this one has open for writing, a process that another test starts may hold open, and then it
    /// cannot be executed.
    fn write_program(&self, name: &str, script: &str) {
        let text = self.rig.write(&format!("{name}.txt"), script);
        let mut install = Command::new("install");
        assert!(install.args(["-m", "755"]).arg(text).arg(self.rig.path(name)).status().unwrap().success());
    }

    fn home(&self, name: &str) -> std::path::PathBuf {
        self.rig.work().parent().unwrap().join(name)
    }

    fn mine(&self) -> String {
        self.home("mine").display().to_string()
    }

    /// The user's own settings.
    fn own(&self, config: &str) {
        let file = self.home(".config/raymond/config.toml");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, config).unwrap();
    }

    fn config(&self, config: &str) {
        let port = self.listener.local_addr().unwrap().port().to_string();
        let config = config.replace("CANARY", &self.rig.path("canary.sh").display().to_string());
        self.rig.write(".raymond/config.toml", config.replace("PORT", &port));
    }

    fn raymond(&self, args: &[&str]) -> Done {
        let mut command = self.rig.command(args);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.rig.path("bin").display()));
        self.rig.launch(command).wait()
    }

    #[track_caller]
    fn assert_untouched(&self, what: &str) {
        assert_eq!(self.rig.read("trace"), "", "{what}");
        assert!(self.listener.accept().is_err(), "{what} connected to the project's engine");
    }
}

/// A setting that gives power: what the user's own file says, what the project's says, and how the setting is named.
const POWERS: [(&str, &str, &str); 23] = [
    ("[raymond]\nbudget = 0.5", "[raymond]\nbudget = 0", "budget = 0"),
    ("[raymond]\nbudget = 0.5", "[raymond]\nbudget = 0.75", "budget = 0.75"),
    ("", "[raymond]\nbudget = 10.5", "budget = 10.5"),
    ("", "[raymond]\nbackend = \"codex\"", "backend = \"codex\""),
    ("[raymond]\nbackend = \"codex\"", "[raymond]\nbackend = \"claude\"", "backend = \"claude\""),
    ("[raymond]\nmax_parallel = 2", "[raymond]\nmax_parallel = 3", "max_parallel = 3"),
    (
        "[raymond]\nmax_parallel_scripts = 2",
        "[raymond]\nmax_parallel_scripts = 3",
        "max_parallel_scripts = 3",
    ),
    ("[raymond]\nmax_steps = 2", "[raymond]\nmax_steps = 3", "max_steps = 3"),
    ("", "[raymond]\ndangerously_skip_permissions = true", "dangerously_skip_permissions = true"),
    ("", "[raymond]\nworkflow_paths = [\"/\"]", "workflow_paths = [\"/\"]"),
    ("", "[raymond]\ncd_paths = [\"/\"]", "cd_paths = [\"/\"]"),
    ("", "[raymond]\nnotify = \"CANARY\"", "notify = \"/"),
    ("", "[raymond]\nmodel = \"--yolo\"", "model = \"--yolo\""),
    ("", "[backend.claude]\nkind = \"scripted\"", "[backend.claude] kind = \"scripted\""),
    ("", "[backend.claude]\ncommand = \"CANARY\"", "[backend.claude] command = \"/"),
    ("", "[backend.codex]\nargs = [\"--x\"]", "[backend.codex] args = [\"--x\"]"),
    ("[backend.codex]\nargs = [\"--safe\"]", "[backend.codex]\nargs = []", "[backend.codex] args = []"),
    ("", "[backend.claude]\nresume_args = [\"-c\"]", "[backend.claude] resume_args = [\"-c\"]"),
    ("", "[backend.acp]\ncommand = \"CANARY\"\nbranches = true", "[backend.acp] branches = true"),
    ("", "[backend.codex]\nwithout_branch = \"continue\"", "[backend.codex] without_branch = \"continue\""),
    ("", "[backend.codex]\ncost = \"none\"", "[backend.codex] cost = \"none\""),
    ("", "[backend.scripted]\nreplies = \"/r.yaml\"", "[backend.scripted] replies = \"/r.yaml\""),
    ("", "[prices]\ngpt-5 = { input = 0.0, output = 0.0 }", "[prices] gpt-5 = { input = 0.0, output = 0.0 }"),
];

/// Settings of a project that hold for every workflow, with what the user's own file says.
const HARMLESS: [(&str, &str); 15] = [
    ("[raymond]\nbudget = 0.5", "[raymond]\nbudget = 0.25"),
    ("[raymond]\nbudget = 0", "[raymond]\nbudget = 0"),
    ("", "[raymond]\nbudget = 9"),
    ("[raymond]\nmax_steps = 20\nmax_parallel = 3", "[raymond]\nmax_steps = 10\nmax_parallel = 3"),
    ("", "[raymond]\nmax_steps = 10\nmax_parallel = 3\nmax_parallel_scripts = 9"),
    ("", "[raymond]\nmodel = \"opus\"\neffort = \"low\"\nbackend = \"claude\"\ntimeout = \"1h\""),
    ("", "[raymond]\non_ask = \"pause\"\nno_wait = true\nno_debug = true\ndebug_steps = 3\nverbose = true"),
    ("", "[raymond]\ndurability = \"process\"\nsnapshots = false\nkeep_segments = 3"),
    ("", "[raymond]\ndangerously_skip_permissions = false\nworkflow_paths = []\ncd_paths = []"),
    ("[raymond]\ndangerously_skip_permissions = true", "[raymond]\ndangerously_skip_permissions = true"),
    ("[raymond]\nnotify = \"true\"", "[raymond]\nnotify = \"true\""),
    ("", "[raymond]\nsafe_folders = [\"/\"]"),
    ("", "[backend.claude]\nkind = \"claude\"\nmodel = \"opus\"\nargs = []\nbranches = false"),
    ("[backend.codex]\nargs = [\"--safe\"]", "[backend.codex]\nmodel = \"x\"\nargs = [\"--safe\"]"),
    ("", "[engine.team]\nurl = \"temporal://127.0.0.1:PORT\""),
];

#[test]
fn a_setting_that_gives_power_needs_consent_for_a_workflow_from_elsewhere() {
    let clone = Clone::new();
    let mine = clone.mine();
    for (own, config, named) in POWERS {
        clone.own(own);
        clone.config(config);
        let refused = clone.raymond(&[&mine, "--id", "x"]);
        assert_eq!(refused.exit, 2, "{config}: {refused:?}");
        refused.says(named).says("--trust").says(".raymond/config.toml");
        assert!(!clone.rig.path(".raymond/state/x.jsonl").exists(), "{config}");
        clone.assert_untouched(config);
    }
    for (own, config) in HARMLESS {
        clone.own(own);
        clone.config(config);
        clone.raymond(&[&mine, "--quiet"]).assert(0, "mine\n");
    }
    clone.assert_untouched("what is harmless");
}

#[test]
fn a_workflow_of_the_project_itself_needs_no_consent_and_gives_none_to_others() {
    let clone = Clone::new();
    let mine = clone.mine();
    for (_, config, _) in POWERS {
        clone.own("");
        clone.config(config);
        clone.raymond(&["workflow", "--quiet"]).assert(0, "ok\n");
    }
    wait_until("the project's own command", || clone.rig.read("trace").contains("canary.sh"));
    clone.config("[raymond]\nnotify = \"true\"");
    clone.raymond(&["workflow", "--quiet"]).assert(0, "ok\n");
    assert_eq!(clone.raymond(&[&mine]).exit, 2, "it was never accepted for others");
    // With the option, it is accepted for others too.
    clone.raymond(&["workflow", "--quiet", "--trust"]).assert(0, "ok\n");
    clone.raymond(&[&mine, "--quiet"]).assert(0, "mine\n");
}

#[test]
fn consent_is_for_these_settings_of_this_file() {
    let clone = Clone::new();
    let mine = clone.mine();
    let with = |budget: &str, notify: &str, model: &str| {
        clone.config(&format!("[raymond]\nbudget = {budget}\nnotify = {notify:?}\nmodel = {model:?}"));
        clone.raymond(&[&mine, "--quiet"]).exit
    };
    assert_eq!(with("20", "true", "a"), 2);
    clone.raymond(&[&mine, "--quiet", "--trust"]).assert(0, "mine\n");
    assert_eq!(with("20", "true", "a"), 0, "it is remembered");
    assert_eq!(with("20", "true", "another"), 0, "a harmless setting may change");
    assert_eq!(with("21", "true", "a"), 2);
    assert_eq!(with("20", "true # more", "a"), 2);
    assert_eq!(with("20", "true", "a"), 0, "as it was accepted");
    clone.config("[raymond]\nnotify = \"true\"");
    assert_eq!(clone.raymond(&[&mine]).exit, 2, "fewer settings may mean something else");
    // The same settings in another place are not accepted.
    let other = clone.home("other");
    fs::create_dir_all(other.join(".raymond")).unwrap();
    fs::write(other.join(".raymond/config.toml"), "[raymond]\nbudget = 20\nnotify = \"true\"").unwrap();
    let mut command = clone.rig.command(&[&mine]);
    command.current_dir(&other);
    assert_eq!(clone.rig.launch(command).wait().exit, 2);
}

/// `[backend.claude] kind = "scripted"` once answered in the agent's place, and `budget = 0` lifted the user's.
#[test]
fn a_clone_does_not_answer_in_the_agents_place_nor_lift_the_budget() {
    let clone = Clone::new();
    clone.rig.agent(r#"[{"reply": "<result>from the agent</result>", "cost": 0.75}]"#);
    clone.own("[raymond]\nbudget = 0.5\n");
    fs::remove_file(clone.home("mine/START.sh")).unwrap();
    fs::write(clone.home("mine/START.md"), "Deploy.").unwrap();
    clone.rig.write("replies.yaml", "START: <result>DEPLOYED</result>\n");
    let replies = clone.rig.path("replies.yaml");
    let config = format!(
        "[raymond]\nbudget = 0\n[backend.claude]\nkind = \"scripted\"\nreplies = {:?}\n",
        replies.display().to_string()
    );
    clone.config(&config);
    let refused = clone.rig.raymond(&[&clone.mine()]);
    refused.assert(2, "").says("[backend.claude] kind = \"scripted\"").says("budget = 0");
    clone.config("[raymond]\nmodel = \"opus\"\n");
    let done = clone.rig.raymond(&[&clone.mine(), "--json", "--id", "x"]);
    assert!(done.stdout.contains("from the agent"), "{done:?}");
    assert_eq!(done.lines().next().unwrap()["options"]["budget_usd"], 0.5);
}

#[test]
fn what_the_command_line_says_is_not_asked_about() {
    let clone = Clone::new();
    let mine = clone.mine();
    clone.config("[raymond]\nbudget = 0\nbackend = \"codex\"\ndangerously_skip_permissions = true\n");
    let given = ["--budget", "2", "--backend", "scripted", "--ask-permissions"];
    let without_last = [&[mine.as_str()], &given[..4]].concat();
    clone.raymond(&without_last).assert(2, "").says("dangerously_skip_permissions = true");
    let done = clone.raymond(&[&[mine.as_str(), "--json"], &given[..]].concat());
    let options = &done.lines().next().unwrap()["options"];
    assert_eq!((&options["budget_usd"], &options["skip_permissions"]), (&2.0.into(), &false.into()));
}

#[test]
fn a_budget_is_compared_with_what_the_workflow_would_have_without_it() {
    let clone = Clone::new();
    fs::write(clone.home("mine/workflow.yaml"), "default_budget: 2\n").unwrap();
    clone.config("[raymond]\nbudget = 3\n");
    assert_eq!(clone.raymond(&[&clone.mine()]).exit, 2, "it is higher than the workflow's own");
    fs::write(clone.home("mine/workflow.yaml"), "default_budget: 4\n").unwrap();
    clone.raymond(&[&clone.mine(), "--quiet"]).assert(0, "mine\n");
}

#[test]
fn a_workflow_is_the_projects_by_where_it_really_is() {
    let clone = Clone::new();
    clone.config("[raymond]\nnotify = \"CANARY\"");
    symlink(clone.home("mine"), clone.rig.path("linked")).unwrap();
    let packed = clone.home("mine.zip").display().to_string();
    assert_eq!(clone.raymond(&["convert", &clone.mine(), "-o", &packed]).exit, 0);
    let one_file = clone.home("mine.yaml").display().to_string();
    assert_eq!(clone.raymond(&["convert", &clone.mine(), "-o", &one_file]).exit, 0);
    symlink(&packed, clone.rig.path("linked.zip")).unwrap();
    symlink(&one_file, clone.rig.path("linked.yaml")).unwrap();
    let dotted = format!("{}/../mine", clone.rig.work().display());
    for outside in
        ["linked", "linked/START.sh", "linked.zip", "linked.zip/START", "linked.yaml", &packed, &dotted]
    {
        let refused = clone.raymond(&[outside]);
        assert_eq!(refused.exit, 2, "{outside}: {refused:?}");
        refused.says("--trust");
    }
    clone.assert_untouched("what lies outside");
    // Written as if it lay outside, it is still the project's.
    symlink(clone.rig.path("workflow"), clone.home("shortcut")).unwrap();
    clone.raymond(&[&clone.home("shortcut").display().to_string(), "--quiet"]).assert(0, "ok\n");
}

#[test]
fn a_run_that_began_outside_is_resumed_as_one_from_outside() {
    let clone = Clone::new();
    fs::write(clone.home("mine/START.sh"), "test -e mended && echo '<result>mine</result>'").unwrap();
    assert_eq!(clone.raymond(&[&clone.mine(), "--id", "x"]).exit, 1);
    clone.rig.write("mended", "");
    for (own, config, named) in POWERS {
        let is_kept = ["budget", "backend =", "max_", "dangerously", "model"];
        clone.own(own);
        clone.config(config);
        if is_kept.iter().any(|kept| named.starts_with(kept)) {
            continue;
        }
        for args in [&["resume", "x"][..], &["retry", "x", "--run"]] {
            let refused = clone.raymond(args);
            assert_eq!(refused.exit, 2, "{config}: {refused:?}");
            refused.says(named).says("--trust");
        }
        clone.assert_untouched(config);
    }
    // What the run has recorded when it began is not asked about.
    clone.config("[raymond]\nbudget = 0\n");
    clone.raymond(&["resume", "x", "--quiet"]).assert(0, "mine\n");
}

#[test]
fn commands_that_only_look_start_and_call_nothing_of_a_clone() {
    let clone = Clone::new();
    clone.rig.state("ASK.sh", "echo '<ask next=\"START\">Go on?</ask>'");
    clone.own("");
    assert_eq!(clone.raymond(&["workflow/ASK.sh", "--id", "asks", "--quiet"]).exit, 3);
    let engine = "[engine.team]\nurl = \"temporal://127.0.0.1:PORT/default\"\n";
    let backends = ["claude", "codex", "acp", "gemini", "copilot", "opencode", "pi", "command"];
    let backends = backends.map(|name| format!("[backend.{name}]\ncommand = \"CANARY\"\n")).concat();
    let config = format!("[raymond]\nnotify = \"CANARY\"\nworkflow_paths = [\"/\"]\n{backends}{engine}");
    clone.config(&config);
    let mine = clone.mine();
    let looking: [&[&str]; 24] = [
        &["list"],
        &["list", "--json"],
        &["status"],
        &["status", "r", "--json"],
        &["log", "r"],
        &["log", "r", "--step", "1"],
        &["show", "r", "--no-pager"],
        &["export", "r", "-o", "r.html"],
        &["record", "r", "-o", "r.rec"],
        &["lint", "workflow"],
        &["lint", &mine],
        &["diagram", "workflow"],
        &["doctor"],
        &["doctor", "--json"],
        &["test", "workflow"],
        &["completions", "bash"],
        &["schema", "config"],
        &["branch", "r", "--at", "1", "--id", "b"],
        &["answer", "asks", "yes", "--no-resume"],
        &["stop", "asks"],
        &["jump", "asks", "main", "START", "--no-run"],
        &["rewind", "asks", "--to", "1"],
        &["clean", "b"],
        &["--help"],
    ];
    for args in looking {
        clone.raymond(args);
        clone.assert_untouched(&format!("{args:?}"));
    }
    let mut command = clone.rig.command(&["--", "raymond", "run", "--backend", ""]);
    command.env("RAYMOND_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "3");
    let completed = clone.rig.launch(command).wait();
    assert_eq!((completed.stderr.as_str(), completed.stdout.contains("codex")), ("", true), "{completed:?}");
    clone.assert_untouched("completions");
    for (_, config, _) in POWERS {
        clone.config(config);
        for args in [&["list"][..], &["status"], &["lint", "workflow"], &["doctor"], &["doctor", "--ping"]] {
            clone.raymond(args);
            clone.assert_untouched(&format!("{config} {args:?}"));
        }
    }
    // The traps work.
    clone.config(&config);
    clone.raymond(&["doctor", "--trust"]);
    assert!(clone.rig.read("trace").contains("canary.sh --version"), "{}", clone.rig.read("trace"));
    clone.raymond(&["list"]);
    assert!(clone.rig.read("trace").contains("raymond-temporal list"), "{}", clone.rig.read("trace"));
}

/// What a project's own continuous integration looks at has to be complete.
#[test]
fn lint_enters_listed_folders_with_consent() {
    let clone = Clone::new();
    let to_mine = "<call-workflow return=\"END\">../../mine</call-workflow>";
    clone.rig.write("flow/START.sh", format!("echo '{to_mine}'"));
    clone.rig.write("flow/END.sh", "echo '<result>x</result>'");
    clone.config("[raymond]\nworkflow_paths = [\"../mine\"]\n");
    let left_out = clone.raymond(&["lint", "flow"]);
    assert!(left_out.stdout.contains("may not be entered"), "{left_out:?}");
    left_out.says("workflow_paths = [\"../mine\"]");
    let done = clone.raymond(&["lint", "--trust", "flow"]);
    assert!(done.exit == 0 && !done.stdout.contains("may not be entered"), "{done:?}");
}

#[test]
fn serve_starts_and_calls_nothing_of_a_clone_by_itself() {
    let clone = Clone::new();
    clone.config("[raymond]\nnotify = \"CANARY\"\n[engine.team]\nurl = \"temporal://127.0.0.1:PORT\"\n");
    let mut command = clone.rig.command(&["serve", "--listen", "127.0.0.1:0"]);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", clone.rig.path("bin").display()));
    let live = clone.rig.launch(command);
    wait_until("the server's address", || live.stdout().contains("http://"));
    assert!(live.stderr().contains("[engine] team = { url = "), "{}", live.stderr());
    live.kill();
    clone.assert_untouched("serve");
}

#[test]
fn what_is_left_out_is_said_once_and_only_by_commands_that_would_use_it() {
    let clone = Clone::new();
    clone.config("[raymond]\nnotify = \"true\"\n[engine.team]\nurl = \"temporal://127.0.0.1:PORT\"\n");
    let listed = clone.raymond(&["list"]);
    assert_eq!(listed.exit, 0);
    listed.says("[engine] team = { url = \"temporal://127.0.0.1:").says("raymond doctor --trust");
    assert_eq!(listed.stderr.matches("warning").count(), 1, "{}", listed.stderr);
    let quiet = clone.raymond(&["status", "r"]);
    assert_eq!((quiet.exit, quiet.stderr.as_str()), (0, ""), "no engine has to be asked for this run");
    let many: String =
        (0..30).map(|n| format!("[engine.e{n}]\nurl = \"temporal://{}\"\n", "x".repeat(999))).collect();
    clone.config(&many);
    let long = clone.raymond(&["list"]).stderr;
    assert!(long.len() < 4_000 && long.contains("and 20 more"), "{long}");
    clone.config("[raymond]\nnotify = \"true\"\n");
    clone.raymond(&["list"]).assert(0, &listed.stdout);
    assert_eq!(clone.raymond(&["list"]).stderr, "");
    let doctor = clone.raymond(&["doctor", "--json"]);
    let report: Value = serde_json::from_str(&doctor.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let left_out = findings.iter().find(|finding| finding["message"].to_string().contains("notify")).unwrap();
    assert_eq!((&left_out["level"], &left_out["about"]), (&"warning".into(), &"config".into()));
    assert!(left_out["advice"].to_string().contains("raymond doctor --trust"), "{left_out}");
    let accepted = clone.raymond(&["doctor", "--trust"]);
    assert!(accepted.stdout.contains("notify = \"true\""), "{}", accepted.stdout);
    assert!(!clone.raymond(&["doctor"]).stdout.contains("doctor --trust"));
    clone.raymond(&[&clone.mine(), "--quiet"]).assert(0, "mine\n");
}

#[test]
fn where_the_projects_settings_are_left_out_the_users_own_hold() {
    let clone = Clone::new();
    clone.program("theirs.sh");
    clone.write_program("own.sh", "#!/bin/sh\necho 'codex-cli 0.166.0'\n");
    let own = clone.rig.path("own.sh").display().to_string();
    clone
        .own(&format!("[raymond]\nbackend = \"codex\"\n[backend.codex]\ncommand = {own:?}\nmodel = \"m\"\n"));
    let theirs = clone.rig.path("theirs.sh").display().to_string();
    clone.config(&format!(
        "[raymond]\nbackend = \"claude\"\n[backend.codex]\ncommand = {theirs:?}\n\
         [backend.theirs]\nkind = \"command\"\ncommand = {theirs:?}\nmodel = \"x\"\n"
    ));
    let report: Value = serde_json::from_str(&clone.raymond(&["doctor", "--json"]).stdout).unwrap();
    assert_eq!(report["default_backend"], "codex");
    let backends = report["backends"].as_array().unwrap();
    let codex = backends.iter().find(|backend| backend["name"] == "codex").unwrap();
    assert_eq!((&codex["command"], &codex["version"]), (&own.into(), &"0.166.0".into()));
    assert!(backends.iter().all(|backend| backend["name"] != "theirs"));
    clone.assert_untouched("doctor");
}

#[test]
fn settings_are_shown_so_that_none_can_hide() {
    let clone = Clone::new();
    clone.config(
        "[raymond]\nnotify = \"true\\n\\u001b[2J\\u202e  → nothing to see\\rhere\"\n\
         [backend.\"x\\n] y = 1\\u001b[8m\"]\nkind = \"command\"\ncommand = \"c\"\n",
    );
    for args in [&[clone.mine().as_str()][..], &["doctor"], &["doctor", "--json"]] {
        let done = clone.raymond(args);
        let all = done.stdout + &done.stderr;
        assert!(!all.contains('\u{1b}') && !all.contains('\u{202e}') && !all.contains('\r'), "{all:?}");
        let line = all.lines().find(|line| line.contains("] y = 1")).unwrap();
        assert!(line.contains("[backend.") && line.contains("\\n] y = 1"), "{line}");
        assert!(all.lines().all(|line| !line.trim_start().starts_with("→ nothing")), "{all}");
    }
}

#[test]
fn an_engine_of_a_clone_is_asked_only_with_consent() {
    let clone = Clone::new();
    clone.config("[engine.team]\nurl = \"temporal://127.0.0.1:PORT\"\n");
    clone.raymond(&["list"]);
    clone.assert_untouched("list");
    clone.raymond(&[&clone.mine(), "--quiet", "--trust"]).assert(0, "mine\n");
    clone.raymond(&["list"]);
    assert!(clone.rig.read("trace").ends_with("raymond-temporal list\n"), "{}", clone.rig.read("trace"));
}

/// An empty entry of `PATH` is the working folder.
#[test]
fn the_program_with_the_engine_is_not_taken_from_the_project() {
    let clone = Clone::new();
    clone.own("[engine.team]\nurl = \"temporal://127.0.0.1:1\"\n");
    clone.program("raymond-temporal");
    let mut command = clone.rig.command(&["list"]);
    command.env("PATH", format!(":bin:{}", std::env::var("PATH").unwrap_or_default()));
    clone.rig.launch(command).wait().says("raymond-temporal was not found");
    clone.assert_untouched("list");
}

/// Whether a path is below another is not a matter of how its name begins.
#[test]
fn a_neighbour_whose_name_begins_alike_is_outside() {
    let clone = Clone::new();
    clone.config("[raymond]\nnotify = \"CANARY\"");
    let neighbour = clone.home("workflow-of-mine");
    let beside = clone.home("work-2");
    for folder in [&neighbour, &beside] {
        fs::create_dir_all(folder).unwrap();
        fs::copy(clone.home("mine/START.sh"), folder.join("START.sh")).unwrap();
        assert_eq!(clone.raymond(&[&folder.display().to_string()]).exit, 2, "{}", folder.display());
    }
    clone.assert_untouched("neighbours");
}
