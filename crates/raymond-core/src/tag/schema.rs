//! The schema of a tag's name, with what each tag does.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::TagName;

impl JsonSchema for TagName {
    fn schema_name() -> Cow<'static, str> {
        "TagName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schema_of(TagName::ALL.iter().copied())
    }
}

/// The schema of a text that names one of these tags.
pub fn schema_of(tags: impl IntoIterator<Item = TagName>) -> Schema {
    let described = |tag: TagName| json!({ "const": tag.as_str(), "description": tag.facts().about });
    let choices: Vec<Value> = tags.into_iter().map(described).collect();
    json_schema!({ "type": "string", "oneOf": choices })
}
