//! A node: a log on a simulated disk, the replication of one group, and tables that are a list of
//! what was executed.

use ferrite_base::{Epoch, GroupId, Incarnation, NodeId};
use ferrite_group::{
    Begin, Committing, Entry, Found, GroupEvent, GroupHost, GroupPlace, HEADER_BYTES, Identity, KIND_ENTRY,
    KIND_EPOCH_START, NotCommitted, Party, Replayed, Replication, SharedEntry, Supplier, Urgency, numbers,
};
use ferrite_io::simulated::{Restart, SimulatedClock, SimulatedDisk};
use ferrite_log::{DatabaseId, Log, LogOptions};
use ferrite_replica::group::{Member, Timing};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};

pub const GROUP: GroupId = GroupId(7);
const DIR: &str = "/node";
/// A record: another node's snapshot takes the place of what stands before it; or, with
/// [`RESUMED`], what stood before the last such record goes on, since it never counted.
const INSTALL: u8 = 0xEE;
const RESUMED: u64 = u64::MAX;
/// The party of that record.
const INSTALLED: usize = usize::MAX;

/// What came out of a node, in order.
pub enum Out {
    Sent(NodeId, Urgency, Vec<u8>),
    Committed(Vec<SharedEntry>),
    Event(GroupEvent),
    Told(u64, bool),
    /// A barrier behind so many rows of the tables.
    Passed(usize, bool),
    /// The record of a snapshot is durable.
    Installed,
}

impl Out {
    pub fn line(&self) -> String {
        match self {
            Out::Sent(to, ..) => format!("sends to {to}"),
            Out::Committed(entries) => {
                format!(
                    "applies {:?}",
                    entries.iter().map(|entry| (entry.header.mark, number_of(entry))).collect::<Vec<_>>()
                )
            }
            Out::Event(event) => format!("{event:?}"),
            Out::Told(number, committed) => format!("tells {number} {committed}"),
            Out::Installed => "has noted a snapshot".to_owned(),
            Out::Passed(rows, committed) => format!("passes {rows} {committed}"),
        }
    }
}

#[derive(Clone, Default)]
pub struct Outs(Arc<Mutex<VecDeque<Out>>>);

impl Outs {
    fn push(&self, out: Out) {
        self.0.lock().unwrap().push_back(out);
    }

    pub fn pop(&self) -> Option<Out> {
        self.0.lock().unwrap().pop_front()
    }
}

impl GroupHost for Outs {
    fn send(&self, to: NodeId, urgency: Urgency, message: Vec<u8>) {
        self.push(Out::Sent(to, urgency, message));
    }

    fn committed(&self, group: GroupId, entries: Vec<SharedEntry>) {
        assert_eq!(group, GROUP);
        self.push(Out::Committed(entries));
    }

    fn event(&self, group: GroupId, event: GroupEvent) {
        assert_eq!(group, GROUP);
        self.push(Out::Event(event));
    }
}

/// Who appended this number, or a barrier behind so many rows of the tables.
pub struct Writer {
    pub what: Result<u64, usize>,
    pub outs: Outs,
}

impl Party for Writer {
    fn complete(self, payload: Vec<u8>, outcome: Result<(), NotCommitted>) {
        assert!(payload.is_empty());
        self.outs.push(match self.what {
            Ok(number) => Out::Told(number, outcome.is_ok()),
            Err(INSTALLED) => Out::Installed,
            Err(rows) => Out::Passed(rows, outcome.is_ok()),
        });
    }
}

pub struct Running {
    pub log: Log<Committing<Writer>>,
    pub replication: Arc<Replication<Writer>>,
    pub supplier: Supplier<Writer>,
    pub outs: Outs,
}

/// How much goes in one message, and may be uncommitted.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub message_bytes: usize,
    pub window_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { message_bytes: usize::MAX, window_bytes: usize::MAX }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// Of the tables.
    pub saw: usize,
    pub round: u64,
    /// Of all that clients were told when the read ran.
    pub acknowledged: usize,
}

