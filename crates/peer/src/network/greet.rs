//! The handshake (docs/format/peer.md): from the first bytes of a connection to an open lane.
//!
//! The dialer says who it is and what it has drawn. The acceptor draws something itself, and
//! repeats what it heard; the dialer repeats that. Only then is either side believed: nothing that
//! is only a replay changes what is known of nodes, or closes anything.

use super::connections::{Connections, State};
use super::{Command, locked, thread_of};
use crate::handshake::{ANSWER_BYTES, Answer, HELLO_BYTES, Hello, NONCE_BYTES, Nonce, Nonces, Refusal};
use crate::inquiry;
use ferrite_base::NodeId;
use ferrite_notice::Notice;
use std::time::Instant;

impl Connections {
    /// Bytes that no process can have recorded.
    pub(super) fn draw(&self) -> Nonce {
        let mut nonce = Nonce::default();
        locked(&self.shared.random).fill(&mut nonce);
        nonce
    }

    /// The bytes that were waited for have come.
    pub(super) fn greeted(&mut self, number: usize) {
        let connection = self.open.get_mut(&number).expect("it was read from");
        match connection.state {
            State::Dialing { node, nonce, .. } => self.answered(number, node, nonce),
            State::Welcomed { hello, nonces } => self.repeated(number, &hello, &nonces),
            _ => self.said_hello(number),
        }
    }

    /// The node that was dialed has answered.
    fn answered(&mut self, number: usize, node: NodeId, nonce: Nonce) {
        let connection = self.open.get_mut(&number).expect("it was read from");
        let address = connection.address;
        let refused = |reason: &str| Some(Notice::PeerNotConnecting { node, address, reason: reason.to_owned() });
        let (answer, rest) = connection.greeting.split_first_chunk().expect("an answer was waited for");
        let notice = match (Answer::decode(answer), rest.try_into()) {
            (Some(Answer { outcome: Ok(_), .. }), Err(_)) => {
                connection.wanted = ANSWER_BYTES + 2 * NONCE_BYTES;
                return;
            }
            (Some(Answer { outcome: Ok(version), from }), Ok(rest)) => {
                let nonces = Nonces::decode(rest);
                if nonces.dialer == nonce {
                    return self.welcomed(number, &from, version, &nonces);
                }
                refused("the answer from there was recorded on another connection")
            }
            // It will be in a cluster, or reports itself what it waits for: it is tried again.
            (Some(Answer { outcome: Err(Refusal::NoCluster | Refusal::Replaced), .. }), _) => None,
            (Some(Answer { outcome: Err(Refusal::Version), from }), _) => {
                let here = *locked(&self.shared.roster).here();
                refused(&Refusal::Version.of(&from, &here))
            }
            (Some(Answer { outcome: Err(refusal), .. }), _) => refused(&format!("it says of this node: {refusal}")),
            (None, _) => refused("what answers there is not a node"),
        };
        notice.into_iter().for_each(|notice| self.shared.handler.notice(notice));
        self.close(number);
    }

    /// It answers for itself, but is it the node that we wanted?
    fn welcomed(&mut self, number: usize, from: &Hello, version: u16, nonces: &Nonces) {
        let connection = self.open.get_mut(&number).expect("it was read from");
        let State::Dialing { node, lane, .. } = connection.state else { return };
        let admitted = if from.node == node {
            locked(&self.shared.roster).admit(from, Instant::now())
        } else {
            Err(Refusal::Unknown)
        };
        match admitted {
            Ok(common) if common >= version => {
                connection.to_send.extend(nonces.acceptor);
                self.opened(number, (node, from.incarnation, lane), (nonces.acceptor_begins(), nonces.dialer_begins()));
            }
            Ok(_) => self.close(number),
            Err(refusal) => {
                let address = connection.address;
                let here = *locked(&self.shared.roster).here();
                let reason = refusal.of(from, &here);
                self.shared.handler.notice(Notice::PeerNotConnecting { node, address, reason });
                self.close(number);
            }
        }
    }

