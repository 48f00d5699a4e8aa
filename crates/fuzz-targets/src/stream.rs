//! The output of an agent program.

use std::time::Duration;

use raymond::agent::claude::Decoder;
use raymond::agent::{Cost, Exit, Seen};

use crate::pieces::cuttings;

/// A program may end in any of these ways after any output.
const EXITS: [Exit; 6] = [
    Exit::Code(0),
    Exit::Code(1),
    Exit::Signal(9),
    Exit::Lingered,
    Exit::Silent(Duration::from_secs(1)),
    Exit::Stopped,
];

/// How many names of refused tools are kept.
const MOST_DENIALS: usize = 100;

/// The result of a turn depends on the printed bytes, not on how they are cut into pieces. Its cost is a valid amount
/// of money, and the kept data is not longer than the output.
pub fn agent_stream(data: &[u8]) {
    let exit = EXITS[data.len() % EXITS.len()];
    let whole = decode(&[data], exit, data.len());
    for pieces in cuttings(data) {
        assert_eq!(decode(&pieces, exit, data.len()), whole, "in pieces: {pieces:?}");
    }
}

/// Everything that was seen and reported, as text, so that it can be compared even with NaN in it.
fn decode(pieces: &[&[u8]], exit: Exit, length: usize) -> (String, String) {
    let mut decoder = Decoder::new("00000000-0000-4000-8000-000000000000", Some(0.25));
    let seen: Vec<Seen> = pieces.iter().flat_map(|piece| decoder.feed(piece)).collect();
    // Every event is at least one line, or a block within one.
    assert!(seen.len() <= length, "{} events in {length} bytes", seen.len());
    let was_final = decoder.is_final();
    let ended = decoder.finish(exit, "some words on stderr");
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
