//! Materializing: a chain of deltas as one conversation, in the format that is wanted.
//!
//! Four ways, the best that is possible: the deltas joined as they are; each record mapped through the neutral
//! conversation; a written account; or the stored bytes themselves.

use std::io;

use enjamb_core::chain::{self, Stop};
use enjamb_core::conversation::Conversation;
use enjamb_core::{CommitId, limits};
use enjamb_formats::{FidelityLedger, Format, Framing, JoinError, Joiner, Tier, Weight, narrative};
use enjamb_ledger::{Ledger, LedgerError, Part, StoredCommit};

use crate::cache::{Broken, Entry, Keeper, Key, Known};
use crate::{Result, ServiceError, Store, commits};

/// What to materialize, and how.
#[derive(Clone, Debug)]
pub struct Materialize {
    /// `None` is no context at all, which materializes to nothing.
    pub tip: Option<CommitId>,
    pub stop: Stop,
    /// The format wanted; `None` for the one that the chain is in.
    pub format: Option<String>,
}

/// What was materialized.
#[derive(Clone, Debug, PartialEq)]
pub struct Materialized {
    pub tier: Tier,
    pub format: String,
    pub commits: u64,
    pub bytes: u64,
    pub messages: u64,
    pub tokens: u64,
    /// What became of each block, when anything was translated.
    pub ledger: Option<FidelityLedger>,
}

/// Commits before a tip at which something kept is looked for.
const KEPT_BEFORE_MAX: usize = 64;

/// A conversation that the one asked for begins with.
struct Ancestor {
    known: Known,
    key: Key,
    later: Vec<Part>,
}

/// A conversation can be gone on with when nothing but lines comes after it.
fn goes_on(said: &Materialized, later: &[Part]) -> bool {
    let is_lines = enjamb_formats::by_id(&said.format).is_some_and(|format| format.framing() == Framing::JsonLines);
    said.tier == Tier::Native && is_lines && later.iter().all(|part| *part.format == *said.format)
}

impl Materialize {
    fn key(&self, tip: &CommitId) -> Key {
        Key::of(tip, &self.stop, self.format.as_deref())
    }
}

impl Materialized {
    fn add(&mut self, parts: &[Part]) {
        self.commits += parts.len() as u64;
        self.messages += parts.iter().map(|part| part.messages).sum::<u64>();
        self.tokens += parts.iter().map(|part| part.tokens).sum::<u64>();
    }
}

/// An output for which a conversation may be written from the beginning again: what it has already is passed over.
struct Resumable<'a, 'o> {
    out: &'a mut Out<'o>,
    at: u64,
    written: u64,
}

impl Resumable<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let had = self.written.saturating_sub(self.at).min(bytes.len() as u64);
        self.at += bytes.len() as u64;
        self.written = self.written.max(self.at);
        match &bytes[had as usize..] {
            [] => Ok(()),
            rest => (self.out)(rest),
        }
    }
}

pub(crate) type Out<'a> = dyn FnMut(&[u8]) -> io::Result<()> + 'a;

impl Store {
    /// Writes the conversation that a chain holds.
    pub fn materialize(&self, request: &Materialize, out: &mut Out<'_>) -> Result<Materialized> {
        let Some(tip) = &request.tip else { return self.write_parts(request, &[], out) };
        let mut out = Resumable { out, at: 0, written: 0 };
        let key = request.key(tip);
        let mut asked = false;
        match self.cache.find(&key) {
            Some(Known::Kept(entry)) if self.hand_out(&key, &entry, &mut out)? => return Ok(entry.said),
            Some(_) => asked = true,
            None => {}
        }
        if let Some(ancestor) = self.kept_before(request)? {
            match ancestor {
                Ancestor { known: Known::Kept(entry), key: old, later } => {
                    if self.hand_out(&old, &entry, &mut out)? {
                        return self.go_on(&key, &old, &entry, &later, &mut out);
                    }
                }
                Ancestor { known: Known::Asked, .. } => asked = true,
            }
        }
        let parts = self.contributing(request)?;
        let bytes: u64 = parts.iter().map(|part| part.len).sum();
        let keeper = asked.then(|| Keeper::begin(&self.cache, bytes, self.env.new_id())).flatten();
        if keeper.is_none() && bytes >= self.cache.bytes_min {
            self.cache.note(&key);
        }
        self.write_and_keep(request, &key, &parts, keeper, &mut out)
    }

