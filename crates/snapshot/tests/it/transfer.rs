//! A snapshot on its way from one simulated disk to another: messages are lost, repeated and
//! reordered, either side loses its power at every step, the peer lies.

pub mod made;
mod small;

use ferrite_base::NodeId;
use ferrite_base::limits::{DISK_RESERVE_BYTES, TRANSFER_CHUNK_BYTES, TRANSFER_CHUNKS_AHEAD};
use ferrite_io::Disk;
use ferrite_io::simulated::{CrashPoint, Fault, FaultKind, Restart, SimulatedDisk};
use ferrite_snapshot::transfer::{
    FileOffset, Refusal, Sink, SinkProgress, Source, SourceStep, TransferId, TransferMessage, decode, encode,
};
use ferrite_snapshot::{Files, Manifest, SnapshotError, own_name};
use made::*;
use proptest::prelude::*;
use small::Small;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Two nodes and what is on its way between them.
struct World {
    from: SimulatedDisk,
    to: SimulatedDisk,
    manifest: Manifest,
    source: Source,
    sink: Option<Sink>,
    to_sink: Vec<Vec<u8>>,
    to_source: Vec<Vec<u8>>,
    now: u64,
    /// Bytes of chunks that were sent.
    sent: u64,
    random: u64,
    /// Of so many messages, one is lost, one repeated, one overtaken; 0: none.
    trouble: u64,
}

impl World {
    fn new(from: &SimulatedDisk, manifest: &Manifest, seed: u64, trouble: u64) -> World {
        let to = disk(seed);
        let source = begun(from, manifest, u64::MAX, 0);
        let sink = Some(Sink::open(files(&to, TO), DATABASE).expect("a healthy disk"));
        let (to_sink, to_source) = (Vec::new(), Vec::new());
        let manifest = manifest.clone();
        World {
            from: from.clone(),
            to,
            manifest,
            source,
            sink,
            to_sink,
            to_source,
            now: 0,
            sent: 0,
            random: seed | 1,
            trouble,
        }
    }

