//! A network thread's mailbox: what other threads send to it.

use crossbeam_channel::{Receiver, Sender, unbounded};
use ferrite_member::forward::Behind;
use ferrite_partition::{AnswerBatch, Mailbox};
use ferrite_system::traffic::NetworkReport;
use mio::Waker;
use mio::net::TcpStream;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub enum Mail {
    Answers(AnswerBatch),
    /// A connection that another network thread accepted for this one.
    Accepted {
        stream: TcpStream,
        admin: bool,
    },
    /// The calls of a connection, by the number that its login gave, are no longer wanted: that of
    /// a handle, or all.
    Cancel {
        connection: i64,
        handle: Option<i64>,
    },
    /// The node was full, and has room again.
    Room,
    /// The schema changed: tell the connections that subscribed.
    CatalogChanged,
    /// Another node leads, or there are others: tell them, too.
    TopologyChanged,
    /// Asks when calls that were read before this are on their way.
    Passed(Sender<()>),
    /// Dropped after those calls.
    Behind(Arc<Behind>),
    /// Asks for what was counted here.
    Report(Sender<NetworkReport>),
    /// Finish: no more reading, write what is there, close.
    Stop,
    /// Peers that do not read are not waited for any longer.
    Hurry,
}

pub struct NetworkMailbox {
    queue: Sender<Mail>,
    waker: Waker,
    /// A wake-up is on its way and has not been taken.
    waking: AtomicBool,
}

impl NetworkMailbox {
    pub fn new(waker: Waker) -> (Arc<NetworkMailbox>, Receiver<Mail>) {
        let (queue, receiver) = unbounded();
        (Arc::new(NetworkMailbox { queue, waker, waking: AtomicBool::new(false) }), receiver)
    }

    /// Never blocks. Mail to a thread that has ended is dropped with its connections.
    pub fn send(&self, mail: Mail) {
        if self.queue.send(mail).is_ok() && !self.waking.swap(true, Ordering::AcqRel) {
            let woken: io::Result<()> = self.waker.wake();
            woken.expect("waking a thread of this process");
        }
    }

    /// The owner is awake and will look before it sleeps: nothing needs to wake it until
    /// [`Self::taking`].
    pub fn is_awake(&self) {
        // Not a plain store: what `taking` reads must continue from what the senders have written.
        self.waking.swap(true, Ordering::Relaxed);
    }

    /// The owner is about to look; later mail wakes it again.
    pub fn taking(&self) {
        // Acquires what was sent without a wake-up.
        self.waking.swap(false, Ordering::AcqRel);
    }
}

impl Mailbox for NetworkMailbox {
    fn deliver(&self, mut answers: AnswerBatch) {
        answers.count();
        self.send(Mail::Answers(answers));
    }
}
