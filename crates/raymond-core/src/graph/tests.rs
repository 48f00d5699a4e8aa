use super::*;
use crate::tag::TagName;

pub(crate) fn graph(files: &[(&str, &str)]) -> Graph {
    graph_on(files, Platform::Unix)
}

fn graph_on(files: &[(&str, &str)], platform: Platform) -> Graph {
    let files = files
        .iter()
        .map(|(name, text)| SourceFile { state: StateFile::new(name).unwrap(), text: (*text).to_owned() });
    Graph::read(files.collect(), None, platform)
}

/// Each exit as `FROM tag TO …`, with `?` for an unknown and `!` for a missing state.
fn shown(graph: &Graph) -> Vec<String> {
    let name = |reference: &Reference| match &reference.leads {
        Leads::To(number) => graph.states[*number].file.to_string(),
        Leads::Nowhere(_) => format!("!{}", reference.name),
        Leads::Elsewhere => format!("@{}", reference.name),
        Leads::Unknown => "?".to_owned(),
    };
    let exit = |state: &StateNode, exit: &StateExit| {
        let names: Vec<String> = exit
            .references()
            .map(|(role, reference)| format!(" {}={}", role.as_str(), name(reference)))
            .collect();
        format!("{} {}{}", state.file, exit.tag, names.concat())
    };
    graph.states.iter().flat_map(|state| state.exits.iter().map(move |e| exit(state, e))).collect()
}

#[test]
fn policies_and_tags_become_exits() {
    let graph = graph(&[
        (
            "START.md",
            "---\nallowed_transitions:\n  - { tag: goto, target: WORK }\n  - { tag: call, target: ASK.md, return: GONE }\n---\nGo.",
        ),
        ("WORK.sh", "# <goto>COMMENT</goto>\necho '<goto>ASK</goto>'\necho \"<goto>$X</goto>\"\n"),
        ("ASK.md", "Emit <ask next=\"START\">q</ask> or <call-workflow return='WORK'>../x</call-workflow>"),
        ("WORK.bat", "echo ^<goto^>ASK^</goto^>"),
    ]);
    assert_eq!(
        shown(&graph),
        [
            "ASK.md ask next=START.md",
            "ASK.md call-workflow target=@../x return=WORK.sh",
            "START.md goto target=WORK.sh",
            "START.md call target=ASK.md return=!GONE",
            "WORK.sh goto target=ASK.md",
            "WORK.sh goto target=?",
        ]
    );
    assert_eq!(graph.entry, Ok(1));
    let start = &graph.states[1];
    let names: Vec<&str> = start
        .exits
        .iter()
        .flat_map(StateExit::references)
        .map(|(_, reference)| &start.text[reference.range.clone()])
        .collect();
    assert_eq!(names, ["WORK", "ASK.md", "GONE"]);
}

#[test]
fn escaped_brackets_in_batch_files_are_read() {
    let files =
        [("START.bat", "@echo off\necho ^<call return=\"B\"^>A^</call^>\n"), ("A.md", ""), ("B.md", "")];
    let graph = graph_on(&files, Platform::Windows);
    assert_eq!(shown(&graph), ["START.bat call target=A.md return=B.md"]);
    let start = &graph.states[2];
    assert_eq!(&start.text[start.exits[0].target.as_ref().unwrap().range.clone()], "A");
}

#[test]
fn open_entries_are_completed_from_the_text() {
    let policy = "---\nallowed_transitions: [{ tag: goto }, { tag: result }]\n---\n";
    let start = format!("{policy}<goto>A</goto> <reset>A</reset>");
    let graph = graph(&[("START.md", &start), ("A.md", "<result>x</result>")]);
    assert_eq!(shown(&graph), ["A.md result", "START.md result", "START.md goto target=A.md"]);
    let start = &graph.states[1];
    assert!(!start.is_opaque);
    assert_eq!(start.forbidden.iter().map(|exit| exit.tag).collect::<Vec<_>>(), [TagName::Reset]);
    assert_eq!(graph.reached(), Some(vec![true, true]));
}
