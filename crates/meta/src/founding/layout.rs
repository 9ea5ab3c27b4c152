//! The possible layouts of a cluster.

pub use crate::placement::KFACTOR_MAX;

use crate::Kind;
use ferrite_base::limits::CLUSTER_FOUNDERS_MAX;
use std::fmt;

/// What the nodes of a cluster are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Nodes that keep data.
    pub data: u32,
    pub witnesses: u32,
    /// Copies of a partition besides the first.
    pub kfactor: u32,
}

/// Why a layout is impossible, and the nearest possible ones.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Impossible {
    layout: Layout,
    why: &'static str,
    nearest: Vec<Layout>,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |count| if count == 1 { "" } else { "s" };
        write!(f, "{} node{} with data", self.data, plural(self.data))?;
        match self.witnesses {
            0 => {}
            count => write!(f, ", {count} witness{}", if count == 1 { "" } else { "es" })?,
        }
        write!(f, ", K = {}", self.kfactor)
    }
}

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}. Possible are ", self.layout, self.why)?;
        for (number, layout) in self.nearest.iter().enumerate() {
            let between = match number {
                0 => "",
                _ if number + 1 == self.nearest.len() => "; or ",
                _ => "; ",
            };
            write!(f, "{between}{layout}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Impossible {}

impl Layout {
    pub fn new(kinds: &[Kind], kfactor: u32) -> Layout {
        let data = kinds.iter().filter(|kind| **kind == Kind::Data).count() as u32;
        Layout { data, witnesses: kinds.len() as u32 - data, kfactor }
    }

    pub fn nodes(self) -> u32 {
        self.data + self.witnesses
    }

    /// Refuses a cluster that could not keep what it promises.
    pub fn check(self) -> Result<(), Impossible> {
        match self.fault() {
            None => Ok(()),
            Some(why) => Err(Impossible { layout: self, why, nearest: self.nearest() }),
        }
    }

    fn fault(self) -> Option<&'static str> {
        if self.kfactor > KFACTOR_MAX {
            return Some("a partition has 7 copies at most");
        }
        if self.data <= self.kfactor {
            return Some("K + 1 copies of everything need K + 1 nodes with data");
        }
        if self.kfactor > 0 && self.nodes() < 3 {
            return Some("two nodes cannot tell a lost one from a cut connection; a third decides");
        }
        (self.nodes() as usize > CLUSTER_FOUNDERS_MAX).then_some("a cluster is founded with 48 nodes at most")
    }

    /// With the same nodes, with other nodes and the same K.
    fn nearest(self) -> Vec<Layout> {
        let kfactor = self.kfactor.min(KFACTOR_MAX);
        let lower = (0..kfactor).rev().map(|kfactor| Layout { kfactor, ..self });
        let mut found: Vec<Layout> = lower.filter(|layout| layout.fault().is_none()).take(1).collect();
        let over = self.nodes().saturating_sub(CLUSTER_FOUNDERS_MAX as u32);
        let data = self.data.saturating_sub(over).max(kfactor + 1);
        for layout in [
            Layout { data, witnesses: self.witnesses, kfactor },
            Layout { data, witnesses: self.witnesses.max(3_u32.saturating_sub(data)), kfactor },
            Layout { data: data.max(3), witnesses: self.witnesses, kfactor },
        ] {
            if layout.fault().is_none() && !found.contains(&layout) {
                found.push(layout);
            }
        }
        found
    }

    /// How many of the nodes vote.
    pub fn voters(self) -> usize {
        match self.nodes() {
            5.. if self.kfactor >= 2 => 5,
            3.. => 3,
            _ => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(data: u32, witnesses: u32, kfactor: u32) -> Layout {
        Layout { data, witnesses, kfactor }
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_nearest_that_can() {
        for (given, said) in [
            (layout(1, 0, 0), Ok(1)),
            (layout(2, 0, 0), Ok(1)),
            (layout(2, 1, 1), Ok(3)),
            (layout(3, 0, 1), Ok(3)),
            (layout(3, 0, 2), Ok(3)),
            (layout(5, 0, 1), Ok(3)),
            (layout(5, 0, 2), Ok(5)),
            (layout(3, 2, 2), Ok(5)),
            (
                layout(2, 0, 1),
                Err(
                    "2 nodes with data, K = 1: two nodes cannot tell a lost one from a cut connection; a third decides. \
                     Possible are 2 nodes with data, K = 0; 2 nodes with data, 1 witness, K = 1; or 3 nodes with data, K = 1",
                ),
            ),
            (
                layout(1, 2, 1),
                Err("1 node with data, 2 witnesses, K = 1: K + 1 copies of everything need K + 1 nodes with data. \
                     Possible are 1 node with data, 2 witnesses, K = 0; 2 nodes with data, 2 witnesses, K = 1; or 3 nodes \
                     with data, 2 witnesses, K = 1"),
            ),
            (
                layout(3, 0, 3),
                Err(
                    "3 nodes with data, K = 3: K + 1 copies of everything need K + 1 nodes with data. Possible are 3 nodes \
                     with data, K = 2; or 4 nodes with data, K = 3",
                ),
            ),
            (
                layout(3, 0, 9),
                Err(
                    "3 nodes with data, K = 9: a partition has 7 copies at most. Possible are 3 nodes with data, K = 2; or 7 \
                     nodes with data, K = 6",
                ),
            ),
            (layout(48, 0, 1), Ok(3)),
            (
                layout(48, 1, 1),
                Err(
                    "48 nodes with data, 1 witness, K = 1: a cluster is founded with 48 nodes at most. Possible are 47 nodes \
                     with data, 1 witness, K = 1",
                ),
            ),
            (
                layout(0, 1, 0),
                Err(
                    "0 nodes with data, 1 witness, K = 0: K + 1 copies of everything need K + 1 nodes with data. Possible \
                     are 1 node with data, 1 witness, K = 0; 1 node with data, 2 witnesses, K = 0; or 3 nodes with data, 1 \
                     witness, K = 0",
                ),
            ),
        ] {
            let found = given.check().map(|()| given.voters()).map_err(|impossible| impossible.to_string());
            assert_eq!(found, said.map_err(str::to_string));
        }
    }

    #[test]
    fn what_is_named_as_possible_is() {
        for data in 0..7 {
            for witnesses in 0..4 {
                for kfactor in 0..12 {
                    let Err(refused) = layout(data, witnesses, kfactor).check() else { continue };
                    assert!(!refused.nearest.is_empty(), "{refused}");
                    assert!(refused.nearest.iter().all(|nearest| nearest.check().is_ok()), "{refused}");
                }
            }
        }
    }
}
