//! Where calls go: the partition that a value belongs to, the partitions that are here with their
//! inboxes, and the coordinator of each group.
//!
//! The one place that knows which thread executes a partition's calls. Partitions are numbered over
//! the whole cluster; those of groups that this node hosts are here. That is a table, which network
//! threads read once a turn, as they do the catalog: it is replaced as a whole when a group begins
//! here or ends. Which of the groups this node leads changes more often, and is not part of it:
//! that is `Passage` for network threads, `Forward` for others.
//!
//! Promises that what is sent to a partition that is not here is answered: its callers hear that
//! nothing was executed.

use arc_swap::{ArcSwap, Guard};
use crossbeam_channel::Sender;
use ferrite_base::{GroupId, GroupMap, PartitionId, UserError};
use ferrite_group::FIRST_GROUP;
use ferrite_partition::coordinator::Job;
use ferrite_partition::{CallBatch, Event, GroupInboxes, Ran, Reply, Seat, StoreSet};
use ferrite_value::ring::Ring;
use std::sync::Arc;

/// The partition, or the coordinator, is not here, or no longer: its group is hosted by other
/// nodes, or the server stops. The calls that were sent have got their answers.
#[derive(Debug)]
pub struct NotHere;

/// The way to a partition's thread, and where it rests when it is idle.
#[derive(Clone)]
struct Here {
    inbox: Sender<Event>,
    seat: Arc<Seat>,
}

#[derive(Clone)]
struct PartitionRoute {
    /// Its place in [`RouteTable::groups`].
    group: usize,
    here: Option<Here>,
}

#[derive(Clone)]
struct GroupRoute {
    id: GroupId,
    /// None: other nodes host it.
    ways: Option<GroupWays>,
}

/// The ways into the threads of a group that is here.
#[derive(Clone)]
pub struct GroupWays {
    pub partitions: GroupInboxes,
    pub coordinator: Sender<Job>,
}

#[derive(Clone)]
pub struct RouteTable {
    /// Of the cluster, in ascending order.
    groups: Box<[GroupRoute]>,
    /// By the partitions' numbers.
    places: Box<[PartitionRoute]>,
}

impl RouteTable {
    /// For partitions of these groups, of which none is here yet.
    fn new(map: &GroupMap) -> RouteTable {
        let groups: Box<[GroupRoute]> =
            (FIRST_GROUP.0..map.groups()).map(|id| GroupRoute { id: GroupId(id), ways: None }).collect();
        let place_of = |partition| {
            let id = map.group_of(PartitionId(partition)).expect("each partition has a group");
            groups.binary_search_by_key(&id, |known| known.id).expect("groups have no gaps")
        };
        let places = (0..map.partitions()).map(|id| PartitionRoute { group: place_of(id), here: None }).collect();
        RouteTable { groups, places }
    }

    /// # Panics
    /// If the group is here already, or has other partitions.
    fn begin(&mut self, ways: GroupWays) {
        let of = ways.partitions.of();
        let group = self.place_of(of.group()).expect("the cluster has the group");
        let numbered = (0..).map(PartitionId).zip(&mut self.places);
        let places: Vec<_> = numbered.filter(|(_, place)| place.group == group).collect();
        assert!(places.iter().map(|(id, _)| *id).eq(of.ids()), "the group has these partitions");
        for ((_, place), inbox) in places.into_iter().zip(ways.partitions.senders()) {
            place.here = Some(Here { inbox: inbox.clone(), seat: Arc::default() });
        }
        assert!(self.groups[group].ways.replace(ways).is_none(), "a group begins once");
    }

    fn end(&mut self, group: GroupId) {
        let Some(group) = self.place_of(group) else { return };
        self.groups[group].ways = None;
        self.places.iter_mut().filter(|place| place.group == group).for_each(|place| place.here = None);
    }

    /// Groups are known by their places in ascending order of their numbers: the first group's is
    /// 0.
    pub fn place_of(&self, group: GroupId) -> Option<usize> {
        self.groups.binary_search_by_key(&group, |known| known.id).ok()
    }

    pub fn groups(&self) -> impl Iterator<Item = GroupId> {
        self.groups.iter().map(|group| group.id)
    }

    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    pub fn id_of(&self, group: usize) -> GroupId {
        self.groups[group].id
    }

    /// The place of the group that the partition belongs to.
    #[inline]
    pub fn group_of(&self, partition: PartitionId) -> usize {
        self.places[partition.index()].group
    }

    /// In their order; none of a group that the cluster does not have.
    pub fn partitions_of(&self, group: GroupId) -> impl Iterator<Item = PartitionId> {
        let place = self.place_of(group);
        let numbered = (0..).map(PartitionId).zip(&self.places);
        numbered.filter(move |(_, route)| Some(route.group) == place).map(|(partition, _)| partition)
    }

    /// The place of the group that has all these partitions. None: several have.
    pub fn group_of_all(&self, stores: &StoreSet) -> Option<usize> {
        match stores {
            _ if self.groups.len() == 1 => Some(0),
            StoreSet::All => None,
            StoreSet::Only(partitions) => {
                let first = self.group_of(*partitions.first()?);
                partitions.iter().all(|partition| self.group_of(*partition) == first).then_some(first)
            }
        }
    }

    /// Whether its group is hosted here.
    pub fn is_here(&self, partition: PartitionId) -> bool {
        self.places[partition.index()].here.is_some()
    }

