//! What Tab offers: a pure function of the text, the place and the catalog's names.

use crate::command;
use crate::lexer::{self, Kind, Token};
use crate::names::{Names, SYSTEM_PROCEDURES, Table};

/// Words that statements are made of; what colouring knows as keywords too.
pub const KEYWORDS: &[&str] = &[
    "ADD",
    "ALL",
    "ALTER",
    "ANALYZE",
    "AND",
    "ANY",
    "AS",
    "ASC",
    "ASSUMEUNIQUE",
    "BEGIN",
    "BETWEEN",
    "BIGINT",
    "BOOLEAN",
    "BY",
    "BYTES",
    "CASCADE",
    "CASE",
    "CAST",
    "CHECK",
    "COLUMN",
    "CONSTRAINT",
    "CREATE",
    "CROSS",
    "CUBE",
    "DATE",
    "DECIMAL",
    "DECLARE",
    "DEFAULT",
    "DELETE",
    "DESC",
    "DIRECTED",
    "DISTINCT",
    "DROP",
    "ELSE",
    "ELSEIF",
    "END",
    "EXCEPT",
    "EXEC",
    "EXISTS",
    "EXPLAIN",
    "EXPORT",
    "FALSE",
    "FLOAT",
    "FOR",
    "FOREIGN",
    "FROM",
    "FULL",
    "FUNCTION",
    "GEOGRAPHY",
    "GEOGRAPHY_POINT",
    "GROUP",
    "HAVING",
    "IF",
    "ILIKE",
    "IN",
    "INDEX",
    "INNER",
    "INSERT",
    "INTEGER",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "KEY",
    "LATERAL",
    "LEFT",
    "LIKE",
    "LIMIT",
    "MIGRATE",
    "NOT",
    "NULL",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARTITION",
    "PRIMARY",
    "PROCEDURE",
    "RECURSIVE",
    "REFERENCES",
    "RETURN",
    "RETURNING",
    "RIGHT",
    "ROLE",
    "ROLLUP",
    "SELECT",
    "SET",
    "SMALLINT",
    "STREAM",
    "TABLE",
    "TARGET",
    "THEN",
    "TIMESTAMP",
    "TINYINT",
    "TO",
    "TRUE",
    "TRUNCATE",
    "TTL",
    "UNION",
    "UNIQUE",
    "UPDATE",
    "UPSERT",
    "USING",
    "VALUES",
    "VARBINARY",
    "VARCHAR",
    "VIEW",
    "WHEN",
    "WHERE",
    "WHILE",
    "WITH",
];

const FUNCTIONS: &[&str] = &[
    "ABS",
    "AVG",
    "CEILING",
    "CHAR_LENGTH",
    "COALESCE",
    "CONCAT",
    "COUNT",
    "CURRENT_TIMESTAMP",
    "DATEADD",
    "DECODE",
    "EXTRACT",
    "FLOOR",
    "FROM_UNIXTIME",
    "LOWER",
    "MAX",
    "MIN",
    "MOD",
    "NOW",
    "NULLIF",
    "POSITION",
    "POWER",
    "REGEXP_REPLACE",
    "REPLACE",
    "ROUND",
    "SINCE_EPOCH",
    "SUBSTRING",
    "SUM",
    "TO_CHAR",
    "TO_TIMESTAMP",
    "TRIM",
    "TRUNCATE",
    "UPPER",
];

/// What a statement or line can begin with.
const BEGINNINGS: &[&str] = &[
    "ALTER",
    "CREATE",
    "DELETE",
    "DROP",
    "EXEC",
    "EXPLAIN",
    "INSERT",
    "PARTITION",
    "SELECT",
    "TRUNCATE",
    "UPDATE",
    "UPSERT",
    "WITH",
    "describe",
    "echo",
    "exit",
    "explainjson",
    "explainproc",
    "explainview",
    "file",
    "help",
    "querystats",
    "quit",
    "recall",
    "show",
];

