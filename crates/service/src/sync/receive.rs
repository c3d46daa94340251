//! Taking: what another store sends is checked, and stored as one batch.

use std::collections::{HashMap, HashSet};

use enjamb_core::StreamId;
use enjamb_core::frame::Draft;
use enjamb_core::sync::Package;
use enjamb_ledger::{Batch, LedgerError, NewArtifact, NewFrame};

use super::SyncError;
use super::place::{Place, Placing};
use crate::{Result, Store};

/// How often frames are placed anew because somebody wrote to the same streams meanwhile.
const RACES_MAX: usize = 20;

/// What became of a package.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Artifacts that were not here.
    pub artifacts: u64,
    /// Frames that went on to their own streams.
    pub appended: u64,
    /// Frames that are kept in branches.
    pub kept: u64,
    /// Frames that were here.
    pub known: u64,
}

impl Store {
    /// Stores what a package holds: all of it, or nothing. Sent again, it changes nothing.
    ///
    /// Frames go on to their streams as far as these end where they do elsewhere and the order rules admit them; what does
    /// not is kept in branches.
    pub fn sync_receive(&self, package: &Package) -> Result<Received> {
        let mut refused: HashMap<StreamId, u64> = HashMap::new();
        let mut races = 0;
        loop {
            let (batch, received) = self.placed(package, &refused)?;
            if batch.artifacts.is_empty() && batch.frames.is_empty() {
                return Ok(received);
            }
            match self.ledger.append(batch) {
                Ok(_) => return Ok(received),
                // What the rules refuse here was admitted elsewhere, so it is kept.
                Err(LedgerError::Refused(refusal)) if super::travels(&refusal.stream) => {
                    refused.insert(refusal.stream, refusal.seq);
                }
                Err(LedgerError::SeqConflict { .. }) if races < RACES_MAX => races += 1,
                Err(LedgerError::SeqConflict { .. }) => return Err(SyncError::Contended.into()),
                Err(other) => return Err(other.into()),
            }
        }
    }

    fn placed(&self, package: &Package, refused: &HashMap<StreamId, u64>) -> Result<(Batch, Received)> {
        let (mut batch, mut received) = (Batch::default(), Received::default());
        for bytes in &package.artifacts {
            let artifact = NewArtifact::from_bytes(bytes.clone());
            if self.artifact_here(&artifact.id)?.is_none() {
                batch.artifacts.push(artifact);
            }
        }
        received.artifacts = batch.artifacts.len() as u64;
        let arrived: HashSet<_> = batch.artifacts.iter().map(|artifact| artifact.id).collect();
        for (id, _) in &package.needs {
            if !arrived.contains(id) && self.artifact_here(id)?.is_none() {
                return Err(SyncError::Incomplete(*id).into());
            }
        }
        let mut placing = Placing::new(self, refused);
        for frame in &package.frames {
            match placing.place(frame)? {
                Place::Known => received.known += 1,
                Place::Own => {
                    received.appended += 1;
                    if let Some(key) = &frame.key {
                        batch.former_keys.insert(batch.frames.len(), key.clone());
                    }
                    batch.frames.push(new_frame(&frame.stream, frame.seq, frame.json.clone())?);
                }
                Place::Branch(branch, seq) => {
                    received.kept += 1;
                    if !frame.fits() {
                        batch.artifacts.push(NewArtifact::from_bytes(frame.json.clone()));
                    }
                    batch.frames.push(new_frame(&branch, seq, frame.to_kept(&branch, seq)?)?);
                }
            }
        }
        Ok((batch, received))
    }
}

/// A frame that says everything itself: nothing is filled in.
fn new_frame(stream: &StreamId, seq: u64, json: Vec<u8>) -> Result<NewFrame> {
    let draft = Draft::parse(json)?;
    Ok(NewFrame { stream: stream.clone(), draft, id: String::new(), timestamp_ms: 0, expected_seq: Some(seq) })
}
