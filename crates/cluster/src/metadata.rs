//! A node's part in the metadata: its vote, if it has one, and its way to the voters.
//!
//! Owns both. Promises that what it reports to this node comes in order: a lease after the state
//! that it was granted for. Messages and the rest are values; knows no sockets, threads or timers.

use crate::cause::Cause;
use ferrite_base::NodeId;
use ferrite_meta::voter::VoterError;
use ferrite_meta::{Ask, Controller, Link, Malformed, MetadataUpdate, Out, Question, State};
use std::collections::VecDeque;
use std::sync::Arc;

/// What is to be done, in this order.
pub enum Errand {
    /// To another node, on the control lane, as a
    /// [`MessageKind::Metadata`](crate::MessageKind::Metadata).
    Send { to: NodeId, message: Vec<u8> },
    /// To the inbox of this node.
    Cause(Cause),
    /// This node no longer votes, and continues without. After a fault of the disk its vote may be
    /// opened again, as at a start, and handed to [`Metadata::begin_to_vote`].
    VoteLost(VoterError),
}

enum Message {
    /// From one voter to another.
    Raft(Vec<u8>),
    Question(Question),
    Update(MetadataUpdate),
}

const RAFT: u8 = 1;
const QUESTION: u8 = 2;
const UPDATE: u8 = 3;

impl Message {
    fn encode(&self) -> Vec<u8> {
        let (kind, body) = match self {
            Message::Raft(body) => (RAFT, body.clone()),
            Message::Question(question) => (QUESTION, question.encode()),
            Message::Update(update) => (UPDATE, update.encode()),
        };
        [&[kind], &body[..]].concat()
    }

    fn decode(bytes: &[u8]) -> Result<Message, Malformed> {
        match bytes.split_first() {
            Some((&RAFT, body)) => Ok(Message::Raft(body.to_vec())),
            Some((&QUESTION, body)) => Question::decode(body).map(Message::Question),
            Some((&UPDATE, body)) => MetadataUpdate::decode(body).map(Message::Update),
            _ => Err(Malformed("a message is of a kind that this release does not know")),
        }
    }
}

/// Of one process.
pub struct Metadata {
    here: NodeId,
    controller: Option<Controller>,
    link: Link,
    /// The end of the last lease that this node heard of.
    lease: u64,
    /// From this node to itself.
    own: VecDeque<Message>,
    errands: Vec<Errand>,
}

impl Metadata {
    /// `voters`: those that are known at first, one at least; `controller`: if this node is one;
    /// `number`: random.
    pub fn new(here: NodeId, voters: Vec<NodeId>, controller: Option<Controller>, number: u64) -> Metadata {
        let link = Link::new(voters, number);
        Metadata { here, controller, link, lease: 0, own: VecDeque::new(), errands: Vec::new() }
    }

    /// The state as this node knows it, after this many commands.
    pub fn state(&self) -> (u64, &Arc<State>) {
        self.link.state()
    }

    /// The leader of the voters, as far as this node knows.
    pub fn leader(&self) -> Option<NodeId> {
        self.link.leader()
    }

    /// This node's vote, while it has one.
    pub fn controller(&self) -> Option<&Controller> {
        self.controller.as_ref()
    }

    /// This node votes again, from what it has kept.
    ///
    /// # Panics
    /// When it votes already.
    pub fn begin_to_vote(&mut self, controller: Controller) {
        assert!(self.controller.is_none(), "a node has one vote");
        self.controller = Some(controller);
    }

    /// Asks the voters. The outcome shows in the state. `now`: of the boot-time clock, in
    /// nanoseconds, and not later than this call: a lease counts from there.
    pub fn ask(&mut self, ask: Ask, now: u64) {
        let (to, question) = self.link.ask(ask, now);
        self.post(to, Message::Question(question));
    }

    /// A message of another node's process.
    pub fn handle_message(&mut self, from: NodeId, bytes: &[u8], now: u64) -> Result<(), Malformed> {
        self.handle(from, Message::decode(bytes)?, now)
    }

    /// Messages to that node that were not answered may be lost.
    pub fn lost(&mut self, node: NodeId) {
        self.link.lost(node);
    }

    /// To be called at [`Metadata::next_tick`], and when something came.
    pub fn tick(&mut self, now: u64) {
        if let Some(controller) = &mut self.controller {
            controller.tick(now);
        }
    }

