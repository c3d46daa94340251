//! Opening a segment and loading its blocks.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use enjamb_core::Digest;

use super::block;
use super::error::{Place, SegmentError};
use super::footer::{Body, Entry, Footer, Source};
use super::layout::{FOOTER_BYTES_MAX, HEADER_BYTES, Key, TRAILER_BYTES, Trailer, TrailerError};
use super::object::{Blocks, Fetch, ObjectReader, RawBlock};
use super::tables;

/// Bytes that can be read from anywhere, by several readers at once.
pub trait ReadAt {
    /// How many there are. Not `len`, which would hide that of slices wherever this trait is in scope.
    fn file_len(&self) -> io::Result<u64>;

    /// Fills `buf`; where that is not possible, it is an error.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;
}

impl ReadAt for File {
    fn file_len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(buf, offset)
    }
}

impl ReadAt for [u8] {
    fn file_len(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..));
        let bytes = rest.and_then(|rest| rest.get(..buf.len())).ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(bytes);
        Ok(())
    }
}

impl ReadAt for Vec<u8> {
    fn file_len(&self) -> io::Result<u64> {
        self.as_slice().file_len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.as_slice().read_at(offset, buf)
    }
}

impl<R: ReadAt + ?Sized> ReadAt for &R {
    fn file_len(&self) -> io::Result<u64> {
        (**self).file_len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        (**self).read_at(offset, buf)
    }
}

/// A segment whose footer has been read and checked. Its blocks are checked as they are loaded.
pub struct Segment<R> {
    reader: R,
    name: Digest,
    footer: Footer,
}

impl<R: ReadAt> Segment<R> {
    /// Reads the trailer and the footer of the segment named `name`. That the whole file has this digest is for
    /// [`verify`](super::verify) to find out.
    pub fn open(reader: R, name: Digest) -> Result<Self, SegmentError> {
        let footer = read_footer(&reader, name)?;
        Ok(Self { reader, name, footer })
    }

    pub fn name(&self) -> Digest {
        self.name
    }

    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Reads one block, compares its digest and decompresses it.
    pub fn load_block(&self, block: u32) -> Result<Vec<u8>, SegmentError> {
        self.load_block_into(Vec::new(), block)
    }

    /// The same, in memory that is there already, where that is of use.
    pub fn load_block_into(&self, memory: Vec<u8>, block: u32) -> Result<Vec<u8>, SegmentError> {
        let place = Place::Block(block);
        let corrupt = |what| SegmentError::Corrupt { segment: self.name, place, what };
        let row = self.footer.tables().blocks.get(block as usize).ok_or_else(|| corrupt("there is no such block"))?;
        let stored = read(&self.reader, self.name, place, row.at..row.at + u64::from(row.stored_len))?;
        block::decode(row, stored, memory).map_err(corrupt)
    }

    /// How many bytes a block has when it is unpacked; none where there is no such block.
    pub fn raw_len(&self, block: u32) -> usize {
        self.footer.tables().blocks.get(block as usize).map_or(0, |row| row.raw_len as usize)
    }

    pub fn entry(&self, key: &Key) -> Result<Entry<'_>, SegmentError> {
        self.footer.entry(key).ok_or(SegmentError::MissingObject { segment: self.name, key: *key })
    }

    /// The block that a record begins in; `None` when it is not here, or has no bytes of its own here.
    pub fn block_of(&self, number: u64) -> Option<u32> {
        match self.footer.entry(&Key::Record(number))?.body {
            Body::Extents([first, ..]) if first.source == Source::Own => Some(first.block),
            Body::Extents(_) | Body::Runs(_) => None,
        }
    }

    /// The bytes of a record, which the caller compares with the record's own digest.
    pub fn record(&self, number: u64, blocks: &mut Blocks<'_>) -> Result<Vec<u8>, SegmentError> {
        let mut bytes = Vec::new();
        self.append_record(number, blocks, &mut bytes)?;
        Ok(bytes)
    }

    /// As [`Segment::record`], at the end of what `out` holds.
    pub fn append_record(&self, number: u64, blocks: &mut Blocks<'_>, out: &mut Vec<u8>) -> Result<(), SegmentError> {
        let entry = self.entry(&Key::Record(number))?;
        out.reserve(entry.len as usize);
        self.read_object(&entry, 0..entry.len, blocks, &mut |part| {
            out.extend_from_slice(part);
            Ok::<_, SegmentError>(())
        })
    }

    /// Hands the bytes of an object in `range` to `sink`, piece by piece; what of the range lies beyond the object's
    /// end is left out. Bytes of an artifact are checked before they are handed out, bytes of a record are not.
    pub fn read_object<E: From<SegmentError>>(
        &self,
        entry: &Entry<'_>,
        range: Range<u64>,
        blocks: &mut Blocks<'_>,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        ObjectReader { name: &self.name, footer: &self.footer, blocks }.read(entry, range, sink)
    }
}

impl<R: ReadAt> Fetch for Segment<R> {
    /// Only this segment's own blocks, loaded anew each time.
    fn block(&self, segment: &Digest, block: u32, _: Option<RawBlock>) -> Result<RawBlock, SegmentError> {
        if *segment != self.name {
            return Err(SegmentError::MissingSegment { segment: *segment });
        }
        self.load_block(block).map(Arc::new)
    }
}

fn read_footer(reader: &impl ReadAt, name: Digest) -> Result<Footer, SegmentError> {
    let corrupt = |place| move |what| SegmentError::Corrupt { segment: name, place, what };
    let trailer = read_trailer(reader, name)?;
    let end = trailer.footer_offset + u64::from(trailer.footer_len);
    let stored = read(reader, name, Place::Footer, trailer.footer_offset..end)?;
    if Digest::of(&stored) != trailer.footer_digest {
        return Err(corrupt(Place::Footer)("its stored bytes do not match their digest"));
    }
    let raw = block::inflate(&stored, trailer.footer_raw_len, FOOTER_BYTES_MAX).map_err(corrupt(Place::Footer))?;
    let tables = tables::decode(&raw, trailer.footer_offset).map_err(corrupt(Place::Footer))?;
    Footer::new(tables).map_err(corrupt(Place::Footer))
}

fn read_trailer(reader: &impl ReadAt, name: Digest) -> Result<Trailer, SegmentError> {
    let place = Place::Trailer;
    let len = reader.file_len().map_err(|source| SegmentError::Io { segment: name, place, source })?;
    if len < (HEADER_BYTES + TRAILER_BYTES) as u64 {
        return Err(SegmentError::Corrupt { segment: name, place, what: "the file is too short to be a segment" });
    }
    let mut bytes = [0; TRAILER_BYTES];
    reader.read_at(len - TRAILER_BYTES as u64, &mut bytes).map_err(|source| SegmentError::Io {
        segment: name,
        place,
        source,
    })?;
    Trailer::decode(&bytes, len).map_err(|error| match error {
        TrailerError::Damaged(what) => SegmentError::Corrupt { segment: name, place, what },
        TrailerError::TooNew(version) => SegmentError::TooNew { segment: name, version },
    })
}

/// Reads a part of the file whose bounds were checked against the file's length.
pub(super) fn read(
    reader: &impl ReadAt,
    name: Digest,
    place: Place,
    range: Range<u64>,
) -> Result<Vec<u8>, SegmentError> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    let done = reader.read_at(range.start, &mut bytes);
    done.map_err(|source| SegmentError::Io { segment: name, place, source })?;
    Ok(bytes)
}
