//! The node's thread: takes one cause after the other, and looks at the time in between.
//!
//! The steps are `ferrite_cluster::Node`.

use crate::directory::Unsynced;
use crate::effects::{Appliers, AskedToHandOver};
use crate::figures::{AllFigures, OwnFigures};
use crate::giving_way::{GivingWay, Need, Room};
use crate::health::{Health, Healths, OwnVote, SAID_EVERY};
use crate::links::Links;
use crate::loss::{self, Losses};
use crate::membership_report::MembershipReport;
use crate::metadata::TICK;
use crate::node_status::NodeStatus;
use crate::notices::Notices;
use crate::orders::{CopyNow, HandOver, Order};
use crate::pausing::Pauses;
use crate::peer_dispatcher::MetadataNotice;
use crate::procedures::Procedures;
use crate::quorum_report::QuorumReport;
use crate::reachability::Reachability;
use crate::remove::{Removals, Seen};
use crossbeam_channel::{Receiver, Sender};
use ferrite_base::{NodeId, memory};
use ferrite_cluster::{Groups, MessageKind, Node, NotHandedOver};
use ferrite_group::FIRST_GROUP;
use ferrite_io::Clock;
use ferrite_log::Durability;
use ferrite_meta::State;
use ferrite_notice::Notice;
use ferrite_partition::waker::Waker;
use ferrite_peer::Lane;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long an orderly end waits until the others know of it. Where all of them end, too, a
/// majority of the voters may be gone.
const GOODBYE_TIME_MAX: Duration = Duration::from_secs(2);
const LAST_GOODBYE_TIME_MAX: Duration = Duration::from_millis(500);

/// Between two looks at a party that is waited for.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

pub struct NodeThread {
    pub node: Node,
    pub orders: Receiver<Order>,
    /// What comes to either rings it.
    pub waker: Arc<Waker>,
    pub node_status: Arc<NodeStatus>,
    pub groups: Groups,
    pub appliers: Arc<Appliers>,
    pub unsynced: Arc<Unsynced>,
    pub asked: Arc<AskedToHandOver>,
    pub losses: Losses,
    pub removals: Removals,
    pub pauses: Pauses,
    pub keepers: MembershipReport,
    pub quorum: QuorumReport,
    pub metadata: Sender<MetadataNotice>,
    /// The log has everything that was acknowledged.
    pub whole: Arc<AtomicBool>,
    pub clock: Arc<dyn Clock>,
    pub links: Links,
    pub healths: Arc<Healths>,
    pub figures: Arc<AllFigures>,
    pub own_figures: OwnFigures,
    pub vote: Arc<OwnVote>,
    /// This process ends.
    pub ends: bool,
    pub little_room: GivingWay,
    pub no_java: GivingWay,
    /// Whether procedures of the database cannot run here. None: a witness.
    pub unable: Option<Arc<AtomicBool>>,
    /// None: a witness.
    pub procedures: Option<Arc<Procedures>>,
    pub notices: Notices,
    /// When the memory is looked at next, in boot-time nanoseconds.
    pub next_look: u64,
}

