//! Runs of one thread at the same time: each has its own cut, and whatever the order of their steps, the store says what
//! the simplest account of them says.

use std::collections::BTreeMap;

use enjamb_core::compile::Item;
use enjamb_core::provider::AnswerReader;
use enjamb_testkit::home::times;

use super::*;
use crate::Compile;

/// A run as the simplest account knows it.
struct Account {
    id: String,
    message: u64,
    said: String,
    ended_at: Option<u64>,
}

/// What is left to be done for a run.
enum Next {
    Post,
    Compile,
    Receive(usize),
    End,
    Nothing,
}

struct Runner<'s> {
    words: String,
    next: Next,
    session: Option<Session<'s>>,
    spent: Spent,
    reader: AnswerReader,
    pieces: Vec<Vec<u8>>,
}

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

impl<'s> Runner<'s> {
    fn new(at: usize, dice: &mut Dice) -> Self {
        let speech = Speech::new(Dialect::Chat).text(&format!("answer {at} ")).text("and more").end(3, 2);
        let bytes = speech.into_bytes();
        let cut = dice.roll(bytes.len());
        let pieces = vec![bytes[..cut].to_vec(), bytes[cut..].to_vec()];
        let reader = AnswerReader::new(Dialect::Chat);
        Self {
            words: format!("question {at}"),
            next: Next::Post,
            session: None,
            spent: Spent::default(),
            reader,
            pieces,
        }
    }

    /// Does one step. The account is told what the log is to hold.
    fn step(&mut self, stage: &'s Stage, accounts: &mut Vec<Account>) {
        self.next = match std::mem::replace(&mut self.next, Next::Nothing) {
            Next::Post => {
                let run = stage.store.env.new_id();
                let post =
                    Post { content: self.words.clone(), run: Some(RunId::Given(run.clone())), idempotency_key: None };
                let posted = stage.store.post(&stage.thread, post, &stage.by).unwrap();
                accounts.push(Account { id: run, message: posted.seq, said: String::new(), ended_at: None });
                let session = Session::begin(&stage.store, &stage.thread, posted, &self.words, &stage.by).unwrap();
                self.session = Some(session);
                Next::Compile
            }
            Next::Compile => {
                self.compile(stage, accounts);
                Next::Receive(0)
            }
            Next::Receive(at) => {
                let session = self.session.as_ref().unwrap();
                let kept = self.reader.push(&self.pieces[at]);
                let account = accounts.iter_mut().find(|account| account.id == session.run).unwrap();
                account.said.push_str(&kept.text);
                if !kept.frames.is_empty() {
                    stage.store.append_bodies(&session.stream, &kept.frames, Vec::new()).unwrap();
                }
                if at + 1 < self.pieces.len() { Next::Receive(at + 1) } else { Next::End }
            }
            Next::End => {
                let session = self.session.take().unwrap();
                let run = session.run.clone();
                self.spent.text = self.reader.answer().text.clone();
                session.end(None, std::mem::take(&mut self.spent), Ending::completed()).unwrap();
                let head = stage.store.thread_head(&stage.thread).unwrap();
                accounts.iter_mut().find(|account| account.id == run).unwrap().ended_at = Some(head);
                Next::Nothing
            }
            Next::Nothing => Next::Nothing,
        };
    }

    /// Compiles, and compares with what the account says the context is.
    fn compile(&mut self, stage: &Stage, accounts: &[Account]) {
        let session = self.session.as_ref().unwrap();
        let head = stage.store.thread_head(&stage.thread).unwrap();
        let next = accounts.iter().map(|account| account.message).filter(|seq| *seq > session.message.seq).min();
        let cut = next.map_or(head, |next| next - 1);
        let request =
            Compile { message: Some(session.message.id.clone()), run: Some(session.run.clone()), ..Compile::default() };
        let compiled = stage.store.compile(&stage.thread, &request, &stage.by).unwrap();
        assert_eq!(compiled.bundle.source.from_seq, cut, "its own cut");
        let expected: Vec<String> = accounts
            .iter()
            .filter(|account| account.message <= cut)
            .flat_map(|account| {
                let reply = account.ended_at.filter(|at| *at <= cut).map(|_| account.said.clone());
                let seq = account.message;
                [Some(format!("@{seq}")), reply].into_iter().flatten()
            })
            .collect();
        let found: Vec<String> = compiled.bundle.items.iter().map(described).collect();
        assert_eq!(found, expected);
        self.spent.from_seq = Some(cut);
    }
}

fn described(item: &Item) -> String {
    match item {
        Item::Message { thread_seq: Some(seq), .. } => format!("@{seq}"),
        Item::Message { content, .. } => content.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn two_hundred_interleavings_keep_to_the_account() {
    for seed in 1..=times(200) {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let stage = Stage::new();
        let mut runners: Vec<Runner<'_>> = (0..2 + dice.roll(3)).map(|at| Runner::new(at, &mut dice)).collect();
        let mut accounts = Vec::new();
        while runners.iter().any(|runner| !matches!(runner.next, Next::Nothing)) {
            let at = dice.roll(runners.len());
            runners[at].step(&stage, &mut accounts);
        }
        drop(runners);
        for account in &accounts {
            assert_eq!(stage.store.run_text(&account.id).unwrap(), account.said, "seed {seed}");
        }
        check_cuts(&stage, &accounts);
        if seed % 20 == 0 {
            let checked = stage.store.verify(false, &mut |_, _| {}).unwrap();
            assert!(checked.findings.is_empty(), "{:?}", checked.findings);
        }
    }
}

/// Of every run the thread says: spawned, decided, compiled, ended, in this order and once.
fn check_cuts(stage: &Stage, accounts: &[Account]) {
    use enjamb_core::frame::ContinuityBody;
    let mut told: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for frame in stage.frames(&stage.thread) {
        let Body::Continuity(body) = frame.body else { continue };
        let (run, what) = match body {
            ContinuityBody::RunSpawned(run) => (run.run_session_id, "spawned"),
            ContinuityBody::SelectionDecided(run) => (run.run_session_id, "decided"),
            ContinuityBody::ContextCompiled(run) => (run.run_session_id, "compiled"),
            ContinuityBody::RunEnded(run) => (run.run_session_id, "ended"),
            _ => continue,
        };
        told.entry(run).or_default().push(what);
    }
    assert_eq!(told.len(), accounts.len());
    assert!(told.values().all(|what| what == &["spawned", "decided", "compiled", "ended"]), "{told:?}");
}

#[test]
fn turns_taken_by_several_threads_at_once_all_end() {
    let stage = Stage::new();
    let scripts = (0..6).map(|_| Script::events(hello(Dialect::Chat)).byte_by_byte()).collect();
    let (_server, options) = provider(Dialect::Chat, scripts);
    let options = ProviderOptions { idle_timeout: Duration::from_secs(20), ..options };
    let turned: Vec<Turned> = std::thread::scope(|scope| {
        let taking: Vec<_> = (0..6).map(|_| scope.spawn(|| stage.turn_unchecked("hi", options.clone()))).collect();
        taking.into_iter().map(|taken| taken.join().unwrap()).collect()
    });
    assert!(turned.iter().all(|turned| turned.ending.is_completed() && turned.text == "hello"));
    let accounts: Vec<Account> = turned
        .into_iter()
        .map(|turned| Account { id: turned.run, message: 0, said: turned.text, ended_at: None })
        .collect();
    check_cuts(&stage, &accounts);
    let checked = stage.store.verify(false, &mut |_, _| {}).unwrap();
    assert!(checked.findings.is_empty(), "{:?}", checked.findings);
}
