//! Workflows by chance. States lead to later ones only, or back as long as the agent has not been there often, so
//! that every one of them ends.

use raymond_core::input::FaultClass;

use super::program::{Act, Does, Program, exits, fails, says};
use super::rng::Rng;

const MOST_STATES: usize = 7;
/// A worker's failure would show in what its parent joins, so scripts fail the whole run and are mended.
const SCRIPT: &str = "# raymond: timeout=5s retry=2 backoff=3s";
const PROMPT: &str = "---\nallowed_transitions:\n  - { tag: goto }\n  - { tag: reset }\n  - { tag: call }\n  - { tag: function }\n  - { tag: fork }\n  - { tag: join }\n  - { tag: ask }\n  - { tag: result }\ntimeout: 20s\n---\nGo on.";

/// How many steps a program may have, about.
const MOST_STEPS: usize = 30;

/// The program of a seed: the first of those it leads to that is not too long.
pub fn generate(seed: u64) -> Program {
    let mut rng = Rng::new(seed ^ 0x5eed);
    loop {
        if let Some(program) = attempt(&format!("generated {seed}"), &mut rng) {
            return program;
        }
    }
}

fn attempt(name_of_it: &str, rng: &mut Rng) -> Option<Program> {
    let count = 2 + rng.below(MOST_STATES - 1);
    let mut program = Program::new(name_of_it);
    // How many steps follow from each state; known for the later ones, which come first.
    let mut steps = vec![1; count];
    let (mut forks, mut goes_back) = (false, false);
    for state in (0..count).rev() {
        let is_prompt = rng.one_in(2);
        let file = format!("{}.{}", name(state), if is_prompt { "md" } else { "sh" });
        let mut visits = Vec::new();
        let (text, following) = transition(rng, state, &steps);
        steps[state] = 1 + following;
        forks |= text.contains("<fork");
        if state > 0 && rng.one_in(4) {
            goes_back = true;
            let back = rng.below(state);
            visits.push(tries(rng, is_prompt, format!("<goto input=\"again\">{}</goto>", name(back))));
            // The way there and back again.
            steps[state] = 2 * steps[state] + state;
        }
        visits.push(tries(rng, is_prompt, text));
        program = program.visits(&file, if is_prompt { PROMPT } else { SCRIPT }, visits);
    }
    let program = program.with(|program| {
        program.options.max_parallel = 1 + rng.below(3);
        program.pauses = rng.one_in(2);
        program.is_synced = !rng.one_in(4);
        program.segment_bytes = if rng.one_in(2) { 700 } else { 1_000_000 };
    });
    // Workers count their visits anew, so going back to a fork would never end.
    (steps[0] <= MOST_STEPS && !(forks && goes_back)).then_some(program)
}

fn name(state: usize) -> String {
    const NAMES: [&str; MOST_STATES + 1] = ["START", "BAKE", "CUT", "DRAW", "EDIT", "FOLD", "GLUE", "HEAT"];
    NAMES[state].to_owned()
}

/// A way on from a state, and how many steps it means.
fn transition(rng: &mut Rng, state: usize, steps: &[usize]) -> (String, usize) {
    let rest = steps.len() - state - 1;
    if rest == 0 {
        return ("<result>{agent} {visits} {input}</result>".to_owned(), 0);
    }
    let (first, second) = (state + 1 + rng.below(rest), state + 1 + rng.below(rest));
    let (to, next) = (name(first), name(second));
    let (one, both) = (steps[first], steps[first] + steps[second]);
    match rng.below(12) {
        0 => (format!("<reset input=\"{{visits}}\">{to}</reset>"), one),
        1 => (format!("<call return=\"{next}\" input=\"called\">{to}</call>"), both),
        2 => (format!("<function return=\"{next}\">{to}</function>"), both),
        3 => (format!("<fork next=\"{next}\" item=\"1\">{to}</fork>"), both),
        4 => (format!("<fork a=\"1\">{to}</fork><fork b=\"2\">{to}</fork><goto>{next}</goto>"), both + one),
        5 | 6 => (format!("<join>{to}</join>"), one),
        7 => (format!("<ask next=\"{to}\">Shall I?</ask>"), one),
        8 => (format!("<goto delay=\"{}s\">{to}</goto>", 1 + rng.below(100)), one),
        9 => ("<result>{visits} of {agent}</result>".to_owned(), 0),
        _ => (format!("<print>on</print><goto input=\"to {to}\">{to}</goto>"), one),
    }
}

/// Some tries that fail, and one that does not.
fn tries(rng: &mut Rng, is_prompt: bool, text: String) -> Vec<Act> {
    let mut tries = Vec::new();
    while rng.one_in(5) && tries.len() < 3 {
        tries.push(match rng.below(6) {
            0 => Act::new(Does::Hangs).stubborn(),
            1 => says("nothing to say"),
            2 if is_prompt => Act::new(Does::HitsLimit(100)),
            3 if is_prompt => fails(FaultClass::ShareUsed),
            4 => Act::new(Does::DiesBySignal),
            _ => exits(1),
        });
    }
    tries.push(says(&text));
    for act in &mut tries {
        act.cents = rng.below(9) as u32;
        act.seconds = 1 + rng.below(8) as u32;
        act.leaves_child = rng.one_in(6);
        act.is_stubborn |= rng.one_in(8);
    }
    tries
}
