//! What a group hears from other nodes, the metadata and the clock.

use super::Replication;
use super::state::State;
use crate::host::Party;
use ferrite_base::{Epoch, NodeId, Position};
use ferrite_replica::group::{Among, CannotHandOver, Envelope, Group, GroupConfiguration, Member, Successor};
use std::collections::BTreeSet;
use std::sync::Arc;

impl<C: Party> Replication<C> {
    /// A message of the group from another node, decoded with its entries.
    pub fn handle_message(self: &Arc<Self>, envelope: Envelope, entries: &[u8]) {
        let mut state = self.lock();
        // What there is no room for is sent again, and so is everything once the log has failed.
        if state.installing || !entries.is_empty() && (self.log.is_full() || state.failed.is_some()) {
            return;
        }
        let now = self.now();
        self.refresh_may_lead(&mut state);
        self.hear_time(&mut state, &envelope);
        state.machine.handle_message(envelope, now);
        if state.machine.has_to_send() {
            // Its message shows that it lacks something, or makes room for more on the way to it.
            state.machine.tick(now);
        }
        self.carry_out(&mut state, entries);
        self.notify_parties(state);
    }

    fn with_machine(self: &Arc<Self>, act: impl FnOnce(&mut Group, u64)) {
        let mut state = self.lock();
        let now = self.now();
        self.refresh_may_lead(&mut state);
        act(&mut state.machine, now);
        self.carry_out(&mut state, &[]);
        self.notify_parties(state);
    }

    /// For a group that no node can lead without its members.
    pub fn configured(self: &Arc<Self>, configuration: GroupConfiguration) {
        self.configured_among(configuration, false);
    }

    /// `dispensable`: the voters can decide without any of the members.
    pub fn configured_among(self: &Arc<Self>, configuration: GroupConfiguration, dispensable: bool) {
        let mut state = self.lock();
        let now = self.now();
        let led = state.machine.is_leading();
        state.machine.is_led_among(dispensable, !dispensable || self.host.may_lead());
        if !led && configuration.leader == state.machine.here() {
            self.begin_to_show(&mut state);
        }
        state.machine.configured(configuration, now);
        // Time stands still until new members know it: set before the start of an epoch is written,
        // whose time they know.
        self.limit_time(&mut state);
        // A new leader asks its members at once where their streams end. One that leads on waits
        // for a tick: what reaches a member before the news would be lost.
        if !led && state.machine.is_leading() {
            state.machine.tick(now);
        }
        self.carry_out(&mut state, &[]);
        self.say_time(&mut state, true);
        self.notify_parties(state);
    }

    /// Another member is to lead, this one or any: as soon as everything here is committed and it
    /// has all of that, until [`Replication::keep_lead`].
    pub fn hand_over(self: &Arc<Self>, to: Option<NodeId>, among: Among) -> Result<(), CannotHandOver> {
        let mut outcome = Ok(());
        self.lock().refresh_copy();
        self.with_machine(|machine, now| outcome = machine.hand_over(to, among, now));
        outcome
    }

    /// The nodes whose processes end: [`Replication::hand_over`] to any passes them over.
    pub fn are_ending(&self, nodes: BTreeSet<NodeId>) {
        self.lock().machine.are_ending(nodes);
    }

    /// Whether this node leads, and the processes of all other members end.
    pub fn is_left_alone(&self) -> bool {
        self.lock().machine.is_left_alone()
    }

    /// Whether [`Replication::hand_over`] is possible.
    pub fn may_hand_over(&self, to: Option<NodeId>) -> Result<(), CannotHandOver> {
        let mut state = self.lock();
        state.refresh_copy();
        state.machine.may_hand_over(to)
    }

    /// The node that could lead in this leader's place, that one or any. If that depends on what
    /// copies have applied or can run, they are asked again.
    pub fn successor(&self, to: Option<NodeId>) -> Successor {
        let now = self.now();
        let mut state = self.lock();
        state.refresh_copy();
        let successor = state.machine.successor(to, now);
        if let Successor::Applying { .. } | Successor::Unable { .. } = successor {
            self.ask_what_is_applied(&mut state);
        }
        successor
    }

