use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn parsed(text: &str) -> Prompt<'_> {
    split_and_parse(text).unwrap()
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn all_settings_are_read() {
    let text = r#"---
allowed_transitions:            # a comment
  - { tag: goto, target: REVIEW }
  - { tag: call, target: RESEARCH, return: SUMMARIZE }
  - tag: ask
    next: DECIDE
    timeout_next: REVIEW
  - { tag: result }
model: opus
effort: high
timeout: 10m
max_time: 0
max_visits: 5
force_implicit: false
backend: claude
may_forget: true
allow_tools: [ "Bash(cargo test:*)" ]
deny_tools: [WebFetch, WebSearch]
add_dirs: []
mcp_config: servers.json
require_mcp: true
exclusive: git
result_schema: { type: object, required: [a], maxProperties: 2 }
---
Body.
"#;
    let prompt = parsed(text);
    assert_eq!((prompt.body, prompt.warnings.len()), ("Body.\n", 0));
    let policy = prompt.settings.allowed_transitions.clone().unwrap();
    let places: Vec<_> = policy.entries.iter().map(|entry| (entry.tag, entry.line, entry.column)).collect();
    assert_eq!(
        places,
        [(TagName::Goto, 3, 5), (TagName::Call, 4, 5), (TagName::Ask, 5, 5), (TagName::Result, 8, 5)]
    );
    assert_eq!(policy.entries.get(1).unwrap().return_to.as_deref(), Some("SUMMARIZE"));
    assert_eq!(policy.entries.get(2).unwrap().timeout_next.as_deref(), Some("REVIEW"));
    let expected = Settings {
        allowed_transitions: Some(policy),
        model: Some("opus".to_owned()),
        effort: Some("high".to_owned()),
        timeout: Some(Limit::After(Duration::from_secs(600))),
        max_time: Some(Limit::Unlimited),
        max_visits: Some(5),
        force_implicit: false,
        backend: Some("claude".to_owned()),
        may_forget: true,
        allow_tools: Some(strings(&["Bash(cargo test:*)"])),
        deny_tools: Some(strings(&["WebFetch", "WebSearch"])),
        add_dirs: Some(Vec::new()),
        mcp_config: Some(strings(&["servers.json"])),
        require_mcp: Some(true),
        exclusive: Some("git".to_owned()),
        result_schema: Some(ResultSchema::Inline(
            serde_json::json!({ "type": "object", "required": ["a"], "maxProperties": 2 }),
        )),
    };
    assert_eq!(prompt.settings, expected);
}

#[test]
fn the_body_is_what_follows_the_block() {
    let cases = [
        ("", ""),
        ("Body", "Body"),
        ("\u{feff}Body\r\n", "Body\r\n"),
        ("---\n---\n", ""),
        ("---\n---", ""),
        ("---\n\n# nothing\n---\nBody\n---\nmore", "Body\n---\nmore"),
        ("\u{feff}---\r\nmodel: x\r\n---\r\nBody\r\n", "Body\r\n"),
        ("--- \nmodel: x\n---\t\nBody", "Body"),
        ("----\nBody", "----\nBody"),
        ("\n---\nBody", "\n---\nBody"),
        ("--- # x\nBody", "--- # x\nBody"),
    ];
    for (text, body) in cases {
        assert_eq!(parsed(text).body, body, "{text:?}");
    }
}

