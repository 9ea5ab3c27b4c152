//! Names in statements that may not be understood otherwise: what they would have made, what an
//! error is about.

use ferrite_shell::lexer::{Kind, Token, tokens};

/// Longest excerpt of a statement in a finding, in characters.
const EXCERPT_MAX: usize = 100;

const OBJECTS: [&str; 8] = ["TABLE", "VIEW", "STREAM", "PROCEDURE", "FUNCTION", "INDEX", "ROLE", "TASK"];
/// What may stand between CREATE and that.
const KINDS: [&str; 8] = ["OR", "REPLACE", "UNIQUE", "ASSUMEUNIQUE", "DIRECTED", "COMPOUND", "AGGREGATE", "HASH"];

fn words(text: &str) -> Vec<(Token, String)> {
    let parts = tokens(text).filter(|token| !token.is_filler());
    parts.map(|token| (token, token.text(text).trim_matches('"').to_uppercase())).collect()
}

/// What would be there if the statement had been taken: an object, or a column. In upper case, as
/// names are compared.
pub fn made_by(text: &str) -> Vec<String> {
    let words = words(text);
    let is =
        |at: usize, word: &str| words.get(at).is_some_and(|(token, found)| token.kind == Kind::Word && found == word);
    let name = |at: usize| {
        let (token, name) = words.get(at)?;
        matches!(token.kind, Kind::Word | Kind::Name).then(|| name.clone())
    };
    if is(0, "ALTER") && is(1, "TABLE") {
        let add = words.iter().position(|(_, word)| word == "ADD").map(|add| add + 1);
        let column = add.map(|at| if is(at, "COLUMN") { at + 1 } else { at });
        return column.and_then(name).into_iter().collect();
    }
    if !is(0, "CREATE") {
        return Vec::new();
    }
    let mut at = 1;
    while KINDS.iter().any(|kind| is(at, kind)) {
        at += 1;
    }
    if !OBJECTS.iter().any(|object| is(at, object)) {
        return Vec::new();
    }
    let procedure = is(at, "PROCEDURE");
    at += 1;
    if is(at, "IF") && is(at + 1, "NOT") && is(at + 2, "EXISTS") {
        at += 3;
    }
    // A procedure may have the name of its class.
    let nameless = procedure && ["PARTITION", "FROM", "ALLOW"].iter().any(|word| is(at, word));
    let of_class = || {
        let from = words.iter().position(|(_, word)| word == "FROM")?;
        let last = words[from..].iter().rev().find(|(token, _)| token.kind == Kind::Word)?;
        last.1.rsplit('.').next().map(str::to_owned)
    };
    let made = if nameless { of_class() } else { name(at) };
    made.into_iter().collect()
}

/// The words of an error in which a name may stand.
pub fn mentioned(message: &str) -> impl Iterator<Item = String> + '_ {
    let of_name = |character: char| character.is_alphanumeric() || character == '_' || character == '$';
    message.split(move |character| !of_name(character)).filter(|word| !word.is_empty()).map(str::to_uppercase)
}

/// The beginning of a statement on one line.
pub fn excerpt(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(EXCERPT_MAX) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_statement_would_have_made() {
        for (text, expected) in [
            ("CREATE TABLE t (a INTEGER)", "T"),
            ("create table if not exists \"t\" (a integer)", "T"),
            ("CREATE OR REPLACE PROCEDURE p AS SELECT 1 FROM t", "P"),
            ("CREATE PROCEDURE PARTITION ON TABLE t COLUMN a FROM CLASS com.acme.Vote", "VOTE"),
            ("CREATE PROCEDURE p PARTITION ON TABLE t COLUMN a FROM CLASS com.acme.Vote", "P"),
            ("CREATE COMPOUND PROCEDURE FROM CLASS Vote", "VOTE"),
            ("CREATE AGGREGATE FUNCTION f FROM CLASS a.B", "F"),
            ("CREATE ASSUMEUNIQUE INDEX i ON t (a)", "I"),
            ("CREATE /* not a table */ VIEW v AS SELECT 1", "V"),
            ("ALTER TABLE t ADD COLUMN c INTEGER", "C"),
            ("ALTER TABLE t ADD c INTEGER", "C"),
            ("DROP TABLE t", ""),
            ("CREATE", ""),
        ] {
            assert_eq!(made_by(text).join(","), expected, "{text}");
        }
    }
}
