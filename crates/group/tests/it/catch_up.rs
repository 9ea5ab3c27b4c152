//! Entries read from the log while it is written, compared with the streams as they were appended:
//! several groups, leaders that replace a suffix, segments that rotate and go, losses of power.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use ferrite_base::{Epoch, GroupId, Incarnation, NodeId, Position};
use ferrite_group::{CatchUp, CatchUpError, Entry, EntryBuffer, Missed, Wanted, numbers};
use ferrite_io::simulated::{CrashPoint, Restart, SimulatedClock, SimulatedDisk};
use ferrite_log::{BlockPlace, Completion, Log, LogFailed, LogOptions, TailError};
use ferrite_replica::group::{GroupConfiguration, Header, History, Mark, Member};
use proptest::prelude::*;

const DIR: &str = "/d";
const SECTOR: u64 = 4_096;
const GROUPS: u32 = 3;

struct Quiet;

impl Completion for Quiet {
    fn complete(self, _: Vec<u8>, _: Result<(), LogFailed>) {}
}

fn configuration(epoch: u64) -> GroupConfiguration {
    GroupConfiguration::alone(Epoch(epoch), Member { node: NodeId(1), incarnation: Incarnation(epoch) })
}

/// A group's stream as it was appended, dropped suffixes left out.
#[derive(Default, Clone, Debug)]
struct Stream {
    history: History,
    entries: Vec<(Header, Vec<u8>)>,
}

impl Stream {
    fn end(&self) -> Mark {
        self.entries.last().map_or(Mark::ORIGIN, |(header, _)| header.mark)
    }

    fn put(&mut self, header: Header, bytes: Vec<u8>) {
        let kept = header.mark.position.0 - 1;
        self.entries.truncate(kept as usize);
        self.history.cut(Position(kept + 1));
        if header.starts_epoch {
            self.history.begin(header.mark.epoch, header.mark.position);
        }
        self.entries.push((header, bytes));
    }
}

fn sealed(group: u32, previous: Mark, epoch: u64, starts: bool, body: &[u8]) -> (Header, Vec<u8>) {
    let mut buffer = EntryBuffer::default();
    buffer.records().extend_from_slice(body);
    let (checksum, length) = (buffer.checksum(), buffer.len() as u32);
    let header = Header::after(GroupId(group), previous, Epoch(epoch), starts, checksum, length);
    (header, buffer.seal(GroupId(group), &header, Position(0), 0))
}

/// A node's log with its groups' streams.
struct Node {
    disk: SimulatedDisk,
    log: Option<Log<Quiet>>,
    streams: BTreeMap<u32, Stream>,
    /// Up to which position they are durable.
    durable: BTreeMap<u32, Position>,
    epoch: u64,
}

impl Node {
    fn new(disk: SimulatedDisk) -> Node {
        let mut node = Node { disk, log: None, streams: BTreeMap::new(), durable: BTreeMap::new(), epoch: 0 };
        node.open();
        node
    }

