//! `raymond doctor`.

use serde_json::Value;
use test_kit::rig::{Done, Rig, wait_until};

use crate::RAYMOND;
use crate::backends::ACP_AGENT;

/// The user's own config file, as a path from where the program is started.
const OWN: &str = "../.config/raymond/config.toml";

/// A folder of a user whose config file makes `backend` the default and has these tables.
fn rig(backend: &str, tables: &str) -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.write(OWN, format!("[raymond]\nbackend = \"{backend}\"\n{tables}"));
    rig
}

fn report(done: &Done) -> Value {
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {}", done.stdout))
}

fn backend<'a>(report: &'a Value, name: &str) -> &'a Value {
    let backends = report["backends"].as_array().unwrap();
    backends.iter().find(|backend| backend["name"] == name).unwrap()
}

/// A program that tells a version, and whether it is logged in.
fn write_program(rig: &Rig, name: &str, version: &str, login: i32) -> String {
    let script =
        format!("#!/bin/sh\ncase \"$1\" in --version) echo 'cli {version}' ;; login) exit {login} ;; esac\n");
    let path = rig.write(name, script);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode).unwrap();
    path.display().to_string()
}

#[test]
fn a_default_backend_that_works_is_told_with_what_it_can_do() {
    let rig = rig("scripted", "");
    let done = rig.raymond(&["doctor", "--json"]);
    assert_eq!(done.exit, 0, "{}", done.stdout);
    let report = report(&done);
    assert_eq!((&report["ok"], &report["default_backend"]), (&true.into(), &"scripted".into()));
    assert_eq!(backend(&report, "codex")["can"]["cost"], "tokens");
    assert_eq!(backend(&report, "copilot")["can"]["branch"], false);
    assert!(report["priced_models"].as_array().unwrap().contains(&"gpt-5".into()));
    let files =
        report["findings"].as_array().unwrap().iter().find(|finding| finding["about"] == "files").unwrap();
    assert_eq!(files["level"], "good", "{files}");
    let people = rig.raymond(&["doctor"]).stdout;
    assert!(
        people.contains(
            "scripted (default): needs no program\n          can continue conversations, branch them"
        ),
        "{people}"
    );
    assert!(people.ends_with("The default backend `scripted` can work.\n"), "{people}");
}

#[test]
fn a_missing_program_is_told_with_what_to_do() {
    let rig = rig("codex", "[backend.codex]\ncommand = \"/no/such/codex\"\n");
    let done = rig.raymond(&["doctor", "--json"]);
    assert_eq!(done.exit, 1);
    let report = report(&done);
    assert_eq!((&report["ok"], &backend(&report, "codex")["installed"]), (&false.into(), &false.into()));
    let finding = &report["findings"][1];
    assert_eq!((&finding["level"], &finding["about"]), (&"error".into(), &"backend".into()));
    assert!(finding["advice"].as_str().unwrap().starts_with("install it"), "{finding}");
    let people = rig.raymond(&["doctor"]).stdout;
    assert!(people.contains("wrong codex (default): `/no/such/codex` was not found\n"), "{people}");
}

#[test]
fn a_missing_program_that_is_not_the_default_is_told_with_what_to_do() {
    let rig = rig("scripted", "[backend.codex]\ncommand = \"/no/such/codex\"\n");
    let done = rig.raymond(&["doctor"]);
    assert_eq!(done.exit, 0, "{}", done.stdout);
    let told = "note  codex: `/no/such/codex` was not found\n          → to use it, install it, or name it with `command`";
    assert!(done.stdout.contains(told), "{}", done.stdout);
}

#[test]
fn versions_and_logins_are_told() {
    for (version, login, tested, exit) in [
        ("0.166.0", 0, "tested", 0),
        ("0.170.1", 0, "newer", 0),
        ("0.99.0", 0, "older", 0),
        ("0.166.0", 1, "tested", 1),
    ] {
        let rig = rig("codex", "");
        let program = write_program(&rig, "fake-codex", version, login);
        rig.write(OWN, format!("[raymond]\nbackend = \"codex\"\n[backend.codex]\ncommand = {program:?}\n"));
        let done = rig.raymond(&["doctor", "--json"]);
        assert_eq!(done.exit, exit, "{}", done.stdout);
        let report = report(&done);
        let codex = backend(&report, "codex");
        assert_eq!((&codex["version"], &codex["tested"]), (&version.into(), &tested.into()));
        assert_eq!(codex["logged_in"], login == 0);
    }
}

