//! Builds the diagram of a graph.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Diagram, Edge, Node, Shape, Style};
use crate::graph::reach::reachable;
use crate::graph::{Graph, Leads, Reference, Role, StateExit, StateNode};
use crate::tag::Waits;

/// In larger workflows a return is drawn from the called state itself, not from each state that gives its result.
const MAX_TRACED: usize = 300;

impl Diagram {
    pub fn of(graph: &Graph) -> Diagram {
        let mut drawing = Drawing::new(graph);
        for (number, state) in graph.states.iter().enumerate() {
            drawing.draw_state(number, state);
        }
        drawing.draw_ends();
        drawing.finish()
    }
}

/// What a fork starts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Worker {
    State(usize),
    Workflow(String),
}

struct Drawing<'g> {
    graph: &'g Graph,
    nodes: Vec<Node>,
    /// The node of each state that is drawn.
    node_of: Vec<Option<usize>>,
    /// Other nodes, by shape and label.
    others: HashMap<(&'static str, String), usize>,
    /// The labels of the edges between two nodes, by style.
    labels: BTreeMap<(usize, usize, Style), BTreeSet<String>>,
    /// Calls whose returns are still to be drawn: the called state and the return state.
    returns: BTreeSet<(usize, usize)>,
}

impl<'g> Drawing<'g> {
    fn new(graph: &'g Graph) -> Drawing<'g> {
        let reached = graph.reached();
        let is_reached =
            |number: usize| reached.as_ref().is_none_or(|reached| reached.get(number) == Some(&true));
        let mut drawing = Drawing {
            graph,
            nodes: Vec::new(),
            node_of: Vec::new(),
            others: HashMap::new(),
            labels: BTreeMap::new(),
            returns: BTreeSet::new(),
        };
        if graph.entry.is_ok() {
            drawing.other(Shape::Start, "");
        }
        let named = reachable(&graph.leading, graph.entry.iter().copied());
        for (number, state) in graph.states.iter().enumerate() {
            // A file without any transition to or from it is not a state but data.
            let is_data = named.get(number) != Some(&true) && state.exits.is_empty();
            let node = (state.runs_here && !is_data).then_some(drawing.nodes.len());
            drawing.node_of.push(node);
            if node.is_some() {
                let (label, shape) = (state.file.to_string(), Shape::State(number, state.file.kind()));
                let is_reached = is_reached(number);
                drawing.nodes.push(Node { label, shape, is_reached, is_untested: false, base: None });
            }
        }
        if let Some(entry) = graph.entry.as_ref().ok().and_then(|entry| drawing.node(*entry)) {
            drawing.edge(0, entry, Style::Plain, "");
        }
        drawing
    }

    fn node(&self, state: usize) -> Option<usize> {
        self.node_of.get(state).copied().flatten()
    }

    fn other(&mut self, shape: Shape, label: &str) -> usize {
        let node = Node { label: label.to_owned(), shape, is_reached: true, is_untested: false, base: None };
        *self.others.entry((node.class(), label.to_owned())).or_insert_with(|| {
            self.nodes.push(node);
            self.nodes.len() - 1
        })
    }

    fn edge(&mut self, from: usize, to: usize, style: Style, label: &str) {
        let labels = self.labels.entry((from, to, style)).or_default();
        if !label.is_empty() {
            labels.insert(label.to_owned());
        }
    }

    fn draw_state(&mut self, number: usize, state: &StateNode) {
        let Some(from) = self.node(number) else { return };
        for exit in &state.exits {
            for (role, reference) in exit.references() {
                self.draw_reference(from, exit, role, reference);
            }
            self.note_return(exit);
        }
        if state.is_opaque {
            let label = format!("anywhere from {}", state.file);
            let anywhere = self.other(Shape::Anywhere, &label);
            self.edge(from, anywhere, Style::Plain, "");
        }
    }

    fn draw_reference(&mut self, from: usize, exit: &StateExit, role: Role, reference: &Reference) {
        let to = match &reference.leads {
            Leads::To(state) => self.node(*state),
            Leads::Nowhere(_) => Some(self.other(Shape::Missing, &reference.name)),
            Leads::Elsewhere => Some(self.other(Shape::Workflow, &reference.name)),
            Leads::Unknown => None,
        };
        let Some(to) = to else { return };
        let tag = exit.tag.as_str();
        match role {
            Role::Target if exit.tag.is_call() => self.edge(from, to, Style::Call, tag),
            Role::Target if exit.tag.is_fork() => self.edge(from, to, Style::Fork, tag),
            Role::Target => self.edge(from, to, Style::Plain, tag),
            Role::Return => self.draw_return(from, exit, to),
            Role::Next if exit.tag.is_fork() => self.edge(from, to, Style::Plain, "next"),
            Role::Next => self.edge(from, to, Style::Plain, tag),
            Role::TimeoutNext => self.edge(from, to, Style::Plain, "timeout"),
        }
    }

    /// Draws the return of a call to a workflow or an unknown target. The returns of called states are drawn later.
    fn draw_return(&mut self, from: usize, exit: &StateExit, to: usize) {
        match exit.target.as_ref().map(|target| (&target.leads, &target.name)) {
            Some((Leads::To(_), _)) => {}
            Some((Leads::Elsewhere, name)) => {
                let workflow = self.other(Shape::Workflow, name);
                self.edge(workflow, to, Style::Return, "result");
            }
            _ => self.edge(from, to, Style::Return, "return"),
        }
    }

    fn note_return(&mut self, exit: &StateExit) {
        let state = |reference: &Option<Reference>| match reference.as_ref()?.leads {
            Leads::To(state) => Some(state),
            _ => None,
        };
        if let (Some(callee), Some(back)) = (state(&exit.target), state(&exit.return_to)) {
            self.returns.insert((callee, back));
        }
    }

    fn draw_ends(&mut self) {
        for (callee, back) in std::mem::take(&mut self.returns) {
            let Some(to) = self.node(back) else { continue };
            for ending in self.endings(callee) {
                if let Some(from) = self.node(ending) {
                    self.edge(from, to, Style::Return, "result");
                }
            }
        }
        let joined = self.joined();
        for (worker, next) in &joined {
            self.draw_joined(worker, *next);
        }
        let outermost = reachable(&self.graph.continuing, self.outermost(&joined));
        for (number, state) in self.graph.states.iter().enumerate() {
            if outermost.get(number) != Some(&true) || !gives_result(state) {
                continue;
            }
            if let Some(from) = self.node(number) {
                let end = self.other(Shape::End, "end");
                self.edge(from, end, Style::Plain, "result");
            }
        }
    }

    /// The states that give the result of a called state.
    fn endings(&self, callee: usize) -> Vec<usize> {
        if self.graph.states.len() > MAX_TRACED {
            return vec![callee];
        }
        let frame = reachable(&self.graph.continuing, [callee]);
        let states = self.graph.states.iter().zip(frame).enumerate();
        states
            .filter(|(_, (state, inside))| *inside && gives_result(state))
            .map(|(number, _)| number)
            .collect()
    }

    /// The states in which agents begin whose results no other agent is given: a result there ends the agent.
    fn outermost(&self, joined: &BTreeSet<(Worker, usize)>) -> Vec<usize> {
        let mut starts: Vec<usize> = self.graph.entry.iter().copied().collect();
        for (_, worker) in self.workers() {
            match worker {
                Worker::State(state) if !joined.iter().any(|(joined, _)| *joined == worker) => {
                    starts.push(state)
                }
                Worker::State(_) | Worker::Workflow(_) => {}
            }
        }
        starts
    }

    /// Every state that forks, with what it forks.
    fn workers(&self) -> Vec<(usize, Worker)> {
        let states = self.graph.states.iter().enumerate();
        let exits = states.flat_map(|(number, state)| state.exits.iter().map(move |exit| (number, exit)));
        let forks = exits.filter(|(_, exit)| exit.tag.is_fork()).filter_map(|(number, exit)| {
            let target = exit.target.as_ref()?;
            match &target.leads {
                Leads::To(worker) => Some((number, Worker::State(*worker))),
                Leads::Elsewhere => Some((number, Worker::Workflow(target.name.clone()))),
                Leads::Nowhere(_) | Leads::Unknown => None,
            }
        });
        forks.collect()
    }

    /// Workers whose results a join may hand on, with the state that gets them.
    fn joined(&self) -> BTreeSet<(Worker, usize)> {
        if self.graph.states.len() > MAX_TRACED {
            return BTreeSet::new();
        }
        let mut joined = BTreeSet::new();
        for (forking, worker) in self.workers() {
            let frame = reachable(&self.graph.continuing, [forking]);
            let states = self.graph.states.iter().zip(frame).filter(|(_, inside)| *inside);
            for exit in states.flat_map(|(state, _)| &state.exits) {
                match exit.target.as_ref().map(|target| &target.leads) {
                    Some(Leads::To(next)) if exit.tag.facts().waits == Waits::ForWorkers => {
                        joined.insert((worker.clone(), *next));
                    }
                    _ => {}
                }
            }
        }
        joined
    }

    fn draw_joined(&mut self, worker: &Worker, next: usize) {
        let Some(to) = self.node(next) else { return };
        let from = match worker {
            Worker::State(state) => {
                self.endings(*state).into_iter().filter_map(|state| self.node(state)).collect()
            }
            Worker::Workflow(name) => vec![self.other(Shape::Workflow, name)],
        };
        for from in from {
            self.edge(from, to, Style::Return, "result");
        }
    }

    fn finish(self) -> Diagram {
        let edges = self.labels.into_iter().map(|((from, to, style), labels)| {
            let labels: Vec<String> = labels.into_iter().collect();
            Edge { from, to, style, label: labels.join(", "), is_untested: false }
        });
        Diagram { edges: edges.collect(), nodes: self.nodes }
    }
}

fn gives_result(state: &StateNode) -> bool {
    state.exits.iter().any(StateExit::gives_result)
}
