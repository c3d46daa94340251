//! A pack as a page for people.

use std::fmt::Write;

use super::{Message, Pack};

impl Pack {
    /// The same pack is always the same page.
    pub fn markdown(&self) -> String {
        let mut page = String::new();
        let title = self.session.title.as_deref().unwrap_or("Untitled session");
        line(&mut page, format_args!("# {}\n", one_line(title)));
        for (name, value) in [
            ("session", self.session.id.clone()),
            ("pack", self.session_hash.clone()),
            ("version", super::VERSION.to_owned()),
            ("from", format!("{} to {}", self.session.created_at, self.session.updated_at)),
            ("messages", self.message_count.to_string()),
            ("sets of sources", self.sources_count.to_string()),
        ] {
            line(&mut page, format_args!("- {name}: {value}"));
        }
        self.messages.iter().for_each(|message| write_message(&mut page, message));
        page
    }
}

fn write_message(page: &mut String, message: &Message) {
    let Message { seq, role, content, created_at, sources, .. } = message;
    line(page, format_args!("\n## {seq}. {} ({created_at})\n", role.as_str()));
    line(page, format_args!("{}", content.trim_end()));
    if sources.is_empty() {
        return;
    }
    line(page, format_args!("\nSources:\n"));
    for source in sources {
        line(page, format_args!("- {}", one_line(&source.line())));
    }
}

fn line(page: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing into memory does not fail.
    let _ = writeln!(page, "{text}");
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
