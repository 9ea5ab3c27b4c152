//! The command lines of `ferrite sql`, `ferrite load` and `ferrite dump`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// The port of a server that was told nothing else.
const PORT_DEFAULT: u16 = 21212;

/// Where the server is and who asks.
#[derive(Clone, Debug, Args)]
pub struct ConnectionOptions {
    /// The server.
    #[arg(long, short = 's', value_name = "HOST[:PORT]", default_value = "127.0.0.1:21212", env = "FERRITE_SERVER")]
    pub server: String,
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
    pub fn address(&self) -> String {
        let has_port = match self.server.rsplit_once(':') {
            Some((host, port)) => port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']')),
            None => false,
        };
        if has_port { self.server.clone() } else { format!("{}:{PORT_DEFAULT}", self.server) }
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
    /// Run these statements and commands and leave; may be given several times.
    #[arg(long, short = 'c', value_name = "TEXT")]
    pub command: Vec<String>,
    /// Run this file and leave (after all -c); may be given several times, `-` is standard input. Read through gzip if its
    /// name ends in .gz.
    #[arg(long, short = 'f', value_name = "FILE")]
    pub file: Vec<PathBuf>,
    /// Results as CSV, with a line of column names.
    #[arg(long, group = "format")]
    pub csv: bool,
    /// Results as JSON, an array of objects each.
    #[arg(long, group = "format")]
    pub json: bool,
    /// Results as Markdown tables.
    #[arg(long, group = "format")]
    pub markdown: bool,
    /// One line per value instead of one per row.
    #[arg(long, short = 'x')]
    pub expanded: bool,
    /// After each statement: rows, time, and whether one partition sufficed. Always on at the prompt.
    #[arg(long)]
    pub timing: bool,
    /// Go on after an error. Without it a script stops with exit code 1.
    #[arg(long)]
    pub r#continue: bool,
    /// What stands for NULL in aligned, expanded and Markdown results.
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

/// Load a file into a table. Each row is a transaction of its own, so rows that the server refuses do not stop the others:
/// they go to a file, each below a line that says why.
#[derive(Clone, Debug, Args)]
pub struct LoadOptions {
    #[command(flatten)]
    pub connection: ConnectionOptions,
    /// The table.
    pub table: String,
    /// The file; `-` or nothing is standard input. Read through gzip if it begins as gzip does.
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub data: DataOptions,
}

/// What the data look like and what becomes of rows that do not fit.
#[derive(Clone, Debug, Args)]
pub struct DataOptions {
    /// What the data are [default: by the name of the file, else csv].
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<DataFormat>,
    /// Whether the first line names columns; its fields are then matched by name.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Header::Auto, default_missing_value = "yes", num_args = 0..=1)]
    pub header: Header,
    /// The columns that the fields belong to, in order [default: the header's, else all of the table's]. Columns not
    /// named get their default.
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    pub columns: Option<Vec<String>>,
    /// Between fields: one character, or \t [default: comma, tab for tsv].
    #[arg(long, value_name = "CHARACTER")]
    pub delimiter: Option<String>,
    /// Around fields that contain delimiters, quotes (doubled) or line ends; an empty text for no quoting.
    #[arg(long, value_name = "CHARACTER", default_value = "\"")]
    pub quote: String,
    /// Unquoted text that means NULL, beside \N. An empty field without quotes means NULL unless this is given.
    #[arg(long, value_name = "TEXT")]
    pub null: Option<String>,
    /// Lines that begin with this text are skipped.
    #[arg(long, value_name = "TEXT")]
    pub comment: Option<String>,
    /// Rows to skip at the start (the header not counted), to go on where a failed load ended.
    #[arg(long, value_name = "ROWS", default_value_t = 0)]
    pub skip: u64,
    /// Replace rows whose primary key is there already.
    #[arg(long)]
    pub upsert: bool,
    /// Rejected rows after which the load stops.
    #[arg(long, value_name = "ROWS", default_value_t = 100)]
    pub max_errors: u64,
    /// Where rejected rows go [default: the file's name, or the table's, with `.rejected`].
    #[arg(long, value_name = "FILE")]
    pub rejects: Option<PathBuf>,
    /// Rows on their way to the server at any time.
    #[arg(long, value_name = "ROWS", default_value_t = 8192, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub outstanding: u32,
    /// No progress line.
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

/// Write schema and data as a script that `ferrite sql -f` runs. The rows of a table are those of one moment as long as
/// they fit into one answer (50 MB); larger tables are read page by page, which is said on standard error. Different
/// tables are read one after the other: for one moment of the whole database, stop the writers first.
#[derive(Clone, Debug, Args)]
pub struct DumpOptions {
    #[command(flatten)]
    pub connection: ConnectionOptions,
    /// Tables whose rows are written [default: all].
    pub tables: Vec<String>,
    /// Only the schema.
    #[arg(long, conflicts_with = "data_only")]
    pub schema_only: bool,
    /// Only the rows.
    #[arg(long)]
    pub data_only: bool,
    /// Rows as INSERT statements, which other programs understand, instead of blocks of CSV, which load much faster.
    #[arg(long)]
    pub inserts: bool,
    /// Where to write [default: standard output]; compressed if the name ends in .gz.
    #[arg(long, short = 'o', value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Compress, whatever the name.
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
            let options =
                ConnectionOptions { server: server.into(), user: String::new(), password: None, ask_password: false };
            assert_eq!(options.address(), address);
        }
    }
}
