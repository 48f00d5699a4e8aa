//! Which transitions a prompt permits, which one it may leave unsaid, and how its agent is reminded of them.

use serde::{Deserialize, Serialize};

use crate::tag::TagName;
use crate::workflow::StateFile;

/// One permitted transition: what it names must match, what it leaves out is free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub tag: TagName,
    /// A state, or for the `-workflow` tags a scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    #[serde(rename = "return", default, skip_serializing_if = "Option::is_none")]
    pub return_to: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_next: Option<String>,
    /// Where the entry stands in its file, counted from 1; 0 when it stands in none.
    #[serde(default)]
    pub line: u32,
    #[serde(default)]
    pub column: u32,
}

/// The permitted transitions of one prompt, in the order written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Policy {
    pub entries: Vec<Entry>,
}

/// A transition tag as an agent emitted it, with the file names its states were resolved to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emitted<'a> {
    pub tag: TagName,
    /// For the `-workflow` tags the scope as it was written.
    pub target: Option<&'a str>,
    pub return_to: Option<&'a str>,
    pub next: Option<&'a str>,
    pub timeout_next: Option<&'a str>,
}

/// How a name becomes a state file of the prompt's own scope.
pub type Resolve<'r> = &'r dyn Fn(&str) -> Option<StateFile>;

/// What stands between a tag's opening and closing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    State,
    Scope,
    /// Text for whoever gets it, which no policy constrains; here is what to call it.
    Free(&'static str),
}

/// What a tag consists of, as far as policies are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) content: Content,
    pub(crate) needs_return: bool,
    pub(crate) needs_next: bool,
    /// Only a tag that says everything that happens next can be left unsaid.
    can_be_implicit: bool,
}

/// The transition tags in the order the documentation gives them; `print` is none.
pub(crate) const TRANSITIONS: [TagName; 12] = [
    TagName::Goto,
    TagName::Reset,
    TagName::Call,
    TagName::Function,
    TagName::Fork,
    TagName::Result,
    TagName::Ask,
    TagName::Join,
    TagName::CallWorkflow,
    TagName::FunctionWorkflow,
    TagName::ForkWorkflow,
    TagName::ResetWorkflow,
];

/// The table of tags.
pub(crate) const fn shape(tag: TagName) -> Shape {
    const fn jump(name: &'static str, content: Content) -> Shape {
        Shape { name, content, needs_return: false, needs_next: false, can_be_implicit: true }
    }
    const fn call(name: &'static str, content: Content) -> Shape {
        Shape { needs_return: true, ..jump(name, content) }
    }
    const fn fork(name: &'static str, content: Content) -> Shape {
        Shape { needs_next: true, ..jump(name, content) }
    }
    const fn text(name: &'static str, placeholder: &'static str) -> Shape {
        Shape { can_be_implicit: false, ..jump(name, Content::Free(placeholder)) }
    }
    match tag {
        TagName::Goto => jump("goto", Content::State),
        TagName::Reset => jump("reset", Content::State),
        TagName::Call => call("call", Content::State),
        TagName::Function => call("function", Content::State),
        TagName::Fork => fork("fork", Content::State),
        TagName::Result => text("result", "your result"),
        TagName::Ask => Shape { needs_next: true, ..text("ask", "your question") },
        TagName::Join => jump("join", Content::State),
        TagName::CallWorkflow => call("call-workflow", Content::Scope),
        TagName::FunctionWorkflow => call("function-workflow", Content::Scope),
        TagName::ForkWorkflow => fork("fork-workflow", Content::Scope),
        TagName::ResetWorkflow => jump("reset-workflow", Content::Scope),
        TagName::Print => text("print", "your text"),
    }
}

impl Policy {
    /// Whether some entry matches what was emitted.
    pub fn permits(&self, emitted: &Emitted<'_>, resolve: Resolve<'_>) -> bool {
        self.entries.iter().any(|entry| entry.matches(emitted, resolve))
    }

    /// The transition to take when none is emitted: the only entry, if nothing about it is left open.
    pub fn implicit(&self) -> Option<&Entry> {
        match self.entries.as_slice() {
            [only] if only.is_complete() => Some(only),
            _ => None,
        }
    }

    /// What to tell the agent, in the same conversation, when its output could not be used.
    pub fn reminder(&self, problem: &str, resolve: Resolve<'_>) -> String {
        let problem = problem.trim().trim_end_matches('.');
        let tags: Vec<String> = self.entries.iter().map(|entry| entry.example(resolve)).collect();
        let request = match tags.len() {
            1 => "Reply with exactly one tag, this one, written in full as shown here:",
            _ => "Reply with exactly one of these tags, written in full as shown here:",
        };
        let mut text =
            format!("Your last message could not be used: {problem}.\n\n{request}\n\n{}\n", tags.join("\n"));
        if self.entries.iter().any(Entry::is_fork) {
            text.push_str("\nOnly forks may be repeated, one tag for each worker.\n");
        }
        text
    }
}

