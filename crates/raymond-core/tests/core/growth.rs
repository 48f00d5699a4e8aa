//! The cost of a step does not depend on the length of the run or the number of waiting agents.

use raymond_core::event::Body;
use raymond_core::run::{Options, Run};
use raymond_core::transition::{Fork, ForkTarget, Jump, Transition};

use crate::allocations::allocated;
use crate::rig::Rig;

const STEPS: u64 = 100_000;
const WAITING: usize = 10_000;

fn goto(target: &str) -> Transition {
    Transition::Goto(jump(target))
}

fn jump(target: &str) -> Jump {
    Jump { target: target.into(), input: None, delay: None }
}

/// The run as in a snapshot, with every number cut to one digit.
fn shape(run: &Run) -> String {
    let mut shape = String::new();
    let mut after_digit = false;
    for character in serde_json::to_string(run).unwrap().chars() {
        let is_digit = character.is_ascii_digit();
        if !is_digit {
            shape.push(character);
        } else if !after_digit {
            shape.push('0');
        }
        after_digit = is_digit;
    }
    shape
}

#[test]
fn a_long_loop_does_not_grow_the_state() {
    let mut rig = Rig::with("A", Options::default()).without_journal();
    rig.round([]);
    let mut early = None;
    for step in 1..=STEPS {
        let target = if step.is_multiple_of(2) { "A" } else { "B" };
        let (events, bytes) = allocated(|| rig.takes("main", goto(target)).len());
        assert_eq!(events, 2, "one step ends and one starts");
        if step == 1_000 {
            early = Some((shape(&rig.run), bytes));
        }
        if let Some((_, early)) = early
            && bytes > early + early / 4
        {
            panic!("step {step} took {bytes} bytes of memory, step 1000 only {early}");
        }
    }
    assert_eq!(rig.run.steps_completed, STEPS);
    assert_eq!(early.map(|(shape, _)| shape), Some(shape(&rig.run)));
}

#[test]
fn a_dispatcher_that_joins_does_not_grow_the_state() {
    let mut rig = Rig::with("A", Options::default()).without_journal();
    rig.round([]);
    let mut early = None;
    for count in 1..=5_000 {
        dispatch(&mut rig, "WORKER");
        rig.takes("main", Transition::Join { target: "A".into(), input: None });
        if count == 100 {
            rig.takes("main", goto("A"));
            early = Some(shape(&rig.run));
        }
    }
    rig.takes("main", goto("A"));
    assert_eq!(early, Some(shape(&rig.run)));
}

#[test]
fn a_dispatcher_of_two_kinds_of_workers_grows_the_state_little() {
    let mut rig = Rig::with("A", Options::default()).without_journal();
    rig.round([]);
    let mut early = None;
    for count in 1..=1_000 {
        dispatch(&mut rig, if count % 2 == 0 { "X" } else { "Y" });
        rig.takes("main", Transition::Join { target: "A".into(), input: None });
        if count == 200 {
            early = Some(shape(&rig.run).len());
        }
    }
    let late = shape(&rig.run).len();
    assert!(Some(late) <= early.map(|early| early + 100), "{early:?} {late}");
}

#[test]
fn a_dispatcher_that_never_joins_stops_growing() {
    let mut rig = Rig::with("A", Options::default()).without_journal();
    rig.round([]);
    let mut early = None;
    for count in 1..=13_000 {
        dispatch(&mut rig, "WORKER");
        if count == 11_000 {
            early = Some(shape(&rig.run).len());
        }
    }
    let late = shape(&rig.run).len();
    assert!(Some(late) <= early.map(|early| early + 100), "{early:?} {late}");
}

/// Main forks a worker, which ends.
fn dispatch(rig: &mut Rig, target: &str) {
    let forks = vec![fork(target)];
    let next = jump("A");
    let batch = rig.takes("main", Transition::Fork { forks, next, joins: false });
    let worker = batch.iter().find_map(|event| match &event.body {
        Body::AgentStarted(started) => Some(started.agent.to_string()),
        _ => None,
    });
    let payload = "".into();
    rig.takes(&worker.unwrap(), Transition::Result { payload });
}

fn fork(target: &str) -> Fork {
    Fork {
        target: ForkTarget::State(target.into()),
        input: None,
        cd: None,
        worktree: None,
        variables: Vec::new(),
    }
}

/// Memory is measured instead of time: code that visits every agent usually builds a list of them.
#[test]
fn a_step_takes_no_more_memory_beside_many_waiting_agents() {
    let [few, many] = [300, WAITING].map(|waiting| {
        let mut rig = Rig::with("A", Options::default()).without_journal();
        rig.round([]);
        let forks = vec![fork("W"); waiting];
        let next = jump("A");
        rig.takes("main", Transition::Fork { forks, next, joins: false });
        assert_eq!(rig.run.agents.len(), waiting + 1);
        let work = || {
            for _ in 0..100 {
                let first = rig.running()[0].clone();
                rig.takes(&first, goto("W"));
            }
        };
        allocated(work).1
    });
    assert!(many < few + few / 4, "{few} bytes with few waiting agents, {many} with many");
}
