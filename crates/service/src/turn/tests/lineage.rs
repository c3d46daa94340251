//! What a run's commit follows, and which files belong to it.

use enjamb_core::chain::Stop;
use enjamb_core::thread::Selector;

use super::*;

fn says(words: &[&str]) -> (LoopbackProvider, ProviderOptions) {
    let say = |text: &&str| Script::events(Speech::new(Dialect::Chat).text(text).end(5, 1));
    provider(Dialect::Chat, words.iter().map(say).collect())
}

/// What a chain says, line by line.
fn told(stage: &Stage, tip: Option<enjamb_core::CommitId>) -> Vec<String> {
    let mut bytes = Vec::new();
    let request = crate::Materialize { tip, stop: Stop::Root, format: None };
    stage
        .store
        .materialize(&request, &mut |some| {
            bytes.extend_from_slice(some);
            Ok(())
        })
        .unwrap();
    let line =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["content"].as_str().unwrap().into();
    String::from_utf8(bytes).unwrap().lines().map(line).collect()
}

#[test]
fn the_first_run_of_a_branch_follows_the_commit_at_the_branch_point() {
    let mut stage = Stage::new();
    let (_server, options) = says(&["one", "two", "left", "right", "again"]);
    let first = stage.turn("first?", options.clone());
    let second = stage.turn("second?", options.clone());
    let at = Selector::Message(first.message.clone());
    let branch = stage.store.branch_thread(&stage.thread, &at, None, &stage.by).unwrap().thread;
    let trunk = std::mem::replace(&mut stage.thread, branch);
    let left = stage.turn("left?", options.clone());
    let parent = |turned: &Turned| stage.store.show(&turned.commit.unwrap()).unwrap().commit.parent;
    assert_eq!(parent(&left), first.commit.map(|id| id.to_string()));
    assert_eq!(told(&stage, left.commit), ["first?", "one", "left?", "left"]);
    assert_eq!(parent(&second), first.commit.map(|id| id.to_string()), "the trunk is as it was");
    // A branch of a branch that nothing was run on: the commit is further back, and what was said in between comes along.
    let head = |thread: &StreamId| stage.store.branch_thread(thread, &Selector::Head, None, &stage.by).unwrap().thread;
    let child = head(&trunk);
    let post = Post { content: "aside".into(), run: None, idempotency_key: None };
    stage.store.post(&child, post, &stage.by).unwrap();
    let grandchild = head(&child);
    stage.thread = grandchild;
    let right = stage.turn("right?", options.clone());
    let again = stage.turn("again?", options);
    assert_eq!(told(&stage, right.commit), ["first?", "one", "second?", "two", "aside", "right?", "right"]);
    assert_eq!(stage.store.show(&right.commit.unwrap()).unwrap().commit.parent, second.commit.map(|id| id.to_string()));
    assert_eq!(stage.store.show(&again.commit.unwrap()).unwrap().commit.parent, right.commit.map(|id| id.to_string()));
}
