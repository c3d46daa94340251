//! Tools of MCP servers that the configuration names. A server is a program of ours to start and to end, and what it says of
//! its tools is a description, not a permission.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use enjamb_core::ErrorKind;
use rmcp::model::{CallToolRequestParams, CallToolResult, Tool};
use rmcp::service::{RoleClient, RunningService, ServiceExt};
use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{interval, timeout};

use super::command::Ended;
use crate::{Result, ServiceError};

const GLANCE: Duration = Duration::from_millis(25);
/// How long a server may take to say which tools it has.
const GREETING: Duration = Duration::from_secs(20);
/// Tools of one server that are taken.
const TOOLS_MAX: usize = 256;

/// A server to start.
#[derive(Clone, Debug)]
pub struct McpServer {
    pub name: String,
    pub command: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// Tools that change nothing, as the configuration says; all others may.
    pub read_only: Vec<String>,
    pub timeout: Duration,
}

/// A server that runs.
pub(super) struct Connection {
    pub server: McpServer,
    pub tools: Vec<Tool>,
    runtime: Runtime,
    service: Option<RunningService<RoleClient, ()>>,
    child: Child,
}

impl Connection {
    pub fn open(server: McpServer, workspace: &Path, withheld: &[String]) -> Result<Self> {
        let failed = |detail: String| ServiceError::Endpoint {
            url: format!("mcp server {}", server.name),
            kind: ErrorKind::Unavailable,
            detail,
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| failed(error.to_string()))?;
        let opened = runtime.block_on(async {
            let mut child = start(&server, workspace, withheld).map_err(|error| error.to_string())?;
            let pipes = child.stdout.take().zip(child.stdin.take()).ok_or("it has no pipes")?;
            let greeting = async {
                let service = ().serve(pipes).await.map_err(|error| error.to_string())?;
                let tools = service.peer().list_all_tools().await.map_err(|error| error.to_string())?;
                Ok::<_, String>((service, tools))
            };
            let (service, mut tools) =
                timeout(GREETING, greeting).await.map_err(|_| "it does not answer".to_owned())??;
            tools.truncate(TOOLS_MAX);
            Ok::<_, String>((child, service, tools))
        });
        let (child, service, tools) = opened.map_err(failed)?;
        Ok(Self { server, tools, runtime, service: Some(service), child })
    }

    /// Calls a tool, unless somebody says to stop. What it says goes to `take`.
    pub fn call(&self, tool: &str, arguments: &Value, cancel: &AtomicBool, take: &mut dyn FnMut(&[u8])) -> Ended {
        let Some(service) = &self.service else { return Ended::Failed("the server is gone".into()) };
        let params = match arguments.as_object() {
            Some(members) => CallToolRequestParams::new(tool.to_owned()).with_arguments(members.clone()),
            None => CallToolRequestParams::new(tool.to_owned()),
        };
        let answered = self.runtime.block_on(async {
            let mut ticks = interval(GLANCE);
            let mut call = std::pin::pin!(timeout(self.server.timeout, service.peer().call_tool(params)));
            loop {
                tokio::select! {
                    answered = &mut call => return Some(answered),
                    _ = ticks.tick() => if cancel.load(Ordering::Relaxed) { return None },
                }
            }
        });
        match answered {
            None => Ended::Failed("cancelled".into()),
            Some(Err(_)) => Ended::Failed("timeout".into()),
            Some(Ok(Err(error))) => Ended::Failed(error.to_string()),
            Some(Ok(Ok(result))) => {
                take(said(&result).as_bytes());
                Ended::Exited(i32::from(result.is_error == Some(true)))
            }
        }
    }
}

fn start(server: &McpServer, workspace: &Path, withheld: &[String]) -> std::io::Result<Child> {
    let (program, arguments) = server.command.split_first().ok_or(std::io::ErrorKind::NotFound)?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(workspace).process_group(0).kill_on_drop(true);
    for name in withheld {
        command.env_remove(name);
    }
    command.envs(&server.env).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
}

/// What a result says, as text: blocks of text as they are, others as JSON.
fn said(result: &CallToolResult) -> String {
    let mut lines = Vec::new();
    for block in &result.content {
        let json = serde_json::to_value(block).unwrap_or_default();
        lines.push(json["text"].as_str().map_or_else(|| json.to_string(), str::to_owned));
    }
    if lines.is_empty() {
        lines.extend(result.structured_content.as_ref().map(Value::to_string));
    }
    lines.join("\n")
}

impl Drop for Connection {
    fn drop(&mut self) {
        let service = self.service.take();
        // Within its runtime, where whoever reads its pipes lives.
        self.runtime.block_on(async {
            if let Some(service) = service {
                let _ = timeout(GLANCE, service.cancel()).await;
            }
            let _ = self.child.start_kill();
            let _ = timeout(GLANCE, self.child.wait()).await;
        });
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({}, {} tools)", self.server.name, self.tools.len())
    }
}