    /// The ways to the group's partitions, in their order, and to its coordinator. None: it is not
    /// hosted here.
    pub fn ways_of(&self, group: GroupId) -> Option<&GroupWays> {
        self.groups[self.place_of(group)?].ways.as_ref()
    }

    /// The groups that are here.
    pub fn hosted_groups(&self) -> impl Iterator<Item = GroupId> {
        self.groups.iter().filter(|group| group.ways.is_some()).map(|group| group.id)
    }

    /// The partitions that are here.
    pub fn hosted(&self) -> impl Iterator<Item = PartitionId> {
        let numbered = (0..).map(PartitionId).zip(&self.places);
        numbered.filter(|(_, place)| place.here.is_some()).map(|(partition, _)| partition)
    }

    #[inline]
    pub fn to_partition(&self, partition: PartitionId, event: Event) -> Result<(), NotHere> {
        let Some(here) = self.places.get(partition.index()).and_then(|place| place.here.as_ref()) else {
            return Err(refuse_event(event));
        };
        here.inbox.send(event).map_err(|unsent| refuse_event(unsent.0))
    }

    /// Whether the partition is here and rests, or did a moment ago.
    #[inline]
    pub fn rests(&self, partition: PartitionId) -> bool {
        self.places[partition.index()].here.as_ref().is_some_and(|here| here.seat.rests())
    }

    /// Where a partition rests that is here.
    pub fn seat(&self, partition: PartitionId) -> Option<&Arc<Seat>> {
        self.places.get(partition.index())?.here.as_ref().map(|here| &here.seat)
    }

    /// Runs a batch of short calls at once, if the partition is idle.
    ///
    /// # Errors
    /// It is not: the batch goes to [`Self::to_partition`].
    pub fn run_here(&self, partition: PartitionId, batch: CallBatch) -> Result<(), CallBatch> {
        let Some(here) = &self.places[partition.index()].here else { return Err(batch) };
        if here.seat.run(batch)? == Ran::ThreadIsWanted {
            // It has ended only when the server stops.
            let _ = here.inbox.send(Event::Wake);
        }
        Ok(())
    }

    /// `group`: its place.
    pub fn to_coordinator(&self, group: usize, job: Job) -> Result<(), NotHere> {
        let Some(ways) = &self.groups[group].ways else { return Err(refuse_job(job)) };
        ways.coordinator.send(job).map_err(|unsent| refuse_job(unsent.0))
    }
}

pub struct Routes {
    pub ring: Ring,
    table: ArcSwap<RouteTable>,
}

impl Routes {
    /// Of a cluster whose partitions belong to these groups.
    pub fn new(map: &GroupMap) -> Routes {
        Routes { ring: Ring::new_default(map.partitions()), table: ArcSwap::from_pointee(RouteTable::new(map)) }
    }

    /// The same where these are here from the start.
    pub fn with(map: &GroupMap, hosted: impl IntoIterator<Item = GroupWays>) -> Routes {
        let routes = Routes::new(map);
        hosted.into_iter().for_each(|ways| routes.begin(ways));
        routes
    }

    /// What the table is at this moment.
    pub fn table(&self) -> Guard<Arc<RouteTable>> {
        self.table.load()
    }

    /// The same, to be kept.
    pub fn kept_table(&self) -> Arc<RouteTable> {
        self.table.load_full()
    }

    fn change(&self, change: impl FnOnce(&mut RouteTable)) {
        // Groups begin and end one after the other.
        let mut table = RouteTable::clone(&self.table.load());
        change(&mut table);
        self.table.store(Arc::new(table));
    }

    /// A group is hosted here from now on. One thread calls this and [`Routes::end`].
    pub fn begin(&self, ways: GroupWays) {
        self.change(|table| table.begin(ways));
    }

    /// The group's threads are about to end. Threads that still have the table of before get
    /// [`NotHere`] once they have.
    pub fn end(&self, group: GroupId) {
        self.change(|table| table.end(group));
    }

    /// Of the cluster.
    pub fn partition_count(&self) -> usize {
        self.ring.partition_count() as usize
    }

    /// Of the cluster.
    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> {
        (0..self.ring.partition_count()).map(PartitionId)
    }

    #[inline]
    pub fn to_partition(&self, partition: PartitionId, event: Event) -> Result<(), NotHere> {
        self.table().to_partition(partition, event)
    }

    /// To the coordinator of the first group, which has what belongs to no partition.
    pub fn to_coordinator(&self, job: Job) -> Result<(), NotHere> {
        self.table().to_coordinator(0, job)
    }
}

/// The answer to a call that came for a partition that is not here.
#[cold]
pub fn not_here() -> UserError {
    UserError::not_started("this node does not host the partition").with_hint("call again")
}

#[cold]
fn refuse_event(event: Event) -> NotHere {
    match event {
        Event::Calls(batch) => {
            for call in &batch.calls {
                let mailbox = Arc::clone(&batch.mailbox);
                let CallBatch { sent_micros, .. } = batch;
                Reply { mailbox, connection: call.connection, handle: call.handle, sent_micros }.refuse(&not_here());
            }
        }
        Event::Program(call) => call.reply.refuse(&not_here()),
        _ => {}
    }
    NotHere
}

#[cold]
fn refuse_job(job: Job) -> NotHere {
    match job {
        Job::Calls(calls) => calls.iter().for_each(|call| call.reply.refuse(&not_here())),
        Job::Schema { reply, .. } | Job::Quiesce(reply) => reply.refuse(&not_here()),
        _ => {}
    }
    NotHere
}

#[cfg(test)]
mod tests;
