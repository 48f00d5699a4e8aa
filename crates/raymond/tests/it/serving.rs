//! `raymond serve`, over real HTTP.

mod documents;
mod history;
mod security;
pub mod site;
mod stalls;
mod starts;
mod trusted;

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::{Value, json};
use test_kit::rig::{Rig, wait_for_file, wait_until};

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

/// Kills the process that drives a run, and waits until it is gone: a server that looks earlier finds that the run is live.
fn kill_run(rig: &Rig, state: &str, run: &str) {
    let lock: Value = serde_json::from_str(&rig.read(&format!("{state}/{run}.lock"))).unwrap();
    test_kit::rig::send(i32::try_from(lock["pid"].as_u64().unwrap()).unwrap(), Signal::KILL);
    let status = || rig.raymond(&["status", run, "--json", "--state-dir", state]).stdout;
    wait_until("the process to be gone", || status().contains("\"status\": \"interrupted\""));
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

/// A project whose workflow asks a person before it ends.
fn asking() -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<ask next=\"END\">Go on?</ask>'");
    rig.state("END.sh", "echo \"<result>$RAYMOND_RESULT</result>\"");
    rig
}

/// The text of the field of a run, once it has this value.
#[track_caller]
fn wait_for(site: &Site, run: &str, field: &str, value: &str) {
    wait_until(&format!("{run} to have {field} {value}"), || {
        site.get_json(&format!("/api/v1/runs/{run}"))[field] == value
    });
}

#[test]
fn a_run_is_started_answered_and_outlives_the_server() {
    let rig = asking();
    let site = Site::start(&rig);
    let started =
        site.post("/api/v1/runs", &json!({ "workflow": "workflow", "id": "r", "labels": { "a": "b" } }));
    assert_eq!((started.status, started.header("location")), (201, Some("/api/v1/runs/r")), "{started:?}");
    let again = site.post("/api/v1/runs", &json!({ "workflow": "workflow", "id": "r" }));
    assert_eq!(again.status, 409, "{again:?}");
    wait_until("the question", || site.get_json("/api/v1/runs/r")["asks"][0]["id"] == "ask1");
    site.live.kill();
    let site = Site::start(&rig);
    let run = site.get_json("/api/v1/runs/r");
    assert_eq!((&run["live"], &run["labels"]["a"]), (&true.into(), &"b".into()));
    let inbox = site.get_json("/api/v1/inbox");
    let item = &inbox["items"][0];
    assert_eq!(
        (&item["kind"], &item["ask"], &item["question"]),
        (&"ask".into(), &"ask1".into(), &"Go on?".into())
    );
    assert_eq!(site.post("/api/v1/runs/r/resume", &json!({})).status, 409, "it is live");
    let answered = site
        .post("/api/v1/runs/r/answers", &json!({ "ask": "ask1", "text": "<img src=x onerror=alert(1)>" }));
    assert_eq!((answered.status, &answered.json()["resumed"]), (200, &false.into()), "{answered:?}");
    wait_for(&site, "r", "status", "completed");
    assert_eq!(site.get_json("/api/v1/runs/r")["result"], "<img src=x onerror=alert(1)>");
    let late = site.post("/api/v1/runs/r/answers", &json!({ "ask": "ask1", "text": "no" }));
    assert_eq!((late.status, &late.json()["by"]), (409, &"api".into()), "{late:?}");
    assert_eq!(site.post("/api/v1/runs/r/answers", &json!({ "ask": "ask9", "text": "no" })).status, 404);
    assert_eq!(site.post("/api/v1/runs/r/stop", &json!({})).status, 409, "it is not live");
    assert_eq!(site.post("/api/v1/runs/r/resume", &json!({})).status, 409, "it is completed");
}

#[test]
fn an_answer_to_a_stopped_run_resumes_it() {
    let rig = asking();
    assert_eq!(rig.raymond(&["workflow", "--id", "r"]).exit, 3);
    let site = Site::start(&rig);
    let answered = site.post("/api/v1/runs/r/answers", &json!({ "ask": "ask1", "text": "yes" }));
    assert_eq!((answered.status, &answered.json()["resumed"]), (200, &true.into()), "{answered:?}");
    wait_for(&site, "r", "result", "yes");
}

