//! Cutting an SQL file into statements, so that each can be sent, and named in an error, on its
//! own.

/// The statements of `text`, without their semicolons and without comments before them. Semicolons
/// within a procedure's BEGIN ... END, text literals, quoted names and comments do not end a
/// statement.
pub fn statements(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    // The first byte of the statement, once there is one.
    let mut start = None;
    // BEGIN and CASE that are open.
    let mut depth = 0usize;
    let mut at = 0;
    while at < bytes.len() {
        let here = at;
        match bytes[at] {
            b'-' if bytes.get(at + 1) == Some(&b'-') => {
                at = line_end(bytes, at);
                continue;
            }
            quote @ (b'\'' | b'"') => {
                // A doubled quote ends and begins a literal again, which comes to the same.
                at = bytes[at + 1..].iter().position(|b| *b == quote).map_or(bytes.len(), |end| at + 1 + end + 1);
            }
            b';' if depth == 0 => {
                found.extend(start.take().map(|start: usize| text[start..at].trim_end()));
                at += 1;
                continue;
            }
            byte if byte.is_ascii_alphabetic() || byte == b'_' => {
                at = word_end(bytes, at);
                match text[here..at].to_ascii_uppercase().as_str() {
                    "BEGIN" => depth += 1,
                    "CASE" if !follows(text, here, "END") => depth += 1,
                    "END" if !closes_control_flow(&text[at..]) => depth = depth.saturating_sub(1),
                    _ => {}
                }
            }
            byte if byte.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            _ => at += 1,
        }
        start.get_or_insert(here);
    }
    found.extend(start.map(|start| text[start..].trim_end()));
    found
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|b| *b == b'\n').map_or(bytes.len(), |end| at + end + 1)
}

fn word_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|b| !b.is_ascii_alphanumeric() && *b != b'_').map_or(bytes.len(), |end| at + end)
}

/// The text before `at` ends with this word.
fn follows(text: &str, at: usize, word: &str) -> bool {
    let before = text[..at].trim_end();
    before.len() >= word.len()
        && before.is_char_boundary(before.len() - word.len())
        && before[before.len() - word.len()..].eq_ignore_ascii_case(word)
}

/// END IF, END WHILE and the like: what they close was not counted.
fn closes_control_flow(rest: &str) -> bool {
    let rest = rest.trim_start();
    let word = &rest[..word_end(rest.as_bytes(), 0)];
    ["IF", "WHILE", "FOR", "LOOP", "REPEAT"].iter().any(|closed| word.eq_ignore_ascii_case(closed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_at_the_right_semicolons() {
        for (text, expected) in [
            ("", &[][..]),
            (" ; -- nothing\n ;", &[]),
            ("a; b", &["a", "b"]),
            ("-- first; not\nSELECT ';' AS \"x;y\" -- why;\n; b ;", &["SELECT ';' AS \"x;y\" -- why;", "b"]),
            ("SELECT 'it''s; so'; b", &["SELECT 'it''s; so'", "b"]),
            ("p AS BEGIN a; IF x THEN b; END IF; c; END; d", &["p AS BEGIN a; IF x THEN b; END IF; c; END", "d"]),
            ("p AS BEGIN BEGIN a; END; b; END; c", &["p AS BEGIN BEGIN a; END; b; END", "c"]),
            (
                "p AS BEGIN SET x = CASE WHEN y THEN 1 END; z; END; c",
                &["p AS BEGIN SET x = CASE WHEN y THEN 1 END; z; END", "c"],
            ),
            (
                "p AS BEGIN CASE x WHEN 1 THEN y; END CASE; z; END; c",
                &["p AS BEGIN CASE x WHEN 1 THEN y; END CASE; z; END", "c"],
            ),
            ("begin; weekend; end; endless", &["begin; weekend; end", "endless"]),
            ("'open; x", &["'open; x"]),
        ] {
            assert_eq!(statements(text), expected, "{text}");
        }
    }

    #[test]
    fn the_voter_schema() {
        let statements = statements(crate::area_codes::VOTER_DDL);
        let beginnings: Vec<&str> = statements.iter().map(|s| s.split_whitespace().next().unwrap()).collect();
        assert_eq!(beginnings.iter().filter(|word| **word == "DROP").count(), 12);
        assert_eq!(beginnings.iter().filter(|word| **word == "CREATE").count(), 11);
        assert_eq!(beginnings.iter().filter(|word| **word == "PARTITION").count(), 1);
        assert_eq!(beginnings.len(), 24);
    }
}
