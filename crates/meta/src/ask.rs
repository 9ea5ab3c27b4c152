//! What nodes ask the metadata's voters, and what the voters tell them, as values and as bytes.

use crate::bytes::{Malformed, Reader, put_list, put_u32, put_u64};
use crate::parts::{Node, put_member, put_node, take_member, take_node};
use crate::{MEMBERS_MAX, State};
use ferrite_base::{Epoch, GroupId, NodeId, Position};
use ferrite_replica::group::{History, Mark, Member, Proposal, Sealed};
use std::sync::Arc;

const FORMAT: u8 = 1;
/// Epochs in the history of a stream that a message may have.
const EPOCHS_MAX: usize = 1 << 20;

/// What a node asks. It may be lost on its way, as may the answer, which is the state: the asking
/// node looks there and asks again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ask {
    /// This process has started.
    Register { id: NodeId, node: Node },
    /// Asked by any node for one that has no id: the state shows which id it gets.
    Join { key: [u8; 16], node: Node },
    /// It does nothing more for its groups.
    Goodbye(Member),
    /// It lives, and knows the state after this many commands.
    Look { member: Member, index: u64 },
    /// A leader wants another configuration, which continues after `parent`.
    Propose { group: GroupId, from: Member, proposal: Proposal, parent: Mark },
    /// This process, which leads the group in that epoch, no longer does, and never will in it
    /// again.
    Resign { group: GroupId, from: Member, epoch: Epoch },
    /// An operator says that this process suffices to lead a group without a leader.
    AcceptLoss { group: GroupId, from: Member, expected: Epoch, member: Member },
    /// The group has the replicated tables of the others, since the loss with which that epoch
    /// began: the node that leads the first group has made them equal, or has found them so.
    Equal { group: GroupId, from: Member, loss: Epoch },
    /// An operator says that this node, and what its last process was, is lost for good.
    Remove { from: Member, lost: Member },
    /// An operator pauses the database, or resumes it. `revision`: of the settings, as the asking
    /// node knows it.
    Pause { from: Member, revision: u64, paused: bool },
    /// The answer to a seal.
    Sealed { group: GroupId, sealed: Sealed },
}

/// A question with its number: the lease that an answer grants counts from when it was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    pub number: u64,
    pub ask: Ask,
}

/// What a voter says, even without being asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MetadataUpdate {
    /// Commands that are in the state.
    pub index: u64,
    /// None if the asking node has it.
    pub state: Option<Arc<State>>,
    /// The number of the question that is granted a lease, which counts once the state of `index`
    /// is known.
    pub lease: Option<u64>,
    /// The leader of the voters, as far as this one knows.
    pub leader: Option<NodeId>,
}

