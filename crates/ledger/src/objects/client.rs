//! The client of an object store, and the thread that drives it.

use std::fs::{self, File};
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};
use tokio::runtime::{Builder, Runtime};

use super::address::{ObjectsAddress, ObjectsPlace};
use super::http::Connector;
use crate::private;

/// How often, and for how long, a request is sent again that was answered with 5xx, 429 or not at all.
const RETRIES_MAX: usize = 3;
const RETRY_WAIT: Duration = Duration::from_secs(60);
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// What is copied at once.
const STEP_BYTES: u64 = 1 << 20;

pub(super) struct Client {
    store: Arc<dyn ObjectStore>,
    /// What all names of the store's objects begin with.
    prefix: ObjectPath,
    directory: Option<PathBuf>,
    /// `None` only while this is dropped.
    runtime: Option<Runtime>,
}

impl Client {
    pub(super) fn new(address: &ObjectsAddress, store_id: &str) -> Result<Self, String> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("objects").enable_time().build();
        let runtime = Some(runtime.map_err(|error| error.to_string())?);
        match &address.place {
            ObjectsPlace::Directory(dir) => {
                let dir = dir.join(store_id);
                private::make_dir(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
                let store = LocalFileSystem::new_with_prefix(&dir).map_err(|error| error.to_string())?;
                Ok(Self { store: Arc::new(store), prefix: ObjectPath::default(), directory: Some(dir), runtime })
            }
            ObjectsPlace::Bucket { bucket, prefix } => {
                let store = bucket_client(bucket, address)?;
                let prefix = ObjectPath::from(format!("{prefix}/{store_id}").trim_start_matches('/'));
                Ok(Self { store, prefix, directory: None, runtime })
            }
        }
    }

    pub(super) fn store(&self) -> &dyn ObjectStore {
        &*self.store
    }

    pub(super) fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    pub(super) fn path(&self, name: &str) -> ObjectPath {
        self.prefix.clone().join(name)
    }

    pub(super) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.as_ref().expect("it is taken only when this is dropped").block_on(work)
    }

    /// Copies a file into the directory and syncs it, which the crate does not.
    pub(super) fn put_file(&self, name: &str, from: &File, len: u64) -> io::Result<()> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let dir = self.directory.as_deref().unwrap_or(Path::new("."));
        let new = dir.join(format!("tmp-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
        let mut file = private::create(&new)?;
        let mut at = 0;
        while at < len {
            let bytes = super::part(from, at..len.min(at + STEP_BYTES))?;
            io::Write::write_all(&mut file, &bytes)?;
            at += bytes.len() as u64;
        }
        file.sync_all()?;
        fs::rename(&new, dir.join(name))?;
        File::open(dir)?.sync_all()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Whoever drops this may be a task of another runtime, where one must not wait.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A client with what the environment says: `AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, `AWS_REGION` and so on.
fn bucket_client(bucket: &str, address: &ObjectsAddress) -> Result<Arc<dyn ObjectStore>, String> {
    let (init_backoff, max_backoff) = BACKOFF;
    let backoff = BackoffConfig { init_backoff, max_backoff, base: 2.0 };
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_http_connector(Connector)
        // Not every server knows how to delete several at once, and nobody here does.
        .with_disable_bulk_delete(true)
        .with_retry(RetryConfig { backoff, max_retries: RETRIES_MAX, retry_timeout: RETRY_WAIT });
    if let Some(endpoint) = &address.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    if address.is_anonymous {
        builder = builder.with_skip_signature(true);
    }
    let store = builder.build().map_err(|error| error.to_string())?;
    Ok(Arc::new(store))
}
