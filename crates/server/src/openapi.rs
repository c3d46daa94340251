//! The OpenAPI document, made from the table of routes: what is served is what is described.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::ops;
use crate::route::{Gives, Method, Route, Scope, Takes};

const ABOUT: &str = "Keeps what agents knew. Every operation is a command of `enjamb` as well. Failures are problem \
    documents (RFC 9457) with a stable `code`. Times are UTC; ids may be shortened to any unique beginning of four digits.";

/// The document, indented.
pub fn text() -> String {
    let mut text = serde_json::to_string_pretty(&document()).expect("a document in memory is always JSON");
    text.push('\n');
    text
}

pub fn document() -> Value {
    // Schemas that are used more than once stand in one place.
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut schemas = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for route in ops::routes().iter().filter(|route| !route.seed) {
        let operation = operation(route, &mut schemas);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = operation;
    }
    let mut components: Map<String, Value> = schemas.take_definitions(true).into_iter().collect();
    components.insert("Problem".into(), problem());
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "enjamb", "version": env!("CARGO_PKG_VERSION"), "description": ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    });
    spell_out(&mut document);
    document
}

/// A schema that allows anything may be written `true` or `{}`. Many programs that read such documents know the second
/// alone.
fn spell_out(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                match (name.as_str(), &mut *member) {
                    ("schema" | "items", Value::Bool(true)) => *member = json!({}),
                    ("properties", Value::Object(schemas)) => {
                        schemas.values_mut().filter(|schema| **schema == json!(true)).for_each(|any| *any = json!({}));
                    }
                    _ => {}
                }
                spell_out(member);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(spell_out),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn operation(route: &Route, schemas: &mut SchemaGenerator) -> Value {
    let input = route.input(schemas).to_value();
    let in_path: Vec<&str> = route.path_names().collect();
    let mut parameters = Vec::new();
    let mut members = Map::new();
    let required: Vec<&str> = input["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, schema) in input["properties"].as_object().into_iter().flatten() {
        match (in_path.contains(&name.as_str()), route.takes) {
            (true, _) => parameters.push(parameter(name, "path", true, schema)),
            (false, Takes::Json) => drop(members.insert(name.clone(), schema.clone())),
            (false, _) => parameters.push(parameter(name, "query", required.contains(&name.as_str()), schema)),
        }
    }
    parameters.extend(headers(route));
    let mut operation = json!({
        "operationId": route.operation, "summary": route.summary, "tags": [tag(route)], "parameters": parameters,
        "responses": responses(route, schemas), "x-enjamb-scope": route.scope.as_str(),
    });
    let body_required: Vec<&str> = required.into_iter().filter(|name| !in_path.contains(name)).collect();
    if let Some(body) = body(route, members, &body_required) {
        operation["requestBody"] = body;
    }
    if route.scope == Scope::Open {
        operation["security"] = json!([]);
    }
    operation
}

/// The resource that a path is of.
fn tag(route: &Route) -> &'static str {
    route.path.trim_start_matches("/v1").trim_start_matches('/').split('/').next().unwrap_or_default()
}

fn parameter(name: &str, place: &str, required: bool, schema: &Value) -> Value {
    let mut schema = schema.clone();
    let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
    let mut parameter = json!({"name": name, "in": place, "required": required, "schema": schema});
    if let Some(description) = description {
        parameter["description"] = description;
    }
    parameter
}

fn headers(route: &Route) -> Vec<Value> {
    let header = |name: &str, description: &str| {
        let schema = json!({"type": "string"});
        json!({"name": name, "in": "header", "required": false, "schema": schema, "description": description})
    };
    let mut all = Vec::new();
    match route.operation {
        "tag" | "untag" | "move_ref" | "delete_ref" | "fork" => {
            all.push(header("If-Match", "What the name has to stand for"));
            all.push(header("If-None-Match", "`*`: the name has to be new"));
        }
        "get" | "materialize" => all.push(header("Range", "One range of bytes")),
        _ => {}
    }
    if route.writes() {
        all.push(header("Idempotency-Key", "A retry with the same key gives the first answer again"));
    }
    if matches!(route.operation, "append" | "append_any") {
        all.push(header("If-Match", "The seq that the first frame has to get"));
    }
    if route.gives == Gives::Events {
        all.push(header("Last-Event-ID", "Go on after this event"));
    }
    all
}

fn body(route: &Route, members: Map<String, Value>, required: &[&str]) -> Option<Value> {
    let content = match route.takes {
        Takes::Nothing => return None,
        Takes::Json => {
            let schema = json!({
                "type": "object", "properties": members, "required": required, "additionalProperties": false,
            });
            json!({"application/json": {"schema": schema}})
        }
        Takes::Frames => {
            let frame = json!({
                "type": "object", "required": ["type"], "properties": {"type": {"type": "string"}},
                "description": "A frame; what the envelope lacks is filled in",
            });
            let schema = json!({"anyOf": [{"type": "array", "items": frame, "minItems": 1}, frame]});
            let line = json!({"type": "string", "description": "One frame a line"});
            json!({"application/json": {"schema": schema}, "application/x-ndjson": {"schema": line}})
        }
        Takes::Bytes => json!({"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}),
    };
    // An object without members may be left out.
    let required = route.takes != Takes::Json || !required.is_empty();
    Some(json!({"required": required, "content": content}))
}

fn responses(route: &Route, schemas: &mut SchemaGenerator) -> Value {
    let content = match route.gives {
        Gives::Json => {
            let schema = route.output(schemas).map_or_else(|| json!({}), |schema| schema.to_value());
            json!({"application/json": {"schema": schema}})
        }
        Gives::Bytes => bytes(route.operation),
        Gives::Events => json!({"text/event-stream": {"schema": {"type": "string"}}}),
        Gives::Page => json!({"text/html": {"schema": {"type": "string"}}}),
        Gives::Text => json!({"text/plain": {"schema": {"type": "string"}}}),
    };
    let mut responses = Map::new();
    let mut answers = vec![route.status];
    if route.method != Method::Get {
        answers.extend([200, 201]);
    }
    answers.sort_unstable();
    answers.dedup();
    for status in answers {
        responses.insert(status.to_string(), json!({"description": route.summary, "content": content.clone()}));
    }
    if matches!(route.operation, "get" | "materialize") {
        responses.insert("206".into(), json!({"description": "The range asked for", "content": content}));
        responses.insert("304".into(), json!({"description": "Known already"}));
    }
    let problem = json!({"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}});
    responses.insert("default".into(), json!({"description": "What went wrong", "content": problem}));
    Value::Object(responses)
}

/// Bytes as they are stored, or of a type that is known.
fn bytes(operation: &str) -> Value {
    let text = json!({"schema": {"type": "string"}});
    match operation {
        "packed" => json!({"application/json": {"schema": {}}, "text/markdown": text, "application/yaml": text}),
        "render" => json!({"application/json": {"schema": {}}}),
        _ => json!({"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}),
    }
}

fn problem() -> Value {
    json!({
        "type": "object",
        "required": ["type", "code", "title", "status"],
        "properties": {
            "type": {"type": "string", "format": "uri"},
            "code": {"type": "string", "description": "A stable word, the same on every surface"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "exit": {"type": "integer", "description": "The exit code of the command that fails so"},
            "retryable": {"type": "boolean"},
            "outcome": {"type": "string", "enum": ["none", "indeterminate"]},
            "instance": {"type": "string"},
            "help": {"type": "string"},
            "candidates": {"type": "array", "items": {"type": "string"}},
            "pointer": {"type": "string"},
            "request_id": {"type": "string"},
        },
    })
}
