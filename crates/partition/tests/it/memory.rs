//! Durability memory: the log gets nothing but the records of snapshots, and a directory is
//! switched to it and back.

use crate::common::crashing_disk::CrashingDisk;
use crate::common::{Node, SCHEMA, fill, open_member};
use ferrite_group::Identity;
use ferrite_io::{Disk, RealDisk, SystemClock};
use ferrite_log::Durability;
use ferrite_partition::loss;
use ferrite_partition::recovery::StartError;
use ferrite_partition::unlogged;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn open(durability: Durability, dir: &Path) -> Node {
    Node::open_as(durability, Arc::new(RealDisk), dir, 2).unwrap_or_else(|error| panic!("{error}"))
}

fn snapshot_file(dir: &Path, name: &str) -> PathBuf {
    dir.join("snapshots").join(name)
}

/// Rows that sync has acknowledged, without a snapshot or with one; what they are.
fn logged(dir: &Path, with_snapshot: bool) -> Vec<String> {
    let mut node = open(Durability::Sync, dir);
    node.ddl(SCHEMA);
    fill(&mut node, 0, 30);
    if with_snapshot {
        node.save().expect("a healthy disk");
    }
    fill(&mut node, 30, 50);
    let contents = node.contents();
    node.close();
    contents
}

/// What a start finds after a kill, without regard to what comes later.
fn found(durability: Durability, dir: &Path) -> Vec<String> {
    let node = open(durability, dir);
    let found = node.contents();
    drop(node);
    found
}

#[test]
fn a_change_leaves_no_redo_and_no_byte_in_the_log() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path();
    logged(dir, false);
    let mut node = open(Durability::Memory, dir);
    let (written, end) =
        (node.0.log.statistics().written_bytes.load(std::sync::atomic::Ordering::Relaxed), node.0.group.end());
    fill(&mut node, 50, 90);
    let events = node.table("EVENTS");
    node.delete(events, |place| place % 3 == 0);
    while node.0.log.step() {}
    assert_eq!(node.0.log.statistics().written_bytes.load(std::sync::atomic::Ordering::Relaxed), written);
    assert_eq!(node.0.group.end(), end);
}

#[test]
fn a_kill_leads_back_to_the_newest_complete_snapshot_or_to_what_sync_has_acknowledged() {
    for with_snapshot in [false, true] {
        let home = tempfile::tempdir().expect("a temporary directory");
        let dir = home.path();
        let mut expected = logged(dir, with_snapshot);
        for round in 1..5 {
            let mut node = open(Durability::Memory, dir);
            assert_eq!(node.contents(), expected, "round {round}");
            assert_eq!(node.0.summary.without_redo.is_some(), round > 1, "round {round}");
            fill(&mut node, 100 * round, 100 * round + 20);
            if round % 2 == 0 {
                node.save().expect("a healthy disk");
                expected = node.contents();
                fill(&mut node, 100 * round + 50, 100 * round + 60);
            }
            drop(node);
            // What was begun and is not complete is passed over, with whatever durability.
            let mut node = open(Durability::Memory, dir);
            fill(&mut node, 100 * round + 20, 100 * round + 25);
            drop(node.take_snapshot());
            drop(node);
            assert_eq!(found(Durability::Sync, dir), expected, "round {round}");
            let mut node = open(Durability::Sync, dir);
            fill(&mut node, 1_000 * round, 1_000 * round + 10);
            expected = node.contents();
            drop(node);
            assert_eq!(found(Durability::None, dir), expected, "round {round}");
        }
    }
}

