//! In a workflow without errors, no name is unresolved as long as its agents use only the declared transitions.

use proptest::prelude::*;

use super::*;
use crate::frontmatter::split_and_parse;
use crate::graph::SourceFile;
use crate::tag::{Need, TagCollector, TagName};
use crate::transition;
use crate::variable::Rules;
use crate::workflow::{Kind, Listing, Platform, StateFile};

fn subject(graph: &Graph) -> Workflow<'_> {
    let defaults = Defaults::default();
    Workflow {
        graph,
        defaults,
        inputs: &[],
        find_scope: &|_| Ok([].into()),
        known_efforts: &|_| None,
        check_schema: &|_| Ok(()),
    }
}

/// Names, most of which exist, in several spellings.
fn name() -> impl Strategy<Value = &'static str> {
    let odd = vec!["a", "GONE", "B.bat", "../A", "A.txt", "$X", "{{input}}", "the next state", ""];
    prop_oneof![
        30 => prop::sample::select(vec!["A", "B", "C", "START", "A.md", "B.sh", "C.py"]),
        1 => prop::sample::select(odd),
    ]
}

fn tag() -> impl Strategy<Value = String> {
    let kinds: Vec<TagName> = TagName::transitions().collect();
    let attributes = prop::collection::vec(
        (
            prop::sample::select(vec![
                "unknown",
                "unknown",
                "unknown",
                "unknown",
                "return",
                "next",
                "timeout_next",
            ]),
            name(),
        ),
        0..2,
    );
    (prop::sample::select(kinds), attributes, name(), any::<bool>()).prop_map(
        |(tag, given, name, complete)| {
            let mut given = given;
            let needed = tag.facts().attributes.iter().filter(|(_, need)| *need != Need::Optional);
            given.extend(needed.filter(|_| complete).map(|(needed, _)| (needed.as_str(), name)));
            let attributes: String = given.iter().map(|(key, value)| format!(" {key}=\"{value}\"")).collect();
            format!("<{tag}{attributes}>{name}</{tag}>")
        },
    )
}

fn entry() -> impl Strategy<Value = String> {
    let known = prop_oneof![
        30 => prop::sample::select(vec!["A", "B", "C.py", "START"]),
        1 => prop::sample::select(vec!["GONE", "../A", "b"]),
    ];
    (
        prop::sample::select(vec!["goto", "reset", "call", "fork", "ask", "result", "join"]),
        known.clone(),
        known,
        0..4_u8,
    )
        .prop_map(|(tag, target, other, parts)| {
            let target = match tag {
                "ask" | "result" => String::new(),
                _ if parts & 1 == 1 => String::new(),
                _ => format!(", target: {target}"),
            };
            let other = match tag {
                "call" if parts & 2 == 0 => format!(", return: {other}"),
                "fork" | "ask" if parts & 2 == 0 => format!(", next: {other}"),
                _ => String::new(),
            };
            format!("  - {{ tag: {tag}{target}{other} }}\n")
        })
}

fn prompt() -> impl Strategy<Value = String> {
    (prop::collection::vec(entry(), 0..3), prop::collection::vec(tag(), 0..3)).prop_map(|(entries, tags)| {
        let body = format!("Then emit {}.\n", tags.join(" or "));
        match entries.is_empty() {
            true => body,
            false => format!("---\nallowed_transitions:\n{}---\n{body}", entries.concat()),
        }
    })
}

fn script() -> impl Strategy<Value = String> {
    tag().prop_map(|tag| format!("echo '{tag}'\n"))
}

fn workflow() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    (prompt(), prompt(), script(), script(), script(), 0..8_u8).prop_map(|(start, a, b, c, bat, left_out)| {
        let files = [("START.md", start), ("A.md", a), ("B.sh", b), ("C.py", c), ("B.bat", bat)];
        // `START` usually exists; otherwise almost every workflow would have an error.
        let is_kept = |index: usize| left_out != 7 - u8::try_from(index).unwrap();
        files.into_iter().enumerate().filter(|(index, _)| is_kept(*index)).map(|(_, file)| file).collect()
    })
}

