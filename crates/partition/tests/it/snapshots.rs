//! Snapshots and the log from them: together always the database as it was, whatever is interrupted
//! or damaged.

mod damage;

use crate::common::crashing_disk::CrashingDisk;
use crate::common::{Node, SCHEMA, fill, fill_watched, log_options, open_member};
use crossbeam_channel::bounded;
use ferrite_base::Position;
use ferrite_group::{CatchUp, CatchUpError, Checkpointed, FIRST_GROUP, Identity, Missed, Wanted};
use ferrite_io::{RealDisk, SystemClock, SystemRandom};
use ferrite_partition::commit::{Completion, Parties};
use ferrite_partition::coordinator::TakenSnapshot;
use ferrite_partition::loss;
use ferrite_partition::record;
use ferrite_partition::recovery::{self, Options, StartError};
use ferrite_snapshot::SnapshotError;
use ferrite_value::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

fn open(dir: &Path, partitions: u32) -> Node {
    Node::open(Arc::new(RealDisk), dir, partitions).unwrap_or_else(|error| panic!("{error}"))
}

/// Files of the directory or its snapshots whose names have this end, by name.
fn files(dir: &Path, end: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = [dir.to_path_buf(), dir.join("snapshots")]
        .iter()
        .flat_map(|dir| fs::read_dir(dir).expect("a directory"))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_string_lossy().ends_with(end))
        .collect();
    found.sort();
    found
}

/// Names in a directory.
fn files_of(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name of ours"))
        .collect();
    names.sort();
    names
}

fn copy(from: &Path, to: &Path) {
    for sub in ["", "snapshots"] {
        fs::create_dir_all(to.join(sub)).expect("a directory");
        for entry in fs::read_dir(from.join(sub)).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_file() {
                fs::copy(&path, to.join(sub).join(path.file_name().expect("a name"))).expect("a copy");
            }
        }
    }
}

/// A database with two snapshots, a log that was cut, and changes behind.
fn sample(dir: &Path, partitions: u32) -> Vec<String> {
    let mut node = open(dir, partitions);
    node.ddl(SCHEMA);
    fill(&mut node, 0, 120);
    node.save().expect("a healthy disk");
    let events = node.table("EVENTS");
    node.delete(events, |place| place % 3 == 1);
    fill(&mut node, 120, 200);
    node.save().expect("a healthy disk");
    fill(&mut node, 200, 230);
    let contents = node.contents();
    node.close();
    contents
}

/// Snapshots let go of the log; what a member is being sent from it stays until it was read.
#[test]
fn what_is_read_from_the_log_outlives_the_snapshots_that_would_remove_it() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut node = open(home.path(), 1);
    node.ddl(SCHEMA);
    fill(&mut node, 0, 60);
    let first_segment = home.path().join("redo-0000000001.log");
    let begin = |node: &Node| CatchUp::behind_position(node.0.log.index(), FIRST_GROUP, Position(0));
    let wanted = |node: &Node| Wanted { up_to: Position(u64::MAX), bytes: 1, durable: node.0.group.commit() };
    let mut reader = begin(&node);
    let mut read = 0;
    while read == 0 {
        let step = reader.step(&node.0.group.place().history, wanted(&node)).expect("it is in the log");
        read += u64::from(matches!(step, Missed::Entries { .. }));
    }
    for round in 1..5 {
        fill(&mut node, 60 * round, 60 * (round + 1));
        let saved = node.save().expect("a healthy disk");
        assert_eq!((saved.segments_cut, saved.not_cut), (0, None));
        assert!(first_segment.exists());
    }
    loop {
        match reader.step(&node.0.group.place().history, wanted(&node)).expect("it stays in the log") {
            Missed::Entries { headers, .. } => read += headers.len() as u64,
            Missed::Working => {}
            Missed::End => break,
        }
    }
    assert_eq!(Position(read), node.0.group.commit());
    assert!(node.save().expect("a healthy disk").segments_cut > 0);
    assert!(!first_segment.exists());
    let mut late = begin(&node);
    let told = loop {
        match late.step(&node.0.group.place().history, wanted(&node)) {
            Ok(Missed::Working) => {}
            told => break told,
        }
    };
    assert!(matches!(told, Err(CatchUpError::Removed)));
}

