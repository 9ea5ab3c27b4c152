//! This node's role: which groups it leads, and which nodes lead the others. The node's thread
//! writes it, all others read it.
//!
//! A node has no single role: it may serve one group, hand over another, and follow the leader of a
//! third. Only what the process is (registered, ended, paused) is said once.

use crate::error::MemberError;
use crate::giving_way::Room;
use arc_swap::ArcSwap;
use ferrite_base::{Epoch, GroupId, NodeId};
use ferrite_cluster::{FailoverPhase, Lease};
use ferrite_group::FIRST_GROUP;
use ferrite_meta::{Phase, State};
use ferrite_replica::group::Member;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// What this node is for one group.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Standing {
    /// The epoch in which the group's partitions here take calls.
    pub serves: Option<Epoch>,
    /// It is handed over: calls that come wait.
    pub holds: bool,
    /// All members of its configuration have what is committed, as far as this node can tell.
    pub in_step: bool,
    /// This node was chosen to lead it in this epoch, and has come this far.
    pub phase: Option<(Epoch, FailoverPhase)>,
}

/// The status at one moment.
#[derive(Clone, Default)]
pub struct StatusSnapshot {
    /// Of each group of which something is known.
    pub standings: BTreeMap<GroupId, Standing>,
    /// Of each group whose lead it has given up, the epoch.
    pub given_up: BTreeMap<GroupId, Epoch>,
    /// The database is paused.
    pub paused: bool,
    /// It takes part.
    pub registered: bool,
    /// The metadata as this node knows it, after this number of commands.
    pub index: u64,
    pub state: Arc<State>,
    /// Why this process must end.
    pub ended: Option<String>,
    /// Its copy is put aside at the next start, which gets everything from the leader.
    pub begins_anew: bool,
    /// This node, and the lease by which it leads what it leads.
    pub lead: Option<(NodeId, Lease)>,
}

impl StatusSnapshot {
    pub fn standing(&self, id: GroupId) -> Standing {
        self.standings.get(&id).copied().unwrap_or_default()
    }

    pub fn standing_mut(&mut self, id: GroupId) -> &mut Standing {
        self.standings.entry(id).or_default()
    }

    /// Whether partitions here take calls: those of any group.
    pub fn serves_any(&self) -> bool {
        self.standings.values().any(|standing| standing.serves.is_some())
    }

    /// Whether a group is handed over. It is enough that one is: what begins by itself may be of
    /// any.
    pub fn hands_over_any(&self) -> bool {
        self.standings.values().any(|standing| standing.holds)
    }

    /// The node that leads the partitions, as far as this node knows: for display only.
    pub fn leader(&self) -> Option<NodeId> {
        self.leading_of(FIRST_GROUP).map(|leader| leader.node)
    }

    /// The same of any group, with its process. This node is named only while its lease holds:
    /// after that another may lead, which a process that stood still has not heard yet.
    pub fn leading_of(&self, id: GroupId) -> Option<Member> {
        self.chosen_for(id).filter(|_| !self.is_doubtful(id))
    }

    /// Whether this node was chosen to lead the group, and has no lease at the moment.
    pub fn is_doubtful(&self, id: GroupId) -> bool {
        let Some((here, lease)) = &self.lead else { return false };
        self.chosen_for(id).is_some_and(|leader| leader.node == *here) && !lease.holds()
    }

    /// The process that the metadata names to lead the partitions: for what follows from that.
    pub fn chosen(&self) -> Option<Member> {
        self.chosen_for(FIRST_GROUP)
    }

    /// The same of any group.
    pub fn chosen_for(&self, id: GroupId) -> Option<Member> {
        let configuration = &self.state.groups().get(&id).filter(|group| group.phase == Phase::Active)?.configuration;
        let given_up = self.given_up.get(&id).is_some_and(|epoch| configuration.epoch <= *epoch);
        (!given_up).then_some(configuration.leader)
    }

    /// What a start comes to that this process's end has overtaken.
    pub fn why_it_ends(&self) -> Option<MemberError> {
        let reason = self.ended.clone()?;
        Some(if self.begins_anew { MemberError::CopyGivenUp(reason) } else { MemberError::Cluster(reason) })
    }

    /// Where clients reach a node.
    pub fn address(&self, node: NodeId) -> Option<&str> {
        let addresses = &self.state.nodes().get(&node)?.addresses;
        addresses.get(1).or(addresses.first()).map(String::as_str)
    }

    /// Whether what this process knows of that cluster is newer than its start, and so tells
    /// another node what has become of it: what it knew previously, from its disk, may be long
    /// outdated.
    pub fn tells_of(&self, cluster: [u8; 16]) -> bool {
        self.registered && self.state.settings().is_some_and(|settings| settings.cluster == cluster)
    }

    /// Whether it is a member of any group.
    pub fn is_member(&self, here: NodeId) -> bool {
        self.state.groups().values().any(|group| group.configuration.has_node(here))
    }

    /// What callers of a node that does not lead are advised.
    pub fn advice(&self, here: NodeId) -> String {
        match self.leader().filter(|leader| *leader != here) {
            Some(leader) => {
                let address = self.address(leader).unwrap_or("an unknown address");
                format!("call again, through node {leader} at {address}, which leads")
            }
            None => "no node is known to lead at the moment: try again".to_owned(),
        }
    }
}

/// Hears of each change, one after the other.
pub type Told = Box<dyn Fn(&StatusSnapshot) + Send + Sync>;

/// What this node's disk has.
pub type RoomOfDisk = Box<dyn Fn() -> Room + Send + Sync>;

