//! Copies of segments on this machine: those that were used last stay, up to a bound, and those that are to be kept here.

use std::collections::HashSet;

use enjamb_core::Digest;

use super::PostgresLedger;
use crate::Result;
use crate::segments::SegmentFile;

impl PostgresLedger {
    /// Removes copies that are too many. It is nobody's errand, so nobody is told if it fails: the next one does it.
    pub(super) fn make_room(&self) {
        if self.segments.upstream().is_some_and(|upstream| upstream.take_grown()) {
            let _ = self.evict();
        }
    }

    /// Removes the copies that were used longest ago until the rest fits. Only what is upstream at this moment goes.
    fn evict(&self) -> Result<()> {
        let Some(upstream) = self.segments.upstream() else { return Ok(()) };
        let mut files = self.segments.files()?;
        let bytes: u64 = files.iter().map(|file| file.bytes).sum();
        let mut excess = bytes.saturating_sub(upstream.copies_bytes_max());
        if excess == 0 {
            return Ok(());
        }
        let kept = self.kept_here()?;
        let stored = self.stored_upstream(&files)?;
        files.sort_by_key(|file| file.used);
        for file in &files {
            let Some(digest) = file.digest.filter(|digest| stored.contains(digest) && !kept.contains(digest)) else {
                continue;
            };
            if excess > 0 && upstream.objects().has(&digest, file.bytes)? {
                self.segments.remove(file)?;
                excess = excess.saturating_sub(file.bytes);
            }
        }
        Ok(())
    }

    fn stored_upstream(&self, files: &[SegmentFile]) -> Result<HashSet<Digest>> {
        let names: Vec<Vec<u8>> =
            files.iter().filter_map(|file| file.digest).map(|digest| digest.as_bytes().to_vec()).collect();
        let rows = self.ask(|snapshot| snapshot.query(&self.sql.segments.stored, &[&names]))?;
        Ok(rows.iter().filter_map(|row| Digest::from_slice(row.get(0))).collect())
    }

    /// Segments with bytes of artifacts that are to be kept here.
    fn kept_here(&self) -> Result<HashSet<Digest>> {
        let places = self.look(|look| look.places_of(&["pin", "replicate"]))?;
        Ok(places.into_iter().flatten().collect())
    }
}
