//! A database's log as a group's stream: what recovery makes of entries, and of logs from before
//! there were any.

use crate::common::{Node, open_member};
use ferrite_base::{Epoch, GroupMap, Incarnation, NodeId, PartitionId, Position, Sequence};
use ferrite_group::{
    Entry, EntryBuffer, FIRST_GROUP, FIRST_NODE, GroupAppender, GroupPlace, Identity, KIND_EPOCH_START,
};
use ferrite_io::{RealDisk, SystemClock, SystemRandom};
use ferrite_log::{BlockPlace, LogOptions};
use ferrite_partition::commit::{self, DatabaseLog};
use ferrite_partition::record::{self, BatchWriter, Genesis};
use ferrite_partition::recovery::{self, Recovered, RecoveredMember, StartError};
use ferrite_replica::group::{GroupConfiguration, Header, Mark, Member};
use ferrite_value::Value;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

fn member(node: u32) -> Member {
    Member { node: NodeId(node), incarnation: Incarnation(1) }
}

fn open_with(dir: &Path, options: LogOptions) -> Result<Recovered, StartError> {
    recovery::open(Arc::new(RealDisk), Arc::new(SystemClock), &mut SystemRandom, dir, options, None, 1)
}

fn open(dir: &Path) -> Result<Recovered, StartError> {
    open_with(dir, LogOptions::default())
}

/// Writes a log that holds these payloads.
fn write(dir: &Path, payloads: &[Vec<u8>]) {
    let visit = |_: BlockPlace<'_>, _: &[u8]| Ok::<(), Infallible>(());
    let (log, _) = DatabaseLog::open(Arc::new(RealDisk), Arc::new(SystemClock), dir, LogOptions::default(), visit)
        .expect("a new log");
    let place = GroupPlace::before_the_first(Epoch(0), member(1));
    let group = GroupAppender::alone(FIRST_GROUP, member(1), place, log.appender(), Arc::new(SystemClock));
    for payload in payloads {
        commit::wait(&log, |completion| group.append_own(payload.clone(), completion)).expect("a healthy log takes it");
    }
    log.close().expect("a healthy log closes");
}

fn genesis() -> Vec<u8> {
    let mut out = Vec::new();
    record::write_genesis(&mut out, &Genesis { groups: GroupMap::single(1), created_ms: 1, database_id: [5; 16] });
    out
}

fn batch(out: &mut Vec<u8>, sequence: u64) {
    let mut writer = BatchWriter::begin(out, PartitionId(0), Epoch(1), Sequence(sequence));
    writer.transaction(out, |_| {});
    writer.finish(out);
}

/// The entry behind `previous`, and its mark.
fn entry(previous: Mark, epoch: u64, starts: bool, commit: u64, write: impl FnOnce(&mut Vec<u8>)) -> (Mark, Vec<u8>) {
    let mut buffer = EntryBuffer::default();
    write(buffer.records());
    let (checksum, length) = (buffer.checksum(), buffer.len() as u32);
    let header = Header::after(FIRST_GROUP, previous, Epoch(epoch), starts, checksum, length);
    (header.mark, buffer.seal(FIRST_GROUP, &header, Position(commit), 0))
}

fn start(previous: Mark, epoch: u64, nodes: &[u32]) -> (Mark, Vec<u8>) {
    let members: Vec<Member> = nodes.iter().copied().map(member).collect();
    let configuration = GroupConfiguration::new(Epoch(epoch), members[0], members, Vec::new());
    entry(previous, epoch, true, 0, |out| out.extend(configuration.encode(previous)))
}

#[test]
fn a_stream_goes_on_over_restarts_and_snapshots() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut ends = Vec::new();
    for round in 1..=4u64 {
        let mut node = Node::open(Arc::new(RealDisk), dir.path(), 2).expect("it opens");
        assert_eq!(node.0.identity.incarnation, Incarnation(round));
        assert_eq!((node.0.identity.node, node.0.group.end().epoch), (FIRST_NODE, Epoch(1)));
        if round == 1 {
            node.ddl("CREATE TABLE t (id BIGINT NOT NULL, PRIMARY KEY (id))");
            node.ddl("PARTITION TABLE t ON COLUMN id");
        }
        ends.extend((node.0.group.commit() == node.0.group.end().position).then(|| node.0.group.end()));
        let table = node.table("T");
        (0..3).for_each(|id| node.insert(table, &[Value::Integer(round as i64 * 10 + id)]));
        assert_eq!(node.0.group.commit(), node.0.group.end().position);
        if round % 2 == 0 {
            node.save().expect("a healthy disk");
        }
    }
    // The start of the epoch and two schema changes, then three rows each time.
    assert_eq!(ends.iter().map(|end| end.position.0).collect::<Vec<_>>(), [3, 6, 9, 12]);
}

