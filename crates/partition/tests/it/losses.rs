//! An operator accepts a loss, and the power goes at any moment of that: before and after each
//! change of the disk.

use crate::common::{Node, SCHEMA, fill, fill_watched, open_member_on};
use ferrite_group::Identity;
use ferrite_io::simulated::{CrashPoint, Restart, SimulatedDisk};
use ferrite_io::{Disk, OpenMode, SystemClock};
use ferrite_partition::loss;
use ferrite_partition::recovery::StartError;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DIR: &str = "/base";
/// By which a cluster's node knows that it is no complete copy.
const MARK: &str = "/base/incomplete";

fn open(disk: &SimulatedDisk) -> Result<Node, StartError> {
    Node::open(Arc::new(disk.clone()), Path::new(DIR), 2)
}

/// A database with a snapshot, whose log cannot be read somewhere behind it, or where the next one
/// begins; and what it has been.
fn damaged(at_checkpoint: bool) -> (SimulatedDisk, Vec<Vec<String>>) {
    let disk = SimulatedDisk::healthy();
    disk.create_dir(Path::new(DIR)).expect("a healthy disk");
    let mut node = open(&disk).unwrap_or_else(|error| panic!("{error}"));
    node.ddl(SCHEMA);
    fill(&mut node, 0, 50);
    node.save().expect("a healthy disk");
    let mut histories = vec![node.contents()];
    fill_watched(&mut node, 50, 90, &mut |node| histories.push(node.contents()));
    let segments = |disk: &SimulatedDisk| -> Vec<PathBuf> {
        disk.files().into_iter().filter(|path| path.extension().is_some_and(|end| end == "log")).collect()
    };
    let (mut damaged, mut position) =
        (segments(&disk).into_iter().rev().nth(1).expect("there are several"), 4 * 4_096 + 1);
    if at_checkpoint {
        node.save().expect("a healthy disk");
        // Where the newer snapshot begins: it is what is left, and nothing behind it.
        let snapshots = ferrite_snapshot::Files::new(Arc::new(disk.clone()), &Path::new(DIR).join("snapshots"));
        let place = snapshots.manifest(&ferrite_snapshot::own_name(2)).expect("it is whole").log;
        (damaged, position) = (Path::new(DIR).join(format!("redo-{:010}.log", place.segment)), place.position + 60);
        fill_watched(&mut node, 90, 95, &mut |node| histories.push(node.contents()));
    }
    node.close();
    disk.rot(&damaged, position, 0);
    (disk, histories)
}

fn accept(disk: &SimulatedDisk, of_cluster: bool) -> Result<bool, StartError> {
    let is_incomplete = || {
        let file = disk.open(Path::new(MARK), OpenMode::Create)?;
        file.write_at(b"lost", 0).and_then(|()| file.sync_data()).and_then(|()| disk.sync_dir(Path::new(DIR)))
    };
    let marks: Option<&dyn Fn() -> _> = if of_cluster { Some(&is_incomplete) } else { None };
    let outcome = loss::accept_loss(Arc::new(disk.clone()), Arc::new(SystemClock), Path::new(DIR), marks, &|_| {});
    outcome.map(|outcome| outcome.is_some())
}

/// None: the loss is still to be accepted.
fn starts(disk: &SimulatedDisk, of_cluster: bool) -> Option<Vec<String>> {
    let node = if of_cluster {
        open_member_on(Arc::new(disk.clone()), Path::new(DIR), 2).map(|member| Node(member.recovered))
    } else {
        open(disk)
    };
    match node {
        Ok(node) => Some(node.contents()),
        Err(StartError::Rot(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

fn power_goes_anywhere(of_cluster: bool, at_checkpoint: bool) {
    let (base, histories) = damaged(at_checkpoint);
    if of_cluster {
        let identity = Identity { cluster: [1; 16], ..Identity::alone() };
        identity.write(&base, Path::new(DIR)).expect("a healthy disk");
    }
    let (mut crashes, mut undone, mut done) = (0, 0, 0);
    // The cut is among the first; behind it the log goes on as at any start.
    for within in (1..60).chain((60..).step_by(100)) {
        for after in [false, true] {
            let disk = base.copy(within);
            disk.crash_at(Some(CrashPoint { boundary: disk.boundaries() + within, after }));
            let first = accept(&disk, of_cluster);
            if !disk.has_halted() {
                assert!(first.unwrap_or_else(|error| panic!("{error}")), "something is lost");
                assert!(crashes > 10 && undone > 0 && done > 0, "{crashes} crashes, {undone} and {done}");
                return;
            }
            crashes += 1;
            disk.restart(Restart::Power);
            let what = format!("the power went {} change {within}", if after { "after" } else { "before" });
            let contents = starts(&disk, of_cluster);
            if contents.is_some() {
                done += 1;
                let knows = !of_cluster || disk.files().iter().any(|path| path == Path::new(MARK));
                assert!(knows, "{what}: a node that lacks something takes itself for complete");
            } else {
                undone += 1;
                accept(&disk, of_cluster).unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            let again = starts(&disk, of_cluster).unwrap_or_else(|| panic!("{what}: accepted, and refused again"));
            // Of a cluster's node only that is applied which is known to be committed.
            assert!(of_cluster || histories.contains(&again), "{what}: what is left never was");
            assert!(contents.is_none_or(|before| before == again), "{what}: a start changes it");
        }
    }
}

#[test]
fn a_single_node_has_what_once_was_wherever_the_power_goes() {
    power_goes_anywhere(false, false);
    power_goes_anywhere(false, true);
}

#[test]
fn a_node_of_a_cluster_knows_that_it_is_not_complete_wherever_the_power_goes() {
    power_goes_anywhere(true, false);
    power_goes_anywhere(true, true);
}
