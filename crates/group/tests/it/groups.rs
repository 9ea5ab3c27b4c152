//! Several groups whose entries are in one log.

use ferrite_base::{Epoch, GroupId, Incarnation, NodeId};
use ferrite_group::{Committing, EntryBuffer, GroupAppender, GroupPlace, NotCommitted, Party};
use ferrite_io::Disk;
use ferrite_io::simulated::{SimulatedClock, SimulatedDisk};
use ferrite_log::{BlockPlace, Log, LogOptions};
use ferrite_replica::group::Member;
use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex};

struct Told {
    number: u32,
    heard: Arc<Mutex<Vec<u32>>>,
}

impl Party for Told {
    fn complete(self, _: Vec<u8>, outcome: Result<(), NotCommitted>) {
        outcome.expect("a healthy log takes it");
        self.heard.lock().expect("no panic").push(self.number);
    }
}

/// One fsync is noted once by each group: not once for each of its entries, as they alternate.
#[test]
fn a_group_hears_at_once_of_all_that_one_fsync_made_durable() {
    let clock = SimulatedClock::default();
    let disk = SimulatedDisk::new(1, clock.clone());
    disk.create_dir(Path::new("/node")).expect("a healthy disk");
    let options = LogOptions { own_threads: false, prepare_ahead: false, ..LogOptions::default() };
    let visit = |_: BlockPlace<'_>, _: &[u8]| Ok::<(), Infallible>(());
    let opened = Log::open(Arc::new(disk), Arc::new(clock.clone()), Path::new("/node"), options, visit);
    let log: Log<Committing<Told>> = opened.expect("a healthy disk").0;
    let here = Member { node: NodeId(1), incarnation: Incarnation(1) };
    let groups: Vec<GroupAppender<Told>> = (0..3)
        .map(|id| {
            let place = GroupPlace::before_the_first(Epoch(0), here);
            GroupAppender::alone(GroupId(id), here, place, log.appender(), Arc::new(clock.clone()))
        })
        .collect();
    let heard: Arc<Mutex<Vec<u32>>> = Arc::default();
    for number in [0, 1, 2, 10, 20, 11, 21, 12, 22] {
        let mut records = EntryBuffer::default();
        records.records().extend_from_slice(b"of no kind");
        let party = Told { number, heard: Arc::clone(&heard) };
        groups[number as usize % 10].append(records, party);
    }
    while log.step() {}
    assert_eq!(*heard.lock().expect("no panic"), [0, 10, 20, 1, 11, 21, 2, 12, 22]);
}
