//! Finds out why a turn failed, from the most reliable sign: first the fields of the `result` event, then the error
//! kind of the last message, and the wording only if there is nothing else.

use super::super::ending::{LONGEST_QUOTE, tail, unfinished};
use super::super::lines::shortened;
use super::super::{TurnEnding, TurnFault};

/// The last `result` event.
#[derive(Debug, Default)]
pub(super) struct ResultEvent {
    pub(super) subtype: String,
    pub(super) is_error: bool,
    pub(super) api_error_status: Option<u16>,
    pub(super) terminal_reason: String,
    /// Why the model stopped: `end_turn` if it was finished.
    pub(super) stop_reason: String,
    pub(super) text: Option<String>,
    pub(super) errors: String,
    /// The tool whose call a hook has put off. The program waits for the hook's answer in a later process.
    pub(super) deferred_tool: Option<String>,
}

impl ResultEvent {
    /// An API error also has the subtype `success`, and an interrupted program exits with 0, so both are checked. A turn
    /// with a call that was put off is not over.
    pub(super) fn is_success(&self) -> bool {
        self.subtype == "success" && !self.is_error && self.deferred_tool.is_none()
    }

    fn message(&self) -> String {
        let said = self.text.as_deref().filter(|text| !text.is_empty()).unwrap_or(&self.errors);
        shortened(said.trim(), LONGEST_QUOTE)
    }
}

/// What the stream said about a failed turn besides its `result` event.
#[derive(Debug, Default)]
pub(super) struct Signs {
    /// `error` of the last assistant event, such as `rate_limit`.
    pub(super) error_kind: String,
    /// The reset time of a limit that was reported as reached, if there is one.
    pub(super) rejected_until: Option<Option<i64>>,
    /// Whether the program retried by itself before it failed.
    pub(super) retried: bool,
}

/// Why a turn that printed a `result` event failed.
pub(super) fn failed_result(result: &ResultEvent, signs: &Signs) -> TurnFault {
    by_subtype(result)
        .or_else(|| by_status(result, signs))
        .or_else(|| by_error_kind(result, signs))
        .or_else(|| by_wording(&result.message(), signs))
        .unwrap_or_else(|| TurnFault::Failed { message: result.message() })
}

fn by_subtype(result: &ResultEvent) -> Option<TurnFault> {
    if let Some(tool) = &result.deferred_tool {
        return Some(TurnFault::ToolDeferred { tool: tool.clone() });
    }
    let message = result.message();
    match result.subtype.as_str() {
        "error_max_budget_usd" => Some(TurnFault::OverBudgetShare),
        "error_max_turns" => Some(TurnFault::MaxTurns { message }),
        _ if result.terminal_reason.starts_with("aborted") => Some(TurnFault::Interrupted),
        _ if result.terminal_reason == "prompt_too_long" => Some(TurnFault::TooLong { message }),
        _ if result.errors.contains("No conversation found") => Some(TurnFault::SessionMissing { message }),
        _ => None,
    }
}

fn by_status(result: &ResultEvent, signs: &Signs) -> Option<TurnFault> {
    let message = result.message();
    Some(match result.api_error_status? {
        401 => TurnFault::NotLoggedIn { message },
        402 | 403 => by_wording(&message, signs).unwrap_or(TurnFault::Forbidden { message }),
        404 if signs.error_kind == "model_not_found" || message.contains("model") => {
            TurnFault::UnknownModel { message }
        }
        413 => TurnFault::TooLong { message },
        429 => limit_or_overload(message, signs),
        408 | 409 | 425 | 500.. => TurnFault::Overloaded { message },
        400..=499 => by_wording(&message, signs).unwrap_or(TurnFault::BadRequest { message }),
        _ => return None,
    })
}

fn by_error_kind(result: &ResultEvent, signs: &Signs) -> Option<TurnFault> {
    let message = result.message();
    Some(match signs.error_kind.as_str() {
        "authentication_failed" => TurnFault::NotLoggedIn { message },
        "billing_error" => TurnFault::Forbidden { message },
        "rate_limit" => limit_or_overload(message, signs),
        "model_not_found" => TurnFault::UnknownModel { message },
        "invalid_request" => by_wording(&message, signs).unwrap_or(TurnFault::BadRequest { message }),
        "server_error" | "overloaded" => {
            by_wording(&message, signs).unwrap_or(TurnFault::Overloaded { message })
        }
        _ => return None,
    })
}

/// A 429 is either a usage limit, which needs a wait, or an overload, which needs a retry. It is a limit if the program
/// reported one. It is also a limit if the program did not retry: it skips retries only if the service asks for a long
/// wait.
fn limit_or_overload(message: String, signs: &Signs) -> TurnFault {
    if let Some(resets_at) = signs.rejected_until {
        return TurnFault::LimitReached { resets_at, message };
    }
    if signs.retried && !names_a_limit(&message.to_lowercase()) {
        return TurnFault::Overloaded { message };
    }
    TurnFault::LimitReached { resets_at: reset_time_in(&message), message }
}

fn names_a_limit(lower_case: &str) -> bool {
    lower_case.contains("usage limit") || lower_case.contains("hit your") && lower_case.contains("limit")
}

/// Older releases wrote `Claude AI usage limit reached|1794716654`.
fn reset_time_in(message: &str) -> Option<i64> {
    message.rsplit_once('|').and_then(|(_, time)| time.trim().parse().ok())
}

