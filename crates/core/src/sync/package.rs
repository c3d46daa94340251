//! Packages: frames and bytes on their way from one store to another.
//!
//! A package is the line `enjamb package 1` and then items, each a kind byte and its fields: an artifact's bytes, a frame
//! with what it takes to link it and its chain value, or the id and length of an artifact that frames of the package need. Nothing in it is
//! believed: ids follow from bytes, and chains from frames.

use crate::frame::{KeyUse, Linked};
use crate::{ArtifactId, Digest, limits};

const MAGIC: &[u8] = b"enjamb package 1\n";
const ARTIFACT: u8 = 1;
const FRAME: u8 = 2;
const NEED: u8 = 3;

/// What a package holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Package {
    pub artifacts: Vec<Vec<u8>>,
    pub frames: Vec<Linked>,
    /// Artifacts that frames of this package need, and their lengths.
    pub needs: Vec<(ArtifactId, u64)>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("what arrived is no package: {detail} at byte {offset}")]
pub struct PackageError {
    pub detail: &'static str,
    pub offset: usize,
}

/// A package being written.
#[derive(Debug)]
pub struct Writer(Vec<u8>);

impl Default for Writer {
    fn default() -> Self {
        Self(MAGIC.to_vec())
    }
}

impl Writer {
    pub fn artifact(&mut self, bytes: &[u8]) {
        self.0.push(ARTIFACT);
        self.sized(bytes);
    }

    pub fn frame(&mut self, frame: &Linked) {
        self.0.push(FRAME);
        self.sized(frame.stream.to_string().as_bytes());
        self.0.extend(frame.seq.to_le_bytes());
        self.0.extend(frame.after.as_bytes());
        match &frame.key {
            None => self.sized(b""),
            Some(used) => {
                self.sized(used.key.as_bytes());
                self.0.extend(used.request);
                self.0.extend(used.frames.to_le_bytes());
            }
        }
        self.sized(&frame.json);
        self.0.extend(frame.chain().as_bytes());
    }

    pub fn need(&mut self, id: &ArtifactId, len: u64) {
        self.0.push(NEED);
        self.0.extend(id.digest().as_bytes());
        self.0.extend(len.to_le_bytes());
    }

    fn sized(&mut self, bytes: &[u8]) {
        self.0.extend((bytes.len() as u32).to_le_bytes());
        self.0.extend(bytes);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.len() == MAGIC.len()
    }

    pub fn finish(self) -> Vec<u8> {
        self.0
    }
}

impl Package {
    pub fn read(bytes: &[u8]) -> Result<Self, PackageError> {
        let mut reader = Reader { bytes, at: 0 };
        let mut package = Self::default();
        if reader.take(MAGIC.len())? != MAGIC {
            return Err(PackageError { detail: "it does not begin as one", offset: 0 });
        }
        while reader.at < bytes.len() {
            match reader.take(1)?[0] {
                ARTIFACT => package.artifacts.push(reader.sized(limits::ARTIFACT_INLINE_BYTES_MAX)?.to_vec()),
                FRAME => package.frames.push(reader.frame()?),
                NEED => package.needs.push((ArtifactId::from_digest(reader.digest()?), reader.u64()?)),
                _ => return Err(reader.wrong("an item of no known kind")),
            }
        }
        Ok(package)
    }
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Reader<'b> {
    fn wrong(&self, detail: &'static str) -> PackageError {
        PackageError { detail, offset: self.at }
    }

    fn take(&mut self, len: usize) -> Result<&'b [u8], PackageError> {
        let end = self.at.checked_add(len).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| self.wrong("it is cut short"))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], PackageError> {
        let taken = self.take(N)?;
        taken.try_into().map_err(|_| self.wrong("it is cut short"))
    }

    fn u64(&mut self) -> Result<u64, PackageError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn digest(&mut self) -> Result<Digest, PackageError> {
        Ok(Digest::from_bytes(self.array()?))
    }

    fn sized(&mut self, max: usize) -> Result<&'b [u8], PackageError> {
        let len = u32::from_le_bytes(self.array()?) as usize;
        if len > max {
            return Err(self.wrong("an item is longer than any can be"));
        }
        self.take(len)
    }

    fn text(&mut self, max: usize) -> Result<&'b str, PackageError> {
        std::str::from_utf8(self.sized(max)?).map_err(|_| self.wrong("a text is not UTF-8"))
    }

    fn frame(&mut self) -> Result<Linked, PackageError> {
        let name = self.text(limits::STREAM_KIND_BYTES_MAX + 1 + limits::STREAM_ID_BYTES_MAX)?;
        let stream = name.parse().map_err(|_| self.wrong("a text is no name of a stream"))?;
        let (seq, after) = (self.u64()?, self.digest()?);
        let key = self.text(limits::IDEMPOTENCY_KEY_BYTES_MAX)?;
        if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(self.wrong("a key is not visible ASCII"));
        }
        let key = match key {
            "" => None,
            key => {
                let (request, frames) = (self.array()?, u32::from_le_bytes(self.array()?));
                Some(KeyUse { key: key.to_owned(), request, frames })
            }
        };
        let json = self.sized(limits::FRAME_BYTES_MAX)?.to_vec();
        let frame = Linked { stream, seq, key, after, json };
        if self.digest()? != frame.chain() {
            return Err(self.wrong("a frame is not what its digest says"));
        }
        Ok(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> (Package, Vec<u8>) {
        let key = Some(KeyUse { key: "k-1".into(), request: [3; 16], frames: 2 });
        let stream = "context/dana/x".parse().unwrap();
        let frame = Linked { stream, seq: 5, key, after: Digest::of(b"p"), json: b"{\"a\": 1}".to_vec() };
        let bare = Linked { key: None, seq: 6, ..frame.clone() };
        let mut writer = Writer::default();
        writer.artifact(b"some bytes");
        writer.artifact(b"");
        writer.frame(&frame);
        writer.frame(&bare);
        writer.need(&ArtifactId::of(b"more"), 4);
        let package = Package {
            artifacts: vec![b"some bytes".to_vec(), Vec::new()],
            frames: vec![frame, bare],
            needs: vec![(ArtifactId::of(b"more"), 4)],
        };
        (package, writer.finish())
    }

    #[test]
    fn packages_are_read_back() {
        let (package, bytes) = example();
        assert_eq!(Package::read(&bytes).unwrap(), package);
        assert_eq!(Package::read(&Writer::default().finish()).unwrap(), Package::default());
    }

    #[test]
    fn nothing_that_is_cut_or_changed_panics_and_no_cut_is_taken_for_the_whole() {
        let (package, bytes) = example();
        for len in 0..bytes.len() {
            assert_ne!(Package::read(&bytes[..len]).ok(), Some(package.clone()));
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[len] ^= 1 << bit;
                assert_ne!(Package::read(&flipped).ok(), Some(package.clone()));
            }
        }
    }
}
