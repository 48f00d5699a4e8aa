//! `R042` outside-of-workflow

use std::ops::Range;

use memchr::memmem;

use crate::diagnostic::Severity;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};

pub(super) static RULE: Rule = Rule {
    code: "R042",
    name: "outside-of-workflow",
    severity: Severity::Warning,
    before_run: BeforeRun::Nothing,
    summary: "A script needs more of its workflow's folder than a packed workflow has.",
    explanation: "An archive or a one-file workflow has its files in a private folder: `$RAYMOND_STATE_DIR`. Nothing lies \
                  around that folder, and nothing can be written in it. A script that goes to its parent or writes \
                  there works only as long as its workflow is a folder, so `raymond convert` does not pack it.",
    check,
};

/// The variables that lead to the workflow's folder.
const VARIABLES: [&str; 2] = ["RAYMOND_STATE_DIR", "RAYMOND_STATE_FILE"];

/// Uses of the workflow's folder that fail once the workflow is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// It goes to the folder around that of the workflow.
    Parent,
    /// It writes in the workflow's folder.
    Writes,
}

impl Outside {
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Parent => {
                "the script leaves its workflow's folder; around that of a packed workflow there is nothing"
            }
            Self::Writes => {
                "the script writes in its workflow's folder, which is read-only if the workflow is packed"
            }
        }
    }

    fn help(self) -> &'static str {
        match self {
            Self::Parent => {
                "keep what it needs in the workflow's folder, or look for it from the working directory"
            }
            Self::Writes => "write to `$RAYMOND_TASK_FOLDER` or to the working directory",
        }
    }
}

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (number, state) in subject.graph.states.iter().enumerate() {
        if state.file.kind().is_script() {
            for (range, outside) in outside(&state.text) {
                report.add(Finding::at(number, range, outside.in_words()).help(outside.help()));
            }
        }
    }
}

/// Finds the places of a script that need more than a packed workflow has.
pub fn outside(script: &str) -> Vec<(Range<usize>, Outside)> {
    let mut found = Vec::new();
    for variable in VARIABLES {
        for at in memmem::find_iter(script.as_bytes(), variable) {
            let end = at + variable.len();
            let line = script[..at].rfind('\n').map_or(0, |before| before + 1);
            let before = script[line..at].trim_end_matches(['$', '{', '"', '%', ' ']);
            // What stands between the variable and the next word: quotes, brackets, and the way up.
            let is_over = |letter: char| letter.is_alphanumeric() || "\n;|".contains(letter);
            let after = script[end..].split(is_over).next().unwrap_or_default();
            let up = ["/..", "\\.."]
                .iter()
                .any(|up| after.split_once(up).is_some_and(|(_, rest)| !rest.starts_with('.')));
            // The `>` of a tag stands behind a name, that of a redirection behind a blank.
            let redirected = before.strip_suffix('>').map(|before| before.trim_end_matches('>'));
            let writes =
                after.contains('/') && redirected.is_some_and(|before| before.ends_with([' ', '\t']));
            let is_comment = before.trim_start().starts_with('#');
            let outside = match (up, writes) {
                _ if is_comment => None,
                (true, _) => Some(Outside::Parent),
                (false, true) => Some(Outside::Writes),
                (false, false) => None,
            };
            found.extend(outside.map(|outside| (at..end, outside)));
        }
    }
    found.sort_by_key(|(range, _)| range.start);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_up_and_writing_are_found_in_every_language() {
        for (script, expected) in [
            ("cat \"$RAYMOND_STATE_DIR/../shared.txt\"", Some(Outside::Parent)),
            ("cat \"${RAYMOND_STATE_DIR}\"/../x", Some(Outside::Parent)),
            ("cd \"$(dirname \"$RAYMOND_STATE_FILE\")/..\"", Some(Outside::Parent)),
            ("open(os.environ['RAYMOND_STATE_DIR'] + '/../x')", Some(Outside::Parent)),
            ("type \"%RAYMOND_STATE_DIR%\\..\\x\"", Some(Outside::Parent)),
            ("echo x > \"$RAYMOND_STATE_DIR/seen\"", Some(Outside::Writes)),
            ("echo x >>${RAYMOND_STATE_DIR}/seen", Some(Outside::Writes)),
            ("echo \"<result>$RAYMOND_STATE_DIR/x</result>\"", None),
            ("echo \"> $RAYMOND_STATE_FILE\"", None),
            ("echo \"it is in $RAYMOND_STATE_DIR/...\"", None),
            ("cp \"$RAYMOND_STATE_DIR\"/* ../", None),
            ("cat \"$RAYMOND_STATE_DIR/a..b\" > out", None),
            ("cp \"$RAYMOND_STATE_DIR\"/project/* ..", None),
            ("# not \"$RAYMOND_STATE_DIR/..\"", None),
        ] {
            let found = outside(script).first().map(|(_, outside)| *outside);
            assert_eq!(found, expected, "{script}");
        }
    }
}
