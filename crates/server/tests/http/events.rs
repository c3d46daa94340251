//! Following: from any place on, nothing left out, nothing twice, and slow ones cut off.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use enjamb_server::{Pace, Scope, Tokens};
use serde_json::json;

use crate::harness::{Ask, Home};

/// Somebody who reads events as they come.
pub struct Follower {
    stream: TcpStream,
    text: String,
}

impl Follower {
    pub fn begin(home: &Home, ask: &Ask<'_>) -> Self {
        let mut stream = home.connect();
        stream.write_all(&ask.bytes()).unwrap();
        Self { stream, text: String::new() }
    }

    /// Reads until some words have come, and returns all that came, and how long it took.
    #[track_caller]
    pub fn until(&mut self, words: &str) -> (String, Duration) {
        let began = Instant::now();
        let mut buffer = [0; 16 << 10];
        while !self.text.contains(words) {
            assert!(began.elapsed() < Duration::from_secs(20), "{words:?} did not come: {}", self.text);
            match self.stream.read(&mut buffer) {
                Ok(0) => panic!("it ended before {words:?}: {}", self.text),
                Ok(read) => self.text.push_str(&String::from_utf8_lossy(&buffer[..read])),
                Err(error) => panic!("{words:?} did not come: {error}: {}", self.text),
            }
        }
        (self.text.clone(), began.elapsed())
    }

    /// Reads to the end, and returns all that came.
    #[track_caller]
    pub fn rest(&mut self) -> String {
        let (began, mut rest, mut buffer) = (Instant::now(), Vec::new(), [0; 16 << 10]);
        while let Ok(read @ 1..) = self.stream.read(&mut buffer) {
            assert!(began.elapsed() < Duration::from_secs(60), "it does not end");
            rest.extend_from_slice(&buffer[..read]);
        }
        self.text.push_str(&String::from_utf8_lossy(&rest));
        self.text.clone()
    }