impl Question {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        let out = &mut bytes;
        put_u64(out, self.number);
        match &self.ask {
            Ask::Register { id, node } => {
                out.push(1);
                put_node(out, *id, node);
            }
            Ask::Join { key, node } => {
                out.push(7);
                out.extend_from_slice(key);
                put_node(out, NodeId(0), node);
            }
            Ask::Goodbye(member) => {
                out.push(2);
                put_member(out, *member);
            }
            Ask::Look { member, index } => {
                out.push(3);
                put_member(out, *member);
                put_u64(out, *index);
            }
            Ask::Propose { group, from, proposal, parent } => {
                out.push(4);
                put_u32(out, group.0);
                put_member(out, *from);
                put_u64(out, proposal.expected.0);
                put_member(out, proposal.leader);
                put_list(out, &proposal.members, |out, member| put_member(out, *member));
                put_list(out, &proposal.added, |out, node| put_u32(out, node.0));
                put_mark(out, *parent);
            }
            Ask::AcceptLoss { group, from, expected, member } => {
                out.push(6);
                put_u32(out, group.0);
                put_member(out, *from);
                put_u64(out, expected.0);
                put_member(out, *member);
            }
            Ask::Resign { group, from, epoch } | Ask::Equal { group, from, loss: epoch } => {
                out.push(if matches!(&self.ask, Ask::Resign { .. }) { 9 } else { 11 });
                put_u32(out, group.0);
                put_member(out, *from);
                put_u64(out, epoch.0);
            }
            Ask::Remove { from, lost } => {
                out.push(8);
                put_member(out, *from);
                put_member(out, *lost);
            }
            Ask::Pause { from, revision, paused } => {
                out.push(10);
                put_member(out, *from);
                put_u64(out, *revision);
                out.push(u8::from(*paused));
            }
            Ask::Sealed { group, sealed } => {
                out.push(5);
                put_u32(out, group.0);
                put_member(out, sealed.member);
                put_u64(out, sealed.epoch.0);
                put_mark(out, sealed.end);
                out.push(u8::from(sealed.intact));
                put_u64(out, sealed.applied.0);
                out.push(u8::from(sealed.able));
                put_list(out, sealed.history.starts(), |out, (epoch, position)| {
                    put_u64(out, epoch.0);
                    put_u64(out, position.0);
                });
            }
        }
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Result<Question, Malformed> {
        let mut rest = Reader::new(bytes);
        if rest.u8()? != FORMAT {
            return Err(Malformed("a question is of a format that this release does not know"));
        }
        let number = rest.u64()?;
        let ask = match rest.u8()? {
            1 => {
                let (id, node) = take_node(&mut rest)?;
                Ask::Register { id, node }
            }
            2 => Ask::Goodbye(take_member(&mut rest)?),
            3 => Ask::Look { member: take_member(&mut rest)?, index: rest.u64()? },
            4 => {
                let group = GroupId(rest.u32()?);
                let from = take_member(&mut rest)?;
                let expected = Epoch(rest.u64()?);
                let leader = take_member(&mut rest)?;
                let members = rest.list(MEMBERS_MAX, take_member)?;
                let added = rest.list(MEMBERS_MAX, |rest| rest.u32().map(NodeId))?;
                let parent = take_mark(&mut rest)?;
                Ask::Propose { group, from, proposal: Proposal { expected, leader, members, added }, parent }
            }
            5 => {
                let group = GroupId(rest.u32()?);
                let member = take_member(&mut rest)?;
                let epoch = Epoch(rest.u64()?);
                let end = take_mark(&mut rest)?;
                let intact = rest.flag()?;
                let applied = Position(rest.u64()?);
                let able = rest.flag()?;
                let starts = rest.list(EPOCHS_MAX, |rest| Ok((Epoch(rest.u64()?), Position(rest.u64()?))))?;
                let history = History::new(starts).ok_or(Malformed("a history is out of order"))?;
                Ask::Sealed { group, sealed: Sealed { member, epoch, end, history, intact, applied, able } }
            }
            6 => {
                let group = GroupId(rest.u32()?);
                let from = take_member(&mut rest)?;
                Ask::AcceptLoss { group, from, expected: Epoch(rest.u64()?), member: take_member(&mut rest)? }
            }
            7 => {
                let key = rest.array()?;
                let (_, node) = take_node(&mut rest)?;
                Ask::Join { key, node }
            }
            8 => Ask::Remove { from: take_member(&mut rest)?, lost: take_member(&mut rest)? },
            9 => {
                let group = GroupId(rest.u32()?);
                let from = take_member(&mut rest)?;
                Ask::Resign { group, from, epoch: Epoch(rest.u64()?) }
            }
            10 => Ask::Pause { from: take_member(&mut rest)?, revision: rest.u64()?, paused: rest.flag()? },
            11 => {
                let group = GroupId(rest.u32()?);
                let from = take_member(&mut rest)?;
                Ask::Equal { group, from, loss: Epoch(rest.u64()?) }
            }
            _ => return Err(Malformed("a question is of an unknown kind")),
        };
        rest.end()?;
        Ok(Question { number, ask })
    }
}

