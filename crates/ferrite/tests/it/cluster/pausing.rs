//! `@Pause` and `@Resume` are the cluster's: whichever node leads next, and whichever starts again.

use super::groups::spread_with;
use super::handing_over::admin_transfer;
use super::{Cluster, PATIENCE, Stop, TABLE};
use crate::common::Db;
use ferrite_client::{Client, ClientError, ClientOptions, OwnedValue};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

impl Cluster {
    /// The node that has a copy beside the leader.
    fn other_member(&self) -> usize {
        let (leader, members) = (self.leader(), self.await_whole(1).members());
        let places = members.iter().map(|node| *node as usize - 1);
        places.into_iter().find(|place| *place != leader).expect("there are two")
    }

    /// Each node has a port for administrators, whose calls the leader executes.
    fn as_administrator(&self, place: usize, procedure: &str) {
        let address = self.admin_port(place);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let client = Client::connect(ClientOptions::new([&address]));
            let outcome = client
                .map_err(|error| error.to_string())
                .and_then(|client| client.call_blocking(procedure, ()).map(drop).map_err(|error| error.to_string()));
            let Err(error) = outcome else { return };
            assert!(Instant::now() < deadline, "{procedure}: {error}");
        }
    }

    /// Where `--admin-listen` of its process listens.
    fn admin_port(&self, place: usize) -> String {
        let ready = &self.nodes[place].as_ref().expect("it runs").server.ready_line;
        let (_, rest) = ready.split_once("administration on ").expect("it has one");
        rest.trim_end_matches([')', '\n']).split(',').next().expect("an address").to_owned()
    }

    /// Through the first, the second node is to lead.
    fn transfer(&self, place: usize, to: usize) -> (bool, String) {
        admin_transfer(&["--to", &(to + 1).to_string(), "--server", &self.admin_port(place)])
    }

    /// What a client that writes through that node is told, once some node leads.
    fn write_through(&self, place: usize) -> Result<(), String> {
        self.write_row_through(place, 0)
    }

    fn write_row_through(&self, place: usize, id: i64) -> Result<(), String> {
        let client = Client::connect(ClientOptions::new([self.address(place)])).expect("it takes connections");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let error = match client.call_blocking("@AdHoc", ("UPSERT INTO t VALUES (?, 0)", id)) {
                Ok(_) => return Ok(()),
                Err(error) => error.to_string(),
            };
            if error.contains("Server is paused") {
                return Err(error);
            }
            assert!(Instant::now() < deadline, "{error}");
        }
    }

    /// Refused through every node that runs; the administrators' port takes it, and reads go on.
    fn is_paused(&self) {
        for (place, _) in self.running() {
            self.write_through(place).expect_err("paused");
            let client = Client::connect(ClientOptions::new([self.address(place)])).expect("it takes connections");
            client.call_blocking("@AdHoc", ("SELECT COUNT(*) FROM t",)).expect("reads go on");
            let client = Client::connect(ClientOptions::new([self.admin_port(place)])).expect("it takes connections");
            client.call_blocking("@AdHoc", ("UPSERT INTO t VALUES (0, 0)",)).expect("administrators write");
            await_cluster_state(&Db(client), "PAUSED");
        }
    }

    fn is_resumed(&self) {
        for (place, _) in self.running() {
            self.write_through(place).expect("resumed");
            let client = Client::connect(ClientOptions::new([self.address(place)])).expect("it takes connections");
            await_cluster_state(&Db(client), "RUNNING");
        }
    }
}

/// A node that does not lead shows the change when the metadata has reached it, which may be later
/// than the leader's answer.
fn await_cluster_state(db: &Db, expected: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let state = overview(db, "CLUSTERSTATE");
        if state == expected {
            return;
        }
        assert!(Instant::now() < deadline, "{state}, and not {expected}");
    }
}

fn overview(db: &Db, key: &str) -> String {
    let response = db.0.call_blocking("@SystemInformation", ("OVERVIEW",)).expect("it answers");
    let rows = response.tables[0].rows.iter();
    let values = rows.filter_map(|row| match &row[1..] {
        [OwnedValue::Text(name), OwnedValue::Text(value)] if &**name == key => Some(value.to_string()),
        _ => None,
    });
    let values: Vec<String> = values.collect();
    values.first().expect("the key is there").clone()
}

const WITH_PORTS: [&str; 2] = ["--admin-listen", "127.0.0.1:0"];

#[test]
fn a_paused_database_stays_paused_whichever_node_leads_and_whichever_starts_again() {
    let mut cluster = Cluster::start_with(3, 1, &WITH_PORTS);
    cluster.statement(TABLE);
    cluster.await_whole(1);
    cluster.as_administrator(0, "@Pause");
    cluster.is_paused();
    let member = cluster.other_member();
    let (done, said) = cluster.transfer(0, member);
    assert!(done, "{said}");
    cluster.is_paused();
    // Through a node that does not lead.
    cluster.as_administrator(0, "@Resume");
    cluster.is_resumed();
    let (done, said) = cluster.transfer(member, 0);
    assert!(done, "{said}");
    cluster.is_resumed();
    cluster.as_administrator(member, "@Pause");
    cluster.kill(0);
    cluster.is_paused();
    let server = crate::common::Server::start(&cluster.dir(0), &WITH_PORTS);
    cluster.runs(0, server);
    cluster.is_paused();
    // The state is on the voters' disks.
    (0..3).for_each(|place| cluster.kill(place));
    cluster.start_all_again_with(&WITH_PORTS);
    cluster.is_paused();
    cluster.as_administrator(2, "@Resume");
    cluster.is_resumed();
    cluster.check();
}

