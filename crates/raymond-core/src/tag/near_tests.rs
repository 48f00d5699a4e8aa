//! What looks like a tag: what is a mistake, and what stays text.

use proptest::prelude::*;

use super::*;

fn collect(text: &str) -> Collected {
    let mut collector = TagCollector::new();
    collector.feed(text.as_bytes(), &mut |_| {}).unwrap();
    collector.finish(&mut |_| {}).unwrap()
}

/// The place and the beginning of the mistake in a text; a tag in another case counts if its content is `N`, `W` or
/// `X`, the states of these tests.
fn mistake(text: &str) -> Option<String> {
    let near = collect(text).near;
    let is_state = |near: &&NearMiss| matches!(&near.meant, Meant::TagIfState(name) if ["N", "W", "X"].contains(&name.as_str()));
    let mut found: Vec<&NearMiss> =
        near.mistake.iter().chain(near.if_state.iter().filter(is_state)).collect();
    found.sort_by_key(|near| near.range.start);
    found.first().map(|near| format!("{}:{} {}", near.line, near.column, near.text))
}

#[test]
fn mistakes_are_not_ignored() {
    let cases = [
        // Attributes that cannot be read, closed before the next opening tag of the name.
        (r#"<goto x=1>N</goto>"#, "1:1 <goto x=1>"),
        (r#"<goto x="a"b">N</goto>"#, r#"1:1 <goto x="a"b">"#),
        (r#"<goto x="a>N</goto>"#, r#"1:1 <goto x="a>N</goto>"#),
        ("<result status=ok>x</result>", "1:1 <result status=ok>"),
        ("<print x=1>a</print>", "1:1 <print x=1>"),
        ("<function name=\"f\"/> and so on </function>", "1:1 <function name=\"f\"/>"),
        ("<goto x = 1>N</goto>", "1:1 <goto x = 1>"),
        ("<goto now x=1>N</goto>", "1:1 <goto now x=1>"),
        ("<goto ! x='1'>N</goto>", "1:1 <goto ! x='1'>"),
        // Attributes without a value, closed.
        ("<goto input>N</goto>", "1:1 <goto input>"),
        ("a\n<print input >N</print>", "2:1 <print input >"),
        ("<goto now>N</goto> <goto>X</goto>", "1:1 <goto now>"),
        ("<goto/>N</goto>", "1:1 <goto/>"),
        // The same, with an attribute that the tag takes, closed or not.
        ("<goto input=x>N", "1:1 <goto input=x>"),
        ("<goto x='1' input=y>N", "1:1 <goto x='1' input=y>"),
        ("<goto x=1 input='y'>N", "1:1 <goto x=1 input='y'>"),
        ("<function name=f return='N'/>", "1:1 <function name=f return='N'/>"),
        ("<call return=\"N\"/>", "1:1 <call return=\"N\"/>"),
        ("<ask next=N>why?", "1:1 <ask next=N>"),
        // Forks take any attribute.
        (r#"<fork file="a">W</fork><fork file="b"c">W</fork><goto>N</goto>"#, r#"1:24 <fork file="b"c">"#),
        ("<fork cd=/x>W</fork><goto>N</goto>", "1:1 <fork cd=/x>"),
        (
            r#"<fork part="fix the "south" gate">W</fork><goto>N</goto>"#,
            r#"1:1 <fork part="fix the "south" gate">"#,
        ),
        ("<fork item=1", "1:1 <fork item=1"),
        ("<fork item='1", "1:1 <fork item='1"),
        ("<fork item='1'/><goto>N</goto>", "1:1 <fork item='1'/>"),
        ("<fork-workflow item=1>w", "1:1 <fork-workflow item=1>"),
        ("<fork\nitem=1\n>W</fork>", "1:1 <fork item=1"),
        // Good attributes, never closed or not before the next opening tag of the name.
        ("<fork item='1'>W", "1:1 <fork item='1'>W"),
        ("<fork item='1'>W<goto>N</goto>", "1:1 <fork item='1'>W"),
        ("<fork item='1'>W\n<fork item='2'>W</fork><goto>N</goto>", "1:1 <fork item='1'>W"),
        ("<fork item='1'>W\n<fork>W</fork><goto>N</goto>", "1:1 <fork item='1'>W"),
        ("<goto input='x'>N<goto>N</goto>", "1:1 <goto input='x'>N"),
        ("<result a='b'>x", "1:1 <result a='b'>x"),
        ("<ask next='N'>one <ask next='N'>two</ask>", "1:1 <ask next='N'>one"),
        ("<function name='f'>", "1:1 <function name='f'>"),
        ("<goto input='x'>N</goto ", "1:1 <goto input='x'>N"),
        // A tag that holds a name, in another case, closed, that names a state.
        ("<Goto>N</Goto>", "1:1 <Goto>"),
        ("<GOTO> N\n</GOTO> <goto>X</goto>", "1:1 <GOTO>"),
        ("<Fork item=\"a\">W</Fork><goto>N</goto>", "1:1 <Fork item=\"a\">"),
        ("<Fork item=a>W</Fork><goto>N</goto>", "1:1 <Fork item=a>"),
        ("<Goto>N</goto>", "1:1 <Goto>"),
        ("<goto>N</Goto>", "1:1 <goto>"),
        ("<goto>N</Goto> <goto>X</goto>", "1:1 <goto>"),
        // A closing tag without its opening tag.
        ("N</goto>", "1:2 </goto>"),
        ("</print>", "1:1 </print>"),
        ("<goto>N</goto></goto>", "1:15 </goto>"),
        ("<goto>N</goto ></goto\t>", "1:16 </goto >"),
        ("<goto>a <goto>N</goto></goto>", "1:23 </goto>"),
        ("<result>a</result> b</result>", "1:21 </result>"),
        ("<Goto>other</goto>", "1:12 </goto>"),
        // The place counts lines, and characters in the line.
        ("ä\r\nöü</goto>", "2:3 </goto>"),
        ("\n\n <fork a=b>W</fork>", "3:2 <fork a=b>"),
    ];
    for (text, expected) in cases {
        assert_eq!(mistake(text).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn what_nobody_meant_as_a_tag_stays_text() {
    let cases: &[(&str, &[&str])] = &[
        // Unknown names, and names that end elsewhere.
        ("<results>N</results><gotoo>N</gotoo><goto2>N</goto2><forks a=1>", &[]),
        ("<testsuite name=\"a\"><testcase name=\"b\"/></testsuite>", &[]),
        // A bare opening tag of a name before another one, or never closed.
        ("I emit `<goto>`: <goto>X</goto>", &["goto|X"]),
        ("`<fork>` or `<fork>`, then <fork next=\"N\">W</fork>", &["fork|W"]),
        ("<goto > <goto>X</goto>", &["goto|X"]),
        ("<goto>", &[]),
        ("<result> <goto>X</goto>", &["goto|X"]),
        ("<ask> and <print> exist", &[]),
        // No `name=`.
        ("<goto now>", &[]),
        ("<goto …> <fork ...> <call return> <function(x)>", &[]),
        ("<goto/> <result /> <fork 1='2'>", &[]),
        ("<goto ?x=1>", &[]),
        // Attributes that cannot be read, that the tag does not take, and no closing tag before the next opening tag.
        ("<function name=\"f\"/>", &[]),
        ("<function name=\"f\"/><function name=\"g\"/>", &[]),
        ("<function name=f>", &[]),
        ("<result status=ok> <result>x</result>", &["result|x"]),
        ("<goto x=1> <goto>N</goto>", &["goto|N"]),
        // Another case, not closed, of a text, or not a state.
        ("Vec<Goto> Option<Result<Fork, Call>> Map<Goto, Join>", &[]),
        ("<Result status=\"ok\"/>", &[]),
        ("<Result>N</Result> <PRINT>N</PRINT> <Ask next=\"N\">N</Ask>", &[]),
        ("<Goto>other</Goto>", &[]),
        ("<Goto>N <b>N</b></Goto>", &[]),
        ("<Goto></Goto>", &[]),
        ("<goto>other</Goto>", &[]),
        // What stands in the content of a tag is content.
        (
            "<result><fork a=b>W</fork> </goto> <Goto>N</Goto> <call return='N'></result>",
            &["result|<fork a=b>W</fork> </goto> <Goto>N</Goto> <call return='N'>"],
        ),
        ("<print></goto></print>", &["print|</goto>"]),
        // Other closing tags.
        ("</Goto></gotos></ goto></b>", &[]),
    ];
    for (text, tags) in cases {
        assert_eq!(mistake(text), None, "{text}");
        let found = locate(text).tags;
        let found: Vec<String> =
            found.iter().map(|found| format!("{}|{}", found.tag.name, found.tag.content)).collect();
        assert_eq!(found, *tags, "{text}");
    }
}

#[test]
fn a_mistake_says_what_is_wrong_and_how_to_write_it() {
    let cases = [
        (
            "ok\n<fork file=\"b\"c\">W</fork>",
            "line 2, column 1 of the output: `<fork file=\"b\"c\">` looks like a tag, but attributes need a space \
             between them (a quote inside a value is written `&quot;` or `&apos;`); correct it, or write `&lt;` for its \
             `<` if it is only text",
        ),
        (
            "</goto>",
            "line 1, column 1 of the output: `</goto>` looks like a tag, but its opening tag `<goto>` is missing; \
             correct it, or write `&lt;` for its `<` if it is only text",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(collect(text).near.mistake.unwrap().mistake(), message);
    }
}

#[test]
fn tags_in_another_case_are_kept_within_a_limit() {
    let many: String = (0..1000).map(|number| format!("<Goto>S{}</Goto>", number / 2)).collect();
    assert_eq!(collect(&many).near.if_state.len(), 100);
    let long = format!("<Goto>{}N</Goto>", " ".repeat(2000));
    assert_eq!(collect(&long).near.if_state, []);
}

#[test]
fn an_opening_tag_that_cannot_be_read_is_not_kept_for_long() {
    let mut reader = TagReader::new();
    reader.feed(b"<function name=f ", &mut |_| {}).unwrap();
    for _ in 0..1024 {
        reader.feed(&[b'x'; 1024], &mut |_| {}).unwrap();
        assert!(reader.scanner.held.len() <= 128 * 1024);
    }
    reader.feed(b"</function>", &mut |_| {}).unwrap();
    assert!(reader.finish(&mut |_| {}).unwrap().mistake.is_some());
}

/// Pieces that often make something that looks like a tag.
fn near_text() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "<goto",
        "<fork",
        "<Goto",
        "<Fork",
        "<function",
        "<print",
        "</goto>",
        "</fork>",
        "</Goto>",
        "</function>",
        "</print>",
        "</goto",
        "</Goto >",
        ">",
        "/>",
        " ",
        "\n",
        "=",
        "\"",
        "'",
        " item=",
        " input=",
        " name=",
        "\"a\"",
        "'b'",
        "N",
        "ü",
        "x",
        "<goto>",
        "<fork item=\"1\">",
        "<result>",
        "</result>",
        "<",
    ]);
    prop::collection::vec(pieces, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn mistakes_do_not_depend_on_how_text_is_cut(text in near_text(), size in 1_usize..12) {
        let mut collector = TagCollector::new();
        for piece in text.as_bytes().chunks(size) {
            collector.feed(piece, &mut |_| {}).unwrap();
        }
        prop_assert_eq!(collector.finish(&mut |_| {}).unwrap(), collect(&text));
    }

    #[test]
    fn mistakes_in_a_result_are_content(text in near_text()) {
        let text = text.replace("</result", "");
        let quoted = collect(&format!("<result>{text}</result>"));
        prop_assert_eq!(&quoted.near, &NearMisses::default());
        prop_assert_eq!(&quoted.tags[0].content, &text);
    }

    #[test]
    fn escaped_text_is_text(text in near_text()) {
        prop_assert_eq!(collect(&escape_attribute(&text)), Collected::default());
    }

    #[test]
    fn places_are_those_of_the_text(text in near_text()) {
        for missed in locate(&text).missed {
            let before = &text[..missed.range.start];
            prop_assert_eq!(missed.line, 1 + before.matches('\n').count() as u64);
            let line = before.rsplit('\n').next().unwrap_or_default();
            prop_assert_eq!(missed.column, 1 + line.chars().count() as u64);
            prop_assert!(text[missed.range.start..].starts_with('<'));
        }
    }
}
