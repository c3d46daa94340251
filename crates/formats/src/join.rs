//! Deltas put together again, one at a time, so that a chain of any length is joined in the memory of one delta.

use std::io;

use crate::format::Format;
use crate::framing::Weight;
use crate::position::FormatError;

/// Joins deltas of one format. Their weights must be known before: an array's header says how many items follow.
pub struct Joiner<'f> {
    format: &'f dyn Format,
    written: Weight,
}

/// Why deltas could not be joined.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error("the joined deltas could not be written")]
    Write(#[from] io::Error),
}

/// Where joined bytes go.
pub type Sink<'s> = dyn FnMut(&[u8]) -> io::Result<()> + 's;

impl<'f> Joiner<'f> {
    /// Begins, with the sum of what [`Format::weigh`] said of every delta to come.
    pub fn begin(format: &'f dyn Format, total: Weight, out: &mut Sink<'_>) -> Result<Self, JoinError> {
        write(out, &format.head(total))?;
        Ok(Self { format, written: Weight::default() })
    }

    pub fn push(&mut self, delta: &[u8], out: &mut Sink<'_>) -> Result<(), JoinError> {
        let piece = self.format.piece(delta, self.written)?;
        self.written += piece.weight;
        for part in [piece.before, piece.body, piece.after] {
            write(out, part)?;
        }
        Ok(())
    }

    pub fn finish(self, out: &mut Sink<'_>) -> Result<(), JoinError> {
        write(out, self.format.tail())
    }
}

fn write(out: &mut Sink<'_>, bytes: &[u8]) -> Result<(), JoinError> {
    if bytes.is_empty() { Ok(()) } else { out(bytes).map_err(JoinError::Write) }
}

/// Deltas joined in memory.
pub fn concat<D: AsRef<[u8]>>(format: &dyn Format, deltas: &[D]) -> Result<Vec<u8>, FormatError> {
    let mut total = Weight::default();
    for delta in deltas {
        total += format.weigh(delta.as_ref())?;
    }
    let mut whole = Vec::new();
    let joined = join(format, total, deltas, &mut whole);
    match joined {
        Ok(()) => Ok(whole),
        Err(JoinError::Format(cause)) => Err(cause),
        Err(JoinError::Write(cause)) => unreachable!("a vector takes every byte: {cause}"),
    }
}

fn join<D: AsRef<[u8]>>(
    format: &dyn Format,
    total: Weight,
    deltas: &[D],
    whole: &mut Vec<u8>,
) -> Result<(), JoinError> {
    let mut out = |bytes: &[u8]| {
        whole.extend_from_slice(bytes);
        Ok(())
    };
    let mut joiner = Joiner::begin(format, total, &mut out)?;
    for delta in deltas {
        joiner.push(delta.as_ref(), &mut out)?;
    }
    joiner.finish(&mut out)
}
