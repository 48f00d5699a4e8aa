//! What the view looks like: runs folded from events, on terminals of several sizes.

use std::fmt::Write;

use serde_json::{Value, json};

use super::*;
use raymond_core::event::Event;
use raymond_core::evolve;
use raymond_core::money::Usd;
use raymond_core::name::AgentId;
use raymond_core::run::Run;

/// The time of most tests: a minute and five seconds after the run began.
fn now() -> Timestamp {
    at(65)
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + second).unwrap()
}

/// A run that begins at second 0, and what its steps have printed.
struct Film {
    run: Run,
    printed: Vec<(AgentId, String)>,
}

impl Film {
    fn new() -> Self {
        let started = json!({
            "event": "run_started", "version": 1, "workflow": "wf", "scope": "/wf", "entry": "START.md",
            "cwd": "/", "nonce": "n", "options": { "budget_usd": 10.0 },
        });
        let started = event(1, 0, started);
        let run = evolve::evolve(None, &started).unwrap();
        Film { run, printed: Vec::new() }.born("main", None, "START.md")
    }

    fn then(mut self, second: i64, body: Value) -> Self {
        let event = event(self.run.seq + 1, second, body);
        evolve::apply(&mut self.run, &event);
        self
    }

    fn born(self, agent: &str, parent: Option<&str>, state: &str) -> Self {
        let mut body = json!({ "event": "agent_started", "agent": agent, "state": state, "cwd": "/" });
        if let Some(parent) = parent {
            let forked = json!({ "parent": parent, "number": 1, "fork": 1 });
            body.as_object_mut().unwrap().extend(forked.as_object().unwrap().clone());
        }
        self.then(0, body)
    }

    fn starts(self, second: i64, agent: &str, state: &str) -> Self {
        let body = json!({
            "event": "step_started", "agent": agent, "step": 1, "attempt": 1, "state": state, "visits": 1, "hash": "h",
        });
        self.then(second, body)
    }

    fn finishes(self, second: i64, agent: &str, state: &str, tag: &str, to: &str, cost: f64) -> Self {
        let body = json!({
            "event": "step_finished", "agent": agent, "step": 1, "state": state, "tag": tag, "target": to,
            "cost_usd": cost, "attempt_cost_usd": cost, "duration_ms": 1,
        });
        self.then(second, body)
    }

    fn prints(mut self, agent: &str, text: &str) -> Self {
        self.printed.push((AgentId::new(agent), text.to_owned()));
        self
    }

    fn scene(&self) -> Scene {
        let mut scene = Scene::new(Picture::of(&self.run));
        self.printed.iter().for_each(|(agent, text)| scene.add_output(agent, text.as_bytes()));
        scene
    }
}

fn event(seq: u64, second: i64, body: Value) -> Event {
    let mut event = json!({ "seq": seq, "time": at(second), "run": "review-20260921-101500-ab12" });
    event.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    serde_json::from_value(event).unwrap()
}

fn alone() -> Scene {
    Film::new().starts(3, "main", "START.md").prints("main", "Reading src/lib.rs\n").scene()
}

fn three() -> Scene {
    Film::new()
        .starts(1, "main", "START.md")
        .finishes(5, "main", "START.md", "goto", "REVIEW.md", 0.25)
        .starts(5, "main", "REVIEW.md")
        .born("main_tests1", Some("main"), "TESTS.sh")
        .born("main_write2", Some("main"), "WRITE.md")
        .starts(20, "main_tests1", "TESTS.sh")
        .starts(64, "main_write2", "WRITE.md")
        .finishes(64, "main_write2", "WRITE.md", "goto", "CHECK.md", 1.5)
        .prints("main", "I look at the parser first.\nBash: cargo test --workspace --all-targets\n")
        .prints("main_tests1", "10%\r20%\r\x1b[32m30% of 日本語の長い説明文はここで切られます\x1b[0m")
        .scene()
}

