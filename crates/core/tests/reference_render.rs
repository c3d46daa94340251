//! Rendered contexts against schemas: ours always, and the published one of Open Responses where it is at hand.

mod schema;

use std::path::Path;

use enjamb_core::compile::{
    BUNDLE_SCHEMA, Bundle, COMPILER_ID, Compiler, Item, Provenance, RenderTarget, Shown, Source, Summary,
    SummaryProvenance, render,
};
use enjamb_core::conversation::Role;
use enjamb_core::thread::HandoffBundle;
use schema::Schema;
use serde_json::{Value, json};

/// An item of every type, and messages in every role, with what they refer to.
fn items() -> Vec<(Item, Shown)> {
    let message = |role: Role, content: &str| Item::Message {
        role,
        content: content.into(),
        actor_id: None,
        origin: None,
        thread_seq: None,
        thread_event_id: None,
    };
    let id = || "f".repeat(64);
    let by = SummaryProvenance { actor_id: "a".into(), origin: "o".into(), produced_by: None };
    let summary = Summary::cumulative("t", (3, "m".into()), by, None, "# so\n\nfar".into());
    let mut items = vec![
        (Item::SummaryRef { artifact_id: id(), note: Some("up to 3".into()) }, Shown::Summary(summary)),
        (Item::HandoffBundleRef { artifact_id: id() }, Shown::Handoff(HandoffBundle::of_words("so far", "t", 7, None))),
        (Item::ArtifactRef { artifact_id: id(), note: None, mime: Some("text/plain".into()) }, Shown::Bytes(9)),
        (
            Item::FileRef { path: "a.rs".into(), checkpoint_id: None, digest: Some(id()), note: None },
            Shown::Text("fn main() {}".into()),
        ),
        (
            Item::ToolSideEffectRef {
                run_session_id: "r".into(),
                tool_id: "t1".into(),
                affected_paths: None,
                checkpoint_id: None,
            },
            Shown::Nothing,
        ),
    ];
    let roles = [Role::Assistant, Role::System, Role::Developer, Role::User, Role::User];
    items.extend(roles.map(|role| (message(role, "words \u{2028} \"é\""), Shown::Nothing)));
    items.push((message(Role::User, ""), Shown::Nothing));
    items
}

fn rendered(target: RenderTarget) -> Value {
    let (items, shown): (Vec<Item>, Vec<Shown>) = items().into_iter().unzip();
    let bundle = Bundle {
        schema: BUNDLE_SCHEMA.into(),
        compiler: Compiler { id: COMPILER_ID.into(), strategy: "recent_messages_v1".into() },
        source: Source { thread_id: "t".into(), from_seq: 0, from_message_id: None },
        provenance: Provenance { run_session_id: "r".into(), actor_id: "a".into(), origin: "o".into() },
        items,
    };
    serde_json::from_slice(&render(&bundle, &shown, target)).unwrap()
}

fn own_schema(target: RenderTarget) -> Value {
    let text = match target {
        RenderTarget::OpenResponses => include_str!("schemas/open-responses.json"),
        RenderTarget::Anthropic => include_str!("schemas/anthropic.json"),
        RenderTarget::OpenAiChat => include_str!("schemas/openai-chat.json"),
    };
    serde_json::from_str(text).unwrap()
}

fn fault(schema: &Value, value: &Value) -> Option<String> {
    Schema { document: schema }.fault(schema, value)
}

#[test]
fn every_item_is_rendered_as_the_providers_take_it() {
    for target in RenderTarget::ALL {
        assert_eq!(fault(&own_schema(target), &rendered(target)), None, "{target:?}");
    }
    assert_eq!(rendered(RenderTarget::OpenResponses).as_array().unwrap().len(), items().len());
}

#[test]
fn what_providers_would_not_take_is_noticed() {
    let responses = own_schema(RenderTarget::OpenResponses);
    for wrong in [
        json!({}),
        json!([{"type": "message", "role": "user"}]),
        json!([{"type": "message", "role": "dreamer", "content": "x"}]),
        json!([{"type": "message", "role": "user", "content": ["x"]}]),
        json!([{"type": "message", "role": "user", "content": "x", "actor_id": "a"}]),
    ] {
        assert!(fault(&responses, &wrong).is_some(), "{wrong}");
    }
    let turn = |text: &str| json!({"role": "user", "content": [{"type": "text", "text": text}]});
    let anthropic = own_schema(RenderTarget::Anthropic);
    assert_eq!(fault(&anthropic, &json!({"system": [], "messages": [turn("x")]})), None);
    assert!(fault(&anthropic, &json!({"system": [], "messages": [turn("")]})).is_some());
}

#[test]
fn rendered_requests_are_what_the_published_schema_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/facts/reference/openresponses-openapi.json");
    let Ok(text) = std::fs::read_to_string(path) else { return };
    let document: Value = serde_json::from_str(&text).unwrap();
    let schema = Schema { document: &document };
    let request = &document["components"]["schemas"]["CreateResponseBody"];
    let with = |input: Value| schema.fault(request, &json!({"model": "m", "input": input}));
    assert_eq!(with(rendered(RenderTarget::OpenResponses)), None);
    for wrong in [
        json!([{"type": "message", "role": "dreamer", "content": "x"}]),
        json!([{"type": "message", "role": "user"}]),
        json!([{"type": "message", "role": "user", "content": 1}]),
    ] {
        assert!(with(wrong.clone()).is_some(), "{wrong}");
    }
}
