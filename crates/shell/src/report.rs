//! Errors for people: the message without the statement repeated in it, the line with a caret under
//! the place, the hint.
//!
//! The place is the line and column that the message names, or else where the name that it
//! complains about stands.

use crate::complete::KEYWORDS;
use crate::describe;
use crate::lexer::{self, Kind};
use crate::names::Names;
use crate::render::json_string;
use crate::style::Style;
use crate::suggest;
use unicode_width::UnicodeWidthStr;

/// Bytes of a statement's line that are shown around the place.
const LINE_COLUMNS_MAX: usize = 160;

/// What was asked, for pointing into it, and the code of the answer.
pub struct Asked<'a> {
    pub statement: &'a str,
    /// The SQLSTATE, if the error has one.
    pub code: Option<&'a str>,
    /// Where it came from, for messages about scripts: `file:line`.
    pub place: Option<&'a str>,
}

/// The whole report, with its line ends.
pub fn report(text: &str, asked: &Asked<'_>, names: Option<&Names>, style: Style) -> String {
    let parts = Parts::of(text, asked.statement);
    let located = locate(&parts, asked.statement);
    let mut out = String::new();
    if let Some(place) = asked.place {
        out.push_str(&style.heading(&format!("{place}: ")));
    }
    let word = asked.code.map_or_else(|| "error:".to_owned(), |code| format!("error {code}:"));
    out.push_str(&format!("{} {}\n", style.error(&word), parts.message));
    if let Some(span) = &located {
        push_caret(&mut out, asked.statement, span, style);
    }
    for line in &parts.details {
        out.push_str(line);
        out.push('\n');
    }
    let exists = || (asked.code == Some("42710")).then(|| way_round(asked.statement).to_owned());
    let guess = || guess(&parts.message, asked.statement, located.as_ref(), names?);
    let hint = parts.hint_here().or_else(exists).or_else(guess);
    if let Some(hint) = hint {
        out.push_str(&format!("{} {hint}\n", style.hint("hint:")));
    }
    out
}

/// The report for programs: one line, a JSON object.
pub fn report_json(text: &str, asked: &Asked<'_>, outcome: &str) -> String {
    let parts = Parts::of(text, asked.statement);
    let code = asked.code.map(str::to_owned);
    let hint = parts.hint_here();
    let detail = Some(parts.details.join("\n")).filter(|detail| !detail.is_empty());
    let fields = [
        ("code", code),
        ("message", Some(parts.message)),
        ("detail", detail),
        ("hint", hint),
        ("outcome", Some(outcome.to_owned())),
        ("place", asked.place.map(str::to_owned)),
    ];
    let fields = fields.into_iter().filter_map(|(name, value)| Some(format!("\"{name}\":{}", json_string(&value?))));
    format!("{{\"error\":{{{}}}}}\n", fields.collect::<Vec<_>>().join(","))
}

/// A server's text, taken apart.
struct Parts {
    message: String,
    details: Vec<String>,
    /// Line and column that the server named on a line of their own.
    place: Option<(usize, usize)>,
    hint: Option<String>,
}

impl Parts {
    fn of(text: &str, statement: &str) -> Parts {
        let mut message = without_statement(text, statement);
        let mut hint = None;
        let mut details = Vec::new();
        if let Some(at) = message.rfind("\nhint: ") {
            hint = Some(message[at + 7..].trim_end().to_owned());
            message.truncate(at);
        }
        let whole = message.clone();
        let mut lines = whole.lines();
        message = lines.next().unwrap_or_default().to_owned();
        details.extend(lines.map(str::to_owned));
        let is_place = |line: &String| line.starts_with("at line ");
        let place = details.iter().find(|line| is_place(line)).and_then(|line| named_place(line));
        if place.is_some() {
            // The caret says it better.
            details.retain(|line| !is_place(line));
        }
        for prefix in ["VOLTDB ERROR: SQL ERROR ", "VOLTDB ERROR: CONSTRAINT VIOLATION ", "VOLTDB ERROR: "] {
            if let Some(rest) = message.strip_prefix(prefix) {
                let word = if prefix.contains("CONSTRAINT") { "constraint violated: " } else { "" };
                message = format!("{word}{rest}");
                break;
            }
        }
        Parts { message, details, place, hint }
    }

    /// The server's hint, or ours where its words are others' and end without one.
    fn hint_here(&self) -> Option<String> {
        let ours = || self.message.ends_with(FOR_ADMINISTRATORS).then(|| ADMINISTRATION_PORT.to_owned());
        self.hint.clone().or_else(ours)
    }
}

