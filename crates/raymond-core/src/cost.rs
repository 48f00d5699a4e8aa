//! The cost of a turn: a type that cannot be made free by mistake.

use serde::{Deserialize, Serialize};

use crate::money::Usd;
use crate::tokens::{Context, Tokens};

/// The smallest amount that is shown. A turn costs it if its tokens have no price at all.
const LEAST: Usd = Usd::millionth();

/// The cost of a turn. A turn that used tokens never costs nothing, unless its user has said that it is not counted:
/// there is no way to make such a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Fields", into = "Fields")]
pub struct TurnCost(Fields);

/// The same as it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Fields {
    usd: Usd,
    estimated: bool,
    tokens: Tokens,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    uncounted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<Context>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    compacted: bool,
}

impl TurnCost {
    /// A cost that the program has told, or that follows from its tokens. A negative amount is no cost.
    pub fn of(usd: Usd, tokens: Tokens) -> Self {
        Self::from(Fields { usd, tokens, ..Fields::default() })
    }

    /// A cost that was computed, because the program has not told it.
    pub fn estimated(usd: Usd, tokens: Tokens) -> Self {
        Self::from(Fields { usd, tokens, estimated: true, ..Fields::default() })
    }

    /// The user has said that such turns are not counted, or that they are free.
    pub fn uncounted(tokens: Tokens) -> Self {
        Self::from(Fields { tokens, uncounted: true, ..Fields::default() })
    }

    /// The same turn, with what it left of the model's window.
    #[must_use]
    pub fn in_context(self, context: Option<Context>, compacted: bool) -> Self {
        Self(Fields { context, compacted, ..self.0 })
    }

    /// Whether part of it was computed, because the program did not tell it.
    pub fn is_estimated(&self) -> bool {
        self.0.estimated
    }

    pub fn usd(&self) -> Usd {
        self.0.usd
    }

    /// What the model has read and written, as far as the program told.
    pub fn tokens(&self) -> Tokens {
        self.0.tokens
    }

    /// How full the model's window was at the end, if the program tells.
    pub fn context(&self) -> Option<Context> {
        self.0.context
    }

    /// Whether the program has summarised the conversation within the turn.
    pub fn is_compacted(&self) -> bool {
        self.0.compacted
    }
}

impl From<Fields> for TurnCost {
    fn from(fields: Fields) -> Self {
        let usd = fields.usd.max(Usd::ZERO);
        let is_missing = usd.is_zero() && !fields.tokens.is_zero() && !fields.uncounted;
        match is_missing {
            true => Self(Fields { usd: LEAST, estimated: true, ..fields }),
            false => Self(Fields { usd, ..fields }),
        }
    }
}

impl From<TurnCost> for Fields {
    fn from(cost: TurnCost) -> Self {
        cost.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_never_free_by_mistake() {
        let used = Tokens { output: 1, ..Tokens::default() };
        let nothing = Tokens::default();
        assert_eq!(TurnCost::of(Usd::ZERO, used).usd(), LEAST);
        assert!(TurnCost::of(Usd::ZERO, used).is_estimated());
        assert_eq!(TurnCost::of(Usd::ZERO, nothing).usd(), Usd::ZERO);
        assert_eq!(TurnCost::of(Usd::ZERO - Usd::cent(), used).usd(), LEAST);
        assert_eq!(TurnCost::uncounted(used).usd(), Usd::ZERO);
        let read: TurnCost = serde_json::from_str(r#"{"usd":0,"tokens":{"input":7}}"#).unwrap();
        assert_eq!(read.usd(), LEAST, "what another machine sends is held to it, too");
        let text = serde_json::to_string(&TurnCost::uncounted(used)).unwrap();
        assert_eq!(serde_json::from_str::<TurnCost>(&text).unwrap(), TurnCost::uncounted(used));
    }
}
