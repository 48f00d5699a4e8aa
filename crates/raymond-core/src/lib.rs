//! The pure core of Raymond: the workflow language and the state of a run.

pub mod duration;
pub mod frontmatter;
pub mod header;
pub mod limits;
pub mod policy;
pub mod tag;
pub mod template;
pub mod transition;
pub mod variable;
pub mod workflow;
