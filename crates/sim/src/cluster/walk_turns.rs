//! The writes of a walk, as time passes.

use crate::cluster::walks::PAUSE_MICROS;
use crate::cluster::world::World;
use crate::operation::Told;
use std::sync::atomic::Ordering::Relaxed;

/// Of one walk.
const WRITES_MAX: u64 = 12;

impl World {
    /// The next write of the walk that is under way, if there is one and its time has come.
    pub fn walk(&mut self) {
        let Some(mut walk) = self.walks.under_way.take() else { return };
        let told = |number: usize| &self.callers.clients.history.operations[number].told;
        let goes_wrong = |number: usize| !matches!(told(number), Told::Nothing | Told::Done(_));
        let is_over = *told(walk.read) != Told::Nothing || walk.last.is_some_and(goes_wrong);
        if is_over || walk.written == WRITES_MAX || self.callers.clients.quiet {
            return;
        }
        let waits = walk.last.is_some_and(|number| *told(number) == Told::Nothing);
        if !waits && self.now >= walk.next {
            let home = walk.homes[(walk.written % 2) as usize];
            if let Some(number) = self.write_to(home) {
                walk.last = Some(number);
                walk.written += 1;
                walk.next = self.now + 1_000 * self.walks.random.below(PAUSE_MICROS);
            }
        }
        self.walks.under_way = Some(walk);
    }

    /// A write to one home, at the leader of its group. None: it takes none now.
    fn write_to(&mut self, home: i64) -> Option<usize> {
        let group = *self.walks.homes.get(&home)?;
        let leader = self.leader_of(group).filter(|leader| self.avoided != Some(*leader))?;
        let process = self.machines[&leader].process.as_ref().expect("a leader runs");
        let of = process.of(group);
        if of.held.holds.load(Relaxed) || !self.callers.can_submit() {
            return None;
        }
        self.trace.line(&format!("walks to {leader}"));
        let number = self.callers.clients.history.operations.len();
        self.callers.touch(process, group, home);
        of.held.waiting.store(self.callers.waiting_for(process.member, group), Relaxed);
        self.counts.walked += 1;
        Some(number)
    }
}
