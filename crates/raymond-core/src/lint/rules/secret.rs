//! `R027` secret

use std::ops::Range;

use memchr::memmem;

use crate::diagnostic::Severity;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};

pub(super) static RULE: Rule = Rule {
    code: "R027",
    name: "secret",
    severity: Severity::Warning,
    before_run: BeforeRun::Nothing,
    summary: "Something in a state looks like a secret.",
    explanation: "Workflows are shared and prompts are sent to a model. Keep keys, tokens and passwords in the \
                  environment and let scripts read them there. What was found is not printed.",
    check,
};

/// The prefixes of well-known secrets, their descriptions, and how many characters follow at least.
const KINDS: [(&str, &str, usize); 12] = [
    ("sk-ant-", "an Anthropic key", 16),
    ("sk-proj-", "an OpenAI key", 16),
    ("ghp_", "a GitHub token", 30),
    ("gho_", "a GitHub token", 30),
    ("ghs_", "a GitHub token", 30),
    ("github_pat_", "a GitHub token", 30),
    ("glpat-", "a GitLab token", 16),
    ("AKIA", "an AWS key", 16),
    ("AIza", "a Google key", 30),
    ("xoxb-", "a Slack token", 20),
    ("xoxp-", "a Slack token", 20),
    ("npm_", "an npm token", 36),
];
const PRIVATE_KEY: &str = "PRIVATE KEY-----";

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (number, state) in subject.graph.states.iter().enumerate() {
        for (prefix, what, more) in KINDS {
            for start in memmem::find_iter(state.text.as_bytes(), prefix) {
                if let Some(length) = length_at(&state.text, start, prefix, more) {
                    report.add(finding(number, start..start + length, what));
                }
            }
        }
        for start in memmem::find_iter(state.text.as_bytes(), PRIVATE_KEY) {
            report.add(finding(number, start..start + PRIVATE_KEY.len(), "a private key"));
        }
    }
}

fn finding(state: usize, range: Range<usize>, what: &str) -> Finding {
    let help = "take it out, revoke it, and read it from the environment in a script";
    Finding { is_secret: true, ..Finding::at(state, range, format!("this looks like {what}")).help(help) }
}

/// The length of the secret that begins here, if there is one.
fn length_at(text: &str, start: usize, prefix: &str, more: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let before = start.checked_sub(1).and_then(|before| bytes.get(before));
    let rest = bytes.get(start + prefix.len()..).unwrap_or_default();
    let length = rest.iter().take_while(|byte| is_part(byte)).count();
    let is_secret = !before.is_some_and(is_part) && length >= more;
    is_secret.then_some(prefix.len() + length)
}
