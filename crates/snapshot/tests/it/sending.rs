//! A node that sends snapshots to others: whose turn it is, who gets how many, and what is kept for
//! them.

use crate::transfer::made::{CHUNK, DATABASE, FROM, NODE, TO, disk, files, make};
use ferrite_base::NodeId;
use ferrite_base::limits::{TRANSFER_LOADING_MAX, TRANSFER_SILENCE, TRANSFERS_MAX};
use ferrite_io::simulated::SimulatedDisk;
use ferrite_snapshot::transfer::{Sending, SendingStep, Sink, SinkProgress, TransferMessage, decode};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;
const SILENCE: u64 = TRANSFER_SILENCE.as_nanos() as u64;
const LOADING_MAX: u64 = TRANSFER_LOADING_MAX.as_nanos() as u64;

/// One that sends, and the others.
struct Nodes {
    from: SimulatedDisk,
    sending: Sending,
    /// Those that are started.
    sinks: BTreeMap<u32, Sink>,
    disks: BTreeMap<u32, SimulatedDisk>,
    /// Of whom nothing is heard.
    silent: BTreeSet<u32>,
    now: u64,
    /// The number of the snapshot that was taken last.
    last: u64,
    chunks: u64,
    questions: u64,
    events: Vec<String>,
}

impl Nodes {
    fn new() -> Nodes {
        let from = disk(1);
        let sending = Sending::new(files(&from, FROM), NODE, u64::MAX).with_chunk_bytes(CHUNK);
        Nodes {
            from,
            sending,
            sinks: BTreeMap::new(),
            disks: BTreeMap::new(),
            silent: BTreeSet::new(),
            now: 0,
            last: 3,
            chunks: 0,
            questions: 0,
            events: Vec::new(),
        }
    }

    fn want(&mut self, node: u32) {
        let disk = self.disks.entry(node).or_insert_with(|| disk(u64::from(node)));
        let open = || Sink::open(files(disk, TO), DATABASE).expect("a healthy disk");
        self.sinks.entry(node).or_insert_with(open);
        self.sending.want(NodeId(node));
    }

    /// The snapshot is kept until then, and no longer.
    fn holds_until(&mut self, end: u64) {
        self.now = end - 1;
        assert_eq!(self.run(Duration::ZERO), "");
        assert_eq!(self.sending.holds(), [4]);
        self.now = end;
        assert_eq!(self.run(Duration::ZERO), "");
        assert!(self.sending.holds().is_empty());
    }

    fn sink(&mut self, node: u32) -> &mut Sink {
        self.sinks.get_mut(&node).expect("it runs")
    }

    /// It begins to read what it has got.
    fn reads(&mut self, node: u32) {
        self.sink(node).taking_in();
    }

    fn has_read(&mut self, node: u32) {
        self.sink(node).taken_in().expect("a healthy disk");
    }

    /// Its process ends, and another begins, which has snapshots up to this number.
    fn restart(&mut self, node: u32, above: u64) {
        let opened = Sink::open(files(&self.disks[&node], TO), DATABASE).and_then(|sink| sink.above(above));
        self.sinks.insert(node, opened.expect("a healthy disk"));
    }

