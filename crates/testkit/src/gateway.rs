//! A real S3 server for tests: Ceph's gateway over a cluster of one, in memory, listening on the loopback alone, gone when
//! dropped.
//!
//! `cargo xtask test` starts one for all tests and names it in [`VARIABLE`]. A test that runs without it starts its own.

mod cluster;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::aws::AmazonS3Builder;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::path::Path as ObjectPath;
use object_store::signer::{Method, Signer};

pub use cluster::Cluster;

/// Holds the endpoint of a server that is there for all tests.
pub const VARIABLE: &str = "ENJAMB_S3";

const ACCESS_KEY: &str = "tests";
const SECRET_KEY: &str = "not-a-secret";

/// A server that tests may use.
pub enum Gateway {
    Shared(String),
    Own(Box<Cluster>),
}

impl Gateway {
    /// The one that all tests share, or one of its own. `None` when it is not installed: `cargo xtask test` installs it.
    pub fn find() -> Option<Self> {
        match std::env::var(VARIABLE) {
            Ok(endpoint) if !endpoint.is_empty() => Some(Self::Shared(endpoint)),
            _ => Cluster::start().map(|cluster| Self::Own(Box::new(cluster))),
        }
    }

    pub fn endpoint(&self) -> String {
        match self {
            Self::Shared(endpoint) => endpoint.clone(),
            Self::Own(cluster) => cluster.endpoint(),
        }
    }

    /// What a program's environment has to say so that it may use the server.
    pub fn environment(&self) -> [(&'static str, String); 4] {
        [
            ("AWS_ENDPOINT_URL", self.endpoint()),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.to_owned()),
            ("AWS_REGION", "default".to_owned()),
        ]
    }

    /// Makes a bucket for one test, and returns its name.
    pub fn bucket(&self) -> String {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let status = self.put(&name);
        assert!(status.contains(" 200 "), "the bucket {name} could not be made: {status}");
        name
    }

    /// Sends a signed request for a bucket to be made, which is all that the client cannot do.
    fn put(&self, bucket: &str) -> String {
        let builder = AmazonS3Builder::new().with_bucket_name(bucket).with_endpoint(self.endpoint());
        let builder = builder.with_access_key_id(ACCESS_KEY).with_secret_access_key(SECRET_KEY);
        let client = builder.with_http_connector(Unused).build().expect("a client");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let path = ObjectPath::default();
        let signed = client.signed_url(Method::PUT, &path, Duration::from_secs(60));
        let url = runtime.block_on(signed).expect("a signed address").to_string();
        let (host, target) = url.trim_start_matches("http://").split_once('/').expect("a path");
        let mut connection = TcpStream::connect(host).expect("the server listens");
        let request =
            format!("PUT /{target} HTTP/1.1\r\nhost: {host}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        connection.write_all(request.as_bytes()).expect("the request is sent");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).expect("an answer");
        answer
    }
}

/// A client that only signs has nobody to talk to.
#[derive(Debug)]
struct Unused;

impl HttpConnector for Unused {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Self))
    }
}

#[async_trait]
impl HttpService for Unused {
    async fn call(&self, _: HttpRequest) -> Result<HttpResponse, HttpError> {
        Err(HttpError::new_boxed(HttpErrorKind::Unknown, "nothing is sent".into()))
    }
}
