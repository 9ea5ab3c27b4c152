//! Several groups in one directory: each is as if it were alone there, whatever happens to the
//! others and to the power.

use crate::common::{NoOthers, log_options};
use crate::hosting::{Failed, Groups, SCHEMA, contents, map, open_members, partitions_of, stream};
use crossbeam_channel::unbounded;
use ferrite_base::{Epoch, GroupId, GroupMap, Incarnation, NodeId, PartitionId, Position, Sequence};
use ferrite_group::{EntryBuffer, FIRST_GROUP, GroupAppender, GroupPlace, Identity};
use ferrite_io::simulated::{CrashPoint, Restart, SimulatedClock, SimulatedDisk, SimulatedRandom};
use ferrite_io::{Disk, DiskResult};
use ferrite_log::{BlockPlace, LogOptions};
use ferrite_multi::{LotId, Record as Lot, Settled};
use ferrite_partition::GroupInboxes;
use ferrite_partition::commit::{self, DatabaseLog};
use ferrite_partition::hosting::HostingNode;
use ferrite_partition::install::{Install, InstallStep, Learner};
use ferrite_partition::loss;
use ferrite_partition::record::{self, BatchWriter, Genesis, Part};
use ferrite_partition::recovery::{AsMember, RecoveredGroup, RecoveredNode, StartError};
use ferrite_plan::external::RuntimeHandle;
use ferrite_replica::group::{GroupConfiguration, Header, Mark, Member, Timing};
use ferrite_snapshot::Files;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/node";
const GROUPS: u32 = 3;

fn new_disk(seed: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(seed, SimulatedClock::default());
    disk.create_dir(Path::new(DIR)).expect("a healthy disk");
    disk
}

/// What each group has held, step by step, and how many of these steps were acknowledged.
#[derive(Default)]
struct Model {
    seen: BTreeMap<u32, Vec<Vec<String>>>,
    acknowledged: BTreeMap<u32, usize>,
}

impl Model {
    fn see(&mut self, group: u32, contents: Vec<String>) {
        self.seen.entry(group).or_default().push(contents);
    }

    /// Continues with what a start has found.
    fn found(&mut self, node: &Groups) {
        for (group, seen) in &mut self.seen {
            *seen = vec![contents(node.group(*group))];
        }
        self.acknowledge();
    }

    fn acknowledge(&mut self) {
        self.acknowledged = self.seen.iter().map(|(group, seen)| (*group, seen.len())).collect();
    }

    /// A group may be one step ahead of what was acknowledged, and no group loses any.
    fn check(&self, node: &Groups, when: &str) {
        for (group, seen) in &self.seen {
            let found = contents(node.group(*group));
            let from = self.acknowledged.get(group).map_or(0, |count| count.saturating_sub(1));
            assert!(seen[from..].contains(&found), "group {group} {when}: {} steps, {from}: {found:?}", seen.len());
        }
    }
}

/// Rows and schema changes of all groups, interleaved, with snapshots and starts in between.
fn work(disk: &SimulatedDisk, model: &mut Model) -> Result<(), Failed> {
    let mut random = SimulatedRandom::new(7);
    let mut node = Groups::open(disk, DIR).map_err(|_| Failed)?;
    (0..GROUPS).for_each(|group| model.see(group, contents(node.group(group))));
    model.acknowledge();
    for group in 0..GROUPS {
        node.ddl(group, SCHEMA, &mut |group, contents| model.see(group, contents))?;
        model.acknowledge();
    }
    for step in 0..60 {
        let group = random.below(3) as u32;
        node.insert(group, step, &mut |group, contents| model.see(group, contents))?;
        model.acknowledge();
        if step % 9 == 4 {
            node.insert_everywhere(group, step, &mut |group, contents| model.see(group, contents))?;
            model.acknowledge();
        }
        if step % 7 == 6 {
            node.save((step / 7) as u32 % GROUPS)?;
        }
        if step == 40 {
            node.ddl(1, "ALTER TABLE t ADD COLUMN c INTEGER DEFAULT 4", &mut |group, contents| {
                model.see(group, contents);
            })?;
            model.acknowledge();
            node.ddl(1, "ALTER TABLE t DROP COLUMN c", &mut |group, contents| model.see(group, contents))?;
            model.acknowledge();
        }
        if step % 25 == 24 {
            drop(node);
            node = Groups::open(disk, DIR).map_err(|_| Failed)?;
        }
    }
    Ok(())
}

