//! Rendered items against the published Open Responses schema, where it is at hand.

use std::path::Path;

use enjamb_core::compile::{
    BUNDLE_SCHEMA, Bundle, COMPILER_ID, Compiler, Item, Provenance, RenderTarget, Shown, Source, render,
};
use enjamb_core::conversation::Role;
use serde_json::Value;

const ROLES: [(Role, &str); 4] = [
    (Role::User, "UserMessageItemParam"),
    (Role::System, "SystemMessageItemParam"),
    (Role::Developer, "DeveloperMessageItemParam"),
    (Role::Assistant, "AssistantMessageItemParam"),
];

fn bundle() -> Bundle {
    let message = |role: Role| Item::Message {
        role,
        content: "words".into(),
        actor_id: None,
        origin: None,
        thread_seq: None,
        thread_event_id: None,
    };
    Bundle {
        schema: BUNDLE_SCHEMA.into(),
        compiler: Compiler { id: COMPILER_ID.into(), strategy: "recent_messages_v1".into() },
        source: Source { thread_id: "t".into(), from_seq: 0, from_message_id: None },
        provenance: Provenance { run_session_id: "r".into(), actor_id: "a".into(), origin: "o".into() },
        items: ROLES.iter().map(|(role, _)| message(*role)).collect(),
    }
}

/// Whether one of the forms that a schema allows is a plain string.
fn takes_text(schema: &Value) -> bool {
    schema["type"] == "string" || schema["oneOf"].as_array().is_some_and(|forms| forms.iter().any(takes_text))
}

#[test]
fn rendered_items_are_what_the_schema_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/facts/reference/openresponses-openapi.json");
    let Ok(text) = std::fs::read_to_string(path) else { return };
    let schemas = &serde_json::from_str::<Value>(&text).unwrap()["components"]["schemas"];
    let rendered = render(&bundle(), &vec![Shown::Nothing; ROLES.len()], RenderTarget::OpenResponses);
    let rendered: Vec<Value> = serde_json::from_slice(&rendered).unwrap();
    for (item, (role, name)) in rendered.iter().zip(ROLES) {
        let schema = &schemas[name];
        let members = item.as_object().unwrap();
        for (key, value) in members {
            let member = &schema["properties"][key];
            assert!(member.is_object(), "{name} has no {key}");
            let fits = member["enum"].as_array().is_none_or(|words| words.contains(value)) && takes_text(member);
            assert!(fits, "{key} of {name} may not be {value}");
        }
        for key in schema["required"].as_array().unwrap() {
            assert!(members.contains_key(key.as_str().unwrap()), "{name} needs {key}");
        }
        assert_eq!(item["role"], role.as_str());
    }
    assert_eq!(rendered.len(), ROLES.len());
}
