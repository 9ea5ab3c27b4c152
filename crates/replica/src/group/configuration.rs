//! The nodes that keep a group, as the metadata has decided, and those that may lead it next.

use super::entry::Mark;
use super::history::History;
use ferrite_base::bytes::{ReadFault, Reader};
use ferrite_base::{Epoch, Incarnation, NodeId, Position, planted};

/// A node's process: a restarted one is another member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Member {
    pub node: NodeId,
    pub incarnation: Incarnation,
}

/// A group's leader and members. Never changed: a change is a new configuration in a higher epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupConfiguration {
    pub epoch: Epoch,
    pub leader: Member,
    /// Ascending by node.
    members: Vec<Member>,
    /// Those that were not members previously, and may lack what was committed below the epoch.
    added: Vec<NodeId>,
}

impl GroupConfiguration {
    /// # Panics
    /// If the leader is not a member, a node is named twice, or one was added that is not a member.
    pub fn new(epoch: Epoch, leader: Member, members: Vec<Member>, added: Vec<NodeId>) -> GroupConfiguration {
        GroupConfiguration::try_new(epoch, leader, members, added).unwrap_or_else(|reason| panic!("{reason}"))
    }

    /// For a leader without copies.
    pub fn alone(epoch: Epoch, leader: Member) -> GroupConfiguration {
        GroupConfiguration::new(epoch, leader, vec![leader], Vec::new())
    }

    fn try_new(
        epoch: Epoch,
        leader: Member,
        mut members: Vec<Member>,
        added: Vec<NodeId>,
    ) -> Result<GroupConfiguration, &'static str> {
        members.sort_unstable();
        if members.windows(2).any(|pair| pair[0].node == pair[1].node) {
            return Err("a node is named twice");
        }
        if !members.contains(&leader) || added.contains(&leader.node) {
            return Err("the leader is a member, and was not just added");
        }
        let configuration = GroupConfiguration { epoch, leader, members, added };
        if configuration.added.iter().any(|node| !configuration.has_node(*node)) {
            return Err("who is added is a member");
        }
        Ok(configuration)
    }

    pub fn members(&self) -> &[Member] {
        &self.members
    }

    pub fn added(&self) -> &[NodeId] {
        &self.added
    }

    /// The body of the epoch's first entry, which follows `parent` (docs/replication.md, section
    /// 2).
    pub fn encode(&self, parent: Mark) -> Vec<u8> {
        let mut out = Vec::new();
        let put = |out: &mut Vec<u8>, member: &Member| {
            out.extend_from_slice(&member.node.0.to_le_bytes());
            out.extend_from_slice(&member.incarnation.0.to_le_bytes());
        };
        put(&mut out, &self.leader);
        out.extend_from_slice(&(self.members.len() as u32).to_le_bytes());
        self.members.iter().for_each(|member| put(&mut out, member));
        out.extend_from_slice(&(self.added.len() as u32).to_le_bytes());
        self.added.iter().for_each(|node| out.extend_from_slice(&node.0.to_le_bytes()));
        out.extend_from_slice(&parent.epoch.0.to_le_bytes());
        out.extend_from_slice(&parent.position.0.to_le_bytes());
        out.extend_from_slice(&parent.chain.to_le_bytes());
        out
    }

    /// What [`GroupConfiguration::encode`] has written, and the parent; None: the bytes are
    /// something else.
    pub fn decode(epoch: Epoch, body: &[u8]) -> Option<(GroupConfiguration, Mark)> {
        let (leader, members, added, parent) = read_fields(Reader::new(body)).ok()?;
        GroupConfiguration::try_new(epoch, leader, members, added).ok().map(|configuration| (configuration, parent))
    }

    pub fn has(&self, member: Member) -> bool {
        self.members.binary_search(&member).is_ok()
    }

    pub fn has_node(&self, node: NodeId) -> bool {
        self.members.iter().any(|member| member.node == node)
    }
}

