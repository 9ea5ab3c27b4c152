//! Clients of nodes that do not lead: whatever they call is answered as the node that leads would.
//!
//! In a process of its own: three nodes keep their leases by the clock, and other tests would take
//! the processor from them.

mod common;
#[allow(dead_code, reason = "its part of this room")]
#[path = "server/endless.rs"]
mod endless;

use common::raw::Raw;
use common::{Db, connect, options, start, text_of, wait_for};
use endless::ENDLESS;
use ferrite_client::{CallFuture, Client, ClientError, ClientOptions, Status};
use ferrite_member::ClusterOptions;
use ferrite_node::Server;
use ferrite_value::OwnedValue;
use ferrite_wire::{Response, handles};
use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, VecDeque};
use std::hash::{BuildHasher, Hasher};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

const TABLES: &str = "CREATE TABLE t (id BIGINT NOT NULL, s VARCHAR(1000000), PRIMARY KEY (id));
    PARTITION TABLE t ON COLUMN id;
    CREATE TABLE account (id BIGINT NOT NULL, balance BIGINT, PRIMARY KEY (id));
    PARTITION TABLE account ON COLUMN id;
    CREATE PROCEDURE Put PARTITION ON TABLE t COLUMN id AS INSERT INTO t VALUES (?, ?);
    CREATE PROCEDURE Get PARTITION ON TABLE t COLUMN id AS SELECT s FROM t WHERE id = ?;
    CREATE PROCEDURE Count AS SELECT COUNT(*) FROM t;";

/// Addresses that nobody uses at the moment, with ports below those that the kernel gives to
/// connections: a node that asks for one that is not there yet would be given its port one day.
fn free_addresses(count: usize) -> Vec<SocketAddr> {
    // The standard library's hash keys are random numbers of the operating system.
    let random = || RandomState::new().build_hasher().finish();
    let free = std::iter::repeat_with(|| TcpListener::bind(("127.0.0.1", 12_000 + (random() % 20_000) as u16)).ok());
    let held: Vec<TcpListener> = free.take(10_000).flatten().take(count).collect();
    assert_eq!(held.len(), count, "there are free ports");
    held.iter().map(|held| held.local_addr().expect("it has an address")).collect()
}

/// Nodes of one cluster, which the first leads.
struct Nodes {
    servers: Vec<Option<Server>>,
    _dir: TempDir,
}

impl Nodes {
    fn start(count: usize) -> Nodes {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let hosts = free_addresses(count);
        let names: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let servers = std::thread::scope(|scope| {
            let begin = |host: &SocketAddr| {
                let mut options = options(&dir.path().join(host.port().to_string()), 3);
                std::fs::create_dir_all(options.dir.parent().expect("it has one")).expect("a directory");
                let (hosts, listen) = (names.clone(), Some(*host));
                options.cluster = ClusterOptions { hosts, kfactor: Some(1), listen, ..ClusterOptions::default() };
                scope.spawn(move || start(options))
            };
            let starting: Vec<_> = hosts.iter().map(begin).collect();
            starting.into_iter().map(|thread| Some(thread.join().expect("it starts"))).collect()
        });
        Nodes { servers, _dir: dir }
    }

    fn node(&self, place: usize) -> &Server {
        self.servers[place].as_ref().expect("it runs")
    }

    fn db(&self, place: usize) -> Db {
        connect(self.node(place))
    }

    fn stop(&mut self, place: usize) {
        self.servers[place].take().expect("it runs").stop().expect("its log is closed");
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        // All at once: nobody waits for one that is gone.
        std::thread::scope(|scope| {
            self.servers.drain(..).flatten().for_each(|server| drop(scope.spawn(move || server.stop())));
        });
    }
}

