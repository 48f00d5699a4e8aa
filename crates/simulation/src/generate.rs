//! Random workflows, one to four that enter each other, in all forms. States lead only to later states, or back a
//! limited number of times, so every program ends.

use raymond_core::input::FaultClass;

use crate::program::{Act, Does, Program, exits, fails, says};
use crate::rng::Rng;

const MOST_STATES: usize = 7;
/// A worker's failure would show in the input of its parent's join. So a failed script fails the whole run, and it
/// succeeds after a resume.
const SCRIPT: &str = "# raymond: timeout=5s retry=2 backoff=3s";
const PROMPT: &str = "---
allowed_transitions:
  - { tag: goto }
  - { tag: reset }
  - { tag: call }
  - { tag: function }
  - { tag: fork }
  - { tag: join }
  - { tag: ask }
  - { tag: result }
  - { tag: call-workflow }
  - { tag: function-workflow }
  - { tag: fork-workflow }
  - { tag: reset-workflow }
timeout: 20s
---
Go on.";
/// The other workflows.
const OTHERS: [&str; 3] = ["first.zip", "second.yaml", "third"];
/// Folders that a `cd` may name from anywhere.
const FOLDERS: [&str; 4] = ["{home}/here", "{home}/there", "{home}/there/below", ".."];

/// About how many steps a program may have.
const MOST_STEPS: usize = 30;

/// The program of a seed: the first generated one that is not too long.
pub fn generate(seed: u64) -> Program {
    let mut rng = Rng::new(seed ^ 0x5eed);
    loop {
        if let Some(program) = attempt(&format!("generated {seed}"), &mut rng) {
            return program;
        }
    }
}

/// What is known about a program's states; later states come first.
struct Plan {
    /// How many steps follow from each state.
    steps: Vec<usize>,
    /// Which workflow each state is in; the first workflow is the run's own.
    homes: Vec<usize>,
    /// The names of the workflows, which decide their forms.
    workflows: Vec<&'static str>,
}

fn attempt(name_of_it: &str, rng: &mut Rng) -> Option<Program> {
    let count = 2 + rng.below(MOST_STATES - 1);
    let own = *rng.pick(&["own", "own", "own.zip", "own.yaml"]);
    let workflows: Vec<&str> = [own].into_iter().chain(OTHERS).take(1 + rng.below(4)).collect();
    let mut homes: Vec<usize> = (0..count).map(|_| rng.below(workflows.len())).collect();
    homes[0] = 0;
    let mut plan = Plan { steps: vec![1; count], homes, workflows };
    let mut states = Vec::new();
    let (mut forks, mut goes_back) = (false, false);
    for state in (0..count).rev() {
        let is_prompt = rng.one_in(2);
        let file = format!("{}.{}", name(state), if is_prompt { "md" } else { "sh" });
        let mut visits = Vec::new();
        let (text, following) = transition(rng, state, &plan);
        plan.steps[state] = 1 + following;
        forks |= text.contains("<fork");
        let earlier: Vec<usize> =
            (0..state).filter(|other| plan.homes[*other] == plan.homes[state]).collect();
        if !earlier.is_empty() && rng.one_in(4) {
            goes_back = true;
            let back = rng.pick(&earlier);
            visits.push(tries(rng, is_prompt, format!("<goto input=\"again\">{}</goto>", name(*back))));
            // The steps to that state and back again.
            plan.steps[state] = 2 * plan.steps[state] + state;
        }
        visits.push(tries(rng, is_prompt, text));
        states.push((plan.homes[state], file, if is_prompt { PROMPT } else { SCRIPT }, visits));
    }
    let mut program = Program::new(name_of_it);
    for (number, workflow) in plan.workflows.iter().enumerate() {
        if number > 0 {
            let entry = says("<result>entered {place}</result>");
            program = program.workflow(workflow).state("START.sh", SCRIPT, entry);
        }
        for (_, file, text, visits) in states.iter().filter(|(home, ..)| *home == number) {
            program = program.visits(file, text, visits.clone());
        }
    }
    let program = program.with(|program| {
        program.workflows[0].name = own.to_owned();
        program.options.max_parallel = 1 + rng.below(3);
        program.pauses = rng.one_in(2);
        program.is_synced = !rng.one_in(4);
        program.segment_bytes = if rng.one_in(2) { 700 } else { 1_000_000 };
    });
    // Workers count their visits from zero, so going back to a fork would never end.
    (plan.steps[0] <= MOST_STEPS && !(forks && goes_back)).then_some(program)
}

