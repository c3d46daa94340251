//! How endpoints are asked and how they answer: three dialects of the same question.

use enjamb_core::provider::Dialect;
use serde_json::{Value, json};

/// What an endpoint is asked.
pub(super) struct Question<'q> {
    pub model: &'q str,
    pub instructions: &'q str,
    pub text: &'q str,
    pub output_tokens_max: u64,
}

/// What an endpoint answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub text: String,
    /// All tokens that the provider counted, read and written.
    pub tokens: Option<u64>,
}

pub(super) fn body(dialect: Dialect, question: &Question<'_>) -> String {
    let Question { model, instructions, text, output_tokens_max } = question;
    let body = match dialect {
        Dialect::Responses => json!({
            "model": model, "instructions": instructions, "input": text,
            "max_output_tokens": output_tokens_max, "store": false,
        }),
        Dialect::Chat => json!({
            "model": model, "max_tokens": output_tokens_max,
            "messages": [{"role": "system", "content": instructions}, {"role": "user", "content": text}],
        }),
        Dialect::Messages => json!({
            "model": model, "max_tokens": output_tokens_max, "system": instructions,
            "messages": [{"role": "user", "content": text}],
        }),
    };
    body.to_string()
}

/// Reads an answer. `None` for what is no answer of this dialect.
pub(super) fn answer(dialect: Dialect, body: &[u8]) -> Option<Answer> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let text = match dialect {
        Dialect::Responses => {
            let messages = body["output"].as_array()?.iter().filter(|item| item["type"] == "message");
            messages.map(|item| joined(&item["content"], "output_text")).collect::<Option<String>>()?
        }
        Dialect::Chat => joined(&body["choices"][0]["message"]["content"], "text")?,
        Dialect::Messages => joined(&body["content"], "text")?,
    };
    Some(Answer { text, tokens: tokens(&body["usage"]) })
}

/// The text of a content: one string, or parts of which those of a type are text. A model that said nothing says null.
fn joined(content: &Value, text_type: &str) -> Option<String> {
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            let texts = parts.iter().filter(|part| part["type"] == text_type).filter_map(|part| part["text"].as_str());
            Some(texts.collect())
        }
        _ => None,
    }
}

/// Each dialect names its counts otherwise, and none uses the name of another for something else.
fn tokens(usage: &Value) -> Option<u64> {
    let names = [
        "input_tokens",
        "output_tokens",
        "prompt_tokens",
        "completion_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
    ];
    let counts: Vec<u64> = names.iter().filter_map(|name| usage[*name].as_u64()).collect();
    (!counts.is_empty()).then(|| counts.iter().fold(0u64, |sum, count| sum.saturating_add(*count)))
}

/// What a provider says of an error, wherever it puts it.
pub(crate) fn complaint(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let said = [&body["error"]["message"], &body["error"], &body["message"], &body["detail"]];
    said.into_iter().find_map(|value| value.as_str()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_in_each_dialect() {
        let check = |dialect: Dialect, body: &str, text: &str, tokens: Option<u64>| {
            assert_eq!(answer(dialect, body.as_bytes()), Some(Answer { text: text.into(), tokens }), "{body}");
        };
        check(
            Dialect::Responses,
            r#"{"output":[{"type":"reasoning"},{"type":"message","content":[{"type":"output_text","text":"a"},
               {"type":"output_text","text":"b"}]}],"usage":{"input_tokens":5,"output_tokens":2,"total_tokens":7}}"#,
            "ab",
            Some(7),
        );
        check(Dialect::Chat, r#"{"choices":[{"message":{"content":"a"}}]}"#, "a", None);
        check(
            Dialect::Chat,
            r#"{"choices":[{"message":{"content":[{"type":"text","text":"a"}]}}],
               "usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}"#,
            "a",
            Some(7),
        );
        check(
            Dialect::Messages,
            r#"{"content":[{"type":"thinking"},{"type":"text","text":"a"}],
               "usage":{"input_tokens":5,"output_tokens":2,"cache_read_input_tokens":3}}"#,
            "a",
            Some(10),
        );
        for body in ["", "<html>", "{}", "[]", r#"{"output":"no","choices":[],"content":7}"#] {
            for dialect in [Dialect::Responses, Dialect::Chat, Dialect::Messages] {
                assert_eq!(answer(dialect, body.as_bytes()), None, "{body}");
            }
        }
    }

    #[test]
    fn complaints_are_found_where_providers_put_them() {
        for body in [r#"{"error":{"message":"no"}}"#, r#"{"error":"no"}"#, r#"{"message":"no"}"#, r#"{"detail":"no"}"#]
        {
            assert_eq!(complaint(body.as_bytes()).as_deref(), Some("no"), "{body}");
        }
        assert_eq!(complaint(b"<html>"), None);
    }
}
