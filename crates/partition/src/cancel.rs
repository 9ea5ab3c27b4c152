//! Calls that are no longer wanted: their client asked to cancel them, or its connection is gone.
//!
//! Network threads list them; each thread that is about to execute a call looks, and looks again at
//! every check of the query timeout while it executes one. A call that has been executed is never
//! taken back: what was written stays, whether its answer is read or not. Mostly nothing is listed,
//! and then a look is one load.
//!
//! Of groups that continue from an older copy than others (docs/decisions/0129), calls
//! of replicated tables are not executed either; that is a list of its own, and a look is one load,
//! too.
//!
//! One list serves the node. Which group's lead has ended is listed by group: what is executed for
//! another group continues, and the copy of another group that begins clears nothing.

use ferrite_base::leader_change::NOT_STARTED;
use ferrite_base::{ErrorKind, GroupId, UserError, limits, planted};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What tells one call of a node from all others.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct CallId {
    pub connection: u64,
    /// As the client numbers its calls, which may use a number again.
    pub handle: i64,
    /// When its network thread took it; later for calls that it took later.
    pub sent_micros: i64,
}

/// What is listed of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cancel {
    /// It is gone: no client is there to read an answer.
    Gone,
    /// The peer sends nothing more. It may still read, so what does not take long is answered.
    Ended,
    /// Its calls up to this moment; with a handle only those of it.
    Calls { handle: Option<i64>, until_micros: i64 },
}

#[derive(Default)]
struct Listed {
    gone: bool,
    ended: bool,
    calls: VecDeque<(Option<i64>, i64)>,
}

/// What is listed at present.
#[derive(Default)]
struct List {
    connections: HashMap<u64, Listed>,
    /// What is executed for these groups cannot be committed any more.
    deposed: BTreeSet<GroupId>,
    /// Their copies of replicated tables may differ from those of other groups.
    unequal: BTreeMap<GroupId, Arc<AtomicBool>>,
}

#[derive(Default)]
pub struct Cancellations {
    /// Of connections and deposed groups, and one more when all calls are to end; read before every
    /// call, hardly ever written.
    count: AtomicUsize,
    list: Mutex<List>,
    stopping: AtomicBool,
    /// No call is executed any more. Changed with the list locked.
    ending: AtomicBool,
}

/// The node's list, for the threads that execute calls of one group.
#[derive(Clone, Default)]
pub struct GroupCancellations {
    all: Arc<Cancellations>,
    group: GroupId,
    /// The group is listed as unequal, or was when the stores were taken that calls see.
    is_unequal: Arc<AtomicBool>,
}

impl Cancellations {
    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same list, for calls of that group.
    pub fn of_group(self: &Arc<Self>, group: GroupId) -> GroupCancellations {
        let is_unequal = Arc::clone(self.lock().unequal.entry(group).or_default());
        GroupCancellations { all: Arc::clone(self), group, is_unequal }
    }

    /// Lists something of a connection, until it is forgotten.
    pub fn add(&self, connection: u64, cancel: Cancel) {
        let mut list = self.lock();
        let listed = list.connections.entry(connection).or_default();
        match cancel {
            Cancel::Gone => listed.gone = true,
            Cancel::Ended => listed.ended = true,
            Cancel::Calls { handle, until_micros } => {
                if listed.calls.len() == limits::CONNECTION_CANCELS_MAX {
                    listed.calls.pop_front();
                }
                listed.calls.push_back((handle, until_micros));
            }
        }
        self.count_again(&list);
    }

    fn count_again(&self, list: &List) {
        let all = usize::from(self.ending.load(Ordering::Acquire));
        self.count.store(list.connections.len() + all + list.deposed.len(), Ordering::Release);
    }

    /// None of the connection's calls is left.
    pub fn forget(&self, connection: u64) {
        let mut list = self.lock();
        list.connections.remove(&connection);
        self.count_again(&list);
    }

    /// The server does not wait for calls any more: none is begun, and those that are executed
    /// stop.
    pub fn end_all(&self) {
        let list = self.lock();
        self.ending.store(true, Ordering::Release);
        self.count_again(&list);
    }

    /// Whether this node no longer leads the group: its calls that are executed stop, until it has
    /// stepped back. The threads that step back refuse those that wait.
    pub fn depose(&self, group: GroupId, deposed: bool) {
        let mut list = self.lock();
        match deposed {
            true => list.deposed.insert(group),
            false if planted!(DeposesAll) => std::mem::take(&mut list.deposed).contains(&group),
            false => list.deposed.remove(&group),
        };
        self.count_again(&list);
    }

