//! How this node's process becomes one of a cluster: asks the others until all have declared
//! (docs/decisions/0056-founding.md), answers those who ask.
//!
//! The steps are `ferrite_meta::founding`; this brings them disk, network and time.

use crate::cluster::directory;
use crate::cluster::notices::Notices;
use crate::cluster::place;
use crate::options::ServerError;
use crossbeam_channel::{Receiver, Sender, bounded};
use ferrite_io::Disk;
use ferrite_meta::State;
use ferrite_meta::founding::{Declaration, Effect, Founding, WrittenDown};
use ferrite_peer::inquire;
use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Between two rounds of questions, unless somebody has said something new.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// A node that does not answer in this time is asked again in the next round.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);

/// What the declarations came to.
pub enum Formed {
    /// A cluster, of which this node is one, with its place as its id.
    Founded { own: Declaration, all: Vec<Declaration>, state: Box<State> },
    /// The others have founded one with another directory in this node's place.
    Without { own: Declaration, all: Vec<Declaration> },
}

/// The node's side of founding, for the thread that asks and those that answer.
pub struct Founders {
    founding: Mutex<Founding>,
    news: (Sender<()>, Receiver<()>),
    notices: Notices,
}

impl Founders {
    pub fn new(written: Option<WrittenDown>, wanted: Declaration) -> Founders {
        let founding = Mutex::new(Founding::new(written, wanted));
        Founders { founding, news: bounded(1), notices: Notices::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Founding> {
        self.founding.lock().expect("a panic with the founding ends the process")
    }

    pub fn own(&self) -> Declaration {
        self.lock().own().clone()
    }

    /// The answer to whoever asks, which may be a node before or after it is one of the cluster's.
    pub fn answer(&self, question: &[u8]) -> Option<Vec<u8>> {
        let mut founding = self.lock();
        if let Err(error) = founding.received(None, question) {
            self.notices.say(&format!("a question of a node cannot be read: {error}"));
            return None;
        }
        let answer = founding.answer();
        drop(founding);
        let _ = self.news.0.try_send(());
        answer
    }

    /// Asks until there is a cluster, or until the process is to end.
    pub fn form(&self, disk: &dyn Disk, dir: &Path, ends: &AtomicBool) -> Result<Formed, ServerError> {
        loop {
            let mut asks = BTreeMap::new();
            if let Some(formed) = self.carry_out(disk, dir, &mut asks)? {
                return Ok(formed);
            }
            self.ask(asks);
            if let Some(formed) = self.carry_out(disk, dir, &mut BTreeMap::new())? {
                return Ok(formed);
            }
            if ends.load(Ordering::Acquire) {
                return Err(ServerError::Ended);
            }
            let _ = self.news.1.recv_timeout(ASK_EVERY);
            self.lock().tick();
        }
    }

    /// `asks`: by place, what is said to it.
    fn carry_out(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        asks: &mut BTreeMap<u32, Vec<u8>>,
    ) -> Result<Option<Formed>, ServerError> {
        let (mut effects, mut written) = (VecDeque::new(), directory::founding(disk, dir)?);
        loop {
            let mut new = Vec::new();
            self.lock().move_effects(&mut new);
            effects.extend(new);
            let Some(effect) = effects.pop_front() else { return Ok(None) };
            match effect {
                Effect::Send { to, message } => drop(asks.insert(to, message)),
                Effect::Write(down) => {
                    directory::write_founding(disk, dir, &down)?;
                    written = Some(down);
                    self.lock().written();
                }
                Effect::Founded(state) => {
                    let down = written.take().expect("what was founded is written down");
                    let all = down.founded.expect("what was founded is written down");
                    return Ok(Some(Formed::Founded { own: down.own, all, state }));
                }
                Effect::FoundedWithout(all) => return Ok(Some(Formed::Without { own: self.own(), all })),
                Effect::Say(line) => self.notices.say(&line),
            }
        }
    }

    /// All at the same time: one that does not answer holds up nobody.
    fn ask(&self, asks: BTreeMap<u32, Vec<u8>>) {
        let hosts = self.own().plan.hosts;
        std::thread::scope(|scope| {
            for (to, message) in asks {
                let host = &hosts[to as usize - 1];
                scope.spawn(move || self.ask_one(to, host, &message));
            }
        });
    }

    fn ask_one(&self, to: u32, host: &str, message: &[u8]) {
        for address in place::addresses(host) {
            match inquire(address, message, ANSWER_TIME_MAX) {
                Ok(answer) => {
                    if let Err(error) = self.lock().received(Some(to), &answer) {
                        self.notices.say(&format!("node {to} ({host}) answers what cannot be used: {error}"));
                    }
                    return;
                }
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    self.notices.say(&format!("what answers at {host} is not a node of this cluster: {error}"));
                }
                // It is not there yet.
                Err(_) => {}
            }
        }
    }
}
