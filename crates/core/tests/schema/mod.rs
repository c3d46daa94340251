//! As much of JSON Schema as our schemas and the published ones use of it. A keyword that is not known here fails the test:
//! what is not looked at is not passed over.

use serde_json::Value;

/// Says nothing about what is valid.
const ANNOTATIONS: [&str; 8] =
    ["$comment", "$defs", "description", "title", "default", "example", "discriminator", "deprecated"];

pub struct Schema<'d> {
    /// What references are looked up in.
    pub document: &'d Value,
}

impl Schema<'_> {
    /// Why a value is not what a schema says; nothing when it is.
    pub fn fault(&self, schema: &Value, value: &Value) -> Option<String> {
        let keywords = schema.as_object().expect("a schema is an object");
        keywords.iter().find_map(|(keyword, rule)| self.keyword(schema, keyword, rule, value))
    }

    fn keyword(&self, schema: &Value, keyword: &str, rule: &Value, value: &Value) -> Option<String> {
        let fault = |holds: bool| (!holds).then(|| format!("{keyword} {rule} is broken by {value}"));
        let bound = || rule.as_u64().expect("a bound is a number") as usize;
        let chars = || value.as_str().map(|text| text.chars().count());
        match keyword {
            "$ref" => self.fault(self.target(rule), value),
            "type" => fault(is_type(rule.as_str().expect("one type"), value)),
            "enum" => fault(rule.as_array().expect("a list").contains(value)),
            "maxLength" => fault(chars().is_none_or(|chars| chars <= bound())),
            "minLength" => fault(chars().is_none_or(|chars| chars >= bound())),
            "minItems" => fault(value.as_array().is_none_or(|items| items.len() >= bound())),
            "required" => {
                let has = |key: &Value| value.get(key.as_str().expect("a name")).is_some();
                fault(!value.is_object() || rule.as_array().expect("a list").iter().all(has))
            }
            "properties" => {
                let members = rule.as_object().expect("schemas by name").iter();
                members.filter_map(|(key, schema)| Some((schema, value.get(key)?))).find_map(|(s, v)| self.fault(s, v))
            }
            "additionalProperties" => {
                assert_eq!(rule, &Value::Bool(false), "a schema for further members is not looked at");
                let known = |key: &String| schema["properties"].get(key).is_some();
                fault(value.as_object().is_none_or(|members| members.keys().all(known)))
            }
            "items" => value.as_array().into_iter().flatten().find_map(|item| self.fault(rule, item)),
            "oneOf" => fault(self.matching(rule, value) == 1),
            "anyOf" => fault(self.matching(rule, value) >= 1),
            "allOf" => fault(self.matching(rule, value) == rule.as_array().expect("a list").len()),
            other => {
                assert!(
                    ANNOTATIONS.contains(&other) || other.starts_with("x-"),
                    "the keyword {other} is not known here"
                );
                None
            }
        }
    }

    fn matching(&self, schemas: &Value, value: &Value) -> usize {
        schemas.as_array().expect("a list").iter().filter(|schema| self.fault(schema, value).is_none()).count()
    }

    fn target(&self, reference: &Value) -> &Value {
        let pointer = reference.as_str().and_then(|text| text.strip_prefix('#')).expect("a reference within");
        self.document.pointer(pointer).expect("a reference to something")
    }
}

fn is_type(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        other => panic!("the type {other} is not known here"),
    }
}
