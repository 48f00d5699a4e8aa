//! What a workflow grants a turn besides its own folder: entries of `allow_tools`, `deny_tools`, `add_dirs` and
//! `mcp_config`, with values in place of their placeholders.
//!
//! A value may be a model's text. So it fills one place of one entry, and can neither end the entry nor add another tool,
//! folder or server. A [`Grant`] can only be made here, and agent programs are handed nothing else.
//!
//! The only program that takes such entries is Claude Code. Each is an argument of its own there. It reads an argument
//! with rules as a list: outside of parentheses a comma or white space begins the next rule, and a parenthesis ends the
//! part of a rule in which they do not. There is no escape that all of this understands, so a value with a character that
//! means something is refused and not changed. A tool server in JSON has an escape, which is used.

use std::borrow::Cow;
use std::fmt;

use raymond_core::template::{self, Placeholder};
use serde::{Deserialize, Serialize};

/// Where a list of entries stands in a state or a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantKey {
    AllowTools,
    DenyTools,
    AddDirs,
    McpConfig,
}

/// Who has given a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Giver {
    /// Raymond itself: a folder that it has made, a number, a name.
    Raymond,
    /// The person who started the run, as a declared input of its workflow.
    Person,
    /// Everyone else: a model, a script, whoever answered a question.
    Anyone,
}

/// A value for a placeholder.
#[derive(Clone, Debug)]
pub struct Given<'v> {
    pub text: Cow<'v, str>,
    pub by: Giver,
}

/// An entry with all its values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Grant(String);

/// All that a turn is granted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Grants {
    pub allow_tools: Vec<Grant>,
    pub deny_tools: Vec<Grant>,
    pub add_dirs: Vec<Grant>,
    pub mcp_config: Vec<Grant>,
}

/// Characters with a meaning in the rule of a tool: in a list of rules, in a pattern for paths, or in a command.
const MEANINGFUL: &str = "()[]{}*?!:,;&|<>$`'\"\\#";

/// Why a value cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Problem {
    Empty,
    /// It has a character that means something.
    Has(char),
    Begins(char),
    /// It has a character that nobody sees, or that changes how others are shown.
    Unseen(char),
    /// It stands directly behind a `~`, so that it would be a user whose home is meant.
    BehindHome,
    /// A part of it is a way to the folder above, or to the folder itself.
    Dots,
    /// It would be more than a part.
    Whole(&'static str),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("is empty"),
            Self::Has(' ') => f.write_str("has a blank, which separates words there"),
            Self::Has(character) => {
                write!(f, "has `{}`, which means something there", character.escape_debug())
            }
            Self::Begins(character) => write!(f, "begins with `{character}`"),
            Self::Unseen(character) => {
                write!(f, "has `{}`, which cannot be seen", character.escape_unicode())
            }
            Self::BehindHome => f.write_str("would choose whose home `~` is"),
            Self::Dots => f.write_str("has `.` or `..` as a name"),
            Self::Whole(what) => write!(f, "would choose {what}, which only a declared input may"),
        }
    }
}

impl GrantKey {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AllowTools => "allow_tools",
            Self::DenyTools => "deny_tools",
            Self::AddDirs => "add_dirs",
            Self::McpConfig => "mcp_config",
        }
    }

    /// The entry as it was written, with its values. Placeholders without a value stay. The error names the key, the
    /// variable and what is wrong with its value.
    pub fn fill<'v>(self, written: &str, value: impl Fn(&str) -> Option<Given<'v>>) -> Result<Grant, String> {
        let mut filled = String::with_capacity(written.len());
        let mut copied_to = 0;
        for placeholder in template::placeholders(written) {
            let Some(given) = value(placeholder.name) else { continue };
            filled.push_str(written.get(copied_to..placeholder.range.start).unwrap_or_default());
            let place = Place::of(written, &placeholder, &filled);
            let text = self.accepted(&place, &given).map_err(|problem| {
                let name = placeholder.name;
                format!("`{}`: the value of {{{{{name}}}}} {problem} (in `{written}`)", self.as_str())
            })?;
            filled.push_str(&text);
            copied_to = placeholder.range.end;
        }
        filled.push_str(written.get(copied_to..).unwrap_or_default());
        Ok(Grant(filled))
    }

    /// The value as it is written in this place.
    fn accepted<'g>(self, place: &Place<'_>, given: &'g Given<'_>) -> Result<Cow<'g, str>, Problem> {
        let text = given.text.as_ref();
        if text.is_empty() {
            return Err(Problem::Empty);
        }
        refuse(text, char::is_control)?;
        // A person may have such a path, as a whole. Raymond's own folders are below the person's.
        let is_own = given.by == Giver::Raymond || given.by == Giver::Person && place.is_all();
        if let Some(character) = text.chars().find(|c| !is_own && is_unseen(*c)) {
            return Err(Problem::Unseen(character));
        }
        // Of Raymond's own values, none begins like this.
        let may_be_option = given.by == Giver::Anyone || place.before.is_empty();
        if let Some(first @ '-') = text.chars().next().filter(|_| may_be_option) {
            return Err(Problem::Begins(first));
        }
        match (self, given.by) {
            (Self::AllowTools | Self::DenyTools, Giver::Anyone) => place.rule_takes(text)?,
            (Self::AllowTools | Self::DenyTools, by) => {
                // The person may give the whole rule.
                if !(place.is_all() && by == Giver::Person) {
                    let is_separator = |c: char| !place.is_inside && (c == ',' || c.is_whitespace());
                    refuse(text, |c| matches!(c, '(' | ')') || is_separator(c))?;
                }
            }
            (Self::AddDirs, Giver::Anyone) => place.path_takes(text)?,
            (Self::AddDirs, Giver::Person) if !place.is_all() => refuse_path(text)?,
            (Self::AddDirs, Giver::Person | Giver::Raymond) => {}
            (Self::McpConfig, Giver::Anyone) => return Err(Problem::Whole("a tool server")),
            (Self::McpConfig, _) if place.before.trim_start().starts_with('{') => {
                return Ok(Cow::Owned(inside_json(text)));
            }
            (Self::McpConfig, Giver::Person | Giver::Raymond) => {}
        }
        Ok(Cow::Borrowed(text))
    }
}