#[test]
fn all_groups_replay_as_they_were_wherever_the_power_is_lost() {
    let disk = new_disk(1);
    let mut model = Model::default();
    work(&disk, &mut model).expect("a healthy disk");
    let node = Groups::open(&disk, DIR).unwrap_or_else(|error| panic!("{error}"));
    model.check(&node, "in the end");
    assert!(node.0.groups.iter().all(|group| group.snapshots.kept().len() >= 2), "each has taken snapshots");
    let boundaries = disk.boundaries();
    drop(node);
    let mut crashes = 0;
    for boundary in (1..boundaries).step_by(3) {
        let disk = new_disk(boundary);
        disk.crash_at(Some(CrashPoint { boundary, after: boundary % 2 == 0 }));
        let mut model = Model::default();
        if work(&disk, &mut model).is_ok() {
            break;
        }
        crashes += 1;
        disk.restart(Restart::Power);
        for round in 0..2 {
            let mut node =
                Groups::open(&disk, DIR).unwrap_or_else(|error| panic!("boundary {boundary}, start {round}: {error}"));
            model.check(&node, &format!("after boundary {boundary}, start {round}"));
            model.found(&node);
            // And it continues from there.
            for group in 0..GROUPS {
                if node.group(group).compiled.catalog.version.0 > 0 {
                    let key = 1_000 + round * 100;
                    for key in key..key + 5 {
                        node.insert(group, key, &mut |group, contents| model.see(group, contents))
                            .expect("a healthy disk");
                    }
                    node.save(group).expect("a healthy disk");
                }
            }
            model.acknowledge();
        }
    }
    assert!(crashes > 80, "only {crashes} crashes");
}

fn segments(disk: &SimulatedDisk) -> Vec<String> {
    let mut names = disk.list(Path::new(DIR)).expect("a healthy disk");
    names.retain(|name| name.starts_with("redo-"));
    names.sort();
    names
}

/// Rows of one group, each in a block of its own.
fn fill(node: &mut Groups, group: u32, from: i64, count: usize) {
    let mut key = from;
    for _ in 0..count {
        while !node.insert(group, key, &mut |_, _| {}).expect("a healthy disk") {
            key += 1;
        }
        key += 1;
    }
}

/// The log goes as far as the group allows that needs most of it.
#[test]
fn a_segment_stays_while_any_hosted_group_needs_it() {
    let disk = new_disk(3);
    let mut node = Groups::open(&disk, DIR).expect("a new database");
    for group in 0..GROUPS {
        node.ddl(group, SCHEMA, &mut |_, _| {}).expect("a healthy disk");
    }
    for round in 0..4 {
        fill(&mut node, 0, round * 1_000, 30);
        let saved = node.save(0).expect("a healthy disk");
        assert_eq!(saved.segments_cut, 0, "groups 1 and 2 have no snapshot");
    }
    for group in [1, 1, 2] {
        fill(&mut node, group, 10_000, 0);
        assert_eq!(node.save(group).expect("a healthy disk").segments_cut, 0, "group 2 has one at most");
    }
    let before: Vec<Vec<String>> = (0..GROUPS).map(|group| contents(node.group(group))).collect();
    assert!(segments(&disk).len() > 4, "the log has grown: {:?}", segments(&disk));
    // What is needed is known again after a start.
    drop(node);
    let mut node = Groups::open(&disk, DIR).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(node.save(1).expect("a healthy disk").segments_cut, 0);
    assert!(node.save(2).expect("a healthy disk").segments_cut > 0, "each has two now");
    drop(node);
    let node = Groups::open(&disk, DIR).unwrap_or_else(|error| panic!("{error}"));
    for (group, before) in (0..GROUPS).zip(before) {
        assert_eq!(contents(node.group(group)), before, "group {group}");
    }
}

