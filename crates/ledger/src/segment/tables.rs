//! The footer's tables as bytes: packed column by column, and checked row by row when they are read.

use enjamb_core::{ArtifactId, Digest};

use super::block::Codec;
use super::chunk;
use super::footer::{Artifact, Block, Chunk, Extent, Record, Run, Source, Tables};
use super::layout::{BLOCK_BYTES_MAX, HEADER_BYTES};
use super::varint::{Parsed, Unread, put, put_difference};

const AT_CURSOR: u64 = 0;
const AT_POSITION: u64 = 1;
const ELSEWHERE: u64 = 2;

pub(super) fn encode(tables: &Tables) -> Vec<u8> {
    // Nearly all of it is digests.
    let digests = tables.deps.len() + tables.blocks.len() + tables.chunks.len() + tables.artifacts.len();
    let mut out = Vec::with_capacity(digests * (Digest::LEN + 4) + tables.records.len() * 8);
    for count in
        [tables.deps.len(), tables.blocks.len(), tables.chunks.len(), tables.records.len(), tables.artifacts.len()]
    {
        put(&mut out, count as u64);
    }
    put_digests(&mut out, tables.deps.iter().copied());
    put_blocks(&mut out, &tables.blocks);
    put_chunks(&mut out, tables);
    put_records(&mut out, tables);
    put_artifacts(&mut out, tables);
    out
}

fn put_digests(out: &mut Vec<u8>, digests: impl Iterator<Item = Digest>) {
    digests.for_each(|digest| out.extend(digest.as_bytes()));
}

fn put_blocks(out: &mut Vec<u8>, blocks: &[Block]) {
    for block in blocks {
        put(out, u64::from(block.stored_len) << 1 | u64::from(block.codec == Codec::Zstd));
    }
    for block in blocks {
        put(out, u64::from(block.raw_len));
    }
    put_digests(out, blocks.iter().map(|block| block.digest));
}

fn put_chunks(out: &mut Vec<u8>, tables: &Tables) {
    for chunk in &tables.chunks {
        put(out, u64::from(chunk.at.len) << 1 | u64::from(chunk.at.source != Source::Own));
    }
    let mut end = 0;
    for Chunk { at, .. } in &tables.chunks {
        match at.source {
            Source::Own => {
                let position = position(tables, at);
                put(out, position - end);
                end = position + u64::from(at.len);
            }
            Source::Dep(dep) => put_place(out, dep, at),
        }
    }
    put_digests(out, tables.chunks.iter().map(|chunk| chunk.digest));
}

fn put_records(out: &mut Vec<u8>, tables: &Tables) {
    let mut before = 0;
    for record in &tables.records {
        put_difference(out, record.number, before);
        before = record.number;
    }
    for record in &tables.records {
        put(out, u64::from(record.extents));
    }
    put_extents(out, tables);
}

fn put_extents(out: &mut Vec<u8>, tables: &Tables) {
    // The places go to a column of their own, so that lengths stay beside lengths.
    let mut places = Vec::new();
    let mut cursor = 0;
    for extent in &tables.extents {
        let kind = match extent.source {
            Source::Own => {
                let position = position(tables, extent);
                let kind = put_position(&mut places, position, cursor);
                cursor = cursor.max(position + u64::from(extent.len));
                kind
            }
            Source::Dep(dep) => {
                put_place(&mut places, dep, extent);
                ELSEWHERE
            }
        };
        put(out, u64::from(extent.len) << 2 | kind);
    }
    out.append(&mut places);
}

fn put_position(out: &mut Vec<u8>, position: u64, cursor: u64) -> u64 {
    if position == cursor {
        return AT_CURSOR;
    }
    put_difference(out, position, cursor);
    AT_POSITION
}

fn put_place(out: &mut Vec<u8>, dep: u32, extent: &Extent) {
    for value in [dep, extent.block, extent.offset] {
        put(out, u64::from(value));
    }
}

