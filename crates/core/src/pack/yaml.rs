//! A pack as YAML: the same members in the same order, every string in double quotes, which say exactly what JSON's do.
//!
//! Written by hand because quoting everything leaves nothing of YAML to get wrong, and its libraries decide for
//! themselves which strings to leave bare.

use super::tree::quoted;
use super::{Pack, Tree};

impl Pack {
    pub fn yaml(&self) -> String {
        let mut out = String::new();
        write(&mut out, &self.tree(), 0);
        out
    }
}

fn write(out: &mut String, tree: &Tree, depth: usize) {
    match tree {
        Tree::Object(members) => {
            for (at, (name, value)) in members.iter().enumerate() {
                indent(out, if at == 0 { 0 } else { depth });
                out.push_str(&key(name));
                out.push(':');
                write_value(out, value, depth);
            }
        }
        Tree::List(items) => {
            for (at, item) in items.iter().enumerate() {
                indent(out, if at == 0 { 0 } else { depth });
                out.push('-');
                match item {
                    Tree::Object(members) if !members.is_empty() => {
                        out.push(' ');
                        write(out, item, depth + 2);
                    }
                    _ => write_value(out, item, depth),
                }
            }
        }
        Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::Text(_) => out.push_str(&scalar(tree)),
    }
}

/// What stands after a name or a dash.
fn write_value(out: &mut String, tree: &Tree, depth: usize) {
    let is_block = match tree {
        Tree::Object(members) => !members.is_empty(),
        Tree::List(items) => !items.is_empty(),
        Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::Text(_) => false,
    };
    if is_block {
        out.push('\n');
        indent(out, depth + 2);
        write(out, tree, depth + 2);
    } else {
        out.push(' ');
        out.push_str(&scalar(tree));
        out.push('\n');
    }
}

fn indent(out: &mut String, depth: usize) {
    out.extend(std::iter::repeat_n(' ', depth));
}

fn key(name: &str) -> String {
    // Readers take these for something else than text.
    const RESERVED: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_plain && !RESERVED.contains(&name.to_ascii_lowercase().as_str()) {
        return name.to_owned();
    }
    scalar(&Tree::Text(name.to_owned()))
}

fn scalar(tree: &Tree) -> String {
    let Tree::Text(text) = tree else { return tree.compact() };
    let mut out = String::with_capacity(text.len() + 2);
    for c in quoted(text).chars() {
        // YAML does not allow these, or takes them for line ends.
        match c {
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            _ => out.push(c),
        }
    }
    out
}
