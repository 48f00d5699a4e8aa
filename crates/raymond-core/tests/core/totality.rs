//! For any inputs in any order: nothing panics, and inputs that do not fit change nothing.

use std::time::Duration;

use jiff::SignedDuration;
use proptest::collection::vec;
use proptest::prelude::*;
use raymond_core::decide::decide;
use raymond_core::event::Event;
use raymond_core::evolve::apply;
use raymond_core::header::{Fatal, Header};
use raymond_core::input::{
    Answer, BadMessage, CompletedTurn, Ended, FailedTurn, FaultClass, Input, Lookups, Plan, Prepared,
    ProcessExit, PromptPlan, ScriptOutcome, StepOutcome, TimeLimit, TurnCost, TurnOutcome,
};
use raymond_core::money::Usd;
use raymond_core::name::AgentId;
use raymond_core::payload::Payload;
use raymond_core::policy::{Entry, Policy};
use raymond_core::run::{Options, Run, Session, Status};
use raymond_core::tag::TagName;
use raymond_core::tokens::Tokens;
use raymond_core::transition::{Ask, Fork, ForkTarget, Invoke, InvokeWorkflow, Jump, Reading, Transition};

use crate::play::{ask_everything, through_snapshot};
use crate::rig::{Rig, beginning, fold, state, through_json};

/// Agents that a run may have, and one that it never has.
const AGENTS: [&str; 6] = ["main", "main_a1", "main_a2", "main_a1_a1", "main_b1", "stranger"];
const STATES: [&str; 3] = ["A", "B", "P.md"];

fn agent() -> impl Strategy<Value = AgentId> {
    (0..AGENTS.len()).prop_map(|index| AgentId::new(AGENTS[index]))
}

/// A state, or a name that was not looked up.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        9 => (0..STATES.len()).prop_map(|index| STATES[index].to_owned()),
        1 => Just("UNKNOWN".to_owned()),
    ]
}

fn short() -> impl Strategy<Value = Option<Payload>> {
    proptest::option::of(payload())
}

/// A text, or one that is stored elsewhere.
fn payload() -> impl Strategy<Value = Payload> {
    prop_oneof![
        4 => ".{0,3}".prop_map(Payload::from),
        1 => Just(Payload::Stored { payload: "abc".into(), bytes: 3 }),
    ]
}

fn jump() -> impl Strategy<Value = Jump> {
    let delay = proptest::option::weighted(0.1, Just(Duration::MAX));
    (name(), short(), delay).prop_map(|(target, input, delay)| Jump { target, input, delay })
}

fn invoke() -> impl Strategy<Value = Invoke> {
    (name(), name(), short()).prop_map(|(target, return_to, input)| Invoke { target, return_to, input })
}

fn fork() -> impl Strategy<Value = Fork> {
    let target = prop_oneof![
        9 => name().prop_map(ForkTarget::State),
        1 => Just(ForkTarget::Workflow("../other".into())),
    ];
    (target, short(), proptest::option::weighted(0.1, Just("nowhere".to_owned()))).prop_map(
        |(target, input, cd)| Fork {
            target,
            input,
            cd,
            worktree: None,
            variables: vec![("item".into(), "1".into()), ("item".into(), "2".into())],
        },
    )
}

fn ask() -> impl Strategy<Value = Ask> {
    let timeout = prop_oneof![
        2 => Just(None),
        2 => (0..100_u64).prop_map(|seconds| Some(Duration::from_secs(seconds))),
        1 => Just(Some(Duration::MAX)),
    ];
    (name(), payload(), timeout, proptest::option::of(name())).prop_map(
        |(next, question, timeout, timeout_next)| Ask {
            question,
            next,
            timeout,
            timeout_next,
            empty_ok: false,
        },
    )
}

fn transition() -> BoxedStrategy<Transition> {
    let workflow = |return_to: String| InvokeWorkflow {
        scope: "../other".into(),
        return_to,
        input: None,
        inputs: Vec::new(),
    };
    prop_oneof![
        3 => jump().prop_map(Transition::Goto),
        2 => jump().prop_map(|jump| Transition::Reset { jump, cd: None }),
        2 => invoke().prop_map(Transition::Call),
        2 => invoke().prop_map(Transition::Function),
        5 => (vec(fork(), 0..3), jump(), any::<bool>())
            .prop_map(|(forks, next, joins)| Transition::Fork { forks, next, joins }),
        2 => payload().prop_map(|payload| Transition::Result { payload }),
        2 => ask().prop_map(Transition::Ask),
        3 => name().prop_map(|target| Transition::Join { target, input: None }),
        1 => name().prop_map(move |name| Transition::CallWorkflow(workflow(name))),
    ]
    .boxed()
}

