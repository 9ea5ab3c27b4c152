//! The client with several nodes: where calls go, and what becomes of them when leaders change and
//! nodes die.

use crate::support::cluster::{Cluster, Manner, PARTITIONS};
use ferrite_client::{Client, ClientError, ClientOptions, OwnedResponse};
use std::time::{Duration, Instant};

/// Only what hangs takes so long, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

fn options(addresses: &[String]) -> ClientOptions {
    ClientOptions {
        call_timeout: PATIENCE,
        connection_timeout: 10 * PATIENCE,
        reconnect_pause: Duration::from_millis(1),
        reconnect_pause_max: Duration::from_millis(20),
        ..ClientOptions::new(addresses)
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "in vain for {what}");
        std::thread::yield_now();
    }
}

fn host(answer: Result<OwnedResponse, ClientError>) -> i32 {
    answer.unwrap().scalar().unwrap() as i32
}

/// The host that a call of the partition reaches; -1 if it reaches none.
fn reached(client: &Client, cluster: &Cluster, partition: u32) -> i32 {
    match client.call_blocking("One", (cluster.key_of(partition), "x")) {
        Ok(response) => response.scalar().unwrap() as i32,
        Err(_) => -1,
    }
}

fn all_reached(client: &Client, cluster: &Cluster) -> Vec<i32> {
    (0..PARTITIONS).map(|partition| reached(client, cluster, partition)).collect()
}

/// A client that has learned who leads, and its cluster.
fn settled(nodes: usize) -> (Client, Cluster) {
    let cluster = Cluster::of(nodes);
    let client = Client::connect(options(&cluster.addresses())).unwrap();
    let leaders: Vec<i32> = (0..PARTITIONS as usize).map(|partition| (partition % nodes) as i32).collect();
    // Twice in a row, as calls that go in turn may meet the leaders once.
    until("the topology", || (0..2).all(|_| all_reached(&client, &cluster) == leaders));
    // What all nodes were asked at first is answered.
    for _ in 0..2 * nodes {
        client.call_blocking("@Ping", ()).unwrap();
    }
    cluster.calls();
    (client, cluster)
}

#[test]
fn each_call_goes_to_the_node_that_leads_what_it_touches() {
    let (client, cluster) = settled(3);
    for _ in 0..5 {
        assert_eq!(all_reached(&client, &cluster), [0, 1, 2, 0]);
        assert_eq!(host(client.call_blocking("All", (7,))), 0);
        assert_eq!(host(client.call_blocking("@AdHoc", ("SELECT 1",))), 0);
        // NULL is of partition 0, a text is converted as the server does, and what cannot be a key
        // is for a server to refuse.
        assert_eq!(host(client.call_blocking("One", (None::<i64>,))), 0);
        assert_eq!(host(client.call_blocking("One", (cluster.key_of(2).to_string(),))), 2);
        client.call_blocking("One", ("not a number",)).unwrap();
        client.call_blocking("One", ()).unwrap();
    }
    assert_eq!(client.statistics().calls_failed, 0);
}

/// A machine without power, or a process that stands still, fails a connection after ten seconds.
#[test]
fn a_node_that_answers_nothing_does_not_hold_up_a_client_of_others() {
    let (silent, cluster) = (std::net::TcpListener::bind("127.0.0.1:0").unwrap(), Cluster::of(2));
    let silent_address = silent.local_addr().unwrap().to_string();
    let addresses: Vec<String> = std::iter::once(silent_address).chain(cluster.addresses()).collect();
    let begun = Instant::now();
    let client = Client::connect(options(&addresses)).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    client.call_blocking("All", (7,)).unwrap();
}

/// `@Cancel` concerns the connection that it comes on.
#[test]
fn a_cancellation_goes_where_the_calls_have_gone() {
    let (client, cluster) = settled(3);
    (0..3).for_each(|host| cluster.is(host, Manner::Silent));
    let calls: Vec<_> = [1, 2].into_iter().map(|at| client.call("One", (cluster.key_of(at), "x"))).collect();
    client.cancel();
    until("the cancellations", || cluster.asked(1, "@Cancel") + cluster.asked(2, "@Cancel") == 2);
    assert_eq!([0, 1, 2].map(|host| cluster.asked(host, "@Cancel")), [0, 1, 1]);
    client.close();
    calls.into_iter().for_each(|call| drop(call.wait().expect_err("it was not answered")));
}

