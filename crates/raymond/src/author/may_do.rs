//! What a workflow may do, for a person who decides whether to trust it.
//!
//! The list is made of what its files say: its own, and those of the workflows that it extends and names. It starts and calls
//! nothing. A script without a sandbox can do anything that its user can, whatever else is in the list.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use raymond_core::graph::ReadFile;
use raymond_core::input::{Plan, PromptPlan};
use raymond_core::run::Options;
use raymond_core::tag::Attribute;
use raymond_core::workflow::StateFile;
use serde::Serialize;

use crate::files;
use crate::paths::shown;
use crate::trust::obeyed::commands_in;
use crate::view::text::clean;
use crate::workflow::manifest::{Defaults, Manifest};
use crate::workflow::named::{Reached, is_computed};
use crate::workflow::scope::Scope;
use crate::workflow::states::{TurnSettings, options_in, read_state};

/// How many places are named of each thing, for people.
const MAX_SHOWN_PLACES: usize = 3;

/// What is said of a workflow whose name is not known before the run.
const NOT_ENTERED: &str = " (put together when it runs, so a schedule does not enter it)";

/// A kind of thing that a workflow may do, in the order of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Scripts without a sandbox can do anything.
    Anything,
    Schedule,
    Script,
    Agent,
    PermissionMode,
    Tool,
    McpConfig,
    Folder,
    Variable,
    Secrets,
    Network,
    Extends,
    Workflow,
    /// A line of the config file of the project that it lies in.
    Config,
    /// A file or folder that agent programs obey where its agents may work.
    Obeyed,
    /// A program that such a file names, as a hook for example.
    Command,
    /// What cannot be read, and so may do more than the list says.
    Unreadable,
}

impl Kind {
    /// The kind in words, before the thing itself.
    fn words(self) -> &'static str {
        match self {
            Kind::Anything => "do anything you can do",
            Kind::Schedule => "start by itself",
            Kind::Script => "run a script",
            Kind::Agent => "run an agent program",
            Kind::PermissionMode => "set the permission mode",
            Kind::Tool => "let an agent use",
            Kind::McpConfig => "start MCP servers of",
            Kind::Folder => "work in a folder",
            Kind::Variable => "set a variable",
            Kind::Secrets => "read",
            Kind::Network => "reach",
            Kind::Extends => "take states from",
            Kind::Workflow => "enter a workflow",
            Kind::Config => "use a project's setting",
            Kind::Obeyed => "obey an agent's settings",
            Kind::Command => "start, by such settings",
            Kind::Unreadable => "do what is unknown",
        }
    }
}

/// One thing that a workflow may do, and the files that say so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct May {
    pub kind: Kind,
    pub what: String,
    #[serde(rename = "where")]
    pub places: Vec<String>,
}

/// Everything that a workflow may do.
#[derive(Debug, Default)]
pub struct MayDo(BTreeMap<(Kind, String), BTreeSet<String>>);

impl MayDo {
    /// Of a workflow and those that it reaches. `configs` are the config files of the projects that it lies in.
    pub fn of(reached: &mut Reached, configs: &[PathBuf], backend: Option<&str>) -> Self {
        let mut all = Self::default();
        // Only the workflow itself is started by its schedule.
        if let Some(scope) = reached.scopes.first() {
            all.add_schedule(scope);
        }
        for scope in &mut reached.scopes {
            all.add_scope(scope, backend);
        }
        for (path, name) in &reached.missing {
            let what = format!("{name} (not there, or no workflow)");
            all.add(Kind::Workflow, what, shown(path).display().to_string());
        }
        for config in configs {
            all.add_config(config);
        }
        all.add_of_kinds();
        all
    }

    /// With what agent programs obey where agents of the workflow may work.
    #[must_use]
    pub fn with_obeyed(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        for path in paths {
            let place = shown(&path).display().to_string();
            for command in commands_in(&path) {
                self.add(Kind::Command, command, &place);
            }
            self.add(Kind::Obeyed, &place, &place);
        }
        self
    }

    pub fn list(&self) -> Vec<May> {
        let may = |((kind, what), places): (&(Kind, String), &BTreeSet<String>)| May {
            kind: *kind,
            what: what.clone(),
            places: places.iter().cloned().collect(),
        };
        self.0.iter().map(may).collect()
    }

    /// The list for people, one line each, safe to print.
    pub fn text(&self) -> String {
        self.list().iter().map(|may| format!("  {}\n", line(may))).collect()
    }

    fn add(&mut self, kind: Kind, what: impl Into<String>, place: impl Into<String>) {
        self.0.entry((kind, what.into())).or_default().insert(place.into());
    }

    fn has(&self, kind: Kind) -> bool {
        self.0.keys().any(|(known, _)| *known == kind)
    }

