//! The policy of a prompt: which transitions it permits, which one is implicit, and the reminder about them.

use serde::{Deserialize, Serialize};

use crate::folder::{self, Folder};
use crate::tag::{Attribute, Content, Need, Tag, TagName, Value};
use crate::workflow::StateFile;

/// One permitted transition: the names in it must match, anything else is allowed.
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
    /// A pattern of the folders to which the tag may send an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cd: Option<String>,
    /// The place of the entry in its file, counted from 1; 0 when it is not in a file.
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

/// A transition tag as an agent emitted it, with its state names resolved to file names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emitted<'a> {
    pub tag: TagName,
    /// For the `-workflow` tags the scope as it was written.
    pub target: Option<&'a str>,
    pub return_to: Option<&'a str>,
    pub next: Option<&'a str>,
    pub timeout_next: Option<&'a str>,
    pub cd: Option<&'a Folder>,
}

/// Resolves a name to a state file of the prompt's own scope.
pub type Resolve<'r> = &'r dyn Fn(&str) -> Option<StateFile>;

/// The names of the inputs that another workflow needs, by the text that names it.
pub type Inputs<'r> = &'r dyn Fn(&str) -> Vec<String>;

impl Policy {
    /// Whether an entry matches the emitted tag.
    pub fn permits(&self, emitted: &Emitted<'_>, resolve: Resolve<'_>) -> bool {
        self.entries.iter().any(|entry| entry.matches(emitted, resolve))
    }

    /// Whether an entry that matches the emitted tag says to which folders it may lead.
    pub fn names_folder(&self, emitted: &Emitted<'_>, resolve: Resolve<'_>) -> bool {
        self.entries.iter().any(|entry| entry.cd.is_some() && entry.matches(emitted, resolve))
    }

    /// The transition to take when none is emitted: the only entry, if it is complete.
    pub fn implicit(&self) -> Option<&Entry> {
        match self.entries.as_slice() {
            [only] if only.is_complete() => Some(only),
            _ => None,
        }
    }

    /// The text to send to the agent, in the same conversation, when its output could not be used. `inputs` are the
    /// inputs that another workflow needs.
    pub fn reminder(&self, problem: &str, resolve: Resolve<'_>, inputs: Inputs<'_>) -> String {
        let problem = problem.trim().trim_end_matches('.');
        let example = |entry: &Entry| entry.example(resolve, inputs).to_string();
        let tags: Vec<String> = self.entries.iter().map(example).collect();
        let request = match tags.len() {
            1 => "Reply with exactly one tag, this one, written in full as shown here:",
            _ => "Reply with exactly one of these tags, written in full as shown here:",
        };
        let mut text =
            format!("Your last message could not be used: {problem}.\n\n{request}\n\n{}\n", tags.join("\n"));
        if self.entries.iter().any(|entry| entry.tag.is_fork()) {
            text.push_str("\nOnly forks may be repeated, one tag for each worker.\n");
        }
        text
    }
}

/// The attributes that an entry may name: those that hold the name of a state or a folder.
pub fn constrained() -> impl Iterator<Item = Attribute> {
    let is_constrained = |value: Value| matches!(value, Value::State | Value::Directory);
    Attribute::ALL.iter().copied().filter(move |attribute| is_constrained(attribute.facts().value))
}

impl Entry {
    /// An entry that permits a tag with any names.
    #[must_use]
    pub fn of(tag: TagName) -> Self {
        Self {
            tag,
            target: None,
            return_to: None,
            next: None,
            timeout_next: None,
            cd: None,
            line: 0,
            column: 0,
        }
    }

    /// The name that the entry requires for an attribute; `None` for attributes that entries cannot constrain.
    pub(crate) fn named(&self, attribute: Attribute) -> Option<&Option<String>> {
        match attribute {
            Attribute::Return => Some(&self.return_to),
            Attribute::Next => Some(&self.next),
            Attribute::TimeoutNext => Some(&self.timeout_next),
            Attribute::Cd => Some(&self.cd),
            Attribute::Input
            | Attribute::Delay
            | Attribute::Timeout
            | Attribute::Empty
            | Attribute::Worktree
            | Attribute::From => None,
        }
    }

    /// Like [`Entry::named`], to set the name.
    pub(crate) fn named_mut(&mut self, attribute: Attribute) -> Option<&mut Option<String>> {
        match attribute {
            Attribute::Return => Some(&mut self.return_to),
            Attribute::Next => Some(&mut self.next),
            Attribute::TimeoutNext => Some(&mut self.timeout_next),
            Attribute::Cd => Some(&mut self.cd),
            Attribute::Input
            | Attribute::Delay
            | Attribute::Timeout
            | Attribute::Empty
            | Attribute::Worktree
            | Attribute::From => None,
        }
    }

    /// A tag with exactly the names of this entry.
    pub(crate) fn as_tag(&self) -> Tag {
        let attributes =
            self.attributes().filter_map(|(attribute, _, name)| Some((attribute, name.clone()?)));
        Tag {
            name: self.tag,
            attributes: attributes.map(|(attribute, name)| (attribute.to_string(), name)).collect(),
            content: self.target.clone().unwrap_or_default(),
        }
    }

