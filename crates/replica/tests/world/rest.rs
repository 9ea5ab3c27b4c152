//! The end of a history: nothing is done wrong any more.

use super::{Broken, World};
use ferrite_base::NodeId;

impl World {
    /// Without faults everything comes to rest: one leader, all nodes members, one stream.
    pub(super) fn settle(&mut self) -> Result<(), Broken> {
        self.quiet = true;
        self.cut.clear();
        let ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        for round in 0..400 {
            for id in &ids {
                if !self.nodes[id].up {
                    self.crash_or_start(*id)?;
                }
            }
            if round % 40 == 0
                && !self.nodes.values().any(|node| node.up && node.group.is_open() && node.leads(&self.metadata.last))
            {
                self.begin_seal();
            }
            for id in &ids {
                self.now += 10;
                let now = self.now;
                self.register_if_lost(*id, round);
                self.with(*id, |node| {
                    node.apply(u64::MAX >> 1);
                    node.group.tick(now);
                })?;
                self.sync(*id)?;
            }
            while !self.packets.is_empty() {
                self.deliver()?;
            }
            self.metadata_decides()?;
        }
        let leader = self.metadata.last.leader.node;
        self.write(leader)?;
        for _ in 0..20 {
            for id in &ids {
                self.now += 60;
                let now = self.now;
                self.with(*id, |node| node.group.tick(now))?;
                self.sync(*id)?;
                self.sync(*id)?;
            }
            while !self.packets.is_empty() {
                self.deliver()?;
            }
        }
        let everyone = self.metadata.last.members().len() == ids.len();
        let end = self.nodes[&leader].group.end();
        for (id, node) in &self.nodes {
            if !everyone || node.group.end() != end || node.committed != end.position {
                let last = &self.metadata.last;
                return Err(format!(
                    "no rest: node {id} at {:?} of {end:?}, committed {}, {last:?}",
                    node.group.end(),
                    node.committed
                ));
            }
        }
        if self.committed.last_key_value().map(|(position, _)| *position) != Some(end.position) {
            return Err("something committed is gone".to_owned());
        }
        Ok(())
    }

    fn register_if_lost(&mut self, id: NodeId, round: u64) {
        if round.is_multiple_of(20) && self.nodes[&id].up {
            self.register(id);
        }
    }
}
