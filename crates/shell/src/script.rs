//! Input to pieces: statements that end with `;` (outside of strings, comments and procedure
//! bodies) and command lines.
//!
//! One set of rules serves scripts, `-c` and the prompt. A script is read line by line, so that its
//! size does not matter.

use crate::lexer::{self, Kind, Token};
use std::io::{self, BufRead};

/// Words that make a line a command wherever a statement could begin; such a line needs no `;`.
pub const LINE_WORDS: &[&str] = &[
    "bye",
    "describe",
    "desc",
    "echo",
    "echoerror",
    "exit",
    "explainproc",
    "explainview",
    "file",
    "help",
    "history",
    "list",
    "quit",
    "recall",
    "show",
];

/// One thing to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Item {
    /// Without the `;`.
    Statement(String),
    /// A line that the shell itself understands.
    Command(String),
    /// `file -inlinebatch MARK`: everything up to the mark, as one call.
    Batch(String),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    pub item: Item,
    /// The line of the source on which it begins, from 1.
    pub line: usize,
}

/// What stands at the front of a text.
enum Front {
    /// Nothing but blanks and comments.
    Nothing,
    /// A piece and where the next begins.
    Piece { item: Item, start: usize, end: usize },
    /// A statement, comment or batch that does not end here.
    Open { start: usize },
}

/// True when the text ends within a statement: more has to be typed.
pub fn is_open(text: &str) -> bool {
    let mut rest = text;
    loop {
        match front(rest) {
            Front::Nothing => return false,
            Front::Open { .. } => return true,
            Front::Piece { end, .. } => rest = &rest[end..],
        }
    }
}

/// The pieces of a text. What its end cuts off counts as ended.
pub fn pieces(text: &str) -> Vec<Piece> {
    let mut reader = ScriptReader::new(text.as_bytes());
    let mut pieces = Vec::new();
    while let Some(piece) = reader.next_piece().expect("memory can be read") {
        pieces.push(piece);
    }
    pieces
}

fn front(text: &str) -> Front {
    let Some(first) = lexer::tokens(text).find(|token| !token.is_filler() || !token.closed) else {
        return Front::Nothing;
    };
    if first.is_filler() {
        return Front::Open { start: first.start };
    }
    if is_command(text, &first) {
        let end = text[first.start..].find('\n').map_or(text.len(), |length| first.start + length + 1);
        let line = text[first.start..end].trim_end();
        return match batch_mark(line) {
            Some(mark) => batch(text, first.start, end, mark),
            None => Front::Piece { item: Item::Command(line.to_owned()), start: first.start, end },
        };
    }
    statement(text, first)
}

fn is_command(text: &str, first: &Token) -> bool {
    match first.kind {
        Kind::Symbol => first.text(text) == "\\" || first.text(text) == "?",
        Kind::Word => {
            let word = first.text(text);
            let is = |candidate: &&str| word.eq_ignore_ascii_case(candidate);
            let two_words = |second: &str| {
                let rest = text[first.end..].trim_start();
                rest.get(..second.len()).is_some_and(|start| start.eq_ignore_ascii_case(second))
            };
            LINE_WORDS.iter().any(&is) || (["load", "remove"].iter().any(is) && two_words("classes"))
        }
        _ => false,
    }
}

/// The mark of `file -inlinebatch MARK`.
fn batch_mark(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let is_batch = words.next()?.eq_ignore_ascii_case("file") && words.next()?.eq_ignore_ascii_case("-inlinebatch");
    if is_batch { words.next() } else { None }
}

fn batch(text: &str, start: usize, from: usize, mark: &str) -> Front {
    let mut at = from;
    for line in text[from..].split_inclusive('\n') {
        let next = at + line.len();
        if line.trim() == mark {
            return Front::Piece { item: Item::Batch(text[from..at].to_owned()), start, end: next };
        }
        at = next;
    }
    Front::Open { start }
}

fn statement(text: &str, first: Token) -> Front {
    let source = &text[first.start..];
    let mut words: Vec<Token> = Vec::new();
    let mut depth = 0usize;
    let mut tokens = lexer::tokens(source).filter(|token| !token.is_filler()).peekable();
    while let Some(token) = tokens.next() {
        if token.kind == Kind::Symbol && token.text(source) == ";" && depth == 0 {
            let item = Item::Statement(source[..token.start].trim_end().to_owned());
            return Front::Piece { item, start: first.start, end: first.start + token.end };
        }
        if words.len() < 4 {
            words.push(token);
        }
        if token.kind != Kind::Word || !has_body(source, &words) {
            continue;
        }
        // A CASE expression ends with END as a block does; END IF and its like end what BEGIN did
        // not open.
        if token.is_word(source, "BEGIN") || token.is_word(source, "CASE") {
            depth += 1;
        } else if token.is_word(source, "END") {
            let next = tokens.peek().copied();
            let next_is = |word: &str| next.is_some_and(|next| next.is_word(source, word));
            if next_is("CASE") {
                tokens.next();
            }
            if !["IF", "WHILE", "FOR", "LOOP", "REPEAT"].into_iter().any(next_is) {
                depth = depth.saturating_sub(1);
            }
        }
    }
    Front::Open { start: first.start }
}

/// CREATE [OR REPLACE] [DIRECTED | COMPOUND] PROCEDURE: the statements whose parts end with `;`
/// too.
fn has_body(source: &str, words: &[Token]) -> bool {
    words.first().is_some_and(|first| first.is_word(source, "CREATE"))
        && words.iter().any(|word| word.is_word(source, "PROCEDURE"))
}

/// Reads pieces from a stream.
pub struct ScriptReader<R> {
    source: R,
    /// Read, but not yet made into a piece.
    pending: String,
    /// The line of the source on which `pending` begins.
    line: usize,
    ended: bool,
}

