//! Tells when all calls of clients that a node has taken are answered: those of network threads,
//! and those that wait to be passed on.

use crate::mailbox::{Mail, NetworkMailbox};
use crossbeam_channel::{Receiver, TryRecvError, unbounded};
use ferrite_member::forward::Forward;
use std::sync::Arc;

pub struct Drain {
    network: Arc<[Arc<NetworkMailbox>]>,
    forward: Forward,
    /// From each network thread, once the calls that it has read so far are on their way.
    passed: Option<Receiver<()>>,
    answer: Option<Receiver<bool>>,
}

impl Drain {
    pub fn new(network: Arc<[Arc<NetworkMailbox>]>, forward: Forward) -> Drain {
        Drain { network, forward, passed: None, answer: None }
    }
}

impl ferrite_member::Drain for Drain {
    fn begin(&mut self) {
        let (to, passed) = unbounded();
        self.network.iter().for_each(|mailbox| mailbox.send(Mail::Passed(to.clone())));
        (self.passed, self.answer) = (Some(passed), None);
    }

    fn is_done(&mut self, but_for: usize) -> bool {
        if let Some(passed) = &self.passed {
            // Each thread reports it and drops its end; one that has ended has nothing.
            while passed.try_recv().is_ok() {}
            if passed.try_recv() != Err(TryRecvError::Disconnected) {
                return false;
            }
            self.passed = None;
        }
        let answer = self.answer.get_or_insert_with(|| self.forward.is_drained(but_for));
        let Ok(done) = answer.try_recv() else { return false };
        self.answer = None;
        done
    }
}