#[test]
fn of_many_answers_at_the_same_time_one_is_taken_and_the_others_are_told_so() {
    const ANSWERS: usize = 50;
    let rig = asking();
    assert_eq!(rig.raymond(&["workflow", "--id", "r"]).exit, 3);
    let site = Site::start(&rig);
    let given: Vec<(u16, Value)> = std::thread::scope(|scope| {
        let answer = |number: usize| {
            let body = json!({ "ask": "ask1", "text": number.to_string() });
            let answer = site.post("/api/v1/runs/r/answers", &body);
            (answer.status, answer.json())
        };
        let threads: Vec<_> = (0..ANSWERS).map(|number| scope.spawn(move || answer(number))).collect();
        // Others who answer elsewhere hold the run for a moment.
        let commands: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| rig.raymond(&["answer", "r", "ask1", "command", "--no-resume"])))
            .collect();
        let given = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        commands.into_iter().for_each(|command| drop(command.join().unwrap()));
        given
    });
    for (status, body) in &given {
        let is_late = *status == 409 && body["by"].is_string();
        assert!(*status == 200 || is_late, "{status} {body}");
    }
    let taken = given.iter().filter(|(status, _)| *status == 200).count();
    let result = |rig: &Rig| rig.raymond(&["status", "r", "--json"]).stdout;
    match taken {
        1 => wait_for(&site, "r", "status", "completed"),
        // A command was first, and lets nothing go on.
        none => assert_eq!((none, result(&rig).contains("waiting")), (0, true)),
    }
}

#[test]
fn a_port_that_the_link_does_not_name_is_told() {
    let rig = with_run();
    let args = ["serve", "--listen", "0.0.0.0:0", "--allow-host", "raymond.example", "--token-file", "own"];
    let live = rig.start(&args);
    wait_until("the link", || live.stdout().ends_with('\n'));
    assert!(live.stdout().starts_with("http://raymond.example/#token="), "{}", live.stdout());
    live.wait_for_stderr("listens on 0.0.0.0:");
    wait_until("the whole line", || live.stderr().ends_with('\n'));
    let port = live.stderr().trim_end().rsplit(':').next().unwrap().to_owned();
    let address = format!("127.0.0.1:{port}");
    assert!(std::net::TcpStream::connect(&address).is_ok(), "{address}");
}

/// A step can read the token, but that does not make a person of it.
#[test]
fn a_step_cannot_answer_its_own_run_over_http() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<fork next=\"ASK\">WORK</fork>'");
    rig.state("ASK.sh", "echo '<ask next=\"GOT\">why?</ask>'");
    rig.state("GOT.sh", "echo \"<result>got $RAYMOND_RESULT</result>\"");
    rig.write("post", POST);
    rig.state(
        "WORK.sh",
        "until grep -q '\"ask_opened\"' .raymond/state/r.jsonl; do sleep 0.01; done\n\
         exec env -i /bin/bash -c 'setsid --wait /bin/bash post no > answer; echo \"<result></result>\"'\n",
    );
    let site = Site::start(&rig);
    rig.write("address", &site.address);
    let mut run = rig.command(&["workflow", "--id", "r", "--on-ask", "wait"]);
    run.env("RAYMOND_CGROUP", "off");
    let live = rig.launch(run);
    wait_until("the step's answer", || rig.read("answer").ends_with('}'));
    let answer = rig.read("answer");
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(answer.contains("a step of r cannot answer its own run"), "{answer}");
    // The same words from outside.
    let mut post = rig.program("/bin/bash");
    post.args(["post", "yes"]);
    let posted = rig.launch(post).wait();
    assert!(posted.stdout.starts_with("HTTP/1.1 200 "), "{posted:?}");
    assert_eq!(live.wait().stdout, "got yes\n");
}

