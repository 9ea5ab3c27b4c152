//! Calls of other nodes while who leads changes, in turns of the thread that forwards.

use super::*;
use crate::forward::batch::AnswerItem;
use crate::forward::execute::Executor;
use crate::forward::inbox::{Forward, connect};
use crate::forward::link::Leadership;
use crate::forward::thread::ForwardThread;

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

    fn call(&mut self, connection: u64, body: &[u8]) {
        self.0.lock().unwrap().call(connection, body);
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

    fn own(&mut self, batch: &Batch) {
        batch.calls.iter().for_each(|call| self.call(call.connection, batch.body(call)));
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
        let thread = ForwardThread::new(inbox, Arc::clone(&link) as Arc<dyn Link>, executing.clone(), Arc::default());
        Turns { forward, thread, link, executing, epoch: 0, now: Instant::now() }
    }

    /// In the next epoch.
    fn lead(&mut self, leadership: Leadership) {
        self.epoch += 1;
        self.forward.lead(leadership, Epoch(self.epoch));
    }

    /// A message of the node 2, with one call, that was sent in that epoch.
    fn call(&mut self, epoch: u64, number: u32, handle: i64) {
        let mut message = Vec::new();
        batch::begin_calls(&mut message, Header { session: 0, number }, Epoch(epoch));
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
