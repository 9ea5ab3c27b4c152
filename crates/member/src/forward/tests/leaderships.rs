//! Calls of other nodes while who leads changes, in turns of the thread that forwards.

use super::*;
use crate::forward::batch::AnswerItem;
use crate::forward::execute::Executor;
use crate::forward::inbox::{Forward, connect};
use crate::forward::link::Leadership;
use crate::forward::thread::ForwardThread;

const SECOND_GROUP: GroupId = GroupId(1);

/// The test reads what the thread executes with it.
#[derive(Clone, Default)]
struct Read(Arc<Mutex<Executing>>);

impl Read {
    fn handles(&self) -> Vec<i64> {
        self.0.lock().unwrap().calls.drain(..).map(|(_, handle)| handle).collect()
    }
}

impl Execute for Read {
    fn admit(&mut self, connection: u64, trusted: bool) -> u64 {
        self.0.lock().unwrap().admit(connection, trusted)
    }

    fn call(&mut self, group: GroupId, connection: u64, body: &[u8]) {
        self.0.lock().unwrap().call(group, connection, body);
    }

    fn cancel(&mut self, connection: u64, cancel: Cancel) {
        self.0.lock().unwrap().cancel(connection, cancel);
    }

    fn forget(&mut self, connection: u64) {
        self.0.lock().unwrap().forget(connection);
    }

    fn begun(&mut self, work: Outstanding) {
        self.0.lock().unwrap().begun(work);
    }

    fn answered(&mut self, work: Outstanding) {
        self.0.lock().unwrap().answered(work);
    }
}

impl Executor for Read {
    fn refresh_catalog(&mut self) {}
    fn send_batches(&mut self) {}
    fn wake_network(&self) {}

    fn own(&mut self, group: GroupId, batch: &Batch) {
        batch.calls.iter().for_each(|call| self.call(group, call.connection, batch.body(call)));
    }

    fn outstanding(&self) -> usize {
        self.0.lock().unwrap().calls_held
    }

    fn cancelled(&self) -> UserError {
        cancelled()
    }
}

struct Turns {
    forward: Forward,
    thread: ForwardThread<Read>,
    link: Arc<Queues>,
    executing: Read,
    epoch: u64,
    now: Instant,
}

impl Turns {
    fn new() -> Turns {
        let (forward, inbox) = connect();
        let link = Arc::new(Queues::default());
        let executing = Read::default();
        let way = Arc::clone(&link) as Arc<dyn Link>;
        let thread = ForwardThread::new(inbox, way, executing.clone(), Arc::default(), [FIRST_GROUP, SECOND_GROUP]);
        Turns { forward, thread, link, executing, epoch: 0, now: Instant::now() }
    }

    /// In the next epoch.
    fn lead(&mut self, leadership: Leadership) {
        self.epoch += 1;
        self.forward.lead(FIRST_GROUP, leadership, Epoch(self.epoch));
    }

    /// A message of the node 2, with one call, that was sent in that epoch.
    fn call(&mut self, epoch: u64, number: u32, handle: i64) {
        self.call_of(FIRST_GROUP, epoch, number, handle);
    }

    /// The same of another group.
    fn call_of(&mut self, group: GroupId, epoch: u64, number: u32, handle: i64) {
        let mut message = Vec::new();
        batch::begin_calls(&mut message, Header { group, session: 0, number }, Epoch(epoch));
        batch::put_call(&mut message, 7, false, &body(handle, 0));
        self.forward.calls(NodeId(2), Incarnation(1), &message);
        self.thread.turn_at(self.now);
    }

    /// The epoch for which the first call of the next message to node 2 went back, if it did.
    fn returned(&self) -> Option<Epoch> {
        let (_, answers) = self.link.next(NodeId(2))?;
        let (_, mut items) = batch::answers(&answers).expect("well-formed");
        match items.next() {
            Some(AnswerItem::Returned { epoch, .. }) => Some(epoch),
            _ => None,
        }
    }
}