#[test]
fn a_group_that_is_not_hosted_is_passed_over_and_needs_no_log() {
    let disk = new_disk(4);
    let mut model = Model::default();
    work(&disk, &mut model).expect("a healthy disk");
    let mut identity = Identity::read(&disk, Path::new(DIR)).expect("a healthy disk").expect("it was written");
    assert!(identity.hosted.remove(&GroupId(1)), "a new database without others hosts all groups");
    identity.write(&disk, Path::new(DIR)).expect("a healthy disk");
    for round in 0..3 {
        let mut node = Groups::open(&disk, DIR).unwrap_or_else(|error| panic!("{error}"));
        let hosted: Vec<u32> = node.0.groups.iter().map(|group| group.partitions.group().0).collect();
        assert_eq!(hosted, [0, 2]);
        assert_eq!(node.0.identity.hosted, BTreeMap::from([(GroupId(0), ()), (GroupId(2), ())]).into_keys().collect());
        model.seen.remove(&1);
        model.check(&node, "without group 1");
        for group in [0, 2] {
            for key in 0..20 {
                let key = 5_000 + round * 100 + key;
                node.insert(group, key, &mut |group, contents| model.see(group, contents)).expect("a healthy disk");
            }
            node.save(group).expect("a healthy disk");
        }
        model.acknowledge();
    }
    let first = |disk| segments(disk).first().cloned();
    assert_ne!(first(&disk), Some("redo-0000000001.log".to_owned()), "group 1 holds nothing back");
}

fn member(node: u32) -> Member {
    Member { node: NodeId(node), incarnation: Incarnation(1) }
}

/// The entry of a group after `previous`, and its mark.
fn entry(group: u32, previous: Mark, starts: bool, commit: u64, write: impl FnOnce(&mut Vec<u8>)) -> (Mark, Vec<u8>) {
    let mut buffer = EntryBuffer::default();
    write(buffer.records());
    let checksum = buffer.checksum();
    let length = buffer.len() as u32;
    let header = Header::after(GroupId(group), previous, Epoch(1), starts, checksum, length);
    (header.mark, buffer.seal(GroupId(group), &header, Position(commit), 0))
}

/// The start of a group's stream that these nodes keep.
fn start(group: u32, nodes: &[u32]) -> (Mark, Vec<u8>) {
    let members: Vec<Member> = nodes.iter().copied().map(member).collect();
    let configuration = GroupConfiguration::new(Epoch(1), members[0], members, Vec::new());
    entry(group, Mark::ORIGIN, true, 0, |out| out.extend(configuration.encode(Mark::ORIGIN)))
}

fn genesis(groups: GroupMap) -> Vec<u8> {
    let mut out = Vec::new();
    record::write_genesis(&mut out, &Genesis { groups, created_ms: 1, database_id: [5; 16] });
    out
}

fn batch(out: &mut Vec<u8>, partition: u32, sequence: u64) {
    let mut writer = BatchWriter::begin(out, PartitionId(partition), Epoch(1), Sequence(sequence));
    writer.transaction(out, |_| {});
    writer.finish(out);
}

/// Entries of a batch each, as a copy has them that does not know whether they are committed; some
/// long ones. The payloads, and the last mark.
fn uncommitted(group: u32, from: Mark, first: u64, count: u64) -> (Mark, Vec<Vec<u8>>) {
    let partition = partitions_of(group).id(0).0;
    let mut last = from;
    let mut payloads = Vec::new();
    for sequence in first..first + count {
        let (mark, payload) = entry(group, last, false, 0, |out| {
            let mut writer = BatchWriter::begin(out, PartitionId(partition), Epoch(1), Sequence(sequence));
            // Not applied, so never decoded.
            writer.transaction(out, |out| out.extend_from_slice(&[7; 9_000]));
            writer.finish(out);
        });
        last = mark;
        payloads.push(payload);
    }
    (last, payloads)
}

