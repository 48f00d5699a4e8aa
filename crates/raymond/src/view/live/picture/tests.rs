//! The live view and `raymond status` say the same about every run.

use std::collections::BTreeMap;

use jiff::Timestamp;
use proptest::prelude::*;
use raymond_core::event::{Body, Event};
use raymond_core::evolve;
use serde_json::{Value, json};

use super::*;
use crate::store::Payloads;
use crate::view::status::{RunView, view};

const AGENTS: [&str; 6] = ["main", "main_a1", "main_b2", "main_c3", "main_c3_d1", "main_e4"];

fn started() -> Value {
    json!({
        "event": "run_started", "version": 1, "workflow": "wf", "scope": "/wf", "entry": "START.md", "cwd": "/",
        "nonce": "n", "options": { "budget_usd": 10.0 },
    })
}

/// An event of any kind that says something about agents, whether it fits the run or not: folding ignores it if not.
fn body() -> impl Strategy<Value = Value> {
    let agent = prop::sample::select(&AGENTS[..]);
    let state = prop::sample::select(&["A.md", "B.sh"][..]);
    (agent, state, 0_u8..19, 1_u64..4, 0_u32..3).prop_map(|(agent, state, kind, number, cost)| {
        let (cost, until) = (f64::from(cost) * 0.25, at(i64::try_from(number).unwrap() * 1000));
        let with = |body: Value| {
            let mut whole = json!({ "agent": agent, "state": state, "step": number, "attempt_cost_usd": cost });
            whole.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
            whole
        };
        let finished = |tag: &str, to: Value| {
            let mut body = json!({ "event": "step_finished", "tag": tag, "cost_usd": cost, "duration_ms": 1 });
            body.as_object_mut().unwrap().extend(to.as_object().unwrap().clone());
            with(body)
        };
        let parent = agent.rsplit_once('_').map(|(parent, _)| parent);
        let session = json!({ "id": "s" });
        match kind {
            0..=2 => with(json!({ "event": "agent_started", "cwd": "/", "parent": parent,
                "number": parent.map(|_| number), "fork": parent.map(|_| number) })),
            3..=6 => with(json!({ "event": "step_started", "attempt": number, "visits": 1, "hash": "h" })),
            7 => finished("goto", json!({ "target": "B.sh" })),
            8 => finished("join", json!({ "target": "B.sh" })),
            9 => finished("result", json!({ "result": "r" })),
            10 => with(json!({ "event": "step_failed", "error": "exit code 3", "stderr": "why", "fatal": cost > 0.0 })),
            11 => with(json!({ "event": "retry", "attempt": 2, "until": until, "error": "overloaded\nby many" })),
            12 => with(json!({ "event": "limit_waiting", "attempt": 2, "until": until, "error": "the limit" })),
            13 => with(json!({ "event": "reminder", "attempt": 2, "number": 1, "text": "t", "session": session })),
            14 => with(json!({ "event": "delayed", "until": until })),
            15 => with(json!({ "event": "ask_opened", "ask": format!("ask{number}"), "question": "Which?",
                "next": "A.md", "deadline": (cost > 0.0).then_some(until) })),
            16 => with(json!({ "event": "ask_closed", "ask": "ask1", "by": "answer", "target": "B.sh", "answer": "x" })),
            17 => with(json!({ "event": "agent_finished", "result": "r" })),
            _ => json!({ "event": "run_resumed", "options": { "budget_usd": if cost > 0.0 { 0.0 } else { 5.0 } },
                "interrupted": [{ "agent": agent, "step": number, "state": state, "estimated_cost_usd": cost }] }),
        }
    })
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + second).unwrap()
}

fn event(seq: u64, mut body: Value) -> Event {
    let seconds = i64::try_from(seq).unwrap();
    let envelope = json!({ "seq": seq, "time": at(seconds), "run": "r" });
    body.as_object_mut().unwrap().extend(envelope.as_object().unwrap().clone());
    serde_json::from_value(body).unwrap()
}

