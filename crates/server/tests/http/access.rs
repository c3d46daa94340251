//! Who may do what: every route, every scope, every namespace.

use std::os::unix::fs::PermissionsExt;

use enjamb_server::{Gives, Method, Route, Scope, Takes, routes};
use serde_json::json;

use crate::harness::{Answer, Ask, Home};

/// A request for a route that is well formed, whether there is anything at its end or not.
fn request<'h>(home: &'h Home, route: &Route) -> Ask<'h> {
    let path: Vec<_> = route.path.split('/').map(|part| if part.starts_with('{') { "zzzz" } else { part }).collect();
    let ask = home.bare(route.method.as_str(), &path.join("/"));
    match route.takes {
        Takes::Nothing => ask,
        Takes::Json => ask.json(&json!({})),
        Takes::Frames => ask.raw("application/json", r#"{"type":"x"}"#),
        Takes::Bytes => ask.raw("application/octet-stream", "x"),
    }
}

/// Whether an answer says that the caller was let through, and whatever else may be wrong.
fn is_let_through(answer: &Answer) -> bool {
    !matches!(answer.status, 401 | 403)
}

#[test]
fn every_route_lets_through_exactly_who_has_its_scope() {
    let home = Home::new();
    let sets: [&[Scope]; 6] = [
        &[],
        &[Scope::Read],
        &[Scope::Append],
        &[Scope::Read, Scope::Append],
        &[Scope::Admin],
        &[Scope::Read, Scope::Admin],
    ];
    let tokens: Vec<_> = sets.iter().map(|scopes| (scopes, home.token(scopes, None, Some("apart")))).collect();
    let mut wrong = Vec::new();
    for route in routes().iter().filter(|route| route.gives != Gives::Events) {
        let nobody = request(&home, route).send();
        if is_let_through(&nobody) != (route.scope == Scope::Open) {
            wrong.push(format!("{route:?}: nobody gets {}", nobody.status));
        }
        for (scopes, token) in &tokens {
            let may = match route.scope {
                Scope::Open => true,
                Scope::Owner => false,
                wanted => scopes.contains(&Scope::Admin) || scopes.contains(&wanted),
            };
            let answer = request(&home, route).token(token).send();
            if is_let_through(&answer) != may || answer.status >= 500 {
                wrong.push(format!("{route:?}: {scopes:?} gets {}", answer.status));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn followers_need_to_read() {
    let home = Home::new();
    let (reads, appends) = (home.token(&[Scope::Read], None, None), home.token(&[Scope::Append], None, None));
    for route in routes().iter().filter(|route| route.gives == Gives::Events) {
        assert_eq!((route.method, route.scope), (Method::Get, Scope::Read), "{route:?}");
        assert_eq!(request(&home, route).send().status, 401, "{route:?}");
        assert_eq!(request(&home, route).token(&appends).send().status, 403, "{route:?}");
    }
    let unknown = home.bare("GET", "/v1/streams/note/none/events").token(&reads).send();
    assert_eq!(unknown.status, 404);
}

#[test]
fn every_token_that_is_no_good_gets_the_same_answer() {
    let home = Home::new();
    let made = home.token(&[Scope::Read], None, None);
    let tokens = enjamb_server::Tokens::of(&home.stores.store());
    tokens.revoke(&tokens.list().unwrap()[0].id).unwrap();
    let expired = enjamb_server::NewToken { scopes: vec![Scope::Read], expires_ms: Some(1), ..Default::default() };
    let expired = tokens.create(expired, 0).unwrap().1;
    let body = |ask: Ask<'_>| {
        let answer = ask.send();
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Bearer")));
        let mut value = answer.value();
        value.as_object_mut().unwrap().remove("request_id");
        value
    };
    let ask = || home.bare("GET", "/v1/status");
    let none = body(ask());
    for header in [
        format!("Bearer {made}"),
        format!("Bearer {}", expired.reveal()),
        "Bearer x".into(),
        "Basic eDp5".into(),
        "Bearer".into(),
    ] {
        assert_eq!(body(ask().header("authorization", &header)), none, "{header}");
    }
    assert_eq!(body(ask().token(&home.owner).token(&home.owner)), none, "two tokens are none");
}

#[test]
fn a_missing_scope_is_named() {
    let home = Home::new();
    let reads = home.token(&[Scope::Read], None, None);
    let answer = home.bare("POST", "/v1/streams/note/n/frames").token(&reads).raw("application/json", "{}").send();
    assert_eq!(answer.problem(), (403, "missing-scope".into()));
    assert_eq!(answer.value()["scope"], "append");
}

#[test]
fn namespaces_see_nothing_of_each_other() {
    let home = Home::new();
    let all = [Scope::Read, Scope::Append];
    let (a, b) = (home.token(&all, None, Some("team-a")), home.token(&all, None, Some("team-b")));
    let put = home.bare("POST", "/v1/artifacts").token(&a).raw("text/plain", "a secret").send().ok();
    let id = put["id"].as_str().unwrap();
    home.bare("POST", "/v1/streams/note/n/frames").token(&a).raw("application/json", r#"{"type":"x"}"#).send().ok();
    let get = |token: &str, id: &str| home.bare("GET", &format!("/v1/artifacts/{id}")).token(token).send();
    assert_eq!(get(&a, id).body, b"a secret");
    let missing = format!("art-{}", "7".repeat(64));
    let told = |id: &str| {
        let answer = get(&b, id);
        let names: Vec<_> = answer.headers.iter().map(|(name, _)| name.clone()).collect();
        let mut value = answer.value();
        value.as_object_mut().unwrap().remove("request_id");
        (answer.status, names, value.to_string().replace(id, "ID"))
    };
    assert_eq!(told(id), told(&missing), "one that another has looks like one that nobody has");
    assert_eq!(told(id).0, 404);
    assert_eq!(home.bare("GET", "/v1/streams/note/n").token(&b).send().status, 404);
    assert_eq!(home.bare("GET", "/v1/streams").token(&b).send().ok()["streams"], json!([]));
    assert_eq!(get(&home.owner, id).status, 404, "the store itself is one of them");
    let again = home.bare("POST", "/v1/artifacts").token(&b).raw("text/plain", "a secret").send();
    assert_eq!((again.status, again.ok()["known"].as_bool()), (201, Some(false)), "nobody learns that it is elsewhere");
    assert_eq!(home.bare("GET", "/v1/meta").token(&b).send().ok()["namespace"], "team-b");
}

#[test]
fn a_bound_token_speaks_for_its_principal_alone() {
    let home = Home::new();
    let bot = home.token(&[Scope::Read, Scope::Append], Some("bot"), None);
    let ask = |path: &str| home.bare("POST", path).token(&bot);
    ask("/v1/streams/note/n/frames").raw("application/json", r#"{"type":"x","actor_id":"boss","a":1}"#).send().ok();
    let frame = &home.get("/v1/streams/note/n/frames")["frames"][0]["frame"];
    assert_eq!((&frame["actor_id"], &frame["claimed_actor_id"]), (&json!("bot"), &json!("boss")));
    let thread = ask("/v1/threads").json(&json!({})).send().ok()["thread_id"].as_str().unwrap().to_owned();
    let post = json!({"content": "hi", "actor_id": "boss"});
    ask(&format!("/v1/threads/{thread}/messages")).header("enjamb-actor", "boss").json(&post).send().ok();
    let frames = home.get(&format!("/v1/streams/continuity/{thread}/frames"));
    assert_eq!(frames["frames"][1]["frame"]["actor_id"], "bot");
    let commit = |principal: &str| {
        let body = json!({"content": "{}\n", "format": "generic-v1", "principal": principal});
        ask("/v1/contexts").json(&body).send().status
    };
    assert_eq!((commit("bot"), commit("bot/helper"), commit("boss"), commit("botanist")), (201, 201, 403, 403));
}

#[test]
fn what_others_do_is_written_down_and_only_administrators_read_it() {
    let home = Home::new();
    let bot = home.token(&[Scope::Read, Scope::Append], Some("bot"), None);
    let id = home.bare("POST", "/v1/artifacts").token(&bot).raw("text/plain", "x").send().ok()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    home.bare("GET", &format!("/v1/artifacts/{id}")).token(&bot).header("enjamb-actor", "boss").send();
    home.bare("GET", "/v1/status").token(&bot).send().ok();
    home.ask("POST", "/v1/artifacts").raw("text/plain", "by the owner").send().ok();
    let mut frames = json!([]);
    for _ in 0..50 {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let answer = home.ask("GET", "/v1/streams/audit/access/frames").send();
        if answer.status == 200 {
            frames = answer.ok()["frames"].clone();
        }
        if frames.as_array().unwrap().len() >= 2 {
            break;
        }
    }
    let told: Vec<_> = frames.as_array().unwrap().iter().map(|frame| frame["frame"].clone()).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(
        (&told[0]["operation"], &told[0]["principal"], &told[0]["status"]),
        (&json!("put"), &json!("bot"), &json!(201))
    );
    assert_eq!((&told[1]["operation"], &told[1]["claimed_actor"]), (&json!("get"), &json!("boss")));
    assert!(!frames.to_string().contains(&bot), "no token is written down");
    assert_eq!(home.bare("GET", "/v1/streams/audit/access/frames").token(&bot).send().status, 404);
    assert!(!home.bare("GET", "/v1/streams").token(&bot).send().text().contains("audit"));
    let forged = home.ask("POST", "/v1/streams/audit/access/frames").raw("application/json", r#"{"type":"x"}"#).send();
    assert_eq!(forged.problem(), (403, "stream-reserved".into()));
    let named = r#"{"type":"x","stream_kind":"audit","stream_id":"access"}"#;
    assert_eq!(home.ask("POST", "/v1/frames").raw("application/json", named).send().status, 403);
}

#[test]
fn too_much_at_a_time_is_refused() {
    let home = Home::with(|options| {
        options.bounds.rate = 0.0;
        options.bounds.burst = 3.0;
        options.bounds.followers_max = 1;
    });
    let token = home.token(&[Scope::Read], None, None);
    let ask = || home.bare("GET", "/v1/status").token(&token).send();
    assert_eq!([ask().status, ask().status, ask().status], [200, 200, 200]);
    let refused = ask();
    assert_eq!((refused.problem(), refused.header("retry-after")), ((429, "rate-limited".into()), Some("1")));
    assert_eq!(home.ask("GET", "/v1/status").send().status, 200, "others are not held back");
}

#[test]
fn the_socket_and_the_token_are_the_owners_alone() {
    let home = Home::new();
    assert_eq!(home.bare("GET", "/v1/status").send_unix().status, 200);
    let bad = home.bare("GET", "/v1/status").token("enj_x").send_unix();
    assert_eq!(bad.status, 401, "a token that is given counts");
    for name in ["sock", "token"] {
        let mode = std::fs::metadata(home.stores.store().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}: {mode:o}");
    }
}
