//! The agent programs: whether they are there, in which version, and what they can do.

use std::process::Command;
use std::time::Duration;

use serde::Serialize;

use super::Finding;
use super::listen::{NoAnswer, listen};
use crate::agent::price::line_to_add;
use crate::agent::registry::{Backend, Backends};
use crate::agent::{Capabilities, Inspection, TokensTold};
use crate::config::Config;
use crate::process::program_on_path;

/// How long a program may take to tell its version or whether it is logged in.
const PATIENCE: Duration = Duration::from_secs(10);

/// A backend, and what was found out about its program.
#[derive(Debug, Serialize)]
pub(super) struct BackendReport {
    pub(super) name: String,
    kind: String,
    /// The program; none if it needs none.
    command: Option<String>,
    pub(super) installed: bool,
    version: Option<String>,
    /// How the version compares with those that it was tested with.
    tested: Standing,
    tested_versions: &'static [&'static str],
    /// Whether it is logged in, where the program can tell.
    logged_in: Option<bool>,
    /// What its user has to know about its accounts.
    pub(super) accounts: Option<&'static str>,
    /// Whether a model answered, if that was asked for.
    pub(super) answers: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) problem: Option<String>,
    can: Can,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Standing {
    Tested,
    Newer,
    Older,
    Between,
    Unknown,
}

/// What a backend can do.
#[derive(Debug, Serialize)]
struct Can {
    resume: bool,
    branch: bool,
    cost: &'static str,
    budget_share: bool,
    model: bool,
    effort: bool,
    tool_rules: bool,
    add_dirs: bool,
    mcp: bool,
    skip_permissions: bool,
    other_folders: bool,
}

impl Can {
    fn new(can: Capabilities, is_uncounted: bool) -> Self {
        Self {
            resume: can.resume,
            branch: can.branch,
            cost: match (can.cost, can.tokens) {
                _ if is_uncounted && !can.cost => "none",
                (true, _) => "dollars",
                (false, TokensTold::No) => "none",
                (false, TokensTold::OfTurn | TokensTold::OfSession) => "tokens",
            },
            budget_share: can.budget_share,
            model: can.model,
            effort: can.effort,
            tool_rules: can.tool_rules,
            add_dirs: can.add_dirs,
            mcp: can.mcp,
            skip_permissions: can.skip_permissions,
            other_folders: !can.folder_bound,
        }
    }
}

impl Can {
    /// In words: what it can do, and what it cannot.
    fn in_words(&self) -> (Vec<&'static str>, Vec<&'static str>) {
        let abilities = [
            (self.resume, "continue conversations"),
            (self.branch, "branch them"),
            (self.other_folders, "continue them in other folders"),
            (self.cost != "none", if self.cost == "dollars" { "tell dollars" } else { "tell tokens" }),
            (self.budget_share, "limit the cost of a turn itself"),
            (self.model, "choose a model"),
            (self.effort, "choose an effort"),
            (self.tool_rules, "limit tools"),
            (self.add_dirs, "use more folders"),
            (self.mcp, "use MCP servers"),
            (self.skip_permissions, "skip permissions"),
        ];
        let words = |wanted: bool| {
            abilities.iter().filter(move |(can, _)| *can == wanted).map(|(_, words)| *words).collect()
        };
        (words(true), words(false))
    }
}

impl BackendReport {
    /// What it can do, and what it cannot, in a sentence.
    pub(super) fn abilities(&self) -> String {
        let (can, cannot) = self.can.in_words();
        match (can.is_empty(), cannot.is_empty()) {
            (_, true) => format!("can {}", can.join(", ")),
            (true, false) => format!("cannot {}", cannot.join(", ")),
            (false, false) => format!("can {}; cannot {}", can.join(", "), cannot.join(", ")),
        }
    }

