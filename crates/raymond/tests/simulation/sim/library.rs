//! Where states are read and names looked up, as one process of Raymond's sees them.

use std::cell::RefCell;
use std::rc::Rc;

use raymond::agent::registry::Backends;
use raymond::run::engine::States;
use raymond::run::lookups;
use raymond::workflow::scope::Scope;
use raymond::workflow::scopes::{Allowed, Scopes};
use raymond::workflow::states::ScopeStates;
use raymond_core::input::{Lookups, Prepared, PromptPlan};
use raymond_core::run::{Agent, Options};
use raymond_core::transition::Transition;
use raymond_core::workflow::Platform;

use super::course::Course;
use super::program::Program;

#[derive(Clone)]
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
    /// As a new process opens it.
    pub fn open(program: &Program, options: &Options, part: usize) -> Self {
        match &program.course {
            Some(course) => Self::Recorded { course: Rc::clone(course), part },
            None => {
                let own = own_scope(program);
                let allowed = Allowed::new(&own, program.home(), &[]);
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
    fn prepare(&mut self, agent: &Agent) -> Result<Prepared, String> {
        match self {
            Self::Real { scopes, options } => {
                let (scopes, options) = (Rc::clone(scopes), options.clone());
                ScopeStates { scopes, options, backends: Backends::built_in() }.prepare(agent)
            }
            Self::Recorded { course, part } => course.prepare(*part, agent),
        }
    }
}
