//! JSON as its owner wrote it: where things stand in the text, so that one can be added or taken out and all else stays
//! as it is, byte for byte.

use std::ops::Range;

use serde::de::IgnoredAny;

/// A value and where it stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub span: Range<usize>,
    pub kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Object(Vec<Member>),
    Array(Vec<Node>),
    Other,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub name: String,
    /// From the name to the end of the value.
    pub span: Range<usize>,
    pub value: Node,
}

impl Node {
    /// The member of an object that counts: of several with one name, the last, as with other readers.
    pub(super) fn member(&self, name: &str) -> Option<&Member> {
        match &self.kind {
            Kind::Object(members) => members.iter().rev().find(|member| member.name == name),
            Kind::Array(_) | Kind::Other => None,
        }
    }

    pub(super) fn items(&self) -> Option<&[Node]> {
        match &self.kind {
            Kind::Array(items) => Some(items),
            Kind::Object(_) | Kind::Other => None,
        }
    }

    /// Where the things inside stand, in order.
    fn inside(&self) -> Vec<Range<usize>> {
        match &self.kind {
            Kind::Object(members) => members.iter().map(|member| member.span.clone()).collect(),
            Kind::Array(items) => items.iter().map(|item| item.span.clone()).collect(),
            Kind::Other => Vec::new(),
        }
    }
}

/// Reads a text that is JSON; what is not is refused, with its line.
pub(super) fn parse(text: &str) -> Result<Node, String> {
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| format!("it is not JSON: {error}"))?;
    Ok(Reader { text, at: 0 }.value())
}

/// Reads what is known to be JSON.
struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn value(&mut self) -> Node {
        self.space();
        let start = self.at;
        let kind = match self.next() {
            b'{' => self.object(),
            b'[' => self.array(),
            b'"' => self.string(),
            _ => self.word(),
        };
        Node { span: start..self.at, kind }
    }

    fn object(&mut self) -> Kind {
        let mut members = Vec::new();
        self.at += 1;
        while self.more(b'}') {
            let start = self.at;
            self.string();
            let name = serde_json::from_str(&self.text[start..self.at]).unwrap_or_default();
            self.space();
            self.at += 1;
            let value = self.value();
            members.push(Member { name, span: start..self.at, value });
        }
        Kind::Object(members)
    }

    fn array(&mut self) -> Kind {
        let mut items = Vec::new();
        self.at += 1;
        while self.more(b']') {
            items.push(self.value());
        }
        Kind::Array(items)
    }

    /// Goes to the next thing, past a comma, or past the end.
    fn more(&mut self, end: u8) -> bool {
        self.space();
        if self.next() == b',' {
            self.at += 1;
            self.space();
        }
        let is_end = self.next() == end;
        self.at += usize::from(is_end);
        !is_end
    }

    fn string(&mut self) -> Kind {
        self.at += 1;
        while self.next() != b'"' {
            self.at += if self.next() == b'\\' { 2 } else { 1 };
        }
        self.at += 1;
        Kind::Other
    }

    fn word(&mut self) -> Kind {
        let ends = |byte: u8| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace();
        while self.at < self.text.len() && !ends(self.next()) {
            self.at += 1;
        }
        Kind::Other
    }

    fn space(&mut self) {
        while self.at < self.text.len() && self.next().is_ascii_whitespace() {
            self.at += 1;
        }
    }

    fn next(&self) -> u8 {
        self.text.as_bytes()[self.at]
    }
}

/// Adds something at the end of an object or an array, indented as what is there.
pub(super) fn push(text: &str, into: &Node, lines: &[String]) -> String {
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let spread = text.contains('\n');
    let inside = into.inside();
    let outer = indentation(text, into.span.start);
    let inner = match inside.first().filter(|first| text[into.span.start..first.start].contains('\n')) {
        Some(first) => indentation(text, first.start).to_owned(),
        None => format!("{outer}{}", unit(text)),
    };
    let break_to = |indent: &str| if spread { format!("{newline}{indent}") } else { String::new() };
    let joined = if spread {
        lines.join(&break_to(&inner))
    } else {
        lines.iter().map(|line| line.trim_start()).collect::<String>()
    };
    match inside.last() {
        Some(last) => {
            let added = format!(",{}{joined}", break_to(&inner));
            [&text[..last.end], &added, &text[last.end..]].concat()
        }
        None => {
            let at = into.span.start + 1;
            let added = format!("{}{joined}{}", break_to(&inner), break_to(outer));
            // White space between the brackets was for want of anything else.
            [&text[..at], &added, &text[into.span.end - 1..]].concat()
        }
    }
}