#[test]
fn mistakes_have_a_place_and_say_what_to_do() {
    let cases = [
        ("model: [a]", 2, 8, "`model` must be text, not a list"),
        ("model: 4", 2, 8, "`model` must be text, not a whole number; put it in quotes"),
        ("effort:", 2, 7, "`effort` must be text, not empty"),
        ("backend: []", 2, 10, "`backend` names none; leave it out"),
        ("backend: ''", 2, 10, "a value of `backend` is empty"),
        ("backend: \"a\\0\"", 2, 10, "a value of `backend` holds control characters"),
        ("\ntimeout: 30", 3, 10, "`timeout` needs a unit; write `30s` for 30 seconds"),
        ("max_time: [1s]", 2, 11, "`max_time` must be a duration such as `30s`, not a list"),
        ("max_visits: 0", 2, 13, "`max_visits` must be 1 or more, not 0"),
        ("max_visits: many", 2, 13, "`max_visits` must be a whole number from 1 on, not text"),
        ("force_implicit: yes", 2, 17, "`force_implicit` must be `true` or `false`, not text"),
        ("add_dirs: [a, 5]", 2, 15, "`add_dirs` must hold texts, not a whole number"),
        (
            "allow_tools: Bash",
            2,
            14,
            "`allow_tools` must be a list of texts such as `[ \"first\", \"second\" ]`, not text",
        ),
        (
            "allowed_transitions: []",
            2,
            22,
            "`allowed_transitions` permits nothing; add an entry, or leave it out to permit everything",
        ),
        (
            "allowed_transitions: goto",
            2,
            22,
            "`allowed_transitions` must be a list of entries such as `{ tag: goto, target: REVIEW }`, not text",
        ),
        (
            "allowed_transitions:\n- goto",
            3,
            3,
            "an entry must be a mapping such as `{ tag: result }`, not text",
        ),
        ("allowed_transitions:\n- { target: A }", 3, 3, "the entry has no `tag`"),
        ("allowed_transitions:\n- { tag: goot }", 3, 10, "unknown tag `goot`; did you mean `goto`?"),
        ("allowed_transitions:\n- { tag: Result }", 3, 10, "unknown tag `Result`; did you mean `result`?"),
        (
            "allowed_transitions:\n- { tag: print }",
            3,
            10,
            "`print` is not a transition and is always permitted; remove the entry",
        ),
        (
            "allowed_transitions:\n- { tag: goto, return: A }",
            3,
            16,
            "`goto` has no `return`, so the entry could never match",
        ),
        (
            "allowed_transitions:\n- { tag: goto, target: 5 }",
            3,
            24,
            "`target` must be text, not a whole number; put it in quotes",
        ),
        ("- model", 2, 1, "the `---` block must hold `key: value` lines, not a list"),
        ("model: a\nmodel: b", 3, 1, "invalid YAML: duplicate mapping key: model not allowed here"),
        ("model: a: b", 2, 9, "invalid YAML: mapping values are not allowed in this context"),
    ];
    for (block, line, column, message) in cases {
        let text = format!("---\n{block}\n---\nBody");
        let error = split_and_parse(&text).unwrap_err();
        assert_eq!((error.position, error.message.as_str()), (Position { line, column }, message));
        let index = usize::try_from(line).unwrap() - 1;
        assert_eq!(error.source_line, text.lines().nth(index).unwrap());
        let with_carriage_returns = split_and_parse(&text.replace('\n', "\r\n")).unwrap_err();
        assert_eq!(with_carriage_returns, error, "{block}");
    }
}

#[test]
fn an_unclosed_block_is_an_error() {
    for text in ["---", "---\nmodel: x\n", "\u{feff}---\r\nmodel: x\r\n ---\r\n"] {
        let error = split_and_parse(text).unwrap_err();
        assert_eq!(error.position, Position { line: 1, column: 1 });
        assert_eq!(error.source_line, "---");
        assert!(error.message.contains("never closed"));
    }
}

#[test]
fn unknown_keys_are_warned_of() {
    let prompt =
        parsed("---\nmodle: opus\nx: {y: [.nan]}\nallowed_transitions:\n- { tag: result, targte: A }\n---\n");
    let warnings: Vec<String> = prompt.warnings.iter().map(SourceWarning::to_string).collect();
    assert_eq!(
        warnings,
        [
            "line 2, column 1: unknown setting `modle` is ignored; did you mean `model`?",
            "line 3, column 1: unknown setting `x` is ignored",
            "line 5, column 18: unknown key `targte` is ignored; did you mean `target`?",
        ]
    );
}