#[test]
fn a_snapshot_and_the_log_behind_it_are_the_database() {
    for partitions in [1, 3] {
        let home = tempfile::tempdir().expect("a temporary directory");
        let mut node = open(home.path(), partitions);
        node.ddl(SCHEMA);
        let mut next = 0;
        let schema_changes = [
            "ALTER TABLE events ADD COLUMN extra VARCHAR(200) DEFAULT 'none'",
            "DROP INDEX by_group; CREATE INDEX by_group ON events (note, id)",
            "CREATE TABLE short_lived (a INTEGER NOT NULL, at TIMESTAMP) USING TTL 5 MINUTES ON COLUMN at",
            "DROP TABLE short_lived",
            "CREATE VIEW late AS SELECT ok, COUNT(*) AS n, MAX(ratio) AS m FROM events GROUP BY ok",
            "DROP PROCEDURE one; ALTER TABLE kinds RENAME TO sorts; ALTER TABLE sorts RENAME TO kinds",
        ];
        for (round, change) in schema_changes.iter().enumerate() {
            fill(&mut node, next, next + 40);
            next += 40;
            let events = node.table("EVENTS");
            node.delete(events, |place| place % 4 == round % 4);
            // Before, between and behind a snapshot.
            if round % 2 == 0 {
                node.ddl(change);
            }
            let saved = node.save().expect("a healthy disk");
            assert_eq!(saved.snapshot, round as u64 + 1);
            if round % 2 == 1 {
                node.ddl(change);
            }
            fill(&mut node, next, next + 5);
            next += 5;
            let before = node.contents();
            node.close();
            node = open(home.path(), partitions);
            assert_eq!(node.contents(), before, "round {round}");
            let loaded = node.0.summary.snapshot.expect("there is a snapshot");
            assert_eq!(loaded.snapshot, saved.snapshot);
            assert_eq!(node.0.snapshots.kept().len(), (round + 1).min(2));
        }
        assert_eq!(files(home.path(), ".manifest").len(), 2);
        assert!(!home.path().join("redo-0000000001.log").exists(), "what no snapshot needs has gone");
        // The same with threads.
        let before = node.contents();
        node.close();
        let runtime = &Default::default();
        let log = ferrite_log::LogOptions { own_threads: true, ..log_options() };
        let progress = ferrite_partition::RecoveryProgress::default();
        let options = Options {
            log,
            groups: None,
            partitions_default: 1,
            threads: 3,
            report: &|_| {},
            progress: &progress,
            runtime,
        };
        let (disk, clock) = (Arc::new(RealDisk), Arc::new(SystemClock));
        let recovered = recovery::open_with(disk, clock, &mut SystemRandom, home.path(), options).expect("it opens");
        assert_eq!(Node(recovered.only_group()).contents(), before);
    }
}

#[test]
fn a_crash_at_any_step_of_a_snapshot_loses_nothing() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let base = home.path().join("base");
    sample(&base, 2);
    let mut steps = 0;
    for changes in 0.. {
        let dir = home.path().join(format!("crash{changes}"));
        copy(&base, &dir);
        let disk = CrashingDisk::new();
        let mut node = Node::open(Arc::clone(&disk) as Arc<_>, &dir, 2).expect("a healthy disk so far");
        fill(&mut node, 500, 510);
        let before = node.contents();
        let taken = node.take_snapshot();
        disk.stop_after(changes);
        let saved = node.0.snapshots.save(taken, 0, &|_| Ok(()));
        let done = disk.left() > 0;
        drop(node);
        let node = open(&dir, 2);
        assert_eq!(node.contents(), before, "after {changes} changes");
        let loaded = node.0.summary.snapshot.expect("there is a snapshot").snapshot;
        assert!(loaded == 3 || saved.is_err(), "a snapshot that was promised is used");
        assert!(node.0.summary.damaged.is_empty(), "nothing half-done looks like a snapshot");
        assert_eq!(files(&dir, ".partial").len(), 0);
        assert!(files(&dir, ".rows").len() <= 2 * 3, "leftovers are removed");
        drop(node);
        // And once more, with the next snapshot on top.
        let mut node = open(&dir, 2);
        node.save().expect("a healthy disk");
        drop(node);
        assert_eq!(open(&dir, 2).contents(), before);
        fs::remove_dir_all(&dir).expect("it is ours");
        if done && saved.is_ok_and(|saved| saved.not_cut.is_none()) {
            steps = changes;
            break;
        }
    }
    assert!(steps > 20, "only {steps} steps were tried");
}

