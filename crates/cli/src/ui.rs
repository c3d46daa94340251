//! Output: aligned and coloured for a person, tab-separated for a pipe, JSON for a program.
//!
//! stdout is the answer; stderr is progress, notes and errors.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use enjamb_core::redact::{SecretStream, mask_bytes};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use crate::text::{safe, safe_json, safe_line};

const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
/// A bar that is done sooner than this was never worth showing.
const PROGRESS_DELAY: Duration = Duration::from_millis(400);
/// Stored bytes that are worth a write of their own.
const DIRECT_BYTES_MIN: usize = 8 << 10;

/// What the flags and the terminal ask for.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    pub json: bool,
    pub quiet: bool,
}

pub struct Ui {
    output: Output,
    terminal: bool,
    out: BufWriter<anstream::AutoStream<io::StdoutLock<'static>>>,
    /// The same descriptor, for long stretches of stored bytes: standard output would be cut at the last line's end.
    direct: Option<File>,
}

/// Rows that are aligned for a person and tab-separated for a pipe.
pub struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

/// A value as a person reads it, and as a program does.
pub struct Cell {
    shown: String,
    plain: String,
}

impl Cell {
    pub fn new(shown: impl Into<String>, plain: impl ToString) -> Self {
        Self { shown: shown.into(), plain: plain.to_string() }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { plain: text.clone(), shown: text }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl Table {
    pub fn new(header: &[&'static str]) -> Self {
        Self { header: header.to_vec(), rows: Vec::new() }
    }

    pub fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.rows.push(cells.into());
    }
}

impl Ui {
    pub fn new(output: Output) -> Self {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        Self { output, terminal, out: BufWriter::new(anstream::AutoStream::auto(stdout.lock())), direct: None }
    }

    pub fn is_json(&self) -> bool {
        self.output.json
    }

    pub fn flush(&mut self) -> crate::failure::Result<()> {
        Ok(self.flush_now()?)
    }

    /// As [`Ui::flush`], in terms of the output alone.
    pub fn flush_now(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// One JSON document, on one line.
    pub fn json(&mut self, schema: &str, mut value: Value) -> io::Result<()> {
        value["schema"] = format!("enjamb.cli.{schema}/1").into();
        writeln!(self.out, "{}", safe_json(&value))
    }

    /// A line for a person. Quiet runs leave it out.
    pub fn line(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        if self.output.quiet {
            return Ok(());
        }
        writeln!(self.out, "{}", safe(text.as_ref()))
    }

    /// A line that is the answer itself, and is printed even when quiet.
    pub fn answer(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        writeln!(self.out, "{}", safe(text.as_ref()))
    }

    pub fn good(&mut self, text: &str) -> io::Result<()> {
        self.mark(GOOD, "✓", text)
    }

    pub fn bad(&mut self, text: &str) -> io::Result<()> {
        self.mark(BAD, "✗", text)
    }

    fn mark(&mut self, style: Style, sign: &str, text: &str) -> io::Result<()> {
        writeln!(self.out, "{style}{sign}{style:#} {}", safe(text))
    }

    /// Stored bytes: as they are into a pipe or a file, escaped onto a terminal.
    pub fn stored(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.terminal {
            return write!(self.out, "{}", safe(&String::from_utf8_lossy(bytes)));
        }
        // Straight to the descriptor: the colour filter would take escape sequences out of what is stored. The lock is
        // this thread's already, and it may be taken again.
        self.out.flush()?;
        let mut stdout = io::stdout().lock();
        if bytes.len() < DIRECT_BYTES_MIN {
            return stdout.write_all(bytes);
        }
        stdout.flush()?;
        match &mut self.direct {
            Some(direct) => direct.write_all(bytes),
            None => self.direct.insert(stdout.as_fd().try_clone_to_owned()?.into()).write_all(bytes),
        }
    }

    /// Takes stored bytes in pieces, cut anywhere.
    pub fn stored_writer(&mut self) -> StoredWriter<'_> {
        StoredWriter { ui: self, begun: Vec::new(), secrets: SecretStream::default() }
    }

    /// Something made of stored text to be read by others: without secrets, wherever it goes.
    pub fn readable(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stored(&mask_bytes(bytes))
    }

    /// A value for whoever reads it.
    pub fn told(&self, cell: Cell) -> String {
        if self.terminal { cell.shown } else { cell.plain }
    }

    pub fn table(&mut self, table: &Table) -> io::Result<()> {
        if !self.terminal {
            for row in &table.rows {
                let plain: Vec<_> = row.iter().map(|cell| safe_line(&cell.plain)).collect();
                writeln!(self.out, "{}", plain.join("\t"))?;
            }
            return Ok(());
        }
        let widths = widths(table);
        let header: Vec<_> = table.header.iter().map(|name| (*name).to_owned()).collect();
        write!(self.out, "{DIM}")?;
        self.aligned(&header, &widths)?;
        write!(self.out, "{DIM:#}")?;
        for row in &table.rows {
            let shown: Vec<_> = row.iter().map(|cell| safe_line(&cell.shown)).collect();
            self.aligned(&shown, &widths)?;
        }
        Ok(())
    }

    fn aligned(&mut self, cells: &[String], widths: &[usize]) -> io::Result<()> {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.chars().count()) + 2));
        }
        writeln!(self.out, "{}", line.trim_end())
    }

    pub fn error_line(&self, text: &str) {
        // Nobody is left to tell if stderr is closed too.
        let _ = writeln!(anstream::stderr(), "{text}");
    }

    /// A word on stderr about what is going on, after what was answered so far.
    pub fn note(&mut self, text: &str) {
        if !self.output.quiet && !self.output.json {
            // A closed output is found again, and told, when the answer ends.
            let _ = self.out.flush();
            self.error_line(&safe_line(text));
        }
    }

    /// A word on stderr that has nothing to do with what was asked.
    pub fn aside(&self, text: &str) {
        if !self.output.quiet && !self.output.json {
            self.error_line(&safe_line(text));
        }
    }

    /// Asks a person who is there a question; anything but yes is no.
    pub fn ask(&mut self, question: &str) -> io::Result<bool> {
        self.out.flush()?;
        write!(anstream::stderr(), "{} [y/N] ", safe_line(question))?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
    }

    /// Runs something long with a bar on stderr, if a person is watching.
    pub fn with_progress<T>(&self, what: &'static str, act: impl FnOnce(&mut dyn FnMut(u64, u64)) -> T) -> T {
        self.with_named_progress(what, |progress| act(&mut |done, total| progress("", done, total)))
    }

    /// As [`Ui::with_progress`], naming what is being worked on.
    pub fn with_named_progress<T>(
        &self,
        what: &'static str,
        act: impl FnOnce(&mut dyn FnMut(&str, u64, u64)) -> T,
    ) -> T {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let began = Instant::now();
        let watched = !self.output.quiet && !self.output.json && io::stderr().is_terminal();
        let mut shown = false;
        let result = act(&mut |name, done, total| {
            if watched && !shown && began.elapsed() > PROGRESS_DELAY {
                shown = true;
                bar.set_draw_target(ProgressDrawTarget::stderr());
                bar.set_style(bar_style());
            }
            if shown {
                bar.set_message(format!("{what}  {}", safe_line(name)));
                bar.set_length(total);
                bar.set_position(done);
            }
        });
        bar.finish_and_clear();
        result
    }
}

