//! A node: its state machine, and a log that loses what was not synced.

use super::{GROUP, TIMING};
use ferrite_base::{Epoch, Position};
use ferrite_replica::group::{Group, GroupConfiguration, Header, History, Mark, Member, Remembered};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
pub struct Read {
    pub saw: Position,
    pub round: u64,
    /// Of all that clients were told when the read ran.
    pub acknowledged: Position,
}

pub struct Node {
    pub up: bool,
    pub member: Member,
    pub group: Group,
    /// Entries in the order in which they were written, with the commit position that was known.
    log: Vec<(Header, Position)>,
    synced: usize,
    /// The stream that the log amounts to.
    stream: Vec<Header>,
    pub committed: Position,
    /// Its tables show the stream up to there: a copy's follow what is committed some time later.
    applied: Position,
    pub promised: Epoch,
    /// On their way to the disk.
    pub promises: Vec<Epoch>,
    pub writes: VecDeque<Position>,
    pub reads: VecDeque<Read>,
    pub confirmed: u64,
}

impl Node {
    pub fn new(member: Member) -> Node {
        Node {
            up: true,
            member,
            group: Group::new(GROUP, member, TIMING, Remembered { intact: true, ..Remembered::default() }),
            log: Vec::new(),
            synced: 0,
            stream: Vec::new(),
            committed: Position(0),
            applied: Position(0),
            promised: Epoch(0),
            promises: Vec::new(),
            writes: VecDeque::new(),
            reads: VecDeque::new(),
            confirmed: 0,
        }
    }

    /// A copy applies so many entries more of what is committed.
    pub fn apply(&mut self, more: u64) {
        self.applied = Position((self.applied.0 + more).min(self.committed.0));
    }

    /// A leader that takes calls has executed what it commits.
    pub fn applied(&mut self) -> Position {
        if self.group.is_open() {
            self.applied = self.committed;
        }
        self.applied
    }

    /// Says to the state machine what the tables show.
    pub fn look_at_applied(&mut self) {
        let applied = self.applied();
        self.group.applies(applied);
    }

    pub fn leads(&self, configuration: &GroupConfiguration) -> bool {
        configuration.leader == self.member
    }

    pub fn end(&self) -> Position {
        Position(self.stream.len() as u64)
    }

    pub fn mark(&self, position: Position) -> Mark {
        position.index_before().map_or(Mark::ORIGIN, |index| self.stream[index].mark)
    }

    /// Behind `after`, up to `end`.
    pub fn entries(&self, after: Position, end: Position) -> Vec<Header> {
        self.stream[after.0 as usize..(end.0 as usize).max(after.0 as usize)].to_vec()
    }

    pub fn write(&mut self, headers: &[Header]) {
        for header in headers {
            // As the leader knew it when it appended the entry.
            let known = self.group.commit().0.min(header.mark.position.0 - 1);
            self.log.push((*header, Position(known)));
            add(&mut self.stream, *header);
        }
    }

    /// Syncs a part of what was written: those entries.
    pub fn sync(&mut self, part: u64) -> Vec<Mark> {
        let waiting = self.log.len() - self.synced;
        let more = if part == 0 { waiting } else { waiting.div_ceil(part as usize) };
        let synced = self.log[self.synced..self.synced + more].iter().map(|(header, _)| header.mark).collect();
        self.synced += more;
        synced
    }

    pub fn forget_clients(&mut self) {
        self.writes.clear();
        self.reads.clear();
        self.confirmed = 0;
    }

    /// What was not synced is lost, or a part of it.
    pub fn crash(&mut self, kept: u64) {
        self.up = false;
        let unsynced = (self.log.len() - self.synced) as u64;
        self.log.truncate(self.synced + (kept % (unsynced + 1)) as usize);
        self.promises.clear();
        self.forget_clients();
    }

    pub fn start(&mut self) {
        self.up = true;
        self.member.incarnation.0 += 1;
        self.synced = self.log.len();
        self.stream.clear();
        let mut commit = Position(0);
        for (header, known) in &self.log {
            add(&mut self.stream, *header);
            commit = commit.max(*known);
        }
        let end = self.mark(self.end());
        let starts = self.stream.iter().filter(|header| header.starts_epoch);
        let starts = starts.map(|header| (header.mark.epoch, header.mark.position)).collect();
        let history = History::new(starts).expect("a stream is in order");
        let remembered = Remembered { promised: self.promised, history, end, commit, intact: true };
        // Recovery applies what is known to be committed.
        (self.committed, self.applied) = (commit, commit);
        self.group = Group::new(GROUP, self.member, TIMING, remembered);
    }
}

/// As recovery does: an entry behind one in the middle drops what stood there, where an epoch
/// begins in one of the two streams.
fn add(stream: &mut Vec<Header>, header: Header) {
    let position = header.mark.position.0 as usize;
    assert!(position <= stream.len() + 1, "a gap before {header:?}");
    if let Some(dropped) = stream.get(position - 1) {
        let parts = header.starts_epoch || dropped.starts_epoch;
        assert!(parts, "{header:?} replaces {dropped:?}");
        stream.truncate(position - 1);
    }
    let previous = stream.last().map_or(Mark::ORIGIN, |last| last.mark);
    assert!(header.follows(GROUP, previous), "{header:?} does not follow {previous:?}");
    stream.push(header);
}

trait IndexBefore {
    fn index_before(self) -> Option<usize>;
}

impl IndexBefore for Position {
    fn index_before(self) -> Option<usize> {
        self.0.checked_sub(1).map(|index| index as usize)
    }
}
