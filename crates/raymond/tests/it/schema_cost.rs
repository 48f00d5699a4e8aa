//! A `result_schema` that would take longer than anyone can wait is given up, before a run and when a result comes.

use serde_json::{Value, json};
use test_kit::rig::Rig;

use crate::RAYMOND;

/// Each definition needs the next one twice.
fn doubling() -> Value {
    let mut definitions = json!({ "d64": { "type": "string" } });
    for level in 0..64 {
        let next = json!({ "$ref": format!("#/$defs/d{}", level + 1) });
        definitions[format!("d{level}")] = json!({ "anyOf": [next, next] });
    }
    json!({ "$ref": "#/$defs/d0", "$defs": definitions })
}

/// Alternatives inside alternatives, for as deep as the result is.
fn branching() -> Value {
    json!({ "anyOf": [
        { "type": "array", "items": { "$ref": "#" } }, { "type": "array", "items": { "$ref": "#" }, "minItems": 9 },
        { "type": "array", "contains": { "$ref": "#" } },
    ] })
}

/// Something is looked for in each of many values.
fn wide() -> Value {
    let many: Vec<u32> = (1..20_000).collect();
    json!({ "type": "array", "items": { "not": { "enum": many } }, "uniqueItems": true })
}

/// A workflow whose agent gives this result and nothing else.
fn rig(schema: &Value, result: &str) -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", "---\nresult_schema: shape.json\n---\nSay it.");
    rig.state("shape.json", schema.to_string()).state("workflow.yaml", "backend: scripted\n");
    rig.state("replies.yaml", format!("START:\n  - <result>{result}</result>\n  - no more\n"));
    rig
}

#[test]
fn a_schema_that_takes_for_ever_is_given_up_and_the_run_says_so() {
    let deep = format!("{}7{}", "[".repeat(60), "]".repeat(60));
    for (schema, result) in [(doubling(), "7"), (branching(), deep.as_str())] {
        let rig = rig(&schema, result);
        let done = rig.run();
        assert_eq!(done.exit, 1, "{done:?}");
        done.says("too costly");
        assert_eq!(rig.raymond(&["lint", "workflow"]).exit, 0, "to read it costs little");
    }
}

#[test]
fn a_large_result_of_an_ordinary_schema_is_checked() {
    let numbers =
        format!("[{}]", (20_000..60_000).map(|number| number.to_string()).collect::<Vec<_>>().join(","));
    let done = rig(&wide(), &numbers).run();
    assert_eq!(done.exit, 0, "{}", done.stderr);
    let schema = json!({ "type": "object", "patternProperties": { "^(a+)+$": { "pattern": "^(b+)+$" } } });
    rig(&schema, "{\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\":1}").run().says("completed");
    let refused = rig(&schema, "{\"aaa\":\"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb!\"}").run();
    assert_eq!(refused.exit, 1, "{refused:?}");
    refused.says("at `/aaa`");
}

#[test]
fn a_pattern_that_goes_back_and_forth_is_given_up() {
    let schema = json!({ "type": "string", "pattern": "^(?=(a+)+$)(a|aa)+\\1b$" });
    let refused = rig(&schema, &format!("\"{}\"", "a".repeat(2000))).run();
    assert_eq!(refused.exit, 1, "{refused:?}");
}