#[test]
fn a_kill_at_any_change_of_the_disk_leads_to_one_state_or_the_next() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut steps = 0;
    for changes in 0.. {
        let dir = home.path().join(format!("crash{changes}"));
        let before = logged(&dir, true);
        let disk = CrashingDisk::new();
        let first = Node::open_as(Durability::Memory, Arc::clone(&disk) as Arc<dyn Disk>, &dir, 2);
        let mut node = first.unwrap_or_else(|error| panic!("{error}"));
        fill(&mut node, 500, 510);
        let events = node.table("EVENTS");
        node.delete(events, |place| place % 4 == 1);
        let after = node.contents();
        disk.stop_after(changes);
        let saved = node.save();
        let done = disk.left() > 0;
        drop(node);
        let durability = if changes % 2 == 0 { Durability::Sync } else { Durability::Memory };
        let there = found(durability, &dir);
        assert!(there == after || there == before && saved.is_err(), "after {changes} changes");
        // What sync acknowledges after that stays.
        let mut node = open(Durability::Sync, &dir);
        assert_eq!(node.contents(), there, "after {changes} changes");
        fill(&mut node, 600, 604);
        let there = node.contents();
        drop(node);
        let mut node = open(Durability::Memory, &dir);
        assert_eq!(node.contents(), there, "after {changes} changes");
        fill(&mut node, 700, 704);
        node.save().expect("a healthy disk");
        let there = node.contents();
        drop(node);
        assert_eq!(found(Durability::Sync, &dir), there, "after {changes} changes");
        fs::remove_dir_all(&dir).expect("it is ours");
        if done && saved.is_ok_and(|saved| saved.not_cut.is_none()) {
            steps = changes;
            break;
        }
    }
    assert!(steps > 20, "only {steps} steps were tried");
}

fn files_of_snapshot_2(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = fs::read_dir(dir.join("snapshots")).expect("it is there").map(|entry| entry.expect("an entry").path());
    let is_of_2 = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains("-0000000002"));
    files.filter(is_of_2).map(|path| (path.clone(), fs::read(&path).expect("it is there"))).collect()
}

/// Two snapshots without a log between them; then sync, which acknowledges what the second begins.
fn two_snapshots(dir: &Path) -> (Vec<String>, Vec<String>) {
    logged(dir, false);
    let mut node = open(Durability::Memory, dir);
    fill(&mut node, 100, 110);
    node.save().expect("a healthy disk");
    let first = node.contents();
    fill(&mut node, 200, 210);
    node.save().expect("a healthy disk");
    node.close();
    let mut node = open(Durability::Sync, dir);
    fill(&mut node, 300, 310);
    let last = node.contents();
    node.close();
    (first, last)
}

#[test]
fn a_snapshot_without_a_log_before_it_is_missed_and_given_up_by_an_operator_only() {
    for removed in [false, true] {
        let home = tempfile::tempdir().expect("a temporary directory");
        let dir = home.path();
        let (first, last) = two_snapshots(dir);
        assert_eq!(found(Durability::Sync, dir), last);
        let copies = files_of_snapshot_2(dir);
        if removed {
            fs::remove_file(snapshot_file(dir, "snapshot-0000000002.manifest")).expect("it is there");
        } else {
            let path = snapshot_file(dir, "snapshot-0000000002-p0000.rows");
            let mut bytes = fs::read(&path).expect("it is there");
            bytes[5_000] ^= 1;
            fs::write(&path, &bytes).expect("it is ours");
        }
        for durability in [Durability::Sync, Durability::Memory] {
            let refused = Node::open_as(durability, Arc::new(RealDisk), dir, 2).err();
            let named = refused.as_ref().map(ToString::to_string).unwrap_or_default();
            assert!(matches!(refused, Some(StartError::NoRedoBefore { snapshot: 2 })), "{named}");
            assert!(named.contains("snapshot 2") && named.contains("--accept-loss"), "{named}");
        }
        let accept = || loss::accept_loss(Arc::new(RealDisk), Arc::new(SystemClock), dir, None, &|_| {});
        let (note, text) = accept().unwrap_or_else(|error| panic!("{error}")).expect("something is lost");
        assert!(note.exists() && text.contains("Snapshot 2 cannot be read"), "{text}");
        assert!(accept().unwrap_or_else(|error| panic!("{error}")).is_none(), "it is accepted once");
        let mut node = open(Durability::Sync, dir);
        assert_eq!(node.contents(), first);
        fill(&mut node, 350, 355);
        let older = node.contents();
        drop(node);
        // The log continues the older state: files that are put back do not count again.
        copies.iter().for_each(|(path, bytes)| fs::write(path, bytes).expect("it is ours"));
        for durability in [Durability::Sync, Durability::Memory] {
            let refused = Node::open_as(durability, Arc::new(RealDisk), dir, 2).err();
            assert!(matches!(refused, Some(StartError::CameBack { snapshot: 2 })), "{refused:?}");
        }
        assert!(matches!(accept(), Err(StartError::CameBack { snapshot: 2 })));
        copies.iter().for_each(|(path, _)| fs::remove_file(path).expect("it is there"));
        assert_eq!(found(Durability::Sync, dir), older);
        let mut node = open(Durability::Memory, dir);
        fill(&mut node, 400, 410);
        node.save().expect("a healthy disk");
        let there = node.contents();
        node.close();
        assert_eq!(found(Durability::Sync, dir), there);
    }
}