fn fold(bodies: Vec<Value>) -> impl Iterator<Item = (Event, Run)> {
    let bodies = [started()].into_iter().chain(bodies);
    bodies.zip(1..).scan(None, |run: &mut Option<Run>, (body, seq)| {
        let event = event(seq, body);
        *run = evolve::evolve(run.take(), &event);
        Some((event, run.clone()?))
    })
}

fn status(run: &Run) -> RunView {
    view(run, true, &Payloads::none())
}

/// What a person can read about an agent in both places.
type Said = (String, String, Activity, Option<Timestamp>, Option<String>);

fn said_by_picture(picture: &Picture) -> Vec<Said> {
    let mut rows: Vec<&Row> = picture.rows.iter().collect();
    rows.sort_by_key(|row| row.birth);
    let said = |row: &Row| {
        (row.agent.to_string(), row.state.to_string(), row.activity, row.until, row.error.clone())
    };
    rows.into_iter().map(said).collect()
}

fn said_by_status(status: &RunView) -> Vec<Said> {
    let agents = status.agents.iter();
    let said = agents.map(|agent| {
        let error = agent.error.as_deref().map(|error| one_line(error, TEXT_CHARS));
        (agent.id.clone(), agent.state.clone(), agent.status, agent.until, error)
    });
    said.collect()
}

fn check_agreement(run: &Run) {
    let (picture, status) = (Picture::of(run), status(run));
    assert_eq!(
        (&picture.run, picture.steps, picture.cost, picture.budget),
        (&status.run, status.steps, status.cost_usd, status.budget_usd)
    );
    assert_eq!(said_by_picture(&picture), said_by_status(&status));
    let mut counts = BTreeMap::new();
    status.agents.iter().for_each(|agent| *counts.entry(agent.status).or_insert(0) += 1);
    assert_eq!(picture.counts().filter(|(_, count)| *count > 0).collect::<BTreeMap<_, _>>(), counts);
    let mut asks: Vec<_> = status.asks.iter().map(|ask| (ask.agent.clone(), ask.id.clone())).collect();
    asks.sort();
    let questions = picture.rows.iter().filter_map(|row| {
        let question = row.question.as_ref()?;
        Some((row.agent.to_string(), question.ask.clone()))
    });
    let mut questions: Vec<_> = questions.collect();
    questions.sort();
    assert_eq!(questions, asks);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_live_view_and_status_agree(bodies in prop::collection::vec(body(), 0..60)) {
        for (_, run) in fold(bodies) {
            check_agreement(&run);
        }
    }

    /// A process that takes a run up from a snapshot shows what the one before it showed.
    #[test]
    fn a_snapshot_looks_the_same(bodies in prop::collection::vec(body(), 0..60)) {
        for (event, run) in fold(bodies) {
            let snapshot = Event { body: Body::Snapshot { state: Box::new(run.clone()) }, ..event };
            let line = serde_json::to_string(&snapshot).unwrap();
            let restored = evolve::evolve(None, &serde_json::from_str(&line).unwrap()).unwrap();
            prop_assert_eq!(Picture::of(&restored), Picture::of(&run));
        }
    }

    /// Agents for which there is no row are counted, and those that need a person have one first.
    #[test]
    fn a_picture_with_few_rows_is_a_part_of_the_whole(
        bodies in prop::collection::vec(body(), 0..60), most in 0_usize..4,
    ) {
        let (_, run) = fold(bodies).last().unwrap();
        let (whole, part) = (Picture::of(&run), Picture::with_rows(&run, most));
        prop_assert_eq!(part.rows.len(), most.min(whole.agents()));
        prop_assert_eq!(part.counts, whole.counts);
        prop_assert!(part.rows.iter().all(|row| whole.rows.contains(row)));
        let asking = |picture: &Picture| {
            picture.rows.iter().filter(|row| row.activity == Activity::Asking).count()
        };
        prop_assert_eq!(asking(&part), asking(&whole).min(most));
    }
}
