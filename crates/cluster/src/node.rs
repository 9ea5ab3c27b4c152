//! A node: takes one cause of work after the other.

mod events;
mod hosting;
mod leads;

use self::events::Promising;
use crate::cause::{Cause, NodeEffects};
use crate::failover_phase::FailoverPhase;
use crate::group_replica::{GroupReplica, Parties};
use crate::groups::Groups;
use crate::handing::NotHandedOver;
use crate::kept_alone::kept_here_alone;
use crate::lease::Lease;
use crate::membership;
use crossbeam_channel::Receiver;
use ferrite_base::{Epoch, GroupId, NodeId, Position, planted};
use ferrite_group::{CannotHandOver, Identity};
use ferrite_meta::{Ask, Group, Kind, Node as Registration, Phase, Presence, State, why_retired};
use ferrite_notice::Notice;
use ferrite_partition::applier::{CopyStart, Intake};
use ferrite_partition::waker::WakingSender;
use ferrite_replica::group::Member;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Between two looks at the metadata: a third of a lease.
const LOOK_NANOS: u64 = 666_000_000;
/// Between two of them when something shows that there is news or a leader has no lease, between
/// two attempts to register, and between two looks at who may become a member while one is lacking.
const LOOK_AGAIN_NANOS: u64 = 50_000_000;
/// What a node begins with.
pub struct Start {
    /// As it is on disk, with the incarnation of this process.
    pub identity: Identity,
    /// What it reports of itself. The incarnation is the identity's.
    pub registration: Registration,
    /// By group: the parties that run its transactions, and where the stores are.
    pub parties: BTreeMap<GroupId, (Parties, CopyStart)>,
    pub groups: Groups,
    /// The one that the hosts of the groups ask. Does not hold at first.
    pub lease: Lease,
}

pub struct Node {
    identity: Identity,
    registration: Registration,
    groups: Groups,
    replicas: BTreeMap<GroupId, GroupReplica>,
    /// They lead to the inbox.
    causes: WakingSender<Cause>,
    inbox: Receiver<Cause>,
    effects: Box<dyn NodeEffects>,
    promising: Promising,
    lease: Lease,
    /// The metadata as far as it is known here, after this many commands.
    known: (u64, Arc<State>),
    registered: bool,
    /// Since when it is.
    registered_at: u64,
    /// Another process has the node's place.
    ended: bool,
    /// It does nothing more for its groups, and repeats that until it is heard.
    leaves: bool,
    /// It will announce that when others lead its groups.
    hands_over: bool,
    /// As of the last step or tick, and of the last tick.
    now: u64,
    ticked: u64,
    /// When the metadata was asked last, and what was said of it shows that there is news.
    asked: Option<u64>,
    wants_news: bool,
    /// Nodes whose processes end, as they have said.
    ending: BTreeSet<NodeId>,
    /// Groups that it leads although its log stands still: others are to lead them.
    stands_still: BTreeSet<GroupId>,
    /// Copies that are of no use, in a directory that has the only copy of another group.
    kept_for_others: BTreeSet<GroupId>,
    /// Groups whose lead it has given up, in that epoch, which the metadata may not know.
    resigned: BTreeMap<GroupId, Epoch>,
    /// The last notice of an entry that cannot be sent.
    too_large: Option<(GroupId, NodeId, Position)>,
}

impl Node {
    /// `causes` leads to `inbox`. The identity is durable.
    pub fn new(
        start: Start,
        causes: &WakingSender<Cause>,
        inbox: Receiver<Cause>,
        mut effects: Box<dyn NodeEffects>,
    ) -> Node {
        let Start { identity, registration, parties, groups, lease } = start;
        let registration = Registration { incarnation: identity.incarnation, ..registration };
        let replicas = parties.into_iter().map(|(id, (parties, start))| {
            let group = groups.get(id).expect("a group that is kept is replicated");
            (id, GroupReplica::new(group, parties, start, causes.clone(), &mut *effects))
        });
        let replicas = replicas.collect();
        Node {
            identity,
            registration,
            groups,
            replicas,
            causes: causes.clone(),
            inbox,
            effects,
            promising: Promising::default(),
            lease,
            known: (0, Arc::default()),
            registered: false,
            registered_at: 0,
            ended: false,
            leaves: false,
            hands_over: false,
            now: 0,
            ticked: 0,
            asked: None,
            wants_news: false,
            ending: BTreeSet::new(),
            stands_still: BTreeSet::new(),
            kept_for_others: BTreeSet::new(),
            resigned: BTreeMap::new(),
            too_large: None,
        }
    }

