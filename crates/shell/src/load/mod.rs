//! `ferrite load` and `\copy ... from`: a file's records to a table's rows.
//!
//! Each row is a call of the table's own `insert` or `upsert` procedure, and so a transaction:
//! thousands are on their way at once, and a row that is refused hinders no other.

pub mod input;
pub mod progress;
pub mod records;
pub mod rejects;
pub mod rows;
pub mod send;

pub use input::Input;

use crate::bad_command::BadCommand;
use crate::copy::CopyOptions;
use crate::interrupt::Interrupts;
use crate::names::{Names, Table, TableKind};
use crate::options::{ConnectionOptions, DataFormat, DataOptions, Header};
use crate::render;
use crate::suggest;
use ferrite_client::event_loop::{Driver, DriverOptions};
use ferrite_client::{Credentials, Prepared};
use ferrite_wire::OwnedTable;
use input::{Chunk, Feed};
use progress::{Progress, grouped};
use records::{Dialect, Scanned};
use rejects::Rejects;
use rows::Mapping;
use send::{Sender, Stop, Target};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A load that read its input to the end.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub table: String,
    pub rows: u64,
    pub rejected: u64,
    pub rejects: PathBuf,
    pub elapsed: Duration,
}

impl fmt::Display for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.elapsed.as_secs_f64();
        let rate = (self.rows as f64 / seconds.max(1e-3)) as u64;
        let plural = if self.rows == 1 { "" } else { "s" };
        write!(
            f,
            "{} row{plural} into {} in {seconds:.2} s, {} rows/s",
            grouped(self.rows),
            self.table,
            grouped(rate)
        )?;
        if self.rejected > 0 {
            write!(f, "; {} rejected, see {}", grouped(self.rejected), self.rejects.display())?;
        }
        Ok(())
    }
}

/// A load that did not.
#[derive(Clone, Debug)]
pub struct LoadError {
    pub message: String,
    pub hint: Option<String>,
}

impl LoadError {
    fn new(message: impl Into<String>) -> LoadError {
        LoadError { message: message.into(), hint: None }
    }

    fn with_hint(mut self, hint: impl Into<String>) -> LoadError {
        self.hint = Some(hint.into());
        self
    }

    pub fn into_bad_command(self) -> BadCommand {
        BadCommand { message: self.message, hint: self.hint }
    }
}

/// The options of `\copy` as those of `ferrite load`.
pub fn data_options(options: &CopyOptions) -> Result<DataOptions, String> {
    let format = options.format.as_deref().map(|name| match name.to_ascii_lowercase().as_str() {
        "csv" => Ok(DataFormat::Csv),
        "tsv" => Ok(DataFormat::Tsv),
        "jsonl" => Ok(DataFormat::Jsonl),
        other => Err(format!("there is no format {other}; csv, tsv or jsonl")),
    });
    let mut data = DataOptions {
        format: format.transpose()?,
        header: options.header.map_or(Header::Auto, |yes| if yes { Header::Yes } else { Header::No }),
        delimiter: options.delimiter.clone(),
        null: options.null.clone(),
        upsert: options.upsert,
        rejects: options.rejects.as_ref().map(PathBuf::from),
        ..DataOptions::default()
    };
    if let Some(quote) = &options.quote {
        data.quote = quote.clone();
    }
    if let Some(errors) = options.max_errors {
        data.max_errors = errors;
    }
    Ok(data)
}

fn one_byte(what: &str, text: &str) -> Result<u8, LoadError> {
    match text {
        "\\t" | "tab" => Ok(b'\t'),
        text if text.len() == 1 && !matches!(text, "\n" | "\r") => Ok(text.as_bytes()[0]),
        other => Err(LoadError::new(format!("the {what} is one character of ASCII, not {other}"))),
    }
}

fn dialect(data: &DataOptions, name: &str) -> Result<Dialect, LoadError> {
    let stem = name.strip_suffix(".gz").unwrap_or(name);
    let by_name = match Path::new(stem).extension().and_then(|extension| extension.to_str()) {
        Some("tsv" | "tab") => DataFormat::Tsv,
        Some("jsonl" | "ndjson" | "json") => DataFormat::Jsonl,
        _ => DataFormat::Csv,
    };
    let format = data.format.unwrap_or(by_name);
    let default = if format == DataFormat::Tsv { "\\t" } else { "," };
    Ok(Dialect {
        delimiter: one_byte("delimiter", data.delimiter.as_deref().unwrap_or(default))?,
        quote: if data.quote.is_empty() { None } else { Some(one_byte("quote", &data.quote)?) },
        comment: data.comment.as_ref().map(|comment| comment.as_bytes().to_vec()),
        lines: format == DataFormat::Jsonl,
    })
}

