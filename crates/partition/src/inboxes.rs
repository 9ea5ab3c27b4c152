//! The ways to the partitions of one group.

use crate::event::Event;
use crossbeam_channel::Sender;
use ferrite_base::{GroupId, GroupMap, GroupPartitions};

/// The inbox of each partition of a group, by its place there.
#[derive(Clone)]
pub struct GroupInboxes {
    of: GroupPartitions,
    senders: Vec<Sender<Event>>,
}

impl GroupInboxes {
    /// # Panics
    /// If there are not as many as the group has partitions.
    pub fn new(of: GroupPartitions, senders: Vec<Sender<Event>>) -> GroupInboxes {
        assert_eq!(of.len(), senders.len(), "an inbox for each partition of the group");
        GroupInboxes { of, senders }
    }

    /// Of a cluster's only group.
    pub fn single(senders: Vec<Sender<Event>>) -> GroupInboxes {
        let map = GroupMap::single(senders.len() as u32);
        GroupInboxes::new(map.partitions_of(GroupId(0)).expect("every cluster has group 0"), senders)
    }

    /// Whose they are.
    pub fn of(&self) -> &GroupPartitions {
        &self.of
    }

    pub fn senders(&self) -> &[Sender<Event>] {
        &self.senders
    }
}
