//! Sockets: where the server listens, who is let in by them, and how it ends.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as StdTcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use axum::extract::Request;
use axum::http::header::CONTENT_LENGTH;
use axum::response::Response;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::alarm::Alarm;
use crate::app::Peer;
use crate::follower::Follower;
use crate::http::Front;
use crate::impatient::Impatient;
use crate::lane::Road;

/// Connections that are open at once.
const CONNECTIONS_MAX: usize = 8_192;
const HEADERS_WITHIN: Duration = Duration::from_secs(30);
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
const WRITE_WITHIN: Duration = Duration::from_secs(30);
/// How long requests may take to end when the server does.
const GRACE: Duration = Duration::from_secs(10);
/// What a connection holds on its way in, and on its way out.
const BUFFER: usize = 32 << 10;
const SOCKET: &str = "sock";

/// Where to listen.
#[derive(Clone, Debug)]
pub struct Places {
    pub tcp: SocketAddr,
    /// The store's directory, in which the unix socket is.
    pub dir: PathBuf,
    pub tls: Option<TlsFiles>,
    /// Listen beyond this machine without TLS: somebody else sees to it.
    pub plain_ok: bool,
    /// Take sockets that whoever started us has opened already, as systemd does (`LISTEN_FDS`).
    pub inherit: bool,
}

/// A certificate chain and its key, both as PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error(
        "{0} is reachable from other machines, and nothing would be encrypted: give --tls-cert and --tls-key, or --plain-http if something before it encrypts"
    )]
    Open(SocketAddr),
    #[error("cannot listen on {at}: {source}")]
    Tcp { at: SocketAddr, source: io::Error },
    #[error("cannot listen on {}: {source}", path.display())]
    Unix { path: PathBuf, source: io::Error },
    #[error("another server has the store: it listens on {}", .0.display())]
    Served(PathBuf),
    #[error("{}: {detail}", path.display())]
    Tls { path: PathBuf, detail: String },
}

/// Sockets that are bound, and listened to by nobody yet.
pub struct Bound {
    tcp: StdTcpListener,
    unix: StdUnixListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    pub address: SocketAddr,
    pub socket: PathBuf,
    owner: u32,
}

impl Bound {
    pub fn new(places: &Places) -> Result<Self, ListenError> {
        let given = if places.inherit { inherited() } else { None };
        let at = given.as_ref().and_then(|tcp| tcp.local_addr().ok()).unwrap_or(places.tcp);
        if !is_local(at.ip()) && places.tls.is_none() && !places.plain_ok {
            return Err(ListenError::Open(at));
        }
        let tls = places.tls.as_ref().map(tls_config).transpose()?;
        let failed = |source| ListenError::Tcp { at, source };
        let tcp = given.map_or_else(|| StdTcpListener::bind(at).map_err(failed), Ok)?;
        let address = tcp.local_addr().map_err(failed)?;
        let (unix, owner) = bind_unix(&places.dir)?;
        Ok(Self { tcp, unix, tls, address, socket: places.dir.join(SOCKET), owner })
    }

    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }
}

/// The socket of a store, where a server that runs can be found.
pub fn socket_of(dir: &Path) -> PathBuf {
    dir.join(SOCKET)
}

/// The first TCP socket that was opened for us.
fn inherited() -> Option<StdTcpListener> {
    let mut given = listenfd::ListenFd::from_env();
    (0..given.len()).find_map(|at| given.take_tcp_listener(at).ok().flatten())
}

fn is_local(ip: IpAddr) -> bool {
    ip.is_loopback()
}

/// Binds the socket, in place of one that nobody listens to any more.
fn bind_unix(dir: &Path) -> Result<(StdUnixListener, u32), ListenError> {
    let path = dir.join(SOCKET);
    let failed = |source| ListenError::Unix { path: path.clone(), source };
    if path.exists() {
        if std::os::unix::net::UnixStream::connect(&path).is_ok() {
            return Err(ListenError::Served(path));
        }
        std::fs::remove_file(&path).map_err(failed)?;
    }
    let unix = StdUnixListener::bind(&path).map_err(failed)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    let owner = std::fs::metadata(&path).map_err(failed)?.uid();
    Ok((unix, owner))
}

fn tls_config(files: &TlsFiles) -> Result<Arc<rustls::ServerConfig>, ListenError> {
    let bad = |path: &Path, detail: String| ListenError::Tls { path: path.to_owned(), detail };
    let certificates = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| bad(&files.certificate, error.to_string()))?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| bad(&files.key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|error| bad(&files.certificate, error.to_string()))?;
    Ok(Arc::new(config))
}

/// Serves until told to end, then lets what goes on come to its end.
pub async fn serve(
    bound: Bound,
    front: Front,
    ending: watch::Receiver<bool>,
    road: Road,
    refused: Refused,
) -> io::Result<()> {
    bound.tcp.set_nonblocking(true)?;
    bound.unix.set_nonblocking(true)?;
    let (tcp, unix) = (TcpListener::from_std(bound.tcp)?, UnixListener::from_std(bound.unix)?);
    let (open, mut all_closed) = mpsc::channel::<()>(1);
    let connections = Connections {
        front,
        ending: ending.clone(),
        slots: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        open,
        road,
        refused,
    };
    let by_tcp = tokio::spawn(accept_tcp(tcp, bound.tls.map(TlsAcceptor::from), connections.clone()));
    let by_unix = tokio::spawn(accept_unix(unix, bound.owner, connections));
    let mut end = ending;
    // An error says that whoever could tell us to end is gone.
    let _ = end.wait_for(|ending| *ending).await;
    by_tcp.abort();
    by_unix.abort();
    let _ = std::fs::remove_file(&bound.socket);
    // Every connection holds a sender; when the last is gone, so are they all.
    let _ = timeout(GRACE, async {
        let _ = (by_tcp.await, by_unix.await);
        all_closed.recv().await
    })
    .await;
    Ok(())
}

