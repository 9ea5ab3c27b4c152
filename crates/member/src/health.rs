//! The health that each node reports to all others every second: whether it has room, and whether
//! its vote can be given. A node that has been silent for some seconds counts as unwell in every
//! respect.
//!
//! A copy applies what is committed whatever its memory limit says, so the leader refuses rows
//! while a copy has no room (docs/decisions/0050-copies.md).

use crate::giving_way::Room;
use crate::group_health::{GroupHealth, GroupHealths};
use ferrite_base::{Epoch, GroupId, Incarnation, NodeId, Position};
use ferrite_cluster::FailoverPhase;
use ferrite_group::FIRST_GROUP;
use ferrite_log::Durability;
use ferrite_replica::group::Member;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How often a node reports it.
pub const SAID_EVERY: Duration = Duration::from_secs(1);
/// How long its report counts.
pub const COUNTS: Duration = Duration::from_secs(4);
/// What is written for a vote is written within this, or the vote cannot be given at the moment.
const VOTE_WRITTEN: u64 = 2_000_000_000;

/// The health of one node.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Health {
    /// It keeps data, and has no room for more rows in memory.
    pub lacks_memory: bool,
    /// It keeps data, and procedures of the database cannot run on it.
    pub lacks_java: bool,
    /// On its disk.
    pub room: Room,
    /// Its vote is one of the voters' and can be given.
    pub votes: bool,
    /// Its copy may lack something that it has acknowledged.
    pub incomplete: bool,
    /// It does not take part yet.
    pub starting: bool,
    /// Its log cannot be written any more.
    pub log_failed: bool,
    /// Its process ends: it is not to lead any more.
    pub ends: bool,
    /// None: it keeps no data, or is of an earlier release.
    pub durability: Option<Durability>,
    /// It is a member of the group's configuration of this epoch, and knows that all members have
    /// what is committed.
    pub in_step: Option<Epoch>,
    /// It was chosen to lead the group in this epoch, and has come this far.
    pub phase: Option<(Epoch, FailoverPhase)>,
}

const LACKS_MEMORY: u8 = 1;
const VOTES: u8 = 2;
const LITTLE_DISK: u8 = 4;
const NO_DISK: u8 = 8;
const INCOMPLETE: u8 = 16;
const STARTING: u8 = 32;
const LOG_FAILED: u8 = 64;
const ENDS: u8 = 128;
/// The same of the second byte of flags.
const LACKS_JAVA: u8 = 1;
/// Of durability: these values, or this many milliseconds more than the last.
const SYNC: u32 = 1;
const NONE: u32 = 2;

impl Health {
    pub fn encode(self) -> Vec<u8> {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let disk = match self.room {
            Room::Enough => 0,
            Room::Little => LITTLE_DISK,
            Room::None => LITTLE_DISK | NO_DISK,
        };
        let flags = flag(self.lacks_memory, LACKS_MEMORY) | flag(self.votes, VOTES) | disk;
        let flags = flags | flag(self.incomplete, INCOMPLETE) | flag(self.starting, STARTING);
        let flags = flags | flag(self.log_failed, LOG_FAILED) | flag(self.ends, ENDS);
        let durability = match self.durability {
            None => 0,
            Some(Durability::Sync) => SYNC,
            // A node of a cluster has no such mode; it would count as the weakest.
            Some(Durability::None | Durability::Memory) => NONE,
            Some(Durability::Interval(time)) => (time.as_millis() as u32).saturating_add(NONE),
        };
        let in_step = self.in_step.map_or([0; 8], |epoch| epoch.0.to_le_bytes());
        let more_flags = flag(self.lacks_java, LACKS_JAVA);
        let (epoch, phase) = self.phase.map_or((0, 0), |(epoch, phase)| (epoch.0, phase.code()));
        let of_epoch = [&epoch.to_le_bytes()[..], &[phase]].concat();
        [&[flags][..], &in_step, &durability.to_le_bytes(), &[more_flags], &of_epoch].concat()
    }

