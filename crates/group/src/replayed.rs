//! What a replay of the log makes of a group's entries: which are committed, and in what order.
//!
//! The log has entries in the order in which they came to this node. A member's log may have a
//! suffix that a later leader replaced: an entry whose predecessor is in the middle replaces all
//! that followed it.

use crate::entry::{Entry, EntryError, HEADER_BYTES};
use crate::recent::SharedEntry;
use ferrite_base::{Epoch, NodeId, Position};
use ferrite_replica::group::{GroupConfiguration, History, Mark, Member};
use std::collections::VecDeque;
use std::sync::Arc;

/// The place that a group's stream has come to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupPlace {
    pub end: Mark,
    pub history: History,
    /// Of the last epoch that has begun.
    pub configuration: GroupConfiguration,
    /// The highest time of an entry, microseconds since 1970.
    pub time: i64,
}

impl GroupPlace {
    /// Before a stream's first entry; `epoch`: of what was there before there were streams.
    pub fn before_the_first(epoch: Epoch, leader: Member) -> GroupPlace {
        let configuration = GroupConfiguration::alone(epoch, leader);
        GroupPlace { end: Mark { epoch, ..Mark::ORIGIN }, history: History::default(), configuration, time: 0 }
    }
}

/// What a replay has found, for a node that has to ask others how the stream continues.
pub struct Found {
    /// What the tables show.
    pub applied: GroupPlace,
    /// Of the whole stream, including what is not known to be committed.
    pub history: History,
    pub end: Mark,
    /// The entries after `applied`, to the end.
    pub uncommitted: Vec<SharedEntry>,
}

/// What is to be applied, in this order.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The records of entries that came before, and are committed now.
    pub earlier: Vec<Vec<u8>>,
    /// Whether the entry itself is to be applied.
    pub now: bool,
}

/// A group's stream, as far as the log has been read.
pub struct Replayed {
    here: NodeId,
    end: Mark,
    history: History,
    /// Of the epochs whose starts were read, and of the one before them, each with its position.
    configurations: Vec<(Position, GroupConfiguration)>,
    /// The last that was given out.
    applied: Mark,
    /// What is loaded shows everything up to there.
    base: Mark,
    /// The log was begun before that entry, which is to come.
    awaits_base: bool,
    /// What the log has of a stream that another replaced, or that what is loaded shows: its last
    /// entries, in sequence. Empty while the log is where `end` is.
    aside: Vec<Mark>,
    /// Entries that are not known to be committed.
    pending: VecDeque<SharedEntry>,
    commit: Position,
    time: i64,
}

impl Replayed {
    /// Continues after what a snapshot shows.
    pub fn behind(here: NodeId, place: GroupPlace) -> Replayed {
        let GroupPlace { end, history, configuration, time } = place;
        let configurations = vec![(end.position, configuration)];
        let pending = VecDeque::new();
        let aside = Vec::new();
        let commit = end.position;
        Replayed {
            here,
            end,
            history,
            configurations,
            applied: end,
            base: end,
            awaits_base: false,
            aside,
            pending,
            commit,
            time,
        }
    }

    /// Begins with a stream's first entry.
    pub fn begin(here: NodeId, first: &Entry<'_>) -> Result<Replayed, EntryError> {
        let (configuration, parent) = configuration_of(first)?;
        if parent.position != Position(0) || !first.header.starts_epoch {
            return Err(EntryError("a group's first entry is not the start of its stream"));
        }
        let place = GroupPlace { end: parent, history: History::default(), configuration, time: first.time };
        let mut begun = Replayed::behind(here, place);
        begun.configurations.clear();
        begun.judge(first)?;
        Ok(begun)
    }

    /// The place after the last entry; everything up to there is committed. None: it is not.
    pub fn place(&self) -> Option<GroupPlace> {
        self.pending.is_empty().then(|| GroupPlace {
            end: self.end,
            history: self.history.clone(),
            configuration: self.configuration().clone(),
            time: self.time,
        })
    }

    pub fn into_found(self) -> Found {
        let Replayed { end, history, applied, pending, time, configurations, .. } = self;
        let begun = configurations.iter().rev().find(|(position, _)| *position <= applied.position);
        let configuration = begun.or(configurations.first()).expect("a stream begins with a configuration").1.clone();
        let mut shown = history.clone();
        shown.cut(Position(applied.position.0 + 1));
        let applied = GroupPlace { end: applied, history: shown, configuration, time };
        Found { applied, history, end, uncommitted: pending.into() }
    }

