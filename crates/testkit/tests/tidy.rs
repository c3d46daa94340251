//! The budgets of CONTRIBUTING.md, checked on the sources themselves.
//!
//! Rules read text, not syntax trees: [`Source`] splits a file into its code and its comments, with the contents of
//! literals blanked in both, and each rule looks at lines. Every violation of the tree is reported at once.

use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

const FUNCTION_LINES_MAX: usize = 70;
const PRODUCTION_LINES_MAX: usize = 800;
const INLINE_TEST_LINES_MAX: usize = 300;

const ROOT_DOCUMENTS: &[&str] =
    &["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "AGENTS.md", "ARCHITECTURE.md", "LICENSE"];
const BANNED_NAMES: &[&str] = &["utils", "helpers", "common", "misc", "manager", "data", "info"];
const UNFINISHED: &[&str] = &["TODO", "FIXME", "XXX", "HACK"];
const IMPURE: &[&str] = &[
    "SystemTime::now",
    "Instant::now",
    "Timestamp::now",
    "Zoned::now",
    "rand",
    "Uuid::new_v4",
    "now_v7",
    "std::fs",
    "std::env",
];
const PRINTS: &[&str] = &["print!", "println!", "eprint!", "eprintln!"];
const PRINTING_PACKAGES: &[&str] = &["crates/cli/", "xtask/"];
const UNSAFE_FILES: &[&str] = &["crates/testkit/src/faulty/vfs.rs"];

/// Which of our crates each package may use. `testkit` may be added to any as a dev-dependency.
const EDGES: &[(&str, &[&str])] = &[
    ("crates/core", &[]),
    ("crates/formats", &["core"]),
    ("crates/ledger", &["core"]),
    ("crates/service", &["core", "formats", "ledger"]),
    ("crates/server", &["core", "formats", "ledger", "service"]),
    ("crates/cli", &["core", "formats", "ledger", "service", "server"]),
    ("crates/testkit", &["core", "formats", "ledger", "service", "server", "cli"]),
    ("xtask", &[]),
];

#[test]
fn the_tree_is_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut violations = check_root(&names_in(&root));
    for package in packages(&root) {
        let manifest = package.join("Cargo.toml");
        violations.extend(check_edges(&relative(&root, &package), &read(&manifest)));
        for file in rust_files(&package) {
            violations.extend(check_file(&relative(&root, &file), &read(&file)));
        }
    }
    let report: String = violations.iter().map(|violation| format!("\n{violation}")).collect();
    assert!(violations.is_empty(), "the tree is not tidy:{report}");
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Violation {
    path: String,
    line: usize,
    what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

// Walking the tree.

fn packages(root: &Path) -> Vec<PathBuf> {
    let mut packages = entries(&root.join("crates"));
    packages.push(root.join("xtask"));
    packages.retain(|package| package.join("Cargo.toml").is_file());
    packages
}

fn rust_files(package: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut pending: Vec<PathBuf> =
        ["src", "tests", "benches", "examples", "build.rs"].iter().map(|name| package.join(name)).collect();
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            pending.extend(entries(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let listing = fs::read_dir(directory).unwrap_or_else(|cause| panic!("{}: {cause}", directory.display()));
    let mut paths: Vec<PathBuf> = listing.map(|entry| entry.expect("a readable directory").path()).collect();
    paths.sort();
    paths
}

fn names_in(directory: &Path) -> Vec<String> {
    let files = entries(directory).into_iter().filter(|path| path.is_file());
    files.map(|path| path.file_name().expect("an entry has a name").to_string_lossy().into_owned()).collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|cause| panic!("{}: {cause}", path.display()))
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).expect("a path under the root").to_string_lossy().replace('\\', "/")
}

// Rules about the root and the manifests.

fn check_root(names: &[String]) -> Vec<Violation> {
    let stray = names.iter().filter(|name| is_document(name) && !ROOT_DOCUMENTS.contains(&name.as_str()));
    stray
        .map(|name| Violation { path: name.clone(), line: 1, what: "this document does not belong in the root".into() })
        .collect()
}

fn is_document(name: &str) -> bool {
    match name.rsplit_once('.') {
        Some((_, extension)) => ["md", "txt", "rst", "adoc", "html", "pdf"].contains(&extension),
        None => name.chars().all(|c| c.is_ascii_uppercase() || c == '-' || c == '_'),
    }
}

fn check_edges(package: &str, manifest: &str) -> Vec<Violation> {
    let violation = |line, what| Violation { path: format!("{package}/Cargo.toml"), line, what };
    let Some((_, allowed)) = EDGES.iter().find(|(name, _)| *name == package) else {
        return vec![violation(1, "this package has no row in the table of edges".into())];
    };
    let mut violations = Vec::new();
    for Dependency { line, target, dev } in our_dependencies(manifest) {
        if !(allowed.contains(&target.as_str()) || dev && target == "testkit") {
            let role = if dev { "dev-dependency" } else { "dependency" };
            violations.push(violation(line, format!("enjamb-{target} may not be a {role} of {package}")));
        }
    }
    violations
}

struct Dependency {
    line: usize,
    /// The crate's name without `enjamb-`.
    target: String,
    dev: bool,
}

/// The manifest's dependencies on our crates, in any of the forms that TOML allows on one line.
fn our_dependencies(manifest: &str) -> Vec<Dependency> {
    let mut found = Vec::new();
    let mut section = String::new();
    for (index, line) in manifest.lines().enumerate() {
        let line_text = line.split('#').next().unwrap_or_default().trim();
        if line_text.starts_with('[') {
            section = line_text.to_owned();
        }
        // A renamed crate carries its name in `package = "…"`, so any mention in these sections counts.
        if section.contains("dependencies")
            && let Some((_, rest)) = line_text.split_once("enjamb-")
        {
            let target = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect();
            found.push(Dependency { line: index + 1, target, dev: section.contains("dev-dependencies") });
        }
    }
    found
}

// Rules about one file.

fn check_file(path: &str, text: &str) -> Vec<Violation> {
    let source = Source::of(text);
    let tests = inline_tests(&source.code);
    let mut findings = Vec::new();
    if !text.starts_with("//!") {
        findings.push((1, "the file does not begin with `//!`".to_owned()));
    }
    findings.extend(names(path, &source));
    findings.extend(sizes(text, &source, &tests));
    findings.extend(unfinished_work(&source));
    findings.extend(impurities(path, &source));
    findings.extend(prints(path, &source, &tests));
    findings.extend(unsafety(path, &source));
    let mut violations: Vec<Violation> =
        findings.into_iter().map(|(line, what)| Violation { path: path.to_owned(), line, what }).collect();
    violations.sort();
    violations
}

/// A line and what is wrong with it.
type Finding = (usize, String);

fn names(path: &str, source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let parts = path.trim_end_matches(".rs").split('/');
    findings.extend(parts.filter(|part| BANNED_NAMES.contains(part)).map(|part| (1, banned(part))));
    for start in words(&source.code, "mod") {
        let name = identifier(source.code[start + "mod".len()..].trim_start());
        // A module without a body has its own file, which is reported above.
        if BANNED_NAMES.contains(&name) && body_end(&source.code[start..]).is_some() {
            findings.push((line_of(&source.code, start), banned(name)));
        }
    }
    findings
}

fn banned(name: &str) -> String {
    format!("`{name}` says nothing about what is inside")
}

fn sizes(text: &str, source: &Source, tests: &[Range<usize>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for function in functions(&source.code) {
        let lines = function.lines.len();
        if lines > FUNCTION_LINES_MAX {
            let what = format!("function `{}` has {lines} lines, over {FUNCTION_LINES_MAX}", function.name);
            findings.push((function.lines.start, what));
        }
    }
    let test_lines: usize = tests.iter().map(ExactSizeIterator::len).sum();
    let production_lines = text.lines().count() - test_lines;
    if production_lines > PRODUCTION_LINES_MAX {
        findings.push((1, format!("the file has {production_lines} lines, over {PRODUCTION_LINES_MAX}")));
    }
    if test_lines > INLINE_TEST_LINES_MAX {
        let what = format!("the inline tests have {test_lines} lines, over {INLINE_TEST_LINES_MAX}");
        findings.push((tests[0].start, what));
    }
    findings
}

fn unfinished_work(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for marker in UNFINISHED {
        for text in [&source.code, &source.comments] {
            findings.extend(words(text, marker).map(|start| (line_of(text, start), format!("`{marker}` is left"))));
        }
    }
    for (pattern, what) in [("todo!", "`todo!` is left"), ("#[ignore", "the test is ignored")] {
        findings.extend(words(&source.code, pattern).map(|start| (line_of(&source.code, start), what.to_owned())));
    }
    findings
}

fn impurities(path: &str, source: &Source) -> Vec<Finding> {
    if !path.starts_with("crates/core/src/") {
        return Vec::new();
    }
    let code = &source.code;
    let found = IMPURE.iter().flat_map(|pattern| words(code, pattern).map(move |start| (start, *pattern)));
    found
        .chain(grouped_std(code))
        .map(|(start, pattern)| (line_of(code, start), format!("`{pattern}` is denied in core")))
        .collect()
}

/// The denied modules of `use std::{…}`, which do not stand there under their full names.
fn grouped_std(code: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    for (start, opening) in code.match_indices("std::{") {
        let group_start = start + opening.len();
        let group = &code[group_start..];
        let group = &group[..closing_brace(group).unwrap_or(group.len())];
        for (module, path) in [("fs", "std::fs"), ("env", "std::env")] {
            for at in words(group, module).filter(|&at| begins_path(&group[..at])) {
                found.push((group_start + at, path));
            }
        }
    }
    found
}

/// Whether a path of the group itself begins after this text, and not a part of one or of a nested group.
fn begins_path(before: &str) -> bool {
    let at_top = before.matches('{').count() == before.matches('}').count();
    at_top && (before.trim().is_empty() || before.trim_end().ends_with(','))
}

fn prints(path: &str, source: &Source, tests: &[Range<usize>]) -> Vec<Finding> {
    let is_production = path.contains("/src/") && !path.ends_with("/tests.rs") && !path.contains("/tests/");
    let in_library = is_production && !PRINTING_PACKAGES.iter().any(|package| path.starts_with(package));
    if !in_library {
        return Vec::new();
    }
    let found = PRINTS.iter().flat_map(|print| words(&source.code, print).map(move |start| (start, print)));
    found
        .map(|(start, print)| (line_of(&source.code, start), format!("`{print}` is denied in libraries")))
        .filter(|(line, _)| !tests.iter().any(|lines| lines.contains(line)))
        .collect()
}

fn unsafety(path: &str, source: &Source) -> Vec<Finding> {
    if UNSAFE_FILES.contains(&path) {
        return Vec::new();
    }
    let what = "`unsafe` outside the files that may hold it";
    words(&source.code, "unsafe").map(|start| (line_of(&source.code, start), what.to_owned())).collect()
}

// Reading Rust.

/// A file's code and its comments. Each has the lines of the file; what belongs to the other, and the contents of
/// literals, are spaces.
struct Source {
    code: String,
    comments: String,
}

#[derive(Clone, Copy)]
enum Kind {
    Code,
    Comment,
    Literal,
}

impl Source {
    fn of(text: &str) -> Self {
        let mut source = Self { code: String::new(), comments: String::new() };
        let mut rest = text;
        while !rest.is_empty() {
            let (kind, length) = lexeme(rest, source.code.ends_with(is_word));
            let (lexeme, after) = rest.split_at(length);
            let (code, comment) = match kind {
                Kind::Code => (lexeme.to_owned(), blank(lexeme)),
                Kind::Comment => (blank(lexeme), lexeme.to_owned()),
                Kind::Literal => (blank(lexeme), blank(lexeme)),
            };
            source.code.push_str(&code);
            source.comments.push_str(&comment);
            rest = after;
        }
        source
    }
}

/// Spaces for every character but the ends of lines.
fn blank(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect()
}

/// What the text begins with, and for how many bytes.
fn lexeme(text: &str, after_word: bool) -> (Kind, usize) {
    let first = text.chars().next().expect("text to read");
    if text.starts_with("//") {
        return (Kind::Comment, text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return (Kind::Comment, block_comment(text));
    }
    if !after_word && let Some(length) = raw_string(text) {
        return (Kind::Literal, length);
    }
    match first {
        '"' => (Kind::Literal, quoted(text, '"')),
        '\'' if begins_char(text) => (Kind::Literal, quoted(text, '\'')),
        _ => (Kind::Code, first.len_utf8()),
    }
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

/// The length of `r"…"`, `r#"…"#`, and the same after `b` or `c`; nothing for a raw identifier.
fn raw_string(text: &str) -> Option<usize> {
    let after_prefix = ["r", "br", "cr"].iter().find_map(|prefix| text.strip_prefix(prefix))?;
    let body = after_prefix.trim_start_matches('#');
    let hashes = after_prefix.len() - body.len();
    let body = body.strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let opened = text.len() - body.len();
    Some(body.find(&close).map_or(text.len(), |end| opened + end + close.len()))
}

/// The length of a literal that ends at the next delimiter without a backslash before it.
fn quoted(text: &str, delimiter: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == delimiter => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// Whether the apostrophe begins a character, and not a lifetime or a label.
fn begins_char(text: &str) -> bool {
    let mut after = text.chars().skip(1);
    after.next() == Some('\\') || after.next() == Some('\'')
}

struct Function<'a> {
    name: &'a str,
    lines: Range<usize>,
}

/// Every function with a body, from the line of its `fn` to that of its closing brace; a nested one counts twice.
fn functions(code: &str) -> Vec<Function<'_>> {
    let mut found = Vec::new();
    for start in words(code, "fn") {
        let name = identifier(code[start + "fn".len()..].trim_start());
        // A type such as `fn(u8)` and a macro's `fn $name` have no name to read.
        if name.is_empty() {
            continue;
        }
        if let Some(end) = body_end(&code[start..]) {
            found.push(Function { name, lines: lines_between(code, start, start + end) });
        }
    }
    found
}

/// Where the item's braces close; nothing if it ends with `;` first.
fn body_end(item: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in item.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ';' if depth == 0 => return None,
            '{' if depth == 0 => return closing_brace(&item[at + 1..]).map(|end| at + 1 + end),
            _ => {}
        }
    }
    None
}

/// Where the brace closes that was opened just before the text.
fn closing_brace(text: &str) -> Option<usize> {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// The lines of `#[cfg(test)] mod … { … }`, attribute included.
fn inline_tests(code: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (start, _) in code.match_indices("#[cfg(") {
        let Some((condition, _)) = code[start..].split_once(']') else { continue };
        let is_for_tests = condition.starts_with("#[cfg(test)") || condition.starts_with("#[cfg(all(test");
        let item = start + condition.len() + 1;
        if is_for_tests
            && is_module(&code[item..])
            && let Some(end) = body_end(&code[item..])
        {
            found.push(lines_between(code, start, item + end));
        }
    }
    found
}

/// Whether the item is a module, whatever its further attributes and visibility.
fn is_module(item: &str) -> bool {
    let head = item.split(['{', ';']).next().unwrap_or_default();
    let declaration = head.rsplit(']').next().unwrap_or_default();
    words(declaration, "mod").next().is_some()
}

/// Where the pattern stands in the text as a whole, and not as part of longer names.
fn words<'a>(text: &'a str, pattern: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(pattern).map(|(start, _)| start).filter(move |&start| {
        let joined_before = pattern.starts_with(is_word) && text[..start].ends_with(is_word);
        let joined_after = pattern.ends_with(is_word) && text[start + pattern.len()..].starts_with(is_word);
        !joined_before && !joined_after
    })
}

fn identifier(text: &str) -> &str {
    let text = text.strip_prefix("r#").unwrap_or(text);
    &text[..text.find(|c| !is_word(c)).unwrap_or(text.len())]
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The number of the line, counted from one.
fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

fn lines_between(text: &str, start: usize, end: usize) -> Range<usize> {
    line_of(text, start)..line_of(text, end) + 1
}

// The rules, by example.

/// Each finding as `line: what`, one a line, for a file that is otherwise in order.
fn check(path: &str, text: &str, expected: &[&str]) {
    let violations = check_file(path, &format!("//! Head.\n{text}"));
    let found: Vec<String> =
        violations.iter().map(|violation| format!("{}: {}", violation.line, violation.what)).collect();
    assert_eq!(found, expected, "in:\n{text}");
}

/// The code that is seen, with each run of spaces as one.
fn check_code(text: &str, expected: &str) {
    let code = Source::of(text).code;
    assert_eq!(code.chars().count(), text.chars().count(), "in:\n{text}");
    let squeezed: Vec<&str> = code.split(' ').filter(|word| !word.is_empty()).collect();
    assert_eq!(squeezed.join(" "), expected, "in:\n{text}");
}

fn check_functions(text: &str, expected: &[(&str, Range<usize>)]) {
    let source = Source::of(text);
    let found: Vec<_> = functions(&source.code).into_iter().map(|f| (f.name, f.lines)).collect();
    assert_eq!(found, expected, "in:\n{text}");
}

#[test]
fn literals_and_comments_are_not_code() {
    check_code(r#"f("}\"{", 1)"#, "f( , 1)");
    check_code(r##"f(r#"}"{"#, br"\", c"{")"##, "f( , , c )");
    check_code("a /* { /* { */ */ b // {\nc", "a b \nc");
    check_code("\"a\n{\" b", "\n b");
}

#[test]
fn characters_are_told_from_lifetimes() {
    check_code(r"f('{', '\'', b'}', '\u{7d}', '→')", "f( , , b , , )");
    check_code("fn f<'a>(x: &'a {}) { 'x: loop {} }", "fn f<'a>(x: &'a {}) { 'x: loop {} }");
}

#[test]
fn raw_identifiers_are_not_raw_strings() {
    check_code("r#fn(r#\"{\"#)", "r#fn( )");
    check_functions("fn r#match() {}", &[("match", 1..2)]);
}

#[test]
fn braces_in_literals_do_not_end_a_function() {
    let text = r##"
fn outer<'a>(open: &'a str) -> [u8; 2] {
    let braces = ("}}", r#"}"}"#, '}', b'{');
    // }
    fn inner() {
        call("{")
    }
    [b'{'; 2]
}
fn after();
"##;
    check_functions(text, &[("outer", 2..10), ("inner", 5..8)]);
}

#[test]
fn pointers_and_declarations_have_no_body() {
    check_functions("type F = fn(u8) -> u8; trait T { fn a(x: [u8; 2]); fn b() {} }", &[("b", 1..2)]);
}

#[test]
fn a_function_may_fill_its_budget_and_no_more() {
    let function = |lines: usize| format!("fn long() {{\n{}}}\n", "    call();\n".repeat(lines - 2));
    check("crates/core/src/x.rs", &function(70), &[]);
    check("crates/core/src/x.rs", &function(71), &["2: function `long` has 71 lines, over 70"]);
}

#[test]
fn inline_tests_have_a_budget_of_their_own() {
    let file = |code, tests| {
        format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", "use a;\n".repeat(code), "use b;\n".repeat(tests))
    };
    check("crates/core/src/x.rs", &file(799, 297), &[]);
    check("crates/core/src/x.rs", &file(800, 0), &["1: the file has 801 lines, over 800"]);
    check("crates/core/src/x.rs", &file(0, 298), &["2: the inline tests have 301 lines, over 300"]);
}

#[test]
fn a_file_begins_with_its_role() {
    let violations = check_file("crates/core/build.rs", "// A comment.\nfn main() {}\n");
    assert_eq!(violations[0].to_string(), "crates/core/build.rs:1: the file does not begin with `//!`");
}

#[test]
fn names_that_say_nothing_are_banned() {
    check("crates/cli/src/utils.rs", "", &["1: `utils` says nothing about what is inside"]);
    check("crates/cli/tests/common/mod.rs", "", &["1: `common` says nothing about what is inside"]);
    check("crates/cli/src/x.rs", "mod data {\n}\nmod info;\n", &["2: `data` says nothing about what is inside"]);
}

#[test]
fn unfinished_work_is_found_in_code_and_comments_but_not_in_literals() {
    let text = "// TODO: this\nfn f() { todo!() }\n#[ignore]\nconst A: &str = \"FIXME\"; // MASTODON\n";
    check("crates/cli/src/x.rs", text, &["2: `TODO` is left", "3: `todo!` is left", "4: the test is ignored"]);
}

#[test]
fn core_is_pure() {
    let text = "use std::{fmt, env::args,\n    fs, io::{fs as a}};\nuse std::fs::File;\nlet brand = Instant::now();\n";
    let denied = |line, what| format!("{line}: `{what}` is denied in core");
    let expected = [denied(2, "std::env"), denied(3, "std::fs"), denied(4, "std::fs"), denied(5, "Instant::now")];
    check("crates/core/src/x.rs", text, &expected.each_ref().map(String::as_str));
    check("crates/service/src/x.rs", text, &[]);
}

#[test]
fn libraries_do_not_print() {
    let text = "//! println!\nfn f() { eprintln!() }\n#[cfg(test)]\nmod tests { fn t() { println!() } }\n";
    check("crates/ledger/src/x.rs", text, &["3: `eprintln!` is denied in libraries"]);
    check("crates/ledger/tests/x.rs", text, &[]);
    check("crates/ledger/src/x/tests.rs", text, &[]);
    check("crates/cli/src/x.rs", text, &[]);
}

#[test]
fn unsafe_has_its_files() {
    let text = "#![deny(unsafe_code)]\nunsafe fn f() {}\n";
    check("crates/ledger/src/x.rs", text, &["3: `unsafe` outside the files that may hold it"]);
    check(UNSAFE_FILES[0], text, &[]);
}

#[test]
fn edges_point_inwards() {
    let check = |package: &str, manifest: &str, expected: &[&str]| {
        let found: Vec<String> = check_edges(package, manifest).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "in:\n{manifest}");
    };
    check("crates/ledger", "[dependencies]\nenjamb-core.workspace = true\n# enjamb-server\n", &[]);
    check("crates/ledger", "[dev-dependencies]\nenjamb-testkit = { workspace = true }\n", &[]);
    check(
        "crates/ledger",
        "[dependencies]\nkit = { package = \"enjamb-testkit\" }\n[dependencies.enjamb-formats]\n",
        &[
            "crates/ledger/Cargo.toml:2: enjamb-testkit may not be a dependency of crates/ledger",
            "crates/ledger/Cargo.toml:3: enjamb-formats may not be a dependency of crates/ledger",
        ],
    );
    check("crates/new", "", &["crates/new/Cargo.toml:1: this package has no row in the table of edges"]);
}

#[test]
fn the_root_holds_only_its_documents() {
    let names = ["README.md", "LICENSE", "NOTES.md", "AUTHORS", "Cargo.lock", ".gitignore"].map(str::to_owned);
    let stray: Vec<String> = check_root(&names).into_iter().map(|violation| violation.path).collect();
    assert_eq!(stray, ["NOTES.md", "AUTHORS"]);
}
