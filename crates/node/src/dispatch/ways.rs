//! Which groups' calls a network thread gives to partitions itself, and which go to the thread that
//! forwards: decided once per turn, so that all calls of a group that a turn reads go one way.
//!
//! The invariants: a partition is local only if its group is hosted here and the group's passage
//! says *here*; the table, the ways and what follows from them are of one moment. Two groups of one
//! connection may go two ways: their calls have no order among each other.

use crate::route::{AnyOf, Route};
use crate::routes::{RouteTable, Routes};
use ferrite_base::{GroupId, PartitionId};
use ferrite_member::forward::{self, Forward, Passage, Way};
use ferrite_partition::MailboxHandle;
use std::sync::Arc;

/// Of one group.
struct GroupWay {
    id: GroupId,
    is_here: bool,
    /// Calls on their way to the thread that forwards, by place in the bytes.
    calls: Vec<forward::Call>,
    bytes: Vec<u8>,
}

pub struct Ways {
    /// None: a node without others.
    passage: Option<Passage>,
    table: Arc<RouteTable>,
    /// By the groups' places in the table.
    groups: Vec<GroupWay>,
    /// By partition: whether its calls are executed here.
    local: Box<[bool]>,
    /// Those of which that is so, or all: a call that any can answer goes to one of these.
    any: Vec<PartitionId>,
    /// There is one group, and its calls go elsewhere: a call need not be understood here.
    all_away: bool,
}

impl Ways {
    pub fn new(routes: &Routes, forward: Option<Forward>) -> Ways {
        let table = routes.kept_table();
        let is_here = forward.is_none();
        let way = |id| GroupWay { id, is_here, calls: Vec::new(), bytes: Vec::new() };
        let groups = table.groups().map(way).collect();
        let local = routes.partitions().map(|_| false).collect();
        let passage = forward.map(Passage::new);
        let mut ways = Ways { passage, table, groups, local, any: Vec::new(), all_away: false };
        ways.settle();
        ways
    }

    /// What follows from the table and the groups' ways.
    fn settle(&mut self) {
        self.any.clear();
        for (partition, local) in (0..).map(PartitionId).zip(&mut self.local) {
            *local = self.groups[self.table.group_of(partition)].is_here && self.table.is_here(partition);
            self.any.extend(local.then_some(partition));
        }
        if self.any.is_empty() {
            self.any.extend((0..self.local.len() as u32).map(PartitionId));
        }
        self.all_away = self.groups.len() == 1 && !self.groups[0].is_here;
    }

    /// Called once per turn, when nothing of the previous turn is left to be handed over. False:
    /// nothing may be read until those that were handed to the thread that forwards are on their
    /// way.
    #[inline]
    pub fn refresh(&mut self, routes: &Routes) -> bool {
        let mut changed = !std::ptr::eq(&**routes.table(), &*self.table);
        if changed {
            self.table = routes.kept_table();
        }
        let mut waits = false;
        if let Some(passage) = &mut self.passage {
            for group in &mut self.groups {
                let way = passage.way(group.id);
                waits |= way == Way::Wait;
                let is_here = way != Way::Elsewhere;
                changed |= std::mem::replace(&mut group.is_here, is_here) != is_here;
            }
        }
        if changed {
            self.settle();
        }
        !waits
    }

    pub fn table(&self) -> &Arc<RouteTable> {
        &self.table
    }

    /// Whether all calls go elsewhere, to the only group.
    #[inline]
    pub fn are_all_away(&self) -> bool {
        self.all_away
    }

    /// The place of the group to whose leader a call goes that no key names, if that is not here:
    /// the first group's.
    pub fn first_if_away(&self) -> Option<usize> {
        (!self.groups[0].is_here).then_some(0)
    }

    /// The partitions for a call that any can answer.
    #[inline]
    pub fn any(&self, spread: u32) -> AnyOf<'_> {
        AnyOf::These(&self.any, spread)
    }

    /// The place of the group to which a call with that route is passed on. None: it is executed
    /// here.
    #[inline]
    pub fn elsewhere(&self, route: &Route) -> Option<usize> {
        match route {
            Route::Partition { partition, .. } if self.local[partition.index()] => None,
            Route::Partition { partition, .. } => Some(self.table.group_of(*partition)),
            // The leader of the first group orders transactions over several.
            Route::Multi(stores) => {
                let group = self.table.group_of_all(stores).unwrap_or(0);
                (!self.groups[group].is_here).then_some(group)
            }
            Route::Compound => None,
        }
    }

    /// A call that is passed on. Returns how many bytes wait to be handed over.
    pub fn pass_on(&mut self, group: usize, call: forward::Call, body: &[u8]) -> usize {
        let way = &mut self.groups[group];
        let start = way.bytes.len() as u32;
        way.bytes.extend_from_slice(body);
        way.calls.push(forward::Call { start, end: way.bytes.len() as u32, ..call });
        way.bytes.len()
    }

    /// Hands over what waits.
    pub fn send(&mut self, mailbox: &MailboxHandle, stamp: impl Fn() -> i64) {
        let Some(passage) = &mut self.passage else { return };
        for way in self.groups.iter_mut().filter(|way| !way.calls.is_empty()) {
            let batch = forward::Batch {
                mailbox: Arc::clone(mailbox),
                calls: std::mem::take(&mut way.calls),
                bytes: std::mem::take(&mut way.bytes),
                sent_micros: stamp(),
            };
            passage.submit(way.id, batch);
        }
    }

    /// This number of calls will be handed over. To be called after they are counted as taken.
    pub fn passed(&self, calls: usize) {
        if let Some(passage) = self.passage.as_ref().filter(|_| calls > 0) {
            passage.passed(calls);
        }
    }
}
