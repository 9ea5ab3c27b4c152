//! Nodes that pass calls on, with queues in the place of sockets.

mod counted;
mod order;
mod returned;
mod waiting;

use crate::forward::batch::{self, Header};
use crate::forward::link::{Batch, Call, Destination, Kind, Link};
use crate::forward::received::{Execute, Received, Taking};
use crate::forward::window::Window;
use crate::work::Outstanding;
use ferrite_base::limits::{
    FORWARD_AHEAD_BYTES, FORWARD_BYTES_MAX, FORWARD_CALLS_MAX, FORWARD_CONNECTIONS_MAX, FORWARD_MESSAGE_BYTES,
    FORWARD_SETTLE, FORWARD_WAIT,
};
use ferrite_base::{Epoch, Incarnation, NodeId, UserError};
use ferrite_partition::cancel::{Cancel, cancelled};
use ferrite_partition::{AnswerBatch, Mailbox, MailboxHandle};
use ferrite_wire::response::{self, ResponseWriter};
use ferrite_wire::{Invocation, Response, Status, frame};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const HERE: NodeId = NodeId(1);
const START: Incarnation = Incarnation(5);

fn leader(node: u32) -> Destination {
    Destination { node: NodeId(node), incarnation: Incarnation(1) }
}

/// Messages in both directions between this node and each other one.
#[derive(Default)]
struct Queues(Mutex<Way>);

#[derive(Default)]
struct Way {
    down: bool,
    waiting: usize,
    messages: BTreeMap<NodeId, VecDeque<(Kind, Vec<u8>)>>,
}

impl Link for Queues {
    fn waiting(&self, _: NodeId) -> Option<usize> {
        let way = self.0.lock().unwrap();
        (!way.down).then_some(way.waiting)
    }

    fn send(&self, to: NodeId, kind: Kind, message: Vec<u8>) -> bool {
        let mut way = self.0.lock().unwrap();
        if !way.down {
            way.messages.entry(to).or_default().push_back((kind, message));
        }
        !way.down
    }

    fn resume(&self, _: NodeId) {}
}

impl Queues {
    fn next(&self, to: NodeId) -> Option<(Kind, Vec<u8>)> {
        self.0.lock().unwrap().messages.get_mut(&to)?.pop_front()
    }
}

/// A network thread's mailbox.
#[derive(Default)]
struct Answers(Mutex<Vec<(u64, i64, i8)>>);

impl Mailbox for Answers {
    fn deliver(&self, answers: AnswerBatch) {
        let mut start = 0;
        for run in &answers.runs {
            let mut bytes = &answers.bytes[start..run.end as usize];
            start = run.end as usize;
            for _ in 0..run.calls {
                let (length, body) = frame::split(bytes).unwrap().unwrap();
                let response = Response::parse(body).unwrap();
                self.0.lock().unwrap().push((run.connection, response.handle, response.status_code));
                bytes = &bytes[length..];
            }
            assert!(bytes.is_empty());
        }
    }
}

impl Answers {
    fn take(&self) -> Vec<(u64, i64, i8)> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

fn body(handle: i64, bytes: usize) -> Vec<u8> {
    let mut body = vec![0, 0, 0, 0, 1, b'P'];
    body.extend(handle.to_be_bytes());
    body.extend([0, 0]);
    body.resize(body.len().max(bytes), 0);
    body
}

fn batch(mailbox: &Arc<Answers>, calls: &[(u64, i64)], bytes: usize) -> Batch {
    let mailbox = Arc::clone(mailbox) as MailboxHandle;
    let mut batch = Batch { mailbox, calls: Vec::new(), bytes: Vec::new(), sent_micros: 1 };
    for (connection, handle) in calls {
        let start = batch.bytes.len() as u32;
        batch.bytes.extend(body(*handle, bytes));
        let end = batch.bytes.len() as u32;
        batch.calls.push(Call { connection: *connection, handle: *handle, trusted: false, start, end });
    }
    batch
}

/// A node that leads, and answers when the test asks for it.
#[derive(Default)]
struct Leader {
    received: Received,
    execute: Executing,
}

#[derive(Default)]
struct Executing {
    numbered: u64,
    /// By number here: connection there.
    admitted: BTreeMap<u64, u64>,
    calls: VecDeque<(u64, i64)>,
    cancels: Vec<(u64, Cancel)>,
    forgotten: Vec<u64>,
    calls_held: usize,
    bytes_held: usize,
}

impl Execute for Executing {
    fn admit(&mut self, connection: u64, _: bool) -> u64 {
        self.numbered += 1;
        self.admitted.insert(self.numbered, connection);
        self.numbered
    }

