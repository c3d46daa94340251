//! Who writes the summary of a job: a rule, or a program or a model that is given the messages.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use enjamb_core::StreamId;
use enjamb_core::compact::{Delta, Heading, SUMMARIZER_JOB, is_placeholder, stride_rule, summary_markdown};
use enjamb_core::compile::Basis;
use enjamb_core::frame::{Body, ContinuityBody, PlannedCut};
use enjamb_core::order::MarkKey;
use enjamb_formats::TokenCounting;
use enjamb_ledger::Ledger;

use super::Growth;
use super::auto::Job;
use crate::timeline::in_stream;
use crate::{Endpoint, Result, Store, ThreadError};

/// Who writes a summary.
#[derive(Clone, Debug, Default)]
pub enum ThreadSummarizer {
    /// By rule: the same messages always give the same words.
    #[default]
    Rule,
    Written(Writer),
}

/// Who writes words that follow from no rule.
#[derive(Clone, Debug)]
pub enum Writer {
    /// A shell command that reads what is to be summed up and writes the summary.
    Command(String),
    /// A model behind an endpoint.
    Model(Arc<Mutex<Endpoint>>),
}

impl ThreadSummarizer {
    /// The kind of job that writes so.
    pub const fn job_kind(&self) -> &'static str {
        match self {
            Self::Rule => SUMMARIZER_JOB,
            Self::Written(Writer::Command(_)) => COMMAND_JOB,
            Self::Written(Writer::Model(_)) => MODEL_JOB,
        }
    }

    /// Whether a job writes summaries.
    pub(super) fn is_job(kind: &str) -> bool {
        [SUMMARIZER_JOB, COMMAND_JOB, MODEL_JOB].contains(&kind)
    }
}

const COMMAND_JOB: &str = "compaction_command_summarizer_v1";
const MODEL_JOB: &str = "compaction_model_summarizer_v1";

impl Writer {
    pub(super) fn write(&self, task: &SummaryTask) -> Result<String> {
        match self {
            Self::Command(command) => run(command, task),
            Self::Model(endpoint) => endpoint.lock().unwrap_or_else(PoisonError::into_inner).stand_in(&task.record()),
        }
    }
}

/// What a summary is to be written of.
#[derive(Clone, Debug, Default)]
pub(super) struct SummaryTask {
    /// What was summed up before.
    pub(super) base: Option<String>,
    /// (who, what), in order.
    pub(super) messages: Vec<(String, String)>,
}

impl SummaryTask {
    /// The task as a program reads it.
    fn text(&self) -> String {
        let mut text = String::from("Write a summary that stands for the conversation below. Keep instructions, ");
        text.push_str("identifiers, file paths, decisions and open tasks.\n\n");
        text.push_str(&self.record());
        text
    }

    /// What was said.
    fn record(&self) -> String {
        let mut text = String::new();
        if let Some(base) = &self.base {
            text.push_str(&format!("# Summed up before\n\n{}\n\n", base.trim()));
        }
        text.push_str("# Said since\n");
        for (who, what) in &self.messages {
            text.push_str(&format!("\n## {who}\n\n{what}\n"));
        }
        text
    }
}

/// A summary's words, and what they rest on.
pub(super) struct Written {
    pub(super) markdown: String,
    pub(super) basis: Option<Basis>,
}

impl Store {
    /// Writes the summary of one planned cut.
    pub(super) fn write_summary(&self, thread: &StreamId, job: &Job, cut: &PlannedCut) -> Result<Written> {
        self.check_cut(thread, cut)?;
        let base = self.summary_base(thread, cut.to_seq)?;
        let markdown = match &job.summarizer {
            ThreadSummarizer::Rule => self.summary_by_rule(thread, job.stride, cut, &base)?,
            ThreadSummarizer::Written(writer) => {
                let mut task = SummaryTask { base: base.markdown.clone(), messages: Vec::new() };
                self.each_said(thread, base.after, cut.to_seq, &mut |actor, content| {
                    task.messages.push((actor.to_owned(), content.to_owned()));
                })?;
                writer.write(&task)?
            }
        };
        self.check_growth(job.growth, thread, &base, cut.to_seq, &markdown)?;
        Ok(Written { markdown, basis: Basis::of(base.artifact, base.note) })
    }

    fn summary_by_rule(&self, thread: &StreamId, stride: u64, cut: &PlannedCut, base: &Base) -> Result<String> {
        let mut delta = Delta::default();
        self.each_said(thread, base.after, cut.to_seq, &mut |actor, content| delta.add(actor, content))?;
        let rule = stride_rule(stride);
        let heading = Heading {
            thread_id: &thread.id,
            cut_rule_id: &rule,
            stride_messages: stride,
            target_message_ordinal: cut.target_message_ordinal,
            to_seq: cut.to_seq,
            to_message_id: &cut.to_message_id,
            base_summary_artifact_id: base.artifact.as_deref(),
            basis_note: base.note.as_deref(),
        };
        Ok(summary_markdown(&heading, base.markdown.as_deref(), &delta))
    }

