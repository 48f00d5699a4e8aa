//! Finds mistakes in a workflow before it is run: a table of rules over its [`Graph`].
//!
//! Each rule is a file with its name, its reason and its check. Codes are stable: the code of a removed rule is not
//! used again. If a workflow has no errors and its agents use only the declared transitions, no name is unresolved.

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
    /// Its name: a few words joined by dashes.
    pub name: &'static str,
    pub severity: Severity,
    /// One sentence about what it finds.
    pub summary: &'static str,
    /// Why that matters and what to do about it.
    pub explanation: &'static str,
    check: fn(&Subject<'_>, &mut Report<'_>),
}

/// Checks whether another workflow exists at the path in a tag; the error says why not.
pub type FindScope<'s> = &'s dyn Fn(&str) -> Result<(), String>;

/// A workflow, with the data that its states do not contain.
pub struct Workflow<'s> {
    pub graph: &'s Graph,
    /// The settings of its manifest or the config file.
    pub backend: Option<&'s str>,
    pub find_scope: FindScope<'s>,
}

/// The input of the rules.
struct Subject<'s> {
    graph: &'s Graph,
    backend: Option<&'s str>,
    find_scope: FindScope<'s>,
    tag_errors: TagErrors,
}

/// The findings of one rule.
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

/// The rule with this code, in upper or lower case, or with this name.
pub fn rule(code: &str) -> Option<&'static Rule> {
    RULES.into_iter().find(|rule| rule.code.eq_ignore_ascii_case(code) || rule.name == code)
}

/// Splits the advice after `; ` from a message, to show it on a separate line.
pub fn split_help(message: &str) -> (&str, Option<&str>) {
    message.split_once("; ").map_or((message, None), |(message, help)| (message, Some(help)))
}

/// All findings in a workflow, in the order of their places.
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

/// Names of documents for people that are often in the folder of a workflow.
const DOCUMENTS: [&str; 8] =
    ["README", "CHANGELOG", "CONTRIBUTING", "LICENSE", "NOTES", "TODO", "AGENTS", "CLAUDE"];

/// Which files are not states, because they have the name of a document and no state leads to them.
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

/// A name that does not resolve to a state, and why.
struct Unresolved<'g> {
    state: usize,
    exit: &'g StateExit,
    role: Role,
    reference: &'g Reference,
    error: &'g ResolveError,
}

/// All names that do not resolve to a state.
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