impl NodeThread {
    pub fn run(mut self) {
        let mut ticked = self.clock.boottime_nanos();
        let mut next_tick = ticked;
        // Since when its end has waited for the others to know of it.
        let mut ends = false;
        let mut leaves = None;
        let mut seen: Option<Arc<State>> = None;
        loop {
            let now = self.clock.boottime_nanos();
            // The awaited party does not report when it is done.
            let most = if self.node.waits() { LOOK_AGAIN } else { SAID_EVERY };
            self.wait(Duration::from_nanos(next_tick.saturating_sub(now)).min(most));
            // Whatever comes, the time is checked in between.
            let until = now.saturating_add(nanos(TICK)).min(next_tick);
            let mut now = self.clock.boottime_nanos();
            while self.node.step(now) && now < until {
                now = self.clock.boottime_nanos();
            }
            let now = self.clock.boottime_nanos();
            if now >= next_tick {
                self.node.are_ending(self.healths.ending(Instant::now()));
                self.node.tick(now);
                ticked = now;
                self.look_whether_whole();
                if now >= self.next_look {
                    self.next_look = now + nanos(SAID_EVERY);
                    self.look_at_health(now);
                    self.say_figures();
                    if let Some(procedures) = &self.procedures {
                        procedures.ask(&self.node_status.seen(), self.node.here().node, &self.links);
                    }
                }
                let state = Arc::clone(self.node.state());
                let here = self.node.here();
                let mut ask = |ask| drop(self.metadata.send(MetadataNotice::Ask(ask)));
                let seen = || seen_of_losses(&state, here.node, &self.whole, &self.links, &self.healths, &self.figures);
                let seen = self.node.is_registered().then_some(&seen as &dyn Fn() -> loss::Seen);
                self.losses.advance(&state, here, seen, now, &mut ask);
                self.removals.advance(&state, here, now, &mut ask);
            }
            for order in self.orders.try_iter().collect::<Vec<_>>() {
                if let Order::Goodbye = order {
                    self.node.leave();
                    ends = true;
                } else {
                    self.obey(order);
                }
            }
            self.look_at_pauses(now);
            self.procedures.iter().for_each(|procedures| procedures.tell_of_the_lead());
            if ends && self.node.says_goodbye() {
                leaves.get_or_insert(now);
            }
            let state = Arc::clone(self.node.state());
            let in_step = self.look_at_keepers(&state, now);
            self.publish(&state, in_step, &mut seen);
            let is_over = |since| {
                let most = if self.node.is_needed() { GOODBYE_TIME_MAX } else { LAST_GOODBYE_TIME_MAX };
                now >= since + nanos(most) || self.node.has_left()
            };
            if leaves.is_some_and(is_over) {
                break;
            }
            next_tick = self.next_tick(ticked, now, ends || !in_step);
        }
        self.end();
    }

    fn end(self) {
        for group in self.groups.iter() {
            // The partitions end after this thread, whatever waits for the members.
            group.ends();
        }
        memory::refuse_rows_for(None);
        drop(self.node);
        self.appliers.end();
    }

    /// Shows other threads what this node knows now. `shown`: the metadata that they have.
    fn publish(&mut self, state: &Arc<State>, in_step: bool, shown: &mut Option<Arc<State>>) {
        let phase = self.node.phase(FIRST_GROUP);
        self.node_status.lacks_before_it_leads(self.node.lacks_before_it_leads(FIRST_GROUP).unwrap_or(0));
        let known = self.node_status.seen();
        let is_shown = shown.as_ref().is_some_and(|shown| Arc::ptr_eq(shown, state));
        if is_shown && (known.in_step, known.phase) == (in_step, phase) {
            return;
        }
        let registered = self.node.is_registered();
        let index = self.node.known_index();
        self.node_status.change(|seen| {
            (seen.index, seen.state, seen.registered) = (index, Arc::clone(state), registered);
            seen.in_step = in_step;
            seen.phase = phase;
        });
        // Others cannot tell.
        self.next_look = 0;
        *shown = Some(Arc::clone(state));
    }

    /// When the time is to be checked, after a tick at `ticked`. `soon`: for what this thread
    /// itself waits for.
    fn next_tick(&self, ticked: u64, now: u64, soon: bool) -> u64 {
        let waits = soon || !self.whole.load(Ordering::Relaxed) || self.losses.waits() || self.removals.waits();
        let waits = waits || self.pauses.waits();
        let due = if waits { now } else { self.node.next_tick(now).min(self.next_look) };
        due.max(ticked + nanos(TICK))
    }

    /// Reports this node's health to all others. A copy without room for more rows reports that
    /// here, too; a leader refuses rows while one of its members has none.
    fn look_at_health(&mut self, now: u64) {
        let state = Arc::clone(self.node.state());
        let here = self.node.here().node;
        let serves = self.node_status.seen().serves.is_some();
        let lacks_memory = !serves && self.node.is_data() && !memory::has_room_for_rows();
        let room = if self.node.is_data() { self.node_status.room() } else { Room::Enough };
        let group = state.groups().get(&FIRST_GROUP);
        let is_member = group.is_some_and(|group| group.configuration.has(self.node.here()));
        let in_step = self.keepers.in_step().filter(|_| is_member);
        let votes = self.vote.can_be_given(now);
        let incomplete = !self.whole.load(Ordering::Relaxed);
        let starting = !self.node.is_registered();
        let log_failed = self.unsynced.has_failed();
        let durability = self.node.is_data().then(|| self.unsynced.durability());
        let lacks_java = self.unable.as_ref().is_some_and(|unable| unable.load(Ordering::Acquire));
        let health = Health {
            lacks_memory,
            lacks_java,
            room,
            votes,
            incomplete,
            starting,
            log_failed,
            ends: self.ends,
            durability,
            in_step,
            phase: self.node.phase(FIRST_GROUP),
        };
        self.warn_of_durability(durability);
        self.report_quorum(&state, now);
        self.healths.said(self.node.here(), health, Instant::now());
        for node in state.nodes().keys().filter(|node| **node != here) {
            self.links.send_on(*node, Lane::Control, MessageKind::Health, health.encode());
        }
        let Some(group) = group else { return };
        let members = || group.configuration.members().iter().map(|member| member.node).filter(|node| *node != here);
        let full = if serves { self.healths.lacks_memory(members(), Instant::now()) } else { None };
        memory::refuse_rows_for(full.map(|node| node.0));
        let members: Vec<NodeId> = members().collect();
        self.give_way(serves, room, lacks_java, &members, now);
        if lacks_memory {
            self.notices.say(Notice::CopyBeyondMemory);
        }
    }

