//! `ferrite admin`: what an operator does, now and then or from scripts.

mod asking;
mod cluster;
mod layout;
mod status;
mod tables;

use self::layout::LayoutOptions;
use self::status::StatusOptions;
use self::tables::Table;
use clap::{Args, Subcommand};
use ferrite_client::{Client, ClientOptions, Credentials, OwnedResponse, OwnedValue, ParameterSet};
use ferrite_io::{RealDisk, SystemClock};
use ferrite_notice::Notice;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// A snapshot of a large database on a slow disk takes a while.
const CALL_TIME_MAX: Duration = Duration::from_secs(24 * 3_600);

#[derive(Subcommand)]
pub enum Command {
    /// Take a snapshot in a running server's directory, and wait until it is complete.
    Snapshot(AdminAddress),
    /// Back up the current contents of the database to a directory on the server's machine, and
    /// wait until the backup is complete. In a cluster, nodes that lead write it on their own
    /// machines.
    Backup(BackupOptions),
    /// Restore the rows of a backup into a running server: all or nothing. The server can have
    /// a different number of partitions.
    Restore(RestoreOptions),
    /// Show the progress of recovery on a server that is starting, or what a running server has
    /// recovered.
    Recovery(AdminAddress),
    /// Make a database usable again by accepting a loss. With --dir: cut off the part of a damaged
    /// redo log that cannot be read; the server must not be running. With --node: if a cluster
    /// waits for nodes that are lost for good, let this node lead with the data that it has.
    Recover(RecoverOptions),
    /// Show a cluster and its nodes: which node leads, which nodes have copies and votes, how many
    /// losses the cluster tolerates, and whether it is paused.
    Status(StatusOptions),
    /// Pause the database until it is resumed: clients may read, but only administrators may write.
    /// A cluster stays paused when its leader changes, and after a restart of all nodes.
    Pause(AdminAddress),
    /// Resume a paused database.
    Resume(AdminAddress),
    /// Transfer leadership of a cluster to another node. Calls wait meanwhile; none of them fails.
    /// This is refused while calls take longer than a second.
    Transfer(TransferOptions),
    /// Remove a lost node from the cluster for good. This is refused if the node is running or a
    /// member of the group, or if too few nodes would be left. Its vote goes to another node, and
    /// its directory cannot be used again.
    #[command(visible_alias = "remove")]
    RemoveNode(RemoveNodeOptions),
    /// Show how the partitions of a cluster would be spread over its nodes, and which nodes would
    /// lead next. No server is required.
    Layout(LayoutOptions),
}

#[derive(Args)]
pub struct AdminAddress {
    /// Address of the server, or addresses of several nodes of a cluster, separated by commas. All
    /// are tried at once, and the first in the list that answers is used; by `status`, the first
    /// that reports service. Without a port, the administration port (21211) is tried, then the
    /// client port (21212). Until a server accepts clients, only its administration port answers.
    #[arg(
        long,
        value_name = "ADDRESS[:PORT]",
        default_value = "127.0.0.1",
        env = "FERRITE_SERVER",
        value_delimiter = ',',
        value_parser = ferrite_shell::options::server
    )]
    server: Vec<String>,
    /// User name.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    user: String,
    /// Password.
    #[arg(long, value_name = "PASSWORD", default_value = "", hide_default_value = true)]
    password: String,
}

/// The ports of a server that was told nothing else: for administration, and for clients.
const PORTS: [u16; 2] = [21211, 21212];

/// Whether it ends with a port. The colons of an IPv6 address stand in brackets.
fn has_port(server: &str) -> bool {
    let found = server.rsplit_once(':').filter(|(host, _)| !host.contains(':') || host.ends_with(']'));
    found.is_some_and(|(_, port)| port.parse::<u16>().is_ok())
}

/// The servers to ask, each with its port, and as whom.
pub struct ServerAddress {
    server: Vec<String>,
    user: String,
    password: String,
}

impl From<AdminAddress> for ServerAddress {
    fn from(AdminAddress { server, user, password }: AdminAddress) -> ServerAddress {
        let with_ports = |server: String| match has_port(&server) {
            true => vec![server],
            false => PORTS.map(|port| format!("{server}:{port}")).to_vec(),
        };
        ServerAddress { server: server.into_iter().flat_map(with_ports).collect(), user, password }
    }
}

