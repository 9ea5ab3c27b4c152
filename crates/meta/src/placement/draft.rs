//! A layout while it is made: nodes are numbers from 0, and racks, too.
//!
//! Groups come in rounds, in each of which every node leads one group and copies K others, so that
//! every round is even by itself; a last round of less, where each node keeps fewer than K + 1
//! copies, is for the rest. Copies first lie at fixed distances around the nodes. Then copies of
//! equal groups are exchanged while that mends something, which leaves everything even. Where racks
//! are still shared although they need not be, the rounds are begun so that they are not: nodes are
//! laid out rack by rack, as often as each keeps a copy, and a group has what lies a fixed distance
//! apart, which is longer than any rack.

use super::GROUPS_LED_MAX;
use std::collections::{BTreeMap, BTreeSet};

/// A shared rack counts more than all repeated nodes together.
const SHARED_RACK: usize = 1_000;

const _: () = assert!(GROUPS_LED_MAX * ferrite_base::limits::CLUSTER_FOUNDERS_MAX < SHARED_RACK);

#[derive(Clone)]
struct DraftGroup {
    partitions: u32,
    /// The node that leads, then the one that is next.
    place: Vec<usize>,
}

pub(super) struct Draft {
    /// By node.
    racks: Vec<usize>,
    groups: Vec<DraftGroup>,
    /// By node, the places in `groups` of those that it leads.
    led: Vec<Vec<usize>>,
}

/// Of a round.
#[derive(Clone, Copy)]
struct PlacementRound {
    /// From 0.
    number: usize,
    /// In each of its groups.
    partitions: u32,
    /// Groups of the round that each node is to keep: K + 1, or fewer in the last.
    kept: usize,
}

/// Two copies, each by its group and its place there, that change places.
#[derive(Clone, Copy)]
struct Exchange {
    one: (usize, usize),
    other: (usize, usize),
}

impl Draft {
    /// `copies` of each partition. Nodes and partitions go together
    /// ([`super::ClusterSize::check`]).
    pub fn new(racks: &[usize], copies: usize, partitions_per_node: usize) -> Draft {
        let mut by_rack: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (node, rack) in racks.iter().enumerate() {
            by_rack.entry(*rack).or_default().push(node);
        }
        let mut by_rack: Vec<Vec<usize>> = by_rack.into_values().collect();
        by_rack.sort_by_key(|nodes| std::cmp::Reverse(nodes.len()));
        let rounds = rounds(racks.len(), copies, partitions_per_node);
        let around = around(&by_rack);
        let mut draft = Draft::of(racks, rounds.iter().flat_map(|round| at_distances(&around, copies, *round)));
        draft.mend();
        let can_be_apart = by_rack[0].len() * copies <= racks.len();
        if draft.shares_racks() && can_be_apart {
            draft = Draft::of(racks, rounds.iter().flat_map(|round| rack_by_rack(&by_rack, copies, *round)));
            draft.mend();
            assert!(!draft.shares_racks(), "no rack is longer than the distance");
        }
        draft
    }

    fn of(racks: &[usize], groups: impl Iterator<Item = DraftGroup>) -> Draft {
        let groups: Vec<DraftGroup> = groups.collect();
        let mut led = vec![Vec::new(); racks.len()];
        for (at, group) in groups.iter().enumerate() {
            led[group.place[0]].push(at);
        }
        Draft { racks: racks.to_vec(), groups, led }
    }

    fn shares_racks(&self) -> bool {
        self.groups.iter().any(|group| self.shared_racks(group) > 0)
    }

    /// Partitions and place of each group, ordered by the node that leads it. Of one lead, groups
    /// on the same nodes are one: they would fail over together anyway.
    pub fn into_groups(self) -> Vec<(u32, Vec<usize>)> {
        let mut groups: Vec<(u32, Vec<usize>)> = Vec::new();
        for led in &self.led {
            let first = groups.len();
            for DraftGroup { partitions, place } in led.iter().map(|at| &self.groups[*at]) {
                let nodes: BTreeSet<&usize> = place.iter().collect();
                let is_same = |(_, other): &&mut (u32, Vec<usize>)| nodes == other.iter().collect::<BTreeSet<_>>();
                // A copy of nothing ties no two groups together.
                let same = groups[first..].iter_mut().find(|group| place.len() > 1 && is_same(group));
                match same {
                    Some((known, _)) => *known += partitions,
                    None => groups.push((*partitions, place.clone())),
                }
            }
        }
        groups
    }

