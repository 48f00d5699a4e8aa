//! Workflows for the simulation: state files as the real ones, and what their programs do instead of running.

use std::collections::BTreeMap;
use std::time::Duration;

use raymond::engine::States;
use raymond_core::duration::Limit;
use raymond_core::input::{FaultClass, Lookups, Plan, Prepared, PromptPlan};
use raymond_core::money::Usd;
use raymond_core::run::{Agent, Options};
use raymond_core::workflow::{Listing, Platform, StateFile};
use raymond_core::{frontmatter, header};

/// What one attempt does.
#[derive(Clone, Debug)]
pub enum Does {
    /// Prints this and exits well; for a prompt it is the final message.
    Says(String),
    Exits(i32),
    DiesBySignal,
    /// Is silent until its time is up.
    Hangs,
    /// The turn of an agent fails.
    Fails(FaultClass),
    /// The agent's turn ends at a usage limit that is over so many seconds later.
    HitsLimit(u32),
}

#[derive(Clone, Debug)]
pub struct Act {
    pub does: Does,
    pub cents: u32,
    pub seconds: u32,
    /// A child that goes on living when the program has ended.
    pub leaves_child: bool,
    /// Does not end before it is killed.
    pub is_stubborn: bool,
}

impl Act {
    pub fn new(does: Does) -> Self {
        Self { does, cents: 0, seconds: 1, leaves_child: false, is_stubborn: false }
    }

    pub fn cents(self, cents: u32) -> Self {
        Self { cents, ..self }
    }

    pub fn seconds(self, seconds: u32) -> Self {
        Self { seconds, ..self }
    }

    pub fn leaving_a_child(self) -> Self {
        Self { leaves_child: true, ..self }
    }

    pub fn stubborn(self) -> Self {
        Self { is_stubborn: true, ..self }
    }

    pub fn cost(&self) -> Usd {
        Usd::from_dollars(f64::from(self.cents) / 100.0)
    }
}

/// Prints a text, in which `{input}`, `{visits}`, `{agent}` and `{big}` are filled in.
pub fn says(text: &str) -> Act {
    Act::new(Does::Says(text.to_owned()))
}

pub fn exits(code: i32) -> Act {
    Act::new(Does::Exits(code))
}

pub fn fails(class: FaultClass) -> Act {
    Act::new(Does::Fails(class))
}

#[derive(Clone, Debug)]
pub struct State {
    pub file: StateFile,
    /// What stands in the file.
    pub text: String,
    /// What happens on each visit, at each try; the last ones go on for ever.
    pub visits: Vec<Vec<Act>>,
}

/// A workflow and how it is run.
#[derive(Clone, Debug)]
pub struct Program {
    pub name: String,
    pub states: BTreeMap<StateFile, State>,
    pub options: Options,
    /// Whether open questions end the run until they are answered.
    pub pauses: bool,
    pub is_answered: bool,
    pub segment_bytes: u64,
    /// Whether the journal is synced.
    pub is_synced: bool,
    /// Whether its result is free of the words of errors.
    pub names_no_error: bool,
    listing: Listing,
}

impl Program {
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            states: BTreeMap::new(),
            options: Options { budget_usd: Usd::ZERO, ..Options::default() },
            pauses: false,
            is_answered: true,
            segment_bytes: 8 * 1024 * 1024,
            is_synced: true,
            names_no_error: true,
            listing: Listing::new([]),
        }
    }

    /// A state that does the same at every visit and try.
    pub fn state(self, file: &str, text: &str, act: Act) -> Self {
        self.visits(file, text, vec![vec![act]])
    }

    /// A state whose tries differ.
    pub fn tries(self, file: &str, text: &str, tries: Vec<Act>) -> Self {
        self.visits(file, text, vec![tries])
    }

    pub fn visits(mut self, file: &str, text: &str, visits: Vec<Vec<Act>>) -> Self {
        let file = StateFile::new(file).expect("a state's name");
        self.states.insert(file.clone(), State { file, text: text.to_owned(), visits });
        self.listing = Listing::new(self.states.keys().map(|state| state.as_str().to_owned()));
        self
    }

    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub fn entry(&self) -> StateFile {
        self.listing.entry(Platform::Unix).expect("every program has a first state")
    }

    /// What the program of a state does at a visit, after so many tries that have ended.
    pub fn act(&self, state: &StateFile, visit: u64, tries: usize) -> Act {
        let visits = &self.states[state].visits;
        let visit = (visit as usize).saturating_sub(1).min(visits.len() - 1);
        visits[visit][tries.min(visits[visit].len() - 1)].clone()
    }

    pub fn look_up(&self, names: &[&str]) -> Lookups {
        let resolve =
            |name: &str| self.listing.resolve(name, Platform::Unix).map_err(|error| error.to_string());
        let states = names.iter().map(|name| ((*name).to_owned(), resolve(name))).collect();
        Lookups { states, directories: BTreeMap::new(), scopes: BTreeMap::new() }
    }
}

impl States for &Program {
    fn prepare(&mut self, agent: &Agent) -> Result<Prepared, String> {
        let state = self.states.get(&agent.state).ok_or("the state is gone")?;
        let kind = state.file.kind();
        let plan = if kind.is_prompt() {
            let prompt = frontmatter::split_and_parse(&state.text).map_err(|error| error.to_string())?;
            Plan::Prompt(Box::new(PromptPlan {
                body: prompt.body.to_owned(),
                policy: prompt.settings.allowed_transitions,
                max_visits: prompt.settings.max_visits,
                timeout: prompt
                    .settings
                    .timeout
                    .and_then(Limit::duration)
                    .or(Some(Duration::from_secs(1800))),
                ..PromptPlan::default()
            }))
        } else {
            Plan::Script(header::parse(kind, &state.text).map_err(|error| error.to_string())?.0)
        };
        Ok(Prepared { hash: state.text.len().to_string(), plan, warnings: Vec::new() })
    }
}
