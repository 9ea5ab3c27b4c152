//! Runs the case files of `tests/cases`: schema, statements, and the plans or errors that they must
//! give.
//!
//! A file is a list of blocks parted by blank lines. A block is a keyword line (with the text's
//! first line after it), more lines of text, then for some keywords `----` and what is expected:
//!
//! - `schema`: DDL that must apply. `ddl`: DDL whose outcome is shown: `ok`, warnings, or the
//!   error.
//! - `explain`: an ad hoc batch, its plans. `params`: also shows parameter and column types.
//!   `procedure NAME`: a stored one.
//! - `given (5.5, 1e0, 2, 'x', @2024-05-05 12:00:00)`, then a statement: on which of four
//!   partitions a call with these values runs, and the plan that runs it.
//! - `counts`: how many rows tables have, for the plans after it: lines of a name and a number; and
//!   between which integers the values of a column lie, spread evenly: `TABLE.COLUMN 0 400000`.
//! - `literals`: which literals of a statement a plan for all texts of its shape leaves open, and
//!   which stay in the text.
//! - `short`: a stored procedure or an ad hoc statement, and whether its calls are certainly short.
//! - `mistake`: a wrong statement, and all that its author is told: code, message, place, hint.
//! - `defaults`: the names, parameters and routing of the default procedures.
//!
//! `cargo test -p ferrite-sql --test cases -- NAME` runs the files whose name contains NAME. With
//! `UPDATE_CASES=1` in the environment the files that run are rewritten with what came out.

use bumpalo::Bump;
use ferrite_base::TableId;
use ferrite_catalog::Catalog;
use ferrite_plan::{Plan, Program, Query, Routing, Step, is_short};
use ferrite_sql::{
    Parameterizer, Statistics, bind_ddl, compile_adhoc_with, compile_procedure, ddl_error, default_procedures,
    explain_with, find_template, missing_indexes, parse_batch,
};
use ferrite_value::ring::Ring;
use ferrite_value::{Decimal, OwnedValue, Value, temporal};
use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");
    let filters: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder of cases is there")
        .map(|entry| entry.expect("a folder entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "there are no cases");
    let wanted = |path: &PathBuf| {
        let name = path.file_name().expect("a file of the folder").to_string_lossy();
        filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()))
    };
    let (mut passed, mut failed) = (0, 0);
    for path in paths.iter().filter(|path| wanted(path)) {
        let failures = check(path);
        print!("{failures}");
        if failures.is_empty() { passed += 1 } else { failed += 1 }
    }
    // As `cargo test` ends its other tests.
    let outcome = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {outcome}. {passed} passed; {failed} failed; files of cases");
    std::process::exit(i32::from(failed > 0));
}

/// The blocks of a file that gave something else than expected, with both.
fn check(path: &Path) -> String {
    let mut failures = String::new();
    let text = std::fs::read_to_string(path).expect("a readable case file");
    let mut catalog = Catalog::default();
    let mut counts = Counts::default();
    let mut rewritten = String::new();
    for block in text.split("\n\n").map(|block| block.trim_matches('\n')).filter(|block| !block.is_empty()) {
        let (input, expected) = block.split_once("\n----").unwrap_or((block, ""));
        let expected = expected.trim_start_matches('\n').trim_end();
        if input.lines().all(|line| line.starts_with('#')) {
            let _ = write!(rewritten, "{block}\n\n");
            continue;
        }
        let (keyword, statement) = input.split_once([' ', '\n']).unwrap_or((input, ""));
        let found = run(&mut catalog, &mut counts, keyword, statement.trim());
        let found = found.trim_end();
        if found != expected {
            let _ =
                writeln!(failures, "{}:\n{input}\n---- expected\n{expected}\n---- found\n{found}\n", path.display());
        }
        let _ = match found {
            "" => write!(rewritten, "{input}\n\n"),
            found => write!(rewritten, "{input}\n----\n{found}\n\n"),
        };
    }
    if std::env::var_os("UPDATE_CASES").is_some() {
        std::fs::write(path, rewritten.trim_end().to_owned() + "\n").expect("a writable case file");
    }
    failures
}

/// Rows of tables, spread over four partitions, and the least and greatest values of columns.
#[derive(Default)]
struct Counts {
    rows: HashMap<TableId, u64>,
    values: HashMap<(TableId, u16), (i64, i64)>,
}

impl Statistics for Counts {
    fn rows(&self, table: TableId) -> Option<u64> {
        self.rows.get(&table).copied()
    }

    fn partitions(&self) -> u64 {
        4
    }

    fn part_between(
        &self,
        table: TableId,
        column: u16,
        lower: Option<&OwnedValue>,
        upper: Option<&OwnedValue>,
    ) -> Option<f64> {
        let (least, greatest) = *self.values.get(&(table, column))?;
        let bound = |bound: Option<&OwnedValue>, otherwise| match bound {
            Some(OwnedValue::Integer(integer)) => (*integer).clamp(least, greatest),
            _ => otherwise,
        };
        let inside = bound(upper, greatest) - bound(lower, least);
        Some(inside.max(0) as f64 / (greatest - least) as f64)
    }
}

