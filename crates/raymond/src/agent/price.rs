//! What tokens cost, for programs that report tokens and no dollars.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::Tokens;
use crate::config::{Dollars, LongPromptSettings, PriceSettings};

/// List prices of the models that the agent programs use most. `[prices]` in the config file adds to them and replaces
/// them.
const SHIPPED: &str = include_str!("prices.toml");

/// How much dearer than input it is to write to a cache that is kept for an hour, if a price does not say it.
const LONG_WRITE_FACTOR: f64 = 2.0;

/// Dollars for a million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Price {
    pub input: f64,
    pub output: f64,
    /// Of a cache that is kept for minutes.
    pub cache_write: f64,
    /// Of one that is kept for an hour.
    pub cache_write_1h: f64,
    pub cache_read: f64,
}

impl Price {
    pub fn of(&self, tokens: Tokens) -> f64 {
        self.of_writes(tokens, 0)
    }

    /// The same, if so many of the tokens that were written to the cache are kept for an hour.
    pub fn of_writes(&self, tokens: Tokens, long: u64) -> f64 {
        let long = long.min(tokens.cache_write);
        let parts = [
            (tokens.input, self.input),
            (tokens.output, self.output),
            (tokens.cache_write - long, self.cache_write),
            (long, self.cache_write_1h),
            (tokens.cache_read, self.cache_read),
        ];
        parts.into_iter().map(|(count, price)| count as f64 * price / 1e6).sum()
    }

    /// Whether its user has said that the model costs nothing.
    pub fn is_free(&self) -> bool {
        *self == Price::default()
    }

    /// In each part the dearer of two.
    fn dearer(self, other: Price) -> Price {
        Price {
            input: self.input.max(other.input),
            output: self.output.max(other.output),
            cache_write: self.cache_write.max(other.cache_write),
            cache_write_1h: self.cache_write_1h.max(other.cache_write_1h),
            cache_read: self.cache_read.max(other.cache_read),
        }
    }
}

/// The price of a model: of its usual requests, and of those with a prompt of more than so many tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ModelPrice {
    pub usual: Price,
    long: Option<(u64, Price)>,
}

impl ModelPrice {
    /// The price of one request.
    pub fn of_request(&self, tokens: Tokens) -> Price {
        let prompt = tokens.input.saturating_add(tokens.cache_write).saturating_add(tokens.cache_read);
        self.long.filter(|(above, _)| prompt > *above).map_or(self.usual, |(_, price)| price)
    }
}

impl From<PriceSettings> for ModelPrice {
    fn from(written: PriceSettings) -> ModelPrice {
        let PriceSettings { input, output, cache_write, cache_write_1h, cache_read, long_prompt } = written;
        ModelPrice {
            usual: price([input, output], cache_write, cache_write_1h, cache_read),
            long: long_prompt.map(|long| {
                let LongPromptSettings { above, input, output, cache_write, cache_write_1h, cache_read } =
                    long;
                (above, price([input, output], cache_write, cache_write_1h, cache_read))
            }),
        }
    }
}

/// What has no price of its own costs as much as other input.
fn price(
    [input, output]: [Dollars; 2],
    cache_write: Option<Dollars>,
    cache_write_1h: Option<Dollars>,
    cache_read: Option<Dollars>,
) -> Price {
    Price {
        input: input.0,
        output: output.0,
        cache_write: cache_write.unwrap_or(input).0,
        cache_write_1h: cache_write_1h.map_or(input.0 * LONG_WRITE_FACTOR, |price| price.0),
        cache_read: cache_read.unwrap_or(input).0,
    }
}

/// The prices of models by their names. Clones share them.
#[derive(Debug, Clone, PartialEq)]
pub struct Prices(Arc<Table>);

#[derive(Debug, PartialEq)]
struct Table {
    by_model: BTreeMap<String, ModelPrice>,
    dated: String,
}

#[derive(serde::Deserialize)]
struct Shipped {
    dated: String,
    prices: BTreeMap<String, PriceSettings>,
}

impl Default for Prices {
    /// Only the shipped prices.
    fn default() -> Self {
        static SHIPPED_ONLY: OnceLock<Prices> = OnceLock::new();
        SHIPPED_ONLY.get_or_init(|| Prices::new(&BTreeMap::new())).clone()
    }
}

impl Prices {
    /// The shipped prices, and those of the config file.
    pub fn new(configured: &BTreeMap<String, PriceSettings>) -> Prices {
        // A test reads the shipped table.
        let shipped = toml::from_str(SHIPPED);
        let Shipped { dated, prices } =
            shipped.unwrap_or(Shipped { dated: String::new(), prices: BTreeMap::new() });
        let all = prices.into_iter().chain(configured.iter().map(|(name, price)| (name.clone(), *price)));
        Prices(Arc::new(Table { by_model: all.map(|(name, price)| (name, price.into())).collect(), dated }))
    }

    /// The day on which the shipped prices were read.
    pub fn dated(&self) -> &str {
        &self.0.dated
    }

    /// The price of a model. A provider before its name (`openai/gpt-5`), and a date (`gpt-5-2025-08-07`) or a choice
    /// (`opus[1m]`) after it may be left out in the table.
    pub fn of(&self, model: &str) -> Option<Price> {
        self.of_model(model).map(|price| price.usual)
    }

