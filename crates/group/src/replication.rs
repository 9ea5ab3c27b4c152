//! One group on one node while it runs: the state machine of `replica`, what the log and other
//! nodes tell it, and what it wants done.
//!
//! Everything happens under one lock, so that the order of positions, of the log and of what is
//! sent is one order (decision 0044). Parties are notified outside the lock, in the order of their
//! positions. Nothing waits under it: an append has waited for room earlier.

mod clock;
mod heard;
mod install;
mod own;
mod sending;
mod state;
mod status;
mod window;

use crate::entry::{Entry, EntryBuffer};
use crate::host::{FromLog, GroupEvent, GroupHost, NoHost, NotCommitted, Party, Urgency};
use crate::recent::{Recent, SharedEntry};
use crate::replayed::{Found, GroupPlace};
use crate::times::{Shown, Times};
use ferrite_base::limits::RECENT_ENTRIES_BYTES_MAX;
use ferrite_base::{Epoch, GroupId, Position, planted};
use ferrite_io::Clock;
use ferrite_log::{Appender, LogFailed, Payload};
use ferrite_replica::group::{Effect, Group, GroupConfiguration, Header, Mark, Member, Remembered, Timing};
use state::{Appended, Notification, State, Uncommitted, Waiting, begun_by};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use window::Window;

/// What the log is given with an append: what it was, and the party to tell.
pub struct Committing<C: Party> {
    group: Arc<Replication<C>>,
    what: Appended<C>,
}

impl<C: Party> ferrite_log::Completion for Committing<C> {
    fn complete(self, payload: Vec<u8>, outcome: Result<(), LogFailed>) {
        let Committing { group, what } = self;
        match outcome {
            Ok(()) => group.written(std::iter::once((what, payload))),
            Err(failure) => group.log_failed(Some(what), failure),
        }
    }

    /// Each group notes what one fsync has made durable once under its lock, and reports it to
    /// other nodes once, however the groups' entries alternate in the log.
    fn complete_all(all: impl Iterator<Item = (Self, Vec<u8>)>, outcome: &Result<(), LogFailed>) {
        match outcome {
            Ok(()) => {
                let mut others = complete_first_group(all);
                while !others.is_empty() {
                    others = complete_first_group(others.into_iter());
                }
            }
            Err(failure) => all.for_each(|(committing, _)| {
                let Committing { group, what } = committing;
                group.log_failed(Some(what), failure.clone());
            }),
        }
    }
}

/// An append, and its emptied buffer.
type Completed<C> = (Committing<C>, Vec<u8>);

/// Tells the group of the first of these appends of all that are its own, in their order. Those of
/// other groups: none on a node that hosts one.
fn complete_first_group<C: Party>(mut all: impl Iterator<Item = Completed<C>>) -> Vec<Completed<C>> {
    let mut others = Vec::new();
    let Some((Committing { group, what }, payload)) = all.next() else { return others };
    let own = all.filter_map(|(next, payload)| match Arc::ptr_eq(&next.group, &group) {
        true => Some((next.what, payload)),
        false => {
            others.push((next, payload));
            None
        }
    });
    group.written(std::iter::once((what, payload)).chain(own));
    others
}

/// How a node of a cluster begins with a group.
#[derive(Clone, Copy, Debug)]
pub struct Begin {
    pub id: GroupId,
    pub here: Member,
    /// From the node's file.
    pub promised: Epoch,
    /// Whether the log has everything that was acknowledged: not if the machine stopped and the
    /// mode is not `sync`.
    pub intact: bool,
    pub timing: Timing,
    /// Whether a node that follows and has nothing of the stream gets a snapshot
    /// ([`GroupEvent::NeedsSnapshot`]), not the stream's first entries. Not where all nodes are
    /// certain to begin with the same.
    pub snapshots: bool,
    /// Bytes of a message to another node. An entry that needs more is not sent
    /// ([`GroupEvent::TooLarge`]).
    pub message_bytes_max: usize,
    /// Bytes of entries that are not committed, beyond which appends wait.
    pub window_bytes_max: usize,
}

