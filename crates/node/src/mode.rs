//! Which calls a node takes: all, reads only, or none.

use ferrite_base::{ErrorKind, UserError, UserResult};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, TryLockError};

type Then = Box<dyn FnOnce() + Send>;

/// Which calls are taken. System procedures always are.
#[derive(Default)]
pub struct Mode {
    /// The flags below; 0: all calls are taken.
    state: AtomicU8,
    /// Free bytes of the disk and how many of them are the reserve, when that was looked at last.
    free: AtomicU64,
    reserve: AtomicU64,
    /// Of a node that does not lead: what callers are advised.
    advice: Mutex<String>,
    /// Of such a node: it is a member of the group.
    is_copy: AtomicBool,
    /// Of a node of a cluster: the revision of the settings that say whether it is paused.
    settings: AtomicU64,
    /// What is done once that is so far.
    behind_settings: Mutex<Vec<(u64, Then)>>,
    /// Read-locked by those that admit a call and hand it over outside of a network thread's batch.
    handing_over: RwLock<()>,
}

const RUNNING: u8 = 0;
/// An administrator has paused the database: of a node of a cluster, as the metadata says.
const PAUSED: u8 = 1;
/// All calls are refused.
const STOPPING: u8 = 2;
/// The same until another node leads: an administrator prepares the end of what this one does.
const PREPARED: u8 = 32;
/// The disk has less room than its reserve: writes are refused, in whatever state.
const DISK_LOW: u8 = 4;
/// Another node leads the partitions: nothing is executed here, in whatever state.
const FOLLOWS: u8 = 8;
/// This node leads, and hands over: it begins nothing by itself, in whatever state.
const HANDS_OVER: u8 = 16;

impl Mode {
    /// Returns what was set before.
    fn set(&self, flag: u8, is_set: bool) -> u8 {
        match is_set {
            true => self.state.fetch_or(flag, Relaxed),
            false => self.state.fetch_and(!flag, Relaxed),
        }
    }

    /// Writes are refused from now on, or taken again. Calls that were admitted before may still be
    /// on their way to their partitions: see [`Mode::handed_over`]. Returns whether that changed
    /// anything.
    pub fn pause(&self, paused: bool) -> bool {
        let before = self.set(PAUSED, paused);
        (before & PAUSED != 0) != paused
    }

    /// The same by this revision of the cluster's settings.
    pub fn pause_by(&self, revision: u64, paused: bool) {
        self.pause(paused);
        let mut behind = self.behind_settings.lock().unwrap_or_else(PoisonError::into_inner);
        self.settings.fetch_max(revision, Relaxed);
        let due: Vec<_> = behind.extract_if(.., |(wanted, _)| *wanted <= revision).collect();
        drop(behind);
        due.into_iter().for_each(|(_, then)| then());
    }

    /// Done as soon as these settings, or later ones, say whether the database is paused.
    pub fn once_settings(&self, revision: u64, then: Then) {
        let mut behind = self.behind_settings.lock().unwrap_or_else(PoisonError::into_inner);
        if self.settings.load(Relaxed) < revision {
            return behind.push((revision, then));
        }
        drop(behind);
        then();
    }

    /// All calls are refused from now on.
    pub fn stop(&self) {
        self.set(STOPPING, true);
    }

    /// The same, until this node no longer leads: what an administrator has prepared here does not
    /// apply when the node leads again, days later.
    pub fn prepare_stop(&self) {
        self.set(PREPARED, true);
    }

    /// They are taken again.
    pub fn cancel_stop(&self) {
        self.set(STOPPING | PREPARED, false);
    }

