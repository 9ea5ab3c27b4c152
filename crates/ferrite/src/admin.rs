//! `ferrite admin`: what an operator does now and then.

use clap::{Args, Subcommand};
use ferrite_client::{Client, ClientError, ClientOptions, Credentials, OwnedValue};
use ferrite_io::{RealDisk, SystemClock};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// A snapshot of a large database on a slow disk takes a while.
const CALL_TIME_MAX: Duration = Duration::from_secs(24 * 3_600);

#[derive(Subcommand)]
pub enum Command {
    /// Write a snapshot into the directory of a running server, and wait until it is whole.
    Snapshot(ServerAddress),
    /// Open a database that does not start because its redo log is damaged, without what cannot be read. The server must not run.
    Recover(RecoverOptions),
}

#[derive(Args)]
pub struct ServerAddress {
    /// Address and port of the server.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:21212")]
    server: String,
    /// Who logs in.
    #[arg(long, value_name = "NAME", default_value = "")]
    user: String,
    #[arg(long, value_name = "PASSWORD", default_value = "")]
    password: String,
}

#[derive(Args)]
pub struct RecoverOptions {
    /// Directory of the database.
    #[arg(long, value_name = "DATA")]
    dir: PathBuf,
    /// Cut the redo log where it cannot be read. Acknowledged transactions behind that place are lost; which, is printed and
    /// written to a file in the directory. Keep a copy of the directory first.
    #[arg(long, required = true)]
    accept_loss: bool,
}

pub fn run(command: Command) -> ExitCode {
    let outcome = match command {
        Command::Snapshot(address) => snapshot(&address),
        Command::Recover(options) => recover(&options),
    };
    match outcome {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(text) => {
            eprintln!("ferrite: {text}");
            ExitCode::FAILURE
        }
    }
}

fn snapshot(address: &ServerAddress) -> Result<String, String> {
    let options = ClientOptions {
        credentials: Credentials::new(&address.user, &address.password),
        call_timeout: CALL_TIME_MAX,
        ..ClientOptions::new([address.server.clone()])
    };
    let client = Client::connect(options).map_err(|error| format!("{}: {error}", address.server))?;
    let response = client.call_blocking("@SnapshotSave", ()).map_err(|error| match error {
        ClientError::Failed(response) => response.status_text.clone().unwrap_or_default(),
        error => error.to_string(),
    })?;
    // A row per partition: the fourth column says whether it went well, the fifth why not.
    let rows = response.tables.first().map(|table| &table.rows[..]).unwrap_or_default();
    let failure = rows.iter().find_map(|row| match (row.get(3), row.get(4)) {
        (Some(OwnedValue::Text(result)), Some(OwnedValue::Text(why))) if &**result != "SUCCESS" => {
            Some(why.to_string())
        }
        _ => None,
    });
    match failure {
        Some(why) => Err(why),
        None => Ok(response.status_text.clone().unwrap_or_default()),
    }
}

fn recover(options: &RecoverOptions) -> Result<String, String> {
    assert!(options.accept_loss, "the argument is required");
    let report = |line: &str| eprintln!("ferrite: {line}");
    let outcome = ferrite_node::accept_loss(Arc::new(RealDisk), Arc::new(SystemClock), &options.dir, &report);
    match outcome.map_err(|error| error.to_string())? {
        None => Ok("nothing is lost: the database can be opened as it is".to_owned()),
        Some((note, text)) => Ok(format!("{text}Written to {}.", note.display())),
    }
}