/// What a server with an administration port says at its other port.
const FOR_ADMINISTRATORS: &str = "is not available to this client";
const ADMINISTRATION_PORT: &str =
    "connect to the administration port: --server HOST:21211, or what --admin-listen says";

/// Takes out what repeats the statement: the user sees it already, and a place in it.
fn without_statement(text: &str, statement: &str) -> String {
    let text = text.strip_prefix("SQL error while compiling query: ").unwrap_or(text);
    // Long statements are cut in messages.
    let cut = |inner: &str| {
        let whole = statement.trim_end_matches(';').trim();
        // Inside a procedure it is a part of it.
        !inner.is_empty()
            && (whole.contains(inner) || inner.strip_suffix("...").is_some_and(|start| whole.contains(start)))
    };
    for (before, after, words) in [("Error in \"", "\" - ", ""), ("SQL Syntax error in \"", "\" ", "syntax error: ")] {
        let Some(rest) = text.strip_prefix(before) else { continue };
        for (at, _) in rest.match_indices(after) {
            if cut(&rest[..at]) {
                return format!("{words}{}", &rest[at + after.len()..]);
            }
        }
    }
    for (at, between) in text.match_indices(" - in \"") {
        let rest = &text[at + between.len()..];
        if let Some(end) = rest.find("...\"")
            && cut(&rest[..end + 3])
        {
            return format!("{}{}", &text[..at], &rest[end + 4..]);
        }
    }
    if text.starts_with("[Ad Hoc DDL Input:")
        && let Some((_, rest)) = text.split_once("DDL Error: \"")
        && let Some(at) = rest.find(" in statement [")
    {
        let tail = rest[at..].rfind("]\"").map_or("", |end| &rest[at + end + 2..]);
        return without_statement(&format!("{}{tail}", &rest[..at]), statement);
    }
    text.to_owned()
}

/// Bytes of the statement.
type Span = std::ops::Range<usize>;

fn locate(parts: &Parts, statement: &str) -> Option<Span> {
    if let Some((line, column)) = parts.place.or_else(|| named_place(&parts.message)) {
        return span_at(statement, line, column);
    }
    name_in(&parts.message, statement)
}

/// The last `line N, column M` of the message, in the forms that parsers write it.
fn named_place(message: &str) -> Option<(usize, usize)> {
    let lower = message.to_ascii_lowercase();
    let number_after = |from: usize, word: &str| -> Option<usize> {
        let at = lower[from..].find(word)? + from + word.len();
        let digits = lower[at..].trim_start_matches([':', ' ']);
        let end = digits.find(|other: char| !other.is_ascii_digit()).unwrap_or(digits.len());
        digits[..end].parse().ok()
    };
    let from = lower.rfind("line")?;
    Some((number_after(from, "line")?, number_after(from, "column")?))
}

/// The token at a line and column, both from 1, in characters.
fn span_at(statement: &str, line: usize, column: usize) -> Option<Span> {
    let mut start = 0;
    for _ in 1..line {
        start += statement[start..].find('\n')? + 1;
    }
    let rest = &statement[start..];
    let line_end = rest.find('\n').unwrap_or(rest.len());
    let at = start + rest[..line_end].char_indices().nth(column.checked_sub(1)?).map_or(line_end, |(at, _)| at);
    let token = lexer::tokens(statement).find(|token| token.end > at && !token.is_filler());
    match token {
        Some(token) if token.start <= at => Some(at..token.end),
        _ => Some(at..at),
    }
}

/// Where the thing that the message names stands in the statement.
fn name_in(message: &str, statement: &str) -> Option<Span> {
    let mut named: Vec<&str> = Vec::new();
    for marker in ["not found: ", "token: ", "found: ", "near ", "Procedure "] {
        if let Some(at) = message.find(marker) {
            let rest = &message[at + marker.len()..];
            named.push(rest.split([' ', ',', ';', '\n']).next().unwrap_or_default());
        }
    }
    // A value that does not fit stands before the column that it does not fit into.
    if let Some(value) = message.split('\'').nth(1)
        && let Some(literal) = text_literal(statement, value)
    {
        return Some(literal);
    }
    for quote in ['\'', '"', '`'] {
        named.extend(message.split(quote).skip(1).step_by(2));
    }
    named.iter().find_map(|name| {
        let name = name.trim_matches(['\'', '"', '`', '.', ':']);
        // Of a qualified name the last part says most.
        let part = name.rsplit('.').next().unwrap_or(name);
        if part.is_empty() {
            return None;
        }
        lexer::tokens(statement)
            .find(|token| {
                matches!(token.kind, Kind::Word | Kind::Name)
                    && lexer::folded(token.text(statement)).eq_ignore_ascii_case(part)
            })
            .map(|token| token.start..token.end)
    })
}

