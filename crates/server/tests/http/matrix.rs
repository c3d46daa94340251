//! Who may do what, generated from the table of routes: route × scopes × namespace × ownership. A route with a parameter
//! that this file cannot fill in fails it, so the matrix is complete.
//!
//! Ownership has two sides. An object is in the caller's namespace, in another one, or nowhere: the last two look the
//! same. And a commit is made in the name of the caller's principal, of one below it, or of somebody else's.

use enjamb_server::{Gives, Route, Scope, Takes, routes};
use serde_json::{Value, json};

use crate::harness::{Answer, Ask, Home};

/// Whose things a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Mine,
    Theirs,
    Nowhere,
}

/// The ids of one of everything.
struct Things {
    artifact: String,
    tag: String,
    thread: String,
    message: String,
    context: String,
    name: String,
    bundle: String,
    pack: String,
    stream: String,
}

const ANYTHING: &[Scope] = &[Scope::Read, Scope::Append, Scope::Admin];

/// Every set of scopes that a token can have.
fn scope_sets() -> Vec<Vec<Scope>> {
    (0..8)
        .map(|set| ANYTHING.iter().enumerate().filter(|(bit, _)| set & (1 << bit) != 0).map(|(_, s)| *s).collect())
        .collect()
}

impl Things {
    /// Makes one of everything in a namespace.
    fn made(home: &Home, namespace: &str) -> Self {
        let token = home.token(ANYTHING, None, Some(namespace));
        let send =
            |method: &str, path: &str, body: Value| home.bare(method, path).token(&token).json(&body).send().ok();
        let text = |value: &Value| value.as_str().expect("an id").to_owned();
        let (tag, name, stream) =
            (format!("tag-{namespace}"), format!("ref-{namespace}"), format!("stream-{namespace}"));
        let put = home.bare("POST", "/v1/artifacts").token(&token).raw("text/plain", namespace).send().ok();
        let artifact = text(&put["id"]);
        send("PUT", &format!("/v1/tags/{tag}"), json!({"artifact": artifact}));
        let thread = text(&send("POST", "/v1/threads", json!({"title": namespace}))["thread_id"]);
        let posted = send("POST", &format!("/v1/threads/{thread}/messages"), json!({"content": namespace}));
        let message = text(&posted["message_id"]);
        let content = format!("{{\"role\":\"user\",\"content\":\"{namespace}\"}}\n");
        let context = text(
            &send("POST", "/v1/contexts", json!({"content": content, "format": "generic-v1", "principal": "boss"}))["commits"]
                [0]["id"],
        );
        send("PUT", &format!("/v1/refs/{name}"), json!({"commit": context}));
        let bundle = text(&send("POST", "/v1/compile", json!({"thread": thread}))["bundle"]);
        let pack = text(&send("POST", "/v1/packs", json!({"from": [context]}))["packs"][0]["hash"]);
        let frames = format!("/v1/streams/note/{stream}/frames");
        home.bare("POST", &frames).token(&token).raw("application/json", r#"{"type":"x"}"#).send().ok();
        Self { artifact, tag, thread, message, context, name, bundle, pack, stream }
    }

    /// Ids of things that nobody has, as long as those that somebody has.
    fn nowhere(like: &Self) -> Self {
        let other = |id: &str| {
            let (kind, hex) = id.split_once('-').map_or(("", id), |(kind, hex)| (kind, hex));
            let hex: String = hex.chars().map(|c| if c == '-' { '-' } else { '7' }).collect();
            if kind.is_empty() || !matches!(kind, "art" | "ctx") { hex } else { format!("{kind}-{hex}") }
        };
        let uuid = |id: &str| -> String { id.chars().map(|c| if c == '-' { '-' } else { '7' }).collect() };
        Self {
            artifact: other(&like.artifact),
            tag: "tag-nobody".into(),
            thread: uuid(&like.thread),
            message: uuid(&like.message),
            context: other(&like.context),
            name: "ref-nobody".into(),
            bundle: other(&like.bundle),
            pack: other(&like.pack),
            stream: "stream-nobody".into(),
        }
    }

    /// What stands for a parameter of a path.
    fn parameter(&self, route: &Route, name: &str) -> String {
        match (name, route.path.starts_with("/v1/tags")) {
            ("artifact", _) => self.artifact.clone(),
            ("name", true) => self.tag.clone(),
            ("name", false) => self.name.clone(),
            ("thread", _) => self.thread.clone(),
            ("id", _) if route.seed => self.thread.clone(),
            ("id", _) => self.stream.clone(),
            ("kind", _) => "note".into(),
            ("message", _) => self.message.clone(),
            // Nobody has a job, and the thread is looked for first.
            ("job", _) => "job-7".into(),
            ("context" | "other", _) => self.context.clone(),
            ("bundle", _) => self.bundle.clone(),
            ("pack", _) => self.pack.clone(),
            ("principal", _) => "boss".into(),
            ("ticket", _) => "T-7".into(),
            // Nobody has any of these, and a thread is looked for first.
            ("run" | "task" | "checkpoint", _) => "77777777".into(),
            _ => panic!("{route:?}: say in this test what {{{name}}} stands for"),
        }
    }

    /// A body that names these things, for routes that need one.
    fn body(&self, route: &Route) -> Value {
        match route.operation {
            "pin" => json!({"policy": "pin"}),
            "compile" => json!({"from": self.context}),
            "checkpoint" => json!({"format": "generic-v1", "content": "{}\n", "parent": self.context}),
            "note" => json!({"summary": "s"}),
            "fork" => json!({"name": "forked"}),
            "pack" => json!({"from": [self.context]}),
            "move_ref" => json!({"commit": self.context}),
            "tag" => json!({"artifact": self.artifact}),
            "post" | "seed_post" => json!({"content": "c", "actor_id": "a", "origin": "o"}),
            "reference" => json!({"other": self.thread, "last": true}),
            "set_cursor" => json!({"cursor": {"c": 1}}),
            "update_thread" => json!({"archived": false}),
            "sync_known" | "sync_points" => {
                let stream = format!("note/{}", self.stream);
                json!({"points": [{"stream": stream, "seq": 0, "chain": "7".repeat(64)}]})
            }
            "sync_artifacts" | "sync_missing" => json!({"artifacts": [self.artifact]}),
            "start_run" => json!({"content": "c"}),
            "run_task" => json!({"shell": "exit"}),
            "seed_run_task" => json!({"tool": "bash", "args": {"command": "exit"}}),
            "write_task" | "seed_write_task" => json!({"chunk_b64": ""}),
            "resize_task" | "seed_resize_task" => json!({"rows": 1, "cols": 1}),
            "signal_task" | "seed_signal_task" => json!({"signal": "INT"}),
            "checkpoint_workspace" | "rewind_workspace" => json!({"root": "/nowhere", "checkpoint": "77777777"}),
            _ => json!({}),
        }
    }

    fn request<'h>(&self, home: &'h Home, route: &Route) -> Ask<'h> {
        let part = |part: &str| match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            Some(name) => self.parameter(route, name),
            None => part.to_owned(),
        };
        let mut path = route.path.split('/').map(part).collect::<Vec<_>>().join("/");
        path.push_str(match route.operation {
            "render" => "?target=open-responses",
            "workspace_diff" => "?to=77777777",
            _ => "",
        });
        let ask = home.bare(route.method.as_str(), &path);
        match route.takes {
            Takes::Nothing => ask,
            Takes::Json => ask.json(&self.body(route)),
            Takes::Frames => ask.raw("application/json", format!(r#"{{"type":"x","about":"{}"}}"#, self.artifact)),
            Takes::Bytes if route.operation == "put" => ask.raw("application/octet-stream", &self.thread),
            Takes::Bytes => ask.raw("application/octet-stream", "x"),
        }
    }

    /// An answer without what differs from request to request: which thing was named, and what the answer is called.
    fn told(&self, answer: &Answer) -> (u16, Vec<String>, String) {
        let names = answer.headers.iter().map(|(name, _)| name.clone()).collect();
        if answer.status < 300 {
            return (answer.status, names, String::new());
        }
        let mut value: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        value.as_object_mut().map(|members| members.remove("request_id"));
        let mut text = value.to_string();
        let ids = [&self.artifact, &self.tag, &self.thread, &self.message, &self.context, &self.name, &self.bundle];
        for id in ids.into_iter().chain([&self.pack, &self.stream]) {
            text = text.replace(id.as_str(), "ID");
        }
        (answer.status, names, text)
    }
}