    fn call(&mut self, connection: u64, body: &[u8]) {
        self.calls.push_back((connection, Invocation::parse(body).expect("it was written here").handle));
    }

    fn cancel(&mut self, connection: u64, cancel: Cancel) {
        self.cancels.push((connection, cancel));
    }

    fn forget(&mut self, connection: u64) {
        self.forgotten.push(connection);
    }

    fn taken(&mut self, work: Outstanding) {
        self.calls_held += work.calls;
        self.bytes_held += work.bytes;
    }

    fn answered(&mut self, work: Outstanding) {
        self.calls_held -= work.calls;
        self.bytes_held -= work.bytes;
    }
}

impl Leader {
    fn take(&mut self, message: &[u8]) {
        self.received.calls((HERE, START), message, Taking::Execute, &mut self.execute).expect("well-formed");
    }

    /// Gives calls back for a leadership of that epoch.
    fn give_back(&mut self, message: &[u8], epoch: u64) {
        let taking = Taking::GiveBack(Epoch(epoch));
        self.received.calls((HERE, START), message, taking, &mut self.execute).expect("well-formed");
    }

    /// Answers the first of its calls; None: it has none.
    fn answer(&mut self) -> Option<(u64, i64)> {
        let (connection, handle) = self.execute.calls.pop_front()?;
        let mut answers = AnswerBatch::default();
        ResponseWriter::begin(&mut answers.bytes, handle).finish();
        answers.finish_answer(connection);
        self.received.answered(&answers, &mut self.execute);
        Some((self.execute.admitted[&connection], handle))
    }
}

/// This node, with clients, and its way to others.
struct Here {
    window: Window,
    link: Queues,
    answers: Arc<Answers>,
    now: Instant,
    epoch: u64,
}

impl Here {
    fn new() -> Here {
        let (window, link, answers) = (Window::default(), Queues::default(), Arc::default());
        let mut here = Here { window, link, answers, now: Instant::now(), epoch: 0 };
        here.lead(Some(2));
        here
    }

    /// In the next epoch.
    fn lead(&mut self, node: Option<u32>) {
        self.epoch += 1;
        self.window.lead(node.map(leader), false, Epoch(self.epoch), self.now);
        self.send();
    }

    fn call(&mut self, calls: &[(u64, i64)]) {
        self.window.take(batch(&self.answers, calls, 0), self.now);
        self.send();
    }

    fn send(&mut self) {
        self.window.send(&self.link, self.now);
        self.window.tick(self.now);
    }

    /// What was sent to the node goes to it.
    fn carry(&mut self, node: u32, leader: &mut Leader) {
        while let Some((kind, message)) = self.link.next(NodeId(node)) {
            assert_eq!(kind, Kind::Calls);
            leader.take(&message);
        }
    }

