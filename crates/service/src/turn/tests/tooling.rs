//! Tools that a model calls.

use enjamb_core::frame::{ContinuityBody, SessionBody};
use serde_json::{Value, json};

use super::*;

fn tool(name: &str, command: &[&str], effect: Effect) -> CommandTool {
    let schema = json!({
        "type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}},
        "additionalProperties": false,
    });
    CommandTool {
        name: name.into(),
        description: "a tool".into(),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        schema,
        effect,
        timeout: Duration::from_secs(20),
        paths: vec!["path".into()],
    }
}

fn toolbox(workspace: &std::path::Path, limits: ToolLimits) -> Toolbox {
    let tools = vec![
        tool("show", &["cat", "{path}"], Effect::ReadOnly),
        tool(
            "write",
            &["sh", "-c", "cat > /dev/null; printf %s \"$1\" > \"$0\"", "{path}", "{text}"],
            Effect::Mutating,
        ),
        tool("spam", &["sh", "-c", "cat > /dev/null; seq 1 20000; echo gone wrong >&2; exit 3"], Effect::ReadOnly),
        CommandTool { timeout: Duration::from_millis(80), ..tool("sleep", &["sleep", "60"], Effect::ReadOnly) },
        tool("env", &["sh", "-c", "echo ${ENJAMB_ENDPOINT_KEY:-none}"], Effect::ReadOnly),
    ];
    Toolbox::new(workspace, tools, limits, vec!["ENJAMB_ENDPOINT_KEY".into()]).unwrap()
}

/// Lets the model make calls, one an answer, then say that it is done. What it was told of each is returned.
fn called(stage: &Stage, dialect: Dialect, calls: &[(&str, &str)]) -> (Turned, Vec<Value>) {
    let workspace = tempfile::tempdir().unwrap();
    let call = |(at, (name, arguments)): (usize, &(&str, &str))| {
        Script::events(Speech::new(dialect).text("let me. ").call(&format!("c{at}"), name, arguments).end(1, 1))
    };
    let mut scripts: Vec<Script> = calls.iter().enumerate().map(call).collect();
    scripts.push(Script::events(Speech::new(dialect).text("done").end(1, 1)));
    let (server, options) = provider(dialect, scripts);
    let turned = stage.turn_with("go", options, &toolbox(workspace.path(), ToolLimits::default()));
    let outcome = |body: &Value| -> String {
        let last = |list: &Value| list.as_array().unwrap().last().unwrap().clone();
        let told = match dialect {
            Dialect::Responses => last(&body["input"])["output"].clone(),
            Dialect::Chat => last(&body["messages"])["content"].clone(),
            Dialect::Messages => last(&last(&body["messages"])["content"])["content"].clone(),
        };
        told.as_str().unwrap().to_owned()
    };
    let told = server.asked()[1..].iter().map(|asked| serde_json::from_str(&outcome(&asked.body)).unwrap()).collect();
    (turned, told)
}

