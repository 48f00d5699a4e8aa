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
use raymond_core::tag::Located;
use raymond_core::workflow::{Platform, StateFile};

use super::manifest::Defaults;
use super::scope::Scope;
use super::scopes::canonical;
use super::states::read_state;
use crate::error::UserError;
use crate::paths::{leads_away, normalise, shown};

/// Characters with which a script or a prompt puts a text together. A name with one of them is not complete.
const COMPUTED: [char; 9] = ['$', '{', '}', '%', '`', '"', '\'', '<', '!'];

/// All workflows that any state of a workflow names, as they are written there. A state that cannot be read names none.
pub fn named_by(scope: &mut Scope) -> BTreeSet<String> {
    let states: Vec<StateFile> = scope.states().collect();
    states.iter().flat_map(|state| named_by_state(scope, state)).collect()
}

fn named_by_state(scope: &mut Scope, state: &StateFile) -> BTreeSet<String> {
    let Ok(source) = scope.read(state) else { return BTreeSet::new() };
    let file = ReadFile::new(state.clone(), String::from_utf8_lossy(&source.bytes).into_owned());
    let plan = read_state(state, &source, &Options::default(), &Defaults::default()).map(|read| read.plan);
    let policy = match plan {
        Ok(Plan::Prompt(prompt)) => prompt.policy,
        Ok(Plan::Script(_)) | Err(_) => None,
    };
    let literal = in_tags(&file.found.tags).filter(|name| !name.contains(COMPUTED));
    policy.iter().flat_map(in_policy).chain(literal).collect()
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

/// A workflow with those that it extends and those that it names, and so on: all that its run may be in, as far as texts
/// tell.
#[derive(Debug)]
pub struct Reached {
    /// The workflow itself comes first.
    pub scopes: Vec<Scope>,
    /// What is named and is no workflow that can be opened, with the path of the workflow that names it.
    pub missing: BTreeSet<(PathBuf, String)>,
}

impl Reached {
    /// Opens the workflow at a path, and all that are reached from it. Whether one may be entered does not matter: what
    /// the config file permits can change.
    pub fn from(path: &Path, platform: Platform) -> Result<Self, UserError> {
        let mut reached = Self { scopes: Vec::new(), missing: BTreeSet::new() };
        let mut known = BTreeSet::from([canonical(path)]);
        let mut to_open = vec![path.to_owned()];
        while let Some(path) = to_open.pop() {
            let mut scope = Scope::open(&path, platform)?;
            let (named, missing) = next_of(&mut scope);
            let bases = scope.bases().map(|base| base.path().to_owned());
            to_open.extend(bases.chain(named).filter(|path| known.insert(canonical(path))));
            reached.missing.extend(missing.into_iter().map(|name| (path.clone(), name)));
            reached.scopes.push(scope);
            if known.len() > MAX_WORKFLOWS {
                let first = shown(reached.scopes.first().map_or(&path, |scope| scope.path())).display();
                return Err(UserError::usage(format!("{first} reaches more than {MAX_WORKFLOWS} workflows")));
            }
        }
        Ok(reached)
    }
}

/// The paths of the workflows that one names, and what it names that cannot be opened.
fn next_of(scope: &mut Scope) -> (Vec<PathBuf>, Vec<String>) {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for name in named_by(scope) {
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
