use super::*;
use crate::tag::{Applies, Attribute, Collected, Need, Tag, TagCollector, Value};
use crate::variable::Rules;

const SCRIPT: Rules = Rules { from_model: false, case_insensitive: false };

fn read_text(text: &str) -> Result<Reading, ProtocolError> {
    let mut collector = TagCollector::new();
    collector.feed(text.as_bytes(), &mut |_| {}).unwrap();
    read(collector.finish(&mut |_| {}).unwrap(), SCRIPT)
}

#[track_caller]
fn check(text: &str, transition: Transition) {
    assert_eq!(read_text(text), Ok(Reading { transition, warnings: Vec::new() }));
}

#[track_caller]
fn check_error(text: &str, message: &str) {
    assert_eq!(read_text(text).unwrap_err().to_string(), message);
}

fn jump(target: &str) -> Jump {
    Jump { target: target.into(), input: None, delay: None }
}

fn fork(state: &str) -> Fork {
    let target = ForkTarget::State(state.into());
    Fork { target, input: None, cd: None, worktree: None, variables: Vec::new() }
}

#[test]
fn every_tag_makes_its_transition() {
    let invoke = |input: Option<&str>| Invoke {
        target: "S".into(),
        return_to: "R".into(),
        input: input.map(Into::into),
    };
    let workflow = InvokeWorkflow {
        scope: "../w/".into(),
        return_to: "R".into(),
        input: Some("i".into()),
        inputs: Vec::new(),
    };
    check("<goto>\n S </goto>", Transition::Goto(jump("S")));
    let full = Jump { target: "S".into(), input: Some(" i ".into()), delay: Some(Duration::from_secs(90)) };
    check("<goto input=' i ' delay=' 90s '>S</goto>", Transition::Goto(full.clone()));
    check(
        "<reset input=' i ' delay='90s' cd='d'>S</reset>",
        Transition::Reset { jump: full, cd: Some("d".into()) },
    );
    check("<call return=' R '>S</call>", Transition::Call(invoke(None)));
    check("<function return='R' input=''>S</function>", Transition::Function(invoke(Some(""))));
    check("<result> a\n</result>", Transition::Result { payload: " a\n".into() });
    check("<result></result>", Transition::Result { payload: "".into() });
    check("<join input='i'>N</join>", Transition::Join { target: "N".into(), input: Some("i".into()) });
    check(
        "<call-workflow return='R' input='i'>../w/</call-workflow>",
        Transition::CallWorkflow(workflow.clone()),
    );
    check(
        "<function-workflow cd='d' return='R' input='i'>../w/</function-workflow>",
        Transition::FunctionWorkflow { invoke: workflow, cd: Some("d".into()) },
    );
    check(
        "<reset-workflow>w.zip</reset-workflow>",
        Transition::ResetWorkflow { scope: "w.zip".into(), input: None, inputs: Vec::new(), cd: None },
    );
}

#[test]
fn the_text_of_a_question_is_not_changed() {
    let ask = |timeout: Option<u64>, timeout_next: Option<&str>| Ask {
        question: " why? ".into(),
        next: "N".into(),
        timeout: timeout.map(Duration::from_secs),
        timeout_next: timeout_next.map(str::to_owned),
        empty_ok: false,
    };
    check("<ask next='N'> why? </ask>", Transition::Ask(ask(None, None)));
    check(
        "<ask next='N' timeout='24h' timeout_next='T'> why? </ask>",
        Transition::Ask(ask(Some(86_400), Some("T"))),
    );
    check(
        "<ask next='N' empty=' ok '> why? </ask>",
        Transition::Ask(Ask { empty_ok: true, ..ask(None, None) }),
    );
    check_error(
        "<ask next='N' empty='yes'>why?</ask>",
        "`<ask next=\"N\" empty=\"yes\">why?</ask>`: `empty` can only be `ok`; write `empty=\"ok\"` or leave it out",
    );
    let odd = read_text("<ask next='N' timeout_next='T'> why? </ask>").unwrap();
    assert_eq!(
        odd.warnings,
        ["`<ask next=\"N\" timeout_next=\"T\"> why? </ask>`: `timeout_next` means nothing without `timeout`"]
    );
}

