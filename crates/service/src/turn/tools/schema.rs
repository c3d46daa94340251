//! What a tool's arguments have to be.

use serde_json::Value;

use crate::{Result, ServiceError};

/// Faults of arguments that are told.
const FAULTS_MAX: usize = 4;

#[derive(Debug)]
pub(super) struct Schema(jsonschema::Validator);

impl Schema {
    pub fn compile(tool: &str, schema: &Value) -> Result<Self> {
        // A schema that refers elsewhere is refused: nothing is fetched.
        jsonschema::validator_for(schema).map(Self).map_err(|error| ServiceError::BadFile {
            path: format!("the schema of tool {tool}").into(),
            detail: error.to_string(),
        })
    }

    /// What is wrong with arguments, for the model to read.
    pub fn faults(&self, arguments: &Value) -> Option<String> {
        let faults: Vec<String> = self
            .0
            .iter_errors(arguments)
            .take(FAULTS_MAX)
            .map(|error| format!("{}{error}", place(&error.instance_path().to_string())))
            .collect();
        (!faults.is_empty()).then(|| faults.join("; "))
    }
}

fn place(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("{path}: ") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_held_to_their_schema() {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false});
        let schema = Schema::compile("t", &schema).unwrap();
        assert_eq!(schema.faults(&json!({"n": 1})), None);
        assert!(schema.faults(&json!({})).unwrap().contains("\"n\" is a required property"));
        assert!(schema.faults(&json!({"n": "x"})).unwrap().starts_with("/n: "));
        assert!(schema.faults(&json!({"n": 1, "m": 2})).is_some());
    }

    #[test]
    fn a_schema_is_one_and_refers_to_nothing_elsewhere() {
        assert_eq!(Schema::compile("t", &json!({"type": 7})).unwrap_err().code(), "bad-file");
        assert_eq!(Schema::compile("t", &json!({"$ref": "http://127.0.0.1:9/x"})).unwrap_err().code(), "bad-file");
    }
}
