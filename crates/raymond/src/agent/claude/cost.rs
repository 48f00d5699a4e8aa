//! Counts the cost of a turn once, however it is reported.
//!
//! A process may print several `result` events, and what `total_cost_usd` means differs by release:
//!
//! | release | `total_cost_usd` | `model_usage_since_last_result` |
//! |---|---|---|
//! | up to 2.1.197 | of this process | absent |
//! | from 2.1.325 | of the session, including the session that it branched off | what is new |
//!
//! So each `result` adds the first of these that applies:
//!
//! 1. the sum of `model_usage_since_last_result`, if it names models and all of them have a cost;
//! 2. its total minus the total of the previous `result` of this process;
//! 3. where the stream is known to carry totals of the session (it numbers its results, or says that it is 2.1.325
//!    or later): its total less the last one known for the conversation it continues;
//! 4. its total. So with an unknown release, the cost is rather too high than too low.
//!
//! For what was streamed after the last `result`, or before one that reports an aborted request, no cost is reported.
//! It is estimated from token counts at list prices, and the cost is marked as estimated. The same holds for a figure
//! that cannot be a cost, such as a negative one. It never counts as zero: if nothing was streamed either, the cost is
//! marked as unknown.

use super::super::lines::shortened;
use super::super::price::{ModelPrice, Prices};
use super::super::{Cost, Tokens};
use serde_json::Value;
use std::collections::VecDeque;

/// The first release whose totals are known to be totals of the session.
const SESSION_TOTALS_SINCE: [u64; 3] = [2, 1, 325];

/// How many messages may be incomplete at once; beyond this the oldest counts as complete. Messages of subagents are
/// interleaved, but there are never this many.
const MOST_OPEN_MESSAGES: usize = 64;

/// How much of a model's name is kept.
const LONGEST_MODEL: usize = 200;

/// A token is about four characters of a model's answer.
const CHARACTERS_A_TOKEN: u64 = 4;

#[derive(Debug, Default)]
pub(super) struct Meter {
    prices: Prices,
    /// The model of the last message.
    model: Option<String>,
    /// The total known for the conversation that this turn continues.
    inherited_total: Option<f64>,
    totals_are_of_the_session: bool,
    counted: f64,
    estimated: bool,
    unknown: bool,
    last_total: Option<f64>,
    streamed: Streamed,
    /// What the results have told so far.
    told: Tokens,
}

impl Meter {
    /// `model` is the one that the turn asks for.
    pub(super) fn new(inherited_total: Option<f64>, prices: Prices, model: Option<String>) -> Meter {
        Meter { inherited_total, prices, model, ..Meter::default() }
    }

    pub(super) fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    pub(super) fn saw_version(&mut self, version: &str) {
        let mut parts = version.split('.').map(|part| part.parse::<u64>().unwrap_or(0));
        let release = [0; 3].map(|_: u64| parts.next().unwrap_or(0));
        self.totals_are_of_the_session |= release >= SESSION_TOTALS_SINCE;
    }

    /// Adds the message of an `assistant` event, or of a streamed `message_start`.
    pub(super) fn saw_message(&mut self, message: &Value) {
        let model = message.get("model").and_then(Value::as_str).unwrap_or_default();
        if model == "<synthetic>" {
            return;
        }
        let price = self.prices.of_or_dearest(Some(model));
        self.streamed.add(message, price);
        if !model.is_empty() {
            self.model = Some(shortened(model, LONGEST_MODEL));
        }
    }

    /// Adds the final counts of a streamed message.
    pub(super) fn saw_delta(&mut self, message_id: &str, usage: &Value) {
        if let Some(open) = self.streamed.open.iter_mut().find(|open| open.id == message_id) {
            open.raise(usage);
        }
    }

    pub(super) fn saw_result(&mut self, result: &Value) {
        self.totals_are_of_the_session |= result.get("result_index").is_some();
        let usage = result.get("usage").unwrap_or(&Value::Null);
        self.told = self.told.plus(tokens_of_models(result).unwrap_or_else(|| tokens(usage)));
        let total = result.get("total_cost_usd").and_then(dollars);
        let by_models = cost_of_models(result);
        let by_total = total.map(|total| total - self.already_in(total));
        let reported = by_models.or(by_total).unwrap_or(0.0);
        self.last_total = total.or(self.last_total);
        let mut streamed = std::mem::take(&mut self.streamed).usd();
        let figure_is_missing = total.is_none() || was_aborted(result);
        if total.is_none() {
            let price = self.prices.of_or_dearest(self.model.as_deref());
            streamed = streamed.max(Message::of_result(result, price).usd());
        }
        let is_impossible = total.is_none() && result.get("total_cost_usd").is_some();
        self.unknown |= is_impossible && by_models.is_none() && streamed <= 0.0;
        self.estimated |= figure_is_missing && streamed > reported;
        self.counted += if figure_is_missing { reported.max(streamed) } else { reported };
    }

