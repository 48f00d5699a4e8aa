//! The cost of an answer.

use serde_json::{Value, json};

/// The tokens that one answer used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_write: u64,
    pub cache_read: u64,
}

impl Usage {
    /// Different for every answer, so that tests notice an answer that is counted twice or not at all.
    pub(crate) fn of_answer(number: u64) -> Self {
        Self { input: 100 + number, output: 20 + 3 * number, cache_write: 1000 + 8 * number, cache_read: 500 }
    }

    /// As reported in an answer, with the output tokens so far.
    pub(crate) fn json(self, output: u64) -> Value {
        json!({
            "input_tokens": self.input,
            "output_tokens": output,
            "cache_creation_input_tokens": self.cache_write,
            "cache_read_input_tokens": self.cache_read,
        })
    }
}

/// Billionths of a dollar. The prices are those that Claude Code knows for these models; a test that counts money must
/// use one of them.
pub fn nanos_for(model: &str, used: Usage) -> u64 {
    let (input, output) = match model {
        name if name.contains("haiku-4-5") => (1_000, 5_000),
        name if name.contains("sonnet-4") => (3_000, 15_000),
        _ => return 0,
    };
    used.input * input
        + used.output * output
        + used.cache_write * input * 5 / 4
        + used.cache_read * input / 10
}