fn header() -> impl Strategy<Value = Header> {
    (0..3_u32, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(retry, fatal, long, visits)| Header {
        retry,
        backoff: long.then_some(Duration::MAX),
        max_visits: visits.then_some(2),
        fatal: Some(if fatal { Fatal::Run } else { Fatal::Agent }),
        ..Header::default()
    })
}

fn outcome() -> BoxedStrategy<StepOutcome> {
    let exited = |exit, reading| {
        StepOutcome::Script(ScriptOutcome::Exited {
            exit,
            reading,
            other_case: Vec::new(),
            stderr: String::new(),
            shown: Default::default(),
        })
    };
    let reading = transition().prop_map(|transition| Reading { transition, warnings: vec!["odd".into()] });
    prop_oneof![
        12 => reading.prop_map(move |reading| exited(ProcessExit::Code(0), Ok(reading))),
        1 => Just(()).prop_map(move |()| exited(ProcessExit::Code(0), Err("no tag".into()))),
        2 => any::<i32>().prop_map(move |code| exited(ProcessExit::Code(code), Err("no tag".into()))),
        1 => any::<i32>().prop_map(move |signal| exited(ProcessExit::Signal(signal), Err("no tag".into()))),
        1 => Just(()).prop_map(|()| StepOutcome::Script(ScriptOutcome::TimedOut {
            kind: TimeLimit::Idle,
            after: Duration::MAX,
            stderr: String::new(),
        })),
        1 => any::<i64>().prop_map(|nanos| StepOutcome::Interrupted {
            cost: Usd::from_dollars(nanos as f64),
        }),
    ]
    .boxed()
}

fn cost() -> impl Strategy<Value = TurnCost> {
    let dollars = prop_oneof![4 => 0.0..1.0_f64, 1 => Just(0.0), 1 => Just(-1.0), 1 => Just(f64::INFINITY)];
    let tokens = (0_u64..3, 0_u64..3).prop_map(|(output, cache_read)| Tokens {
        output,
        cache_read,
        ..Tokens::default()
    });
    (dollars, any::<bool>(), tokens).prop_map(|(dollars, estimated, tokens)| match estimated {
        true => TurnCost::estimated(Usd::from_dollars(dollars), tokens),
        false => TurnCost::of(Usd::from_dollars(dollars), tokens),
    })
}

fn session() -> impl Strategy<Value = Session> {
    "[a-z]".prop_map(|id| Session { id, ..Session::default() })
}

fn turn() -> BoxedStrategy<TurnOutcome> {
    let reading = prop_oneof![
        6 => transition().prop_map(|transition| Ok(Reading { transition, warnings: vec!["odd".into()] })),
        1 => any::<bool>().prop_map(|has_no_tag| Err(BadMessage { problem: "bad".into(), has_no_tag })),
    ];
    let class = prop_oneof![
        Just(FaultClass::Retry),
        Just(FaultClass::ShareUsed),
        Just(FaultClass::NotInstalled),
        Just(FaultClass::Final),
        Just(FaultClass::Limit { until: None }),
        (-100..100_i64).prop_map(|seconds| FaultClass::Limit {
            until: Some(beginning() + SignedDuration::from_secs(seconds)),
        }),
    ];
    prop_oneof![
        3 => (reading, payload(), proptest::option::weighted(0.8, session()), cost()).prop_map(|(reading, message, session, cost)| {
            let (warnings, last_lines) = (vec!["denied".into()], message.text().is_none().then(|| "end".into()));
            TurnOutcome::Completed(CompletedTurn { reading, other_case: Vec::new(), message, last_lines, file: None, session, cost, warnings })
        }),
        1 => (class, cost(), short(), proptest::option::of(session())).prop_map(|(class, cost, message, session)| {
            let error = "broke".into();
            TurnOutcome::Failed(FailedTurn { error, class, cost, session, exit_code: None, message, warnings: Vec::new() })
        }),
    ]
    .boxed()
}

fn prompt_plan() -> BoxedStrategy<PromptPlan> {
    let entry = (
        proptest::sample::select(vec![TagName::Goto, TagName::Call, TagName::Fork, TagName::Result]),
        name(),
    )
        .prop_map(|(tag, name)| Entry {
            tag,
            target: Some(name.clone()).filter(|_| tag != TagName::Result),
            return_to: Some(name.clone()).filter(|_| tag == TagName::Call),
            next: Some(name).filter(|_| tag == TagName::Fork),
            timeout_next: None,
            cd: None,
            line: 0,
            column: 0,
        });
    let policy = proptest::option::of(vec(entry, 0..3).prop_map(|entries| Policy { entries }));
    (policy, any::<bool>(), any::<bool>())
        .prop_map(|(policy, force_implicit, visits)| PromptPlan {
            policy,
            force_implicit,
            max_visits: visits.then_some(3),
            ..PromptPlan::default()
        })
        .boxed()
}

