//! Connections to the server: a pool of them, and the threads that drive them.
//!
//! Questions are asked by blocking threads. The connections belong to a small runtime of the engine's own, so that no
//! thread of whoever asks has to drive them. The one that writes is driven by whoever writes: everybody waits for what it
//! does, and to pass each answer from thread to thread would make them wait longer.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{
    Client, Hook, HookError, Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Runtime as PoolRuntime,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::{Address, causes};
use super::fault::Fault;
use crate::Result;
use crate::error::LedgerError;

/// Connections of one process. Each is a process of the server's.
const CONNECTIONS_MAX: usize = 16;
/// Connections for questions that come up while another one is being asked: they must not wait for each other.
const CONNECTIONS_ASIDE_MAX: usize = 2;
/// Threads that drive them: they do little but pass bytes on.
const DRIVERS: usize = 2;
/// Connections of those who write, of whom there is one at a time.
const CONNECTIONS_WRITING_MAX: usize = 1;
const CONNECT_WAIT: Duration = Duration::from_secs(10);
/// How long a question waits for a connection to come free.
const POOL_WAIT: Duration = Duration::from_secs(30);
/// After so long without a sign of life a connection is given up.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// What every connection begins with. A node that stops in the middle of a write keeps others waiting until the server
/// ends its transaction. Rows are asked for by their keys; of a table that has grown since the server last looked, it would
/// rather read the whole. Compiling a question takes longer than any of ours. What the server's owner has set that is
/// stronger stays as it is.
const SESSION: &str = "
    SET client_min_messages = warning;
    SET enable_seqscan = off;
    SET jit = off;
    SET idle_in_transaction_session_timeout = '20s';
    SET lock_timeout = '60s';
    SELECT set_config('synchronous_commit', 'on', false)
        WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')";

pub(super) struct Connections {
    /// `None` only while this is dropped.
    runtime: Option<Runtime>,
    pool: Pool,
    aside: Pool,
    shown: String,
}

impl Connections {
    /// For all who ask at once.
    pub(super) fn new(address: &Address) -> Result<Self> {
        let mut threads = Builder::new_multi_thread();
        threads.worker_threads(DRIVERS).thread_name("postgres");
        Self::driven_by(threads, address, CONNECTIONS_MAX)
    }

    /// For who asks alone, and drives the connection meanwhile.
    pub(super) fn for_one(address: &Address) -> Result<Self> {
        Self::driven_by(Builder::new_current_thread(), address, CONNECTIONS_WRITING_MAX)
    }

    fn driven_by(mut threads: Builder, address: &Address, size: usize) -> Result<Self> {
        let failed = |detail: String| LedgerError::Unreachable { server: address.shown.clone(), detail };
        let runtime = threads.enable_all().build().map_err(|error| failed(error.to_string()))?;
        let tls = tls(address).map_err(failed)?;
        let pool = pool(address, tls.clone(), size).map_err(failed)?;
        let aside = self::pool(address, tls, CONNECTIONS_ASIDE_MAX).map_err(failed)?;
        Ok(Self { runtime: Some(runtime), pool, aside, shown: address.shown.clone() })
    }

    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is taken only when this is dropped")
    }

    pub(super) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime().block_on(work)
    }

    /// Goes on without anybody waiting for it.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.runtime().spawn(work).abort_handle()
    }

    pub(super) async fn client(&self) -> std::result::Result<Client, Fault> {
        self.client_of(&self.pool).await
    }

    /// For whoever may have a connection already.
    pub(super) async fn client_aside(&self) -> std::result::Result<Client, Fault> {
        self.client_of(&self.aside).await
    }

    async fn client_of(&self, pool: &Pool) -> std::result::Result<Client, Fault> {
        let unreachable = |detail| Fault::Lost(LedgerError::Unreachable { server: self.shown.clone(), detail });
        pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
                Fault::connecting(&self.shown, &error)
            }
            PoolError::Timeout(deadpool_postgres::TimeoutType::Wait) => {
                Fault::Final(LedgerError::Busy { doing: "waiting for a connection", waited_s: POOL_WAIT.as_secs() })
            }
            PoolError::Timeout(_) => unreachable("it did not answer in time".to_owned()),
            other => unreachable(causes(&other)),
        })
    }

    /// Closes a connection, whatever state it is in, and with it the transaction that it may be in.
    pub(super) async fn close(client: Client) {
        drop(Client::take(client));
        // It ends where it is driven, which may be here and never again.
        tokio::task::yield_now().await;
    }

    /// Gives up all connections that nobody uses: after one was lost, the others are likely to be as dead.
    pub(super) fn forget(&self) {
        self.pool.retain(|_, _| false);
        self.aside.retain(|_, _| false);
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        self.pool.close();
        self.aside.close();
        // Whoever drops this may be a task of another runtime, where one must not wait.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn pool(address: &Address, tls: ClientConfig, size: usize) -> std::result::Result<Pool, String> {
    let mut config = address.config.clone();
    config.connect_timeout(CONNECT_WAIT).keepalives_idle(SILENCE_MAX).tcp_user_timeout(SILENCE_MAX);
    let tls = MakeRustlsConnect::new(tls);
    let manager = Manager::from_config(config, tls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
    let begin = Hook::async_fn(|client: &mut deadpool_postgres::ClientWrapper, _| {
        Box::pin(async move { client.batch_execute(SESSION).await.map_err(HookError::Backend) })
    });
    Pool::builder(manager)
        .max_size(size)
        .wait_timeout(Some(POOL_WAIT))
        .create_timeout(Some(CONNECT_WAIT))
        .runtime(PoolRuntime::Tokio1)
        .post_create(begin)
        .build()
        .map_err(|error| error.to_string())
}

fn tls(address: &Address) -> std::result::Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    // Reading the system's certificates takes milliseconds that a server on this machine need not cost.
    match &address.root_certificates {
        _ if address.config.get_ssl_mode() == SslMode::Disable => {}
        Some(path) => add_file(&mut roots, path)?,
        None => {
            let system = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(system.certs);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = versions.map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> std::result::Result<(), String> {
    let unreadable = |detail: String| format!("the certificates in {} cannot be read: {detail}", path.display());
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))? {
        let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
    }
    Ok(())
}
