//! `enjamb demo`: the whole story, in a store that is thrown away. Every ✓ is a check that was made.

use clap::Args;
use enjamb_service::{Env, Expect, PutOptions, SAMPLE_THREAD, Store};
use serde_json::json;

use super::Context;
use super::status::stream_table;
use crate::failure::{Exit, Failure, Result};
use crate::text::{bytes, plural};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb demo")]
pub struct Demo {}

impl Demo {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let home = tempfile::tempdir()?;
        let store = Store::create(&home.path().join("store"), Env::system())?;
        let mut tour = Tour { context, store, held: Vec::new() };
        tour.import()?;
        tour.read()?;
        tour.keep()?;
        tour.seal()?;
        tour.damage(home.path())?;
        tour.step("That store is gone now. For one of your own:  enjamb init")?;
        if tour.context.ui.is_json() {
            let held = std::mem::take(&mut tour.held);
            tour.context.ui.json("demo", json!({"held": held}))?;
        }
        Ok(Exit::Done)
    }
}

struct Tour<'a, 'u> {
    context: &'a mut Context<'u>,
    store: Store,
    /// What was checked, for programs.
    held: Vec<String>,
}

impl Tour<'_, '_> {
    fn step(&mut self, text: &str) -> Result<()> {
        self.say(format!("\n{text}"))
    }

    fn say(&mut self, text: String) -> Result<()> {
        if self.context.ui.is_json() {
            return Ok(());
        }
        Ok(self.context.ui.line(text)?)
    }

    fn check(&mut self, holds: bool, text: &str) -> Result<()> {
        if !holds {
            self.context.ui.bad(text)?;
            return Err(Failure::usage(format!("the demo found that this does not hold: {text}")));
        }
        self.held.push(text.to_owned());
        if self.context.ui.is_json() {
            return Ok(());
        }
        Ok(self.context.ui.good(text)?)
    }

    fn import(&mut self) -> Result<()> {
        self.step("A recorded conversation comes in: a thread, and the runs that answered it.")?;
        let report = self.store.import_frames(&mut SAMPLE_THREAD.as_bytes())?;
        let mut given_back = Vec::new();
        if let Some(manifest) = report.manifest {
            self.store.export_import(&manifest, &mut given_back)?;
        }
        let frames = plural(report.appended, "frame");
        self.check(report.problems.is_empty(), &format!("{frames} on disk, in order, each chained to the one before"))?;
        self.check(given_back == SAMPLE_THREAD.as_bytes(), "and given back byte for byte")
    }

    fn read(&mut self) -> Result<()> {
        self.step("What was said, from the log alone:")?;
        let thread = "continuity/payments".parse().map_err(enjamb_service::ServiceError::from)?;
        for frame in self.store.frames(&thread, 0, 100)? {
            let value: serde_json::Value = serde_json::from_slice(&frame.json).unwrap_or_default();
            if let Some(text) = value["content"].as_str() {
                let who = value["actor_id"].as_str().unwrap_or("?");
                self.say(format!("  {:>3}  {who}  {text}", frame.seq))?;
            }
        }
        self.step("The streams it became:")?;
        let streams = self.store.streams(None, enjamb_ledger::StreamOrder::Name, 10)?;
        if self.context.ui.is_json() {
            return Ok(());
        }
        Ok(self.context.ui.table(&stream_table(&streams))?)
    }

    fn keep(&mut self) -> Result<()> {
        self.step("Bytes are kept under their digest, and named:")?;
        let note = b"Five attempts in 30 s is a ban, so three leaves room.\n";
        let stored = self.store.put(&mut note.as_slice(), &PutOptions::default())?;
        let again = self.store.put(&mut note.as_slice(), &PutOptions::default())?;
        self.store.tag("why-three", Some(stored.id), Expect::Nothing, &self.context.actor())?;
        self.say(format!("  why-three  {}", stored.id))?;
        self.check(again.known && again.id == stored.id, "the same bytes again cost nothing")?;
        let refused = self.store.tag("why-three", None, Expect::Nothing, &self.context.actor());
        self.check(refused.is_err(), "a name does not move from where someone else has put it")
    }

    fn seal(&mut self) -> Result<()> {
        self.step("Nothing is taken on trust:")?;
        let checked = self.store.verify(false, &mut |_, _| {})?;
        let what = format!(
            "{} of {} read again, every digest matches",
            plural(checked.records, "record"),
            bytes(checked.bytes)
        );
        self.check(checked.findings.is_empty(), &what)?;
        let before = self.store.streams(None, enjamb_ledger::StreamOrder::Name, 10)?;
        self.store.rebuild_index()?;
        let after = self.store.streams(None, enjamb_ledger::StreamOrder::Name, 10)?;
        self.check(before == after, "the index, thrown away and made anew from the log, says the same")
    }

    /// Flips one bit of a copy on disk, and sees whether anyone notices.
    fn damage(&mut self, home: &std::path::Path) -> Result<()> {
        self.step("One bit of a backup flips:")?;
        let backup = home.join("backup");
        self.store.backup(&backup, &mut |_, _| {})?;
        let path = backup.join("log.db");
        let mut contents = std::fs::read(&path)?;
        let middle = contents.len() / 2;
        contents[middle] ^= 1;
        std::fs::write(&path, contents)?;
        let findings = Store::verify_backup(&backup, &mut |_, _| {})?;
        let named = findings.first().map(|finding| finding.subject.clone()).unwrap_or_default();
        self.check(named == "log.db", &format!("noticed, and named: {named}"))
    }
}