#[test]
fn forks_can_be_combined() {
    check(
        "<fork next='N'>W</fork>",
        Transition::Fork { forks: vec![fork("W")], next: jump("N"), joins: false },
    );
    check(
        "<fork next='N'>A</fork><fork>B</fork>\n<fork next=' N '>C</fork>",
        Transition::Fork { forks: vec![fork("A"), fork("B"), fork("C")], next: jump("N"), joins: false },
    );
    check(
        "<fork>A</fork><join>N</join><fork next='N'>B</fork>",
        Transition::Fork { forks: vec![fork("A"), fork("B")], next: jump("N"), joins: true },
    );
    check(
        "<fork>A</fork><goto input='i' delay='1s'>N</goto><fork next='N'>B</fork>",
        Transition::Fork {
            forks: vec![fork("A"), fork("B")],
            next: Jump { target: "N".into(), input: Some("i".into()), delay: Some(Duration::from_secs(1)) },
            joins: false,
        },
    );
    let worker = Fork {
        target: ForkTarget::Workflow("w/".into()),
        input: Some("i".into()),
        cd: Some("d".into()),
        variables: vec![("item".into(), " 1 ".into()), ("A_b".into(), "<".into())],
        worktree: None,
    };
    check(
        "<fork-workflow item=' 1 ' next='N' cd='d' input='i' A_b='&lt;'>w/</fork-workflow>",
        Transition::Fork { forks: vec![worker], next: jump("N"), joins: false },
    );
}

#[test]
fn forks_need_one_continuation() {
    check_error(
        "<fork x='1'>W</fork>",
        "`<fork x=\"1\">W</fork>`: fork without continuation; say where this agent itself goes on, with \
         `next=\"STATE\"` on the fork or with one `<goto>STATE</goto>` or `<join>STATE</join>` beside it",
    );
    check_error(
        "<fork next='N'>W</fork><fork next='M'>W</fork>",
        "`<fork next=\"N\">W</fork>` and `<fork next=\"M\">W</fork>` send this agent to different states; forks \
         that stand together need the same continuation",
    );
    assert!(matches!(
        read_text("<fork next='N'>W</fork><goto>M</goto>"),
        Err(ProtocolError::ForkNextsDiffer { .. })
    ));
}