fn find_table<'n>(names: &'n Names, name: &str, upsert: bool) -> Result<&'n Table, LoadError> {
    let Some(table) = names.table(name) else {
        let error = LoadError::new(format!("there is no table {name}"));
        let near = suggest::nearest(name, names.tables.iter().map(|table| table.name.as_str()));
        return Err(match near {
            Some(near) => error.with_hint(format!("did you mean {near}?")),
            None => error,
        });
    };
    if table.kind == TableKind::View {
        return Err(LoadError::new(format!("{} is a view: its rows come from its tables", table.name)));
    }
    let verb = if upsert { "upsert" } else { "insert" };
    if names.procedure(&format!("{}.{verb}", table.name)).is_none() {
        let error = LoadError::new(format!("table {} has no procedure {}.{verb}", table.name, table.name));
        return Err(
            error.with_hint("upsert needs a primary key, which of a partitioned table has the partitioning column")
        );
    }
    Ok(table)
}

/// Loads all of an input. Stops early when it cannot go on, or when more rows were rejected than
/// allowed.
pub fn run(
    connection: &ConnectionOptions,
    names: &Names,
    table_name: &str,
    input: Input<'_>,
    data: &DataOptions,
    interrupts: &Interrupts,
) -> Result<Loaded, LoadError> {
    let table = find_table(names, table_name, data.upsert)?;
    let dialect = dialect(data, input.name())?;
    let rejects_path = data.rejects.clone().unwrap_or_else(|| default_rejects(input.name(), &table.name));
    let mut driver = Driver::new(DriverOptions {
        addresses: connection.addresses(),
        connections_per_address: 1,
        credentials: Credentials::new(&connection.user, connection.password.as_deref().unwrap_or_default()),
        connection_timeout: Duration::from_secs(120),
        reconnect_pause: Duration::from_secs(1),
        reconnect_pause_max: Duration::from_secs(1),
        precise_timer: false,
    })
    .map_err(|error| LoadError::new(format!("cannot begin: {error}")))?;
    let system = |error: std::io::Error| LoadError::new(format!("cannot begin: {error}"));
    let waker = driver.waker().map_err(system)?;
    let interrupt_waker = std::sync::Arc::clone(&waker);
    let _listening = interrupts.listen(move || drop(interrupt_waker.wake()));
    let mut feed = input.start(waker).map_err(system)?;
    let mut rejects = Rejects::new(rejects_path);
    let mut progress = Progress::new(data.quiet);
    let front = read_front(&mut feed, &dialect, data, table)?;
    rejects.header = front.header;
    let verb = if data.upsert { "upsert" } else { "insert" };
    let encode = |name: &str| Prepared::new(name).map_err(|error| LoadError::new(error.to_string()));
    let target = Target {
        procedure: encode(&format!("{}.{verb}", table.name))?,
        adhoc: encode("@AdHoc")?,
        statement: send::insert_statement(&table.name, front.mapping.column_names(), data.upsert),
    };
    let mut sender =
        Sender::new(feed, front.bytes, dialect, front.mapping, target, &mut rejects, &mut progress, interrupts);
    sender.addresses = driver.links().len();
    sender.outstanding_max = data.outstanding as usize;
    sender.errors_max = data.max_errors;
    sender.skip = data.skip;
    sender.begin_at(front.at, front.line, front.ended);
    let ended = driver.run(&mut sender);
    let loaded = sender.loaded;
    let stop = sender.stop.take();
    let settled = sender.rows_settled();
    drop(sender);
    progress.clear();
    rejects.finish().map_err(|error| LoadError::new(format!("cannot write {}: {error}", rejects.path().display())))?;
    ended.map_err(|error| LoadError::new(format!("the system failed: {error}")))?;
    let loaded = Loaded {
        table: table.name.clone(),
        rows: loaded,
        rejected: rejects.count,
        rejects: rejects.path().clone(),
        elapsed: progress.elapsed(),
    };
    match stop {
        None => Ok(loaded),
        Some(stop) => Err(stopped(&stop, &loaded, settled, data, table)),
    }
}

fn default_rejects(input: &str, table: &str) -> PathBuf {
    let name = if input == "-" { table.to_lowercase() } else { input.strip_suffix(".gz").unwrap_or(input).to_owned() };
    PathBuf::from(format!("{name}.rejected"))
}

/// What stands before the first row, and how fields find their columns.
struct Front {
    bytes: Vec<u8>,
    at: usize,
    line: u64,
    ended: bool,
    mapping: Mapping,
    header: Option<Vec<u8>>,
}