impl Counts {
    fn set(&mut self, catalog: &Catalog, text: &str) {
        *self = Counts::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |word: &str| word.parse::<i64>().expect("a number");
            let (name, column) = words[0].split_once('.').unwrap_or((words[0], ""));
            let table = catalog.table_named(name).expect("the case names a table");
            match words[1..] {
                [rows] => drop(self.rows.insert(table.id, number(rows) as u64)),
                [least, greatest] => {
                    let column = table.columns.iter().position(|other| other.name.eq_ignore_ascii_case(column));
                    let column = column.expect("the case names a column") as u16;
                    self.values.insert((table.id, column), (number(least), number(greatest)));
                }
                _ => panic!("a table and its rows, or a column and its ends: {line}"),
            }
        }
    }
}

fn run(catalog: &mut Catalog, counts: &mut Counts, keyword: &str, text: &str) -> String {
    match keyword {
        "counts" => {
            counts.set(catalog, text);
            String::new()
        }
        "literals" => literals(catalog, counts, text),
        "schema" => {
            let found = apply(catalog, text);
            if found.lines().all(|line| line == "ok") { String::new() } else { found }
        }
        "ddl" => apply(catalog, text),
        "mistake" => mistake(catalog, text),
        "explain" => adhoc(catalog, counts, text, false),
        "params" => adhoc(catalog, counts, text, true),
        "given" => given(catalog, counts, text),
        "procedure" => {
            let procedure = catalog.procedure_named(text).expect("the case names a procedure").clone();
            match compile_procedure(catalog, &procedure) {
                Ok(program) => shown(&program, catalog, &Counts::default(), true),
                Err(error) => format!("error {error:?}"),
            }
        }
        "short" => short(catalog, text),
        "defaults" => {
            let mut out = String::new();
            for program in default_procedures(catalog) {
                let _ = writeln!(out, "{} {}", program.name, signature(&program));
            }
            out
        }
        other => format!("unknown keyword {other}"),
    }
}

/// Whether calls may be run in the place of a partition's thread: of a statement, a declared
/// procedure, or a default one.
fn short(catalog: &Catalog, text: &str) -> String {
    let program = if let Some(procedure) = catalog.procedure_named(text) {
        compile_procedure(catalog, procedure)
    } else if let Some(program) = default_procedures(catalog).into_iter().find(|program| program.name == text) {
        Ok(program)
    } else {
        parse_batch(text).and_then(|statements| {
            let given = statements.iter().map(|statement| statement.parameters()).sum();
            compile_adhoc_with(catalog, &Counts::default(), &statements, given)
        })
    };
    match program {
        Ok(program) if is_short(&program, catalog) => "short".to_owned(),
        Ok(_) => "may be long".to_owned(),
        Err(error) => format!("error {error:?}"),
    }
}

fn apply(catalog: &mut Catalog, text: &str) -> String {
    let statements = match parse_batch(text) {
        Ok(statements) => statements,
        Err(error) => return format!("error {error:?}"),
    };
    let mut out = String::new();
    let advised = missing_indexes(catalog);
    for (number, statement) in statements.iter().enumerate() {
        let applied = bind_ddl(catalog, statement).and_then(|(change, warnings)| {
            let (next, _) = catalog.apply(&change)?;
            Ok((next, warnings))
        });
        match applied {
            Ok((next, warnings)) => {
                *catalog = next;
                out.push_str("ok\n");
                warnings.iter().for_each(|warning| out.push_str(&format!("warning {warning}\n")));
            }
            Err(error) => {
                let _ = writeln!(out, "error {:?}", ddl_error(number + 1, statement, error));
            }
        }
    }
    let advice = missing_indexes(catalog).into_iter().filter(|(name, _)| !advised.contains_key(name));
    advice.for_each(|(_, advice)| out.push_str(&format!("warning {advice}\n")));
    out
}

/// The error of a wrong statement without the words around it, which are the same for all.
fn mistake(catalog: &Catalog, text: &str) -> String {
    let error = match parse_batch(text) {
        Err(error) => error,
        Ok(statements) if statements.iter().all(|statement| statement.is_ddl()) => {
            let outcome = statements.iter().try_fold(catalog.clone(), |catalog, statement| {
                let (change, _) = bind_ddl(&catalog, statement)?;
                Ok(catalog.apply(&change)?.0)
            });
            match outcome {
                Err(error) => error,
                Ok(_) => return "accepted".to_owned(),
            }
        }
        Ok(statements) => {
            let given = statements.iter().map(|statement| statement.parameters()).sum();
            match compile_adhoc_with(catalog, &Counts::default(), &statements, given) {
                Err(error) => error,
                Ok(_) => return "accepted".to_owned(),
            }
        }
    };
    let around = format!("Error in \"{text}\" - ");
    let message = error.message().replace("SQL error while compiling query: ", "").replace(&around, "");
    let mut out = format!("{} {message}\n", error.code());
    if let Some(detail) = error.detail() {
        let _ = writeln!(out, "  {detail}");
    }
    if let Some(place) = error.place() {
        let _ = writeln!(out, "  at line {}, column {}", place.line, place.column);
    }
    if let Some(hint) = error.hint() {
        let _ = writeln!(out, "  hint: {hint}");
    }
    out
}

