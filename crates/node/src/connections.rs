//! How many connections there may be on all network threads together, and how long each may take.

use ferrite_base::limits;
use ferrite_notice::Notice;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

/// What a connection may do, and how many there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionLimits {
    /// All network threads together; usually [`limits::CONNECTIONS_MAX`].
    pub connections_max: usize,
    /// Within this a login must arrive.
    pub login_time_max: Duration,
    /// Within this a frame that was begun must arrive, unless it is large.
    pub frame_time_max: Duration,
    /// A connection that reads nothing for this long is closed.
    pub unread_time_max: Duration,
    /// And one with this many bytes of answers that it has not read.
    pub unread_bytes_max: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        ConnectionLimits {
            connections_max: limits::CONNECTIONS_MAX,
            login_time_max: Duration::from_secs(limits::LOGIN_SECONDS_MAX),
            frame_time_max: Duration::from_secs(limits::FRAME_SECONDS_MAX),
            unread_time_max: Duration::from_secs(limits::CONNECTION_UNREAD_SECONDS_MAX),
            unread_bytes_max: limits::CONNECTION_ANSWER_BYTES_MAX,
        }
    }
}

/// Between two lines about refused connections.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// The connections of all network threads.
pub struct Connections {
    pub limits: ConnectionLimits,
    open: AtomicUsize,
    /// How many there ever were.
    numbered: AtomicU64,
    /// When the last line about refused ones was written.
    told: Mutex<Option<Instant>>,
    /// A client has named a user.
    user_named: AtomicBool,
    /// The process ends: a client that logs in now would be cut off soon.
    ends: AtomicBool,
}

impl Connections {
    pub fn new(limits: ConnectionLimits) -> Connections {
        Connections {
            limits,
            open: AtomicUsize::new(0),
            numbered: AtomicU64::new(0),
            told: Mutex::new(None),
            user_named: AtomicBool::new(false),
            ends: AtomicBool::new(false),
        }
    }

    /// Logins of clients are refused from now on. One client library hangs for ever where its
    /// connection ends just after its login (docs/migration.md).
    pub fn end(&self) {
        self.ends.store(true, Relaxed);
    }

    pub fn takes_logins(&self, admin: bool) -> bool {
        admin || !self.ends.load(Relaxed)
    }

    /// One more, if there is room; it will be [`Connections::closed`]. Some of the administrators'
    /// are taken beyond the limit.
    pub fn opened(&self, admin: bool) -> bool {
        let reserved = if admin { limits::ADMIN_CONNECTIONS_RESERVED } else { 0 };
        let most = self.limits.connections_max.saturating_add(reserved);
        let taken = self.open.fetch_update(Relaxed, Relaxed, |open| (open < most).then_some(open + 1)).is_ok();
        if !taken {
            self.report_full();
        }
        taken
    }

    fn report_full(&self) {
        let mut told = self.told.lock().expect("nobody panics with it");
        if told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
            *told = Some(Instant::now());
            ferrite_io::notify(Notice::ConnectionsFull { open: self.open.load(Relaxed) });
        }
    }

    /// A login names this user, or none. The first time, the operator hears that it protects
    /// nothing.
    pub fn user(&self, name: &str) {
        if !name.is_empty() && !self.user_named.swap(true, Relaxed) {
            ferrite_io::notify(Notice::UserNotChecked { user: name.to_owned() });
        }
    }

    pub fn closed(&self) {
        self.open.fetch_sub(1, Relaxed);
    }

    /// A number that no other connection of this node has, from 1.
    pub fn next_number(&self) -> u64 {
        self.numbered.fetch_add(1, Relaxed) + 1
    }
}