fn name(state: usize) -> String {
    const NAMES: [&str; MOST_STATES + 1] = ["START", "BAKE", "CUT", "DRAW", "EDIT", "FOLD", "GLUE", "HEAT"];
    NAMES[state].to_owned()
}

/// A transition from a state, and how many steps it leads to.
fn transition(rng: &mut Rng, state: usize, plan: &Plan) -> (String, usize) {
    let own = plan.homes[state];
    let later = state + 1..plan.homes.len();
    let (here, there): (Vec<usize>, Vec<usize>) = later.partition(|other| plan.homes[*other] == own);
    if !there.is_empty() && (here.is_empty() || rng.one_in(2)) {
        let target = *rng.pick(&there);
        return into_another(rng, plan, target, &here);
    }
    if here.is_empty() {
        return ("<result>{agent} {visits} {place} {input}</result>".to_owned(), 0);
    }
    let (first, second) = (*rng.pick(&here), *rng.pick(&here));
    let (to, next) = (name(first), name(second));
    let (one, both) = (plan.steps[first], plan.steps[first] + plan.steps[second]);
    let cd = cd(rng);
    match rng.below(12) {
        0 => (format!("<reset{cd} input=\"{{visits}}\">{to}</reset>"), one),
        1 => (format!("<call return=\"{next}\" input=\"called\">{to}</call>"), both),
        2 => (format!("<function return=\"{next}\">{to}</function>"), both),
        3 => (format!("<fork{cd} next=\"{next}\" item=\"1\">{to}</fork>"), both),
        4 => {
            (format!("<fork{cd} a=\"1\">{to}</fork><fork b=\"2\">{to}</fork><goto>{next}</goto>"), both + one)
        }
        5 | 6 => (format!("<join>{to}</join>"), one),
        7 => (format!("<ask next=\"{to}\">Shall I?</ask>"), one),
        8 => (format!("<goto delay=\"{}s\">{to}</goto>", 1 + rng.below(100)), one),
        9 => ("<result>{visits} of {agent} {place}</result>".to_owned(), 0),
        _ => (format!("<print>on</print><goto input=\"to {to}\">{to}</goto>"), one),
    }
}

/// A transition into another workflow, and back to one of `here` if there is one.
fn into_another(rng: &mut Rng, plan: &Plan, target: usize, here: &[usize]) -> (String, usize) {
    let other = plan.workflows[plan.homes[target]];
    // The run's own first state would lead here again.
    let (to, one) = match plan.homes[target] > 0 && rng.one_in(4) {
        true => (format!("../{other}"), 1),
        false => (format!("../{other}/{}", name(target)), plan.steps[target]),
    };
    let cd = cd(rng);
    if here.is_empty() {
        return (format!("<reset-workflow{cd} input=\"left {{place}}\">{to}</reset-workflow>"), one);
    }
    let back = *rng.pick(here);
    let (next, both) = (name(back), one + plan.steps[back]);
    match rng.below(6) {
        0 => (format!("<reset-workflow{cd}>{to}</reset-workflow>"), one),
        1 | 2 => (format!("<call-workflow return=\"{next}\" input=\"in\">{to}</call-workflow>"), both),
        3 | 4 => (format!("<function-workflow{cd} return=\"{next}\">{to}</function-workflow>"), both),
        _ => (format!("<fork-workflow{cd} item=\"1\">{to}</fork-workflow><goto>{next}</goto>"), both),
    }
}

fn cd(rng: &mut Rng) -> String {
    if rng.one_in(2) { format!(" cd=\"{}\"", rng.pick(&FOLDERS)) } else { String::new() }
}

/// Some tries that fail, and one that succeeds.
fn tries(rng: &mut Rng, is_prompt: bool, text: String) -> Vec<Act> {
    let mut tries = Vec::new();
    while rng.one_in(5) && tries.len() < 3 {
        tries.push(match rng.below(6) {
            0 => Act::new(Does::Hangs).stubborn(),
            1 => says("nothing to say"),
            2 if is_prompt => Act::new(Does::HitsLimit(100)),
            3 if is_prompt => fails(FaultClass::ShareUsed),
            4 => Act::new(Does::DiesBySignal(9)),
            _ => exits(1),
        });
    }
    tries.push(says(&text));
    for act in &mut tries {
        *act = act.clone().cents(rng.below(9) as u32).seconds(1 + rng.below(8) as u32);
        act.leaves_child = rng.one_in(6);
        act.is_stubborn |= rng.one_in(8);
    }
    tries
}