    /// Writes what was kept, and says whether that went well. What turns out not to be what was kept is forgotten, and
    /// whoever makes it anew need not write again what is out already.
    fn hand_out(&self, key: &Key, entry: &Entry, out: &mut Resumable<'_, '_>) -> Result<bool> {
        match self.cache.stream(entry, &mut |bytes| out.write(bytes)) {
            Ok(()) => Ok(true),
            Err(Broken::Output(error)) => Err(LedgerError::Output(error).into()),
            Err(Broken::Kept) => {
                self.cache.forget(key);
                out.at = 0;
                Ok(false)
            }
        }
    }

    /// The nearest commit before the tip whose conversation was asked for, and what came after it.
    fn kept_before(&self, request: &Materialize) -> Result<Option<Ancestor>> {
        let Some(tip) = &request.tip else { return Ok(None) };
        if self.cache.is_empty() {
            return Ok(None);
        }
        let near = self.ledger.parts(tip, &request.stop, KEPT_BEFORE_MAX)?;
        let mut later = Vec::new();
        for part in near.ok_or_else(|| commits::unknown(tip))? {
            let key = request.key(&part.link.id);
            if !later.is_empty()
                && let Some(known) = self.cache.find(&key)
            {
                later.reverse();
                let grows = match &known {
                    Known::Asked => true,
                    Known::Kept(entry) => goes_on(&entry.said, &later),
                };
                return Ok(grows.then_some(Ancestor { known, key, later }));
            }
            later.push(part);
        }
        Ok(None)
    }

    /// Writes what came after a conversation that was kept and is out, and keeps it as well.
    fn go_on(
        &self,
        key: &Key,
        old: &Key,
        entry: &Entry,
        later: &[Part],
        out: &mut Resumable<'_, '_>,
    ) -> Result<Materialized> {
        let later: Vec<Part> = later.iter().filter(|part| !part.link.kind.begins()).cloned().collect();
        let mut keeper = Keeper::resume(&self.cache, entry);
        let mut said = entry.said.clone();
        self.join_lines(&later, &mut |bytes| {
            said.bytes += bytes.len() as u64;
            if let Some(keeper) = &mut keeper {
                keeper.push(bytes);
            }
            out.write(bytes)
        })?;
        said.add(&later);
        if let Some(keeper) = keeper {
            keeper.keep(key, &said);
            self.cache.forget(old);
        }
        Ok(said)
    }

    fn write_and_keep(
        &self,
        request: &Materialize,
        key: &Key,
        parts: &[Part],
        mut keeper: Option<Keeper<'_>>,
        out: &mut Resumable<'_, '_>,
    ) -> Result<Materialized> {
        let mut bytes = 0;
        let written = self.write_parts(request, parts, &mut |part| {
            bytes += part.len() as u64;
            if let Some(keeper) = &mut keeper {
                keeper.push(part);
            }
            out.write(part)
        });
        let done = written.map(|mut done| {
            done.bytes = bytes;
            done.add(parts);
            done
        });
        match (&done, keeper) {
            (Ok(done), Some(keeper)) => keeper.keep(key, done),
            (Err(_), Some(keeper)) => keeper.drop_all(),
            (_, None) => {}
        }
        done
    }

    /// The deltas that contribute, from the stop to the tip.
    pub(crate) fn contributing(&self, request: &Materialize) -> Result<Vec<Part>> {
        let Some(tip) = &request.tip else { return Ok(Vec::new()) };
        let parts = self.ledger.parts(tip, &request.stop, limits::CHAIN_COMMITS_MAX)?;
        let mut parts = parts.ok_or_else(|| commits::unknown(tip))?;
        if let Stop::At(stop) = request.stop
            && parts.last().is_none_or(|last| last.link.id != stop)
        {
            return Err(ServiceError::NotAnAncestor { stop, tip: *tip });
        }
        parts.reverse();
        let kinds: Vec<_> = parts.iter().map(|part| part.link.kind).collect();
        let mut used = chain::contributes(&request.stop, &kinds).into_iter();
        parts.retain(|_| used.next().unwrap_or(true));
        Ok(parts)
    }

