//! Tools for the authors of workflows: what `lint`, `diagram`, `init` and `schema` are made of.

pub mod check;
pub mod load;
pub mod report;
pub mod schema;
pub mod templates;
