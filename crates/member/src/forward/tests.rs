//! Nodes that pass calls on, with queues in the place of sockets.

mod counted;
mod leaderships;
mod limits;
mod random;
mod returned;
mod waiting;

use crate::forward::batch::{self, Header};
use crate::forward::execute::Execute;
use crate::forward::link::{Batch, Call, Destination, Kind, Link};
use crate::forward::outstanding::Outstanding;
use crate::forward::received::{Received, Taking};
use crate::forward::window::Window;
use ferrite_base::limits::{FORWARD_AHEAD_BYTES, FORWARD_SETTLE, FORWARD_WAIT};
use ferrite_base::{Epoch, GroupId, Incarnation, NodeId, UserError};
use ferrite_group::FIRST_GROUP;
use ferrite_partition::cancel::{Cancel, cancelled};
use ferrite_partition::{AnswerBatch, Mailbox, MailboxHandle};
use ferrite_wire::response::{self, ResponseWriter};
use ferrite_wire::{Invocation, Response, Status, frame};
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

    fn call(&mut self, _: GroupId, connection: u64, body: &[u8]) {
        self.calls.push_back((connection, Invocation::parse(body).expect("it was written here").handle));
    }

    fn cancel(&mut self, connection: u64, cancel: Cancel) {
        self.cancels.push((connection, cancel));
    }

    fn forget(&mut self, connection: u64) {
        self.forgotten.push(connection);
    }

    fn begun(&mut self, work: Outstanding) {
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
        self.window.push(batch(&self.answers, calls, 0), self.now);
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
    here.window.push(batch(&other, &[(9, 1)], 0), here.now);
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
    batch::begin_calls(&mut message, Header { group: FIRST_GROUP, session, number }, Epoch(1));
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
    batch::begin(&mut garbage, Header { group: FIRST_GROUP, session: 1, number: 0 });
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
