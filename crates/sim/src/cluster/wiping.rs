//! Machines that lose their disks, or what they have voted, and join again.

use crate::cluster::machine::Machine;
use crate::cluster::metadata::registration;
use crate::cluster::world::{JOIN_EVERY_MILLIS, MILLI, Newcomer, World};
use crate::node::DIRECTORY;
use ferrite_base::{Incarnation, NodeId};
use ferrite_io::Disk;
use ferrite_io::simulated::Restart;
use ferrite_meta::{Ask, Kind};
use std::path::Path;
use std::sync::Arc;

impl World {
    /// A node loses all that it has, and joins with a new id.
    pub fn wipe(&mut self, id: NodeId) {
        self.crash(id, Restart::Power);
        let machine = self.machines.remove(&id).expect("machines are known");
        self.trace.line(&format!("{id} is wiped"));
        (self.wiped, self.counts.wiped) = (true, self.counts.wiped + 1);
        let key = u128::from(self.random.number()).to_le_bytes();
        let next_ask = machine.down_until;
        self.newcomers.push(Newcomer { place: machine.place, key, next_ask });
    }

    /// A node loses what it has voted, and nothing else.
    pub fn lose_vote(&mut self, id: NodeId) {
        // Power is lost with durability `sync` only.
        self.crash(id, Restart::Process);
        self.trace.line(&format!("{id} loses its vote"));
        self.wiped = true;
        let disk = &self.machines[&id].disk;
        let dir = Path::new(DIRECTORY).join("metadata");
        for name in disk.list(&dir).unwrap_or_default() {
            disk.remove(&dir.join(name)).expect("a healthy disk");
        }
        disk.sync_dir(&dir).expect("a healthy disk");
    }

    /// Machines without an id ask others to take them in, until one knows their id.
    pub fn join(&mut self) {
        let running = self.running();
        let mut newcomers = std::mem::take(&mut self.newcomers);
        newcomers.retain_mut(|newcomer| {
            if self.now < newcomer.next_ask || running.is_empty() {
                return true;
            }
            newcomer.next_ask = self.now + JOIN_EVERY_MILLIS * MILLI;
            let asked = *self.random.pick(&running);
            let process = self.process(asked);
            let known = Arc::clone(process.node.state());
            let Some(id) = known.joined_with(newcomer.key) else {
                let node = registration(newcomer.place, Incarnation(1), Kind::Data, None);
                process.seat.asks().push(Ask::Join { key: newcomer.key, node });
                return true;
            };
            self.trace.line(&format!("node{} joins as {id}", newcomer.place));
            let who = (id.0, newcomer.place, true);
            let mut machine = Machine::new(who, &known, &self.plan, &mut self.random, &self.trace);
            machine.begins_at((self.now / 1_000) as i64);
            assert!(self.machines.insert(id, machine).is_none(), "an id is given once");
            false
        });
        self.newcomers = newcomers;
    }
}
