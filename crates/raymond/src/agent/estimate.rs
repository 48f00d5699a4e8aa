//! The tokens of a turn from the texts that its program has printed, for one that tells them too late or not at all.

use super::Tokens;

/// A token is about four letters.
const LETTERS_A_TOKEN: u64 = 4;

#[derive(Debug, Default)]
pub(super) struct Estimate {
    /// How many tokens the program's own instructions and tools have. They are sent with every call of the model.
    own: u64,
    /// The conversation so far.
    context: u64,
    tokens: Tokens,
    /// Whether the model has not answered since it was asked.
    is_asked: bool,
}

impl Estimate {
    pub(super) fn new(own: u64) -> Self {
        Self { own, ..Self::default() }
    }

    /// Something was sent to the model; several results of tools are one call.
    pub(super) fn asked(&mut self, text: &str) {
        let more = tokens_in(text);
        let sent =
            if self.is_asked { more } else { self.own.saturating_add(self.context).saturating_add(more) };
        self.tokens.input = self.tokens.input.saturating_add(sent);
        self.context = self.context.saturating_add(more);
        self.is_asked = true;
    }

    pub(super) fn answered(&mut self, text: &str) {
        let more = tokens_in(text);
        self.tokens.output = self.tokens.output.saturating_add(more);
        self.context = self.context.saturating_add(more);
        self.is_asked = false;
    }

    pub(super) fn tokens(&self) -> Tokens {
        self.tokens
    }
}

fn tokens_in(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX).div_ceil(LETTERS_A_TOKEN)
}
