//! What a record says it is, whatever its format.

use crate::framing::Item;
use crate::json::Object;

/// The name of a record's kind, and its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    pub kind: String,
    pub id: Option<String>,
}

impl Label {
    pub fn of(item: &Item<'_>) -> Self {
        Self::of_json(item.json())
    }

    fn of_json(json: &str) -> Self {
        Object::within(json).map_or_else(Self::untyped, |object| Self::of_object(&object))
    }

    /// Of what says nothing of itself.
    pub(crate) fn untyped() -> Self {
        Self { kind: "untyped".to_owned(), id: None }
    }

    pub(crate) fn of_object(object: &Object<'_>) -> Self {
        // A message of opencode's is beside its parts.
        let role =
            || object.text("role").or_else(|| object.text("table")).or_else(|| object.object("info")?.text("role"));
        Self {
            kind: object.text("type").or_else(role).unwrap_or_else(|| "untyped".to_owned()),
            id: object.text("uuid").or_else(|| object.text("id")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_of_the_type_it_says() {
        let kind = |json| Label::of_json(json).kind;
        assert_eq!(kind(r#"{"a":{"type":"x"},"type":"user"}"#), "user");
        assert_eq!(kind(r#"{"type":"user","type":"b"}"#), "b");
        assert_eq!(kind(r#"{"type":1}"#), "untyped");
        assert_eq!(kind("[1]"), "untyped");
        assert_eq!(kind(r#"{"info":{"role":"user"},"parts":[]}"#), "user");
        assert_eq!(Label::of_json(r#"{"uuid":"u","type":"x","id":"i"}"#).id.as_deref(), Some("u"));
        assert_eq!(Label::of_json(r#"{"id":"i"}"#).id.as_deref(), Some("i"));
    }
}
