//! Reads states and resolves names, as one process of Raymond sees them.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use raymond::run::engine::{Preparation, States, StepLaunch};
use raymond::run::lookups;
use raymond::store::StoreError;
use raymond::workflow::scope::Scope;
use raymond::workflow::scopes::{Allowed, Scopes};
use raymond::workflow::states::{StateText, options_in, read_state};
use raymond_core::input::{Lookups, Prepared, PromptPlan};
use raymond_core::run::{Agent, Options, Run};
use raymond_core::transition::Transition;
use raymond_core::workflow::Platform;

use crate::course::Course;
use crate::program::Program;

#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub enum Library {
    /// The real ones, on the real disk.
    Real { scopes: Rc<RefCell<Scopes>>, options: Options },
    /// What a recorded process found.
    Recorded { course: Rc<Course>, part: usize },
}

pub fn own_scope(program: &Program) -> Scope {
    Scope::open(&program.own(), Platform::Unix).expect("the program's own workflow")
}

impl Library {
    /// Opens it as a new process does.
    pub fn open(program: &Program, options: &Options, part: usize) -> Self {
        match &program.course {
            Some(course) => Self::Recorded { course: Rc::clone(course), part },
            None => {
                let own = own_scope(program);
                // Its models choose workflows that no state names.
                let listed = [program.home().to_string_lossy().into_owned()];
                let allowed = Allowed::new(&own, program.home(), &listed);
                let scopes = Scopes::new(own, Platform::Unix, allowed);
                Self::Real { scopes: Rc::new(RefCell::new(scopes)), options: options.clone() }
            }
        }
    }

    pub fn of_script(&self, agent: &Agent, transition: Option<&Transition>) -> Lookups {
        match (self, transition) {
            (_, None) => Lookups::default(),
            (Self::Real { scopes, .. }, Some(transition)) => {
                lookups::of_transition(&mut scopes.borrow_mut(), agent, transition)
            }
            (Self::Recorded { course, .. }, Some(transition)) => course.look_up(transition),
        }
    }

    pub fn of_turn(&self, agent: &Agent, plan: &PromptPlan, transition: Option<&Transition>) -> Lookups {
        match self {
            Self::Real { scopes, .. } => lookups::of_turn(&mut scopes.borrow_mut(), agent, plan, transition),
            Self::Recorded { course, part } => course.look_up_turn(*part, agent, transition),
        }
    }
}

impl States for Library {
    /// All that a replayed program needs: how long it may be silent.
    type Job = Option<Duration>;

    fn prepare(&mut self, _: &Run, agent: &Agent) -> Result<Preparation<Option<Duration>>, StoreError> {
        let state = match self {
            Self::Real { scopes, options } => {
                RealStates { scopes: Rc::clone(scopes), options: options.clone() }.read(agent)
            }
            Self::Recorded { course, part } => course.state(*part, agent),
        };
        Ok(state.map(|state| {
            let timeout = state.timeout();
            (Prepared { hash: state.hash, plan: state.plan, warnings: state.warnings }, timeout)
        }))
    }
}

/// A step to replay.
pub type Launch = StepLaunch<Option<Duration>>;

/// States read from real workflows.
pub struct RealStates {
    pub scopes: Rc<RefCell<Scopes>>,
    pub options: Options,
}

impl RealStates {
    pub fn read(&self, agent: &Agent) -> Result<StateText, String> {
        let mut scopes = self.scopes.borrow_mut();
        let needed = |error| format!("{error} ({} needs it)", agent.id);
        let scope = scopes.of(agent).map_err(needed)?;
        let source = scope.read(&agent.state).map_err(needed)?;
        let options = options_in(scope, &self.options);
        read_state(&agent.state, &source, &options, &scope.manifest().defaults)
    }
}