/// The last resort. It is used only for the text of a failed turn, which is written by the program and not by the
/// model.
fn by_wording(message: &str, signs: &Signs) -> Option<TurnFault> {
    let lower_case = message.to_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| lower_case.contains(phrase));
    let message = message.to_owned();
    if says(&["not logged in", "/login", "invalid api key", "failed to authenticate", "oauth token"]) {
        return Some(TurnFault::NotLoggedIn { message });
    }
    if says(&["credit balance", "billing"]) {
        return Some(TurnFault::Forbidden { message });
    }
    if says(&["is too long", "request too large", "request_too_large"]) {
        return Some(TurnFault::TooLong { message });
    }
    if names_a_limit(&lower_case) {
        return Some(limit_or_overload(message, signs));
    }
    if says(&["issue with the selected model"]) {
        return Some(TurnFault::UnknownModel { message });
    }
    if says(&["unable to connect", "connection", "econn", "etimedout", "enotfound", "eai_again", "timed out"])
    {
        return Some(TurnFault::Connection { message });
    }
    says(&["overloaded", "server-side issue", "internal server error"])
        .then_some(TurnFault::Overloaded { message })
}

/// Why a turn failed that printed no `result` event, or one that its exit code contradicts.
pub(super) fn no_result(ending: TurnEnding, stderr: &str, unreadable_lines: u64) -> TurnFault {
    match unfinished(ending, stderr, by_stderr) {
        TurnFault::Junk { .. } => TurnFault::Junk { detail: junk_detail(stderr, unreadable_lines) },
        other => other,
    }
}

fn junk_detail(stderr: &str, unreadable_lines: u64) -> String {
    let read = match unreadable_lines {
        0 => "it printed no result".to_owned(),
        1 => "it printed no result, and a line that is not its protocol".to_owned(),
        many => format!("it printed no result, and {many} lines that are not its protocol"),
    };
    if stderr.trim().is_empty() { read } else { format!("{read}; {}", tail(stderr)) }
}

/// Errors from before the turn began are on stderr only.
fn by_stderr(stderr: &str) -> Option<TurnFault> {
    let message = tail(stderr);
    let says = |phrase: &str| stderr.contains(phrase);
    if says("cannot be used with root/sudo privileges") {
        return Some(TurnFault::RefusedForRoot);
    }
    if says("is already in use") {
        return Some(TurnFault::SessionInUse { message });
    }
    if says("No conversation found") {
        return Some(TurnFault::SessionMissing { message });
    }
    if says("Not logged in") || says("Invalid API key") {
        return Some(TurnFault::NotLoggedIn { message });
    }
    // `piped stdin input exceeds 10MB`
    if says("stdin input exceeds") {
        return Some(TurnFault::TooLong { message });
    }
    let bad_arguments = [
        "error: unknown option",
        "error: option",
        "error: --",
        "Invalid session ID",
        "Invalid MCP configuration",
    ];
    if bad_arguments.into_iter().any(says) {
        return Some(TurnFault::BadArguments { message });
    }
    says("Input must be provided").then_some(TurnFault::BadRequest { message })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(status: Option<u16>, text: &str) -> ResultEvent {
        ResultEvent {
            subtype: "success".to_owned(),
            is_error: true,
            api_error_status: status,
            text: Some(text.to_owned()),
            ..ResultEvent::default()
        }
    }

    #[test]
    fn wording_decides_if_there_is_no_field() {
        for (text, name) in [
            ("Invalid API key · Please run /login", "not_logged_in"),
            ("Credit balance is too low", "forbidden"),
            ("Claude AI usage limit reached|1794716654", "limit_reached"),
            ("API Error: Unable to connect to API (ConnectionRefused)", "connection"),
            ("API Error: Overloaded", "overloaded"),
            ("something new", "failed"),
        ] {
            assert_eq!(failed_result(&error(None, text), &Signs::default()).name(), name, "{text}");
        }
    }

    #[test]
    fn statuses_decide_before_wording() {
        for (status, name) in [
            (400, "bad_request"),
            (401, "not_logged_in"),
            (402, "forbidden"),
            (403, "forbidden"),
            (404, "bad_request"),
            (413, "too_long"),
            (500, "overloaded"),
            (503, "overloaded"),
            (529, "overloaded"),
        ] {
            assert_eq!(failed_result(&error(Some(status), "x"), &Signs::default()).name(), name, "{status}");
        }
    }

    #[test]
    fn the_reset_time_is_read_from_an_old_limit_text() {
        let fault = failed_result(&error(Some(429), "Claude AI usage limit reached|17"), &Signs::default());
        assert!(matches!(fault, TurnFault::LimitReached { resets_at: Some(17), .. }));
    }

    #[test]
    fn a_429_is_an_overload_only_if_it_was_retried() {
        let retried = Signs { retried: true, ..Signs::default() };
        assert_eq!(failed_result(&error(Some(429), "x"), &retried).name(), "overloaded");
        assert_eq!(failed_result(&error(Some(429), "x"), &Signs::default()).name(), "limit_reached");
    }

    #[test]
    fn errors_on_stderr_are_distinguished_from_crashes() {
        for (stderr, name) in [
            ("error: unknown option '--nope'\n(Did you mean --name?)", "bad_arguments"),
            ("Error: Invalid session ID. Must be a valid UUID.", "bad_arguments"),
            ("Error: Input must be provided either through stdin or as a prompt argument", "bad_request"),
            ("Error: piped stdin input exceeds 10MB. Pass large content as a file path", "too_long"),
            ("TypeError: undefined is not a function", "crashed"),
        ] {
            assert_eq!(no_result(TurnEnding::Code(1), stderr, 0).name(), name, "{stderr}");
        }
        assert_eq!(no_result(TurnEnding::Code(0), "", 3).name(), "junk");
    }

    #[test]
    fn only_the_end_of_a_long_stderr_is_quoted() {
        let long = format!("{}é", "x".repeat(3000));
        let tail = tail(&long);
        assert_eq!(tail.chars().count(), LONGEST_QUOTE + 1);
        assert!(tail.starts_with("…x") && tail.ends_with("xé"));
    }
}