/// What came to nothing after it does not hide that it cannot be read: a snapshot that was never
/// complete, and the record that tells so.
#[test]
fn a_damaged_snapshot_is_missed_whatever_came_to_nothing_after_it() {
    for (removed, started) in [(false, false), (false, true), (true, false), (true, true)] {
        let home = tempfile::tempdir().expect("a temporary directory");
        let dir = home.path();
        logged(dir, true);
        let mut node = open(Durability::Memory, dir);
        fill(&mut node, 100, 110);
        node.save().expect("a healthy disk");
        let complete = node.contents();
        fill(&mut node, 200, 210);
        drop(node.take_snapshot());
        drop(node);
        if started {
            let node = open(Durability::Memory, dir);
            assert_eq!(node.contents(), complete);
            node.close();
        }
        if removed {
            // It looks like one that was never complete.
            fs::remove_file(snapshot_file(dir, "snapshot-0000000002.manifest")).expect("it is there");
        } else {
            // Its record suffices.
            fs::remove_file(dir.join(unlogged::NEWEST_FILE)).expect("it is there");
            let path = snapshot_file(dir, "snapshot-0000000002-p0001.rows");
            let mut bytes = fs::read(&path).expect("it is there");
            bytes[5_000] ^= 1;
            fs::write(&path, &bytes).expect("it is ours");
        }
        for durability in [Durability::Memory, Durability::Sync, Durability::None] {
            let refused = Node::open_as(durability, Arc::new(RealDisk), dir, 2).err();
            let said = format!("removed {removed}, started {started}: {refused:?}");
            assert!(matches!(refused, Some(StartError::NoRedoBefore { snapshot: 2 })), "{said}");
        }
        let accepted = loss::accept_loss(Arc::new(RealDisk), Arc::new(SystemClock), dir, None, &|_| {});
        assert!(accepted.unwrap_or_else(|error| panic!("{error}")).is_some(), "something is lost");
        let older = found(Durability::Memory, dir);
        assert!(older != complete && older.len() < complete.len());
    }
}

/// A cluster that such a database has begun: its nodes have everything, and a copy without its
/// beginning is not taken for complete.
#[test]
fn a_member_misses_the_snapshot_that_its_log_does_not_lead_to() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path();
    two_snapshots(dir);
    let known = Identity::read(&RealDisk, dir).expect("a healthy disk").expect("it has run");
    Identity { cluster: [1; 16], ..known }.write(&RealDisk, dir).expect("a healthy disk");
    drop(open_member(dir, 2).unwrap_or_else(|error| panic!("{error}")));
    fs::remove_file(snapshot_file(dir, "snapshot-0000000002.manifest")).expect("it is there");
    let refused = open_member(dir, 2).err();
    assert!(matches!(refused, Some(StartError::Installed { snapshot: 2 })), "{refused:?}");
    // Without the cluster it lacks the same.
    let left = loss::leave_others(Arc::new(RealDisk), Arc::new(SystemClock), dir, &|_| {});
    assert!(matches!(left, Err(StartError::Installed { snapshot: 2 })), "{left:?}");
}