    /// The part of a reported total that was counted before.
    fn already_in(&self, total: f64) -> f64 {
        let inherited = if self.totals_are_of_the_session { self.inherited_total } else { None };
        let earlier = self.last_total.or(inherited).unwrap_or(0.0);
        // If the total is smaller than before, the program has started to count again from zero.
        if earlier <= total { earlier } else { 0.0 }
    }

    /// What was reported, and an estimate of what was streamed since.
    pub(super) fn so_far(&self) -> f64 {
        self.counted + self.streamed.usd()
    }

    pub(super) fn cost(self) -> Cost {
        let unreported = self.streamed.usd();
        let told = self.told.plus(self.streamed.tokens());
        let session_total_usd =
            if self.totals_are_of_the_session { self.last_total.or(self.inherited_total) } else { None };
        Cost {
            usd: self.so_far(),
            estimated: self.estimated || unreported > 0.0,
            unknown: self.unknown,
            session_total_usd,
            tokens: told,
            ..Cost::default()
        }
    }
}

/// The counts in a `usage` object.
pub(super) fn tokens(usage: &Value) -> Tokens {
    let count = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or(0);
    Tokens {
        input: count("input_tokens"),
        output: count("output_tokens"),
        cache_write: count("cache_creation_input_tokens"),
        cache_read: count("cache_read_input_tokens"),
    }
}

/// What all models have read and written since the last `result`, if that is told. It includes subagents.
fn tokens_of_models(result: &Value) -> Option<Tokens> {
    let models =
        result.get("model_usage_since_last_result")?.as_object().filter(|models| !models.is_empty())?;
    let count = |model: &Value, name: &str| model.get(name).and_then(Value::as_u64);
    models.values().try_fold(Tokens::default(), |sum, model| {
        Some(sum.plus(Tokens {
            input: count(model, "inputTokens")?,
            output: count(model, "outputTokens")?,
            cache_write: count(model, "cacheCreationInputTokens").unwrap_or(0),
            cache_read: count(model, "cacheReadInputTokens").unwrap_or(0),
        }))
    })
}

fn was_aborted(result: &Value) -> bool {
    result.get("terminal_reason").and_then(Value::as_str).is_some_and(|reason| reason.starts_with("aborted"))
}

/// What all models cost since the last `result`, if that is told of each of them.
fn cost_of_models(result: &Value) -> Option<f64> {
    let models = result.get("model_usage_since_last_result")?.as_object()?;
    let costs: Option<Vec<f64>> =
        models.values().map(|model| model.get("costUSD").and_then(dollars)).collect();
    costs.filter(|costs| !costs.is_empty()).map(|costs| costs.iter().sum())
}

fn dollars(value: &Value) -> Option<f64> {
    value.as_f64().filter(|usd| usd.is_finite() && *usd >= 0.0)
}

/// Messages seen since the last reported cost. Each message arrives as several events that repeat its usage, so counts
/// are kept for each message and not added up.
#[derive(Debug, Default)]
struct Streamed {
    open: VecDeque<Message>,
    closed_usd: f64,
    closed_tokens: Tokens,
}

impl Streamed {
    fn add(&mut self, message: &Value, price: ModelPrice) {
        let id = shortened(message.get("id").and_then(Value::as_str).unwrap_or_default(), 100);
        let known = self.open.iter().position(|open| open.id == id);
        let at = known.unwrap_or_else(|| self.open(id, price));
        if let Some(open) = self.open.get_mut(at) {
            open.raise(message.get("usage").unwrap_or(&Value::Null));
            open.characters += message.get("content").map_or(0, characters);
        }
    }

    fn open(&mut self, id: String, price: ModelPrice) -> usize {
        if self.open.len() == MOST_OPEN_MESSAGES
            && let Some(oldest) = self.open.pop_front()
        {
            self.closed_usd += oldest.usd();
            self.closed_tokens = self.closed_tokens.plus(oldest.estimated());
        }
        self.open.push_back(Message { id, price, ..Message::default() });
        self.open.len() - 1
    }

    fn tokens(&self) -> Tokens {
        self.open.iter().map(Message::estimated).fold(self.closed_tokens, Tokens::plus)
    }

    fn usd(&self) -> f64 {
        self.closed_usd + self.open.iter().map(Message::usd).sum::<f64>()
    }
}

