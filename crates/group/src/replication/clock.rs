//! The time that transactions show: what leaders and members say to each other about it
//! ([`crate::times`]).

use super::Replication;
use super::state::State;
use crate::host::{Party, Urgency};
use ferrite_replica::group::{Envelope, Member, Message, Said};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Between two messages of a leader about its clock; and the same while it hands over, when what
/// members have applied counts.
const SAY_EVERY_NANOS: u64 = 50_000_000;
const SAY_SOON_NANOS: u64 = 2_000_000;

impl<C: Party> Replication<C> {
    /// The time of a transaction that begins now: whole milliseconds, in microseconds since 1970.
    /// `wall`: as of this group's clock.
    #[inline]
    pub(crate) fn transaction_time(&self, wall: i64) -> i64 {
        self.shown.show(wall, || self.clock.boottime_nanos())
    }

    /// Numbers of new transactions are above this: an earlier leader may have given those below.
    pub(crate) fn numbers_behind(&self) -> i64 {
        self.lock().times.numbers_behind()
    }

    /// A copy applies what is committed, and reports its progress there.
    pub fn is_applied_by(&self, applied: Arc<AtomicU64>) {
        self.lock().applied = Some(applied);
    }

    /// It shows there whether procedures of the database cannot run on this node.
    pub fn is_limited_by(&self, unable: Arc<AtomicBool>) {
        self.lock().unable = Some(unable);
    }

    /// This node is to lead: its first entry is not written yet.
    pub(super) fn begin_to_show(&self, state: &mut State<C>) {
        state.time = state.times.begin(state.time, self.clock.wall_micros(), self.clock.boottime_nanos());
    }

    /// What may be shown follows from the leader, the members, and what they know.
    pub(super) fn limit_time(&self, state: &mut State<C>) {
        if self.solo {
            return;
        }
        let State { times, machine, .. } = state;
        let leads = machine.configuration().filter(|_| machine.is_leading());
        times.limit(&self.shown, leads, machine.here(), self.clock.boottime_nanos());
    }

    /// Tells the members what time it is, if that is due.
    pub(super) fn say_time(&self, state: &mut State<C>, at_once: bool) {
        let at = self.clock.boottime_nanos();
        let every = if state.machine.is_handing_over() { SAY_SOON_NANOS } else { SAY_EVERY_NANOS };
        if !state.machine.is_leading() || !at_once && !state.times.is_due(at, every) {
            return;
        }
        let said = state.times.say(&self.shown, state.time, self.clock.wall_micros(), at);
        let here = state.machine.here();
        let Some(configuration) = state.machine.configuration() else { return };
        let envelope = Envelope { from: here, epoch: configuration.epoch, message: Message::Clock(said) };
        for member in configuration.members().iter().filter(|member| **member != here) {
            self.send(member.node, Urgency::Control, &envelope, &[]);
        }
    }

    /// The members' next messages say what they have applied.
    pub(super) fn ask_what_is_applied(&self, state: &mut State<C>) {
        if state.times.is_due(self.clock.boottime_nanos(), SAY_SOON_NANOS) {
            self.say_time(state, true);
        }
    }

    /// A message about that. One of an epoch that has ended here counts for nothing.
    pub(super) fn hear_time(&self, state: &mut State<C>, envelope: &Envelope) {
        let epoch = state.machine.configuration().map(|configuration| configuration.epoch);
        match envelope.message {
            Message::Clock(said) if !state.machine.is_leading() && Some(envelope.epoch) >= epoch => {
                self.answer_time(state, envelope, said);
            }
            Message::Knows { said, .. } if Some(envelope.epoch) == epoch => self.is_known(state, envelope.from, said),
            _ => {}
        }
    }

    fn answer_time(&self, state: &mut State<C>, asked: &Envelope, said: Said) {
        state.times.hear(said, self.clock.boottime_nanos());
        state.refresh_copy();
        let applied = state.machine.applied();
        let able = state.machine.is_able();
        let message = Message::Knows { said, applied, able };
        let envelope = Envelope { from: state.machine.here(), epoch: asked.epoch, message };
        self.send(asked.from.node, Urgency::Control, &envelope, &[]);
    }

    fn is_known(&self, state: &mut State<C>, by: Member, said: Said) {
        state.times.answered(by, said, self.clock.boottime_nanos());
        self.limit_time(state);
    }
}
