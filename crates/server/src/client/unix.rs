//! HTTP through a unix socket.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;

use ureq::Error;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport};

const BUFFER: usize = 128 << 10;

/// Connects to one socket, whatever the address says.
#[derive(Debug)]
pub struct SocketConnector(pub PathBuf);

#[derive(Debug)]
pub struct SocketTransport {
    stream: UnixStream,
    buffers: LazyBuffers,
}

impl Connector for SocketConnector {
    type Out = SocketTransport;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<Self::Out>, Error> {
        let stream = connect_within(&self.0, &details.timeout)?;
        Ok(Some(SocketTransport { stream, buffers: LazyBuffers::new(BUFFER, BUFFER) }))
    }
}

/// Connects, or gives up. Where a server has stopped and many wait for it already, connecting waits as well, and nothing
/// but another thread can be left waiting.
fn connect_within(path: &Path, timeout: &NextTimeout) -> Result<UnixStream, Error> {
    let Some(within) = timeout.not_zero() else { return Ok(UnixStream::connect(path)?) };
    let (path, (connected, connecting)) = (path.to_owned(), channel());
    std::thread::spawn(move || {
        // Nobody waits any more when it took too long.
        let _ = connected.send(UnixStream::connect(path));
    });
    connecting.recv_timeout(*within).map_err(|_| Error::Timeout(timeout.reason))?.map_err(Error::from)
}

impl Transport for SocketTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.set_write_timeout(timeout.not_zero().map(|after| *after))?;
        let wrote = self.stream.write_all(&self.buffers.output()[..amount]);
        wrote.map_err(|error| told(error, &timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.set_read_timeout(timeout.not_zero().map(|after| *after))?;
        let read = self.stream.read(self.buffers.input_append_buf()).map_err(|error| told(error, &timeout))?;
        self.buffers.input_appended(read);
        Ok(read > 0)
    }

    /// A connection that was answered and has nothing more to say is still open.
    fn is_open(&mut self) -> bool {
        let mut byte = [0];
        let probed = self.stream.set_nonblocking(true).and_then(|()| self.stream.read(&mut byte));
        let restored = self.stream.set_nonblocking(false);
        restored.is_ok() && matches!(probed, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

fn told(error: io::Error, timeout: &NextTimeout) -> Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => error.into(),
    }
}
