//! Two stores that come to hold the same: how little travels, what a cut leaves behind, and that nothing is lost.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use enjamb_core::frame::artifact_mentions;
use enjamb_core::{ArtifactId, CommitId, StreamId};
use enjamb_ledger::{Batch, Ledger, NewArtifact};
use enjamb_server::sync::{Peer, Transferred, compare, plan, transfer};
use enjamb_server::{Address, Client, ClientError, Operations, Scope, Secret};
use enjamb_service::{Actor, Append, Checkpoint, Content, DraftLine, Env, Expect, PutOptions, Store};
use enjamb_testkit::home::{Home as Stores, times};
use serde_json::{Value, json};

use crate::harness::Home;

const ALL: &[Scope] = &[Scope::Read, Scope::Append];

fn local(dir: &Path) -> Operations {
    Operations::here(Store::create(dir, Env::system()).expect("a store"), Actor::default())
}

fn client(url: &str, token: &str) -> Operations {
    let address = Address::parse(url).expect("an address");
    Operations::there(Client::new(&address, Some(Secret::parse(token).expect("a token"))))
}

fn url(home: &Home) -> String {
    format!("http://{}", home.server.served.address)
}

fn moved(from: &Operations, to: &Operations) -> Result<Transferred, ClientError> {
    transfer(&Peer::new(from), &Peer::new(to), 0, &mut |_, _| {})
}

fn commit(store: &Store, principal: &str, parent: Option<CommitId>, text: &str) -> CommitId {
    let content = Content::Bytes(format!("{{\"role\":\"user\",\"content\":\"{text}\"}}\n").into_bytes());
    let request = Checkpoint { parent, ..Checkpoint::new(content, "generic-v1", principal) };
    store.checkpoint(request).expect("a commit").id
}

/// A store with a chain of so many commits, each with a delta.
fn chain(dir: &Path, count: u64) -> CommitId {
    let store = Store::create(dir, Env::system()).expect("a store");
    let stream: StreamId = "context/dana".parse().expect("a name");
    let mut parent = String::new();
    for some in (0..count).collect::<Vec<_>>().chunks(500) {
        let (mut lines, mut artifacts) = (Vec::new(), Vec::new());
        for n in some {
            let artifact = NewArtifact::from_bytes(format!("{{\"role\":\"user\",\"content\":\"{n}\"}}\n").into_bytes());
            let (delta, at) = (artifact.id.to_string(), "2026-11-15T09:12:00Z");
            let id = CommitId::derive(&parent, &delta, at, "").to_string();
            let mut json = json!({
                "type": "context_committed", "commit_id": id, "version": 1, "commit_type": "delta", "artifact_ref": delta,
                "format": "generic-v1", "checkpoint": "explicit", "message_count": 1, "token_count": 1, "created_at": at,
            });
            if !parent.is_empty() {
                json["parent"] = parent.clone().into();
            }
            lines.push(DraftLine { line: 1, json: json.to_string().into_bytes() });
            artifacts.push(artifact);
            parent = id;
        }
        store.ledger().append(Batch { artifacts, ..Batch::default() }).expect("bytes");
        store.append(Append { lines, stream: Some(stream.clone()), ..Append::default() }).expect("commits");
    }
    parent.parse().expect("an id")
}

#[test]
fn pushing_twice_sends_nothing_and_one_new_commit_of_ten_thousand_costs_a_few_requests() {
    let stores = Stores::new();
    let tip = chain(&stores.store(), 10_000);
    let here = local(&stores.store());
    let home = Home::with(|options| (options.bounds.rate, options.bounds.burst) = (1e9, 1e9));
    let there = client(&url(&home), &home.token(ALL, None, Some("team")));
    let first = moved(&here, &there).expect("it is sent");
    assert!(first.roots.agree() && (first.commits, first.artifacts) == (10_000, 10_000), "{first:?}");
    let again = transfer(&Peer::new(&here), &Peer::new(&there), first.position, &mut |_, _| {}).expect("it is sent");
    assert_eq!((again.to.requests, again.to.bytes, again.frames, again.artifacts), (1, 0, 0, 0));
    let params = json!({"content": "{\"role\":\"user\",\"content\":\"new\"}\n", "format": "generic-v1", "principal": "dana",
        "parent": tip.to_string()});
    let _: Value = here.call("checkpoint", params).expect("a commit");
    let one = transfer(&Peer::new(&here), &Peer::new(&there), again.position, &mut |_, _| {}).expect("it is sent");
    assert!(one.roots.agree());
    assert_eq!((one.commits, one.frames, one.artifacts, one.kept), (1, 1, 1, 0));
    assert!(one.to.requests <= 6 && one.to.bytes < 4_096, "{one:?}");
    // Without what was remembered it takes as many requests.
    let frame = br#"{"type":"x"}"#.to_vec();
    let _: Value =
        here.upload("append", json!({"kind": "session", "id": "s"}), "application/json", frame).expect("a frame");
    let other = moved(&here, &there).expect("it is sent");
    assert!(other.roots.agree() && other.frames == 1 && other.to.requests <= 6, "{other:?}");
}

