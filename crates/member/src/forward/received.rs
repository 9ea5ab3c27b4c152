//! The side of the node that leads a group: calls of clients that are connected to other nodes, and
//! their answers on the way back.
//!
//! Owns the mapping from this node's numbers to other nodes' connections. Promises that a node that
//! is gone leaves nothing behind, and that nothing of a message that cannot be read is executed.

use crate::forward::batch::{self, CallItem, Header, Malformed};
use crate::forward::execute::Execute;
use crate::forward::link::{Kind, Link};
use crate::forward::outstanding::Outstanding;
use crate::forward::window::unreachable;
use ferrite_base::limits::{FORWARD_AHEAD_BYTES, FORWARD_CONNECTIONS_MAX, FORWARD_MESSAGE_BYTES};
use ferrite_base::{Epoch, GroupId, Incarnation, NodeId, memory};
use ferrite_partition::AnswerBatch;
use ferrite_partition::cancel::Cancel;
use ferrite_wire::{Invocation, response};
use std::collections::{HashMap, VecDeque};

/// A connection of another node.
struct Remote {
    node: NodeId,
    /// Its number there.
    connection: u64,
    outstanding: Outstanding,
    /// Something of it is listed to be cancelled.
    listed: bool,
    /// No client waits for its answers.
    gone: bool,
}

/// A node whose clients call.
struct Origin {
    group: GroupId,
    incarnation: Incarnation,
    session: u64,
    /// The number of the next message, there and back.
    number: u32,
    answers_number: u32,
    /// Nothing more is taken of the session.
    over: bool,
    /// Calls of the session went back, for a leadership from this epoch on. What was sent after
    /// them goes back, too, though this node may lead again: it must not overtake them. The other
    /// side begins another session when all is back.
    gave_back: Option<Epoch>,
    /// By what its messages say: the connection's number there, and whether it is trusted.
    connections: HashMap<(u64, bool), u64>,
    /// Messages that wait to be sent; more is added to the last.
    answers: VecDeque<Vec<u8>>,
}

impl Origin {
    fn new(group: GroupId, incarnation: Incarnation, session: u64) -> Origin {
        Origin {
            group,
            incarnation,
            session,
            number: 0,
            answers_number: 0,
            over: false,
            gave_back: None,
            connections: HashMap::new(),
            answers: VecDeque::new(),
        }
    }

    /// The message that the next `bytes` go into.
    fn message(&mut self, bytes: usize) -> &mut Vec<u8> {
        let fits = self.answers.back().is_some_and(|last| last.len() + bytes <= FORWARD_MESSAGE_BYTES);
        if !fits {
            let mut message = Vec::new();
            batch::begin(
                &mut message,
                Header { group: self.group, session: self.session, number: self.answers_number },
            );
            self.answers_number = self.answers_number.wrapping_add(1);
            self.answers.push_back(message);
        }
        self.answers.back_mut().expect("there is one now")
    }

    fn answer(&mut self, connection: u64, frames: &[u8]) {
        batch::put_answers(self.message(frames.len()), connection, frames);
        memory::answers_changed(frames.len() as isize);
    }

    /// What becomes of the next message.
    fn taking(&mut self, taking: Taking) -> Taking {
        if let Taking::GiveBack(epoch) = taking {
            self.gave_back = self.gave_back.max(Some(epoch));
        }
        self.gave_back.map_or(taking, Taking::GiveBack)
    }

    #[cold]
    fn give_back(&mut self, epoch: Epoch, (connection, trusted): (u64, bool), body: &[u8]) {
        batch::put_returned(self.message(body.len()), epoch, connection, trusted, body);
        memory::answers_changed(body.len() as isize);
    }

    #[cold]
    fn refuse_call(&mut self, connection: u64, body: &[u8]) {
        let handle = match Invocation::parse(body) {
            Ok(invocation) => invocation.handle,
            Err(error) => error.handle.unwrap_or_default(),
        };
        let mut frame = Vec::new();
        response::write_error(&mut frame, handle, &unreachable());
        self.answer(connection, &frame);
    }
}

