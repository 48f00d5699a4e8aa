//! Finds mistakes in a workflow before it is run: a table of rules over its [`Graph`].
//!
//! Each rule is a file with its name, its reason and its check. Codes are stable: the code of a removed rule is not
//! used again. If a workflow has no errors and its agents use only the declared transitions, no name is unresolved.

mod misspelt;
mod printed;
mod rules;
mod tag_errors;
#[cfg(test)]
mod tests;
mod words;

use std::ops::Range;
use std::rc::Rc;

pub use rules::{Outside, RULES, outside};

pub use crate::diagnostic::BeforeRun;
use crate::diagnostic::{Diagnostic, Edit, Severity};
use crate::frontmatter::ResultSchema;
use crate::graph::{Graph, Leads, Origin, Reference, Role, StateExit};
use crate::named_inputs::DeclaredInput;
use crate::workflow::ResolveError;
use tag_errors::TagErrors;

/// One kind of mistake.
#[derive(Debug)]
pub struct Rule {
    pub code: &'static str,
    /// Its name: a few words joined by dashes.
    pub name: &'static str,
    pub severity: Severity,
    /// What a run does about it before its first step.
    pub before_run: BeforeRun,
    /// One sentence about what it finds.
    pub summary: &'static str,
    /// Why that matters and what to do about it.
    pub explanation: &'static str,
    check: fn(&Subject<'_>, &mut Report<'_>),
}

/// Checks whether another workflow can be entered at the path in a tag, and which inputs it declares.
pub type FindScope<'s> = &'s dyn Fn(&str) -> Result<Rc<[DeclaredInput]>, ScopeProblem>;

/// Why another workflow cannot be entered, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScopeProblem {
    /// It is not there. A step may still make it.
    Missing(String),
    /// It is there and cannot be used, for example because it has no state to begin with.
    Unusable(String),
    /// It is there, outside the folders whose workflows may be entered.
    Forbidden(String),
}

/// The efforts that a backend, or the default one, is known to take; `None` if that is not known.
pub type KnownEfforts<'s> = &'s dyn Fn(Option<&str>) -> Option<&'static [&'static str]>;

/// What is wrong with a `result_schema`, if anything is.
pub type CheckSchema<'s> = &'s dyn Fn(&ResultSchema) -> Result<(), String>;

/// A workflow, with the data that its states do not contain.
#[derive(Clone, Copy)]
pub struct Workflow<'s> {
    pub graph: &'s Graph,
    /// What prompts use that choose nothing themselves: from the manifest, the options of a run or the config file.
    pub defaults: Defaults<'s>,
    /// The inputs that its manifest declares.
    pub inputs: &'s [DeclaredInput],
    pub find_scope: FindScope<'s>,
    pub known_efforts: KnownEfforts<'s>,
    pub check_schema: CheckSchema<'s>,
}

/// The settings of prompts that choose none themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Defaults<'s> {
    pub backend: Option<&'s str>,
    pub model: Option<&'s str>,
    pub effort: Option<&'s str>,
}

/// The input of the rules.
struct Subject<'s> {
    graph: &'s Graph,
    defaults: Defaults<'s>,
    inputs: &'s [DeclaredInput],
    find_scope: FindScope<'s>,
    known_efforts: KnownEfforts<'s>,
    check_schema: CheckSchema<'s>,
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
    /// Whether it is in something that the state declares: an entry of its policy, not a tag in its text.
    is_declared: bool,
}

impl Finding {
    fn in_workflow(message: impl Into<String>) -> Finding {
        Finding { state: None, ..Finding::at(0, 0..0, message) }
    }

    fn at(state: usize, range: Range<usize>, message: impl Into<String>) -> Finding {
        let state = Some(state);
        let message = message.into();
        Finding { state, range, message, help: None, fix: None, is_secret: false, is_declared: false }
    }

    /// A finding about a name in a transition.
    fn in_exit(mut self, exit: &StateExit) -> Finding {
        self.is_declared = matches!(exit.origin, Origin::Policy(_));
        self
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
        let Finding { state, range, message, help, fix, is_secret, is_declared } = finding;
        let Rule { code, severity, before_run, .. } = *self.rule;
        let before_run = match before_run {
            BeforeRun::RefuseIfDeclared if is_declared => BeforeRun::Refuse,
            BeforeRun::RefuseIfDeclared => BeforeRun::Warn,
            other => other,
        };
        let diagnostic =
            Diagnostic { code, severity, before_run, message, state, range, help, fix, is_secret };
        self.found.push(diagnostic);
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
    check_with(workflow, RULES.into_iter())
}

/// The findings that matter before a run: those that refuse it, and those that are worth a warning.
pub fn lint_before_run(workflow: &Workflow<'_>) -> Vec<Diagnostic> {
    check_with(workflow, RULES.into_iter().filter(|rule| rule.before_run != BeforeRun::Nothing))
}

fn check_with(workflow: &Workflow<'_>, rules: impl Iterator<Item = &'static Rule>) -> Vec<Diagnostic> {
    let &Workflow { graph, defaults, inputs, find_scope, known_efforts, check_schema } = workflow;
    let tag_errors = TagErrors::collect(graph);
    let subject = Subject { graph, defaults, inputs, find_scope, known_efforts, check_schema, tag_errors };
    let mut found = Vec::new();
    for rule in rules {
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
