//! What docs/serve.md hands to other programs fits them, and fits the server.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::site::Site;
use super::with_run;

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names of metrics in a text.
fn metrics_in(text: &str) -> Vec<String> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let words = text.split(|character| !is_part(character)).filter(|word| word.starts_with("raymond_"));
    words.map(str::to_owned).collect()
}

#[test]
fn the_dashboard_shows_all_metrics_and_no_others() {
    let dashboard: Value = serde_json::from_str(&document("grafana.json")).unwrap();
    let targets = dashboard["panels"].as_array().unwrap().iter();
    let targets = targets.flat_map(|panel| panel["targets"].as_array().unwrap());
    let asked: Vec<String> =
        targets.flat_map(|target| metrics_in(target["expr"].as_str().unwrap())).collect();
    let rig = with_run();
    let told = Site::start(&rig).get("/metrics").body;
    let values: Vec<String> =
        told.lines().filter(|line| !line.starts_with('#')).flat_map(metrics_in).collect();
    for name in &asked {
        assert!(values.contains(name), "the dashboard asks for {name}, which is not told");
    }
    for line in told.lines().filter(|line| line.starts_with("# TYPE")) {
        let name = line.split(' ').nth(2).unwrap();
        assert!(asked.iter().any(|asked| asked.starts_with(name)), "the dashboard does not show {name}");
    }
}

#[test]
fn every_line_of_the_metrics_has_the_form_that_prometheus_reads() {
    let rig = with_run();
    let told = Site::start(&rig).get("/metrics").body;
    let mut described = Vec::new();
    for line in told.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            described.push(help.split(' ').next().unwrap().to_owned());
        } else if !line.starts_with("# TYPE ") {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
            let of_described = |known: &String| name.starts_with(known.as_str());
            assert!(described.last().is_some_and(of_described), "{line} stands behind another description");
        }
    }
    assert!(told.ends_with('\n'));
}

#[test]
fn systemd_accepts_the_unit() {
    let Some(analyze) = ["/usr/bin/systemd-analyze", "/bin/systemd-analyze"]
        .into_iter()
        .map(PathBuf::from)
        .find(|path| path.exists())
    else {
        eprintln!("skipped: there is no systemd-analyze");
        return;
    };
    let text = document("serve.md");
    let unit = text.split("```ini\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert!(unit.contains("KillMode=process"), "otherwise the runs end with the server");
    let home = tempfile::tempdir().unwrap();
    let program = home.path().join(".cargo/bin/raymond");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(crate::RAYMOND, &program).unwrap();
    std::fs::create_dir_all(home.path().join("my-project")).unwrap();
    let file = home.path().join("raymond.service");
    std::fs::write(&file, unit).unwrap();
    let mut command = Command::new(analyze);
    command.args(["verify", "--user"]).arg(&file);
    command.env("HOME", home.path()).env("XDG_RUNTIME_DIR", home.path());
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.is_empty(), "{said}");
}