    fn write_parts(&self, request: &Materialize, parts: &[Part], out: &mut Out<'_>) -> Result<Materialized> {
        let stored = parts.first().map(|part| part.format.to_string());
        let wanted = request.format.clone().or(stored).unwrap_or_else(|| "generic-v1".into());
        let one_format = parts.iter().all(|part| *part.format == *wanted);
        let all_known = parts.iter().all(|part| enjamb_formats::by_id(&part.format).is_some());
        match enjamb_formats::by_id(&wanted) {
            Some(format) if one_format => self.join(format, parts, out),
            Some(format) if all_known => self.translate(format, parts, out),
            None if all_known && wanted == NARRATIVE => self.narrate(parts, out),
            _ => self.raw(&wanted, parts, out),
        }
    }

    /// Joins deltas of one format.
    pub(crate) fn join(&self, format: &dyn Format, parts: &[Part], out: &mut Out<'_>) -> Result<Materialized> {
        match format.framing() {
            Framing::JsonLines => self.join_lines(parts, out)?,
            Framing::JsonArray | Framing::CborArray => self.join_arrays(format, parts, out)?,
        }
        Ok(materialized(Tier::Native, format.id(), None))
    }

    /// Lines need nothing between them but newlines, so a delta is passed on as it is read, however long it is.
    fn join_lines(&self, parts: &[Part], out: &mut Out<'_>) -> Result<()> {
        let mut ends = LineEnds::default();
        self.ledger.read_parts(parts, &mut |at, bytes| {
            ends.before(at, out)?;
            ends.after(bytes);
            out(bytes)
        })?;
        ends.before(parts.len(), out).map_err(LedgerError::Output)?;
        Ok(())
    }

    /// Two passes: the head of an array counts what follows.
    fn join_arrays(&self, format: &dyn Format, parts: &[Part], out: &mut Out<'_>) -> Result<()> {
        let mut total = Weight::default();
        self.each_delta(parts, |_, delta| {
            total += format.weigh(delta)?;
            Ok(())
        })?;
        let mut joiner = Joiner::begin(format, total, out).map_err(joining)?;
        self.each_delta(parts, |_, delta| joiner.push(delta, out).map_err(joining))?;
        joiner.finish(out).map_err(joining)
    }

    /// Calls back with each delta as a whole.
    pub(crate) fn each_delta(&self, parts: &[Part], mut visit: impl FnMut(&Part, &[u8]) -> Result<()>) -> Result<()> {
        let mut delta = Vec::new();
        for part in parts {
            delta.clear();
            self.ledger.read_parts(std::slice::from_ref(part), &mut |_, bytes| {
                delta.extend_from_slice(bytes);
                Ok(())
            })?;
            visit(part, &delta)?;
        }
        Ok(())
    }

    /// What a chain says, in the neutral form. Deltas of one format are read as the one file that they are: only then does
    /// the format see which of them were abandoned or compacted.
    pub(crate) fn read_chain(&self, tip: &CommitId, stop: Stop) -> Result<Conversation> {
        let request = Materialize { tip: Some(*tip), stop, format: None };
        let parts = self.contributing(&request)?;
        self.conversation(&parts)
    }

    /// What each commit of a chain contributes, as its format reads it.
    pub(crate) fn chain_deltas(&self, tip: &CommitId, stop: Stop) -> Result<Vec<(StoredCommit, Conversation)>> {
        let parts = self.contributing(&Materialize { tip: Some(*tip), stop, format: None })?;
        let read = |part: &Part| Ok((self.show(&part.link.id)?, self.conversation(std::slice::from_ref(part))?));
        parts.iter().map(read).collect()
    }

    /// What deltas say. Those of one format that follow each other are read as one transcript.
    fn conversation(&self, parts: &[Part]) -> Result<Conversation> {
        let mut whole = Conversation::default();
        for run in runs(parts) {
            let format = known_format(run)?;
            let mut joined = Vec::new();
            self.join(format, run, &mut |bytes| {
                joined.extend_from_slice(bytes);
                Ok(())
            })?;
            whole.entries.extend(format.decode(&joined)?.entries);
        }
        Ok(whole)
    }

    fn narrate(&self, parts: &[Part], out: &mut Out<'_>) -> Result<Materialized> {
        let text = narrative::render(&self.conversation(parts)?);
        out(text.as_bytes()).map_err(LedgerError::Output)?;
        Ok(materialized(Tier::Rendered, NARRATIVE, None))
    }