/// Answers the question of the run `r` over HTTP, and prints what comes back.
const POST: &str = r#"
address=$(cat address); body='{"ask":"ask1","text":"'$1'"}'
exec 3<> /dev/tcp/${address%:*}/${address##*:}
printf 'POST /api/v1/runs/r/answers HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: close\r\n' \
    "$address" "$(cat .raymond/serve.token)" >&3
printf 'Content-Type: application/json\r\nContent-Length: %s\r\n\r\n%s' "${#body}" "$body" >&3
cat <&3
"#;

/// What a server starts is no process of a step, so a step must not have it start something.
#[test]
fn a_step_has_nothing_started_over_http() {
    let rig = Rig::new(RAYMOND);
    rig.write("other/START.sh", "echo '<ask next=\"END\">Go on?</ask>'");
    rig.write("other/END.sh", "echo '<result>x</result>'");
    assert_eq!(rig.raymond(&["other", "--id", "x"]).exit, 3);
    rig.write("send", SEND);
    rig.write(
        "sends",
        "send runs '{\"workflow\":\"other\",\"id\":\"mine\"}'\n\
         send runs/x/resume '{}'\n\
         send runs/x/branches '{\"step\":1,\"id\":\"mine\",\"run\":true}'\n\
         send runs/x/answers '{\"ask\":\"ask1\",\"text\":\"no\"}'\n\
         send runs/r/resume '{}'\n\
         send runs/r/branches '{\"step\":1,\"id\":\"mine\",\"run\":true}'\n",
    );
    rig.state("START.sh", "exec env -i /bin/bash -c '. ./send; . ./sends; echo \"<result></result>\"'\n");
    let site = Site::start(&rig);
    rig.write("address", &site.address);
    let mut run = rig.command(&["workflow", "--id", "r"]);
    run.env("RAYMOND_CGROUP", "off");
    let done = rig.launch(run).wait();
    assert_eq!(done.exit, 0, "{done:?}");
    let answers = rig.read("answers");
    assert_eq!(answers, "HTTP/1.1 403 Forbidden\r\n".repeat(6), "{answers}");
    assert!(!rig.path(".raymond/state/mine.jsonl").exists());
    // A person's requests are answered.
    let started = site.post("/api/v1/runs", &json!({ "workflow": "other", "id": "mine" }));
    assert_eq!(started.status, 201, "{started:?}");
    let answered = site.post("/api/v1/runs/x/answers", &json!({ "ask": "ask1", "text": "yes" }));
    assert_eq!(answered.status, 200, "{answered:?}");
    wait_for(&site, "x", "result", "x");
}

/// Sends `$2` to the path `$1`, and writes down the first line of what comes back.
const SEND: &str = r#"
address=$(cat address)
send() {
    exec 3<> /dev/tcp/${address%:*}/${address##*:}
    printf 'POST /api/v1/%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: close\r\n' \
        "$1" "$address" "$(cat .raymond/serve.token)" >&3
    printf 'Content-Type: application/json\r\nContent-Length: %s\r\n\r\n%s' "${#2}" "$2" >&3
    head -n 1 <&3 >> answers
    exec 3>&-
}
"#;

#[test]
fn of_fifty_racing_answers_one_is_taken_and_the_others_are_told() {
    let rig = asking();
    let site = Site::start(&rig);
    site.post("/api/v1/runs", &json!({ "workflow": "workflow", "id": "r" }));
    wait_until("the question", || site.get_json("/api/v1/runs/r")["asks"][0]["id"] == "ask1");
    let answer = |number: usize| -> (bool, String) {
        if number.is_multiple_of(5) {
            let done = rig.raymond(&["answer", "r", "ask1", &format!("command {number}"), "--no-resume"]);
            return (done.exit == 0, done.stderr);
        }
        let body = json!({ "ask": "ask1", "text": format!("api {number}") });
        let response = site.post("/api/v1/runs/r/answers", &body);
        (response.status == 200, response.body)
    };
    let told: Vec<(bool, String)> = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..50).map(|number| scope.spawn(move || answer(number))).collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).collect()
    });
    assert_eq!(told.iter().filter(|(taken, _)| *taken).count(), 1, "{told:?}");
    for (_, said) in told.iter().filter(|(taken, _)| !taken) {
        assert!(said.contains("answered by `raymond answer`") || said.contains("through the API"), "{said}");
    }
    wait_for(&site, "r", "status", "completed");
}

