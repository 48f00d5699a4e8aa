//! The other workflows that a workflow names: in the policies of its states, and in tags that stand in their texts.
//!
//! Only what an author has written counts. What a variable stands for, or what a script puts together, is known when a
//! step runs and names nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use raymond_core::graph::ReadFile;
use raymond_core::input::Plan;
use raymond_core::policy::Policy;
use raymond_core::run::Options;
use raymond_core::tag::{Attribute, Located};
use raymond_core::workflow::{Platform, StateFile};

use super::scope::{MAX_BYTES, Scope};
use super::scopes::canonical;
use super::states::read_state;
use crate::error::UserError;
use crate::paths::{leads_away, normalise, shown};

/// Characters with which a script or a prompt puts a text together. A name with one of them is not complete.
const COMPUTED: [char; 9] = ['$', '{', '}', '%', '`', '"', '\'', '<', '!'];

/// Whether a name is not complete as it is written: a script or a prompt puts it together when it runs.
pub fn is_computed(name: &str) -> bool {
    name.contains(COMPUTED)
}

/// All workflows that any state of a workflow names, as they are written there. A state that cannot be read names none.
pub fn named_by(scope: &mut Scope) -> BTreeSet<String> {
    Names::of(scope).workflows
}

/// What the states of a workflow name of other files, as it is written.
#[derive(Debug, Default)]
struct Names {
    workflows: BTreeSet<String>,
    /// The files that say which MCP servers an agent program starts.
    mcp_configs: BTreeSet<String>,
    /// The folders to which tags and policies send agents.
    folders: BTreeSet<String>,
    has_prompts: bool,
}

impl Names {
    fn of(scope: &mut Scope) -> Self {
        let mut names = Self::default();
        for state in scope.states().collect::<Vec<StateFile>>() {
            names.add(scope, &state);
        }
        names
    }

    fn add(&mut self, scope: &mut Scope, state: &StateFile) {
        let Ok(source) = scope.read(state) else { return };
        let file = ReadFile::new(state.clone(), String::from_utf8_lossy(&source.bytes).into_owned());
        self.workflows.extend(in_tags(&file.found.tags).filter(|name| !is_computed(name)));
        let attributes = file.found.tags.iter().flat_map(|located| &located.tag.attributes);
        let folders = attributes.filter(|(name, _)| name == Attribute::Cd.as_str()).map(|(_, folder)| folder);
        self.folders.extend(folders.filter(|folder| !is_computed(folder)).cloned());
        self.has_prompts |= state.kind().is_prompt();
        let Ok(read) = read_state(state, &source, &Options::default(), &scope.manifest().defaults) else {
            return;
        };
        if let (Plan::Prompt(prompt), Some(settings)) = (read.plan, read.turn) {
            self.workflows.extend(prompt.policy.iter().flat_map(in_policy));
            let entries = prompt.policy.iter().flat_map(|policy| &policy.entries);
            self.folders.extend(entries.filter_map(|entry| entry.cd.clone()));
            self.mcp_configs.extend(settings.mcp_config);
        }
    }
}

/// The other workflows that a policy permits by name.
pub fn in_policy(policy: &Policy) -> impl Iterator<Item = String> {
    let entries = policy.entries.iter().filter(|entry| entry.tag.is_workflow());
    entries.filter_map(|entry| entry.target.clone())
}

/// The other workflows whose names stand in tags, computed names among them.
pub fn in_tags(tags: &[Located]) -> impl Iterator<Item = String> {
    let tags = tags.iter().map(|located| &located.tag);
    tags.filter(|tag| tag.name.is_workflow()).map(|tag| tag.content.trim().to_owned())
}

/// How many workflows may be reached from one.
const MAX_WORKFLOWS: usize = 200;
/// How much may be in the archives and one-file workflows among them: they are unpacked in memory.
const MAX_UNPACKED_BYTES: u64 = 4 * MAX_BYTES;

/// A workflow with those that it extends and those that it names, and so on: all that its run may be in, as far as texts
/// tell.
#[derive(Debug, Default)]
pub struct Reached {
    /// The workflow itself comes first.
    pub scopes: Vec<Scope>,
    /// What is named and is no workflow that can be opened, with the path of the workflow that names it.
    pub missing: BTreeSet<(PathBuf, String)>,
    /// The files with MCP servers that their states name.
    pub mcp_configs: BTreeSet<String>,
    /// The folders to which they send agents. From where relative ones start depends on where the agent is.
    pub folders: BTreeSet<String>,
    /// Whether any state is a prompt, so that an agent program is started.
    pub has_prompts: bool,
}