impl Entry {
    fn matches(&self, emitted: &Emitted<'_>, resolve: Resolve<'_>) -> bool {
        if self.tag != emitted.tag {
            return false;
        }
        let target_matches = match shape(self.tag).content {
            Content::Scope => same_text(self.target.as_deref(), emitted.target),
            Content::State | Content::Free(_) => same_state(self.target.as_deref(), emitted.target, resolve),
        };
        target_matches
            && same_state(self.return_to.as_deref(), emitted.return_to, resolve)
            && same_state(self.next.as_deref(), emitted.next, resolve)
            && same_state(self.timeout_next.as_deref(), emitted.timeout_next, resolve)
    }

    fn is_complete(&self) -> bool {
        let shape = shape(self.tag);
        shape.can_be_implicit
            && self.target.is_some()
            && (!shape.needs_return || self.return_to.is_some())
            && (!shape.needs_next || self.next.is_some())
    }

    fn is_fork(&self) -> bool {
        matches!(self.tag, TagName::Fork | TagName::ForkWorkflow)
    }

    /// The tag as the agent should write it.
    fn example(&self, resolve: Resolve<'_>) -> String {
        let Shape { name, content, needs_return, needs_next, .. } = shape(self.tag);
        let mut tag = format!("<{name}");
        let attributes = [
            ("return", &self.return_to, needs_return),
            ("next", &self.next, needs_next),
            ("timeout_next", &self.timeout_next, false),
        ];
        for (attribute, value, is_needed) in attributes {
            if value.is_some() || is_needed {
                let value = state_example(value.as_deref(), resolve);
                tag.push_str(&format!(" {attribute}=\"{}\"", encoded(&value)));
            }
        }
        let content = match content {
            Content::Free(placeholder) => placeholder.to_owned(),
            Content::Scope => self.target.as_deref().unwrap_or("path of a workflow").to_owned(),
            Content::State => state_example(self.target.as_deref(), resolve),
        };
        format!("{tag}>{content}</{name}>")
    }
}

/// The resolved name, because that is what leaves the agent nothing to guess.
fn state_example(name: Option<&str>, resolve: Resolve<'_>) -> String {
    match name {
        Some(name) => resolve(name).map_or_else(|| name.to_owned(), String::from),
        None => "name of a state".to_owned(),
    }
}

fn same_text(wanted: Option<&str>, emitted: Option<&str>) -> bool {
    wanted.is_none() || wanted == emitted
}

/// A name that resolves to nothing matches nothing, not even itself.
fn same_state(wanted: Option<&str>, emitted: Option<&str>, resolve: Resolve<'_>) -> bool {
    let Some(wanted) = wanted else { return true };
    resolve(wanted).is_some_and(|state| Some(state.as_str()) == emitted)
}