    fn raw(&self, wanted: &str, parts: &[Part], out: &mut Out<'_>) -> Result<Materialized> {
        self.ledger.read_parts(parts, &mut |_, bytes| out(bytes))?;
        Ok(materialized(Tier::Raw, wanted, None))
    }
}

/// Sees to it that every delta of lines ends with a newline.
#[derive(Default)]
struct LineEnds {
    part: usize,
    lacks_newline: bool,
}

impl LineEnds {
    /// Ends the part before `part`, unless that is the one that goes on.
    fn before(&mut self, part: usize, out: &mut Out<'_>) -> io::Result<()> {
        if part != self.part {
            if std::mem::take(&mut self.lacks_newline) {
                out(b"\n")?;
            }
            self.part = part;
        }
        Ok(())
    }

    fn after(&mut self, bytes: &[u8]) {
        if let Some(last) = bytes.last() {
            self.lacks_newline = *last != b'\n';
        }
    }
}

/// The name under which a written account is asked for.
pub const NARRATIVE: &str = "narrative-v1";

/// Parts of one format that follow each other.
pub(crate) fn runs(parts: &[Part]) -> impl Iterator<Item = &[Part]> {
    parts.chunk_by(|one, next| one.format == next.format)
}

pub(crate) fn known_format(run: &[Part]) -> Result<&'static dyn Format> {
    let name = run.first().map(|part| &*part.format).unwrap_or_default();
    enjamb_formats::by_id(name).ok_or_else(|| ServiceError::UnknownFormat(name.to_owned()))
}

pub(crate) fn materialized(tier: Tier, format: &str, ledger: Option<FidelityLedger>) -> Materialized {
    Materialized { tier, format: format.to_owned(), commits: 0, bytes: 0, messages: 0, tokens: 0, ledger }
}

fn joining(error: JoinError) -> ServiceError {
    match error {
        JoinError::Format(error) => error.into(),
        JoinError::Write(error) => LedgerError::Output(error).into(),
    }
}

#[cfg(test)]
mod tests {
    use enjamb_testkit::home::Home;

    use super::*;
    use crate::{Checkpoint, Content, Env};
    use enjamb_core::Timestamp;
    use enjamb_core::chain::CommitKind;

    /// A commit of a random tree, as the test remembers it.
    struct Made {
        id: CommitId,
        parent: Option<usize>,
        kind: CommitKind,
        delta: String,
    }