impl ServerAddress {
    /// Each server alone.
    fn each(&self) -> impl Iterator<Item = ServerAddress> {
        self.server.iter().map(|server| ServerAddress {
            server: vec![server.clone()],
            user: self.user.clone(),
            password: self.password.clone(),
        })
    }
}

#[derive(Args)]
pub struct TransferOptions {
    #[command(flatten)]
    address: AdminAddress,
    /// Number of the node that should lead [default: any node with a complete copy].
    #[arg(long, value_name = "NODE")]
    to: Option<u32>,
}

#[derive(Args)]
pub struct RemoveNodeOptions {
    #[command(flatten)]
    address: AdminAddress,
    /// Number of the lost node (see `ferrite admin status`).
    #[arg(value_name = "NODE")]
    node: u32,
}

#[derive(Args)]
pub struct BackupOptions {
    #[command(flatten)]
    server: AdminAddress,
    /// Directory on the server's machine, created if missing; inside the server's --backup-dir, if
    /// it has one.
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
    /// Name of the backup in its directory: letters, digits, `_` and `.`.
    #[arg(long, value_name = "NAME", default_value = "backup")]
    name: String,
    /// Write one CSV file per table, for other programs or `ferrite load`. Such a backup cannot be
    /// restored.
    #[arg(long)]
    csv: bool,
}

#[derive(Args)]
pub struct RestoreOptions {
    #[command(flatten)]
    server: AdminAddress,
    /// Directory on the server's machine; inside its --backup-dir, if it has one.
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
    /// Name of the backup in its directory.
    #[arg(long, value_name = "NAME", default_value = "backup")]
    name: String,
    /// Table to leave out. May be repeated.
    #[arg(long, value_name = "TABLE")]
    skip: Vec<String>,
}

#[derive(Args)]
#[group(id = "what", required = true, args = ["dir", "node"])]
pub struct RecoverOptions {
    /// Directory of the database.
    #[arg(long, value_name = "DATA")]
    dir: Option<PathBuf>,
    /// Number of the node that should lead (see `ferrite admin status`).
    #[arg(long, value_name = "NODE", conflicts_with = "dir")]
    node: Option<u32>,
    #[command(flatten)]
    address: AdminAddress,
    /// Confirm that acknowledged transactions may be lost. With --dir: the redo log is cut off at
    /// the point where it cannot be read, and a report of the loss is printed and written to a file
    /// in the directory. What is cut off is kept in a subdirectory, accepted-loss-..., which you
    /// can delete.
    #[arg(long, required = true)]
    accept_loss: bool,
    /// Take the directory out of a cluster whose other nodes are lost. It becomes a single-node
    /// database, from which a new cluster can be started. Data that only the other nodes had are
    /// lost; do not start them with their old directories again.
    #[arg(long, requires = "dir", conflicts_with = "node")]
    leave_cluster: bool,
}

pub fn run(command: Command) -> ExitCode {
    let outcome = match command {
        Command::Snapshot(address) => snapshot(&address.into()),
        Command::Backup(options) => backup(options),
        Command::Restore(options) => restore(options),
        Command::Recovery(address) => recovery(&address.into()),
        Command::Recover(RecoverOptions { accept_loss, dir, node, address, leave_cluster }) => {
            assert!(accept_loss, "the argument is required");
            match (dir, node) {
                (Some(dir), None) if leave_cluster => leave(&dir),
                (Some(dir), None) => recover(&dir),
                (_, Some(node)) => cluster::accept_loss(&address.into(), node),
                (None, None) => unreachable!("one of them is required"),
            }
        }
        Command::Status(options) => return status::run(options),
        Command::Pause(address) => call(&address.into(), "@Pause", ()).map(|_| "the database is paused".to_owned()),
        Command::Resume(address) => call(&address.into(), "@Resume", ()).map(|_| "the database is resumed".to_owned()),
        Command::Transfer(TransferOptions { address, to }) => cluster::transfer(&address.into(), to),
        Command::RemoveNode(RemoveNodeOptions { address, node }) => cluster::remove_node(&address.into(), node),
        Command::Layout(options) => layout::show(&options),
    };
    match outcome {
        Ok(text) => {
            ferrite_io::outln!("{text}");
            ExitCode::SUCCESS
        }
        Err(text) => {
            ferrite_io::errln!("ferrite: {text}");
            ExitCode::FAILURE
        }
    }
}

