//! From a node that knows its cluster to one whose database is open: a copy, in no role yet.

use crate::discard_copy::unusable;
use crate::error::MemberError;
use crate::join::Joined;
use crate::links::hosts_of;
use crate::options::ClusterOptions;
use crossbeam_channel::Receiver;
use ferrite_base::GroupMap;
use ferrite_cluster::{Cause, Host, Lease};
use ferrite_io::{Clock, Disk, SystemRandom};
use ferrite_log::LogOptions;
use ferrite_notice::Notice;
use ferrite_partition::recovery::{self, AsMember, MemberStream, Options, RecoveredMembers, RecoveredNode};
use ferrite_partition::waker::{WakingSender, waking_channel};
use ferrite_replica::group::Timing;
use std::sync::Arc;

/// A node of a cluster, before its threads.
pub struct Member {
    pub joined: Joined,
    /// Of the groups that it hosts, in ascending order.
    pub streams: Vec<MemberStream>,
    pub host: Arc<Host>,
    pub causes: (WakingSender<Cause>, Receiver<Cause>),
    pub lease: Lease,
}

/// Opens the directory's data. Afterwards this process's incarnation is durable, and other nodes
/// may connect.
pub fn open(
    mut joined: Joined,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    options: Options<'_>,
    of_cluster: &ClusterOptions,
) -> Result<(RecoveredNode, Member), MemberError> {
    let stored = joined.state.settings().map_or(1, |settings| settings.partitions);
    let asked = options.groups.as_ref().map(GroupMap::partitions);
    if let Some(asked) = asked.filter(|asked| *asked != stored) {
        ferrite_io::notify(Notice::PartitionsIgnored { partitions: stored, asked });
    }
    let causes = waking_channel();
    let lease = Lease::new(Arc::clone(&clock));
    let host = Host::new(causes.0.clone(), Arc::new(joined.links.clone()), lease.clone());
    let barrier = of_cluster.reads_by_barrier;
    let host = Arc::new(if barrier { host.with_reads_by_barrier(Arc::clone(&clock)) } else { host });
    let as_member =
        AsMember { host: Arc::clone(&host) as _, timing: Timing::DEFAULT, intact: joined.intact, snapshots: true };
    let log = LogOptions { database: Some(joined.database), ..options.log.clone() };
    let options = Options { log, groups: Some(joined.state.group_map()), ..options };
    let dir = joined.dir.clone();
    let opened = recovery::open_member(disk, clock, &mut SystemRandom, &dir, options, as_member);
    let opened = opened.map_err(|error| unusable(error, &joined, &of_cluster.ends))?;
    let RecoveredMembers { node: recovered, streams } = opened;
    if joined.intact {
        joined.unsynced.is_whole().map_err(|error| MemberError::Cluster(error.to_string()))?;
    }
    joined.introduce(recovered.identity.incarnation);
    let others = hosts_of(&joined.state, joined.node);
    ferrite_io::notify(Notice::InCluster {
        node: joined.node,
        cluster: ferrite_log::DatabaseId(recovered.identity.cluster).to_string(),
        nodes: others.len(),
    });
    Ok((recovered, Member { joined, streams, host, causes, lease }))
}