    /// Waits until nothing more arrives, though nothing is taken: the connection is full.
    fn wait_until_full(&self) {
        let arrived = || rustix::io::ioctl_fionread(&self.stream).unwrap();
        let mut before = 0;
        while before == 0 || before != arrived() {
            before = arrived();
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    fn ids(&self) -> Vec<u64> {
        self.text.lines().filter_map(|line| line.strip_prefix("id: ")?.parse().ok()).collect()
    }
}

fn note(home: &Home, number: u64) {
    home.append("note/n", &format!(r#"{{"type":"said","n":{number}}}"#));
}

#[test]
fn a_follower_sees_the_past_and_the_present_in_order() {
    let home = Home::new();
    (0..600).for_each(|number| note(&home, number));
    let mut follower = Follower::begin(&home, &home.ask("GET", "/v1/streams/note/n/events"));
    follower.until("\"n\":599}");
    (600..640).for_each(|number| note(&home, number));
    let (text, _) = follower.until("\"n\":639}");
    assert_eq!(follower.ids(), (0..640).collect::<Vec<_>>());
    assert!(text.contains("content-type: text/event-stream") && text.contains("\nretry: 2000\n"), "{}", &text[..400]);
    assert!(text.contains("event: said\n") && !text.contains("content-length"), "it ends with the connection");
}

#[test]
fn a_follower_who_comes_back_goes_on_where_it_was() {
    let home = Home::new();
    (0..5).for_each(|number| note(&home, number));
    let ask = home.ask("GET", "/v1/streams/note/n/events").header("last-event-id", "2");
    let mut follower = Follower::begin(&home, &ask);
    follower.until("\"n\":4}");
    assert_eq!(follower.ids(), [3, 4]);
    let mut follower = Follower::begin(&home, &home.ask("GET", "/v1/streams/note/n/events?after=3"));
    note(&home, 5);
    follower.until("\"n\":5}");
    assert_eq!(follower.ids(), [4, 5]);
    let refused = |id: &str| home.ask("GET", "/v1/streams/note/n/events").header("last-event-id", id).send().problem();
    assert_eq!(refused("x"), (400, "bad-cursor".into()));
    assert_eq!(refused("6"), (409, "cursor-ahead".into()));
    assert_eq!(home.ask("GET", "/v1/streams/note/none/events").send().problem(), (404, "stream-not-found".into()));
}

#[test]
fn types_are_chosen_and_ids_stay_those_of_the_stream() {
    let home = Home::new();
    let mut follower = {
        note(&home, 0);
        Follower::begin(&home, &home.ask("GET", "/v1/streams/note/n/events?type=kept,also&type=more"))
    };
    home.append("note/n", r#"{"type":"kept"}"#);
    note(&home, 2);
    home.append("note/n", r#"{"type":"more"}"#);
    follower.until("event: more");
    assert_eq!(follower.ids(), [1, 3]);
}

#[test]
fn a_principal_and_everything_can_be_followed() {
    let home = Home::new();
    let mut principal = Follower::begin(&home, &home.ask("GET", "/v1/principals/agent%2Fa/events"));
    let mut everything = Follower::begin(&home, &home.ask("GET", "/v1/events"));
    principal.until("retry");
    everything.until("retry");
    note(&home, 7);
    let body =
        json!({"content": "{\"role\":\"user\",\"content\":\"hi\"}\n", "format": "generic-v1", "principal": "agent/a"});
    home.post("/v1/contexts", body);
    principal.until("event: context_committed");
    assert_eq!(principal.ids(), [0]);
    let (text, _) = everything.until("event: context_committed");
    assert!(text.contains("event: said"), "{text}");
    let last = *everything.ids().last().unwrap();
    let first = everything.ids()[0];
    let mut again = Follower::begin(&home, &home.ask("GET", "/v1/events").header("last-event-id", &first.to_string()));
    again.until("event: context_committed");
    assert_eq!(again.ids(), [last], "records that are no frames are passed over");
}

#[test]
fn silence_is_broken_by_a_heartbeat() {
    let home = Home::new();
    note(&home, 0);
    let mut follower = Follower::begin(&home, &home.ask("GET", "/v1/streams/note/n/events"));
    follower.until(": ping\n\n");
}

#[test]
fn what_another_process_appends_is_told_as_well() {
    let home = Home::new();
    note(&home, 0);
    let mut follower = Follower::begin(&home, &home.ask("GET", "/v1/streams/note/n/events"));
    follower.until("\"n\":0}");
    let store = enjamb_service::Store::open(&home.stores.store(), enjamb_service::Env::system()).unwrap();
    let line = enjamb_service::DraftLine { line: 1, json: br#"{"type":"said","n":1}"#.to_vec() };
    let stream = "note/n".parse().ok();
    store.append(enjamb_service::Append { lines: vec![line], stream, ..Default::default() }).unwrap();
    let (_, took) = follower.until("\"n\":1}");
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn who_takes_nothing_is_told_so_and_cut_off() {
    let home = Home::with(|options| {
        options.pace = Pace { stuck: Duration::from_millis(300), ..Pace::default() };
    });
    let filler = "x".repeat(100_000);
    let mut follower = {
        note(&home, 0);
        Follower::begin(&home, &home.ask("GET", "/v1/streams/note/n/events"))
    };
    follower.until("\"n\":0}");
    // More than sockets hold on their way, and then long enough for it to be noticed.
    for number in 1..150 {
        home.append("note/n", &format!(r#"{{"type":"said","n":{number},"filler":"{filler}"}}"#));
    }
    follower.wait_until_full();
    let text = follower.rest();
    let ids = follower.ids();
    assert!(ids.len() < 150, "it was not cut off: {}", ids.len());
    assert_eq!(ids, (0..ids.len() as u64).collect::<Vec<_>>(), "what came is whole and in order");
    let last = ids.len() - 1;
    let told = format!("event: lagged\ndata: {{\"last_id\":{last}}}\n\n");
    assert!(text.contains(&told), "it is told where it was: {}", &text[text.len() - 200..]);
}

#[test]
fn a_slow_follower_catches_up_without_a_gap() {
    let home = Home::new();
    note(&home, 0);
    let mut follower = Follower::begin(&home, &home.ask("GET", "/v1/streams/note/n/events"));
    follower.until("\"n\":0}");
    // Far more pieces than the ring holds, while nobody reads.
    (1..400).for_each(|number| note(&home, number));
    follower.until("\"n\":399}");
    assert_eq!(follower.ids(), (0..400).collect::<Vec<_>>());
}

#[test]
fn a_revoked_token_ends_what_it_follows() {
    let home = Home::new();
    note(&home, 0);
    let token = home.token(&[Scope::Read], None, None);
    let mut follower = Follower::begin(&home, &home.bare("GET", "/v1/streams/note/n/events").token(&token));
    follower.until("\"n\":0}");
    let tokens = Tokens::of(&home.stores.store());
    tokens.revoke(&tokens.list().unwrap()[0].id).unwrap();
    let began = Instant::now();
    follower.rest();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(home.bare("GET", "/v1/status").token(&token).send().problem(), (401, "unauthenticated".into()));
}

#[test]
fn followers_are_sent_away_when_the_server_ends() {
    let home = Home::new();
    note(&home, 0);
    let mut follower = Follower::begin(&home, &home.ask("GET", "/v1/streams/note/n/events"));
    follower.until("\"n\":0}");
    let began = Instant::now();
    let Home { server, .. } = home;
    drop(server);
    follower.rest();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn followers_are_shown_no_secrets() {
    let home = Home::new();
    let secret = ["gh", "p_", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"].concat();
    let append = |words: &str| drop(home.post("/v1/streams/note/n/frames", json!({"type": "x", "said": words})));
    append(&format!("before {secret}"));
    let mut follower = Follower::begin(&home, &home.ask("GET", "/v1/streams/note/n/events"));
    follower.until("before");
    append(&format!("after {secret}"));
    append("the end");
    let (text, _) = follower.until("the end");
    assert!(!text.contains(&secret) && text.matches("[redacted:github-token]").count() == 2, "{text}");
}
