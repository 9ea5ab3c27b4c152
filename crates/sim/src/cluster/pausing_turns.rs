//! The groups' parts of a pause or a resume, as time passes.

use crate::cluster::pausing_groups::{AllGroups, Decided, GroupPart};
use crate::cluster::world::{MILLI, World};
use ferrite_meta::Phase;
use ferrite_partition::Reply;
use ferrite_partition::coordinator::Job;
use ferrite_replica::group::Member;
use std::sync::Arc;

/// A part is under way to its group's leader for so long at most.
const PASSED_ON_MILLIS: u64 = 40;

impl World {
    /// Parts begin, arrive, and fail with the processes that have them. To be called as time
    /// passes.
    pub fn pause_groups(&mut self) {
        for Decided { by, revision, reply, calls } in self.pausing_groups.asked().drain() {
            let groups = self.all_groups();
            let all = Arc::new(AllGroups::new(groups.len(), reply, calls));
            for group in groups {
                let due = self.now + self.later.below(PASSED_ON_MILLIS) * MILLI;
                let all = Arc::clone(&all);
                self.pausing_groups.parts.push(GroupPart { by, revision, group, due, at: None, all });
            }
        }
        let mut parts = std::mem::take(&mut self.pausing_groups.parts);
        parts.retain_mut(|part| !part.all.is_over() && self.move_part(part));
        self.pausing_groups.parts = parts;
    }

    /// Whether the part is still to be looked at.
    fn move_part(&self, part: &mut GroupPart) -> bool {
        if let Some(at) = part.at {
            let lives = self.runs_as(at);
            if !lives {
                part.all.done(false);
            }
            return lives;
        }
        if self.now < part.due {
            return true;
        }
        // The administrator hears nothing more of a process that has ended.
        if !self.runs_as(part.by) {
            return false;
        }
        let known = self.process(part.by.node).node.state();
        let leader = known.groups().get(&part.group).filter(|group| group.phase == Phase::Active);
        let Some(leader) = leader.map(|group| group.configuration.leader).filter(|leader| self.runs_as(*leader)) else {
            part.all.done(false);
            return false;
        };
        let stands_still = self.machines[&leader.node].still_until > self.now;
        let process = self.process(leader.node);
        let knows = process.node.state().settings().is_some_and(|settings| settings.revision >= part.revision);
        if stands_still || !knows || self.network.is_cut(part.by.node, leader.node) {
            return true;
        }
        let doors = &process.of(part.group).doors;
        let mailbox = Arc::<AllGroups>::clone(&part.all);
        let Reply { connection, handle, sent_micros, .. } = part.all.reply;
        let reply = Reply { mailbox, connection, handle, sent_micros };
        doors.coordinator.send(Job::Quiesce(reply)).expect("the coordinator lives as long");
        part.at = Some(leader);
        true
    }

    fn runs_as(&self, member: Member) -> bool {
        let process = self.machines.get(&member.node).and_then(|machine| machine.process.as_ref());
        process.is_some_and(|process| process.member == member)
    }
}