    /// Whether the group's copies of replicated tables may differ from those of other groups: no
    /// call is begun then that touches one.
    pub fn unequal(&self, group: GroupId, unequal: bool) {
        self.lock().unequal.entry(group).or_default().store(unequal, Ordering::Release);
    }

    /// The answer to a call of no group in particular that [`Cancellations::covers`].
    #[cold]
    pub fn error(&self) -> UserError {
        if self.ending.load(Ordering::Acquire) { not_executed() } else { cancelled() }
    }

    /// The server stops: it does not wait for what may take minutes. Statements end of themselves,
    /// by the query timeout.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Whether the call is not to be executed.
    #[inline]
    pub fn covers(&self, call: CallId) -> bool {
        self.count.load(Ordering::Acquire) > 0 && self.is_cancelled(call, Duration::ZERO)
    }

    fn is_deposed(&self, group: GroupId) -> bool {
        self.lock().deposed.contains(&group)
    }

    #[cold]
    fn is_cancelled(&self, call: CallId, executed: Duration) -> bool {
        let list = self.lock();
        if self.ending.load(Ordering::Acquire) {
            return true;
        }
        list.connections.get(&call.connection).is_some_and(|listed| {
            let meant = |(handle, until): &(Option<i64>, i64)| {
                handle.is_none_or(|handle| handle == call.handle) && call.sent_micros <= *until
            };
            listed.gone
                || (listed.ended && executed > limits::ENDED_CONNECTION_QUERY_TIME_MAX)
                || listed.calls.iter().any(meant)
        })
    }
}

impl GroupCancellations {
    /// The node's list.
    pub fn all(&self) -> &Arc<Cancellations> {
        &self.all
    }

    /// Whether the call is not to be executed.
    #[inline]
    pub fn covers(&self, call: CallId) -> bool {
        self.all.covers(call)
    }

    /// Whether a call that has executed for this long is to stop.
    #[inline]
    pub fn stops(&self, call: CallId, executed: Duration) -> bool {
        let any = self.all.count.load(Ordering::Acquire) > 0;
        any && (self.all.is_deposed(self.group) || self.all.is_cancelled(call, executed))
    }

    pub fn is_stopping(&self) -> bool {
        self.all.is_stopping()
    }

    /// Whether the group's copies of replicated tables may differ from those of other groups.
    #[inline]
    pub fn is_unequal(&self) -> bool {
        self.is_unequal.load(Ordering::Acquire)
    }

    /// For what is executed later on snapshots of now.
    pub fn as_of_now(&self) -> GroupCancellations {
        GroupCancellations { is_unequal: Arc::new(AtomicBool::new(self.is_unequal())), ..self.clone() }
    }

    /// The answer to what would be executed on such copies: it was not.
    #[cold]
    pub fn unequal(&self) -> UserError {
        let group = self.group;
        let text = format!(
            "the copies of replicated tables in group {group} are of before an accepted loss, and are being made equal \
             to those of the other groups"
        );
        UserError::not_started(&text).with_hint("call again; ferrite admin status shows when they are equal")
    }

    /// The answer to a call that is not executed, or is stopped, because of what is listed.
    #[cold]
    pub fn error(&self) -> UserError {
        match () {
            () if self.all.ending.load(Ordering::Acquire) => not_executed(),
            () if self.all.is_deposed(self.group) => deposed(),
            () => cancelled(),
        }
    }
}

/// The answer to a call that the server does not execute because it stops.
#[cold]
fn not_executed() -> UserError {
    let text = format!("{NOT_STARTED}: the server is stopping, and the call was not executed");
    UserError::new(ErrorKind::Unavailable, "57P01", text).with_hint("send it again when the server is back")
}

/// The answer to a call that has stopped because the node no longer leads.
#[cold]
fn deposed() -> UserError {
    UserError::not_started("this node no longer leads, and nothing of the call was carried out")
        .with_hint("call again: another node leads, or will soon")
}

