//! Who is let in, and how much one of them can take. The table in docs/serve.md names these tests.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use test_kit::rig::{Rig, wait_until};

use super::site::Site;
use super::with_run;
use crate::RAYMOND;

/// How many connections and streams there may be at once.
const CONNECTIONS: usize = 1024;
const STREAMS: usize = 512;

const NO_TOKEN: (&str, &str) = ("Authorization", "");

/// All requests that the server describes, with names that lead nowhere.
fn routes(site: &Site) -> Vec<(String, String)> {
    let description = site.get_json("/api/v1/openapi.json");
    let mut routes = Vec::new();
    for (path, methods) in description["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys().filter(|key| *key == "get" || *key == "post") {
            routes.push((method.to_uppercase(), path.clone()));
        }
    }
    assert!(routes.len() > 20, "{routes:?}");
    routes
}

fn filled(path: &str, name: &str) -> String {
    ["{run}", "{id}", "{name}", "{n}"].iter().fold(path.to_owned(), |path, part| path.replace(part, name))
}

#[test]
fn only_the_header_is_a_token() {
    let rig = with_run();
    let site = Site::start(&rig);
    let token = &site.token;
    let cookie = format!("token={token}; raymond.token={token}");
    let attempts = [("Cookie", cookie.clone()), ("X-Token", token.clone()), ("Authorization", token.clone())];
    let attempts = attempts.into_iter().chain([("Authorization", format!("Basic {token}"))]);
    for (name, value) in attempts {
        let mut headers = vec![(name, value.as_str())];
        headers.extend(Some(NO_TOKEN).filter(|_| name != "Authorization"));
        for path in ["/api/v1/runs".to_owned(), format!("/api/v1/runs?token={token}"), "/metrics".to_owned()]
        {
            let response = site.send("GET", &path, &headers, "");
            assert_eq!(response.status, 401, "{path} with {name}: {response:?}");
        }
    }
    for (method, path) in routes(&site) {
        let path = filled(&path, "r");
        let response = site.send(&method, &path, &[NO_TOKEN], "{}");
        let is_open = path == "/api/v1/health";
        assert_eq!(response.status, if is_open { 200 } else { 401 }, "{method} {path}: {response:?}");
        assert_eq!(response.header("set-cookie"), None, "{path}");
    }
    let around = site.send("GET", "/page/../api/v1/runs", &[NO_TOKEN], "");
    assert!([401, 404].contains(&around.status) && !around.body.contains("all done"), "{around:?}");
}

#[test]
fn another_name_is_refused_before_anything_else() {
    let rig = with_run();
    let names = ["--allow-host", "proxy.example", "--allow-host", "Other:8443"];
    let site = Site::start_with(&rig, &[&["--listen", "127.0.0.1:0"], &names[..]].concat());
    let port = site.address.rsplit_once(':').unwrap().1.to_owned();
    let local = format!("localhost:{port}");
    for host in [site.address.as_str(), &local, "proxy.example", "other:8443"] {
        assert_eq!(site.send("GET", "/api/v1/runs", &[("Host", host)], "").status, 200, "{host}");
    }
    let (named, elsewhere) = (format!("proxy.example:{port}"), format!("127.0.0.2:{port}"));
    for host in ["evil.example", "127.0.0.1", "localhost", "other", &named, &elsewhere, "127.0.0.1:1"] {
        for path in ["/", "/page/app.js", "/api/v1/health", "/api/v1/runs", "/metrics", "/nothing"] {
            let response = site.send("GET", path, &[("Host", host)], "");
            assert_eq!(response.status, 403, "{path} of {host}: {response:?}");
        }
    }
    // A page whose name leads here has that name as its origin too.
    let rebound = [("Host", "evil.example"), ("Origin", "http://evil.example")];
    assert_eq!(site.send("POST", "/api/v1/runs", &rebound, "{}").status, 403);
    let twice =
        site.raw(&format!("GET / HTTP/1.1\r\nHost: {local}\r\nHost: evil\r\nConnection: close\r\n\r\n"));
    assert_eq!(twice.status, 400, "{twice:?}");
}

