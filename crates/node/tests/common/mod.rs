//! A node in this process to test against, and short ways to call it.
#![allow(dead_code, reason = "each test file uses its part of this room")]

pub mod raw;

use ferrite_base::{Settings, limits};
use ferrite_client::{Client, ClientError, ClientOptions, OwnedResponse, ParameterSet, Status};
use ferrite_io::RealDisk;
use ferrite_io::simulated::SimulatedDisk;
use ferrite_node::{ConnectionLimits, Durability, Server, ServerOptions, SnapshotSettings};
use ferrite_value::OwnedValue;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Only what hangs takes so long, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Looks again and again until it holds.
pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "in vain for {what}");
        std::thread::yield_now();
    }
}

/// Voter's schema, and accounts with a total, whose transfers touch several partitions.
pub const VOTER: &str = include_str!("../../../ferrite/tests/common/voter.sql");
pub const CONTESTANTS: &str =
    "INSERT INTO contestants VALUES (1, 'Edwina'); INSERT INTO contestants VALUES (2, 'Tabatha');
    INSERT INTO area_code_state VALUES (555, 'CA'); INSERT INTO area_code_state VALUES (212, 'NY')";

/// A new database in `dir` on a free port, on a healthy disk, that does not wait for fsyncs.
pub fn options(dir: &Path, partitions: u32) -> ServerOptions {
    ServerOptions {
        dir: dir.join("data"),
        listen: "127.0.0.1:0".parse().expect("an address"),
        admin_listen: None,
        trust_clients: false,
        backup_dir: None,
        drop_migrating: false,
        connection_limits: ConnectionLimits::default(),
        partitions: Some(partitions),
        durability: Durability::None,
        decimal_scale: None,
        classes: Vec::new(),
        schema: None,
        network_threads: 2,
        memory_ahead_bytes: 0,
        disk: Arc::new(RealDisk),
        query_time_max: limits::QUERY_TIME_MAX,
        long_query_threads: 2,
        snapshots: SnapshotSettings::default(),
        recovery_threads: 2,
        settings: Settings::default(),
        runtime: Default::default(),
        cluster: Default::default(),
    }
}

/// Acknowledged is fsynced, on this disk: a test that holds its fsyncs holds the answers.
pub fn synced_on(disk: &SimulatedDisk, options: &mut ServerOptions) {
    options.disk = Arc::new(disk.clone());
    options.durability = Durability::Sync;
}

pub fn start(options: ServerOptions) -> Server {
    Server::start(options).unwrap_or_else(|error| panic!("the server did not start: {error}"))
}

pub fn connect(server: &Server) -> Db {
    connect_to(server.address())
}

/// A connection to the administration port.
pub fn connect_admin(server: &Server) -> Db {
    connect_to(server.admin_address().expect("the server has an administration port"))
}

pub fn connect_to(address: SocketAddr) -> Db {
    let options = ClientOptions::new([address.to_string()]);
    Db(Client::connect(options).expect("a server that was started takes connections"))
}

/// A client with shorter words.
#[derive(Clone)]
pub struct Db(pub Client);

impl Db {
    pub fn call(&self, procedure: &str, parameters: impl ParameterSet) -> OwnedResponse {
        self.0.call_blocking(procedure, parameters).unwrap_or_else(|error| panic!("{procedure} failed: {error}"))
    }

    /// The failed answer of a call that must fail.
    pub fn fail(&self, procedure: &str, parameters: impl ParameterSet) -> OwnedResponse {
        match self.0.call_blocking(procedure, parameters) {
            Err(ClientError::Failed(response)) => *response,
            other => panic!("{procedure} should have failed: {other:?}"),
        }
    }

    /// Checks that the call fails with this status and these words.
    pub fn fails(&self, procedure: &str, parameters: impl ParameterSet, status: Status, words: &str) {
        let response = self.fail(procedure, parameters);
        let said = text_of(&response);
        assert_eq!(response.status(), Some(status), "{procedure}: {said}");
        assert!(said.contains(words), "{procedure}: expected {words:?} in {said:?}");
    }

    pub fn sql(&self, text: &str) -> OwnedResponse {
        self.call("@AdHoc", (text,))
    }

    pub fn scalar(&self, text: &str) -> i64 {
        self.sql(text).scalar().unwrap_or_else(|| panic!("{text} is not a number"))
    }
}

pub fn text_of(response: &OwnedResponse) -> &str {
    response.status_text.as_deref().unwrap_or_default()
}

/// Votes, and votes as each of the views counts them.
pub fn votes(db: &Db) -> [i64; 3] {
    [
        db.scalar("SELECT COUNT(*) FROM votes"),
        db.scalar("SELECT COALESCE(SUM(num_votes), 0) FROM v_votes_by_phone_number"),
        db.scalar("SELECT COALESCE(SUM(num_votes), 0) FROM v_votes_by_contestant_number_state"),
    ]
}

/// The first column of the first table.
pub fn integers(response: &OwnedResponse) -> Vec<i64> {
    let integer = |row: &Vec<OwnedValue>| match row[0] {
        OwnedValue::Integer(number) => number,
        ref other => panic!("not an integer: {other:?}"),
    };
    response.tables[0].rows.iter().map(integer).collect()
}
