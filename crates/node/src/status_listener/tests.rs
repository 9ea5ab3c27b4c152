//! A client of ours at the door, while a recovery is imagined.

use super::*;
use ferrite_base::limits;
use ferrite_client::{Client, ClientOptions};
use ferrite_io::simulated::SimulatedClock;
use ferrite_value::OwnedValue;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn port() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// At the administration port.
fn during<T>(visit: impl FnOnce(SocketAddr) -> T) -> T {
    let ((mut admin, address), (mut clients, _)) = (port(), port());
    recovering(Ports { clients: &mut clients, admin: Some(&mut admin) }, || visit(address))
}

fn recovering<T>(ports: Ports<'_>, visit: impl FnOnce() -> T) -> T {
    let (progress, clock) = (RecoveryProgress::default(), SimulatedClock::default());
    open_during(ports, Meanwhile::Recovers(&progress, &clock, &|| None), "test", visit)
}

/// The error that our client gets at the clients' port.
fn refusal(address: SocketAddr) -> String {
    let error = Client::connect(ClientOptions::new([address.to_string()])).err().expect("the login is refused");
    assert_eq!(error.code(), "57P03", "{error}");
    error.to_string().split_once("is not open yet: ").expect("why").1.to_owned()
}

#[test]
fn a_client_is_refused_at_once_and_told_why() {
    let (mut clients, address) = port();
    let ports = Ports { clients: &mut clients, admin: None };
    let (progress, clock, waits) = (RecoveryProgress::default(), SimulatedClock::default(), AtomicBool::new(false));
    let awaits = || waits.load(Ordering::SeqCst).then(|| (Vec::new(), "node 2 (db2:3021)".to_owned()));
    open_during(ports, Meanwhile::Recovers(&progress, &clock, &awaits), "test", || {
        assert_eq!(refusal(address), "the database is not open yet; recovering: it has just begun");
        waits.store(true, Ordering::SeqCst);
        assert_eq!(refusal(address), "this node is in no cluster yet: it waits for node 2 (db2:3021)");
        waits.store(false, Ordering::SeqCst);
        assert!(refusal(address).contains("recovering"));
    });
    let ports = Ports { clients: &mut clients, admin: None };
    let waits_for = || "waiting for a majority".to_owned();
    open_during(ports, Meanwhile::Waits(&Vec::new, &waits_for), "test", || {
        assert_eq!(refusal(address), "this node is waiting for a majority");
    });
}

#[test]
fn a_client_that_has_connected_as_the_node_opens_is_told_to_connect_again() {
    let (mut clients, address) = port();
    let ports = Ports { clients: &mut clients, admin: None };
    let mut client = recovering(ports, || {
        let client = std::net::TcpStream::connect(address).unwrap();
        refusal(address);
        client
    });
    let digest = [0; 32];
    let (scheme, service) = (login::HashScheme::Sha256, login::Service::Database);
    let mut frame = Vec::new();
    LoginRequest { version: 1, scheme, service, user: "", digest: &digest }.write(&mut frame);
    client.write_all(&frame).unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    let refused = login::LoginResponse::parse(&answer[4..]);
    assert_eq!(refused, Ok(login::LoginResponse::Refused { code: 4, reason: Some(JUST_OPENED) }));
}

#[test]
fn clients_that_say_nothing_give_way_to_those_that_come() {
    let (mut clients, address) = port();
    recovering(Ports { clients: &mut clients, admin: None }, || {
        let silent = || std::net::TcpStream::connect(address).unwrap();
        let mut first = silent();
        // At the limit it is there; one more, and it is not.
        let mut others: Vec<_> = (1..limits::UNOPENED_CONNECTIONS_MAX).map(|_| silent()).collect();
        first.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert!(first.read(&mut [0; 1]).is_err(), "nothing has come");
        others.push(silent());
        first.set_read_timeout(None).unwrap();
        assert_eq!(first.read(&mut [0; 1]).unwrap_or(0), 0, "it was closed");
        refusal(address);
    });
}

#[test]
fn who_asks_hears_how_far_it_is_and_everything_else_is_refused() {
    during(|address| {
        let client = Client::connect(ClientOptions::new([address.to_string()])).expect("the door is open");
        let response = client.call_blocking("@Statistics", ("recovery", 0i32)).expect("an answer");
        assert_eq!(response.tables[0].rows[0][0], OwnedValue::Text("RECOVERING".into()));
        for procedure in ["@Ping", "@SystemInformation", "Vote"] {
            let error = client.call_blocking(procedure, ()).expect_err("nothing else goes").to_string();
            assert!(error.contains("not open yet; recovering: it has just begun"), "{error}");
        }
    });
}

#[test]
fn an_operator_sees_the_cluster_while_the_node_waits_for_others() {
    let ((mut admin, address), (mut clients, _)) = (port(), port());
    let ports = Ports { clients: &mut clients, admin: Some(&mut admin) };
    let waits_for = || "waiting for node 2".to_owned();
    let status = || vec![SystemTable::new(&[("NODE", ferrite_value::SqlType::Integer)])];
    open_during(ports, Meanwhile::Waits(&status, &waits_for), "test", || {
        let client = Client::connect(ClientOptions::new([address.to_string()])).expect("the door is open");
        let response = client.call_blocking("@ClusterStatus", ()).expect("an answer");
        assert_eq!(response.tables[0].columns[0].0, "NODE");
        let error = client.call_blocking("Vote", ()).expect_err("nothing else goes").to_string();
        assert!(error.contains("does not take part in its cluster yet: this node is waiting for node 2"), "{error}");
    });
}

#[test]
fn strange_visitors_do_not_keep_the_recovery() {
    during(|address| {
        let mut visitors = Vec::new();
        // A frame that never ends, no protocol at all, one that says nothing, and more than there
        // is room for.
        for sent in [&[0, 0, 1, 0, 7][..], b"GET / HTTP/1.1\r\n\r\n", b""].into_iter().cycle().take(40) {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            let _ = stream.write_all(sent);
            visitors.push(stream);
        }
        drop(visitors);
        // Until it has noticed that they are gone there may be no room.
        let deadline = Instant::now() + Duration::from_secs(60);
        let client = loop {
            match Client::connect(ClientOptions::new([address.to_string()])) {
                Ok(client) => break client,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
        };
        client.call_blocking("@Statistics", ("RECOVERY", 0i32)).expect("an answer");
    });
}

#[test]
fn who_asks_as_it_ends_is_told_to_ask_again() {
    let connect = |address: SocketAddr| Client::connect(ClientOptions::new([address.to_string()]));
    let client = during(|address| connect(address).expect("the door is open"));
    let error = client.call_blocking("@ClusterStatus", ()).expect_err("it has ended");
    assert!(error.code() == "57P03" && error.to_string().contains("connect and call again"), "{error}");
}

#[test]
fn connections_end_after_the_recovery_and_the_listener_goes_on() {
    let ((mut admin, address), (mut clients, _)) = (port(), port());
    let ports = Ports { clients: &mut clients, admin: Some(&mut admin) };
    let mut visitor = recovering(ports, || std::net::TcpStream::connect(address).unwrap());
    // Either it was taken and is closed now, or it waits for the next listener.
    let second = recovering(Ports { clients: &mut clients, admin: Some(&mut admin) }, || {
        Client::connect(ClientOptions::new([address.to_string()])).map(drop).map_err(|error| error.to_string())
    });
    assert_eq!(second, Ok(()));
    assert_eq!(visitor.read(&mut [0; 1]).unwrap_or(0), 0, "nobody asked, so nobody answers");
}