#[test]
fn a_run_is_stopped_and_resumed() {
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        "echo begun; touch started; until [ -e go ]; do sleep 0.01; done; echo '<goto>END</goto>'",
    );
    rig.state("END.sh", "echo '<result>done</result>'");
    let site = Site::start(&rig);
    site.post("/api/v1/runs", &json!({ "workflow": "workflow", "id": "r", "input": "x" }));
    wait_for_file(&rig.path("started"));
    let mut output = site.stream("/api/v1/runs/r/steps/1/output", &[]);
    let (_, piece) = output.next_data();
    assert_eq!(
        (&piece["stream"], &piece["text"], &piece["start"]),
        (&"stdout".into(), &"begun\n".into(), &true.into())
    );
    let run = site.get_json("/api/v1/runs/r");
    let agent = &run["agents"][0];
    assert_eq!((&agent["step"], &agent["status"]), (&1.into(), &"running".into()));
    assert!(agent["running_since"].is_string() && agent["last_output_at"].is_string(), "{agent}");
    let silent = site.get_json("/api/v1/inbox?silent=0");
    assert_eq!((&silent["items"][0]["kind"], &silent["items"][0]["step"]), (&"silent".into(), &1.into()));
    assert_eq!(site.get_json("/api/v1/inbox")["items"], json!([]));
    assert_eq!(site.post("/api/v1/runs/r/stop", &json!({ "now": true })).status, 202);
    wait_for(&site, "r", "status", "interrupted");
    assert_eq!(site.get_json("/api/v1/runs/r/steps")["steps"][0]["status"], "interrupted");
    // Its last event is there before its process has ended.
    wait_until("the end of its process", || site.get_json("/api/v1/runs/r")["live"] == false);
    rig.write("go", "");
    let wrong = site.post("/api/v1/runs/r/resume", &json!({ "budget": "much" }));
    assert_eq!(wrong.status, 400, "{wrong:?}");
    let detail = wrong.json()["detail"].to_string();
    assert!(detail.contains("--budget") && !detail.contains("--help"), "{detail}");
    assert_eq!(site.post("/api/v1/runs/r/resume", &json!({ "budget": 3.5 })).status, 202);
    wait_for(&site, "r", "status", "completed");
    assert_eq!(site.get_json("/api/v1/runs/r")["budget_usd"], 3.5);
}

#[test]
fn a_run_whose_process_died_is_resumed_by_the_next_server_and_a_stopped_one_is_not() {
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        "touch started-$RAYMOND_RUN_ID; until [ -e go ]; do sleep 0.01; done; echo '<result>x</result>'",
    );
    let site = Site::start(&rig);
    for run in ["died", "stopped"] {
        site.post("/api/v1/runs", &json!({ "workflow": "workflow", "id": run }));
        wait_for_file(&rig.path(&format!("started-{run}")));
    }
    assert_eq!(site.post("/api/v1/runs/stopped/stop", &json!({ "now": true })).status, 202);
    wait_for(&site, "stopped", "status", "interrupted");
    site.live.kill();
    kill_run(&rig, ".raymond/state", "died");
    rig.write("go", "");
    let site = Site::start(&rig);
    wait_for(&site, "died", "status", "completed");
    assert_eq!(site.get_json("/api/v1/runs/stopped")["status"], "interrupted");
}

#[test]
fn what_does_not_load_is_refused_with_its_findings() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", "---\nallowed_transitions:\n  - { tag: goto, target: NOWHERE }\n---\nGo.");
    let site = Site::start(&rig);
    let refused = site.post("/api/v1/runs", &json!({ "workflow": "workflow", "id": "r" }));
    assert_eq!(refused.status, 422, "{refused:?}");
    assert!(refused.json()["detail"].as_str().unwrap().contains("NOWHERE"), "{refused:?}");
    assert!(!refused.json()["findings"].as_array().unwrap().is_empty());
    assert_eq!(site.get("/api/v1/runs/r").status, 404, "no run is left behind");
    assert_eq!(site.post("/api/v1/runs", &json!({ "workflow": "../etc" })).status, 404);
    assert_eq!(site.post("/api/v1/runs", &json!({ "workflow": "workflow", "cwd": "/" })).status, 400);
    let large = "x".repeat(9 * 1024 * 1024);
    assert_eq!(site.send("POST", "/api/v1/runs", &[], &large).status, 413);
}