    /// What to do if it is to be used, unless it can be used as it is.
    pub(super) fn advice(&self) -> Option<String> {
        let name = &self.name;
        if !self.installed {
            return Some(format!(
                "install it, or name it with `command` under [backend.{name}] in .raymond/config.toml"
            ));
        }
        if self.logged_in == Some(false) && self.answers != Some(true) {
            let advice = "log in by starting the agent program once by hand; if it uses a key or a service of its own, --ping \
                          tells whether it works";
            return Some(advice.to_owned());
        }
        (self.answers == Some(false)).then(|| "look at what it says, and start it once by hand".to_owned())
    }

    /// Whether turns can be run with it, as far as is known.
    pub(super) fn works(&self) -> bool {
        match self.answers {
            Some(answers) => answers,
            None => self.installed && self.logged_in != Some(false),
        }
    }

    pub(super) fn summary(&self) -> String {
        if let Some(problem) = &self.problem {
            return problem.clone();
        }
        let Some(command) = &self.command else { return "needs no program".to_owned() };
        let version = match (&self.version, self.tested) {
            (None, _) => format!("`{command}` is there"),
            (Some(version), Standing::Tested) => format!("{version}, tested"),
            (Some(version), Standing::Newer) => {
                format!("{version}, newer than the tested {}", self.latest_tested())
            }
            (Some(version), Standing::Older) => {
                format!("{version}, older than the tested {}", self.tested_list())
            }
            (Some(version), Standing::Between) => {
                format!("{version}, not tested; {} are", self.tested_list())
            }
            (Some(version), Standing::Unknown) => version.clone(),
        };
        let login = match self.logged_in {
            Some(true) => ", logged in",
            Some(false) => ", not logged in",
            None => "",
        };
        let answers = if self.answers == Some(true) { ", answers" } else { "" };
        format!("{version}{login}{answers}")
    }

    fn latest_tested(&self) -> &'static str {
        self.tested_versions.last().copied().unwrap_or_default()
    }

    fn tested_list(&self) -> String {
        self.tested_versions.join(" and ")
    }
}

/// All backends, each looked at.
pub(super) fn look_at(known: &Backends, config: &Config) -> Vec<BackendReport> {
    let named = known.names().filter_map(|name| Some((name, known.get(name).ok()?)));
    named.map(|(name, backend)| report(name, backend, config)).collect()
}

fn report(name: &str, backend: &Backend, config: &Config) -> BackendReport {
    let inspection = backend.inspection();
    let mut report = BackendReport {
        name: name.to_owned(),
        kind: backend.kind.clone(),
        command: inspection.as_ref().map(|inspection| inspection.program.clone()),
        installed: true,
        version: None,
        tested: Standing::Unknown,
        tested_versions: inspection.as_ref().map_or(&[], |inspection| inspection.tested),
        logged_in: None,
        accounts: inspection.as_ref().and_then(|inspection| inspection.accounts),
        answers: None,
        problem: None,
        can: Can::new(backend.capabilities(), backend.uncounted),
    };
    if let Some(inspection) = inspection {
        // A wrapper may do anything with arguments that it does not expect.
        let is_wrapper = config.backend.get(name).is_some_and(|settings| !settings.args.is_empty());
        inspect(&mut report, &inspection, is_wrapper);
    }
    report
}

fn inspect(report: &mut BackendReport, inspection: &Inspection, is_wrapper: bool) {
    let program = &inspection.program;
    let Some(path) = program_on_path(program) else {
        report.installed = false;
        report.problem = Some(format!("`{program}` was not found"));
        return;
    };
    if is_wrapper || !inspection.tells_version {
        return;
    }
    match listen(Command::new(&path).arg("--version"), PATIENCE) {
        Ok(heard) => {
            report.version = version_in(&heard.stdout);
            report.tested = compare(report.version.as_deref(), inspection.tested);
        }
        Err(NoAnswer::NotThere) => report.problem = Some(format!("`{program}` was not found")),
        Err(NoAnswer::NotStarted(error)) => {
            report.installed = false;
            report.problem = Some(format!("`{program}` cannot be started: {error}"));
        }
        Err(NoAnswer::TooSlow) => report.problem = Some(format!("`{program} --version` takes too long")),
    }
    if let Some(args) = inspection.login {
        let asked = listen(Command::new(&path).args(args), PATIENCE);
        report.logged_in = asked.ok().map(|heard| heard.status.success());
    }
}

