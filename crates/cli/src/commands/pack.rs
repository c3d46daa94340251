//! `enjamb pack`, with `list`, `show`, `verify` and `diff`

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use enjamb_core::limits;
use enjamb_core::pack::{Change, Pack as ContextPack, PackDiff, Source};
use enjamb_server::{Operations, view};
use enjamb_service::{Exported, ServiceError};
use serde_json::json;

use super::Context;
use super::log::short;
use super::show::as_json;
use crate::failure::{Exit, Failure, Result};
use crate::text::{ago, plural};
use crate::ui::{Cell, Table};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Example:\n  enjamb pack @\n  enjamb pack reviewer-a continuity/main -o packs\n  \
    enjamb pack @ --repo acme/shop --redact -o evidence.json\n  enjamb pack @ --as markdown\n\n\
    A pack holds what was said and what each answer rests on, and nothing else. The same content has the same hash, \
    whenever and wherever it is packed; packing it again gives the first record back.")]
pub struct Pack {
    #[command(subcommand)]
    action: Option<Action>,
    /// What to pack: revisions, or threads such as continuity/main; without any, the last commit
    sources: Vec<String>,
    /// Where to begin: root, compaction (the nearest one), or an ancestor
    #[arg(long, default_value = "root", value_name = "STOP")]
    stop: String,
    /// The title [default: the thread's, or the beginning of what was first asked]
    #[arg(long)]
    title: Option<String>,
    /// The repository that files are of [default: what the runtime says, or local/ and the directory that the agent worked in]
    #[arg(long, value_name = "OWNER/NAME", value_parser = parse_repo)]
    repo: Option<String>,
    /// Replace secrets before hashing; how many of which kind is recorded
    #[arg(long)]
    redact: bool,
    #[command(flatten)]
    out: Out,
}

#[derive(Args)]
struct Out {
    /// How to write it out
    #[arg(long = "as", value_enum, value_name = "FORM")]
    form: Option<Form>,
    /// Where to write it: a file, or a directory, in which it gets a name
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Form {
    Json,
    Markdown,
    Yaml,
}

#[derive(Subcommand)]
enum Action {
    /// List packs, newest first
    #[command(
        after_help = "Example:\n  enjamb pack list\n  enjamb pack list --session 550e8400-e29b-41d4-a716-446655440000"
    )]
    List {
        /// Only those of this session
        #[arg(long, value_name = "ID")]
        session: Option<String>,
        /// At most so many
        #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
        limit: u64,
    },
    /// Write a pack out
    #[command(after_help = "Example:\n  enjamb pack show 6a4e7d0d\n  enjamb pack show 6a4e7d0d --as yaml -o pack.yaml")]
    Show {
        /// Its hash, or the beginning of it
        pack: String,
        #[command(flatten)]
        out: Out,
    },
    /// Check that a pack is what it says
    #[command(after_help = "Example:\n  enjamb pack verify 6a4e7d0d\n  enjamb pack verify evidence.json\n\n\
        A file is checked without a store. Exits with 6 when anything does not match, and names it.")]
    Verify {
        /// A file, a hash, or the beginning of one
        pack: String,
    },
    /// Compare two packs
    #[command(
        after_help = "Example:\n  enjamb pack diff 6a4e7d0d evidence.json\n  enjamb pack diff a.json b.json --exit-code"
    )]
    Diff {
        /// A file, a hash, or the beginning of one
        a: String,
        b: String,
        /// Exit with 1 when they differ
        #[arg(long)]
        exit_code: bool,
    },
}

impl Pack {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        match self.action {
            Some(Action::List { session, limit }) => list(context, session.as_deref(), limit),
            Some(Action::Show { pack, out }) => {
                let operations = context.operations()?;
                let record: view::Pack = operations.call("pack_record", json!({"pack": pack}))?;
                out.write_all(context, &operations, &[record], Form::Json)
            }
            Some(Action::Verify { pack }) => verify(context, &pack),
            Some(Action::Diff { a, b, exit_code }) => diff(context, &a, &b, exit_code),
            None => self.pack(context),
        }
    }

    fn pack(self, context: &mut Context<'_>) -> Result<Exit> {
        let operations = context.operations()?;
        let sources = if self.sources.is_empty() { vec!["@".to_owned()] } else { self.sources };
        self.out.check(sources.len())?;
        let asked = json!({
            "from": sources, "stop": self.stop, "title": self.title, "repo": self.repo, "redact": self.redact,
        });
        let view::Packs { packs, .. } = operations.call("pack", asked)?;
        if self.out.form.is_none() && self.out.output.is_none() || context.ui.is_json() {
            self.out.files(&operations, &packs, Form::Json)?;
            return report(context, &packs);
        }
        self.out.write_all(context, &operations, &packs, Form::Json)
    }
}