/// Writes a log that holds these payloads.
fn write(disk: &SimulatedDisk, options: LogOptions, payloads: &[Vec<u8>]) {
    let visit = |_: BlockPlace<'_>, _: &[u8]| Ok::<(), Infallible>(());
    let clock = Arc::new(SimulatedClock::default());
    let opened = DatabaseLog::open(Arc::new(disk.clone()), clock.clone(), Path::new(DIR), options, visit);
    let (log, _) = opened.expect("a healthy disk");
    let place = GroupPlace::before_the_first(Epoch(0), member(1));
    let group = GroupAppender::alone(FIRST_GROUP, member(1), place, log.appender(), clock);
    for payload in payloads {
        commit::wait(&log, |completion| group.append_own(payload.clone(), completion)).expect("a healthy log takes it");
    }
    log.close().expect("a healthy log closes");
}

fn become_member(disk: &SimulatedDisk) {
    let mut identity = Identity::new([1; 16], NodeId(2), Incarnation(0));
    identity.hosted = (0..GROUPS).map(GroupId).collect();
    identity.write(disk, Path::new(DIR)).expect("a healthy disk");
}

#[test]
fn an_entry_names_partitions_of_its_own_group_and_a_group_that_there_is() {
    let first = start(1, &[1]);
    let with = |write: &dyn Fn(&mut Vec<u8>)| entry(1, first.0, false, 2, write).1;
    let own = partitions_of(1).id(1).0;
    let right = with(&|out| batch(out, own, 1));
    let of_another = with(&|out| batch(out, 2, 1));
    let of_none = with(&|out| batch(out, 5, 1));
    let (_, of_no_group) = start(3, &[1]);
    for (payload, opens) in [(right, true), (of_another, false), (of_none, false), (of_no_group, false)] {
        let disk = new_disk(5);
        write(&disk, log_options(), &[genesis(map()), first.1.clone(), payload]);
        let opened = Groups::open(&disk, DIR);
        assert_eq!(opened.is_ok(), opens, "{:?}", opened.err());
    }
}

#[test]
fn a_part_of_a_lot_has_transactions_of_its_group_only() {
    let first = start(1, &[1]);
    let lot = LotId { epoch: Epoch(4), number: 1 };
    let prepared = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut redo = Vec::new();
        write(&mut redo);
        let participants = vec![GroupId(1), GroupId(2)];
        entry(1, first.0, false, 2, |out: &mut Vec<u8>| {
            record::write_lot(out, &Lot::Ordered { epoch: lot.epoch, settled: Settled::default() });
            let participants = participants.clone();
            record::write_lot(
                out,
                &Lot::Prepared { lot, settled: Settled::default(), participants, redo: redo.clone() },
            );
        })
    };
    let multi = |out: &mut Vec<u8>, partition: PartitionId| {
        let part = Part { partition, epoch: Epoch(1), sequence: Sequence(1), changes: &[] };
        record::write_multi(out, 1, &[part]);
    };
    let own = partitions_of(1).id(1);
    let right = prepared(&|out| multi(out, own));
    let of_another = prepared(&|out| multi(out, PartitionId(2)));
    let of_another_kind = prepared(&|out| batch(out, own.0, 1));
    for ((_, payload), opens) in [(right, true), (of_another, false), (of_another_kind, false)] {
        let disk = new_disk(5);
        write(&disk, log_options(), &[genesis(map()), first.1.clone(), payload]);
        let opened = Groups::open(&disk, DIR);
        assert_eq!(opened.is_ok(), opens, "{:?}", opened.err());
        if let Ok(node) = opened {
            assert!(node.group(1).lots.in_doubt().contains_key(&lot));
            assert_eq!(node.group(1).sequences, [Sequence(0); 2], "it does not count yet");
        }
    }
}