    fn report_quorum(&mut self, state: &State, now: u64) {
        if self.ends || !self.node.is_registered() {
            return;
        }
        let reached = Reachability::now(state, self.node.here().node, &self.links, &self.healths);
        self.quorum.report(reached.no_majority(state), now).into_iter().for_each(ferrite_io::notify);
    }

    /// Where this node leads and lacks what another member has, that member is to lead. A lack of
    /// room is not a reason to choose a member that cannot run all procedures, unless this node
    /// cannot either.
    fn give_way(&mut self, serves: bool, room: Room, lacks_java: bool, members: &[NodeId], now: u64) {
        // A node that ends hands over anyhow.
        let serves = serves && !self.ends;
        let others = || members.iter().copied();
        let needs_java = if lacks_java { Need::Now } else { Need::Nothing };
        let no_java = self.no_java.is_due(serves, needs_java, now);
        let to = if no_java && let Some(node) = self.healths.runs_all(others(), Instant::now()) {
            self.no_java.asks(now);
            ferrite_io::notify(Notice::GivesWayForJava { node });
            node
        } else if self.little_room.is_due(serves, room.into(), now)
            && let Some(node) = self.healths.has_room(others(), !lacks_java, Instant::now())
        {
            self.little_room.asks(now);
            ferrite_io::notify(Notice::GivesWayForRoom { node });
            node
        } else {
            return;
        };
        // The outcome is reported.
        self.hand_over(HandOver { to: Some(to), by_call: false, patience: None, told: Box::new(|_| {}) });
    }

    fn say_figures(&self) {
        let here = self.node.here().node;
        let mut figures = (self.own_figures)();
        if let Some(group) = self.groups.get(FIRST_GROUP) {
            let end = group.end();
            (figures.behind, figures.end) = (group.behind(), (end.epoch, end.position));
        }
        for node in self.node.state().nodes().keys().filter(|node| **node != here) {
            self.links.send_on(*node, Lane::Control, MessageKind::Figures, figures.encode());
        }
        self.figures.said(here, figures, Instant::now());
    }

    /// This node's mode already follows what the metadata says.
    fn look_at_pauses(&mut self, now: u64) {
        let mut ask = |ask| drop(self.metadata.send(MetadataNotice::Ask(ask)));
        self.pauses.advance(self.node.state(), self.node.here(), now, &mut ask);
    }

    /// Another node that keeps data acknowledges before, or after, this one would.
    fn warn_of_durability(&self, own: Option<Durability>) {
        let Some(own) = own else { return };
        for (node, other) in self.healths.durabilities(Instant::now()).filter(|(_, other)| *other != own) {
            self.notices.say(Notice::DurabilitiesDiffer { node, other: other.to_string(), own: own.to_string() });
        }
    }

