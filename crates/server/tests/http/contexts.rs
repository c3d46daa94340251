//! Contexts and threads over the wire: what the commands do, programs can do.

use serde_json::{Value, json};

use crate::harness::Home;

fn commit(home: &Home, words: &str, parent: Option<&str>) -> String {
    let delta = format!("{}\n", json!({"role": "user", "content": words}));
    let body = json!({"content": delta, "format": "generic-v1", "principal": "agent/a", "parent": parent});
    let made = home.post("/v1/contexts", body);
    made["commits"][0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_chain_is_made_walked_and_materialized() {
    let home = Home::new();
    let a = commit(&home, "one", None);
    let b = commit(&home, "two", Some(&a));
    let c = commit(&home, "three", Some(&a));
    assert_eq!(home.get(&format!("/v1/contexts/{b}"))["parent"], a.as_str());
    let children = home.get(&format!("/v1/contexts/{a}/children"));
    assert_eq!((&children["contexts"][0]["id"], &children["contexts"][1]["id"]), (&json!(b), &json!(c)));
    assert_eq!(home.get(&format!("/v1/contexts/{a}/children?limit=1"))["more"], true);
    for of in ["children", "tips"] {
        let first = home.get(&format!("/v1/contexts/{a}/{of}?limit=1"));
        let (one, cursor) = (first["contexts"].as_array().unwrap().len(), first["contexts"][0]["id"].as_str().unwrap());
        let rest = home.get(&format!("/v1/contexts/{a}/{of}?limit=1&cursor={cursor}"));
        assert_eq!((one, &first["more"], &rest["more"]), (1, &json!(true), &json!(false)));
        assert_ne!(rest["contexts"][0]["id"], cursor);
    }
    assert_eq!(home.get(&format!("/v1/contexts/{a}/tips"))["contexts"].as_array().unwrap().len(), 2);
    assert_eq!(home.get(&format!("/v1/contexts/{b}/history"))["contexts"][1]["id"], a.as_str());
    assert_eq!(home.get(&format!("/v1/contexts/{b}/merge-base/{c}"))["id"], a.as_str());
    assert_eq!(home.get(&format!("/v1/contexts/{b}/diff/{c}"))["shared"], a.as_str());
    let said = home.ask("GET", &format!("/v1/contexts/{b}/materialized")).send();
    assert_eq!(said.text().lines().count(), 2, "{}", said.text());
    assert_eq!((said.header("enjamb-tier"), said.header("enjamb-messages")), (Some("native"), Some("2")));
    let told = home.ask("GET", &format!("/v1/contexts/{b}/materialized?format=narrative-v1")).send();
    assert!(told.text().contains("two") && told.header("enjamb-tier") == Some("rendered"), "{told:?}");
    let account = home.get(&format!("/v1/contexts/{b}/account?format=claude-code-v1"));
    assert_eq!((&account["tier"], account["ledger"].is_array()), (&json!("mapped"), true));
    assert_eq!(home.get("/v1/resolve?principal=agent/a")["id"], c.as_str());
    assert_eq!(home.ask("GET", "/v1/resolve?principal=agent/b").send().problem(), (404, "not-found".into()));
}

#[test]
fn the_same_commit_is_the_same_commit() {
    let home = Home::new();
    let body =
        json!({"content": "{}\n", "format": "generic-v1", "created_at": "2026-01-01T00:00:00Z", "principal": "p"});
    let first = home.ask("POST", "/v1/contexts").json(&body).send();
    let again = home.ask("POST", "/v1/contexts").json(&body).send();
    assert_eq!((first.status, again.status), (201, 200));
    assert_eq!(first.ok()["commits"][0]["id"], again.ok()["commits"][0]["id"]);
}

#[test]
fn words_names_and_pages() {
    let home = Home::new();
    let a = commit(&home, "one", None);
    let b = commit(&home, "two", Some(&a));
    let noted =
        home.ask("PATCH", &format!("/v1/contexts/{a}")).json(&json!({"summary": "begun", "tags": ["x"]})).send().ok();
    assert_eq!((&noted["summary"], &noted["tags"]), (&json!("begun"), &json!(["x"])));
    let forked = home.ask("POST", &format!("/v1/contexts/{a}/fork")).json(&json!({"name": "side"})).send();
    assert_eq!((forked.status, forked.ok()["commit"].as_str()), (201, Some(a.as_str())));
    assert_eq!(home.get("/v1/refs/side")["commit"], a.as_str());
    assert_eq!(home.get("/v1/contexts/side")["id"], a.as_str());
    let moved =
        home.ask("PUT", "/v1/refs/side").header("if-match", &format!("\"{b}\"")).json(&json!({"commit": b})).send();
    assert_eq!(moved.problem(), (412, "ref-moved".into()));
    let page = home.get("/v1/contexts?limit=1");
    let next = page["next"].as_str().unwrap();
    let rest = home.get(&format!("/v1/contexts?limit=1&cursor={next}"));
    assert_eq!((&page["contexts"][0]["id"], &rest["contexts"][0]["id"]), (&json!(b), &json!(a)));
    for cursor in ["x", "ctx-00000000000000000000000000000000"] {
        let answer = home.ask("GET", &format!("/v1/contexts?cursor={cursor}")).send();
        assert_eq!(answer.problem(), (400, "bad-cursor".into()), "{cursor}");
    }
}

#[test]
fn many_who_ask_for_the_same_conversation_get_the_same() {
    let home = Home::new();
    let a = commit(&home, &"word ".repeat(300_000), None);
    let b = commit(&home, "two", Some(&a));
    let path = format!("/v1/contexts/{b}/materialized");
    let bodies: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..12).map(|_| scope.spawn(|| home.ask("GET", &path).send().body)).collect();
        asking.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(bodies[0].len() > 1_500_000 && bodies.iter().all(|body| *body == bodies[0]));
    let tail = home.ask("GET", &path).header("range", "bytes=-20").send();
    assert_eq!((tail.status, tail.body.as_slice()), (206, &bodies[0][bodies[0].len() - 20..]));
}

#[test]
fn a_thread_is_posted_to_branched_compacted_compiled_and_packed() {
    let home = Home::new();
    let thread = home.post("/v1/threads", json!({"title": "slow checkout"}))["thread_id"].as_str().unwrap().to_owned();
    let at = |rest: &str| format!("/v1/threads/{thread}{rest}");
    for number in 0..6 {
        let posted = home.post(
            &at("/messages"),
            json!({"content": format!("fix step {number}, {}", "and so on ".repeat(200)), "run": number == 5}),
        );
        assert_eq!(posted["run"].is_string(), number == 5);
    }
    assert_eq!(home.get("/v1/threads/search?q=step%203")["hits"].as_array().unwrap().len(), 1);
    assert_eq!(home.get(&at("/cut-points?stride_messages=2&limit=9"))["cut_points"].as_array().unwrap().len(), 3);
    let done = home.post(&at("/compactions/auto"), json!({"stride_messages": 2, "max_new_checkpoints": 2}));
    assert_eq!((&done["status"], done["created"].as_array().unwrap().len()), (&json!("completed"), 2));
    assert_eq!(home.get(&at("/jobs"))["jobs"][0]["status"], "completed");
    assert!(home.get(&at("/compaction?stride_messages=2"))["latest_checkpoint"].is_object());
    let child = home.post(&at("/branch"), json!({"title": "other way"}));
    assert_eq!(child["parent_thread_id"], thread.as_str());
    home.post(&at("/handoff"), json!({"summary_markdown": "go on"}));
    assert_eq!(home.get("/v1/threads/map")["edges"].as_array().unwrap().len(), 2);
    let compiled = home.post("/v1/compile", json!({"thread": thread, "budget": 5000, "explain": true}));
    let bundle = compiled["bundle"].as_str().unwrap();
    assert_eq!(home.get(&format!("/v1/bundles/{bundle}/audit"))["same"], true);
    let input: Value = home.ask("GET", &format!("/v1/bundles/{bundle}/rendered?target=open-responses")).send().ok();
    assert!(input.to_string().contains("fix step 5"), "{input}");
    let pack = home.post("/v1/packs", json!({"from": [format!("continuity/{thread}")]}))["packs"][0]["hash"]
        .as_str()
        .unwrap()
        .to_owned();
    let bytes = home.ask("GET", &format!("/v1/packs/{pack}")).send().body;
    let other = Home::new();
    let taken = other.ask("POST", "/v1/packs/import").raw("application/json", bytes).send();
    assert_eq!((taken.status, taken.ok()["hash"].as_str()), (201, Some(pack.as_str())));
}

#[test]
fn cursors_pins_and_tags_of_threads() {
    let home = Home::new();
    let thread =
        home.post("/v1/threads", json!({"workspace": "/w", "ensure": true}))["thread_id"].as_str().unwrap().to_owned();
    let at = |rest: &str| format!("/v1/threads/{thread}{rest}");
    let again = home.ask("POST", "/v1/threads").json(&json!({"workspace": "/w", "ensure": true})).send();
    assert_eq!((again.status, again.ok()["thread_id"].as_str()), (200, Some(thread.as_str())));
    let message = home.post(&at("/messages"), json!({"content": "hi"}))["message_id"].as_str().unwrap().to_owned();
    assert_eq!(home.ask("PUT", &at(&format!("/pins/{message}"))).send().ok()["pinned"], json!([message]));
    assert_eq!(home.ask("DELETE", &at(&format!("/pins/{message}"))).send().ok()["pinned"], json!([]));
    let set = home.ask("PUT", &at("/cursors")).json(&json!({"cursor": {"previous_response_id": "r"}})).send().ok();
    assert_eq!(set["provider"], "openresponses");
    assert_eq!(home.post(&at("/cursors/rotate"), json!({}))["rotated"], true);
    let tagged = home.ask("PATCH", &at("")).json(&json!({"add_tags": ["urgent"], "archived": true})).send().ok();
    assert_eq!((&tagged["tags"], &tagged["archived"]), (&json!(["urgent"]), &json!(true)));
    assert_eq!(home.get("/v1/threads")["threads"], json!([]));
    assert_eq!(home.get("/v1/threads?archived=true&tag=urgent")["threads"].as_array().unwrap().len(), 1);
}

/// A secret, made of parts so that no scanner takes this file for a leak.
fn secret() -> String {
    ["gh", "p_", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"].concat()
}

#[test]
fn what_is_shown_has_no_secrets_and_what_is_asked_for_as_bytes_is_whole() {
    let home = Home::new();
    let id = commit(&home, &format!("use {}", secret()), None);
    home.ask("PATCH", &format!("/v1/contexts/{id}")).json(&json!({"summary": secret()})).send().ok();
    let thread = home.post("/v1/threads", json!({"title": secret()}))["thread_id"].as_str().unwrap().to_owned();
    home.post(&format!("/v1/threads/{thread}/messages"), json!({"content": format!("key {}", secret())}));
    let bundle = home.post("/v1/compile", json!({"thread": thread}))["bundle"].as_str().unwrap().to_owned();
    let pack = home.post("/v1/packs", json!({"from": [id]}))["packs"][0]["hash"].as_str().unwrap().to_owned();
    for path in [
        format!("/v1/contexts/{id}"),
        "/v1/contexts".to_owned(),
        "/v1/threads".to_owned(),
        "/v1/threads/search?q=key".to_owned(),
        format!("/v1/streams/continuity/{thread}/frames"),
        format!("/v1/bundles/{bundle}"),
        format!("/v1/bundles/{bundle}/rendered?target=anthropic"),
        format!("/v1/packs/{pack}?format=md"),
        format!("/v1/contexts/{}", secret()),
        format!("/threads/{thread}"),
    ] {
        let answer = home.ask("GET", &path).send();
        assert!(!answer.text().contains(&secret()), "{path}: {}", answer.text());
    }
    let masked = home.ask("GET", &format!("/v1/streams/continuity/{thread}/frames")).send().text();
    assert!(masked.contains("[redacted:github-token]"), "{masked}");
    for path in [
        format!("/v1/streams/continuity/{thread}/frames?raw=true"),
        format!("/v1/contexts/{id}/materialized"),
        format!("/v1/packs/{pack}"),
    ] {
        assert!(home.ask("GET", &path).send().text().contains(&secret()), "{path}: bytes are given as they are");
    }
}

#[test]
fn packs_and_hits_go_on_page_by_page() {
    let home = Home::new();
    let thread = home.post("/v1/threads", json!({}))["thread_id"].as_str().unwrap().to_owned();
    let mut hashes = Vec::new();
    for number in 0..5 {
        home.post(&format!("/v1/threads/{thread}/messages"), json!({"content": format!("retries {number}")}));
        let packed = home.post("/v1/packs", json!({"from": [format!("continuity/{thread}")]}));
        hashes.insert(0, packed["packs"][0]["hash"].clone());
    }
    let pages = |path: &str, list: &str| {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = home.get(&format!("{path}limit=2{cursor}"));
            assert!(page[list].as_array().is_some_and(|rows| rows.len() <= 2), "{page}");
            found.extend(page[list].as_array().cloned().unwrap_or_default());
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return found,
            }
        }
    };
    let packs = pages("/v1/packs?", "packs");
    assert_eq!(packs.iter().map(|pack| pack["hash"].clone()).collect::<Vec<_>>(), hashes);
    let hits = pages("/v1/threads/search?q=retries&", "hits");
    let said: Vec<_> = hits.iter().map(|hit| hit["text"].as_str().unwrap_or_default()).collect();
    assert_eq!(said, ["retries 4", "retries 3", "retries 2", "retries 1", "retries 0"]);
    for path in ["/v1/packs?cursor=x", "/v1/threads/search?q=a&cursor=1-x"] {
        assert_eq!(home.ask("GET", path).send().problem(), (400, "bad-cursor".into()), "{path}");
    }
}