    pub fn configuration(&self) -> &GroupConfiguration {
        &self.configurations.last().expect("a stream begins with a configuration").1
    }

    /// The last entry that was read, whether or not it is known to be committed.
    pub fn end(&self) -> Mark {
        self.end
    }

    /// The same of the log alone, where it may have a stream that did not survive.
    pub fn log_end(&self) -> Mark {
        self.aside.last().copied().unwrap_or(self.end)
    }

    /// The log is read from after this entry, which is before what is loaded or its last one. All
    /// later entries follow in the log, so what is loaded comes too, and is not given out.
    pub fn begins_behind(&mut self, mark: Mark) -> Result<(), EntryError> {
        if mark != self.base {
            if mark.position >= self.base.position {
                return Err(EntryError("the log goes on behind what the snapshot shows"));
            }
            (self.awaits_base, self.aside) = (true, vec![mark]);
        }
        Ok(())
    }

    /// The log says that this entry was the last before this point. If that is what is loaded, what
    /// led there was given up.
    pub fn comes_to(&mut self, mark: Mark) {
        if self.awaits_base && mark == self.base {
            self.awaits_base = false;
            self.aside.clear();
        }
    }

    /// The log has not reached what is loaded.
    pub fn awaits_base(&self) -> bool {
        self.awaits_base
    }

    /// Entries that are not known to be committed.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The next entry of the log. An epoch's start is never to be applied.
    pub fn judge(&mut self, entry: &Entry<'_>) -> Result<Verdict, EntryError> {
        let Mark { position, .. } = entry.header.mark;
        if self.is_aside(entry)? {
            return Ok(Verdict::default());
        }
        self.append(entry)?;
        let alone = matches!(self.configuration().members(), [member] if member.node == self.here);
        let known = if alone { position } else { entry.commit.min(position) };
        self.commit = self.commit.max(known);
        Ok(self.give_out(entry))
    }

    /// The next entry of a stream of which everything is committed; returns whether it is to be
    /// applied. An epoch's start never is.
    pub fn committed(&mut self, entry: &Entry<'_>) -> Result<bool, EntryError> {
        self.append(entry)?;
        self.commit = self.commit.max(entry.header.mark.position);
        Ok(self.give_out(entry).now)
    }

    /// Whether the entry is of what is loaded, or of a stream beside it that did not survive. While
    /// nothing is known to be committed after what is loaded, the log may have such entries.
    fn is_aside(&mut self, entry: &Entry<'_>) -> Result<bool, EntryError> {
        let mark = entry.header.mark;
        if self.applied != self.base {
            return Ok(false);
        }
        if mark == self.base {
            self.drop_behind(mark);
            self.awaits_base = false;
            self.aside.clear();
            return Ok(true);
        }
        let goes_on = mark.position > self.base.position
            && !self.awaits_base
            && self.previous(mark.position).is_ok_and(|previous| entry.follows(previous));
        if goes_on || self.aside.is_empty() && mark.position > self.base.position {
            self.aside.clear();
            return Ok(false);
        }
        let before = self.aside.iter().rposition(|before| entry.follows(*before));
        match before {
            Some(before) => self.aside.truncate(before + 1),
            // Of the stream before what the log is read from.
            None if mark.position <= self.base.position => self.aside.clear(),
            None => return Err(EntryError("an entry does not follow the one before it")),
        }
        self.aside.push(mark);
        Ok(true)
    }

    /// It continues here, or in the middle.
    fn append(&mut self, entry: &Entry<'_>) -> Result<(), EntryError> {
        let Mark { position, .. } = entry.header.mark;
        let previous = self.previous(position)?;
        if !entry.follows(previous) {
            return Err(EntryError("an entry does not follow the one before it"));
        }
        if previous != self.end {
            self.drop_behind(previous);
        }
        if entry.header.starts_epoch {
            let (configuration, parent) = configuration_of(entry)?;
            if parent != previous || configuration.epoch <= previous.epoch {
                return Err(EntryError("an epoch does not begin where it says"));
            }
            self.history.begin(configuration.epoch, position);
            self.configurations.push((position, configuration));
        }
        self.end = entry.header.mark;
        self.time = self.time.max(entry.time);
        Ok(())
    }