/// What may follow in place of the text from `start` to the cursor.
pub struct Completions {
    pub start: usize,
    pub candidates: Vec<String>,
}

/// None where a file name is wanted: those are not ours to know.
pub fn complete(text: &str, position: usize, names: &Names) -> Option<Completions> {
    let line = &text[text[..position].rfind('\n').map_or(0, |at| at + 1)..position];
    if line.trim_start().starts_with('\\') {
        return backslash(line, position, names);
    }
    let all: Vec<Token> = lexer::tokens(text).collect();
    let begin = all
        .iter()
        .rposition(|token| token.end <= position && token.kind == Kind::Symbol && token.text(text) == ";")
        .map_or(0, |semicolon| semicolon + 1);
    let before: Vec<&Token> = all[begin..].iter().take_while(|token| token.start < position).collect();
    if before.last().is_some_and(|last| matches!(last.kind, Kind::Text | Kind::Comment) && last.end >= position) {
        return Some(Completions { start: position, candidates: Vec::new() });
    }
    let mut meaningful: Vec<&Token> = before.iter().copied().filter(|token| !token.is_filler()).collect();
    let partial = match meaningful.last() {
        Some(last) if last.end >= position && matches!(last.kind, Kind::Word | Kind::Name) => meaningful.pop(),
        _ => None,
    };
    let mut start = partial.map_or(position, |token| token.start);
    let mut typed = &text[start..position];
    // `@` begins the names of system procedures.
    if meaningful.last().is_some_and(|last| last.text(text) == "@" && last.end == start) {
        start -= 1;
        typed = &text[start..position];
        meaningful.pop();
    }
    let mut end = all.len();
    if let Some(semicolon) =
        all.iter().position(|token| token.start >= position && token.kind == Kind::Symbol && token.text(text) == ";")
    {
        end = semicolon;
    }
    let candidates = candidates(text, &all[begin..end], &meaningful, typed, names);
    Some(Completions { start, candidates: matching(typed, candidates) })
}

fn backslash(line: &str, position: usize, names: &Names) -> Option<Completions> {
    let line = line.trim_start();
    let Some(blank) = line.find(char::is_whitespace) else {
        let names = command::BACKSLASH.iter().map(|(name, _, _)| (*name).to_owned());
        return Some(Completions { start: position - line.len(), candidates: matching(line, names.collect()) });
    };
    let command = &line[..blank];
    let argument = line[blank..].trim_start();
    let start = position - argument.len();
    let candidates = match command {
        "\\d" => table_names(names).chain(procedure_names(names)).collect(),
        "\\di" => table_names(names).collect(),
        "\\copy" if !argument.contains(char::is_whitespace) => table_names(names).collect(),
        "\\i" | "\\o" | "\\copy" => return None,
        "\\timing" => vec!["on".to_owned(), "off".to_owned()],
        "\\x" => vec!["on".to_owned(), "off".to_owned(), "auto".to_owned()],
        "\\format" => ["aligned", "csv", "json", "markdown"].map(str::to_owned).to_vec(),
        _ => Vec::new(),
    };
    Some(Completions { start, candidates: matching(argument, candidates) })
}