    pub fn here(&self) -> Member {
        Member { node: self.identity.node, incarnation: self.identity.incarnation }
    }

    pub fn is_registered(&self) -> bool {
        self.registered
    }

    pub fn state(&self) -> &Arc<State> {
        &self.known.1
    }

    /// How many commands are in the state.
    pub fn known_index(&self) -> u64 {
        self.known.0
    }

    /// Takes the next step, if there is one; returns whether there was. `now`: of the boot-time
    /// clock, in nanoseconds.
    pub fn step(&mut self, now: u64) -> bool {
        self.now = now;
        let taken = self.inbox.try_recv().map(|cause| self.handle(cause)).is_ok();
        let mut moved = self.keep_promises();
        for replica in self.replicas.values_mut() {
            moved |= replica.move_on(&mut *self.effects);
            moved |= replica.hand_on(&self.known.1, &mut *self.effects);
        }
        taken || moved
    }

    /// Whether something came that was not taken.
    pub fn can_step(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Whether a party is to be asked again whether it is done: a tick does it.
    pub fn waits(&self) -> bool {
        self.replicas.values().any(GroupReplica::waits)
    }

    /// When [`Node::tick`] has something to do next, if nothing comes earlier: now, or at a time,
    /// of the boot-time clock. The caller leaves some milliseconds between two ticks.
    pub fn next_tick(&self, now: u64) -> u64 {
        let under_way = self.replicas.values().any(|replica| replica.waits() || replica.is_handing_over());
        if self.hands_over || under_way {
            return now;
        }
        let groups = self.groups.iter().filter_map(|group| group.tick_within());
        let group = groups.min().map_or(u64::MAX, |within| now.saturating_add(within));
        let asks = match self.asked {
            _ if self.ended || !self.asks() => u64::MAX,
            Some(asked) => asked.saturating_add(self.pause()),
            None => now,
        };
        // Whose turn it is next depends on who has answered.
        let lacks = self.replicas.values().any(|replica| replica.offers.lack() && replica.group.is_leading());
        let offers = if lacks { self.ticked.saturating_add(LOOK_AGAIN_NANOS) } else { u64::MAX };
        let returns = if self.returns_lead() { self.ticked.saturating_add(LOOK_AGAIN_NANOS) } else { u64::MAX };
        group.min(asks).min(offers).min(returns).max(now)
    }

    /// Whether it asks the metadata repeatedly.
    fn asks(&self) -> bool {
        if self.leaves { self.is_running() } else { self.stands_still.is_empty() }
    }

    /// Between two of these questions.
    fn pause(&self) -> u64 {
        let awaits = self.replicas.values().any(GroupReplica::awaits_successor);
        // Until it has one, reads take a round, and clients learn of no leader.
        let needs_lease = !self.lease.holds() && self.replicas.values().any(|replica| replica.group.is_leading());
        let soon = self.wants_news || self.leaves || !self.registered || awaits || needs_lease;
        if soon { LOOK_AGAIN_NANOS } else { LOOK_NANOS }
    }

    /// Does what is due: to be called at [`Node::next_tick`], or more often. `now`: of the
    /// boot-time clock, in nanoseconds.
    pub fn tick(&mut self, now: u64) {
        if self.ended {
            return;
        }
        (self.now, self.ticked) = (now, now);
        self.groups.iter().for_each(|group| group.tick());
        self.offer();
        self.resign_where_cut_off();
        self.put_aside_what_was_lost();
        self.return_leads();
        for replica in self.replicas.values_mut() {
            replica.move_on(&mut *self.effects);
            replica.hand_on(&self.known.1, &mut *self.effects);
            replica.advance_hand_over(now, &self.known.1, &mut *self.effects);
        }
        if self.hands_over && !self.replicas.values().any(GroupReplica::is_handing_over) {
            self.hands_over = false;
            self.goodbye();
        }
        let pause = self.pause();
        if !self.asks() || self.asked.is_some_and(|asked| now.saturating_sub(asked) < pause) {
            return;
        }
        self.asked = Some(now);
        self.wants_news = false;
        let ask = if self.leaves {
            Ask::Goodbye(self.here())
        } else if self.registered {
            Ask::Look { member: self.here(), index: self.known.0 }
        } else {
            Ask::Register { id: self.identity.node, node: self.registration.clone() }
        };
        self.effects.ask(ask);
        for (group, epoch) in &self.resigned {
            self.effects.ask(Ask::Resign { group: *group, from: self.here(), epoch: *epoch });
        }
    }

    /// What the others have lost is kept beside what they have. The directory has the copies of all
    /// groups, and stays as it is until other nodes have everything of the other groups: a process
    /// that ended before that could give it to none. Of a group without a leader, an operator may
    /// continue with the copy that is here, even if it is an older one.
    fn put_aside_what_was_lost(&mut self) {
        let lost = self.replicas.iter_mut().filter_map(|(id, replica)| Some((*id, replica.is_put_aside()?)));
        for (id, reason) in lost.collect::<Vec<_>>() {
            let alone = self.kept_here_alone(id).filter(|alone| *alone != id);
            let alone = alone.map(|alone| format!("another node has a complete copy of group {alone}"));
            let not_led = || Some(format!("a node leads group {}", self.has_without_leader(id)?));
            match alone.or_else(not_led) {
                None => self.made_anew(id, &reason),
                Some(until) if self.kept_for_others.insert(id) => {
                    let reason = format!("{reason}. It is kept until {until}");
                    self.effects.notice(Notice::CopyUnusable { group: id, reason });
                }
                Some(_) => {}
            }
        }
    }

    /// Another group with entries here that no node leads. A copy that is broken does not ask this:
    /// a group is also without a leader for a moment when one follows another.
    fn has_without_leader(&self, lost: GroupId) -> Option<GroupId> {
        let state = &self.known.1;
        let mut others = self.replicas.iter().filter(|(id, replica)| **id != lost && replica.has_entries());
        let is_led = |id: &GroupId| state.groups().get(id).is_none_or(|known| known.phase == Phase::Active);
        others.find(|(id, _)| !is_led(id)).map(|(id, _)| *id)
    }

    fn kept_here_alone(&self, broken: GroupId) -> Option<GroupId> {
        let has_begun = |id: GroupId, epoch: Epoch| {
            self.replicas.get(&id).is_some_and(|replica| replica.group.has_committed_start_of(epoch))
        };
        kept_here_alone(&self.known.1, self.here().node, broken, has_begun)
    }

    /// Announces, from the next tick on, that this process does nothing more for its groups. Others
    /// may lead them as soon as they hear it.
    pub fn goodbye(&mut self) {
        self.leaves = true;
        self.lease.end();
        self.asked = None;
    }

    /// Whether it announces that, or has; or has nothing to announce, since it no longer counts.
    pub fn says_goodbye(&self) -> bool {
        self.leaves || self.ended
    }

    /// Announces the same when another node leads what this one leads, if one can; soon in any
    /// case.
    pub fn leave(&mut self) {
        self.hands_over = true;
        self.replicas.values_mut().for_each(|replica| replica.leave(&self.known.1, &mut *self.effects));
    }

    /// Another member is to lead the group, this one or any, and no call is to fail for that:
    /// [`NodeEffects::handed_over`] gets the outcome. `patience`: this node ends, and waits for a
    /// member that could lead for this time, in nanoseconds.
    pub fn hand_over(&mut self, id: GroupId, to: Option<NodeId>, patience: Option<u64>) {
        let replica = self.replicas.get_mut(&id).filter(|_| !self.ended && !self.leaves && !self.hands_over);
        let begun = match replica {
            Some(replica) => replica.hand_over(to, patience, &self.known.1, &mut *self.effects),
            None => Err(NotHandedOver::Cannot(CannotHandOver::NotLeading)),
        };
        if let Err(reason) = begun {
            self.effects.handed_over(id, Err(reason));
        }
    }

    /// The nodes whose processes end, as they have said: none of them is to lead next.
    pub fn are_ending(&mut self, nodes: BTreeSet<NodeId>) {
        if self.ending != nodes {
            self.groups.iter().for_each(|group| group.are_ending(nodes.clone()));
            self.replicas.values_mut().for_each(|replica| replica.ending.clone_from(&nodes));
            self.ending = nodes;
        }
    }

    /// Whether another node continues, or answers its last calls, which this one's end may hold up.
    pub fn is_needed(&self) -> bool {
        let state = &self.known.1;
        let here = self.identity.node;
        membership::others_run(state, here, &self.ending) || membership::leader_ends(state, here, &self.ending)
    }

    /// The metadata knows that this node has stopped; another node leads, if any can; and the
    /// leader does without this node: until then the leader waits for what this one acknowledges.
    /// If the leader ends, too, it has said goodbye, for which it needs the voters. Once another
    /// process has this node's place, it has left at once.
    pub fn has_left(&self) -> bool {
        if self.ended {
            return true;
        }
        let state = &self.known.1;
        let here = self.here();
        let stopped = state.nodes().get(&here.node).is_some_and(|node| node.presence == Presence::Stopped);
        let counts = |group: &Group| {
            let is_member = group.configuration.has(here);
            is_member && membership::others_keep(group, state, here.node, &self.ending)
        };
        let is_left_out = !state.groups().values().any(counts);
        stopped && is_left_out && !membership::leader_ends(state, here.node, &self.ending)
    }

    /// As far as the metadata knows.
    fn is_running(&self) -> bool {
        let known = self.known.1.nodes().get(&self.identity.node);
        known.is_none_or(|node| node.presence == Presence::Running)
    }

    /// The way to the applier of a copy, for [`ferrite_partition::install::Learner`].
    pub fn intake(&self, id: GroupId) -> Option<&Intake> {
        self.replicas.get(&id)?.intake()
    }

    /// For a group that this node is to lead, whose calls wait until its tables have what is
    /// committed: how many entries they lack.
    pub fn lacks_before_it_leads(&self, id: GroupId) -> Option<u64> {
        self.replicas.get(&id)?.lacks_before_it_leads()
    }

    /// Of a group that this node was chosen to lead: the epoch, and how far it has come.
    pub fn phase(&self, id: GroupId) -> Option<(Epoch, FailoverPhase)> {
        self.replicas.get(&id)?.phase()
    }

    /// Whether this node has a copy, or gets another node's snapshot in its place: not while it
    /// leads, or before its partitions have stepped back.
    pub fn is_copy(&self, id: GroupId) -> bool {
        self.replicas.get(&id).is_some_and(GroupReplica::is_copy)
    }

    /// Another node's snapshot has taken the place of what was here
    /// ([`ferrite_partition::install::InstallStep::Done`]).
    pub fn replaced(&mut self, id: GroupId, start: CopyStart) {
        if let Some(replica) = self.replicas.get_mut(&id) {
            replica.replaced(start, &mut *self.effects);
        }
    }

    /// The metadata as this node now knows it.
    fn metadata_changed(&mut self, index: u64, state: Arc<State>, leader: Option<NodeId>) {
        if index < self.known.0 {
            return;
        }
        // Before any configuration of this update: a node that leads by it refuses writes by then.
        if state.is_paused() != self.known.1.is_paused() {
            // As if only the one that leads at that moment refused writes.
            if !planted!(PauseOfLeader) || self.replicas.values().any(GroupReplica::serves) {
                self.effects.paused(state.is_paused());
            }
        }
        for (id, group) in state.groups() {
            let known = self.known.1.groups().get(id).is_some_and(|known| known.unequal);
            if group.unequal != known {
                self.effects.unequal(*id, group.unequal);
            }
        }
        self.known = (index, Arc::clone(&state));
        self.check_own_entry(&state);
        if !self.registered || self.ended {
            return;
        }
        state.groups().iter().for_each(|(id, group)| self.group_changed(*id, group, &state, leader));
    }

    /// What follows for a group that is kept here. `voter`: the one that leads.
    fn group_changed(&mut self, id: GroupId, group: &Group, state: &State, voter: Option<NodeId>) {
        let here = self.here();
        let Some(replica) = self.replicas.get_mut(&id) else { return };
        if replica.was_lost(group) {
            return;
        }
        replica.offers.seen(group, state);
        replica.lead_return.see(group, state);
        let leads = group.phase == Phase::Active && group.configuration.leader == here;
        if leads {
            replica.leads_in(group.configuration.epoch, self.now);
            for member in membership::forget(&replica.group, group, state, &mut replica.offers, self.now) {
                self.effects.needs_no_snapshot(id, member.node);
            }
        }
        let dispensable = membership::is_dispensable(state, &group.configuration);
        replica.group.configured_among(group.configuration.clone(), dispensable);
        if group.phase == Phase::Sealing
            || self.resigned.get(&id).is_some_and(|epoch| group.configuration.epoch > *epoch)
        {
            self.resigned.remove(&id);
        }
        let accepted = group.accepted.is_some_and(|accepted| accepted.node == here.node);
        let asked = accepted || group.configuration.has_node(here.node);
        if group.phase == Phase::Sealing && asked && replica.seal_answer.is_due(group.burnt, voter, self.now) {
            replica.group.seal(group.burnt);
        }
        if leads {
            membership::report_gone(&replica.group, group, state);
            let transfer = self.effects.transfer_nanos(id);
            membership::offer(&replica.group, group, state, &mut replica.offers, transfer, self.now);
        }
    }

    /// Nodes that a group lacking a member may take in, while one that was offered to it is silent.
    fn offer(&mut self) {
        let here = self.here();
        let state = Arc::clone(&self.known.1);
        if !self.registered {
            return;
        }
        for (id, replica) in &mut self.replicas {
            if let Some(group) = state.groups().get(id)
                && group.phase == Phase::Active
                && group.configuration.leader == here
            {
                let transfer = self.effects.transfer_nanos(*id);
                membership::offer(&replica.group, group, &state, &mut replica.offers, transfer, self.now);
            }
        }
    }

    /// It counts once the groups know what it was granted for, and never again once this process
    /// has said goodbye.
    fn leased(&mut self, index: u64, until: u64) {
        if self.registered && !self.leaves && index <= self.known.0 {
            self.lease.extend(until);
            // What waited for it.
            self.groups.iter().for_each(|group| group.tick());
        }
    }

    /// What the metadata knows of this node.
    fn check_own_entry(&mut self, state: &State) {
        let Member { node, incarnation } = self.here();
        let Some(known) = state.nodes().get(&node) else { return };
        let reason = if let Some(reason) = why_retired(state, node) {
            reason
        } else if known.incarnation > incarnation {
            format!("node {node} was started again, as incarnation {}", known.incarnation)
        } else if known.incarnation == incarnation && known.start != self.registration.start {
            format!(
                "a copy of the directory of node {node} is in use, or was. Run only the one that ran last; if the other has already \
                 stopped, start this one again. Give the other node an empty directory"
            )
        } else {
            if !self.registered && known.incarnation == incarnation {
                (self.registered, self.registered_at) = (true, self.now);
            }
            return;
        };
        self.ended = true;
        self.lease.end();
        self.effects.end(&reason);
    }

    /// Whether it keeps data.
    pub fn is_data(&self) -> bool {
        self.registration.kind == Kind::Data
    }

    pub fn node_id(&self) -> NodeId {
        self.identity.node
    }
}
