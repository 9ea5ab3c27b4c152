//! A node that has nothing, too little, or another history gets a leader's snapshot while it runs
//! and clients go on writing: in the end it has what the leader has, with row ids, whatever was
//! lost on the way, whoever crashed, and whoever leads.
//!
//! `INSTALL_SEEDS=300` runs more seeds; `INSTALL_SEED=17` runs one.

use crate::learner::{Learner, NODE};
use crate::stepped::{Database, Outside, copy_files};
use crate::work::{CHANGES, SCHEMA, statement};
use ferrite_base::{NodeId, Position};
use ferrite_group::{CatchUp, CatchUpError, FIRST_GROUP, GroupPlace, Missed, Wanted, message};
use ferrite_io::RealDisk;
use ferrite_io::simulated::{Restart, SimulatedClock, SimulatedRandom};
use ferrite_partition::snapshots::DIRECTORY;
use ferrite_replica::group::{Envelope, GroupConfiguration, Mark, Member, Message};
use ferrite_snapshot::Files;
use ferrite_snapshot::transfer::{Sending, SendingStep, decode};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const PARTITIONS: u32 = 3;

/// What the node has when it joins.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Begins {
    Empty,
    /// Older than the leader's log.
    Behind,
    /// It has executed what no leader has.
    Elsewhere,
}

struct World {
    random: SimulatedRandom,
    clock: SimulatedClock,
    root: tempfile::TempDir,
    dir: PathBuf,
    leader: Database,
    /// How the learner knows it.
    configuration: GroupConfiguration,
    leaders: u32,
    sending: Sending,
    learner: Learner,
    to_learner: Vec<Vec<u8>>,
    round: u64,
    changes: [usize; CHANGES.len()],
    quiet: bool,
    counts: Counts,
}

#[derive(Default, Debug)]
struct Counts {
    snapshots: u64,
    installs: u64,
    learner_crashes: u64,
    leader_crashes: u64,
    leaders: u64,
    supplied: u64,
    /// Snapshots that the learner has taken itself.
    cuts: u64,
    /// Damaged files of its snapshots, and those without which it did not start.
    rot: u64,
    rot_refused: u64,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.snapshots += other.snapshots;
        self.installs += other.installs;
        self.learner_crashes += other.learner_crashes;
        self.leader_crashes += other.leader_crashes;
        self.leaders += other.leaders;
        self.supplied += other.supplied;
        self.cuts += other.cuts;
        self.rot += other.rot;
        self.rot_refused += other.rot_refused;
    }
}

fn member(node: u32, place: &GroupPlace) -> GroupConfiguration {
    GroupConfiguration::alone(place.end.epoch, Member::new(node, 1))
}

impl World {
    fn new(seed: u64, begins: Begins) -> World {
        let mut random = SimulatedRandom::new(seed.wrapping_mul(0x5851_f42d_4c95_7f2d) | 1);
        let root = tempfile::tempdir().expect("a temporary directory");
        let dir = root.path().join("leader-1");
        std::fs::create_dir(&dir).expect("a directory");
        let mut leader = Database::leader_with(&dir, PARTITIONS, seed, outside());
        let clock = SimulatedClock::default();
        let (status, text) = leader.change_schema(SCHEMA);
        assert_eq!(status, 1, "{text}");
        let mut learner = Learner::new(seed ^ 0x33, &clock, leader.database(), PARTITIONS);
        let sending = Sending::new(files(&dir), NodeId(1), 1 << 20).with_chunk_bytes(20_000);
        let mut changes = [0; CHANGES.len()];
        if begins != Begins::Empty {
            for _ in 0..random.below(20) {
                work(&mut random, &mut changes, &mut leader);
            }
            if random.below(2) == 0 {
                leader.save();
            }
            leader.settle();
            let early = root.path().join("early");
            copy_files(&dir, &early);
            if begins == Begins::Elsewhere {
                let mut other = Database::copy_with(&early, PARTITIONS, seed + 1, outside());
                other.promote();
                let mut changes = changes;
                for _ in 0..1 + random.below(10) {
                    work(&mut random, &mut changes, &mut other);
                }
                other.close();
            }
            learner.import(&early);
        }
        learner.make();
        learner.start();
        let configuration = member(1, &leader.place());
        let mut world = World {
            random,
            clock,
            root,
            dir,
            leader,
            configuration,
            leaders: 1,
            sending,
            learner,
            to_learner: Vec::new(),
            round: 0,
            changes,
            quiet: false,
            counts: Counts::default(),
        };
        if begins == Begins::Elsewhere {
            // The other node began an epoch of its own; the leaders begin two more.
            world.other_leader();
            world.other_leader();
        }
        for _ in 0..10 + world.below(20) {
            world.work();
        }
        if begins != Begins::Empty {
            // Two more snapshots let go of what was before.
            for _ in 0..3 {
                world.leader.save();
                for _ in 0..20 {
                    world.work();
                }
            }
        }
        world.learner.with(|_| ());
        world.tell_configuration();
        world
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.below(end)
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.random.below(100) < percent
    }

