//! What opencode's agent may do without a person.
//!
//! A new conversation of `opencode run` denies the tools that wait for a person. A branch of it loses these rules, so they are
//! set for every turn, behind those of the user: the last rule that fits decides.

use std::fmt;

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The variable that has rules as a JSON object.
pub(super) const VARIABLE: &str = "OPENCODE_PERMISSION";

/// The tools that wait for a person.
const DENIED: [&str; 3] = ["question", "plan_enter", "plan_exit"];

/// The user's rules and ours. A value that is not an object is not read by the program either.
pub(super) fn rules(of_user: Option<&str>) -> String {
    let all = of_user.map(own_rules).unwrap_or_default();
    let own = all.iter().filter(|(name, _)| !DENIED.contains(&name.as_str()));
    let own = own.map(|(name, rule)| format!("{}:{}", serde_json::Value::from(name.as_str()), rule.get()));
    let ours = DENIED.iter().map(|name| format!("\"{name}\":\"deny\""));
    format!("{{{}}}", own.chain(ours).collect::<Vec<_>>().join(","))
}

/// Every rule in the order of the text, which counts.
fn own_rules(text: &str) -> Vec<(String, Box<RawValue>)> {
    let mut json = serde_json::Deserializer::from_str(text);
    let rules = json.deserialize_map(InOrder).unwrap_or_default();
    if json.end().is_ok() { rules } else { Vec::new() }
}

struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = Vec<(String, Box<RawValue>)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of rules")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut rules = Vec::new();
        while let Some(rule) = map.next_entry()? {
            rules.push(rule);
        }
        Ok(rules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_that_wait_for_a_person_are_denied_behind_the_rules_of_the_user() {
        const OURS: &str = r#""question":"deny","plan_enter":"deny","plan_exit":"deny"}"#;
        for (of_user, kept) in [
            (None, ""),
            (Some("{}"), ""),
            (Some("not JSON"), ""),
            (Some("\"allow\""), ""),
            (
                Some(r#"{"bash": {"git *": "allow", "*": "deny"}}"#),
                r#""bash":{"git *": "allow", "*": "deny"},"#,
            ),
            (
                Some(r#"{"webfetch":"deny","question":"allow","*":"allow"}"#),
                r#""webfetch":"deny","*":"allow","#,
            ),
        ] {
            assert_eq!(rules(of_user), format!("{{{kept}{OURS}"), "{of_user:?}");
        }
    }
}
