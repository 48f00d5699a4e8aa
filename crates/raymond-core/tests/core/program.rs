//! Random programs of transitions, and a model of what they should do, in which a call is a function call.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Names of states; cut to six characters and followed by a number, some of them give the same worker name.
pub const NAMES: [&str; 10] = ["A", "A1", "A11", "B", "A1_B", "WORKER", "WORKERS", "X.py", "P.md", "Q.md"];

/// What one script emits.
#[derive(Clone, Debug)]
pub enum Op {
    Goto(Jump),
    Reset {
        jump: Jump,
        cd: Option<u8>,
    },
    Call {
        jump: Jump,
        back: usize,
        function: bool,
    },
    Fork {
        workers: Vec<Worker>,
        next: Jump,
    },
    Join(usize),
    /// A question with its answer; without an answer it times out.
    Ask {
        to: usize,
        answer: Option<u8>,
    },
    Result(u8),
}

#[derive(Clone, Debug)]
pub struct Jump {
    pub to: usize,
    pub input: Option<u8>,
}

/// An agent: where it starts and what its scripts emit, one after the other. At the end of the list it returns.
#[derive(Clone, Debug)]
pub struct Worker {
    pub start: Jump,
    pub cd: Option<u8>,
    pub item: Option<u8>,
    pub program: Vec<Op>,
}

/// What a script emits when its program has ended.
pub const LAST: Op = Op::Result(0);

impl Op {
    /// As a script writes it.
    pub fn written(&self) -> String {
        match self {
            Op::Goto(jump) => format!("<goto{}>{}</goto>", jump.attributes(), jump.name()),
            Op::Reset { jump, cd } => {
                let cd = attribute("cd", *cd);
                format!("<reset{}{cd}>{}</reset>", jump.attributes(), jump.name())
            }
            Op::Call { jump, back, function } => {
                let tag = if *function { "function" } else { "call" };
                let (input, name, back) = (jump.attributes(), jump.name(), NAMES[*back]);
                format!("<{tag} return=\"{back}\"{input}>{name}</{tag}>")
            }
            Op::Fork { workers, next } => {
                let forks = workers.iter().map(|worker| {
                    let (cd, item) = (attribute("cd", worker.cd), attribute("item", worker.item));
                    format!("<fork{}{cd}{item}>{}</fork>", worker.start.attributes(), worker.start.name())
                });
                let next = Op::Goto(next.clone()).written();
                forks.chain([next]).collect()
            }
            Op::Join(to) => format!("<join>{}</join>", NAMES[*to]),
            Op::Ask { to, answer: Some(_) } => format!("<ask next=\"{}\">?</ask>", NAMES[*to]),
            Op::Ask { to, answer: None } => {
                format!("<ask next=\"B\" timeout=\"5s\" timeout_next=\"{}\">?</ask>", NAMES[*to])
            }
            Op::Result(text) => format!("<result>{text}</result>"),
        }
    }
}

impl Jump {
    fn name(&self) -> &'static str {
        NAMES[self.to]
    }

    fn attributes(&self) -> String {
        attribute("input", self.input)
    }
}

fn attribute(name: &str, value: Option<u8>) -> String {
    value.map_or_else(String::new, |value| format!(" {name}=\"{value}\""))
}

impl Worker {
    /// Whether it or one of its workers joins. Then the failure of a worker changes the result.
    pub fn joins(&self) -> bool {
        self.program.iter().any(|op| match op {
            Op::Join(_) => true,
            Op::Fork { workers, .. } => workers.iter().any(Worker::joins),
            _ => false,
        })
    }
}

/// The data of its agent that a state sees when it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub state: String,
    pub input: Option<String>,
    pub returns: Vec<String>,
    pub cwd: String,
    pub visits: u64,
    pub item: Option<String>,
    /// The step of the agent whose conversation it continues.
    pub conversation: Option<usize>,
}

/// Everything that an agent does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Life {
    pub seen: Vec<Seen>,
    pub workers: Vec<Life>,
    pub result: Option<String>,
}

impl Life {
    pub fn of(worker: &Worker, parents_cwd: &str) -> Self {
        let mut walk = Walk {
            ops: worker.program.iter(),
            item: worker.item.map(|item| item.to_string()),
            life: Life::default(),
            returns: Vec::new(),
            visits: BTreeMap::new(),
            unjoined: Vec::new(),
        };
        let cwd = directory(worker.cd).unwrap_or_else(|| parents_cwd.to_owned());
        let result = walk.run(&worker.start, cwd, None);
        Life { result: Some(result), ..walk.life }
    }

    pub fn steps(&self) -> u64 {
        self.seen.len() as u64 + self.workers.iter().map(Life::steps).sum::<u64>()
    }
}

