//! The node's thread: takes one cause after the other, and looks at the time in between.
//!
//! The steps are `ferrite_cluster::Node`.

use crate::cluster::around::{Appliers, AskedToHandOver, HandOver};
use crate::cluster::directory::Unsynced;
use crate::cluster::door::MetadataNotice;
use crate::cluster::links::Links;
use crate::cluster::loss::{AcceptLoss, Losses};
use crate::cluster::metadata::TICK;
use crate::cluster::notices::Notices;
use crate::cluster::remove::{Removals, RemoveNode};
use crate::cluster::rooms::{Room, Rooms, SAID_EVERY};
use crate::cluster::standing::Standing;
use crossbeam_channel::{Receiver, Select, Sender};
use ferrite_base::{GroupId, memory};
use ferrite_cluster::{Cause, Groups, Letter, Node, NotHandedOver};
use ferrite_group::FIRST_GROUP;
use ferrite_io::Clock;
use ferrite_meta::{Phase, State};
use ferrite_partition::Delivery;
use ferrite_partition::applier::{CopyStart, Intake};
use ferrite_peer::Lane;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long an orderly end waits until the others know of it.
const GOODBYE_TIME_MAX: Duration = Duration::from_secs(2);

/// Between two looks at a party that is waited for.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// What the node's thread is asked for by other threads.
pub enum Order {
    Intake(GroupId, Sender<CopyNow>),
    /// Another node's snapshot has taken the place of what was here.
    Replaced(GroupId, Box<CopyStart>),
    /// Another node is to lead.
    HandOver(HandOver),
    /// An operator accepts that a node leads with what it has.
    AcceptLoss(AcceptLoss),
    /// An operator says that a node is lost for good.
    RemoveNode(RemoveNode),
    /// The node does nothing more for its groups; then the thread ends.
    Goodbye,
}

/// What this node's copy of a group is at the moment.
pub struct CopyNow {
    /// The way to its applier, if it has one.
    pub intake: Option<Intake>,
    /// Whether this is one, though its applier may have ended for another node's snapshot.
    pub is_copy: bool,
    /// How many appliers have begun.
    pub appliers: u64,
}

pub struct NodeThread {
    pub node: Node,
    /// To wait on: the node takes from it itself.
    pub causes: Receiver<Cause>,
    pub orders: Receiver<Order>,
    pub standing: Arc<Standing>,
    pub groups: Groups,
    pub appliers: Arc<Appliers>,
    pub unsynced: Arc<Unsynced>,
    pub asked: Arc<AskedToHandOver>,
    pub losses: Losses,
    pub removals: Removals,
    pub metadata: Sender<MetadataNotice>,
    /// The log has everything that was acknowledged.
    pub whole: Arc<AtomicBool>,
    pub clock: Arc<dyn Clock>,
    pub links: Links,
    pub rooms: Arc<Rooms>,
    pub notices: Notices,
    /// When the memory is looked at next, in boot-time nanoseconds.
    pub next_look: u64,
}

impl NodeThread {
    pub fn run(mut self) {
        let tick = TICK.as_nanos() as u64;
        let mut next_tick = self.clock.boottime_nanos();
        // When its end is not waited for any longer.
        let (mut ends, mut leaves) = (false, None);
        let mut seen: Option<Arc<State>> = None;
        loop {
            let now = self.clock.boottime_nanos();
            // Whoever is waited for does not say when it is done.
            let most = if self.node.waits() { LOOK_AGAIN } else { TICK };
            self.wait(Duration::from_nanos(next_tick.saturating_sub(now)).min(most));
            // Whatever comes, the time is looked at in between.
            while self.node.step() && self.clock.boottime_nanos() < next_tick {}
            let now = self.clock.boottime_nanos();
            if now >= next_tick {
                self.node.tick(now);
                next_tick = now + tick;
                self.look_whether_whole();
                if now >= self.next_look {
                    self.next_look = now + SAID_EVERY.as_nanos() as u64;
                    self.look_for_room();
                }
                let (state, here) = (Arc::clone(self.node.state()), self.node.here());
                let mut ask = |ask| drop(self.metadata.send(MetadataNotice::Ask(ask)));
                self.losses.look(&state, here, now, &mut ask);
                self.removals.look(&state, here, now, &mut ask);
            }
            for order in self.orders.try_iter().collect::<Vec<_>>() {
                if let Order::Goodbye = order {
                    self.node.leave();
                    ends = true;
                    next_tick = now;
                } else {
                    self.obey(order);
                }
            }
            if ends && self.node.says_goodbye() {
                leaves.get_or_insert(now + GOODBYE_TIME_MAX.as_nanos() as u64);
            }
            let state = Arc::clone(self.node.state());
            if seen.as_ref().is_none_or(|seen| !Arc::ptr_eq(seen, &state)) {
                say_who_keeps(seen.as_deref(), &state);
                let registered = self.node.is_registered();
                let index = self.node.known_index();
                self.standing.change(|seen| {
                    (seen.index, seen.state, seen.registered) = (index, Arc::clone(&state), registered);
                });
                seen = Some(state);
            }
            if leaves.is_some_and(|deadline| now >= deadline || self.node.has_left()) {
                break;
            }
        }
        for group in self.groups.iter() {
            // The partitions end behind this thread, whatever waits for the members.
            group.ends();
            if let Some(intake) = self.node.intake(group.id()) {
                intake.send(Delivery::Stop);
            }
        }
        memory::refuse_rows_for(None);
        drop(self.node);
        self.appliers.join();
    }