/// The answer to a cancelled call.
#[cold]
pub fn cancelled() -> UserError {
    UserError::data("57014", "Transaction Interrupted: it was cancelled").with_detail("nothing of it was carried out")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: GroupId = GroupId(0);
    const SECOND: GroupId = GroupId(1);

    fn call(connection: u64, handle: i64, sent_micros: i64) -> CallId {
        CallId { connection, handle, sent_micros }
    }

    #[test]
    fn what_is_listed_is_covered_and_nothing_else() {
        let list = Cancellations::default();
        assert!(!list.covers(call(1, 1, 1)));
        list.add(1, Cancel::Calls { handle: Some(5), until_micros: 100 });
        assert!(list.covers(call(1, 5, 100)));
        for other in [call(2, 5, 100), call(1, 6, 100), call(1, 5, 101)] {
            assert!(!list.covers(other), "{other:?}");
        }
        list.add(1, Cancel::Calls { handle: None, until_micros: 50 });
        assert!(list.covers(call(1, 6, 50)) && !list.covers(call(1, 6, 51)));
        list.add(3, Cancel::Gone);
        assert!(list.covers(call(3, -1, i64::MAX)));
        list.forget(3);
        list.forget(4);
        assert!(!list.covers(call(3, -1, i64::MAX)) && list.covers(call(1, 5, 7)));
    }

    #[test]
    fn at_the_end_all_calls_are_covered_whatever_else_is_listed() {
        let list = Cancellations::default();
        list.add(1, Cancel::Gone);
        assert_eq!(list.error(), cancelled());
        list.end_all();
        list.forget(1);
        let list = Arc::new(list).of_group(SECOND);
        assert!(list.covers(call(2, 1, 1)) && list.stops(call(2, 1, 1), Duration::ZERO));
        assert_eq!((list.error().kind(), list.all().error().kind()), (ErrorKind::Unavailable, ErrorKind::Unavailable));
    }

    #[test]
    fn what_a_deposed_leader_executes_stops_until_it_has_stepped_back() {
        let list = GroupCancellations::default();
        list.all().depose(FIRST, true);
        list.all().forget(7);
        assert!(list.stops(call(1, 1, 1), Duration::ZERO));
        assert!(!list.covers(call(1, 1, 1)), "what waits is refused where it waits");
        assert_eq!(list.error(), deposed());
        list.all().depose(FIRST, false);
        assert!(!list.stops(call(1, 1, 1), Duration::MAX));
        assert_eq!(list.error(), cancelled());
    }

    #[test]
    fn a_group_that_falls_stops_no_other_and_none_that_begins_to_copy_lets_it_continue() {
        let first = GroupCancellations::default();
        let second = first.all().of_group(SECOND);
        let stop = || [&first, &second].map(|list| list.stops(call(1, 1, 1), Duration::ZERO));
        first.all().depose(SECOND, true);
        assert_eq!(stop(), [false, true], "the first group's calls can still be committed");
        assert_eq!([first.error(), second.error()], [cancelled(), deposed()]);
        first.all().depose(FIRST, true);
        // Its applier begins while the second group's partitions still step back.
        first.all().depose(FIRST, false);
        assert_eq!(stop(), [false, true]);
        first.all().depose(SECOND, true);
        first.all().depose(SECOND, false);
        assert_eq!(stop(), [false, false]);
    }

    #[test]
    fn one_that_may_still_read_gets_what_does_not_take_long() {
        let list = Cancellations::default();
        list.add(1, Cancel::Ended);
        let most = limits::ENDED_CONNECTION_QUERY_TIME_MAX;
        let list = Arc::new(list).of_group(FIRST);
        assert!(!list.covers(call(1, 1, 1)) && !list.stops(call(1, 1, 1), most));
        assert!(list.stops(call(1, 1, 1), most + Duration::from_nanos(1)));
    }

    #[test]
    fn as_many_as_the_limit_are_remembered() {
        let list = Cancellations::default();
        for handle in 0..=limits::CONNECTION_CANCELS_MAX as i64 {
            list.add(1, Cancel::Calls { handle: Some(handle), until_micros: 1 });
        }
        assert!(!list.covers(call(1, 0, 1)), "the first is forgotten for the last");
        assert!((1..=limits::CONNECTION_CANCELS_MAX as i64).all(|handle| list.covers(call(1, handle, 1))));
    }

    #[test]
    fn a_group_is_listed_as_unequal_by_itself_and_what_was_taken_meanwhile_stays_so() {
        let list = Arc::<Cancellations>::default();
        let own = list.of_group(SECOND);
        list.unequal(FIRST, true);
        assert!(list.of_group(FIRST).is_unequal() && !own.is_unequal());
        list.unequal(SECOND, true);
        let taken = own.as_of_now();
        list.unequal(FIRST, false);
        assert!(own.is_unequal() && !list.of_group(FIRST).is_unequal());
        list.unequal(SECOND, false);
        assert!(!own.is_unequal() && taken.is_unequal(), "a snapshot shows what was there");
        assert!(!own.covers(call(1, 1, 1)), "other calls are executed");
    }
}