impl Out {
    /// Refuses what could not be written, before anything is packed.
    fn check(&self, packs: usize) -> Result<()> {
        match &self.output {
            Some(path) if packs > 1 && !path.is_dir() => {
                Err(Failure::usage("several packs go to a directory that is there: -o DIR"))
            }
            None if packs > 1 && self.form.is_some() => {
                Err(Failure::usage("several packs are written out with -o DIR"))
            }
            _ => Ok(()),
        }
    }

    fn write_all(
        &self,
        context: &mut Context<'_>,
        operations: &Operations,
        packs: &[view::Pack],
        default: Form,
    ) -> Result<Exit> {
        if self.output.is_some() {
            self.files(operations, packs, default)?;
            return report(context, packs);
        }
        for pack in packs {
            if context.ui.is_json() {
                return report(context, std::slice::from_ref(pack));
            }
            context.ui.stored(&text_of(operations, &pack.hash, self.form.unwrap_or(default))?)?;
        }
        Ok(Exit::Done)
    }

    fn files(&self, operations: &Operations, packs: &[view::Pack], default: Form) -> Result<()> {
        let Some(output) = &self.output else { return Ok(()) };
        let form = self.form.unwrap_or(default);
        for pack in packs {
            let path = match output.is_dir() {
                true => output.join(read(operations, &pack.hash)?.file_name(Exported::from(form).extension())),
                false => output.clone(),
            };
            let text = text_of(operations, &pack.hash, form)?;
            super::file::create(&path, |out| Ok(out.write_all(&text)?))?;
        }
        Ok(())
    }
}

impl From<Form> for Exported {
    fn from(form: Form) -> Self {
        match form {
            Form::Json => Self::Json,
            Form::Markdown => Self::Markdown,
            Form::Yaml => Self::Yaml,
        }
    }
}

/// A pack in a form. What is to be read has no secrets in it; JSON is the pack itself.
fn text_of(operations: &Operations, hash: &str, form: Form) -> Result<Vec<u8>> {
    let form = match form {
        Form::Json => "json",
        Form::Markdown => "md",
        Form::Yaml => "yaml",
    };
    Ok(operations.bytes("packed", json!({"pack": hash, "format": form}))?.0)
}

fn read(operations: &Operations, hash: &str) -> Result<ContextPack> {
    Ok(ContextPack::parse(&text_of(operations, hash, Form::Json)?).map_err(ServiceError::from)?)
}

/// Says what became of packs: a line with the hash for each, and on stderr what their hashes do not cover.
pub fn report(context: &mut Context<'_>, packs: &[view::Pack]) -> Result<Exit> {
    if context.ui.is_json() {
        context.ui.json("pack", json!({"packs": packs}))?;
        return Ok(Exit::Done);
    }
    for pack in packs {
        let name = pack.hash.get(..12).unwrap_or(&pack.hash);
        for warning in pack.warnings.iter().flatten() {
            context.ui.note(&format!("{name}: {} {}", warning.count, warning.what));
        }
        let known = if pack.known == Some(true) { ", known already" } else { "" };
        let (messages, sources) = (plural(pack.messages, "message"), plural(pack.sources, "set"));
        context.ui.note(&format!("{name}: {messages}, {sources} of sources{known}"));
        context.ui.answer(&pack.hash)?;
    }
    Ok(Exit::Done)
}

