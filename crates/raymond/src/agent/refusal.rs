//! Why a model's service refused a turn, from what agent programs pass on of its answer: the status of the answer if
//! they tell it, and its wording.

use super::TurnFault;
use super::ending::LONGEST_QUOTE;
use super::lines::shortened;
use super::reset_time::{now, reset_time, seconds_to_wait};

/// A service that asks for a shorter wait than this is busy; one that asks for a longer one has a limit.
const SHORT_WAIT_SECONDS: i64 = 60;

/// The fault of a turn that ended with this message.
pub(super) fn refusal(status: Option<u16>, message: &str) -> TurnFault {
    let message = shortened(message.trim(), LONGEST_QUOTE);
    let status = status.or_else(|| status_in(&message));
    let by_wording = by_wording(&message);
    match (status, by_wording) {
        (Some(401), _) => TurnFault::NotLoggedIn { message },
        (Some(402 | 403), _) => TurnFault::Forbidden { message },
        (Some(404), _) => TurnFault::UnknownModel { message },
        (Some(413), _) => TurnFault::TooLong { message },
        (Some(429), Some(fault @ TurnFault::Forbidden { .. })) => fault,
        (Some(429), _) => limit_or_overload(message),
        (Some(408 | 409 | 425 | 500..), _) => TurnFault::Overloaded { message },
        (_, Some(fault)) => fault,
        (Some(400..=499), None) => TurnFault::BadRequest { message },
        (_, None) => TurnFault::Failed { message },
    }
}

/// The status in `unexpected status 401 Unauthorized` or `last status: 429`, or at the start of the message.
pub(super) fn status_in(message: &str) -> Option<u16> {
    let after = message.split("status").skip(1).find_map(|rest| number(rest.trim_start_matches([':', ' '])));
    after.or_else(|| number(message))
}

fn number(text: &str) -> Option<u16> {
    let digits = text.get(..3).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    let ends = text[3..].chars().next().is_none_or(|next| !next.is_alphanumeric());
    digits.parse().ok().filter(|status| ends && (400..600).contains(status))
}

/// A usage limit. Its end may be known, or only be in its words.
pub(super) fn limit(resets_at: Option<i64>, message: String) -> TurnFault {
    let resets_at = resets_at.or_else(|| reset_time(&message, &now()));
    TurnFault::LimitReached { resets_at, message }
}

/// A limit that ends very soon is an overload: the turn is tried again.
fn limit_or_overload(message: String) -> TurnFault {
    match seconds_to_wait(&message) {
        Some(seconds) if seconds < SHORT_WAIT_SECONDS => TurnFault::Overloaded { message },
        _ => limit(None, message),
    }
}

fn by_wording(message: &str) -> Option<TurnFault> {
    let lower_case = message.to_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| lower_case.contains(phrase));
    let message = message.to_owned();
    Some(if says(&["billing", "insufficient_quota", "upgrade to plus", "upgrade your plan"]) {
        TurnFault::Forbidden { message }
    } else if says(&["usage limit", "rate limit", "too many requests", "quota"]) {
        limit_or_overload(message)
    } else if says(&["context window", "context length", "ran out of room", "prompt is too long"]) {
        TurnFault::TooLong { message }
    } else if says(&["max_output_tokens", "incomplete response"]) {
        TurnFault::Truncated { message }
    } else if says(&["does not exist", "model not found", "is not found for api version"]) {
        TurnFault::UnknownModel { message }
    } else if says(&["api key", "not logged in", "log in", "authenticat", "missing environment variable"]) {
        TurnFault::NotLoggedIn { message }
    } else if says(&["at capacity", "overloaded", "high demand", "server error", "server_error"]) {
        TurnFault::Overloaded { message }
    } else if says(&[
        "connect",
        "network",
        "fetch failed",
        "terminated",
        "timed out",
        "econn",
        "unexpected eof",
    ]) {
        TurnFault::Connection { message }
    } else if says(&["invalid_request_error"]) {
        TurnFault::BadRequest { message }
    } else {
        return None;
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_by_its_status_and_its_words() {
        for (status, message, name) in [
            (None, "unexpected status 401 Unauthorized: x", "not_logged_in"),
            (None, "exceeded retry limit, last status: 429 Too Many Requests", "limit_reached"),
            (None, "429: {\"message\":\"mock\"}", "limit_reached"),
            (None, "rate limit exceeded: Please try again in 1.5s.", "overloaded"),
            (None, "Quota exceeded. Check your plan and billing details.", "forbidden"),
            (Some(429), "You exceeded your current quota, check your billing details", "forbidden"),
            (Some(400), "This model's maximum context length is 128000 tokens.", "too_long"),
            (Some(400), "odd", "bad_request"),
            (Some(503), "usage limit", "overloaded"),
            (None, "The model `x` does not exist", "unknown_model"),
            (None, "{\"type\": \"invalid_request_error\"}", "bad_request"),
            (None, "4000 things", "failed"),
        ] {
            assert_eq!(refusal(status, message).name(), name, "{message}");
        }
    }
}
