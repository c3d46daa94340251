//! A file's settings, each checked against what sections know, with its line.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::key::{self, Key, Kind, Value};
use super::places::FileText;
use super::{ConfigError, Origin, Setting, keys, suggest};

/// A setting of a file.
pub(super) struct Read {
    pub key: &'static Key,
    pub path: String,
    pub setting: Setting,
}

pub(super) fn read(file: &FileText) -> Result<Vec<Read>, ConfigError> {
    let table = DeTable::parse(&file.text).map_err(|error| {
        let line = file.line(error.span().map_or(0, |span| span.start));
        ConfigError::Syntax { file: file.path.clone(), line, detail: error.message().to_owned() }
    })?;
    let mut reader = Reader { file, found: Vec::new() };
    reader.table(table.get_ref(), &mut Vec::new())?;
    Ok(reader.found)
}

struct Reader<'f> {
    file: &'f FileText,
    found: Vec<Read>,
}

impl Reader<'_> {
    fn table(&mut self, table: &DeTable<'_>, above: &mut Vec<String>) -> Result<(), ConfigError> {
        for (name, value) in table {
            let line = self.file.line(name.span().start);
            above.push(name.get_ref().to_string());
            self.entry(above, value, line)?;
            above.pop();
        }
        Ok(())
    }

    fn entry(&mut self, path: &mut Vec<String>, value: &Spanned<DeValue<'_>>, line: usize) -> Result<(), ConfigError> {
        let segments: Vec<&str> = path.iter().map(String::as_str).collect();
        let dotted = segments.join(".");
        let mut fitting = keys().filter(|key| key::begins(key, &segments)).peekable();
        let Some(first) = fitting.peek() else { return Err(self.unknown(&segments, line)) };
        let is_named = first.segments().nth(segments.len() - 1) == Some("*");
        if is_named && !key::is_name(segments[segments.len() - 1]) {
            return Err(self.wrong(&dotted, line, "a name of letters, digits, - and _".into(), "not a plain name"));
        }
        if let Some(key) = fitting.find(|key| key.segments().count() == segments.len()) {
            let value = self.value(key, &dotted, value, line)?;
            let origin = Origin::File { path: self.file.path.clone(), line };
            self.found.push(Read { key, path: dotted, setting: Setting { value, origin } });
            return Ok(());
        }
        match value.get_ref() {
            DeValue::Table(table) => self.table(table, path),
            other => Err(self.wrong(&dotted, line, "a table".into(), &described(other))),
        }
    }

    fn value(
        &self,
        key: &'static Key,
        path: &str,
        value: &Spanned<DeValue<'_>>,
        line: usize,
    ) -> Result<Value, ConfigError> {
        let value = value.get_ref();
        let read = match (key.kind, value) {
            (Kind::Text | Kind::OneOf(_), DeValue::String(text)) => key.kind.parse(text),
            (Kind::Count { .. }, DeValue::Integer(number)) if number.radix() == 10 => key.kind.parse(number.as_str()),
            (Kind::Texts, DeValue::Array(array)) => {
                let texts = array.iter().map(|text| text.get_ref().as_str().map(str::to_owned));
                texts.collect::<Option<Vec<_>>>().map(Value::Texts)
            }
            (Kind::Variables, DeValue::Table(table)) => {
                let pairs = table
                    .iter()
                    .map(|(name, text)| Some((name.get_ref().to_string(), text.get_ref().as_str()?.to_owned())));
                pairs.collect::<Option<BTreeMap<_, _>>>().map(Value::Variables)
            }
            _ => None,
        };
        read.ok_or_else(|| self.wrong(path, line, key.kind.to_string(), &described(value)))
    }

    fn unknown(&self, segments: &[&str], line: usize) -> ConfigError {
        let (name, below) = segments.split_last().expect("a key has a name");
        let help = suggest::instead_of(name, below);
        ConfigError::UnknownKey { file: self.file.path.clone(), line, key: segments.join("."), help }
    }

    fn wrong(&self, key: &str, line: usize, expected: String, found: &str) -> ConfigError {
        let (file, found) = (self.file.path.clone(), found.to_owned());
        ConfigError::WrongType { file, line, key: key.to_owned(), expected, found }
    }
}

fn described(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{:?}", text.chars().take(40).collect::<String>()),
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(is) => is.to_string(),
        DeValue::Datetime(_) => "a time".into(),
        DeValue::Array(_) => "a list".into(),
        DeValue::Table(_) => "a table".into(),
    }
}