    fn now(&self) -> u64 {
        use ferrite_io::Clock;
        self.clock.monotonic_nanos()
    }

    fn work(&mut self) {
        work(&mut self.random, &mut self.changes, &mut self.leader);
    }

    fn tell_configuration(&mut self) {
        let configuration = self.configuration.clone();
        self.learner.with(|running| running.configured(configuration));
    }

    /// Another node, with the same stream, leads from here on.
    fn other_leader(&mut self) {
        self.leader.settle();
        self.leaders += 1;
        self.counts.leaders += 1;
        let to = self.root.path().join(format!("leader-{}", self.leaders));
        copy_files(&self.dir, &to);
        let mut next = Database::copy_with(&to, PARTITIONS, u64::from(self.leaders), outside());
        next.promote();
        self.leader = next;
        self.dir = to;
        self.configuration = member(self.leaders + 2, &self.leader.place());
        self.new_sending();
        self.tell_configuration();
    }

    fn crash_leader(&mut self) {
        self.leader.settle();
        self.counts.leader_crashes += 1;
        let dir = self.dir.clone();
        let empty = self.root.path().join("empty");
        // The directory is locked as long as its process lives.
        self.leader = Database::leader(&empty, PARTITIONS, 1);
        self.leader = Database::leader_with(&dir, PARTITIONS, self.random.number(), outside());
        self.new_sending();
    }

    fn new_sending(&mut self) {
        let here = self.configuration.leader.node;
        self.sending = Sending::new(files(&self.dir), here, 1 << 20).with_chunk_bytes(20_000);
    }

    fn step(&mut self) {
        let micros = self.below(20_000);
        self.clock.advance(Duration::from_micros(micros));
        if self.learner.running.is_none() && self.percent(10) {
            self.start_learner();
        }
        match self.below(1_000) {
            _ if self.quiet => {}
            0..4 => {
                self.counts.learner_crashes += 1;
                let restart = if self.percent(50) { Restart::Power } else { Restart::Process };
                self.learner.crash(restart);
                self.check_rot();
            }
            4..10 => {
                self.counts.learner_crashes += 1;
                self.learner.crash_soon(&mut self.random);
            }
            10..12 => self.crash_leader(),
            12..14 => self.other_leader(),
            14..17 => self.leader.save(),
            17..50 => self.work(),
            50..60 => {
                self.learner.with(|running| running.due = true);
            }
            _ => {}
        }
        match self.below(10) {
            0 => self.heartbeat(),
            1..4 => self.send(),
            4..7 => self.deliver(),
            _ => {
                for _ in 0..8 {
                    let random = &mut self.random;
                    self.learner.with(|running| running.step(random));
                }
            }
        }
        self.answers();
    }