    /// The dialer has said who it is, or asks something.
    fn said_hello(&mut self, number: usize) {
        let connection = self.open.get_mut(&number).expect("it was read from");
        let ip = connection.address.ip();
        let (greeting, rest) = connection.greeting.split_first_chunk::<HELLO_BYTES>().expect("it was waited for");
        if *greeting == inquiry::greeting() {
            connection.state = State::Inquiring(inquiry::frames());
            return;
        }
        let Some(hello) = Hello::decode(greeting) else {
            self.shared.handler.notice(Notice::NotAPeer { ip });
            return self.close(number);
        };
        let judged = {
            let roster = locked(&self.shared.roster);
            // Of two nodes the one with the higher id dials.
            let judged = roster.judge(&hello, Instant::now());
            judged
                .and_then(|version| if hello.node > roster.here().node { Ok(version) } else { Err(Refusal::Replaced) })
        };
        match (judged, rest.try_into()) {
            // A dialer of an earlier version, with no version in common, sends no more.
            (Ok(_), Err(_)) => connection.wanted = HELLO_BYTES + NONCE_BYTES,
            (Err(refusal), Err(_)) if refusal != Refusal::Version => connection.wanted = HELLO_BYTES + NONCE_BYTES,
            (Ok(version), Ok(nonce)) => self.admitted(number, &hello, version, nonce),
            (Err(refusal), _) => {
                // The dialer tries again; this node reports itself what it waits for. If it has
                // taken another's place, nodes that look for that one learn of it from the voters.
                if !matches!(refusal, Refusal::NoCluster | Refusal::Replaced) {
                    // Not known to be true: any process that has heard it can say it.
                    let here = *locked(&self.shared.roster).here();
                    let reason = refusal.of(&hello, &here);
                    self.shared.handler.notice(Notice::PeerRefused { node: hello.node, ip, reason });
                }
                self.answer(number, &hello, Err(refusal));
            }
        }
    }

    /// The connection goes to the thread of its lane.
    fn admitted(&mut self, number: usize, hello: &Hello, version: u16, nonce: Nonce) {
        let thread = thread_of(hello.lane);
        if thread == self.number {
            return self.welcome(number, hello, version, nonce);
        }
        let mut connection = self.open.remove(&number).expect("it was read from");
        if self.poll.registry().deregister(&mut connection.stream).is_ok() {
            let to = &self.shared.threads[thread];
            let _ = to.commands.send(Command::Adopt(connection.stream, *hello, version, nonce));
            to.waker.wake().expect("a thread that is there can be woken");
        }
    }

    pub(super) fn welcome(&mut self, number: usize, hello: &Hello, version: u16, nonce: Nonce) {
        let nonces = Nonces { dialer: nonce, acceptor: self.draw() };
        let connection = self.open.get_mut(&number).expect("it was read from");
        connection.greeting.clear();
        connection.wanted = NONCE_BYTES;
        connection.state = State::Welcomed { hello: *hello, nonces };
        self.answer(number, hello, Ok((version, nonces)));
    }

    fn answer(&mut self, number: usize, hello: &Hello, outcome: Result<(u16, Nonces), Refusal>) {
        let from = Hello { lane: hello.lane, ..*locked(&self.shared.roster).here() };
        let connection = self.open.get_mut(&number).expect("it was read from");
        connection.to_send.extend(Answer { outcome: outcome.map(|(version, _)| version), from }.encode());
        match outcome {
            Ok((_, nonces)) => connection.to_send.extend(nonces.encode()),
            Err(_) => connection.state = State::Ending,
        }
        self.flush(number);
    }

    /// The dialer has repeated what it heard, if it heard it.
    fn repeated(&mut self, number: usize, hello: &Hello, nonces: &Nonces) {
        let connection = self.open.get_mut(&number).expect("it was read from");
        let node = hello.node;
        let ip = connection.address.ip();
        let admitted = if connection.greeting == nonces.acceptor {
            let admitted = locked(&self.shared.roster).admit(hello, Instant::now());
            admitted.map(drop).map_err(|refusal| refusal.to_string())
        } else {
            Err("what it says was recorded on another connection".to_owned())
        };
        match admitted {
            Ok(()) => {
                let begins = (nonces.dialer_begins(), nonces.acceptor_begins());
                self.opened(number, (node, hello.incarnation, hello.lane), begins);
            }
            Err(reason) => {
                self.shared.handler.notice(Notice::PeerRefused { node, ip, reason });
                self.close(number);
            }
        }
    }
}