#[test]
fn an_open_address_answers_only_to_names_that_were_allowed() {
    let rig = with_run();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (open, local) = (format!("0.0.0.0:{port}"), format!("127.0.0.1:{port}"));
    let live = rig.start(&["serve", "--listen", &open, "--token-file", "t", "--allow-host", "box.example"]);
    wait_until("the login link", || live.stdout().ends_with('\n'));
    // The link has the name that people use: the address stands for all addresses of the machine.
    assert!(live.stdout().starts_with("http://box.example/#token="), "{}", live.stdout());
    let status = |host: &str| {
        let mut connection = TcpStream::connect(&local).unwrap();
        write!(connection, "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(status("box.example"), "200");
    assert_eq!(status(&local), "403", "another name of the machine was not allowed");
}

#[test]
fn a_change_is_json_and_comes_from_this_page() {
    let rig = with_run();
    let site = Site::start_with(&rig, &["--listen", "127.0.0.1:0", "--allow-host", "proxy.example"]);
    let (own, proxied) = (format!("http://{}", site.address), [("Host", "proxy.example")]);
    let changes: Vec<String> =
        routes(&site).into_iter().filter(|(method, _)| method == "POST").map(|(_, path)| path).collect();
    assert_eq!(changes.len(), 5, "{changes:?}");
    for path in changes.iter().map(|path| filled(path, "r")) {
        let status = |headers: &[(&str, &str)]| site.send("POST", &path, headers, "{\"odd\":1}").status;
        for kind in ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
            assert_eq!(status(&[("Content-Type", kind)]), 415, "{path} as {kind}");
        }
        let others = ["http://evil.example", "http://localhost:3000", "null", "https://proxy.example"];
        for origin in others {
            assert_eq!(status(&[("Origin", origin)]), 403, "{path} from {origin}");
        }
        for headers in [&[][..], &[("Origin", &*own)], &[proxied[0], ("Origin", "https://proxy.example")]] {
            let status = status(headers);
            assert!([400, 404, 409].contains(&status), "{path} is let in: {status}");
        }
    }
    // A browser that asks whether another site may do so is not told that it may.
    let asked = [("Origin", "http://evil.example"), ("Access-Control-Request-Method", "POST")];
    let preflight = site.send("OPTIONS", "/api/v1/runs", &asked, "");
    assert!(preflight.status >= 400, "{preflight:?}");
    assert!(preflight.headers.iter().all(|(name, _)| !name.starts_with("access-control")));
}

#[test]
fn a_wrong_token_waits_while_the_right_one_is_answered() {
    let rig = with_run();
    let site = Site::start(&rig);
    let wrong = [("Authorization", "Bearer wrong")];
    for _ in 0..10 {
        assert_eq!(site.send("GET", "/api/v1/runs", &wrong, "").status, 401);
    }
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| site.send("GET", "/api/v1/runs", &wrong, "").status);
        for _ in 0..5 {
            assert_eq!(site.get("/api/v1/runs").status, 200);
        }
        assert!(!waiting.is_finished(), "a wrong token waits");
        assert_eq!(waiting.join().unwrap(), 429);
    });
}

#[test]
fn no_name_in_a_request_becomes_a_path() {
    let rig = with_run();
    rig.write("secret", "s3cr3t");
    let site = Site::start(&rig);
    let names = [
        "..%2f..%2fsecret",
        "%2e%2e",
        "%2fetc%2fpasswd",
        "r%00",
        "..%5csecret",
        "r.jsonl",
        ".list.json",
        "R",
    ];
    for (method, path) in routes(&site).into_iter().filter(|(_, path)| path.contains('{')) {
        for name in names {
            let path = filled(&path, name);
            let body = json!({ "ask": "ask1", "text": "x" }).to_string();
            let body = if path.ends_with("answers") { &body } else { "{}" };
            let response = site.send(&method, &path, &[], body);
            assert_eq!(response.status, 404, "{method} {path}: {response:?}");
            assert!(!response.body.contains("s3cr3t"));
        }
    }
}

#[test]
fn a_request_sets_no_folder_no_environment_and_skips_no_permissions() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<result>x</result>'");
    rig.write("workflow/workflow.yaml", "inputs:\n  note: { type: file }\n");
    rig.write(".raymond/config.toml", "[raymond]\ndangerously_skip_permissions = true\n");
    rig.write("below.txt", "x");
    let site = Site::start(&rig);
    let start = |body: Value| site.post("/api/v1/runs", &body);
    for key in ["cwd", "env", "environment", "skip_permissions", "dangerously_skip_permissions", "root"] {
        assert_eq!(start(json!({ "workflow": "workflow", key: "/" })).status, 400, "{key}");
    }
    std::os::unix::fs::symlink("/etc/passwd", rig.path("link")).unwrap();
    for file in ["/etc/passwd", "../../etc/passwd", "link"] {
        let refused = start(json!({ "workflow": "workflow", "inputs": { "note": file } }));
        assert_eq!(refused.status, 422, "{file}: {refused:?}");
    }
    let begun = start(
        json!({ "workflow": "workflow", "id": "r", "inputs": { "note": "below.txt" }, "model": "--help" }),
    );
    assert_eq!(begun.status, 201, "a value is never taken for an option: {begun:?}");
    let options = &rig.events()[0]["options"];
    assert_eq!(options["skip_permissions"], false, "whatever the config file says");
    assert_eq!(options["model"], "--help");
}

