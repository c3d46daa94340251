//! A model on the loopback: it keeps every request, and answers with what it was given to say, then with one word.
//!
//! It speaks as much of Anthropic Messages and of Open Responses as the runtimes need for a turn.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// What the model says next.
#[derive(Clone, Debug)]
pub enum Reply {
    Text(String),
    Call { tool: String, input: Value },
}

#[derive(Default)]
struct Model {
    /// The bodies of what was asked.
    requests: Vec<Value>,
    replies: VecDeque<Reply>,
    answered: usize,
}

pub struct Endpoint {
    pub port: u16,
    model: Arc<Mutex<Model>>,
}

/// The answer when nothing else is to be said.
const LAST_WORD: &str = "PONG";

impl Endpoint {
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let model = Arc::new(Mutex::new(Model::default()));
        let shared = Arc::clone(&model);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let model = Arc::clone(&shared);
                // A runtime that went away is told nothing.
                thread::spawn(move || drop(serve(connection, &model)));
            }
        });
        Ok(Self { port, model })
    }

    /// Forgets what was asked, and says these next.
    pub fn begin(&self, replies: Vec<Reply>) {
        let mut model = self.model.lock().expect("no thread panics with the model");
        *model = Model { replies: replies.into(), ..Model::default() };
    }

    pub fn requests(&self) -> Vec<Value> {
        self.model.lock().expect("no thread panics with the model").requests.clone()
    }
}

fn serve(connection: TcpStream, model: &Mutex<Model>) -> io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    let mut head = String::new();
    let (mut length, mut chunked) = (0, false);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        chunked |= lower.starts_with("transfer-encoding:") && lower.contains("chunked");
        head.push_str(&line);
    }
    let body = if chunked { read_chunks(&mut reader)? } else { read_bytes(&mut reader, length)? };
    let mut words = head.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (kind, answer) = answer(method, path, &body, model);
    let length = answer.len();
    let mut out = connection;
    write!(out, "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n")?;
    if method != "HEAD" {
        out.write_all(answer.as_bytes())?;
    }
    out.flush()
}

fn read_bytes(reader: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn read_chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let length = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
        bytes.extend(read_bytes(reader, length)?);
        reader.read_line(&mut String::new())?;
        if length == 0 {
            return Ok(bytes);
        }
    }
}

fn answer(method: &str, path: &str, body: &[u8], model: &Mutex<Model>) -> (&'static str, String) {
    if method != "POST" {
        return ("application/json", json!({"data": [], "models": []}).to_string());
    }
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let mut model = model.lock().expect("no thread panics with the model");
    model.requests.push(body.clone());
    if path.contains("count_tokens") {
        return ("application/json", json!({"input_tokens": 10}).to_string());
    }
    let is_messages = path.contains("/messages");
    if !is_messages && !path.contains("/responses") {
        return ("application/json", "{}".into());
    }
    let reply = model.replies.pop_front().unwrap_or_else(|| Reply::Text(LAST_WORD.into()));
    model.answered += 1;
    let number = model.answered;
    let name = body["model"].as_str().unwrap_or("m").to_owned();
    match (is_messages, body["stream"].as_bool()) {
        (true, Some(true)) => ("text/event-stream", message_events(&reply, number, &name)),
        (true, _) => ("application/json", whole_message(&reply, number, &name).to_string()),
        (false, _) => ("text/event-stream", response_events(&reply, number, &name)),
    }
}

fn events(events: &[Value]) -> String {
    events
        .iter()
        .map(|data| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default()))
        .collect()
}

fn message(number: usize, model: &str, content: Value, stop: Value) -> Value {
    json!({"id": format!("msg_{number:08}"), "type": "message", "role": "assistant", "model": model, "content": content,
        "stop_reason": stop, "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 1}})
}

fn whole_message(reply: &Reply, number: usize, model: &str) -> Value {
    match reply {
        Reply::Text(text) => message(number, model, json!([{"type": "text", "text": text}]), json!("end_turn")),
        Reply::Call { tool, input } => {
            let call = json!([{"type": "tool_use", "id": format!("toolu_{number:08}"), "name": tool, "input": input}]);
            message(number, model, call, json!("tool_use"))
        }
    }
}

fn message_events(reply: &Reply, number: usize, model: &str) -> String {
    let (block, delta, stop) = match reply {
        Reply::Text(text) => {
            (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": text}), "end_turn")
        }
        Reply::Call { tool, input } => (
            json!({"type": "tool_use", "id": format!("toolu_{number:08}"), "name": tool, "input": {}}),
            json!({"type": "input_json_delta", "partial_json": input.to_string()}),
            "tool_use",
        ),
    };
    events(&[
        json!({"type": "message_start", "message": message(number, model, json!([]), Value::Null)}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
            "usage": {"output_tokens": 5}}),
        json!({"type": "message_stop"}),
    ])
}

fn response_events(reply: &Reply, number: usize, model: &str) -> String {
    let item = match reply {
        Reply::Text(text) => json!({"id": format!("msg_{number}"), "type": "message", "role": "assistant",
            "status": "completed", "content": [{"type": "output_text", "text": text, "annotations": []}]}),
        Reply::Call { tool, input } => json!({"id": format!("fc_{number}"), "type": "function_call",
            "call_id": format!("call_{number}"), "name": tool, "arguments": input.to_string(), "status": "completed"}),
    };
    let usage = json!({"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 11});
    let response = |status: &str, output: Value| {
        json!({"id": format!("resp_{number}"), "object": "response", "created_at": 1, "status": status, "model": model,
            "output": output, "usage": usage})
    };
    events(&[
        json!({"type": "response.created", "response": response("in_progress", json!([]))}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": response("completed", json!([item]))}),
    ])
}