#[derive(Debug, Default)]
struct Message {
    id: String,
    price: ModelPrice,
    tokens: Tokens,
    /// How many of the tokens that were written to the cache are kept for an hour.
    long_writes: u64,
    characters: u64,
}

impl Message {
    /// All that a `result` tells about the work before it, for an estimate.
    fn of_result(result: &Value, price: ModelPrice) -> Self {
        let characters = result.get("result").map_or(0, characters);
        let mut message = Self { characters, price, ..Self::default() };
        message.raise(result.get("usage").unwrap_or(&Value::Null));
        message
    }

    fn raise(&mut self, usage: &Value) {
        let (known, told) = (self.tokens, tokens(usage));
        self.tokens = Tokens {
            input: known.input.max(told.input),
            output: known.output.max(told.output),
            cache_write: known.cache_write.max(told.cache_write),
            cache_read: known.cache_read.max(told.cache_read),
        };
        let long = usage.pointer("/cache_creation/ephemeral_1h_input_tokens").and_then(Value::as_u64);
        self.long_writes = self.long_writes.max(long.unwrap_or(0));
    }

    /// The output count of an unfinished message is a placeholder, so its length gives the better estimate.
    fn estimated(&self) -> Tokens {
        let output = self.tokens.output.max(self.characters.div_ceil(CHARACTERS_A_TOKEN));
        Tokens { output, ..self.tokens }
    }

    fn usd(&self) -> f64 {
        let used = self.estimated();
        self.price.of_request(used).of_writes(used, self.long_writes)
    }
}