    /// Ignores what a later release adds. None: it says nothing.
    pub fn decode(bytes: &[u8]) -> Option<Health> {
        let (flags, rest) = bytes.split_first()?;
        let epoch = rest.first_chunk().map_or(0, |epoch| u64::from_le_bytes(*epoch));
        let durability = rest.get(8..).and_then(<[u8]>::first_chunk).map_or(0, |code| u32::from_le_bytes(*code));
        let durability = match durability {
            0 => None,
            SYNC => Some(Durability::Sync),
            NONE => Some(Durability::None),
            more => Some(Durability::Interval(Duration::from_millis(u64::from(more - NONE)))),
        };
        let in_step = (epoch > 0).then_some(Epoch(epoch));
        let more_flags = rest.get(12).copied().unwrap_or(0);
        let phase = rest.get(13..).and_then(<[u8]>::split_first_chunk).and_then(|(epoch, rest)| {
            let phase = FailoverPhase::of_code(*rest.first()?)?;
            Some((Epoch(u64::from_le_bytes(*epoch)), phase))
        });
        let has = |flag| flags & flag != 0;
        let room = match (has(LITTLE_DISK), has(NO_DISK)) {
            (_, true) => Room::None,
            (true, false) => Room::Little,
            (false, false) => Room::Enough,
        };
        Some(Health {
            lacks_memory: has(LACKS_MEMORY),
            lacks_java: more_flags & LACKS_JAVA != 0,
            room,
            votes: has(VOTES),
            incomplete: has(INCOMPLETE),
            starting: has(STARTING),
            log_failed: has(LOG_FAILED),
            ends: has(ENDS),
            durability,
            in_step,
            phase,
        })
    }
}

/// The last reports of all nodes, this one included.
#[derive(Default)]
pub struct Healths(Mutex<BTreeMap<NodeId, Said>>);

struct Said {
    at: Instant,
    /// The process that has reported it.
    incarnation: Incarnation,
    health: Health,
    groups: GroupHealths,
}

impl Said {
    fn is_late(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) >= COUNTS
    }
}

impl Healths {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, Said>> {
        self.0.lock().expect("no panic with what was said")
    }

    /// `groups`: of those that are not the first.
    pub fn said(&self, by: Member, health: Health, groups: GroupHealths, now: Instant) {
        self.lock().insert(by.node, Said { at: now, incarnation: by.incarnation, health, groups });
    }

    /// What the node has reported lately of a group.
    pub fn of_group(&self, node: NodeId, id: GroupId, now: Instant) -> Option<GroupHealth> {
        let all = self.lock();
        let said = all.get(&node).filter(|said| !said.is_late(now))?;
        let Health { in_step, phase, .. } = said.health;
        let of_first = || GroupHealth { in_step, phase, ..GroupHealth::default() };
        if id == FIRST_GROUP { Some(of_first()) } else { said.groups.get(&id).copied() }
    }

    /// Where the copies of a group other than the first end, of the nodes that have reported one
    /// lately.
    pub fn ends(&self, id: GroupId, now: Instant) -> Vec<(NodeId, (Epoch, Position))> {
        let all = self.lock();
        let lately = all.iter().filter(|(_, said)| !said.is_late(now));
        let ends = lately.filter_map(|(node, said)| Some((*node, said.groups.get(&id)?.end)));
        ends.filter(|(_, end)| *end > Default::default()).collect()
    }

    /// None: it has reported nothing lately.
    pub fn of(&self, node: NodeId, now: Instant) -> Option<Health> {
        self.lock().get(&node).filter(|said| !said.is_late(now)).map(|said| said.health)
    }

    /// Whether the last report of that process, however old, is that its log cannot be written.
    /// Only another process ends that.
    pub fn has_failed(&self, process: Member) -> bool {
        let said = self.lock();
        let last = said.get(&process.node).filter(|said| said.incarnation == process.incarnation);
        last.is_some_and(|said| said.health.log_failed && !said.health.ends)
    }

    /// The nodes whose processes end, as they have reported lately.
    pub fn ending(&self, now: Instant) -> BTreeSet<NodeId> {
        let said = self.lock();
        said.iter().filter(|(_, said)| said.health.ends && !said.is_late(now)).map(|(node, _)| *node).collect()
    }

    /// The nodes that keep data and have reported something lately.
    pub fn durabilities(&self, now: Instant) -> impl Iterator<Item = (NodeId, Durability)> {
        let said = self.lock();
        let lately = said.iter().filter(|(_, said)| !said.is_late(now));
        lately.filter_map(|(node, said)| Some((*node, said.health.durability?))).collect::<Vec<_>>().into_iter()
    }

    /// Whether one of these nodes knows that all members of the group's configuration of that epoch
    /// have what is committed.
    pub fn know_in_step(
        &self,
        mut among: impl Iterator<Item = NodeId>,
        id: GroupId,
        epoch: Epoch,
        now: Instant,
    ) -> bool {
        among.any(|node| self.of_group(node, id, now).is_some_and(|health| health.in_step == Some(epoch)))
    }

    /// One of these nodes that has no room for more rows.
    pub fn lacks_memory(&self, mut among: impl Iterator<Item = NodeId>, now: Instant) -> Option<NodeId> {
        among.find(|node| self.of(*node, now).is_some_and(|health| health.lacks_memory))
    }

    /// One of these nodes that has room for more, in memory and on its disk, and does not end.
    /// `runs_all`: it must also run all procedures.
    pub fn has_room(&self, mut among: impl Iterator<Item = NodeId>, runs_all: bool, now: Instant) -> Option<NodeId> {
        let has_room = |health: Health| !health.lacks_memory && health.room == Room::Enough && !health.ends;
        let fits = |health: Health| has_room(health) && (!runs_all || !health.lacks_java);
        among.find(|node| self.of(*node, now).is_some_and(fits))
    }

