//! What each node tells all others about itself every second, for operators: how long it has run,
//! what it uses, when it last wrote a snapshot or a backup; and, from the leader, how far the
//! others are behind.
//!
//! No decision depends on it.

use ferrite_base::limits::CLUSTER_NODES_MAX;
use ferrite_base::{Epoch, NodeId, Position};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a node's figures are shown after it has sent them.
const COUNT: Duration = Duration::from_secs(10);
const FORMAT: u8 = 2;
/// In place of an age: nothing exists that could have an age.
const NONE: u64 = u64::MAX;

/// One node's figures, at the moment at which it sends them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Figures {
    pub uptime_seconds: u64,
    /// Memory of the process, as its memory limit counts.
    pub memory_bytes: u64,
    /// Memory of rows, indexes and views.
    pub data_bytes: u64,
    /// Free space on the disk of its directory.
    pub disk_free_bytes: u64,
    pub snapshot_age_seconds: Option<u64>,
    /// The age of the last backup that was completed on this node.
    pub backup_age_seconds: Option<u64>,
    /// Where its copy of the group ends: epoch and position of the last entry. Zeros: it has none.
    pub end: (Epoch, Position),
    /// As `--durability` has it. Empty: a node without data.
    pub durability: String,
    /// Of a leader: how many entries are not durable yet on each node that follows it.
    pub behind: Vec<(NodeId, u64)>,
}

/// Fills in what only the rest of the node knows: all but which nodes are behind.
pub type OwnFigures = Box<dyn Fn() -> Figures + Send>;

impl Figures {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        let mut put = |number: u64| out.extend_from_slice(&number.to_le_bytes());
        put(self.uptime_seconds);
        put(self.memory_bytes);
        put(self.data_bytes);
        put(self.disk_free_bytes);
        put(self.snapshot_age_seconds.unwrap_or(NONE));
        put(self.backup_age_seconds.unwrap_or(NONE));
        put(self.end.0.0);
        put(self.end.1.0);
        let durability = &self.durability[..self.durability.floor_char_boundary(usize::from(u8::MAX))];
        out.push(durability.len() as u8);
        out.extend_from_slice(durability.as_bytes());
        for (node, behind) in &self.behind {
            out.extend_from_slice(&node.0.to_le_bytes());
            out.extend_from_slice(&behind.to_le_bytes());
        }
        out
    }

    /// None: these are not figures that this release knows.
    pub fn decode(bytes: &[u8]) -> Option<Figures> {
        let (&[FORMAT], mut rest) = bytes.split_first_chunk()? else { return None };
        let mut number = || {
            let (number, left) = rest.split_first_chunk()?;
            rest = left;
            Some(u64::from_le_bytes(*number))
        };
        let age = |number: u64| (number != NONE).then_some(number);
        let mut figures = Figures {
            uptime_seconds: number()?,
            memory_bytes: number()?,
            data_bytes: number()?,
            disk_free_bytes: number()?,
            snapshot_age_seconds: age(number()?),
            backup_age_seconds: age(number()?),
            end: (Epoch(number()?), Position(number()?)),
            ..Figures::default()
        };
        let (&length, rest) = rest.split_first()?;
        let (durability, rest) = rest.split_at_checked(length.into())?;
        figures.durability = std::str::from_utf8(durability).ok()?.to_owned();
        let (behind, left) = rest.as_chunks::<12>();
        if !left.is_empty() || behind.len() > CLUSTER_NODES_MAX {
            return None;
        }
        figures.behind.extend(behind.iter().map(|entry| {
            let (node, behind) = entry.split_at(4);
            let node = u32::from_le_bytes(node.try_into().expect("four bytes"));
            (NodeId(node), u64::from_le_bytes(behind.try_into().expect("eight bytes")))
        }));
        Some(figures)
    }
}

/// The last figures of all nodes, this one included.
#[derive(Default)]
pub struct AllFigures(Mutex<BTreeMap<NodeId, (Instant, Arc<Figures>)>>);

impl AllFigures {
    pub fn said(&self, node: NodeId, figures: Figures, now: Instant) {
        self.0.lock().expect("no panic with what was said").insert(node, (now, Arc::new(figures)));
    }

    /// Where the copies end, for the nodes that have sent figures lately and have a copy.
    pub fn ends(&self, now: Instant) -> Vec<(NodeId, (Epoch, Position))> {
        let said = self.0.lock().expect("no panic with what was said");
        let lately = said.iter().filter(|(_, (at, _))| now.saturating_duration_since(*at) < COUNT);
        lately.map(|(node, (_, figures))| (*node, figures.end)).filter(|(_, end)| *end > Default::default()).collect()
    }

    /// None: the node has sent nothing lately.
    pub fn of(&self, node: NodeId, now: Instant) -> Option<Arc<Figures>> {
        let said = self.0.lock().expect("no panic with what was said");
        let known = said.get(&node).filter(|(at, _)| now.saturating_duration_since(*at) < COUNT);
        known.map(|(_, figures)| Arc::clone(figures))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        Figures {
            uptime_seconds: 5,
            memory_bytes: 1 << 40,
            data_bytes: 7,
            disk_free_bytes: 8,
            snapshot_age_seconds: Some(0),
            backup_age_seconds: None,
            end: (Epoch(3), Position(1 << 50)),
            durability: "interval=50".to_owned(),
            behind: vec![(NodeId(2), 0), (NodeId(3), 1 << 33)],
        }
    }

    #[test]
    fn figures_read_back_as_said_and_cut_ones_are_none() {
        for figures in [figures(), Figures::default()] {
            let bytes = figures.encode();
            assert_eq!(Figures::decode(&bytes), Some(figures));
            assert_eq!(Figures::decode(&[&bytes[..], &[0]].concat()), None);
            let next = [&[FORMAT + 1], &bytes[1..]].concat();
            assert_eq!(Figures::decode(&next), None, "of a later release");
        }
        let bytes = Figures { behind: Vec::new(), ..figures() }.encode();
        assert!((0..bytes.len()).all(|end| Figures::decode(&bytes[..end]).is_none()));
    }

    #[test]
    fn hostile_figures_do_not_panic_and_name_no_more_nodes_than_may_be() {
        let whole = figures().encode();
        for at in 0..whole.len() {
            for value in 0..=u8::MAX {
                let mut bytes = whole.clone();
                bytes[at] = value;
                let (_, _) = (Figures::decode(&bytes), Figures::decode(&bytes[at..]));
            }
        }
        let of = |count: usize| Figures { behind: vec![(NodeId(1), 1); count], ..Figures::default() };
        assert!(Figures::decode(&of(CLUSTER_NODES_MAX).encode()).is_some());
        assert!(Figures::decode(&of(CLUSTER_NODES_MAX + 1).encode()).is_none());
    }

    #[test]
    fn figures_are_shown_for_some_seconds() {
        let (all, now) = (AllFigures::default(), Instant::now());
        all.said(NodeId(2), figures(), now);
        assert!(all.of(NodeId(2), now).is_some() && all.of(NodeId(3), now).is_none());
        assert!(all.of(NodeId(2), now + COUNT).is_none());
    }
}
