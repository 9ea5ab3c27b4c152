//! The command lines of `ferrite sql`, `ferrite load` and `ferrite dump`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// The port of a server that was told nothing else.
const PORT_DEFAULT: u16 = 21212;

/// Where the server is and who asks.
#[derive(Clone, Debug, Args)]
pub struct ConnectionOptions {
    /// Address and port of the server, or of several nodes of a cluster, separated by commas: calls
    /// go to those that are up.
    #[arg(long, short = 's', value_name = "HOST[:PORT]", default_value = "127.0.0.1:21212", env = "FERRITE_SERVER",
          value_delimiter = ',', value_parser = server)]
    pub server: Vec<String>,
    /// User name.
    #[arg(long, short = 'u', value_name = "NAME", default_value = "", hide_default_value = true, env = "FERRITE_USER")]
    pub user: String,
    /// Password; the environment variable keeps it out of the list of processes.
    #[arg(long, value_name = "PASSWORD", env = "FERRITE_PASSWORD", hide_env_values = true)]
    pub password: Option<String>,
    /// Ask for the password.
    #[arg(long, short = 'W', conflicts_with = "password")]
    pub ask_password: bool,
}

impl ConnectionOptions {
    /// Each with its port.
    pub fn addresses(&self) -> Vec<String> {
        self.server.iter().map(|server| with_port(server)).collect()
    }

    /// The same in one text.
    pub fn address(&self) -> String {
        self.addresses().join(",")
    }
}

fn with_port(server: &str) -> String {
    let has_port = match server.rsplit_once(':') {
        Some((host, port)) => port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']')),
        None => false,
    };
    if has_port { server.to_owned() } else { format!("{server}:{PORT_DEFAULT}") }
}

