//! A chain in another format than its own.
//!
//! Deltas that are in the wanted format already are passed on byte for byte, wherever in the chain they are; what another
//! runtime added is translated, and goes on from what stands before it. So a context that went from one runtime to
//! another and back is what it was, followed by what is new.

use enjamb_formats::{FidelityLedger, Format, Framing, Survey, Tier, concat};
use enjamb_ledger::{LedgerError, Part};

use crate::materialize::{Materialized, Out, known_format, materialized, runs};
use crate::{Result, Store};

/// Where a translation goes, and what it goes on from.
struct Written<'w, 'o> {
    format: &'static dyn Format,
    out: &'w mut Out<'o>,
    /// Reads what was written, unless nothing else will follow it.
    survey: Option<Survey<'static>>,
    is_begun: bool,
    /// An array has a head that counts what follows: its deltas wait for the end.
    deltas: Vec<Vec<u8>>,
    ledger: FidelityLedger,
}

impl Written<'_, '_> {
    fn push(&mut self, delta: &[u8]) -> Result<()> {
        if delta.is_empty() {
            return Ok(());
        }
        self.is_begun = true;
        if let Some(survey) = &mut self.survey {
            survey.push(delta)?;
        }
        match self.format.framing() {
            Framing::JsonLines => {
                (self.out)(delta).map_err(LedgerError::Output)?;
                let end: &[u8] = if delta.ends_with(b"\n") { b"" } else { b"\n" };
                (self.out)(end).map_err(LedgerError::Output)?;
            }
            Framing::JsonArray | Framing::CborArray => self.deltas.push(delta.to_vec()),
        }
        Ok(())
    }

    fn finish(self) -> Result<FidelityLedger> {
        if self.format.framing() != Framing::JsonLines {
            (self.out)(&concat(self.format, &self.deltas)?).map_err(LedgerError::Output)?;
        }
        Ok(self.ledger)
    }
}

impl Store {
    pub(crate) fn translate(
        &self,
        format: &'static dyn Format,
        parts: &[Part],
        out: &mut Out<'_>,
    ) -> Result<Materialized> {
        let survey = (runs(parts).count() > 1).then(|| Survey::new(format));
        let ledger = FidelityLedger::default();
        let mut written = Written { format, out, survey, is_begun: false, deltas: Vec::new(), ledger };
        for run in runs(parts) {
            match &*run[0].format == format.id() {
                true => self.pass_on(run, &mut written)?,
                false => self.translate_run(run, &mut written)?,
            }
        }
        Ok(materialized(Tier::Mapped, format.id(), Some(written.finish()?)))
    }

    fn pass_on(&self, run: &[Part], written: &mut Written<'_, '_>) -> Result<()> {
        let mut survey = Survey::new(written.format);
        self.each_delta(run, |_, delta| {
            survey.push(delta)?;
            written.push(delta)
        })?;
        written.ledger.merge(&survey.finish().kept());
        Ok(())
    }

    fn translate_run(&self, run: &[Part], written: &mut Written<'_, '_>) -> Result<()> {
        let source = known_format(run)?;
        let mut survey = Survey::new(source);
        self.each_delta(run, |_, delta| Ok(survey.push(delta)?))?;
        let surveyed = survey.finish();
        let before = written.survey.as_ref().filter(|_| written.is_begun).map(Survey::so_far);
        let mut translation = surveyed.translate(written.format, before.as_ref().map(|before| before.before()));
        self.each_delta(run, |_, delta| written.push(translation.push(delta)?))?;
        let (rest, ledger) = translation.finish();
        written.push(&rest)?;
        written.ledger.merge(&ledger);
        Ok(())
    }
}