#[test]
fn a_new_leader_that_was_announced_gets_the_next_call() {
    let (client, cluster) = settled(3);
    cluster.believes(1, [1, 2, 2, 1], 2);
    cluster.pushes_before_next_answer(1);
    assert_eq!(reached(&client, &cluster, 1), 1);
    assert_eq!(all_reached(&client, &cluster), [1, 2, 2, 1]);
    assert_eq!(host(client.call_blocking("All", ())), 2);
    // And again, told by another.
    cluster.believes(2, [0, 0, 0, 0], 0);
    cluster.pushes_before_next_answer(2);
    assert_eq!(host(client.call_blocking("All", ())), 2);
    assert_eq!(all_reached(&client, &cluster), [0, 0, 0, 0]);
}

#[test]
fn a_leader_that_dies_in_a_call_leaves_it_unknown_and_its_successor_gets_the_next() {
    let (client, cluster) = settled(3);
    let logins = cluster.logins();
    cluster.is(1, Manner::Silent);
    let calls: Vec<_> = (0..10).map(|_| client.call("One", (cluster.key_of(1),))).collect();
    let mut seen = 0;
    until("the calls to arrive", || {
        seen += cluster.calls().iter().filter(|call| **call == (1, "One".to_string())).count();
        seen == 10
    });
    cluster.dies(1);
    for call in calls {
        let error = call.wait().unwrap_err();
        assert!(error.is_outcome_unknown() && matches!(error, ClientError::ConnectionLost { .. }), "{error}");
    }
    // Nobody leads partition 1 as far as the client knows: others pass its calls on.
    assert_ne!(reached(&client, &cluster, 1), 1);
    assert_eq!(cluster.calls().len(), 1, "none of the ten was sent again");
    cluster.believes(0, [0, 2, 2, 0], 0);
    cluster.pushes_before_next_answer(0);
    assert_eq!(reached(&client, &cluster, 0), 0);
    assert_eq!(all_reached(&client, &cluster), [0, 2, 2, 0]);

    // The lost node comes back, without an operator and without being asked for.
    cluster.believes(1, [0, 2, 2, 0], 0);
    cluster.is(1, Manner::Serves);
    cluster.comes_back(1);
    until("the lost node's connection", || cluster.logins() > logins);
    cluster.believes(2, [0, 1, 2, 0], 0);
    cluster.believes(1, [0, 1, 2, 0], 0);
    cluster.pushes_before_next_answer(2);
    assert_eq!(reached(&client, &cluster, 2), 2);
    until("the lost node's calls", || reached(&client, &cluster, 1) == 1);
    let statistics = client.statistics();
    assert_eq!((statistics.calls_lost, statistics.calls_failed, statistics.disconnects), (10, 0, 1));
}

#[test]
fn a_former_leader_that_is_silent_is_given_up_and_one_that_answers_is_not() {
    let (client, cluster) = settled(3);
    // Its machine has lost its power: nobody resets the connection.
    cluster.is(1, Manner::Stuck);
    cluster.is(2, Manner::Silent);
    let call = client.call("One", (cluster.key_of(1),));
    let slow = client.call("One", (cluster.key_of(2),));
    cluster.believes(0, [0, 0, 0, 0], 0);
    cluster.pushes_before_next_answer(0);
    assert_eq!(reached(&client, &cluster, 0), 0);
    let error = call.wait().unwrap_err();
    assert!(error.is_outcome_unknown() && matches!(error, ClientError::ConnectionLost { .. }), "{error}");
    until("its end", || client.statistics().disconnects > 0);
    cluster.calls();
    // It comes back with what it has heard before.
    cluster.believes(1, [0, 0, 0, 0], 0);
    cluster.is(1, Manner::Serves);
    assert_eq!(all_reached(&client, &cluster), [0, 0, 0, 0]);
    assert_eq!(client.statistics().disconnects, 1, "both were asked whether they are there, and one was");
    cluster.dies(2);
    assert!(slow.wait().unwrap_err().is_outcome_unknown());
}