    fn grow(store: &Store, commits: usize, seed: u64) -> Vec<Made> {
        let mut random = seed;
        let mut next = move || {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) as usize
        };
        let mut made: Vec<Made> = Vec::new();
        for at in 0..commits {
            let parent = (at > 0 && next() % 10 > 0).then(|| next() % at);
            let kind = match (parent, next() % 6) {
                (Some(_), 0) => CommitKind::Compaction,
                (_, 1) => CommitKind::Snapshot,
                _ => CommitKind::Delta,
            };
            let end = if next() % 4 == 0 { "" } else { "\n" };
            let delta = format!("{{\"role\":\"user\",\"content\":\"{at}\"}}{end}");
            let id = store.checkpoint(request(&delta, parent.map(|parent| made[parent].id), kind, at)).unwrap().id;
            made.push(Made { id, parent, kind, delta });
        }
        made
    }

    fn request(delta: &str, parent: Option<CommitId>, kind: CommitKind, at: usize) -> Checkpoint {
        let created_at = Some(Timestamp::from_millis(at as i64));
        let delta = Content::Bytes(delta.as_bytes().to_vec());
        Checkpoint { parent, kind, created_at, ..Checkpoint::new(delta, "generic-v1", "p") }
    }

    /// The path to a commit, from the first one on.
    fn path(made: &[Made], tip: usize) -> Vec<&Made> {
        let mut path = vec![&made[tip]];
        while let Some(parent) = path[path.len() - 1].parent {
            path.push(&made[parent]);
        }
        path.reverse();
        path
    }

    fn joined<'m>(path: impl IntoIterator<Item = &'m Made>) -> String {
        path.into_iter().map(|made| format!("{}\n", made.delta.trim_end())).collect()
    }

    fn check(store: &Store, made: &[Made]) {
        let read = |tip: &Made, stop: Stop| {
            let mut text = Vec::new();
            let request = Materialize { tip: Some(tip.id), stop, format: None };
            let done = store.materialize(&request, &mut |part| text.write_all(part)).unwrap();
            assert_eq!(done.tier, Tier::Native);
            String::from_utf8(text).unwrap()
        };
        for tip in 0..made.len() {
            let path = path(made, tip);
            let whole =
                path.iter().enumerate().filter(|(at, made)| *at == 0 || !made.kind.begins()).map(|(_, made)| *made);
            assert_eq!(read(&made[tip], Stop::Root), joined(whole), "root of {tip}");
            let begin = path.iter().rposition(|made| made.kind.begins()).unwrap_or(0);
            assert_eq!(
                read(&made[tip], Stop::Compaction),
                joined(path[begin..].iter().copied()),
                "compaction of {tip}"
            );
        }
    }

    use std::io::Write;

    /// A store that keeps everything it is asked for twice, however small.
    fn keeping(home: &std::path::Path) -> Store {
        let mut store = Store::create(home, Env::system()).unwrap();
        store.cache.bytes_min = 0;
        store
    }

    #[test]
    fn what_is_kept_is_what_would_be_made() {
        for seed in 0..4 {
            let home = Home::new();
            let store = keeping(&home.store());
            let made = grow(&store, 60, seed);
            // Asked, kept, found; and grown by the commits after each.
            (0..3).for_each(|_| check(&store, &made));
        }
    }

    /// A chain that is read, goes on, and is read again.
    fn grown(store: &Store, commits: usize) -> (CommitId, String) {
        let delta = |at: usize| format!("{{\"role\":\"user\",\"content\":\"{at}{}\"}}\n", "x".repeat(300_000));
        let (mut tip, mut whole) = (None, String::new());
        for at in 0..commits {
            let request = request(&delta(at), tip, CommitKind::Delta, at);
            tip = Some(store.checkpoint(request).unwrap().id);
            whole.push_str(&delta(at));
            assert!(read(store, tip) == whole, "after commit {at}");
        }
        (tip.unwrap(), whole)
    }

    fn read(store: &Store, tip: Option<CommitId>) -> String {
        let mut text = Vec::new();
        let request = Materialize { tip, stop: Stop::Root, format: None };
        let done = store.materialize(&request, &mut |part| text.write_all(part)).unwrap();
        assert_eq!(done.bytes, text.len() as u64);
        String::from_utf8(text).unwrap()
    }

    fn kept_files(home: &std::path::Path, extension: &str) -> Vec<std::path::PathBuf> {
        let files = std::fs::read_dir(home.join("cache")).unwrap().map(|file| file.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
    }

    #[test]
    fn a_chain_that_grows_goes_on_in_one_file() {
        let home = Home::new();
        let store = keeping(&home.store());
        let (_, whole) = grown(&store, 12);
        let files = kept_files(&home.store(), "bytes");
        assert_eq!(files.len(), 1);
        assert_eq!(std::fs::read_to_string(&files[0]).unwrap(), whole);
    }

    #[test]
    fn what_rots_in_the_cache_is_made_anew() {
        let home = Home::new();
        let store = keeping(&home.store());
        let (tip, whole) = grown(&store, 12);
        for at in [0, 1_500_000, whole.len() - 2] {
            for file in kept_files(&home.store(), "bytes") {
                let mut bytes = std::fs::read(&file).unwrap();
                bytes[at] ^= 1;
                std::fs::write(&file, &bytes).unwrap();
            }
            assert!(read(&store, Some(tip)) == whole, "rot at {at}");
        }
        kept_files(&home.store(), "bytes").iter().for_each(|file| std::fs::remove_file(file).unwrap());
        assert!(read(&store, Some(tip)) == whole);
        for entry in kept_files(&home.store(), "entry") {
            std::fs::write(entry, "no entry").unwrap();
        }
        assert!(read(&store, Some(tip)) == whole);
    }

    #[test]
    fn any_tip_of_any_tree_is_the_deltas_on_its_path() {
        for seed in 0..4 {
            let home = Home::new();
            let store = Store::create(&home.store(), Env::system()).unwrap();
            let made = grow(&store, 60, seed);
            check(&store, &made);
            store.rebuild_index().unwrap();
            check(&store, &made);
        }
    }
}
