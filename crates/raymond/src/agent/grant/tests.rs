use super::GrantKey::{AddDirs, AllowTools, DenyTools, McpConfig};
use super::*;

fn filled(key: GrantKey, written: &str, text: &str, by: Giver) -> Result<String, String> {
    let value = |name: &str| (name == "x").then(|| Given { text: text.into(), by });
    key.fill(written, value).map(|grant| grant.as_str().to_owned())
}

fn takes(key: GrantKey, written: &str, text: &str, by: Giver) -> bool {
    match filled(key, written, text, by) {
        Ok(entry) => {
            assert_eq!(entry, written.replace("{{x}}", text));
            true
        }
        Err(error) => {
            assert!(error.contains(key.as_str()) && error.contains("{{x}}"), "{error}");
            false
        }
    }
}

/// How Claude Code reads an argument of `--allowedTools`: as a list of rules.
fn rules_in(argument: &str) -> Vec<String> {
    let (mut rules, mut rule, mut is_inside) = (Vec::new(), String::new(), false);
    for character in argument.chars() {
        match character {
            '(' => is_inside = true,
            ')' => is_inside = false,
            _ => {}
        }
        if !is_inside && (character == ',' || character.is_whitespace()) {
            rules.push(std::mem::take(&mut rule));
        } else {
            rule.push(character);
        }
    }
    rules.push(rule);
    rules.retain(|rule| !rule.is_empty());
    rules
}

#[test]
fn a_models_text_fills_one_place_of_a_rule() {
    for text in ["main", "feature/x-1", "a.txt", "main..next", "v1.2+3", "größe", "a=b", "@scope/it"] {
        assert!(takes(AllowTools, "Bash(git push {{x}})", text, Giver::Anyone), "{text}");
        assert!(takes(DenyTools, "Read(docs/{{x}}/**)", text, Giver::Anyone), "{text}");
    }
    let refused = [
        "x) Bash(rm:*",
        "x),Edit",
        "a,b",
        "a b",
        "a\nb",
        "a\tb",
        "*",
        "a*",
        "a?",
        "[a]",
        "a:b",
        ":*",
        "!a",
        "a;b",
        "a&&b",
        "a|b",
        "a>b",
        "a<b",
        "$HOME",
        "`id`",
        "'a'",
        "\"a\"",
        "a\\",
        "#",
        "-f",
        "--force",
        "",
        "..",
        ".",
        "../a",
        "a/..",
        "a/../b",
        "{a",
        "a\u{7f}",
        "a\u{a0}b",
    ];
    for text in refused {
        for key in [AllowTools, DenyTools] {
            assert!(!takes(key, "Bash(git push {{x}})", text, Giver::Anyone), "{text:?}");
            assert!(!takes(key, "Edit(docs/{{x}}/**)", text, Giver::Anyone), "{text:?}");
        }
    }
}