/// Whoever hears that an outcome is unknown looks whether the call took place. What the system has
/// of such calls is not delivered later.
#[test]
fn calls_that_ended_with_their_connection_are_not_sent_behind_it() {
    let (client, cluster) = settled(3);
    cluster.is(1, Manner::Stuck);
    // More than the buffers of both sides have room for.
    let text = "x".repeat(65_536);
    let calls: Vec<_> = (0..400).map(|_| client.call("One", (cluster.key_of(1), text.as_str()))).collect();
    cluster.believes(0, [0, 0, 0, 0], 0);
    cluster.believes(1, [0, 0, 0, 0], 0);
    cluster.pushes_before_next_answer(0);
    assert_eq!(reached(&client, &cluster, 0), 0);
    let ends = calls.into_iter().map(|call| call.wait());
    let lost = ends.filter(|end| end.as_ref().is_err_and(ClientError::is_outcome_unknown)).count();
    assert!(lost > 20, "{lost}");
    // It takes what comes, and has nothing to say by which it would hear of the end.
    cluster.is(1, Manner::Silent);
    let logins = cluster.logins();
    until("the end of the connection", || cluster.connections(1) < 2 && cluster.logins() >= logins.max(4));
    let arrived = cluster.asked(1, "One");
    assert!(arrived + 5 < lost, "{arrived} of {lost}");
}

#[test]
fn a_node_that_refuses_makes_the_client_ask_another_and_follow() {
    let (client, cluster) = settled(3);
    // It is cut off: the others have another leader, and it does not know.
    cluster.is(1, Manner::Refuses);
    cluster.believes(0, [0, 2, 2, 0], 2);
    cluster.believes(2, [0, 2, 2, 0], 2);
    let error = client.call_blocking("One", (cluster.key_of(1),)).unwrap_err();
    assert_eq!((error.code(), error.is_outcome_unknown()), ("57P03", false), "{error}");
    assert_eq!(cluster.calls(), [(1, "One".to_string())], "a refused call is not sent again");
    until("the new leader", || reached(&client, &cluster, 1) == 2);
    assert_eq!(cluster.asked(1, "@Statistics"), 0, "who is in doubt is not asked");
    assert_eq!(all_reached(&client, &cluster), [0, 2, 2, 0]);
    assert_eq!(host(client.call_blocking("All", ())), 2);
}

#[test]
fn one_that_is_left_is_asked_itself() {
    let (client, cluster) = settled(2);
    cluster.dies(0);
    until("the end of the other connection", || client.statistics().connections_up == 1);
    cluster.is(1, Manner::Refuses);
    cluster.believes(1, [1, 1, 1, 1], 1);
    cluster.calls();
    assert_eq!(client.call_blocking("All", ()).unwrap_err().code(), "57P03");
    until("the question", || cluster.asked(1, "@Statistics") == 1);
}

#[test]
fn while_nobody_leads_the_cluster_is_asked_now_and_then_only() {
    let (client, cluster) = settled(3);
    for host in 0..3 {
        cluster.is(host, Manner::Refuses);
    }
    let begun = Instant::now();
    for _ in 0..2_000 {
        assert_eq!(client.call_blocking("All", ()).unwrap_err().code(), "57P03");
    }
    let asked: usize = (0..3).map(|host| cluster.asked(host, "@Statistics")).sum();
    let most = 1 + begun.elapsed().as_millis() / 100;
    assert!(asked as u128 <= most, "{asked} times, and not {most} at most");
    for host in 0..3 {
        cluster.is(host, Manner::Serves);
        cluster.believes(host, [2, 2, 2, 2], 2);
    }
    // Nothing was pushed: it is a refused call that asks.
    cluster.is(0, Manner::Refuses);
    until("the new leader", || client.call_blocking("All", ()).is_ok());
    assert_eq!(all_reached(&client, &cluster), [2, 2, 2, 2]);
}

#[test]
fn of_what_is_not_known_calls_go_to_all_in_turn() {
    let text = |bytes: &[u8]| bytes.to_vec();
    // A table without columns, one with others, and bytes that are none.
    let empty = crate::support::bytes_of_hex("00000003 80 0000 00000000");
    let other = crate::support::bytes_of_hex("00000009 80 0001 06 00000001 58 00000000");
    for malformed in [empty, other, text(b"garbage"), Vec::new()] {
        let cluster = Cluster::of(2);
        cluster.tells(malformed.clone());
        let client = Client::connect(options(&cluster.addresses())).unwrap();
        let mut reached = [0, 0];
        for _ in 0..20 {
            reached[host(client.call_blocking("All", ())) as usize] += 1;
        }
        assert_eq!(reached, [10, 10], "{malformed:?}");
    }
    let cluster = Cluster::of(2);
    let without = ClientOptions { affinity: false, ..options(&cluster.addresses()) };
    let client = Client::connect(without).unwrap();
    let mut reached = [0, 0];
    for _ in 0..20 {
        reached[host(client.call_blocking("All", ())) as usize] += 1;
    }
    assert_eq!(reached, [10, 10]);
    assert_eq!((0..2).map(|host| cluster.asked(host, "@Statistics")).sum::<usize>(), 0, "nothing is asked");
}