#[test]
fn whom_a_program_serves_is_told() {
    let rig = rig("gemini", "");
    let program = write_program(&rig, "fake-gemini", "0.61.0", 0);
    rig.write(OWN, format!("[raymond]\nbackend = \"gemini\"\n[backend.gemini]\ncommand = {program:?}\n"));
    let people = rig.raymond(&["doctor"]).stdout;
    assert!(people.contains("serves only API keys and enterprise accounts"), "{people}");
}

#[test]
fn a_model_without_a_price_is_named() {
    let rig = rig("codex", "model = \"a-new-model\"\n");
    let program = write_program(&rig, "fake-codex", "0.166.0", 0);
    let config = rig.read(OWN);
    rig.write(
        OWN,
        format!("{config}[backend.codex]\ncommand = {program:?}\n[backend.other]\nkind = \"gemini\"\nmodel = \"another\"\n"),
    );
    let report = report(&rig.raymond(&["doctor", "--json"]));
    let findings = report["findings"].to_string();
    assert!(findings.contains("the model `a-new-model` has no price"), "{findings}");
    assert!(findings.contains("the model `another` of the backend `other` has no price"), "{findings}");
    assert!(findings.contains(r#"\"a-new-model\" = { input = "#), "{findings}");
}

#[test]
fn a_config_file_that_cannot_be_read_is_a_finding() {
    let rig = Rig::new(RAYMOND);
    rig.write(".raymond/config.toml", "[raymond]\nbugdet = 5\n");
    let done = rig.raymond(&["doctor", "--json"]);
    assert_eq!(done.exit, 1);
    let report = report(&done);
    assert_eq!(report["findings"][0]["about"], "config");
    assert!(report["findings"][0]["message"].as_str().unwrap().contains("bugdet"));
}

#[test]
fn a_ping_needs_consent_and_tells_whether_the_model_answered() {
    let rig = rig("mine", "[backend.mine]\nkind = \"command\"\ncommand = \"./pong\"\n");
    rig.write("pong", "#!/bin/sh\nread -r prompt; echo pong\n");
    let executable = |mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(rig.path("pong"), mode).unwrap();
    };
    executable(0o755);
    let done = rig.raymond(&["doctor", "--ping"]);
    assert_eq!(done.exit, 2);
    assert!(done.stderr.contains("a fraction of a cent") && done.stderr.contains("--yes"), "{}", done.stderr);
    let done = rig.raymond(&["doctor", "--ping", "--yes", "--json"]);
    assert_eq!((done.exit, &backend(&report(&done), "mine")["answers"]), (0, &true.into()));
    rig.write("pong", "#!/bin/sh\necho hung up >&2; exit 3\n");
    executable(0o755);
    let done = rig.raymond(&["doctor", "--ping", "--yes"]);
    assert_eq!(done.exit, 1);
    assert!(done.stdout.contains("hung up"), "{}", done.stdout);
}

/// Some programs go on running after their answer, with processes in sessions of their own.
#[test]
fn a_ping_does_not_wait_for_the_end_of_a_program_and_leaves_nothing_behind() {
    let rig = rig("acp", "[backend.acp]\ncommand = \"python3\"\nargs = [\"./agent.py\"]\ncost = \"none\"\n");
    let stays = "import subprocess, time\nsubprocess.Popen(['setsid', 'sleep', '3333'])\ntime.sleep(3333)\n";
    rig.write("agent.py", format!("{ACP_AGENT}{stays}"));
    let done = rig.raymond(&["doctor", "--ping", "--yes", "--json"]);
    let report = report(&done);
    let acp = backend(&report, "acp");
    assert_eq!((done.exit, &acp["answers"]), (0, &true.into()), "{acp:#}");
    rig.assert_nothing_lives();
}

#[test]
fn it_says_how_the_processes_of_a_step_are_held() {
    let rig = rig("scripted", "");
    let mut command = rig.command(&["doctor"]);
    command.env("RAYMOND_CGROUP", "off");
    let without = rig.launch(command).wait();
    assert!(without.stdout.contains("processes: each step has a process group; processes can leave it"));
    let done = rig.raymond(&["doctor"]);
    let run = rig.state("START.sh", "echo '<result>ok</result>'").raymond(&["workflow", "--id", "r"]);
    assert_eq!(run.exit, 0);
    let status: Value = serde_json::from_str(&rig.raymond(&["status", "r", "--json"]).stdout).unwrap();
    let held = format!("processes: each step has a {};", status["containment"].as_str().unwrap());
    assert!(done.stdout.contains(&held), "{held}\n{}", done.stdout);
}

fn findings<'a>(report: &'a Value, about: &str) -> Vec<&'a Value> {
    report["findings"].as_array().unwrap().iter().filter(|finding| finding["about"] == about).collect()
}