    /// A copy that has no room, in memory or on its disk, says so, here and to the leader; a leader
    /// refuses rows, or writes, while one of its members has none.
    fn look_for_room(&self) {
        let (state, here) = (self.node.state(), self.node.here());
        let Some(group) = state.groups().get(&FIRST_GROUP) else { return };
        let (configuration, leads) = (&group.configuration, self.standing.seen().leads.is_some());
        let members = || configuration.members().iter().map(|member| member.node).filter(|node| *node != here.node);
        let full = |room| if leads { self.rooms.full(room, members(), Instant::now()) } else { None };
        memory::refuse_rows_for(full(Room::Memory).map(|node| node.0));
        let low = full(Room::Disk);
        if self.standing.refuse_writes_for(low) {
            match low {
                Some(node) => ferrite_io::errln!(
                    "ferrite: the disk of node {node}, which keeps a copy, has less room than its reserve (--disk-reserve): writes \
                     are refused until there is more"
                ),
                None => ferrite_io::errln!("ferrite: the copies' disks have room again: writes are taken"),
            }
        }
        if leads || !self.node.is_data() {
            return;
        }
        let leader = configuration.leader.node;
        let say = |room: Room| {
            if leader != here.node {
                self.links.send_on(leader, Lane::Control, Letter::NoRoom, room.encode());
            }
        };
        if self.standing.is_disk_low() {
            say(Room::Disk);
        }
        if memory::has_room_for_rows() {
            return;
        }
        say(Room::Memory);
        self.notices.say(
            "this copy has reached its memory limit, and goes on beyond it: the node that leads refuses rows until there \
             is room. Start this node with a higher --memory-limit or more memory, or delete rows",
        );
    }

    fn wait(&self, time_max: Duration) {
        if self.node.can_step() {
            return;
        }
        let mut select = Select::new();
        select.recv(&self.causes);
        select.recv(&self.orders);
        let _ = select.ready_timeout(time_max);
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Intake(group, to) => {
                // Whoever asked may have given up waiting.
                let intake = self.node.intake(group).cloned();
                let (is_copy, appliers) = (self.node.is_copy(group), self.appliers.count());
                let _ = to.send(CopyNow { intake, is_copy, appliers });
            }
            Order::Replaced(group, start) => self.node.replaced(group, *start),
            Order::HandOver(asks) => self.hand_over(asks),
            Order::AcceptLoss(asks) => {
                self.losses.accept(asks, self.node.state(), self.clock.boottime_nanos());
            }
            Order::RemoveNode(asks) => {
                let (state, here) = (self.node.state(), self.node.here().node);
                let reached = self.links.peers().waiting(asks.node, Lane::Control).is_some();
                self.removals.begin(asks, state, here, reached, self.clock.boottime_nanos());
            }
            Order::Goodbye => {}
        }
    }

    fn hand_over(&mut self, asks: HandOver) {
        let mut asked = self.asked.lock().expect("no panic with who asks");
        let (to, patience) = (asks.to, asks.patience.map(|patience| patience.as_nanos() as u64));
        if asked.is_some() {
            return (asks.told)(Err(NotHandedOver::UnderWay));
        }
        *asked = Some(asks);
        drop(asked);
        self.node.hand_over(FIRST_GROUP, to, patience);
    }

    /// A log that may lack what was acknowledged has all again when this process is a member, and
    /// what the members had when it became one is committed here.
    fn look_whether_whole(&self) {
        if self.whole.load(Ordering::Relaxed) {
            return;
        }
        let Some(group) = self.groups.get(FIRST_GROUP) else { return };
        let Some(known) = self.node.state().groups().get(&FIRST_GROUP) else { return };
        let (epoch, commit) = (known.configuration.epoch, group.commit());
        let place = group.place();
        let begun = place.history.starts().iter().any(|(begun, first)| *begun == epoch && *first <= commit);
        if known.configuration.has(self.node.here()) && begun {
            match self.unsynced.is_whole() {
                Ok(()) => self.whole.store(true, Ordering::Relaxed),
                Err(error) => ferrite_io::errln!("ferrite: {error}"),
            }
        }
    }
}

/// Tells the operator of each new configuration.
fn say_who_keeps(before: Option<&State>, now: &State) {
    for (id, group) in now.groups() {
        let configuration = &group.configuration;
        let known = before.and_then(|before| before.groups().get(id));
        let begins_seal = group.phase == Phase::Sealing && known.is_none_or(|known| known.burnt != group.burnt);
        if let Some((epoch, node)) = group.loss.filter(|_| known.is_some_and(|known| known.loss != group.loss)) {
            ferrite_io::errln!(
                "ferrite: LOSS ACCEPTED by an operator: node {node} leads group {id} from epoch {epoch} with what it has. \
                 What others acknowledged beyond that is lost"
            );
        }
        if begins_seal {
            let leader = configuration.leader.node;
            ferrite_io::errln!("ferrite: group {id} is choosing a new leader to replace node {leader}");
        } else if known.is_none_or(|known| known.configuration.epoch != configuration.epoch) {
            let mut ids: Vec<u32> = configuration.members().iter().map(|member| member.node.0).collect();
            ids.sort_unstable();
            let mut nodes: Vec<String> = ids.iter().map(|id| format!("node {id}")).collect();
            let (count, epoch) = (nodes.len(), configuration.epoch);
            let last = nodes.pop().expect("a configuration has its leader");
            let all = if nodes.is_empty() { last } else { format!("{} and {last}", nodes.join(", ")) };
            let (plural, leader) = (if count == 1 { "" } else { "s" }, configuration.leader.node);
            ferrite_io::errln!(
                "ferrite: group {id} is kept by {count} node{plural}: {all}, led by node {leader} (epoch {epoch})"
            );
        }
    }
}
