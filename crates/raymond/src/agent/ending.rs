//! How a turn ended that its program did not finish, for all programs.

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
