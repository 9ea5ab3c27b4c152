//! What anybody who can connect may try (docs/decisions/0016-strangers.md): the server stays within its means, others are served meanwhile,
//! and when it is over all is as before, without a restart.

mod common;

use common::{Db, Server};
use ferrite_client::{Client, ClientOptions};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);
const MEBIBYTE: usize = 1 << 20;

/// A server with a table for large values.
fn blobs(server: Server) -> (Server, Db) {
    let db = server.connect();
    db.sql(
        "CREATE TABLE blob (id BIGINT NOT NULL, bytes VARBINARY(1048576) NOT NULL, PRIMARY KEY (id));
        PARTITION TABLE blob ON COLUMN id",
    );
    (server, db)
}

fn try_connect(address: &str) -> Option<Db> {
    Client::connect(ClientOptions::new([address])).ok().map(Db)
}

/// Connections that take all file descriptors leave those that the log needs, and that administrators do.
#[test]
fn connections_do_not_take_the_descriptors_of_the_log() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let data = dir.path().join("data");
    let options = ["--durability", "none", "--admin-listen", "127.0.0.1:0", "--partitions", "1"];
    let (server, db) = blobs(Server::start_with_descriptors(128, &data, &options));
    let idle: Vec<TcpStream> =
        (0..200).map(|_| TcpStream::connect(&server.address).expect("the system takes connections")).collect();
    // Two segments more, of 64 MiB each.
    let value = vec![7u8; MEBIBYTE];
    for _ in 0..140 {
        db.call("BLOB.upsert", (1i64, &value[..]));
    }
    assert!(Path::new(&data).join("redo-0000000003.log").is_file(), "the log went on");
    assert!(try_connect(&server.address).is_none(), "there are as many connections as may be");
    assert_eq!(
        try_connect(server.admin_address()).expect("administrators come in").call("@Ping", ()).scalar(),
        Some(0)
    );
    drop(idle);
    let began = Instant::now();
    while try_connect(&server.address).is_none() {
        assert!(began.elapsed() < PATIENCE, "places of closed connections are not free");
    }
    db.call("BLOB.upsert", (2i64, &value[..]));
    server.stop();
}
