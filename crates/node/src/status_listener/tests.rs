//! A client of ours at the door, while a recovery is imagined.

use super::*;
use ferrite_client::{Client, ClientOptions};
use ferrite_io::simulated::SimulatedClock;
use ferrite_value::OwnedValue;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

fn during<T>(visit: impl FnOnce(SocketAddr) -> T) -> T {
    let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let (progress, clock) = (RecoveryProgress::default(), SimulatedClock::default());
    open_during(&mut listener, Meanwhile::Recovers(&progress, &clock, &Waits::default()), "test", || visit(address))
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
    let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let status = || vec![SystemTable::new(&[("NODE", ferrite_value::SqlType::Integer)])];
    open_during(&mut listener, Meanwhile::Waits(&status), "test", || {
        let client = Client::connect(ClientOptions::new([address.to_string()])).expect("the door is open");
        let response = client.call_blocking("@ClusterStatus", ()).expect("an answer");
        assert_eq!(response.tables[0].columns[0].0, "NODE");
        let error = client.call_blocking("Vote", ()).expect_err("nothing else goes").to_string();
        assert!(error.contains("does not take part in its cluster yet"), "{error}");
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
    let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let (progress, clock) = (RecoveryProgress::default(), SimulatedClock::default());
    let mut visitor =
        open_during(&mut listener, Meanwhile::Recovers(&progress, &clock, &Waits::default()), "test", || {
            std::net::TcpStream::connect(address).unwrap()
        });
    // Either it was taken and is closed now, or it waits for who listens next.
    let second = open_during(&mut listener, Meanwhile::Recovers(&progress, &clock, &Waits::default()), "test", || {
        Client::connect(ClientOptions::new([address.to_string()])).map(drop).map_err(|error| error.to_string())
    });
    assert_eq!(second, Ok(()));
    assert_eq!(visitor.read(&mut [0; 1]).unwrap_or(0), 0, "nobody asked, so nobody answers");
}
