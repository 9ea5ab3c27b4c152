//! The doors of a server process: the administration port, and what happens when no more
//! connections can be had.

mod common;

use common::Server;
use ferrite_client::{Client, ClientOptions};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

#[test]
fn the_administration_port_is_where_it_was_asked_for() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Server::start(dir.path(), &[]);
    assert!(!server.ready_line.contains("administration"), "{}", server.ready_line);
    server.connect().call("@Pause", ());
    server.stop();
    let server = Server::start(dir.path(), &["--admin-listen", "127.0.0.1:0"]);
    let line = server.ready_line.trim_end().strip_suffix(')').expect("the line ends with a parenthesis");
    let (_, address) = line.split_once(", administration on ").unwrap_or_else(|| panic!("{line}"));
    assert!(server.connect().0.call_blocking("@Pause", ()).is_err());
    let admin = Client::connect(ClientOptions::new([address])).expect("the administration port takes connections");
    admin.call_blocking("@Pause", ()).expect("an administrator may");
    server.stop();
    let server = Server::start(dir.path(), &["--admin-listen", "none"]);
    assert!(!server.ready_line.contains("administration"), "{}", server.ready_line);
    server.stop();
    let server = Server::start(dir.path(), &["--admin-listen", "localhost:0"]);
    assert!(server.ready_line.contains("administration on 127.0.0.1:"), "{}", server.ready_line);
    server.stop();
    let refused = Server::try_start(dir.path(), &["--admin-listen", "everywhere"]).err().expect("no address");
    assert!(refused.contains("say an address and a port, such as") && refused.contains("; or none"), "{refused}");
}

/// Where no more connections are taken, administrators have some of their own.
#[test]
fn idle_clients_do_not_lock_the_administrator_out() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Server::start(dir.path(), &["--admin-listen", "127.0.0.1:0", "--limit", "connections=3"]);
    let (_, admin) = server.ready_line.split_once("administration on ").expect("it has an administration port");
    let admin = admin.trim_end().trim_end_matches(')');
    let connect = || Client::connect(ClientOptions::new([&server.address])).expect("the server takes connections");
    let clients: Vec<Client> = (0..3).map(|_| connect()).collect();
    let recovery = |address: &str| {
        let ferrite = Command::new(env!("CARGO_BIN_EXE_ferrite"))
            .args(["admin", "recovery", "--server", address])
            .output()
            .expect("the program under test can be started");
        (ferrite.status.success(), String::from_utf8_lossy(&ferrite.stderr).into_owned())
    };
    let (done, said) = recovery(&server.address);
    assert!(!done && said.contains("too many connections. Its administration port"), "{said}");
    assert_eq!(recovery(admin), (true, String::new()));
    drop(clients);
    server.stop();
}

/// Numbers of the descriptors that a process has open.
fn descriptors(process: u32) -> Vec<u64> {
    let listed =
        std::fs::read_dir(Path::new("/proc").join(process.to_string()).join("fd")).expect("the process is there");
    listed
        .map(|entry| entry.expect("an entry").file_name().to_str().expect("a number").parse().expect("a number"))
        .collect()
}

/// Those who come when there are no file descriptors wait, the others go on, and when some are
/// closed the next are taken.
#[test]
fn connections_wait_while_there_are_no_file_descriptors() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Server::start(dir.path(), &["--network-threads", "2"]);
    let db = server.connect();
    let process = Pid::from_raw(server.id() as i32);
    let maximum = getrlimit(Resource::Nofile).maximum;
    // The limit is on numbers, not on how many there are: gaps below the highest are free as well.
    let few = descriptors(server.id()).into_iter().max().expect("some are open") + 6;
    prlimit(process, Resource::Nofile, Rlimit { current: Some(few), maximum }).expect("limits can be set");
    // The kernel takes them for the server; a few of them reach it, never as many as may be open.
    let mut many: Vec<TcpStream> =
        (0..few).map(|_| TcpStream::connect(&server.address).expect("the kernel takes connections")).collect();
    // Another one waits behind them, until there is room again.
    let address = server.address.clone();
    let late = std::thread::spawn(move || Client::connect(ClientOptions::new([&address])));
    for _ in 0..1_000 {
        db.call("@Ping", ());
    }
    assert!(descriptors(server.id()).into_iter().all(|number| number < few));
    assert!(!late.is_finished(), "it cannot have been taken");
    many.drain(..).for_each(drop);
    let late = late.join().expect("no panic").expect("it is taken when others are closed");
    late.call_blocking("@Ping", ()).expect("and answered");
    server.stop();
}