fn read(files: &[(&'static str, String)], platform: Platform) -> Graph {
    let files = files
        .iter()
        .map(|(name, text)| SourceFile { state: StateFile::new(name).unwrap(), text: text.clone() });
    Graph::read(files.collect(), None, platform)
}

fn errors(graph: &Graph) -> Vec<Diagnostic> {
    let workflow = subject(graph);
    let mut found = lint(&workflow);
    found.retain(|found| found.severity == Severity::Error);
    found
}

/// Every output that a state declares: the tags in its text, as an agent would copy them, and its policy's entries.
fn declared(state: &StateFile, text: &str) -> Vec<String> {
    let body = match state.kind() {
        Kind::Prompt => split_and_parse(text).unwrap().body.to_owned(),
        _ => text.to_owned(),
    };
    let found = crate::tag::locate(&body);
    let tags: Vec<String> = found.tags.iter().map(|located| body[located.range.clone()].to_owned()).collect();
    let policy = split_and_parse(text).ok().and_then(|prompt| prompt.settings.allowed_transitions);
    let entries = policy.into_iter().flat_map(|policy| policy.entries).filter_map(|entry| {
        let tag = entry.tag;
        let target = if tag.has_target() { entry.target? } else { "text".to_owned() };
        let mut attributes = String::new();
        for (name, value) in [("return", entry.return_to), ("next", entry.next)] {
            attributes.extend(value.map(|value| format!(" {name}=\"{value}\"")));
        }
        Some(format!("<{tag}{attributes}>{target}</{tag}>"))
    });
    entries.chain(tags).collect()
}

/// The unresolved name that a run would report for an output, if any.
fn unresolved_name(output: &str, listing: &Listing, platform: Platform) -> Option<String> {
    let rules = Rules { from_model: false, case_insensitive: false };
    let mut collector = TagCollector::new();
    collector.feed(output.as_bytes(), &mut |_| {}).ok()?;
    let reading = transition::read(collector.finish(&mut |_| {}).ok()?, rules).ok()?;
    let names = reading.transition.state_names().into_iter().map(str::to_owned).collect::<Vec<_>>();
    names.into_iter().find(|name| listing.resolve(name, platform).is_err())
}

/// Placeholders that an agent or a script fills in are not declared names.
fn is_open(output: &str) -> bool {
    ["$X", "{{input}}", "the next state"].iter().any(|open| output.contains(open))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn without_errors_every_declared_name_resolves(files in workflow(), on_windows in any::<bool>()) {
        let platform = if on_windows { Platform::Windows } else { Platform::Unix };
        let graph = read(&files, platform);
        if !errors(&graph).is_empty() {
            return Ok(());
        }
        prop_assert!(graph.entry.is_ok());
        for (name, text) in &files {
            let state = StateFile::new(name).unwrap();
            if !state.kind().runs_on(platform) {
                continue;
            }
            let forbidden = &graph.states.iter().find(|known| known.file == state).unwrap().forbidden;
            for output in declared(&state, text).into_iter().filter(|output| !is_open(output)) {
                let is_forbidden = forbidden.iter().any(|exit| text[exit.range.clone()] == output);
                let missing = unresolved_name(&output, &graph.listing, platform);
                prop_assert!(is_forbidden || missing.is_none(), "{name}: {output}: {missing:?}");
            }
        }
    }

    #[test]
    fn no_text_makes_it_panic(
        prompt in "(---\n)?(.|\n){0,40}(---\n)?(<(goto|fork|call)[ a-z=\"']{0,9}>|</goto>|\\{\\{a\\}\\}|.|\n){0,20}",
        script in "(# raymond: )?(.|\n){0,60}",
    ) {
        let files = [("START.md", prompt), ("A.sh", script.clone()), ("B.bat", script)];
        for platform in [Platform::Unix, Platform::Windows] {
            let graph = read(&files, platform);
            let _ = lint(&subject(&graph));
        }
    }
}

#[test]
fn codes_are_in_order_and_rules_have_explanations() {
    // A code stays a rule's for ever, so the numbers may have gaps.
    assert!(RULES.windows(2).all(|rules| rules[0].code < rules[1].code));
    for rule in RULES {
        let number = rule.code.strip_prefix('R').unwrap();
        assert!(number.len() == 3 && number.parse::<u16>().is_ok(), "{}", rule.code);
        assert!(rule.summary.ends_with('.') && rule.explanation.ends_with('.'), "{}", rule.code);
        assert!(!rule.explanation.contains("  "), "{}", rule.code);
    }
    assert_eq!(super::rule("r007").map(|rule| rule.name), Some("fork-without-continuation"));
}
