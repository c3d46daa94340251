//! Operations that run: how many at once, on which threads, and who is told of them.

use std::sync::Arc;

use enjamb_ledger::Ledger;
use enjamb_service::ServiceError;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::app::App;
use crate::audit::Entry;
use crate::call::{Call, Reply};
use crate::limit::Limiter;
use crate::problem::{Problem, Result};
use crate::route::{Appends, Route};

/// A body of so many bytes is read while others wait for the thread; larger ones are read on a thread of their own.
const AT_ONCE_BYTES_MAX: usize = 64 << 10;

/// Runs an operation and tells of it. One that only appends leaves its batch to the store's appender; others get a
/// thread to wait on.
pub async fn run(app: &Arc<App>, route: &Arc<Route>, call: Call, entry: Option<Entry>) -> Result<Reply> {
    let permit = permit(app).await?;
    match route.as_append() {
        Some(appends) if call.is_small(AT_ONCE_BYTES_MAX) && !has_bounds(&app.limiter, &call) => {
            let ran = append(app, appends, &call).await;
            if let Some(entry) = tell(route, &call, entry, &ran) {
                // It waits to be written, and others are not to wait as well.
                joined(spawn_blocking(move || call.space.audit.note(entry)).await)?;
            }
            ran
        }
        _ => {
            let (app, route) = (app.clone(), route.clone());
            let ran = spawn_blocking(move || {
                let _permit = permit;
                let ran = check_room(&app.limiter, &route, &call).and_then(|()| go_through(&route, &call));
                if let Some(entry) = tell(&route, &call, entry, &ran) {
                    call.space.audit.note(entry);
                }
                ran
            });
            joined(ran.await)?
        }
    }
}

/// Does what is asked; once more if it had been done before a restart, which is found out on the way.
fn go_through(route: &Route, call: &Call) -> Result<Reply> {
    let ran = route.run(call);
    let ran = if call.store().is_to_repeat() { route.run(call) } else { ran };
    let is_repeated = call.store().is_repeated();
    ran.map(|reply| if is_repeated { reply.header("idempotency-replayed", "true") } else { reply })
}

async fn append(app: &App, appends: &Appends, call: &Call) -> Result<Reply> {
    let _passing = app.right_of_way.pass();
    let stored = call.space.appender.append((appends.batch)(call)?).await;
    let stored = stored.map_err(|_| mistake())?.map_err(ServiceError::from)?;
    Ok((appends.answer)(&stored))
}

/// Tells followers and the audit stream what came of a call. An entry that the audit stream has no room for is given back.
fn tell(route: &Route, call: &Call, entry: Option<Entry>, ran: &Result<Reply>) -> Option<Entry> {
    if route.writes() {
        call.space.hub.wake();
    }
    let mut entry = entry?;
    entry.status = ran.as_ref().map_or_else(|problem| problem.status, |reply| reply.status);
    call.space.audit.try_note(entry)
}

/// Whether a namespace may hold more than it does. What is logical counts: nobody learns what others have stored.
fn check_room(limiter: &Limiter, route: &Route, call: &Call) -> Result<()> {
    if !route.writes() || !has_bounds(limiter, call) {
        return Ok(());
    }
    let bounds = limiter.bounds();
    let totals = call.store().ledger().totals()?;
    let over = |used: u64, limit: Option<u64>| limit.filter(|limit| used >= *limit).map(|limit| (used, limit));
    let full = |status, what: &str, (used, limit): (u64, u64)| {
        let title = format!("this namespace has {used} {what}, and may have {limit}");
        Err(Problem::new(status, "quota", title).with("used", used).with("limit", limit))
    };
    let bytes = totals.frame_bytes + totals.artifact_bytes;
    match (over(bytes, bounds.namespace_bytes_max), over(totals.streams, bounds.namespace_streams_max)) {
        (Some(over), _) => full(507, "bytes", over),
        (None, Some(over)) => full(429, "streams", over),
        (None, None) => Ok(()),
    }
}

fn has_bounds(limiter: &Limiter, call: &Call) -> bool {
    let bounds = limiter.bounds();
    call.caller.namespace.is_some() && (bounds.namespace_bytes_max.is_some() || bounds.namespace_streams_max.is_some())
}

pub async fn permit(app: &Arc<App>) -> Result<OwnedSemaphorePermit> {
    let busy = || Problem::new(503, "busy", "too much is going on: try again").header("retry-after", "1");
    if let Ok(permit) = app.running.clone().try_acquire_owned() {
        return Ok(permit);
    }
    let waited = Box::pin(timeout(app.patience.queue, app.running.clone().acquire_owned())).await;
    waited.map_err(|_| busy())?.map_err(|_| Problem::shutting_down())
}