fn snapshot(address: &ServerAddress) -> Result<String, String> {
    let response = call(address, "@SnapshotSave", ())?;
    Ok(response.status_text.clone().unwrap_or_default())
}

fn backup(options: BackupOptions) -> Result<String, String> {
    let server = options.server.into();
    let directory = on_the_server(&server, &options.directory)?;
    let format = if options.csv { "csv" } else { "native" };
    let settings =
        format!("{{path:{},nonce:{},block:true,format:{format}}}", quoted(&directory), quoted(&options.name));
    let response = call(&server, "@SnapshotSave", (settings,))?;
    let nodes = nodes_of(&response);
    let words = response.status_text.as_ref().map_or_else(String::new, |words| format!("; {words}"));
    Ok(match nodes.is_empty() {
        false => format!("backup {} is complete on {}, in {directory}{words}", options.name, nodes.join(", ")),
        true => format!("backup {} is complete in {directory}{words}", options.name),
    })
}

fn restore(options: RestoreOptions) -> Result<String, String> {
    let server = options.server.into();
    let directory = on_the_server(&server, &options.directory)?;
    let skipped: Vec<String> = options.skip.iter().map(|table| quoted(table)).collect();
    let settings =
        format!("{{path:{},nonce:{},skiptables:[{}]}}", quoted(&directory), quoted(&options.name), skipped.join(","));
    let response = call(&server, "@SnapshotRestore", (settings,))?;
    let mut tables: Vec<&str> = Vec::new();
    for row in response.tables.first().map(|table| &table.rows[..]).unwrap_or_default() {
        if let Some(OwnedValue::Text(table)) = row.get(3)
            && !tables.contains(&&**table)
        {
            tables.push(table);
        }
    }
    let from = match (&response.status_text, node_of(&response)) {
        // Of several groups: files were read on several machines.
        (Some(words), _) => format!(" from {directory} ({words})"),
        (None, Some(node)) => format!(" from {directory} on {node}"),
        (None, None) => String::new(),
    };
    Ok(format!("restored {} tables{from}: {}", tables.len(), tables.join(", ")))
}

/// The nodes of a cluster that have answered, on whose machines the files lie: `node 1 (db1)`. None
/// of a server without others.
fn nodes_of(response: &OwnedResponse) -> Vec<String> {
    let table = response.tables.first().map(Table::of).unwrap_or_default();
    let mut nodes = BTreeMap::new();
    for row in 0..table.len() {
        if let Some(node) = table.number(row, "HOST_ID").filter(|node| *node > 0) {
            nodes.entry(node).or_insert_with(|| format!("node {node} ({})", table.text(row, "HOSTNAME")));
        }
    }
    nodes.into_values().collect()
}

fn node_of(response: &OwnedResponse) -> Option<String> {
    nodes_of(response).into_iter().next()
}

/// The directory as the server understands it, which has another working directory: one that is not
/// absolute goes by the server's own for backups, if it has one.
fn on_the_server(server: &ServerAddress, path: &Path) -> Result<String, String> {
    let absolute = if path.is_absolute() {
        path.to_path_buf()
    } else {
        match backup_dir(server)? {
            Some(root) => root.join(path),
            None => std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))?,
        }
    };
    absolute.to_str().map(str::to_owned).ok_or_else(|| format!("{} is not valid UTF-8", path.display()))
}

