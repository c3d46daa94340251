//! One operation as the wire knows it. The table of these (`ops::routes`) drives the router, the OpenAPI document, the
//! MCP tools, and the tests of authorization and parity.

use std::fmt;
use std::sync::Arc;

use enjamb_ledger::{Appended, Batch, Ledger};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::call::{Call, Reply};
use crate::input;
use crate::problem::Result;

/// What a caller has to be allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Anybody who may reach the port: nothing of the store is told.
    Open,
    Read,
    Append,
    Admin,
    /// The owner of the store alone: programs are started on this machine, or files of it looked at. No token gives it.
    Owner,
}

impl Scope {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::Append => "append",
            Self::Admin => "admin",
            Self::Owner => "owner",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// What the body of a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    Nothing,
    /// One JSON object, the members of which are parameters.
    Json,
    /// Frames: a JSON array of them, one of them, or one a line. They are kept byte for byte.
    Frames,
    /// Bytes of any length, never held in memory as a whole.
    Bytes,
}

/// What the body of an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    Json,
    Bytes,
    /// Server-sent events.
    Events,
    Text,
    /// A page for people.
    Page,
}

type Run = dyn Fn(&Call) -> Result<Reply> + Send + Sync;
type Prepare = dyn Fn(&Call) -> Result<Batch> + Send + Sync;

/// An operation that waits for nothing but an append: what is appended, and what is answered when it is on disk.
pub struct Appends {
    pub batch: Box<Prepare>,
    pub answer: fn(&Appended) -> Reply,
}

/// An operation: where it is, who may, what it takes and gives, and how it is done.
#[derive(Clone)]
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    /// The name of the operation, the same on every surface.
    pub operation: &'static str,
    pub scope: Scope,
    pub summary: &'static str,
    pub takes: Takes,
    pub gives: Gives,
    /// The status of an answer when all went well.
    pub status: u16,
    /// Reading it is told in the audit stream, when somebody else does.
    pub watched: bool,
    /// Speaks as the seed project's server does: bare statuses, and unknown members are passed over.
    pub seed: bool,
    input: fn(&mut SchemaGenerator) -> Schema,
    output: Option<fn(&mut SchemaGenerator) -> Schema>,
    run: Arc<Run>,
    appends: Option<Arc<Appends>>,
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.method.as_str(), self.path, self.operation)
    }
}

/// A route whose handler is still to be named.
#[derive(Clone, Copy, Debug)]
pub struct Draft {
    method: Method,
    path: &'static str,
    operation: &'static str,
    scope: Scope,
    summary: &'static str,
    takes: Takes,
    gives: Gives,
    status: u16,
    watched: bool,
    seed: bool,
}

/// An operation, its address and its scope; how it is done follows.
pub fn at(method: Method, path: &'static str, operation: &'static str, scope: Scope, summary: &'static str) -> Draft {
    let takes = match method {
        Method::Get | Method::Delete => Takes::Nothing,
        Method::Post | Method::Put | Method::Patch => Takes::Json,
    };
    let (gives, status) = (Gives::Json, 200);
    Draft { method, path, operation, scope, summary, takes, gives, status, watched: false, seed: false }
}

impl Draft {
    #[must_use]
    pub const fn takes(mut self, takes: Takes) -> Self {
        self.takes = takes;
        self
    }

    #[must_use]
    pub const fn gives(mut self, gives: Gives) -> Self {
        self.gives = gives;
        self
    }

    #[must_use]
    pub const fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    #[must_use]
    pub const fn watched(mut self) -> Self {
        self.watched = true;
        self
    }

    #[must_use]
    pub const fn seed(mut self) -> Self {
        self.seed = true;
        self
    }

    /// Parameters in, a JSON document out.
    pub fn json<I, O>(self, run: fn(&Call, I) -> Result<O>) -> Route
    where
        I: DeserializeOwned + JsonSchema + 'static,
        O: Serialize + JsonSchema + 'static,
    {
        let status = self.status;
        let mut route = self.replies::<I>(move |call, input| Ok(Reply::json(status, &run(call, input)?)));
        route.output = Some(|schemas| schemas.subschema_for::<O>());
        route
    }