#[test]
fn forcing_the_implicit_transition_needs_one() {
    let cases = [
        ("allowed_transitions: [ { tag: goto, target: A } ]", true),
        ("allowed_transitions: [ { tag: call, target: A, return: B } ]", true),
        ("allowed_transitions: [ { tag: call, target: A } ]", false),
        ("allowed_transitions: [ { tag: result } ]", false),
        ("allowed_transitions: [ { tag: ask, next: A } ]", false),
        ("allowed_transitions: [ { tag: goto, target: A }, { tag: result } ]", false),
        ("model: x", false),
    ];
    for (settings, is_fine) in cases {
        let text = format!("---\nforce_implicit: true\n{settings}\n---\n");
        let result = split_and_parse(&text);
        assert_eq!(result.is_ok(), is_fine, "{settings}");
        if let Err(error) = result {
            assert_eq!(error.position, Position { line: 2, column: 17 });
        }
    }
}

#[test]
fn alias_bombs_and_too_long_blocks_are_errors() {
    let deep = format!("---\na: {}\n---\n", "[".repeat(100_000));
    let long = format!("---\na: {}\n---\n", "x".repeat(MAX_FRONTMATTER_BYTES));
    let endless = "---\n".to_owned() + &"a\n".repeat(1_000_000);
    for text in [deep, long, endless] {
        assert!(split_and_parse(&text).is_err());
    }
}

proptest! {
    #[test]
    fn no_text_panics(
        text in "(?s).*",
        block in "(allowed_transitions|timeout|model|a|:|- |\\[|\\]|\\{|\\}|&a|\\*a|<<|!|\n|  |\"|'|tag|goto|\\PC){0,20}",
    ) {
        let _ = split_and_parse(&text);
        for text in [format!("---\n{text}\n---\n"), format!("---\n{block}\n---\n")] {
            if let Err(error) = split_and_parse(&text) {
                prop_assert!(error.position.line >= 1 && error.position.column >= 1);
                let lines = u32::try_from(text.lines().count()).unwrap();
                prop_assert!(error.position.line <= lines);
                prop_assert!(!error.to_string().contains(char::is_control));
            }
        }
    }
}

#[test]
fn blank_lines_and_one_comment_may_come_before() {
    let block = "---\nmodel: opus\ncolour: red\n---\nBody.\n";
    for (before, line) in [("", 3), ("\n \t\r\n", 5), ("<!-- x -->\n", 4), ("\n<!-- two\nlines -->  \n\n", 7)]
    {
        let text = format!("{before}{block}");
        let prompt = split_and_parse(&text).unwrap();
        assert_eq!(prompt.settings.model.as_deref(), Some("opus"), "{before:?}");
        assert_eq!((prompt.body, prompt.warnings[0].position.line), ("Body.\n", line), "{before:?}");
    }
    for before in ["x\n", "<!-- x --> y\n", "<!-- x -->\n<!-- y -->\n", "<!-- x\n", "  "] {
        let text = format!("{before}{block}");
        assert_eq!(split_and_parse(&text).unwrap().body, text, "{before:?}");
    }
    assert_eq!(split_and_parse("\n---\nA ruler: and text.\n---\n").unwrap().settings, Settings::default());
    let error = split_and_parse("\n\n---\nmodel: opus\n").unwrap_err();
    assert_eq!(error.position, Position { line: 3, column: 1 });
    let error = split_and_parse("\n\n---\n\nmodel: 3\n---\n").unwrap_err();
    assert_eq!((error.position.line, error.source_line.as_str()), (5, "model: 3"));
}

#[test]
fn settings_further_down_are_warned_of() {
    let cases = [
        ("Hello.\n---\nallowed_transitions: []\n---\n", Some(2)),
        ("Hello.\n---\nx\n---\nmax_visits: 3\n---\n", Some(4)),
        ("Hello.\n---\ntitle: x\n---\n", None),
        ("Hello.\n---\nmax_visits: 3\n", None),
        ("Hello.\n```yaml\n---\nmax_visits: 3\n---\n```\n", None),
        ("---\nmodel: x\n---\n---\nmax_visits: 3\n---\n", None),
    ];
    for (text, line) in cases {
        let warnings = split_and_parse(text).unwrap().warnings;
        assert_eq!(warnings.first().map(|warning| warning.position.line), line, "{text}");
    }
}
