use super::super::super::Class;
use super::*;
use proptest::prelude::*;
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A recorded run of the real program.
struct Sample {
    name: String,
    stdout: Vec<u8>,
    stderr: String,
    exit: Exit,
    session: String,
}

fn samples() -> Vec<Sample> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/claude");
    let mut names: Vec<PathBuf> = ["2.1.197", "2.1.325"]
        .into_iter()
        .flat_map(|version| std::fs::read_dir(root.join(version)).unwrap())
        .map(|entry| stem(&entry.unwrap().path()))
        .collect();
    names.sort();
    names.dedup();
    names.iter().map(|name| sample(&root, name)).collect()
}

/// `…/04-streamjson` for each of its files.
fn stem(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap().to_str().unwrap();
    let known = [".meta.json", ".jsonl", ".json", ".stderr"];
    let stem = known.into_iter().find_map(|ending| name.strip_suffix(ending)).unwrap();
    path.with_file_name(stem)
}

fn sample(root: &Path, stem: &Path) -> Sample {
    let file = |ending: &str| {
        let path = format!("{}{ending}", stem.display());
        std::fs::read(path).unwrap_or_default()
    };
    let mut stdout = file(".jsonl");
    stdout.extend(file(".json"));
    let meta: Value = serde_json::from_slice(&file(".meta.json")).unwrap_or_default();
    // A few runs were driven by hand and have no record of their exit.
    let code = meta["rc"].as_i64().unwrap_or(i64::from(stdout.is_empty())) as i32;
    Sample {
        name: stem.strip_prefix(root).unwrap().display().to_string().replace('\\', "/"),
        exit: if code < 0 { Exit::Signal(-code) } else { Exit::Code(code) },
        session: asked_session(&meta, &stdout),
        stderr: String::from_utf8(file(".stderr")).unwrap(),
        stdout,
    }
}

/// The id asked for, or, where the program was free to choose, the one that it chose.
fn asked_session(meta: &Value, stdout: &[u8]) -> String {
    let args: Vec<&str> = meta["args"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if let Some(at) = args.iter().position(|arg| *arg == "--session-id") {
        return args[at + 1].to_owned();
    }
    let mut decoder = Decoder::new("", None);
    decoder.feed(stdout);
    decoder.session.unwrap_or_default()
}

fn decode(sample: &Sample, chunk: usize) -> (Vec<Seen>, Result<TurnReport, Box<FailedTurn>>) {
    let mut decoder = Decoder::new(sample.session.as_str(), None);
    let seen = sample.stdout.chunks(chunk).flat_map(|bytes| decoder.feed(bytes)).collect();
    (seen, decoder.finish(sample.exit, &sample.stderr))
}

#[test]
fn every_recorded_run_is_understood() {
    let mut table = String::new();
    for sample in samples() {
        let (_, ended) = decode(&sample, usize::MAX);
        let name = &sample.name;
        let line = match &ended {
            Ok(report) => {
                format!("{} {:?}{}", cost(&report.cost), report.text, denied(&report.permission_denials))
            }
            Err(failed) => {
                let said =
                    failed.final_text.as_ref().map_or(String::new(), |text| format!(" (it said {text:?})"));
                format!("{} {:?} {}{said}", cost(&failed.cost), failed.fault.class(), failed.fault)
            }
        };
        writeln!(table, "{name}: {line}").unwrap();
    }
    insta::assert_snapshot!(table);
}

fn cost(cost: &super::super::super::Cost) -> String {
    format!("${:.6}{}", cost.usd, if cost.estimated { " (estimated)" } else { "" })
}

fn denied(tools: &[String]) -> String {
    if tools.is_empty() { String::new() } else { format!(" denied {tools:?}") }
}

#[test]
fn pieces_decode_like_the_whole() {
    for sample in samples() {
        let whole = decode(&sample, usize::MAX);
        for chunk in [1, 7, 4096] {
            assert_eq!(decode(&sample, chunk), whole, "{} in pieces of {chunk}", sample.name);
        }
    }
}

#[test]
fn a_fork_of_a_session_with_a_known_total_is_counted_once_without_deltas() {
    let sample = samples().into_iter().find(|sample| sample.name == "2.1.325/23-fork").unwrap();
    let without_deltas =
        String::from_utf8(sample.stdout).unwrap().replace("model_usage_since_last_result", "gone");
    let mut decoder = Decoder::new(sample.session, Some(0.017832));
    decoder.feed(without_deltas.as_bytes());
    let cost = decoder.finish(Exit::Code(0), "").unwrap().cost;
    assert!((cost.usd - 0.005944).abs() < 1e-9, "{cost:?}");
    assert_eq!(cost.session_total_usd, Some(0.023_776_000_000_000_002), "as the program wrote it");
}

fn line(event: Value) -> Vec<u8> {
    format!("{event}\n").into_bytes()
}

fn init() -> Vec<u8> {
    line(json!({"type": "system", "subtype": "init", "session_id": "s", "model": "haiku"}))
}

fn said(id: &str, text: &str) -> Vec<u8> {
    let usage = json!({"input_tokens": 1000, "output_tokens": 1});
    let content = json!([{"type": "text", "text": text}]);
    line(
        json!({"type": "assistant", "message": {"id": id, "model": "haiku", "usage": usage, "content": content}}),
    )
}

fn result(text: Option<&str>) -> Vec<u8> {
    line(json!({"type": "result", "subtype": "success", "is_error": false, "result": text, "session_id": "s",
        "total_cost_usd": 0.5}))
}

fn fed(lines: &[Vec<u8>]) -> Decoder {
    let mut decoder = Decoder::new("s", None);
    decoder.feed(&lines.concat());
    decoder
}

#[test]
fn another_session_is_not_accepted() {
    let mut decoder = Decoder::new("asked", None);
    decoder.feed(&[init(), result(Some("x"))].concat());
    let failed = decoder.finish(Exit::Code(0), "").unwrap_err();
    let fault = TurnFault::SessionMismatch { asked: "asked".to_owned(), got: "s".to_owned() };
    assert_eq!((failed.fault, failed.cost.usd), (fault, 0.5));
}

#[test]
fn work_in_the_background_makes_a_final_message_provisional() {
    let mut decoder = fed(&[init(), said("a", "one"), result(Some("one"))]);
    assert!(decoder.is_final());
    decoder.feed(&line(json!({"type": "system", "subtype": "task_updated"})));
    assert!(decoder.is_final());
    decoder.feed(&init());
    assert!(!decoder.is_final());
    decoder.feed(&[said("b", "two"), result(Some("two"))].concat());
    assert!(decoder.is_final());
    assert_eq!(decoder.finish(Exit::Lingered, "").unwrap().text, "two");
}

#[test]
fn a_turn_that_was_killed_is_estimated() {
    let failed =
        fed(&[init(), said("a", "abcd"), said("a", "efgh")]).finish(Exit::Signal(9), "").unwrap_err();
    assert!(failed.cost.estimated);
    assert!((failed.cost.usd - 0.00101).abs() < 1e-9, "{:?}", failed.cost);
    assert_eq!(failed.fault.class(), Class::Retry);
}

#[test]
fn a_final_message_survives_that_we_ended_the_program() {
    let stopped =
        [Exit::Stopped, Exit::Silent(Duration::from_secs(1)), Exit::OverTime(Duration::from_secs(1))];
    for exit in stopped {
        assert_eq!(fed(&[init(), result(Some("done"))]).finish(exit, "").unwrap().text, "done");
        assert!(fed(&[init(), result(Some("done")), init()]).finish(exit, "").is_err());
    }
    let failed = fed(&[init(), result(Some("done"))]).finish(Exit::Signal(9), "").unwrap_err();
    assert_eq!(failed.fault.name(), "crashed");
}

#[test]
fn the_last_message_stands_in_for_a_missing_result_text() {
    let lines = [init(), said("a", "first"), said("b", "se"), said("b", "cond"), result(None)];
    assert_eq!(fed(&lines).finish(Exit::Code(0), "").unwrap().text, "second");
}

#[test]
fn deltas_are_not_shown_twice() {
    let delta = |event: Value| line(json!({"type": "stream_event", "event": event}));
    let lines = [
        delta(json!({"type": "message_start", "message": {"id": "a", "model": "haiku"}})),
        delta(json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "hi"}})),
        said("a", "hi"),
        said("b", "you"),
    ];
    let seen = Decoder::new("s", None).feed(&lines.concat());
    assert_eq!(seen, [Seen::TextDelta("hi".to_owned()), Seen::Text("you".to_owned())]);
}

