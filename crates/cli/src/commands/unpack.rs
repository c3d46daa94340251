//! `enjamb unpack`

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use enjamb_core::limits;
use enjamb_core::pack::Pack;
use enjamb_service::ServiceError;
use serde_json::json;

use super::Context;
use crate::failure::{Exit, Result};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb unpack evidence.json\n  enjamb unpack evidence.json --check\n\n\
    A pack is taken in only if every hash in it matches and it holds nothing that a pack may not; otherwise nothing is \
    written. One that is here already is not stored again.")]
pub struct Unpack {
    /// The pack: a file, or - for stdin
    file: PathBuf,
    /// Only check it, without a store
    #[arg(long)]
    check: bool,
}

impl Unpack {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let json = read(&self.file)?;
        let pack = Pack::parse(&json).map_err(ServiceError::from)?;
        pack.check().map_err(ServiceError::from)?;
        if !self.check {
            let operations = context.operations_or_create()?;
            let packed = operations.upload("unpack", json!({}), "application/octet-stream", json)?;
            return super::pack::report(context, &[packed]);
        }
        if context.ui.is_json() {
            context.ui.json("unpack_check", json!({"hash": pack.session_hash}))?;
        } else {
            context.ui.answer(&pack.session_hash)?;
        }
        Ok(Exit::Done)
    }
}

/// The bytes of a pack. Of a file that is too large to be one, no more than shows it to be.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let limit = limits::PACK_FILE_BYTES_MAX as u64 + 1;
    let mut json = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(limit).read_to_end(&mut json)
    } else {
        super::file::open(path)?.take(limit).read_to_end(&mut json)
    };
    read.map_err(|source| ServiceError::File { path: path.to_owned(), source })?;
    Ok(json)
}