fn candidates(text: &str, statement: &[Token], before: &[&Token], typed: &str, names: &Names) -> Vec<String> {
    let word_back = |back: usize| before.len().checked_sub(back).map(|at| before[at].text(text).to_uppercase());
    let last = word_back(1).unwrap_or_default();
    let first = before.first().map(|token| token.text(text).to_uppercase()).unwrap_or_default();
    if before.is_empty() {
        return words(BEGINNINGS).collect();
    }
    if last == "." {
        let qualifier = word_back(2).unwrap_or_default();
        let procedures = names.procedures.iter().filter(|procedure| procedure.is_default());
        if matches!(first.as_str(), "EXEC" | "EXECUTE" | "EXPLAINPROC") {
            let suffix = |name: &str| {
                name.split_once('.').filter(|(table, _)| *table == qualifier).map(|(_, verb)| verb.to_owned())
            };
            return procedures.filter_map(|procedure| suffix(&procedure.name)).collect();
        }
        let table = aliased(text, statement, &qualifier, names);
        return table.map(|table| column_names(table).collect()).unwrap_or_default();
    }
    match first.as_str() {
        "EXEC" | "EXECUTE" | "EXPLAINPROC" if before.len() == 1 => {
            return procedure_names(names).chain(system(typed)).collect();
        }
        "DESCRIBE" | "DESC" if before.len() == 1 => return table_names(names).chain(procedure_names(names)).collect(),
        "EXPLAINVIEW" if before.len() == 1 => return table_names(names).collect(),
        "SHOW" if before.len() == 1 => {
            return words(&command::SHOWN).collect();
        }
        _ => {}
    }
    match last.as_str() {
        "FROM" | "JOIN" | "INTO" | "UPDATE" | "TRUNCATE" | "VIEW" => {
            return table_names(names).chain(if last == "TRUNCATE" { words(&["TABLE"]) } else { words(&[]) }).collect();
        }
        "TABLE" => return table_names(names).collect(),
        "PROCEDURE" => return procedure_names(names).collect(),
        "CREATE" | "DROP" | "ALTER" => {
            let kinds = ["FUNCTION", "INDEX", "PROCEDURE", "ROLE", "STREAM", "TABLE", "UNIQUE", "VIEW"];
            return kinds.map(str::to_owned).to_vec();
        }
        _ => {}
    }
    let mentioned: Vec<&Table> = mentioned(text, statement, names);
    let columns = mentioned.iter().flat_map(|table| column_names(table));
    let mut all: Vec<String> = columns.collect();
    if mentioned.is_empty() {
        all.extend(names.tables.iter().flat_map(column_names));
    }
    // A list of columns in parentheses holds nothing else.
    let in_column_list = matches!(first.as_str(), "INSERT" | "UPSERT")
        && before.iter().any(|token| token.text(text) == "(")
        && !before.iter().any(|token| token.is_word(text, "VALUES") || token.is_word(text, "SELECT"));
    if !in_column_list {
        all.extend(table_names(names));
        all.extend(words(KEYWORDS).chain(words(FUNCTIONS)));
    }
    all
}

fn words(list: &'static [&'static str]) -> impl Iterator<Item = String> {
    list.iter().map(|word| (*word).to_owned())
}

fn system(typed: &str) -> impl Iterator<Item = String> {
    let wanted = typed.is_empty() || typed.starts_with('@');
    SYSTEM_PROCEDURES.iter().filter(move |_| wanted).map(|name| (*name).to_owned())
}

fn table_names(names: &Names) -> impl Iterator<Item = String> {
    names.tables.iter().map(|table| lexer::quoted(&table.name))
}

fn procedure_names(names: &Names) -> impl Iterator<Item = String> {
    names.procedures.iter().map(|procedure| procedure.name.clone())
}

fn column_names(table: &Table) -> impl Iterator<Item = String> {
    table.columns.iter().map(|column| lexer::quoted(&column.name))
}

/// The tables that the statement names anywhere, before the cursor or behind it.
fn mentioned<'n>(text: &str, statement: &[Token], names: &'n Names) -> Vec<&'n Table> {
    let mut found: Vec<&Table> = Vec::new();
    for token in statement.iter().filter(|token| matches!(token.kind, Kind::Word | Kind::Name)) {
        let name = lexer::folded(token.text(text));
        if let Some(table) = names.tables.iter().find(|table| table.name == name)
            && !found.iter().any(|other| other.name == name)
        {
            found.push(table);
        }
    }
    found
}

