//! The server under test with a client for everything around the load: schema, initial data,
//! questions afterwards.

use crate::cluster::patiently;
use crate::cluster_process::ClusterProcess;
use crate::error::{BenchError, BenchResult, Doing};
use crate::options::TargetOptions;
use crate::process::{ServerCommand, ServerProcess, Usage, end_all_now, usage};
use crate::progress::with_progress;
use crate::statements::statements;
use ferrite_client::{Client, ClientError, ClientOptions, OwnedResponse, OwnedTable, ParameterSet};
use ferrite_value::OwnedValue;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// In the environment of a program that `ferrite` starts to do a bench: the path of `ferrite`.
pub const PROGRAM_VARIABLE: &str = "FERRITE_PROGRAM";

/// What a run needs from outside: the program that is also the server, and a wish to stop early.
#[derive(Clone, Debug)]
pub struct Environment {
    /// `ferrite` itself.
    pub executable: PathBuf,
    /// Set when the load is to end before its time.
    pub stop: Arc<AtomicBool>,
}

impl Environment {
    /// This very program; SIGINT and SIGTERM end the load early, and a second one the program at
    /// once, servers and temporary directories included.
    pub fn of_this_process() -> BenchResult<Environment> {
        Self::with_server(own_executable()?)
    }

    /// A program that `ferrite` has started; else the `ferrite` beside it. Signals as in
    /// [`Self::of_this_process`].
    pub fn of_companion_program() -> BenchResult<Environment> {
        Self::with_server(match std::env::var_os(PROGRAM_VARIABLE) {
            Some(program) => program.into(),
            None => own_executable()?.with_file_name("ferrite"),
        })
    }

    fn with_server(executable: PathBuf) -> BenchResult<Environment> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut signals = Signals::new([SIGINT, SIGTERM]).doing("installing a signal handler")?;
        let flag = Arc::clone(&stop);
        let obey = move || {
            for _ in signals.forever() {
                if flag.swap(true, Ordering::Relaxed) {
                    // The user has no more patience. Nothing unwinds from here.
                    end_all_now();
                    crate::scoreboard::give_terminal_back();
                    std::process::exit(130);
                }
            }
        };
        thread::Builder::new().name("signals".to_string()).spawn(obey).doing("starting a thread")?;
        Ok(Environment { executable, stop })
    }
}

/// The file of this program.
pub fn own_executable() -> BenchResult<PathBuf> {
    std::env::current_exe().doing("looking for the own executable")
}

pub struct Session {
    started: Started,
    address: String,
    client: Client,
    /// Of a cluster: calls wait until it has a leader.
    is_patient: bool,
}

/// What was started for the run, and ends with it.
enum Started {
    Nothing,
    Server(ServerProcess),
    Cluster(Box<ClusterProcess>),
}

fn client_options(addresses: &[String]) -> ClientOptions {
    ClientOptions {
        // Counting millions of rows takes its time.
        call_timeout: Duration::from_secs(600),
        connection_timeout: Duration::from_secs(600),
        ..ClientOptions::new(addresses)
    }
}

/// `address`: one, or several separated by commas.
fn client(address: &str) -> BenchResult<Client> {
    let addresses: Vec<String> = address.split(',').map(str::to_string).collect();
    Client::connect(client_options(&addresses)).doing("connecting")
}

/// What the server says about its log.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Fsyncs {
    pub count: u64,
    pub median_microseconds: Option<f64>,
}

impl Session {
    /// Connects to the server named, or starts one.
    pub fn open(environment: &Environment, target: &TargetOptions) -> BenchResult<Session> {
        match &target.server[..] {
            [] => {}
            [address] => return Self::connect(Started::Nothing, address.clone()),
            addresses => return Self::to_cluster(client_options(addresses)),
        }
        if let Some(nodes) = target.nodes {
            let start = || ClusterProcess::start(&environment.executable, nodes.into(), target);
            let cluster = with_progress("starting the cluster", start)?;
            let address = cluster.addresses();
            let session = Self::connect(Started::Cluster(Box::new(cluster)), address)?;
            return Ok(Session { is_patient: true, ..session });
        }
        let command = ServerCommand {
            executable: environment.executable.clone(),
            directory: target.dir.clone(),
            durability: target.durability.clone(),
            partitions: target.partitions,
        };
        let process = with_progress("starting the server", || ServerProcess::start(&command))?;
        let address = process.address().to_string();
        Self::connect(Started::Server(process), address)
    }