/// No write of a client begins after the answer to `@Pause` and is acknowledged, whatever the
/// leader does meanwhile.
#[test]
fn no_write_is_acknowledged_behind_the_answer_to_pause() {
    let cluster = Cluster::start_with(3, 1, &WITH_PORTS);
    cluster.statement(TABLE);
    cluster.await_whole(1);
    let (stops, acknowledged) = (AtomicBool::new(false), AtomicUsize::new(0));
    // Odd while the database is paused.
    let phase = AtomicU64::new(0);
    let behind = AtomicUsize::new(0);
    let write = &|place: usize| {
        let client = Client::connect(ClientOptions::new([cluster.address(place)])).expect("it takes connections");
        let mut id = place as i64;
        while !stops.load(Ordering::SeqCst) {
            let begun_in = phase.load(Ordering::SeqCst);
            let text = format!("UPSERT INTO t VALUES ({id}, {id})");
            match client.call_blocking("@AdHoc", (text.as_str(),)) {
                // Between two looks at the same odd number nothing is to be acknowledged. A call
                // that `@Resume` overtakes is executed rightly.
                Ok(_) if begun_in % 2 == 1 && phase.load(Ordering::SeqCst) == begun_in => {
                    behind.fetch_add(1, Ordering::SeqCst);
                }
                Ok(_) => drop(acknowledged.fetch_add(1, Ordering::SeqCst)),
                Err(ClientError::Failed(_)) => {}
                Err(error) => panic!("{error}"),
            }
            id += 3;
        }
    };
    std::thread::scope(|scope| {
        let stop = Stop(&stops);
        let writers: Vec<_> = (0..3).map(|place| scope.spawn(move || write(place))).collect();
        for round in 0..6 {
            let (leader, before) = (cluster.leader(), acknowledged.load(Ordering::SeqCst));
            let next = if leader == 0 { cluster.other_member() } else { 0 };
            let nodes = &cluster;
            let transfer = scope.spawn(move || nodes.transfer(leader, next));
            cluster.as_administrator(round % 3, "@Pause");
            phase.fetch_add(1, Ordering::SeqCst);
            let (done, said) = transfer.join().expect("it ends");
            assert!(done, "{said}");
            let before_long = count(&cluster);
            assert_eq!(before_long, count(&cluster), "nothing is written while it is paused");
            phase.fetch_add(1, Ordering::SeqCst);
            cluster.as_administrator((round + 1) % 3, "@Resume");
            let deadline = Instant::now() + PATIENCE;
            while acknowledged.load(Ordering::SeqCst) == before {
                assert!(Instant::now() < deadline, "writes are taken again");
                std::thread::yield_now();
            }
        }
        drop(stop);
        writers.into_iter().for_each(|writer| writer.join().expect("it writes"));
    });
    assert_eq!(behind.load(Ordering::SeqCst), 0);
}

fn count(cluster: &Cluster) -> i64 {
    let text = "SELECT COUNT(*) FROM t";
    let (_, response) = cluster.on_any(text, |db| db.0.call_blocking("@AdHoc", (text,)).ok());
    match response.tables[0].rows[0][0] {
        OwnedValue::Integer(count) => count,
        ref other => panic!("not a number: {other:?}"),
    }
}

/// Rows of all groups.
const IDS: std::ops::Range<i64> = 0..12;

#[test]
fn a_database_of_several_groups_is_paused_in_all_of_them() {
    let mut cluster = spread_with(TABLE, &WITH_PORTS);
    cluster.await_places(0);
    for place in 0..3 {
        let db = cluster.nodes[place].as_ref().expect("it runs").server.connect();
        db.call("@Quiesce", ());
        db.call("@PingPartitions", ());
    }
    for round in 0..3 {
        cluster.as_administrator(round, "@Pause");
        for (place, id) in (0..3).flat_map(|place| IDS.map(move |id| (place, id))) {
            cluster.write_row_through(place, id).expect_err("paused");
        }
        let db = cluster.nodes[round].as_ref().expect("it runs").server.connect();
        let said = db.fail("@PingPartitions", ()).status_text.unwrap_or_default();
        assert!(said.contains("Server is paused"), "{said}");
        db.call("@Quiesce", ());
        let through = (round + 2) % 3;
        cluster.as_administrator(through, "@Resume");
        for (place, id) in (0..3).flat_map(|place| IDS.map(move |id| (place, id))) {
            cluster.write_row_through(place, id).expect("resumed");
        }
    }
    // The node that leads the first group, and others, is lost.
    cluster.as_administrator(1, "@Pause");
    cluster.kill(0);
    for (place, id) in [1, 2].into_iter().flat_map(|place| IDS.map(move |id| (place, id))) {
        cluster.write_row_through(place, id).expect_err("paused");
    }
    cluster.as_administrator(2, "@Resume");
    for (place, id) in [1, 2].into_iter().flat_map(|place| IDS.map(move |id| (place, id))) {
        cluster.write_row_through(place, id).expect("resumed");
    }
}