    fn wait(&self, time_max: Duration) {
        self.waker.wait(Some(time_max), || self.node.can_step() || !self.orders.is_empty());
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Intake(group, to) => {
                // The caller may have given up waiting.
                let intake = self.node.intake(group).cloned();
                let is_copy = self.node.is_copy(group);
                let appliers = self.appliers.count();
                let _ = to.send(CopyNow { intake, is_copy, appliers });
            }
            Order::Replaced(group, start) => self.node.replaced(group, *start),
            Order::HandOver(asks) => self.hand_over(asks),
            Order::AcceptLoss(asks) => {
                let state = Arc::clone(self.node.state());
                let here = self.node.here().node;
                let mut seen = seen_of_losses(&state, here, &self.whole, &self.links, &self.healths, &self.figures);
                seen.doubtful = self.node_status.seen().is_doubtful(FIRST_GROUP);
                self.losses.accept(asks, &state, &seen, self.clock.boottime_nanos());
            }
            Order::RemoveNode(asks) => {
                let state = self.node.state();
                let here = self.node.here().node;
                let reached = self.links.peers().waiting(asks.node, Lane::Control).is_some();
                let reachability = Reachability::now(state, here, &self.links, &self.healths);
                let seen = Seen { here, reached, no_majority: reachability.no_majority(state) };
                self.removals.begin(asks, state, seen, self.clock.boottime_nanos());
            }
            Order::Pause(asks) => self.pauses.begin(asks, self.clock.boottime_nanos()),
            Order::AnswerProcedures => {
                let serves = self.node_status.seen().serves.is_some();
                self.procedures.iter().for_each(|procedures| procedures.answer(serves, &self.links));
            }
            Order::SayHealth => self.next_look = 0,
            Order::Ends => {
                self.ends = true;
                self.look_at_health(self.clock.boottime_nanos());
            }
            Order::Goodbye => {}
        }
    }

    fn hand_over(&mut self, asks: HandOver) {
        let mut asked = self.asked.lock().expect("no panic with who asks");
        let to = asks.to;
        let patience = asks.patience.map(|patience| patience.as_nanos() as u64);
        if asked.is_some() {
            return (asks.told)(Err(NotHandedOver::UnderWay));
        }
        *asked = Some(asks);
        drop(asked);
        self.node.are_ending(self.healths.ending(Instant::now()));
        self.node.hand_over(FIRST_GROUP, to, patience);
    }

    /// Tells the operator which nodes keep the group; returns whether all of them have what is
    /// committed.
    fn look_at_keepers(&mut self, state: &Arc<State>, now: u64) -> bool {
        let here = (self.node.here(), self.node.is_registered());
        let members = || {
            let group = state.groups().get(&FIRST_GROUP);
            group.into_iter().flat_map(|group| group.configuration.members()).map(|member| member.node)
        };
        let begun = |epoch| {
            self.groups.get(FIRST_GROUP).is_some_and(|group| group.has_committed_start_of(epoch))
                || self.healths.know_in_step(members(), epoch, Instant::now())
        };
        let (notices, in_step) = self.keepers.report(state, here, now, begun);
        notices.into_iter().for_each(ferrite_io::notify);
        in_step
    }

    /// A log that may lack what was acknowledged is complete again when this process is a member,
    /// and what the members had when it became one is committed here.
    fn look_whether_whole(&mut self) {
        if self.whole.load(Ordering::Relaxed) {
            return;
        }
        let Some(group) = self.groups.get(FIRST_GROUP) else { return };
        let Some(known) = self.node.state().groups().get(&FIRST_GROUP) else { return };
        if known.configuration.has(self.node.here()) && group.has_committed_start_of(known.configuration.epoch) {
            match self.unsynced.is_whole() {
                // The others hear it at once.
                Ok(()) => {
                    self.whole.store(true, Ordering::Relaxed);
                    self.next_look = 0;
                }
                Err(error) => ferrite_io::notify(Notice::MarkNotWritten { reason: error.to_string() }),
            }
        }
    }
}

/// The nodes that could lead the group without a loss. `whole`: the log here has everything that
/// was acknowledged.
fn seen_of_losses(
    state: &State,
    here: NodeId,
    whole: &AtomicBool,
    links: &Links,
    healths: &Healths,
    figures: &AllFigures,
) -> loss::Seen {
    let reachability = Reachability::now(state, here, links, healths);
    let members = state.groups().get(&FIRST_GROUP).map(|group| group.configuration.members()).unwrap_or_default();
    let there = members.iter().map(|member| member.node).filter(|node| reachability.is_reached(*node));
    let is_whole = |node| match node == here {
        true => whole.load(Ordering::Relaxed),
        false => healths.of(node, Instant::now()).is_some_and(|health| !health.incomplete),
    };
    loss::Seen {
        there: there.map(|node| (node, is_whole(node))).collect(),
        ends: figures.ends(Instant::now()),
        no_majority: reachability.no_majority(state),
        doubtful: false,
    }
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}