impl Grant {
    /// A folder that Raymond itself has made for the agent.
    pub fn own_folder(path: &str) -> Self {
        Self(path.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where a value goes.
struct Place<'w> {
    /// What the workflow has before and behind it.
    before: &'w str,
    after: &'w str,
    /// What is before it, with the values that are there.
    filled: &'w str,
    /// Whether it is between the parentheses of a rule.
    is_inside: bool,
}

impl<'w> Place<'w> {
    fn of(written: &'w str, placeholder: &Placeholder<'_>, filled: &'w str) -> Self {
        let before = written.get(..placeholder.range.start).unwrap_or_default();
        let after = written.get(placeholder.range.end..).unwrap_or_default();
        let is_inside = before.chars().rfind(|c| matches!(c, '(' | ')')) == Some('(');
        Self { before, after, filled, is_inside }
    }

    /// Whether the value is the whole entry.
    fn is_all(&self) -> bool {
        self.before.trim().is_empty() && self.after.trim().is_empty()
    }

    /// Whether the value is all that the parentheses of a rule hold, such as a whole command.
    fn is_content(&self) -> bool {
        self.before.ends_with('(') && (self.after.starts_with(')') || self.after.starts_with(":*)"))
    }

    /// Whether a text that anyone may have written can stand here, in the rule of a tool.
    fn rule_takes(&self, text: &str) -> Result<(), Problem> {
        if !self.is_inside {
            return Err(Problem::Whole("the tool"));
        }
        let is_content = self.is_content();
        // In a text that is a whole command there is nothing that a brace would add to.
        let means = |c: char| MEANINGFUL.contains(c) && !(is_content && matches!(c, '{' | '}'));
        refuse(text, |c| means(c) || c.is_whitespace() && !(is_content && c == ' '))?;
        self.refuse_root(text)?;
        refuse_dots(text)
    }

    /// Refuses what would make a path begin elsewhere: `/x` is below the project for Claude Code, and `//x` is anywhere.
    fn refuse_root(&self, text: &str) -> Result<(), Problem> {
        let before = self.filled.trim_end();
        // Behind a name it is none, as in `HEAD~2`.
        let behind_home = self.filled.strip_suffix('~');
        if behind_home.is_some_and(|before| !before.ends_with(char::is_alphanumeric)) {
            return Err(Problem::BehindHome);
        }
        let is_start = before.is_empty() || before.ends_with('(');
        match text.chars().next() {
            Some(first @ '/') if is_start || before.ends_with(['/', '\\']) => Err(Problem::Begins(first)),
            Some(first @ '~') if is_start => Err(Problem::Begins(first)),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether a text that anyone may have written can stand here, in the path of a folder.
    fn path_takes(&self, text: &str) -> Result<(), Problem> {
        if self.is_all() {
            return Err(Problem::Whole("the whole path"));
        }
        self.refuse_root(text)?;
        refuse_path(text)
    }
}

/// Refuses what is more than one name within a path.
fn refuse_path(text: &str) -> Result<(), Problem> {
    refuse(text, |c| matches!(c, '/' | '\\') || c == ':' && cfg!(windows))?;
    if let Some(first @ ('~' | '-')) = text.chars().next() {
        return Err(Problem::Begins(first));
    }
    refuse_dots(text)
}

fn refuse(text: &str, is_meant: impl Fn(char) -> bool) -> Result<(), Problem> {
    text.chars().find(|c| is_meant(*c)).map_or(Ok(()), |c| Err(Problem::Has(c)))
}

fn refuse_dots(text: &str) -> Result<(), Problem> {
    let is_way = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte == b'.');
    match text.split(['/', ' ']).any(is_way) {
        true => Err(Problem::Dots),
        false => Ok(()),
    }
}

/// Characters of no width, marks of direction and tags, by which a text looks like another one. Joiners between letters
/// are among them: a rule that looks like another is worse than a name that cannot be written.
fn is_unseen(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// A text as it is written inside a string of JSON.
fn inside_json(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap_or_default();
    let inside = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inside.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