    /// The entry before `position`.
    fn previous(&self, position: Position) -> Result<Mark, EntryError> {
        if position.0.checked_sub(1) == Some(self.end.position.0) {
            return Ok(self.end);
        }
        let behind = position.0.checked_sub(1).and_then(|previous| previous.checked_sub(self.applied.position.0));
        match behind {
            _ if position > self.end.position => Err(EntryError("entries are missing before this one")),
            None => Err(EntryError("an entry takes the place of one that was committed")),
            Some(0) => Ok(self.applied),
            Some(behind) => Ok(self.pending[behind as usize - 1].header.mark),
        }
    }

    /// Another leader's stream continues there.
    fn drop_behind(&mut self, last: Mark) {
        assert!(last.position >= self.applied.position, "what was applied stays");
        self.pending.truncate((last.position.0 - self.applied.position.0) as usize);
        self.history.cut(Position(last.position.0 + 1));
        self.configurations.retain(|(position, _)| *position <= last.position);
        self.end = last;
    }

    fn give_out(&mut self, entry: &Entry<'_>) -> Verdict {
        let mut verdict = Verdict::default();
        while let Some(first) = self.pending.front()
            && first.header.mark.position <= self.commit
        {
            let SharedEntry { header, bytes } = self.pending.pop_front().expect("seen just now");
            self.applied = header.mark;
            verdict.earlier.extend((!header.starts_epoch).then(|| bytes[HEADER_BYTES..].to_vec()));
        }
        if self.commit >= self.end.position {
            assert!(self.pending.is_empty(), "entries are committed in order");
            self.applied = self.end;
            verdict.now = !entry.header.starts_epoch;
        } else {
            self.pending.push_back(SharedEntry { header: entry.header, bytes: Arc::new(entry.encode()) });
        }
        verdict
    }
}