/// The server's `--backup-dir`.
fn backup_dir(server: &ServerAddress) -> Result<Option<PathBuf>, String> {
    let response = call(server, "@SystemInformation", ("DEPLOYMENT",))?;
    let rows = response.tables.first().map(|table| &table.rows[..]).unwrap_or_default();
    Ok(rows.iter().find_map(|row| match &row[..] {
        [OwnedValue::Text(name), OwnedValue::Text(value)] if &**name == "backupdir" => Some(PathBuf::from(&**value)),
        _ => None,
    }))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Connects to the first server in the list that takes the client; its address.
fn connect(address: &ServerAddress, call_timeout: Duration) -> Result<(Client, String), String> {
    let connect = move |address: ServerAddress| {
        let server = address.server.join(",");
        let options = ClientOptions {
            credentials: Credentials::new(&address.user, &address.password),
            call_timeout,
            ..ClientOptions::new(address.server)
        };
        let client = Client::connect(options).map_err(|error| match format!("{server}: {error}") {
            said if said.contains(TOO_MANY) => {
                format!(
                    "{said}. Its administration port, if it has one (--admin-listen), keeps room for administrators"
                )
            }
            said => said,
        })?;
        Ok((client, server))
    };
    asking::first_of(address.each(), connect, |_| true)
}

/// Calls a procedure that takes a while, whose answer has a column that says how each part of it
/// went.
fn call(address: &ServerAddress, procedure: &str, parameters: impl ParameterSet) -> Result<OwnedResponse, String> {
    call_within(CALL_TIME_MAX, address, procedure, parameters)
}

/// The same, where the answer comes soon or not at all.
fn call_within(
    time: Duration,
    address: &ServerAddress,
    procedure: &str,
    parameters: impl ParameterSet,
) -> Result<OwnedResponse, String> {
    let (client, server) = connect(address, time)?;
    let response = client.call_blocking(procedure, parameters).map_err(|error| match error.to_string() {
        refused if refused.contains(FOR_ADMINISTRATORS) => format!(
            "{refused} at {server}: give --server the address of the administration port (--admin-listen of that node)"
        ),
        error => error,
    })?;
    let failure = response.tables.first().and_then(|table| {
        let result = table.column_index("RESULT")?;
        let why = table.column_index("ERR_MSG")?;
        table.rows.iter().find_map(|row| match (&row[result], &row[why]) {
            (OwnedValue::Text(result), OwnedValue::Text(why)) if &**result != "SUCCESS" => Some(why.to_string()),
            _ => None,
        })
    });
    failure.map_or(Ok(response), Err)
}

/// What a server says that has as many connections as it takes.
const TOO_MANY: &str = "too many connections";

/// A server that has an administration port says so at the other one.
const FOR_ADMINISTRATORS: &str = "is not available to this client";

/// A line for each figure: how far it is, then what was found.
fn recovery(address: &ServerAddress) -> Result<String, String> {
    let response = call(address, "@Statistics", ("RECOVERY", 0i32))?;
    let mut lines = Vec::new();
    for table in &response.tables {
        for row in &table.rows {
            // The clock and the host are not figures of the recovery.
            let figures = table.columns.iter().zip(row).filter(|((name, _), _)| !BASE_COLUMNS.contains(&&**name));
            lines.extend(figures.filter_map(|((name, _), value)| {
                let text = match value {
                    OwnedValue::Integer(number) => number.to_string(),
                    OwnedValue::Text(text) if !text.is_empty() => text.to_string(),
                    _ => return None,
                };
                Some(format!("{:24} {text}", name.to_lowercase().replace('_', " ")))
            }));
        }
    }
    Ok(lines.join("\n"))
}

const BASE_COLUMNS: [&str; 3] = ["TIMESTAMP", "HOST_ID", "HOSTNAME"];

fn recover(dir: &Path) -> Result<String, String> {
    let report = |notice: Notice| ferrite_io::errln!("ferrite: {notice}");
    let outcome = ferrite_member::accept_loss(Arc::new(RealDisk), Arc::new(SystemClock), dir, &report);
    outcome.map_err(|error| error.to_string())
}

fn leave(dir: &Path) -> Result<String, String> {
    let report = |notice: Notice| ferrite_io::errln!("ferrite: {notice}");
    let outcome = ferrite_member::leave_cluster(Arc::new(RealDisk), Arc::new(SystemClock), dir, &report);
    outcome.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_port_both_are_tried_that_a_server_has_unless_told_otherwise() {
        let servers = ["db1", "db2:4000", "[::1]", "[::1]:5", "::1"].map(str::to_owned).to_vec();
        let address = AdminAddress { server: servers, user: "u".to_owned(), password: String::new() };
        let address = ServerAddress::from(address);
        let expected = ["db1:21211", "db1:21212", "db2:4000", "[::1]:21211", "[::1]:21212", "[::1]:5"];
        assert_eq!(address.server[..6], expected);
        let each: Vec<ServerAddress> = address.each().collect();
        assert_eq!((each.len(), &each[2].server[..], &*each[2].user), (8, &["db2:4000".to_owned()][..], "u"));
    }
}