    /// Without one of its files, a snapshot is missed, or its stream is as long as with it.
    fn check_rot(&mut self) {
        let directory = Path::new(crate::learner::DIR).join(DIRECTORY);
        let files: Vec<_> = self.learner.disk.files().into_iter().filter(|path| path.starts_with(&directory)).collect();
        if files.is_empty() {
            return;
        }
        let path = self.random.pick(&files).clone();
        let bytes = self.learner.disk.bytes_of(&path).map_or(0, |bytes| bytes.len() as u64);
        let position = self.below(bytes.max(1));
        let mut ends = Vec::new();
        for rots in [false, true] {
            let disk = self.learner.disk.copy(1);
            if rots {
                disk.rot(&path, position, 3);
                self.counts.rot += 1;
            }
            let mut node = self.learner.on(disk);
            match node.try_start() {
                Ok(()) => ends.extend(node.with(|running| running.replication.place().end)),
                Err(_) if rots => {
                    self.counts.rot_refused += 1;
                    return;
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(ends[0], ends[1], "byte {position} of {} is damaged", path.display());
    }

    fn start_learner(&mut self) {
        self.learner.start();
        self.tell_configuration();
    }

    /// The leader asks where the node stands, and says what is committed.
    fn heartbeat(&mut self) {
        self.leader.settle();
        let end = self.leader.place().end;
        self.append(end, &[], end.position);
    }

    fn append(&mut self, previous: Mark, entries: &[u8], commit: Position) {
        self.round += 1;
        let message = Message::Append { previous, entries: Vec::new(), commit, round: self.round };
        let GroupConfiguration { epoch, leader, .. } = self.configuration;
        let mut out = vec![0];
        message::encode(&mut out, FIRST_GROUP, &Envelope { from: leader, epoch, message }, entries);
        self.to_learner.push(out);
    }

    fn send(&mut self) {
        let (now, mut out) = (self.now(), vec![1]);
        match self.sending.step(now, &mut out) {
            SendingStep::Message(_) => self.to_learner.push(out),
            SendingStep::Take { above } => {
                self.counts.snapshots += 1;
                let snapshot = self.leader.save_above(above);
                self.sending.snapshot_taken(snapshot, now).expect("a healthy disk");
            }
            SendingStep::Idle | SendingStep::Wait(_) | SendingStep::Done(_) | SendingStep::Silent(_) => {}
            SendingStep::Refused(_, refusal) => panic!("{refusal}"),
            SendingStep::Failed(_, error) => panic!("{error}"),
        }
        self.leader.hold(self.sending.holds());
    }

    fn deliver(&mut self) {
        if self.to_learner.is_empty() {
            return;
        }
        let index = if self.quiet || self.percent(80) { 0 } else { self.below(self.to_learner.len() as u64) as usize };
        let again = !self.quiet && self.percent(5);
        let packet = if again { self.to_learner[index].clone() } else { self.to_learner.remove(index) };
        if !self.quiet && self.percent(5) {
            return;
        }
        self.learner.with(|running| match packet[0] {
            0 => {
                let (_, envelope, entries) = message::decode(&packet[1..]).expect("a message");
                running.replication.handle_message(envelope, entries);
            }
            _ => {
                let (id, message) = decode(&packet[1..]).expect("a message");
                let mut out = Vec::new();
                running.sink.receive(&id, &message, &mut out).expect("a healthy disk");
                running.transfer_messages.extend((!out.is_empty()).then_some(out));
            }
        });
    }

    /// What the learner says to the leader.
    fn answers(&mut self) {
        let said = self.learner.with(|running| {
            let group = std::mem::take(&mut running.group_messages);
            (group, std::mem::take(&mut running.transfer_messages), running.diverged)
        });
        let Some((group, transfer, diverged)) = said else { return };
        let now = self.now();
        if diverged {
            self.sending.want(NODE);
        }
        for bytes in transfer {
            let (id, message) = decode(&bytes).expect("a message");
            if !self.quiet && self.percent(5) {
                continue;
            }
            self.sending.receive(NODE, &id, &message, now);
        }
        let Some(last) = group.last() else { return };
        let (_, envelope, _) = message::decode(last).expect("a message");
        if envelope.epoch != self.configuration.epoch {
            return;
        }
        let place = self.leader.place();
        match envelope.message {
            Message::Mismatch { history, end, .. } => {
                let common = place.history.common_end(place.end.position, &history, end);
                if common == Position(0) {
                    self.sending.want(NODE);
                } else {
                    self.supply(common);
                }
            }
            Message::Acked { durable, .. } if durable.position < place.end.position => self.supply(durable.position),
            // It has come there by itself.
            Message::Acked { .. } => self.sending.forget(NODE),
            _ => {}
        }
    }

    /// Some entries from the leader's log.
    fn supply(&mut self, after: Position) {
        let place = self.leader.place();
        let mut reader = CatchUp::behind_position(&self.leader.log_index(), FIRST_GROUP, after);
        let wanted = Wanted { up_to: place.end.position, bytes: 50_000, durable: place.end.position };
        let mut sent = 0;
        while sent < 60 {
            let found = match reader.step(&place.history, wanted) {
                Ok(Missed::Entries { previous, entries, .. }) => Some((previous, entries.to_vec())),
                Ok(Missed::Working) => None,
                Ok(Missed::End) => return,
                Err(CatchUpError::Removed) => {
                    self.sending.want(NODE);
                    return;
                }
                Err(error) => panic!("{error}"),
            };
            if let Some((previous, entries)) = found {
                (sent, self.counts.supplied) = (sent + 1, self.counts.supplied + 1);
                self.append(previous, &entries, place.end.position);
            }
        }
    }

    fn has_all(&mut self) -> bool {
        let end = self.leader.place().end.position;
        self.learner.with(|running| running.applied() == end && !running.diverged) == Some(true)
    }

    fn settle(&mut self) {
        self.quiet = true;
        self.learner.disk.crash_at(None);
        if self.learner.running.is_none() {
            self.start_learner();
        }
        for _ in 0..40_000 {
            self.step();
            if self.learner.running.is_none() {
                self.start_learner();
            }
            if self.has_all() {
                return;
            }
        }
        let state = self.learner.with(|running| running.state());
        let (packets, sending) = (self.to_learner.len(), self.sending.progress());
        let place = self.leader.place();
        panic!("no rest: {:?}, {packets} packets, {sending:?}, the leader has {place:?}; {state:?}", self.counts);
    }

    fn compare(&mut self) {
        let expected = self.leader.contents();
        let found = loop {
            let random = &mut self.random;
            if self.learner.with(|running| running.step(random)) == Some(false) {
                break self.learner.with(|running| running.contents()).expect("it runs");
            }
        };
        for (line, (expected, found)) in expected.iter().zip(&found).enumerate() {
            assert_eq!(expected, found, "line {line}");
        }
        assert_eq!(expected.len(), found.len());
    }

    fn run(mut self) -> Counts {
        for _ in 0..400 + self.below(2_500) {
            self.step();
        }
        self.settle();
        self.compare();
        // Not all of it stands in its log.
        self.learner.with(|running| running.due = true);
        self.compare();
        // What it has it has on its own disk.
        self.to_learner.clear();
        self.sending.stop();
        let (supplied, snapshots) = (self.counts.supplied, self.counts.snapshots);
        self.learner.crash(Restart::Power);
        self.start_learner();
        self.settle();
        self.compare();
        assert_eq!(
            (supplied, snapshots),
            (self.counts.supplied, self.counts.snapshots),
            "it needs nothing from others"
        );
        (self.counts.installs, self.counts.cuts) = (self.learner.installs, self.learner.cuts);
        self.counts
    }
}

/// Small segments, so that snapshots let go of some.
fn outside() -> Outside {
    Outside { segment_bytes: 256 << 10, ..Outside::default() }
}

fn files(dir: &std::path::Path) -> Files {
    Files::new(Arc::new(RealDisk), &dir.join(DIRECTORY))
}

fn work(random: &mut SimulatedRandom, changes: &mut [usize; CHANGES.len()], database: &mut Database) {
    if random.below(12) == 0 {
        let row = random.below(CHANGES.len() as u64) as usize;
        let text = CHANGES[row][changes[row] % 2].trim_end_matches("; INSERT");
        let (status, told) = database.change_schema(text);
        assert_eq!(status, 1, "{text}: {told}");
        changes[row] += 1;
    } else {
        let kinds = if changes[4].is_multiple_of(2) { "kinds" } else { "sorts" };
        let text = statement(random, kinds);
        // Some break a constraint.
        database.call(&text);
    }
}

fn run(begins: Begins, seeds: u64) {
    let number = |name: &str, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let first = number("INSTALL_SEED", 1);
    let mut total = Counts::default();
    for seed in first..first + number("INSTALL_SEEDS", seeds) {
        println!("{begins:?}, seed {seed}");
        total.add(&World::new(seed, begins).run());
    }
    println!("{begins:?}: {total:?}");
    assert!(total.installs > 0 && total.cuts > 0, "{total:?}");
}

#[test]
fn a_node_without_anything_gets_a_snapshot() {
    run(Begins::Empty, 6);
}

#[test]
fn a_node_behind_the_logs_end_gets_a_snapshot() {
    run(Begins::Behind, 6);
}

#[test]
fn a_node_with_another_history_gets_a_snapshot() {
    run(Begins::Elsewhere, 6);
}

/// What it would show is no place in a stream.
#[test]
fn a_copy_whose_stream_is_empty_takes_no_snapshot() {
    let mut world = World::new(1, Begins::Empty);
    let random = &mut world.random;
    world.learner.with(|running| {
        running.due = true;
        while running.step(random) {}
        assert!(!running.due && running.cuts == 0);
    });
    for restart in [Restart::Process, Restart::Power] {
        world.learner.crash(restart);
        world.start_learner();
    }
    world.settle();
    world.compare();
}

/// Where it cannot be read any more, what stood before it is not taken for the node's data.
#[test]
fn a_damaged_snapshot_of_another_node_is_not_passed_over() {
    let mut world = World::new(1, Begins::Empty);
    world.settle();
    world.compare();
    world.learner.crash(Restart::Process);
    let disk = world.learner.disk.clone();
    let is_its_own =
        |path: &&PathBuf| path.starts_with(crate::learner::DIR) && path.ends_with("snapshot-0000000001-p0001.rows");
    let path = disk.files().iter().find(is_its_own).expect("it has the snapshot").clone();
    disk.rot(&path, 6_000, 3);
    let error = world.learner.try_start().expect_err("its data begins with that");
    let expected = "snapshot 1, with which this node's data begins, cannot be read, and the log before it does not lead to it. \
                    Where other nodes of its cluster have everything, write the word anew into the file unsynced in the \
                    node's directory and start the node again: it puts its data aside and gets everything from the leader";
    assert_eq!(error.to_string(), expected);
}