/// A snapshot of one group that never became this node's own hides what the log has of that group,
/// and nothing of others.
#[test]
fn a_noted_snapshot_hides_its_own_group_only() {
    let disk = new_disk(6);
    let first = start(0, &[1, 2]);
    let second = start(1, &[1, 2]);
    let (before, entries) = uncommitted(0, first.0, 1, 3);
    let (end, more) = uncommitted(0, before, 4, 3);
    let (_, hidden) = uncommitted(1, second.0, 1, 2);
    let mut noted = Vec::new();
    let there = Mark { epoch: Epoch(4), position: Position(90), chain: 3 };
    record::write_installed(&mut noted, 5, 2, &[(Epoch(1), Sequence(8)); 2], &[(GroupId(1), there)]);
    let payloads = [vec![genesis(map()), first.1, second.1], entries, vec![noted], more, hidden].concat();
    write(&disk, log_options(), &payloads);
    become_member(&disk);
    for _ in 0..2 {
        let members = open_members(&disk, DIR, log_options()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(stream(&members, 0).end(), end);
        assert_eq!(stream(&members, 1).end(), second.0, "what followed the record is not read");
        members.node.log.close().expect("a healthy log closes");
    }
}

/// The log is lost, and an operator accepts that: each group continues with its own snapshot.
#[test]
fn without_the_log_every_group_is_as_its_snapshot_shows() {
    for in_cluster in [false, true] {
        let disk = new_disk(9);
        work(&disk, &mut Model::default()).expect("a healthy disk");
        let mut node = Groups::open(&disk, DIR).unwrap_or_else(|error| panic!("{error}"));
        for group in [2, 0, 1] {
            node.save(group).expect("a healthy disk");
            fill(&mut node, (group + 1) % GROUPS, 9_000 + i64::from(group) * 100, 8);
        }
        let shown = |node: &Groups, group: u32| contents(node.group(group)).len();
        let before: Vec<usize> = (0..GROUPS).map(|group| shown(&node, group)).collect();
        node.close();
        if in_cluster {
            become_member(&disk);
        }
        for name in segments(&disk) {
            disk.remove(&Path::new(DIR).join(name)).expect("a healthy disk");
        }
        disk.sync_dir(Path::new(DIR)).expect("a healthy disk");
        assert!(matches!(Groups::open(&disk, DIR).err(), Some(StartError::Rot(_))));
        let accept = || {
            let of_cluster: Option<&dyn Fn() -> DiskResult<()>> = if in_cluster { Some(&|| Ok(())) } else { None };
            let clock = Arc::new(SimulatedClock::default());
            loss::accept_loss(Arc::new(disk.clone()), clock, Path::new(DIR), of_cluster, &|_| {})
        };
        assert!(accept().unwrap_or_else(|error| panic!("{error}")).is_some());
        assert!(accept().unwrap_or_else(|error| panic!("{error}")).is_none(), "nothing more is lost");
        for _ in 0..2 {
            let groups = match in_cluster {
                true => open_members(&disk, DIR, log_options()).map(|members| members.node.groups),
                false => Groups::open(&disk, DIR).map(|node| node.0.groups),
            };
            let groups = groups.unwrap_or_else(|error| panic!("{error}"));
            let after: Vec<usize> = groups.iter().map(|group| contents(group).len()).collect();
            // Group 2 got rows after its own snapshot, which was the first.
            assert_eq!(after, [before[0], before[1], before[2] - 8]);
        }
    }
}

fn host<'n>(disk: &SimulatedDisk, node: &'n RecoveredNode) -> HostingNode<'n> {
    HostingNode {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(SimulatedClock::default()),
        dir: Path::new(DIR),
        log: &node.log,
        genesis: &node.genesis,
        needs: Arc::clone(node.groups[0].snapshots.needs()),
        here: Member { node: node.identity.node, incarnation: node.identity.incarnation },
    }
}

