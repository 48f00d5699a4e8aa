//! Finding mistakes in a workflow before a model does: a table of rules over its [`Graph`].
//!
//! Each rule is a file that holds what it is called, why it is there, and its check. Codes are stable: a rule that goes
//! leaves a gap. A workflow without errors whose agents keep to what it declares never meets an unresolved name.

mod rules;
mod tag_errors;
#[cfg(test)]
mod tests;
mod words;

use std::ops::Range;

pub use rules::RULES;

use crate::diagnostic::{Diagnostic, Edit, Severity};
use crate::graph::{Graph, Leads, Reference, Role, StateExit};
use crate::workflow::ResolveError;
use tag_errors::TagErrors;

/// One kind of mistake.
#[derive(Debug)]
pub struct Rule {
    pub code: &'static str,
    /// What it is called, in a word or two with dashes.
    pub name: &'static str,
    pub severity: Severity,
    /// What it finds, in a sentence.
    pub summary: &'static str,
    /// Why that matters and what to do about it.
    pub explanation: &'static str,
    check: fn(&Subject<'_>, &mut Report<'_>),
}

/// Whether another workflow can be found where a tag says it is; the error says why not.
pub type FindScope<'s> = &'s dyn Fn(&str) -> Result<(), String>;

/// A workflow with what its states do not say.
pub struct Workflow<'s> {
    pub graph: &'s Graph,
    /// What its manifest or the config file chooses.
    pub backend: Option<&'s str>,
    pub find_scope: FindScope<'s>,
}

/// What rules look at.
struct Subject<'s> {
    graph: &'s Graph,
    backend: Option<&'s str>,
    find_scope: FindScope<'s>,
    tag_errors: TagErrors,
}

/// What one rule has found.
struct Report<'r> {
    rule: &'static Rule,
    found: &'r mut Vec<Diagnostic>,
}

/// One thing to report.
struct Finding {
    state: Option<usize>,
    range: Range<usize>,
    message: String,
    help: Option<String>,
    fix: Option<Edit>,
    is_secret: bool,
}

impl Finding {
    fn in_workflow(message: impl Into<String>) -> Finding {
        Finding { state: None, ..Finding::at(0, 0..0, message) }
    }

    fn at(state: usize, range: Range<usize>, message: impl Into<String>) -> Finding {
        let state = Some(state);
        Finding { state, range, message: message.into(), help: None, fix: None, is_secret: false }
    }

    fn help(mut self, help: impl Into<String>) -> Finding {
        self.help = Some(help.into());
        self
    }

    fn fix(mut self, replacement: Option<String>) -> Finding {
        self.fix = replacement.map(|replacement| Edit { range: self.range.clone(), replacement });
        self
    }
}

impl Report<'_> {
    fn add(&mut self, finding: Finding) {
        let Finding { state, range, message, help, fix, is_secret } = finding;
        let Rule { code, severity, .. } = self.rule;
        let (code, severity) = (*code, *severity);
        self.found.push(Diagnostic { code, severity, message, state, range, help, fix, is_secret });
    }
}

/// The rule of a code, however it is written.
pub fn rule(code: &str) -> Option<&'static Rule> {
    RULES.into_iter().find(|rule| rule.code.eq_ignore_ascii_case(code) || rule.name == code)
}

/// A message ends with what was probably meant, which reads better on a line of its own.
pub fn split_help(message: &str) -> (&str, Option<&str>) {
    message.split_once("; ").map_or((message, None), |(message, help)| (message, Some(help)))
}

/// Everything that is wrong with a workflow, in the order it stands there.
pub fn lint(workflow: &Workflow<'_>) -> Vec<Diagnostic> {
    let &Workflow { graph, backend, find_scope } = workflow;
    let subject = Subject { graph, backend, find_scope, tag_errors: TagErrors::collect(graph) };
    let mut found = Vec::new();
    for rule in RULES {
        (rule.check)(&subject, &mut Report { rule, found: &mut found });
    }
    let documents = documents(graph);
    found.retain(|diagnostic| {
        let is_document = diagnostic.state.and_then(|state| documents.get(state)).copied();
        !is_document.unwrap_or(false) || diagnostic.is_secret
    });
    found.sort_by(|one, other| {
        let key = |found: &Diagnostic| (found.state, found.range.start, found.code, found.range.end);
        key(one).cmp(&key(other))
    });
    found.dedup();
    found
}

/// What stands beside the states of a workflow to be read by people.
const DOCUMENTS: [&str; 8] =
    ["README", "CHANGELOG", "CONTRIBUTING", "LICENSE", "NOTES", "TODO", "AGENTS", "CLAUDE"];

/// Which files are no states, because they are called like a document and nothing leads to them.
fn documents(graph: &Graph) -> Vec<bool> {
    let mut is_named = vec![false; graph.states.len()];
    for target in graph.leading.iter().flatten().chain(graph.entry.as_ref().ok()) {
        if let Some(is_named) = is_named.get_mut(*target) {
            *is_named = true;
        }
    }
    let is_document = |name: &str| DOCUMENTS.iter().any(|document| document.eq_ignore_ascii_case(name));
    graph.states.iter().zip(is_named).map(|(state, named)| !named && is_document(state.file.name())).collect()
}

/// A name that leads nowhere, and why.
struct Unresolved<'g> {
    state: usize,
    exit: &'g StateExit,
    role: Role,
    reference: &'g Reference,
    error: &'g ResolveError,
}

/// All names that lead nowhere.
fn unresolved(graph: &Graph) -> impl Iterator<Item = Unresolved<'_>> {
    let exits = graph
        .states
        .iter()
        .enumerate()
        .flat_map(|(number, state)| state.exits.iter().map(move |exit| (number, exit)));
    exits.flat_map(|(state, exit)| {
        exit.references().filter_map(move |(role, reference)| match &reference.leads {
            Leads::Nowhere(error) => Some(Unresolved { state, exit, role, reference, error }),
            _ => None,
        })
    })
}

/// `` the `return` of `call` `` to begin a message with, or nothing for a plain target.
fn role_words(exit: &StateExit, role: Role) -> String {
    match role {
        Role::Target => String::new(),
        other => format!("`{}` of `{}`: ", other.as_str(), exit.tag),
    }
}