#[test]
fn no_text_makes_another_rule() {
    let pieces = ["x", ")", "(", ",", " ", "\n", ":*", "Bash(rm:*)", "-", "\\", "\"", "*", "/", ".."];
    for first in pieces {
        for second in pieces {
            for third in pieces {
                let text = format!("{first}{second}{third}");
                for written in ["Bash({{x}})", "Bash(a {{x}}:*)", "Edit(a/{{x}}/b)"] {
                    if let Ok(entry) = filled(AllowTools, written, &text, Giver::Anyone) {
                        assert_eq!(rules_in(&entry).len(), 1, "{entry}");
                        assert!(!text.contains('*'), "{entry}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_models_text_never_chooses_the_tool() {
    for written in ["{{x}}", "mcp__{{x}}__read", "Ba{{x}}", "{{x}}(git:*)", "Bash(a) {{x}}"] {
        assert!(!takes(AllowTools, written, "sh", Giver::Anyone), "{written}");
    }
    assert!(takes(AllowTools, "mcp__{{x}}__read", "github", Giver::Person));
    assert!(takes(AllowTools, "{{x}}", "Bash(git:*),Edit", Giver::Person), "the whole rule");
    assert!(!takes(AllowTools, "mcp__{{x}}", "a,Bash", Giver::Person));
    assert!(!takes(AllowTools, "Bash(gh issue view {{x}})", "7) Edit", Giver::Person));
    assert!(takes(AllowTools, "Bash(make {{x}})", "-j 4", Giver::Person));
    assert!(!takes(AllowTools, "Bash({{x}}:*)", "", Giver::Person), "that would be every command");
}

#[test]
fn a_whole_command_may_have_several_words() {
    assert!(takes(AllowTools, "Bash({{x}})", "cargo test {{run_id}}", Giver::Anyone));
    assert!(takes(AllowTools, "Bash({{x}}:*)", "cargo test", Giver::Anyone));
    for text in ["cargo test; id", "cargo\ntest", "/bin/sh", "~/evil", "cat ../a", "cat .."] {
        assert!(!takes(AllowTools, "Bash({{x}})", text, Giver::Anyone), "{text}");
    }
}

#[test]
fn a_path_of_raymonds_own_stays_as_it_is() {
    assert!(takes(AllowTools, "Read({{x}}/**)", "/home/a b/x-1", Giver::Raymond));
    assert!(!takes(AllowTools, "Read({{x}}/**)", "/home/a (b)/x", Giver::Raymond));
    assert!(takes(AddDirs, "{{x}}/sub", "/home/a (b)/x", Giver::Raymond));
    assert!(takes(McpConfig, "{{x}}/mcp.json", "/home/x", Giver::Raymond));
}

#[test]
fn a_models_text_is_one_name_within_a_path() {
    for text in ["docs", "a b", "x.y", "a..b", "größe"] {
        assert!(takes(AddDirs, "../{{x}}", text, Giver::Anyone), "{text}");
        assert!(!takes(AddDirs, "{{x}}", text, Giver::Anyone), "{text}");
    }
    for text in ["", ".", "..", "...", "a/b", "/etc", "..\\a", "~", "~root", "-a", "a\n", "a\0"] {
        for by in [Giver::Anyone, Giver::Person] {
            assert!(!takes(AddDirs, "../{{x}}", text, by), "{text:?}");
        }
    }
    assert!(takes(AddDirs, "{{x}}", "/srv/../data", Giver::Person));
    assert!(!takes(AddDirs, "{{x}}", "--dangerously", Giver::Person));
}

#[test]
fn only_a_declared_input_chooses_a_tool_server() {
    assert!(!takes(McpConfig, "servers/{{x}}.json", "a", Giver::Anyone));
    assert!(takes(McpConfig, "servers/{{x}}.json", "a", Giver::Person));
    let inline = r#"{"mcpServers":{"a":{"command":"a","args":["{{x}}"]}}}"#;
    let entry = filled(McpConfig, inline, r#"b"],"env":{"#, Giver::Person).unwrap();
    let read: serde_json::Value = serde_json::from_str(&entry).unwrap();
    assert_eq!(read["mcpServers"]["a"]["args"][0], r#"b"],"env":{"#);
    assert!(!takes(McpConfig, inline, "b", Giver::Anyone));
}

#[test]
fn an_error_names_the_key_the_variable_and_the_character() {
    let error = filled(AllowTools, "Bash(git add {{x}})", "a) Edit", Giver::Anyone).unwrap_err();
    let expected =
        "`allow_tools`: the value of {{x}} has `)`, which means something there (in `Bash(git add {{x}})`)";
    assert_eq!(error, expected);
    let error = filled(AddDirs, "../{{x}}", "", Giver::Anyone).unwrap_err();
    assert_eq!(error, "`add_dirs`: the value of {{x}} is empty (in `../{{x}}`)");
    let error = filled(DenyTools, "Bash(a {{x}})", "a\n", Giver::Anyone).unwrap_err();
    assert!(error.contains(r"has `\n`"), "{error}");
}

#[test]
fn what_has_no_value_stays_and_values_are_not_filled_again() {
    assert_eq!(filled(AllowTools, "Bash({{y}} {{x}})", "a", Giver::Anyone).unwrap(), "Bash({{y}} a)");
    let value = |name: &str| (name != "y").then(|| Given { text: "{{y}}".into(), by: Giver::Person });
    assert_eq!(AllowTools.fill("Bash({{x}}{{z}})", value).unwrap().as_str(), "Bash({{y}}{{y}})");
}

#[test]
fn a_models_text_never_moves_a_path_to_another_root() {
    for (written, text) in [
        ("Edit(/{{x}})", "/etc/passwd"),
        ("Read(/{{x}}/**)", "/etc"),
        ("Read(/{{x}}/**)", "/"),
        ("Read(~{{x}})", "root"),
        ("Read(~{{x}}/**)", "/.ssh"),
        ("Read(~/{{x}})", "/etc"),
        ("Edit(sub/{{x}})", "/etc"),
        ("Edit({{x}})", "/etc"),
        ("Edit( {{x}})", "/etc"),
        ("Edit({{x}}/**)", "~root"),
    ] {
        for key in [AllowTools, DenyTools] {
            assert!(!takes(key, written, text, Giver::Anyone), "{written} with {text}");
        }
    }
    for written in ["Edit(/{{x}})", "Read(~/{{x}})", "Edit(sub/{{x}})", "Edit({{x}}/**)"] {
        assert!(takes(AllowTools, written, "docs/a.md", Giver::Anyone), "{written}");
    }
    assert!(takes(AllowTools, "Bash(git diff HEAD~2 {{x}})", "docs", Giver::Anyone));
    assert!(takes(AllowTools, "Bash(git show HEAD~{{x}})", "2", Giver::Anyone));
    assert!(!takes(AllowTools, "Bash(cat ~{{x}})", "root", Giver::Anyone));
    assert!(!takes(AddDirs, "~{{x}}", "root", Giver::Anyone));
    // The root may be another value.
    let value = |name: &str| match name {
        "root" => Some(Given { text: "/".into(), by: Giver::Person }),
        _ => Some(Given { text: "/etc".into(), by: Giver::Anyone }),
    };
    assert!(AllowTools.fill("Read({{root}}{{x}})", value).is_err());
}

#[test]
fn what_cannot_be_seen_is_in_no_rule_and_no_name() {
    for unseen in
        ['\u{202e}', '\u{2066}', '\u{200b}', '\u{200d}', '\u{200f}', '\u{feff}', '\u{e0041}', '\u{ad}']
    {
        let text = format!("do{unseen}cs");
        for by in [Giver::Anyone, Giver::Person] {
            assert!(!takes(AllowTools, "Edit(sub/{{x}})", &text, by), "{unseen:?}");
            assert!(!takes(DenyTools, "Bash({{x}})", &text, by), "{unseen:?}");
            assert!(!takes(AddDirs, "../{{x}}", &text, by), "{unseen:?}");
        }
        assert!(takes(AddDirs, "{{x}}", &text, Giver::Person), "a person's own path");
        assert!(takes(AddDirs, "{{x}}/a", &text, Giver::Raymond), "a folder that is there");
    }
    let error = filled(AddDirs, "../{{x}}", "a\u{202e}b", Giver::Anyone).unwrap_err();
    assert_eq!(error, "`add_dirs`: the value of {{x}} has `\\u{202e}`, which cannot be seen (in `../{{x}}`)");
}