    /// One of these nodes that runs all procedures, takes writes, and does not end.
    pub fn runs_all(&self, mut among: impl Iterator<Item = NodeId>, now: Instant) -> Option<NodeId> {
        let fits = |health: Health| !health.lacks_java && health.room != Room::None && !health.ends;
        among.find(|node| self.of(*node, now).is_some_and(fits))
    }
}

/// What the thread that votes shows others about itself without keeping them waiting.
#[derive(Default)]
pub struct OwnVote {
    votes: AtomicBool,
    /// Since when it has been at work, in boot-time nanoseconds; 0: it rests.
    works_since: AtomicU64,
}

impl OwnVote {
    pub fn works(&self, now: u64) {
        self.works_since.store(now.max(1), Release);
    }

    pub fn rests(&self, votes: bool) {
        self.votes.store(votes, Release);
        self.works_since.store(0, Release);
    }

    pub fn can_be_given(&self, now: u64) -> bool {
        let since = self.works_since.load(Acquire);
        self.votes.load(Acquire) && (since == 0 || now.saturating_sub(since) < VOTE_WRITTEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copies_of_a_group_end_where_nodes_have_reported_it_lately() {
        let healths = Healths::default();
        let now = Instant::now();
        let ends = |at| GroupHealth { end: (Epoch(3), Position(at)), ..GroupHealth::default() };
        let group = GroupId(2);
        let say = |node, groups: &[(GroupId, GroupHealth)], at| {
            let groups = groups.iter().copied().collect();
            healths.said(Member::new(node, 1), Health::default(), groups, at);
        };
        say(1, &[(group, ends(7)), (GroupId(1), ends(9))], now);
        say(2, &[(group, ends(0)), (GroupId(1), ends(8))], now + COUNTS);
        say(3, &[(group, GroupHealth::default())], now + COUNTS);
        let end = |at| (Epoch(3), Position(at));
        assert_eq!(healths.ends(group, now), [(NodeId(1), end(7)), (NodeId(2), end(0))]);
        assert_eq!(healths.ends(group, now + COUNTS), [(NodeId(2), end(0))], "node 1 is silent");
        assert_eq!(healths.ends(GroupId(5), now), []);
    }

    /// Of the first group only.
    fn said(healths: &Healths, by: Member, health: Health, now: Instant) {
        healths.said(by, health, GroupHealths::new(), now);
    }

    #[test]
    fn a_word_counts_for_some_seconds_and_only_of_those_who_are_asked_for() {
        let (healths, now) = (Healths::default(), Instant::now());
        let full = Health { lacks_memory: true, votes: true, ..Health::default() };
        said(&healths, Member::new(2, 1), full, now);
        said(&healths, Member::new(3, 1), Health::default(), now);
        let lacks = |among: &[u32], at| healths.lacks_memory(among.iter().map(|node| NodeId(*node)), at);
        assert_eq!(lacks(&[1, 2], now + COUNTS / 2), Some(NodeId(2)));
        assert_eq!(lacks(&[1, 3], now), None, "it is not a member");
        assert_eq!(lacks(&[2], now + COUNTS), None);
        assert_eq!(healths.of(NodeId(2), now + COUNTS / 2), Some(full));
        assert_eq!((healths.of(NodeId(2), now + COUNTS), healths.of(NodeId(1), now)), (None, None));
        let room = |among: &[u32], at| healths.has_room(among.iter().map(|node| NodeId(*node)), true, at);
        assert_eq!(
            (room(&[1, 2, 3], now), room(&[1, 2], now), room(&[3], now + COUNTS)),
            (Some(NodeId(3)), None, None)
        );
        said(&healths, Member::new(3, 1), Health { room: Room::Little, ..Health::default() }, now);
        assert_eq!(room(&[3], now), None);
        let java = |among: &[u32]| healths.runs_all(among.iter().map(|node| NodeId(*node)), now);
        assert_eq!(java(&[3, 2]), Some(NodeId(3)));
        said(&healths, Member::new(3, 1), Health { lacks_java: true, ..Health::default() }, now);
        assert_eq!((java(&[3, 2]), room(&[3], now)), (Some(NodeId(2)), None));
        assert_eq!(healths.has_room([NodeId(3)].into_iter(), false, now), Some(NodeId(3)), "none runs all");
        said(&healths, Member::new(2, 1), Health { room: Room::None, ..Health::default() }, now);
        assert_eq!(java(&[2]), None);
        assert!(SAID_EVERY * 3 < COUNTS, "one message may be lost");
    }

    #[test]
    fn a_failed_log_is_remembered_of_its_process_and_an_end_for_some_seconds() {
        let (healths, now) = (Healths::default(), Instant::now());
        let later = now + 1_000 * COUNTS;
        said(&healths, Member::new(2, 7), Health { log_failed: true, ..Health::default() }, now);
        assert_eq!(healths.of(NodeId(2), later), None, "it says nothing any more");
        assert!(healths.has_failed(Member::new(2, 7)));
        assert!(!healths.has_failed(Member::new(2, 8)), "it was started again");
        said(&healths, Member::new(2, 7), Health { log_failed: true, ends: true, ..Health::default() }, later);
        assert!(!healths.has_failed(Member::new(2, 7)), "an operator stops it");
        said(&healths, Member::new(3, 1), Health::default(), later);
        let ending: Vec<u32> = healths.ending(later).into_iter().map(|node| node.0).collect();
        assert_eq!((ending, healths.ending(later + COUNTS).len()), (vec![2], 0));
        assert_eq!(healths.has_room([NodeId(2), NodeId(3)].into_iter(), true, later), Some(NodeId(3)));
        assert_eq!(healths.runs_all([NodeId(2), NodeId(3)].into_iter(), later), Some(NodeId(3)));
    }

    #[test]
    fn a_member_knows_of_one_epoch_that_all_have_what_is_committed() {
        let (healths, now) = (Healths::default(), Instant::now());
        said(&healths, Member::new(2, 1), Health { in_step: Some(Epoch(7)), ..Health::default() }, now);
        let knows = |among: &[u32], group, epoch, at| {
            healths.know_in_step(among.iter().map(|id| NodeId(*id)), GroupId(group), Epoch(epoch), at)
        };
        let known = |among: &[u32], epoch, at| knows(among, 0, epoch, at);
        assert!(known(&[1, 2], 7, now));
        assert!(!knows(&[1, 2], 1, 7, now), "that is said of the first group");
        let second = GroupHealth { in_step: Some(Epoch(3)), ..GroupHealth::default() };
        healths.said(Member::new(4, 1), Health::default(), GroupHealths::from([(GroupId(1), second)]), now);
        assert!(knows(&[4], 1, 3, now) && !knows(&[4], 0, 3, now) && !knows(&[4], 1, 3, now + COUNTS));
        assert!(!known(&[1, 2], 8, now), "another has been added since");
        assert!(!known(&[1], 7, now) && !known(&[2], 7, now + COUNTS));
    }

    #[test]
    fn how_a_node_is_reads_back() {
        for flags in 0..4 {
            for room in [Room::Enough, Room::Little, Room::None] {
                let in_step = (flags > 1).then_some(Epoch(u64::MAX - flags));
                let (lacks_memory, votes, incomplete) = (flags & 1 != 0, flags & 2 != 0, flags == 3);
                let (starting, log_failed, lacks_java) = (flags == 2, room == Room::None, flags & 2 != 0);
                let ends = flags == 1;
                let phase = (flags > 1).then_some((Epoch(flags), FailoverPhase::ALL[flags as usize]));
                let durability = [
                    None,
                    Some(Durability::Sync),
                    Some(Durability::None),
                    Some(Durability::Interval(Duration::from_millis(60_000))),
                ][flags as usize];
                let health = Health {
                    lacks_memory,
                    lacks_java,
                    room,
                    votes,
                    incomplete,
                    starting,
                    log_failed,
                    ends,
                    durability,
                    in_step,
                    phase,
                };
                assert_eq!(Health::decode(&health.encode()), Some(health));
            }
        }
        let votes = Health { votes: true, ..Health::default() };
        let later = [&[2][..], &[0; 12], &[0xFE], &[7; 8], &[0xFE, 7]].concat();
        assert_eq!(Health::decode(&later), Some(votes), "a later release");
        assert_eq!(Health::decode(&[2, 0, 0, 0, 0, 0, 0, 0, 0]), Some(votes), "one without durability");
        assert_eq!(Health::decode(&later[..13]), Some(votes), "one without a second byte of flags");
        assert_eq!(Health::decode(&[2]), Some(votes), "an earlier one");
        assert_eq!(Health::decode(&[]), None);
    }

    #[test]
    fn a_vote_that_takes_too_long_to_be_written_cannot_be_given() {
        let vote = OwnVote::default();
        assert!(!vote.can_be_given(5));
        vote.rests(true);
        assert!(vote.can_be_given(5));
        vote.works(10);
        assert!(vote.can_be_given(9 + VOTE_WRITTEN) && !vote.can_be_given(10 + VOTE_WRITTEN));
        vote.rests(true);
        assert!(vote.can_be_given(10 + VOTE_WRITTEN));
        vote.rests(false);
        assert!(!vote.can_be_given(11));
    }
}
