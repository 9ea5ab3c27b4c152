//! A copy whose process is started again: what it lacks is little, and nobody is sent everything.

use super::{Cluster, TABLE};

const VALUES: &str = "CREATE TABLE bytes (id BIGINT NOT NULL PRIMARY KEY, v VARBINARY(1000000))";

#[test]
fn a_copy_that_comes_back_is_a_member_again_and_no_other_node_is_sent_everything() {
    // At a megabyte a second it takes longer to send everything than to start a process.
    let mut cluster = Cluster::start_with(3, 1, &["--transfer-rate", "1"]);
    cluster.statement(TABLE);
    cluster.statement(VALUES);
    let before = cluster.await_whole(1);
    for id in 0..40 {
        let value = vec![0xa5_u8; 1_000_000];
        cluster.on_any("a large row", |db| db.0.call_blocking("BYTES.upsert", (id, &value[..])).ok());
    }
    let copy = before.members().into_iter().find(|node| *node != before.leader).expect("a copy");
    let place = usize::try_from(copy).expect("a small number") - 1;
    let spare = (0..3).find(|place| !before.members().contains(&(*place as i64 + 1))).expect("a third node");
    // What is to be sent is announced before anything is sent.
    let announced = |cluster: &Cluster| std::fs::read(cluster.dir(spare).join("incoming/transfer")).ok();
    let earlier = announced(&cluster);
    cluster.kill(place);
    cluster.write(20);
    cluster.start_again(place);
    assert_eq!(cluster.await_whole(1).members(), before.members());
    assert_eq!(announced(&cluster), earlier, "the third node was sent something");
    cluster.check_copies(1);
}
