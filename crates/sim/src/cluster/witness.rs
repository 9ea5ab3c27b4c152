//! A node without data: it votes, and that is all.

use crate::cluster::invariants::promises;
use crate::cluster::ledger::Ledger;
use crate::cluster::metadata::{Asks, Seat, registration};
use crate::cluster::network::Packet;
use crate::cluster::plan::TICK_NANOS;
use crate::node::DIRECTORY;
use crate::trace::Trace;
use ferrite_base::{Epoch, GroupId, Incarnation, NodeId};
use ferrite_cluster::{Groups, Lease, MessageKind, Node, NodeEffects, NotHandedOver, Start};
use ferrite_group::{FromLog, Identity, IdentityError, IdentityFile, Urgency};
use ferrite_io::simulated::{PowerLost, Restart, SimulatedClock, SimulatedDisk, SimulatedRandom};
use ferrite_io::{Clock, Disk};
use ferrite_meta::{Ask, Kind, State};
use ferrite_notice::Notice;
use ferrite_partition::Compiled;
use ferrite_partition::applier::Applier;
use ferrite_partition::contents::ContentCut;
use ferrite_partition::waker::waking_channel;
use ferrite_replica::group::Member;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Parts of a million by which its clock's rate may differ from the true one.
const DRIFT: u64 = 5_000;

struct Outside {
    disk: SimulatedDisk,
    file: IdentityFile,
    asks: Asks,
    ledger: Ledger,
}

impl NodeEffects for Outside {
    fn keep(&mut self, identity: &Identity) -> Result<(), IdentityError> {
        self.file.write(identity, &self.disk, Path::new(DIRECTORY))?;
        self.ledger.with(|book| promises::note(book, identity));
        Ok(())
    }

    fn ask(&mut self, ask: Ask) {
        self.asks.push(ask);
    }

    fn run(&mut self, _: GroupId, _: Applier) {
        unreachable!("a witness has no group");
    }

    fn publisher(&mut self, _: GroupId) -> Box<dyn Fn(Arc<Compiled>) + Send> {
        unreachable!("a witness has no group");
    }

    fn hasher(&mut self, _: GroupId) -> Box<dyn Fn(ContentCut) + Send> {
        unreachable!("a witness has no group");
    }

    fn send_from_log(&mut self, _: GroupId, _: FromLog) {
        unreachable!("a witness has no group");
    }

    fn needs_snapshot(&mut self, _: GroupId, _: NodeId) {
        unreachable!("a witness has no group");
    }

    fn needs_no_snapshot(&mut self, _: GroupId, _: NodeId) {
        unreachable!("a witness has no group");
    }

    fn transfer_nanos(&self, _: GroupId) -> u64 {
        unreachable!("a witness has no group");
    }

    fn serves(&mut self, _: GroupId, _: Option<Epoch>) {
        unreachable!("a witness has no group");
    }

    fn paused(&mut self, _: bool) {}

    fn unequal(&mut self, _: GroupId, _: bool) {}

    fn gave_up(&mut self, _: GroupId, _: Epoch) {
        unreachable!("a witness has no group");
    }

    fn hold(&mut self, _: GroupId, _: bool) {
        unreachable!("a witness has no group");
    }

    fn is_drained(&mut self, _: GroupId) -> bool {
        unreachable!("a witness has no group");
    }

    fn handed_over(&mut self, _: GroupId, _: Result<NodeId, NotHandedOver>) {
        unreachable!("a witness has no group");
    }

    fn make_anew(&mut self, _: GroupId, _: &str, _: Option<GroupId>) {
        unreachable!("a witness has no group");
    }

    fn end(&mut self, reason: &str) {
        panic!("a witness ends: {reason}");
    }

    fn notice(&mut self, notice: Notice) {
        panic!("a witness says {notice}");
    }
}

pub struct Running {
    pub member: Member,
    pub node: Node,
    pub seat: Seat,
}

pub struct Witness {
    pub disk: SimulatedDisk,
    clock: SimulatedClock,
    rate: u64,
    random: SimulatedRandom,
    /// As this node has heard last.
    known: Arc<State>,
    ledger: Ledger,
    pub running: Option<Running>,
    pub down_until: u64,
    next_tick: u64,
    highest: BTreeMap<NodeId, Incarnation>,
    /// What it wants sent.
    pub out: Vec<Packet>,
}

