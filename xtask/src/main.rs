//! The project's chores: `cargo xtask <chore>`. One file a chore, and one row in [`CHORES`].

mod bench;
mod check;
mod ci;
mod command;
mod crash;
mod mcp_conformance;
mod needs;
mod realclients;
mod test;
mod webclients;

use std::process::ExitCode;

/// What went wrong, as one sentence for the person who ran the chore.
type Problem = String;

struct Chore {
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<(), Problem>,
}

const CHORES: &[Chore] = &[
    Chore {
        name: "test",
        arguments: "[FILTER…]",
        about: "Install what the tests need, then run them; arguments go to the test runner",
        run: test::run,
    },
    Chore { name: "check", arguments: "", about: "Formatting, lints, documentation, dependencies", run: check::run },
    Chore {
        name: "bench",
        arguments: "[WORKLOAD…]",
        about: "Measure the release binary against other ways; --rounds N, --harness DIR (docs/BENCHMARKS.md)",
        run: bench::run,
    },
    Chore {
        name: "crash",
        arguments: "[TEST…] [N]",
        about: "The fault tests at length: kills, power loss, flipped bits, random operations",
        run: crash::run,
    },
    Chore {
        name: "realclients",
        arguments: "[CASE…]",
        about: "The real Claude Code and Codex load what was resumed; --sessions N, --corpus DIR, --update",
        run: realclients::run,
    },
    Chore {
        name: "webclients",
        arguments: "[CASE…]",
        about: "curl, a browser's EventSource and a generated Python client against our server",
        run: webclients::run,
    },
    Chore {
        name: "schemathesis",
        arguments: "[OPTION…]",
        about: "Whatever the OpenAPI document allows, and does not; options go on to Schemathesis",
        run: webclients::schemathesis,
    },
    Chore {
        name: "mcp-conformance",
        arguments: "",
        about: "The official MCP SDK and the public conformance suite against `mcp` and `serve`; --update",
        run: mcp_conformance::run,
    },
    Chore { name: "ci", arguments: "", about: "check, then test", run: ci::run },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("xtask: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<(), Problem> {
    let Some((name, rest)) = arguments.split_first() else {
        print!("{}", help());
        return Ok(());
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        print!("{}", help());
        return Ok(());
    }
    match CHORES.iter().find(|chore| chore.name == name) {
        Some(chore) => (chore.run)(rest),
        None => Err(format!("there is no chore {name:?}.\n\n{}", help())),
    }
}

fn help() -> String {
    let mut text = String::from("Usage: cargo xtask <chore>\n\n");
    for Chore { name, arguments, about, .. } in CHORES {
        let call = format!("{name} {arguments}");
        text.push_str(&format!("  {call:<22} {about}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_every_chore() {
        let help = help();
        for chore in CHORES {
            assert!(help.contains(&format!("  {} ", chore.name)), "{} is missing from:\n{help}", chore.name);
        }
    }

    #[test]
    fn an_unknown_chore_is_named_in_the_answer() {
        let problem = dispatch(&["tset".to_owned()]).unwrap_err();
        assert!(problem.starts_with("there is no chore \"tset\"."), "{problem}");
    }
}
