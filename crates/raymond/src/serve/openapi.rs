//! The description of the API, made from the table of routes and the types of the answers.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::api::ROUTES;
use super::problem::Problem;
use super::route::{Form, Kind, Method, Param, Route, schema};

/// Errors that any request with a token may get.
const ANY: [u16; 5] = [400, 401, 403, 429, 500];
/// Errors that any request for a run may get: its files may be damaged, or those of another user.
const ANY_OF_RUN: [u16; 1] = [409];
/// Errors that any request that changes something may get.
const ANY_CHANGE: [u16; 3] = [408, 413, 415];

/// The document, OpenAPI 3.1.
pub fn document() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    let mut generator = SchemaGenerator::new(settings);
    let problem = schema::<Problem>(&mut generator);
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let operation = operation(route, &problem.clone().to_value(), &mut generator);
        let methods = paths.entry(route.path).or_insert_with(|| json!({}));
        methods[method_name(route.method)] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Raymond",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The runs and workflows of a project. Every request but `health` needs the token.",
        },
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": generator.take_definitions(true),
        },
    })
}

fn method_name(method: Method) -> &'static str {
    match method {
        Method::Get => "get",
        Method::Post => "post",
    }
}

fn operation(route: &Route, problem: &Value, generator: &mut SchemaGenerator) -> Value {
    let in_path = parts_of(route.path)
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }));
    let parameters: Vec<Value> = in_path.chain(route.query.iter().map(parameter)).collect();
    let mut operation = json!({
        "summary": route.about,
        "parameters": parameters,
        "responses": responses(route, problem, generator),
    });
    if let Some(body) = route.body {
        let schema = body(generator);
        operation["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    }
    if route.is_open {
        operation["security"] = json!([]);
    }
    operation
}

/// The names between braces.
fn parts_of(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn parameter(param: &Param) -> Value {
    let schema = match param.kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Number => json!({ "type": "integer", "minimum": 0 }),
        Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
    };
    json!({ "name": param.name, "in": "query", "description": param.about, "schema": schema })
}

fn responses(route: &Route, problem: &Value, generator: &mut SchemaGenerator) -> Value {
    let mut content = Map::new();
    for form in route.gives.forms {
        let (kind, schema) = match form {
            Form::Json(schema) => ("application/json", schema(generator).to_value()),
            Form::Events => ("text/event-stream", json!({ "type": "string" })),
            Form::Text(kind) => (*kind, json!({ "type": "string" })),
        };
        content.insert(kind.to_owned(), json!({ "schema": schema }));
    }
    let mut responses = Map::new();
    responses.insert(route.gives.status.to_string(), json!({ "description": "Done", "content": content }));
    let changes: &[u16] = if route.method == Method::Post { &ANY_CHANGE } else { &[] };
    let of_run: &[u16] = if route.path.contains("{run}") { &ANY_OF_RUN } else { &[] };
    for status in route.errors.iter().chain(&ANY).chain(changes).chain(of_run) {
        let refused = json!({
            "description": Problem::new(*status, "").title,
            "content": { "application/problem+json": { "schema": problem } },
        });
        responses.insert(status.to_string(), refused);
    }
    Value::Object(responses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_described_and_every_reference_leads_somewhere() {
        let document = document();
        for route in ROUTES {
            assert!(document["paths"][route.path][method_name(route.method)].is_object(), "{}", route.path);
            assert!(!route.about.is_empty() && !route.gives.forms.is_empty(), "{}", route.path);
        }
        let text = document.to_string();
        for (place, _) in text.match_indices("\"$ref\":\"") {
            let rest = &text[place + 8..];
            let target = &rest[..rest.find('"').unwrap()];
            let pointer = target.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{target}");
        }
    }
}
