//! The pure core of Raymond: the workflow language, and all decisions of a run.

pub mod decide;
pub mod diagnostic;
pub mod diagram;
pub mod duration;
pub mod emit;
pub mod event;
pub mod evolve;
pub mod folder;
pub mod frontmatter;
pub mod graph;
pub mod header;
pub mod input;
pub mod join;
pub mod limits;
pub mod lint;
pub mod money;
pub mod name;
pub mod payload;
pub mod policy;
pub mod run;
pub mod tag;
pub mod template;
pub mod tokens;
pub mod transition;
pub mod variable;
pub mod workflow;