/// See [`Ui::stored`].
pub struct StoredWriter<'u> {
    ui: &'u mut Ui,
    /// The beginning of a character whose end has not come yet.
    begun: Vec<u8>,
    /// On a terminal, what may be the beginning of a secret is held back too.
    secrets: SecretStream,
}

impl Write for StoredWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.ui.terminal {
            self.ui.stored(bytes)?;
            return Ok(bytes.len());
        }
        let settled = self.secrets.push(bytes);
        self.show(&settled)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let rest = self.secrets.finish();
        self.show(&rest)?;
        self.ui.stored(&std::mem::take(&mut self.begun))?;
        self.ui.out.flush()
    }
}

impl StoredWriter<'_> {
    /// Shows bytes without waiting for more, but for what may be the beginning of a secret.
    pub fn show_now(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)?;
        self.ui.out.flush()?;
        io::stdout().lock().flush()
    }

    /// Nothing more comes: what was held back is shown, and what was said ends its line.
    pub fn end_now(&mut self, said: &str) -> io::Result<()> {
        self.flush()?;
        if !said.is_empty() && !said.ends_with('\n') {
            self.ui.stored(b"\n")?;
        }
        self.ui.out.flush()?;
        io::stdout().lock().flush()
    }

    /// See [`Ui::note`].
    pub fn note(&mut self, text: &str) {
        self.ui.note(text);
    }

    fn show(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.begun.extend_from_slice(bytes);
        let rest = self.begun.split_off(self.begun.len() - begun_bytes(&self.begun));
        self.ui.stored(&self.begun)?;
        self.begun = rest;
        Ok(())
    }
}

/// How many bytes at the end begin a character of UTF-8 without ending it.
fn begun_bytes(bytes: &[u8]) -> usize {
    let lead = bytes.iter().rev().take(3).position(|byte| byte & 0xc0 != 0x80);
    let Some(after) = lead else { return 0 };
    let needs = match bytes[bytes.len() - 1 - after] {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => 1,
    };
    if needs > after + 1 { after + 1 } else { 0 }
}

fn bar_style() -> ProgressStyle {
    ProgressStyle::with_template("  {msg}  {bar:30}  {human_pos} of {human_len}  {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn widths(table: &Table) -> Vec<usize> {
    let mut widths: Vec<_> = table.header.iter().map(|name| name.chars().count()).collect();
    for row in &table.rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(safe_line(&cell.shown).chars().count());
        }
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_is_cut_waits_for_its_end() {
        for (bytes, begun) in [
            (&b""[..], 0),
            (b"abc", 0),
            ("až".as_bytes(), 0),
            (b"a\xc5", 1),
            (b"\xe2\x82", 2),
            (b"\xf0\x9f\x90", 3),
            ("🐎".as_bytes(), 0),
            (b"\x80\x80\x80\x80", 0),
            (b"\xff", 0),
        ] {
            assert_eq!(begun_bytes(bytes), begun, "{bytes:?}");
        }
    }
}