    /// Copies of the group that are in a rack with an earlier one.
    fn shared_racks(&self, group: &DraftGroup) -> usize {
        let different: BTreeSet<usize> = group.place.iter().map(|node| self.racks[*node]).collect();
        group.place.len() - different.len()
    }

    /// Groups of the node that are followed by a node that follows another one.
    fn repeated_next(&self, lead: usize) -> usize {
        let next = || self.led[lead].iter().filter_map(|at| self.groups[*at].place.get(1));
        next().count() - next().collect::<BTreeSet<_>>().len()
    }

    /// What is wrong with groups, and with all that their leads lead. It is the less the better.
    fn faults(&self, groups: [usize; 2]) -> usize {
        let [one, other] = groups;
        let of_one = |at: usize| SHARED_RACK * self.shared_racks(&self.groups[at]);
        let leads = [one, other].map(|at| self.groups[at].place[0]);
        let mut faults = of_one(one) + self.repeated_next(leads[0]);
        if one != other {
            faults += of_one(other);
        }
        if leads[0] != leads[1] {
            faults += self.repeated_next(leads[1]);
        }
        faults
    }

    /// Ends, since each exchange leaves fewer faults.
    fn mend(&mut self) {
        let mut mends = true;
        while mends {
            mends = false;
            for at in 0..self.groups.len() {
                if let Some(exchange) = self.best_exchange(at) {
                    self.exchange(exchange);
                    mends = true;
                }
            }
        }
    }

    fn exchange(&mut self, Exchange { one, other }: Exchange) {
        let node = self.groups[one.0].place[one.1];
        let instead = std::mem::replace(&mut self.groups[other.0].place[other.1], node);
        self.groups[one.0].place[one.1] = instead;
    }

    /// The exchange of a copy of the group that mends most; None if there is nothing to mend, or
    /// none mends anything.
    fn best_exchange(&mut self, at: usize) -> Option<Exchange> {
        if self.faults([at, at]) == 0 {
            return None;
        }
        let mut best: Option<(usize, Exchange)> = None;
        for exchange in self.exchanges(at) {
            let groups = [exchange.one.0, exchange.other.0];
            let before = self.faults(groups);
            self.exchange(exchange);
            let mended = before.saturating_sub(self.faults(groups));
            self.exchange(exchange);
            if mended > best.map_or(0, |(most, _)| most) {
                best = Some((mended, exchange));
            }
        }
        best.map(|(_, exchange)| exchange)
    }

    /// Those of the group's copies that leave every node with as many partitions, and every group
    /// on different nodes.
    fn exchanges(&self, at: usize) -> Vec<Exchange> {
        let own = &self.groups[at];
        let mut found = Vec::new();
        for (other_at, other) in self.groups.iter().enumerate() {
            if other.partitions != own.partitions {
                continue;
            }
            for place in 1..own.place.len() {
                for other_place in 1..other.place.len() {
                    let is_possible = match other_at == at {
                        true => place < other_place,
                        false => {
                            !other.place.contains(&own.place[place]) && !own.place.contains(&other.place[other_place])
                        }
                    };
                    if is_possible {
                        found.push(Exchange { one: (at, place), other: (other_at, other_place) });
                    }
                }
            }
        }
        found
    }
}

/// The rounds in which the nodes' partitions are placed: as many as a node is to lead groups.
fn rounds(nodes: usize, copies: usize, partitions_per_node: usize) -> Vec<PlacementRound> {
    let led = partitions_per_node / copies;
    let rest = partitions_per_node % copies;
    let most = GROUPS_LED_MAX.min(nodes - 1).max(1);
    let whole = most.saturating_sub(usize::from(rest > 0)).max(1).min(led);
    let of_round = |number: usize| {
        let partitions = (led / whole + usize::from(number < led % whole)) as u32;
        PlacementRound { number, partitions, kept: copies }
    };
    let last = (rest > 0).then_some(PlacementRound { number: whole, partitions: 1, kept: rest });
    (0..whole).map(of_round).chain(last).collect()
}