    /// To be held while a call is admitted and handed to its partition or to the coordinator, by
    /// those that do both at once. Network threads and the forwarding thread collect batches, and
    /// say themselves when these have left.
    pub fn hands_on(&self) -> RwLockReadGuard<'_, ()> {
        self.handing_over.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns once the calls that hold [`Mode::hands_on`] are handed over.
    pub fn handed_over(&self) {
        drop(self.handing_over.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Whether no call is being handed over at this moment.
    pub fn is_handed_over(&self) -> bool {
        !matches!(self.handing_over.try_write(), Err(TryLockError::WouldBlock))
    }

    /// All is as usual, and this node leads and is to continue.
    pub fn is_running(&self) -> bool {
        self.state.load(Relaxed) & (PAUSED | STOPPING | PREPARED | FOLLOWS | HANDS_OVER) == RUNNING
    }

    /// Whether this node is about to hand over. What comes from clients is executed as ever: it was
    /// taken before.
    pub fn hand_over(&self, does: bool) {
        self.set(HANDS_OVER, does);
    }

    /// Neither paused nor stopping, whichever node leads.
    pub fn is_open(&self) -> bool {
        self.state.load(Relaxed) & (PAUSED | STOPPING | PREPARED) == RUNNING
    }

    /// This node leads the partitions, as a node without others always does.
    pub fn serve(&self) {
        self.state.fetch_and(!FOLLOWS, Relaxed);
    }

    /// Another node leads: calls are refused with this advice. `is_copy`: this one has a copy that
    /// counts.
    pub fn follow(&self, advice: String, is_copy: bool) {
        self.is_copy.store(is_copy, Relaxed);
        *self.advice.lock().expect("no panic with the advice") = advice;
        self.set(FOLLOWS, true);
        self.set(PREPARED, false);
    }

    /// Whether a node that does not lead has a copy that counts.
    pub fn is_copy(&self) -> bool {
        self.is_copy.load(Relaxed)
    }

    pub fn serves(&self) -> bool {
        self.state.load(Relaxed) & FOLLOWS == 0
    }

    /// Says how much room the disk has. Whether that has changed anything.
    pub fn disk_has(&self, free: u64, reserve: u64) -> bool {
        self.free.store(free, Relaxed);
        self.reserve.store(reserve, Relaxed);
        let before = if free < reserve {
            self.state.fetch_or(DISK_LOW, Relaxed)
        } else {
            self.state.fetch_and(!DISK_LOW, Relaxed)
        };
        (before & DISK_LOW != 0) != (free < reserve)
    }

    /// Free bytes and the reserve, where less than half of it is free.
    pub fn reserve_is_half_gone(&self) -> Option<(u64, u64)> {
        let free = self.free.load(Relaxed);
        let reserve = self.reserve.load(Relaxed);
        (free < reserve / 2).then_some((free, reserve))
    }

    /// Free bytes of the disk, when that was looked at last.
    pub fn disk_free(&self) -> u64 {
        self.free.load(Relaxed)
    }

    /// The disk has less than twice its reserve: soon writes are refused.
    pub fn is_disk_nearly_low(&self) -> bool {
        self.free.load(Relaxed) < self.reserve.load(Relaxed).saturating_mul(2)
    }

    pub fn is_disk_low(&self) -> bool {
        self.state.load(Relaxed) & DISK_LOW != 0
    }

    /// Whether a program may run now. A connection to the administration port may write while the
    /// server is paused.
    #[inline]
    pub fn admit(&self, read_only: bool, admin: bool) -> UserResult<()> {
        match self.state.load(Relaxed) {
            RUNNING => Ok(()),
            mode => self.admit_by(mode, read_only, admin),
        }
    }

    #[cold]
    fn admit_by(&self, mode: u8, read_only: bool, admin: bool) -> UserResult<()> {
        let text = match () {
            () if mode & (STOPPING | PREPARED) != 0 => "Server is shutting down.",
            () if mode & FOLLOWS != 0 => return Err(self.follows()),
            () if read_only => return Ok(()),
            () if mode & PAUSED != 0 && !admin => {
                "Server is paused and is available in read-only mode - please try again later."
            }
            () if mode & DISK_LOW != 0 => return Err(self.disk_low()),
            () => return Ok(()),
        };
        Err(UserError::new(ErrorKind::Unavailable, "57P03", text))
    }

    fn follows(&self) -> UserError {
        let advice = self.advice.lock().expect("no panic with the advice").clone();
        UserError::not_started("this node does not lead the partitions").with_hint(advice)
    }

    fn disk_low(&self) -> UserError {
        let text = "the disk of the redo log has less room than its reserve: writes are refused";
        UserError::new(ErrorKind::Unavailable, "53100", text)
            .with_detail(format!(
                "{} bytes are free, the reserve is {} bytes (--disk-reserve)",
                self.free.load(Relaxed),
                self.reserve.load(Relaxed)
            ))
            .with_hint("free disk space: writes are taken again as soon as there is room, and reads go on meanwhile")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_follows_refuses_all_and_says_who_leads() {
        let mode = Mode::default();
        assert!(mode.serves() && mode.is_running(), "a node without others");
        mode.follow("call node 2".to_owned(), true);
        mode.pause(true);
        for admin in [true, false] {
            let error = mode.admit(true, admin).expect_err("refused").to_string();
            assert!(error.contains("does not lead") && error.contains("call node 2"), "{error}");
        }
        assert!(!mode.serves() && !mode.is_running());
        mode.serve();
        let refused = mode.admit(false, false).expect_err("paused before it led").to_string();
        assert!(refused.contains("paused") && mode.admit(false, true).is_ok() && !mode.is_running(), "{refused}");
        mode.pause(false);
        assert!(mode.is_running() && mode.admit(false, false).is_ok());
        mode.hand_over(true);
        assert!(!mode.is_running() && mode.serves() && mode.admit(false, false).is_ok());
        mode.hand_over(false);
        assert!(mode.is_running());
        mode.prepare_stop();
        assert!(!mode.is_open() && mode.admit(true, true).is_err());
        mode.follow(String::new(), false);
        mode.serve();
        assert!(mode.is_running(), "what was prepared ends with the lead");
        mode.follow(String::new(), false);
        mode.stop();
        let error = mode.admit(true, true).expect_err("refused").to_string();
        assert!(error.contains("shutting down"), "{error}");
    }

    #[test]
    fn what_waits_for_settings_is_done_once_they_are_in_force() {
        let mode = std::sync::Arc::new(Mode::default());
        let (to, seen) = crossbeam_channel::unbounded();
        let then = |revision: u64| -> Then {
            let (to, mode) = (to.clone(), std::sync::Arc::clone(&mode));
            Box::new(move || to.send((revision, mode.admit(false, false).is_err())).expect("the test waits"))
        };
        mode.once_settings(3, then(3));
        mode.once_settings(4, then(4));
        mode.pause_by(2, false);
        assert!(seen.is_empty());
        mode.pause_by(3, true);
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), [(3, true)], "and it is paused by then");
        mode.once_settings(2, then(2));
        mode.pause_by(5, false);
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), [(2, true), (4, false)]);
    }

    #[test]
    fn a_low_disk_refuses_writes_in_whatever_state() {
        let mode = Mode::default();
        let code = |read_only| mode.admit(read_only, false).err().map(|error| error.code().to_owned());
        let is = |reads: Option<&str>, writes: Option<&str>| {
            assert_eq!((code(true).as_deref(), code(false).as_deref()), (reads, writes));
        };
        is(None, None);
        assert!(!mode.disk_has(100, 100), "at the mark there is room");
        assert_eq!(mode.reserve_is_half_gone(), None);
        assert!(!mode.disk_has(200, 100) && !mode.is_disk_nearly_low());
        assert!(!mode.disk_has(199, 100) && mode.is_disk_nearly_low());
        assert!(mode.disk_has(99, 100) && !mode.disk_has(98, 100));
        is(None, Some("53100"));
        assert!(mode.is_running() && mode.is_disk_low());
        let error = mode.admit(false, false).expect_err("refused").to_string();
        assert!(error.contains("98 bytes are free") && error.contains("--disk-reserve"), "{error}");
        mode.pause(true);
        is(None, Some("57P03"));
        mode.pause(false);
        // What is resumed is not the disk.
        is(None, Some("53100"));
        mode.stop();
        is(Some("57P03"), Some("57P03"));
        assert!(mode.disk_has(100, 100));
        mode.disk_has(50, 100);
        assert_eq!(mode.reserve_is_half_gone(), None);
        mode.disk_has(49, 100);
        assert_eq!(mode.reserve_is_half_gone(), Some((49, 100)));
        mode.disk_has(100, 100);
        mode.pause(true);
        mode.cancel_stop();
        is(None, Some("57P03"));
        mode.pause(false);
        is(None, None);
    }
}