/// Takes the thing out that stands at a place in an object or an array.
pub(super) fn take_out(text: &str, from: &Node, index: usize) -> String {
    let inside = from.inside();
    let cut = match (index.checked_sub(1), inside.get(index + 1)) {
        (Some(before), _) => inside[before].end..inside[index].end,
        (None, Some(next)) => inside[index].start..next.start,
        (None, None) => from.span.start + 1..from.span.end - 1,
    };
    [&text[..cut.start], &text[cut.end..]].concat()
}

/// How far a text is indented for each level: as its first line that is.
pub(super) fn unit(text: &str) -> &str {
    let indented = text.lines().skip(1).map(|line| &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]);
    indented.into_iter().find(|space| !space.is_empty()).unwrap_or("  ")
}

/// What the line begins with on which something stands.
fn indentation(text: &str, at: usize) -> &str {
    let line = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let rest = &text[line..at];
    &rest[..rest.len() - rest.trim_start_matches([' ', '\t']).len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    /// Adds to what a path of members leads to, checks the outcome, and that taking it out again restores the text.
    #[track_caller]
    fn check(text: &str, path: &[&str], added: &str, expected: &str) {
        fn at<'n>(node: &'n Node, path: &[&str]) -> &'n Node {
            path.iter().fold(node, |node, name| &node.member(name).unwrap().value)
        }
        let node = parse(text).unwrap();
        let grown = push(text, at(&node, path), &lines(added));
        assert_eq!(grown, expected);
        let node = parse(&grown).unwrap();
        let into = at(&node, path);
        assert_eq!(take_out(&grown, into, into.inside().len() - 1), text);
    }

    #[test]
    fn what_is_added_looks_like_what_is_there_and_can_be_taken_out_again() {
        check("{}", &[], "\"a\": 1", "{\"a\": 1}");
        check("{\"b\":[1,2]}", &["b"], "3", "{\"b\":[1,2,3]}");
        check("{\n  \"b\": 1\n}\n", &[], "\"a\": [\n  1\n]", "{\n  \"b\": 1,\n  \"a\": [\n    1\n  ]\n}\n");
        check("{\n\t\"b\": {}\n}", &["b"], "\"a\": 1", "{\n\t\"b\": {\n\t\t\"a\": 1\n\t}\n}");
        check("{\r\n  \"b\": [\r\n    1\r\n  ]\r\n}", &["b"], "2", "{\r\n  \"b\": [\r\n    1,\r\n    2\r\n  ]\r\n}");
        check("{ \"x\" : \"}]\\\"\" , \"b\" : [ ] }", &[], "\"a\":1", "{ \"x\" : \"}]\\\"\" , \"b\" : [ ],\"a\":1 }");
    }

    #[test]
    fn the_first_and_the_only_one_can_be_taken_out() {
        let out = |text: &str, index| take_out(text, &parse(text).unwrap(), index);
        assert_eq!(out("[1, 2, 3]", 0), "[2, 3]");
        assert_eq!(out("[1, 2, 3]", 1), "[1, 3]");
        assert_eq!(out("[ 1 ]", 0), "[]");
        assert_eq!(out("{\n  \"a\": 1,\n  \"b\": 2\n}", 0), "{\n  \"b\": 2\n}");
    }

    #[test]
    fn what_is_no_json_is_refused_with_its_line() {
        for text in ["", "{", "{\"a\":1,}", "// remark\n{}", "{'a':1}", "\u{feff}{}"] {
            assert!(parse(text).unwrap_err().contains("line"), "{text}");
        }
        let node = parse("{\"a\":1,\"b\":-1.5e3,\"a\":[true,null]}").unwrap();
        assert_eq!(node.member("a").unwrap().value.items().unwrap().len(), 2);
    }
}