/// The first literal in single quotes that has this text.
fn text_literal(statement: &str, value: &str) -> Option<Span> {
    lexer::tokens(statement)
        .find(|token| {
            let inner = token.text(statement).strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
            token.kind == Kind::Text && inner == Some(value)
        })
        .map(|token| token.start..token.end)
}

fn push_caret(out: &mut String, statement: &str, span: &Span, style: Style) {
    let start = statement[..span.start].rfind('\n').map_or(0, |at| at + 1);
    let end = statement[span.start..].find('\n').map_or(statement.len(), |at| span.start + at);
    // A long line is cut to what lies around the place.
    let mut from = start;
    if span.start - start > LINE_COLUMNS_MAX / 2 {
        from = floor_boundary(statement, span.start - LINE_COLUMNS_MAX / 2);
    }
    let to = floor_boundary(statement, end.min(from + LINE_COLUMNS_MAX));
    let shown = |text: &str| crate::render::printable(&text.replace('\t', " ")).into_owned();
    let number = 1 + statement[..start].bytes().filter(|byte| *byte == b'\n').count();
    let several = statement.contains('\n');
    let label = if several { format!("line {number}: ") } else { "  ".to_owned() };
    let open = if from > start { "..." } else { "" };
    let close = if to < end { "..." } else { "" };
    out.push_str(&format!("{}{open}{}{close}\n", style.faint(&label), shown(&statement[from..to])));
    let blanks = label.width() + open.len() + shown(&statement[from..span.start]).width();
    let marked = shown(&statement[span.start..span.end.min(to).max(span.start)]).width().max(1);
    out.push_str(&format!("{}{}\n", " ".repeat(blanks), style.error(&"^".repeat(marked))));
}

fn floor_boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// "Did you mean" and the like, when the server has no hint of its own.
fn guess(message: &str, statement: &str, located: Option<&Span>, names: &Names) -> Option<String> {
    if let Some(rest) = message.strip_prefix("PROCEDURE ") {
        return parameters_of(rest, names);
    }
    if let Some(rest) = message.strip_prefix("Procedure ")
        && let Some((name, _)) = rest.split_once(" was not found")
    {
        let procedures = names.procedures.iter().map(|procedure| procedure.name.as_str());
        let known = procedures.chain(crate::names::SYSTEM_PROCEDURES.iter().copied()).filter(|other| *other != name);
        let near = suggest::nearest(name, known)?;
        return Some(format!("did you mean {near}?"));
    }
    let word = located.map(|span| lexer::folded(&statement[span.clone()])).filter(|word| !word.is_empty())?;
    let lower = message.to_ascii_lowercase();
    let is_syntax = lower.contains("expected") || lower.contains("syntax") || lower.contains("token");
    let near = if is_syntax {
        suggest::nearest(&word, KEYWORDS.iter().copied().filter(|keyword| *keyword != word))
    } else if lower.contains("not found") {
        suggest::nearest(&word, names.all().filter(|name| *name != word))
    } else {
        None
    };
    near.map(|near| format!("did you mean {near}?"))
}

/// What to do where something of this name exists already.
fn way_round(statement: &str) -> &'static str {
    let mut words = lexer::tokens(statement).filter(|token| token.kind == Kind::Word);
    let second = words.nth(1).map(|token| token.text(statement).to_ascii_uppercase());
    match second.as_deref() {
        Some("PROCEDURE") => "CREATE OR REPLACE PROCEDURE replaces it",
        Some("TABLE" | "VIEW" | "INDEX") => "drop it first, or keep it with IF NOT EXISTS",
        _ => "drop it first, or choose another name",
    }
}

