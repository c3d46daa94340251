//! Parameters of a request: taken from path, query and body, and read into what an operation asks for.

use enjamb_core::json::Members;
use enjamb_core::limits;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::problem::{Problem, Result};

/// Reads parameters into the struct of an operation. What is wrong is named by its place.
pub fn read<I: DeserializeOwned>(params: &Map<String, Value>) -> Result<I> {
    serde_path_to_error::deserialize(params).map_err(|error| {
        let path = error.path().to_string();
        let pointer = if path == "." { String::new() } else { format!("/{}", path.replace('.', "/")) };
        Problem::schema(pointer, error.inner().to_string())
    })
}

/// The members of a JSON body. Two readers of the same bytes have to see the same, so nothing in it is given twice.
pub fn object(body: &[u8]) -> Result<Map<String, Value>> {
    let text = std::str::from_utf8(body).map_err(|error| {
        let offset = error.valid_up_to();
        Problem::new(400, "invalid-utf8", format!("the body is not UTF-8 at byte {offset}")).with("offset", offset)
    })?;
    let value: Value = serde_json::from_str(text).map_err(|error| not_json(&error))?;
    let Value::Object(members) = value else {
        return Err(Problem::schema("", "the body has to be a JSON object"));
    };
    let repeated = Members::parse(text).ok().and_then(|all| all.repeated().first().map(|key| (*key).to_owned()));
    if let Some(key) = repeated {
        return Err(
            Problem::new(400, "duplicate-key", format!("member {key:?} is given more than once")).with("key", key)
        );
    }
    Ok(members)
}

pub fn not_json(error: &serde_json::Error) -> Problem {
    let detail = error.to_string();
    if detail.starts_with("recursion limit") {
        let title = format!("the body is nested deeper than {}", limits::JSON_DEPTH_MAX);
        return Problem::new(400, "too-deep", title).with("limit", limits::JSON_DEPTH_MAX);
    }
    Problem::new(400, "invalid-json", format!("the body is not JSON: {detail}"))
        .with("line", error.line())
        .with("column", error.column())
}

/// The parameters of a query, each as the kind of value that its schema asks for.
pub fn query(text: &str, properties: &[(String, Value)]) -> Result<Map<String, Value>> {
    let mut params = Map::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decoded(name, true)?, decoded(value, true)?);
        let schema = properties.iter().find(|(property, _)| *property == name).map(|(_, schema)| schema);
        let value = schema.map_or_else(|| Value::String(value.clone()), |schema| typed(schema, &value));
        match (params.get_mut(&name), value) {
            (Some(Value::Array(all)), Value::Array(more)) => all.extend(more),
            (Some(_), _) => return Err(Problem::schema(format!("/{name}"), "given more than once")),
            (None, value) => drop(params.insert(name, value)),
        }
    }
    Ok(params)
}

/// A text of a query or a path as JSON. What does not fit stays a text, so that the error shows what was sent.
fn typed(schema: &Value, text: &str) -> Value {
    let is = |wanted: &str| match &schema["type"] {
        Value::String(kind) => kind == wanted,
        Value::Array(kinds) => kinds.iter().any(|kind| kind == wanted),
        _ => false,
    };
    let plain = || Value::String(text.to_owned());
    if is("integer") || is("boolean") {
        return serde_json::from_str(text).ok().filter(|value: &Value| !value.is_null()).unwrap_or_else(plain);
    }
    if is("array") {
        return text.split(',').filter(|item| !item.is_empty()).map(|item| Value::String(item.to_owned())).collect();
    }
    plain()
}

/// Undoes percent-encoding; in a query, `+` is a space.
pub fn decoded(text: &str, is_query: bool) -> Result<String> {
    let bad =
        || Problem::new(400, "bad-request", "the address holds a percent sign without two hex digits, or no UTF-8");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        match first {
            b'%' => {
                let hex = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok()).ok_or_else(bad)?;
                bytes.push(u8::from_str_radix(hex, 16).map_err(|_| bad())?);
                rest = &tail[2..];
            }
            b'+' if is_query => bytes.push(b' '),
            other => bytes.push(*other),
        }
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

/// Does percent-encoding for one segment of a path, or one value of a query.
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn code(body: &[u8]) -> &'static str {
        object(body).unwrap_err().code
    }

    #[test]
    fn a_body_is_one_object_in_utf8_that_says_nothing_twice() {
        assert_eq!(object(br#"{"a":1}"#).unwrap()["a"], 1);
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
        for (body, expected) in [
            (b"".as_slice(), "invalid-json"),
            (b"{} {}", "invalid-json"),
            (b"{}x", "invalid-json"),
            (b"\xef\xbb\xbf{}", "invalid-json"),
            (br#"{"a":"\ud800"}"#, "invalid-json"),
            (b"{\"a\":\"\xff\"}", "invalid-utf8"),
            (deep.as_bytes(), "too-deep"),
            (br#"{"a":1,"a":2}"#, "duplicate-key"),
            (b"[]", "schema"),
        ] {
            assert_eq!(code(body), expected, "{}", String::from_utf8_lossy(body));
        }
    }

    #[test]
    fn a_query_is_typed_by_its_schema() {
        let properties = [
            ("limit".to_owned(), json!({"type": ["integer", "null"]})),
            ("type".to_owned(), json!({"type": "array"})),
            ("q".to_owned(), json!({"type": "string"})),
        ];
        let read = query("limit=7&type=a,b&type=c&q=a+b%2F", &properties).unwrap();
        assert_eq!(Value::Object(read), json!({"limit": 7, "type": ["a", "b", "c"], "q": "a b/"}));
        assert_eq!(query("limit=x", &properties).unwrap()["limit"], "x");
        assert!(query("limit=1&limit=2", &properties).is_err());
        assert!(query("q=%zz", &properties).is_err());
    }

    #[test]
    fn encoding_is_undone() {
        let text = "agent/reviewer@host ü%";
        assert_eq!(decoded(&encoded(text), false).unwrap(), text);
    }
}