/// The leader, the members, those added, and the parent.
fn read_fields(mut rest: Reader<'_>) -> Result<(Member, Vec<Member>, Vec<NodeId>, Mark), ReadFault> {
    let leader = read_member(&mut rest)?;
    let members = rest.list(usize::MAX, read_member)?;
    let added = rest.list(usize::MAX, |rest| rest.u32().map(NodeId))?;
    let parent = Mark { epoch: Epoch(rest.u64()?), position: Position(rest.u64()?), chain: rest.u32()? };
    rest.end()?;
    Ok((leader, members, added, parent))
}

fn read_member(rest: &mut Reader<'_>) -> Result<Member, ReadFault> {
    Ok(Member { node: NodeId(rest.u32()?), incarnation: Incarnation(rest.u64()?) })
}

/// A member's answer to a seal: what it has, durably, and never adds to at a lower epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sealed {
    pub member: Member,
    /// The epoch that it promised.
    pub epoch: Epoch,
    pub end: Mark,
    pub history: History,
    /// False if it may have lost what it acknowledged: the machine stopped, and its log was not
    /// fsynced for each.
    pub intact: bool,
    /// Its tables show everything up to there: the rest is to be applied before it can lead.
    pub applied: Position,
    /// It can run all procedures of the database.
    pub able: bool,
}

/// Whether the node has every entry that was acknowledged under `last`, the group's last
/// configuration. Its earlier process may have been the member: what it acknowledged is in its log.
pub fn suffices(last: &GroupConfiguration, answer: &Sealed) -> bool {
    let node = answer.member.node;
    let proven = planted!(AddedMemberLeads) || !last.added.contains(&node) || answer.end.epoch >= last.epoch;
    (answer.intact || planted!(LogNotIntact)) && last.has_node(node) && proven
}