#[test]
fn workflows_and_steps_are_shown() {
    let rig = with_run();
    let site = Site::start(&rig);
    let all = site.get_json("/api/v1/workflows");
    assert_eq!(all["workflows"][0]["id"], "workflow");
    assert_eq!(site.get_json("/api/v1/workflows/workflow")["findings"]["errors"], 0);
    assert_eq!(site.get("/api/v1/workflows/none").status, 404);
    let graph = site.get_json("/api/v1/workflows/workflow/graph");
    assert!(
        graph["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .any(|node| node["name"] == "START.sh" && node["start"] == true)
    );
    assert!(site.get_json("/api/v1/workflows/workflow/lint").is_array());
    let state = site.get_json("/api/v1/workflows/workflow/states/A.sh");
    assert_eq!((&state["kind"], &state["text"]), (&"script".into(), &"echo '<goto>B</goto>'".into()));
    assert_eq!(site.get("/api/v1/workflows/workflow/states/..%2fx").status, 404);
    let window = site.get_json("/api/v1/runs/r/steps?from=2&limit=2");
    let steps = window["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 2);
    assert_eq!(
        (&steps[0]["step"], &steps[0]["state"], &steps[0]["target"]),
        (&2.into(), &"A.sh".into(), &"B.sh".into())
    );
    assert_eq!(window["next"], 4);
    let step = site.get_json("/api/v1/runs/r/steps/5");
    assert_eq!(
        (&step["kept"], &step["stdout"], &step["result"]),
        (&true.into(), &"<result>all done</result>\n".into(), &"all done".into())
    );
    assert_eq!(site.get("/api/v1/runs/r/steps/6").status, 404);
    let overview = site.get_json("/api/v1/runs/r/overview");
    assert_eq!((&overview["steps"], &overview["prints"][0]["text"]), (&5.into(), &"hello".into()));
    assert_eq!(overview["agents"][0]["spans"].as_array().unwrap().len(), 5);
    let then = site.get_json(&format!("/api/v1/runs/r/overview?at={}", steps[0]["started_seq"]));
    assert_eq!(then["steps"], 1);
    let graph = site.get_json("/api/v1/runs/r/graph");
    assert_eq!(graph["scopes"][0]["workflow_id"], "workflow");
    assert!(
        graph["counts"].as_array().unwrap().iter().any(|way| way["from"] == "D.sh" && way["to"] == "[end]")
    );
    let metrics = site.get("/metrics");
    assert!(metrics.body.contains("raymond_runs{status=\"completed\"} 1\n"), "{}", metrics.body);
    assert!(metrics.body.contains("raymond_steps_total 5\n"));
    std::fs::remove_dir_all(rig.path(".raymond/debug")).unwrap();
    assert_eq!(site.get_json("/api/v1/runs/r/steps/5")["kept"], false);
}

/// Secrets of every form: with what JSON escapes, like a number, like a name of a field and like a status.
#[test]
fn an_export_holds_no_secret_of_any_form_and_stays_whole() {
    let forms = [
        ("quote", "se\"cret\"x"),
        ("backslash", "se\\cret\\x"),
        ("tab", "se\tcret x"),
        ("line break", "first\nsecond"),
        ("number", "12345678"),
        ("name", "stdout"),
        ("status", "completed"),
        ("escapes", "a\\\"\\n\"b"),
    ];
    for (form, secret) in forms {
        let rig = Rig::new(RAYMOND);
        rig.state(
            "START.sh",
            "printf 'it is [%s].' \"$MY_SECRET\" >&2\n\
             printf '{\"said\":\"%s\"}' 'at https://me:pa55word@host/?token=t0ken1'\necho '<result>fine</result>'\n",
        );
        let run = |args: &[&str]| {
            let mut command = rig.command(args);
            command.env("MY_SECRET", secret);
            rig.launch(command).wait()
        };
        run(&["workflow", "--id", "r"]).assert(0, "fine\n");
        run(&["export", "r", "-o", "r.html"]).assert(0, "");
        let page = rig.read("r.html");
        let data =
            page.split("id=\"run-data\">").nth(1).and_then(|rest| rest.split("</script>").next()).unwrap();
        let data: Value = serde_json::from_str(data).unwrap_or_else(|error| panic!("{form}: {error}"));
        assert_eq!(data["run"]["status"], "completed", "{form}");
        let debug = |suffix: &str| rig.read(&format!(".raymond/debug/r/main_START_1.{suffix}"));
        assert_eq!(debug("stderr.txt"), "it is [***].", "{form}");
        assert!(debug("stdout.txt").contains("https://me:***@host/?token=***"), "{form}");
        let step = &data["steps"]["1"];
        assert_eq!(step["stderr"], "it is [***].", "{form}: {step}");
        let said = step["stdout"].as_str().unwrap();
        assert!(said.contains("https://me:***@host/?token=***"), "{form}: {said}");
        for gone in ["pa55word", "t0ken1"] {
            assert!(!page.contains(gone), "{form}: {gone}");
        }
    }
}

#[test]
fn passwords_in_urls_are_in_neither_the_journal_nor_the_meta_file() {
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        "echo \"cannot reach $DATABASE, the password is pa55word\" >&2; echo '<print>https://me:0ther1@host</print>'; exit 3",
    );
    let mut run = rig.command(&["workflow", "--id", "r"]);
    run.env("DATABASE", "postgres://me:pa55word@db:5432/x?sslmode=off");
    let done = rig.launch(run).wait();
    done.assert(1, "").says("cannot reach postgres://me:***@db:5432/x?sslmode=off, the password is ***");
    let meta = rig.read(".raymond/debug/r/main_START_1.meta.json");
    assert!(meta.contains("postgres://me:***@db:5432/x"), "{meta}");
    for text in [std::fs::read_to_string(rig.journal()).unwrap(), meta] {
        assert!(!text.contains("pa55word") && !text.contains("0ther1"), "{text}");
    }
}

#[test]
fn a_run_is_written_as_one_file_that_allows_only_its_own_script() {
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        "echo '<result></script><img src=x onerror=alert(1)></result>'; echo \"$API_TOKEN\" >&2",
    );
    let mut command = rig.command(&["workflow", "--id", "r"]);
    command.env("API_TOKEN", "s3cr3t-value");
    rig.launch(command).wait().assert(0, "</script><img src=x onerror=alert(1)>\n");
    let mut command = rig.command(&["export", "r", "-o", "r.html"]);
    command.env("API_TOKEN", "s3cr3t-value");
    rig.launch(command).wait().assert(0, "");
    let html = rig.read("r.html");
    assert!(html.contains("default-src 'none'; script-src 'sha256-"), "{}", &html[..500]);
    assert!(!html.contains("<img") && !html.contains("s3cr3t-value"));
    let (_, rest) = html.split_once("id=\"run-data\">").unwrap();
    let data: Value = serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
    assert_eq!(data["run"]["result"], "</script><img src=x onerror=alert(1)>");
    assert_eq!(data["steps"]["1"]["status"], "done");
    assert_eq!(data["events"].as_array().unwrap().len(), rig.events().len());
    let moments = data["states_at"].as_array().unwrap();
    assert_eq!(moments.last().unwrap()["run"]["status"], "completed");
    assert_eq!(moments[0]["run"]["status"], "running");
    let site = Site::start(&rig);
    let response = site.get("/api/v1/runs/r/export");
    assert_eq!(response.header("content-disposition"), Some("attachment; filename=\"r.html\""));
}

