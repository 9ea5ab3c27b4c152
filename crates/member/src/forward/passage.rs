//! A network thread's way to the thread that forwards, and which groups' calls take it
//! ([`crate::forward::order`]).

use crate::forward::inbox::Forward;
use crate::forward::link::Batch;
use crate::forward::order::{Handed, Switch};
use ferrite_base::GroupId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where a network thread's next calls of a group go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    Here,
    Elsewhere,
    /// Nothing is read until what was handed over is on its way.
    Wait,
}

struct GroupWay {
    switch: Arc<Switch>,
    handed: Handed,
}

/// A network thread's way to the thread that forwards.
pub struct Passage {
    forward: Forward,
    /// Of the groups whose calls may come. What was handed over of a group counts as long as this
    /// lives.
    groups: BTreeMap<GroupId, GroupWay>,
}

impl Passage {
    pub fn new(forward: Forward) -> Passage {
        Passage { forward, groups: BTreeMap::new() }
    }

    fn way_of(&mut self, group: GroupId) -> &mut GroupWay {
        let anew = || GroupWay { switch: self.forward.switch(group), handed: Handed::default() };
        self.groups.entry(group).or_insert_with(anew)
    }

    /// Called once per turn, when nothing of the previous turn is left to be handed over.
    #[inline]
    pub fn way(&mut self, group: GroupId) -> Way {
        let way = self.way_of(group);
        match way.switch.is_away() {
            true => Way::Elsewhere,
            false if way.handed.is_done() => Way::Here,
            false => Way::Wait,
        }
    }

    pub fn submit(&mut self, group: GroupId, batch: Batch) {
        let handed = &mut self.way_of(group).handed;
        handed.add(batch.calls.len());
        let handed = handed.clone();
        self.forward.submit(group, batch, handed);
    }

    /// This number of calls will come by [`Passage::submit`]. Sent after they are counted as taken.
    pub fn passed(&self, calls: usize) {
        self.forward.passed(calls);
    }
}