/// What answers take in a message, as it was counted: all but its frames is little.
fn counted(message: &[u8]) -> isize {
    let (_, items) = batch::answers(message).expect("it was written here");
    let bytes = |item| match item {
        batch::AnswerItem::Answers { frames, .. } => frames.len() as isize,
        batch::AnswerItem::Returned { body, .. } => body.len() as isize,
        batch::AnswerItem::Refused => 0,
    };
    items.map(bytes).sum()
}

impl Drop for Origin {
    fn drop(&mut self) {
        let left: isize = self.answers.iter().map(|message| counted(message)).sum();
        memory::answers_changed(-left);
    }
}

#[derive(Default)]
pub struct Received {
    group: GroupId,
    origins: HashMap<NodeId, Origin>,
    /// By their numbers here.
    remotes: HashMap<u64, Remote>,
    /// Calls that were executed here, and that went back, up to now.
    pub taken: u64,
    pub given_back: u64,
}

/// What happens to calls that come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taking {
    /// This node leads.
    Execute,
    /// They go back as they came, for the node that leads in this epoch or a later one: no call
    /// goes further than to one other node.
    GiveBack(Epoch),
    /// This node leads, or is about to, and has taken nothing for as long as calls wait.
    Refuse,
}

impl Received {
    pub fn of(group: GroupId) -> Received {
        Received { group, ..Received::default() }
    }

    /// Takes a message of calls.
    pub fn calls(
        &mut self,
        from: (NodeId, Incarnation),
        message: &[u8],
        taking: Taking,
        execute: &mut dyn Execute,
    ) -> Result<(), Malformed> {
        let (node, incarnation) = from;
        let (header, items) = match batch::calls(message) {
            Ok(read) => read,
            Err(error) => {
                self.refuse(node, execute);
                return Err(error);
            }
        };
        if self.origins.get(&node).is_none_or(|origin| {
            origin.incarnation < incarnation || (origin.incarnation == incarnation && origin.session < header.session)
        }) {
            self.lost(node, execute);
            self.origins.insert(node, Origin::new(self.group, incarnation, header.session));
        }
        let origin = self.origins.get_mut(&node).expect("there is one now");
        if origin.over || origin.session != header.session || origin.incarnation != incarnation {
            return Ok(());
        }
        if origin.number != header.number {
            self.refuse(node, execute);
            return Err(Malformed("a message of calls is missing"));
        }
        origin.number = origin.number.wrapping_add(1);
        let taking = origin.taking(taking);
        for item in items {
            match item {
                CallItem::Call { connection, trusted, body } => {
                    if let Err(error) = self.call(node, (connection, trusted), body, taking, execute) {
                        self.refuse(node, execute);
                        return Err(error);
                    }
                }
                CallItem::Cancel { connection, cancel } => {
                    for trusted in [false, true] {
                        self.cancel(node, (connection, trusted), cancel, execute);
                    }
                }
                CallItem::End => {
                    self.finish(node, execute);
                    break;
                }
            }
        }
        Ok(())
    }

    fn call(
        &mut self,
        node: NodeId,
        connection: (u64, bool),
        body: &[u8],
        taking: Taking,
        execute: &mut dyn Execute,
    ) -> Result<(), Malformed> {
        let origin = self.origins.get_mut(&node).expect("its message is read");
        match taking {
            Taking::Execute => {}
            Taking::GiveBack(epoch) => {
                origin.give_back(epoch, connection, body);
                self.given_back += 1;
                return Ok(());
            }
            Taking::Refuse => {
                origin.refuse_call(connection.0, body);
                return Ok(());
            }
        }
        let known = origin.connections.get(&connection).copied();
        let number = match known {
            Some(number) => number,
            None if origin.connections.len() >= FORWARD_CONNECTIONS_MAX => {
                return Err(Malformed("calls come from more connections than a node has"));
            }
            None => {
                let number = execute.admit(connection.0, connection.1);
                origin.connections.insert(connection, number);
                let connection = connection.0;
                let outstanding = Outstanding::default();
                let remote = Remote { node, connection, outstanding, listed: false, gone: false };
                assert!(self.remotes.insert(number, remote).is_none(), "no two connections have one number");
                number
            }
        };
        let work = Outstanding { calls: 1, bytes: body.len() };
        self.remotes.get_mut(&number).expect("each connection is there").outstanding += work;
        self.taken += 1;
        execute.begun(work);
        execute.call(self.group, number, body);
        Ok(())
    }

