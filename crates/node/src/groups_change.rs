//! A schema change of several groups on its way to the sequencer: all groups check it, which stops
//! nobody, then all make what they have checked, as one transaction (docs/decisions/0127, 0131).
//!
//! One after the other: each change makes what was checked of others stale. A change has its turn
//! until nothing holds it any more, whether it was answered or dropped.

use crate::groups_calls::GroupsCalls;
use ferrite_base::limits::{LOT_QUEUE_BYTES_MAX, SCHEMA_CHANGES_WAITING_MAX};
use ferrite_base::{CatalogVersion, SqlLimits, UserError};
use ferrite_member::lots::{GroupsCall, MergeRule};
use ferrite_partition::lots::{LotProgram, change_name, limits_bytes};
use ferrite_partition::{AnswerBatch, Mailbox, Reply, StoreSet};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a client asks for.
pub struct ChangeRequest {
    pub calls: GroupsCalls,
    /// Of the schema that calls are routed with.
    pub version: Box<dyn Fn() -> CatalogVersion + Send + Sync>,
    pub text: String,
    pub limits: SqlLimits,
    /// In each group.
    pub time_max: Duration,
    pub reply: Reply,
}

/// The changes of a node that leads the first group.
#[derive(Default)]
pub struct ChangeQueue(Mutex<WaitingChanges>);

#[derive(Default)]
struct WaitingChanges {
    /// A change has its turn.
    is_busy: bool,
    requests: VecDeque<ChangeRequest>,
    bytes: usize,
}

impl ChangeQueue {
    fn lock(&self) -> MutexGuard<'_, WaitingChanges> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the change when it is its turn; one answer comes.
    pub fn submit(self: &Arc<Self>, request: ChangeRequest) {
        let mut waiting = self.lock();
        let bytes = waiting.bytes + request.text.len();
        let is_full = waiting.requests.len() == SCHEMA_CHANGES_WAITING_MAX || bytes > LOT_QUEUE_BYTES_MAX;
        if !waiting.is_busy {
            waiting.is_busy = true;
            drop(waiting);
            self.begin(request);
        } else if is_full {
            drop(waiting);
            let error = UserError::not_started("limit of waiting schema changes reached");
            request.reply.refuse(&error.with_hint("call again"));
        } else {
            waiting.bytes = bytes;
            waiting.requests.push_back(request);
        }
    }

    fn begin(self: &Arc<Self>, request: ChangeRequest) {
        Arc::new(GroupsChange { queue: Arc::clone(self), request }).check();
    }

    /// The change that had its turn is over.
    fn end(self: &Arc<Self>) {
        let mut waiting = self.lock();
        let next = waiting.requests.pop_front();
        waiting.is_busy = next.is_some();
        waiting.bytes -= next.as_ref().map_or(0, |next| next.text.len());
        drop(waiting);
        next.into_iter().for_each(|next| self.begin(next));
    }
}

/// A change that has its turn.
struct GroupsChange {
    queue: Arc<ChangeQueue>,
    request: ChangeRequest,
}

impl GroupsChange {
    fn check(self: Arc<Self>) {
        let version = (self.request.version)();
        let checked = Checked { change: Arc::clone(&self), version };
        let reply = Reply { mailbox: Arc::new(checked), ..self.request.reply.clone() };
        self.send(LotProgram::Check(self.request.text.clone()), version, reply);
    }

    fn send(self: &Arc<Self>, program: LotProgram, catalog_version: CatalogVersion, reply: Reply) {
        let is_read = matches!(program, LotProgram::Check(_));
        // What it says of success comes from one group, numbers of rows from all.
        let merges = if is_read { Vec::new() } else { vec![MergeRule::First, MergeRule::Sum] };
        let again = Arc::clone(self);
        let ChangeRequest { calls, limits, time_max, .. } = &self.request;
        calls.send(GroupsCall {
            program,
            catalog_version,
            parameters: limits_bytes(limits),
            stores: StoreSet::All,
            merges: merges.into_boxed_slice(),
            is_read,
            time_max_millis: u32::try_from(time_max.as_millis()).unwrap_or(u32::MAX),
            reply,
            // Another version of the schema, or a group that has not checked it: once more.
            again: Box::new(move || again.check()),
            behind: Vec::new(),
        });
    }
}

impl Drop for GroupsChange {
    fn drop(&mut self) {
        self.queue.end();
    }
}

/// Hears what the groups say of a change that they have checked.
struct Checked {
    change: Arc<GroupsChange>,
    version: CatalogVersion,
}