    /// What follows from what there is.
    fn add_of_kinds(&mut self) {
        if self.has(Kind::Script) {
            let what = "scripts run as you, without a sandbox";
            self.0.insert((Kind::Anything, what.to_owned()), BTreeSet::new());
        }
        if self.has(Kind::Script) || self.has(Kind::Agent) {
            self.0.insert((Kind::Secrets, "all variables of your environment".to_owned()), BTreeSet::new());
            self.0.insert((Kind::Network, "any address".to_owned()), BTreeSet::new());
        }
    }

    fn add_schedule(&mut self, scope: &Scope) {
        let manifest = scope.manifest();
        if let Some(schedule) = &manifest.schedule {
            let zone = manifest.schedule_timezone.as_deref().unwrap_or("UTC");
            self.add(Kind::Schedule, format!("{schedule} ({zone})"), place_of_manifest(scope));
        }
    }

    fn add_scope(&mut self, scope: &mut Scope, backend: Option<&str>) {
        self.add_manifest(scope);
        if let Some(base) = scope.bases().next() {
            let place = place_of_manifest(scope);
            self.add(Kind::Extends, shown(base.path()).display().to_string(), place);
        }
        let states: Vec<StateFile> = scope.states().collect();
        let own = states.into_iter().filter(|state| scope.owner_of(state).path() == scope.path());
        for state in own.collect::<Vec<_>>() {
            self.add_state(scope, &state, backend);
        }
    }

    fn add_manifest(&mut self, scope: &Scope) {
        let place = place_of_manifest(scope);
        let Manifest { working_directory, environment, defaults, .. } = scope.manifest();
        for folder in working_directory.iter() {
            self.add(Kind::Folder, folder, &place);
        }
        for (name, value) in environment {
            self.add(Kind::Variable, format!("{name}={value}"), &place);
        }
        let Defaults { allow_tools, add_dirs, mcp_config, permission_mode, .. } = defaults;
        self.add_all(Kind::Tool, allow_tools.iter().flatten(), &place);
        self.add_all(Kind::Folder, add_dirs.iter().flatten(), &place);
        self.add_all(Kind::McpConfig, mcp_config.iter().flatten(), &place);
        self.add_all(Kind::PermissionMode, permission_mode, &place);
    }

    fn add_all<'a>(&mut self, kind: Kind, all: impl IntoIterator<Item = &'a String>, place: &str) {
        for what in all {
            self.add(kind, what, place);
        }
    }

    fn add_state(&mut self, scope: &mut Scope, state: &StateFile, backend: Option<&str>) {
        let place = shown(&scope.path().join(state.as_str())).display().to_string();
        if state.kind().is_script() {
            self.add(Kind::Script, &place, &place);
        }
        let source = match scope.read(state) {
            Ok(source) => source,
            Err(error) => return self.add(Kind::Unreadable, error, place),
        };
        let options = Options { backend: backend.map(str::to_owned), ..Options::default() };
        match read_state(state, &source, &options_in(scope, &options), &Defaults::default()) {
            Ok(read) => {
                if let (Plan::Prompt(prompt), Some(settings)) = (&read.plan, &read.turn) {
                    self.add_prompt(prompt, settings, &place);
                }
            }
            Err(error) => self.add(Kind::Unreadable, error, &place),
        }
        let file = ReadFile::new(state.clone(), String::from_utf8_lossy(&source.bytes).into_owned());
        for tag in file.found.tags.iter().map(|located| &located.tag) {
            let folders = tag.attributes.iter().filter(|(name, _)| name == Attribute::Cd.as_str());
            self.add_all(Kind::Folder, folders.map(|(_, folder)| folder), &place);
            if tag.name.is_workflow() {
                let name = tag.content.trim();
                let note = if is_computed(name) { NOT_ENTERED } else { "" };
                self.add(Kind::Workflow, format!("{name}{note}"), &place);
            }
        }
    }

    fn add_prompt(&mut self, prompt: &PromptPlan, settings: &TurnSettings, place: &str) {
        self.add_all(Kind::Agent, [&prompt.backend].into_iter().chain(&prompt.fallbacks), place);
        self.add_all(Kind::Tool, &settings.allow_tools, place);
        self.add_all(Kind::Folder, &settings.add_dirs, place);
        self.add_all(Kind::McpConfig, &settings.mcp_config, place);
        self.add_all(Kind::PermissionMode, &settings.permission_mode, place);
        for entry in prompt.policy.iter().flat_map(|policy| &policy.entries) {
            self.add_all(Kind::Folder, &entry.cd, place);
            if entry.tag.is_workflow() {
                let what = entry.target.as_deref().unwrap_or("any that a text of its workflow names");
                self.add(Kind::Workflow, what, place);
            }
        }
    }

    /// The lines of the config file that say something.
    fn add_config(&mut self, config: &Path) {
        let place = shown(config).display().to_string();
        match files::read_text(config, files::MAX_SETTINGS_BYTES) {
            Ok(text) => {
                let mut table = String::new();
                for line in text.lines().map(str::trim) {
                    match line.starts_with('[') && line.ends_with(']') {
                        true => table = format!("{line} "),
                        false if line.is_empty() || line.starts_with('#') => {}
                        false => self.add(Kind::Config, format!("{table}{line}"), &place),
                    }
                }
            }
            Err(error) => self.add(Kind::Unreadable, error.to_string(), place),
        }
    }
}