fn configuration_of(entry: &Entry<'_>) -> Result<(GroupConfiguration, Mark), EntryError> {
    GroupConfiguration::decode(entry.header.mark.epoch, entry.body)
        .ok_or(EntryError("an epoch's start does not say who keeps the group"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EntryBuffer, FIRST_GROUP};
    use ferrite_base::Incarnation;
    use ferrite_replica::group::Header;
    use proptest::prelude::*;

    const HERE: NodeId = NodeId(2);

    fn member(node: u32) -> Member {
        Member { node: NodeId(node), incarnation: Incarnation(1) }
    }

    fn configuration(epoch: u64, nodes: &[u32]) -> GroupConfiguration {
        let members: Vec<Member> = nodes.iter().copied().map(member).collect();
        GroupConfiguration::new(Epoch(epoch), members[0], members, Vec::new())
    }

    fn sealed(previous: Mark, epoch: u64, starts: bool, body: &[u8], commit: u64) -> (Mark, Vec<u8>) {
        let mut buffer = EntryBuffer::default();
        buffer.records().extend_from_slice(body);
        let (checksum, length) = (buffer.checksum(), buffer.len() as u32);
        let header = Header::after(FIRST_GROUP, previous, Epoch(epoch), starts, checksum, length);
        (header.mark, buffer.seal(FIRST_GROUP, &header, Position(commit), 0))
    }

    fn start(previous: Mark, configuration: &GroupConfiguration, commit: u64) -> (Mark, Vec<u8>) {
        sealed(previous, configuration.epoch.0, true, &configuration.encode(previous), commit)
    }

    fn decoded(bytes: &[u8]) -> Entry<'_> {
        Entry::decode(bytes[0], &bytes[5..]).unwrap()
    }

    /// A copy's log that is read from before what its snapshot shows, up to entry 6 of epoch 1;
    /// with what another leader had in its place meanwhile.
    #[test]
    fn what_is_loaded_and_what_stood_beside_it_is_passed_over() {
        let nodes = |epoch| configuration(epoch, &[1, 2, 3]);
        let (mut last, first) = start(Mark::ORIGIN, &nodes(1), 0);
        let mut stream = Replayed::begin(HERE, &decoded(&first)).unwrap();
        let mut marks = vec![last];
        let mut bytes = vec![first];
        for position in 2..=7 {
            let (mark, entry) = sealed(last, 1, false, &[position], 0);
            marks.push(mark);
            bytes.push(entry);
            last = mark;
        }
        for entry in &bytes[1..6] {
            stream.judge(&decoded(entry)).unwrap();
        }
        // Entry 4 is the last before the record in the log, entry 6 the last in the snapshot.
        let (noted, shown) = (marks[3], marks[5]);
        let place = GroupPlace { end: shown, history: stream.history.clone(), configuration: nodes(1), time: 0 };
        let begin = || {
            let mut stream = Replayed::behind(HERE, place.clone());
            stream.begins_behind(noted).unwrap();
            stream
        };
        let (other, other_start) = start(marks[3], &nodes(2), 0);
        let (second, other_second) = sealed(other, 2, false, b"b", 0);
        let (third, other_third) = sealed(second, 2, false, b"c", 0);
        let (_, next_start) = start(shown, &nodes(3), 6);

        let mut stream = begin();
        let pass = |stream: &mut Replayed, entry: &[u8]| assert!(given(stream, entry).is_empty());
        pass(&mut stream, &bytes[4]);
        assert!(stream.awaits_base() && stream.log_end() == marks[4] && stream.end() == shown);
        for entry in [&bytes[5], &bytes[6]] {
            pass(&mut stream, entry);
        }
        assert_eq!((stream.awaits_base(), stream.log_end()), (false, marks[6]));
        for entry in [&other_start, &other_second, &other_third] {
            pass(&mut stream, entry);
        }
        assert_eq!(stream.log_end(), third);
        for entry in [&bytes[4], &bytes[5]] {
            pass(&mut stream, entry);
        }
        assert_eq!((stream.end(), stream.log_end(), stream.pending()), (shown, shown, 0), "entry 7 is dropped");
        pass(&mut stream, &next_start);
        assert_eq!((stream.end().epoch, stream.end().position, stream.pending()), (Epoch(3), Position(7), 1));

        // What follows neither is refused, and so is a log that begins after what is loaded.
        let mut stream = begin();
        pass(&mut stream, &bytes[4]);
        assert!(stream.judge(&decoded(&bytes[6])).is_err() && stream.judge(&decoded(&other_third)).is_err());
        assert!(stream.awaits_base());
        let mut stream = Replayed::behind(HERE, place.clone());
        assert!(stream.begins_behind(marks[6]).is_err() && stream.begins_behind(second).is_err());
        stream.begins_behind(shown).unwrap();
        assert!(!stream.awaits_base());
    }

    /// What is given out for an entry.
    fn given(stream: &mut Replayed, bytes: &[u8]) -> Vec<Vec<u8>> {
        let entry = decoded(bytes);
        let Verdict { earlier: mut all, now } = stream.judge(&entry).unwrap();
        all.extend(now.then(|| entry.body.to_vec()));
        all
    }

    fn begun(nodes: &[u32]) -> (Replayed, Mark) {
        let (mark, bytes) = start(Mark::ORIGIN, &configuration(1, nodes), 0);
        (Replayed::begin(HERE, &decoded(&bytes)).unwrap(), mark)
    }

    #[test]
    fn what_a_node_alone_has_made_durable_is_committed() {
        let (mut stream, first) = begun(&[2]);
        let (_, bytes) = sealed(first, 1, false, b"a", 0);
        assert_eq!(given(&mut stream, &bytes), [b"a"]);
        assert_eq!(stream.place().unwrap().end.position, Position(2));
        // A learner's log may say that another node is alone.
        let (mut stream, first) = begun(&[1]);
        let (_, bytes) = sealed(first, 1, false, b"a", 0);
        assert_eq!((given(&mut stream, &bytes), stream.place()), (vec![], None));
    }

    #[test]
    fn entries_wait_until_a_later_one_says_that_they_are_committed() {
        let (mut stream, first) = begun(&[1, 2]);
        let (second, bytes) = sealed(first, 1, false, b"a", 0);
        assert!(given(&mut stream, &bytes).is_empty());
        let (third, bytes) = sealed(second, 1, false, b"b", 2);
        assert_eq!((given(&mut stream, &bytes), stream.pending()), (vec![b"a".to_vec()], 1));
        // Another leader takes the place of `b`.
        let (start, bytes) = start(second, &configuration(4, &[2]), 2);
        assert!(given(&mut stream, &bytes).is_empty());
        assert_eq!((start.position, stream.pending()), (third.position, 0));
        let (_, bytes) = sealed(start, 4, false, b"c", 2);
        assert_eq!(given(&mut stream, &bytes), [b"c"]);
        let place = stream.place().unwrap();
        assert_eq!(place.history.starts(), [(Epoch(1), Position(1)), (Epoch(4), Position(3))]);
    }

    #[test]
    fn what_a_snapshot_shows_is_not_given_out_again() {
        let (mut whole, first) = begun(&[2]);
        let (second, a) = sealed(first, 1, false, b"a", 0);
        let (third, b) = sealed(second, 1, false, b"b", 0);
        let (_, c) = sealed(third, 1, false, b"c", 0);
        given(&mut whole, &a);
        given(&mut whole, &b);
        let mut stream = Replayed::behind(HERE, whole.place().unwrap());
        assert!(given(&mut stream, &a).is_empty() && given(&mut stream, &b).is_empty());
        assert_eq!(given(&mut stream, &c), [b"c"]);
        let again = stream.judge(&decoded(&b)).unwrap_err();
        assert!(again.0.contains("committed"), "{again}");
    }

    #[test]
    fn what_does_not_follow_is_refused() {
        let (mut stream, first) = begun(&[1, 2]);
        let (second, a) = sealed(first, 1, false, b"a", 0);
        let (third, _) = sealed(second, 1, false, b"b", 0);
        let mut refused = |bytes: &[u8]| stream.judge(&decoded(bytes)).unwrap_err().0;
        assert!(refused(&sealed(third, 1, false, b"c", 0).1).contains("missing"));
        let other = Mark { chain: 1, ..first };
        assert!(refused(&sealed(other, 1, false, b"c", 0).1).contains("follow"));
        assert!(refused(&sealed(first, 2, false, b"c", 0).1).contains("follow"));
        assert!(refused(&sealed(first, 2, true, b"no configuration", 0).1).contains("who keeps"));
        let elsewhere = configuration(2, &[1, 2]).encode(third);
        assert!(refused(&sealed(first, 2, true, &elsewhere, 0).1).contains("where it says"));
        let same = configuration(1, &[1, 2]).encode(first);
        assert!(refused(&sealed(first, 1, true, &same, 0).1).contains("follow"));
        assert!(given(&mut stream, &a).is_empty());
        assert!(Replayed::begin(HERE, &decoded(&a)).is_err());
    }

    proptest! {
        /// Leaders come and go, and each continues from an uncommitted place of the stream; what is
        /// given out is always the beginning of the stream that survives in the end.
        #[test]
        fn what_is_given_out_is_the_stream_up_to_its_commit_position(
            steps in prop::collection::vec((0u8..8, 0u64..6, any::<u8>()), 1..80),
        ) {
            let (mut stream, first) = begun(&[1, 2]);
            let mut marks = vec![first];
            let mut bodies = vec![None];
            let (mut epoch, mut commit, mut out) = (1, 1u64, Vec::new());
            for (kind, amount, body) in steps {
                let end = marks.len() as u64;
                if kind == 0 {
                    // A new leader drops some of what is not committed.
                    let kept = (end - amount.min(end - commit)) as usize;
                    marks.truncate(kept);
                    bodies.truncate(kept);
                    epoch += 1 + amount;
                    let (mark, bytes) = start(marks[kept - 1], &configuration(epoch, &[1, 2]), commit);
                    out.extend(given(&mut stream, &bytes));
                    marks.push(mark);
                    bodies.push(None);
                } else {
                    commit = end.min(commit + amount / 2);
                    let (mark, bytes) = sealed(marks[end as usize - 1], epoch, false, &[body], commit);
                    out.extend(given(&mut stream, &bytes));
                    marks.push(mark);
                    bodies.push(Some(vec![body]));
                }
                let committed: Vec<Vec<u8>> = bodies[..commit as usize].iter().flatten().cloned().collect();
                prop_assert_eq!(&out, &committed);
                prop_assert_eq!(stream.pending() as u64, marks.len() as u64 - commit);
            }
        }
    }
}