#[test]
fn with_one_address_nothing_is_asked() {
    let cluster = Cluster::of(2);
    let client = Client::connect(options(&[cluster.address(1)])).unwrap();
    for partition in 0..PARTITIONS {
        assert_eq!(reached(&client, &cluster, partition), 1);
    }
    assert_eq!(host(client.call_blocking("@Ping2", ())), 1);
    let asked = ["@Subscribe", "@Statistics", "@SystemCatalog", "@SystemInformation"];
    assert_eq!(asked.map(|procedure| cluster.asked(1, procedure)), [0; 4]);
    let statistics = client.statistics();
    assert_eq!((statistics.connects, cluster.connections(0)), (1, 0));
}

#[test]
fn other_nodes_are_found_connected_once_and_left_when_they_are_gone() {
    let cluster = Cluster::of(3);
    // The same node under another name.
    let named = cluster.address(1).replace("127.0.0.1", "localhost");
    let client = Client::connect(ClientOptions { discover: true, ..options(&[named]) }).unwrap();
    until("all nodes", || all_reached(&client, &cluster) == [0, 1, 2, 0]);
    assert_eq!((0..3).map(|host| cluster.connections(host)).collect::<Vec<_>>(), [1, 1, 1]);
    // The one that was named dies, and comes back.
    cluster.dies(1);
    until("the end of its connection", || client.statistics().connections_up == 2);
    cluster.believes(0, [0, 2, 2, 0], 2);
    cluster.pushes_before_next_answer(0);
    until("the new leader", || all_reached(&client, &cluster) == [0, 2, 2, 0]);
    cluster.comes_back(1);
    until("its return", || client.statistics().connections_up == 3);
    until("one connection each", || (0..3).all(|host| cluster.connections(host) == 1));
}

#[test]
fn a_node_that_is_named_and_found_is_connected_once() {
    let cluster = Cluster::of(2);
    cluster.dies(1);
    let named = [cluster.address(0), cluster.address(1).replace("127.0.0.1", "localhost")];
    let client = Client::connect(ClientOptions { discover: true, ..options(&named) }).unwrap();
    until("the search", || cluster.asked(0, "@SystemInformation") == 1);
    // Its answer stands before that of this call.
    assert_eq!(host(client.call_blocking("All", ())), 0);
    // Which of its two addresses is connected first is chance.
    cluster.comes_back(1);
    until("both addresses", || cluster.logins() >= 3);
    until("one connection", || cluster.connections(1) == 1 && client.statistics().connections_up == 2);
    until("the topology", || all_reached(&client, &cluster) == [0, 1, 0, 1]);
}

#[test]
fn a_node_of_another_cluster_gets_no_calls() {
    let cluster = Cluster::of(2);
    cluster.belongs_to_another(1);
    let client = Client::connect(options(&cluster.addresses())).unwrap();
    until("another attempt", || cluster.logins() > 3);
    cluster.calls();
    // Which of the two was there first is chance.
    let reached: Vec<i32> = (0..10).map(|_| host(client.call_blocking("One", (1i64,)))).collect();
    assert!(reached.iter().all(|host| *host == reached[0]), "{reached:?}");
    assert_eq!(client.statistics().connections_up, 1);
    cluster.dies(reached[0]);
    until("the other one", || client.call_blocking("One", (1i64,)).is_ok());
}

#[test]
fn what_was_never_written_goes_to_another_node() {
    let (client, cluster) = settled(2);
    cluster.is(1, Manner::Stuck);
    // One call wakes it from its reading; then it reads no more.
    let first = client.call("One", (cluster.key_of(1),));
    // More than the buffers of a socket hold: a part of it is written.
    let large = client.call("One", (cluster.key_of(1), vec![7u8; 40_000_000]));
    let behind: Vec<_> = (0..5).map(|_| client.call("One", (cluster.key_of(1), "behind"))).collect();
    // They are with the connection as soon as the client's thread has taken a turn.
    let sent = client.statistics().calls_sent;
    assert_eq!(host(client.call_blocking("One", (cluster.key_of(0),))), 0);
    until("a turn", || client.statistics().calls_sent > sent);
    cluster.dies(1);
    for call in behind {
        assert_eq!(host(call.wait()), 0);
    }
    assert!(large.wait().unwrap_err().is_outcome_unknown());
    drop(first.wait());
    let there = cluster.calls().iter().filter(|call| call.0 == 0).count();
    assert_eq!(there, 6, "and no more than that");
}
