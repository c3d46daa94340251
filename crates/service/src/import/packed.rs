//! Rollouts that Codex has compressed. The file itself is kept as it is; what it holds is read as the file that it was
//! before, so that the chain goes on whichever of the two is there.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use super::source::failed;
use super::{Runtime, SourceFile};
use crate::Result;

const ENDING: &str = ".jsonl.zst";
/// Real rollouts shrink to about an eighth.
const GROWTH: u64 = 8;

/// What a compressed file holds, for as long as it is read.
pub(super) struct Unpacked {
    pub file: SourceFile,
    /// The file that was compressed.
    pub named: PathBuf,
    pub held: TempPath,
}

pub(super) fn is_packed(file: &SourceFile) -> bool {
    file.path.to_string_lossy().ends_with(ENDING)
}

/// About how many bytes a compressed file holds.
pub(super) fn estimate(file: &SourceFile) -> u64 {
    file.size.saturating_mul(GROWTH)
}

/// Decompresses a file into one in `dir`, which is gone when it has been read.
pub(super) fn unpack(packed: &SourceFile, dir: &Path) -> Result<Unpacked> {
    let reading = |source| failed(&packed.path, source);
    let source = File::open(&packed.path).map_err(reading)?;
    let mut builder = tempfile::Builder::new();
    let held = builder.prefix("tmp-").suffix(".jsonl").tempfile_in(dir);
    let mut held = held.map_err(|source| failed(dir, source))?;
    zstd::stream::copy_decode(source, &mut held).map_err(reading)?;
    let size = held.as_file().metadata().map_err(reading)?.len();
    let held = held.into_temp_path();
    let named = packed.path.with_extension("");
    let file = SourceFile { path: held.to_path_buf(), runtime: Runtime::Codex, size, modified: packed.modified };
    Ok(Unpacked { file, named, held })
}

/// Whether there is nothing to be unpacked, because the file before compression is there.
pub(super) fn is_there(packed: &SourceFile) -> io::Result<bool> {
    packed.path.with_extension("").try_exists()
}