fn put_artifacts(out: &mut Vec<u8>, tables: &Tables) {
    put_digests(out, tables.artifacts.iter().map(|artifact| artifact.id.digest()));
    for artifact in &tables.artifacts {
        put(out, u64::from(artifact.runs));
    }
    let mut end = 0;
    for run in &tables.runs {
        put_difference(out, u64::from(run.first_chunk), end);
        put(out, u64::from(run.chunks));
        end = u64::from(run.first_chunk) + u64::from(run.chunks);
    }
}

fn position(tables: &Tables, extent: &Extent) -> u64 {
    tables.blocks[extent.block as usize].start + u64::from(extent.offset)
}

/// Reads tables. `blocks_end` is where the footer begins in the file, and with it where the blocks must end.
pub(super) fn decode(bytes: &[u8], blocks_end: u64) -> Parsed<Tables> {
    let mut unread = Unread::new(bytes);
    let mut tables = Tables::default();
    let deps = unread.count(Digest::LEN)?;
    let blocks = unread.count(Digest::LEN + 2)?;
    let chunks = unread.count(Digest::LEN + 2)?;
    let records = unread.count(2)?;
    let artifacts = unread.count(Digest::LEN + 1)?;
    tables.deps = column(deps, || unread.digest())?;
    tables.blocks = take_blocks(&mut unread, blocks, blocks_end)?;
    tables.chunks = take_chunks(&mut unread, chunks, &tables)?;
    tables.records = take_records(&mut unread, records)?;
    tables.extents = take_extents(&mut unread, &tables)?;
    (tables.artifacts, tables.runs) = take_artifacts(&mut unread, artifacts, chunks)?;
    if !unread.is_empty() {
        return Err("the tables are followed by something else");
    }
    Ok(tables)
}

/// Reads `rows` values. The caller has checked that the footer has room for so many.
fn column<T>(rows: usize, mut take: impl FnMut() -> Parsed<T>) -> Parsed<Vec<T>> {
    (0..rows).map(|_| take()).collect()
}

fn take_blocks(unread: &mut Unread<'_>, rows: usize, blocks_end: u64) -> Parsed<Vec<Block>> {
    let stored = column(rows, || unread.varint())?;
    let raw = column(rows, || unread.u32())?;
    let (mut at, mut start) = (HEADER_BYTES as u64, 0);
    let mut blocks = Vec::with_capacity(rows);
    for (stored, raw_len) in stored.into_iter().zip(raw) {
        let codec = if stored & 1 == 1 { Codec::Zstd } else { Codec::Raw };
        let stored_len = block_len(codec, stored >> 1, raw_len)?;
        blocks.push(Block { at, start, stored_len, raw_len, codec, digest: unread.digest()? });
        at += u64::from(stored_len);
        start += u64::from(raw_len);
    }
    if at != blocks_end {
        return Err("the blocks do not end where the footer begins");
    }
    Ok(blocks)
}

fn block_len(codec: Codec, stored_len: u64, raw_len: u32) -> Parsed<u32> {
    let plausible = match codec {
        Codec::Raw => stored_len == u64::from(raw_len),
        Codec::Zstd => stored_len < u64::from(raw_len),
    };
    if raw_len == 0 || raw_len > BLOCK_BYTES_MAX || !plausible {
        return Err("a block has an impossible length");
    }
    Ok(stored_len as u32)
}

fn take_chunks(unread: &mut Unread<'_>, rows: usize, tables: &Tables) -> Parsed<Vec<Chunk>> {
    let heads = column(rows, || unread.varint())?;
    let mut end = 0_u64;
    let mut take = |head: u64| {
        let len = piece_len(head >> 1, chunk::BYTES_MAX as u32)?;
        if head & 1 == 1 {
            return take_place(unread, len, tables);
        }
        let position = end.checked_add(unread.varint()?).ok_or("a chunk lies beyond all blocks")?;
        end = position.saturating_add(u64::from(len));
        own_extent(position, len, tables)
    };
    let places = heads.into_iter().map(&mut take).collect::<Parsed<Vec<_>>>()?;
    places.into_iter().map(|at| Ok(Chunk { digest: unread.digest()?, at })).collect()
}