#[test]
fn a_clone_is_whole_and_gives_back_every_byte() {
    let stores = Stores::new();
    let (a, b) = (stores.store_named("a"), stores.store_named("b"));
    let large: Vec<u8> = (0..600_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let (id, tip) = {
        let store = Store::create(&a, Env::system()).expect("a store");
        let id = store.put(&mut large.as_slice(), &PutOptions::default()).expect("bytes").id;
        store.tag("large", Some(id), Expect::Anything, &Actor::default()).expect("a tag");
        let first = commit(&store, "dana", None, "one");
        (id, commit(&store, "lee", Some(first), "two"))
    };
    let home = Home::with(|options| (options.bounds.rate, options.bounds.burst) = (1e9, 1e9));
    let there = client(&url(&home), &home.owner);
    let sent = moved(&local(&a), &there).expect("it is sent");
    assert!(sent.roots.agree() && sent.artifacts == 3, "{sent:?}");
    let taken = moved(&there, &local(&b)).expect("it is taken");
    assert!(taken.roots.agree() && taken.roots == sent.roots, "{taken:?}");
    let copy = Store::open(&b, Env::system()).expect("a store");
    assert_eq!(copy.verify(false, &mut |_, _| {}).expect("checked").findings, Vec::new());
    let mut bytes = Vec::new();
    let mut take = |part: &[u8]| {
        bytes.extend_from_slice(part);
        Ok(())
    };
    copy.get(&id, None, &mut take).expect("bytes");
    assert!(bytes == large && copy.show(&tip).is_ok());
}

#[test]
fn a_plan_says_what_would_be_sent_and_sends_nothing() {
    let stores = Stores::new();
    let (a, b) = (stores.store_named("a"), stores.store_named("b"));
    let key = ["ghp_", "k3Zq9vLm2XwT7bYc1NdR5fHs8JpG4aUe6ViQ"].concat();
    {
        let store = Store::create(&a, Env::system()).expect("a store");
        commit(&store, "dana", None, &format!("the key is {key}"));
        let lines = vec![DraftLine { line: 1, json: br#"{"type":"access_recorded"}"#.to_vec() }];
        let stream = Some("audit/access".parse().expect("a name"));
        store.append(Append { lines, stream, ..Append::default() }).expect("a frame");
    }
    let (here, there) = (local(&a), local(&b));
    let planned = plan(&Peer::new(&here), &Peer::new(&there), 0).expect("a plan");
    assert_eq!((planned.streams, planned.frames, planned.commits, planned.artifacts), (1, 1, 1, 1));
    assert_eq!(planned.secrets.values().sum::<u64>(), 1, "{planned:?}");
    let status: Value = there.call("status", json!({})).expect("a status");
    assert_eq!(status["frames"], 0);
    let done = moved(&here, &there).expect("it is sent");
    assert_eq!((done.frames, done.bytes), (planned.frames, planned.bytes));
}

#[test]
fn a_token_that_is_bound_sends_only_what_its_principal_did() {
    let stores = Stores::new();
    commit(&Store::create(&stores.store(), Env::system()).expect("a store"), "dana", None, "one");
    let here = local(&stores.store());
    let home = Home::new();
    let refused = moved(&here, &client(&url(&home), &home.token(ALL, Some("lee"), Some("team"))));
    assert_eq!(refused.expect_err("it is refused").problem()["code"], "principal-not-allowed");
    let sent = moved(&here, &client(&url(&home), &home.token(ALL, Some("dana"), Some("team")))).expect("it is sent");
    assert!(sent.roots.agree());
    let reading = client(&url(&home), &home.token(&[Scope::Read], None, Some("other")));
    let refused = moved(&here, &reading).expect_err("it is refused");
    assert_eq!(refused.problem()["code"], "missing-scope", "{refused}");
}

#[test]
fn what_is_remembered_wrongly_is_made_up_for() {
    let stores = Stores::new();
    let (a, b) = (stores.store_named("a"), stores.store_named("b"));
    let store = Store::create(&a, Env::system()).expect("a store");
    let first = commit(&store, "dana", None, "one");
    let (here, there) = (local(&a), local(&b));
    moved(&here, &there).expect("it is sent");
    let second = commit(&store, "dana", Some(first), "two");
    let between = store.ledger().position().expect("a number");
    commit(&store, "dana", Some(second), "three");
    // The other store is said to have more than it has, up to the middle and up to the end.
    for hint in [between, between + 9] {
        let done = transfer(&Peer::new(&here), &Peer::new(&there), hint, &mut |_, _| {}).expect("it is sent");
        assert!(done.roots.agree(), "{done:?}");
        commit(&store, "dana", Some(second), &hint.to_string());
    }
}

/// Passes on so many bytes, both ways taken together, and then cuts every connection.
struct Cut {
    address: String,
    passed: Arc<AtomicU64>,
}

impl Cut {
    fn after(server: std::net::SocketAddr, bytes: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let passed = Arc::new(AtomicU64::new(0));
        let counter = passed.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let Ok(onward) = TcpStream::connect(server) else { return };
                for (from, to) in [(&connection, &onward), (&onward, &connection)] {
                    let (from, to) = (from.try_clone().expect("a socket"), to.try_clone().expect("a socket"));
                    let counter = counter.clone();
                    std::thread::spawn(move || pass(from, to, &counter, bytes));
                }
            }
        });
        Self { address, passed }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, passed: &AtomicU64, most: u64) {
    let mut buffer = [0; 4_096];
    while let Ok(read) = from.read(&mut buffer) {
        let before = passed.fetch_add(read as u64, Ordering::SeqCst);
        let left = most.saturating_sub(before).min(read as u64) as usize;
        if read == 0 || to.write_all(&buffer[..left]).is_err() || left < read {
            break;
        }
    }
    let _ = (from.shutdown(std::net::Shutdown::Both), to.shutdown(std::net::Shutdown::Both));
}

#[test]
fn a_push_that_is_cut_anywhere_goes_on_and_leaves_nothing_dangling() {
    const CUTS: u64 = 120;
    let stores = Stores::new();
    {
        let store = Store::create(&stores.store(), Env::system()).expect("a store");
        let mut tip = None;
        for turn in 0..12 {
            tip = Some(commit(&store, if turn % 3 == 0 { "lee" } else { "dana" }, tip, &format!("turn {turn}")));
        }
        let large = vec![7; (1 << 20) + 5];
        let id = store.put(&mut large.as_slice(), &PutOptions::default()).expect("bytes").id;
        store.tag("large", Some(id), Expect::Anything, &Actor::default()).expect("a tag");
    }
    let here = local(&stores.store());
    let home = Home::with(|options| (options.bounds.rate, options.bounds.burst) = (1e9, 1e9));
    let whole = Cut::after(home.server.served.address, u64::MAX);
    let through = |cut: &Cut, token: &str| moved(&here, &client(&format!("http://{}", cut.address), token));
    through(&whole, &home.token(ALL, None, Some("whole"))).expect("it is sent");
    let total = whole.passed.load(Ordering::SeqCst);
    let mut failed = 0;
    for number in 0..CUTS {
        let token = home.token(ALL, None, Some(&format!("cut-{number}")));
        // Spread over all of it, and never on the same byte of a request twice.
        let at = total * number / CUTS + number % 7;
        failed += u64::from(through(&Cut::after(home.server.served.address, at), &token).is_err());
        let there = client(&url(&home), &token);
        check_nothing_dangles(&here, &there);
        let done = moved(&here, &there).expect("it is sent");
        assert!(done.roots.agree(), "cut after {at} of {total} bytes");
    }
    assert!(failed >= 100, "{failed} of {CUTS} were cut");
}

/// Every artifact that frames of a store mention, and that the other store has, is there.
fn check_nothing_dangles(from: &Operations, there: &Operations) {
    let (package, _) = there.bytes("sync_frames", json!({})).expect("frames");
    let frames = enjamb_core::sync::Package::read(&package).expect("a package").frames;
    let named: Vec<_> = frames.iter().flat_map(|frame| artifact_mentions(&frame.json)).collect();
    let missing = |of: &Operations| -> Vec<String> {
        let ids: Vec<_> = named.iter().map(ArtifactId::to_string).collect();
        let told: Value = of.call("sync_missing", json!({"artifacts": ids})).expect("an answer");
        serde_json::from_value(told["missing"].clone()).expect("ids")
    };
    assert_eq!(missing(there), missing(from));
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }
}

