//! The rules of a script. `main.rs` explains the fields.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Rule {
    #[serde(rename = "match")]
    pub(crate) pattern: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) fresh: Option<bool>,
    pub(crate) times: Option<u64>,
    pub(crate) kind: Kind,
    pub(crate) reply: String,
    pub(crate) cost: Option<f64>,
    pub(crate) calls: Option<u32>,
    pub(crate) when: Point,
    pub(crate) exit: Option<u8>,
    pub(crate) signal: Option<i32>,
    pub(crate) resets_at: Option<u64>,
    pub(crate) resets_in: Option<u64>,
    pub(crate) message: Option<String>,
    pub(crate) stderr: String,
    pub(crate) delay_ms: u64,
    pub(crate) hold: Option<String>,
    pub(crate) pace_ms: u64,
    pub(crate) babble: u32,
    pub(crate) run: Option<String>,
    pub(crate) tools: Vec<String>,
    pub(crate) denied: Vec<String>,
    pub(crate) servers: BTreeMap<String, String>,
    pub(crate) deferred: Option<String>,
    pub(crate) earlier: Vec<String>,
    pub(crate) linger_ms: u64,
    pub(crate) child_s: Option<f64>,
    pub(crate) wrong_session: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    #[default]
    Reply,
    Crash,
    Hang,
    SilentEnd,
    Limit,
    RateLimited,
    Overloaded,
    Connection,
    NotLoggedIn,
    Unauthorized,
    #[serde(rename = "model_404")]
    Model404,
    TooLong,
    BadRequest,
    Budget,
    MaxTurns,
    Interrupted,
}

/// How far a turn gets before it crashes or hangs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Point {
    Start,
    Init,
    #[default]
    Text,
    Result,
}

/// The data by which a rule is chosen.
pub(crate) struct Situation<'a> {
    pub(crate) prompt: &'a str,
    pub(crate) model: &'a str,
    pub(crate) remembers: bool,
}

impl Rule {
    pub(crate) fn echo() -> Rule {
        Rule { reply: "echo: {{prompt}}".to_owned(), ..Rule::default() }
    }

    /// For a prompt that matches no rule: a failure that is not retried.
    pub(crate) fn no_match() -> Rule {
        let message = "fake-claude: no rule of the script matches this prompt".to_owned();
        Rule { kind: Kind::BadRequest, message: Some(message), ..Rule::default() }
    }

    pub(crate) fn matches(&self, situation: &Situation<'_>) -> bool {
        let contains =
            |text: &str, wanted: &Option<String>| wanted.as_ref().is_none_or(|part| text.contains(part));
        contains(situation.prompt, &self.pattern)
            && contains(situation.model, &self.model)
            && self.fresh.is_none_or(|fresh| fresh != situation.remembers)
    }

    pub(crate) fn cost(&self) -> f64 {
        let reaches_the_model =
            matches!(self.kind, Kind::Reply | Kind::Crash | Kind::Hang | Kind::Budget | Kind::MaxTurns);
        self.cost.unwrap_or(if reaches_the_model { 0.01 } else { 0.0 })
    }

    /// The cost at which the program stops for its budget; it checks the budget after each model call.
    pub(crate) fn stops_at(&self, budget_usd: Option<f64>) -> Option<f64> {
        let calls = f64::from(self.calls.unwrap_or(1).max(1));
        let one_call = self.cost() / calls;
        let budget = if self.kind == Kind::Budget { 0.0 } else { budget_usd? };
        // A small tolerance, so that rounding does not put a cost equal to the budget over it.
        if self.cost() <= budget + 1e-9 {
            return (self.kind == Kind::Budget).then_some(self.cost());
        }
        Some(((budget / one_call + 1e-9).floor() + 1.0).min(calls) * one_call)
    }
}

/// The rules, or none if there is no script.
pub(crate) fn load(path: &Path) -> Result<Option<Vec<Rule>>, Box<dyn Error>> {
    match std::fs::read(path) {
        Ok(bytes) => {
            let rules = serde_json::from_slice(&bytes);
            rules.map(Some).map_err(|error| format!("{}: {error}", path.display()).into())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{}: {error}", path.display()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_checked_after_each_model_call() {
        let rule = Rule { cost: Some(0.10), calls: Some(4), ..Rule::default() };
        let stop = |budget| rule.stops_at(budget).map(|usd| (usd * 1000.0).round());
        assert_eq!(stop(None), None);
        assert_eq!(stop(Some(0.10)), None);
        assert_eq!(stop(Some(0.03)), Some(50.0));
        assert_eq!(stop(Some(0.001)), Some(25.0));
        assert_eq!(stop(Some(0.09)), Some(100.0));
    }

    #[test]
    fn a_misspelt_field_is_an_error() {
        assert!(serde_json::from_str::<Rule>(r#"{"replay": "x"}"#).is_err());
    }
}