#[test]
fn a_log_from_before_there_were_entries_opens_and_goes_on() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut bare = Vec::new();
    batch(&mut bare, 1);
    write(dir.path(), &[genesis(), bare]);
    for _ in 0..2 {
        let recovered = open(dir.path()).expect("it opens");
        assert_eq!((recovered.sequences[0], recovered.group.end().position), (Sequence(1), Position(1)));
        // What was there before is epoch 1: whoever lacks it cannot catch up by entries alone.
        assert_eq!(recovered.group.end().epoch, Epoch(2));
    }
}

#[test]
fn a_checkpoint_before_a_streams_first_entry_names_none() {
    let noted = |mark: Mark| {
        let mut out = Vec::new();
        record::write_copy_checkpoint(&mut out, 3, &[(FIRST_GROUP, mark)]);
        out
    };
    let before = |epoch| noted(Mark { epoch: Epoch(epoch), ..Mark::ORIGIN });
    let (first, _) = start(Mark::ORIGIN, 1, &[1]);
    for (payload, opens) in [(before(0), true), (before(1), true), (noted(first), false)] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        write(dir.path(), &[genesis(), payload]);
        for _ in 0..2 {
            assert_eq!(open(dir.path()).is_ok(), opens);
        }
    }
}

#[test]
fn records_outside_of_the_stream_are_refused_once_it_has_begun() {
    let (first, started) = start(Mark::ORIGIN, 1, &[1]);
    let mut bare = Vec::new();
    batch(&mut bare, 1);
    let genesis_within = entry(first, 1, false, 0, |out| *out = [&out[..], &genesis()].concat()).1;
    let (second, fine) = entry(first, 1, false, 0, |out| batch(out, 1));
    let beyond = entry(second, 1, false, 0, |out| batch(out, 2)).1;
    let mut other_group = fine.clone();
    other_group[5] = 7;
    for (payload, reason) in [
        (bare, "outside of its group's stream"),
        (genesis_within, "a second record says what database this is"),
        (beyond, "entries are missing"),
        (other_group, "of a group that there is not"),
        (fine[..20].to_vec(), "ends early"),
    ] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        write(dir.path(), &[genesis(), started.clone(), payload]);
        for _ in 0..2 {
            let error = open(dir.path()).err().expect("it is refused").to_string();
            assert!(error.contains(reason) || error.contains("record that is of no stream"), "{error} for {reason}");
        }
    }
}

#[test]
fn what_only_other_members_can_confirm_is_not_applied() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (first, started) = start(Mark::ORIGIN, 1, &[1, 2]);
    let (_, unsure) = entry(first, 1, false, 0, |out| batch(out, 1));
    write(dir.path(), &[genesis(), started, unsure]);
    // Nothing says which of the two this is.
    let error = open(dir.path()).err().expect("it is refused");
    assert!(matches!(error, StartError::NoIdentity), "{error}");
    let identity = Identity { incarnation: Incarnation(3), ..Identity::alone() };
    identity.write(&RealDisk, dir.path()).expect("a healthy disk");
    for _ in 0..2 {
        let error = open(dir.path()).err().expect("it is refused");
        assert!(matches!(error, StartError::Uncommitted { entries: 2 }), "{error}");
    }
    assert_eq!(Identity::read(&RealDisk, dir.path()).expect("a healthy disk"), Some(identity));
}

/// As a learner of an earlier cluster has it, from which this one was founded: its leader of then,
/// alone in the group, had the id that this node has now, and lost entries that it had sent.
#[test]
fn what_another_clusters_node_of_that_id_kept_alone_is_not_taken_for_committed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (first, started) = start(Mark::ORIGIN, 1, &[1]);
    let (second, kept) = entry(first, 1, false, 0, |out| batch(out, 1));
    let (_, lost) = entry(second, 1, false, 0, |out| batch(out, 2));
    let (third, again) = start(second, 2, &[1]);
    let (fourth, other) = entry(third, 2, false, 2, |out| batch(out, 2));
    let (last, alone) = start(fourth, 3, &[2]);
    write(dir.path(), &[genesis(), started, kept, lost, again, other, alone]);
    Identity { cluster: [1; 16], ..Identity::alone() }.write(&RealDisk, dir.path()).expect("a healthy disk");
    let RecoveredMember { recovered, place, replication } = open_member(dir.path(), 1).expect("it opens");
    assert_eq!((place.end, recovered.sequences[0], replication.end()), (second, Sequence(1), last));
}

#[test]
fn where_a_part_of_the_log_was_given_up_another_epoch_begins() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    drop(open(dir.path()).expect("a new database"));
    let options = LogOptions { accept_loss: Some(dir.path().join("given-up")), ..LogOptions::default() };
    drop(open_with(dir.path(), options).expect("it opens"));
    let recovered = open(dir.path()).expect("it opens");
    assert_eq!((recovered.group.end().epoch, recovered.group.end().position), (Epoch(2), Position(2)));
}

#[test]
fn the_first_entry_is_the_start_of_an_epoch() {
    let (_, started) = start(Mark::ORIGIN, 1, &[1]);
    let entry = Entry::decode(started[0], &started[5..]).expect("it was written just now");
    assert_eq!((started[0], entry.header.starts_epoch), (KIND_EPOCH_START, true));
}
