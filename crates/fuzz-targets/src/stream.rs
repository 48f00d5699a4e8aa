//! The output of an agent program.

use std::time::Duration;

use raymond::agent::registry::program;
use raymond::agent::{AgentProgram, Continued, Cost, KINDS, Turn, TurnEnding, TurnEvent};
use raymond::config::BackendSettings;

use crate::pieces::cuttings;

/// A program that is paid for may end in any of these ways after any output.
const ENDINGS: [TurnEnding; 6] = [
    TurnEnding::Code(0),
    TurnEnding::Code(1),
    TurnEnding::Signal(9),
    TurnEnding::Lingered,
    TurnEnding::Silent(Duration::from_secs(1)),
    TurnEnding::Stopped,
];

/// How many names of refused tools are kept.
const MOST_DENIALS: usize = 100;

/// The result of a turn depends on the printed bytes, not on how they are cut into pieces. Its cost is a valid amount
/// of money, and the kept data is not longer than the output.
pub fn agent_stream(data: &[u8]) {
    let ending = ENDINGS[data.len() % ENDINGS.len()];
    for kind in KINDS {
        let Ok(program) = program(kind.name, &BackendSettings::default()) else { continue };
        let whole = decode(&*program, &[data], ending, data.len());
        for pieces in cuttings(data) {
            let cut = decode(&*program, &pieces, ending, data.len());
            assert_eq!(cut, whole, "{} in pieces: {pieces:?}", kind.name);
        }
    }
}

/// Everything that was seen and reported, as text, so that it can be compared whatever its numbers are.
fn decode(
    program: &dyn AgentProgram,
    pieces: &[&[u8]],
    ending: TurnEnding,
    length: usize,
) -> (String, String) {
    let continues = Some(Continued { total_usd: Some(0.25), ..Continued::default() });
    let mut decoder = program.decoder(&Turn { continues, ..Turn::default() });
    let mut seen: Vec<TurnEvent> = pieces.iter().flat_map(|piece| decoder.feed(piece)).collect();
    seen.extend(decoder.close());
    // Every event is at least a line of its own, or a block within one.
    assert!(seen.len() <= length, "{} events in {length} bytes", seen.len());
    let was_final = decoder.is_final();
    let ended = decoder.finish(ending, "some words on stderr");
    match &ended {
        Ok(report) => {
            check_cost(report.cost);
            // An invalid byte is replaced by a character of three bytes.
            assert!(report.text.len() <= 3 * length, "the message is longer than the output");
            assert!(report.permission_denials.len() <= MOST_DENIALS);
        }
        Err(failed) => {
            check_cost(failed.cost);
            assert!(failed.permission_denials.len() <= MOST_DENIALS);
        }
    }
    (format!("{seen:?}"), format!("{was_final} {ended:?}"))
}

fn check_cost(cost: Cost) {
    assert!(cost.usd.is_finite() && cost.usd >= 0.0, "{} is not a valid amount of money", cost.usd);
}