    /// The attributes that the tag takes and an entry can constrain.
    fn attributes(&self) -> impl Iterator<Item = (Attribute, Need, &Option<String>)> {
        let taken = self.tag.facts().attributes.iter();
        taken.filter_map(|(attribute, need)| Some((*attribute, *need, self.named(*attribute)?)))
    }

    fn matches(&self, emitted: &Emitted<'_>, resolve: Resolve<'_>) -> bool {
        let Emitted { tag, target, return_to, next, timeout_next, cd } = *emitted;
        if self.tag != tag {
            return false;
        }
        let target_matches = match self.tag.facts().content {
            Content::Scope => same_text(self.target.as_deref(), target),
            Content::State | Content::Text { .. } => same_state(self.target.as_deref(), target, resolve),
        };
        target_matches
            && same_state(self.return_to.as_deref(), return_to, resolve)
            && same_state(self.next.as_deref(), next, resolve)
            && same_state(self.timeout_next.as_deref(), timeout_next, resolve)
            && same_folder(self.cd.as_deref(), cd)
    }

    fn is_complete(&self) -> bool {
        self.tag.can_be_implicit()
            && self.target.is_some()
            && self.attributes().all(|(_, need, name)| need == Need::Optional || name.is_some())
            && !self.cd.as_deref().is_some_and(folder::has_wildcards)
    }

    /// The tag as the agent should write it.
    fn example(&self, resolve: Resolve<'_>, inputs: Inputs<'_>) -> Tag {
        let scope = self.target.as_deref().filter(|_| self.tag.is_workflow());
        let needed = scope.map(inputs).unwrap_or_default();
        let shown = self.attributes().filter(|(_, need, name)| name.is_some() || *need != Need::Optional);
        let content = match self.tag.facts().content {
            Content::Text { placeholder } => placeholder.to_owned(),
            Content::Scope => self.target.as_deref().unwrap_or("path of a workflow").to_owned(),
            Content::State => state_example(self.target.as_deref(), resolve),
        };
        Tag {
            name: self.tag,
            attributes: shown
                .map(|(attribute, _, name)| {
                    let example = match (attribute, name) {
                        (Attribute::Cd, Some(pattern)) => pattern.clone(),
                        _ => state_example(name.as_deref(), resolve),
                    };
                    (attribute.to_string(), example)
                })
                .chain(needed.into_iter().map(|input| (input, "…".to_owned())))
                .collect(),
            content,
        }
    }
}

/// The resolved name, so that the agent does not have to guess.
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

/// Which patterns a folder matches was looked up before.
fn same_folder(wanted: Option<&str>, emitted: Option<&Folder>) -> bool {
    let Some(wanted) = wanted else { return true };
    emitted.is_some_and(|folder| folder.matches.contains(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::{Listing, Platform};

    fn entry(tag: TagName, target: &str, return_to: &str, next: &str) -> Entry {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Entry { target: given(target), return_to: given(return_to), next: given(next), ..Entry::of(tag) }
    }

    fn emitted<'a>(tag: TagName, target: &'a str, return_to: &'a str, next: &'a str) -> Emitted<'a> {
        let given = |text: &'a str| (!text.is_empty()).then_some(text);
        Emitted {
            tag,
            target: given(target),
            return_to: given(return_to),
            next: given(next),
            timeout_next: None,
            cd: None,
        }
    }

    fn resolve(name: &str) -> Option<StateFile> {
        let files = ["REVIEW.md", "RESEARCH.md", "SUMMARIZE.md", "WORK.sh", "DECIDE.md"];
        Listing::new(files.map(str::to_owned)).resolve(name, Platform::Unix).ok()
    }

    #[test]
    fn the_names_of_an_entry_must_match() {
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
        let text = Policy { entries }.reminder("it holds no transition tag.", &resolve, &|_| Vec::new());
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
        let none: Inputs<'_> = &|_| Vec::new();
        assert!(single.reminder("x", &resolve, none).contains("exactly one tag, this one"));
        let call = Policy { entries: vec![entry(TagName::CallWorkflow, "../x", "REVIEW", "")] };
        let text = call.reminder("x", &resolve, &|scope| vec![format!("of-{}", scope.len())]);
        assert!(
            text.contains("<call-workflow return=\"REVIEW.md\" of-4=\"…\">../x</call-workflow>"),
            "{text}"
        );
    }

    #[test]
    fn entries_hold_all_attributes_that_they_can_constrain() {
        let mut entry = Entry::of(TagName::Goto);
        for attribute in Attribute::ALL {
            let is_constrained = constrained().any(|known| known == *attribute);
            assert_eq!(entry.named(*attribute).is_some(), is_constrained, "{attribute}");
            assert_eq!(entry.named_mut(*attribute).is_some(), is_constrained, "{attribute}");
        }
    }

    #[test]
    fn a_policy_can_be_written_and_read_back() {
        let policy =
            Policy { entries: vec![Entry { line: 3, column: 5, ..entry(TagName::Call, "A", "B", "") }] };
        let json = serde_json::to_string(&policy).unwrap();
        assert_eq!(json, r#"[{"tag":"call","target":"A","return":"B","line":3,"column":5}]"#);
        assert_eq!(serde_json::from_str::<Policy>(&json).unwrap(), policy);
    }
}
