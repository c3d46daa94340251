//! Taking in what an agent did since the last time: the end of its transcript, or what it printed.

use enjamb_core::CommitId;
use enjamb_core::chain::CommitKind;
use enjamb_core::frame::Json;
use serde_json::{Value, json};

use super::journal::{Facts, Journal};
use super::plain;
use crate::import::{named_files, path_text};
use crate::{
    Actor, Checkpoint, Content, Expect, Filter, ImportBounds, ImportOptions, Result, Runtime, ServiceError, Source,
    Started, Store,
};

/// What makes a run be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trigger {
    TurnBoundary,
    ToolCall,
    SessionEnd,
    /// Somebody asked, or there is much of it.
    Explicit,
}

impl Trigger {
    fn as_str(self) -> &'static str {
        match self {
            Self::TurnBoundary => "turn_boundary",
            Self::ToolCall => "tool_call",
            Self::SessionEnd => "session_end",
            Self::Explicit => "explicit",
        }
    }
}

/// How much of a run is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    pub tip: Option<CommitId>,
    pub commits: u64,
    /// Bytes of the output that are in commits, where the output is what is kept.
    pub offset: u64,
}

impl Store {
    /// How much of a run is stored already. The commits themselves say, so a kill between two writes changes nothing.
    pub(super) fn kept(&self, facts: &Facts) -> Result<Kept> {
        let filter = Filter { session: Some(facts.id.clone()), ..Filter::default() };
        let last = self.list(Source::Store, &filter, None, 1)?.commits.pop();
        let Some(last) = last else { return Ok(Kept { tip: facts.parent(), ..Kept::default() }) };
        let attributes = last.commit.attributes.as_ref().map(Json::get).unwrap_or_default();
        let attributes: Value = serde_json::from_str(attributes).unwrap_or_default();
        let offset = attributes["run"]["to"].as_u64().unwrap_or_default();
        Ok(Kept { tip: Some(last.link.id), commits: 0, offset })
    }

    /// Stores what is new of a run, up to `to` bytes of its output, and lets its ref name it.
    pub(super) fn keep(&self, journal: &Journal, kept: &mut Kept, to: u64, trigger: Trigger, by: &Actor) -> Result<()> {
        let before = kept.tip;
        match Runtime::from_name(&journal.facts.driver).filter(|runtime| *runtime != Runtime::Other) {
            Some(runtime) => self.keep_transcript(runtime, &journal.facts, kept, trigger, by)?,
            None => self.keep_output(journal, kept, to, trigger)?,
        }
        if kept.tip.is_some() && kept.tip != before {
            self.move_reference(&journal.facts.reference(), kept.tip, Expect::Anything, by)?;
        }
        Ok(())
    }

    fn keep_transcript(
        &self,
        runtime: Runtime,
        facts: &Facts,
        kept: &mut Kept,
        trigger: Trigger,
        by: &Actor,
    ) -> Result<()> {
        let Some(path) = &facts.transcript else { return Ok(()) };
        let options = ImportOptions {
            principal: facts.principal.clone(),
            machine: facts.machine.clone(),
            by: by.clone(),
            bounds: ImportBounds::default(),
            started: Some(Started {
                template: facts.template.clone(),
                ticket: facts.ticket.clone(),
                trigger: trigger.as_str(),
            }),
        };
        let imported = self.import(named_files(runtime, path), &options, &mut |_, _, _| {})?;
        kept.commits += imported.commits;
        if let Some((path, detail)) = imported.failed.into_iter().next() {
            return Err(ServiceError::BadFile { path, detail });
        }
        let tip = self.source(&path_text(path))?.and_then(|source| source.tip());
        kept.tip = tip.or(kept.tip);
        Ok(())
    }

    fn keep_output(&self, journal: &Journal, kept: &mut Kept, to: u64, trigger: Trigger) -> Result<()> {
        let facts = &journal.facts;
        let output = journal.read(kept.offset, to.saturating_sub(kept.offset))?;
        let asked = facts.asked.as_deref().filter(|_| kept.offset == 0 && !output.is_empty());
        let records = plain::records(&output, asked);
        if !records.is_empty() {
            let checkpoint = Checkpoint {
                parent: kept.tip,
                kind: CommitKind::Delta,
                trigger: trigger.as_str().to_owned(),
                template: Some(facts.template.clone()),
                machine: facts.machine.clone(),
                session_id: Some(facts.id.clone()),
                ticket_id: facts.ticket.clone(),
                attributes: Some(json!({"run": {"id": facts.id, "from": kept.offset, "to": to}})),
                ..Checkpoint::new(Content::Bytes(records), Runtime::Other.format(), &facts.principal)
            };
            kept.tip = Some(self.checkpoint(checkpoint)?.id);
            kept.commits += 1;
        }
        kept.offset = to;
        Ok(())
    }

    /// Takes in runs whose agents and starters are both gone. What cannot be stored now stays.
    pub fn settle_runs(&self, by: &Actor) -> Result<u64> {
        let mut settled = 0;
        for journal in Journal::left_over(self.dir()) {
            let mut kept = self.kept(&journal.facts)?;
            let to = journal.len()?;
            self.keep(&journal, &mut kept, to, Trigger::SessionEnd, by)?;
            journal.end()?;
            settled += 1;
        }
        Ok(settled)
    }
}