    /// Refuses a summary that takes no less than what it stands for: the base that it goes on from, and what was said and
    /// answered since. That is read from its end, and only until it is more than the summary.
    pub(super) fn check_growth(
        &self,
        growth: Growth,
        thread: &StreamId,
        base: &Base,
        to_seq: u64,
        markdown: &str,
    ) -> Result<()> {
        const PAGE: usize = 16;
        if growth == Growth::Allowed {
            return Ok(());
        }
        let count = |text: &str| TokenCounting::Exact.count(text);
        let after = count(markdown);
        let mut before = base.markdown.as_deref().map_or(0, count);
        let mut upto = Some(to_seq);
        while let Some(last) = upto.filter(|_| before <= after) {
            let page = self.messages_back(thread, base.after, last, PAGE)?;
            upto = page.last().and_then(|message| message.seq.checked_sub(1));
            for message in &page {
                let turn = self.turn(thread, message, u64::MAX)?;
                before += count(&turn.content) + turn.reply.as_deref().map_or(0, count);
            }
        }
        if after >= before {
            return Err(ThreadError::DoesNotShrink { before, after }.into());
        }
        Ok(())
    }

    pub(super) fn summary_base(&self, thread: &StreamId, to_seq: u64) -> Result<Base> {
        let Some(at) = self.base_of(thread, to_seq)? else { return Ok(Base::default()) };
        let artifact = Some(at.checkpoint.summary_artifact_id.clone());
        let from_start = |note: String| Base { artifact: artifact.clone(), note: Some(note), ..Base::default() };
        Ok(match self.summary_artifact(&at.checkpoint.summary_artifact_id) {
            Ok(summary) if is_placeholder(&summary.summary_markdown) => {
                from_start("bootstrap_from_truth_v0.2/legacy_base".into())
            }
            Ok(summary) => Base {
                artifact,
                note: None,
                markdown: Some(summary.summary_markdown),
                after: Some(at.checkpoint.to_seq),
            },
            Err(error) => from_start(format!("bootstrap_from_truth_v0.2/base_read_failed: {error}")),
        })
    }

    /// A cut is at the message that it names.
    fn check_cut(&self, thread: &StreamId, cut: &PlannedCut) -> Result<()> {
        let there = self.ledger.mark(&in_stream(thread), &MarkKey::Message(cut.to_seq))?;
        if there.as_ref() == Some(&cut.to_message_id) {
            return Ok(());
        }
        Err(ThreadError::NotAMessage { thread: thread.id.clone(), seq: cut.to_seq }.into())
    }

    /// Who said what, in the messages with `after < seq <= upto`, in order.
    pub(super) fn each_said(
        &self,
        thread: &StreamId,
        after: Option<u64>,
        upto: u64,
        visit: &mut dyn FnMut(&str, &str),
    ) -> Result<()> {
        let span = after.map_or(0, |after| after + 1)..upto.saturating_add(1);
        self.replay(thread, span, &mut |frame| {
            if let Body::Continuity(ContinuityBody::MessageAppended(said)) = frame.body {
                visit(&said.actor_id, &said.content);
            }
            Ok(())
        })?;
        Ok(())
    }
}

/// What a summary goes on from.
#[derive(Default)]
pub(super) struct Base {
    artifact: Option<String>,
    note: Option<String>,
    markdown: Option<String>,
    after: Option<u64>,
}

/// Lets a program write a summary. It has to end well and to say something.
fn run(command: &str, task: &SummaryTask) -> Result<String> {
    let failed = |detail: String| ThreadError::SummarizerFailed {
        command: command.to_owned(),
        detail: detail.trim().to_owned(),
    };
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = shell.spawn().map_err(|error| failed(error.to_string()))?;
    let mut input = child.stdin.take();
    let mut errors = child.stderr.take();
    let text = task.text();
    let (output, said) = std::thread::scope(|scope| {
        // A program may answer before it has read everything, so that nobody minds if it stops reading.
        scope.spawn(move || input.as_mut().map(|input| input.write_all(text.as_bytes())));
        let errors = scope.spawn(move || {
            let mut said = String::new();
            let _ = errors.as_mut().map(|errors| errors.read_to_string(&mut said));
            said
        });
        (child.wait_with_output(), errors.join().unwrap_or_default())
    });
    let output = output.map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(format!("{} {said}", output.status)).into());
    }
    let markdown = String::from_utf8(output.stdout).map_err(|_| failed("what it wrote is not UTF-8".into()))?;
    if markdown.trim().is_empty() {
        return Err(failed("it wrote nothing".into()).into());
    }
    Ok(markdown)
}
