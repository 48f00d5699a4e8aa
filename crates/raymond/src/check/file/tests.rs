use super::*;

#[test]
fn mistakes_are_told_with_their_place_and_what_was_meant() {
    let cases = [
        ("test: []", "line 1, column 1: unknown key `test` in a test file; did you mean `tests`?"),
        ("workflow: .", "line 1, column 1: there are no `tests` in it"),
        ("tests: []", "line 1, column 8: there are no tests in it"),
        ("tests:\n- input: x", "line 2, column 3: a test needs a `name`"),
        ("tests:\n- name: a\n- name: a", "line 3, column 3: there are two tests with the name `a`"),
        (
            "tests:\n- name: a\n  repiles: {}",
            "line 3, column 3: unknown key `repiles` in a test; did you mean `replies`?",
        ),
        (
            "tests:\n- name: a\n  replies: { A: [ { fail: fire } ] }",
            "line 3, column 27: an agent cannot fail with `fire`; it can with: crash, overloaded, limit, silent, \
             not_logged_in, no_tag",
        ),
        (
            "tests:\n- name: a\n  replies: { A: [ { when: '(', reply: x } ] }",
            "line 3, column 27: this is no regular expression: found open group without closing ')'",
        ),
        (
            "tests:\n- name: a\n  expect: { status: done }",
            "line 3, column 21: a run does not end as `done`; it can end as: completed, failed, waiting, over_budget, \
             limited, interrupted",
        ),
        ("tests:\n- name: a\n  expect: { path: A }", "line 3, column 19: a path is a list, and this is text"),
        (
            "tests:\n- name: a\n  files: { ../x: y }",
            "line 3, column 18: `../x` is not a path inside the folder of the test",
        ),
        ("tests:\n- name: a\n  kill_after: [ -1 ]", "line 3, column 17: expected a whole number from 0 on"),
        (
            "tests:\n- name: a\n  expect: { turns: { at_mots: 3 } }",
            "line 3, column 22: unknown key `at_mots` in an expected number; did you mean `at_most`?",
        ),
    ];
    for (text, expected) in cases {
        let fault = parse(text).unwrap_err();
        assert_eq!(format!("{}: {}", fault.position, fault.message), expected, "{text}");
    }
}

#[test]
fn a_single_reply_lasts_and_numbers_are_texts_where_texts_are_expected() {
    let (tests, _) = parse(
        "tests:\n- name: 1\n  input: 0x10\n  replies: { A.md: x, B: [ y ] }\n  expect: { result: 007 }",
    )
    .unwrap();
    let test = &tests[0];
    assert_eq!((test.name.as_str(), test.input.as_deref()), ("1", Some("0x10")));
    let shown: Vec<(&str, bool)> =
        test.replies.iter().map(|reply| (reply.state.as_str(), reply.is_lasting)).collect();
    assert_eq!(shown, [("A", true), ("B", false)]);
    assert_eq!(test.expect.result.as_ref().unwrap().equals.as_deref(), Some("007"));
}
