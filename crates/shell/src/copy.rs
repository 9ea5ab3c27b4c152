//! The `\copy` line: `TABLE [(COLUMNS)] from 'FILE'|stdin|inline MARK [with OPTIONS]`, and
//! `TABLE|(QUERY) to 'FILE'|stdout`.

use crate::bad_command::BadCommand;
use crate::lexer::{self, Kind, folded};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CopyCommand {
    From { table: String, columns: Option<Vec<String>>, source: CopySource, options: CopyOptions },
    To { query: String, target: Option<String>, options: CopyOptions },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CopySource {
    File(String),
    /// What follows in the script, up to a line that is the mark.
    Inline(String),
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CopyOptions {
    pub format: Option<String>,
    pub header: Option<bool>,
    pub delimiter: Option<String>,
    pub quote: Option<String>,
    pub null: Option<String>,
    pub upsert: bool,
    pub max_errors: Option<u64>,
    pub rejects: Option<String>,
}

const USAGE: &str = "\\copy TABLE [(COLUMN, ...)] from 'FILE' [with format csv|tsv|jsonl, header, delimiter ';', quote '\"', \
                     null 'TEXT', upsert, max_errors N, rejects 'FILE'], or \\copy TABLE|(QUERY) to 'FILE'";

/// Parses what follows `\copy`.
pub fn parse(text: &str) -> Result<CopyCommand, BadCommand> {
    let mut words = Words::new(text);
    let bad = |message: &str| BadCommand::new(message.to_owned()).with_hint(USAGE);
    if words.at("(") {
        let query = words.parenthesized().ok_or_else(|| bad("the query of \\copy has no closing parenthesis"))?;
        if !words.accept("to") {
            return Err(bad("a query can only be copied to a file"));
        }
        let target = target(&mut words)?;
        return Ok(CopyCommand::To { query, target, options: options(&mut words)? });
    }
    let table = words.name().ok_or_else(|| bad("\\copy needs the name of a table, or a query in parentheses"))?;
    let columns = if words.at("(") {
        let list = words.parenthesized().ok_or_else(|| bad("the columns of \\copy have no closing parenthesis"))?;
        Some(list.split(',').map(|column| folded(column.trim())).collect::<Vec<String>>())
    } else {
        None
    };
    if words.accept("to") {
        let target = target(&mut words)?;
        let list = match &columns {
            Some(columns) => columns.iter().map(|name| lexer::quoted(name)).collect::<Vec<_>>().join(", "),
            None => "*".to_owned(),
        };
        let query = format!("SELECT {list} FROM {}", lexer::quoted(&table));
        return Ok(CopyCommand::To { query, target, options: options(&mut words)? });
    }
    if !words.accept("from") {
        return Err(bad("\\copy needs from or to behind the table"));
    }
    let source = if words.accept("inline") {
        CopySource::Inline(words.value().unwrap_or_else(|| "\\.".to_owned()))
    } else {
        CopySource::File(words.value().ok_or_else(|| bad("\\copy from needs a file"))?)
    };
    Ok(CopyCommand::From { table, columns, source, options: options(&mut words)? })
}

/// None is standard output.
fn target(words: &mut Words<'_>) -> Result<Option<String>, BadCommand> {
    if words.accept("stdout") {
        return Ok(None);
    }
    match words.value() {
        Some(path) => Ok(Some(path)),
        None => Err(BadCommand::new("\\copy to needs a file").with_hint(USAGE)),
    }
}

fn options(words: &mut Words<'_>) -> Result<CopyOptions, BadCommand> {
    let mut options = CopyOptions::default();
    words.accept("with");
    let parenthesized = words.accept("(");
    while let Some(word) = words.next_text() {
        let mut value = |what: &str| {
            words.accept("=");
            words.value().ok_or_else(|| BadCommand::new(format!("the option {what} of \\copy needs a value")))
        };
        match word.to_ascii_lowercase().as_str() {
            "," | ";" => {}
            ")" if parenthesized => {}
            "format" => options.format = Some(value("format")?),
            known @ ("csv" | "tsv" | "jsonl") => options.format = Some(known.to_owned()),
            "header" => options.header = Some(!words.accept("false")),
            "delimiter" => options.delimiter = Some(value("delimiter")?),
            "quote" => options.quote = Some(value("quote")?),
            "null" => options.null = Some(value("null")?),
            "upsert" => options.upsert = true,
            "max_errors" => {
                let number = value("max_errors")?;
                let parsed =
                    number.parse().map_err(|_| BadCommand::new(format!("max_errors is a number, not {number}")))?;
                options.max_errors = Some(parsed);
            }
            "rejects" => options.rejects = Some(value("rejects")?),
            other => return Err(BadCommand::new(format!("unknown option of \\copy: {other}")).with_hint(USAGE)),
        }
    }
    Ok(options)
}

/// The line's tokens, blanks left out; file names may stand without quotes.
struct Words<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Words<'t> {
    fn new(text: &'t str) -> Self {
        Words { text, at: 0 }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn at(&mut self, symbol: &str) -> bool {
        self.skip_blanks();
        self.rest().starts_with(symbol)
    }

    fn next_text(&mut self) -> Option<&'t str> {
        self.skip_blanks();
        let token = lexer::tokens(self.rest()).next()?;
        let text = token.text(self.rest());
        self.at += token.end;
        Some(text)
    }

    fn accept(&mut self, word: &str) -> bool {
        let before = self.at;
        if self.next_text().is_some_and(|text| text.eq_ignore_ascii_case(word)) {
            return true;
        }
        self.at = before;
        false
    }

    fn name(&mut self) -> Option<String> {
        self.skip_blanks();
        let token = lexer::tokens(self.rest()).next()?;
        matches!(token.kind, Kind::Word | Kind::Name).then(|| {
            let name = folded(token.text(self.rest()));
            self.at += token.end;
            name
        })
    }

    /// A string, or whatever stands up to the next blank.
    fn value(&mut self) -> Option<String> {
        self.skip_blanks();
        let rest = self.rest();
        let token = lexer::tokens(rest).next()?;
        if token.kind == Kind::Text && token.closed {
            self.at += token.end;
            return Some(rest[1..token.end - 1].replace("''", "'"));
        }
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        self.at += end;
        Some(rest[..end].trim_end_matches([',', ';', ')']).to_owned())
    }

    /// What stands between this parenthesis and its counterpart.
    fn parenthesized(&mut self) -> Option<String> {
        let rest = self.rest();
        let mut depth = 0usize;
        for token in lexer::tokens(rest) {
            match token.text(rest) {
                "(" if token.kind == Kind::Symbol => depth += 1,
                ")" if token.kind == Kind::Symbol => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                self.at += token.end;
                return Some(rest[1..token.start].trim().to_owned());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_what_is_copied_where() {
        let from = |source: CopySource, options: CopyOptions| CopyCommand::From {
            table: "VOTES".into(),
            columns: None,
            source,
            options,
        };
        let file = |path: &str| CopySource::File(path.into());
        assert_eq!(parse("votes from 'a b.csv'").unwrap(), from(file("a b.csv"), CopyOptions::default()));
        assert_eq!(parse("votes from /tmp/x.csv.gz;").unwrap(), from(file("/tmp/x.csv.gz"), CopyOptions::default()));
        assert_eq!(
            parse("votes from x.csv with (format csv, header, delimiter ';', null 'NA', max_errors 3, upsert)")
                .unwrap(),
            from(
                file("x.csv"),
                CopyOptions {
                    format: Some("csv".into()),
                    header: Some(true),
                    delimiter: Some(";".into()),
                    null: Some("NA".into()),
                    max_errors: Some(3),
                    upsert: true,
                    ..CopyOptions::default()
                }
            )
        );
        assert_eq!(parse("votes from inline").unwrap(), from(CopySource::Inline("\\.".into()), CopyOptions::default()));
        assert_eq!(
            parse("(select 1, ')' from t) to 'x.csv' with header").unwrap(),
            CopyCommand::To {
                query: "select 1, ')' from t".into(),
                target: Some("x.csv".into()),
                options: CopyOptions { header: Some(true), ..CopyOptions::default() },
            }
        );
        let CopyCommand::To { query, target, .. } = parse("\"t\" (a, \"b\") to stdout").unwrap() else { panic!() };
        assert_eq!((query.as_str(), target), ("SELECT A, \"b\" FROM \"t\"", None));
    }

    #[test]
    fn incomplete_lines_are_refused() {
        for text in
            ["", "votes", "votes from", "(select 1", "votes to", "votes from x with colour", "votes from x with null"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
