//! Calling tools for a model: checked, told in frames, and what came of it for the model to read.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use enjamb_core::Digest;
use enjamb_core::frame::{Body, Json, ToolEnded, ToolFailed, ToolSideEffects, ToolStarted};
use enjamb_core::provider::{Call, Kept, Round, ToolOutcome};
use enjamb_ledger::private;
use serde_json::{Map, Value, json};

use super::command::{Ended, Job, argv, run};
use super::output::{Channel, Output};
use super::{Action, Declared, Denial, Effect, Toolbox, paths};
use crate::turn::drive::Drive;
use crate::turn::session::Session;
use crate::turn::{EndReason, Ending, TurnEvent};
use crate::{Result, ServiceError, WorkspaceCheckpoint};

const GLANCE: Duration = Duration::from_millis(25);
/// Paths that a frame lists.
const AFFECTED_MAX: usize = 1_000;

/// A call that may be made.
struct Allowed<'t> {
    tool: &'t Declared,
    arguments: Value,
    /// Those of the arguments that are paths, as seen from the workspace.
    paths: Vec<String>,
}

impl Allowed<'_> {
    /// What it says that it will write to, which is kept even if it is ignored.
    fn own_paths(&self) -> Vec<PathBuf> {
        self.paths.iter().map(PathBuf::from).collect()
    }
}

/// What a tool came to.
struct Done {
    exit_code: i32,
    failure: Option<String>,
    /// Of a call that was not made.
    code: Option<&'static str>,
    stdout: String,
    stderr: String,
    artifacts: Option<Value>,
}

impl Drive<'_, '_> {
    /// Calls the tools of a round, one after another. `None` to go on.
    pub(in crate::turn) fn call_tools(&mut self, mut round: Round) -> Result<Option<Ending>> {
        let calls = round.calls.clone();
        for call in &calls {
            if let Some(ending) = self.reason_to_stop() {
                round.calls.truncate(round.outcomes.len());
                self.spent.rounds.push(round);
                return Ok(Some(ending));
            }
            self.spent.tool_calls += 1;
            let outcome = self.call_tool(call)?;
            round.outcomes.push(outcome);
        }
        self.spent.rounds.push(round);
        Ok(None)
    }

    fn reason_to_stop(&self) -> Option<Ending> {
        if self.means.cancel.load(Ordering::Relaxed) {
            return Some(Ending::new(EndReason::Cancelled, "the run was called off"));
        }
        let most = self.means.tools.limits.calls_max;
        let is_over = self.spent.tool_calls >= most;
        is_over.then(|| Ending::new(EndReason::ToolCallLimit, format!("the model asked for more than {most} calls")))
    }

    fn call_tool(&mut self, call: &Call) -> Result<ToolOutcome> {
        let tools: &Toolbox = self.means.tools;
        let allowed = match tools.allow(call) {
            Ok(allowed) => allowed,
            Err(denial) => return Ok(self.deny(call, &denial)),
        };
        (self.watch)(TurnEvent::ToolStarted { name: &call.name });
        let done = match allowed.tool.effect {
            Effect::ReadOnly => self.run_tool(&allowed, None)?,
            Effect::Mutating => {
                let Some(_lock) = self.alone()? else { return Ok(self.deny(call, &Denial::Cancelled)) };
                match self.checkpoint_before(&allowed) {
                    Ok(checkpoint) => self.run_tool(&allowed, Some(checkpoint))?,
                    // Files that cannot be put back are not to be changed.
                    Err(error) => return Ok(self.deny(call, &Denial::NoCheckpoint(error.to_string()))),
                }
            }
        };
        let is_error = done.failure.is_some() || done.exit_code != 0;
        (self.watch)(TurnEvent::ToolEnded { name: &call.name, is_error });
        Ok(ToolOutcome { call_id: call.call_id.clone(), output: told(&call.name, done), is_error })
    }

    /// A call that is not made is told as one that failed without having started.
    fn deny(&mut self, call: &Call, denial: &Denial) -> ToolOutcome {
        let tool_id = format!("tool_denied_{}", call.call_id.chars().take(200).collect::<String>());
        self.recorder.push(vec![ToolFailed { tool_id, error: denial.to_string() }.into()]);
        (self.watch)(TurnEvent::ToolEnded { name: &call.name, is_error: true });
        let (failure, code) = (Some(denial.to_string()), Some(denial.code()));
        let done = Done { exit_code: 1, failure, code, stdout: String::new(), stderr: String::new(), artifacts: None };
        ToolOutcome { call_id: call.call_id.clone(), output: told(&call.name, done), is_error: true }
    }