/// What a thread came back with. One that panicked is our mistake, and the request's alone.
pub fn joined<T>(joined: std::result::Result<T, tokio::task::JoinError>) -> Result<T> {
    joined.map_err(|error| {
        tracing::error!(%error, "an operation panicked");
        mistake()
    })
}

fn mistake() -> Problem {
    Problem::new(500, "internal", "the server made a mistake: its log says more")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::body::Body;
    use axum::extract::Request;
    use enjamb_ledger::{SqliteLedger, SqliteOptions};
    use enjamb_service::{Env, Store};
    use enjamb_testkit::faulty::{Fault, FaultError, FaultyVfs, OpKind, Times};
    use http_body_util::BodyExt;
    use serde_json::Value;
    use tokio::sync::watch;

    use crate::app::App;
    use crate::auth::{Secret, Tokens};
    use crate::gate::Gate;
    use crate::space::Spaces;

    /// A server on a disk that fails on request, asked without a socket.
    struct Trouble {
        _dir: tempfile::TempDir,
        vfs: Arc<FaultyVfs>,
        app: Arc<App>,
        owner: String,
        runtime: tokio::runtime::Runtime,
    }

    impl Trouble {
        fn new(name: &str) -> Self {
            let (dir, vfs) = (tempfile::tempdir().unwrap(), FaultyVfs::register(name).unwrap());
            vfs.watch(dir.path()).unwrap();
            let options = SqliteOptions { vfs: Some(name.to_owned()) };
            let store = Store::over(SqliteLedger::create(dir.path(), options, "store").unwrap(), Env::system());
            let tokens = Tokens::of(dir.path());
            let secret = Secret::new().unwrap();
            let owner = secret.reveal().to_owned();
            let app =
                Arc::new(App::new(Spaces::new(store, None), tokens, &secret, Gate::new([]), watch::channel(false).1));
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
            Self { _dir: dir, vfs, app, owner, runtime }
        }

        fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
            let front = crate::http::Front::new(&self.app);
            let request = Request::builder().method(method).uri(path).header("host", "localhost");
            let request = request.header("authorization", format!("Bearer {}", self.owner));
            let request = request.header("content-type", "application/json").body(Body::from(body.to_owned())).unwrap();
            self.runtime.block_on(async move {
                let answer = front.answer(request).await;
                let status = answer.status().as_u16();
                let body = answer.into_body().collect().await.unwrap().to_bytes();
                (status, serde_json::from_slice(&body).unwrap())
            })
        }

        /// What an append comes to: by the appender, or by a thread that waits, as posting does.
        fn write(&self, path: &str, body: &str) -> (u16, String, String) {
            let (status, said) = self.ask("POST", path, body);
            let text = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
            (status, text("code"), text("outcome"))
        }

        fn fail(&self, op: OpKind, error: FaultError) {
            self.vfs.fail(Fault { op, file_suffix: Some("-wal"), nth: 1, times: Times::Once, error });
        }
    }

    fn told(status: u16, code: &str, outcome: &str) -> (u16, String, String) {
        (status, code.to_owned(), outcome.to_owned())
    }

    const WRITES: [(&str, &str); 2] =
        [("/v1/streams/note/a/frames", r#"{"type":"said"}"#), ("/v1/threads", r#"{"title":"x"}"#)];

    #[test]
    fn a_full_disk_is_told_and_costs_nothing() {
        let trouble = Trouble::new("server-full");
        for (path, body) in WRITES {
            assert_eq!(trouble.write(path, body).0, 201);
            trouble.fail(OpKind::Write, FaultError::Enospc);
            assert_eq!(trouble.write(path, body), told(507, "storage-full", "none"), "{path}");
            trouble.vfs.clear_faults();
            assert_eq!(trouble.write(path, body).0, 201, "it goes on when there is room");
        }
        assert_eq!(trouble.ask("GET", "/v1/streams/note/a", "").1["frames"], 2, "what was refused is not there");
    }

    #[test]
    fn after_a_failed_sync_nothing_is_written_and_all_can_be_read() {
        for (name, (path, body)) in ["server-sync-append", "server-sync-thread"].into_iter().zip(WRITES) {
            let trouble = Trouble::new(name);
            assert_eq!(trouble.write(path, body).0, 201);
            trouble.fail(OpKind::Sync, FaultError::Eio);
            let (status, _, outcome) = trouble.write(path, body);
            assert_eq!((status, outcome.as_str()), (503, "indeterminate"), "{path}");
            trouble.vfs.clear_faults();
            for (path, body) in WRITES {
                assert_eq!(trouble.write(path, body), told(503, "storage-poisoned", "none"), "{path}");
            }
            assert_eq!(trouble.ask("GET", "/v1/streams", "").0, 200);
        }
    }
}
