//! The description of the API for people: one page, with nothing fetched from elsewhere.

use std::fmt::Write;

use serde_json::Value;

use crate::openapi;

/// The only page that shows a style of its own; scripts it has none.
pub const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
    code,pre{font:14px/1.5 ui-monospace,monospace}pre{background:#8881;padding:1rem;overflow:auto}\
    h2{margin-top:2.5rem;border-bottom:1px solid #8884}details{margin:.4rem 0}summary{cursor:pointer}\
    .m{display:inline-block;width:4.5rem;font-weight:600}.s{opacity:.75}table{border-collapse:collapse}\
    td{padding:.1rem 1rem .1rem 0;vertical-align:top}:root{color-scheme:light dark}";

pub fn page() -> String {
    let document = openapi::document();
    let mut body = String::new();
    let mut last = String::new();
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            let tag = operation["tags"][0].as_str().unwrap_or_default();
            if tag != last {
                let _ = write!(body, "<h2>{}</h2>", escaped(tag));
                last = tag.to_owned();
            }
            body.push_str(&described(path, method, operation));
        }
    }
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>enjamb API</title>\
        <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body><main>\
        <h1>enjamb API</h1><p>{}</p><p>For programs: <a href=\"/v1/openapi.json\">/v1/openapi.json</a>.</p>\
        <pre>H=\"Authorization: Bearer $(cat STORE/token)\"\ncurl -H \"$H\" http://127.0.0.1:4477/v1/status</pre>\
        {body}</main></body></html>\n",
        escaped(document["info"]["description"].as_str().unwrap_or_default())
    )
}

fn described(path: &str, method: &str, operation: &Value) -> String {
    let mut rows = String::new();
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    for parameter in parameters {
        let (name, place) = (parameter["name"].as_str(), parameter["in"].as_str());
        row(&mut rows, name, place, parameter["description"].as_str());
    }
    let body = &operation["requestBody"]["content"]["application/json"]["schema"]["properties"];
    for (name, schema) in body.as_object().into_iter().flatten() {
        row(&mut rows, Some(name), Some("body"), schema["description"].as_str());
    }
    format!(
        "<details><summary><span class=\"m\">{}</span><code>{}</code> <span class=\"s\">{}</span></summary>\
        <p>Operation <code>{}</code>, scope <code>{}</code></p><table>{rows}</table></details>",
        method.to_uppercase(),
        escaped(path),
        escaped(operation["summary"].as_str().unwrap_or_default()),
        escaped(operation["operationId"].as_str().unwrap_or_default()),
        escaped(operation["x-enjamb-scope"].as_str().unwrap_or_default()),
    )
}

fn row(rows: &mut String, name: Option<&str>, place: Option<&str>, about: Option<&str>) {
    let [name, place, about] = [name, place, about].map(|text| escaped(text.unwrap_or_default()));
    let _ = write!(rows, "<tr><td><code>{name}</code></td><td>{place}</td><td>{about}</td></tr>");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