#[test]
fn every_tag_that_is_allowed_beside_forks_can_be_read_there() {
    for tag in TagName::ALL {
        let text = format!("<fork>W</fork><{tag} return='R' next='N'>N</{tag}>");
        let text = match tag.facts().attributes {
            attributes if attributes.iter().any(|(_, need)| *need == Need::Required) => text,
            _ => format!("<fork>W</fork><{tag}>N</{tag}>"),
        };
        match (read_text(&text), tag.may_stand_beside_forks()) {
            (Ok(reading), true) => assert_eq!(reading.transition.tag_name(), TagName::Fork, "{text}"),
            (Err(ProtocolError::Several { total: 2, .. }), false) => {
                assert!(tag.is_transition() && !tag.is_fork(), "{text}")
            }
            (Err(ProtocolError::ForkWithoutNext { .. }), false) => {
                assert!(tag.is_fork() || !tag.is_transition(), "{text}")
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn there_must_be_exactly_one() {
    check_error(
        "nothing",
        "the output holds no transition tag; it needs exactly one, such as `<goto>STATE</goto>` or \
         `<result>text</result>`",
    );
    check_error(
        "<goto input=x>A</goto>",
        "line 1, column 1 of the output: `<goto input=x>` looks like a tag, but attribute values need quotes: \
         `name=\"value\"`; correct it, or write `&lt;` for its `<` if it is only text",
    );
    check_error(
        &"<goto>A</goto>".repeat(50),
        "the output holds several transition tags (50) that do not go together: `<goto>A</goto>`, \
         `<goto>A</goto>`, `<goto>A</goto>` and 47 more; keep exactly one",
    );
    check_error(
        "<fork next='N'>W</fork><result>r</result>",
        "the output holds several transition tags (2) that do not go together: `<fork next=\"N\">W</fork>`, \
         `<result>r</result>`; keep exactly one (only forks may stand together, with at most one `<goto>` or \
         `<join>` beside them)",
    );
    let fork = "<fork next='N'>W</fork>";
    let goto = "<goto>N</goto>";
    for text in [
        format!("{fork}<result>x</result>"),
        format!("{fork}<reset>N</reset>"),
        format!("{fork}{goto}{goto}"),
        format!("{goto}{fork}{fork}<join>N</join>"),
        format!("<result></result>{goto}"),
    ] {
        assert!(matches!(read_text(&text), Err(ProtocolError::Several { .. })), "{text}");
    }
}

#[test]
fn known_attributes_are_refused_on_tags_that_do_not_take_them() {
    for name in TagName::transitions() {
        for attribute in Attribute::ALL {
            let fits = name.takes(*attribute);
            let taken = name.facts().attributes.iter();
            let others = taken.filter(|(other, need)| *need == Need::Required && other != attribute);
            let others: String = others.map(|(other, _)| format!(" {other}='X'")).collect();
            let next = if name.is_fork() { "<goto>1s</goto>" } else { "" };
            let value = if attribute.facts().value == Value::Ok { "ok" } else { "1s" };
            let text = format!("<{name} {attribute}='{value}'{others}>T</{name}>{next}");
            match read_text(&text) {
                Ok(reading) => {
                    let is_a_name = attribute.facts().applies != Applies::Everywhere;
                    assert!(
                        fits || is_a_name && !reading.warnings.is_empty() || name.is_workflow(),
                        "{text}"
                    );
                }
                Err(error) => assert!(
                    !fits && matches!(error, ProtocolError::UnexpectedAttribute { .. }),
                    "{text}: {error}"
                ),
            }
        }
    }
    check_error(
        "<goto cd='x'>A</goto>",
        "`<goto cd=\"x\">A</goto>`: `cd` cannot be given on `goto`; it takes only `input` and `delay`",
    );
    check_error(
        "<result input='x'>A</result>",
        "`<result input=\"x\">A</result>`: `input` cannot be given on `result`; it takes no attributes",
    );
    check_error(
        "<fork next='N' delay='1s'>A</fork>",
        "`<fork next=\"N\" delay=\"1s\">A</fork>`: `delay` cannot be given on `fork`; it takes only `next`, \
         `input`, `cd`, `worktree` and `from`, and variables of the worker",
    );
}

#[test]
fn wrong_attributes_are_explained() {
    check_error(
        "<call>A</call>",
        "`<call>A</call>`: the attribute `return` is missing; write `<call return=\"STATE\">…</call>`",
    );
    check_error(
        "<ask>A</ask>",
        "`<ask>A</ask>`: the attribute `next` is missing; write `<ask next=\"STATE\">…</ask>`",
    );
    check_error(
        "<call return=' '>A</call>",
        "`<call return=\" \">A</call>`: the attribute `return` is empty; give it a value or leave it out",
    );
    check_error(
        "<goto x='1' x='2'>A</goto>",
        "`<goto x=\"1\" x=\"2\">A</goto>`: the attribute `x` is given twice; give it once",
    );
    check_error("<goto> </goto>", "`<goto> </goto>` names no state; write the state's name between the tags");
    check_error(
        "<reset-workflow></reset-workflow>",
        "`<reset-workflow></reset-workflow>` names no workflow; write where it is between the tags",
    );
    for delay in ["", "5", "s", "1.5s", "-1s", "1w", "99999999999999999999d", "1 s"] {
        let error = read_text(&format!("<goto delay='{delay}'>A</goto>")).unwrap_err();
        assert!(matches!(error, ProtocolError::BadDuration { .. }), "{delay}: {error}");
    }
    check_error(
        "<fork next='N' PATH='x'>W</fork>",
        "`<fork next=\"N\" PATH=\"x\">W</fork>`: the variable `PATH` changes how programs run and cannot be set \
         by a fork; use another name",
    );
    check_error(
        "<fork next='N' a.b='x'>W</fork>",
        "`<fork next=\"N\" a.b=\"x\">W</fork>`: `a.b` is no name for a variable; use letters, digits, `_` and `-`, \
         and begin with a letter or `_`",
    );
}

#[test]
fn unknown_attributes_are_warned_of() {
    let reading = read_text("<goto why='x'>A</goto>").unwrap();
    assert_eq!(reading.transition, Transition::Goto(jump("A")));
    assert_eq!(reading.warnings, ["`<goto why=\"x\">A</goto>`: the attribute `why` is unknown and ignored"]);
}

#[test]
fn variables_that_differ_in_case_are_the_same_on_windows() {
    let tag = Tag {
        name: TagName::Fork,
        attributes: [("next", "N"), ("item", "1"), ("ITEM", "2")].map(|(a, b)| (a.into(), b.into())).into(),
        content: "W".into(),
    };
    let collected = Collected::single(tag);
    assert!(read(collected.clone(), SCRIPT).is_ok());
    let on_windows = Rules { case_insensitive: true, ..SCRIPT };
    assert!(matches!(read(collected, on_windows), Err(ProtocolError::SameVariable { .. })));
}

#[test]
fn attributes_that_would_be_one_variable_are_refused() {
    check_error(
        "<fork next='N' issue-id='1' issue_id='2'>W</fork>",
        "`<fork next=\"N\" issue-id=\"1\" issue_id=\"2\">W</fork>`: the attributes `issue-id` and `issue_id` would \
         be one variable of scripts; rename one of them",
    );
    check_error(
        "<fork next='N' visits='1'>W</fork>",
        "`<fork next=\"N\" visits=\"1\">W</fork>`: `visits` is a variable that Raymond sets itself and cannot be \
         set by a fork; use another name",
    );
    // Attributes of other tags are no variables.
    assert!(read_text("<goto a-b='1' a_b='2' state='3'>A</goto>").is_ok());
}

#[test]
fn names_to_look_up_are_listed() {
    let cases: [(&str, TagName, &str, &str, &str); 12] = [
        ("<goto>A</goto>", TagName::Goto, "A", "", ""),
        ("<reset cd='d'>A</reset>", TagName::Reset, "A", "", "d"),
        ("<call return='R'>A</call>", TagName::Call, "A R", "", ""),
        ("<function return='R'>A</function>", TagName::Function, "A R", "", ""),
        ("<result>A</result>", TagName::Result, "", "", ""),
        ("<ask next='A' timeout='1s' timeout_next='B'>q</ask>", TagName::Ask, "A B", "", ""),
        ("<join>A</join>", TagName::Join, "A", "", ""),
        ("<call-workflow return='R'>w</call-workflow>", TagName::CallWorkflow, "R", "w", ""),
        (
            "<function-workflow return='R' cd='d'>w</function-workflow>",
            TagName::FunctionWorkflow,
            "R",
            "w",
            "d",
        ),
        ("<reset-workflow cd='d'>w</reset-workflow>", TagName::ResetWorkflow, "", "w", "d"),
        (
            "<fork cd='d'>A</fork><fork-workflow cd='e'>w</fork-workflow><goto>N</goto>",
            TagName::Fork,
            "A N",
            "w",
            "d e",
        ),
        ("<fork-workflow next='N'>w</fork-workflow>", TagName::ForkWorkflow, "N", "w", ""),
    ];
    for (text, name, states, scopes, directories) in cases {
        let transition = read_text(text).unwrap().transition;
        assert_eq!(transition.tag_name(), name, "{text}");
        assert_eq!(transition.state_names().join(" "), states, "{text}");
        assert_eq!(transition.scopes().join(" "), scopes, "{text}");
        assert_eq!(transition.directories().join(" "), directories, "{text}");
    }
}

#[test]
fn a_fork_may_ask_for_a_worktree() {
    let forked = |worktree: Option<Wanted>, variables: &[(&str, &str)]| {
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Transition::Fork {
            forks: vec![Fork { worktree, variables, ..fork("W") }],
            next: jump("N"),
            joins: false,
        }
    };
    let wanted = |from: Option<&str>| Some(Wanted { name: "a-1".into(), from: from.map(str::to_owned) });
    check("<fork next='N' worktree='a-1'>W</fork>", forked(wanted(None), &[]));
    check("<fork next='N' worktree=' a-1 ' from='v1~2'>W</fork>", forked(wanted(Some("v1~2")), &[]));
    check("<fork next='N' from='me' branch='x'>W</fork>", forked(None, &[("from", "me"), ("branch", "x")]));
    let warning = "`<goto worktree=\"a\">N</goto>`: the attribute `worktree` is unknown and ignored";
    assert_eq!(read_text("<goto worktree='a'>N</goto>").unwrap().warnings, [warning]);
    for (attributes, says) in [
        (
            "worktree='../x'",
            "`worktree`: the name of a worktree consists of letters, digits, `.`, `_` and `-`",
        ),
        ("worktree=''", "`worktree`: the name of a worktree has 1 to 64 characters"),
        ("worktree='a' from='--exec=x'", "does not begin with `-`"),
        (
            "worktree='a' cd='.'",
            "a worker begins in the folder of `cd` or in a worktree; leave out one of the two",
        ),
        ("worktree='a' branch='x'", "`branch` is a variable that Raymond sets itself"),
    ] {
        let error = read_text(&format!("<fork next='N' {attributes}>W</fork>")).unwrap_err().to_string();
        assert!(error.contains(says), "{attributes}: {error}");
    }
}