#[derive(Clone)]
struct Connections {
    front: Front,
    ending: watch::Receiver<bool>,
    slots: Arc<Semaphore>,
    open: mpsc::Sender<()>,
    road: Road,
    refused: Refused,
}

/// Told of another user at the unix socket.
pub type Refused = Arc<dyn Fn(Option<u32>) + Send + Sync>;

/// Goes with an answer that is to be followed by events: the connection is taken from HTTP and served aside, where it
/// holds up nobody and needs no buffers.
#[derive(Clone)]
pub struct Aside(Arc<Mutex<Option<Follower>>>);

impl Aside {
    pub fn of(follower: Follower) -> Self {
        Self(Arc::new(Mutex::new(Some(follower))))
    }

    fn take(&self) -> Option<Follower> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
    }
}

/// Where an answer waits that goes aside: its head, and who follows.
type Parting = Arc<Mutex<Option<(Vec<u8>, Follower)>>>;

/// Answers a request. An answer that goes aside is left in its place, and this never returns.
async fn answer(front: Front, request: Request, parting: Parting) -> Result<Response, Infallible> {
    let response = front.answer(request).await;
    let Some(follower) = response.extensions().get::<Aside>().and_then(Aside::take) else { return Ok(response) };
    *parting.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some((head(&response), follower));
    std::future::pending().await
}

/// An answer as it begins on the wire. It has no length: it ends with the connection.
fn head(response: &Response) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {}\r\n", response.status()).into_bytes();
    for (name, value) in response.headers().iter().filter(|(name, _)| *name != CONTENT_LENGTH) {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}

async fn accept_tcp(listener: TcpListener, tls: Option<TlsAcceptor>, connections: Connections) {
    loop {
        let Ok(slot) = connections.slots.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                give_way(&error).await;
                continue;
            }
        };
        // Answers are small and each is waited for.
        let _ = stream.set_nodelay(true);
        let (connections, tls) = (connections.clone(), tls.clone());
        tokio::spawn(async move {
            match tls {
                None => connections.run(stream, Peer::Network, slot).await,
                Some(tls) => {
                    if let Ok(Ok(stream)) = timeout(HANDSHAKE_WITHIN, tls.accept(stream)).await {
                        connections.run(stream, Peer::Network, slot).await;
                    }
                }
            }
        });
    }
}

async fn accept_unix(listener: UnixListener, owner: u32, connections: Connections) {
    loop {
        let Ok(slot) = connections.slots.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                give_way(&error).await;
                continue;
            }
        };
        // The file's mode keeps others out; where it does not, this does.
        let uid = stream.peer_cred().map(|credentials| credentials.uid()).ok();
        if !uid.is_some_and(|uid| is_let_in(uid, owner)) {
            tracing::warn!(?uid, "another user tried the unix socket");
            (connections.refused)(uid);
            continue;
        }
        let connections = connections.clone();
        tokio::spawn(connections.run(stream, Peer::Owner, slot));
    }
}

/// Root may everything anyway.
fn is_let_in(uid: u32, owner: u32) -> bool {
    uid == owner || uid == 0
}

/// Out of descriptors, say: others end while we wait.
async fn give_way(error: &io::Error) {
    tracing::warn!(%error, "cannot accept a connection");
    tokio::time::sleep(Duration::from_millis(50)).await;
}

impl Connections {
    async fn run<S>(self, stream: S, peer: Peer, slot: OwnedSemaphorePermit)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Self { front, mut ending, open, road, .. } = self;
        let held = (slot, open);
        let parting = Parting::default();
        let left = parting.clone();
        let service = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let mut request: Request = request.map(axum::body::Body::new);
            request.extensions_mut().insert(peer);
            answer(front.clone(), request, left.clone())
        });
        let io = TokioIo::new(Impatient::new(stream, WRITE_WITHIN));
        let mut http = http1::Builder::new();
        http.timer(Alarm::default()).header_read_timeout(HEADERS_WITHIN).max_buf_size(BUFFER);
        let mut connection = http.serve_connection(io, service);
        let goes_aside = poll_fn(|cx| match Pin::new(&mut connection).poll(cx) {
            // Broken connections are the other side's business.
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => match parting.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take() {
                Some(parted) => Poll::Ready(Some(parted)),
                None => Poll::Pending,
            },
        });
        let (parted, is_end) = tokio::select! {
            parted = goes_aside => (parted, false),
            _ = ending.wait_for(|ending| *ending) => (None, true),
        };
        if is_end {
            Pin::new(&mut connection).graceful_shutdown();
            let _ = connection.await;
            return;
        }
        if let Some((head, follower)) = parted {
            let stream = connection.into_parts().io.into_inner();
            let lane = road.lane();
            lane.threads.clone().spawn(async move {
                let is_crowded = lane.is_crowded();
                let _held = (held, lane);
                follower.serve(stream, head, is_crowded).await;
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_is_for_its_owner_and_root() {
        assert!(is_let_in(1000, 1000) && is_let_in(0, 1000));
        assert!(!is_let_in(1001, 1000) && !is_let_in(65534, 0));
    }
}
