//! The backends that states, manifests and the command line choose by name.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use super::prepared::{Prepared, PreparedProgram};
use super::price::{Price, Prices};
use super::{AgentProgram, DEFAULT_BACKEND, KINDS, Pricing, TokensTold};
use crate::config::{BackendSettings, Config};
use crate::error::UserError;
use crate::process::program_on_path;

/// An agent program, and what its user accepts although the program is weak there.
#[derive(Clone, Debug)]
pub struct Backend {
    program: Arc<dyn AgentProgram>,
    /// The kind of program.
    pub kind: String,
    /// `without_branch = "continue"`: a conversation that cannot be branched is continued itself.
    pub may_continue: bool,
    /// The backend's own model.
    pub model: Option<String>,
    /// `cost = "none"`: turns whose cost is not known are not counted.
    pub uncounted: bool,
}

impl Deref for Backend {
    type Target = dyn AgentProgram;

    fn deref(&self) -> &Self::Target {
        &*self.program
    }
}

impl Backend {
    fn new(name: &str, settings: &BackendSettings) -> Result<Self, UserError> {
        Ok(Self {
            program: program(name, settings)?,
            kind: settings.kind.as_deref().unwrap_or(name).to_owned(),
            may_continue: settings.without_branch.is_some(),
            model: settings.model.clone(),
            uncounted: settings.cost.is_some(),
        })
    }

    /// Whether its program is there, if it needs one.
    pub fn is_installed(&self) -> bool {
        self.inspection().is_none_or(|inspection| program_on_path(&inspection.program).is_some())
    }

    /// Its program, if that cannot be found whatever a turn's folder is. A relative path is looked up only there.
    pub fn missing_program(&self) -> Option<String> {
        let program = self.inspection()?.program;
        let path = Path::new(&program);
        let depends_on_folder = path.is_relative() && path.components().count() > 1;
        (!depends_on_folder && program_on_path(&program).is_none()).then_some(program)
    }

    /// The model of a turn. A model that was chosen for another backend means nothing to this one.
    pub fn model_of(&self, chosen: Option<String>, is_fallback: bool) -> Option<String> {
        chosen.filter(|_| !is_fallback).or_else(|| self.model.clone())
    }

    /// Whether conversations are continued themselves, and not in branches.
    pub fn continues_in_place(&self) -> bool {
        let can = self.capabilities();
        self.may_continue && can.resume && !can.branch
    }

    /// Whether a conversation can be continued, in one way or the other.
    pub fn continues(&self) -> bool {
        self.capabilities().branch || self.continues_in_place()
    }

    /// What the user has accepted and should be told when a run begins.
    pub fn accepted(&self, name: &str) -> Vec<String> {
        let in_place = self.continues_in_place().then(|| {
            format!(
                "the backend `{name}` continues conversations themselves (`without_branch`): a turn that is tried \
                 again may see half of its first try"
            )
        });
        let uncounted = (self.uncounted && !self.capabilities().cost)
            .then(|| format!("the backend `{name}` is not held by the budget (`cost = \"none\"`)"));
        in_place.into_iter().chain(uncounted).collect()
    }
}

/// Every backend that can be named: an agent program with its settings.
#[derive(Clone, Debug)]
pub struct Backends {
    named: BTreeMap<String, Backend>,
    pub prices: Prices,
    /// What every other name stands for, if anything.
    others: Option<Backend>,
}

impl Backends {
    /// The built-in backends: each kind under its own name that needs no settings.
    pub fn built_in() -> Self {
        let settings = BackendSettings::default();
        let made = KINDS
            .iter()
            .filter_map(|kind| Some((kind.name.to_owned(), Backend::new(kind.name, &settings).ok()?)));
        Self { named: made.collect(), prices: Prices::default(), others: None }
    }

    /// The built-in backends, and those that the config file adds or changes.
    pub fn new(config: &Config) -> Result<Self, UserError> {
        let mut backends = Self::built_in();
        backends.prices = Prices::new(&config.prices);
        for (name, settings) in &config.backend {
            backends.named.insert(name.clone(), Backend::new(name, settings)?);
        }
        Ok(backends)
    }

    /// Adds a backend, or replaces the one with that name.
    pub fn add(&mut self, name: &str, program: Arc<dyn AgentProgram>) {
        let backend =
            Backend { program, kind: name.to_owned(), may_continue: false, model: None, uncounted: false };
        self.named.insert(name.to_owned(), backend);
    }

