//! `R009` wrong-platform

use crate::diagnostic::Severity;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject, Unresolved, role_words, unresolved};
use crate::workflow::ResolveError;
use crate::workflow::wording::{quoted, quoted_list};

pub(super) static RULE: Rule = Rule {
    code: "R009",
    name: "wrong-platform",
    severity: Severity::Error,
    before_run: BeforeRun::Warn,
    summary: "A transition names a state that does not run on the platform.",
    explanation: "`.sh` runs on Unix, `.bat` and `.ps1` on Windows. Name the state without its extension and give \
                  it a file for each platform, or use a kind that runs everywhere.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for Unresolved { state, exit, role, reference, error } in unresolved(subject.graph) {
        let platform = subject.graph.platform;
        let words = role_words(exit, role);
        let finding = |message: String| Finding::at(state, reference.range.clone(), message);
        match error {
            ResolveError::WrongPlatform { target, .. } => {
                let message = format!("{words}{} does not run on {platform}", quoted(target));
                let bare = target.rsplit_once('.').map(|(name, _)| name).unwrap_or_default();
                let resolves = subject.graph.listing.resolve(bare, platform).is_ok();
                let help = format!("leave out the extension, so that {platform} takes its own file");
                report.add(finding(message).help(help).fix(resolves.then(|| bare.to_owned())));
            }
            ResolveError::NotFound { target, elsewhere, .. } if !elsewhere.is_empty() => {
                let only = quoted_list(elsewhere, "and");
                let message =
                    format!("{words}{} does not run on {platform}: there is only {only}", quoted(target));
                report.add(finding(message).help(format!("add a file of that name that runs on {platform}")));
            }
            _ => {}
        }
    }
}
