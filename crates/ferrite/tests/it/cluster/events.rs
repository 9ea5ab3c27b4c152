//! Each node of a cluster reports for itself.

use super::{Cluster, TABLE};
use crate::events::events;
use ferrite_client::OwnedValue;

#[test]
fn each_node_has_the_events_of_its_own() {
    let mut cluster = Cluster::start(3, 1);
    cluster.statement(TABLE);
    cluster.write(1);
    cluster.await_whole(1);
    let leader = cluster.leader();
    for (place, node) in cluster.running() {
        node.lines.wait("is kept by 2 nodes");
        let said = node.lines.all();
        let db = node.server.connect();
        let events = events(&db);
        let has = |code: &str| events.iter().any(|[_, _, known, ..]| known == code);
        assert!(has("in-cluster") && has("members") && has("ready"), "{events:#?}");
        assert!(has("leads") || place != leader, "{events:#?}");
        for line in said {
            assert!(events.iter().any(|[_, _, _, message, _]| *message == line), "{line} is not among {events:#?}");
        }
        let rows = db.call("@Statistics", ("EVENTS", 0i32)).tables.swap_remove(0).rows;
        assert!(rows.iter().all(|row| row[1] == OwnedValue::Integer(place as i64 + 1)), "HOST_ID: {rows:?}");
    }
    cluster.check();
}
