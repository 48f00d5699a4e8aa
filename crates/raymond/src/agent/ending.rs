//! How a turn ended that its program did not finish, for all programs.

use super::lines::LONGEST_LINE;
use super::{Cost, TurnEnding, TurnFailure, TurnFault};

/// How much a fault quotes of the program's own message.
pub(super) const LONGEST_QUOTE: usize = 2000;

/// Why a turn failed whose program reported neither a final message nor an error. What it wrote to stderr before it
/// exited may tell more.
pub(super) fn unfinished(
    ending: TurnEnding,
    stderr: &str,
    by_stderr: impl Fn(&str) -> Option<TurnFault>,
) -> TurnFault {
    match ending {
        TurnEnding::Silent(after) => TurnFault::Silent { after },
        TurnEnding::OverTime(after) => TurnFault::OverTime { after },
        TurnEnding::Stopped => TurnFault::Interrupted,
        TurnEnding::Code(0) | TurnEnding::Lingered => {
            by_stderr(stderr).unwrap_or_else(|| TurnFault::Junk { detail: tail(stderr) })
        }
        TurnEnding::Code(code) => {
            by_stderr(stderr).unwrap_or_else(|| crashed(format!("exit code {code}"), stderr))
        }
        TurnEnding::Signal(signal) => crashed(format!("signal {signal}"), stderr),
    }
}

/// The failure of a turn, if a line of its output was too long to be read. That may have been its result, so the turn is
/// not repeated, and may have cost more than was told.
pub(super) fn after_skipping(has_skipped: bool, failure: Box<TurnFailure>) -> Box<TurnFailure> {
    let is_without_result = matches!(
        failure.fault,
        TurnFault::Junk { .. } | TurnFault::Crashed { .. } | TurnFault::Failed { .. }
    );
    if !has_skipped || !is_without_result {
        return failure;
    }
    let is_untold = failure.cost.usd <= 0.0 && failure.cost.tokens.is_zero();
    let cost = Cost { unknown: failure.cost.unknown || is_untold, estimated: true, ..failure.cost };
    let message = format!("a line over {} MiB", LONGEST_LINE >> 20);
    Box::new(TurnFailure { fault: TurnFault::OutputTooLong { message }, cost, ..*failure })
}

fn crashed(ending: String, stderr: &str) -> TurnFault {
    TurnFault::Crashed { ending, stderr: tail(stderr) }
}

/// The end of a text matters most.
pub(super) fn tail(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().rev().nth(LONGEST_QUOTE) {
        Some((at, skipped)) => format!("…{}", &text[at + skipped.len_utf8()..]),
        None => text.to_owned(),
    }
}

/// A failed turn of which nothing else is to be kept.
pub(super) fn failure(fault: TurnFault, cost: Cost, last_text: Option<String>) -> Box<TurnFailure> {
    Box::new(TurnFailure { fault, cost, final_text: None, last_text, permission_denials: Vec::new() })
}
