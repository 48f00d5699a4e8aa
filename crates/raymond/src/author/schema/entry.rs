//! The form of a policy's entry, from the table of tags.

use std::borrow::Cow;

use raymond_core::policy;
use raymond_core::tag::{TagName, schema_of};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

/// A permitted transition.
pub struct Entry;

impl JsonSchema for Entry {
    fn schema_name() -> Cow<'static, str> {
        "Entry".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut properties = Map::new();
        let mut dependent = Map::new();
        properties.insert("tag".to_owned(), schema_of(TagName::transitions()).to_value());
        let mut add = |key: &str, about: &str, is_taken: &dyn Fn(TagName) -> bool| {
            properties.insert(key.to_owned(), json!({ "type": "string", "description": about }));
            let tags: Vec<&str> =
                TagName::transitions().filter(|tag| is_taken(*tag)).map(TagName::as_str).collect();
            dependent.insert(key.to_owned(), json!({ "properties": { "tag": { "enum": tags } } }));
        };
        add("target", "A state, or for the `-workflow` tags another workflow.", &TagName::has_target);
        for attribute in policy::constrained() {
            add(attribute.as_str(), attribute.facts().about, &|tag| tag.takes(attribute));
        }
        json_schema!({
            "description": "A permitted transition; what it leaves out is free.",
            "type": "object",
            "properties": Value::Object(properties),
            "required": ["tag"],
            "additionalProperties": false,
            // An entry that names what its tag does not have is refused.
            "dependentSchemas": Value::Object(dependent),
        })
    }
}
