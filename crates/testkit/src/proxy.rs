//! Something between a client and a server that passes bytes on, until it is told to cut the connection.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the server.
    Up,
    /// To the client.
    Down,
}

/// A listener on the loopback. Connections that it has end when it is dropped.
pub struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Where the next cut is: so many bytes from when it was asked for.
    cut: Mutex<Option<(Way, u64)>>,
    passed_up: AtomicU64,
    passed_down: AtomicU64,
    cuts: AtomicU64,
    is_over: AtomicBool,
}

impl Proxy {
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let state = Arc::new(State::default());
        let shared = state.clone();
        thread::spawn(move || accept(&listener, port, &shared));
        Self { address, state }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Cuts the connection on which the byte after the next `bytes` goes this way, before it does. Both ends see it.
    pub fn cut_after(&self, way: Way, bytes: u64) {
        *self.state.next_cut() = Some((way, bytes));
    }

    /// Takes back what was asked for; whether there was something to take back.
    pub fn spare(&self) -> bool {
        self.state.next_cut().take().is_some()
    }

    /// Bytes that went this way so far.
    pub fn passed(&self, way: Way) -> u64 {
        self.state.counter(way).load(Ordering::SeqCst)
    }

    pub fn cuts(&self) -> u64 {
        self.state.cuts.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for connections.
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    fn next_cut(&self) -> std::sync::MutexGuard<'_, Option<(Way, u64)>> {
        self.cut.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counter(&self, way: Way) -> &AtomicU64 {
        match way {
            Way::Up => &self.passed_up,
            Way::Down => &self.passed_down,
        }
    }

    /// How many of these bytes may pass: all, or those before the cut.
    fn admit(&self, way: Way, count: usize) -> (usize, bool) {
        let mut next = self.next_cut();
        let (passed, cut) = match next.as_mut() {
            Some((cut_way, left)) if *cut_way == way && *left < count as u64 => (*left as usize, true),
            Some((cut_way, left)) if *cut_way == way => {
                *left -= count as u64;
                (count, false)
            }
            _ => (count, false),
        };
        if cut {
            *next = None;
            self.cuts.fetch_add(1, Ordering::SeqCst);
        }
        self.counter(way).fetch_add(passed as u64, Ordering::SeqCst);
        (passed, cut)
    }
}

fn accept(listener: &TcpListener, port: u16, state: &Arc<State>) {
    for client in listener.incoming() {
        if state.is_over.load(Ordering::SeqCst) {
            return;
        }
        // A server that is not there refuses, and so does this.
        let Some((client, server)) = client.ok().zip(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()) else {
            continue;
        };
        for way in [Way::Up, Way::Down] {
            let ends = client.try_clone().ok().zip(server.try_clone().ok());
            let Some((client, server)) = ends else { continue };
            let state = state.clone();
            thread::spawn(move || match way {
                Way::Up => pass_on(way, client, server, &state),
                Way::Down => pass_on(way, server, client, &state),
            });
        }
    }
}

fn pass_on(way: Way, mut from: TcpStream, mut to: TcpStream, state: &State) {
    let _ = to.set_nodelay(true);
    let mut buffer = [0; 16 << 10];
    while let Some(count) = from.read(&mut buffer).ok().filter(|count| *count > 0) {
        let (passed, cut) = state.admit(way, count);
        if to.write_all(&buffer[..passed]).is_err() || cut {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
