//! HTTP through a unix socket.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

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

    fn connect(&self, _: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<Self::Out>, Error> {
        let stream = UnixStream::connect(&self.0)?;
        Ok(Some(SocketTransport { stream, buffers: LazyBuffers::new(BUFFER, BUFFER) }))
    }
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
