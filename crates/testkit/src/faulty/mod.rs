//! A disk that fails on request and remembers everything: faults and power losses for tests of the embedded engine.
//!
//! The pieces, in the order a test uses them:
//!
//! - [`FaultyVfs`] is a shim between SQLite and its unix VFS. It passes everything through, keeps a list of what
//!   changed on disk below one watched directory ([`Recorder`]), and returns the errors it was armed with ([`Fault`]).
//! - [`images`] turns the list into what a machine could find after losing power at any point of it; each [`Image`]
//!   knows which acknowledgements had been given by then, and prints as one line that [`replay`] accepts.
//! - [`Stage`] lays images out as real files, so that the engine under test can recover from them.
//!
//! The disk model is deliberately meaner than any one device, but keeps the promises that SQLite relies on: a synced
//! file keeps its bytes, a write never damages bytes outside its own range (`SQLITE_IOCAP_POWERSAFE_OVERWRITE`), and
//! directory entries of one directory reach the disk in order. A failed sync is taken as Linux takes it: the writes
//! before it are not made durable by a later sync that succeeds.
//!
//! Not seen: the `-shm` file (rebuilt after a crash), reads through `mmap`, temporary files, and other processes.

mod disk;
mod fate;
mod fault;
mod image;
mod key;
mod record;
mod stage;
#[cfg(test)]
mod tests;
mod vfs;

pub use fault::{Fault, FaultError, OpKind, Times};
pub use image::{CrashPlan, Image, Images, Points, images, replay};
pub use key::{Keep, ParseKeyError, Profile, ReplayKey};
pub use record::{Action, Mark, Op, Recorder, SyncReach};
pub use stage::Stage;
pub use vfs::{FaultyVfs, RegisterError};
