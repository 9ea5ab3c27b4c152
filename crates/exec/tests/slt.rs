//! Runs the SQL test files (`tests/slt` at the root of the workspace): each on one partition, on
//! three, and on three with every call lent only the stores that its routing asks for. The expected
//! answers are the same for all.
//!
//! `cargo test -p ferrite-exec --test slt -- NAME` runs the files whose name contains NAME. With
//! `UPDATE_SLT=1` in the environment, records of these files that fail on one partition are
//! rewritten with what came out, before the files run as usual.
//!
//! Files that end in `.test` are from SQLite's corpus; a part of it is in `tests/slt/corpus`. All
//! of a corpus at hand is run, on one partition and on three, with
//! `cargo test -p ferrite-exec --test slt -- --corpus DIRECTORY`. No file is left out as a whole;
//! single records are where [`NOT_OUR_DIALECT`] says why.

mod support;

use ferrite_base::UserError;
use sqllogictest::{
    DBOutput, DefaultColumnType, QueryExpect, RecordOutput, Runner, StatementExpect, default_column_validator,
    default_normalizer, default_validator, update_record_with_output,
};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use support::{Collected, Database, Lending};

const CONFIGURATIONS: [(u32, Lending); 3] = [(1, Lending::All), (3, Lending::All), (3, Lending::AsRouted)];

/// Records of the corpus that are not run: part of the file's path, part of the SQL text, and the
/// reason.
const NOT_OUR_DIALECT: &[(&str, &str, &str)] = &[
    ("evidence/in", "IN ()", "an empty list is SQLite's own"),
    ("evidence/in1", "'hello' ", "text is compared with integers, which SQLite's columns may mix; here it is an error"),
    ("evidence/slt_lang_aggfunc", "total(", "TOTAL is SQLite's own: SUM that is 0.0 without rows"),
    ("evidence/slt_lang_aggfunc", "group_concat(", "GROUP_CONCAT is SQLite's own, and leaves the order open"),
    ("evidence/slt_lang_aggfunc", "avg(", "AVG of integers is an integer, as in the original server"),
    ("evidence/slt_lang_aggfunc", "sum(", "the column mixes integers, text and numbers beyond 64 bits"),
    ("evidence/slt_lang_aggfunc", "DROP INDEX t1i1", "one text changes rows and the schema, which is refused"),
    ("evidence/slt_lang_aggfunc", "1<<63", "the smallest 64-bit integer stands for NULL and is no value"),
    ("evidence/slt_lang_aggfunc", "(y)", "sums of text, which SQLite reads as numbers; here it is an error"),
    ("evidence/slt_lang_aggfunc", "DISTINCT y", "sums of text, which SQLite reads as numbers; here it is an error"),
    ("evidence/slt_lang_update", "x=3, x=4, x=5", "a column assigned twice is an error, as in the standard"),
    ("evidence/slt_lang_update", "WHERE x=4", "follows the column assigned twice"),
    ("evidence/slt_lang_update", "WHERE x=5", "follows the column assigned twice"),
];

/// The SQL text of a record that is run.
fn sql_of(record: &sqllogictest::Record<DefaultColumnType>) -> Option<&str> {
    match record {
        sqllogictest::Record::Statement { sql, .. } | sqllogictest::Record::Query { sql, .. } => Some(sql),
        _ => None,
    }
}

fn is_skipped(path: &str, record: &sqllogictest::Record<DefaultColumnType>) -> bool {
    let Some(sql) = sql_of(record) else { return false };
    NOT_OUR_DIALECT.iter().any(|(file, part, _)| path.contains(file) && sql.contains(part))
}

#[derive(Clone)]
struct Connection {
    database: Arc<Mutex<Database>>,
    /// The file is of SQLite's corpus: it has a type TEXT, indexes in descending order, and truth
    /// values that are numbers.
    of_corpus: bool,
}