pub struct Node {
    pub member: Member,
    disk: SimulatedDisk,
    clock: SimulatedClock,
    timing: Timing,
    bounds: Bounds,
    pub running: Option<Running>,
    /// What was executed or applied, in order.
    pub tables: Vec<u64>,
    /// How many of these are committed.
    pub settled: usize,
    pub reads: VecDeque<Read>,
    pub confirmed: u64,
    pub leads: bool,
    /// Of other nodes, as they came; which one counts, and which one will.
    snapshots: Vec<(GroupPlace, Vec<u64>)>,
    newest: Option<u64>,
    coming: Option<u64>,
    /// Asked for, and not written yet.
    pub promises: Vec<Epoch>,
    /// Appends whose party has not been told.
    pub asked: Vec<u64>,
}

impl Node {
    pub fn new(id: u32, seed: u64, clock: &SimulatedClock, timing: Timing, bounds: Bounds) -> Node {
        let disk = SimulatedDisk::new(seed, clock.clone());
        let mut node = Node {
            member: Member { node: NodeId(id), incarnation: Incarnation(0) },
            disk,
            clock: clock.clone(),
            timing,
            bounds,
            running: None,
            tables: Vec::new(),
            settled: 0,
            reads: VecDeque::new(),
            confirmed: 0,
            leads: false,
            snapshots: Vec::new(),
            newest: None,
            coming: None,
            promises: Vec::new(),
            asked: Vec::new(),
        };
        node.start();
        node
    }

    pub fn replication(&self) -> Arc<Replication<Writer>> {
        Arc::clone(&self.running.as_ref().expect("it runs").replication)
    }

    /// Nothing can be written any more.
    pub fn fail_log(&self) {
        self.disk.halt();
        let running = self.running.as_ref().expect("it runs");
        let party = Writer { what: Err(0), outs: running.outs.clone() };
        running.replication.append_own(install_record(RESUMED), party);
        running.log.step();
    }

    pub fn crash(&mut self, restart: Restart) {
        self.disk.halt();
        self.running = None;
        self.disk.restart(restart);
        self.tables.clear();
        self.settled = 0;
        self.forget_clients();
        self.promises.clear();
        self.coming = None;
        self.asked.clear();
        self.leads = false;
    }

    pub fn forget_clients(&mut self) {
        self.reads.clear();
        self.confirmed = 0;
    }