fn may(scopes: &[Scope], route: &Route) -> bool {
    match route.scope {
        Scope::Open => true,
        // No token gives it.
        Scope::Owner => false,
        wanted => scopes.contains(&Scope::Admin) || scopes.contains(&wanted),
    }
}

#[test]
fn every_route_scope_namespace_and_owner() {
    let home = Home::with(|options| (options.bounds.rate, options.bounds.burst) = (1e9, 1e9));
    let (mine, theirs) = (Things::made(&home, "mine"), Things::made(&home, "theirs"));
    let nowhere = Things::nowhere(&mine);
    let things = |place| match place {
        Place::Mine => &mine,
        Place::Theirs => &theirs,
        Place::Nowhere => &nowhere,
    };
    let (mut wrong, mut cells) = (Vec::new(), 0);
    for scopes in scope_sets() {
        let token = home.token(&scopes, None, Some("mine"));
        // Followers that are let in would be waited for; they have a test of their own.
        for route in routes().iter().filter(|route| route.gives != Gives::Events || !may(&scopes, route)) {
            let ask = |place| {
                let answer = things(place).request(&home, route).token(&token).send();
                (things(place).told(&answer), answer.status)
            };
            let (theirs, nowhere, (_, mine)) = (ask(Place::Theirs), ask(Place::Nowhere), ask(Place::Mine));
            cells += 3;
            let refused = [theirs.1, nowhere.1, mine].map(|status| matches!(status, 401 | 403));
            if refused != [!may(&scopes, route); 3] || mine >= 500 {
                wrong.push(format!("{route:?}: {scopes:?} gets {mine}, {}, {}", theirs.1, nowhere.1));
            }
            if theirs.0 != nowhere.0 {
                wrong.push(format!("{route:?}: {scopes:?} can tell {:?} from {:?}", theirs.0, nowhere.0));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cells >= 2_000, "{cells} cells");
}

/// Routes that can make a commit, with what to send so that it is somebody's.
fn commits(of: &Things, principal: &str) -> Vec<(&'static str, String, Value)> {
    let context = &of.context;
    vec![
        (
            "checkpoint",
            "/v1/contexts".into(),
            json!({"format": "generic-v1", "content": "{}\n", "principal": principal}),
        ),
        ("snapshot", format!("/v1/contexts/{context}/snapshot"), json!({})),
        ("compact_chain", format!("/v1/contexts/{context}/compaction"), json!({"dry_run": true})),
        ("append", format!("/v1/streams/context/{}/frames", principal.replace('/', "%2F")), json!({"type": "x"})),
        ("append_any", "/v1/frames".into(), json!({"type": "x", "stream_kind": "context", "stream_id": principal})),
    ]
}

#[test]
fn nobody_commits_in_the_name_of_others() {
    let home = Home::new();
    let of_boss = Things::made(&home, "team");
    let bot = home.token(&[Scope::Read, Scope::Append], Some("bot"), Some("team"));
    let send = |path: &str, body: &Value| home.bare("POST", path).token(&bot).json(body).send();
    for (operation, path, body) in commits(&of_boss, "boss") {
        assert_eq!(send(&path, &body).problem(), (403, "principal-not-allowed".into()), "{operation}");
    }
    let hidden = r#"{"type":"x","\u0073tream_kind":"context","stream_id":"boss"}"#;
    let forged = home.bare("POST", "/v1/frames").token(&bot).raw("application/json", hidden).send();
    assert_eq!(forged.problem(), (403, "principal-not-allowed".into()), "an escape hides nothing");
    for principal in ["bot", "bot/helper"] {
        let body = json!({"format": "generic-v1", "content": "{}\n", "principal": principal});
        let context = send("/v1/contexts", &body).ok()["commits"][0]["id"].as_str().expect("an id").to_owned();
        for (operation, path, body) in commits(&Things { context, ..Things::nowhere(&of_boss) }, principal) {
            assert_ne!(send(&path, &body).status, 403, "{operation}: {principal}");
        }
    }
    for principal in ["botanist", "bot2/x", ""] {
        let body = json!({"format": "generic-v1", "content": "{}\n", "principal": principal});
        assert_ne!(send("/v1/contexts", &body).status, 201, "{principal:?}");
    }
}
