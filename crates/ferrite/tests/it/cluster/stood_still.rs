//! A leader whose process stands still until another leads: when it runs again, it has questions of
//! clients before it hears of its successor.

use super::{Cluster, PATIENCE, TABLE};
use crate::hostile::{connect, frame_of};
use ferrite_value::OwnedValue;
use ferrite_wire::{Response, invocation};
use std::io::Write;
use std::time::Instant;

/// Of each kind.
const QUESTIONS: i64 = 50;

/// As clients are told it: the node, and -1 where none is known.
fn leaders_of_topology(rows: &[Vec<OwnedValue>]) -> Vec<String> {
    let text = |cell: &OwnedValue| match cell {
        OwnedValue::Text(text) => text.split(':').next().expect("a host").to_owned(),
        other => panic!("not a text: {other:?}"),
    };
    rows.iter().map(|row| text(&row[2])).collect()
}

#[test]
fn a_former_leader_never_says_that_it_leads() {
    let mut cluster = Cluster::start(3, 1);
    cluster.statement(TABLE);
    cluster.await_whole(1);
    // Acknowledged by the member, which has the start of its epoch then and can lead.
    cluster.write(5);
    assert_eq!(cluster.leader(), 0);
    let first = cluster.nodes[0].as_ref().expect("it runs");
    let mut client = connect(&first.server.address);
    first.server.signal("STOP");
    let deadline = Instant::now() + PATIENCE;
    while cluster.leader() == 0 {
        assert!(Instant::now() < deadline, "in vain for another leader");
        std::thread::yield_now();
    }
    let mut questions = Vec::new();
    for handle in 0..QUESTIONS {
        invocation::write_call(&mut questions, "@Statistics", 2 * handle, &("TOPO", 0i32)).expect("it is short");
        invocation::write_call(&mut questions, "@ClusterStatus", 2 * handle + 1, &()).expect("it is short");
    }
    client.write_all(&questions).expect("the system takes them");
    first.server.signal("CONT");
    for _ in 0..2 * QUESTIONS {
        let body = frame_of(&mut client).expect("the connection stays");
        let response = Response::parse(&body).expect("it is well-formed");
        let (handle, tables) = (response.handle, response.to_owned_response().expect("it is well-formed").tables);
        if handle % 2 == 0 {
            let leaders = leaders_of_topology(&tables[0].rows);
            assert!(leaders.iter().all(|leader| leader != "1"), "question {handle}: {leaders:?}");
        } else {
            let role = &tables[0].rows[0][4];
            assert_ne!(*role, OwnedValue::Text("leader".into()), "question {handle}: {tables:?}");
            assert_ne!(tables[1].rows[0][2], OwnedValue::Integer(1), "question {handle}: {tables:?}");
        }
    }
    cluster.write(5);
    cluster.check();
}