impl<R: BufRead> ScriptReader<R> {
    pub fn new(source: R) -> Self {
        ScriptReader { source, pending: String::new(), line: 1, ended: false }
    }

    pub fn next_piece(&mut self) -> io::Result<Option<Piece>> {
        // Looking again pays only where a line can have ended something.
        let mut look = !self.pending.is_empty();
        loop {
            if look || self.ended {
                match front(&self.pending) {
                    Front::Piece { item, start, end } => {
                        let line = self.line + newlines(&self.pending[..start]);
                        self.forget(end);
                        return Ok(Some(Piece { item, line }));
                    }
                    Front::Nothing => self.forget(self.pending.len()),
                    Front::Open { start } if self.ended => {
                        let line = self.line + newlines(&self.pending[..start]);
                        let text = self.pending[start..].trim_end().to_owned();
                        self.forget(self.pending.len());
                        if text.starts_with("/*") {
                            return Ok(None);
                        }
                        let item = match text.split_once('\n').filter(|(first, _)| batch_mark(first).is_some()) {
                            Some((_, body)) => Item::Batch(body.to_owned()),
                            None => Item::Statement(text),
                        };
                        return Ok(Some(Piece { item, line }));
                    }
                    Front::Open { .. } => {}
                }
                if self.ended {
                    return Ok(None);
                }
            }
            let before = self.pending.len();
            let read = self.source.read_line(&mut self.pending)?;
            self.ended = read == 0;
            let fresh = before == 0 || self.pending[..before].trim().is_empty();
            let added = &self.pending[before..];
            look = fresh || added.contains([';', '/']) || self.is_in_batch();
        }
    }

    /// Whole lines that follow the piece read last, as they are: the data of an inline copy. None
    /// at the end.
    pub fn next_line(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        line.clear();
        if !self.pending.is_empty() {
            let end = self.pending.find('\n').map_or(self.pending.len(), |at| at + 1);
            line.extend_from_slice(&self.pending.as_bytes()[..end]);
            self.forget(end);
            return Ok(true);
        }
        let read = self.source.read_until(b'\n', line)?;
        self.line += 1;
        Ok(read > 0)
    }

    fn is_in_batch(&self) -> bool {
        self.pending.trim_start().lines().next().is_some_and(|first| batch_mark(first).is_some())
    }

    fn forget(&mut self, end: usize) {
        self.line += newlines(&self.pending[..end]);
        self.pending.drain(..end);
    }
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        pieces(text)
            .into_iter()
            .map(|piece| match piece.item {
                Item::Statement(text) => format!("{}: {text}", piece.line),
                Item::Command(text) => format!("{}> {text}", piece.line),
                Item::Batch(text) => format!("{}# {text}", piece.line),
            })
            .collect()
    }

    #[test]
    fn statements_end_at_semicolons_that_are_not_in_something() {
        let cases: [(&str, &[&str]); 9] = [
            ("select 1; select 2", &["1: select 1", "1: select 2"]),
            ("select ';' -- ;\n, \";\" /* ; */;\n\n-- nothing\n", &["1: select ';' -- ;\n, \";\" /* ; */"]),
            (";;\n;select 1;;", &["1: ", "1: ", "2: ", "2: select 1", "2: "]),
            (
                "show tables;\n select\n 1;\\d votes\n\\q",
                &["1> show tables;", "2: select\n 1", "3> \\d votes", "4> \\q"],
            ),
            (
                "create procedure p as begin if x then set y = case when 1 then 2 end; end if; return 1; end; select 1;",
                &[
                    "1: create procedure p as begin if x then set y = case when 1 then 2 end; end if; return 1; end",
                    "1: select 1",
                ],
            ),
            (
                "create procedure p as begin case a when 1 then set b = 1; end case; end;\nselect 1",
                &["1: create procedure p as begin case a when 1 then set b = 1; end case; end", "2: select 1"],
            ),
            ("load classes x.jar\nload;", &["1> load classes x.jar", "2: load"]),
            ("file -inlinebatch EOB\na;\nb;\nEOB\nselect 1;", &["1# a;\nb;\n", "5: select 1"]),
            ("begin; end;", &["1: begin", "1: end"]),
        ];
        for (text, expected) in cases {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn open_texts_are_known() {
        for (text, open) in [
            ("", false),
            ("select 1", true),
            ("select 1;", false),
            ("select 1; select", true),
            ("-- only", false),
            ("/* open", true),
            ("select ';", true),
            ("\\d", false),
            ("show tables", false),
            ("create procedure p as begin select 1;", true),
            ("create procedure p as begin select 1; end;", false),
            ("file -inlinebatch E\nselect 1;", true),
            ("file -inlinebatch E\nselect 1;\nE", false),
        ] {
            assert_eq!(is_open(text), open, "{text}");
        }
    }

    #[test]
    fn lines_after_a_piece_can_be_taken_raw() {
        let mut reader = ScriptReader::new("\\copy t from inline E\n1,2\nE\nselect 1;".as_bytes());
        assert_eq!(reader.next_piece().unwrap().unwrap().item, Item::Command("\\copy t from inline E".into()));
        let mut line = Vec::new();
        for expected in ["1,2\n", "E\n"] {
            assert!(reader.next_line(&mut line).unwrap());
            assert_eq!(line, expected.as_bytes());
        }
        let piece = reader.next_piece().unwrap().unwrap();
        assert_eq!((piece.item, piece.line), (Item::Statement("select 1".into()), 4));
        assert_eq!(reader.next_piece().unwrap(), None);
        assert!(!reader.next_line(&mut line).unwrap());
    }
}