    /// The yardstick, with room for this many votes.
    pub fn open_limit(environment: &Environment, rows: usize) -> BenchResult<Session> {
        let process = ServerProcess::start_limit(&environment.executable, rows)?;
        let address = process.address().to_string();
        Self::connect(Started::Server(process), address)
    }

    /// Connects to all nodes of a cluster. What cannot be executed while it looks for a leader is
    /// repeated.
    pub fn to_cluster(options: ClientOptions) -> BenchResult<Session> {
        let address = options.addresses.join(",");
        let client = Client::connect(options).doing("connecting")?;
        Ok(Session { started: Started::Nothing, address, client, is_patient: true })
    }

    /// Connects to a server that somebody else looks after.
    pub fn to(address: &str) -> BenchResult<Session> {
        Self::connect(Started::Nothing, address.to_string())
    }

    fn connect(started: Started, address: String) -> BenchResult<Session> {
        let client = client(&address)?;
        Ok(Session { started, address, client, is_patient: false })
    }

    /// A client with connections of its own.
    pub fn another_client(&self) -> BenchResult<Client> {
        client(&self.address)
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// What the server said of itself when it was started here, without its addresses, which are
    /// others each time; else where it is.
    pub fn description(&self) -> String {
        match &self.started {
            Started::Server(process) => {
                let line = process.ready_line();
                let said = line.split_once('(').map_or(line, |(_, rest)| rest.trim_end_matches(')'));
                said.split(", administration").next().unwrap_or(said).to_string()
            }
            Started::Cluster(cluster) => cluster.description(),
            Started::Nothing => self.address.clone(),
        }
    }

    /// The line above a run: the server in its own words, with its address.
    pub fn heading(&self) -> String {
        match &self.started {
            Started::Server(process) => process.ready_line().to_string(),
            Started::Cluster(cluster) => format!("{}, at {}", cluster.description(), self.address),
            Started::Nothing => self.address.clone(),
        }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The one server that was started here.
    pub fn process(&self) -> Option<&ServerProcess> {
        match &self.started {
            Started::Server(process) => Some(process),
            Started::Nothing | Started::Cluster(_) => None,
        }
    }

    /// Of the process that answers clients, if it was started here: a server, a cluster's leader.
    pub fn usage(&self) -> Option<Usage> {
        match &self.started {
            Started::Nothing => None,
            Started::Server(process) => usage(process.id()),
            Started::Cluster(cluster) => cluster.leader_usage(),
        }
    }

    /// Of each process that was started here, with the part that it plays.
    pub fn usage_by_node(&self) -> Vec<(String, Option<Usage>)> {
        match &self.started {
            Started::Nothing => Vec::new(),
            Started::Server(process) => vec![("server".to_string(), usage(process.id()))],
            Started::Cluster(cluster) => cluster.usage_by_node(),
        }
    }

    /// Ends what was started here.
    pub fn close(self) -> BenchResult<()> {
        self.client.close();
        match self.started {
            Started::Nothing => Ok(()),
            Started::Server(process) => with_progress("stopping the server", || process.stop()),
            Started::Cluster(cluster) => with_progress("stopping the cluster", || cluster.stop()),
        }
    }

    /// Calls a procedure and returns its tables.
    pub fn call(&self, procedure: &str, parameters: impl ParameterSet) -> BenchResult<Vec<OwnedTable>> {
        Ok(self.execute(procedure, parameters, false).doing(format_args!("calling {procedure}"))?.tables)
    }

    /// The same with a procedure that only reads. On a cluster it may be executed twice.
    pub fn read(&self, procedure: &str, parameters: impl ParameterSet) -> BenchResult<Vec<OwnedTable>> {
        Ok(self.execute(procedure, parameters, true).doing(format_args!("calling {procedure}"))?.tables)
    }

    fn execute(
        &self,
        procedure: &str,
        parameters: impl ParameterSet,
        twice: bool,
    ) -> Result<OwnedResponse, ClientError> {
        if self.is_patient {
            patiently(&self.client, procedure, parameters, twice)
        } else {
            self.client.call_blocking(procedure, parameters)
        }
    }

    /// Runs a query and returns its first table. On a cluster it may be executed twice.
    pub fn query(&self, sql: &str) -> BenchResult<OwnedTable> {
        let response = with_progress(sql, || self.execute("@AdHoc", (sql,), true)).doing(sql)?;
        response.tables.into_iter().next().ok_or_else(|| BenchError::Server(format!("no result table for: {sql}")))
    }

    /// The one number that a query returns; a sum over no rows, which is null, counts as 0.
    pub fn query_number(&self, sql: &str) -> BenchResult<i64> {
        number_of(&self.query(sql)?, sql)
    }

    /// What a query returns of partitioned tables, in one table or, where several nodes may lead,
    /// in one of each partition: rows of several groups of partitions cannot be aggregated there.
    pub fn query_partitions(&self, sql: &str) -> BenchResult<Vec<OwnedTable>> {
        if !self.may_have_several_groups() {
            return Ok(vec![self.query(sql)?]);
        }
        self.query_each_partition(sql)
    }

    /// Whether several nodes may lead, each a part of the partitions.
    pub fn may_have_several_groups(&self) -> bool {
        self.address.contains(',')
    }

    /// What a query returns of each partition by itself: one moment as long as nothing is written.
    pub fn query_each_partition(&self, sql: &str) -> BenchResult<Vec<OwnedTable>> {
        let of_key = |key: i64| {
            let answer = self.execute("@AdHocSpForTest", (sql, key), true).doing(sql)?;
            let table = answer.tables.into_iter().next();
            table.ok_or_else(|| BenchError::Server(format!("no result table for: {sql}")))
        };
        self.partition_keys()?.into_iter().map(of_key).collect()
    }

    /// A number that belongs to each partition.
    pub fn partition_keys(&self) -> BenchResult<Vec<i64>> {
        let tables = self.read("@GetPartitionKeys", ("INTEGER",))?;
        let key = |row: &Vec<OwnedValue>| match row.as_slice() {
            [_, OwnedValue::Integer(key)] => Ok(*key),
            other => Err(BenchError::Server(format!("not a partition and its key: {other:?}"))),
        };
        tables.first().map_or(&[][..], |table| &table.rows).iter().map(key).collect()
    }

    /// The sum of the one number that a query returns of each partition.
    pub fn sum_partitions(&self, sql: &str) -> BenchResult<i64> {
        self.query_partitions(sql)?.iter().map(|table| number_of(table, sql)).sum()
    }

    /// Runs the statements of an SQL file, one by one.
    pub fn run_statements(&self, text: &str) -> BenchResult<()> {
        for statement in statements(text) {
            let first_line = statement.lines().next().unwrap_or_default();
            with_progress(first_line, || self.execute("@AdHoc", (statement,), false)).doing(first_line)?;
        }
        Ok(())
    }

    /// Fsyncs of the server so far. None when it does not tell.
    pub fn fsyncs(&self) -> Option<Fsyncs> {
        let tables = self.client.call_blocking("@SystemInformation", ("OVERVIEW",)).ok()?.tables;
        let table = tables.first()?;
        let key = table.column_index("KEY")?;
        let value = table.column_index("VALUE")?;
        let find = |name: &str| {
            let text = |value: &OwnedValue| match value {
                OwnedValue::Text(text) => Some(text.to_string()),
                _ => None,
            };
            table.rows.iter().find(|row| text(&row[key]).as_deref() == Some(name)).and_then(|row| text(&row[value]))
        };
        let count = find("FSYNC_COUNT")?.parse().ok()?;
        let median_microseconds = find("FSYNC_MEDIAN_MICROSECONDS").and_then(|text| text.parse().ok());
        Some(Fsyncs { count, median_microseconds })
    }

    /// Bytes of rows, indexes and views by the server's own account. None when it does not tell.
    pub fn accounted_bytes(&self) -> Option<u64> {
        let tables = self.client.call_blocking("@Statistics", ("MEMORY", 0)).ok()?.tables;
        let table = tables.first()?;
        let mut kilobytes = 0u64;
        for name in ["TUPLEALLOCATED", "INDEXMEMORY", "STRINGMEMORY"] {
            let column = table.column_index(name)?;
            for row in &table.rows {
                let OwnedValue::Integer(number) = row.get(column)? else {
                    return None;
                };
                kilobytes += u64::try_from(*number).ok()?;
            }
        }
        (kilobytes > 0).then_some(kilobytes * 1024)
    }
}

fn number_of(table: &OwnedTable, sql: &str) -> BenchResult<i64> {
    match table.rows.first().and_then(|row| row.first()) {
        Some(OwnedValue::Integer(number)) => Ok(*number),
        Some(OwnedValue::Null) => Ok(0),
        _ => Err(BenchError::Server(format!("no number came back for: {sql}"))),
    }
}