    /// The streams become what replay gives.
    fn open(&mut self) {
        let mut streams: BTreeMap<u32, Stream> = BTreeMap::new();
        let options = LogOptions {
            segment_bytes: 12 * SECTOR,
            block_bytes_max: 3 * SECTOR as usize,
            numbers: Some(numbers),
            own_threads: false,
            ..LogOptions::default()
        };
        let visit = |_: BlockPlace<'_>, mut payload: &[u8]| {
            let mut before = payload;
            while let Some(entry) = Entry::take_first(&mut payload).unwrap() {
                let bytes = before[..before.len() - payload.len()].to_vec();
                before = payload;
                streams.entry(entry.group.0).or_default().put(entry.header, bytes);
            }
            Ok::<(), Infallible>(())
        };
        let disk = Arc::new(self.disk.clone());
        let opened = Log::open(disk, Arc::new(SimulatedClock::default()), Path::new(DIR), options, visit);
        self.log = Some(opened.unwrap().0);
        self.streams = streams;
        for group in 0..GROUPS {
            if self.streams.get(&group).is_none_or(|stream| stream.entries.is_empty()) {
                self.start(group, 0);
            }
        }
        self.write();
    }

    fn log(&self) -> &Log<Quiet> {
        self.log.as_ref().unwrap()
    }

    fn write(&mut self) {
        while self.log().step() {}
        self.durable = self.streams.iter().map(|(group, stream)| (*group, stream.end().position)).collect();
    }

    fn append(&mut self, group: u32, body: &[u8]) {
        let stream = self.streams.get_mut(&group).unwrap();
        let end = stream.end();
        let (header, bytes) = sealed(group, end, end.epoch.0, false, body);
        stream.put(header, bytes.clone());
        self.log().appender().append(bytes, Quiet);
    }

    /// Another leader goes on, so many entries before the end.
    fn start(&mut self, group: u32, dropped: usize) {
        self.epoch += 1;
        let stream = self.streams.entry(group).or_default();
        self.epoch = self.epoch.max(stream.end().epoch.0 + 1);
        let kept =
            if dropped == 0 { stream.entries.len() } else { stream.entries.len().saturating_sub(dropped).max(1) };
        stream.entries.truncate(kept);
        let parent = stream.end();
        let (header, bytes) = sealed(group, parent, self.epoch, true, &configuration(self.epoch).encode(parent));
        stream.put(header, bytes.clone());
        self.log().appender().append(bytes, Quiet);
    }

    fn catch_up(&self, group: u32, position: u64) -> CatchUp {
        CatchUp::behind_position(self.log().index(), GroupId(group), Position(position))
    }

    /// Steps the reader to the end of what is in the log, and compares.
    fn check(&self, group: u32, reader: &mut CatchUp, steps: usize) -> Result<bool, CatchUpError> {
        self.check_up_to(group, reader, steps, Position(u64::MAX), usize::MAX)
    }

    /// The same up to some position, so many bytes at a time.
    fn check_up_to(
        &self,
        group: u32,
        reader: &mut CatchUp,
        steps: usize,
        up_to: Position,
        bytes: usize,
    ) -> Result<bool, CatchUpError> {
        let stream = &self.streams[&group];
        let durable = self.durable[&group];
        for _ in 0..steps {
            let at = reader.position();
            match reader.step(&stream.history, Wanted { up_to, bytes, durable })? {
                Missed::Working => {}
                Missed::End => {
                    assert!(reader.position() >= durable.min(up_to));
                    return Ok(true);
                }
                Missed::Entries { previous, headers, entries } => {
                    assert_eq!(previous.position, at);
                    assert!(headers.last().unwrap().mark.position <= up_to);
                    assert!(entries.len() <= bytes || headers.len() == 1);
                    let index = previous.position.0 as usize;
                    assert_eq!(previous, index.checked_sub(1).map_or(Mark::ORIGIN, |last| stream.entries[last].0.mark));
                    let expected = &stream.entries[index..index + headers.len()];
                    assert!(expected.iter().map(|(header, _)| *header).eq(headers));
                    assert_eq!(expected.iter().flat_map(|(_, bytes)| bytes.clone()).collect::<Vec<_>>(), entries);
                }
            }
        }
        Ok(false)
    }

    fn segments(&self) -> Vec<u64> {
        let name = |path: &std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        let names = self.disk.files().into_iter().map(|path| name(&path));
        names.filter_map(|name| name.strip_prefix("redo-")?.strip_suffix(".log")?.parse().ok()).collect()
    }
}