fn take_records(unread: &mut Unread<'_>, rows: usize) -> Parsed<Vec<Record>> {
    let mut number = 0;
    let numbers = column(rows, || {
        number = unread.difference(number)?;
        Ok(number)
    })?;
    let mut first_extent = 0_u32;
    let mut take = |number| {
        let extents = unread.u32()?;
        let record = Record { number, first_extent, extents };
        first_extent = first_extent.checked_add(extents).ok_or("the records have too many extents")?;
        Ok(record)
    };
    numbers.into_iter().map(&mut take).collect()
}

fn take_extents(unread: &mut Unread<'_>, tables: &Tables) -> Parsed<Vec<Extent>> {
    let rows = tables.records.last().map_or(0, |last| (last.first_extent + last.extents) as usize);
    // The lengths are passed over to reach the places, then read beside them: a row takes a byte at least, so a false
    // count ends at the footer's end before anything is allocated for it.
    let mut heads = *unread;
    for _ in 0..rows {
        unread.varint()?;
    }
    let mut cursor = 0;
    let mut take = || {
        let head = heads.varint()?;
        let len = piece_len(head >> 2, BLOCK_BYTES_MAX)?;
        let position = match head & 3 {
            AT_CURSOR => cursor,
            AT_POSITION => unread.difference(cursor)?,
            ELSEWHERE => return take_place(unread, len, tables),
            _ => return Err("an extent is of no known kind"),
        };
        let extent = own_extent(position, len, tables)?;
        cursor = cursor.max(position + u64::from(len));
        Ok(extent)
    };
    column(rows, &mut take)
}

fn take_artifacts(unread: &mut Unread<'_>, rows: usize, chunks: usize) -> Parsed<(Vec<Artifact>, Vec<Run>)> {
    let ids = column(rows, || unread.digest())?;
    let counts = column(rows, || unread.u32())?;
    let mut artifacts = Vec::with_capacity(rows);
    let mut runs = Vec::new();
    let mut end = 0;
    for (id, count) in ids.into_iter().zip(counts) {
        artifacts.push(Artifact { id: ArtifactId::from_digest(id), first_run: runs.len() as u32, runs: count });
        for _ in 0..count {
            let run = take_run(unread, end, chunks)?;
            end = u64::from(run.first_chunk) + u64::from(run.chunks);
            runs.push(run);
        }
    }
    Ok((artifacts, runs))
}

fn take_run(unread: &mut Unread<'_>, end: u64, chunks: usize) -> Parsed<Run> {
    let first = unread.difference(end)?;
    let count = unread.u32()?;
    let last = first.checked_add(u64::from(count));
    if count == 0 || last.is_none_or(|last| last > chunks as u64) {
        return Err("a run lies outside the chunk table");
    }
    Ok(Run { first_chunk: first as u32, chunks: count })
}

fn take_place(unread: &mut Unread<'_>, len: u32, tables: &Tables) -> Parsed<Extent> {
    let (dep, block, offset) = (unread.u32()?, unread.u32()?, unread.u32()?);
    if dep as usize >= tables.deps.len() {
        return Err("a place names a segment that is not listed");
    }
    if u64::from(offset) + u64::from(len) > u64::from(BLOCK_BYTES_MAX) {
        return Err("a place lies beyond the end of any block");
    }
    Ok(Extent { source: Source::Dep(dep), block, offset, len })
}

fn piece_len(len: u64, max: u32) -> Parsed<u32> {
    match u32::try_from(len) {
        Ok(len) if (1..=max).contains(&len) => Ok(len),
        _ => Err("a piece has an impossible length"),
    }
}

/// The own extent at a position of all blocks' raw bytes, which must not cross the end of a block.
fn own_extent(position: u64, len: u32, tables: &Tables) -> Parsed<Extent> {
    let after = tables.blocks.partition_point(|block| block.start <= position);
    let row = after.checked_sub(1).ok_or("a place lies in no block")?;
    let block = &tables.blocks[row];
    let offset = position - block.start;
    if offset.saturating_add(u64::from(len)) > u64::from(block.raw_len) {
        return Err("a place lies outside its block");
    }
    Ok(Extent { source: Source::Own, block: row as u32, offset: offset as u32, len })
}