    fn chance(&mut self, of: u64) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        of > 0 && self.random.is_multiple_of(of)
    }

    fn deliver(&mut self, message: Vec<u8>, forth: bool) {
        let (lost, twice, early) = (self.chance(self.trouble), self.chance(self.trouble), self.chance(self.trouble));
        let queue = if forth { &mut self.to_sink } else { &mut self.to_source };
        if lost {
            return;
        }
        if twice {
            queue.push(message.clone());
        }
        let at = if early { queue.len() / 2 } else { queue.len() };
        queue.insert(at, message);
    }

    /// One step of everybody. An error of the sink's disk: what it was.
    fn tick(&mut self) -> Result<SourceStep, SnapshotError> {
        let mut out = Vec::new();
        let step = self.source.step(self.now, &mut out).expect("the source's disk is healthy");
        match &step {
            SourceStep::Message => {
                if let (_, TransferMessage::Chunk { bytes, .. }) = decode(&out).expect("what was encoded") {
                    self.sent += bytes.len() as u64;
                }
                self.deliver(out, true);
            }
            SourceStep::Wait(time)
                if self.to_sink.is_empty()
                    && self.to_source.is_empty()
                    && self.sink.as_ref().is_some_and(|sink| sink.progress() != SinkProgress::Working) =>
            {
                self.now += time.as_nanos() as u64;
            }
            _ => {}
        }
        let mut answer = Vec::new();
        if !self.to_sink.is_empty() {
            let message = self.to_sink.remove(0);
            let (id, message) = decode(&message).expect("what was encoded");
            let outcome = self.sink.as_mut().expect("it runs").receive(&id, &message, &mut answer);
            self.answer(std::mem::take(&mut answer));
            outcome?;
        }
        let outcome = self.sink.as_mut().expect("it runs").step(&mut answer);
        self.answer(answer);
        outcome?;
        if !self.to_source.is_empty() {
            let message = self.to_source.remove(0);
            let (id, message) = decode(&message).expect("what was encoded");
            self.source.receive(&id, &message, self.now);
        }
        Ok(step)
    }

    fn answer(&mut self, answer: Vec<u8>) {
        if !answer.is_empty() {
            self.deliver(answer, false);
        }
    }

    /// Until the source knows how it has ended. Crashes of the sink's node are survived.
    fn run(&mut self) -> SourceStep {
        for _ in 0..200_000 {
            match self.tick() {
                Ok(ended @ (SourceStep::Installed | SourceStep::Loaded | SourceStep::Refused(_))) => return ended,
                Ok(SourceStep::Message | SourceStep::Wait(_)) => {}
                Err(_) if self.to.has_halted() => self.restart_sink(Restart::Power),
                Err(error) => panic!("{error}"),
            }
        }
        panic!("it does not end")
    }

    fn restart_sink(&mut self, restart: Restart) {
        self.sink = None;
        self.to.crash_at(None);
        self.to.restart(restart);
        check_if_it_counts(&self.to, &self.manifest);
        self.sink = Some(Sink::open(files(&self.to, TO), DATABASE).expect("a healthy disk"));
    }

    fn check_installed(&mut self) {
        // A sink that was just restarted looks first.
        while self.sink.as_ref().unwrap().progress() == SinkProgress::Working {
            self.sink.as_mut().unwrap().step(&mut Vec::new()).expect("a healthy disk");
        }
        assert_eq!(self.sink.as_ref().unwrap().progress(), SinkProgress::Installed(self.source.id()));
        assert!(check_if_it_counts(&self.to, &self.manifest));
        assert_eq!(contents(&self.from, FROM), contents(&self.to, TO));
        // And it outlives everything.
        self.to.restart(Restart::Power);
        assert!(check_if_it_counts(&self.to, &self.manifest));
        assert_eq!(contents(&self.from, FROM), contents(&self.to, TO));
    }

    fn bytes(&self) -> u64 {
        self.manifest.bytes() + self.manifest.encode().len() as u64
    }
}

#[test]
fn what_arrives_is_what_was_sent_and_each_byte_is_sent_once() {
    let from = disk(1);
    let manifest = make(&from, FROM, 7, 60);
    assert!(manifest.files.iter().all(|file| file.blocks > 8 && file.bytes > 8 * CHUNK as u64));
    let mut world = World::new(&from, &manifest, 2, 0);
    assert_eq!(world.run(), SourceStep::Installed);
    world.check_installed();
    assert_eq!(world.sent, world.bytes());
    assert_eq!(world.source.progress().1, world.bytes());
    // Whoever offers it again is told that it is there.
    let mut again = begun(&from, &manifest, u64::MAX, 0);
    std::mem::swap(&mut again, &mut world.source);
    world.restart_sink(Restart::Process);
    assert_eq!((world.run(), world.sent), (SourceStep::Installed, world.bytes()));
}

#[test]
fn messages_that_are_lost_repeated_and_reordered_are_made_up_for() {
    let from = disk(1);
    let manifest = make(&from, FROM, 7, 60);
    for seed in 0..60 {
        let mut world = World::new(&from, &manifest, seed, 3 + seed % 20);
        assert_eq!(world.run(), SourceStep::Installed, "seed {seed}");
        world.check_installed();
    }
}