#[test]
fn a_server_its_token_and_schedules_are_looked_at() {
    let rig = rig("scripted", "");
    rig.state("START.sh", "echo '<result>ok</result>'").state("workflow.yaml", "schedule: \"30 6 * * *\"");
    let look = || report(&rig.raymond(&["doctor", "--json"]));
    let held = look();
    let held = findings(&held, "schedules")[1];
    assert_eq!(held["message"], "the schedule of `workflow` is not kept: it is not trusted");
    assert!(held["advice"].as_str().unwrap().contains("raymond trust "), "{held}");
    assert_eq!(rig.raymond(&["trust", "workflow", "--yes"]).exit, 0);
    let before = look();
    assert_eq!(findings(&before, "schedules").len(), 1);
    assert_eq!(findings(&before, "serve")[0]["message"], "no `raymond serve` runs in this project");
    let schedules = findings(&before, "schedules")[0];
    assert_eq!(schedules["level"], "warning");
    assert_eq!(
        schedules["message"],
        "`workflow`: no `raymond serve --schedules` runs, so that nothing is started"
    );
    let live = rig.start(&["serve", "--listen", "127.0.0.1:0", "--schedules"]);
    wait_until("the server's address", || live.stdout().contains("http://"));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(rig.path(".raymond/serve.token"), mode).unwrap();
    let running = look();
    let [server, token] = findings(&running, "serve")[..] else { panic!("{running:#}") };
    assert!(server["message"].as_str().unwrap().starts_with("`raymond serve` answers on http://127.0.0.1:"));
    assert!(token["message"].as_str().unwrap().contains("other users of this machine may read the token"));
    assert!(token["advice"].as_str().unwrap().starts_with("chmod 600 "), "{token}");
    assert_eq!(findings(&running, "schedules")[0]["message"], "`workflow`: kept by `raymond serve`");
    live.send(rustix::process::Signal::STOP);
    let stuck = look();
    assert!(findings(&stuck, "serve")[0]["message"].as_str().unwrap().contains("does not answer"));
    live.kill();
    assert_eq!(findings(&look(), "serve")[0]["message"], "no `raymond serve` runs in this project");
}

#[test]
fn a_schedule_that_cannot_be_kept_is_named() {
    let rig = rig("scripted", "");
    rig.state("START.sh", "echo '<result>ok</result>'").state("workflow.yaml", "schedule: \"61 6 * * *\"");
    let report = report(&rig.raymond(&["doctor", "--json"]));
    let schedules = findings(&report, "schedules")[0];
    assert!(
        schedules["message"].as_str().unwrap().starts_with("the schedule of `workflow` cannot be kept: ")
    );
    assert!(schedules["advice"].as_str().unwrap().contains("`schedule`"));
}

/// Scripts may rely on these fields.
#[test]
fn the_report_has_the_same_fields_everywhere() {
    let fields =
        |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<String>>().join(" ");
    let rig = rig("scripted", "");
    let report = report(&rig.raymond(&["doctor", "--json"]));
    assert_eq!(fields(&report), "backends default_backend findings ok priced_models prices_dated version");
    for backend in report["backends"].as_array().unwrap() {
        let expected =
            "accounts answers can command installed kind logged_in name tested tested_versions version";
        assert_eq!(fields(backend).replace(" problem", ""), expected);
        let can = "add_dirs branch budget_share cost effort mcp model other_folders resume skip_permissions tool_rules";
        assert_eq!(fields(&backend["can"]), can);
    }
    for finding in report["findings"].as_array().unwrap() {
        assert!(["about level message", "about advice level message"].contains(&fields(finding).as_str()));
        assert!(["good", "warning", "error"].contains(&finding["level"].as_str().unwrap()));
    }
}