/// The same of a cluster's node, to which only the others add anything.
#[test]
fn a_member_without_its_log_has_what_its_snapshot_shows() {
    for all in [false, true] {
        let home = tempfile::tempdir().expect("a temporary directory");
        let dir = home.path();
        let mut node = open(dir, 2);
        node.ddl(SCHEMA);
        fill(&mut node, 0, 30);
        node.save().expect("a healthy disk");
        let (end, sequences) = (node.0.group.end(), node.0.sequences.clone());
        fill(&mut node, 30, 33);
        node.close();
        Identity { cluster: [1; 16], ..Identity::alone() }.write(&RealDisk, dir).expect("a healthy disk");
        let snapshots = ferrite_snapshot::Files::new(Arc::new(RealDisk), &dir.join("snapshots"));
        let place = snapshots.manifest(&ferrite_snapshot::own_name(1)).expect("it is whole").log;
        let segment = dir.join(format!("redo-{:010}.log", place.segment));
        if all {
            files(dir, ".log").iter().for_each(|path| fs::remove_file(path).expect("it is there"));
        } else {
            let mut bytes = fs::read(&segment).expect("it is there");
            bytes[place.position as usize + 60] ^= 1;
            fs::write(&segment, &bytes).expect("it is ours");
        }
        assert!(matches!(open_member(dir, 2), Err(StartError::Rot { .. })));
        let accept = || loss::accept_loss(Arc::new(RealDisk), Arc::new(SystemClock), dir, Some(&|| Ok(())), &|_| {});
        assert!(accept().unwrap_or_else(|error| panic!("{error}")).is_some());
        assert!(accept().unwrap_or_else(|error| panic!("{error}")).is_none(), "nothing more is lost");
        for _ in 0..2 {
            let member = open_member(dir, 2).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((member.place.end, &member.recovered.sequences), (end, &sequences));
        }
    }
}

/// A copy's snapshot shows more than the log has where it begins: the way from there to what it
/// shows is lost.
#[test]
fn a_copys_snapshot_is_what_is_left_where_the_log_does_not_come_to_it() {
    for in_cluster in [false, true] {
        let home = tempfile::tempdir().expect("a temporary directory");
        let dir = home.path();
        let mut node = open(dir, 2);
        node.ddl(SCHEMA);
        fill(&mut node, 0, 5);
        let (number, noted) = (node.0.snapshots.next_number(), node.0.group.end());
        let (mark, (tell, logged)) = (Arc::new(OnceLock::new()), bounded(1));
        let completion = Completion { parties: Parties::Asking(tell), buffers: None };
        let write = |_: &Checkpointed| {
            let mut payload = Vec::new();
            record::write_copy_checkpoint(&mut payload, number, &[(FIRST_GROUP, noted)]);
            payload
        };
        node.0.group.append_checkpoint(write, Arc::clone(&mark), completion);
        fill(&mut node, 5, 9);
        let (end, contents) = (node.0.group.end(), node.contents());
        let groups = vec![Checkpointed { group: FIRST_GROUP, place: node.0.group.place() }];
        let taken = TakenSnapshot { snapshot: number, groups, mark: Arc::clone(&mark), logged, ..node.take_snapshot() };
        node.0.snapshots.save(taken, 0, &|_| Ok(())).expect("a healthy disk");
        fill(&mut node, 9, 12);
        node.close();
        let place = mark.get().expect("it is written");
        let segment = dir.join(format!("redo-{:010}.log", place.segment));
        let mut bytes = fs::read(&segment).expect("it is there");
        bytes[place.position as usize + 4_096 + 60] ^= 1;
        fs::write(&segment, &bytes).expect("it is ours");
        let mark_incomplete = || Ok(());
        let of_cluster: Option<&dyn Fn() -> _> = if in_cluster { Some(&mark_incomplete) } else { None };
        let accept = || loss::accept_loss(Arc::new(RealDisk), Arc::new(SystemClock), dir, of_cluster, &|_| {});
        if in_cluster {
            Identity { cluster: [1; 16], ..Identity::alone() }.write(&RealDisk, dir).expect("a healthy disk");
        }
        assert!(accept().unwrap_or_else(|error| panic!("{error}")).is_some());
        assert!(accept().unwrap_or_else(|error| panic!("{error}")).is_none(), "nothing more is lost");
        if in_cluster {
            let member = open_member(dir, 2).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(member.place.end, end);
        } else {
            continues_with(dir, &contents);
        }
    }
}