/// How many characters the model wrote in these blocks, including tool inputs.
fn characters(content: &Value) -> u64 {
    match content {
        Value::String(text) => text.chars().count() as u64,
        Value::Array(items) => items.iter().map(characters).sum(),
        Value::Object(fields) => {
            let written = ["text", "thinking", "input"];
            match written.into_iter().find_map(|name| fields.get(name)) {
                Some(value) => characters(value),
                None => fields.values().map(characters).sum(),
            }
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn close(left: f64, right: f64) {
        assert!((left - right).abs() < 1e-9, "{left} is not {right}");
    }

    fn meter(inherited: Option<f64>, version: &str, results: &[Value]) -> Cost {
        let mut meter = Meter::new(inherited, Prices::default(), None);
        meter.saw_version(version);
        for result in results {
            meter.saw_result(result);
        }
        meter.cost()
    }

    #[test]
    fn totals_of_a_process_are_counted_once() {
        let results = [json!({"total_cost_usd": 0.5}), json!({"total_cost_usd": 0.7})];
        let cost = meter(Some(0.1), "2.1.197", &results);
        close(cost.usd, 0.7);
        assert!(!cost.estimated);
    }

    #[test]
    fn totals_of_a_session_are_counted_without_the_inherited_part() {
        let results = [json!({"total_cost_usd": 0.5}), json!({"total_cost_usd": 0.7})];
        let cost = meter(Some(0.1), "2.1.325", &results);
        close(cost.usd, 0.6);
        close(cost.session_total_usd.unwrap(), 0.7);
        close(meter(Some(0.9), "2.1.400", &results).usd, 0.7);
        let numbered = json!({"total_cost_usd": 0.5, "result_index": 0});
        close(meter(Some(0.1), "", &[numbered]).usd, 0.4);
    }

    #[test]
    fn usage_since_the_last_result_is_preferred() {
        let result = |total: f64, new: f64| {
            json!({"total_cost_usd": total,
                "model_usage_since_last_result": {"a": {"costUSD": new}, "b": {"costUSD": 0.01}}})
        };
        close(meter(None, "2.1.325", &[result(5.0, 0.5), result(6.0, 0.25)]).usd, 0.77);
    }

    #[test]
    fn a_message_in_pieces_is_estimated_once() {
        let mut meter = Meter::new(None, Prices::default(), None);
        let usage = json!({"input_tokens": 1_000_000, "output_tokens": 1});
        for text in ["abcd", "efgh"] {
            let content = json!([{"type": "text", "text": text}]);
            meter.saw_message(
                &json!({"id": "m", "model": "claude-haiku-4-5-20251001", "usage": usage, "content": content}),
            );
        }
        let cost = meter.cost();
        assert!(cost.estimated);
        close(cost.usd, 1.0 + 2.0 * 5.0 / 1e6);
    }

    #[test]
    fn a_reported_cost_replaces_the_estimate() {
        let mut meter = Meter::new(None, Prices::default(), None);
        meter.saw_message(&json!({"id": "m", "model": "opus", "usage": {"input_tokens": 1_000_000}}));
        meter.saw_result(&json!({"total_cost_usd": 0.25}));
        assert_eq!(meter.cost(), Cost { usd: 0.25, ..Cost::default() });
    }

    #[test]
    fn invalid_costs_are_ignored() {
        let results = [json!({"total_cost_usd": -3}), json!({"total_cost_usd": "x"})];
        close(meter(None, "2.1.325", &results).usd, 0.0);
    }

    #[test]
    fn a_total_counts_where_the_models_tell_nothing() {
        for models in
            [json!({}), json!({"a": {}}), json!({"a": {"costUSD": null}}), json!({"a": {"costUSD": -1}})]
        {
            let first = json!({"total_cost_usd": 0.5, "model_usage_since_last_result": models});
            let second = json!({"total_cost_usd": 0.7, "model_usage_since_last_result": models});
            close(meter(Some(0.1), "2.1.325", &[first, second]).usd, 0.6);
        }
    }

    #[test]
    fn a_figure_that_cannot_be_is_estimated_or_unknown_and_never_zero() {
        for figure in [json!(null), json!(-3), json!("x")] {
            let result = json!({"total_cost_usd": figure});
            assert!(meter(None, "2.1.325", std::slice::from_ref(&result)).unknown, "{figure}");
            let mut meter = Meter::new(None, Prices::default(), None);
            meter.saw_message(
                &json!({"id": "m", "model": "claude-haiku-4-5", "usage": {"input_tokens": 1_000_000}}),
            );
            meter.saw_result(&result);
            assert_eq!(meter.cost(), Cost { usd: 1.0, estimated: true, ..Cost::default() }, "{figure}");
        }
    }

    #[test]
    fn a_result_without_a_figure_costs_what_its_tokens_cost() {
        let usage = json!({"input_tokens": 11_000_000, "output_tokens": 100_000});
        for result in [json!({"usage": usage}), json!({"usage": usage, "total_cost_usd": null})] {
            let mut meter = Meter::new(None, Prices::default(), None);
            meter.saw_message(&json!({"id": "m", "model": "claude-opus-5-5", "usage": {"input_tokens": 9}}));
            meter.saw_result(&result);
            let cost = meter.cost();
            assert!(cost.estimated && !cost.unknown);
            close(cost.usd, 11.0 * 4.0 + 0.1 * 20.0);
            assert_eq!(cost.tokens.input, 11_000_000);
        }
    }

    /// What the real program reports for these tokens, which it does not do for a turn that is killed.
    #[test]
    fn estimates_are_at_the_prices_of_the_real_program() {
        for (model, used, reported) in [
            ("claude-opus-5-5", [111, 20, 500, 1000, 0], 0.005_944),
            ("claude-opus-5-5", [445, 80, 2000, 4000, 0], 0.023_78),
            ("claude-sonnet-5-5", [198_111, 40, 1000, 2000, 0], 0.401_722),
            ("claude-haiku-5-5", [101, 20, 500, 1000, 0], 0.000_150_1),
            ("claude-fable-5-2", [1000, 100, 10_000, 1000, 0], 0.008 + 0.004 + 0.002 + 0.01),
            ("claude-opus-4-8[1m]", [119, 20, 500, 1000, 0], 0.007_595),
            ("claude-sonnet-5", [198_000, 20, 500, 1000, 0], 0.398_8),
            ("claude-haiku-4-5-20251001", [129, 20, 500, 1000, 0], 0.001_529),
            // A write for an hour costs twice the input.
            ("claude-opus-5-5", [0, 0, 0, 1_000_000, 1_000_000], 8.0),
            ("claude-haiku-5-5", [0, 0, 0, 100_000, 40_000], 0.04 * 0.2 + 0.06 * 0.125),
        ] {
            let [input, output, read, written, long] = used;
            let mut meter = Meter::new(None, Prices::default(), None);
            meter.saw_message(&json!({"id": "m", "model": model, "usage": {
                "input_tokens": input, "output_tokens": output, "cache_read_input_tokens": read,
                "cache_creation_input_tokens": written,
                "cache_creation": {"ephemeral_1h_input_tokens": long, "ephemeral_5m_input_tokens": written - long},
            }}));
            let cost = meter.cost();
            assert!(
                cost.estimated && (cost.usd / reported - 1.0).abs() < 0.1,
                "{model}: {} for {reported}",
                cost.usd
            );
        }
    }

    #[test]
    fn many_messages_stay_bounded() {
        let mut streamed = Streamed::default();
        for number in 0..1000 {
            let price = Prices::default().of_or_dearest(Some("claude-haiku-4-5"));
            streamed.add(&json!({"id": number.to_string(), "usage": {"input_tokens": 1_000_000}}), price);
        }
        assert_eq!(streamed.open.len(), MOST_OPEN_MESSAGES);
        close(streamed.usd(), 1000.0);
    }
}
