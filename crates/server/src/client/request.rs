//! From an operation and its parameters to an address and a body, by the table.

use serde_json::{Map, Value};

use crate::input::encoded;
use crate::ops;
use crate::route::Takes;

/// A request as it goes out.
#[derive(Debug, PartialEq)]
pub struct Wanted {
    pub method: &'static str,
    pub path: String,
    pub body: Option<Value>,
}

impl Wanted {
    /// Parameters that are null are those that were not given.
    pub fn of(operation: &str, params: Value) -> Result<Self, String> {
        let route = ops::find(operation).ok_or_else(|| format!("there is no operation {operation:?}"))?;
        let Value::Object(mut params) = params else { return Err("parameters are an object".into()) };
        params.retain(|_, value| !value.is_null());
        let mut path = String::new();
        for part in route.path.split('/').skip(1) {
            let name = part.strip_prefix('{').and_then(|part| part.strip_suffix('}'));
            let text = name.map(|name| params.remove(name).ok_or_else(|| format!("{operation} needs {name}")));
            let text = text.transpose()?.map_or_else(|| part.to_owned(), |value| encoded(&plain(&value)));
            path.push('/');
            path.push_str(&text);
        }
        if route.takes == Takes::Json {
            return Ok(Self { method: route.method.as_str(), path, body: Some(Value::Object(params)) });
        }
        path.push_str(&query(&params));
        Ok(Self { method: route.method.as_str(), path, body: None })
    }
}

fn query(params: &Map<String, Value>) -> String {
    let mut out = String::new();
    for (name, value) in params {
        let values = value.as_array().map_or_else(|| vec![value], |list| list.iter().collect());
        for value in values {
            out.push(if out.is_empty() { '?' } else { '&' });
            out.push_str(&format!("{name}={}", encoded(&plain(value))));
        }
    }
    out
}

/// A value as an address has it.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_go_where_the_table_has_them() {
        let path = |operation, params| Wanted::of(operation, params).unwrap().path;
        let frames = json!({"kind": "context", "id": "agent/a@b", "limit": 5, "cursor": null});
        assert_eq!(path("frames", frames), "/v1/streams/context/agent%2Fa%40b/frames?limit=5");
        assert_eq!(path("follow_all", json!({"type": ["a b", "c"]})), "/v1/events?type=a%20b&type=c");
        let note = Wanted::of("note", json!({"context": "@", "summary": "s"})).unwrap();
        assert_eq!(
            (note.method, note.path.as_str(), note.body),
            ("PATCH", "/v1/contexts/%40", Some(json!({"summary": "s"})))
        );
        assert!(Wanted::of("nothing", json!({})).is_err() && Wanted::of("show", json!({})).is_err());
    }
}