#[test]
fn any_node_takes_any_call_and_a_change_of_leader_loses_none() {
    let mut nodes = Nodes::start(3);
    let (leader, two, three) = (nodes.db(0), nodes.db(1), nodes.db(2));
    // Also a schema change; and what it made is seen through every node at once.
    three.sql(TABLES);
    let has_table = |db: &Db| {
        let tables = &db.call("@SystemCatalog", ("TABLES",)).tables[0];
        tables.rows.iter().any(|row| row.iter().any(|cell| *cell == OwnedValue::Text("ACCOUNT".into())))
    };
    assert!(has_table(&two) && has_table(&three));
    for (id, db) in (0..).zip([&leader, &two, &three]) {
        db.call("Put", (id, "x"));
        assert_eq!(db.scalar("SELECT COUNT(*) FROM t"), id + 1);
        assert_eq!(db.call("Count", ()).scalar(), Some(id + 1));
        db.call("@Ping", ());
        db.call("@Quiesce", ());
    }
    // Errors are the leader's, to the word.
    for (procedure, id) in [("Put", 1i64), ("NoSuch", 1)] {
        let said =
            |db: &Db| (db.fail(procedure, (id, "x")).status(), text_of(&db.fail(procedure, (id, "x"))).to_owned());
        assert_eq!(said(&two), said(&leader), "{procedure}");
    }
    for text in ["SELECT * FROM nosuch", "INSERT INTO t VALUES (1, 'x')", "SELEC"] {
        assert_eq!(text_of(&two.fail("@AdHoc", (text,))), text_of(&leader.fail("@AdHoc", (text,))));
    }
    two.fails("@NoSuch", (), Status::UnexpectedFailure, "@NoSuch was not found");
    // Answers larger than a message.
    let wide = "y".repeat(900_000);
    (10..15i64).for_each(|id| drop(three.call("Put", (id, wide.as_str()))));
    let rows = two.sql("SELECT id, s FROM t WHERE id >= 10 ORDER BY id");
    assert_eq!(rows.tables[0].rows.len(), 5);
    assert!(rows.tables[0].rows.iter().all(|row| row[1] == OwnedValue::Text(wide.as_str().into())));
    // Many at once, of several connections.
    let calls: Vec<(i64, CallFuture)> =
        (1_000..6_000i64).map(|id| (id, [&leader, &two, &three][id as usize % 3].0.call("Put", (id, "z")))).collect();
    for (id, call) in calls {
        call.wait().unwrap_or_else(|error| panic!("{id}: {error}"));
    }
    assert_eq!(three.scalar("SELECT COUNT(*) FROM t WHERE id >= 1000"), 5_000);

    counts(&leader, &two, &three);
    cancels(&nodes, &leader);
    let before = topology(&nodes, &[0, 1, 2]);
    assert_eq!(before.leader, "1");
    let mut subscriber = Raw::connect(nodes.node(2).address());
    subscriber.call("@Subscribe", 1, &("TOPOLOGY",));
    assert_eq!(subscriber.answer().map(|answer| answer.0), Some(1));

    // The leader stops while clients of the others call: none of them hears of it.
    let calls: Vec<(i64, CallFuture)> =
        (10_000..14_000i64).map(|id| (id, [&two, &three][id as usize % 2].0.call("Put", (id, "z")))).collect();
    nodes.stop(0);
    for (id, call) in calls {
        call.wait().unwrap_or_else(|error| panic!("{id}: {error}"));
    }
    for db in [&two, &three] {
        assert_eq!(db.scalar("SELECT COUNT(*) FROM t WHERE id >= 10000"), 4_000);
    }
    // Whoever subscribed is told of the new leader, and all nodes name the same.
    loop {
        let body = subscriber.frame().expect("a push");
        let response = Response::parse(&body).expect("well-formed");
        let names_another = response.handle == handles::TOPOLOGY_PUSH && leader_of(&response) != "1";
        if names_another {
            break;
        }
    }
    let after = topology(&nodes, &[1, 2]);
    assert!(after.leader != "1" && after.addresses == before.addresses, "{after:?}");
}

/// Without a leader there is nobody who could answer.
#[test]
fn a_node_that_stops_refuses_what_waits_for_a_leader_at_once() {
    let mut nodes = Nodes::start(3);
    nodes.db(0).sql(TABLES);
    let last = nodes.db(2);
    nodes.stop(0);
    nodes.stop(1);
    let waiting = || forwarded_by(&last)[2];
    let mut before = Vec::new();
    wait_for("the last node to give up its lead", || {
        before.push(last.0.call("Get", (0i64,)));
        waiting() > 0
    });
    let calls: Vec<CallFuture> = (0..9i64).map(|id| last.0.call("Put", (id, "x"))).collect();
    wait_for("the calls to wait", || waiting() >= 9);
    let began = std::time::Instant::now();
    let stopped = nodes.servers[2].take().expect("it runs").stop().expect("its log is closed");
    assert_eq!(stopped, ferrite_node::Stopped::Wholly);
    for call in calls {
        match call.wait() {
            Err(ClientError::Failed(answer)) => assert_eq!(answer.status(), Some(Status::ServerUnavailable)),
            other => panic!("no node leads: {other:?}"),
        }
    }
    // Where they waited for a leader, that was five seconds.
    assert!(began.elapsed() < std::time::Duration::from_secs(4), "{:?}", began.elapsed());
}