/// Shared by the threads that append, the log, and the connections to other nodes.
pub struct Replication<C: Party> {
    id: GroupId,
    log: Appender<Committing<C>>,
    clock: Arc<dyn Clock>,
    host: Arc<dyn GroupHost>,
    /// It has no other members and never will.
    solo: bool,
    /// As [`Begin::message_bytes_max`].
    message_bytes_max: usize,
    window: Window,
    shown: Shown,
    /// Everything up to there is committed.
    commit: AtomicU64,
    state: Mutex<State<C>>,
    /// Taken before the state's lock is released, so that parties are notified in their order.
    notifying: Mutex<Vec<Notification<C>>>,
}

type Locked<'a, C> = MutexGuard<'a, State<C>>;

impl<C: Party> Replication<C> {
    /// A node without others continues after `place`, all of which is committed.
    pub fn alone(
        id: GroupId,
        here: Member,
        place: GroupPlace,
        log: Appender<Committing<C>>,
        clock: Arc<dyn Clock>,
    ) -> Arc<Replication<C>> {
        let GroupPlace { end, history, configuration, time } = place;
        let remembered = Remembered { history, end, intact: true, ..Remembered::default() };
        let machine = Group::alone(here, &configuration, remembered, Timing::DEFAULT, id);
        Arc::new(Replication::with(machine, configuration, time, log, clock, Arc::new(NoHost), true))
    }

    /// A node of a cluster, in no role yet.
    pub fn of_cluster(
        begin: Begin,
        found: Found,
        log: Appender<Committing<C>>,
        clock: Arc<dyn Clock>,
        host: Arc<dyn GroupHost>,
    ) -> Arc<Replication<C>> {
        let Begin { id, here, promised, intact, timing, snapshots, message_bytes_max, window_bytes_max } = begin;
        let Found { applied: GroupPlace { end, configuration, time, .. }, history, end: last, uncommitted } = found;
        let remembered = Remembered { promised, history, end: last, commit: end.position, intact };
        let machine = Group::new(id, here, timing, remembered);
        let machine = if snapshots { machine.with_snapshots() } else { machine };
        let replication = Replication::with(machine, configuration, time, log, clock, host, false);
        let window = Window::new(window_bytes_max);
        let replication = Arc::new(Replication { message_bytes_max, window, ..replication });
        let mut state = replication.lock();
        state.recent = Recent::new(end, RECENT_ENTRIES_BYTES_MAX);
        state.committed.0 = end;
        for entry in uncommitted {
            if let Some(configuration) = begun_by(&entry) {
                state.configuration = configuration;
            }
            state.keep(entry, false);
        }
        assert_eq!(state.recent.end(), state.machine.end(), "the stream ends with what is not committed");
        drop(state);
        replication
    }

    fn with(
        machine: Group,
        configuration: GroupConfiguration,
        time: i64,
        log: Appender<Committing<C>>,
        clock: Arc<dyn Clock>,
        host: Arc<dyn GroupHost>,
        solo: bool,
    ) -> Replication<C> {
        let commit = AtomicU64::new(machine.commit().0);
        let shown = Shown::behind(time);
        let state = State {
            recent: Recent::new(machine.end(), 0),
            committed: (machine.end(), configuration.clone()),
            configuration,
            time,
            waiting: VecDeque::new(),
            notifications: VecDeque::new(),
            uncommitted: VecDeque::new(),
            uncommitted_bytes: 0,
            window_waiters: 0,
            ends: false,
            opened: None,
            failed: None,
            installing: false,
            times: Times::default(),
            applied: None,
            unable: None,
            effects: Vec::new(),
            machine,
        };
        let id = state.machine.id();
        let state = Mutex::new(state);
        let notifying = Mutex::default();
        let message_bytes_max = usize::MAX;
        let window = Window::new(usize::MAX);
        Replication { id, log, clock, host, solo, message_bytes_max, window, shown, commit, state, notifying }
    }

    pub fn id(&self) -> GroupId {
        self.id
    }