/// Power is lost before and after every operation of the sink's disk.
#[test]
fn a_sink_that_loses_power_anywhere_goes_on() {
    let from = disk(1);
    let manifest = make(&from, FROM, 7, 24);
    let mut whole = World::new(&from, &manifest, 2, 0);
    let first = whole.to.boundaries();
    whole.run();
    let boundaries = whole.to.boundaries();
    assert!(boundaries > first + 40, "{boundaries} boundaries");
    let mut sent = 0;
    for boundary in first + 1..=boundaries {
        for after in [false, true] {
            let mut world = World::new(&from, &manifest, boundary, 0);
            world.to.crash_at(Some(CrashPoint { boundary, after }));
            assert_eq!(world.run(), SourceStep::Installed, "boundary {boundary}, {after}");
            world.check_installed();
            sent += world.sent;
        }
    }
    // What was there stayed: much less was sent again than half of everything each time.
    let (runs, bytes) = (2 * (boundaries - first), whole.bytes());
    assert!(sent < runs * (bytes + bytes / 2), "{sent} bytes in {runs} transfers of {bytes}");
}

#[test]
fn both_sides_are_restarted_again_and_again() {
    let from = disk(1);
    let manifest = make(&from, FROM, 7, 60);
    for seed in 1..40 {
        let mut world = World::new(&from, &manifest, seed, 30);
        let (mut restarts, mut ended) = (0, false);
        while !ended {
            match world.tick() {
                Ok(SourceStep::Installed) => ended = true,
                Ok(SourceStep::Refused(refusal)) => panic!("{refusal}"),
                Ok(_) => {}
                Err(error) => panic!("{error}"),
            }
            if restarts < 30 && world.chance(100) {
                restarts += 1;
                if world.chance(2) {
                    world.source = begun(&from, &manifest, u64::MAX, world.now);
                } else {
                    let restart = if world.chance(2) { Restart::Power } else { Restart::Process };
                    world.to.halt();
                    world.restart_sink(restart);
                }
                if world.chance(2) {
                    world.to_sink.clear();
                    world.to_source.clear();
                }
            }
        }
        world.check_installed();
    }
}