/// The text as an attribute's value has to hold it.
fn encoded(value: &str) -> String {
    value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::{Listing, Platform};

    fn entry(tag: TagName, target: &str, return_to: &str, next: &str) -> Entry {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Entry {
            tag,
            target: given(target),
            return_to: given(return_to),
            next: given(next),
            timeout_next: None,
            line: 0,
            column: 0,
        }
    }

    fn emitted<'a>(tag: TagName, target: &'a str, return_to: &'a str, next: &'a str) -> Emitted<'a> {
        let given = |text: &'a str| (!text.is_empty()).then_some(text);
        Emitted {
            tag,
            target: given(target),
            return_to: given(return_to),
            next: given(next),
            timeout_next: None,
        }
    }

    fn resolve(name: &str) -> Option<StateFile> {
        let files = ["REVIEW.md", "RESEARCH.md", "SUMMARIZE.md", "WORK.sh", "DECIDE.md"];
        Listing::new(files.map(str::to_owned)).resolve(name, Platform::Unix).ok()
    }

    #[test]
    fn what_an_entry_names_must_match() {
        use TagName::{Ask, Call, CallWorkflow, Fork, Goto, Reset, Result};
        let cases = [
            (entry(Goto, "REVIEW", "", ""), emitted(Goto, "REVIEW.md", "", ""), true),
            (entry(Goto, "REVIEW.md", "", ""), emitted(Goto, "REVIEW.md", "", ""), true),
            (entry(Goto, "REVIEW", "", ""), emitted(Goto, "DECIDE.md", "", ""), false),
            (entry(Goto, "REVIEW", "", ""), emitted(Reset, "REVIEW.md", "", ""), false),
            (entry(Goto, "", "", ""), emitted(Goto, "DECIDE.md", "", ""), true),
            (entry(Goto, "GONE", "", ""), emitted(Goto, "GONE", "", ""), false),
            (entry(Call, "REVIEW", "DECIDE", ""), emitted(Call, "REVIEW.md", "DECIDE.md", ""), true),
            (entry(Call, "REVIEW", "DECIDE", ""), emitted(Call, "REVIEW.md", "RESEARCH.md", ""), false),
            (entry(Call, "REVIEW", "", ""), emitted(Call, "REVIEW.md", "RESEARCH.md", ""), true),
            (entry(Fork, "WORK", "", "DECIDE"), emitted(Fork, "WORK.sh", "", "DECIDE.md"), true),
            (entry(Fork, "WORK", "", "DECIDE"), emitted(Fork, "WORK.sh", "", ""), false),
            (entry(Result, "", "", ""), emitted(Result, "", "", ""), true),
            (entry(Ask, "", "", "DECIDE"), emitted(Ask, "", "", "DECIDE.md"), true),
            (entry(Ask, "", "", "DECIDE"), emitted(Ask, "", "", "REVIEW.md"), false),
            (entry(CallWorkflow, "../x", "DECIDE", ""), emitted(CallWorkflow, "../x", "DECIDE.md", ""), true),
            (
                entry(CallWorkflow, "../x", "DECIDE", ""),
                emitted(CallWorkflow, "../x/", "DECIDE.md", ""),
                false,
            ),
        ];
        for (entry, emitted, expected) in cases {
            let policy = Policy { entries: vec![entry] };
            assert_eq!(policy.permits(&emitted, &resolve), expected, "{policy:?} {emitted:?}");
        }
    }

    #[test]
    fn only_a_single_complete_entry_is_implicit() {
        use TagName::{Ask, Call, Fork, ForkWorkflow, Goto, Join, Print, ResetWorkflow, Result};
        let cases = [
            (entry(Goto, "A", "", ""), true),
            (entry(Goto, "", "", ""), false),
            (entry(Join, "A", "", ""), true),
            (entry(Call, "A", "", ""), false),
            (entry(Call, "A", "B", ""), true),
            (entry(Fork, "A", "", ""), false),
            (entry(Fork, "A", "", "B"), true),
            (entry(ForkWorkflow, "a/", "", "B"), true),
            (entry(ResetWorkflow, "a/", "", ""), true),
            (entry(Result, "", "", ""), false),
            (entry(Ask, "", "", "B"), false),
            (entry(Print, "A", "", ""), false),
        ];
        for (entry, expected) in cases {
            let single = Policy { entries: vec![entry.clone()] };
            assert_eq!(single.implicit().is_some(), expected, "{entry:?}");
            let double = Policy { entries: vec![entry.clone(), entry] };
            assert_eq!(double.implicit(), None);
        }
        assert_eq!(Policy::default().implicit(), None);
    }

    #[test]
    fn a_reminder_lists_the_tags_in_full() {
        use TagName::{Ask, Call, CallWorkflow, Fork, Goto, Result};
        let entries = vec![
            entry(Goto, "REVIEW", "", ""),
            entry(Call, "RESEARCH", "SUMMARIZE", ""),
            entry(Result, "", "", ""),
            entry(Ask, "", "", "DECIDE"),
            entry(Fork, "WORK", "", ""),
            entry(CallWorkflow, "../other/", "A\"B", ""),
        ];
        let text = Policy { entries }.reminder("it holds no transition tag.", &resolve);
        assert_eq!(
            text,
            "Your last message could not be used: it holds no transition tag.\n\n\
             Reply with exactly one of these tags, written in full as shown here:\n\n\
             <goto>REVIEW.md</goto>\n\
             <call return=\"SUMMARIZE.md\">RESEARCH.md</call>\n\
             <result>your result</result>\n\
             <ask next=\"DECIDE.md\">your question</ask>\n\
             <fork next=\"name of a state\">WORK.sh</fork>\n\
             <call-workflow return=\"A&quot;B\">../other/</call-workflow>\n\n\
             Only forks may be repeated, one tag for each worker.\n"
        );
        let single = Policy { entries: vec![entry(Goto, "REVIEW", "", "")] };
        assert!(single.reminder("x", &resolve).contains("exactly one tag, this one"));
    }

    #[test]
    fn the_table_spells_tags_as_they_are_written_elsewhere() {
        for tag in TRANSITIONS {
            assert_eq!(serde_json::to_value(tag).unwrap(), shape(tag).name);
        }
    }

    #[test]
    fn a_policy_survives_the_journal() {
        let policy =
            Policy { entries: vec![Entry { line: 3, column: 5, ..entry(TagName::Call, "A", "B", "") }] };
        let json = serde_json::to_string(&policy).unwrap();
        assert_eq!(json, r#"[{"tag":"call","target":"A","return":"B","line":3,"column":5}]"#);
        assert_eq!(serde_json::from_str::<Policy>(&json).unwrap(), policy);
    }
}