    pub fn commit(&self) -> Position {
        Position(self.commit.load(Ordering::Acquire))
    }

    /// Times of entries to come are not below `micros`, whatever the clock says.
    #[cold]
    pub fn raise_time(&self, micros: i64) {
        let mut state = self.lock();
        state.time = state.time.max(micros);
    }

    fn lock(&self) -> Locked<'_, C> {
        self.state.lock().expect("a panic under the group's lock ends the process")
    }

    fn now(&self) -> u64 {
        self.clock.monotonic_nanos()
    }

    // What this node appends.

    pub fn append(self: &Arc<Self>, records: EntryBuffer, party: C) -> Option<Mark> {
        self.append_since(records, party, None)
    }

    pub(crate) fn has_room(&self) -> bool {
        !self.log.is_full() && !self.window.is_full(&self.lock())
    }

    /// The same for a leader since an epoch: once that ends it must not append any more, even if
    /// this node leads again.
    pub(crate) fn append_since(self: &Arc<Self>, records: EntryBuffer, party: C, since: Option<Epoch>) -> Option<Mark> {
        if records.is_empty() {
            self.append_barrier(party, since);
            return None;
        }
        let checksum = records.checksum();
        let length = records.len().try_into().expect("an entry is bounded by the limit of a transaction's changes");
        self.log.wait_for_room();
        let mut state = self.lock();
        if self.window.is_full(&state) {
            state = self.window.wait(state, since);
        }
        let refused = state.failed.as_ref().map(|failure| NotCommitted::Log(failure.clone()));
        let may = refused.is_none() && (self.solo || state.leads_since(since));
        let header = if may { state.machine.append(checksum, length) } else { None };
        let Some(header) = header else {
            let outcome = Err(refused.unwrap_or(NotCommitted::Deposed));
            state.notifications.push_back(Notification::Party { party, payload: records.into_emptied(), outcome });
            self.notify_parties(state);
            return None;
        };
        self.put(&mut state, records, header);
        state.waiting.push_back(Waiting { position: header.mark.position, payload: Vec::new(), party });
        if !self.solo {
            let now = self.now();
            self.refresh_may_lead(&mut state);
            state.machine.tick(now);
            self.carry_out(&mut state, &[]);
        }
        self.notify_parties(state);
        Some(header.mark)
    }

    /// The next entry of the stream goes to the log.
    fn put(self: &Arc<Self>, state: &mut State<C>, records: EntryBuffer, header: Header) {
        // Clocks may go back; this does not.
        state.time = state.time.max(self.clock.wall_micros()).max(self.shown.so_far());
        let bytes = records.seal(self.id, &header, self.commit(), state.time);
        let payload = if self.solo {
            Payload::Own(bytes)
        } else {
            let bytes = Arc::new(state.recent.fitted(bytes));
            // Nothing is executed before the leader has opened: a copy takes the epoch's start.
            let executed = state.machine.is_open();
            state.keep(SharedEntry { header, bytes: Arc::clone(&bytes) }, executed);
            Payload::Shared(bytes)
        };
        self.write(state, payload, header.mark);
    }

    /// The lock is held, so that the log has entries in the order of their positions.
    fn write(self: &Arc<Self>, state: &mut State<C>, payload: Payload, mark: Mark) {
        let committing = Committing { group: Arc::clone(self), what: Appended::Entry(mark) };
        if let Err((_, failure)) = self.log.append_now(payload, committing) {
            self.fail(state, failure);
        }
    }

    /// Begins an epoch of this node alone; `party` is notified when that is committed.
    pub fn start_epoch(self: &Arc<Self>, configuration: GroupConfiguration, party: C) {
        assert!(self.solo, "a group with other members is configured by the metadata");
        self.configured(configuration);
        self.append_own(Vec::new(), party);
    }

    // What the log says.

    /// `all`: durable by one fsync, in the order of the appends.
    fn written(self: &Arc<Self>, all: impl Iterator<Item = (Appended<C>, Vec<u8>)>) {
        let mut state = self.lock();
        let mut entries = false;
        for (what, payload) in all {
            entries |= matches!(what, Appended::Entry(_));
            state.note_written(what, payload);
        }
        if entries {
            self.refresh_may_lead(&mut state);
            state.machine.report_written();
            self.carry_out(&mut state, &[]);
        }
        state.release(self.commit());
        self.notify_parties(state);
    }

    fn log_failed(self: &Arc<Self>, what: Option<Appended<C>>, failure: LogFailed) {
        let mut state = self.lock();
        self.fail(&mut state, failure.clone());
        if let Some(Appended::Own { party, .. }) = what {
            let outcome = Err(NotCommitted::Log(failure));
            state.notifications.push_back(Notification::Party { party, payload: Vec::new(), outcome });
        }
        self.notify_parties(state);
    }

    /// The node's log has failed, as another group has found. To be called for every group of the
    /// node: one that appends nothing would not hear of it.
    pub fn log_has_failed(self: &Arc<Self>, failure: LogFailed) {
        self.log_failed(None, failure);
    }

    /// Whether it knows that the node's log has failed.
    pub fn has_failed(&self) -> bool {
        self.lock().failed.is_some()
    }

    /// Nothing more becomes durable here, and the outcome of what waits is unknown.
    fn fail(&self, state: &mut State<C>, failure: LogFailed) {
        if state.failed.is_none() {
            state.failed = Some(failure.clone());
            state.notifications.push_back(Notification::Event(GroupEvent::LogFailed(failure.clone())));
        }
        state.give_up(&NotCommitted::Log(failure));
    }

    // What reads wait for.

    /// The round that has to be confirmed before a read that has just run is answered; 0: none.
    /// None if this node does not lead.
    pub fn read(self: &Arc<Self>) -> Option<u64> {
        self.read_since(None)
    }

    pub(crate) fn read_since(self: &Arc<Self>, since: Option<Epoch>) -> Option<u64> {
        let has_lease = self.host.has_lease();
        let mut state = self.lock();
        if !state.leads_since(since) {
            return None;
        }
        if has_lease && state.machine.may_use_lease() {
            return Some(0);
        }
        let now = self.now();
        self.refresh_may_lead(&mut state);
        let round = state.machine.read();
        state.machine.tick(now);
        self.carry_out(&mut state, &[]);
        self.notify_parties(state);
        round
    }

    /// Appends no longer wait for the window: what is executed on the way to the end of the process
    /// is appended at once.
    pub fn ends(self: &Arc<Self>) {
        let mut state = self.lock();
        state.ends = true;
        self.notify_parties(state);
    }

    // What the machine wants done.

    /// `incoming`: the entries of the message that was received.
    fn carry_out(self: &Arc<Self>, state: &mut State<C>, incoming: &[u8]) {
        let mut effects = std::mem::take(&mut state.effects);
        state.machine.move_effects(&mut effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::Send { to, envelope } => self.send(to, Urgency::Control, &envelope, &[]),
                Effect::SendEntries { to, epoch, after, up_to, commit, round } => {
                    self.send_entries(state, FromLog { to, epoch, after, up_to, commit, round });
                }
                Effect::Write(headers) => self.write_received(state, &headers, incoming),
                Effect::Start { header, body } => {
                    let mut records = EntryBuffer::default();
                    records.records().extend_from_slice(&body);
                    if let Some(configuration) = state.machine.configuration() {
                        state.configuration = configuration.clone();
                    }
                    self.put(state, records, header);
                }
                Effect::Drop { from } => {
                    while state.uncommitted.back().is_some_and(|last| last.entry.header.mark.position >= from) {
                        let dropped = state.uncommitted.pop_back().expect("seen just now");
                        state.uncommitted_bytes -= dropped.entry.cost();
                    }
                    let kept = state.waiting.partition_point(|waiting| waiting.position < from);
                    state.give_up_from(kept, &NotCommitted::Deposed);
                }
                Effect::Commit(position) => self.committed(state, position),
                Effect::Opened => {
                    state.times.open(&self.shown);
                    state.opened = Some(state.machine.mark_at(state.machine.commit()).epoch);
                    state.event(GroupEvent::Opened);
                }
                Effect::Confirmed(round) => state.event(GroupEvent::Confirmed(round)),
                Effect::Deposed { commit } => {
                    state.opened = None;
                    self.limit_time(state);
                    if !planted!(NotAppliedAgain) {
                        state.uncommitted.iter_mut().for_each(|entry| entry.executed = false);
                    }
                    if !planted!(CallersLeft) {
                        state.give_up(&NotCommitted::Deposed);
                    }
                    let place = state.committed_place();
                    assert_eq!(place.end.position, commit, "what is committed was told before");
                    state.event(GroupEvent::Deposed(Box::new(place)));
                }
                Effect::Promise(epoch) => state.event(GroupEvent::Promise(epoch)),
                Effect::Sealed(sealed) => state.event(GroupEvent::Sealed(sealed)),
                Effect::Propose(proposal) => state.event(GroupEvent::Propose(proposal)),
                Effect::StandsStill(stands_still) => state.event(GroupEvent::StandsStill(stands_still)),
                Effect::AskMetadata(epoch) => state.event(GroupEvent::AskMetadata(epoch)),
                Effect::Diverged(node) => state.event(GroupEvent::Diverged(node)),
                Effect::Differs(node, entry) => state.event(GroupEvent::Differs(node, entry)),
                Effect::NeedsSnapshot(node) => state.event(GroupEvent::NeedsSnapshot(node)),
            }
        }
        state.effects = effects;
    }

    /// A copy writes what was sent to it, as it came.
    fn write_received(self: &Arc<Self>, state: &mut State<C>, headers: &[Header], incoming: &[u8]) {
        let mut rest = incoming;
        let mut new = headers.iter();
        let mut next = new.next();
        while let Some(header) = next {
            let whole = rest;
            let entry = Entry::take_first(&mut rest).ok().flatten().expect("the message was decoded");
            if entry.header != *header {
                continue;
            }
            let bytes = Arc::new(state.recent.copy_of(&whole[..whole.len() - rest.len()]));
            state.time = state.time.max(entry.time);
            if header.starts_epoch
                && let Some((configuration, _)) = GroupConfiguration::decode(header.mark.epoch, entry.body)
            {
                state.configuration = configuration;
            }
            state.keep(SharedEntry { header: *header, bytes: Arc::clone(&bytes) }, false);
            self.write(state, Payload::Shared(bytes), header.mark);
            next = new.next();
        }
    }

    fn committed(&self, state: &mut State<C>, position: Position) {
        let before = self.commit.swap(position.0, Ordering::Release);
        assert!(before < position.0, "entries are committed in order: {position} after {before}");
        let mut applied = Vec::new();
        while let Some(first) = state.uncommitted.front()
            && first.entry.header.mark.position <= position
        {
            let Uncommitted { entry, executed } = state.uncommitted.pop_front().expect("seen just now");
            state.uncommitted_bytes -= entry.cost();
            state.committed.0 = entry.header.mark;
            if let Some(configuration) = begun_by(&entry) {
                state.committed.1 = configuration;
            }
            applied.extend((!executed).then_some(entry));
        }
        if !applied.is_empty() {
            state.notifications.push_back(Notification::Committed(applied));
        }
        state.release(position);
    }

    /// Releases the state's lock, and notifies the parties.
    fn notify_parties(&self, mut state: Locked<'_, C>) {
        self.window.wake_appends(&state);
        if state.notifications.is_empty() {
            return;
        }
        let mut notifying = self.notifying.lock().expect("a panic of a party ends the process");
        notifying.extend(state.notifications.drain(..));
        drop(state);
        for notification in notifying.drain(..) {
            match notification {
                Notification::Party { party, payload, outcome } => party.complete(payload, outcome),
                Notification::Committed(entries) => self.host.committed(self.id, entries),
                Notification::Event(event) => self.host.event(self.id, event),
            }
        }
    }
}