/// A disk that fails is not believed: what is on it is looked at again.
#[test]
fn failures_of_the_sinks_disk_are_survived() {
    let from = disk(1);
    let manifest = make(&from, FROM, 7, 24);
    for kind in [FaultKind::Read, FaultKind::Write, FaultKind::Sync, FaultKind::Name] {
        for at in (1..200).step_by(if kind == FaultKind::Sync { 1 } else { 7 }) {
            let mut world = World::new(&from, &manifest, at, 0);
            let at = world.to.count(kind) + at;
            world.to.fail(Fault { kind, at, times: 1, error: Fault::EIO, short: 100 });
            let ended = loop {
                match world.tick() {
                    Ok(ended @ (SourceStep::Installed | SourceStep::Refused(_))) => break ended,
                    Ok(_) | Err(SnapshotError::Disk(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            };
            assert_eq!(ended, SourceStep::Installed);
            world.to.heal();
            world.check_installed();
        }
    }
}

#[test]
fn a_rate_is_kept_and_no_more_is_on_its_way_than_may_be() {
    let from = disk(1);
    let manifest = make(&from, FROM, 7, 60);
    let mut world = World::new(&from, &manifest, 2, 0);
    let rate = 100_000;
    world.source = begun(&from, &manifest, rate, 0);
    assert_eq!(world.run(), SourceStep::Installed);
    let took = Duration::from_nanos(world.now).as_secs_f64();
    let least = (world.bytes() - CHUNK as u64) as f64 / rate as f64;
    assert!((least..least + 1.5).contains(&took), "{took} s for {} bytes", world.bytes());
    // Without an answer the source sends a window, and then only asks.
    let mut source = Source::new(files(&from, FROM), NODE, 7, false, u64::MAX, 0).expect("it is whole");
    source = source.with_chunk_bytes(1_000);
    let id = source.id();
    let (mut now, mut chunks, mut asked) = (0, 0, 0);
    source.receive(&id, &TransferMessage::Acked { at: FileOffset { file: 1, offset: 0 }, again: true }, 0);
    while asked < 5 {
        let mut out = Vec::new();
        match source.step(now, &mut out).expect("a healthy disk") {
            SourceStep::Wait(time) => now += time.as_nanos() as u64,
            SourceStep::Message => match decode(&out).expect("what was encoded").1 {
                TransferMessage::Chunk { .. } => chunks += 1,
                _ => asked += 1,
            },
            ended => panic!("{ended:?}"),
        }
    }
    assert_eq!((chunks, now), (TRANSFER_CHUNKS_AHEAD, 5_000_000_000));
}

/// What a source says of itself, and a sink answers.
fn answers(sink: &mut Sink, id: &TransferId, message: &TransferMessage<'_>) -> Option<TransferMessage<'static>> {
    let mut out = Vec::new();
    sink.receive(id, message, &mut out).expect("a healthy disk");
    let (of, answer) = (!out.is_empty()).then(|| decode(&out).expect("what was encoded"))?;
    assert_eq!(of, *id);
    Some(match answer {
        TransferMessage::Acked { at, again } => TransferMessage::Acked { at, again },
        TransferMessage::Installed => TransferMessage::Installed,
        TransferMessage::Loaded => TransferMessage::Loaded,
        TransferMessage::Refused(refusal) => TransferMessage::Refused(refusal),
        TransferMessage::Install { .. } | TransferMessage::Chunk { .. } => panic!("a sink says neither"),
    })
}

#[test]
fn what_is_not_for_this_node_is_refused_by_name() {
    let to = disk(1);
    let mut sink = Sink::open(files(&to, TO), DATABASE).expect("a healthy disk");
    let id = TransferId { database: DATABASE, node: NODE, snapshot: 7, manifest: 5 };
    let install = |format, anew, sizes: &[u64]| TransferMessage::Install { format, anew, sizes: sizes.to_vec() };
    let sizes = [900, 8_192];
    let refused = |refusal| Some(TransferMessage::Refused(refusal));
    assert_eq!(answers(&mut sink, &id, &install(2, false, &sizes)), refused(Refusal::Format(1)));
    let foreign = TransferId { database: [1; 16], ..id };
    assert_eq!(answers(&mut sink, &foreign, &install(1, false, &sizes)), refused(Refusal::Database));
    for sizes in [&[][..], &[900], &[900, 8_000], &[0, 8_192], &[u64::MAX, 8_192], &[900, u64::MAX - 4_095, 4_096]] {
        assert_eq!(answers(&mut sink, &id, &install(1, false, sizes)), refused(Refusal::Sizes));
    }
    assert_eq!(sink.progress(), SinkProgress::Idle);
    assert_eq!(
        answers(&mut sink, &id, &TransferMessage::Chunk { at: FileOffset { file: 0, offset: 0 }, bytes: b"x" }),
        None
    );
    let begins = Some(TransferMessage::Acked { at: FileOffset { file: 0, offset: 0 }, again: true });
    assert_eq!(answers(&mut sink, &id, &install(1, false, &sizes)), begins);
    assert_eq!(answers(&mut sink, &id, &install(1, true, &sizes)), begins, "said again it begins nothing anew");
    assert_eq!(answers(&mut sink, &id, &install(1, false, &[900, 4_096])), refused(Refusal::Sizes));
    let other = TransferId { node: NodeId(4), ..id };
    assert_eq!(answers(&mut sink, &other, &install(1, false, &sizes)), refused(Refusal::Other(NODE, 7)));
    assert_eq!(answers(&mut sink, &other, &install(1, true, &sizes)), begins);
    assert_eq!(answers(&mut sink, &id, &install(1, false, &sizes)), refused(Refusal::Other(NodeId(4), 7)));
    sink.abandon().expect("a healthy disk");
    assert_eq!((sink.progress(), to.list(Path::new(TO)).unwrap().len()), (SinkProgress::Idle, 0));
    // Sizes are not believed beyond the room that there is.
    let bytes = sizes.iter().sum::<u64>() + DISK_RESERVE_BYTES;
    let small = |free| Files::new(Arc::new(Small { disk: to.clone(), free }), Path::new(TO));
    let mut sink = Sink::open(small(bytes - 1), DATABASE).expect("a healthy disk");
    assert_eq!(answers(&mut sink, &id, &install(1, false, &sizes)), refused(Refusal::NoRoom(bytes)));
    assert_eq!((sink.progress(), to.list(Path::new(TO)).unwrap().len()), (SinkProgress::Idle, 0));
    let mut sink = Sink::open(small(bytes), DATABASE).expect("a healthy disk");
    assert_eq!(answers(&mut sink, &id, &install(1, false, &sizes)), begins);
    assert_eq!(Refusal::NoRoom(9).to_string(), "the node has no room for 9 bytes: free disk space there");
}

/// A source whose file rots: the sink sees it when it reads back, asks once more, and gives up.
#[test]
fn rot_at_the_source_is_refused_and_rot_at_the_sink_is_mended() {
    let from = disk(1);
    let manifest = make(&from, FROM, 7, 24);
    let path = files(&from, FROM).rows_path(&own_name(7), 1);
    let sick = from.copy(9);
    sick.rot(&path, 9_000, 2);
    let mut world = World::new(&sick, &manifest, 2, 0);
    assert_eq!(world.run(), SourceStep::Refused(Refusal::Damaged(2)));
    assert_eq!(Refusal::Damaged(2).to_string(), "the rows of partition 1 are damaged at their source");
    assert!(!check_if_it_counts(&world.to, &manifest));
    // The sink goes on refusing it, also after a restart; another snapshot it takes.
    assert_eq!(world.sink.as_ref().unwrap().progress(), SinkProgress::Refused(Refusal::Damaged(2)));
    let healthy = make(&sick, FROM, 8, 24);
    world.manifest = healthy.clone();
    world.source = Source::new(files(&sick, FROM), NODE, 8, true, u64::MAX, world.now).expect("it is whole");
    assert_eq!(world.run(), SourceStep::Installed);
    assert!(check_if_it_counts(&world.to, &healthy));
    // At the sink, in what an earlier process has left, or in what has just come.
    for restart in [false, true] {
        let mut world = World::new(&from, &manifest, 2, 0);
        let rotten = files(&world.to, TO).rows_path(&own_name(7), 0);
        while world.to.bytes_of(&rotten).is_none_or(|bytes| bytes.len() < 40_000) {
            world.tick().expect("a healthy disk");
        }
        world.to.rot(&rotten, 9_000, 2);
        if restart {
            world.to.halt();
            world.restart_sink(Restart::Process);
        }
        assert_eq!(world.run(), SourceStep::Installed);
        world.check_installed();
    }
}

/// What was left behind of another snapshot with the same number goes.
#[test]
fn another_nodes_snapshot_of_the_same_number_does_not_mix_with_it() {
    let (from, other) = (disk(1), disk(2));
    let manifest = make(&from, FROM, 7, 40);
    let mut world = World::new(&from, &manifest, 2, 0);
    while world.source.progress().0 < world.bytes() / 2 {
        world.tick().expect("a healthy disk");
    }
    let second = make(&other, FROM, 7, 60);
    // What says whose they are is lost.
    world.to.remove(&Path::new(TO).join("transfer")).expect("it is there");
    world.to.halt();
    world.restart_sink(Restart::Process);
    world.source = begun(&other, &second, u64::MAX, world.now);
    (world.from, world.manifest) = (other, second);
    world.to_source.clear();
    world.to_sink.clear();
    assert_eq!(world.run(), SourceStep::Installed);
    world.check_installed();
}

/// Another leader announces its own, or the same one a later one, while the node makes it its own.
#[test]
fn what_a_node_takes_in_stays_until_it_has_it() {
    let (from, other) = (disk(1), disk(2));
    let mut world = World::new(&from, &make(&from, FROM, 7, 40), 2, 0);
    assert_eq!(world.run(), SourceStep::Installed);
    let second = begun(&other, &make(&other, FROM, 8, 60), u64::MAX, 0).id();
    let sink = world.sink.as_mut().expect("it runs");
    sink.taking_in();
    assert_eq!(sink.progress(), SinkProgress::Waiting);
    let install = |anew| TransferMessage::Install { format: 1, anew, sizes: vec![900, 8_192] };
    let refusal = Refusal::Other(world.source.id().node, 7);
    assert_eq!(answers(sink, &second, &install(false)), Some(TransferMessage::Refused(refusal)));
    assert_eq!(answers(sink, &second, &install(true)), None);
    let there = || world.to.list(Path::new(TO)).expect("a healthy disk");
    assert!(there().iter().any(|name| name.ends_with(".rows")), "{:?}", there());
    let first = world.source.id();
    assert_eq!(answers(sink, &first, &install(false)), Some(TransferMessage::Refused(Refusal::Sizes)));
    sink.taken_in().expect("a healthy disk");
    assert_eq!(answers(sink, &first, &install(false)), Some(TransferMessage::Loaded));
    assert!(matches!(answers(sink, &second, &install(true)), Some(TransferMessage::Acked { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// A peer that says anything: nobody panics, nothing is written under other names, and no
    /// snapshot counts.
    #[test]
    fn hostile_messages_come_to_nothing(
        says in prop::collection::vec((0u8..6, any::<u32>(), any::<u64>(), prop::collection::vec(any::<u8>(), 1..200)), 1..60),
    ) {
        let (from, to) = (disk(1), disk(2));
        let manifest = make(&from, FROM, 7, 2);
        let mut sink = Sink::open(files(&to, TO), DATABASE).unwrap();
        let mut source = begun(&from, &manifest, u64::MAX, 0);
        let id = TransferId { database: DATABASE, node: NODE, snapshot: 7, manifest: 5 };
        let own = source.id();
        let mut at = FileOffset { file: 0, offset: 0 };
        for (kind, first, second, bytes) in says {
            let message = match kind {
                0 => TransferMessage::Install {
                    format: 1 + u32::from(first.is_multiple_of(9)),
                    anew: first.is_multiple_of(2),
                    sizes: vec![1 + second % 500, 4_096 * (1 + second % 3), 4_096],
                },
                1 => TransferMessage::Chunk { at: FileOffset { file: first % 5, offset: second % 9_000 }, bytes: &bytes },
                2 | 3 => TransferMessage::Chunk { at, bytes: &bytes },
                4 => TransferMessage::Acked {
                    at: FileOffset { file: first % 6, offset: if first % 3 == 0 { second } else { second % 9_000 } },
                    again: first % 2 == 0,
                },
                _ => TransferMessage::Acked { at: FileOffset { file: 1, offset: 0 }, again: true },
            };
            let mut out = Vec::new();
            sink.receive(&id, &message, &mut out).unwrap();
            sink.step(&mut out).unwrap();
            let mut encoded = Vec::new();
            encode(&mut encoded, &id, &message);
            prop_assert!(decode(&encoded).is_ok());
            if let Ok((_, TransferMessage::Acked { at: asked, .. })) = decode(&out) {
                at = asked;
            }
            source.receive(&own, &message, u64::from(first));
            let mut out = Vec::new();
            source.step(u64::from(first), &mut out).unwrap();
            prop_assert!(out.len() <= CHUNK + 100);
        }
        for path in to.files() {
            let name = path.file_name().unwrap().to_str().unwrap();
            prop_assert!(path.parent() == Some(Path::new(TO)) && (name == "transfer" || name.starts_with("snapshot-0000000007")));
        }
        prop_assert!(files(&to, TO).find().unwrap().snapshots.is_empty());
        prop_assert!(CHUNK <= TRANSFER_CHUNK_BYTES);
    }
}