#[test]
fn what_was_sent_for_an_earlier_leadership_is_not_executed_in_a_later_one() {
    let mut turns = Turns::new();
    turns.lead(Leadership::Here);
    turns.call(1, 0, 5);
    assert_eq!(turns.executing.handles(), [5]);
    turns.lead(Leadership::At(leader(3)));
    turns.lead(Leadership::Coming);
    turns.lead(Leadership::Here);
    turns.call(1, 1, 6);
    assert!(turns.executing.handles().is_empty());
    assert_eq!(turns.returned(), Some(Epoch(4)));
}

#[test]
fn a_process_that_ends_gives_calls_of_others_back_at_once_where_it_does_not_lead() {
    for leadership in [Leadership::Unknown, Leadership::Coming] {
        let mut turns = Turns::new();
        turns.lead(leadership);
        turns.call(1, 0, 5);
        assert!(turns.link.next(NodeId(2)).is_none(), "it is not known whose they are");
        turns.forward.ends();
        turns.thread.turn_at(turns.now);
        assert_eq!(turns.returned(), Some(Epoch(2)));
    }
}

#[test]
fn one_groups_failover_holds_up_no_calls_of_another() {
    let mut turns = Turns::new();
    turns.lead(Leadership::Here);
    turns.forward.lead(SECOND_GROUP, Leadership::Here, Epoch(8));
    // Nothing is known of the second group's next leader.
    turns.forward.lead(SECOND_GROUP, Leadership::Unknown, Epoch(9));
    turns.call_of(SECOND_GROUP, 9, 0, 5);
    turns.call(1, 0, 6);
    assert_eq!(turns.executing.handles(), [6], "the first group is led here as before");
    turns.forward.lead(SECOND_GROUP, Leadership::Here, Epoch(9));
    turns.thread.turn_at(turns.now);
    assert_eq!(turns.executing.handles(), [5]);
}

#[test]
fn calls_are_executed_in_the_epoch_of_their_own_group() {
    let mut turns = Turns::new();
    turns.forward.lead(SECOND_GROUP, Leadership::At(leader(3)), Epoch(8));
    turns.forward.lead(SECOND_GROUP, Leadership::Here, Epoch(9));
    turns.lead(Leadership::Here);
    // The first group's epoch is far behind: it says nothing of the second group.
    turns.call_of(SECOND_GROUP, 8, 0, 5);
    assert!(turns.executing.handles().is_empty(), "sent for an earlier leadership");
    assert_eq!(turns.returned(), Some(Epoch(9)));
    turns.call(1, 0, 6);
    assert_eq!(turns.executing.handles(), [6]);
}

#[test]
fn own_calls_wait_for_their_group_alone() {
    let mut turns = Turns::new();
    turns.lead(Leadership::Here);
    turns.forward.lead(SECOND_GROUP, Leadership::At(leader(2)), Epoch(1));
    let answers = Arc::<Answers>::default();
    turns.forward.submit_one(SECOND_GROUP, batch(&answers, &[(7, 1)], 0));
    turns.forward.submit_one(FIRST_GROUP, batch(&answers, &[(7, 2)], 0));
    turns.thread.turn_at(turns.now);
    assert_eq!(turns.executing.handles(), [2]);
    let (_, message) = turns.link.next(NodeId(2)).expect("its leader is known");
    assert_eq!(batch::group_of(&message), Ok(SECOND_GROUP));
    // The second group's leader is lost with what was sent there; the first group's calls continue.
    turns.forward.lost(NodeId(2));
    turns.forward.submit_one(FIRST_GROUP, batch(&answers, &[(7, 3)], 0));
    turns.thread.turn_at(turns.now);
    assert_eq!((turns.executing.handles(), answers.take()), (vec![3], vec![(7, 1, UNKNOWN)]));
}

#[test]
fn calls_for_a_group_that_is_not_here_go_back() {
    let mut turns = Turns::new();
    turns.lead(Leadership::Here);
    turns.call_of(GroupId(9), 4, 0, 5);
    assert!(turns.executing.handles().is_empty());
    assert_eq!(turns.returned(), Some(Epoch(5)), "for a leader that its sender has not heard of");
}