/// A plan and an outcome, usually of the same kind.
fn plan_and_outcome() -> BoxedStrategy<(Plan, StepOutcome)> {
    let prompt = || prompt_plan().prop_map(|plan| Plan::Prompt(Box::new(plan)));
    prop_oneof![
        9 => (header().prop_map(Plan::Script), outcome()),
        9 => (prompt(), turn().prop_map(StepOutcome::Turn)),
        1 => (header().prop_map(Plan::Script), turn().prop_map(StepOutcome::Turn)),
        1 => (prompt(), outcome()),
    ]
    .boxed()
}

fn options() -> impl Strategy<Value = Options> {
    (0..4_usize, 0..4_u8, any::<bool>()).prop_map(|(max_parallel, budget, no_wait)| Options {
        budget_usd: Usd::from_dollars(f64::from(budget)),
        max_parallel,
        max_steps: Some(20),
        no_wait,
        ..Options::default()
    })
}

/// An input; the numbers of a report are corrected unless it is meant to be stale.
#[derive(Debug)]
enum Coming {
    As(Input),
    Fitting(Box<Ended>),
    Lost(Input),
    Passing(i64),
}

fn ended() -> BoxedStrategy<Ended> {
    (agent(), 0..4_u64, 0..3_u32, any::<u64>(), plan_and_outcome())
        .prop_map(|(agent, step, attempt, duration_ms, (plan, outcome))| Ended {
            agent,
            step,
            attempt,
            duration_ms,
            plan,
            outcome,
            lookups: Lookups {
                files: Default::default(),
                scopes: Default::default(),
                states: STATES.iter().map(|&name| (name.to_owned(), Ok(state(name)))).collect(),
                directories: Default::default(),
                result_problem: None,
                worktrees: Default::default(),
                snapshot: None,
            },
        })
        .boxed()
}

fn lost() -> impl Strategy<Value = Input> {
    (agent(), 0..4_u64, 0..3_u32, 0..3_u8).prop_map(|(agent, step, attempt, dollars)| {
        let (error, cost) = ("lost".into(), Usd::from_dollars(f64::from(dollars)));
        Input::Lost { agent, step, attempt, error, cost }
    })
}

fn coming() -> BoxedStrategy<Coming> {
    let plan = prop_oneof![
        header().prop_map(Plan::Script),
        prompt_plan().prop_map(|plan| Plan::Prompt(Box::new(plan))),
    ];
    let prepared = prop_oneof![
        9 => (plan, "[12]").prop_map(|(plan, hash)| Ok(Prepared { hash, plan, warnings: vec!["odd".into()] })),
        1 => Just(Err("gone".to_owned())),
    ];
    let result = prop_oneof![4 => payload().prop_map(Ok), 1 => Just(Err("unreadable".to_owned()))];
    prop_oneof![
        8 => ended().prop_map(|ended| Coming::Fitting(Box::new(ended))),
        3 => ended().prop_map(|ended| Coming::As(Input::Ended(Box::new(ended)))),
        8 => (agent(), prepared)
            .prop_map(|(agent, prepared)| Coming::As(Input::Launch { agent, prepared })),
        2 => (agent(), 0..4_u64, 0..3_u32, payload()).prop_map(|(agent, step, attempt, text)| {
            Coming::As(Input::Print { agent, step, attempt, text })
        }),
        2 => (agent(), 0..4_u64, 0..3_u32, "[ab]").prop_map(|(agent, step, attempt, session)| {
            Coming::As(Input::SessionKnown { agent, step, attempt, session })
        }),
        2 => lost().prop_map(Coming::As),
        3 => lost().prop_map(Coming::Lost),
        2 => agent().prop_map(|agent| Coming::As(Input::End { agent })),
        1 => any::<bool>().prop_map(|stop_requested| Coming::As(Input::Close { stop_requested, terminated: false, interrupted: Vec::new() })),
        2 => options()
            .prop_map(|options| Coming::As(Input::Resume { options: Box::new(options), interrupted: Vec::new(), forgotten: Vec::new(), moved: None })),
        2 => vec(agent(), 0..3).prop_map(|agents| Coming::As(Input::Retry { agents })),
        2 => (agent(), "[AB]").prop_map(|(agent, name)| {
            let target = state(&format!("{name}.sh"));
            Coming::As(Input::Jump { agent, target, input: Some("in".into()) })
        }),
        3 => (agent(), result).prop_map(|(agent, result)| Coming::As(Input::Join { agent, result })),
        3 => (1..4_u8, payload()).prop_map(|(ask, text)| Coming::As(Input::Answer(Answer {
            ask: format!("ask{ask}"),
            text,
            answer_id: None,
            given_at: None,
            asked_at: None,
        }))),
        1 => agent().prop_map(|agent| Coming::As(Input::AskTimeout { agent })),
        1 => Just(()).prop_map(|()| Coming::As(Input::Warning {
            agent: None,
            message: "mind".into(),
        })),
        1 => (-100..100_000_i64).prop_map(Coming::Passing),
    ]
    .boxed()
}

