//! Groups that come to a node and leave it while it runs.

use super::Node;
use crate::GroupHandle;
use crate::group_replica::{GroupReplica, Parties};
use ferrite_base::GroupId;
use ferrite_partition::applier::CopyStart;
use std::sync::Arc;

impl Node {
    /// The node keeps one group more, which begins as a copy at that place. Its parties are there,
    /// and so are its gates at the host.
    ///
    /// # Panics
    /// If it keeps the group already: two replicas of a group would promise for each other.
    pub fn host(&mut self, group: GroupHandle, parties: Parties, start: CopyStart) {
        let id = group.id();
        assert!(!self.replicas.contains_key(&id), "a group is kept once");
        group.are_ending(self.ending.clone());
        self.groups.insert(Arc::clone(&group));
        let mut replica = GroupReplica::new(group, parties, start, self.causes.clone(), &mut *self.effects);
        replica.ending.clone_from(&self.ending);
        self.replicas.insert(id, replica);
        let state = Arc::clone(&self.known.1);
        if let Some(known) = state.groups().get(&id).filter(|_| self.registered && !self.ended) {
            self.group_changed(id, known, &state, None);
        }
    }

    /// The node no longer keeps the group, of which it has a copy: messages for it are refused from
    /// now on, and what it has reported is dropped. What it has promised stays promised. False: the
    /// node leads the group, or its partitions have not stepped back yet, and nothing was done; it
    /// is to hand over first.
    pub fn let_go(&mut self, id: GroupId) -> bool {
        let Some(replica) = self.replicas.get_mut(&id) else { return true };
        if replica.group.is_leading() || !replica.ends() {
            return false;
        }
        // Nothing waits for the members of what is left.
        replica.group.ends();
        self.replicas.remove(&id);
        self.groups.remove(id);
        self.stands_still.remove(&id);
        self.resigned.remove(&id);
        true
    }
}
