//! Small programs that behave as agents do, started from contexts and ended in every way.

use std::fs;

use enjamb_testkit::home::Home;

use super::*;
use crate::{Env, Filter, Source};

struct Bench {
    home: Home,
    store: Store,
}

impl Bench {
    fn new() -> Self {
        let home = Home::new();
        let store = Store::create(&home.store(), Env::system()).unwrap();
        Self { home, store }
    }

    fn request(&self, script: &str) -> Wrap {
        Wrap {
            template: None,
            driver: None,
            words: ["sh", "-c", script].map(str::to_owned).to_vec(),
            context: None,
            checkpoint: CheckpointWhen::Turns(1),
            tier_min: Tier::Mapped,
            principal: "p".into(),
            machine: None,
            ticket: None,
            here: self.home.path().to_owned(),
            homes: RuntimeHomes::under(self.home.path(), &|_| None),
            by: Actor::default(),
        }
    }

    fn run(&self, request: &Wrap) -> (Result<Wrapped>, String) {
        let mut out = Vec::new();
        let mut attendance = Attendance { out: &mut out, signal: &mut || None, note: &mut |text| panic!("{text}") };
        let wrapped = self.store.wrap(request, &mut attendance);
        (wrapped, String::from_utf8(out).unwrap())
    }

    fn read(&self, tip: CommitId) -> String {
        let mut bytes = Vec::new();
        let request = Materialize { tip: Some(tip), stop: Stop::Root, format: None };
        let mut out = |part: &[u8]| {
            bytes.extend_from_slice(part);
            Ok(())
        };
        self.store.materialize(&request, &mut out).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    fn triggers(&self) -> Vec<String> {
        let page = self.store.list(Source::Store, &Filter::default(), None, 99).unwrap();
        let mut triggers: Vec<_> =
            page.commits.iter().map(|stored| stored.commit.checkpoint.as_str().to_owned()).collect();
        triggers.reverse();
        triggers
    }
}

/// Prints two turns of which the first calls a tool, with time between them to be noticed.
const TURNS: &str = r#"
echo '{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]}'; sleep 0.3
echo '{"role":"tool","tool_call_id":"c","content":"7"}'; sleep 0.3
echo '{"role":"assistant","content":"one"}'; sleep 0.3
echo '{"role":"assistant","content":"two"}'; sleep 0.3
echo bye"#;

#[test]
fn a_program_is_kept_at_the_configured_places_and_its_exit_is_passed_on() {
    for (when, expected) in [
        (CheckpointWhen::Turns(1), &["turn_boundary", "turn_boundary", "session_end"][..]),
        (CheckpointWhen::Turns(2), &["turn_boundary", "session_end"]),
        (CheckpointWhen::ToolResult, &["tool_call", "turn_boundary", "turn_boundary", "session_end"]),
        (CheckpointWhen::SessionEnd, &["session_end"]),
    ] {
        let bench = Bench::new();
        let request = Wrap { checkpoint: when, ..bench.request(&format!("{TURNS}; exit 7")) };
        let (wrapped, out) = bench.run(&request);
        let wrapped = wrapped.unwrap();
        assert_eq!((wrapped.exit, wrapped.commits), (7, expected.len() as u64), "{when:?}");
        assert_eq!(bench.triggers(), expected, "{when:?}");
        assert!(out.ends_with("bye\n") && bench.read(wrapped.tip.unwrap()).contains("bye"));
        assert_eq!(bench.store.reference(&wrapped.reference).unwrap(), wrapped.tip);
        assert!(fs::read_dir(journal::dir_of(bench.store.dir())).unwrap().next().is_none(), "nothing is left over");
    }
}

#[test]
fn two_runs_from_one_context_are_two_branches_that_both_know_it() {
    let bench = Bench::new();
    let (first, _) = bench.run(&bench.request("echo learned"));
    let context = first.unwrap().tip;
    let go_on = Wrap { context, ..bench.request("echo $ENJAMB_CONTEXT_FORMAT; grep -c learned $ENJAMB_CONTEXT_FILE") };
    let runs = [bench.run(&go_on), bench.run(&go_on)];
    let tips: Vec<CommitId> = runs
        .into_iter()
        .map(|(wrapped, out)| {
            // The words that were run are in the context as well.
            assert_eq!(out, "generic-v1\n2\n");
            wrapped.unwrap().tip.unwrap()
        })
        .collect();
    assert_ne!(tips[0], tips[1]);
    for tip in tips {
        assert_eq!(bench.store.show(&tip).unwrap().link.parent, context);
    }
}

#[test]
fn a_run_whose_starter_was_killed_is_taken_in_once_and_no_part_of_it_twice() {
    let bench = Bench::new();
    let request = bench.request("x");
    let journal =
        Journal::begin(bench.store.dir(), facts(&request, Driver::Generic, "r1".into(), &request.words, None));
    let journal = journal.unwrap();
    let mut agent = journal.for_agent().unwrap();
    agent.write_all(b"one\n").unwrap();
    let mut kept = Kept::default();
    bench.store.keep(&journal, &mut kept, 4, keep::Trigger::TurnBoundary, &Actor::default()).unwrap();
    agent.write_all(b"two\nthr").unwrap();
    drop((journal, agent));
    assert_eq!(bench.store.settle_runs(&Actor::default()).unwrap(), 1);
    assert_eq!(bench.store.settle_runs(&Actor::default()).unwrap(), 0);
    let tip = bench.store.reference("run/r1").unwrap().unwrap();
    let said = bench.read(tip);
    assert_eq!(said.matches("one").count(), 1, "{said}");
    assert!(said.ends_with("{\"content\":\"two\\nthr\",\"role\":\"assistant\"}\n"), "{said}");
}

#[test]
fn what_cannot_be_started_leaves_nothing() {
    let bench = Bench::new();
    let missing = Wrap { words: vec!["no-such-agent".into()], ..bench.request("") };
    assert_eq!(bench.run(&missing).0.unwrap_err().code(), "not-found");
    let nothing = Wrap { words: Vec::new(), ..bench.request("") };
    assert_eq!(bench.run(&nothing).0.unwrap_err().code(), "bad-request");
    assert!(!journal::dir_of(bench.store.dir()).exists());
}

/// Writes a transcript as Claude Code does: to the file of the session that it is told, turn by turn.
const CLAUDE: &str = r#"#!/bin/sh
session= ; while [ $# -gt 0 ]; do case $1 in --session-id|--resume) session=$2;; esac; shift; done
dir=$HOME/.claude/projects/$(pwd -P | sed 's/[^A-Za-z0-9]/-/g'); mkdir -p "$dir"; f=$dir/$session.jsonl
n=$(grep -c . "$f" 2>/dev/null); n=${n:-0}; last=$(sed -n 's/.*"uuid":"\([^"]*\)".*/\1/p' "$f" 2>/dev/null | tail -1)
say() { n=$((n+1)); p=null; [ -n "$last" ] && p="\"$last\""; last=u-$session-$n
  echo "{\"type\":\"$1\",\"uuid\":\"$last\",\"parentUuid\":$p,\"sessionId\":\"$session\",\"cwd\":\"$(pwd -P)\",\"timestamp\":\"2026-11-16T06:00:0$((n%10)).000Z\",\"message\":$2}" >> "$f"; }
echo "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"$session\"}"
for turn in 1 2; do
  say user "{\"role\":\"user\",\"content\":\"ask $turn\"}"
  say assistant "{\"id\":\"m-$session-$n\",\"role\":\"assistant\",\"stop_reason\":\"end_turn\",\"content\":[{\"type\":\"text\",\"text\":\"so $turn\"}]}"
  sleep 0.4
done
echo "{\"type\":\"result\",\"result\":\"all done\",\"session_id\":\"$session\"}"
exit 3
"#;

#[test]
fn a_runtime_is_kept_by_its_own_transcript_and_goes_on_from_a_context() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    let claude = bench.home.path().join("claude");
    fs::write(&claude, CLAUDE).unwrap();
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    let here = bench.home.path().join("work");
    fs::create_dir(&here).unwrap();
    let template = Template {
        name: "reviewer".into(),
        driver: Driver::ClaudeCode,
        command: Some(claude.to_string_lossy().into_owned()),
        args: Vec::new(),
        env: [("HOME".to_owned(), bench.home.path().to_string_lossy().into_owned())].into(),
        model: None,
        system_prompt: None,
        checkpoint: CheckpointWhen::Turns(1),
    };
    let request = Wrap {
        template: Some(template),
        words: vec!["-p".into(), "hi".into()],
        ticket: Some("T-1".into()),
        here: here.canonicalize().unwrap(),
        ..bench.request("")
    };
    let (first, out) = bench.run(&request);
    let first = first.unwrap();
    assert_eq!((out.as_str(), first.exit, first.commits), ("all done\n", 3, 2));
    let tip = bench.store.show(&first.tip.unwrap()).unwrap();
    let commit = &tip.commit;
    assert_eq!((commit.template.as_deref(), commit.ticket_id.as_deref()), (Some("reviewer"), Some("T-1")));
    assert_eq!((commit.format.as_str(), &commit.agent_session_id), ("claude-code-v1", &first.session));
    assert_eq!(bench.triggers(), ["turn_boundary", "turn_boundary"]);
    assert_eq!(bench.store.understood("T-1").unwrap().link.id, tip.link.id);
    let go_on = Wrap { context: first.tip, ..request };
    let [one, two] = [bench.run(&go_on).0.unwrap(), bench.run(&go_on).0.unwrap()];
    assert!(one.session != two.session && one.tip != two.tip);
    for run in [one, two] {
        assert_eq!(run.commits, 2, "what was planted is not stored again");
        let chain = bench.store.links(&run.tip.unwrap(), &Stop::Root, 9).unwrap();
        assert_eq!((chain.len(), chain[2].id), (4, tip.link.id));
        assert_eq!(bench.read(run.tip.unwrap()).matches("so 2").count(), 2);
    }
}