/// A group is hosted while the node runs: with nothing, until its leader sends what there is.
#[test]
fn a_group_is_hosted_by_a_node_that_runs_wherever_the_power_is_lost() {
    for boundary in 0.. {
        let disk = new_disk(boundary + 500);
        let first = start(0, &[1, 2]);
        let (end, entries) = uncommitted(0, first.0, 1, 20);
        let left = start(1, &[2]);
        write(&disk, log_options(), &[vec![genesis(map()), left.1, first.1], entries].concat());
        let mut identity = Identity::new([1; 16], NodeId(2), Incarnation(0));
        identity.write(&disk, Path::new(DIR)).expect("a healthy disk");
        let members = open_members(&disk, DIR, log_options()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(members.streams.len(), 1, "group 1 is passed over");
        disk.crash_at(Some(CrashPoint { boundary: disk.boundaries() + 1 + boundary, after: boundary % 2 == 0 }));
        let node = host(&disk, &members.node);
        let hosted = node.host(GroupId(1));
        identity.incarnation.0 = 1;
        identity.host(GroupId(1)).expect("there is room");
        let is_listed = hosted.is_ok() && identity.write(&disk, Path::new(DIR)).is_ok();
        if let Ok(empty) = hosted {
            let as_member =
                AsMember { host: Arc::new(NoOthers), timing: Timing::DEFAULT, intact: true, snapshots: true };
            let (group, stream) = empty.keep(&node, Epoch(0), &as_member, &RuntimeHandle::default());
            assert_eq!((stream.place.end, group.stores.len()), (Mark::ORIGIN, 2));
        }
        let is_whole = !disk.has_halted();
        drop(members);
        disk.restart(Restart::Power);
        for start in 0..2 {
            let members = open_members(&disk, DIR, log_options())
                .unwrap_or_else(|error| panic!("boundary {boundary}, start {start}: {error}"));
            assert_eq!(stream(&members, 0).end(), end, "boundary {boundary}, start {start}");
            assert!(!is_listed || members.streams.len() == 2, "boundary {boundary}");
            if members.streams.len() == 2 {
                assert_eq!(stream(&members, 1).end(), Mark::ORIGIN, "what the node had before is of no use");
            }
            members.node.log.close().expect("a healthy log closes");
        }
        if is_whole {
            assert!(is_listed && boundary > 10, "only {boundary} places to lose the power");
            break;
        }
    }
}

/// One group begins anew, and later is let go: the others stay.
#[test]
fn a_group_begins_anew_and_goes_without_the_others() {
    let disk = new_disk(8);
    let mut model = Model::default();
    work(&disk, &mut model).expect("a healthy disk");
    model.seen.remove(&1);
    let mut node = Groups::open(&disk, DIR).unwrap_or_else(|error| panic!("{error}"));
    let at = node.0.groups.iter().position(|group| group.partitions.group() == GroupId(1)).expect("it is hosted");
    let RecoveredGroup { snapshots, .. } = node.0.groups.remove(at);
    drop(host(&disk, &node.0).begin_anew(snapshots).expect("a healthy disk"));
    fill(&mut node, 0, 7_000, 3);
    model.see(0, contents(node.group(0)));
    model.acknowledge();
    drop(node);
    let mut node = Groups::open(&disk, DIR).unwrap_or_else(|error| panic!("{error}"));
    model.check(&node, "when group 1 has begun anew");
    assert_eq!(node.group(1).compiled.catalog.version.0, 0);
    node.ddl(1, SCHEMA, &mut |_, _| {}).expect("a healthy disk");
    fill(&mut node, 1, 0, 3);
    let begun = contents(node.group(1));
    drop(node);
    let mut node = Groups::open(&disk, DIR).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(contents(node.group(1)), begun);
    node.0.identity.hosted.remove(&GroupId(1));
    node.0.identity.write(&disk, Path::new(DIR)).expect("a healthy disk");
    let RecoveredGroup { snapshots, .. } = node.0.groups.remove(at);
    snapshots.forget().expect("a healthy disk");
    drop(node);
    let node = Groups::open(&disk, DIR).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(node.0.groups.len(), 2);
    model.check(&node, "when group 1 has gone");
}

/// Another node's snapshot of one group takes its place; entries of another group that no node may
/// have but this one stay, wherever the power is lost.
#[test]
fn an_installed_snapshot_leaves_the_log_of_other_groups() {
    let mut installs = 0;
    for boundary in 0.. {
        let disk = new_disk(boundary + 10);
        disk.create_dir(Path::new("/source")).expect("a healthy disk");
        let mut source = Groups::open(&disk, "/source").expect("a new database");
        source.ddl(1, SCHEMA, &mut |_, _| {}).expect("a healthy disk");
        fill(&mut source, 1, 0, 4);
        let snapshot = source.save(1).expect("a healthy disk").snapshot;
        let shown = contents(source.group(1));
        let log = LogOptions { database: Some(source.0.log.index().database()), ..log_options() };
        source.close();
        let first = start(0, &[1, 2]);
        let (end, entries) = uncommitted(0, first.0, 1, 40);
        write(&disk, log.clone(), &[vec![genesis(map()), first.1], entries].concat());
        become_member(&disk);
        let before = segments(&disk);
        assert!(before.len() > 3, "the entries are in several segments: {before:?}");

        let mut members = open_members(&disk, DIR, log.clone()).unwrap_or_else(|error| panic!("{error}"));
        // It is no member.
        stream(&members, 1).configured(GroupConfiguration::new(Epoch(1), member(1), vec![member(1)], Vec::new()));
        let (sender, _inbox) = unbounded();
        let learner = Learner {
            here: NodeId(2),
            group: stream(&members, 1),
            partitions: GroupInboxes::new(partitions_of(1), vec![sender.clone(), sender]),
            intake: None,
            runtime: RuntimeHandle::default(),
            transaction_bytes_max: None,
        };
        let files = Files::new(Arc::new(disk.clone()), Path::new("/source/snapshots/group-1"));
        let mut install = Install::begin(files, snapshot, learner).unwrap_or_else(|error| panic!("{error}"));
        disk.crash_at(Some(CrashPoint { boundary: disk.boundaries() + 1 + boundary, after: boundary % 2 == 0 }));
        let own = members.node.groups.iter_mut().find(|own| own.partitions.group() == GroupId(1));
        let snapshots = &mut own.expect("it is hosted").snapshots;
        let is_done = loop {
            match install.step(snapshots) {
                Ok(InstallStep::Working) => {}
                Ok(InstallStep::Waiting) => drop(members.node.log.step()),
                Ok(InstallStep::Done(_)) => break true,
                Err(error) => {
                    assert!(disk.has_halted(), "{error}");
                    break false;
                }
            }
        };
        let is_whole = !disk.has_halted();
        drop(install);
        drop(members);
        disk.restart(Restart::Power);
        installs += u64::from(is_done);
        for start in 0..2 {
            let members = open_members(&disk, DIR, log.clone())
                .unwrap_or_else(|error| panic!("boundary {boundary}, start {start}: {error}"));
            assert_eq!(stream(&members, 0).end(), end, "boundary {boundary}, start {start}");
            let own = members.node.groups.iter().find(|own| own.partitions.group() == GroupId(1)).expect("hosted");
            let is_new = own.compiled.catalog.version.0 > 0;
            assert!(is_new || !is_done, "boundary {boundary}: what counts is there");
            if is_new {
                assert_eq!(contents(own), shown, "boundary {boundary}, start {start}");
            }
            members.node.log.close().expect("a healthy log closes");
        }
        if is_whole {
            assert!(is_done && boundary > 10, "only {boundary} places to lose the power");
            break;
        }
    }
    assert!(installs > 0);
}
