//! SQL text to tokens, coarse but never wrong about where strings, quoted names and comments end:
//! what splitting, colouring, completing and pointing at errors need. Every text has tokens; it
//! knows no grammar and no names.

/// What a stretch of text is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Word,
    /// `"..."`
    Name,
    /// `'...'`
    Text,
    Number,
    Comment,
    Blank,
    /// One character of anything else.
    Symbol,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
    /// False when the text ended within a string, a quoted name or a block comment.
    pub closed: bool,
}

impl Token {
    pub fn text<'t>(&self, source: &'t str) -> &'t str {
        &source[self.start..self.end]
    }

    /// Whether this is the unquoted word `word`, in any case.
    pub fn is_word(&self, source: &str, word: &str) -> bool {
        self.kind == Kind::Word && self.text(source).eq_ignore_ascii_case(word)
    }

    /// Blanks and comments, which mean nothing to the server.
    pub fn is_filler(&self) -> bool {
        matches!(self.kind, Kind::Blank | Kind::Comment)
    }
}

/// The tokens of a text, in order and without gaps.
pub struct Lexer<'t> {
    text: &'t str,
    position: usize,
}

pub fn tokens(text: &str) -> Lexer<'_> {
    Lexer { text, position: 0 }
}

impl Lexer<'_> {
    /// The end of what is enclosed in `quote`, which stands at the position. A doubled quote stands
    /// for itself.
    fn quoted_end(&self, quote: char) -> (usize, bool) {
        let mut at = self.position + 1;
        while let Some(found) = self.text[at..].find(quote) {
            at += found + 1;
            if !self.text[at..].starts_with(quote) {
                return (at, true);
            }
            at += 1;
        }
        (self.text.len(), false)
    }

    fn while_characters(&self, test: impl Fn(char) -> bool) -> usize {
        let rest = &self.text[self.position..];
        self.position + rest.find(|character| !test(character)).unwrap_or(rest.len())
    }
}

impl Iterator for Lexer<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        let rest = &self.text[self.position..];
        let first = rest.chars().next()?;
        let start = self.position;
        let (kind, end, closed) = match first {
            '\'' => {
                let (end, closed) = self.quoted_end('\'');
                (Kind::Text, end, closed)
            }
            '"' => {
                let (end, closed) = self.quoted_end('"');
                (Kind::Name, end, closed)
            }
            _ if rest.starts_with("--") || rest.starts_with("//") => {
                (Kind::Comment, start + rest.find('\n').unwrap_or(rest.len()), true)
            }
            _ if rest.starts_with("/*") => match rest[2..].find("*/") {
                Some(length) => (Kind::Comment, start + length + 4, true),
                None => (Kind::Comment, self.text.len(), false),
            },
            blank if blank.is_whitespace() => (Kind::Blank, self.while_characters(char::is_whitespace), true),
            digit if digit.is_ascii_digit() => (Kind::Number, self.number_end(), true),
            letter if letter.is_alphabetic() || letter == '_' => {
                let end = self.while_characters(|other| other.is_alphanumeric() || other == '_' || other == '$');
                (Kind::Word, end, true)
            }
            other => (Kind::Symbol, start + other.len_utf8(), true),
        };
        self.position = end;
        Some(Token { kind, start, end, closed })
    }
}

impl Lexer<'_> {
    /// Digits, a fraction, an exponent.
    fn number_end(&self) -> usize {
        let bytes = self.text.as_bytes();
        let digits = |mut at: usize| {
            while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
            at
        };
        let mut end = digits(self.position);
        if bytes.get(end) == Some(&b'.') {
            end = digits(end + 1);
        }
        if bytes.get(end).is_some_and(|byte| byte.eq_ignore_ascii_case(&b'e')) {
            let sign = usize::from(bytes.get(end + 1).is_some_and(|byte| matches!(byte, b'+' | b'-')));
            let exponent = digits(end + 1 + sign);
            if exponent > end + 1 + sign {
                end = exponent;
            }
        }
        end
    }
}

/// What a name or a word stands for: names keep their case, words are upper case to the server.
pub fn folded(text: &str) -> String {
    match text.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"').unwrap_or(rest).replace("\"\"", "\""),
        None => text.to_uppercase(),
    }
}

/// A catalog's name as it must be written in a statement.
pub fn quoted(name: &str) -> String {
    let plain = name.starts_with(|first: char| first.is_alphabetic() || first == '_')
        && name.chars().all(|other| (other.is_alphanumeric() && !other.is_lowercase()) || other == '_' || other == '$');
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<(Kind, &str)> {
        tokens(text).filter(|token| token.kind != Kind::Blank).map(|token| (token.kind, token.text(text))).collect()
    }

    #[test]
    fn strings_names_and_comments_end_where_they_end() {
        use Kind::*;
        let text = "select 'it''s; ' \"a\"\"b\" -- c;\n /* ; */ 1.5e-3.x // d";
        let expected = [
            (Word, "select"),
            (Text, "'it''s; '"),
            (Name, "\"a\"\"b\""),
            (Comment, "-- c;"),
            (Comment, "/* ; */"),
            (Number, "1.5e-3"),
            (Symbol, "."),
            (Word, "x"),
            (Comment, "// d"),
        ];
        assert_eq!(shown(text), expected);
    }

    #[test]
    fn every_text_has_tokens_without_gaps() {
        for text in ["'open", "\"", "/* open", "größer='ü'", "1e", "1.e+", "é\u{301}§$"] {
            let mut at = 0;
            for token in tokens(text) {
                assert_eq!(token.start, at, "{text}");
                assert!(token.end > at, "{text}");
                at = token.end;
            }
            assert_eq!(at, text.len());
        }
        assert!(!tokens("'open").next().unwrap().closed);
    }

    #[test]
    fn names_are_quoted_when_folding_would_change_them() {
        for (name, written) in [("VOTES", "VOTES"), ("votes", "\"votes\""), ("A B", "\"A B\""), ("1A", "\"1A\"")] {
            assert_eq!(quoted(name), written);
            assert_eq!(folded(written), name);
        }
    }
}