/// Files of a run that cannot be used are no error of the server: the answer says what is wrong with them.
#[test]
fn a_run_whose_files_cannot_be_used_is_a_conflict_with_the_reason() {
    let rig = with_run();
    for id in ["marked", "damaged", "pipe"] {
        rig.raymond(&["workflow", "--id", id]);
    }
    let site = Site::start(&rig);
    for id in ["marked", "damaged", "pipe"] {
        site.get_json(&format!("/api/v1/runs/{id}"));
    }
    std::fs::remove_file(rig.path(".raymond/state/marked.mark")).unwrap();
    rig.write(".raymond/state/damaged.jsonl", "{\"bad\n");
    std::fs::remove_file(rig.path(".raymond/state/pipe.jsonl")).unwrap();
    assert!(rig.program("mkfifo").arg(".raymond/state/pipe.jsonl").status().unwrap().success());
    for (id, why) in [("marked", "was not made there"), ("damaged", "line 1"), ("pipe", "not a plain file")] {
        for path in ["events", "export", "steps", "steps/1", "steps/1/output"] {
            let answer = site.get(&format!("/api/v1/runs/{id}/{path}"));
            assert_eq!(answer.status, 409, "{id} {path}: {answer:?}");
            assert!(answer.json()["detail"].as_str().unwrap().contains(why), "{id} {path}: {answer:?}");
        }
        let answer = site.post(&format!("/api/v1/runs/{id}/answers"), &json!({ "ask": "ask1", "text": "x" }));
        assert_eq!(answer.status, 409, "{id}: {answer:?}");
    }
    let unreadable = site.send("GET", "/api/v1/runs/%ff", &[], "");
    assert_eq!((unreadable.status, &unreadable.json()["status"]), (400, &400.into()), "{unreadable:?}");
}

