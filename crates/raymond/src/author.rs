//! Tools for the authors of workflows: what `lint`, `diagram`, `convert`, `init` and `schema` are made of.

pub mod check;
pub mod convert;
pub mod load;
pub mod may_do;
pub mod report;
pub mod schema;
pub mod templates;