    /// Parameters in, a JSON document out, with a status or headers that depend.
    pub fn answers<I, O>(self, run: fn(&Call, I) -> Result<Reply>) -> Route
    where
        I: DeserializeOwned + JsonSchema + 'static,
        O: JsonSchema + 'static,
    {
        let mut route = self.replies::<I>(run);
        route.output = Some(|schemas| schemas.subschema_for::<O>());
        route
    }

    /// Parameters in, a batch out; when it is on disk, a JSON document with a status and headers that depend.
    pub fn appends<I, O>(self, batch: fn(&Call, I) -> Result<Batch>, answer: fn(&Appended) -> Reply) -> Route
    where
        I: DeserializeOwned + JsonSchema + 'static,
        O: JsonSchema + 'static,
    {
        let run = move |call: &Call, input| {
            let stored = call.store().ledger().append(batch(call, input)?);
            Ok(answer(&stored.map_err(enjamb_service::ServiceError::from)?))
        };
        let mut route = self.replies::<I>(run);
        route.output = Some(|schemas| schemas.subschema_for::<O>());
        let batch = Box::new(move |call: &Call| batch(call, input::read(&call.params)?));
        route.appends = Some(Arc::new(Appends { batch, answer }));
        route
    }

    /// Parameters in, whatever the operation makes of them out.
    pub fn replies<I>(self, run: impl Fn(&Call, I) -> Result<Reply> + Send + Sync + 'static) -> Route
    where
        I: DeserializeOwned + JsonSchema + 'static,
    {
        Route {
            method: self.method,
            path: self.path,
            operation: self.operation,
            scope: self.scope,
            summary: self.summary,
            takes: self.takes,
            gives: self.gives,
            status: self.status,
            watched: self.watched,
            seed: self.seed,
            input: |schemas| I::json_schema(schemas),
            output: None,
            run: Arc::new(move |call| run(call, input::read(&call.params)?)),
            appends: None,
        }
    }
}

impl Route {
    pub fn run(&self, call: &Call) -> Result<Reply> {
        (self.run)(call)
    }

    /// How it is done without a thread that waits, if it can be.
    pub fn as_append(&self) -> Option<&Appends> {
        self.appends.as_deref()
    }

    /// The parameters, as one object: those of the path, the query and the body.
    pub fn input(&self, schemas: &mut SchemaGenerator) -> Schema {
        (self.input)(schemas)
    }

    pub fn output(&self, schemas: &mut SchemaGenerator) -> Option<Schema> {
        self.output.map(|output| output(schemas))
    }

    /// The names between braces in the path.
    pub fn path_names(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    /// Whether it changes anything.
    pub fn writes(&self) -> bool {
        self.method != Method::Get
    }

    /// Whether the key of a request is kept in the log with what it wrote, so that it holds across restarts.
    pub fn keeps_key(&self) -> bool {
        matches!(self.operation, "append" | "append_any" | "post" | "seed_post" | "start_run")
    }

    /// Whether what it appends can carry the key of its request: gone through again, it comes to the same batches. What
    /// goes by what the store lacks (jobs, packs, maintenance, syncs) finds nothing left to do instead.
    pub fn carries_key(&self) -> bool {
        const CARRY: &[&str] = &[
            "branch",
            "cancel_job",
            "checkpoint",
            "checkpoint_workspace",
            "compact",
            "compact_chain",
            "create_thread",
            "delete_ref",
            "fork",
            "handoff",
            "link",
            "move_ref",
            "note",
            "pin",
            "pin_message",
            "reference",
            "rotate_cursor",
            "run_task",
            "seed_branch",
            "seed_compact",
            "seed_ensure",
            "seed_handoff",
            "seed_rotate_cursor",
            "seed_run_task",
            "set_cursor",
            "snapshot",
            "tag",
            "unlink",
            "unpin_message",
            "untag",
            "update_thread",
        ];
        CARRY.binary_search(&self.operation).is_ok()
    }

    /// The parameters that have to be given.
    pub fn required(&self) -> Vec<String> {
        let schema = self.input(&mut SchemaGenerator::default()).to_value();
        let names = schema["required"].as_array().into_iter().flatten();
        names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
    }

    /// The schema of each parameter by its name.
    pub fn properties(&self) -> Vec<(String, Value)> {
        let mut schemas = SchemaGenerator::default();
        let schema = self.input(&mut schemas).to_value();
        let members = schema["properties"].as_object().cloned().unwrap_or_default();
        members.into_iter().collect()
    }
}
