//! The node's thread: takes one cause after the other, and looks at the time in between.
//!
//! The steps are `ferrite_cluster::Node`.

use crate::directory::Unsynced;
use crate::effects::Appliers;
use crate::figures::{AllFigures, OwnFigures};
use crate::giving_way::{GivingWayFor, Need, Room};
use crate::group_health::{self, GroupHealth, GroupHealths};
use crate::hand_overs::HandOvers;
use crate::health::{Health, Healths, OwnVote, SAID_EVERY};
use crate::links::Links;
use crate::loss::{self, Losses};
use crate::membership_report::MembershipReport;
use crate::metadata::TICK;
use crate::node_status::{NodeStatus, Standing};
use crate::notices::Notices;
use crate::orders::{CopyNow, HandOver, Order};
use crate::pausing::Pauses;
use crate::peer_dispatcher::MetadataNotice;
use crate::procedures::Procedures;
use crate::quorum_report::QuorumReport;
use crate::reachability::Reachability;
use crate::remove::{Removals, Seen};
use crossbeam_channel::{Receiver, Sender};
use ferrite_base::{Epoch, GroupId, NodeId, memory};
use ferrite_cluster::{Groups, MessageKind, Node};
use ferrite_group::FIRST_GROUP;
use ferrite_io::Clock;
use ferrite_log::Durability;
use ferrite_meta::{Ask, Group, State};
use ferrite_notice::Notice;
use ferrite_partition::waker::Waker;
use ferrite_peer::Lane;
use ferrite_replica::group::Member;
use std::collections::BTreeMap;
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
    pub hand_overs: Arc<HandOvers>,
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
    /// By group.
    pub giving_way: BTreeMap<GroupId, GivingWayFor>,
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
                let seen =
                    |id| seen_of_losses(&state, id, here.node, &self.whole, &self.links, &self.healths, &self.figures);
                let seen = self.node.is_registered().then_some(&seen as &dyn Fn(GroupId) -> loss::Seen);
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
            self.publish(&state, &mut seen);
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
    fn publish(&mut self, state: &Arc<State>, shown: &mut Option<Arc<State>>) {
        let hosted = || self.groups.iter().map(|group| group.id());
        let lacks = hosted().filter_map(|id| Some((id, self.node.lacks_before_it_leads(id)?)));
        self.node_status.lacks_before_it_leads(lacks.collect());
        let known = self.node_status.seen();
        let now = |id| Standing {
            in_step: self.keepers.in_step(id).is_some(),
            phase: self.node.phase(id),
            ..known.standing(id)
        };
        let news: Vec<(GroupId, Standing)> =
            state.groups().keys().map(|id| (*id, now(*id))).filter(|(id, now)| known.standing(*id) != *now).collect();
        let is_shown = shown.as_ref().is_some_and(|shown| Arc::ptr_eq(shown, state));
        if is_shown && news.is_empty() {
            return;
        }
        let registered = self.node.is_registered();
        let index = self.node.known_index();
        self.node_status.change(|seen| {
            (seen.index, seen.state, seen.registered) = (index, Arc::clone(state), registered);
            for (id, Standing { in_step, phase, .. }) in news {
                let standing = seen.standing_mut(id);
                (standing.in_step, standing.phase) = (in_step, phase);
            }
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
        let seen = self.node_status.seen();
        // What it leads it refuses itself.
        let copies = self.groups.iter().any(|group| seen.standing(group.id()).serves.is_none());
        let lacks_memory = copies && self.node.is_data() && !memory::has_room_for_rows();
        let room = if self.node.is_data() { self.node_status.room() } else { Room::Enough };
        let group = state.groups().get(&FIRST_GROUP);
        let is_member = group.is_some_and(|group| group.configuration.has(self.node.here()));
        let in_step = self.keepers.in_step(FIRST_GROUP).filter(|_| is_member);
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
        let groups = self.group_healths(&state);
        let mut message = health.encode();
        group_health::encode(&groups, &mut message);
        self.healths.said(self.node.here(), health, groups, Instant::now());
        for node in state.nodes().keys().filter(|node| **node != here) {
            self.links.send_on(*node, Lane::Control, MessageKind::Health, message.clone());
        }
        let mut full = None;
        for (id, group) in state.groups() {
            let others = group.configuration.members().iter().map(|member| member.node).filter(|node| *node != here);
            let members: Vec<NodeId> = others.collect();
            let serves = seen.standing(*id).serves.is_some();
            if serves && full.is_none() {
                full = self.healths.lacks_memory(members.iter().copied(), Instant::now());
            }
            self.give_way(*id, serves, room, lacks_java, &members, now);
        }
        // All groups' rows are in one memory, and are refused together.
        memory::refuse_rows_for(full.map(|node| node.0));
        if lacks_memory {
            self.notices.say(Notice::CopyBeyondMemory);
        }
    }

    /// What is reported of groups other than the first.
    fn group_healths(&self, state: &State) -> GroupHealths {
        let here = self.node.here();
        let of_group = |(id, group): (&GroupId, &Group)| {
            let in_step = self.keepers.in_step(*id).filter(|_| group.configuration.has(here));
            let end = self.groups.get(*id).map(|group| group.end());
            let end = end.map_or_else(Default::default, |end| (end.epoch, end.position));
            (*id, GroupHealth { in_step, phase: self.node.phase(*id), end })
        };
        state.groups().iter().filter(|(id, _)| **id != FIRST_GROUP).map(of_group).collect()
    }

    fn report_quorum(&mut self, state: &State, now: u64) {
        if self.ends || !self.node.is_registered() {
            return;
        }
        let reached = Reachability::now(state, self.node.here().node, &self.links, &self.healths);
        self.quorum.report(reached.no_majority(state), now).into_iter().for_each(ferrite_io::notify);
    }

    /// Where this node leads a group and lacks what another member has, that member is to lead it.
    /// A lack of room is not a reason to choose a member that cannot run all procedures, unless
    /// this node cannot either.
    fn give_way(&mut self, group: GroupId, serves: bool, room: Room, lacks_java: bool, members: &[NodeId], now: u64) {
        let GivingWayFor { little_room, no_java: for_java } = self.giving_way.entry(group).or_default();
        // A node that ends hands over anyhow.
        let serves = serves && !self.ends;
        let others = || members.iter().copied();
        let needs_java = if lacks_java { Need::Now } else { Need::Nothing };
        let no_java = for_java.is_due(serves, needs_java, now);
        let to = if no_java && let Some(node) = self.healths.runs_all(others(), Instant::now()) {
            for_java.asks(now);
            ferrite_io::notify(Notice::GivesWayForJava { node });
            node
        } else if little_room.is_due(serves, room.into(), now)
            && let Some(node) = self.healths.has_room(others(), !lacks_java, Instant::now())
        {
            little_room.asks(now);
            ferrite_io::notify(Notice::GivesWayForRoom { node });
            node
        } else {
            return;
        };
        // The outcome is reported.
        self.hand_over(HandOver {
            group: Some(group),
            to: Some(to),
            by_call: false,
            patience: None,
            told: Box::new(|_| {}),
        });
    }

    fn say_figures(&self) {
        let here = self.node.here().node;
        let mut figures = (self.own_figures)();
        if let Some(group) = self.groups.get(FIRST_GROUP) {
            let end = group.end();
            figures.end = (end.epoch, end.position);
        }
        let mut behind: BTreeMap<NodeId, u64> = BTreeMap::new();
        for (node, entries) in self.groups.iter().flat_map(|group| group.behind()) {
            *behind.entry(node).or_default() += entries;
        }
        figures.behind = behind.into_iter().collect();
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
                let appliers = self.appliers.count(group);
                let _ = to.send(CopyNow { intake, is_copy, appliers });
            }
            Order::Replaced(group, start) => self.node.replaced(group, *start),
            Order::HandOver(asks) => self.hand_over(asks),
            Order::AcceptLoss(asks) => {
                let state = Arc::clone(self.node.state());
                let here = self.node.here().node;
                let now = self.clock.boottime_nanos();
                let groups = match loss::lost_groups(&state, asks.node) {
                    Ok(groups) => groups,
                    Err(reason) => return (asks.told)(Err(reason)),
                };
                for (id, asks) in asks.of_groups(&groups) {
                    let mut seen =
                        seen_of_losses(&state, id, here, &self.whole, &self.links, &self.healths, &self.figures);
                    seen.doubtful = self.node_status.seen().is_doubtful(id);
                    self.losses.accept(id, asks, &state, &seen, now);
                }
            }
            Order::RemoveNode(asks) => {
                let state = self.node.state();
                let here = self.node.here().node;
                let reached = self.links.peers().waiting(asks.node, Lane::Control).is_some();
                let reachability = Reachability::now(state, here, &self.links, &self.healths);
                let seen = Seen { here, reached, no_majority: reachability.no_majority(state) };
                self.removals.begin(asks, state, seen, self.clock.boottime_nanos());
            }
            Order::Equal { group, loss } => {
                let from = self.node.here();
                let _ = self.metadata.send(MetadataNotice::Ask(Ask::Equal { from, group, loss }));
            }
            Order::Pause(asks) => self.pauses.begin(asks, self.clock.boottime_nanos()),
            Order::AnswerProcedures => {
                let serves = self.node_status.seen().standing(FIRST_GROUP).serves.is_some();
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

    /// A group, or all groups that this node leads, are to be led by others.
    fn hand_over(&mut self, asks: HandOver) {
        let seen = self.node_status.seen();
        let is_meant = |id: &GroupId| match asks.group {
            Some(group) => group == *id,
            None => seen.standing(*id).serves.is_some(),
        };
        let mut groups: Vec<GroupId> = self.groups.iter().map(|group| group.id()).filter(is_meant).collect();
        if groups.is_empty() {
            // Its outcome is that this node does not lead.
            groups.push(FIRST_GROUP);
        }
        let to = asks.to;
        let patience = asks.patience.map(|patience| patience.as_nanos() as u64);
        if self.hand_overs.begin(&groups, asks) {
            self.node.are_ending(self.healths.ending(Instant::now()));
            groups.into_iter().for_each(|group| self.node.hand_over(group, to, patience));
        }
    }

    /// Tells the operator which nodes keep each group; returns whether all of them have what is
    /// committed.
    fn look_at_keepers(&mut self, state: &Arc<State>, now: u64) -> bool {
        let here = (self.node.here(), self.node.is_registered());
        let members = |id| {
            let group = state.groups().get(&id);
            group.into_iter().flat_map(|group| group.configuration.members()).map(|member| member.node)
        };
        let begun = |id, epoch| {
            self.groups.get(id).is_some_and(|group| group.has_committed_start_of(epoch))
                || self.healths.know_in_step(members(id), id, epoch, Instant::now())
        };
        let (notices, in_step) = self.keepers.report(state, here, now, begun);
        notices.into_iter().for_each(ferrite_io::notify);
        in_step
    }

    /// A log that may lack what was acknowledged is complete again when this is so for each group
    /// that it has entries of: this process is a member, and what the members had when it became
    /// one is committed here.
    fn look_whether_whole(&mut self) {
        if self.whole.load(Ordering::Relaxed) {
            return;
        }
        let here = self.node.here();
        let state = Arc::clone(self.node.state());
        let start_of = |id, epoch| self.groups.get(id).is_some_and(|group| group.has_committed_start_of(epoch));
        if are_whole(self.groups.iter().map(|group| group.id()), &state, here, start_of) {
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
    id: GroupId,
    here: NodeId,
    whole: &AtomicBool,
    links: &Links,
    healths: &Healths,
    figures: &AllFigures,
) -> loss::Seen {
    let reachability = Reachability::now(state, here, links, healths);
    let members = state.groups().get(&id).map(|group| group.configuration.members()).unwrap_or_default();
    let there = members.iter().map(|member| member.node).filter(|node| reachability.is_reached(*node));
    let is_whole = |node| match node == here {
        true => whole.load(Ordering::Relaxed),
        false => healths.of(node, Instant::now()).is_some_and(|health| !health.incomplete),
    };
    loss::Seen {
        there: there.map(|node| (node, is_whole(node))).collect(),
        // The first group's are among the figures.
        ends: if id == FIRST_GROUP { figures.ends(Instant::now()) } else { healths.ends(id, Instant::now()) },
        no_majority: reachability.no_majority(state),
        doubtful: false,
    }
}

/// Whether nothing that this process acknowledged earlier can be missing of any of the groups that
/// it hosts: one that is proven says nothing of another. `begun`: whether the first entry of a
/// group's epoch is committed here.
fn are_whole(
    mut hosted: impl Iterator<Item = GroupId>,
    state: &State,
    here: Member,
    begun: impl Fn(GroupId, Epoch) -> bool,
) -> bool {
    let of_group = |id| {
        let configuration = &state.groups().get(&id)?.configuration;
        Some(configuration.has(here) && begun(id, configuration.epoch))
    };
    let mut any = false;
    let all = hosted.all(|id| {
        any = true;
        of_group(id) == Some(true)
    });
    any && all
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_log_is_whole_when_what_it_has_of_each_group_is() {
        let state = testing::of_groups((1..=3).map(testing::node).collect(), &[&[1, 2], &[2, 1]], &[1, 2, 3]);
        let [first, second] = [GroupId(0), GroupId(1)];
        let here = Member::new(1, 1);
        let whole = |hosted: &[GroupId], begun: &[GroupId]| {
            are_whole(hosted.iter().copied(), &state, here, |id, _| begun.contains(&id))
        };
        assert!(whole(&[first], &[first]) && whole(&[first, second], &[first, second]));
        assert!(!whole(&[first, second], &[first]), "the second group's entries may be lost");
        assert!(!whole(&[first, second], &[second]) && !whole(&[], &[first]));
        assert!(!whole(&[first, GroupId(9)], &[first, GroupId(9)]), "the metadata does not know it yet");
        let other = Member::new(3, 1);
        assert!(!are_whole([first].into_iter(), &state, other, |_, _| true), "it is no member");
    }
}