fn place_of_manifest(scope: &Scope) -> String {
    shown(&scope.manifest_file()).display().to_string()
}

/// A line for people: what, and in which files it stands. A thing that is a file itself stands nowhere else.
fn line(may: &May) -> String {
    let May { kind, what, places } = may;
    let named: Vec<&str> =
        places.iter().filter(|place| *place != what).take(MAX_SHOWN_PLACES).map(String::as_str).collect();
    let more = places.len().saturating_sub(MAX_SHOWN_PLACES);
    let places = match (named.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!("  ({})", named.join(", ")),
        (false, more) => format!("  ({} and {more} more)", named.join(", ")),
    };
    // A line break in a name would look like another line.
    let text = format!("{:<24} {what}{places}", kind.words()).replace(['\n', '\r', '\t'], " ");
    clean(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use raymond_core::workflow::Platform;

    use super::*;
    use crate::trust::obeyed::obeyed;

    fn listed(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for (name, text) in files {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let mut reached = Reached::from(&root.join("wf"), Platform::Unix).unwrap();
        let configs = [root.join("config.toml")];
        let may = MayDo::of(&mut reached, if configs[0].exists() { &configs } else { &[] }, None);
        let obeyed = obeyed(&reached).unwrap().into_iter().filter(|path| path.starts_with(&root));
        let may = may.with_obeyed(obeyed);
        let root = root.display().to_string() + "/";
        let one = |may: &May| format!("{:?} {}", may.kind, may.what).replace(&root, "");
        may.list().iter().map(one).collect()
    }

    #[test]
    fn the_list_has_everything_that_gives_power() {
        let all = listed(&[
            (
                "wf/START.md",
                "---\nallow_tools: [ \"Bash(git push:*)\" ]\nadd_dirs: [ /srv ]\nmcp_config: m.json\nbackend: [ codex, claude ]\n\
                 allowed_transitions: [ { tag: reset-workflow, target: ../next }, { tag: fork, cd: \"../trees/*\" } ]\n---\nGo.",
            ),
            ("wf/WORK.sh", "echo '<reset cd=\"/tmp\">START</reset>'"),
            ("wf/OTHERS.sh", "echo \"<reset-workflow>../$next</reset-workflow>\""),
            (
                "wf/.claude/settings.json",
                r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"./evil.sh"}]}]}}"#,
            ),
            ("wf/.opencode/plugin/x.js", "x"),
            ("wf/OTHER.ps1", "Write-Output x"),
            ("wf/notes.txt", "no power"),
            (
                "wf/workflow.yaml",
                "extends: ../base\nschedule: \"0 3 * * *\"\nworking_directory: ..\npermission_mode: acceptEdits\n\
                 environment: { TOKEN_FILE: x }\nallow_tools: [ Edit ]\n",
            ),
            ("base/CHECK.py", "print('<reset-workflow>../gone</reset-workflow>')"),
            ("next/START.md", "Next."),
            ("config.toml", "[raymond]\n# comment\nnotify = \"beep\"\n[backend.claude]\ncommand = \"./x\"\n"),
        ]);
        let expected = [
            "Anything scripts run as you, without a sandbox",
            "Schedule 0 3 * * * (UTC)",
            "Script base/CHECK.py",
            "Script wf/OTHER.ps1",
            "Script wf/OTHERS.sh",
            "Script wf/WORK.sh",
            "Agent claude",
            "Agent codex",
            "PermissionMode acceptEdits",
            "Tool Bash(git push:*)",
            "Tool Edit",
            "McpConfig m.json",
            "Folder ..",
            "Folder ../trees/*",
            "Folder /srv",
            "Folder /tmp",
            "Variable TOKEN_FILE=x",
            "Secrets all variables of your environment",
            "Network any address",
            "Extends base",
            "Workflow ../$next (put together when it runs, so a schedule does not enter it)",
            "Workflow ../gone",
            "Workflow ../gone (not there, or no workflow)",
            "Workflow ../next",
            "Config [backend.claude] command = \"./x\"",
            "Config [raymond] notify = \"beep\"",
            "Obeyed wf/.claude/settings.json",
            "Obeyed wf/.opencode/plugin",
            "Command ./evil.sh",
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn what_cannot_be_read_is_listed_and_no_name_looks_like_a_line() {
        let all = listed(&[("wf/START.md", "---\nallowed_transitions: 7\n---\nGo.")]);
        assert!(all.iter().any(|line| line.starts_with("Unreadable ")), "{all:?}");
        let may = May {
            kind: Kind::Tool,
            what: "Edit\n  run a script  x\u{1b}[2K\u{202e}".to_owned(),
            places: ["a", "b", "c", "d"].map(str::to_owned).to_vec(),
        };
        assert_eq!(
            line(&may),
            "let an agent use         Edit   run a script  x\\u{1b}[2K\\u{202e}  (a, b, c and 1 more)"
        );
    }
}
