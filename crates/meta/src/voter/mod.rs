//! One voter of the metadata: Raft, by a library, driven step by step with our time, our random
//! numbers and our disk (docs/decisions/0048-metadata.md).
//!
//! Promises that it sends nothing that is not durable, that commands are applied in one order on
//! all voters, and that a confirmed read is later than all that was committed before it was asked
//! for.

mod begin;
mod kept;
mod message;

pub use begin::{Before, Known, open_or_begin, put_aside};
pub use kept::VoterError;

use crate::bytes::Malformed;
use crate::command::Command;
use crate::state::{Change, Refusal, State};
use ferrite_base::NodeId;
use ferrite_base::limits::{METADATA_COMMAND_BYTES_MAX, METADATA_UNCOMMITTED_BYTES_MAX};
use ferrite_io::{Disk, Random};
use kept::{Files, Kept};
use raft::eraftpb::{ConfChange, ConfChangeType, Entry, EntryType, Message, MessageType};
use raft::{Config, RawNode, SnapshotStatus, StateRole};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Between two ticks, at least; at most twice that. Each voter has its own pace, and draws a new
/// one with each term, so that two candidates do not keep standing for election at the same time.
const TICK_NANOS: u64 = 50_000_000;
/// Ticks without a message from the leader after which a voter stands for election: 0.4 to 0.8
/// seconds. The next leader knows no lease and waits for those of before, so where the one that has
/// died led groups as well, these wait for both.
const ELECTION_TICKS: usize = 8;
const HEARTBEAT_TICKS: usize = 1;

/// A read that was asked for. Each has its own, so that an old answer confirms no new question.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReadId(pub u64);

/// A voter's name in the library: each vote of a node has one of its own, so that what an earlier
/// one has said does not count for a later one.
fn raft_id(node: NodeId, number: u32) -> u64 {
    (u64::from(number) << 32) | u64::from(node.0)
}

