//! A run does to conversations and stacks what the table of tags says.

use raymond_core::run::Options;
use raymond_core::tag::{Content, Need, SessionEffect, StackEffect, TagName};

use crate::rig::Rig;

/// The tag with everything that it needs.
fn written(tag: TagName) -> String {
    let needed = tag.facts().attributes.iter().filter(|(_, need)| *need != Need::Optional);
    let attributes: String = needed.map(|(attribute, _)| format!(" {attribute}=\"A\"")).collect();
    let content = match tag.facts().content {
        Content::State => "B",
        Content::Scope => "../other",
        Content::Text { placeholder } => placeholder,
    };
    format!("<{tag}{attributes}>{content}</{tag}>")
}

/// A run whose agent has called a prompt, which has not answered yet.
fn called() -> Rig {
    let prompt = "effort: low";
    let mut rig = Rig::with("START.md", Options::default()).prompt("START", prompt).prompt("SUB", prompt);
    rig.round([]);
    rig.says("main", "<call return=\"BACK\">SUB</call>");
    rig
}

#[test]
fn every_tag_does_what_the_table_says() {
    for tag in TagName::transitions() {
        let mut rig = called();
        let [caller] = rig.agent("main").stack.as_slice() else { panic!("not one frame") };
        let callers = caller.session.clone();
        let own = Some(rig.chosen_session("main"));
        assert!(callers.is_some() && callers != own);
        rig.says("main", &written(tag));
        let agent = rig.agent("main");

        let session = match tag.facts().session {
            SessionEffect::Kept | SessionEffect::Branched => own.clone(),
            SessionEffect::Fresh => None,
            SessionEffect::Restored => callers.clone(),
        };
        assert_eq!(agent.session, session, "{tag}");

        let stack = match tag.facts().stack {
            StackEffect::Kept => vec![callers],
            StackEffect::Pushed => vec![callers, own],
            StackEffect::Popped | StackEffect::Cleared => Vec::new(),
        };
        let frames: Vec<_> = agent.stack.iter().map(|frame| frame.session.clone()).collect();
        assert_eq!(frames, stack, "{tag}");
    }
}

#[test]
fn a_forked_agent_has_no_conversation_and_no_caller() {
    for tag in TagName::transitions().filter(|tag| tag.is_fork()) {
        let mut rig = called();
        rig.says("main", &written(tag));
        let mut workers = rig.run.agents.values().filter(|agent| agent.parent.is_some());
        let worker = workers.next().unwrap_or_else(|| panic!("{tag} starts no agent"));
        assert_eq!((&worker.session, worker.stack.len()), (&None, 0), "{tag}");
    }
}