    /// Of the members that could lead, the one that has least to apply.
    pub fn least_behind(&self, to: Option<NodeId>) -> Option<(NodeId, u64)> {
        self.lock().machine.least_behind(to)
    }

    /// Whether another was proposed in this epoch.
    pub fn has_proposed_another(&self) -> bool {
        self.lock().machine.has_proposed_another()
    }

    /// This node is to lead on.
    pub fn keep_lead(self: &Arc<Self>) {
        self.with_machine(|machine, now| machine.keep_lead(now));
    }

    pub fn seal(self: &Arc<Self>, epoch: Epoch) {
        let mut state = self.lock();
        if !state.installing {
            state.refresh_copy();
            state.machine.seal(epoch);
            self.carry_out(&mut state, &[]);
            self.notify_parties(state);
        }
    }

    /// This node's tables do not match what the leader said of that entry.
    pub fn differs(self: &Arc<Self>, entry: Position) {
        self.with_machine(|machine, _| machine.differs(entry));
    }

    pub fn promised(self: &Arc<Self>, epoch: Epoch) {
        self.lock().refresh_copy();
        self.with_machine(|machine, _| machine.promised(epoch));
    }

    pub fn learner(self: &Arc<Self>, member: Member) {
        self.with_machine(|machine, now| machine.learner(member, now));
    }

    /// Whether this node leads, and the process follows, as a learner or a member.
    pub fn follows(&self, member: Member) -> bool {
        self.lock().machine.follows(member)
    }

    /// The same, and it has answered.
    pub fn is_answered_by(&self, member: Member) -> bool {
        let now = self.now();
        self.lock().machine.is_answered_by(member, now)
    }

    /// Whether this node leads, and a member without which nothing is committed has been silent for
    /// this long.
    pub fn is_unanswered(&self, nanos: u64) -> bool {
        let now = self.now();
        self.lock().machine.is_unanswered(nanos, now)
    }

    /// Whether this node leads, and the voters can decide without any of the members.
    pub fn is_dispensable(&self) -> bool {
        let state = self.lock();
        state.machine.is_leading() && state.machine.is_dispensable()
    }

    /// What is durable, or was read, is as it is now; whether others may have replaced this leader
    /// is checked after that.
    pub(super) fn refresh_may_lead(&self, state: &mut State<C>) {
        if state.machine.is_dispensable() {
            state.machine.may_lead(self.host.may_lead());
        }
    }

    /// For a leader: the nodes that follow, and how many entries are not durable yet on each.
    pub fn behind(&self) -> Vec<(NodeId, u64)> {
        self.lock().machine.behind()
    }

    /// This node gives up its lead; returns that epoch, if it leads.
    pub fn resign(self: &Arc<Self>) -> Option<Epoch> {
        let mut epoch = None;
        self.with_machine(|machine, _| epoch = machine.resign());
        epoch
    }

    pub fn forget(self: &Arc<Self>, member: Member) {
        self.with_machine(|machine, _| machine.forget(member));
    }

    pub fn gone(self: &Arc<Self>, member: Member) {
        self.with_machine(|machine, now| machine.gone(member, now));
    }

    pub fn disconnected(self: &Arc<Self>, node: NodeId) {
        self.with_machine(|machine, _| machine.disconnected(node));
    }

    pub(crate) fn needs_more_than_entries(self: &Arc<Self>, node: NodeId) {
        self.with_machine(|machine, now| machine.needs_more_than_entries(node, now));
    }

    /// To be called when [`Replication::tick_within`] has passed, or more often.
    pub fn tick(self: &Arc<Self>) {
        self.say_time(&mut self.lock(), false);
        self.with_machine(|machine, now| machine.tick(now));
    }

    /// Nanoseconds until there is something to do for [`Replication::tick`], if nothing comes
    /// before. None: not until then.
    pub fn tick_within(&self) -> Option<u64> {
        let now = self.now();
        self.lock().machine.next_tick(now).map(|next| next.saturating_sub(now))
    }
}