fn node_of(id: u64) -> NodeId {
    NodeId(id as u32)
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Did {
    Send {
        to: NodeId,
        message: Vec<u8>,
    },
    /// All voters come to the same result.
    Applied {
        index: u64,
        command: Command,
        outcome: Result<Change, Refusal>,
    },
    /// The state was replaced by a leader's.
    Installed {
        index: u64,
    },
    /// Whether it is the voters' leader now, and in which term.
    Leader {
        is_leader: bool,
        term: u64,
    },
    /// Answers from the state after this entry are current.
    Confirmed {
        read: ReadId,
        index: u64,
    },
}

pub struct Voter {
    raw: RawNode<Kept>,
    files: Files,
    disk: Arc<dyn Disk>,
    random: Box<dyn Random>,
    /// Of this process: reads of an earlier one are not confirmed.
    start: u64,
    reads: u64,
    asked: BTreeSet<ReadId>,
    /// When the next tick is due, and how far they are apart.
    next_tick: Option<u64>,
    pace: u64,
    paced_for: u64,
    is_leader: bool,
    /// It must not vote any more.
    lost: bool,
}

impl Voter {
    /// Continues with what is in the directory. None: there is nothing.
    pub fn open(
        here: NodeId,
        disk: Arc<dyn Disk>,
        dir: &Path,
        random: Box<dyn Random>,
    ) -> Result<Option<Voter>, VoterError> {
        let Some((mut files, kept)) = Files::open(&*disk, dir)? else { return Ok(None) };
        // One of the files may be torn, or older.
        files.write(&*disk, &kept)?;
        Ok(Some(Voter::with(here, disk, files, kept, random)))
    }

    /// One of the first voters of a cluster that was founded.
    pub fn found(
        here: NodeId,
        disk: Arc<dyn Disk>,
        dir: &Path,
        random: Box<dyn Random>,
        founded: &State,
    ) -> Result<Voter, VoterError> {
        assert!(founded.voters().contains(&here), "a voter is one of the cluster's");
        Voter::begin(here, disk, dir, random, Kept::founded(founded))
    }

    /// A node that becomes a voter later: it knows nothing, and is given everything. `number`:
    /// higher than that of any vote that this node ever had.
    pub fn join(
        here: NodeId,
        disk: Arc<dyn Disk>,
        dir: &Path,
        random: Box<dyn Random>,
        number: u32,
    ) -> Result<Voter, VoterError> {
        assert!(number > 0, "the first vote is that of the founding");
        Voter::begin(here, disk, dir, random, Kept::empty(number))
    }

    /// Which of this node's votes it is.
    pub fn number(&self) -> u32 {
        self.raw.store().number
    }

    /// Whether it votes, as far as it knows itself: it is one of the voters, and not an earlier
    /// vote of one of them.
    pub fn votes(&self) -> bool {
        self.raw.store().voters.contains(&self.raw.raft.id)
    }

    /// Writes what is kept, as it is.
    ///
    /// # Errors
    /// As of [`Voter::work`].
    pub fn probe(&mut self) -> Result<(), VoterError> {
        if self.lost {
            return Err(VoterError::Lost);
        }
        self.files.write(&*self.disk, self.raw.store()).inspect_err(|_| self.lost = true)
    }

    fn begin(
        here: NodeId,
        disk: Arc<dyn Disk>,
        dir: &Path,
        random: Box<dyn Random>,
        kept: Kept,
    ) -> Result<Voter, VoterError> {
        let files = Files::create(&*disk, dir, &kept)?;
        Ok(Voter::with(here, disk, files, kept, random))
    }

    fn with(here: NodeId, disk: Arc<dyn Disk>, files: Files, kept: Kept, mut random: Box<dyn Random>) -> Voter {
        let config = Config {
            id: raft_id(here, kept.number),
            election_tick: ELECTION_TICKS,
            heartbeat_tick: HEARTBEAT_TICKS,
            // One possible value: no random number that the library draws has any effect.
            min_election_tick: ELECTION_TICKS,
            max_election_tick: ELECTION_TICKS + 1,
            applied: kept.applied.0,
            max_size_per_msg: METADATA_COMMAND_BYTES_MAX as u64,
            max_inflight_msgs: 64,
            check_quorum: true,
            pre_vote: true,
            max_uncommitted_size: METADATA_UNCOMMITTED_BYTES_MAX as u64,
            ..Config::default()
        };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let raw = RawNode::new(&config, kept, &logger).expect("what was kept is in order");
        let start = random.next_u64();
        Voter {
            raw,
            files,
            disk,
            random,
            start,
            reads: 0,
            asked: BTreeSet::new(),
            next_tick: None,
            pace: TICK_NANOS,
            paced_for: u64::MAX,
            is_leader: false,
            lost: false,
        }
    }

    /// The state, and the last entry that is in it.
    pub fn state(&self) -> (u64, &State) {
        let kept = self.raw.store();
        (kept.applied.0, &kept.state)
    }

    pub fn is_leader(&self) -> bool {
        self.is_leader
    }

    pub fn term(&self) -> u64 {
        self.raw.raft.term
    }

    /// The node that it takes for the leader.
    pub fn leader(&self) -> Option<NodeId> {
        Some(self.raw.raft.leader_id).filter(|leader| *leader != raft::INVALID_ID).map(node_of)
    }

    /// To be called every few milliseconds. `now`: of the boot-time clock, in nanoseconds.
    pub fn tick(&mut self, now: u64) {
        if self.lost {
            return;
        }
        if self.paced_for != self.term() {
            self.paced_for = self.term();
            self.pace = TICK_NANOS + self.random.next_u64() % TICK_NANOS;
        }
        let due = *self.next_tick.get_or_insert(now + self.pace);
        if now < due {
            return;
        }
        // A process that stood still has missed ticks, and does not make up for them.
        self.next_tick = Some(now + self.pace);
        self.raw.tick();
    }

    /// When [`Voter::tick`] has something to do next. None: never.
    pub fn next_tick(&self) -> Option<u64> {
        (!self.lost).then(|| self.next_tick.unwrap_or(0))
    }

    /// A message of another voter.
    pub fn handle_raft(&mut self, from: NodeId, bytes: &[u8]) -> Result<(), Malformed> {
        let message = message::decode(bytes)?;
        if node_of(message.from) != from || node_of(message.to) != node_of(self.raw.raft.id) {
            return Err(Malformed("a message between voters is of another one, or for another one"));
        }
        // For an earlier vote of this node, or a later one.
        if self.lost || message.to != self.raw.raft.id {
            return Ok(());
        }
        if self.shows_loss(&message) {
            self.lost = true;
            return Ok(());
        }
        // What the library does not take, such as an answer of a former voter, is as good as lost
        // on its way.
        let _ = self.raw.step(message);
        Ok(())
    }

    /// A leader counts on what this voter has acknowledged, and it is not there.
    fn shows_loss(&self, message: &Message) -> bool {
        let of_leader = message.get_msg_type() == MessageType::MsgHeartbeat && message.term >= self.term();
        of_leader && message.commit > self.raw.raft.raft_log.last_index()
    }

    /// For a leader: returns whether it was taken. It may still be lost.
    pub fn propose(&mut self, command: &Command) -> bool {
        let bytes = command.encode();
        if !self.is_leader || self.lost || bytes.len() > METADATA_COMMAND_BYTES_MAX {
            return false;
        }
        match command {
            Command::Voters { expected, voters, number } => {
                let Some(change) = one_change(expected, voters, *number) else { return false };
                // A leader hands over first. And the library takes one change at a time: it would
                // turn a second one into an empty entry.
                if change.node_id == self.raw.raft.id || self.raw.raft.has_pending_conf() {
                    return false;
                }
                self.raw.propose_conf_change(bytes, change).is_ok()
            }
            _ => self.raw.propose(Vec::new(), bytes).is_ok(),
        }
    }

    /// For a leader: another voter is to lead, and stands for election at once. Until that is over,
    /// or has taken too long, nothing that is proposed is taken.
    pub fn hand_over(&mut self, to: NodeId) {
        let vote = self.raw.store().voters.iter().copied().find(|vote| node_of(*vote) == to);
        if let Some(vote) = vote.filter(|_| self.is_leader && !self.lost) {
            self.raw.transfer_leader(vote);
        }
    }

    /// For a leader: [`Did::Confirmed`] follows, unless it no longer leads; or nothing, early in a
    /// term: ask again.
    pub fn read(&mut self) -> Option<ReadId> {
        if !self.is_leader || self.lost {
            return None;
        }
        self.reads += 1;
        let read = ReadId(self.reads);
        self.asked.insert(read);
        let context = [self.start.to_le_bytes(), read.0.to_le_bytes()].concat();
        self.raw.read_index(context);
        Some(read)
    }

    /// Acts on everything that it was given: writes, then sends.
    ///
    /// # Errors
    /// The disk fails, or something that was acknowledged is lost: this voter must be given up.
    pub fn work(&mut self, did: &mut Vec<Did>) -> Result<(), VoterError> {
        if self.lost {
            return Err(VoterError::Lost);
        }
        while self.raw.has_ready() {
            if let Err(error) = self.work_once(did) {
                self.lost = true;
                return Err(error);
            }
        }
        Ok(())
    }

    fn work_once(&mut self, did: &mut Vec<Did>) -> Result<(), VoterError> {
        let mut ready = self.raw.ready();
        self.send(ready.take_messages(), did);
        let mut dirty = ready.must_sync();
        let kept = self.raw.mut_store();
        if *ready.snapshot() != raft::eraftpb::Snapshot::default() {
            kept.install(ready.snapshot()).expect("it was looked at when it came");
            did.push(Did::Installed { index: kept.applied.0 });
        }
        let kept = self.raw.mut_store();
        kept.append(ready.take_entries());
        if let Some(hard) = ready.hs() {
            let commit = hard.commit.max(kept.hard.commit);
            dirty |= (hard.term, hard.vote) != (kept.hard.term, kept.hard.vote);
            kept.hard = hard.clone();
            kept.hard.commit = commit;
        }
        if dirty {
            self.files.write(&*self.disk, self.raw.store())?;
        }
        self.send(ready.take_persisted_messages(), did);
        let mut committed = ready.take_committed_entries();
        let changed = ready.ss().map(|soft| soft.raft_state == StateRole::Leader);
        let reads = ready.take_read_states();
        let mut light = self.raw.advance_append(ready);
        if let Some(commit) = light.commit_index() {
            self.raw.mut_store().hard.commit = commit;
        }
        self.send(light.take_messages(), did);
        committed.extend(light.take_committed_entries());
        self.apply(committed, did)?;
        self.raw.advance_apply();
        self.raw.mut_store().compact();
        if self.raw.raft.state == StateRole::Leader && !self.raw.store().voters.contains(&self.raw.raft.id) {
            // An earlier leader removed it, and the library would carry on with it.
            let term = self.term();
            self.raw.raft.become_follower(term, raft::INVALID_ID);
        }
        if let Some(is_leader) = changed
            && is_leader != self.is_leader
        {
            self.is_leader = is_leader;
            self.asked.clear();
            did.push(Did::Leader { is_leader, term: self.term() });
        }
        for state in reads {
            let Some((start, read)) = state.request_ctx.split_first_chunk::<8>() else { continue };
            let Ok(read) = <[u8; 8]>::try_from(read) else { continue };
            let read = ReadId(u64::from_le_bytes(read));
            if u64::from_le_bytes(*start) == self.start && self.asked.remove(&read) {
                did.push(Did::Confirmed { read, index: state.index });
            }
        }
        Ok(())
    }

    fn send(&mut self, messages: Vec<Message>, did: &mut Vec<Did>) {
        for message in messages {
            let to = node_of(message.to);
            if message.get_msg_type() == MessageType::MsgSnapshot {
                // Whether it arrives shows in the next answer.
                self.raw.report_snapshot(message.to, SnapshotStatus::Finish);
            }
            // Proposals are made to the leader by our own messages.
            if let Some(message) = message::encode(&message) {
                did.push(Did::Send { to, message });
            }
        }
    }

    fn apply(&mut self, entries: Vec<Entry>, did: &mut Vec<Did>) -> Result<(), VoterError> {
        for entry in entries {
            let bytes = match entry.get_entry_type() {
                EntryType::EntryNormal => &entry.data,
                EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => &entry.context,
            };
            // The first entry of a term is empty.
            let outcome = (!bytes.is_empty()).then(|| self.carry_out(bytes, &entry)).transpose()?;
            self.raw.mut_store().applied = (entry.index, entry.term);
            if let Some((command, outcome)) = outcome {
                did.push(Did::Applied { index: entry.index, command, outcome });
            }
        }
        Ok(())
    }

    /// A command that this release does not know ends this vote, not the node: others know it, and
    /// what comes after it would be applied to another state than theirs.
    fn carry_out(&mut self, bytes: &[u8], entry: &Entry) -> Result<(Command, Result<Change, Refusal>), VoterError> {
        let unknown = |error| VoterError::Command { index: entry.index, error };
        let command = Command::decode(bytes).map_err(unknown)?;
        let outcome = self.raw.mut_store().state.apply(&command);
        if let (Ok(Change::Done), Command::Voters { expected, voters, number }) = (&outcome, &command) {
            let change = one_change(expected, voters, *number).expect("the state takes one change at a time");
            let after = self.raw.apply_conf_change(&change).expect("a change of one voter is in order");
            self.raw.mut_store().voters = after.voters;
        }
        Ok((command, outcome))
    }
}

/// One voter more, or one less.
fn one_change(before: &[NodeId], after: &[NodeId], number: u32) -> Option<ConfChange> {
    let before: BTreeSet<_> = before.iter().collect();
    let after: BTreeSet<_> = after.iter().collect();
    let mut more = after.difference(&before);
    let mut less = before.difference(&after);
    let mut change = ConfChange::default();
    let (node, kind) = match (more.next(), less.next()) {
        (Some(node), None) => (node, ConfChangeType::AddNode),
        (None, Some(node)) => (node, ConfChangeType::RemoveNode),
        _ => return None,
    };
    change.node_id = raft_id(**node, number);
    change.set_change_type(kind);
    (more.next().is_none() && less.next().is_none()).then_some(change)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::founding::{Declaration, Partitions, Plan, found};
    use crate::{CommandError, Kind};
    use ferrite_base::Incarnation;
    use ferrite_io::simulated::{SimulatedDisk, SimulatedRandom};

    fn works_until(voter: &mut Voter, holds: impl Fn(&Voter) -> bool) -> Result<(), VoterError> {
        for now in 1..1_000 {
            if holds(voter) {
                return Ok(());
            }
            voter.tick(now * TICK_NANOS);
            voter.work(&mut Vec::new())?;
        }
        panic!("a voter without others leads, and applies what is proposed");
    }

    const DIR: &str = "/metadata";

    fn random() -> Box<dyn Random> {
        Box::new(SimulatedRandom::new(1))
    }

    /// A voter without others, which leads.
    fn alone() -> (Voter, Arc<dyn Disk>) {
        let declaration = Declaration {
            plan: Plan { hosts: vec!["one:1".to_string()], kfactor: 0, partitions_per_node: None },
            place: 1,
            key: [1; 16],
            incarnation: Incarnation(1),
            kind: Kind::Data,
            database: None,
            partitions: Partitions::Suggested(1),
            release: "0.1.0".to_string(),
            addresses: vec!["one:2".to_string()],
            rack: None,
        };
        let founded = found(&[declaration]).expect("one node is a cluster");
        let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1, Default::default()));
        let voter = Voter::found(NodeId(1), Arc::clone(&disk), Path::new(DIR), random(), &founded);
        let mut voter = voter.expect("a healthy disk");
        works_until(&mut voter, Voter::is_leader).expect("nothing is wrong yet");
        (voter, disk)
    }

    /// As from voters a majority of which was set back to an earlier disk: the library does not
    /// look at entries below what is committed, so that nothing ends the process.
    #[test]
    fn another_history_below_what_is_committed_is_answered_and_not_taken() {
        let (mut voter, _) = alone();
        assert!(voter.propose(&Command::Settings { revision: 1, kfactor: 0 }));
        works_until(&mut voter, |voter| voter.state().1.settings().is_some_and(|settings| settings.revision == 2))
            .expect("nothing is wrong yet");
        let (committed, state) = (voter.state().0, voter.state().1.clone());
        let term = voter.term() + 1;
        for index in [committed - 2, committed - 1] {
            let mut message = Message::default();
            message.set_msg_type(MessageType::MsgAppend);
            (message.from, message.to, message.term) = (2, 1, term);
            (message.index, message.log_term, message.commit) = (index, 1, committed + 1);
            let entry = |index| Entry { index, term, ..Entry::default() };
            message.entries = (index + 1..committed + 3).map(entry).collect::<Vec<_>>().into();
            let bytes = message::encode(&message).expect("voters say it");
            voter.handle_raft(NodeId(2), &bytes).expect("it is well-formed");
            let mut did = Vec::new();
            voter.work(&mut did).expect("nothing is wrong here");
            assert!(did.iter().any(|did| matches!(did, Did::Send { to: NodeId(2), .. })), "it is answered: {did:?}");
            assert_eq!(voter.state(), (committed, &state));
        }
    }

    #[test]
    fn a_command_of_a_later_release_ends_the_vote_and_names_itself() {
        let (mut voter, disk) = alone();
        let before = voter.state().0;
        let mut later = Command::Settings { revision: 1, kfactor: 0 }.encode();
        later[3] = b'b';
        voter.raw.propose(Vec::new(), later).expect("it leads");
        let is_unknown = |error: &VoterError| {
            assert!(error.to_string().contains("command 'bettings' (format 1) is not known"), "{error}");
            matches!(error, VoterError::Command { error: CommandError::Unknown { .. }, .. })
        };
        let ended = works_until(&mut voter, |_| false).expect_err("it cannot be carried out");
        assert!(is_unknown(&ended));
        assert!(matches!(voter.work(&mut Vec::new()), Err(VoterError::Lost)), "it votes no more");
        assert_eq!(voter.state().0, before, "nothing behind it is applied");
        // After a restart it comes to the same result.
        let mut voter =
            Voter::open(NodeId(1), disk, Path::new(DIR), random()).expect("a healthy disk").expect("it is there");
        assert!(is_unknown(&works_until(&mut voter, |_| false).expect_err("it is there still")));
    }
}
