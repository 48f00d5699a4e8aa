//! Which states and transitions of the tested workflows the tests have reached.
//!
//! What can be reached is what the diagram of a workflow shows: its states and its arrows. So the picture and the
//! numbers agree. A state that no arrow leads to counts, too: an agent may go there without having been told of it. A
//! prompt that names no state and that no state names may be notes, so the diagram leaves it out; it counts if it was reached.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use raymond_core::diagram::{Diagram, Shape};
use raymond_core::workflow::Platform;
use serde::{Deserialize, Serialize};

use super::taken::{End, Taken, What};
use crate::author::load::load;
use crate::paths::normalise;

/// The coverage of all tested workflows: what `--coverage=FILE` holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Coverage {
    pub states: Share,
    pub transitions: Share,
    pub workflows: Vec<OfWorkflow>,
}

/// How much of something was reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Share {
    pub covered: usize,
    pub total: usize,
    pub percent: f64,
}

impl Share {
    fn of(counts: impl Iterator<Item = u64>) -> Self {
        let (mut covered, mut total) = (0, 0);
        for count in counts {
            total += 1;
            covered += usize::from(count > 0);
        }
        let percent = if total == 0 { 100.0 } else { 100.0 * covered as f64 / total as f64 };
        Self { covered, total, percent: (percent * 10.0).floor() / 10.0 }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfWorkflow {
    pub workflow: PathBuf,
    pub states: Vec<StateCount>,
    pub transitions: Vec<ArrowCount>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateCount {
    pub state: String,
    pub count: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArrowCount {
    pub from: String,
    pub to: String,
    /// How the arrow is drawn: plain, call, return or fork.
    pub kind: String,
    /// The tags that lead there.
    pub tags: String,
    pub count: u64,
}

/// Adds up what was taken in the workflows. A workflow that cannot be loaded is left out: its tests have failed.
pub fn measure<'a>(workflows: &[PathBuf], taken: impl IntoIterator<Item = &'a Taken>) -> Coverage {
    let mut by_scope: BTreeMap<&str, Vec<&What>> = BTreeMap::new();
    for taken in taken {
        by_scope.entry(&taken.scope).or_default().push(&taken.what);
    }
    let of_workflows: Vec<OfWorkflow> =
        workflows.iter().filter_map(|workflow| of_workflow(workflow, &by_scope)).collect();
    let states = of_workflows.iter().flat_map(|one| one.states.iter().map(|state| state.count));
    let arrows = of_workflows.iter().flat_map(|one| one.transitions.iter().map(|arrow| arrow.count));
    Coverage { states: Share::of(states), transitions: Share::of(arrows), workflows: of_workflows }
}

fn of_workflow(workflow: &Path, by_scope: &BTreeMap<&str, Vec<&What>>) -> Option<OfWorkflow> {
    let cwd = std::env::current_dir().ok()?;
    let mut loaded = load(workflow.to_str()?, &cwd, Platform::current()).ok()?;
    let home = loaded.home().to_owned();
    let empty = Vec::new();
    let taken = loaded.path.to_str().and_then(|path| by_scope.get(path)).unwrap_or(&empty);
    let diagram = Diagram::of(&loaded.graph(Platform::current()));
    let is_state = |shape: Shape| matches!(shape, Shape::State(..));
    let drawn = diagram.nodes.iter().filter(|node| is_state(node.shape)).map(|node| node.label.as_str());
    let reached = taken.iter().filter_map(|what| match what {
        What::State(state) => Some(state.as_str()),
        What::Arrow { .. } => None,
    });
    let mut states: Vec<&str> = drawn.collect();
    let undrawn: BTreeSet<&str> = reached.filter(|state| !states.contains(state)).collect();
    states.extend(undrawn);
    let states = states.into_iter().map(|name| StateCount {
        state: name.to_owned(),
        count: times(taken, |what| matches!(what, What::State(state) if state.as_str() == name)),
    });
    let arrows = diagram.edges.iter().filter_map(|edge| {
        let (from, to) = (diagram.nodes.get(edge.from)?, diagram.nodes.get(edge.to)?);
        let counts = |shape: Shape| is_state(shape) || shape == Shape::Workflow;
        let is_counted = counts(from.shape) && (counts(to.shape) || to.shape == Shape::End);
        let is_end = |end: &End, label: &str, shape: Shape| match (end, shape) {
            (End::State(state), Shape::State(..)) => state.as_str() == label,
            (End::End, Shape::End) => true,
            (End::Workflow(path), Shape::Workflow) => is_at(path, &home, label),
            _ => false,
        };
        let count = times(taken, |what| match what {
            What::Arrow { from: taken_from, to: taken_to, style } => {
                *style == edge.style.as_str()
                    && is_end(taken_from, &from.label, from.shape)
                    && is_end(taken_to, &to.label, to.shape)
            }
            What::State(_) => false,
        });
        is_counted.then(|| ArrowCount {
            from: from.label.clone(),
            to: to.label.clone(),
            kind: edge.style.to_string(),
            tags: edge.label.clone(),
            count,
        })
    });
    Some(OfWorkflow {
        workflow: workflow.to_owned(),
        states: states.collect(),
        transitions: arrows.collect(),
    })
}

fn times(taken: &[&What], is_it: impl Fn(&What) -> bool) -> u64 {
    taken.iter().filter(|what| is_it(what)).count() as u64
}

/// Whether a workflow is the one that is named like this. Its extension may be left out.
fn is_at(path: &str, home: &Path, label: &str) -> bool {
    let named = normalise(home, Path::new(label));
    let path = Path::new(path);
    path == named
        || path.with_extension("") == named
        || path.parent() == Some(&named)
        || named.starts_with(path)
}

impl Coverage {
    /// Whether both shares are large enough.
    pub fn reaches(&self, percent: f64) -> bool {
        self.states.percent >= percent && self.transitions.percent >= percent
    }

    /// A table for people: each workflow with its shares, then what was never reached.
    pub fn table(&self) -> String {
        let width = self.workflows.iter().map(|one| shown(&one.workflow).len()).max().unwrap_or(0).max(8);
        let mut table = format!("{:width$}  {:>13}  {:>13}\n", "coverage", "states", "transitions");
        for one in &self.workflows {
            let states = Share::of(one.states.iter().map(|state| state.count));
            let arrows = Share::of(one.transitions.iter().map(|arrow| arrow.count));
            table.push_str(&format!("{:width$}  {}  {}\n", shown(&one.workflow), cell(states), cell(arrows)));
            for state in one.states.iter().filter(|state| state.count == 0) {
                table.push_str(&format!("  never reached: {}\n", state.state));
            }
            for arrow in one.transitions.iter().filter(|arrow| arrow.count == 0) {
                let tags = if arrow.tags.is_empty() { arrow.kind.as_str() } else { &arrow.tags };
                table.push_str(&format!("  never taken: {} → {} ({tags})\n", arrow.from, arrow.to));
            }
        }
        if self.workflows.len() > 1 {
            table.push_str(&format!("{:width$}  {}  {}\n", "all", cell(self.states), cell(self.transitions)));
        }
        table
    }

    /// Marks in a diagram what no test has reached.
    pub fn mark(&self, diagram: &mut Diagram, workflow: &Path) -> bool {
        let same = |one: &&OfWorkflow| normalise_here(&one.workflow) == workflow;
        let only = || self.workflows.first().filter(|_| self.workflows.len() == 1);
        let Some(own) = self.workflows.iter().find(same).or_else(only) else { return false };
        for node in &mut diagram.nodes {
            node.is_untested = own.states.iter().any(|state| state.state == node.label && state.count == 0);
        }
        let labels: Vec<String> = diagram.nodes.iter().map(|node| node.label.clone()).collect();
        for edge in &mut diagram.edges {
            let label = |number: usize| labels.get(number).map(String::as_str);
            edge.is_untested = own.transitions.iter().any(|arrow| {
                arrow.count == 0
                    && arrow.kind == edge.style.as_str()
                    && label(edge.from) == Some(&arrow.from)
                    && label(edge.to) == Some(&arrow.to)
            });
        }
        true
    }
}

fn normalise_here(path: &Path) -> PathBuf {
    std::env::current_dir().map_or_else(|_| path.to_owned(), |cwd| normalise(&cwd, path))
}

fn cell(share: Share) -> String {
    format!("{:>4}/{:<3} {:>3.0}%", share.covered, share.total, share.percent.floor())
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
