use super::super::super::suite::samples;
use super::super::super::{AgentProgram, Class, Continued, TurnReader};
use super::*;
use crate::agent::registry::program;
use crate::config::BackendSettings;
use proptest::prelude::*;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

type Ended = Result<TurnReport, Box<TurnFailure>>;

fn claude() -> Arc<dyn AgentProgram> {
    program("claude", &BackendSettings::default()).unwrap()
}

/// A turn that continues a conversation with this total.
fn continuing(total: f64) -> Turn {
    let continues = Some(Continued { total_usd: Some(total), ..Continued::default() });
    Turn { continues, ..Turn::default() }
}

fn finish(mut decoder: Decoder, ending: TurnEnding) -> Ended {
    decoder.close();
    Box::new(decoder).finish(ending, "")
}

#[test]
fn a_fork_of_a_session_with_a_known_total_is_counted_once_without_deltas() {
    let sample = samples("claude").into_iter().find(|sample| sample.name == "2.1.325/23-fork").unwrap();
    let without_deltas =
        String::from_utf8(sample.stdout).unwrap().replace("model_usage_since_last_result", "gone");
    let mut decoder = Decoder::new(&continuing(0.017832));
    decoder.feed(without_deltas.as_bytes());
    let cost = finish(decoder, TurnEnding::Code(0)).unwrap().cost;
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
    let mut decoder = Decoder::new(&Turn::default());
    decoder.feed(&lines.concat());
    decoder
}

#[test]
fn another_session_is_not_accepted() {
    let turn = Turn { session: Some("asked".to_owned()), ..Turn::default() };
    let over_share = line(json!({"type": "result", "subtype": "error_max_budget_usd", "is_error": true,
        "session_id": "s", "total_cost_usd": 0.5}));
    for end in [result(Some("x")), over_share] {
        let mut reader = TurnReader::new(&*claude(), &turn);
        reader.feed(&[init(), end].concat());
        let failed = reader.finish(TurnEnding::Code(0), "").unwrap_err();
        let fault = TurnFault::SessionMismatch { asked: "asked".to_owned(), got: "s".to_owned() };
        assert_eq!((failed.fault, failed.cost.usd), (fault, 0.5));
    }
}

#[test]
fn a_message_is_not_final_while_background_work_goes_on() {
    let mut decoder = fed(&[init(), said("a", "one"), result(Some("one"))]);
    assert!(decoder.is_final());
    decoder.feed(&line(json!({"type": "system", "subtype": "task_updated"})));
    assert!(decoder.is_final());
    decoder.feed(&init());
    assert!(!decoder.is_final());
    decoder.feed(&[said("b", "two"), result(Some("two"))].concat());
    assert!(decoder.is_final());
    assert_eq!(finish(decoder, TurnEnding::Lingered).unwrap().text, "two");
}

#[test]
fn the_cost_of_a_killed_turn_is_estimated() {
    let decoder = fed(&[init(), said("a", "abcd"), said("a", "efgh")]);
    let failed = finish(decoder, TurnEnding::Signal(9)).unwrap_err();
    assert!(failed.cost.estimated);
    assert!((failed.cost.usd - 0.000_101).abs() < 1e-9, "{:?}", failed.cost);
    assert_eq!(failed.fault.class(), Class::Retry);
}

#[test]
fn a_final_message_counts_if_raymond_ended_the_program() {
    let second = Duration::from_secs(1);
    for ending in [TurnEnding::Stopped, TurnEnding::Silent(second), TurnEnding::OverTime(second)] {
        assert_eq!(finish(fed(&[init(), result(Some("done"))]), ending).unwrap().text, "done");
        assert!(finish(fed(&[init(), result(Some("done")), init()]), ending).is_err());
    }
    let failed = finish(fed(&[init(), result(Some("done"))]), TurnEnding::Signal(9)).unwrap_err();
    assert_eq!(failed.fault.name(), "crashed");
}

#[test]
fn the_last_message_replaces_a_missing_result_text() {
    let lines = [init(), said("a", "first"), said("b", "se"), said("b", "cond"), result(None)];
    assert_eq!(finish(fed(&lines), TurnEnding::Code(0)).unwrap().text, "second");
}

#[test]
fn text_that_arrives_in_deltas_is_shown_once_and_as_a_whole() {
    let delta = |event: Value| line(json!({"type": "stream_event", "event": event}));
    let lines = [
        delta(json!({"type": "message_start", "message": {"id": "a", "model": "haiku"}})),
        delta(json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "hi"}})),
        said("a", "hi"),
        said("b", "you"),
    ];
    let seen = Decoder::new(&Turn::default()).feed(&lines.concat());
    assert_eq!(seen, [TurnEvent::Text("hi".to_owned()), TurnEvent::Text("you".to_owned())]);
}

#[test]
fn a_reset_time_may_be_in_milliseconds() {
    assert_eq!(epoch_seconds(Some(&json!(1_794_716_654_000_u64))), Some(1_794_716_654));
    assert_eq!(epoch_seconds(Some(&json!(1_794_716_654.0))), Some(1_794_716_654));
    assert_eq!(epoch_seconds(Some(&json!("soon"))), None);
}

/// Words of the protocol with values of any type, which find more errors than random bytes.
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
    fn no_output_makes_the_decoder_panic(
        events in prop::collection::vec(odd_event(), 0..12),
        chunk in 1_usize..64,
        code in 0..2,
    ) {
        let bytes = events.concat();
        let mut whole = Decoder::new(&continuing(1.0));
        let seen_whole = whole.feed(&bytes);
        let mut pieces = Decoder::new(&continuing(1.0));
        let seen_pieces: Vec<TurnEvent> = bytes.chunks(chunk).flat_map(|piece| pieces.feed(piece)).collect();
        prop_assert_eq!(seen_whole, seen_pieces);
        let ended = finish(whole, TurnEnding::Code(code));
        let usd = ended.as_ref().map_or_else(|failed| failed.cost.usd, |report| report.cost.usd);
        prop_assert!(usd >= 0.0);
        prop_assert_eq!(ended, finish(pieces, TurnEnding::Code(code)));
    }
}
