use std::fs;
use std::sync::Arc;

use raymond_core::money::Usd;
use raymond_core::workflow::Platform;

use super::*;
use crate::agent::testing::Threads;
use crate::agent::{Capabilities, DEFAULT_BACKEND};
use crate::error::ExitKind;

/// Checks a workflow of these files with a backend `limited` that can do only so much.
fn check(files: &[(&str, &str)], can: Capabilities, options: Options) -> Result<(), UserError> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let mut scope = Scope::open(folder.path(), Platform::Unix).unwrap();
    let mut backends = Backends::built_in();
    backends.add("limited", Arc::new(Threads { can, output: String::new() }));
    let options = Options { backend: Some("limited".to_owned()), ..options };
    let entries = BTreeSet::from([scope.entry().unwrap()]);
    let allowed = Allowed::new(&scope, folder.path(), &[]);
    check_all(&mut scope, &entries, Vec::new(), &options, &backends, &allowed).map(|_| ())
}

fn refusal(files: &[(&str, &str)], can: Capabilities, options: Options) -> String {
    let error = check(files, can, options).expect_err("it should be refused");
    assert_eq!(error.exit, ExitKind::Usage);
    error.message
}

#[test]
fn what_a_backend_does_not_take_is_refused_with_the_state_and_the_setting() {
    const ALL: Capabilities = Capabilities::ALL;
    for (setting, can) in [
        ("model: opus", Capabilities { model: false, ..ALL }),
        ("effort: high", Capabilities { effort: false, ..ALL }),
        ("allow_tools: [Bash]", Capabilities { tool_rules: false, ..ALL }),
        ("deny_tools: [Bash]", Capabilities { tool_rules: false, ..ALL }),
        ("add_dirs: [..]", Capabilities { add_dirs: false, ..ALL }),
        ("mcp_config: [m.json]", Capabilities { mcp: false, ..ALL }),
        ("require_mcp: true", Capabilities { tells_servers: false, ..ALL }),
    ] {
        let start = ("START.sh", "echo '<goto>ASK</goto>'");
        let ask = format!("---\n{setting}\n---\nHello.");
        let files = [start, ("ASK.md", ask.as_str())];
        let name = setting.split(':').next().unwrap();
        let expected = format!("ASK.md: `{name}` is set for it, which its backend `limited` does not take");
        assert_eq!(refusal(&files, can, Options::default()), expected);
        check(&files, ALL, Options::default()).expect("with a backend that takes it");
        check(&[start, ("ASK.md", "Hello.")], can, Options::default()).expect("without the setting");
        let other = format!("---\n{setting}\nbackend: {DEFAULT_BACKEND}\n---\nHello.");
        check(&[start, ("ASK.md", &other)], can, Options::default()).expect("with another backend");
    }
}

#[test]
fn options_of_the_run_count_like_those_of_the_state() {
    let files = [("START.md", "Hello.")];
    let can = Capabilities { effort: false, skip_permissions: false, cost: false, ..Capabilities::ALL };
    let unlimited = Options { budget_usd: Usd::ZERO, ..Options::default() };
    check(&files, can, unlimited.clone()).expect("nothing is asked for");
    let effort = Options { effort: Some("high".to_owned()), ..unlimited.clone() };
    assert!(refusal(&files, can, effort).contains("`effort`"));
    let skip = Options { skip_permissions: true, ..unlimited };
    assert!(refusal(&files, can, skip).contains("`dangerously_skip_permissions`"));
    let budget = refusal(&files, can, Options::default());
    assert!(budget.starts_with("START.md: its backend `limited` does not tell the cost"), "{budget}");
}

#[test]
fn a_conversation_that_cannot_be_gone_on_with_is_found_before_the_run() {
    let can = Capabilities { branch: false, ..Capabilities::ALL };
    let policy = |entry: &str| format!("---\nallowed_transitions: [{{ {entry} }}]\n---\nGo.");
    for (start, verdict) in [
        ("Go: <goto>NEXT</goto>".to_owned(), Some("<goto>")),
        ("Go: <call return='NEXT'>SCRIPT</call>".to_owned(), Some("<call>")),
        ("Go: <call return='SCRIPT'>NEXT</call>".to_owned(), Some("<call>")),
        ("Go: <function return='NEXT'>SCRIPT</function>".to_owned(), Some("<function>")),
        ("Go: <fork next='NEXT'>SCRIPT</fork>".to_owned(), Some("<fork>")),
        ("Go: <ask next='NEXT'>well?</ask>".to_owned(), Some("<ask>")),
        (policy("tag: join, target: NEXT"), Some("<join>")),
        (policy("tag: goto, target: NEXT"), Some("<goto>")),
        ("Go: <reset>NEXT</reset>".to_owned(), None),
        ("Go: <function return='SCRIPT'>NEXT</function>".to_owned(), None),
        ("Go: <fork next='SCRIPT'>NEXT</fork>".to_owned(), None),
        ("Go: <goto>SCRIPT</goto>".to_owned(), None),
        (format!("---\nbackend: {DEFAULT_BACKEND}\n---\nGo: <goto>NEXT</goto>"), None),
    ] {
        let files = [("START.md", start.as_str()), ("NEXT.md", "On."), ("SCRIPT.sh", "exit 1")];
        match verdict {
            None => check(&files, can, Options::default()).expect(&start),
            Some(tag) => {
                let expected = format!(
                    "NEXT.md: {tag} in START.md leads there with the conversation kept, and the backend `limited` cannot branch one"
                );
                assert_eq!(refusal(&files, can, Options::default()), expected, "{start}");
            }
        }
        check(&files, Capabilities::ALL, Options::default()).expect("with a backend that branches");
    }
    let none = Capabilities { resume: false, ..can };
    let files = [("START.md", "<goto>NEXT</goto>"), ("NEXT.md", "On.")];
    assert!(refusal(&files, none, Options::default()).ends_with("cannot continue one"));
}