/// A call counts, and answers the number that it has got: that of its place among its connection's.
#[test]
fn calls_of_a_connection_stay_in_their_order_when_its_own_node_begins_to_lead() {
    // So many that a hand-over finds some on their way and some that come.
    const UNDER_WAY: usize = 20_000;
    let mut nodes = Nodes::start(3);
    let client = |place: usize| {
        let options = ClientOptions::new([nodes.node(place).address().to_string()]);
        Db(Client::connect(ClientOptions { outstanding_max: 2 * UNDER_WAY, ..options }).expect("it takes connections"))
    };
    let (two, three) = (client(1), client(2));
    two.sql(TABLES);
    two.sql(
        "CREATE PROCEDURE Next PARTITION ON TABLE account COLUMN id AS BEGIN
             UPDATE account SET balance = balance + 1 WHERE id = ?;
             SELECT balance FROM account WHERE id = ?;
         END",
    );
    [1i64, 2].iter().for_each(|id| drop(two.call("ACCOUNT.insert", (*id, 0i64))));
    let ended = AtomicBool::new(false);
    let places = std::thread::scope(|scope| {
        let ended = &ended;
        let calls = |id: i64, db: &Db| {
            let (mut under_way, mut places) = (VecDeque::new(), Vec::new());
            while !ended.load(Ordering::Acquire) {
                under_way.push_back(db.0.call("Next", (id, id)));
                if under_way.len() >= UNDER_WAY {
                    places.push(place(under_way.pop_front().expect("there are some")));
                }
            }
            places.extend(under_way.into_iter().map(place));
            places
        };
        let clients = [(1i64, &two), (2, &three)].map(|(id, db)| scope.spawn(move || calls(id, db)));
        let count = || two.scalar("SELECT balance FROM account WHERE id = 1");
        wait_for("calls to be under way", || count() > 500);
        nodes.stop(0);
        let then = count();
        wait_for("the next leader to execute some", || count() > then + 500);
        ended.store(true, Ordering::Release);
        clients.map(|client| client.join().expect("its calls are answered"))
    });
    for places in places {
        let moved = (1..).zip(&places).filter(|(expected, place)| expected != *place).take(20);
        let moved: Vec<(i64, &i64)> = moved.collect();
        assert!(moved.is_empty(), "of {} calls these changed places: {moved:?}", places.len());
    }
}

fn place(call: CallFuture) -> i64 {
    let answer = call.wait().unwrap_or_else(|error| panic!("{error}"));
    match answer.tables.last().and_then(|table| table.rows.first()).map(|row| &row[0]) {
        Some(OwnedValue::Integer(place)) => *place,
        other => panic!("not a number: {other:?}"),
    }
}

#[derive(PartialEq, Debug)]
struct Topology {
    leader: String,
    /// By host id.
    addresses: Vec<(i64, String)>,
}

/// The host that leads all partitions and transactions over several.
fn leader_of(response: &Response<'_>) -> String {
    let sites = response.tables().next().expect("two tables").expect("well-formed").to_owned_table().expect("rows");
    let hosts: BTreeSet<&str> = sites
        .rows
        .iter()
        .map(|row| match &row[2] {
            OwnedValue::Text(leader) => leader.split(':').next().expect("a host"),
            other => panic!("not a text: {other:?}"),
        })
        .collect();
    assert_eq!(hosts.len(), 1, "{hosts:?}");
    hosts.first().map(|host| (*host).to_owned()).expect("one")
}

/// What all these nodes say, once they agree.
fn topology(nodes: &Nodes, places: &[usize]) -> Topology {
    let said = |place: usize| {
        let (mut raw, db) = (Raw::connect(nodes.node(place).address()), nodes.db(place));
        raw.call("@Statistics", 1, &("TOPO", 0i32));
        let body = raw.frame().expect("an answer");
        let leader = leader_of(&Response::parse(&body).expect("well-formed"));
        let overview = db.call("@SystemInformation", ("OVERVIEW",));
        let text = |cell: &OwnedValue| match cell {
            OwnedValue::Text(text) => text.to_string(),
            other => format!("{other:?}"),
        };
        let mut addresses: Vec<(i64, String)> = overview.tables[0]
            .rows
            .iter()
            .filter(|row| ["IPADDRESS", "CLIENTPORT", "STARTTIME"].contains(&text(&row[1]).as_str()))
            .map(|row| match row[0] {
                OwnedValue::Integer(host) if text(&row[1]) != "STARTTIME" => (host, text(&row[2])),
                // The same on all nodes, whichever says it.
                _ => (0, text(&row[2])),
            })
            .collect();
        addresses.sort();
        Topology { leader, addresses }
    };
    let mut all: Vec<Topology> = Vec::new();
    wait_for("the nodes to agree", || {
        all = places.iter().map(|place| said(*place)).collect();
        all.windows(2).all(|two| two[0] == two[1])
    });
    all.pop().expect("there are nodes")
}