/// What a worker or a run was given under a name that looks secret is a secret wherever it was printed, in a text that is cut too.
#[test]
fn an_export_hides_what_was_given_under_a_secret_name() {
    let rig = Rig::new(RAYMOND);
    rig.state("workflow.yaml", "inputs:\n  db_password: { type: string }\n");
    rig.state(
        "START.sh",
        "echo '<fork next=\"WAIT\" api_token=\"t0k\\en-1\" pin_key=\"77\" who=\"me\">WORK</fork>'",
    );
    rig.state("WAIT.sh", "echo '<join>END</join>'");
    rig.state(
        "WORK.sh",
        "printf '<print>%590s %s</print>' x \"$api_token\"; echo \"<result>$api_token $db_password $who</result>\"",
    );
    rig.state("END.sh", "echo '<result>ended</result>'");
    rig.raymond(&["workflow", "--id", "r", "--set", "db_password=pa55-w0rd"]).assert(0, "ended\n");
    rig.raymond(&["export", "r", "-o", "r.html"]).assert(0, "");
    let html = rig.read("r.html");
    for secret in ["t0k", "en-1", "pa55-w0rd", "\"77\""] {
        assert!(!html.contains(secret), "{secret}");
    }
    assert!(html.contains("*** *** me"), "the rest stays");
}

