//! The tokens of a turn from the texts that its program has printed, for one that tells them only at the end and was killed. What was
//! said in the conversation before is not known, and counts nothing.

use super::Tokens;

/// A token is about four letters.
const LETTERS_A_TOKEN: u64 = 4;

/// About how many tokens a program's own instructions and tools have. They are sent with every call of the model.
pub(super) const OWN_TOKENS: u64 = 9_000;

#[derive(Debug, Default)]
pub(super) struct Estimate {
    /// The conversation so far.
    context: u64,
    tokens: Tokens,
    /// Whether the model has not answered since it was asked.
    is_asked: bool,
}

impl Estimate {
    /// Something was sent to the model; several results of tools are one call.
    pub(super) fn asked(&mut self, text: &str) {
        let more = tokens_in(text);
        let sent = match self.is_asked {
            true => more,
            false => OWN_TOKENS.saturating_add(self.context).saturating_add(more),
        };
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

    /// The same; nothing if the model has not answered at all, because it may have refused.
    pub(super) fn of_answers(&self) -> Tokens {
        if self.tokens.output == 0 { Tokens::default() } else { self.tokens }
    }
}

fn tokens_in(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX).div_ceil(LETTERS_A_TOKEN)
}