#[test]
fn tools_are_called_and_told_of_in_every_dialect() {
    for dialect in Dialect::ALL {
        let stage = Stage::new();
        let calls = [("write", r#"{"path":"././a.txt","text":"hello; rm -rf /"}"#), ("show", r#"{"path":"a.txt"}"#)];
        let (turned, told) = called(&stage, dialect, &calls);
        assert_eq!((turned.text.as_str(), turned.ending.reason), ("let me. let me. done", EndReason::Completed));
        assert_eq!((turned.tool_calls, turned.requests), (2, 3));
        assert_eq!((&told[0]["ok"], &told[1]["stdout"]), (&json!(true), &json!("hello; rm -rf /")), "{told:?}");
        let frames = stage.session(&turned.run);
        let tools: Vec<_> = names(&frames).into_iter().filter(|name| name.starts_with("tool_")).collect();
        assert_eq!(tools, ["tool_started", "tool_ended", "tool_started", "tool_stdout", "tool_ended"]);
        let effects = stage.frames(&stage.thread).into_iter().find_map(|frame| match frame.body {
            Body::Continuity(ContinuityBody::ToolSideEffects(effects)) => Some(effects),
            _ => None,
        });
        let effects = effects.unwrap();
        assert_eq!((effects.tool_name.as_str(), effects.affected_paths), ("write", Some(vec!["a.txt".into()])));
        let before = frames.iter().find(|frame| frame.body.type_name() == "checkpoint_created").unwrap();
        assert_eq!(effects.checkpoint_id.as_ref(), Some(&before.id), "what was there can be put back");
        let started = frames.iter().find(|frame| frame.body.type_name() == "tool_started").unwrap();
        assert!(before.seq < started.seq);
        let commit = stage.store.show(&turned.commit.unwrap()).unwrap();
        assert_eq!(commit.commit.message_count, 6, "said, called, told, called, told, said");
        let after = stage.store.workspace_of(&commit).unwrap().unwrap();
        assert_eq!((after.label.as_str(), after.files), ("after:write", vec!["a.txt".into()]), "as the tools left it");
        assert!(after.seq > started.seq);
    }
}

#[test]
fn what_may_not_be_called_is_denied_and_the_model_told_why() {
    let stage = Stage::new();
    let calls = [
        ("format_disk", "{}"),
        ("show", r#"{"path":7}"#),
        ("show", "{not json"),
        ("show", r#"{"path":"../../etc/passwd"}"#),
        ("write", r#"{"path":"/etc/passwd","text":"x"}"#),
    ];
    let (turned, told) = called(&stage, Dialect::Chat, &calls);
    let codes: Vec<_> = told.iter().map(|told| told["code"].as_str().unwrap()).collect();
    let (arguments, outside) = ("invalid-arguments", "path-outside-workspace");
    assert_eq!(codes, ["unknown-tool", arguments, arguments, outside, outside]);
    let begins = [
        "unknown tool: ",
        "invalid arguments: ",
        "invalid arguments: ",
        "path outside the workspace: ",
        "path outside the workspace: ",
    ];
    for (told, begin) in told.iter().zip(begins) {
        assert!(told["error"].as_str().is_some_and(|error| error.starts_with(begin)), "{told}");
    }
    let frames = stage.session(&turned.run);
    let tools: Vec<_> = names(&frames).into_iter().filter(|name| name.starts_with("tool_")).collect();
    assert_eq!(tools, ["tool_failed"; 5], "nothing was started");
    let denied = frames.iter().find_map(|frame| match &frame.body {
        Body::Session(SessionBody::ToolFailed(failed)) => Some(failed.tool_id.as_str()),
        _ => None,
    });
    assert_eq!(denied, Some("tool_denied_c0"));
}

#[test]
fn output_time_and_calls_have_bounds() {
    let stage = Stage::new();
    let (turned, told) = called(&stage, Dialect::Responses, &[("spam", "{}"), ("sleep", "{}"), ("env", "{}")]);
    assert_eq!((&told[0]["exit_code"], &told[0]["stderr"]), (&json!(3), &json!("gone wrong\n")));
    assert!(told[0]["stdout"].as_str().unwrap().contains("bytes left out"));
    let artifact = told[0]["artifacts"]["stdout"]["artifact_id"].as_str().unwrap().parse().unwrap();
    let kept = String::from_utf8(stage.store.get_document(&artifact).unwrap()).unwrap();
    assert_eq!(kept.lines().count(), 20_000);
    assert_eq!(told[1]["error"], "timeout");
    assert_eq!(told[2]["stdout"], "none\n");
    let lines = names(&stage.session(&turned.run)).iter().filter(|name| **name == "tool_stdout").count();
    assert!(lines < 10_000, "{lines}");
    let workspace = tempfile::tempdir().unwrap();
    let call = || Script::events(Speech::new(Dialect::Chat).call("c", "env", "{}").end(1, 1));
    let (_server, options) = provider(Dialect::Chat, vec![call(), call(), call()]);
    let limits = ToolLimits { calls_max: 2, ..ToolLimits::default() };
    let turned = stage.turn_with("go", options, &toolbox(workspace.path(), limits));
    assert_eq!((turned.ending.reason, turned.tool_calls), (EndReason::ToolCallLimit, 2));
}

#[test]
fn a_call_that_comes_twice_under_its_id_is_made_once() {
    let stage = Stage::new();
    let workspace = tempfile::tempdir().unwrap();
    let twice = Speech::new(Dialect::Responses).call("c", "env", "{}").call("c", "env", "{}").end(1, 1);
    let done = Speech::new(Dialect::Responses).text("done").text("done").end(1, 1);
    let (_server, options) = provider(Dialect::Responses, vec![Script::events(twice), Script::events(done)]);
    let turned = stage.turn_with("go", options, &toolbox(workspace.path(), ToolLimits::default()));
    assert_eq!((turned.tool_calls, turned.text.as_str()), (1, "donedone"));
}

#[test]
fn a_toolbox_that_cannot_be_is_refused_before_anything_is_done() {
    let here = std::env::temp_dir();
    let refused = |tools: Vec<CommandTool>| Toolbox::new(&here, tools, ToolLimits::default(), Vec::new()).unwrap_err();
    let one = || tool("one", &["true"], Effect::ReadOnly);
    assert!(refused(vec![one(), one()]).to_string().contains("one"));
    assert!(refused(vec![CommandTool { name: "a b".into(), ..one() }]).to_string().contains("a b"));
    assert!(refused(vec![CommandTool { command: Vec::new(), ..one() }]).to_string().contains("command"));
    assert!(
        refused(vec![CommandTool { schema: json!({"type": "no"}), ..one() }])
            .to_string()
            .contains("schema of tool one")
    );
}