pub struct NodeStatus {
    here: NodeId,
    room: RoomOfDisk,
    told: Told,
    /// Of groups that it is to lead: entries that its tables lack before it can.
    lacks: Mutex<BTreeMap<GroupId, u64>>,
    seen: ArcSwap<StatusSnapshot>,
    /// Held while it is changed.
    changes: Mutex<()>,
    changed: Condvar,
}

impl NodeStatus {
    /// `lease`: the one by which this node leads.
    pub fn new(here: NodeId, lease: Lease, room: RoomOfDisk, told: Told) -> NodeStatus {
        let seen = ArcSwap::from_pointee(StatusSnapshot { lead: Some((here, lease)), ..StatusSnapshot::default() });
        let changes = Mutex::default();
        let changed = Condvar::new();
        let node_status = NodeStatus { here, room, told, lacks: Mutex::default(), seen, changes, changed };
        node_status.change(|_| {});
        node_status
    }

    pub fn here(&self) -> NodeId {
        self.here
    }

    /// This node is to lead these groups, and its tables lack so many entries yet: calls wait for
    /// them.
    pub fn lacks_before_it_leads(&self, lacks: BTreeMap<GroupId, u64>) {
        *self.lacks.lock().expect("no panic with what is lacking") = lacks;
    }

    /// What callers of the group's partitions wait for, where they do.
    pub fn applies(&self, id: GroupId) -> Option<String> {
        let lacks = self.lacks.lock().expect("no panic with what is lacking").get(&id).copied()?;
        let here = self.here;
        (lacks > 0).then(|| format!("node {here}, which leads when it has applied {lacks} more entries"))
    }

    pub fn seen(&self) -> Arc<StatusSnapshot> {
        self.seen.load_full()
    }

    /// What this node's disk has.
    pub fn room(&self) -> Room {
        (self.room)()
    }

    pub fn change(&self, change: impl FnOnce(&mut StatusSnapshot)) {
        let changing = self.changes.lock().expect("no panic with what is seen");
        let mut seen = StatusSnapshot::clone(&self.seen.load());
        change(&mut seen);
        (self.told)(&seen);
        self.seen.store(Arc::new(seen));
        drop(changing);
        self.changed.notify_all();
    }

    /// Waits until it holds, or until `time_max` is over.
    pub fn wait(&self, time_max: Duration, holds: impl Fn(&StatusSnapshot) -> bool) -> bool {
        let deadline = Instant::now() + time_max;
        let mut changes = self.changes.lock().expect("no panic with what is seen");
        loop {
            if holds(&self.seen.load()) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            changes = self.changed.wait_timeout(changes, left).expect("no panic with what is seen").0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use ferrite_io::Clock;
    use ferrite_io::simulated::SimulatedClock;

    #[test]
    fn what_a_process_knew_before_it_took_part_tells_nobody_anything() {
        let state = Arc::new(testing::founded((1..=3).map(testing::node).collect(), &[1], &[1, 2, 3]));
        let mut seen = StatusSnapshot { state, ..StatusSnapshot::default() };
        assert!(!seen.tells_of([1; 16]), "others may have gone on meanwhile");
        seen.registered = true;
        assert!(seen.tells_of([1; 16]) && !seen.tells_of([2; 16]) && !StatusSnapshot::default().tells_of([0; 16]));
    }

    #[test]
    fn what_a_node_is_for_one_group_says_nothing_of_another() {
        let mut seen = StatusSnapshot::default();
        let [first, second] = [GroupId(0), GroupId(1)];
        assert!(!seen.serves_any() && !seen.hands_over_any(), "it follows in all");
        seen.standing_mut(second).serves = Some(Epoch(4));
        assert_eq!((seen.standing(first), seen.standing(second).serves), (Standing::default(), Some(Epoch(4))));
        assert!(seen.serves_any());
        for group in [first, second] {
            seen.standing_mut(group).holds = true;
        }
        seen.standing_mut(first).holds = false;
        assert!(seen.standing(second).holds && seen.hands_over_any(), "the other one still drains");
        seen.standing_mut(second).serves = None;
        assert!(!seen.serves_any());
    }

    #[test]
    fn a_node_names_itself_as_leader_only_while_its_lease_holds() {
        let state = Arc::new(testing::founded((1..=3).map(testing::node).collect(), &[1, 2], &[1, 2, 3]));
        let clock = SimulatedClock::default();
        let of = |here| {
            let lease = Lease::new(Arc::new(clock.clone()));
            let node_status = NodeStatus::new(NodeId(here), lease.clone(), Box::new(Room::default), Box::new(|_| {}));
            node_status.change(|seen| (seen.state, seen.registered) = (Arc::clone(&state), true));
            (node_status, lease)
        };
        let ((first, lease), (second, _)) = (of(1), of(2));
        let leader = |node_status: &NodeStatus| node_status.seen().leader().map(|node| node.0);
        assert_eq!((leader(&first), leader(&second)), (None, Some(1)), "what it leads by was not granted yet");
        lease.extend(clock.boottime_nanos() + 1_000);
        first.change(|seen| seen.standing_mut(FIRST_GROUP).serves = Some(Epoch(1)));
        assert_eq!(leader(&first), Some(1));
        // The process stands still here, and knows nothing more when it runs again.
        clock.advance(Duration::from_nanos(1_000));
        assert_eq!((leader(&first), leader(&second)), (None, Some(1)));
        assert_eq!(first.seen().chosen(), Some(Member::new(1, 1)), "its calls wait for what comes of it");
        assert!(first.seen().is_doubtful(FIRST_GROUP) && !second.seen().is_doubtful(FIRST_GROUP));
        lease.extend(clock.boottime_nanos() + 1_000);
        assert_eq!(leader(&first), Some(1), "nobody has replaced it");
    }
}