fn run(seed: u64, steps: Vec<(u8, u16, u16)>) {
    let mut node = Node::new(SimulatedDisk::new(seed, SimulatedClock::default()));
    // What a reader may be told: whether segments went that it had not come to.
    let mut readers: Vec<(u32, CatchUp, bool)> = Vec::new();
    let mut removed = 0;
    for (kind, first, second) in steps {
        let group = u32::from(first) % GROUPS;
        match kind {
            0 => {
                let dropped = second as usize % 9;
                let kept = node.streams[&group].end().position.0.saturating_sub(dropped as u64);
                // Who has read beyond that is of no use any more.
                readers.retain(|(other, reader, _)| *other != group || reader.position().0 < kept.max(1));
                node.start(group, dropped);
                node.write();
            }
            1 if removed == 0 => {
                // Without a snapshot the log is read from its beginning.
                readers.clear();
                drop(node.log.take());
                node.open();
            }
            2 if removed == 0 => {
                readers.clear();
                let boundary = node.disk.boundaries() + 1 + u64::from(first) % 12;
                node.disk.crash_at(Some(CrashPoint { boundary, after: second % 2 == 0 }));
                for _ in 0..second % 20 {
                    node.append(group, &vec![2; second as usize % 900]);
                    if first % 3 == 0 {
                        node.write();
                    }
                }
                node.write();
                node.disk.halt();
                drop(node.log.take());
                node.disk.restart(Restart::Power);
                node.open();
            }
            3 => {
                let end = node.streams[&group].end().position.0;
                let from = u64::from(second) % (end + 1);
                readers.push((group, node.catch_up(group, from), false));
            }
            4 | 5 if !readers.is_empty() => {
                let index = first as usize % readers.len();
                let (group, reader, may_be_removed) = &mut readers[index];
                let end = node.streams[group].end().position.0;
                let up_to = Position(reader.position().0.max(u64::from(first) % (end + 2)));
                let bytes = if second % 3 == 0 { usize::MAX } else { 1 + usize::from(second) % 4_000 };
                match node.check_up_to(*group, reader, second as usize % 40, up_to, bytes) {
                    Ok(_) => {}
                    Err(CatchUpError::Removed) if *may_be_removed || removed > 0 => {
                        readers.remove(index);
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            6 if first % 4 == 0 => {
                let there = node.segments();
                let before = there[second as usize % there.len()];
                let held = if second % 2 == 0 { u64::MAX } else { u64::from(second % 5) * 12 * SECTOR };
                removed += node.log().index().truncate_before(before, held, &|| {}).unwrap();
                if held != u64::MAX {
                    readers.iter_mut().for_each(|(_, _, may)| *may = true);
                }
            }
            7 => {
                // An append that takes several blocks, perhaps several segments.
                node.append(group, &vec![9; 10_000 + second as usize % 60_000]);
                node.write();
                while node.log().step_ahead() {}
            }
            _ => {
                for count in 0..1 + second % 30 {
                    node.append(u32::from(count) % GROUPS, &vec![count as u8 + 1; 1 + first as usize % 1_200]);
                }
                if kind > 8 {
                    node.write();
                    while node.log().step_ahead() {}
                }
            }
        }
    }
    node.write();
    for (group, mut reader, _) in readers {
        match node.check(group, &mut reader, usize::MAX) {
            Ok(ended) => {
                assert!(ended);
                assert_eq!(reader.position(), node.streams[&group].end().position);
            }
            Err(error) => assert!(matches!(error, CatchUpError::Removed) && removed > 0, "{error}"),
        }
    }
    // From every position, those in the log for certain where nothing was removed.
    for group in 0..GROUPS {
        let end = node.streams[&group].end().position.0;
        for position in (0..=end).rev().step_by(1 + end as usize / 40) {
            let mut reader = node.catch_up(group, position);
            match node.check(group, &mut reader, usize::MAX) {
                Ok(ended) => assert!(ended && reader.position().0 == end),
                Err(error) => assert!(matches!(error, CatchUpError::Removed) && removed > 0, "{error}"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn what_is_read_is_the_stream(
        seed in any::<u64>(),
        steps in prop::collection::vec((0u8..12, any::<u16>(), any::<u16>()), 1..60),
    ) {
        run(seed, steps);
    }
}

/// What was read ahead and then partly replaced is given out as far as it stands.
#[test]
fn what_was_read_ahead_is_dropped_from_where_it_was_replaced() {
    let mut node = Node::new(SimulatedDisk::new(1, SimulatedClock::default()));
    for _ in 0..10 {
        node.append(1, &[5; 20]);
    }
    node.write();
    let mut reader = node.catch_up(1, 0);
    assert!(node.check_up_to(1, &mut reader, 100, Position(6), usize::MAX).unwrap());
    node.start(1, 2);
    node.write();
    assert!(node.check_up_to(1, &mut reader, 100, Position(8), 1).unwrap());
    node.append(1, &[6; 20]);
    node.write();
    assert!(node.check(1, &mut reader, 100).unwrap());
    assert_eq!(reader.position(), Position(11));
}

/// A checkpoint that lets go of segments while a reader is on its way: the reader ends where it
/// should, whatever else goes.
#[test]
fn a_reader_in_time_is_not_overtaken_by_what_lets_go() {
    let mut node = Node::new(SimulatedDisk::new(1, SimulatedClock::default()));
    let fill = |node: &mut Node| {
        for _ in 0..40 {
            node.append(1, &[5; 2_000]);
            node.write();
        }
    };
    fill(&mut node);
    let mut reader = node.catch_up(1, 3);
    assert!(!node.check(1, &mut reader, 2).unwrap());
    while node.streams[&1].end().position.0 < 400 {
        fill(&mut node);
        let last = *node.segments().last().unwrap();
        node.log().index().truncate_before(last, u64::MAX, &|| {}).unwrap();
        node.check(1, &mut reader, 25).unwrap();
    }
    assert!(node.segments()[0] > 1, "what it has read goes");
    assert!(node.check(1, &mut reader, usize::MAX).unwrap());
    let late = node.check(1, &mut node.catch_up(1, 3), usize::MAX);
    assert!(matches!(late, Err(CatchUpError::Removed)));
}

#[test]
fn a_member_that_knows_another_beginning_needs_a_snapshot() {
    let mut node = Node::new(SimulatedDisk::new(1, SimulatedClock::default()));
    // What an earlier release has written counts as epoch 1.
    let before = Mark { epoch: Epoch(1), ..Mark::ORIGIN };
    let (header, bytes) = sealed(9, before, 2, true, &configuration(2).encode(before));
    node.streams.entry(9).or_default().put(header, bytes.clone());
    node.log().appender().append(bytes, Quiet);
    node.append(9, b"more");
    node.write();
    assert!(matches!(node.check(9, &mut node.catch_up(9, 0), usize::MAX), Err(CatchUpError::Removed)));
    assert!(node.check(9, &mut node.catch_up(9, 1), usize::MAX).unwrap());
    let stream = &node.streams[&9];
    let mut reader = CatchUp::behind(node.log().index(), GroupId(9), before);
    let mut given = 0;
    let wanted = Wanted { up_to: Position(u64::MAX), bytes: usize::MAX, durable: Position(0) };
    while let step = reader.step(&stream.history, wanted).unwrap()
        && step != Missed::End
    {
        if let Missed::Entries { previous, headers, .. } = step {
            given += headers.len();
            assert_eq!(previous, before);
        }
    }
    assert_eq!(given, 2);
    // And one whose stream is another is noticed.
    let other = Mark { chain: 1, ..header.mark };
    let mut reader = CatchUp::behind(node.log().index(), GroupId(9), other);
    let refused = loop {
        match reader.step(&stream.history, wanted) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(
        refused.to_string(),
        "the redo log cannot be read at entry 2 of the group: it does not follow the one before it"
    );
}

#[test]
fn rot_is_named_and_an_entry_that_should_be_there_is_missed() {
    let mut node = Node::new(SimulatedDisk::new(1, SimulatedClock::default()));
    for _ in 0..60 {
        node.append(0, &[5; 2_000]);
        node.write();
    }
    let end = node.streams[&0].end().position;
    let history = node.streams[&0].history.clone();
    let mut reader = node.catch_up(0, end.0);
    let wanted = Wanted { up_to: Position(u64::MAX), bytes: usize::MAX, durable: end };
    while reader.step(&history, wanted).unwrap() != Missed::End {}
    let missed = loop {
        match reader.step(&history, Wanted { durable: Position(end.0 + 1), ..wanted }) {
            Ok(_) => {}
            Err(error) => break error.to_string(),
        }
    };
    assert_eq!(missed, "the redo log cannot be read at entry 62 of the group: it is missing");
    let path = ferrite_log::segment_path(Path::new(DIR), 3);
    node.disk.rot(&path, 5 * SECTOR + 99, 1);
    let error = node.check(0, &mut node.catch_up(0, 0), usize::MAX).unwrap_err();
    let CatchUpError::Log(TailError::Rot { path: named, position, .. }) = error else { panic!("{error}") };
    assert_eq!((named, position), (path, 5 * SECTOR));
}

#[test]
fn hostile_payloads_have_no_numbers_and_do_not_panic() {
    bolero::check!().with_iterations(20_000).with_type::<(u8, u8, Vec<u8>)>().for_each(|(kind, length, bytes)| {
        let mut found = 0;
        numbers(bytes, &mut |_, _| found += 1);
        assert!(found <= bytes.len() / 25);
        let mut record = vec![6 + kind % 2, *length, 0, 0, 0];
        record.extend_from_slice(bytes);
        numbers(&record, &mut |_, _| found += 1);
    });
}
