//! Disks that become full under a cluster: who has room leads, and no write is refused meanwhile.

use super::{Cluster, TABLE};
use crate::full_disk::SmallDisk;
use ferrite_client::{Client, ClientOptions};

const BIG: &str =
    "CREATE TABLE big (id BIGINT NOT NULL, body VARBINARY(900000), PRIMARY KEY (id)); PARTITION TABLE big ON COLUMN id";

#[test]
fn a_leader_whose_disk_has_little_room_hands_over_and_a_full_copy_is_left_out() {
    let mut cluster = Cluster::new(3);
    // Twice the reserve is 512 MiB.
    let Some(disk) = SmallDisk::at(&cluster.dir(0), 800) else { return };
    cluster.found(1, &[]);
    cluster.statement(TABLE);
    cluster.statement(BIG);
    cluster.write(5);
    let lines = |place: usize| cluster.nodes[place].as_ref().expect("it runs").lines.clone();
    lines(0).wait("is kept by 2 nodes");
    assert_eq!(cluster.leader(), 0);
    let copy = lines(0).keepers().into_iter().find(|place| *place != 0).expect("there are two");
    let third = 3 - copy;
    // Through a node that never leads: calls are passed on, and none is refused or lost.
    let client = Client::connect(ClientOptions::new([&cluster.address(third)])).expect("it takes connections");
    let mut body = vec![7u8; 800_000];
    let mut written = 0i64;
    let mut write = |bytes: usize| {
        // One that changes nothing would not be in the log.
        body[..8].copy_from_slice(&written.to_le_bytes());
        let outcome = client.call_blocking("BIG.upsert", (written % 8, &body[..bytes]));
        outcome.unwrap_or_else(|error| panic!("write {written}: {error}"));
        written += 1;
    };
    write(10_000);
    disk.take(260);
    while !lines(0).leaders().iter().any(|(_, leader)| *leader == copy) {
        write(10_000);
    }
    let node = copy + 1;
    lines(0).wait(&format!("has little room left: handing leadership over to node {node}, which has more"));
    lines(0).wait(&format!("this node has handed group 0 over to node {node}"));
    // The copy goes on with what the reserve has, and leaves when that is gone.
    disk.free();
    disk.fill();
    while lines(copy).keepers() != [1, 2] {
        write(800_000);
    }
    lines(0).wait("this node continues to write as a copy, and leaves its group when its log cannot be written");
    lines(0).wait("No space left on device");
    write(800_000);
    // With room and a start it is as good as before.
    disk.free();
    cluster.kill(0);
    cluster.start_again(0);
    cluster.write(5);
    cluster.await_whole(1);
    cluster.check();
}