/// The table that goes by this name in the statement: its own, or one given with or without AS.
fn aliased<'n>(text: &str, statement: &[Token], qualifier: &str, names: &'n Names) -> Option<&'n Table> {
    let by_name = |name: &str| names.tables.iter().find(|table| table.name.eq_ignore_ascii_case(name));
    if let Some(table) = by_name(&lexer::folded(qualifier)) {
        return Some(table);
    }
    let tokens: Vec<&Token> = statement.iter().filter(|token| !token.is_filler()).collect();
    tokens.windows(3).find_map(|window| {
        let table = by_name(&lexer::folded(window[0].text(text)))?;
        let alias = if window[1].is_word(text, "AS") { window[2] } else { window[1] };
        alias.text(text).eq_ignore_ascii_case(qualifier).then_some(table)
    })
}

/// Those that begin with what was typed, in the case in which it was typed, without doubles.
fn matching(typed: &str, candidates: Vec<String>) -> Vec<String> {
    let lower = typed.chars().any(char::is_lowercase) && !typed.chars().any(char::is_uppercase);
    let mut found: Vec<String> = candidates
        .into_iter()
        .filter(|candidate| candidate.get(..typed.len()).is_some_and(|start| start.eq_ignore_ascii_case(typed)))
        .map(|candidate| {
            let folds = !candidate.starts_with(['"', '@', '\\']) && !candidate.chars().any(char::is_lowercase);
            if lower && folds { candidate.to_lowercase() } else { candidate }
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{Column, Procedure, TableKind};
    use ferrite_value::{ColumnType, SqlType};

    fn names() -> Names {
        let column = |name: &str| Column {
            name: name.to_owned(),
            column_type: ColumnType::fixed(SqlType::Bigint),
            nullable: true,
            default: None,
        };
        let table = |name: &str, columns: &[&str]| Table {
            name: name.to_owned(),
            kind: TableKind::Table,
            columns: columns.iter().map(|name| column(name)).collect(),
            computed: false,
            partition_column: None,
            partitioned: false,
            primary_key: Vec::new(),
        };
        let procedure = |name: &str| Procedure {
            name: name.to_owned(),
            parameters: Vec::new(),
            single_partition: true,
            read_only: false,
        };
        Names {
            tables: vec![
                table("VOTES", &["PHONE_NUMBER", "STATE"]),
                table("CONTESTANTS", &["NUMBER", "NAME"]),
                table("Odd", &["x"]),
            ],
            indexes: Vec::new(),
            procedures: vec![procedure("Vote"), procedure("VOTES.insert")],
        }
    }

    /// `|` is the cursor.
    fn offered(marked: &str) -> Vec<String> {
        let position = marked.find('|').expect("a cursor");
        let text = marked.replace('|', "");
        complete(&text, position, &names()).map(|found| found.candidates).unwrap_or_default()
    }

    #[test]
    fn what_fits_the_place_is_offered() {
        let cases: [(&str, &[&str]); 16] = [
            ("sel|", &["select"]),
            ("SEL|", &["SELECT"]),
            ("select * from v|", &["votes"]),
            ("select * from |", &["\"Odd\"", "CONTESTANTS", "VOTES"]),
            ("select pho| from votes", &["phone_number"]),
            ("select * from votes v where v.s|", &["state"]),
            ("select * from contestants as c where c.|", &["NAME", "NUMBER"]),
            ("insert into votes (|", &["PHONE_NUMBER", "STATE"]),
            ("select 1; update con|", &["contestants"]),
            ("exec Vo|", &["VOTES.insert", "Vote"]),
            ("exec @St|", &["@Statistics"]),
            ("exec votes.|", &["insert"]),
            ("\\t|", &["\\timing"]),
            ("\\d vot|", &["VOTES.insert", "Vote", "votes"]),
            ("select 'sel|", &[]),
            ("show tab|", &["tables"]),
        ];
        for (marked, expected) in cases {
            assert_eq!(offered(marked), expected, "{marked}");
        }
    }

    #[test]
    fn no_place_in_any_text_is_a_panic() {
        let text = "select 'é' \"ü\" from votes; \\d ß\n exec @x .";
        for position in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
            complete(text, position, &names());
        }
    }
}