/// The database has these rows, and what is added is there at the next start.
fn continues_with(dir: &Path, contents: &[String]) {
    let mut node = open(dir, 2);
    assert_eq!(node.contents(), contents);
    fill(&mut node, 400, 405);
    let contents = node.contents();
    node.close();
    assert_eq!(open(dir, 2).contents(), contents);
}

#[test]
fn a_crash_at_any_step_of_a_schema_change_leaves_the_old_schema_or_the_new() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let base = home.path().join("base");
    sample(&base, 2);
    let change =
        "ALTER TABLE events ADD COLUMN more INTEGER DEFAULT 3; CREATE VIEW by_more AS SELECT more, COUNT(*) AS n FROM
        events GROUP BY more; DROP VIEW everything";
    for snapshot_first in [false, true] {
        let mut outcomes = Vec::new();
        for changes in 0.. {
            let dir = home.path().join(format!("crash{changes}"));
            copy(&base, &dir);
            let disk = CrashingDisk::new();
            let mut node = Node::open(Arc::clone(&disk) as Arc<_>, &dir, 2).expect("a healthy disk so far");
            // A snapshot of the old schema is still being written when the change comes.
            let taken = node.take_snapshot();
            if snapshot_first {
                node.0.snapshots.save(taken, 0, &|_| Ok(())).expect("a healthy disk so far");
            } else {
                drop(taken);
            }
            let before = node.0.compiled.catalog.version.0;
            disk.stop_after(changes);
            let told = node.try_ddl(change);
            drop(node);
            let node = open(&dir, 2);
            let after = node.0.compiled.catalog.version.0;
            assert!(after == before + 1 || (after == before && told.is_err()), "after {changes} changes");
            node.contents();
            outcomes.push(after - before);
            fs::remove_dir_all(&dir).expect("it is ours");
            if told.is_ok() {
                break;
            }
        }
        assert_eq!((outcomes.first(), outcomes.last()), (Some(&0), Some(&1)), "{outcomes:?}");
    }
}

#[test]
fn many_schema_changes_become_one_text() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut node = open(home.path(), 2);
    node.ddl(SCHEMA);
    for number in 0..60 {
        node.ddl(&format!("CREATE TABLE t{number} (a INTEGER NOT NULL PRIMARY KEY, b VARCHAR(10) UNIQUE)"));
        node.ddl(&format!("DROP TABLE t{number}"));
    }
    node.ddl(
        "CREATE TABLE last (a BIGINT NOT NULL, b INTEGER DEFAULT 7, PRIMARY KEY (a)); PARTITION TABLE last ON COLUMN a",
    );
    fill(&mut node, 0, 20);
    node.save().expect("a healthy disk");
    fill(&mut node, 20, 25);
    let before = node.contents();
    node.close();
    let mut node = open(home.path(), 2);
    assert!(node.0.history.base.is_some() && node.0.history.changes.is_empty());
    assert_eq!(node.contents(), before);
    // Ids go on where they were.
    node.ddl("CREATE TABLE later (a INTEGER); CREATE INDEX later_a ON later (a)");
    fill(&mut node, 25, 30);
    let before = node.contents();
    node.save().expect("a healthy disk");
    node.close();
    assert_eq!(open(home.path(), 2).contents(), before);
}

/// Rows of views are not logged, as they follow from tables; what is changed in a view of a stream
/// does not.
#[test]
fn what_was_changed_in_a_view_of_a_stream_comes_back() {
    for saved in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut node = open(dir.path(), 2);
        node.ddl(SCHEMA);
        node.ddl("CREATE VIEW visits_by_who AS SELECT who, COUNT(*) AS n, SUM(page) AS pages FROM visits GROUP BY who");
        let view = node.table("VISITS_BY_WHO");
        let change = |node: &mut Node| {
            for partition in 0..2 {
                let ids: Vec<_> = node.0.stores[partition].table(view).scan().collect();
                node.change(partition, |store| {
                    store.delete(view, ids[0]).unwrap();
                    store.update(view, ids[1], &[1, 2], &[Value::Integer(0), Value::Null]).unwrap();
                });
            }
        };
        fill(&mut node, 0, 40);
        change(&mut node);
        if saved {
            node.save().unwrap();
        }
        fill(&mut node, 40, 60);
        change(&mut node);
        // A group that was changed goes on.
        let visits = node.table("VISITS");
        (0..60).for_each(|who| node.insert(visits, &[Value::Integer(who), Value::Integer(1)]));
        let before = node.contents();
        node.close();
        assert_eq!(open(dir.path(), 2).contents(), before);
    }
}