struct Walk<'a> {
    ops: std::slice::Iter<'a, Op>,
    item: Option<String>,
    life: Life,
    returns: Vec<String>,
    visits: BTreeMap<usize, u64>,
    /// The results that a join would get.
    unjoined: Vec<String>,
}

impl Walk<'_> {
    /// Runs from a state until it returns.
    fn run(&mut self, start: &Jump, mut cwd: String, mut conversation: Option<usize>) -> String {
        let mut state = start.to;
        let mut input = text(start.input);
        loop {
            self.see(state, input.take(), &cwd, conversation);
            if NAMES[state].ends_with(".md") {
                conversation = Some(self.life.seen.len() - 1);
            }
            match self.ops.next().unwrap_or(&LAST) {
                Op::Goto(jump) => (state, input) = (jump.to, text(jump.input)),
                Op::Reset { jump, cd } => {
                    (state, input) = (jump.to, text(jump.input));
                    cwd = directory(*cd).unwrap_or(cwd);
                    conversation = None;
                }
                Op::Call { jump, back, function } => {
                    self.returns.push(file(*back));
                    let conversation = conversation.filter(|_| !function);
                    input = Some(self.run(jump, cwd.clone(), conversation));
                    self.returns.pop();
                    state = *back;
                }
                Op::Fork { workers, next } => {
                    for worker in workers {
                        let life = Life::of(worker, &cwd);
                        let item = text(worker.item).unwrap_or_default();
                        let result = life.result.as_deref().unwrap_or_default();
                        self.unjoined.push(joined(&file(worker.start.to), &item, "done", result));
                        self.life.workers.push(life);
                    }
                    (state, input) = (next.to, text(next.input));
                }
                Op::Join(to) => {
                    (state, input) = (*to, Some(std::mem::take(&mut self.unjoined).concat()));
                }
                Op::Ask { to, answer } => (state, input) = (*to, Some(text(*answer).unwrap_or_default())),
                Op::Result(result) => return result.to_string(),
            }
        }
    }

    fn see(&mut self, state: usize, input: Option<String>, cwd: &str, conversation: Option<usize>) {
        let visits = self.visits.entry(state).or_default();
        *visits += 1;
        self.life.seen.push(Seen {
            state: file(state),
            input,
            returns: self.returns.clone(),
            cwd: cwd.to_owned(),
            visits: *visits,
            item: self.item.clone(),
            conversation,
        });
    }
}

/// One worker in the result of a join.
pub fn joined(state: &str, item: &str, status: &str, result: &str) -> String {
    format!("({state} {item} {status} {result})")
}

fn text(value: Option<u8>) -> Option<String> {
    value.map(|value| value.to_string())
}

fn directory(cd: Option<u8>) -> Option<String> {
    cd.map(|cd| format!("/dir/{cd}"))
}

fn file(name: usize) -> String {
    crate::rig::state(NAMES[name]).to_string()
}

fn jump() -> impl Strategy<Value = Jump> {
    (0..NAMES.len(), option::of(any::<u8>())).prop_map(|(to, input)| Jump { to, input })
}

fn op(workers: BoxedStrategy<Vec<Worker>>) -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => jump().prop_map(Op::Goto),
        1 => (jump(), option::of(0..3_u8)).prop_map(|(jump, cd)| Op::Reset { jump, cd }),
        3 => (jump(), 0..NAMES.len(), any::<bool>())
            .prop_map(|(jump, back, function)| Op::Call { jump, back, function }),
        2 => (workers, jump()).prop_map(|(workers, next)| if workers.is_empty() {
            Op::Goto(next)
        } else {
            Op::Fork { workers, next }
        }),
        2 => (0..NAMES.len()).prop_map(Op::Join),
        1 => (0..NAMES.len(), option::of(any::<u8>())).prop_map(|(to, answer)| Op::Ask { to, answer }),
        2 => any::<u8>().prop_map(Op::Result),
    ]
}

/// An agent whose workers have workers, with this number of generations.
pub fn worker(generations: usize) -> BoxedStrategy<Worker> {
    let workers = match generations.checked_sub(1) {
        Some(fewer) => vec(worker(fewer), 0..4).boxed(),
        None => Just(Vec::new()).boxed(),
    };
    (jump(), option::of(0..3_u8), option::of(any::<u8>()), vec(op(workers), 0..8))
        .prop_map(|(start, cd, item, program)| Worker { start, cd, item, program })
        .boxed()
}

/// The first agent, which gets no input.
pub fn first_agent() -> impl Strategy<Value = Worker> {
    worker(2).prop_map(|worker| Worker {
        start: Jump { input: None, ..worker.start },
        cd: None,
        item: None,
        ..worker
    })
}
