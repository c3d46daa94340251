//! An S3 endpoint on the loopback, in memory, that does as it should, or misbehaves when it is told to.

mod answer;
mod request;

use std::collections::HashMap;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

pub use request::Asked;

/// What goes wrong with one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misdeed {
    /// Nothing is done, and this is answered.
    Status(u16),
    /// All is well, but late.
    Slow(Duration),
    /// The connection ends in the middle of the answer's body.
    Partial,
    /// A body of the right length that is other bytes.
    Wrong,
    /// A put is acknowledged, and nothing is stored.
    Lost,
    /// A put is acknowledged, and half of it is stored.
    Torn,
    /// The connection ends without an answer, though what was asked is done.
    Silent,
}

type Mood = dyn Fn(&Asked) -> Option<Misdeed> + Send;

/// A server that goes on until its process ends.
pub struct Bucket {
    port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
pub(crate) struct State {
    objects: HashMap<String, Vec<u8>>,
    uploads: HashMap<String, Vec<(u32, Vec<u8>)>>,
    asked: Vec<Asked>,
    mood: Option<Box<Mood>>,
    ignores_conditions: bool,
}

impl Bucket {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback has a free port");
        let port = listener.local_addr().expect("a listener has an address").port();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                // Whoever asked may be gone; then there is nobody to answer.
                thread::spawn(move || drop(answer::serve(&connection, &shared)));
            }
        });
        Self { port, state }
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Where a store's segments may live. Requests need no signature.
    pub fn address(&self) -> String {
        format!("s3://bucket/prefix?endpoint={}&anonymous=true", self.endpoint())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// From now on each request is judged by this.
    pub fn misbehave(&self, mood: impl Fn(&Asked) -> Option<Misdeed> + Send + 'static) {
        self.state().mood = Some(Box::new(mood));
    }

    pub fn behave(&self) {
        self.state().mood = None;
    }

    /// Puts that are to happen only under a condition happen always.
    pub fn ignore_conditions(&self) {
        self.state().ignores_conditions = true;
    }

    /// The requests since this was asked last.
    pub fn take_asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state().asked)
    }

    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.state().objects.keys().cloned().collect();
        names.sort();
        names
    }

    /// Changes all objects as nobody should.
    pub fn spoil(&self, change: impl Fn(&mut Vec<u8>)) {
        self.state().objects.values_mut().for_each(change);
    }

    pub fn clear(&self) {
        self.state().objects.clear();
    }
}

impl Default for Bucket {
    fn default() -> Self {
        Self::new()
    }
}
