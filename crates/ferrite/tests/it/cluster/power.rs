//! All nodes lose their power, and some come back.

use super::{Cluster, TABLE};
use crate::common::Server;

impl Cluster {
    /// These start again at the same time, and are ready.
    pub(super) fn start_these_again(&mut self, places: &[usize]) {
        let dirs: Vec<_> = places.iter().map(|place| self.dir(*place)).collect();
        let servers: Vec<Server> = std::thread::scope(|scope| {
            let starting: Vec<_> = dirs.iter().map(|dir| scope.spawn(|| Server::start(dir, &[]))).collect();
            starting.into_iter().map(|thread| thread.join().expect("it starts")).collect()
        });
        for (place, server) in places.iter().zip(servers) {
            self.runs(*place, server);
        }
    }
}

#[test]
fn without_the_last_leader_a_complete_member_leads_and_no_loss_is_spoken_of() {
    let mut cluster = Cluster::start(3, 1);
    cluster.statement(TABLE);
    cluster.await_whole(1);
    // What is acknowledged from here on shows that the member has the start of its epoch, without
    // which it is not complete.
    cluster.write(20);
    let leader = cluster.leader();
    (0..3).for_each(|place| cluster.kill(place));
    let others: Vec<usize> = (0..3).filter(|place| *place != leader).collect();
    cluster.start_these_again(&others);
    cluster.write(5);
    cluster.check();
    for (_, node) in cluster.running() {
        assert_eq!(node.lines.count("accept-loss"), 0);
    }
}