impl Mailbox for Checked {
    fn deliver(&self, answers: AnswerBatch) {
        let Checked { change, version } = self;
        let reply = &change.request.reply;
        if answers.is_success() {
            let checked = LotProgram::Change(change_name(&change.request.text));
            change.send(checked, *version, reply.clone());
        } else {
            reply.mailbox.deliver(answers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::{Receiver, Sender, unbounded};
    use ferrite_member::lots::SequencerNotice;
    use ferrite_wire::{Response, frame};

    /// Says which handle was answered, and how.
    struct Answers(Sender<(i64, i8)>);

    impl Mailbox for Answers {
        fn deliver(&self, answers: AnswerBatch) {
            let (_, body) = frame::split(&answers.bytes).expect("a frame").expect("a whole one");
            let response = Response::parse(body).expect("a response");
            self.0.send((response.handle, response.status_code)).expect("it is heard");
        }
    }

    struct World {
        queue: Arc<ChangeQueue>,
        calls: GroupsCalls,
        sequencer: Receiver<SequencerNotice>,
        mailbox: Arc<Answers>,
        answers: Receiver<(i64, i8)>,
    }

    impl World {
        fn new() -> World {
            let (calls, sequencer) = unbounded();
            let (to, answers) = unbounded();
            let calls = GroupsCalls::new(Some(calls));
            World { queue: Arc::default(), calls, sequencer, mailbox: Arc::new(Answers(to)), answers }
        }

        fn submit(&self, handle: i64, text: &str) {
            let mailbox = Arc::<Answers>::clone(&self.mailbox);
            self.queue.submit(ChangeRequest {
                calls: self.calls.clone(),
                version: Box::new(|| CatalogVersion(7)),
                text: text.to_owned(),
                limits: SqlLimits::CEILING,
                time_max: Duration::from_secs(1),
                reply: Reply { mailbox, connection: 1, handle, sent_micros: 0 },
            });
        }

        /// The one call that the sequencer has.
        fn call(&self) -> GroupsCall {
            let Ok(SequencerNotice::Call(call)) = self.sequencer.try_recv() else { panic!("no call has come") };
            assert!(self.sequencer.is_empty(), "one change at a time");
            *call
        }
    }

    fn succeed(call: GroupsCall) {
        let answers: [&[Option<Vec<u8>>]; 0] = [];
        call.succeed(&answers);
    }

    #[test]
    fn changes_are_made_in_turn_each_after_its_check() {
        let world = World::new();
        (1..=3).for_each(|handle| world.submit(handle, "a change"));
        for handle in 1..=3 {
            let check = world.call();
            assert!(check.is_read && check.program == LotProgram::Check("a change".to_owned()));
            succeed(check);
            let change = world.call();
            assert!(!change.is_read && change.catalog_version == CatalogVersion(7));
            assert!(change.program == LotProgram::Change(change_name("a change")), "its text travels once");
            assert!(world.answers.is_empty(), "what was checked is not made");
            succeed(change);
            assert_eq!(world.answers.try_recv(), Ok((handle, 1)));
        }
        assert!(world.sequencer.is_empty());
    }

    #[test]
    fn one_that_is_refused_or_dropped_has_had_its_turn_and_one_that_is_stale_keeps_it() {
        let world = World::new();
        (1..=4).for_each(|handle| world.submit(handle, "a change"));
        world.call().refuse(&UserError::not_started("no"));
        assert!(world.answers.try_recv().is_ok_and(|(handle, status)| handle == 1 && status < 0));
        // The sequencer ends.
        drop(world.call());
        let GroupsCall { again, reply, .. } = world.call();
        assert_eq!(reply.handle, 3);
        drop(reply);
        again();
        let again = world.call();
        assert_eq!(again.reply.handle, 3);
        succeed(again);
        succeed(world.call());
        assert_eq!(world.answers.try_recv(), Ok((3, 1)));
        assert_eq!(world.call().reply.handle, 4);
    }

    #[test]
    fn so_many_wait_and_not_one_more() {
        let world = World::new();
        (0..=SCHEMA_CHANGES_WAITING_MAX as i64).for_each(|handle| world.submit(handle, ""));
        assert!(world.answers.is_empty());
        world.submit(-1, "");
        assert!(world.answers.try_recv().is_ok_and(|(handle, status)| handle == -1 && status < 0));
        let world = World::new();
        world.submit(1, "");
        world.submit(2, &"x".repeat(LOT_QUEUE_BYTES_MAX));
        world.submit(3, "x");
        assert!(world.answers.try_recv().is_ok_and(|(handle, _)| handle == 3), "texts have a bound, too");
        // A node that stops refuses all of them, one after the other.
        drop(world.sequencer);
    }
}