/// The first word that looks like a version: digits and dots.
fn version_in(said: &str) -> Option<String> {
    let mut words = said.split_whitespace().map(|word| word.trim_start_matches('v'));
    let is_version =
        |word: &&str| word.contains('.') && word.starts_with(|first: char| first.is_ascii_digit());
    words.find(is_version).map(|word| word.trim_end_matches(['.', ',', ')']).to_owned())
}

/// Where a version stands among those tested, which are in order.
fn compare(version: Option<&str>, tested: &[&str]) -> Standing {
    let (Some(version), Some(first), Some(last)) = (version, tested.first(), tested.last()) else {
        return Standing::Unknown;
    };
    if tested.contains(&version) {
        return Standing::Tested;
    }
    let version = numbers(version);
    match () {
        () if version > numbers(last) => Standing::Newer,
        () if version < numbers(first) => Standing::Older,
        () => Standing::Between,
    }
}

fn numbers(version: &str) -> Vec<u64> {
    version.split(|letter: char| !letter.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// What to do about the default backend, and about models without a price.
pub(super) fn findings(
    default: Option<&BackendReport>,
    name: &str,
    known: &Backends,
    config: &Config,
) -> Vec<Finding> {
    let Some(report) = default else {
        let advice = "choose one that there is, in `backend` of the config file";
        return vec![Finding::error("backend", format!("there is no backend `{name}`"), advice)];
    };
    let mut findings = Vec::new();
    if let Some(advice) = report.advice() {
        let is_logged_out = report.installed && report.logged_in == Some(false);
        let message = if is_logged_out { format!("`{name}` is not logged in") } else { report.summary() };
        findings.push(Finding::error("backend", message, advice));
    } else if matches!(report.tested, Standing::Older) {
        let advice = "update it; Raymond reads what it knows and may miss something";
        findings.push(Finding::warning("backend", format!("`{name}`: {}", report.summary()), advice));
    }
    let model = config.raymond.model.as_deref();
    if report.can.cost == "tokens"
        && known.get(name).is_ok_and(|backend| known.price(backend, model).is_none())
    {
        let message = match model {
            Some(model) => format!("the model `{model}` has no price, so that no budget can hold it"),
            None => format!("`{name}` tells tokens, and without a chosen `model` they have no price"),
        };
        findings.push(Finding::warning("prices", message, advice_about_price(model)));
    }
    // Other backends may be chosen by a state, with the model of their own.
    for (other, backend) in known.names().filter_map(|other| Some((other, known.get(other).ok()?))) {
        let Some(own) =
            backend.model.as_deref().filter(|own| other != name || model.is_none_or(|used| used != *own))
        else {
            continue;
        };
        if known.needs_price(backend) && known.price(backend, Some(own)).is_none() {
            let message = format!(
                "the model `{own}` of the backend `{other}` has no price, so that no budget can hold it"
            );
            findings.push(Finding::warning("prices", message, advice_about_price(Some(own))));
        }
    }
    findings
}

fn advice_about_price(model: Option<&str>) -> String {
    let line = model.map(|model| format!(": {}", line_to_add(model)));
    format!("choose a model with a price, or add one under [prices]{}", line.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_and_compared() {
        for (said, version) in [
            ("2.1.325 (Claude Code)", Some("2.1.325")),
            ("codex-cli 0.166.0", Some("0.166.0")),
            ("v1.2.3\n", Some("1.2.3")),
            ("no number", None),
        ] {
            assert_eq!(version_in(said).as_deref(), version, "{said}");
        }
        let tested = ["2.1.197", "2.1.325"];
        for (version, expected) in [
            ("2.1.197", Standing::Tested),
            ("2.1.1000", Standing::Newer),
            ("2.1.20", Standing::Older),
            ("2.1.200", Standing::Between),
        ] {
            assert_eq!(compare(Some(version), &tested), expected, "{version}");
        }
        assert_eq!(compare(None, &tested), Standing::Unknown);
        assert_eq!(compare(Some("1.0"), &[]), Standing::Unknown);
    }
}
