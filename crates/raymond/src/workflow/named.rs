//! The other workflows that a workflow names: in the policies of its states, and in tags that stand in their texts.
//!
//! Only what an author has written counts. What a variable stands for, or what a script puts together, is known when a
//! step runs and names nothing.

use std::collections::BTreeSet;

use raymond_core::graph::ReadFile;
use raymond_core::input::Plan;
use raymond_core::policy::Policy;
use raymond_core::run::Options;
use raymond_core::tag::Located;
use raymond_core::workflow::StateFile;

use super::manifest::Defaults;
use super::scope::Scope;
use super::states::read_state;

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

#[cfg(test)]
mod tests {
    use raymond_core::workflow::Platform;

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