    /// The price of a turn with this backend, if it reports tokens and no dollars and its model has a price.
    pub fn price(&self, backend: &Backend, model: Option<&str>) -> Option<Price> {
        model.filter(|_| self.needs_price(backend)).and_then(|model| self.prices.of(model))
    }

    /// Whether the cost of a backend's turns follows from the price of their model.
    pub fn needs_price(&self, backend: &Backend) -> bool {
        let can = backend.capabilities();
        !can.cost && can.tokens != TokensTold::No && !backend.uncounted
    }

    /// What the tokens of a backend's turns cost.
    pub fn pricing(&self, backend: &Backend) -> Pricing {
        Pricing { prices: self.prices.clone(), may_be_uncounted: backend.uncounted }
    }

    /// The same backends, answered from prepared replies. The config that defines a backend may be missing in a test,
    /// so there every name is known.
    pub fn answered_by(self, prepared: &Arc<Prepared>) -> Self {
        let program =
            |inner| Arc::new(PreparedProgram::new(inner, Arc::clone(prepared))) as Arc<dyn AgentProgram>;
        let wrap = |backend: Backend| {
            let inner = Arc::clone(&backend.program);
            Backend { program: program(Some(inner)), ..backend }
        };
        let unknown = || {
            let kind = DEFAULT_BACKEND.to_owned();
            Backend { program: program(None), kind, may_continue: false, model: None, uncounted: false }
        };
        let named = self.named.into_iter().map(|(name, backend)| (name, wrap(backend)));
        Self { named: named.collect(), prices: self.prices, others: prepared.is_test.then(unknown) }
    }

    /// The efforts that a backend, or the default one, is known to take.
    pub fn known_efforts(&self, backend: Option<&str>) -> Option<&'static [&'static str]> {
        self.get(backend.unwrap_or(DEFAULT_BACKEND)).ok()?.known_efforts()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.named.keys().map(String::as_str)
    }

    /// The names of those whose programs are there.
    pub fn installed(&self) -> Vec<String> {
        self.named
            .iter()
            .filter(|(_, backend)| backend.is_installed())
            .map(|(name, _)| name.clone())
            .collect()
    }

    pub fn get(&self, name: &str) -> Result<&Backend, String> {
        self.named.get(name).or(self.others.as_ref()).ok_or_else(|| {
            let known: Vec<&str> = self.names().collect();
            format!("there is no backend `{}`; known are: {}", name.escape_debug(), known.join(", "))
        })
    }
}

/// The agent program of a backend. Without a `kind` in its settings, the backend's name is the kind.
pub fn program(name: &str, settings: &BackendSettings) -> Result<Arc<dyn AgentProgram>, UserError> {
    let wanted = settings.kind.as_deref().unwrap_or(name);
    match KINDS.iter().find(|kind| kind.name == wanted) {
        Some(kind) => (kind.make)(settings)
            .map_err(|error| UserError::usage(format!("config: the backend `{name}` {error}"))),
        None => {
            let error = format!("config: the backend `{name}` is of the unknown kind `{wanted}`");
            Err(UserError::usage(error).hint(known_kinds()))
        }
    }
}

pub fn is_kind(name: &str) -> bool {
    KINDS.iter().any(|kind| kind.name == name)
}

/// The error message for an unknown kind.
pub fn known_kinds() -> String {
    let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    format!("known kinds are {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up_and_kinds_checked() {
        let settings = BackendSettings {
            kind: Some("claude".into()),
            command: Some("my-claude".into()),
            ..Default::default()
        };
        let config = |name: &str, settings| Config {
            backend: BTreeMap::from([(name.to_owned(), settings)]),
            ..Config::default()
        };
        let backends = Backends::new(&config("mine", settings)).unwrap();
        let program = |name: &str| backends.get(name).unwrap().inspection().unwrap().program;
        assert_eq!((program("mine"), program("claude")), ("my-claude".to_owned(), "claude".to_owned()));
        let unknown = backends.get("x").unwrap_err();
        assert!(unknown.starts_with("there is no backend `x`; known are: "), "{unknown}");
        assert!(
            unknown.contains("scripted") && unknown.contains("mine") && !unknown.contains("command"),
            "{unknown}"
        );
        let error = Backends::new(&config("y", BackendSettings::default())).unwrap_err();
        assert!(error.message.contains("unknown kind `y`"), "{}", error.message);
    }
}
