//! Dependencies between transactions, and the search for a cycle among them.
//!
//! Real time is a chain of nodes of its own, one for each end of a transaction: a transaction leads
//! to the node of its end, and the last end before it began leads to it. So the order in real time
//! costs two edges for each transaction, and is exactly that order.

use std::collections::VecDeque;

/// Why one transaction is before another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edge {
    /// Its append is directly before the other's.
    Ww,
    /// The other has read its append.
    Wr,
    /// It has not seen the other's append, which comes directly behind what it has read.
    Rw,
    /// It had ended before the other began.
    Time,
}

/// A step of a cycle: from this transaction to the next one of the cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CycleStep {
    pub from: usize,
    pub edge: Edge,
}

#[derive(Default)]
pub struct Graph {
    transactions: usize,
    edges: Vec<(usize, usize, Edge)>,
    nodes: usize,
}

/// Of each node, where it leads.
struct Neighbours {
    starts: Vec<usize>,
    ends: Vec<(usize, Edge)>,
}

impl Graph {
    pub fn new(transactions: usize) -> Graph {
        Graph { transactions, edges: Vec::new(), nodes: transactions }
    }

    pub fn edges(&self) -> usize {
        self.edges.len()
    }

    pub fn depends(&mut self, from: usize, to: usize, edge: Edge) {
        if from != to {
            self.edges.push((from, to, edge));
        }
    }

    /// The order in real time: number, beginning, end (None: it may still be executed) of each.
    pub fn real_time(&mut self, times: &[(usize, u64, Option<u64>)]) {
        let mut ends: Vec<(u64, usize)> =
            times.iter().filter_map(|(number, _, ended)| ended.map(|ended| (ended, *number))).collect();
        ends.sort_unstable();
        let first = self.nodes;
        for (place, (_, number)) in ends.iter().enumerate() {
            self.edges.push((*number, first + place, Edge::Time));
            if place > 0 {
                self.edges.push((first + place - 1, first + place, Edge::Time));
            }
        }
        for (number, began, _) in times {
            let before = ends.partition_point(|(ended, _)| ended < began);
            if before > 0 {
                self.edges.push((first + before - 1, *number, Edge::Time));
            }
        }
        self.nodes += ends.len();
    }

    /// A cycle over such edges only, as short as there is one through a few of its transactions.
    pub fn cycle(&self, allowed: &[Edge]) -> Option<Vec<CycleStep>> {
        let neighbours = self.neighbours(allowed);
        let components = components(&neighbours);
        let mut sizes = vec![0usize; self.nodes];
        components.iter().for_each(|component| sizes[*component] += 1);
        let in_cycle = |node: &usize| sizes[components[*node]] > 1;
        const TRIED_MAX: usize = 64;
        let tried = (0..self.transactions).filter(in_cycle).take(TRIED_MAX);
        tried.filter_map(|node| self.shortest(node, &neighbours, &components)).min_by_key(Vec::len)
    }

    fn neighbours(&self, allowed: &[Edge]) -> Neighbours {
        let used = || self.edges.iter().filter(|(.., edge)| allowed.contains(edge));
        let mut starts = vec![0usize; self.nodes + 1];
        used().for_each(|(from, ..)| starts[from + 1] += 1);
        for node in 0..self.nodes {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut ends = vec![(0, Edge::Ww); starts[self.nodes]];
        for (from, to, edge) in used() {
            ends[next[*from]] = (*to, *edge);
            next[*from] += 1;
        }
        Neighbours { starts, ends }
    }

    /// The shortest way from a node back to it, by the number of transactions on it.
    fn shortest(&self, start: usize, neighbours: &Neighbours, components: &[usize]) -> Option<Vec<CycleStep>> {
        let mut reached: Vec<Option<(usize, Edge)>> = vec![None; self.nodes];
        let mut done = vec![false; self.nodes];
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            if std::mem::replace(&mut done[node], true) {
                continue;
            }
            for (to, edge) in neighbours.of(node) {
                if *to == start {
                    return Some(self.way_back(start, node, *edge, &reached));
                }
                if components[*to] == components[start] && !done[*to] && reached[*to].is_none() {
                    reached[*to] = Some((node, *edge));
                    // Nodes of time are no transactions, and cost nothing.
                    if *to < self.transactions { queue.push_back(*to) } else { queue.push_front(*to) }
                }
            }
        }
        None
    }

    fn way_back(&self, start: usize, last: usize, edge: Edge, reached: &[Option<(usize, Edge)>]) -> Vec<CycleStep> {
        let mut steps = vec![CycleStep { from: last, edge }];
        let mut node = last;
        while node != start {
            let (before, edge) = reached[node].expect("it was reached from another");
            steps.push(CycleStep { from: before, edge });
            node = before;
        }
        steps.reverse();
        // What leads through nodes of time leads from the transaction before them.
        steps.retain(|step| step.from < self.transactions);
        steps
    }
}

impl Neighbours {
    fn of(&self, node: usize) -> &[(usize, Edge)] {
        &self.ends[self.starts[node]..self.starts[node + 1]]
    }
}

/// Of each node, its strongly connected component (Tarjan, without recursion).
fn components(neighbours: &Neighbours) -> Vec<usize> {
    const NONE: usize = usize::MAX;
    let nodes = neighbours.starts.len() - 1;
    let mut index = vec![NONE; nodes];
    let mut low = vec![0; nodes];
    let mut component = vec![NONE; nodes];
    let mut open = Vec::new();
    let mut path: Vec<(usize, usize)> = Vec::new();
    let mut visited = 0;
    let mut found = 0;
    for root in 0..nodes {
        if index[root] != NONE {
            continue;
        }
        path.push((root, 0));
        while let Some((node, place)) = path.last_mut() {
            let node = *node;
            if *place == 0 && index[node] == NONE {
                index[node] = visited;
                low[node] = visited;
                visited += 1;
                open.push(node);
            }
            if let Some((to, _)) = neighbours.of(node).get(*place) {
                *place += 1;
                if index[*to] == NONE {
                    path.push((*to, 0));
                } else if component[*to] == NONE {
                    low[node] = low[node].min(index[*to]);
                }
                continue;
            }
            path.pop();
            if let Some((parent, _)) = path.last() {
                low[*parent] = low[*parent].min(low[node]);
            }
            if low[node] == index[node] {
                while let Some(member) = open.pop() {
                    component[member] = found;
                    if member == node {
                        break;
                    }
                }
                found += 1;
            }
        }
    }
    component
}
