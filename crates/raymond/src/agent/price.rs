//! What tokens cost, for programs that report tokens and no dollars.

use std::collections::BTreeMap;

use super::Tokens;
use crate::config::PriceSettings;

/// List prices of the models that the agent programs use most. `[prices]` in the config file adds to them and replaces
/// them.
const SHIPPED: &str = include_str!("prices.toml");

/// Dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    pub input: f64,
    pub output: f64,
    pub cache_write: f64,
    pub cache_read: f64,
}

impl Price {
    pub fn of(&self, tokens: Tokens) -> f64 {
        let parts = [
            (tokens.input, self.input),
            (tokens.output, self.output),
            (tokens.cache_write, self.cache_write),
            (tokens.cache_read, self.cache_read),
        ];
        parts.into_iter().map(|(count, price)| count as f64 * price / 1e6).sum()
    }
}

impl From<PriceSettings> for Price {
    /// What has no price of its own costs as much as other input.
    fn from(written: PriceSettings) -> Price {
        let PriceSettings { input, output, cache_write, cache_read } = written;
        Price {
            input: input.0,
            output: output.0,
            cache_write: cache_write.unwrap_or(input).0,
            cache_read: cache_read.unwrap_or(input).0,
        }
    }
}

/// The prices of models by their names.
#[derive(Debug, Clone)]
pub struct Prices {
    by_model: BTreeMap<String, Price>,
    /// The day on which the shipped prices were current.
    pub dated: String,
}

#[derive(serde::Deserialize)]
struct Shipped {
    dated: String,
    prices: BTreeMap<String, PriceSettings>,
}

impl Prices {
    /// The shipped prices, and those of the config file.
    pub fn new(configured: &BTreeMap<String, PriceSettings>) -> Prices {
        // A test reads the shipped table.
        let shipped = toml::from_str(SHIPPED);
        let Shipped { dated, prices } =
            shipped.unwrap_or(Shipped { dated: String::new(), prices: BTreeMap::new() });
        let all = prices.into_iter().chain(configured.iter().map(|(name, price)| (name.clone(), *price)));
        Prices { by_model: all.map(|(name, price)| (name, price.into())).collect(), dated }
    }

    /// The price of a model. A provider before its name (`openai/gpt-5`) and a date after it (`gpt-5-2025-08-07`) may
    /// be left out in the table.
    pub fn of(&self, model: &str) -> Option<Price> {
        let name = model.rsplit('/').next().unwrap_or(model);
        let candidates = [model, name, undated(name)];
        candidates.into_iter().find_map(|name| self.by_model.get(name)).copied()
    }

    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.by_model.keys().map(String::as_str)
    }
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
        assert!(prices.dated.starts_with("20") && prices.by_model.len() > 5);
        let gpt = prices.of("gpt-5").unwrap();
        assert_eq!(prices.of("openai/gpt-5-2025-08-07"), Some(gpt));
        assert_eq!(prices.of("gpt-5-unknown"), None);
        let own: BTreeMap<String, PriceSettings> =
            toml::from_str("gpt-5 = { input = 1.0, output = 2.0, cache_read = 0.5 }").unwrap();
        let own = Prices::new(&own).of("gpt-5").unwrap();
        assert_eq!(own, Price { input: 1.0, output: 2.0, cache_write: 1.0, cache_read: 0.5 });
        let tokens = Tokens { input: 1_000_000, output: 500_000, cache_write: 0, cache_read: 2_000_000 };
        assert_eq!(own.of(tokens), 3.0);
    }
}