    /// And what it has answered comes here.
    fn carry_back(&mut self, node: u32, leader: &mut Leader) {
        leader.received.send(&self.link);
        while let Some((kind, message)) = self.link.next(HERE) {
            assert_eq!(kind, Kind::Answers);
            self.window.answers(NodeId(node), &message, self.now).expect("well-formed");
        }
    }
}

const DONE: i8 = Status::Success as i8;
const UNKNOWN: i8 = Status::ResponseUnknown as i8;
const UNAVAILABLE: i8 = Status::ServerUnavailable as i8;
const FAILED: i8 = Status::GracefulFailure as i8;

#[test]
fn calls_go_there_in_their_order_and_answers_come_back_to_their_clients() {
    let (mut here, mut there) = (Here::new(), Leader::default());
    let other = Arc::new(Answers::default());
    here.call(&[(7, 1), (7, 2), (8, 1)]);
    here.window.take(batch(&other, &[(9, 1)], 0), here.now);
    // A client may use a handle again.
    here.call(&[(7, 1)]);
    here.carry(2, &mut there);
    assert_eq!(here.window.outstanding().calls, 5);
    assert_eq!((there.execute.calls_held, there.received.remote_count()), (5, 3));
    let answered: Vec<_> = std::iter::from_fn(|| there.answer()).collect();
    assert_eq!(answered, [(7, 1), (7, 2), (8, 1), (9, 1), (7, 1)]);
    here.carry_back(2, &mut there);
    assert_eq!(here.answers.take(), [(7, 1, DONE), (7, 2, DONE), (8, 1, DONE), (7, 1, DONE)]);
    assert_eq!(other.take(), [(9, 1, DONE)]);
    assert_eq!(here.window.outstanding(), Outstanding::default());
    assert_eq!((there.execute.calls_held, there.execute.bytes_held), (0, 0));
}

#[test]
fn so_many_calls_are_under_way_and_not_one_more() {
    let (mut here, mut there) = (Here::new(), Leader::default());
    let calls: Vec<_> = (0..FORWARD_CALLS_MAX as i64 + 3).map(|handle| (7, handle)).collect();
    here.call(&calls);
    here.carry(2, &mut there);
    assert_eq!((there.execute.calls.len(), here.window.outstanding().calls), (FORWARD_CALLS_MAX, FORWARD_CALLS_MAX));
    assert!(here.window.has_waiting());
    there.answer();
    here.carry_back(2, &mut there);
    here.send();
    here.carry(2, &mut there);
    assert_eq!((there.execute.calls.len(), here.answers.take().len()), (FORWARD_CALLS_MAX, 1));
    while there.answer().is_some() {}
    here.carry_back(2, &mut there);
    here.send();
    here.carry(2, &mut there);
    assert!(there.execute.calls.len() == 2 && !here.window.has_waiting());
}

#[test]
fn so_many_bytes_are_under_way_and_go_in_messages_of_a_size() {
    let mut here = Here::new();
    let large = FORWARD_MESSAGE_BYTES / 2 - 64;
    let count = FORWARD_BYTES_MAX / large + 1;
    let calls: Vec<_> = (0..count as i64 + 5).map(|handle| (7, handle)).collect();
    here.window.take(batch(&here.answers, &calls, large), here.now);
    here.send();
    assert_eq!(here.window.outstanding().calls, count, "the last goes past the limit");
    let sizes: Vec<_> = std::iter::from_fn(|| here.link.next(NodeId(2))).map(|(_, message)| message.len()).collect();
    assert!(sizes.iter().all(|size| *size <= FORWARD_MESSAGE_BYTES) && sizes.len() == count.div_ceil(2), "{sizes:?}");
    // One that is larger than all goes alone.
    let mut here = Here::new();
    here.window.take(batch(&here.answers, &[(7, 1), (7, 2)], FORWARD_BYTES_MAX + 1), here.now);
    here.send();
    assert_eq!(here.window.outstanding().calls, 1);
}

#[test]
fn as_much_is_on_the_way_to_a_node_as_may_be() {
    let (mut here, mut there) = (Here::new(), Leader::default());
    here.link.0.lock().unwrap().waiting = FORWARD_AHEAD_BYTES;
    here.call(&[(7, 1)]);
    here.carry(2, &mut there);
    assert!(there.execute.calls.is_empty() && here.window.has_waiting());
    here.now += 2 * FORWARD_WAIT;
    here.send();
    assert!(here.answers.take().is_empty(), "the node is there, only slow");
    here.link.0.lock().unwrap().waiting = FORWARD_AHEAD_BYTES - 1;
    here.send();
    here.carry(2, &mut there);
    assert_eq!(there.execute.calls.len(), 1);
    there.answer();
    here.link.0.lock().unwrap().waiting = FORWARD_AHEAD_BYTES;
    assert!(there.received.send(&here.link), "answers wait, too");
    here.link.0.lock().unwrap().waiting = 0;
    here.carry_back(2, &mut there);
    assert_eq!(here.answers.take(), [(7, 1, DONE)]);
}

#[test]
fn what_was_sent_is_unknown_when_the_way_is_lost_and_what_was_not_is_sent_again() {
    let (mut here, mut there) = (Here::new(), Leader::default());
    here.call(&[(7, 1), (7, 2)]);
    here.carry(2, &mut there);
    there.answer();
    here.link.0.lock().unwrap().down = true;
    here.call(&[(7, 3)]);
    here.window.lost(NodeId(3));
    assert!(here.answers.take().is_empty(), "another node's way is nothing to them");
    here.window.lost(NodeId(2));
    let mut lost = here.answers.take();
    lost.sort();
    assert_eq!(lost, [(7, 1, UNKNOWN), (7, 2, UNKNOWN)]);
    here.link.0.lock().unwrap().down = false;
    // The leader has not heard of the loss yet, and answers late: the same handle is used again.
    here.call(&[(7, 2)]);
    there.answer();
    here.carry_back(2, &mut there);
    assert!(here.answers.take().is_empty());
    here.carry(2, &mut there);
    assert_eq!(there.execute.calls, [(2, 3), (2, 2)], "of a connection anew");
    while there.answer().is_some() {}
    here.carry_back(2, &mut there);
    assert_eq!(here.answers.take(), [(7, 3, DONE), (7, 2, DONE)]);
    assert_eq!(there.execute.forgotten, [1]);
}

#[test]
fn when_another_node_leads_the_former_one_is_told_that_nobody_waits() {
    let (mut here, mut former, mut next) = (Here::new(), Leader::default(), Leader::default());
    here.call(&[(7, 1)]);
    here.carry(2, &mut former);
    here.lead(None);
    here.now += FORWARD_SETTLE - Duration::from_millis(1);
    here.send();
    assert!(here.answers.take().is_empty(), "it may answer yet");
    here.now += Duration::from_millis(1);
    here.send();
    assert_eq!(here.answers.take(), [(7, 1, UNKNOWN)]);
    here.carry(2, &mut former);
    assert_eq!(former.execute.cancels, [(1, Cancel::Gone)]);
    here.call(&[(7, 1), (7, 2)]);
    here.lead(Some(3));
    here.carry(3, &mut next);
    former.answer();
    here.carry_back(2, &mut former);
    assert!(here.answers.take().is_empty() && former.received.remote_count() == 0);
    while next.answer().is_some() {}
    here.carry_back(3, &mut next);
    assert_eq!(here.answers.take(), [(7, 1, DONE), (7, 2, DONE)]);
}

#[test]
fn calls_that_wait_come_back_when_this_node_leads() {
    let (mut here, mut there) = (Here::new(), Leader::default());
    here.call(&[(7, 1)]);
    here.carry(2, &mut there);
    here.link.0.lock().unwrap().down = true;
    here.call(&[(7, 2), (8, 3)]);
    here.lead(None);
    assert!(!here.window.is_settled());
    here.window.lost(NodeId(2));
    here.send();
    assert_eq!(here.answers.take(), [(7, 1, UNKNOWN)]);
    assert!(here.window.is_settled() && here.window.held() == 2);
    let back: Vec<_> = here.window.take_back().flat_map(|batch| batch.calls).map(|call| call.handle).collect();
    assert!(back == [2, 3] && !here.window.has_waiting());
}

#[test]
fn what_is_cancelled_is_refused_here_or_cancelled_there() {
    let (mut here, mut there) = (Here::new(), Leader::default());
    let until = |handle| Cancel::Calls { handle, until_micros: 77 };
    here.call(&[(7, 1), (8, 1)]);
    here.carry(2, &mut there);
    here.link.0.lock().unwrap().waiting = FORWARD_AHEAD_BYTES;
    here.call(&[(7, 2), (8, 2), (7, 3), (7, 2)]);
    here.window.cancel(7, until(Some(2)), &cancelled());
    assert_eq!(here.answers.take(), [(7, 2, FAILED), (7, 2, FAILED)]);
    here.window.cancel(7, until(None), &cancelled());
    assert_eq!(here.answers.take(), [(7, 3, FAILED)]);
    // A connection that no node there has heard of is not mentioned.
    here.window.cancel(9, Cancel::Gone, &cancelled());
    here.link.0.lock().unwrap().waiting = 0;
    here.send();
    here.carry(2, &mut there);
    let there_until = |handle| Cancel::Calls { handle, until_micros: 0 };
    assert_eq!(there.execute.cancels, [(1, there_until(Some(2))), (1, there_until(None))]);
    assert_eq!(there.execute.calls, [(1, 1), (2, 1), (2, 2)]);
    there.answer();
    assert_eq!(there.execute.forgotten, [1], "none of its calls is left");
    here.window.cancel(8, Cancel::Ended, &cancelled());
    here.window.cancel(8, Cancel::Gone, &cancelled());
    here.window.cancel(7, Cancel::Gone, &cancelled());
    here.send();
    here.carry(2, &mut there);
    assert_eq!(there.execute.cancels[2..], [(2, Cancel::Ended), (2, Cancel::Gone)]);
    while there.answer().is_some() {}
    assert_eq!((there.execute.forgotten.as_slice(), there.received.remote_count()), (&[1, 1, 2][..], 0));
    here.carry_back(2, &mut there);
    assert_eq!(here.answers.take(), [(7, 1, DONE)], "of what was not gone");
}

#[test]
fn a_node_that_does_not_lead_executes_nothing_of_others() {
    let (mut here, mut there) = (Here::new(), Leader::default());
    here.call(&[(7, 1), (7, 2)]);
    let (_, message) = here.link.next(NodeId(2)).unwrap();
    there.give_back(&message, 2);
    assert!(there.execute.calls.is_empty() && there.execute.calls_held == 0);
    here.carry_back(2, &mut there);
    assert!(here.answers.take().is_empty() && here.window.held() == 2);
}

/// A message from a node that is to be refused, and what the node hears of it.
fn refused(there: &mut Leader, message: &[u8], word: &str) -> Queues {
    let link = Queues::default();
    let error = there.received.calls((HERE, START), message, Taking::Execute, &mut there.execute).unwrap_err();
    assert!(error.to_string().contains(word), "{error}");
    there.received.send(&link);
    link
}

fn calls_message(session: u64, number: u32, calls: &[(u64, i64)]) -> Vec<u8> {
    let mut message = Vec::new();
    batch::begin_calls(&mut message, Header { session, number }, Epoch(1));
    calls.iter().for_each(|(connection, handle)| batch::put_call(&mut message, *connection, false, &body(*handle, 0)));
    message
}

#[test]
fn a_session_with_a_gap_or_with_garbage_is_given_up_on_both_sides() {
    let (mut here, mut there) = (Here::new(), Leader::default());
    here.call(&[(7, 1)]);
    here.carry(2, &mut there);
    let link = refused(&mut there, &calls_message(0, 2, &[(7, 2)]), "missing");
    assert_eq!(there.execute.cancels, [(1, Cancel::Gone)]);
    there.take(&calls_message(0, 1, &[(7, 2)]));
    assert_eq!(there.execute.calls.len(), 1, "nothing more is taken of it");
    let (_, message) = link.next(HERE).unwrap();
    here.window.answers(NodeId(2), &message, here.now).unwrap();
    assert_eq!(here.answers.take(), [(7, 1, UNKNOWN)]);
    here.call(&[(7, 3)]);
    here.carry(2, &mut there);
    assert_eq!(there.execute.calls.len(), 2, "of the next session it is");
    let link = refused(&mut there, &[2, 2, 3], "cut short");
    let (_, message) = link.next(HERE).unwrap();
    here.window.answers(NodeId(3), &message, here.now).unwrap();
    assert!(here.answers.take().is_empty(), "that node leads nothing");
    // What the leader says is not trusted either.
    let mut garbage = Vec::new();
    batch::begin(&mut garbage, Header { session: 1, number: 0 });
    batch::put_answers(&mut garbage, 7, b"no frame");
    assert!(here.window.answers(NodeId(2), &garbage, here.now).is_err());
    assert_eq!(here.answers.take(), [(7, 3, UNKNOWN)]);
}

#[test]
fn a_node_that_starts_anew_leaves_nothing_behind() {
    let mut there = Leader::default();
    there.take(&calls_message(4, 0, &[(7, 1), (8, 1)]));
    let later = Incarnation(6);
    there.received.calls((HERE, later), &calls_message(0, 0, &[(7, 1)]), Taking::Execute, &mut there.execute).unwrap();
    assert_eq!(
        there.execute.cancels.iter().map(|(number, _)| *number).collect::<BTreeSet<_>>(),
        BTreeSet::from([1, 2])
    );
    there.take(&calls_message(5, 0, &[(7, 9)]));
    assert_eq!(there.execute.calls, [(1, 1), (2, 1), (3, 1)], "the former process is over");
    there.received.lost(HERE, &mut there.execute);
    while there.answer().is_some() {}
    assert_eq!((there.received.remote_count(), there.execute.calls_held), (0, 0));
}

#[test]
fn a_node_has_so_many_connections_and_not_one_more() {
    let mut there = Leader::default();
    let calls: Vec<_> = (0..FORWARD_CONNECTIONS_MAX as u64).map(|connection| (connection, 1)).collect();
    there.take(&calls_message(0, 0, &calls));
    there.take(&calls_message(0, 1, &calls[..1]));
    refused(&mut there, &calls_message(0, 2, &[(u64::MAX, 1)]), "more connections");
    while there.answer().is_some() {}
    assert_eq!(there.received.remote_count(), 0);
}

#[derive(Clone, Debug)]
enum Step {
    Call(u64),
    Send,
    /// One message arrives at that leader, or comes from it.
    Arrive(u32),
    Return(u32),
    Answer(u32),
    Lead(Option<u32>),
    Lose,
    Cancel(u64, bool),
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    let node = || 2u32..4;
    prop_oneof![
        6 => (0u64..4).prop_map(Step::Call),
        6 => Just(Step::Send),
        5 => node().prop_map(Step::Arrive),
        5 => node().prop_map(Step::Return),
        5 => node().prop_map(Step::Answer),
        1 => proptest::option::of(node()).prop_map(Step::Lead),
        1 => Just(Step::Lose),
        1 => (0u64..4, any::<bool>()).prop_map(|(connection, gone)| Step::Cancel(connection, gone)),
        1 => Just(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever happens, each call is answered once, is executed once at most, and its answer is
    /// true.
    #[test]
    fn each_call_has_one_answer_and_it_is_true(steps in proptest::collection::vec(step(), 1..120)) {
        let mut here = Here::new();
        let mut leaders = [Leader::default(), Leader::default()];
        // Of leaders, on the way here.
        let ways = [Queues::default(), Queues::default()];
        let (mut handle, mut made, mut destination) = (0, BTreeMap::new(), Some(2));
        let mut executed = BTreeSet::new();
        let index = |node: u32| node as usize - 2;
        let lose = |here: &mut Here, leaders: &mut [Leader; 2]| {
            here.link.0.lock().unwrap().messages.clear();
            for node in [2, 3] {
                ways[index(node)].0.lock().unwrap().messages.clear();
                here.window.lost(NodeId(node));
                let Leader { received, execute } = &mut leaders[index(node)];
                received.lost(HERE, execute);
            }
        };
        for step in steps {
            match step {
                Step::Call(connection) => {
                    handle += 1;
                    made.insert(handle, connection);
                    here.window.take(batch(&here.answers, &[(connection, handle)], 0), here.now);
                }
                Step::Send => here.send(),
                Step::Arrive(node) => {
                    if let Some((_, message)) = here.link.next(NodeId(node)) {
                        let Leader { received, execute } = &mut leaders[index(node)];
                        let gives_back = Taking::GiveBack(Epoch(here.epoch + 1));
                        let taking = if destination == Some(node) { Taking::Execute } else { gives_back };
                        received.calls((HERE, START), &message, taking, execute).unwrap();
                    }
                }
                Step::Return(node) => {
                    leaders[index(node)].received.send(&ways[index(node)]);
                    if let Some((_, message)) = ways[index(node)].next(HERE) {
                        here.window.answers(NodeId(node), &message, here.now).unwrap();
                    }
                }
                Step::Answer(node) => {
                    if let Some((_, handle)) = leaders[index(node)].answer() {
                        prop_assert!(executed.insert(handle), "executed twice: {handle}");
                    }
                }
                Step::Lead(node) => {
                    destination = node;
                    here.epoch += 1;
                    here.window.lead(node.map(leader), false, Epoch(here.epoch), here.now);
                }
                Step::Lose => lose(&mut here, &mut leaders),
                Step::Cancel(connection, gone) => {
                    let cancel = if gone { Cancel::Gone } else { Cancel::Calls { handle: None, until_micros: 0 } };
                    here.window.cancel(connection, cancel, &cancelled());
                }
                Step::Wait => here.now += FORWARD_WAIT / 3,
            }
        }
        lose(&mut here, &mut leaders);
        here.window.end();
        for leader in &mut leaders {
            while let Some((_, handle)) = leader.answer() {
                prop_assert!(executed.insert(handle), "executed twice: {handle}");
            }
            prop_assert_eq!((leader.received.remote_count(), leader.execute.calls_held), (0, 0));
        }
        let mut answered = BTreeMap::new();
        for (connection, handle, status) in here.answers.take() {
            prop_assert_eq!(made.get(&handle), Some(&connection));
            prop_assert!(answered.insert(handle, status).is_none(), "answered twice: {}", handle);
        }
        prop_assert_eq!(answered.len(), made.len());
        for (handle, status) in answered {
            match status {
                DONE => prop_assert!(executed.contains(&handle), "done, but never executed: {handle}"),
                UNKNOWN => {}
                _ => prop_assert!(!executed.contains(&handle), "refused, but executed: {handle}"),
            }
        }
    }

    #[test]
    fn hostile_messages_harm_nobody(
        messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..20),
        number in 0u32..3,
    ) {
        let (mut here, mut there) = (Here::new(), Leader::default());
        here.call(&[(7, 1)]);
        for bytes in messages {
            let mut message = Vec::new();
            batch::begin_calls(&mut message, Header { session: 0, number }, Epoch(1));
            message.extend_from_slice(&bytes);
            for message in [&message, &bytes] {
                let Leader { received, execute } = &mut there;
                let _ = received.calls((HERE, START), message, Taking::GiveBack(Epoch(2)), execute);
                let _ = here.window.answers(NodeId(2), message, here.now);
            }
        }
        here.window.lost(NodeId(2));
        prop_assert_eq!(here.answers.take(), [(7, 1, UNKNOWN)]);
    }
}

#[test]
fn answers_of_an_error_are_handed_on_as_they_are() {
    let (mut here, mut there) = (Here::new(), Leader::default());
    here.call(&[(7, 1)]);
    here.carry(2, &mut there);
    let mut answers = AnswerBatch::default();
    response::write_error(&mut answers.bytes, 1, &UserError::division_by_zero());
    answers.finish_answer(1);
    there.received.answered(&answers, &mut there.execute);
    here.carry_back(2, &mut there);
    assert_eq!(here.answers.take(), [(7, 1, FAILED)]);
}
