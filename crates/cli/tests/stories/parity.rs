//! Every operation of the server, with the command and the tool that do the same, or why there is none.

use std::collections::BTreeSet;

use enjamb_server::{TOOLS, routes};

use crate::runner::{Enjamb, answer};

/// Operations and the command that does the same.
const COMMANDS: &[(&str, &str)] = &[
    ("streams", "streams"),
    ("stream", "streams"),
    ("frames", "frames"),
    ("append", "append"),
    ("append_any", "append"),
    ("follow", "frames"),
    ("follow_principal", "frames"),
    ("artifacts", "artifacts"),
    ("put", "put"),
    ("put_as", "put"),
    ("get", "get"),
    ("artifact", "get"),
    ("pin", "pin"),
    ("tags", "tag"),
    ("tagged", "tag"),
    ("tag", "tag"),
    ("untag", "tag"),
    ("log", "log"),
    ("checkpoint", "checkpoint"),
    ("show", "show"),
    ("note", "note"),
    ("history", "log"),
    ("children", "children"),
    ("tips", "tips"),
    ("materialize", "materialize"),
    ("account", "materialize"),
    ("diff", "diff"),
    ("merge_base", "merge-base"),
    ("snapshot", "checkpoint"),
    ("compact_chain", "compact"),
    ("chain_loss", "compact"),
    ("resolve", "resolve"),
    ("current", "current"),
    ("link", "link"),
    ("unlink", "link"),
    ("summarize", "summarize"),
    ("source", "export"),
    ("export", "export"),
    ("secrets", "redact list"),
    ("refs", "refs"),
    ("ref", "refs"),
    ("move_ref", "fork"),
    ("delete_ref", "refs"),
    ("fork", "fork"),
    ("threads", "thread list"),
    ("create_thread", "thread create"),
    ("search_threads", "thread search"),
    ("thread_map", "thread map"),
    ("thread", "thread get"),
    ("update_thread", "thread tag"),
    ("post", "thread post"),
    ("follow_thread", "thread events"),
    ("start_run", "thread post"),
    ("run", "thread post"),
    ("cancel_run", "thread post"),
    ("tasks", "task list"),
    ("run_task", "task run"),
    ("task", "task status"),
    ("task_output", "task output"),
    ("follow_task", "task events"),
    ("cancel_task", "task cancel"),
    ("write_task", "task stdin"),
    ("resize_task", "task resize"),
    ("signal_task", "task signal"),
    ("workspace_checkpoints", "workspace list"),
    ("workspace_checkpoint", "workspace list"),
    ("checkpoint_workspace", "workspace checkpoint"),
    ("workspace_diff", "workspace diff"),
    ("workspace_changes", "workspace diff"),
    ("rewind_workspace", "workspace rewind"),
    ("branch", "thread branch"),
    ("handoff", "thread handoff"),
    ("reference", "thread reference"),
    ("pins", "thread pin"),
    ("pin_message", "thread pin"),
    ("unpin_message", "thread pin"),
    ("decisions", "thread decisions"),
    ("cut_points", "compact cuts"),
    ("compaction_status", "compact status"),
    ("compact", "compact by-hand"),
    ("compact_auto", "compact"),
    ("compact_schedule", "compact schedule"),
    ("thread_loss", "compact"),
    ("jobs", "job list"),
    ("run_job", "job run"),
    ("cancel_job", "job cancel"),
    ("cursors", "cursor status"),
    ("set_cursor", "cursor set"),
    ("rotate_cursor", "cursor rotate"),
    ("compile", "compile"),
    ("bundle", "bundle show"),
    ("audit", "compile"),
    ("render", "render"),
    ("packs", "pack list"),
    ("pack", "pack"),
    ("unpack", "unpack"),
    ("packed", "pack show"),
    ("pack_record", "pack show"),
    ("status", "status"),
    ("doctor", "doctor"),
    ("verify", "verify"),
    ("maintain", "maintain"),
    ("gc", "gc"),
    ("sync_heads", "push"),
    ("sync_known", "push"),
    ("sync_points", "push"),
    ("sync_frames", "pull"),
    ("sync_artifacts", "pull"),
    ("sync_missing", "push"),
    ("sync_receive", "push"),
];

/// Operations without a command, and why.
const NO_COMMAND: &[(&str, &str)] = &[
    ("meta", "it is about the server"),
    ("openapi", "it is about the server"),
    ("docs", "it is about the server"),
    ("health", "it is about the server"),
    ("ready", "it is about the server"),
    ("metrics", "it is about the server"),
    ("find", "compile and compact take either, and ask by it"),
    ("follow_all", "a person follows one thing at a time"),
];