    pub fn start(&mut self) {
        let dir = Path::new(DIR);
        let here = self.member.node;
        let (mut stream, mut applied): (Option<Replayed>, Vec<u64>) = Default::default();
        // What stands behind a record of a snapshot that does not count.
        let mut void = false;
        let (newest, snapshots) = (self.newest, &self.snapshots);
        let options = LogOptions {
            database: Some(DatabaseId(*b"the test's own..")),
            segment_bytes: 64 << 10,
            block_bytes_max: 16 << 10,
            prepare_ahead: false,
            own_threads: false,
            numbers: Some(numbers),
            ..LogOptions::default()
        };
        let visit = |_: ferrite_log::BlockPlace<'_>, payload: &[u8]| {
            let mut rest = payload;
            loop {
                if let [INSTALL, _, _, _, _, which @ ..] = rest {
                    let (which, behind) = which.split_first_chunk::<8>().expect("a number");
                    let which = u64::from_le_bytes(*which);
                    rest = behind;
                    void = which != RESUMED && newest != Some(which);
                    if newest == Some(which) {
                        let (place, tables) = &snapshots[which as usize];
                        (stream, applied) = (Some(Replayed::behind(here, place.clone())), tables.clone());
                    }
                    continue;
                }
                let Some(entry) = Entry::take_first(&mut rest).expect("the log has entries") else { break };
                if void {
                    continue;
                }
                let Some(stream) = &mut stream else {
                    stream = Some(Replayed::begin(here, &entry).expect("a stream begins"));
                    continue;
                };
                let verdict = stream.judge(&entry).expect("entries follow each other");
                applied.extend(verdict.earlier.iter().map(|body| number(body)));
                applied.extend(verdict.now.then(|| number(entry.body)));
            }
            Ok::<(), std::convert::Infallible>(())
        };
        let disk = Arc::new(self.disk.clone());
        let clock = Arc::new(self.clock.clone());
        let (log, _) = Log::open(disk, clock.clone(), dir, options, visit).expect("the log opens");
        let known = Identity::read(&self.disk, dir).expect("the file can be read");
        let mut identity = known.unwrap_or_else(|| Identity::new([1; 16], here, Incarnation(0)));
        identity.incarnation.0 += 1;
        identity.write(&self.disk, dir).expect("a healthy disk");
        self.member.incarnation = identity.incarnation;
        let found = match stream {
            Some(stream) => stream.into_found(),
            None => {
                let applied = GroupPlace::before_the_first(Epoch(0), self.member);
                let (history, end) = (applied.history.clone(), applied.end);
                Found { applied, history, end, uncommitted: Vec::new() }
            }
        };
        let promised = identity.promised.get(&GROUP).copied().unwrap_or(Epoch(0));
        let begin = Begin {
            id: GROUP,
            here: self.member,
            promised,
            intact: true,
            timing: self.timing,
            snapshots: true,
            message_bytes_max: self.bounds.message_bytes,
            window_bytes_max: self.bounds.window_bytes,
        };
        let outs = Outs::default();
        let replication = Replication::of_cluster(begin, found, log.appender(), clock, Arc::new(outs.clone()));
        if void {
            replication.append_own(install_record(RESUMED), Writer { what: Err(0), outs: outs.clone() });
        }
        let supplier = Supplier::new(Arc::clone(&replication), Arc::clone(log.index()));
        self.running = Some(Running { log, replication, supplier, outs });
        self.settled = applied.len();
        self.tables = applied;
    }

    /// What it has, where all of it is committed.
    pub fn snapshot(&self) -> Option<(GroupPlace, Vec<u64>)> {
        let replication = &self.running.as_ref()?.replication;
        let place = replication.place();
        let whole = replication.commit() == place.end.position && self.tables.len() == self.settled;
        whole.then(|| (place, self.tables.clone()))
    }

    /// Another node's snapshot has come.
    pub fn install(&mut self, place: GroupPlace, tables: Vec<u64>) {
        let Some(running) = &self.running else { return };
        let which = self.snapshots.len() as u64;
        let party = Writer { what: Err(INSTALLED), outs: running.outs.clone() };
        if running.replication.install(place.clone(), install_record(which), Arc::default(), party).is_ok() {
            self.snapshots.push((place, tables));
            self.coming = Some(which);
        }
    }

    /// It counts from here on.
    pub fn installed(&mut self) {
        let which = self.coming.take().expect("a snapshot came");
        self.newest = Some(which);
        self.tables.clone_from(&self.snapshots[which as usize].1);
        self.settled = self.tables.len();
        self.running.as_ref().expect("it runs").replication.installed();
    }

    /// Makes promises durable.
    pub fn keep_promises(&mut self) {
        for epoch in std::mem::take(&mut self.promises) {
            let dir = Path::new(DIR);
            let mut identity = Identity::read(&self.disk, dir).expect("it can be read").expect("it was written");
            let promised = identity.promised.entry(GROUP).or_default();
            *promised = epoch.max(*promised);
            identity.write(&self.disk, dir).expect("a healthy disk");
            if let Some(running) = &self.running {
                running.replication.promised(epoch);
            }
        }
    }
}

fn install_record(which: u64) -> Vec<u8> {
    [&[INSTALL, 8, 0, 0, 0][..], &which.to_le_bytes()].concat()
}

/// The number that an entry's records are.
pub fn number(body: &[u8]) -> u64 {
    u64::from_le_bytes(body[..8].try_into().expect("a number and its filling"))
}

/// None: the start of an epoch.
pub fn number_of(entry: &SharedEntry) -> Option<u64> {
    assert!(matches!(entry.bytes[0], KIND_ENTRY | KIND_EPOCH_START));
    (!entry.header.starts_epoch).then(|| number(&entry.bytes[HEADER_BYTES..]))
}