/// Whether an input is about an attempt that does not run, or an agent that does not exist.
fn is_stale(run: &Run, input: &Input) -> bool {
    let running = |id: &AgentId, step, attempt| match run.agents.get(id).map(|agent| &agent.status) {
        Some(Status::Running { work, .. }) => (work.step, work.attempt) == (step, attempt),
        _ => false,
    };
    let is =
        |id: &AgentId, fits: fn(&Status) -> bool| run.agents.get(id).is_some_and(|agent| fits(&agent.status));
    match input {
        Input::Ended(ended) => !running(&ended.agent, ended.step, ended.attempt),
        Input::Print { agent, step, attempt, .. }
        | Input::SessionKnown { agent, step, attempt, .. }
        | Input::Lost { agent, step, attempt, .. } => !running(agent, *step, *attempt),
        Input::Launch { agent, .. } => !run.agents.contains_key(agent),
        Input::End { agent } => {
            !matches!(run.agents.get(agent).map(|agent| &agent.status), Some(Status::Ending { .. }))
        }
        Input::Join { agent, .. } => !is(agent, |status| matches!(status, Status::Joining { .. })),
        Input::AskTimeout { agent } => !is(agent, |status| matches!(status, Status::Asking { .. })),
        Input::Answer(answer) => run.asker(&answer.ask).is_none(),
        Input::Resume { .. }
        | Input::Retry { .. }
        | Input::Jump { .. }
        | Input::Warning { .. }
        | Input::Close { .. } => false,
    }
}

fn fit(run: &Run, mut ended: Box<Ended>) -> Input {
    if let Some(work) = run.agents.get(&ended.agent).and_then(|agent| agent.work()) {
        (ended.step, ended.attempt) = (work.step, work.attempt);
    }
    Input::Ended(ended)
}

fn fit_loss(run: &Run, mut lost: Input) -> Input {
    if let Input::Lost { agent, step, attempt, .. } = &mut lost
        && let Some(work) = run.agents.get(agent).and_then(|agent| agent.work())
    {
        (*step, *attempt) = (work.step, work.attempt);
    }
    lost
}

/// An input, written and read back.
fn through_text(input: &Input) -> Input {
    serde_json::from_str(&serde_json::to_string(input).unwrap()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_input_can_come_at_any_time(comings in vec(coming(), 0..60)) {
        let mut rig = Rig::with("A", Options { max_steps: Some(20), ..Options::default() });
        for coming in comings {
            let input = match coming {
                Coming::As(input) => input,
                Coming::Fitting(ended) => fit(&rig.run, ended),
                Coming::Lost(lost) => fit_loss(&rig.run, lost),
                Coming::Passing(seconds) => {
                    rig.now += SignedDuration::from_secs(seconds);
                    continue;
                }
            };
            let stale = is_stale(&rig.run, &input);
            let said = format!("{input:?}");
            let read_back = decide(&rig.run, rig.now, through_text(&input));
            let bodies = decide(&rig.run, rig.now, input);
            prop_assert_eq!(&bodies, &read_back, "{} decides the same when it is read back", said);
            prop_assert!(!stale || bodies.is_empty(), "{} led to {:?}", said, bodies);
            for body in bodies {
                prop_assert!(body.tokens().is_zero() || body.cost() > Usd::ZERO, "a paid turn is free: {body:?}");
                let event = Event {
                    seq: rig.run.seq + 1,
                    time: rig.now,
                    run: rig.run.id.clone(),
                    body,
                };
                apply(&mut rig.run, &event);
                rig.journal.push(event);
            }
            ask_everything(&rig.run);
            prop_assert_eq!(&through_snapshot(&rig.run), &rig.run, "the queues match the agents");
        }
        let folded = fold(&through_json(&rig.journal)).unwrap();
        prop_assert_eq!(folded, rig.run);
    }
}