fn read_front(feed: &mut Feed<'_>, dialect: &Dialect, data: &DataOptions, table: &Table) -> Result<Front, LoadError> {
    let mapping = |columns: Option<&[String]>| {
        Mapping::new(table, columns, data.null.clone(), dialect.quote).map_err(LoadError::new)
    };
    let mut front = Front { bytes: Vec::new(), at: 0, line: 1, ended: false, mapping: mapping(None)?, header: None };
    if dialect.lines {
        front.mapping = match &data.columns {
            Some(columns) => mapping(Some(columns))?,
            None => Mapping::by_name(table).map_err(LoadError::new)?,
        };
        return Ok(front);
    }
    let mut fields = Vec::new();
    let bom = b"\xef\xbb\xbf";
    loop {
        if front.at == 0 && front.bytes.starts_with(bom) {
            front.at = bom.len();
        }
        match dialect.scan(&front.bytes[front.at..], front.ended, &mut fields) {
            Scanned::More => match feed.wait(&mut front.bytes) {
                Chunk::Bytes | Chunk::NotYet => {}
                Chunk::End => front.ended = true,
                Chunk::Failed(error) => return Err(LoadError::new(format!("cannot read the input: {error}"))),
            },
            Scanned::Nothing { end } => {
                front.at += end;
                front.line += 1;
            }
            Scanned::Record { length, end, lines } => {
                let record = &front.bytes[front.at..front.at + length];
                let header = std::str::from_utf8(record).ok().and_then(|text| {
                    let arena = bumpalo::Bump::new();
                    let own = |field: &records::Field| field.text(text, dialect.quote, &arena).trim().to_owned();
                    let names: Vec<String> = fields.iter().map(own).collect();
                    let all_known = names.iter().all(|name| table.column_index(name).is_some());
                    match data.header {
                        Header::No => None,
                        Header::Yes => Some(names),
                        Header::Auto => all_known.then_some(names),
                    }
                });
                if let Some(names) = &header {
                    front.header = Some(record.to_vec());
                    front.at += end;
                    front.line += lines;
                    front.mapping = mapping(Some(data.columns.as_deref().unwrap_or(names)))?;
                } else if let Some(columns) = &data.columns {
                    front.mapping = mapping(Some(columns))?;
                }
                return Ok(front);
            }
            // The sender meets it again and writes it down.
            Scanned::Bad { .. } | Scanned::End => {
                if let Some(columns) = &data.columns {
                    front.mapping = mapping(Some(columns))?;
                }
                return Ok(front);
            }
        }
    }
}

/// What happened, and how to go on.
fn stopped(stop: &Stop, loaded: &Loaded, settled: u64, data: &DataOptions, table: &Table) -> LoadError {
    let reason = match stop {
        Stop::Interrupted => "interrupted".to_owned(),
        Stop::TooManyErrors => {
            format!("more than {} rows were rejected, see {}", data.max_errors, loaded.rejects.display())
        }
        Stop::Connection(error) => error.to_string(),
        Stop::Refused(text) | Stop::Input(text) | Stop::Rejects(text) => text.clone(),
    };
    let error = LoadError::new(format!("stopped after {} rows: {reason}", grouped(loaded.rows)));
    if loaded.rows == 0 && settled <= data.skip {
        return error;
    }
    let again = if table.primary_key.is_empty() {
        "rows behind them may be loaded too and would be there twice".to_owned()
    } else {
        "rows behind them may be loaded too: add --upsert to load those again without harm".to_owned()
    };
    error.with_hint(format!(
        "the first {settled} rows of the input are settled; to go on, use --skip {settled}; {again}"
    ))
}

/// `\copy ... to`: the rows as a file that `\copy ... from` reads back.
pub fn write_copy(out: &mut Vec<u8>, table: &OwnedTable, options: &CopyOptions) -> Result<(), String> {
    let data = data_options(options)?;
    let format = data.format.unwrap_or(DataFormat::Csv);
    if format == DataFormat::Jsonl {
        return Err("\\copy to writes csv or tsv; \\format json and \\o write JSON".to_owned());
    }
    let default = if format == DataFormat::Tsv { "\\t" } else { "," };
    let delimiter =
        one_byte("delimiter", data.delimiter.as_deref().unwrap_or(default)).map_err(|error| error.message)?;
    let mut line = String::new();
    if data.header != Header::No {
        for (column, (name, _)) in table.columns.iter().enumerate() {
            if column > 0 {
                line.push(char::from(delimiter));
            }
            render::csv_text(&mut line, name, delimiter);
        }
        line.push('\n');
        out.extend_from_slice(line.as_bytes());
    }
    for row in &table.rows {
        line.clear();
        render::csv_row(&mut line, row, delimiter);
        out.extend_from_slice(line.as_bytes());
    }
    Ok(())
}
