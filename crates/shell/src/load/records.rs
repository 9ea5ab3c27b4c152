//! Bytes to records and their fields: CSV, TSV, and one JSON value per line.
//!
//! CSV is read here and not by a library, because a quoted empty field is a text and an unquoted
//! one is NULL, and a rejected record goes out again byte for byte: libraries tell neither. Hostile
//! input is bounded: a record ends at its limit, and a quote that never closes costs its own line
//! only.

use bumpalo::Bump;

/// Bytes of one record. A row of the server is at most half as long.
pub const RECORD_BYTES_MAX: usize = 4 << 20;

/// How records are told apart.
#[derive(Clone, Debug)]
pub struct Dialect {
    pub delimiter: u8,
    pub quote: Option<u8>,
    pub comment: Option<Vec<u8>>,
    /// Whole lines: JSON.
    pub lines: bool,
}

/// A field within its record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    start: u32,
    end: u32,
    pub quoted: bool,
    /// Has doubled quotes in it.
    doubled: bool,
}

impl Field {
    /// Its text, within `record`, from which it was scanned.
    pub fn text<'a>(&self, record: &'a str, quote: Option<u8>, arena: &'a Bump) -> &'a str {
        let inner = &record[self.start as usize..self.end as usize];
        match quote {
            Some(quote) if self.doubled => {
                let single = char::from(quote);
                let double: String = [single, single].iter().collect();
                arena.alloc_str(&inner.replace(&double, single.encode_utf8(&mut [0; 4])))
            }
            _ => inner,
        }
    }
}

/// What stands at the front of the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scanned {
    /// A record of `length` bytes without its line end, taking `end` bytes and this many line ends.
    Record {
        length: usize,
        end: usize,
        lines: u64,
    },
    /// An empty line or a comment.
    Nothing {
        end: usize,
    },
    Bad {
        length: usize,
        end: usize,
        reason: &'static str,
    },
    /// The record may go on behind these bytes.
    More,
    End,
}

impl Dialect {
    /// Scans one record. `last` says that no bytes follow these.
    pub fn scan(&self, bytes: &[u8], last: bool, fields: &mut Vec<Field>) -> Scanned {
        fields.clear();
        if bytes.is_empty() {
            return if last { Scanned::End } else { Scanned::More };
        }
        if bytes[0] == b'\n' {
            return Scanned::Nothing { end: 1 };
        }
        if bytes.starts_with(b"\r\n") {
            return Scanned::Nothing { end: 2 };
        }
        if let Some(comment) = &self.comment
            && bytes.starts_with(comment)
        {
            return match line(bytes, last) {
                Some((_, end)) => Scanned::Nothing { end },
                None => Scanned::More,
            };
        }
        let scanned = if self.lines { whole_line(bytes, last, fields) } else { self.scan_fields(bytes, last, fields) };
        match scanned {
            Scanned::More if bytes.len() > RECORD_BYTES_MAX => bad_line(bytes, "the record is longer than 4 MB"),
            other => other,
        }
    }

    fn scan_fields(&self, bytes: &[u8], last: bool, fields: &mut Vec<Field>) -> Scanned {
        let mut at = 0;
        let mut lines = 0;
        loop {
            let quoted = self.quote.is_some_and(|quote| bytes.get(at) == Some(&quote));
            let mut field = Field { start: at as u32, end: 0, quoted, doubled: false };
            if quoted {
                let quote = bytes[at];
                at += 1;
                field.start = at as u32;
                loop {
                    match bytes.get(at) {
                        None if last => return bad_line(bytes, "a quote has no end"),
                        None => return Scanned::More,
                        Some(byte) if *byte == quote => match bytes.get(at + 1) {
                            Some(next) if *next == quote => {
                                field.doubled = true;
                                at += 2;
                            }
                            None if !last => return Scanned::More,
                            _ => break,
                        },
                        Some(b'\n') => {
                            lines += 1;
                            at += 1;
                        }
                        Some(_) => at += 1,
                    }
                }
                field.end = at as u32;
                at += 1;
            } else {
                while bytes.get(at).is_some_and(|byte| *byte != self.delimiter && *byte != b'\n') {
                    at += 1;
                }
                field.end = at as u32;
            }
            match bytes.get(at) {
                Some(byte) if *byte == self.delimiter => {
                    fields.push(field);
                    at += 1;
                }
                Some(b'\n') => {
                    let length = at - usize::from(!quoted && bytes[..at].ends_with(b"\r"));
                    field.end = if quoted { field.end } else { length as u32 };
                    fields.push(field);
                    return Scanned::Record { length, end: at + 1, lines: lines + 1 };
                }
                Some(b'\r') if bytes.get(at + 1) == Some(&b'\n') => {
                    fields.push(field);
                    return Scanned::Record { length: at, end: at + 2, lines: lines + 1 };
                }
                Some(b'\r') if bytes.get(at + 1).is_none() && !last => return Scanned::More,
                None if last => {
                    fields.push(field);
                    return Scanned::Record { length: at, end: at, lines: lines + 1 };
                }
                None => return Scanned::More,
                Some(_) => return bad_line(bytes, "there is text behind a closing quote"),
            }
        }
    }
}