/// Forty workers with titles, of which some are done and one has failed.
fn fan_out() -> Scene {
    let forked = |film: Film, number: u64| {
        let title = if number == 7 {
            "Mend \u{202e}the way back".to_owned()
        } else {
            format!("Review part {number} of the parser")
        };
        let body = json!({
            "event": "agent_started", "agent": format!("main_review{number}"), "state": "REVIEW.md", "cwd": "/",
            "parent": "main", "number": number, "fork": number, "attributes": { "title": title },
        });
        film.then(1, body)
    };
    let film =
        Film::new().starts(0, "main", "START.md").finishes(1, "main", "START.md", "join", "END.md", 0.0);
    let film = (1..=40).fold(film, forked);
    let done = |film: Film, number: u64| {
        film.then(
            9,
            json!({ "event": "agent_finished", "agent": format!("main_review{number}"), "result": "r" }),
        )
    };
    (10..=20)
        .fold(film, done)
        .starts(10, "main_review7", "REVIEW.md")
        .prints("main_review7", "Bash: cargo test\n")
        .then(
            11,
            json!({ "event": "step_failed", "agent": "main_review8", "state": "REVIEW.md", "fatal": false,
            "error": "exit code 3" }),
        )
        .scene()
}

/// Two turns run whose streams tell what they cost.
fn spending() -> Scene {
    let mut scene = three();
    scene.spends(&AgentId::new("main"), Usd::from_dollars(0.125));
    scene.spends(&AgentId::new("main_tests1"), Usd::from_dollars(0.0042));
    scene
}

/// Each agent waits in another way.
fn waiting() -> Film {
    let workers = ["ask1", "late2", "limit3", "retry4", "bad5", "far6"];
    let film = Film::new().starts(1, "main", "START.md");
    let film =
        workers.iter().fold(film, |film, name| film.born(&format!("main_{name}"), Some("main"), "WORK.md"));
    let film = film.finishes(2, "main", "START.md", "join", "END.md", 0.0);
    let film = workers.iter().fold(film, |film, name| film.starts(3, &format!("main_{name}"), "WORK.md"));
    film.then(
        10,
        json!({ "event": "ask_opened", "agent": "main_ask1", "ask": "ask1", "state": "WORK.md", "next": "N.md",
            "question": "Which of\nthem?", "deadline": at(3665) }),
    )
    .then(11, json!({ "event": "delayed", "agent": "main_late2", "state": "WORK.md", "until": at(93) }))
    .then(
        12,
        json!({ "event": "limit_waiting", "agent": "main_limit3", "step": 1, "state": "WORK.md", "attempt": 2,
            "until": at(7500), "error": "limit", "attempt_cost_usd": 0.004 }),
    )
    .then(
        60,
        json!({ "event": "retry", "agent": "main_retry4", "step": 1, "state": "WORK.md", "attempt": 2,
            "until": at(80), "error": "the service is overloaded" }),
    )
    .then(
        13,
        json!({ "event": "step_failed", "agent": "main_bad5", "step": 1, "state": "WORK.md", "fatal": false,
            "error": "exit code 3" }),
    )
    .then(14, json!({ "event": "delayed", "agent": "main_far6", "state": "WORK.md", "until": at(200_000) }))
}

fn crowd() -> Scene {
    let names: Vec<String> = (1..500).map(|number| format!("main_worker{number}")).collect();
    let film =
        Film::new().starts(0, "main", "START.md").finishes(1, "main", "START.md", "join", "END.md", 0.0);
    let film = names.iter().fold(film, |film, name| film.born(name, Some("main"), "WORKER.md"));
    let film = names.iter().take(8).fold(film, |film, name| film.starts(30, name, "WORKER.md"));
    film.prints("main_worker3", "busy").scene()
}

/// Text from models and scripts with characters that a terminal would interpret.
fn hostile() -> Scene {
    let agent = "main_\u{202e}evil1";
    Film::new()
        .born(agent, Some("main"), "e\u{301}ta\u{301}t\u{202e}.md")
        .starts(1, agent, "e\u{301}ta\u{301}t\u{202e}.md")
        .prints(agent, "\x1b]0;owned\x07\x1b[2J\x1b[H\u{9b}31mtab\there\0 and 👩‍👩‍👧 \x1b")
        .then(
            2,
            json!({ "event": "step_failed", "agent": "main", "state": "START.md", "fatal": false,
            "error": "\u{1b}[31mred\u{7}\r\nsecond" }),
        )
        .scene()
}

fn stopping() -> Scene {
    let mut scene = three();
    scene.stopping();
    scene
}