    /// Lets so much time pass; what has happened.
    fn run(&mut self, time: Duration) -> String {
        let until = self.now + time.as_nanos() as u64;
        loop {
            let mut out = Vec::new();
            match self.sending.step(self.now, &mut out) {
                SendingStep::Message(to) => self.deliver(to, &out),
                SendingStep::Take { above } => {
                    self.last = 1 + self.last.max(above);
                    self.events.push(format!("take above {above}"));
                    make(&self.from, FROM, self.last, 30);
                    self.sending.snapshot_taken(self.last, self.now).expect("it is there");
                }
                SendingStep::Done(node) => {
                    let SinkProgress::Installed(id) = self.sink(node.0).progress() else { panic!("it has none") };
                    self.events.push(format!("{node} has {}", id.snapshot));
                }
                SendingStep::Silent(node) => self.events.push(format!("{node} is silent")),
                SendingStep::Wait(wait) if self.now + (wait.as_nanos() as u64) < until => {
                    self.now += wait.as_nanos() as u64;
                }
                SendingStep::Wait(_) | SendingStep::Idle => {
                    self.now = until;
                    return std::mem::take(&mut self.events).join(", ");
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn deliver(&mut self, to: NodeId, message: &[u8]) {
        let (id, message) = decode(message).expect("a message");
        match message {
            TransferMessage::Chunk { .. } => self.chunks += 1,
            _ => self.questions += 1,
        }
        if self.silent.contains(&to.0) {
            return;
        }
        let (mut out, sink) = (Vec::new(), self.sinks.get_mut(&to.0).expect("it runs"));
        sink.receive(&id, &message, &mut out).expect("a healthy disk");
        loop {
            if let Ok((id, answer)) = decode(&out) {
                self.sending.receive(to, &id, &answer, self.now);
                out.clear();
            }
            if sink.progress() != SinkProgress::Working {
                return;
            }
            sink.step(&mut out).expect("a healthy disk");
        }
    }
}

#[test]
fn one_node_gets_a_snapshot_at_a_time_and_a_silent_one_loses_its_turn() {
    let mut nodes = Nodes::new();
    assert_eq!(nodes.run(TRANSFER_SILENCE), "");
    nodes.silent.insert(8);
    for node in [8, 9, 8] {
        nodes.want(node);
    }
    assert_eq!(nodes.run(TRANSFER_SILENCE - Duration::from_nanos(1)), "take above 0");
    assert_eq!(nodes.sending.holds(), [4]);
    // The other one's turn comes, with a snapshot of its own.
    assert_eq!(nodes.run(Duration::from_secs(1)), "8 is silent, take above 0, 9 has 5");
    assert_eq!(nodes.sending.holds(), [5]);
    assert!(matches!(nodes.sink(9).progress(), SinkProgress::Installed(_)));
    // The log behind it stays until the node has read it, and is a member.
    nodes.sending.forget(NodeId(8));
    assert_eq!((nodes.sending.holds(), nodes.sending.nodes()), (vec![5], vec![NodeId(9)]));
    nodes.sending.forget(NodeId(9));
    assert_eq!((nodes.sending.holds(), nodes.sending.nodes()), (vec![], vec![]));
    assert_eq!(nodes.run(TRANSFER_SILENCE), "");
    nodes.want(8);
    assert_eq!(nodes.run(Duration::ZERO), "take above 0");
    nodes.sending.stop();
    assert_eq!((nodes.run(TRANSFER_SILENCE), nodes.sending.holds()), (String::new(), vec![]));
}

#[test]
fn one_that_was_cut_off_goes_on_with_the_same() {
    let mut nodes = Nodes::new();
    nodes.want(9);
    let mut out = Vec::new();
    while nodes.sending.progress().is_none_or(|(_, there, all)| there < all / 2) {
        out.clear();
        match nodes.sending.step(0, &mut out) {
            SendingStep::Take { .. } => {
                make(&nodes.from, FROM, 4, 300);
                nodes.sending.snapshot_taken(4, 0).expect("it is there");
            }
            SendingStep::Message(to) => nodes.deliver(to, &out),
            other => panic!("{other:?}"),
        }
    }
    let sent = nodes.chunks;
    nodes.silent.insert(9);
    assert_eq!(nodes.run(2 * TRANSFER_SILENCE), "9 is silent");
    assert_eq!(nodes.sending.holds(), [4], "it may come back");
    nodes.silent.clear();
    let lost = nodes.chunks - sent;
    nodes.want(9);
    assert_eq!(nodes.run(Duration::ZERO), "9 has 4");
    let mut whole = Nodes::new();
    whole.want(9);
    make(&whole.from, FROM, 4, 300);
    assert!(matches!(whole.sending.step(0, &mut Vec::new()), SendingStep::Take { .. }));
    whole.sending.snapshot_taken(4, 0).expect("it is there");
    whole.run(Duration::ZERO);
    assert_eq!(nodes.chunks - lost, whole.chunks, "each byte once, but for what was lost");
    // What nobody comes back for is kept for a while only.
    let mut nodes = Nodes::new();
    nodes.silent.insert(8);
    nodes.want(8);
    assert_eq!(nodes.run(TRANSFER_SILENCE + Duration::from_nanos(1)), "take above 0, 8 is silent");
    nodes.holds_until(SILENCE + LOADING_MAX);
}

/// It says where it stands as before until it has read it, and so seems to need one, and again.
#[test]
fn one_that_reads_a_snapshot_gets_no_other() {
    let mut nodes = Nodes::new();
    nodes.want(9);
    assert_eq!(nodes.run(Duration::ZERO), "take above 0, 9 has 4");
    let chunks = nodes.chunks;
    nodes.want(9);
    assert_eq!(nodes.run(Duration::from_secs(2)), "", "it is about to read it");
    nodes.reads(9);
    for _ in 0..300 {
        nodes.want(9);
        assert_eq!(nodes.run(Duration::from_secs(1)), "");
    }
    assert_eq!((nodes.chunks, nodes.sending.holds()), (chunks, vec![4]));
    assert!(nodes.questions > 290, "{}", nodes.questions);
    // One that is silent may do the same. In the end it has had time enough.
    nodes.silent.insert(9);
    for _ in 0..250 {
        nodes.want(9);
        assert_eq!(nodes.run(Duration::from_secs(1)), "");
    }
    nodes.silent.clear();
    nodes.holds_until(LOADING_MAX);
}

#[test]
fn one_that_gives_up_what_it_read_gets_the_same_again_at_once() {
    let mut nodes = Nodes::new();
    nodes.want(9);
    assert_eq!(nodes.run(Duration::ZERO), "take above 0, 9 has 4");
    let chunks = nodes.chunks;
    nodes.reads(9);
    nodes.want(9);
    nodes.sink(9).abandon().expect("a healthy disk");
    assert_eq!(nodes.run(Duration::from_secs(2)), "9 has 4");
    assert_eq!((nodes.chunks, nodes.sending.holds()), (2 * chunks, vec![4]));
    // While another has its turn, it waits for the end of that.
    nodes.silent.insert(8);
    nodes.want(8);
    assert_eq!(nodes.run(Duration::ZERO), "take above 0");
    nodes.sink(9).abandon().expect("a healthy disk");
    assert_eq!(nodes.run(Duration::from_secs(29)), "");
    assert_eq!(nodes.sending.holds(), [4, 5]);
    assert_eq!(nodes.run(Duration::from_secs(2)), "8 is silent, 9 has 4");
}

/// Then where it stands shows that it needs another.
#[test]
fn one_that_has_read_a_snapshot_gets_another_if_it_needs_one() {
    for restarts in [false, true] {
        let mut nodes = Nodes::new();
        nodes.want(9);
        assert_eq!(nodes.run(Duration::ZERO), "take above 0, 9 has 4");
        nodes.reads(9);
        nodes.has_read(9);
        if restarts {
            nodes.restart(9, 6);
        }
        assert_eq!(nodes.run(Duration::from_secs(3)), "");
        assert_eq!(nodes.sending.holds(), [4], "it goes on behind that");
        nodes.want(9);
        let above = if restarts { 6 } else { 4 };
        let (wanted, next) = (format!("take above {above}"), above + 1);
        assert_eq!(nodes.run(Duration::from_secs(3)), format!("{wanted}, 9 has {next}"));
        assert_eq!(nodes.sending.holds(), [next]);
    }
    // What is not known yet is asked.
    let mut nodes = Nodes::new();
    nodes.want(9);
    nodes.restart(9, 7);
    assert_eq!(nodes.run(Duration::ZERO), "take above 0, take above 7, 9 has 8");
}

/// A process that was started again finds what it had got, and reads it by itself.
#[test]
fn one_that_is_started_again_while_it_reads_gets_no_other() {
    let mut nodes = Nodes::new();
    nodes.want(9);
    assert_eq!(nodes.run(Duration::ZERO), "take above 0, 9 has 4");
    let chunks = nodes.chunks;
    nodes.reads(9);
    nodes.silent.insert(9);
    nodes.run(Duration::from_secs(5));
    nodes.restart(9, 3);
    nodes.silent.clear();
    nodes.want(9);
    assert_eq!(nodes.run(Duration::from_secs(5)), "");
    assert!(matches!(nodes.sink(9).progress(), SinkProgress::Installed(_)));
    assert_eq!(nodes.chunks, chunks);
}

#[test]
fn no_more_snapshots_are_kept_for_others_than_may_be() {
    assert_eq!(TRANSFERS_MAX, 2);
    let mut nodes = Nodes::new();
    for node in [7, 8, 9] {
        nodes.want(node);
    }
    assert_eq!(nodes.run(Duration::from_secs(3)), "take above 0, 7 has 4, take above 0, 8 has 5");
    nodes.reads(7);
    nodes.reads(8);
    assert_eq!(nodes.run(Duration::from_secs(60)), "");
    assert_eq!(nodes.sending.holds(), [4, 5]);
    // One that is silent gives way.
    nodes.silent.insert(8);
    assert_eq!(nodes.run(Duration::from_secs(28)), "");
    let begun = nodes.now;
    assert_eq!(nodes.run(Duration::from_secs(4)), "take above 0, 9 has 6");
    assert!(nodes.now - begun < SILENCE && begun > 60 * SECOND);
    assert_eq!(nodes.sending.holds(), [4, 6]);
    // So does one that has become a member.
    nodes.want(8);
    nodes.silent.clear();
    assert_eq!(nodes.run(Duration::from_secs(10)), "");
    nodes.has_read(8);
    nodes.sending.forget(NodeId(7));
    assert_eq!(nodes.run(Duration::from_secs(2)), "take above 0, 8 has 7");
}