#[test]
fn a_reset_time_may_be_in_milliseconds() {
    assert_eq!(epoch_seconds(Some(&json!(1_794_716_654_000_u64))), Some(1_794_716_654));
    assert_eq!(epoch_seconds(Some(&json!(1_794_716_654.0))), Some(1_794_716_654));
    assert_eq!(epoch_seconds(Some(&json!("soon"))), None);
}

/// Words of the protocol with values of any shape, which is nastier than plain noise.
fn odd_event() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|value| json!(value)),
        any::<f64>().prop_map(|value| json!(value)),
        any::<i64>().prop_map(|value| json!(value)),
        prop::sample::select(vec![
            "assistant",
            "result",
            "system",
            "init",
            "api_retry",
            "user",
            "success",
            "text"
        ])
        .prop_map(|value| json!(value)),
    ];
    let name = prop::sample::select(vec![
        "type",
        "subtype",
        "message",
        "content",
        "usage",
        "id",
        "event",
        "delta",
        "text",
        "session_id",
        "errors",
        "permission_denials",
        "total_cost_usd",
        "model_usage_since_last_result",
        "rate_limit_info",
        "resetsAt",
        "claude_code_version",
        "result",
        "costUSD",
        "input",
        "name",
        "api_error_status",
        "terminal_reason",
    ]);
    let value = leaf.prop_recursive(4, 32, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..6).prop_map(|fields| fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    });
    prop_oneof![value.prop_map(line), prop::collection::vec(any::<u8>(), 0..200)]
}

proptest! {
    #[test]
    fn nothing_a_program_prints_makes_it_panic(
        events in prop::collection::vec(odd_event(), 0..12),
        chunk in 1_usize..64,
        code in 0..2,
    ) {
        let bytes = events.concat();
        let mut whole = Decoder::new("s", Some(1.0));
        let seen_whole = whole.feed(&bytes);
        let mut pieces = Decoder::new("s", Some(1.0));
        let seen_pieces: Vec<Seen> = bytes.chunks(chunk).flat_map(|piece| pieces.feed(piece)).collect();
        prop_assert_eq!(seen_whole, seen_pieces);
        let ended = whole.finish(Exit::Code(code), "");
        let usd = ended.as_ref().map_or_else(|failed| failed.cost.usd, |report| report.cost.usd);
        prop_assert!(usd >= 0.0);
        prop_assert_eq!(ended, pieces.finish(Exit::Code(code), ""));
    }
}