/// The first line's length without and with its end.
fn line(bytes: &[u8], last: bool) -> Option<(usize, usize)> {
    match bytes.iter().position(|byte| *byte == b'\n') {
        Some(at) => Some((at - usize::from(bytes[..at].ends_with(b"\r")), at + 1)),
        None if last => Some((bytes.len(), bytes.len())),
        None => None,
    }
}

fn whole_line(bytes: &[u8], last: bool, fields: &mut Vec<Field>) -> Scanned {
    match line(bytes, last) {
        Some((length, end)) => {
            fields.push(Field { start: 0, end: length as u32, quoted: false, doubled: false });
            Scanned::Record { length, end, lines: 1 }
        }
        None => Scanned::More,
    }
}

/// Gives up the first line only, so that what follows has a chance.
fn bad_line(bytes: &[u8], reason: &'static str) -> Scanned {
    let (length, end) = line(bytes, true).expect("with all bytes there, a line has an end");
    Scanned::Bad { length, end, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv() -> Dialect {
        Dialect { delimiter: b',', quote: Some(b'"'), comment: Some(b"#".to_vec()), lines: false }
    }

    /// All records of a text; quoted fields in `<>`.
    fn shown(dialect: &Dialect, text: &str) -> Vec<String> {
        let (mut at, mut out, mut fields) = (0, Vec::new(), Vec::new());
        let arena = Bump::new();
        loop {
            match dialect.scan(&text.as_bytes()[at..], true, &mut fields) {
                Scanned::End => return out,
                Scanned::More => panic!("all is there"),
                Scanned::Nothing { end } => at += end,
                Scanned::Bad { length, end, reason } => {
                    out.push(format!("! {} ({reason})", &text[at..at + length]));
                    at += end;
                }
                Scanned::Record { length, end, .. } => {
                    let record = &text[at..at + length];
                    let parts = fields.iter().map(|field| {
                        let own = field.text(record, dialect.quote, &arena);
                        if field.quoted { format!("<{own}>") } else { own.to_owned() }
                    });
                    out.push(parts.collect::<Vec<_>>().join("|"));
                    at += end;
                }
            }
        }
    }

    #[test]
    fn fields_are_what_they_were() {
        let cases: [(&str, &[&str]); 7] = [
            ("1,a\n2,b", &["1|a", "2|b"]),
            ("1,\r\n\r\n\n,\r\n", &["1|", "|"]),
            ("\"a,\"\"b\"\"\",\"\"\n", &["<a,\"b\">|<>"]),
            ("\"two\nlines\",x\r\n\"q\"\r\n", &["<two\nlines>|x", "<q>"]),
            ("# no\n1\n#", &["1"]),
            ("\"a\"b,1\n2,3\n", &["! \"a\"b,1 (there is text behind a closing quote)", "2|3"]),
            ("1,\"open\n2,3\n", &["! 1,\"open (a quote has no end)", "2|3"]),
        ];
        for (text, expected) in cases {
            assert_eq!(shown(&csv(), text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_record_cut_anywhere_asks_for_more() {
        let text = b"1,\"a\"\"b\r\nc\",x\r\n";
        let mut fields = Vec::new();
        for cut in 0..text.len() {
            assert_eq!(csv().scan(&text[..cut], false, &mut fields), Scanned::More, "{cut}");
        }
        let whole = Scanned::Record { length: text.len() - 2, end: text.len(), lines: 2 };
        assert_eq!(csv().scan(text, false, &mut fields), whole);
    }

    #[test]
    fn a_record_at_the_limit_and_one_past_it() {
        let mut text = vec![b'"'];
        text.resize(RECORD_BYTES_MAX, b'x');
        let mut fields = Vec::new();
        assert_eq!(csv().scan(&text, false, &mut fields), Scanned::More);
        text.push(b'x');
        assert!(matches!(csv().scan(&text, false, &mut fields), Scanned::Bad { .. }));
    }
}