impl sqllogictest::DB for Connection {
    type Error = UserError;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, UserError> {
        let mut database = self.database.lock().expect("one test at a time");
        if !self.of_corpus {
            return Ok(Connection::output(sql, database.run(sql)?));
        }
        let sql = match sql {
            _ if sql.starts_with("CREATE TABLE") => &sql.replace(" TEXT", " VARCHAR(200)"),
            _ if sql.starts_with("CREATE") && sql.contains(" INDEX ") => &sql.replace(" DESC", ""),
            _ => sql,
        };
        let mut result = database.run(sql)?;
        for value in result.rows.iter_mut().flatten() {
            match value.as_str() {
                "true" => *value = "1".into(),
                "false" => *value = "0".into(),
                _ => {}
            }
        }
        Ok(Connection::output(sql, result))
    }

    fn engine_name(&self) -> &str {
        "ferrite"
    }

    fn error_sql_state(error: &UserError) -> Option<String> {
        Some(error.code().to_owned())
    }
}

impl Connection {
    fn output(sql: &str, result: Collected) -> DBOutput<DefaultColumnType> {
        match result.modified {
            Some(modified) if !result.has_rows && !sql.starts_with("EXEC") => DBOutput::StatementComplete(modified),
            _ if result.has_rows || !result.rows.is_empty() => {
                DBOutput::Rows { types: vec![DefaultColumnType::Any; result.column_count.max(1)], rows: result.rows }
            }
            _ => DBOutput::StatementComplete(0),
        }
    }
}

/// Records that failed, as text, with how many there were.
fn run_file(path: &Path, partitions: u32, lending: Lending, keep_going: bool) -> (usize, Vec<String>) {
    let database = Arc::new(Mutex::new(Database::new(partitions, lending)));
    let of_corpus = path.extension().is_some_and(|extension| extension == "test");
    let mut runner = Runner::new(|| async { Ok(Connection { database: database.clone(), of_corpus }) });
    if of_corpus {
        // The corpus writes a value per line, and longer results as their MD5.
        runner.with_hash_threshold(8);
        runner.run_script("control resultmode valuewise").expect("a known mode");
    }
    let text = std::fs::read_to_string(path).expect("a readable test file");
    let records = sqllogictest::parse_with_name::<DefaultColumnType>(&without_remarks(&text), path.to_string_lossy())
        .expect("a test file in its format");
    let mut count = 0;
    let mut failures = Vec::new();
    let name = path.to_string_lossy().replace('\\', "/");
    for record in records {
        if of_corpus && is_skipped(&name, &record) {
            continue;
        }
        count += usize::from(sql_of(&record).is_some());
        if let Err(error) = runner.run(record) {
            failures.push(error.to_string());
            if !keep_going {
                break;
            }
        }
    }
    database.lock().expect("the test is over").check();
    (count, failures)
}

/// Rewrites the records that fail, with what came out on one partition; the rest of the file stays
/// as it is, byte for byte.
fn update_file(path: &Path) {
    let database = Arc::new(Mutex::new(Database::new(1, Lending::All)));
    let mut runner = Runner::new(|| async { Ok(Connection { database: database.clone(), of_corpus: false }) });
    let text = std::fs::read_to_string(path).expect("a readable test file");
    let records = sqllogictest::parse_with_name::<DefaultColumnType>(&text, path.to_string_lossy())
        .expect("a test file in its format");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // A rewritten record may have another number of lines; those after it move.
    let mut moved = 0_isize;
    for record in records {
        let output = at_once(runner.apply_record(record.clone()));
        let updated = update_record_with_output(
            &record,
            &output,
            " ",
            default_validator,
            default_normalizer,
            default_column_validator,
        );
        if is_expected_error(&record, &output) {
            continue;
        }
        let (Some(updated), Some(line)) = (updated, line_of(&record)) else { continue };
        if updated != record {
            let first = (line as isize - 1 + moved) as usize;
            let last = lines[first..].iter().position(String::is_empty).map_or(lines.len(), |count| first + count);
            let new: Vec<String> = updated.to_string().trim_end().lines().map(str::to_owned).collect();
            println!("{}:{}: rewritten", path.display(), first + 1);
            moved += new.len() as isize - (last - first) as isize;
            lines.splice(first..last, new);
        }
    }
    if lines != text.lines().collect::<Vec<_>>() {
        std::fs::write(path, lines.join("\n") + "\n").expect("a writable test file");
    }
}