/// Nobody can be asked there.
#[test]
fn settings_that_give_power_hold_only_for_workflows_of_the_project() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<result>x</result>'");
    rig.write("../mine/START.sh", "test -e mended && echo '<result>y</result>'");
    assert_eq!(rig.raymond(&["../mine", "--id", "x"]).exit, 1);
    rig.write("mended", "");
    rig.write(".raymond/config.toml", "[raymond]\nnotify = \"echo $RAYMOND_RUN_ID >> obeyed\"\n");
    let site = Site::start(&rig);
    let refused = site.post("/api/v1/runs/x/resume", &json!({}));
    assert_eq!(refused.status, 422, "{refused:?}");
    assert!(refused.body.contains("--trust") && refused.body.contains("notify = "), "{refused:?}");
    assert_eq!(site.post("/api/v1/runs", &json!({ "workflow": "workflow", "id": "own" })).status, 201);
    wait_until("the project's own command", || rig.read("obeyed").contains("own"));
    assert!(!rig.read("obeyed").contains('x'));
    // With consent it goes on.
    rig.raymond(&["doctor", "--trust"]);
    assert_eq!(site.post("/api/v1/runs/x/resume", &json!({})).status, 202);
    wait_until("its end", || rig.read("obeyed").contains('x'));
}

#[test]
fn headers_and_bodies_are_bounded() {
    let rig = with_run();
    let site = Site::start(&rig);
    let long = "x".repeat(70_000);
    assert_eq!(site.send("GET", "/api/v1/runs", &[("X-Long", &long)], "").status, 431);
    assert_eq!(site.send("GET", &format!("/api/v1/runs?q={}", &long[..20_000]), &[], "").status, 414);
    let body = "x".repeat(8 * 1024 * 1024 + 1);
    assert_eq!(site.send("POST", "/api/v1/runs", &[], &body).status, 413);
    let head = format!(
        "POST /api/v1/runs HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Connection: close\r\n",
        site.address, site.token
    );
    let pieces = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let unannounced = site.raw(&format!("{head}Transfer-Encoding: chunked\r\n\r\n{pieces}"));
    assert_eq!(unannounced.status, 413, "also without its length");
    // A length that is only claimed is refused without waiting for what is claimed.
    assert_eq!(site.raw(&format!("{head}Content-Length: 99999999999\r\n\r\n")).status, 413);
}

#[test]
fn streams_are_bounded_and_a_closed_one_makes_room() {
    let rig = with_run();
    let site = Site::start(&rig);
    let mut streams: Vec<_> = (0..STREAMS).map(|_| site.stream("/api/v1/events", &[])).collect();
    let refused = site.get("/api/v1/events");
    assert_eq!(refused.status, 429, "{refused:?}");
    assert_eq!(site.get("/api/v1/runs").status, 200, "everything else is answered");
    // All of them are told what happens.
    rig.raymond(&["workflow", "--id", "s"]).assert(0, "all done\n");
    for stream in &mut streams {
        assert_eq!(stream.next_data().1["run"], "s");
    }
    drop(streams.pop());
    wait_until("room for one more", || opens(&site, "/api/v1/events"));
}

/// Whether a stream begins.
fn opens(site: &Site, path: &str) -> bool {
    let mut connection = site.connect();
    write!(
        connection,
        "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
        site.address, site.token
    )
    .unwrap();
    let mut status = [0; 12];
    connection.read_exact(&mut status).unwrap();
    status.ends_with(b"200")
}

#[test]
fn connections_are_bounded_and_a_closed_one_makes_room() {
    let rig = with_run();
    let site = Site::start(&rig);
    let (host, token) = (&site.address, &site.token);
    let request =
        format!("GET /api/v1/health HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n");
    let ask = |connection: &mut TcpStream| {
        connection.write_all(request.as_bytes()).unwrap();
        let mut answer = [0; 15];
        connection.read_exact(&mut answer).map(|()| answer.ends_with(b"200 OK"))
    };
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut connection = site.connect();
        assert!(ask(&mut connection).unwrap());
        open.push(connection);
    }
    let mut late = site.connect();
    late.set_read_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
    assert!(ask(&mut late).is_err(), "it waits");
    drop(open.pop());
    late.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    let mut answer = [0; 15];
    late.read_exact(&mut answer).unwrap();
    assert!(answer.ends_with(b"200 OK"), "now it has its turn");
}