    fn cancel(&mut self, node: NodeId, connection: (u64, bool), cancel: Cancel, execute: &mut dyn Execute) {
        let origin = self.origins.get_mut(&node).expect("its message is read");
        let Some(&number) = origin.connections.get(&connection) else { return };
        if cancel == Cancel::Gone {
            origin.connections.remove(&connection);
            return self.gone(number, execute);
        }
        let remote = self.remotes.get_mut(&number).expect("each connection is there");
        if remote.outstanding.calls > 0 {
            remote.listed = true;
            execute.cancel(number, cancel);
        }
    }

    fn gone(&mut self, number: u64, execute: &mut dyn Execute) {
        let remote = self.remotes.get_mut(&number).expect("each connection is there");
        if remote.outstanding.calls == 0 {
            self.remotes.remove(&number);
            execute.forget(number);
        } else {
            remote.gone = true;
            execute.cancel(number, Cancel::Gone);
        }
    }

    /// No client waits for answers of the session, and nothing more is taken of it.
    fn finish(&mut self, node: NodeId, execute: &mut dyn Execute) {
        let Some(origin) = self.origins.get_mut(&node) else { return };
        origin.over = true;
        let left: isize = origin.answers.drain(..).map(|message| counted(&message)).sum();
        memory::answers_changed(-left);
        for (_, number) in std::mem::take(&mut origin.connections) {
            self.gone(number, execute);
        }
    }

    /// The same, and the node is informed. Earlier answers are still sent.
    fn refuse(&mut self, node: NodeId, execute: &mut dyn Execute) {
        let Some(origin) = self.origins.get_mut(&node) else { return };
        if !origin.over {
            let answers = std::mem::take(&mut origin.answers);
            self.finish(node, execute);
            let origin = self.origins.get_mut(&node).expect("it was just there");
            origin.answers = answers;
            batch::put_refused(origin.message(1));
        }
    }

    /// What came from the node, or was sent to it, may be lost: no client there waits any more.
    pub fn lost(&mut self, node: NodeId, execute: &mut dyn Execute) {
        self.finish(node, execute);
        self.origins.remove(&node);
    }

    /// Answers of calls that came from other nodes.
    pub fn answered(&mut self, answers: &AnswerBatch, execute: &mut dyn Execute) {
        let mut start = 0;
        let mut work = Outstanding::default();
        for run in &answers.runs {
            let frames = &answers.bytes[start..run.end as usize];
            start = run.end as usize;
            let remote = self.remotes.get_mut(&run.connection).expect("a connection is kept while it has calls");
            let before = remote.outstanding;
            remote.outstanding.answered(run.calls as usize);
            work += before - remote.outstanding;
            let done = remote.outstanding.calls == 0;
            if remote.gone {
                if done {
                    self.remotes.remove(&run.connection);
                    execute.forget(run.connection);
                }
                continue;
            }
            if done && std::mem::take(&mut remote.listed) {
                execute.forget(run.connection);
            }
            let origin = self.origins.get_mut(&remote.node).expect("whoever is not gone has a session");
            origin.answer(remote.connection, frames);
        }
        execute.answered(work);
    }

    /// Sends what there is room for. True: something still waits.
    pub fn send(&mut self, link: &dyn Link) -> bool {
        let mut waits = false;
        for (node, origin) in &mut self.origins {
            while !origin.answers.is_empty() {
                // Where there is no way, the loss will be reported.
                if link.waiting(*node).is_none_or(|waiting| waiting >= FORWARD_AHEAD_BYTES) {
                    waits = true;
                    break;
                }
                let message = origin.answers.pop_front().expect("it is not empty");
                memory::answers_changed(-counted(&message));
                if !link.send(*node, Kind::Answers, message) {
                    // The way was lost just now; the gap would show it, too.
                    break;
                }
            }
        }
        waits
    }

    /// How many connections of other nodes are known.
    #[cfg(test)]
    pub fn remote_count(&self) -> usize {
        self.remotes.len()
    }
}