    fn run_tool(&mut self, allowed: &Allowed<'_>, checkpoint: Option<String>) -> Result<Done> {
        let tool_id = self.session.store.env.new_id();
        let timeout = allowed.tool.timeout;
        let started = ToolStarted {
            tool_id: tool_id.clone(),
            name: allowed.tool.spec.name.clone(),
            args: Json::from(allowed.arguments.clone()),
            timeout_ms: Some(timeout.as_millis() as u64),
        };
        self.recorder.push(vec![started.into()]);
        // That it was started is on disk before it can do anything.
        self.recorder.flush();
        let done = self.watched(allowed, &tool_id);
        self.recorder.flush();
        if let Some(before) = checkpoint {
            self.tell_side_effects(allowed, tool_id, before)?;
        }
        Ok(done)
    }

    fn watched(&self, allowed: &Allowed<'_>, tool_id: &str) -> Done {
        let (tools, scrubber) = (self.means.tools, self.means.provider.scrubber());
        let mut outputs =
            [Channel::Stdout, Channel::Stderr].map(|one| Output::new(tool_id, one, tools.limits, scrubber.clone()));
        let began = Instant::now();
        let ended = self.act(allowed, &mut |channel, bytes| self.recorder.push(outputs[channel as usize].push(bytes)));
        outputs.iter_mut().for_each(|output| self.recorder.push(output.finish()));
        let duration_ms = began.elapsed().as_millis() as u64;
        let named: Vec<_> = outputs.iter().filter_map(Output::artifact).collect();
        let artifacts: Map<String, Value> =
            named.iter().map(|((name, told), _)| ((*name).to_owned(), told.clone())).collect();
        let artifacts = (!artifacts.is_empty()).then_some(Value::Object(artifacts));
        let bytes = named.into_iter().map(|(_, bytes)| bytes).collect();
        let (exit_code, failure) = match ended {
            Ended::Exited(code) => (code, None),
            Ended::Failed(error) => (1, Some(scrubber.text(&error))),
        };
        let frame: Body = match &failure {
            None => {
                let (tool_id, artifacts) = (tool_id.to_owned(), artifacts.clone().map(Json::from));
                ToolEnded { tool_id, exit_code, duration_ms, artifacts }.into()
            }
            Some(error) => ToolFailed { tool_id: tool_id.to_owned(), error: error.clone() }.into(),
        };
        self.recorder.keep(Kept { frames: vec![frame], artifacts: bytes, text: String::new() });
        let [stdout, stderr] = outputs.map(|output| output.shown());
        Done { exit_code, failure, code: None, stdout, stderr, artifacts }
    }

    fn act(&self, allowed: &Allowed<'_>, take: &mut dyn FnMut(Channel, &[u8])) -> Ended {
        let (tools, cancel) = (self.means.tools, self.means.cancel);
        match &allowed.tool.action {
            Action::Command(command) => {
                let job = Job {
                    argv: argv(command, &allowed.arguments),
                    input: allowed.arguments.to_string(),
                    workspace: &tools.workspace,
                    withheld: &tools.withheld,
                    timeout: allowed.tool.timeout,
                    cancel,
                };
                run(&job, take)
            }
            Action::Server(at, tool) => {
                tools.servers[*at].call(tool, &allowed.arguments, cancel, &mut |bytes| take(Channel::Stdout, bytes))
            }
        }
    }

    /// Sets the files of the workspace aside before a tool that may change them.
    fn checkpoint_before(&self, allowed: &Allowed<'_>) -> Result<String> {
        // The frame goes into the session's stream, after all that was said there so far.
        self.recorder.flush();
        let Session { store, run, by, .. } = self.session;
        let (root, name) = (&self.means.tools.workspace, &allowed.tool.spec.name);
        let request = WorkspaceCheckpoint::before_tool(root, run, name, allowed.own_paths());
        Ok(store.workspace_checkpoint(&request, by)?.id)
    }