/// `@Statistics FORWARDING` of each: how many calls of its clients it has passed on and of other
/// nodes' clients it has executed, and the sum of all other figures.
fn forwarded(of: [&Db; 3]) -> [[i64; 3]; 3] {
    of.map(|db| {
        let row = forwarded_by(db);
        [row[0], row[5], row.iter().sum::<i64>() - row[0] - row[5]]
    })
}

/// The figures of one node, in the order of the columns.
fn forwarded_by(db: &Db) -> Vec<i64> {
    let table = db.call("@Statistics", ("FORWARDING", 0i32)).tables.remove(0);
    let names: Vec<&str> = table.columns.iter().skip(3).map(|(name, _)| name.as_str()).collect();
    let expected = ["PASSED_ON", "CAME_BACK", "WAITING", "OUTCOME_UNKNOWN", "REFUSED", "TAKEN", "GIVEN_BACK"];
    assert_eq!(names, expected);
    (3..10)
        .map(|column| match table.rows[0][column] {
            OwnedValue::Integer(value) => value,
            ref other => panic!("not a number: {other:?}"),
        })
        .collect()
}

/// What is passed on is counted on both sides, each call once; what the leader's own clients call
/// is not.
fn counts(leader: &Db, two: &Db, three: &Db) {
    let before = forwarded([leader, two, three]);
    for (db, calls) in [(leader, 3i64), (two, 10), (three, 5)] {
        (0..calls).for_each(|id| drop(db.call("Get", (id,))));
    }
    two.fail("Put", (0i64, "there already"));
    let mut expected = before;
    for (node, figure, more) in [(0, 1, 16), (1, 0, 11), (2, 0, 5)] {
        expected[node][figure] += more;
    }
    // They are said behind the answers.
    wait_for("the figures", || forwarded([leader, two, three]) == expected);
}

/// A call through the second node, cancelled there, or by the end of its connection.
fn cancels(nodes: &Nodes, leader: &Db) {
    let long_reads = || {
        let row = &leader.call("@Statistics", ("LONGREADS", 0i32)).tables[0].rows[0];
        match row[4] {
            OwnedValue::Integer(running) => running,
            ref other => panic!("{other:?}"),
        }
    };
    (0..300i64).for_each(|id| drop(leader.call("ACCOUNT.insert", (id, 1_000i64))));
    let (mut raw, number) = Raw::connect_numbered(nodes.node(1).address());
    let mut other = Raw::connect(nodes.node(1).address());
    // Another node has another connection of its own with the number that this one has here.
    let mut elsewhere = Raw::connect(nodes.node(2).address());
    elsewhere.call("@Cancel", 9, &(number, 7i64));
    let (_, status, text) = elsewhere.answer().expect("an answer");
    assert_eq!(status, Status::GracefulFailure.code(), "{text}");
    assert!(text.contains("is not one of this node: nothing was cancelled"), "{text}");
    for by_other in [false, true] {
        raw.call("@AdHoc", 7, &(ENDLESS,));
        wait_for("the query to run", || long_reads() == 1);
        match by_other {
            true => {
                other.call("@Cancel", 8, &(number, 7i64));
                assert_eq!(other.answer().map(|answer| answer.0), Some(8));
            }
            false => raw.call("@Cancel", 8, &()),
        }
        // That of `@Cancel` may come before or after.
        let mut answers = vec![raw.answer().expect("an answer")];
        if !by_other {
            answers.push(raw.answer().expect("an answer"));
        }
        answers.retain(|answer| answer.0 != 8);
        let [(handle, status, text)] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!((*handle, *status), (7, Status::GracefulFailure.code()), "{text}");
        assert!(text.contains("it was cancelled"), "{text}");
        wait_for("the thread to be free", || long_reads() == 0);
    }
    raw.call("@AdHoc", 7, &(ENDLESS,));
    wait_for("the query to run", || long_reads() == 1);
    drop(raw);
    wait_for("the thread to be free", || long_reads() == 0);
}
