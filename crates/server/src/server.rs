//! A server from its beginning to its end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::app::{App, Patience};
use crate::audit::Entry;
use crate::auth::{Oidc, OidcError, OidcOptions, TokenError, Tokens};
use crate::follower::Pace;
use crate::gate::Gate;
use crate::http;
use crate::lane::Lanes;
use crate::limit::{Bounds, Limiter};
use crate::listen::{self, Bound, ListenError, Places, Refused, TlsFiles};
use crate::otel::Exporter;
use crate::runner::Runner;
use crate::space::{Space, Spaces};

/// Threads that wait for disks on behalf of requests.
const BLOCKING_MAX: usize = 512;
/// How long turns that are called off may take to be recorded.
const TURNS_END: std::time::Duration = std::time::Duration::from_secs(5);

/// How to serve a store.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The store's directory; it is made if it is not there.
    pub dir: PathBuf,
    pub listen: SocketAddr,
    /// Names that it answers for, besides those of this machine.
    pub hosts: Vec<String>,
    pub tls: Option<TlsFiles>,
    /// Listen beyond this machine without TLS.
    pub plain_ok: bool,
    /// Take a socket that was opened for this process (`LISTEN_FDS`) instead of opening one.
    pub inherit: bool,
    /// A provider whose tokens are taken as well.
    pub oidc: Option<OidcOptions>,
    /// A collector of OpenTelemetry, by its address without a path, which is sent a span for each request.
    pub otel_endpoint: Option<String>,
    pub bounds: Bounds,
    pub patience: Patience,
    pub pace: Pace,
    /// With what tasks and turns of the owner are run; none are without it.
    pub runner: Option<Runner>,
}

impl ServeOptions {
    /// A store on a port of this machine.
    pub fn local(dir: impl Into<PathBuf>, port: u16) -> Self {
        Self {
            dir: dir.into(),
            listen: SocketAddr::from(([127, 0, 0, 1], port)),
            hosts: Vec::new(),
            tls: None,
            plain_ok: false,
            inherit: false,
            oidc: None,
            otel_endpoint: None,
            bounds: Bounds::default(),
            patience: Patience::default(),
            pace: Pace::default(),
            runner: None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Store(#[from] enjamb_service::ServiceError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Oidc(#[from] OidcError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("cannot start the server: {0}")]
    Start(std::io::Error),
}

/// Where a server can be found.
#[derive(Clone, Debug)]
pub struct Served {
    pub address: SocketAddr,
    pub socket: PathBuf,
    pub is_tls: bool,
}

/// A server that is ready to be run.
pub struct Server {
    runtime: Runtime,
    /// Where followers are served: there are many of them, and requests are not to wait for them.
    lanes: Lanes,
    app: Arc<App>,
    bound: Bound,
    end: watch::Sender<bool>,
}

impl Server {
    /// Opens the store and the sockets.
    pub fn bind(options: ServeOptions) -> Result<Self, ServeError> {
        let spaces = Spaces::open(&options.dir, options.runner)?;
        let tokens = Tokens::of(&options.dir);
        let owner = tokens.owner()?;
        let bound = Bound::new(&Places {
            tcp: options.listen,
            dir: options.dir,
            tls: options.tls,
            plain_ok: options.plain_ok,
            inherit: options.inherit,
        })?;
        let (end, ending) = watch::channel(false);
        let gate = Gate::new(options.hosts);
        let mut app = App::new(spaces, tokens, &owner, gate, ending);
        app.limiter = Limiter::new(options.bounds);
        app.oidc = options.oidc.map(Oidc::new).transpose()?.map(Arc::new);
        app.spans = options.otel_endpoint.as_deref().map(Exporter::start);
        app.patience = options.patience;
        app.pace = options.pace;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .worker_threads(request_threads())
            .max_blocking_threads(BLOCKING_MAX)
            .build()
            .map_err(ServeError::Start)?;
        let lanes = Lanes::new().map_err(ServeError::Start)?;
        Ok(Self { runtime, lanes, app: Arc::new(app), bound, end })
    }

    pub fn served(&self) -> Served {
        let is_tls = self.bound.is_tls();
        Served { address: self.bound.address, socket: self.bound.socket.clone(), is_tls }
    }

    /// Serves until the process is told to end.
    pub fn run(self) -> Result<(), ServeError> {
        let end = self.end.clone();
        self.runtime.spawn(async move {
            told_to_end().await;
            // Nobody listens any more when the server has ended by itself.
            let _ = end.send(true);
        });
        self.serve()
    }

    fn serve(self) -> Result<(), ServeError> {
        let Self { runtime, lanes, app, bound, end } = self;
        let front = http::Front::new(&app);
        let main = app.spaces.main().clone();
        let refused: Refused = Arc::new(move |uid| main.audit.note(Entry::refused(uid)));
        let ending = app.ending.clone();
        let served = runtime.block_on(listen::serve(bound, front, ending, lanes.road(), refused));
        drop(end);
        for space in app.spaces.all() {
            space.turns.end(TURNS_END);
            space.appender.finish();
            space.hub.end();
            space.audit.finish();
        }
        if let Some(spans) = &app.spans {
            spans.finish();
        }
        lanes.end();
        runtime.shutdown_timeout(std::time::Duration::from_secs(5));
        served.map_err(ServeError::Start)
    }

    /// Serves on a thread, until told to stop.
    pub fn start(self) -> Running {
        let (served, end) = (self.served(), self.end.clone());
        Running { served, end, thread: Some(std::thread::spawn(move || self.serve())) }
    }
}

/// Serves a store over stdin and stdout by the Model Context Protocol, to the program that started us.
pub fn serve_mcp(store: enjamb_service::Store, by: crate::call::Surroundings) -> Result<(), ServeError> {
    crate::mcp::serve_stdio(Space::new(Arc::new(store)), by)
}

/// A server on a thread of this process. It ends when this is dropped.
pub struct Running {
    pub served: Served,
    end: watch::Sender<bool>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

impl Running {
    /// Ends it, and returns when it has ended.
    pub fn stop(&mut self) {
        // It may have ended by itself.
        let _ = self.end.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Threads that speak HTTP. A processor is left for who stores what they take in: one more of them would merely take turns
/// with it, and on two processors have those who wait for it wait longer.
fn request_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |processors| processors.get() - 1).max(1)
}

async fn told_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        tracing::error!("cannot listen to signals: only a kill ends this server");
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
