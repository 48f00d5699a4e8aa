//! `raymond serve`, over real HTTP.

mod site;

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::Value;
use test_kit::rig::Rig;

use crate::RAYMOND;
use site::Site;

/// A project with a completed run `r` of five steps.
fn project() -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<print>hello</print><goto>A</goto>'");
    for (state, next) in [("A.sh", "B"), ("B.sh", "C"), ("C.sh", "D")] {
        rig.state(state, format!("echo '<goto>{next}</goto>'"));
    }
    rig.state("D.sh", "echo '<result>all done</result>'");
    rig
}

fn with_run() -> Rig {
    let rig = project();
    rig.run().assert(0, "all done\n");
    rig
}

#[test]
fn the_link_is_all_of_stdout_and_the_token_is_used_again() {
    let rig = Rig::new(RAYMOND);
    let first = Site::start(&rig);
    assert_eq!(first.token.len(), 64);
    let file = rig.path(".raymond/serve.token");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let second = Site::start(&rig);
    assert_eq!(second.token, first.token);
    first.live.send(Signal::TERM);
    let done = first.live.wait();
    assert_eq!(done.exit, 0, "{done:?}");
    assert_eq!(done.stdout.lines().count(), 1);
}

#[test]
fn an_address_that_others_reach_needs_a_token_file() {
    let rig = Rig::new(RAYMOND);
    let done = rig.raymond(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(done.exit, 2, "{done:?}");
    done.says("--token-file");
    rig.raymond(&["serve", "--listen", "nowhere"]).says("not an address");
    let site =
        Site::start_with(&rig, &["--listen", "127.0.0.1:0", "--token-file", "own", "--state-dir", "s"]);
    assert_eq!(rig.read("own").trim(), site.token);
    assert!(!rig.path(".raymond").exists());
}

#[test]
fn nothing_is_told_without_the_token_but_health() {
    let rig = with_run();
    let site = Site::start(&rig);
    let none = [("Authorization", "")];
    let health = site.send("GET", "/api/v1/health", &none, "");
    assert_eq!((health.status, health.json()["status"].as_str()), (200, Some("ok")));
    for path in ["runs", "runs/r", "runs/r/events", "events", "openapi.json", "nothing", "runs/x"] {
        for header in [("Authorization", ""), ("Authorization", "Bearer wrong")] {
            let response = site.send("GET", &format!("/api/v1/{path}"), &[header], "");
            let is_refused = response.status == 401 || response.status == 429;
            assert!(is_refused, "{path}: {response:?}");
            assert_eq!(response.header("content-type"), Some("application/problem+json"));
            assert!(!response.body.contains("all done"));
        }
    }
    assert_eq!(site.send("GET", "/", &none, "").status, 200, "the page is served without the token");
    assert!(!site.send("GET", "/", &none, "").body.contains(&site.token));
}

#[test]
fn errors_are_problems_and_answers_have_the_headers() {
    let rig = with_run();
    let site = Site::start(&rig);
    let problem = |method: &str, path: &str, headers: &[(&str, &str)], body: &str| {
        let response = site.send(method, path, headers, body);
        assert_eq!(response.header("content-type"), Some("application/problem+json"), "{response:?}");
        let problem = response.json();
        assert_eq!(problem["status"], response.status);
        assert!(problem["title"].is_string() && problem["detail"].is_string());
        response.status
    };
    assert_eq!(problem("GET", "/api/v1/runs", &[("Host", "evil.example")], ""), 403);
    assert_eq!(problem("GET", "/", &[("Host", "evil.example")], ""), 403, "before routing");
    assert_eq!(problem("GET", "/nothing", &[], ""), 404);
    assert_eq!(problem("GET", "/api/v1/runs/none", &[], ""), 404);
    assert_eq!(problem("GET", "/api/v1/runs/..%2f..%2fetc", &[], ""), 404);
    assert_eq!(problem("DELETE", "/api/v1/runs", &[], ""), 405);
    assert_eq!(problem("POST", "/api/v1/health", &[], "{}"), 405);
    assert_eq!(problem("GET", "/api/v1/runs?status=odd", &[], ""), 400);
    assert_eq!(problem("GET", "/api/v1/runs?limit=x", &[], ""), 400);
    assert_eq!(problem("GET", "/api/v1/runs/r?at=99", &[], ""), 404);
    assert_eq!(problem("DELETE", "/api/v1/runs", &[("Origin", "http://evil.example")], ""), 403);
    let csp = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
               base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";
    for path in ["/", "/api/v1/runs", "/nothing"] {
        let response = site.send("GET", path, &[], "");
        assert_eq!(response.header("content-security-policy"), Some(csp), "{path}");
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(response.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(response.header("set-cookie"), None);
    }
    assert_eq!(site.get("/api/v1/runs").header("cache-control"), Some("no-store"));
}

#[test]
fn runs_are_listed_in_windows_and_filtered() {
    let rig = project();
    for (id, label) in [("a", "team=red"), ("b", "team=blue"), ("c", "team=red")] {
        rig.raymond(&["workflow", "--id", id, "--label", label]).assert(0, "all done\n");
    }
    let site = Site::start(&rig);
    let ids = |query: &str| -> (Vec<String>, Value) {
        let answer = site.get_json(&format!("/api/v1/runs{query}"));
        let ids =
            answer["runs"].as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap().to_owned());
        (ids.collect(), answer["next"].clone())
    };
    assert_eq!(ids(""), (vec!["c".to_owned(), "b".to_owned(), "a".to_owned()], Value::Null));
    let (first, next) = ids("?limit=2");
    assert_eq!(first, ["c", "b"]);
    let (rest, end) = ids(&format!("?limit=2&before={}", next.as_str().unwrap()));
    assert_eq!((rest, end), (vec!["a".to_owned()], Value::Null));
    assert_eq!(ids("?label=team%3Dred").0, ["c", "a"]);
    assert_eq!(ids("?q=BLUE").0, ["b"]);
    assert_eq!(ids("?status=failed").0, Vec::<String>::new());
    assert_eq!(ids("?workflow=workflow&status=completed&limit=1").0, ["c"]);
    let run = &site.get_json("/api/v1/runs?limit=1")["runs"][0];
    assert_eq!((&run["live"], &run["result"]), (&false.into(), &"all done".into()));
}

#[test]
fn a_run_is_shown_as_status_shows_it_now_and_at_any_event() {
    let rig = with_run();
    let site = Site::start(&rig);
    let now = site.get_json("/api/v1/runs/r");
    for (key, value) in rig.status().as_object().unwrap() {
        assert_eq!(&now[key], value, "{key}");
    }
    let events = rig.events();
    let started: Vec<u64> = events
        .iter()
        .filter(|event| event["event"] == "step_started")
        .map(|event| event["seq"].as_u64().unwrap())
        .collect();
    for (steps, seq) in started.iter().enumerate() {
        let then = site.get_json(&format!("/api/v1/runs/r?at={seq}"));
        assert_eq!((&then["status"], &then["steps"]), (&"running".into(), &steps.into()), "at {seq}");
        assert_eq!(then["agents"][0]["status"], "running");
    }
}

#[test]
fn events_come_in_windows_and_as_a_stream_without_gap_or_repetition() {
    let rig = with_run();
    let site = Site::start(&rig);
    let all = rig.events();
    let mut seen = Vec::new();
    let mut after = Value::from(0);
    while !after.is_null() {
        let window = site.get_json(&format!("/api/v1/runs/r/events?limit=4&after={after}"));
        seen.extend(window["events"].as_array().unwrap().clone());
        after = window["next"].clone();
    }
    assert_eq!(seen, all);
    let mut stream = site.stream("/api/v1/runs/r/events", &[("Last-Event-ID", "3")]);
    for event in &all[3..] {
        let (id, data) = stream.next_data();
        assert_eq!((id.as_deref(), &data), (Some(event["seq"].to_string().as_str()), event));
    }
}

#[test]
fn one_stream_has_all_runs_and_goes_on_after_a_restart() {
    let rig = project();
    rig.raymond(&["workflow", "--id", "before"]).assert(0, "all done\n");
    let site = Site::start(&rig);
    let mut stream = site.stream("/api/v1/events", &[]);
    // The first thing is the place where the stream begins.
    let begin = stream.next().unwrap().id.unwrap();
    rig.raymond(&["workflow", "--id", "x"]).assert(0, "all done\n");
    let count = rig.raymond(&["log", "x", "--json"]).lines().count();
    let mut seqs = Vec::new();
    let mut last = String::new();
    for _ in 0..3 {
        let (id, event) = stream.next_data();
        assert_eq!(event["run"], "x", "nothing of earlier runs");
        seqs.push(event["seq"].as_u64().unwrap());
        last = id.unwrap();
    }
    assert!(last.len() <= 1024);
    drop(stream);
    site.live.kill();
    rig.raymond(&["workflow", "--id", "y"]).assert(0, "all done\n");
    let site = Site::start(&rig);
    let mut stream = site.stream("/api/v1/events", &[("Last-Event-ID", &last)]);
    while seqs.len() < count {
        let (_, event) = stream.next_data();
        assert_eq!(event["run"], "x");
        seqs.push(event["seq"].as_u64().unwrap());
    }
    assert_eq!(seqs, (1..=count as u64).collect::<Vec<_>>());
    let (_, event) = stream.next_data();
    assert_eq!((&event["run"], &event["seq"]), (&"y".into(), &1.into()));
    let mut again = site.stream("/api/v1/events", &[("Last-Event-ID", &begin)]);
    assert_eq!(again.next_data().1["run"], "x");
    let mut lost = site.stream("/api/v1/events", &[("Last-Event-ID", "of-another-1-2")]);
    assert_eq!(lost.next().unwrap().name.as_deref(), Some("reset"));
}
