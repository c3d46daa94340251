//! Every bound of the system, in one place. What happens at each is an error that names it.

/// Bytes of one frame's JSON. Larger content belongs in an artifact that the frame names.
pub const FRAME_BYTES_MAX: usize = 1 << 20;
/// Bytes of one artifact.
pub const ARTIFACT_BYTES_MAX: u64 = 4 << 30;
/// An artifact up to this size is a record of the log; a larger one goes straight to a segment.
pub const ARTIFACT_INLINE_BYTES_MAX: usize = 1 << 20;
/// Bytes of an artifact that is read whole because it is to be a bundle or a summary.
pub const DOCUMENT_BYTES_MAX: u64 = 64 << 20;
/// Frames of one batch.
pub const BATCH_FRAMES_MAX: usize = 1_000;
/// Rows of one page of a listing.
pub const PAGE_ROWS_MAX: usize = 1_000;
/// Commits that one walk of a chain visits.
pub const CHAIN_COMMITS_MAX: usize = 1_000_000;
/// Bytes of a stream kind.
pub const STREAM_KIND_BYTES_MAX: usize = 32;
/// Bytes of a stream id. Principals and file paths are stream ids too, hence the room.
pub const STREAM_ID_BYTES_MAX: usize = 512;
/// Bytes of an idempotency key.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 128;
/// Bytes of a tag's or a ref's name.
pub const NAME_BYTES_MAX: usize = 512;
/// Hex digits of the shortest id prefix that is accepted.
pub const ID_PREFIX_DIGITS_MIN: usize = 4;
/// Candidates listed for an ambiguous prefix.
pub const CANDIDATES_MAX: usize = 20;
/// Nesting of JSON that is read.
pub const JSON_DEPTH_MAX: usize = 128;
/// Bytes of one context pack, as it is stored.
pub const PACK_BYTES_MAX: usize = 2 << 20;
/// Bytes of a file that is read as a context pack: indented, it is larger than what it holds.
pub const PACK_FILE_BYTES_MAX: usize = 8 << 20;