impl Witness {
    pub fn new(
        id: NodeId,
        founded: &Arc<State>,
        random: &mut SimulatedRandom,
        ledger: &Ledger,
        trace: &Trace,
    ) -> Witness {
        let clock = SimulatedClock::default();
        clock.advance(Duration::from_millis(1 + random.below(100_000)));
        let disk = SimulatedDisk::new(random.number(), SimulatedClock::default());
        let dir = Path::new(DIRECTORY);
        disk.create_dir(dir).expect("a healthy disk");
        let cluster = founded.settings().expect("it is founded").cluster;
        let identity = Identity::new(cluster, id, Incarnation(0));
        identity.write(&disk, dir).expect("a healthy disk");
        disk.unwind_at_power_loss();
        let told = trace.clone();
        disk.trace(move |line| told.line(&format!("{id} {line}")));
        Witness {
            disk,
            clock,
            rate: 1_000_000 + random.below(2 * DRIFT) - DRIFT,
            random: random.fork(),
            known: Arc::clone(founded),
            ledger: ledger.clone(),
            running: None,
            down_until: 0,
            next_tick: 0,
            highest: BTreeMap::new(),
            out: Vec::new(),
        }
    }

    /// Time passes. False: the power went meanwhile.
    pub fn pass(&mut self, nanos: u64, now: u64) -> bool {
        self.clock.advance(Duration::from_nanos(nanos * self.rate / 1_000_000));
        if self.running.is_none() {
            return now < self.down_until || self.guarded(Witness::start);
        }
        let time = self.clock.boottime_nanos();
        if time < self.next_tick {
            return true;
        }
        self.next_tick = time + TICK_NANOS;
        self.guarded(|witness| {
            let running = witness.running.as_mut().expect("it runs");
            if time >= running.node.next_tick(time) {
                running.node.tick(time);
            }
            running.seat.tick();
            witness.work();
        })
    }

    /// What another node's process has said. False: the power went meanwhile.
    pub fn handle_packet(&mut self, packet: &Packet) -> Result<bool, String> {
        let (from, Some(running)) = (packet.from, &mut self.running) else { return Ok(true) };
        let highest = self.highest.entry(from.node).or_insert(from.incarnation);
        if from.incarnation < *highest {
            return Ok(true);
        }
        *highest = from.incarnation;
        let (message_kind, body) = MessageKind::decode(&packet.bytes).map_err(|error| error.to_string())?;
        assert_eq!(message_kind, MessageKind::Metadata, "nobody says anything else to a witness");
        running.seat.handle_message(from.node, body).map_err(|error| error.to_string())?;
        Ok(self.guarded(Witness::work))
    }

    fn guarded(&mut self, body: impl FnOnce(&mut Witness)) -> bool {
        match catch_unwind(AssertUnwindSafe(|| body(self))) {
            Ok(()) => true,
            Err(panic) if panic.is::<PowerLost>() => false,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    fn start(&mut self) {
        let identity =
            Identity::read(&self.disk, Path::new(DIRECTORY)).expect("a healthy disk").expect("it was written");
        let identity = Identity { incarnation: Incarnation(identity.incarnation.0 + 1), ..identity };
        identity.write(&self.disk, Path::new(DIRECTORY)).expect("a healthy disk");
        self.ledger.with(|book| promises::note(book, &identity));
        self.highest.clear();
        let member = Member { node: identity.node, incarnation: identity.incarnation };
        let (causes, inbox) = waking_channel();
        let random = self.random.fork();
        let seat = Seat::open(member, &self.disk, &self.clock, random, &self.known, causes.clone(), &self.ledger);
        let seat = seat.unwrap_or_else(|error| panic!("a healthy disk keeps a vote: {error}"));
        let start = Start {
            registration: registration(member.node.0, member.incarnation, Kind::Witness, Some(seat.vote())),
            identity,
            parties: BTreeMap::new(),
            groups: Groups::new([]),
            lease: Lease::new(Arc::new(self.clock.clone())),
        };
        let disk = self.disk.clone();
        let asks = seat.asks().clone();
        let ledger = self.ledger.clone();
        let outside = Outside { disk, file: IdentityFile::default(), asks, ledger };
        let node = Node::new(start, &causes, inbox, Box::new(outside));
        self.running = Some(Running { member, node, seat });
    }

    fn work(&mut self) {
        let Some(Running { member, node, seat }) = &mut self.running else { return };
        let from = *member;
        let out = &mut self.out;
        seat.work(|to, bytes| out.push(Packet { from, to, lane: Urgency::Control, bytes }));
        while node.step(self.clock.boottime_nanos()) {}
        if node.state().settings().is_some() {
            self.known = Arc::clone(node.state());
        }
    }

    pub fn crash(&mut self, restart: Restart, down_until: u64) {
        self.disk.halt();
        self.running = None;
        self.out.clear();
        self.disk.restart(restart);
        self.disk.heal();
        self.down_until = down_until;
    }
}
