//! Wall clocks of machines that are not set alike, and what reads show of them.

use crate::cluster::invariants::time;
use crate::cluster::plan::OFF_SECONDS;
use crate::cluster::process::Process;
use crate::cluster::world::World;
use crate::invariants::Violation;
use ferrite_base::{GroupId, NodeId};
use ferrite_group::GroupAppender;
use ferrite_io::Clock;
use std::sync::Arc;

/// Of so many steps one sets a clock, and one reads each leader's.
const SET_EVERY: u64 = 2_000;
const READ_EVERY: u64 = 8;
/// The same for the clock of a leader that others do not hear.
const CUT_OFF_SET_EVERY: u64 = 50;
/// A leader that is cut off is read for this long, by the lease that it still has.
const LEASE_MILLIS: u64 = 1_500;
/// Within this the others have heard what a leader says of its clock.
const HEARD_MILLIS: u64 = 200;

impl Process {
    /// What a transaction would show that reads by the lease, if it has one.
    pub fn shows(&self, group: GroupId) -> Option<i64> {
        let of = self.of(group);
        let log = GroupAppender::new(Arc::clone(&of.replication));
        let time = log.transaction_time(self.clock.wall_micros());
        // Asked behind that, as for any read.
        let leads = of.serves.is_some() && of.replication.is_open() && self.lease.holds();
        (leads && of.replication.read() == Some(0)).then_some(time)
    }

    /// Numbers of its transactions are of later times.
    pub fn numbers_behind(&self, group: GroupId) -> i64 {
        let replication = &self.of(group).replication;
        let place = replication.place().time;
        GroupAppender::new(Arc::clone(replication)).numbers_behind().max(place)
    }
}

impl World {
    fn set_clock(&mut self, id: NodeId, off: i64) {
        self.trace.line(&format!("the clock of {id} is off by {off}"));
        self.machines.get_mut(&id).expect("machines are known").is_off_by(off);
        self.counts.clocks_set += 1;
    }

    /// While its lease holds it answers reads, and no other node knows what they show.
    fn leader_that_is_cut_off(&self) -> Option<NodeId> {
        let (from, until, node) = self.isolation?;
        ((from..until).contains(&self.now) && self.leader() == Some(node)).then_some(node)
    }

    /// Now and then a clock is set, where clocks differ, or read.
    pub fn look_at_clocks(&mut self) {
        if self.more.below(SET_EVERY) == 0 && self.sets_clocks {
            let ids: Vec<NodeId> = self.machines.keys().copied().collect();
            let id = *self.more.pick(&ids);
            let off = self.more.below(2 * OFF_SECONDS as u64 * 1_000) as i64 * 1_000 - OFF_SECONDS * 1_000_000;
            self.set_clock(id, off);
        }
        if self.sets_clocks
            && let Some(leader) = self.leader_that_is_cut_off()
            && self.more.below(CUT_OFF_SET_EVERY) == 0
        {
            self.set_clock(leader, OFF_SECONDS * 1_000_000);
        }
        if self.more.below(READ_EVERY) > 0 {
            return;
        }
        for machine in self.machines.values().filter(|machine| machine.still_until <= self.now) {
            let Some(process) = &machine.process else { continue };
            let groups = process.node.state().groups();
            for of in process.all_hosted() {
                if let Some(shown) = process.shows(of.id())
                    && let Some(group) = groups.get(&of.id())
                {
                    let by = process.member;
                    self.ledger.with(|book| time::shown(book, of.id(), by, &group.configuration, shown));
                }
            }
        }
    }
    /// A leader is cut off, and its clock is set forward while all others are behind. It is read by
    /// the lease that it still has, and then the next leader is: what the former one has shown no
    /// other node knows.
    pub(super) fn a_leader_beyond_reach_has_a_clock_ahead(&mut self) -> Result<(), Violation> {
        let Some(old) = self.quiet_leader()? else { return Ok(()) };
        self.trace.line(&format!("{old} is to be cut off, with a clock that is ahead"));
        let ids: Vec<NodeId> = self.machines.keys().copied().collect();
        for id in ids.into_iter().filter(|id| *id != old) {
            self.set_clock(id, -OFF_SECONDS * 1_000_000);
        }
        // They hear what the leader says of its clock.
        self.step_until(HEARD_MILLIS, |_| false)?;
        self.network.cut_off(&self.everybody(), old);
        self.counts.cut_off += 1;
        self.set_clock(old, OFF_SECONDS * 1_000_000);
        self.step_until(LEASE_MILLIS, |_| false)?;
        self.is_replaced(old, 1)?;
        self.end_of_scene(old);
        Ok(())
    }
}