/// The record expects an error, by its text or its code, and that is what came out.
fn is_expected_error(
    record: &sqllogictest::Record<DefaultColumnType>,
    output: &RecordOutput<DefaultColumnType>,
) -> bool {
    let expected = match record {
        sqllogictest::Record::Statement { expected: StatementExpect::Error(expected), .. } => expected,
        sqllogictest::Record::Query { expected: QueryExpect::Error(expected), .. } => expected,
        _ => return false,
    };
    let (RecordOutput::Statement { error: Some(error), .. } | RecordOutput::Query { error: Some(error), .. }) = output
    else {
        return false;
    };
    let code = error.downcast_ref::<UserError>().map(UserError::code);
    expected.is_match(&error.to_string(), code)
}

/// Where a record that is run begins in its file, from 1 on.
fn line_of(record: &sqllogictest::Record<DefaultColumnType>) -> Option<u32> {
    match record {
        sqllogictest::Record::Statement { loc, .. } | sqllogictest::Record::Query { loc, .. } => Some(loc.line()),
        _ => None,
    }
}

/// The result of a future that waits for nothing: the database answers while it is asked.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("the database is never waited for"),
    }
}

/// The corpus has remarks behind conditions (`onlyif sqlite # empty RHS`), which the parser does
/// not take.
fn without_remarks(text: &str) -> String {
    let line = |line: &str| match line.split_once('#') {
        Some((condition, _)) if line.starts_with("onlyif") || line.starts_with("skipif") => {
            condition.trim_end().to_owned()
        }
        _ => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Test files in the directory and those below it, in order.
fn files_in(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let entries = std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    for entry in entries {
        let path = entry.expect("a directory entry").path();
        if path.is_dir() {
            files.append(&mut files_in(&path));
        } else if path.extension().is_some_and(|extension| extension == "slt" || extension == "test") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Runs every file of a corpus to its end, on one partition and on three; whether all passed.
fn run_corpus(directory: &Path) -> bool {
    let (mut all, mut failed) = (0, 0);
    for path in files_in(directory) {
        for partitions in [1, 3] {
            let (count, failures) = run_file(&path, partitions, Lending::All, true);
            println!("{} on {partitions}: {} of {count} passed", path.display(), count - failures.len());
            failures.iter().take(5).for_each(|failure| println!("  {}", failure.replace('\n', "\n  ")));
            all += count;
            failed += failures.len();
        }
    }
    println!("corpus: {} of {all} records passed", all - failed);
    failed == 0
}

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/slt");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // With --report, a file (of any corpus) is run to its end on one partition and the rate of
    // passed records printed.
    if let [flag, files @ ..] = &arguments[..]
        && flag == "--report"
    {
        for file in files {
            let (count, failures) = run_file(Path::new(file), 1, Lending::All, true);
            println!("{file}: {} of {count} passed", count - failures.len());
            failures.iter().take(5).for_each(|failure| println!("  {}", failure.replace('\n', "\n  ")));
        }
        return;
    }
    if let [flag, directory] = &arguments[..]
        && flag == "--corpus"
    {
        std::process::exit(i32::from(!run_corpus(Path::new(directory))));
    }
    let update = std::env::var_os("UPDATE_SLT").is_some();
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let mut failed = 0;
    let mut passed = 0;
    for path in files_in(&root) {
        let name = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned();
        if !filters.is_empty() && !filters.iter().any(|filter| name.contains(*filter)) {
            continue;
        }
        if update && path.extension().is_some_and(|extension| extension == "slt") {
            update_file(&path);
        }
        for (partitions, lending) in CONFIGURATIONS {
            let (_, failures) = run_file(&path, partitions, lending, false);
            match failures.first() {
                None => passed += 1,
                Some(failure) => {
                    failed += 1;
                    println!("{name} on {partitions} partitions ({lending:?}):\n{failure}\n");
                }
            }
        }
    }
    println!("slt: {passed} runs passed, {failed} failed");
    if failed > 0 || (passed == 0 && filters.is_empty()) {
        std::process::exit(1);
    }
}
