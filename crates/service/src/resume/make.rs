//! A session written piece by piece, and read as its runtime will read it.

use std::io::{Read, Write};

use enjamb_core::{Digest, Hasher};
use enjamb_formats::Tier;
use enjamb_formats::session::{ReadBack, Session, Written};

use super::{Plan, ResumeError, plant};
use crate::{Result, Store};

/// A session that was written.
pub(super) struct Made {
    pub session: Session,
    /// How it stands for whoever reads it.
    pub written: Written,
    pub tier: Tier,
    pub bytes: u64,
    pub lines: u64,
    digest: Digest,
}

impl Store {
    /// Writes the session that was planned. Fails if it is less faithful than is accepted.
    pub(super) fn make(&self, plan: &Plan, tier_min: Tier, out: &mut dyn Write) -> Result<Made> {
        let mut back = ReadBack::new(plan.target);
        let (mut bytes, mut lines, mut hasher) = (0, 0, Hasher::new());
        let session = self.compose_session(&plan.gathered, &plan.looked, &plan.identity, &mut |piece| {
            bytes += piece.len() as u64;
            lines += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
            hasher.update(piece);
            back.push(piece)?;
            out.write_all(piece).map_err(|source| plant::failed(&plan.path, source))
        })?;
        let tier = plan.gathered.tier(&session.ledger);
        if tier > tier_min {
            return Err(ResumeError::TierTooLow { tip: plan.gathered.tip, runtime: plan.runtime, tier }.into());
        }
        Ok(Made { session, written: back.finish()?, tier, bytes, lines, digest: hasher.finish() })
    }
}

impl Made {
    /// What was read back is what was written, and says what the chain says.
    pub(super) fn check_back(&self, plan: &Plan, file: &mut dyn Read) -> Result<()> {
        let (mut hasher, mut comparison) = (Hasher::new(), self.written.compare(&self.session.said));
        plant::each_piece(&plan.path, file, |piece| {
            hasher.update(piece);
            Ok(comparison.push(piece)?)
        })?;
        let differs = |detail: String| ResumeError::NotReadBack { path: plan.path.clone(), detail };
        if hasher.finish() != self.digest {
            return Err(differs("the bytes are not those that were written".into()).into());
        }
        match comparison.finish()? {
            None => Ok(()),
            Some(said) => Err(differs(format!("it does not say {:?}", said.begins())).into()),
        }
    }
}