    /// Keeps the files as the tool left them, and says which are not as they were; `None` when nobody knows.
    fn affected(&mut self, allowed: &Allowed<'_>, before: &str) -> Option<Vec<String>> {
        let Session { store, run, by, .. } = self.session;
        let (root, name) = (&self.means.tools.workspace, &allowed.tool.spec.name);
        self.spent.workspace = None;
        let request = WorkspaceCheckpoint::after_tool(root, run, name, allowed.own_paths());
        let after = store.workspace_checkpoint(&request, by).ok()?.id;
        self.spent.workspace = Some(after.clone());
        let named = |id: &str| store.workspace_checkpoint_named(id).ok();
        let diff = store.workspace_diff(named(before)?, Some(named(&after)?), root, &[]).ok()?;
        let changed = diff.changes.into_iter().map(|change| change.path);
        let all: BTreeSet<String> = changed.chain(allowed.paths.iter().cloned()).collect();
        Some(all.into_iter().filter(|path| !path.is_empty()).take(AFFECTED_MAX).collect())
    }

    fn tell_side_effects(&mut self, allowed: &Allowed<'_>, tool_id: String, before: String) -> Result<()> {
        let affected = self.affected(allowed, &before);
        let session = self.session;
        let body = ToolSideEffects {
            run_session_id: session.run.clone(),
            tool_id,
            tool_name: allowed.tool.spec.name.clone(),
            affected_paths: affected,
            checkpoint_id: Some(before),
            actor_id: session.by.actor_id.clone(),
            origin: session.by.origin.clone(),
        };
        session.store.append_bodies(&session.thread, &[body.into()], Vec::new()).map(drop)
    }

    /// Waits until no other tool changes this workspace, here or in another process. `None` when the run is called off.
    fn alone(&self) -> Result<Option<File>> {
        let dir = self.session.store.dir().join("locks");
        let path = dir.join(Digest::of(self.means.tools.workspace.as_os_str().as_encoded_bytes()).to_hex());
        let failed = |source| ServiceError::File { path: path.clone(), source };
        private::make_dir(&dir).map_err(failed)?;
        let file = private::create_if_missing(&path).map_err(failed)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(file)),
                Err(std::fs::TryLockError::Error(error)) => return Err(failed(error)),
                Err(std::fs::TryLockError::WouldBlock) => thread::sleep(GLANCE),
            }
            if self.means.cancel.load(Ordering::Relaxed) {
                return Ok(None);
            }
        }
    }
}

impl Toolbox {
    /// Whether a model that asked for this would have it done.
    pub fn check_call(&self, name: &str, arguments: &str) -> Result<()> {
        let call = Call { name: name.to_owned(), arguments: arguments.to_owned(), ..Call::default() };
        self.allow(&call).map(drop).map_err(ServiceError::Denied)
    }

    /// Whether a call may be made; else why not, for the model and the log.
    fn allow(&self, call: &Call) -> std::result::Result<Allowed<'_>, Denial> {
        let Some(tool) = self.find(&call.name) else {
            return Err(Denial::Unknown(format!(
                "there is no {:?}; there are: {}",
                call.name,
                self.names().join(", ")
            )));
        };
        let mut arguments: Value = serde_json::from_str(&call.arguments)
            .map_err(|error| Denial::Arguments(format!("they are not JSON: {error}")))?;
        if let Some(faults) = tool.schema.faults(&arguments) {
            return Err(Denial::Arguments(faults));
        }
        let paths = self.within(tool, &mut arguments)?;
        Ok(Allowed { tool, arguments, paths })
    }

    /// Paths among the arguments, each made relative to the workspace.
    fn within(&self, tool: &Declared, arguments: &mut Value) -> std::result::Result<Vec<String>, Denial> {
        let mut found = Vec::new();
        for member in &tool.paths {
            let Some(given) = arguments.get_mut(member) else { continue };
            let texts: Vec<&mut Value> = match given {
                Value::Array(items) => items.iter_mut().collect(),
                one => vec![one],
            };
            for text in texts {
                let path = text.as_str().unwrap_or_default().to_owned();
                let inside = paths::inside(&self.workspace, &path)
                    .ok_or_else(|| Denial::Outside(format!("{path:?} ({member})")))?;
                // A name that begins with a dash is a path all the same.
                *text = format!("./{inside}").into();
                found.push(inside);
            }
        }
        found.sort();
        found.dedup();
        Ok(found)
    }
}

/// What a model reads of a call: the same for the same outcome, whenever it was.
fn told(name: &str, done: Done) -> String {
    let ok = done.exit_code == 0 && done.failure.is_none();
    let mut told =
        json!({"tool": name, "ok": ok, "exit_code": done.exit_code, "stdout": done.stdout, "stderr": done.stderr});
    if let Some(failure) = done.failure {
        told["error"] = failure.into();
    }
    if let Some(code) = done.code {
        told["code"] = code.into();
    }
    if let Some(artifacts) = done.artifacts {
        told["artifacts"] = artifacts;
    }
    told.to_string()
}