/// What a procedure takes, for a message about the number or the type of its parameters. `rest` is
/// the message from the procedure's name on; its words are those of the original.
fn parameters_of(rest: &str, names: &Names) -> Option<String> {
    let (name, complaint) = rest.split_once(' ')?;
    let counted = complaint.starts_with("EXPECTS ");
    if !counted && !complaint.starts_with("TYPE ERROR ") {
        return None;
    }
    let procedure = names.procedure(name)?;
    if procedure.parameters.is_empty() {
        return Some(format!("{name} takes no parameters"));
    }
    let from = if counted { "" } else { ", counted from 0" };
    Some(format!("{name} takes {}{from}", describe::parameters(procedure)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{Table, TableKind};

    fn shown(text: &str, statement: &str) -> String {
        let table = Table {
            name: "VOTES".into(),
            kind: TableKind::Table,
            columns: Vec::new(),
            computed: false,
            partition_column: None,
            partitioned: false,
            primary_key: Vec::new(),
        };
        let names = Names { tables: vec![table], ..Names::default() };
        report(text, &Asked { statement, code: None, place: None }, Some(&names), Style::PLAIN)
    }

    #[test]
    fn the_code_stands_before_the_message() {
        let asked = Asked { statement: "select 1 / 0", code: Some("22012"), place: Some("a.sql:3") };
        let text = "VOLTDB ERROR: SQL ERROR division by \"zero\"\n1 is divided by 0\nhint: NULLIF";
        assert_eq!(
            report(text, &asked, None, Style::PLAIN),
            "a.sql:3: error 22012: division by \"zero\"\n1 is divided by 0\nhint: NULLIF\n"
        );
        assert_eq!(
            report_json(text, &asked, "failed"),
            concat!(
                r#"{"error":{"code":"22012","message":"division by \"zero\"","detail":"1 is divided by 0","#,
                r#""hint":"NULLIF","outcome":"failed","place":"a.sql:3"}}"#,
                "\n"
            )
        );
        let asked = Asked { statement: "", code: None, place: None };
        assert_eq!(report_json("no", &asked, "unknown"), "{\"error\":{\"message\":\"no\",\"outcome\":\"unknown\"}}\n");
    }

    #[test]
    fn the_caret_stands_under_a_named_place() {
        let text = "SQL error while compiling query: SQL Syntax error in \"select 1\nfrm t\" Expected: end, found: t at Line: 2, Column: 5";
        assert_eq!(
            shown(text, "select 1\nfrm t"),
            "error: syntax error: Expected: end, found: t at Line: 2, Column: 5\nline 2: frm t\n            ^\n"
        );
    }

    #[test]
    fn a_name_that_is_not_there_is_pointed_at() {
        let text = "SQL error while compiling query: Error in \"select * from votez\" - object not found: VOTEZ";
        assert_eq!(
            shown(text, "select * from votez"),
            "error: object not found: VOTEZ\n  select * from votez\n                ^^^^^\nhint: did you mean VOTES?\n"
        );
    }

    #[test]
    fn of_a_long_statement_the_beginning_is_taken_out() {
        let statement = format!("select {}nosuch from votes", "id, ".repeat(60));
        let text = format!(
            "SQL error while compiling query: object not found: NOSUCH - in \"{}...\"\nhint: drop it",
            &statement[..120]
        );
        assert_eq!(without_statement(&text, &statement), "object not found: NOSUCH\nhint: drop it");
    }

    #[test]
    fn a_place_on_its_own_line_becomes_the_caret() {
        let text = "object not found: T\nat line 1, column 8\nhint: did you mean TT?";
        assert_eq!(
            shown(text, "select t + t from tt"),
            "error: object not found: T\n  select t + t from tt\n         ^\nhint: did you mean TT?\n"
        );
    }

    #[test]
    fn what_is_for_administrators_names_their_port() {
        let text = "@Pause is not available to this client";
        let hint = "connect to the administration port: --server HOST:21211";
        assert!(shown(text, "exec @Pause").contains(&format!("hint: {hint}")));
        let asked = Asked { statement: "exec @Pause", code: None, place: None };
        assert!(report_json(text, &asked, "failed").contains(&format!("\"hint\":\"{hint}")));
    }

    #[test]
    fn the_servers_hint_comes_last() {
        let text = "VOLTDB ERROR: CONSTRAINT VIOLATION duplicate key\ntable T\nhint: use UPSERT";
        assert_eq!(
            shown(text, "insert into t values (1)"),
            "error: constraint violated: duplicate key\ntable T\nhint: use UPSERT\n"
        );
    }

    #[test]
    fn wide_characters_and_long_lines_keep_the_caret_in_place() {
        let long = format!("select '{}', votez from t", "日".repeat(200));
        let text = "object not found: VOTEZ";
        let report = shown(text, &long);
        let lines: Vec<&str> = report.lines().collect();
        let at = lines[1].find("votez").unwrap();
        assert_eq!(lines[2].width() - 5, lines[1][..at].width());
    }
}