impl Reached {
    /// Opens the workflow at a path, and all that are reached from it. Whether one may be entered does not matter: what
    /// the config file permits can change.
    pub fn from(path: &Path, platform: Platform) -> Result<Self, UserError> {
        let mut reached = Self::default();
        let mut unpacked = 0;
        let mut known = BTreeSet::from([canonical(path)]);
        let mut to_open = vec![path.to_owned()];
        while let Some(path) = to_open.pop() {
            let mut scope = Scope::open(&path, platform)?;
            unpacked += scope.files().values().map(|bytes| bytes.len() as u64).sum::<u64>();
            let names = Names::of(&mut scope);
            reached.mcp_configs.extend(names.mcp_configs);
            reached.folders.extend(names.folders);
            reached.has_prompts |= names.has_prompts;
            let (named, missing) = next_of(&scope, names.workflows);
            let bases = scope.bases().map(|base| base.path().to_owned());
            to_open.extend(bases.chain(named).filter(|path| known.insert(canonical(path))));
            reached.missing.extend(missing.into_iter().map(|name| (path.clone(), name)));
            reached.scopes.push(scope);
            if known.len() > MAX_WORKFLOWS || unpacked > MAX_UNPACKED_BYTES {
                let first = shown(reached.scopes.first().map_or(&path, |scope| scope.path())).display();
                let most = MAX_UNPACKED_BYTES / (1024 * 1024);
                let error =
                    format!("{first} reaches more than {MAX_WORKFLOWS} workflows or {most} MiB in archives");
                return Err(UserError::usage(error));
            }
        }
        Ok(reached)
    }
}

/// The paths of the workflows that one names, and what it names that cannot be opened.
fn next_of(scope: &Scope, names: BTreeSet<String>) -> (Vec<PathBuf>, Vec<String>) {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for name in names {
        let is_near = !leads_away(&normalise(scope.path(), Path::new(&name)), scope.path());
        let located = is_near.then(|| Scope::open_relative(scope.path(), &name, scope.platform()).ok());
        match located.flatten() {
            Some(located) => found.push(located.scope.path().to_owned()),
            None => missing.push(name),
        }
    }
    (found, missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workflows_are_named_in_policies_and_in_literal_tags() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write(
            "START.md",
            "---\nallowed_transitions: [ { tag: reset-workflow, target: ../policy } ]\n---\nGo.\n",
        );
        write(
            "TEXT.md",
            "Emit <call-workflow return=\"START\">../text</call-workflow> or\n<reset-workflow>{{x}}</reset-workflow>",
        );
        write(
            "CODE.sh",
            "# <reset-workflow>../comment</reset-workflow>\necho '<fork-workflow next=\"TEXT\">../code</fork-workflow>'\necho \"<reset-workflow>../$1</reset-workflow>\"\n",
        );
        write("EMIT.sh", "raymond emit function-workflow ../emitted --return START\n");
        write("BROKEN.md", "---\nallowed_transitions: 7\n---\n<reset-workflow>../broken</reset-workflow>");
        write("data.txt", "<reset-workflow>../data</reset-workflow>");
        let mut scope = Scope::open(folder.path(), Platform::Unix).unwrap();
        let named: Vec<String> = named_by(&mut scope).into_iter().collect();
        assert_eq!(named, ["../broken", "../code", "../emitted", "../policy", "../text"]);
    }

    #[test]
    fn all_workflows_are_reached_that_are_extended_or_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "a/START.sh",
            "echo '<reset-workflow>../b</reset-workflow><reset-workflow>../gone</reset-workflow>'",
        );
        write("a/workflow.yaml", "extends: ../base\n");
        write(
            "b/START.sh",
            "echo '<reset-workflow>../a</reset-workflow><reset-workflow>../c</reset-workflow>'",
        );
        write("c.yaml", "states:\n  START:\n    sh: echo\n");
        write("base/OTHER.sh", "echo");
        let reached = Reached::from(&root.join("a"), Platform::Unix).unwrap();
        let mut paths: Vec<&Path> =
            reached.scopes.iter().map(|scope| scope.path().strip_prefix(&root).unwrap()).collect();
        assert_eq!(paths[0], Path::new("a"));
        paths.sort();
        assert_eq!(paths, ["a", "b", "base", "c.yaml"].map(Path::new));
        assert_eq!(reached.missing, BTreeSet::from([(root.join("a"), "../gone".to_owned())]));
    }

    #[test]
    fn a_one_file_workflow_names_those_of_its_states() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("wf.yaml");
        let text = "states:\n  START:\n    prompt: |\n      Emit <reset-workflow>../text</reset-workflow>\n    \
                    allowed_transitions: [ { tag: call-workflow, target: ../policy, return: START } ]\n";
        std::fs::write(&file, text).unwrap();
        let mut scope = Scope::open(&file, Platform::Unix).unwrap();
        let named: Vec<String> = named_by(&mut scope).into_iter().collect();
        assert_eq!(named, ["../policy", "../text"]);
    }
}