/// One thing that somebody does with a store.
fn act(store: &Store, dice: &mut Dice, commits: &mut Vec<CommitId>, turn: usize) -> StreamId {
    let by = Actor::default();
    let known: Vec<_> = commits.iter().copied().filter(|id| store.show(id).is_ok()).collect();
    let pick = |dice: &mut Dice| known.get(dice.below(known.len() + 1)).copied();
    match dice.below(6) {
        0 | 1 => {
            let principal = ["dana", "lee"][dice.below(2)];
            let parent = pick(dice);
            commits.push(commit(store, principal, parent, &format!("turn {turn}")));
            format!("context/{principal}").parse().expect("a name")
        }
        2 => {
            let id = store.put(&mut turn.to_string().as_bytes(), &PutOptions::default()).expect("bytes").id;
            store.tag("latest", Some(id), Expect::Anything, &by).expect("a tag");
            StreamId::artifacts()
        }
        3 => match pick(dice) {
            Some(id) => {
                store.move_reference("main", Some(id), Expect::Anything, &by).expect("a ref");
                store.show(&id).expect("a commit").stream
            }
            None => act(store, dice, commits, turn),
        },
        _ => {
            let stream: StreamId = ["session/s", "continuity/t", "note/n"][dice.below(3)].parse().expect("a name");
            let lines = vec![DraftLine { line: 1, json: format!(r#"{{"type":"odd","turn":{turn}}}"#).into_bytes() }];
            store.append(Append { lines, stream: Some(stream.clone()), ..Append::default() }).expect("a frame");
            stream
        }
    }
}

/// Where a stream ends in a store.
fn tip(store: &Store, stream: &StreamId) -> Option<Value> {
    let found = store.ledger().stream(stream).expect("a stream")?;
    Some(json!({"stream": stream.to_string(), "seq": found.next_seq - 1, "chain": found.chain.to_hex()}))
}

#[test]
fn stores_that_write_and_sync_in_any_order_come_to_the_same_and_lose_nothing() {
    for seed in 0..times(12) {
        let home = Stores::new();
        let paths: Vec<_> = (0..3).map(|n| home.store_named(&n.to_string())).collect();
        let stores: Vec<_> = paths.iter().map(|path| Store::create(path, Env::system()).expect("a store")).collect();
        let peers: Vec<_> = paths.iter().map(|path| local(path)).collect();
        let (mut dice, mut commits, mut written) = (Dice(seed), Vec::new(), BTreeMap::new());
        for turn in 0..30 {
            let (a, b) = (dice.below(3), dice.below(2));
            if dice.below(3) > 0 {
                let stream = act(&stores[a], &mut dice, &mut commits, turn);
                let point = tip(&stores[a], &stream).expect("it was written");
                written.insert(point.to_string(), point);
            } else {
                moved(&peers[a], &peers[(a + 1 + b) % 3]).expect("it is sent");
            }
        }
        for (from, to) in [(0, 1), (1, 2), (2, 0), (0, 1), (1, 2)] {
            moved(&peers[from], &peers[to]).expect("it is sent");
        }
        let points: Vec<_> = written.into_values().collect();
        let root = compare(&Peer::new(&peers[0]), &Peer::new(&peers[1])).expect("roots").roots.from;
        for (store, peer) in stores.iter().zip(&peers) {
            assert_eq!(compare(&Peer::new(peer), &Peer::new(peer)).expect("roots").roots.from, root, "seed {seed}");
            assert_eq!(store.verify(false, &mut |_, _| {}).expect("checked").findings, Vec::new(), "seed {seed}");
            let known: Value = peer.call("sync_known", json!({"points": points})).expect("an answer");
            assert!(known["known"].as_array().expect("a list").iter().all(|known| *known == true), "seed {seed}");
            assert!(commits.iter().all(|id| store.show(id).is_ok()), "seed {seed}");
        }
        let again = moved(&peers[2], &peers[0]).expect("it is sent");
        assert_eq!((again.frames, again.artifacts, again.from.requests, again.to.requests), (0, 0, 1, 1));
    }
}
