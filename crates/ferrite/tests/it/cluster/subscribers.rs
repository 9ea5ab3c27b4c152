//! Clients that are told of changes by a node without a copy.

use super::{Cluster, TABLE};
use crate::hostile::{connect, frame_of};
use ferrite_value::OwnedValue;
use ferrite_wire::{Response, handles, invocation};
use std::io::Write;

#[test]
fn whoever_subscribed_at_a_node_without_a_copy_hears_of_the_procedures() {
    let cluster = Cluster::start(3, 1);
    let leader = cluster.leader();
    let lines = cluster.nodes[leader].as_ref().expect("it runs").lines.clone();
    lines.wait("is kept by 2 nodes");
    let keepers = lines.keepers();
    let other = (0..3).find(|place| !keepers.contains(place)).expect("two of three have it");
    let mut subscriber = connect(&cluster.nodes[other].as_ref().expect("it runs").server.address);
    let mut call = Vec::new();
    invocation::write_call(&mut call, "@Subscribe", 5, &("TOPOLOGY",)).expect("it is short");
    subscriber.write_all(&call).expect("the server reads");
    cluster.statement(TABLE);
    // Whatever it is told of first, also by a node that knows no table: it is told of this one.
    loop {
        let body = frame_of(&mut subscriber).expect("the connection stays");
        let response = Response::parse(&body).expect("it is well-formed");
        if response.handle != handles::PROCEDURES_PUSH {
            continue;
        }
        let tables = response.to_owned_response().expect("it is well-formed").tables;
        let is_of_it =
            |value: &OwnedValue| matches!(value, OwnedValue::Text(name) if name.eq_ignore_ascii_case("t.insert"));
        if tables[0].rows.iter().flatten().any(is_of_it) {
            break;
        }
    }
}
