//! A node: a log on a simulated disk, the replication of one group, and tables that are a list of
//! what was executed.

use ferrite_base::{Epoch, GroupId, Incarnation, NodeId};
use ferrite_group::{
    Begin, Committing, Entry, Found, FromLog, GroupEvent, GroupHost, GroupPlace, HEADER_BYTES, Identity, KIND_ENTRY,
    KIND_EPOCH_START, NotCommitted, Party, Replayed, Replication, SharedEntry, Urgency, message,
};
use ferrite_io::simulated::{Restart, SimulatedClock, SimulatedDisk};
use ferrite_log::{DatabaseId, Log, LogOptions};
use ferrite_replica::group::{Envelope, Mark, Member, Message, Timing};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex};

pub const GROUP: GroupId = GroupId(7);
const DIR: &str = "/node";

/// What came out of a node, in order.
pub enum Out {
    Sent(NodeId, Urgency, Vec<u8>),
    Committed(Vec<SharedEntry>),
    Event(GroupEvent),
    Told(u64, bool),
    /// A barrier behind so many rows of the tables.
    Passed(usize, bool),
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
            Err(rows) => Out::Passed(rows, outcome.is_ok()),
        });
    }
}

pub struct Running {
    pub log: Log<Committing<Writer>>,
    pub replication: Arc<Replication<Writer>>,
    pub outs: Outs,
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
    pub running: Option<Running>,
    /// What was executed or applied, in order.
    pub tables: Vec<u64>,
    /// How many of these are committed.
    pub settled: usize,
    pub reads: VecDeque<Read>,
    pub confirmed: u64,
    pub leads: bool,
    /// What the log had and was known to be committed when the process started.
    archive: Vec<SharedEntry>,
    /// Asked for, and not written yet.
    pub promises: Vec<Epoch>,
    /// Appends whose party has not been told.
    pub asked: Vec<u64>,
}

impl Node {
    pub fn new(id: u32, seed: u64, clock: &SimulatedClock, timing: Timing) -> Node {
        let disk = SimulatedDisk::new(seed, clock.clone());
        let mut node = Node {
            member: Member { node: NodeId(id), incarnation: Incarnation(0) },
            disk,
            clock: clock.clone(),
            timing,
            running: None,
            tables: Vec::new(),
            settled: 0,
            reads: VecDeque::new(),
            confirmed: 0,
            leads: false,
            archive: Vec::new(),
            promises: Vec::new(),
            asked: Vec::new(),
        };
        node.start();
        node
    }

    pub fn crash(&mut self, restart: Restart) {
        self.disk.halt();
        self.running = None;
        self.disk.restart(restart);
        self.tables.clear();
        self.settled = 0;
        self.forget_clients();
        self.promises.clear();
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
        let (mut stream, mut applied, mut archive): (Option<Replayed>, Vec<u64>, Vec<SharedEntry>) = Default::default();
        let options = LogOptions {
            database: Some(DatabaseId(*b"the test's own..")),
            segment_bytes: 64 << 10,
            block_bytes_max: 16 << 10,
            prepare_ahead: false,
            own_threads: false,
            ..LogOptions::default()
        };
        let visit = |_: ferrite_log::BlockPlace<'_>, payload: &[u8]| {
            let mut rest = payload;
            while let Some(entry) = Entry::take_first(&mut rest).expect("the log has entries") {
                archive.truncate(entry.header.mark.position.0 as usize - 1);
                archive.push(SharedEntry { header: entry.header, bytes: Arc::new(entry.encode()) });
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
        let mut identity = Identity::read(&self.disk, dir).expect("the file can be read").unwrap_or_else(|| Identity {
            cluster: [1; 16],
            node: here,
            incarnation: Incarnation(0),
            promised: BTreeMap::new(),
        });
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
        archive.truncate(found.applied.end.position.0 as usize);
        self.archive = archive;
        let promised = identity.promised.get(&GROUP).copied().unwrap_or(Epoch(0));
        let begin = Begin { id: GROUP, here: self.member, promised, intact: true, timing: self.timing };
        let outs = Outs::default();
        let replication = Replication::of_cluster(begin, found, log.appender(), clock, Arc::new(outs.clone()));
        self.running = Some(Running { log, replication, outs });
        self.settled = applied.len();
        self.tables = applied;
    }

    /// The message that was wanted, from what the log had.
    pub fn read_log(&self, wanted: &FromLog) -> (Urgency, Vec<u8>) {
        let FromLog { epoch, after, up_to, commit, round, .. } = *wanted;
        let previous = after.0.checked_sub(1).map_or(Mark::ORIGIN, |last| self.archive[last as usize].header.mark);
        let message = Message::Append { previous, entries: Vec::new(), commit, round };
        let mut out = Vec::new();
        message::encode(&mut out, GROUP, &Envelope { from: self.member, epoch, message }, &[]);
        let there = self.archive.get(after.0 as usize..(up_to.0 as usize).min(self.archive.len())).unwrap_or_default();
        there.iter().for_each(|entry| out.extend_from_slice(&entry.bytes));
        (if there.is_empty() { Urgency::Control } else { Urgency::Entries }, out)
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

/// The number that an entry's records are.
pub fn number(body: &[u8]) -> u64 {
    u64::from_le_bytes(body[..8].try_into().expect("a number and its filling"))
}

/// None: the start of an epoch.
pub fn number_of(entry: &SharedEntry) -> Option<u64> {
    assert!(matches!(entry.bytes[0], KIND_ENTRY | KIND_EPOCH_START));
    (!entry.header.starts_epoch).then(|| number(&entry.bytes[HEADER_BYTES..]))
}