/// All nodes, those of a rack as far apart as is simple.
fn around(by_rack: &[Vec<usize>]) -> Vec<usize> {
    (0..by_rack[0].len()).flat_map(|at| by_rack.iter().filter_map(move |nodes| nodes.get(at).copied())).collect()
}

/// A round's groups: each with the nodes at some distances from its lead, which differ from round
/// to round.
fn at_distances(around: &[usize], copies: usize, round: PlacementRound) -> Vec<DraftGroup> {
    let nodes = around.len();
    let PlacementRound { number, partitions, kept } = round;
    if kept < copies {
        return (0..nodes * kept / copies).map(|group| in_a_row(around, copies, group)).collect();
    }
    let others = nodes - 1;
    // Different in rounds of which there are as many as other nodes, or fewer.
    let rounds = GROUPS_LED_MAX.min(others).max(1);
    let first = others * number / rounds;
    let groups = (0..nodes).map(|lead| {
        let copied = (1..copies).map(|copy| around[(lead + 1 + (first + copy - 1) % others) % nodes]);
        DraftGroup { partitions, place: std::iter::once(around[lead]).chain(copied).collect() }
    });
    groups.collect()
}

/// A group of a round in which each node keeps fewer than `copies`: it has the next nodes in the
/// row. Each time that the row is over and would begin with nodes that lead already, the lead is
/// one further in the group.
fn in_a_row(around: &[usize], copies: usize, group: usize) -> DraftGroup {
    let nodes = around.len();
    let until_it_repeats = nodes / common_divisor(nodes, copies);
    let first = group * copies;
    let mut place: Vec<usize> = (first..first + copies).map(|at| around[at % nodes]).collect();
    place.rotate_left(group / until_it_repeats);
    DraftGroup { partitions: 1, place }
}

fn common_divisor(one: usize, other: usize) -> usize {
    if other == 0 { one } else { common_divisor(other, one % other) }
}

/// A round's groups, none of which has two nodes of a rack, if no rack has more than one in
/// `copies` of the nodes.
fn rack_by_rack(by_rack: &[Vec<usize>], copies: usize, round: PlacementRound) -> Vec<DraftGroup> {
    let PlacementRound { number, partitions, kept } = round;
    // Other nodes meet in other rounds.
    let turned = |nodes: &Vec<usize>| (0..nodes.len()).map(|at| nodes[(at + number) % nodes.len()]).collect();
    let nodes: Vec<usize> = by_rack.iter().flat_map(|nodes| -> Vec<usize> { turned(nodes) }).collect();
    let laid_out: Vec<usize> = nodes.iter().flat_map(|node| std::iter::repeat_n(*node, kept)).collect();
    let distance = laid_out.len() / copies;
    let places: Vec<Vec<usize>> =
        (0..distance).map(|first| (0..copies).map(|copy| laid_out[first + copy * distance]).collect()).collect();
    let mut leads = BTreeMap::new();
    for group in 0..places.len() {
        let found = assign_lead(&places, group, &mut leads, &mut BTreeSet::new());
        assert!(found, "nodes keep as many groups of a round as groups have nodes, or fewer");
    }
    let groups = leads.into_iter().map(|(lead, group)| {
        let mut place = places[group].clone();
        let at = place.iter().position(|node| *node == lead).expect("a lead keeps its group");
        place.rotate_left(at);
        DraftGroup { partitions, place }
    });
    groups.collect()
}

/// Gives the group a lead that has no other group, moving others where needed (an augmenting path).
/// `leads`: the group of each node that leads one.
fn assign_lead(
    places: &[Vec<usize>],
    group: usize,
    leads: &mut BTreeMap<usize, usize>,
    tried: &mut BTreeSet<usize>,
) -> bool {
    for node in &places[group] {
        if !tried.insert(*node) {
            continue;
        }
        let is_free = match leads.get(node).copied() {
            None => true,
            Some(known) => assign_lead(places, known, leads, tried),
        };
        if is_free {
            leads.insert(*node, group);
            return true;
        }
    }
    false
}