/// Operations without a tool, and why: beginnings of names, the most particular first.
const NO_TOOL: &[(&str, &[&str])] = &[
    ("an agent reads what was said, not the log of it", &["stream", "streams", "frames", "append", "append_any"]),
    ("tools answer once", &["follow", "follow_principal", "follow_all", "follow_thread"]),
    ("artifacts are resources", &["artifacts", "artifact", "get", "put", "put_as"]),
    ("bundles are resources", &["bundle", "render", "audit"]),
    ("threads are resources", &["thread", "threads", "thread_map", "decisions", "pins"]),
    ("context_log and context_show tell it", &["history", "children", "tips", "merge_base", "account", "refs", "ref"]),
    ("nothing is taken away or renamed by an agent", &["untag", "delete_ref", "move_ref", "update_thread"]),
    ("names and keeping of bytes are a person's", &["tag", "tags", "tagged", "pin", "pin_message", "unpin_message"]),
    ("an agent branches contexts, and hands threads over", &["create_thread", "branch", "reference"]),
    ("compaction is the runtime's", &["snapshot", "compact_chain", "chain_loss", "cut_points", "compaction_status"]),
    ("compaction is the runtime's", &["compact", "compact_auto", "compact_schedule", "thread_loss"]),
    ("compaction is the runtime's", &["jobs", "run_job", "cancel_job", "cursors", "set_cursor", "rotate_cursor"]),
    ("packs are read by people and programs", &["packs", "packed", "pack_record", "unpack"]),
    ("words are said to tools that take just one kind of thing", &["find"]),
    ("files are their owner's", &["source", "export", "secrets"]),
    ("tickets and summaries are a person's, and context_note says the same", &["link", "unlink", "summarize"]),
    ("keeping the store is its owner's", &["status", "doctor", "verify", "maintain", "gc"]),
    ("stores are synced by their owners", &["sync_heads", "sync_known", "sync_points", "sync_frames"]),
    ("stores are synced by their owners", &["sync_artifacts", "sync_missing", "sync_receive"]),
    ("a model that asked others would spend its owner's money", &["start_run", "run", "cancel_run"]),
    ("programs are started by people, and by runs within what is declared", &["tasks", "run_task", "task"]),
    ("programs are started by people, and by runs within what is declared", &["task_output", "follow_task"]),
    ("programs are started by people, and by runs within what is declared", &["cancel_task", "write_task"]),
    ("programs are started by people, and by runs within what is declared", &["resize_task", "signal_task"]),
    ("files are their owner's", &["workspace_checkpoints", "workspace_checkpoint", "checkpoint_workspace"]),
    ("files are their owner's", &["workspace_diff", "workspace_changes", "rewind_workspace"]),
    ("it is about the server", &["meta", "openapi", "docs", "health", "ready", "metrics"]),
];

#[test]
fn every_operation_has_a_command_or_a_reason() {
    let all: BTreeSet<_> = routes().into_iter().filter(|route| !route.seed).map(|route| route.operation).collect();
    let listed: Vec<_> = COMMANDS.iter().chain(NO_COMMAND).map(|(operation, _)| *operation).collect();
    let unique: BTreeSet<_> = listed.iter().copied().collect();
    assert_eq!(unique.len(), listed.len(), "each is listed once");
    assert_eq!(unique, all);
    let enjamb = Enjamb::new();
    let commands: BTreeSet<_> = COMMANDS.iter().map(|(_, command)| *command).collect();
    for command in commands {
        let words: Vec<_> = command.split(' ').chain(["--help"]).collect();
        enjamb.run(&words).done();
    }
}

/// Commands that are not operations of a store, and why. They are refused when the store is behind a server, but for those
/// that need no store at all.
const OF_THIS_MACHINE: &[(&str, &[&str])] = &[
    ("files of this machine are read", &["import", "watch", "frames import", "workspace"]),
    ("settings of this machine's runtimes are changed", &["capture", "replant"]),
    ("programs are started, and what they do is taken in", &["run", "discuss", "tool"]),
    ("it changes a chain byte by byte", &["repair"]),
    ("it makes or copies the files of a store", &["init", "backup", "restore", "frames export", "clone"]),
    ("it serves the store, or says who may use it", &["serve", "mcp", "token"]),
    ("it says what never leaves the store", &["private"]),
];

/// Commands that need no store, or that read a chain from wherever it is.
const ANYWHERE: &[(&str, &[&str])] = &[
    ("a copy of the chain is read, and the answer is written here", &["resume", "check"]),
    ("no store is needed", &["demo", "completions", "man", "config", "remote"]),
];

#[test]
fn every_command_works_through_a_server_or_has_a_reason() {
    let enjamb = Enjamb::new();
    let help = enjamb.run(&["--help"]).done().out();
    let listed = help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    let is_command = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let listed = listed.take_while(|line| !line.is_empty()).filter(is_command);
    let listed = listed.filter_map(|line| line.split_whitespace().next());
    let remote = COMMANDS.iter().map(|(_, command)| *command);
    let local = OF_THIS_MACHINE.iter().chain(ANYWHERE).flat_map(|(_, commands)| commands.iter().copied());
    let known: BTreeSet<_> = remote.chain(local).filter_map(|command| command.split(' ').next()).collect();
    let missing: Vec<_> = listed.filter(|command| !known.contains(command)).collect();
    assert!(missing.is_empty(), "{missing:?} are neither operations nor listed with a reason");
}

#[test]
fn what_is_of_this_machine_says_so() {
    let enjamb = Enjamb::new();
    let commands: &[&[&str]] = &[
        &["import", "."],
        &["watch", "--once"],
        &["frames", "export"],
        &["repair", "@"],
        &["init"],
        &["backup", "elsewhere"],
        &["serve", "--listen", "127.0.0.1:0"],
        &["mcp"],
        &["token", "list"],
        &["private"],
    ];
    for arguments in commands {
        let mut command = enjamb.command(arguments);
        command.env("ENJAMB_STORE", "http://127.0.0.1:1");
        let refused = answer(command, b"").exits(2);
        assert!(refused.err().contains("works on a store on this machine"), "{arguments:?}: {}", refused.err());
    }
}

#[test]
fn every_operation_has_a_tool_or_a_reason() {
    let all: BTreeSet<_> = routes().into_iter().filter(|route| !route.seed).map(|route| route.operation).collect();
    let tools: BTreeSet<_> = TOOLS.iter().map(|tool| tool.operation).collect();
    let without: BTreeSet<_> = NO_TOOL.iter().flat_map(|(_, operations)| operations.iter().copied()).collect();
    assert!(tools.is_disjoint(&without), "{:?}", tools.intersection(&without));
    assert_eq!(tools.union(&without).copied().collect::<BTreeSet<_>>(), all);
}
