//! Machines and witnesses go down and start again, and the others hear that a connection is lost.

use crate::cluster::machine::Started;
use crate::cluster::world::{MILLI, World};
use crate::invariants::Violation;
use ferrite_base::NodeId;
use ferrite_io::simulated::Restart;
use ferrite_replica::group::Mark;

/// A machine is down so long at most, mostly.
pub const DOWN_MILLIS: u64 = 4_000;
/// And some for longer than anybody is waited for.
const DOWN_LONG_MILLIS: u64 = 20_000;

impl World {
    pub fn running(&self) -> Vec<NodeId> {
        self.machines.iter().filter(|(_, machine)| machine.process.is_some()).map(|(id, _)| *id).collect()
    }

    pub fn crash(&mut self, id: NodeId, restart: Restart) {
        self.trace.line(&format!("{id} crashes {restart:?}"));
        self.counts.crashes += 1;
        self.counts.power_losses += u64::from(restart == Restart::Power);
        let down = self.down_nanos();
        self.failing = self.failing.filter(|failing| *failing != id);
        let machine = self.machines.get_mut(&id).expect("machines are known");
        let member = machine.process.as_ref().map(|process| process.member);
        machine.crash(restart);
        machine.down_until = self.now + down;
        self.network.crashed(id);
        self.lot_links.ended(id, self.now);
        if let Some(member) = member {
            self.callers.ended(member);
        }
        self.lost(id);
    }

    fn down_nanos(&mut self) -> u64 {
        let most = if self.random.percent(15) { DOWN_LONG_MILLIS } else { DOWN_MILLIS };
        self.random.below(most) * MILLI
    }

    pub fn crash_witness(&mut self, id: NodeId, restart: Restart) {
        self.trace.line(&format!("witness {id} crashes {restart:?}"));
        self.counts.crashes += 1;
        self.counts.power_losses += u64::from(restart == Restart::Power);
        let down_until = self.now + self.down_nanos();
        self.witnesses.get_mut(&id).expect("witnesses are known").crash(restart, down_until);
        self.network.crashed(id);
        self.lost(id);
    }

    /// All others hear that a connection has ended.
    pub fn lost(&mut self, id: NodeId) {
        for machine in self.machines.values_mut() {
            if let Some(process) = &mut machine.process {
                process.lost(id);
            }
        }
        for witness in self.witnesses.values_mut() {
            if let Some(running) = &mut witness.running {
                running.seat.lost(id);
            }
        }
    }

    pub fn start(&mut self, id: NodeId) -> Result<(), Violation> {
        self.trace.line(&format!("{id} starts"));
        let machine = self.machines.get_mut(&id).expect("machines are known");
        match machine.start(&self.ledger) {
            Ok(Started::Yes) => {
                for of in self.process(id).all_hosted() {
                    let Mark { epoch, position, .. } = of.replication.place().end;
                    self.trace.line(&format!("{id} has come to {epoch} {position} of group {}", of.id()));
                }
                // What it does first of all.
                self.step_machine(id, |_| None)
            }
            Ok(Started::PowerLost) => {
                self.crash(id, Restart::Power);
                Ok(())
            }
            Ok(Started::Unusable) => {
                self.finds_its_copy_unusable(id);
                Ok(())
            }
            Err(error) => Err(Violation { invariant: "a healthy disk can be opened", detail: error.to_string() }),
        }
    }
}
