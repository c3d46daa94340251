//! The context bundle: what a run starts from, in one immutable artifact.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::conversation::Role;

pub const BUNDLE_SCHEMA: &str = "rip.context_bundle.v1";

/// A compiled context. Equal bundles have equal bytes: compact JSON, members in the order of the fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    pub schema: String,
    pub compiler: Compiler,
    pub source: Source,
    pub provenance: Provenance,
    pub items: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compiler {
    pub id: String,
    pub strategy: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The thread, or the commit at the end of a chain.
    pub thread_id: String,
    /// The last frame that counts, or the commit's distance from the first of its chain.
    pub from_seq: u64,
    #[serde(default)]
    pub from_message_id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    pub run_session_id: String,
    pub actor_id: String,
    pub origin: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Item {
    Message {
        #[serde(with = "role_name")]
        role: Role,
        content: String,
        #[serde(default)]
        actor_id: Option<String>,
        #[serde(default)]
        origin: Option<String>,
        #[serde(default)]
        thread_seq: Option<u64>,
        #[serde(default)]
        thread_event_id: Option<String>,
    },
    /// A compaction summary, which stands for what came before.
    SummaryRef {
        artifact_id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// What another thread handed over.
    HandoffBundleRef { artifact_id: String },
    /// Bytes: a tool's output, results of a search.
    ArtifactRef {
        artifact_id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime: Option<String>,
    },
    /// A file of the workspace as it was.
    FileRef {
        path: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checkpoint_id: Option<String>,
        /// Of the file's bytes, in lower-case hex.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// What a run's tool did to the workspace.
    ToolSideEffectRef {
        run_session_id: String,
        tool_id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        affected_paths: Option<Vec<String>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checkpoint_id: Option<String>,
    },
}

/// Why bytes are no bundle that this version can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BundleError {
    Malformed(String),
    /// A newer writer's item: to leave it out would change what the run is told.
    UnknownItem {
        index: usize,
        type_name: String,
    },
}

const ITEM_TYPES: [&str; 6] =
    ["message", "summary_ref", "handoff_bundle_ref", "artifact_ref", "file_ref", "tool_side_effect_ref"];

impl Bundle {
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers are always written")
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, BundleError> {
        let malformed = |error: serde_json::Error| BundleError::Malformed(error.to_string());
        let value: Value = serde_json::from_slice(bytes).map_err(malformed)?;
        match value["schema"].as_str() {
            Some(BUNDLE_SCHEMA) => {}
            found => {
                let found = found.map_or("missing".to_owned(), |found| format!("{found:?}"));
                return Err(BundleError::Malformed(format!("its schema is {found}: expected {BUNDLE_SCHEMA}")));
            }
        }
        let items = value["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let named = items.iter().map(|item| item["type"].as_str().unwrap_or_default());
        if let Some((index, name)) = named.enumerate().find(|(_, name)| !ITEM_TYPES.contains(name)) {
            return Err(BundleError::UnknownItem { index, type_name: name.to_owned() });
        }
        serde_json::from_value(value).map_err(malformed)
    }
}

impl Item {
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Message { .. } => ITEM_TYPES[0],
            Self::SummaryRef { .. } => ITEM_TYPES[1],
            Self::HandoffBundleRef { .. } => ITEM_TYPES[2],
            Self::ArtifactRef { .. } => ITEM_TYPES[3],
            Self::FileRef { .. } => ITEM_TYPES[4],
            Self::ToolSideEffectRef { .. } => ITEM_TYPES[5],
        }
    }
}

mod role_name {
    //! Roles by their names; a tool speaks through items of its own.

    use serde::{Deserialize, Deserializer, Serializer, de};

    use crate::conversation::Role;

    pub fn serialize<S: Serializer>(role: &Role, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(role.as_str())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Role, D::Error> {
        let name = String::deserialize(deserializer)?;
        let role = Role::from_name(&name).filter(|role| *role != Role::Tool);
        role.ok_or_else(|| de::Error::custom(format!("{name:?} is no role of a message")))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sha2::{Digest, Sha256};

    use super::*;

    fn example() -> Bundle {
        Bundle {
            schema: BUNDLE_SCHEMA.into(),
            compiler: Compiler { id: crate::compile::COMPILER_ID.into(), strategy: "recent_messages_v1".into() },
            source: Source {
                thread_id: "11111111-1111-1111-1111-111111111111".into(),
                from_seq: 42,
                from_message_id: Some("22222222-2222-2222-2222-222222222222".into()),
            },
            provenance: Provenance {
                run_session_id: "33333333-3333-3333-3333-333333333333".into(),
                actor_id: "user".into(),
                origin: "cli".into(),
            },
            items: vec![Item::Message {
                role: Role::User,
                content: "Ship it.".into(),
                actor_id: Some("user".into()),
                origin: Some("cli".into()),
                thread_seq: Some(41),
                thread_event_id: Some("22222222-2222-2222-2222-222222222222".into()),
            }],
        }
    }

    #[test]
    fn the_example_of_the_contract_byte_for_byte() {
        let bytes = example().to_bytes();
        assert_eq!(bytes.len(), 517);
        let sha = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(sha, "6b2ad5056d33a19dd387c96a0480c99bb2eeac2cd88cfe267fa9daa48dba953c");
        assert_eq!(Bundle::parse(&bytes), Ok(example()));
    }

    #[test]
    fn every_item_is_read_back_and_leaves_out_what_it_has_not() {
        let texts = [
            r#"{"type":"message","role":"assistant","content":"x","actor_id":null,"origin":null,"thread_seq":null,"thread_event_id":null}"#,
            r#"{"type":"summary_ref","artifact_id":"a"}"#,
            r#"{"type":"summary_ref","artifact_id":"a","note":"compaction checkpoint to_seq=3"}"#,
            r#"{"type":"handoff_bundle_ref","artifact_id":"a"}"#,
            r#"{"type":"artifact_ref","artifact_id":"a","note":"n","mime":"text/plain"}"#,
            r#"{"type":"file_ref","path":"a.rs","digest":"d"}"#,
            r#"{"type":"tool_side_effect_ref","run_session_id":"r","tool_id":"t","affected_paths":["a.rs"]}"#,
        ];
        for text in texts {
            let item: Item = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&item).unwrap(), text);
            assert!(text.contains(item.type_name()));
        }
    }

    proptest! {
        #[test]
        fn nothing_like_a_bundle_makes_the_reader_panic(at in any::<prop::sample::Index>(), text in "[\\[\\]{}\",:a-z0-9]{0,9}") {
            let whole = String::from_utf8(example().to_bytes()).unwrap();
            let cut = at.index(whole.len());
            let _ = Bundle::parse(format!("{}{text}{}", &whole[..cut], &whole[cut..]).as_bytes());
            let _ = Bundle::parse(text.as_bytes());
        }
    }

    #[test]
    fn what_is_no_bundle_says_why() {
        let text = String::from_utf8(example().to_bytes()).unwrap();
        let parse = |text: &str| Bundle::parse(text.as_bytes()).unwrap_err();
        let unknown = BundleError::UnknownItem { index: 0, type_name: "dream_ref".into() };
        assert_eq!(parse(&text.replace("\"message\"", "\"dream_ref\"")), unknown);
        for (from, to, says) in [
            ("context_bundle", "other", "expected rip.context_bundle.v1"),
            ("\"user\",\"content\"", "\"tool\",\"content\"", "no role"),
            ("\"items\":", "\"things\":", "items"),
            ("{\"schema\"", "[{\"schema\"", "EOF"),
        ] {
            let BundleError::Malformed(detail) = parse(&text.replacen(from, to, 1)) else { panic!("{to}") };
            assert!(detail.contains(says), "{detail}");
        }
    }
}