    /// Writes this node's vote as it is. A disk that takes nothing more is noticed before the vote
    /// is needed.
    pub fn probe(&mut self) {
        if let Some(controller) = &mut self.controller
            && let Err(error) = controller.probe()
        {
            self.controller = None;
            self.errands.push(Errand::VoteLost(error));
        }
    }

    /// When [`Metadata::tick`] has something to do next, if nothing comes earlier: now, or at a
    /// time. None: not until then.
    pub fn next_tick(&self, now: u64) -> Option<u64> {
        self.controller.as_ref()?.next_tick(now)
    }

    /// Acts on everything that came.
    pub fn work(&mut self, now: u64, errands: &mut Vec<Errand>) {
        loop {
            self.keep(now);
            let Some(message) = self.own.pop_front() else { break };
            self.handle(self.here, message, now).expect("what this node says to itself is in order");
        }
        errands.append(&mut self.errands);
    }

    fn keep(&mut self, now: u64) {
        let Some(controller) = &mut self.controller else { return };
        let mut outs = Vec::new();
        let outcome = controller.work(now, &mut outs);
        for out in outs {
            match out {
                Out::Raft { to, message } => self.post(to, Message::Raft(message)),
                Out::Update { to, update } => self.post(to, Message::Update(update)),
            }
        }
        if let Err(error) = outcome {
            self.controller = None;
            self.errands.push(Errand::VoteLost(error));
        }
    }

    fn post(&mut self, to: NodeId, message: Message) {
        if to == self.here {
            self.own.push_back(message);
        } else {
            self.errands.push(Errand::Send { to, message: message.encode() });
        }
    }

    fn handle(&mut self, from: NodeId, message: Message, now: u64) -> Result<(), Malformed> {
        match message {
            // A voter that counts on a vote that this node does not have does without.
            Message::Raft(bytes) => {
                if let Some(controller) = &mut self.controller {
                    controller.handle_raft(from, &bytes)?;
                }
            }
            Message::Question(question) => {
                check_asker(from, &question.ask)?;
                match self.controller.as_mut().filter(|controller| controller.votes()) {
                    Some(controller) => controller.asked(from, question, now),
                    None => self.pass_on(from, &question),
                }
            }
            Message::Update(update) => self.receive_update(from, update),
        }
        Ok(())
    }

    /// A node without a vote says what it knows, and which voter leads.
    fn pass_on(&mut self, from: NodeId, question: &Question) {
        let known = if let Ask::Look { index, .. } = question.ask { index } else { 0 };
        let (index, state) = self.link.state();
        let state = (index > known).then(|| Arc::clone(state));
        let leader = self.link.leader().filter(|leader| *leader != self.here);
        self.post(from, Message::Update(MetadataUpdate { index, state, lease: None, leader }));
    }

    /// The node looks at the state even if it is the same: what it said because of it may have been
    /// lost.
    fn receive_update(&mut self, from: NodeId, update: MetadataUpdate) {
        self.link.receive_update(from, update);
        let (index, state) = self.link.state();
        if index == 0 {
            return;
        }
        let leader = self.link.leader();
        self.errands.push(Errand::Cause(Cause::Metadata { index, state: Arc::clone(state), leader }));
        let until = self.link.lease_until();
        if until > self.lease {
            self.lease = until;
            self.errands.push(Errand::Cause(Cause::Lease { index, until }));
        }
    }
}

/// No node asks in the name of another, except for one that has no id.
fn check_asker(from: NodeId, ask: &Ask) -> Result<(), Malformed> {
    let named = match ask {
        Ask::Join { .. } => return Ok(()),
        Ask::Register { id, .. } => *id,
        Ask::Goodbye(member) | Ask::Look { member, .. } => member.node,
        Ask::Propose { from: member, .. } | Ask::AcceptLoss { from: member, .. } => member.node,
        Ask::Remove { from: member, .. } | Ask::Resign { from: member, .. } => member.node,
        Ask::Pause { from: member, .. } | Ask::Equal { from: member, .. } => member.node,
        Ask::Sealed { sealed, .. } => sealed.member.node,
    };
    if named == from { Ok(()) } else { Err(Malformed("a question is in the name of another node")) }
}
