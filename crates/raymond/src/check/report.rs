//! Reports about tests: for people, and for other programs.

mod json;
mod junit;
mod text;

use std::time::Duration;

pub use json::json;
pub use junit::junit;
pub use text::{failures, progress, summary};

use super::coverage::Coverage;
use super::file::BadFile;
use super::suite::{Case, Ran};

/// Everything that a report tells.
pub struct Report<'a> {
    pub cases: &'a [Case],
    pub ran: &'a Ran,
    pub bad: &'a [BadFile],
    pub coverage: Option<&'a Coverage>,
    pub duration: Duration,
}

impl Report<'_> {
    fn outcomes(&self) -> impl Iterator<Item = (&Case, &super::trial::Outcome)> {
        self.ran.outcomes.iter().filter_map(|outcome| Some((self.cases.get(outcome.number)?, outcome)))
    }

    pub fn failed(&self) -> usize {
        self.ran.outcomes.iter().filter(|outcome| !outcome.failures.is_empty()).count()
    }

    fn passed(&self) -> usize {
        self.ran.outcomes.len() - self.failed()
    }
}