/// The configuration that follows from the answers to the seal of `epoch`. Of the nodes that have
/// everything, one that can run all procedures leads, if there is one; of several the one with the
/// longest stream, and then the one that has applied most, since callers wait for the rest. None
/// while no node has everything.
pub fn decide(last: &GroupConfiguration, epoch: Epoch, answers: &[Sealed]) -> Option<GroupConfiguration> {
    assert!(epoch > last.epoch, "a sealed epoch follows the last one");
    let sufficient = || answers.iter().filter(|answer| answer.epoch == epoch && suffices(last, answer));
    let leader = sufficient().max_by_key(|answer| {
        let Mark { epoch, position, .. } = answer.end;
        let applied = if planted!(LowestLeads) { Position(0) } else { answer.applied };
        (answer.able || planted!(UnableLeads), epoch, position, applied, std::cmp::Reverse(answer.member.node))
    })?;
    let members = sufficient().map(|answer| answer.member).collect();
    Some(GroupConfiguration::new(epoch, leader.member, members, Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(node: u32) -> Member {
        Member { node: NodeId(node), incarnation: Incarnation(1) }
    }

    fn answer(node: u32, epoch: u64, position: u64) -> Sealed {
        let end = Mark { epoch: Epoch(epoch), position: Position(position), chain: 0 };
        Sealed {
            member: member(node),
            epoch: Epoch(9),
            end,
            history: History::default(),
            intact: true,
            applied: Position(position),
            able: true,
        }
    }

    fn last(added: &[u32]) -> GroupConfiguration {
        let added = added.iter().copied().map(NodeId).collect();
        GroupConfiguration::new(Epoch(5), member(1), vec![member(3), member(1), member(2)], added)
    }

    #[test]
    fn a_configuration_reads_back_and_a_damaged_one_is_refused() {
        let parent = Mark { epoch: Epoch(4), position: Position(17), chain: 99 };
        let body = last(&[3]).encode(parent);
        assert_eq!(GroupConfiguration::decode(Epoch(5), &body), Some((last(&[3]), parent)));
        for end in 0..body.len() {
            assert_eq!(GroupConfiguration::decode(Epoch(5), &body[..end]), None);
        }
        assert_eq!(GroupConfiguration::decode(Epoch(5), &[&body[..], &[0]].concat()), None);
        // The leader is not a member; the count is larger than what follows.
        for (at, value) in [(0, 9), (12, 200), (15, 255)] {
            let mut damaged = body.clone();
            damaged[at] = value;
            assert_eq!(GroupConfiguration::decode(Epoch(5), &damaged), None);
        }
    }

    #[test]
    fn the_longest_stream_of_those_who_have_everything_leads() {
        let decided = decide(&last(&[]), Epoch(9), &[answer(2, 5, 10), answer(3, 5, 12), answer(4, 5, 99)]).unwrap();
        assert_eq!((decided.leader, decided.members()), (member(3), &[member(2), member(3)][..]));
        // A higher epoch counts for more than a longer stream.
        assert_eq!(decide(&last(&[]), Epoch(9), &[answer(2, 5, 10), answer(3, 4, 12)]).unwrap().leader, member(2));
        assert_eq!(decide(&last(&[]), Epoch(9), &[answer(2, 5, 10), answer(3, 5, 10)]).unwrap().leader, member(2));
    }

    #[test]
    fn of_equal_streams_the_one_that_is_applied_leads_and_a_longer_one_before_it() {
        let behind = |node, position, applied| Sealed { applied: Position(applied), ..answer(node, 5, position) };
        let decided = |answers: &[Sealed]| decide(&last(&[]), Epoch(9), answers).unwrap().leader;
        assert_eq!(decided(&[behind(2, 10, 9), behind(3, 10, 10)]), member(3));
        assert_eq!(decided(&[behind(2, 10, 9), behind(3, 10, 9)]), member(2), "the lower number");
        assert_eq!(decided(&[behind(2, 11, 2), behind(3, 10, 10)]), member(2), "fewer outcomes are unknown");
    }

    #[test]
    fn one_that_can_run_all_procedures_leads_before_a_longer_stream_and_not_before_one_that_suffices() {
        let unable = |node, epoch, position| Sealed { able: false, ..answer(node, epoch, position) };
        let decided = |answers: &[Sealed]| decide(&last(&[]), Epoch(9), answers).unwrap();
        let two = decided(&[unable(2, 5, 12), answer(3, 5, 10)]);
        assert_eq!((two.leader, two.members()), (member(3), &[member(2), member(3)][..]));
        assert_eq!(decided(&[unable(2, 5, 10), unable(3, 5, 12)]).leader, member(3), "none can: the longest");
        assert_eq!(decided(&[unable(2, 5, 10)]).leader, member(2), "nothing is lost for it");
        let insufficient = Sealed { intact: false, ..answer(3, 5, 12) };
        assert_eq!(decided(&[unable(2, 5, 10), insufficient]).leader, member(2));
    }

    #[test]
    fn an_added_member_suffices_only_with_the_start_of_its_epoch() {
        assert_eq!(decide(&last(&[3]), Epoch(9), &[answer(3, 4, 12)]), None);
        assert_eq!(decide(&last(&[3]), Epoch(9), &[answer(3, 5, 13)]).unwrap().leader, member(3));
    }

    #[test]
    fn a_log_that_may_have_lost_something_and_a_promise_of_another_epoch_do_not_count() {
        assert_eq!(decide(&last(&[]), Epoch(9), &[Sealed { intact: false, ..answer(2, 5, 10) }]), None);
        assert_eq!(decide(&last(&[]), Epoch(9), &[Sealed { epoch: Epoch(8), ..answer(2, 5, 10) }]), None);
    }

    #[test]
    fn a_restarted_member_leads_with_its_new_incarnation() {
        let mut restarted = answer(1, 5, 10);
        restarted.member.incarnation = Incarnation(2);
        assert_eq!(decide(&last(&[]), Epoch(9), &[restarted.clone()]).unwrap().leader, restarted.member);
    }
}