fn adhoc(catalog: &Catalog, counts: &Counts, text: &str, types: bool) -> String {
    let compiled = parse_batch(text).and_then(|statements| {
        let given = statements.iter().map(|statement| statement.parameters()).sum();
        compile_adhoc_with(catalog, counts, &statements, given)
    });
    match compiled {
        Ok(program) => shown(&program, catalog, counts, types),
        Err(error) => format!("error {error:?}"),
    }
}

fn literals(catalog: &Catalog, counts: &Counts, text: &str) -> String {
    let mut parameterizer = Parameterizer::default();
    let exact = parse_batch(text).and_then(|statements| compile_adhoc_with(catalog, counts, &statements, 0));
    let exact = exact.expect("a statement that compiles");
    parameterizer.parameterize(text).expect("a text that is parameterized");
    let literals = parameterizer.literals();
    match find_template(catalog, counts, text, literals, &exact) {
        None => "no plan but its own".to_owned(),
        Some((_, open)) => {
            let shown = literals.iter().zip(open).map(|(literal, is_open)| {
                format!("{} {}", literal.written(text), if is_open { "open" } else { "kept" })
            });
            shown.collect::<Vec<_>>().join(", ")
        }
    }
}

/// A call with values, whatever their types.
fn given(catalog: &Catalog, counts: &Counts, text: &str) -> String {
    let (values, statement) = text[1..].split_once(") ").expect("values in parentheses, then a statement");
    let values: Vec<OwnedValue> = values.split(", ").map(value).collect();
    let values: Vec<Value<'_>> = values.iter().map(OwnedValue::as_value).collect();
    let compiled =
        parse_batch(statement).and_then(|statements| compile_adhoc_with(catalog, counts, &statements, values.len()));
    let program = match compiled {
        Ok(program) => program,
        Err(error) => return format!("error {error:?}"),
    };
    let arena = Bump::new();
    let fitted = program.variants.as_ref().map(|variants| variants.fit(&program, catalog, &values, &arena));
    let variant = fitted.and_then(|fitted| fitted.program);
    let owners = program.owners(|index| Ok(values[usize::from(index)]), &Ring::new_default(4));
    let run = variant.as_deref().unwrap_or(&program);
    format!("{owners:?}\n{}", shown(run, catalog, counts, true))
}

fn value(written: &str) -> OwnedValue {
    if let Some(text) = written.strip_prefix('\'') {
        return OwnedValue::Text(text.trim_end_matches('\'').into());
    }
    if let Some(time) = written.strip_prefix('@') {
        return OwnedValue::Timestamp(temporal::parse_timestamp(time).expect("a time"));
    }
    if written.contains('e') {
        return OwnedValue::Float(written.parse().expect("a FLOAT"));
    }
    match written.parse() {
        Ok(integer) => OwnedValue::Integer(integer),
        Err(_) => OwnedValue::Decimal(Decimal::parse(written).expect("a DECIMAL")),
    }
}

fn shown(program: &Program, catalog: &Catalog, counts: &Counts, types: bool) -> String {
    let mut out = String::new();
    if types {
        let _ = writeln!(out, "{}", signature(program));
        for step in &program.body {
            if let Step::Execute { plan: Plan::Query(query), .. } = step {
                let _ = writeln!(out, "columns {}", columns(query));
            }
        }
    }
    for (text, plan) in explain_with(program, catalog, counts) {
        if program.statements.len() > 1 || program.name != "@AdHoc" {
            let _ = writeln!(out, "{}", text.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        out.push_str(&plan);
    }
    out
}

fn columns(query: &Query) -> String {
    let columns: Vec<String> =
        query.columns.iter().map(|column| format!("{} {}", column.name, column.sql_type)).collect();
    columns.join(", ")
}

fn signature(program: &Program) -> String {
    let parameters: Vec<String> = program
        .parameters
        .iter()
        .map(|parameter| format!("{}{}", parameter.column_type, if parameter.array { " array" } else { "" }))
        .collect();
    let routing = match &program.routing {
        Routing::Parameter { index, sql_type } => format!("parameter {index} {sql_type}"),
        Routing::Constant { value, sql_type } => format!("{value:?} {sql_type}"),
        Routing::Several { keys } => {
            let keys: Vec<String> = keys.iter().map(|(key, sql_type)| format!("{key:?} {sql_type}")).collect();
            format!("several: {}", keys.join(", "))
        }
        other => format!("{other:?}").to_lowercase(),
    };
    let read = if program.read_only { " read only" } else { "" };
    format!("({}) on {routing}{read}", parameters.join(", "))
}