fn list(context: &mut Context<'_>, session: Option<&str>, limit: u64) -> Result<Exit> {
    let operations = context.operations()?;
    let mut found = view::Packs { packs: Vec::new(), next: None };
    loop {
        let left = (limit - found.packs.len() as u64).min(limits::PAGE_ROWS_MAX as u64);
        let asked = json!({"session": session, "limit": left, "cursor": found.next});
        let page: view::Packs = operations.call("packs", asked)?;
        found.packs.extend(page.packs);
        found.next = page.next;
        if found.next.is_none() || found.packs.len() as u64 >= limit {
            break;
        }
    }
    if context.ui.is_json() {
        context.ui.json("pack_list", as_json(&found))?;
        return Ok(Exit::Done);
    }
    let now_ms = enjamb_service::Env::system().now().as_millis();
    let mut table = Table::new(&["pack", "age", "session", "messages", "sources", "title"]);
    for pack in &found.packs {
        table.row([
            short(&pack.hash),
            Cell::new(ago(now_ms, pack.recorded_ms), pack.recorded_ms),
            Cell::new(pack.session.get(..8).unwrap_or(&pack.session), &pack.session),
            pack.messages.to_string().into(),
            pack.sources.to_string().into(),
            pack.title.clone().unwrap_or_default().into(),
        ]);
    }
    context.ui.table(&table)?;
    Ok(Exit::Done)
}

/// The pack in a file, if there is one of that name, or else in the store.
fn find(context: &Context<'_>, text: &str) -> Result<ContextPack> {
    if Path::new(text).exists() || text.contains(['/', '.']) {
        return Ok(ContextPack::parse(&super::unpack::read(Path::new(text))?).map_err(ServiceError::from)?);
    }
    read(&context.operations()?, text)
}

fn verify(context: &mut Context<'_>, text: &str) -> Result<Exit> {
    let pack = find(context, text)?;
    let findings = pack.verify();
    let exit = if findings.is_empty() { Exit::Done } else { Exit::Damaged };
    if context.ui.is_json() {
        let rows: Vec<_> = findings.iter().map(|found| json!({"code": found.code, "detail": found.detail})).collect();
        context.ui.json("pack_verify", json!({"ok": findings.is_empty(), "hash": pack.hash(), "findings": rows}))?;
        return Ok(exit);
    }
    for found in &findings {
        context.ui.bad(&format!("{}  [{}]", found.detail, found.code))?;
    }
    if findings.is_empty() {
        let (messages, sources) = (plural(pack.message_count, "message"), plural(pack.sources_count, "set"));
        context.ui.good(&format!("{}   {messages}, {sources} of sources: every hash matches", pack.session_hash))?;
    }
    Ok(exit)
}

fn diff(context: &mut Context<'_>, a: &str, b: &str, exit_code: bool) -> Result<Exit> {
    let diff = PackDiff::of(&find(context, a)?, &find(context, b)?);
    let exit = if exit_code && !diff.same { Exit::No } else { Exit::Done };
    if context.ui.is_json() {
        let lines = |sources: &[Source]| sources.iter().map(Source::line).collect::<Vec<_>>();
        let change = |(seq, change): &(u64, Change)| json!({"seq": seq, "change": change.as_str()});
        let value = json!({
            "same": diff.same, "same_session": diff.same_session, "titles": diff.titles,
            "messages": diff.messages.iter().map(change).collect::<Vec<_>>(),
            "sources_removed": lines(&diff.sources_removed), "sources_added": lines(&diff.sources_added),
        });
        context.ui.json("pack_diff", value)?;
        return Ok(exit);
    }
    if diff.same {
        context.ui.line("the same")?;
        return Ok(exit);
    }
    if let Some(titles) = &diff.titles {
        let [a, b] = titles.each_ref().map(|title| title.as_deref().unwrap_or("untitled"));
        context.ui.line(format!("title      {a} → {b}"))?;
    }
    for (seq, change) in &diff.messages {
        context.ui.line(format!("message {seq}  {}", change.as_str()))?;
    }
    for (sign, sources) in [("-", &diff.sources_removed), ("+", &diff.sources_added)] {
        for source in sources {
            context.ui.line(format!("{sign} {}", source.line()))?;
        }
    }
    Ok(exit)
}

fn parse_repo(text: &str) -> std::result::Result<String, String> {
    match text.split_once('/') {
        Some((owner, repo)) if !owner.is_empty() && !repo.is_empty() => Ok(text.to_owned()),
        _ => Err("expected OWNER/NAME".to_owned()),
    }
}