    fn of_model(&self, model: &str) -> Option<ModelPrice> {
        let name = model.rsplit('/').next().unwrap_or(model);
        let plain = name.split('[').next().unwrap_or(name);
        let candidates = [model, name, plain, undated(plain)];
        candidates.into_iter().find_map(|name| self.0.by_model.get(name)).copied()
    }

    /// The dearest of all prices, part by part. It is for estimates of what has already happened with a model that has
    /// none; nothing is begun that only this price would hold.
    pub fn dearest(&self) -> Price {
        self.0.by_model.values().map(|price| price.usual).fold(Price::default(), Price::dearer)
    }

    /// The price of a model that may be unknown, for an estimate.
    pub fn of_or_dearest(&self, model: Option<&str>) -> ModelPrice {
        let known = model.and_then(|model| self.of_model(model));
        known.unwrap_or_else(|| ModelPrice { usual: self.dearest(), long: None })
    }

    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.0.by_model.keys().map(String::as_str)
    }
}

/// The line for the config file that gives a model a price.
pub fn line_to_add(model: &str) -> String {
    let key = toml::Value::String(model.to_owned());
    format!("{key} = {{ input = …, output = … }} under [prices], in dollars for a million tokens")
}

/// A model's name without the date at its end.
fn undated(name: &str) -> &str {
    let is_date = |text: &str| {
        let digits = text.bytes().filter(u8::is_ascii_digit).count();
        digits == 8 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
    };
    let ends = name.match_indices('-').map(|(at, _)| at);
    let dated = ends.into_iter().find(|at| is_date(&name[at + 1..]));
    dated.map_or(name, |at| &name[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_table_is_dated_and_can_be_overridden() {
        let prices = Prices::new(&BTreeMap::new());
        assert!(prices.dated().starts_with("20") && prices.models().count() > 5);
        let gpt = prices.of("gpt-5").unwrap();
        assert_eq!(prices.of("openai/gpt-5-2025-08-07"), Some(gpt));
        assert_eq!(prices.of("gpt-5-unknown"), None);
        let own: BTreeMap<String, PriceSettings> =
            toml::from_str("gpt-5 = { input = 1.0, output = 2.0, cache_read = 0.5 }").unwrap();
        let own = Prices::new(&own).of("gpt-5").unwrap();
        assert_eq!(
            own,
            Price { input: 1.0, output: 2.0, cache_write: 1.0, cache_write_1h: 2.0, cache_read: 0.5 }
        );
        let tokens = Tokens { input: 1_000_000, output: 500_000, cache_write: 0, cache_read: 2_000_000 };
        assert_eq!(own.of(tokens), 3.0);
    }

    /// The list prices in Claude Code 2.1.327: input, output, reading from the cache, writing to it for five minutes. Its list has 0.05
    /// for reading with haiku, which is what it reports of long prompts; of others it reports 0.01.
    #[test]
    fn every_model_of_claude_code_has_its_price_in_every_part() {
        let millions = 1_000_000;
        for (short, full, [input, output, read, write]) in [
            ("opus", "claude-opus-5-5", [4.0, 20.0, 0.2, 5.0]),
            ("sonnet", "claude-sonnet-5-5", [2.0, 10.0, 0.1, 2.5]),
            ("haiku", "claude-haiku-5-5", [0.1, 0.5, 0.01, 0.125]),
            ("fable", "claude-fable-5-2", [8.0, 40.0, 0.2, 10.0]),
        ] {
            for model in [short, full, &format!("{full}-20260801"), &format!("{full}[1m]")] {
                let price = Prices::default().of(model).unwrap_or_else(|| panic!("{model} has no price"));
                let of = |tokens| price.of(tokens);
                let nothing = Tokens::default();
                assert_eq!(of(Tokens { input: millions, ..nothing }), input, "{model}");
                assert_eq!(of(Tokens { output: millions, ..nothing }), output, "{model}");
                assert_eq!(of(Tokens { cache_write: millions, ..nothing }), write, "{model}");
                assert_eq!(
                    price.of_writes(Tokens { cache_write: millions, ..nothing }, millions),
                    2.0 * input,
                    "{model}"
                );
                assert_eq!(of(Tokens { cache_read: millions, ..nothing }), read, "{model}");
            }
        }
    }

    #[test]
    fn a_long_prompt_and_a_free_model_have_prices_of_their_own() {
        let haiku = Prices::default().of_or_dearest(Some("claude-haiku-5-5"));
        let prompt = |cache_read| Tokens { cache_read, ..Tokens::default() };
        assert_eq!(haiku.of_request(prompt(100_000)).cache_read, 0.01);
        assert_eq!(haiku.of_request(prompt(100_001)).cache_read, 0.05);
        let own: BTreeMap<String, PriceSettings> =
            toml::from_str("local = { input = 0, output = 0 }").unwrap();
        assert!(Prices::new(&own).of("ollama/local").unwrap().is_free());
        assert!(!haiku.usual.is_free());
    }

    #[test]
    fn the_dearest_price_is_at_least_every_other() {
        let prices = Prices::default();
        let dearest = prices.dearest();
        assert!(prices.models().all(|model| prices.of(model).unwrap().output <= dearest.output));
        assert_eq!(prices.of_or_dearest(Some("no-such-model")).usual, dearest);
    }
}