/// A host with a port, or without one; a colon in front of anything but a port is a mistake.
pub fn server(text: &str) -> Result<String, String> {
    let port = match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => Some(port),
        _ => None,
    };
    match port.map(str::parse::<u16>) {
        Some(Err(_) | Ok(0)) => Err("the port must be a number from 1 to 65535, such as localhost:21212".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

/// How results are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    Aligned,
    Csv,
    Json,
    Markdown,
}

impl Format {
    pub fn from_name(name: &str) -> Option<Format> {
        <Format as ValueEnum>::from_str(name, true).ok()
    }
}

/// Statements and commands, typed, given with -c, or from files.
#[derive(Clone, Debug, Args)]
pub struct SqlOptions {
    #[command(flatten)]
    pub connection: ConnectionOptions,
    /// Run these statements and commands, then exit. May be repeated.
    #[arg(long, short = 'c', value_name = "TEXT")]
    pub command: Vec<String>,
    /// Run this file, after all -c, then exit. May be repeated; `-` is standard input. Decompressed
    /// with gzip if its name ends in .gz.
    #[arg(long, short = 'f', value_name = "FILE")]
    pub file: Vec<PathBuf>,
    /// Print results as CSV, with a line of column names.
    #[arg(long, group = "format")]
    pub csv: bool,
    /// Print each result as a JSON array of objects.
    #[arg(long, group = "format")]
    pub json: bool,
    /// Print results as Markdown tables.
    #[arg(long, group = "format")]
    pub markdown: bool,
    /// Print one line per value instead of one per row.
    #[arg(long, short = 'x')]
    pub expanded: bool,
    /// Print rows, time, and whether one partition sufficed after each statement. Always on at the
    /// prompt.
    #[arg(long)]
    pub timing: bool,
    /// Continue after an error. Without this option, a script stops with exit code 1.
    #[arg(long)]
    pub r#continue: bool,
    /// Text shown for NULL in aligned, expanded and Markdown results.
    #[arg(long, value_name = "TEXT", default_value = "<null>")]
    pub null: String,
    /// Colours: also off when NO_COLOR is set or the output is not a terminal.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Colour::Auto)]
    pub color: Colour,
}

impl SqlOptions {
    pub fn format(&self) -> Format {
        match (self.csv, self.json, self.markdown) {
            (true, _, _) => Format::Csv,
            (_, true, _) => Format::Json,
            (_, _, true) => Format::Markdown,
            _ => Format::Aligned,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Colour {
    Auto,
    Always,
    Never,
}

/// What a file to load is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DataFormat {
    Csv,
    Tsv,
    /// An object or an array of values on each line.
    Jsonl,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Header {
    /// The first line is a header when each of its fields is the name of a column.
    Auto,
    Yes,
    No,
}

/// Load a file into a table. Each row is a separate transaction, so rejected rows do not stop the
/// others: they are written to a file, each below a line with the reason.
#[derive(Clone, Debug, Args)]
pub struct LoadOptions {
    #[command(flatten)]
    pub connection: ConnectionOptions,
    /// Name of the table.
    pub table: String,
    /// The file; `-` or none is standard input. Decompressed if it is a gzip file.
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub data: DataOptions,
}

/// What the data look like and what becomes of rows that do not fit.
#[derive(Clone, Debug, Args)]
pub struct DataOptions {
    /// Format of the data [default: from the file's name, else csv].
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<DataFormat>,
    /// Whether the first line names columns; its fields are then matched by name.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Header::Auto, default_missing_value = "yes", num_args = 0..=1)]
    pub header: Header,
    /// Columns of the fields, in order [default: the header's, else all of the table's]. Columns
    /// not named get their default.
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    pub columns: Option<Vec<String>>,
    /// Character between fields, or \t [default: comma; tab for tsv].
    #[arg(long, value_name = "CHARACTER")]
    pub delimiter: Option<String>,
    /// Character around fields that contain delimiters, quotes (doubled) or line ends; empty for no
    /// quoting.
    #[arg(long, value_name = "CHARACTER", default_value = "\"")]
    pub quote: String,
    /// Unquoted text that means NULL, in addition to \N. Without this option, an empty unquoted
    /// field means NULL.
    #[arg(long, value_name = "TEXT")]
    pub null: Option<String>,
    /// Skip lines that begin with this text.
    #[arg(long, value_name = "TEXT")]
    pub comment: Option<String>,
    /// Rows to skip at the start (not counting the header), to continue a failed load.
    #[arg(long, value_name = "ROWS", default_value_t = 0)]
    pub skip: u64,
    /// Replace rows whose primary key already exists.
    #[arg(long)]
    pub upsert: bool,
    /// Stop the load after this many rejected rows.
    #[arg(long, value_name = "ROWS", default_value_t = 100)]
    pub max_errors: u64,
    /// File for rejected rows [default: the file's name, or the table's, with `.rejected`].
    #[arg(long, value_name = "FILE")]
    pub rejects: Option<PathBuf>,
    /// Rows sent to the server and not yet answered, at most.
    #[arg(long, value_name = "ROWS", default_value_t = 8192, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub outstanding: u32,
    /// Do not print a progress line.
    #[arg(long, short = 'q')]
    pub quiet: bool,
}

impl Default for DataOptions {
    fn default() -> Self {
        DataOptions {
            format: None,
            header: Header::Auto,
            columns: None,
            delimiter: None,
            quote: "\"".to_owned(),
            null: None,
            comment: None,
            skip: 0,
            upsert: false,
            max_errors: 100,
            rejects: None,
            outstanding: 8192,
            quiet: false,
        }
    }
}

/// Write schema and data as a script that `ferrite sql -f` runs. A table that fits into one answer
/// (50 MB) is read at a single point in time; larger tables are read page by page, with a note on
/// standard error. Tables are read one after another: stop all writers first to dump the whole
/// database at a single point in time.
#[derive(Clone, Debug, Args)]
pub struct DumpOptions {
    #[command(flatten)]
    pub connection: ConnectionOptions,
    /// Tables whose rows to write [default: all].
    pub tables: Vec<String>,
    /// Write only the schema.
    #[arg(long, conflicts_with = "data_only")]
    pub schema_only: bool,
    /// Write only the rows.
    #[arg(long)]
    pub data_only: bool,
    /// Write rows as INSERT statements, which other programs understand, instead of CSV blocks,
    /// which load much faster.
    #[arg(long)]
    pub inserts: bool,
    /// Where to write [default: standard output]; compressed if the name ends in .gz.
    #[arg(long, short = 'o', value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Compress the output, whatever its name.
    #[arg(long)]
    pub gzip: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_port_gets_the_usual_one() {
        for (server, address) in [
            ("127.0.0.1:21212", "127.0.0.1:21212"),
            ("db.example", "db.example:21212"),
            ("db.example:99", "db.example:99"),
            ("[::1]", "[::1]:21212"),
            ("[::1]:7", "[::1]:7"),
        ] {
            let server_only = |server: &str| ConnectionOptions {
                server: server.split(',').map(str::to_owned).collect(),
                user: String::new(),
                password: None,
                ask_password: false,
            };
            assert_eq!(server_only(server).address(), address);
            let two = server_only(&format!("{server},other"));
            assert_eq!(two.addresses(), [address, "other:21212"]);
            assert_eq!(super::server(server), Ok(server.to_owned()));
        }
    }

    #[test]
    fn what_stands_for_a_port_and_is_none_is_refused() {
        for server in ["localhost:abc", "localhost:", "localhost:65536", "localhost:0", "[::1]:x"] {
            let error = super::server(server).unwrap_err();
            assert!(error.contains("from 1 to 65535"), "{server}: {error}");
        }
        // An address of version 6 without brackets.
        assert_eq!(super::server("::1"), Ok("::1".to_owned()));
    }
}