#[test]
fn a_missed_time_of_a_schedule_is_made_up_for_once() {
    let rig = project();
    rig.write("workflow/workflow.yaml", "schedule: \"0 0 1 1 *\"\nschedule_timezone: Europe/Berlin\n");
    assert_eq!(rig.raymond(&["trust", "workflow", "--yes"]).exit, 0);
    // In a folder that is named, what the test writes counts.
    let options = ["--listen", "127.0.0.1:0", "--schedules", "--state-dir", "s"];
    let site = Site::start_with(&rig, &options);
    let file = rig.path("s/serve.schedules");
    wait_for_file(&file);
    assert_eq!(site.get_json("/api/v1/runs")["runs"], json!([]), "only times from now on count");
    site.live.kill();
    // Years pass in which nothing is served.
    let known = std::fs::read_to_string(&file).unwrap();
    let until = known.split("\"until\": \"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    std::fs::write(&file, known.replace(&until, "2020-06-01T00:00:00Z")).unwrap();
    let site = Site::start_with(&rig, &options);
    let runs =
        || site.get_json("/api/v1/runs?label=schedule%3D0%200%201%201%20*")["runs"].as_array().unwrap().len();
    wait_until("the run that was missed", || runs() == 1);
    wait_until("its time to be written down", || {
        !std::fs::read_to_string(&file).unwrap().contains("2020-06-01")
    });
    assert_eq!(runs(), 1, "of many missed times one is made up for");
}

/// A program tells tokens, and some also how full the model's window was, and that the conversation was summarised.
#[test]
fn what_a_turn_left_of_the_window_is_told() {
    let told = r#"{"tokens": {"input": 1200, "output": 34}, "context": {"used": 5000, "window": 20000}, "compacted": true}"#;
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", "Start.");
    rig.write(
        "agent.sh",
        format!("cat > /dev/null\necho 'raymond-usage: {told}' >&2\necho '<result>ok</result>'\n"),
    );
    rig.write(
        ".raymond/config.toml",
        "[raymond]\nbackend = \"b\"\n[backend.b]\nkind = \"command\"\ncommand = \"sh\"\nargs = [\"./agent.sh\"]\ncost = \"none\"\n",
    );
    rig.raymond(&["workflow", "--id", "r"]).assert(0, "ok\n");
    let event = rig.events().into_iter().find(|event| event["event"] == "step_finished").unwrap();
    let step = Site::start(&rig).get_json("/api/v1/runs/r/steps/1");
    for told in [&event, &step] {
        assert_eq!(
            (&told["tokens"]["input"], &told["tokens"]["output"]),
            (&1200.into(), &34.into()),
            "{told}"
        );
        assert_eq!(told["context"], json!({ "used": 5000, "window": 20000 }), "{told}");
        assert_eq!(told["compacted"], true, "{told}");
    }
    let shown = rig.raymond(&["show", "r", "1"]).stdout;
    let expected = "tokens: 1,200 in, 34 out; context 5,000 of 20,000 (25 %); it was summarised";
    assert!(shown.contains(expected), "{shown}");
    let status = rig.raymond(&["status", "r"]).stdout;
    assert!(status.contains("tokens    1,200 in, 34 out"), "{status}");
    assert_eq!(rig.status()["tokens"]["input"], 1200);
}

#[test]
fn what_models_read_and_wrote_is_added_up() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", "Start.");
    rig.write(
        "agent.sh",
        "cat > /dev/null\necho '{\"type\":\"thread.started\",\"thread_id\":\"t\"}'\n\
         echo '{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"<result>ok</result>\"}}'\n\
         echo '{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":70,\"output_tokens\":5}}'\n",
    );
    rig.write(
        ".raymond/config.toml",
        "[raymond]\nbackend = \"codex\"\nmodel = \"gpt-5\"\n[backend.codex]\ncommand = \"sh\"\nargs = [\"./agent.sh\", \"--exec\"]\n",
    );
    for id in ["r", "s"] {
        rig.raymond(&["workflow", "--id", id]).assert(0, "ok\n");
    }
    let site = Site::start(&rig);
    let told = site.get_json("/api/v1/runs/r")["tokens"].clone();
    let (input, output) = (told["input"].as_u64().unwrap(), told["output"].as_u64().unwrap());
    assert!(input + output > 0, "{told}");
    let event = rig.events().into_iter().find(|event| event["event"] == "step_finished").unwrap();
    assert_eq!(event["tokens"], told);
    assert_eq!(site.get_json("/api/v1/runs")["runs"][0]["tokens"], told);
    let metrics = site.get("/metrics").body;
    let line = format!("raymond_tokens_total{{kind=\"output\"}} {}\n", 2 * output);
    assert!(metrics.contains(&line), "{line}{metrics}");
    let step = site.get_json("/api/v1/runs/r/steps/1");
    assert_eq!(step["tokens"], told);
    assert_eq!(site.get_json("/api/v1/runs/r")["own_cost_usd"], event["cost_usd"]);
    for (command, line) in [("status", "tokens    70 in, 5 out"), ("show", "tokens: 70 in, 5 out")] {
        let shown = rig.raymond(&[command, "r"]).stdout;
        assert!(shown.contains(line), "{shown}");
    }
    // What is gone stays counted, also by a server that is started later.
    std::fs::remove_file(rig.path(".raymond/state/s.jsonl")).unwrap();
    let counters = |metrics: &str| -> Vec<String> {
        let lines = metrics.lines().filter(|line| line.contains("_total") || line.contains("_duration_"));
        lines.filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    };
    assert_eq!(counters(&site.get("/metrics").body), counters(&metrics));
    drop(site);
    assert_eq!(counters(&Site::start(&rig).get("/metrics").body), counters(&metrics));
}
