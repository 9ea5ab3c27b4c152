//! Tells when all calls to a group's partitions that a node has taken are answered: those of
//! network threads, and those that wait to be passed on.
//!
//! With one group that is a count: what the node has taken and not answered, but for what waits to
//! be executed elsewhere. With several, calls of the others go on, and a count never comes to rest.
//! Then a mark follows the calls. From when the group holds, whatever takes a call for it passes it
//! on, where it waits; so once each thread that takes calls has said that it has come past that,
//! all others are in the inboxes of the group's partitions and coordinator. Behind them the
//! coordinator gets a job that borrows all its stores, and whose answer the group confirms after
//! all earlier ones.

use crate::mailbox::{Mail, NetworkMailbox};
use crate::message::SystemJob;
use crate::mode::Mode;
use crate::routes::Routes;
use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};
use ferrite_base::GroupId;
use ferrite_member::forward::{Behind, Forward};
use ferrite_partition::coordinator::Job;
use ferrite_partition::{AnswerBatch, Mailbox, Reply};
use std::collections::BTreeMap;
use std::sync::Arc;

pub struct Drain {
    network: Arc<[Arc<NetworkMailbox>]>,
    forward: Forward,
    routes: Arc<Routes>,
    mode: Arc<Mode>,
    system: Sender<SystemJob>,
    groups: BTreeMap<GroupId, Draining>,
}

/// Of one group.
struct Draining {
    /// From each thread that takes calls, once those that it has read so far are on their way.
    passed: Option<Receiver<()>>,
    answer: Option<Receiver<bool>>,
}

/// Whether the mark was answered, or refused.
struct DrainMark(Sender<bool>);

impl Mailbox for DrainMark {
    fn deliver(&self, answers: AnswerBatch) {
        // The group may have given up its hand-over.
        let _ = self.0.send(answers.is_success());
    }
}

impl Drain {
    pub fn new(
        network: Arc<[Arc<NetworkMailbox>]>,
        forward: Forward,
        routes: Arc<Routes>,
        mode: Arc<Mode>,
        system: Sender<SystemJob>,
    ) -> Drain {
        Drain { network, forward, routes, mode, system, groups: BTreeMap::new() }
    }

    fn has_several(&self) -> bool {
        self.routes.table().group_count() > 1
    }

    /// Sends the mark of a group behind all calls that were taken.
    fn mark(&self, group: GroupId) -> Receiver<bool> {
        let (to, answer) = unbounded();
        let reply = Reply { mailbox: Arc::new(DrainMark(to)), connection: 0, handle: 0, sent_micros: 0 };
        let routes = Arc::clone(&self.routes);
        self.forward.behind(Behind::new(move || {
            let table = routes.table();
            if let Some(place) = table.place_of(group) {
                // One that is not here has answered.
                let _ = table.to_coordinator(place, Job::Quiesce(reply));
            }
        }));
        answer
    }
}

impl ferrite_member::Drain for Drain {
    fn begin(&mut self, group: GroupId) {
        let (to, passed) = unbounded();
        self.network.iter().for_each(|mailbox| mailbox.send(Mail::Passed(to.clone())));
        if self.has_several() {
            // It has ended only when the server stops.
            let _ = self.system.send(SystemJob::Passed(to));
        }
        self.groups.insert(group, Draining { passed: Some(passed), answer: None });
    }

    fn is_done(&mut self, group: GroupId, but_for: usize) -> bool {
        let Some(Draining { passed, answer }) = self.groups.get(&group) else { return false };
        if let Some(passed) = passed {
            // Each thread reports it and drops its end; one that has ended has nothing.
            while passed.try_recv().is_ok() {}
            if passed.try_recv() != Err(TryRecvError::Disconnected) {
                return false;
            }
        }
        let asked = match answer {
            Some(answer) => answer.clone(),
            None if !self.has_several() => self.forward.is_drained(but_for),
            None if !self.mode.is_handed_over() => return false,
            None => self.mark(group),
        };
        let outcome = asked.try_recv();
        // What is not so yet is asked again.
        let answer = matches!(outcome, Err(TryRecvError::Empty)).then_some(asked);
        self.groups.insert(group, Draining { passed: None, answer });
        outcome == Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Inboxes, handles_of_groups};
    use ferrite_member::Drain as _;
    use ferrite_member::forward::{Inbox, connect};

