//! Graph → what is drawn.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Diagram, Edge, Node, Shape, Style};
use crate::graph::reach::reachable;
use crate::graph::{Exit, Graph, Leads, Reference, Role, State};

/// In larger workflows a return is drawn from the callee itself instead of from each state that ends it.
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

struct Drawing<'g> {
    graph: &'g Graph,
    nodes: Vec<Node>,
    /// The node of each state that is drawn.
    node_of: Vec<Option<usize>>,
    /// Other nodes by what they stand for.
    others: HashMap<(&'static str, String), usize>,
    /// What leads from one node to another, by style.
    labels: BTreeMap<(usize, usize, Style), BTreeSet<String>>,
    /// Calls whose returns are still to be drawn: callee and where it returns to, both as states.
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
            // What neither leads anywhere nor is led to is data beside the states.
            let is_data = named.get(number) != Some(&true) && state.exits.is_empty();
            let node = (state.runs_here && !is_data).then_some(drawing.nodes.len());
            drawing.node_of.push(node);
            if node.is_some() {
                let (label, shape) = (state.file.to_string(), Shape::State(number, state.file.kind()));
                drawing.nodes.push(Node { label, shape, is_reached: is_reached(number) });
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
        let node = Node { label: label.to_owned(), shape, is_reached: true };
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

    fn draw_state(&mut self, number: usize, state: &State) {
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

    fn draw_reference(&mut self, from: usize, exit: &Exit, role: Role, reference: &Reference) {
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

    /// A return comes from whatever ends the callee; what a state ends is drawn later.
    fn draw_return(&mut self, from: usize, exit: &Exit, to: usize) {
        match exit.target.as_ref().map(|target| (&target.leads, &target.name)) {
            Some((Leads::To(_), _)) => {}
            Some((Leads::Elsewhere, name)) => {
                let workflow = self.other(Shape::Workflow, name);
                self.edge(workflow, to, Style::Return, "result");
            }
            _ => self.edge(from, to, Style::Return, "return"),
        }
    }

    fn note_return(&mut self, exit: &Exit) {
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
        let outermost = reachable(&self.graph.continuing, self.outermost());
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

    /// The states of a callee from which its result comes.
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

    /// Where agents begin: their results end them.
    fn outermost(&self) -> Vec<usize> {
        let mut starts: Vec<usize> = self.graph.entry.iter().copied().collect();
        for exit in self.graph.states.iter().flat_map(|state| &state.exits).filter(|exit| exit.tag.is_fork())
        {
            if let Some(Reference { leads: Leads::To(worker), .. }) = exit.target {
                starts.push(worker);
            }
        }
        starts
    }

    fn finish(self) -> Diagram {
        let edges = self.labels.into_iter().map(|((from, to, style), labels)| {
            let labels: Vec<String> = labels.into_iter().collect();
            Edge { from, to, style, label: labels.join(", ") }
        });
        Diagram { edges: edges.collect(), nodes: self.nodes }
    }
}

fn gives_result(state: &State) -> bool {
    state.exits.iter().any(Exit::gives_result)
}
