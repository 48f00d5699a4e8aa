//! How much a model has read and written.

use serde::{Deserialize, Serialize};

/// Counts of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Tokens {
    /// Without tokens from the prompt cache.
    pub input: u64,
    pub output: u64,
    pub cache_write: u64,
    pub cache_read: u64,
}

impl Tokens {
    /// Whether nothing was counted.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Tokens::default()
    }

    pub fn plus(self, other: Tokens) -> Tokens {
        self.with(other, u64::saturating_add)
    }

    /// In each part the larger of both.
    #[must_use]
    pub fn at_least(self, other: Tokens) -> Tokens {
        self.with(other, u64::max)
    }

    /// What was added since `earlier`, or `None` if this cannot be a later total of the same conversation.
    pub fn since(self, earlier: Tokens) -> Option<Tokens> {
        let grew = self.input >= earlier.input
            && self.output >= earlier.output
            && self.cache_write >= earlier.cache_write
            && self.cache_read >= earlier.cache_read;
        grew.then(|| self.with(earlier, u64::saturating_sub))
    }

    fn with(self, other: Tokens, combine: fn(u64, u64) -> u64) -> Tokens {
        Tokens {
            input: combine(self.input, other.input),
            output: combine(self.output, other.output),
            cache_write: combine(self.cache_write, other.cache_write),
            cache_read: combine(self.cache_read, other.cache_read),
        }
    }
}

/// How full the model's window is after a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Context {
    /// How many tokens the conversation has.
    pub used: u64,
    /// How many the model can take.
    pub window: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_total_tells_what_was_added() {
        let first = Tokens { input: 90, output: 20, cache_write: 0, cache_read: 10 };
        let later = first.plus(Tokens { input: 1, output: 2, cache_write: 3, cache_read: 4 });
        assert_eq!(later.since(first), Some(Tokens { input: 1, output: 2, cache_write: 3, cache_read: 4 }));
        assert_eq!(first.since(later), None);
        assert_eq!(first.since(first), Some(Tokens::default()));
    }
}