impl MetadataUpdate {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        put_u64(&mut out, self.index);
        put_u64(&mut out, self.lease.map_or(0, |number| number));
        put_u32(&mut out, self.leader.map_or(0, |leader| leader.0));
        if let Some(state) = &self.state {
            out.extend_from_slice(&state.snapshot());
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<MetadataUpdate, Malformed> {
        let mut rest = Reader::new(bytes);
        if rest.u8()? != FORMAT {
            return Err(Malformed("an answer is of a format that this release does not know"));
        }
        let index = rest.u64()?;
        let lease = rest.u64()?;
        let leader = rest.u32()?;
        let state = if rest.is_empty() { None } else { Some(Arc::new(State::restore(rest.rest())?)) };
        let lease = (lease != 0).then_some(lease);
        let leader = (leader != 0).then_some(NodeId(leader));
        Ok(MetadataUpdate { index, state, lease, leader })
    }
}

pub(crate) fn put_mark(out: &mut Vec<u8>, mark: Mark) {
    put_u64(out, mark.epoch.0);
    put_u64(out, mark.position.0);
    put_u32(out, mark.chain);
}

pub(crate) fn take_mark(rest: &mut Reader<'_>) -> Result<Mark, Malformed> {
    Ok(Mark { epoch: Epoch(rest.u64()?), position: Position(rest.u64()?), chain: rest.u32()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Presence};
    use ferrite_base::Incarnation;

    fn questions() -> Vec<Question> {
        let member = Member { node: NodeId(2), incarnation: Incarnation(7) };
        let mark = Mark { epoch: Epoch(3), position: Position(40), chain: 5 };
        let node = Node {
            incarnation: Incarnation(7),
            start: [3; 16],
            kind: Kind::Data,
            presence: Presence::Running,
            vote: Some(4),
            release: "0.1.0".to_string(),
            addresses: vec!["a:1".to_string(), "b:2".to_string()],
            rack: None,
        };
        let proposal = Proposal { expected: Epoch(3), leader: member, members: vec![member], added: vec![NodeId(2)] };
        let history = History::new(vec![(Epoch(1), Position(1)), (Epoch(3), Position(9))]).unwrap();
        let sealed =
            Sealed { member, epoch: Epoch(4), end: mark, history, intact: true, applied: Position(5), able: false };
        [
            Ask::Sealed { group: GroupId(0), sealed: Sealed { able: true, ..sealed.clone() } },
            Ask::Join { key: [8; 16], node: node.clone() },
            Ask::Remove { from: member, lost: Member { node: NodeId(4), ..member } },
            Ask::Register { id: NodeId(2), node: Node { rack: Some("a".to_string()), ..node.clone() } },
            Ask::Register { id: NodeId(2), node },
            Ask::Goodbye(member),
            Ask::Look { member, index: 12 },
            Ask::Propose { group: GroupId(0), from: member, proposal, parent: mark },
            Ask::Sealed { group: GroupId(0), sealed },
            Ask::AcceptLoss { group: GroupId(0), from: member, expected: Epoch(3), member },
            Ask::Equal { group: GroupId(1), from: member, loss: Epoch(3) },
            Ask::Resign { group: GroupId(0), from: member, epoch: Epoch(3) },
            Ask::Pause { from: member, revision: 6, paused: true },
        ]
        .into_iter()
        .zip(1..)
        .map(|(ask, number)| Question { number, ask })
        .collect()
    }

    #[test]
    fn questions_and_answers_read_back_as_written() {
        for question in questions() {
            let bytes = question.encode();
            assert_eq!(Question::decode(&bytes), Ok(question));
            assert!((0..bytes.len()).all(|end| Question::decode(&bytes[..end]).is_err()));
        }
        let state = Some(Arc::new(State::default()));
        for update in [
            MetadataUpdate { index: 4, state: state.clone(), lease: Some(9), leader: Some(NodeId(3)) },
            MetadataUpdate { index: 4, state: None, lease: None, leader: None },
        ] {
            assert_eq!(MetadataUpdate::decode(&update.encode()), Ok(update));
        }
    }

    #[test]
    fn hostile_bytes_do_not_panic() {
        bolero::check!().with_iterations(20_000).with_type::<(u8, u16, Vec<u8>)>().for_each(|(which, cut, bytes)| {
            let (_, _) = (Question::decode(bytes), MetadataUpdate::decode(bytes));
            let mut all = questions();
            let mut whole = all.remove(*which as usize % all.len()).encode();
            whole.truncate(*cut as usize % (whole.len() + 1));
            whole.extend_from_slice(bytes);
            let _ = Question::decode(&whole);
        });
    }
}
