//! Text → tags.

use serde::{Deserialize, Serialize};

/// The names of all tags; anything else is text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TagName {
    Goto,
    Reset,
    Call,
    Function,
    Fork,
    Result,
    Ask,
    Join,
    CallWorkflow,
    FunctionWorkflow,
    ForkWorkflow,
    ResetWorkflow,
    Print,
}

/// One complete tag as it stood in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    pub name: TagName,
    /// In the order written, values decoded.
    pub attributes: Vec<(String, String)>,
    /// What stands between the opening and the closing tag, untouched.
    pub content: String,
}