fn drawn(scene: &Scene, width: usize, height: usize) -> String {
    let lines = render(scene, now(), width, height);
    let mut picture = String::new();
    for line in &lines {
        assert!(line.width() < width.max(1), "wider than {width}: {line:?}");
        let text: String = line.0.iter().map(|(_, text)| text.as_str()).collect();
        assert!(!text.chars().any(char::is_control), "{text:?}");
        let _ = writeln!(picture, "{}", text.trim_end());
    }
    assert!(lines.len() <= height.max(1), "higher than {height}");
    picture
}

#[test]
fn it_looks_like_this() {
    let mut pictures = String::new();
    for (name, scene, sizes) in [
        ("one agent", alone(), &[(80, 24), (40, 24), (20, 24), (200, 50)][..]),
        ("three agents", three(), &[(80, 24), (60, 24), (40, 24), (20, 24), (200, 50), (80, 4)]),
        ("all ways to wait", waiting().scene(), &[(100, 24), (80, 24), (40, 24), (20, 24)]),
        ("five hundred", crowd(), &[(80, 24), (20, 9), (80, 2)]),
        ("a fan-out", fan_out(), &[(120, 12), (80, 24), (40, 12), (20, 9)]),
        ("hostile text", hostile(), &[(80, 24), (40, 24)]),
        ("stopping", stopping(), &[(80, 4), (30, 2)]),
        ("spending", spending(), &[(80, 24), (40, 24), (20, 24)]),
    ] {
        for (width, height) in sizes {
            let _ = writeln!(pictures, "== {name}, {width} × {height}: {}", title(&scene.picture));
            pictures.push_str(&drawn(&scene, *width, *height));
        }
    }
    insta::assert_snapshot!(pictures);
}

/// Any size, including impossible ones.
#[test]
fn it_fits_every_terminal() {
    for scene in [alone(), three(), waiting().scene(), crowd(), hostile(), stopping(), spending()] {
        for width in 0..130 {
            for height in [0, 1, 2, 3, 5, 24] {
                drawn(&scene, width, height);
            }
        }
    }
}

#[test]
fn what_waits_stands_out() {
    let lines = render(&waiting().scene(), now(), 100, 24);
    let looks = |word: &str| {
        let pieces = lines.iter().flat_map(|line| &line.0);
        pieces.filter(|(_, text)| text.trim() == word).map(|(style, _)| *style).collect::<Vec<_>>()
    };
    assert_eq!(looks("asking"), [NOTE.bold()]);
    assert_eq!(looks("limited"), [NOTE]);
    assert_eq!(looks("delayed"), [NOTE, NOTE, NOTE]);
    assert_eq!(looks("joining"), [NOTE]);
    assert_eq!(looks("failed"), [BAD]);
}

#[test]
fn a_join_counts_the_workers_that_it_waits_for() {
    let done = json!({ "event": "agent_finished", "agent": "main_late2", "result": "ok" });
    let joined = json!({ "event": "joined", "agent": "main", "state": "END.md", "result": "[]",
        "workers": ["main_ask1", "main_late2", "main_limit3", "main_retry4", "main_bad5", "main_far6"] });
    let waits = |film: &Film| {
        let scene = film.scene();
        let main = scene.picture.rows.iter().find(|row| row.birth == 1).unwrap();
        detail(main, &scene, now())
    };
    let film = waiting();
    assert_eq!(waits(&film), "waits for 5 workers", "one of six has failed");
    let film = film.then(66, done);
    assert_eq!(waits(&film), "waits for 4 workers");
    let film = film.then(67, joined);
    assert_eq!((waits(&film), film.scene().picture.agents()), (String::new(), 1));
}

/// There are rows for a limited number of agents only; all others are counted.
#[test]
fn a_very_high_terminal_shows_as_many_agents_as_there_are_rows() {
    let lines = drawn(&crowd(), 80, 2000);
    assert_eq!(lines.lines().count(), 1 + MOST_ROWS + 1);
    assert!(lines.ends_with("… and 400 more: 400 ready\n"), "{lines}");
}

#[test]
fn an_estimate_is_gone_when_the_attempt_ends() {
    let mut scene = spending();
    assert!(drawn(&scene, 80, 24).contains("~$1.88 of $10.00"), "{}", drawn(&scene, 80, 24));
    scene.forget_attempt(&AgentId::new("main"));
    scene.forget_attempt(&AgentId::new("main_tests1"));
    let after = drawn(&scene, 80, 24);
    assert!(after.contains("$1.75 of $10.00") && !after.contains('~'), "{after}");
}