    const GROUPS: [GroupId; 2] = [GroupId(0), GroupId(1)];

    fn draining() -> (Drain, Inbox, Inboxes) {
        let (handles, inboxes) = handles_of_groups(&GROUPS, "");
        let (forward, inbox) = connect();
        let submit = &handles.submit;
        let drain = Drain::new(
            Arc::new([]),
            forward,
            Arc::clone(&submit.routes),
            Arc::clone(&submit.mode),
            submit.system.clone(),
        );
        (drain, inbox, inboxes)
    }

    /// What the system thread does.
    fn passes(inboxes: &Inboxes) {
        let Ok(SystemJob::Passed(to)) = inboxes.system.try_recv() else { panic!("it is asked") };
        let _ = to.send(());
    }

    /// What the group's coordinator does with the mark.
    fn answers(inboxes: &Inboxes, place: usize) {
        let Ok(Job::Quiesce(reply)) = inboxes.coordinators[place].try_recv() else { panic!("it has come") };
        let mut answers = AnswerBatch::default();
        ferrite_wire::response::ResponseWriter::begin(&mut answers.bytes, reply.handle).finish();
        answers.finish_answer(reply.connection);
        reply.mailbox.deliver(answers);
    }

    #[test]
    fn a_group_is_drained_when_its_mark_is_answered_whatever_others_do() {
        let (mut drain, forwarding, inboxes) = draining();
        drain.begin(GROUPS[1]);
        assert!(!drain.is_done(GROUPS[1], 0), "the system thread may have a call of it");
        passes(&inboxes);
        assert!(!drain.is_done(GROUPS[1], 0));
        assert!(inboxes.coordinators[1].is_empty(), "the thread that forwards may have one");
        drop(forwarding.next());
        assert!(!drain.is_done(GROUPS[1], 0), "it is executed after all that came earlier");
        answers(&inboxes, 1);
        assert!(drain.is_done(GROUPS[1], 0) && inboxes.coordinators[0].is_empty());
    }

    #[test]
    fn two_groups_drain_apart() {
        let (mut drain, forwarding, inboxes) = draining();
        for group in GROUPS {
            drain.begin(group);
            passes(&inboxes);
            assert!(!drain.is_done(group, 0));
            drop(forwarding.next());
        }
        answers(&inboxes, 0);
        assert!(drain.is_done(GROUPS[0], 0) && !drain.is_done(GROUPS[1], 0), "that of the first says nothing of it");
        // A call of it is still executed: the mark is refused, and sent again.
        let Ok(Job::Quiesce(reply)) = inboxes.coordinators[1].try_recv() else { panic!("it has come") };
        reply.refuse(&crate::routes::not_here());
        assert!(!drain.is_done(GROUPS[1], 0) && !drain.is_done(GROUPS[1], 0));
        drop(forwarding.next());
        answers(&inboxes, 1);
        assert!(drain.is_done(GROUPS[1], 0));
    }

    #[test]
    fn a_call_that_is_being_handed_over_is_waited_for() {
        let (mut drain, forwarding, inboxes) = draining();
        drain.begin(GROUPS[0]);
        passes(&inboxes);
        let mode = Arc::clone(&drain.mode);
        let handing = mode.hands_on();
        assert!(!drain.is_done(GROUPS[0], 0) && forwarding.next().is_none());
        drop(handing);
        assert!(!drain.is_done(GROUPS[0], 0) && forwarding.next().is_some());
    }
}
