//! What makes a polygon valid, and what MAKEVALIDPOLYGON can mend.
//!
//! A valid polygon's rings have different vertices on the sphere, and edges that neither cross nor
//! coincide; each ring has the smaller part of the sphere on its left as it is encoded (in text:
//! the outer ring runs counter-clockwise, holes clockwise); holes are inside the outer ring and
//! outside of each other. Only the direction of rings can be mended.

use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;
use ferrite_base::limits::POLYGON_EDGE_PAIRS_MAX;
use ferrite_base::{UserError, UserResult};
use ferrite_value::Value;
use ferrite_value::geography::{PolygonView, RingView, reverse_rings};
use ferrite_value::sphere::{self, Meeting, Ring, Vector};
use std::fmt;

/// Rings are counted from 0, the outer one; vertices and edges from 0 in the order of the encoding.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Fault {
    OffSphere {
        ring: usize,
        vertex: usize,
    },
    /// The edge from this vertex has no direction.
    Antipodes {
        ring: usize,
        vertex: usize,
    },
    RepeatedVertex {
        ring: usize,
    },
    Crossing {
        first: Edge,
        second: Edge,
    },
    SharedEdge {
        first: Edge,
        second: Edge,
    },
    WrongDirection {
        ring: usize,
    },
    HoleOutside {
        ring: usize,
    },
    HoleInHole {
        inner: usize,
        outer: usize,
    },
}

/// The edge that starts at a vertex of a ring.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Edge {
    ring: usize,
    vertex: usize,
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "edge {} of ring {}", self.vertex, self.ring)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Fault::OffSphere { ring, vertex } => write!(f, "vertex {vertex} of ring {ring} is not on the unit sphere"),
            Fault::Antipodes { ring, vertex } => {
                write!(f, "edge {vertex} of ring {ring} joins two points on opposite sides of the earth")
            }
            Fault::RepeatedVertex { ring } => write!(f, "ring {ring} has the same vertex twice"),
            Fault::Crossing { first, second } => write!(f, "{first} crosses {second}"),
            Fault::SharedEdge { first, second } => write!(f, "{first} coincides with {second}"),
            Fault::WrongDirection { ring: 0 } => f.write_str("the outer ring runs clockwise"),
            Fault::WrongDirection { ring } => write!(f, "the hole in ring {ring} runs counter-clockwise"),
            Fault::HoleOutside { ring } => write!(f, "the hole in ring {ring} is not inside the outer ring"),
            Fault::HoleInHole { inner, outer } => {
                write!(f, "the hole in ring {inner} is inside the hole in ring {outer}")
            }
        }
    }
}

/// The first thing that is wrong, if any. Error when telling it takes too long.
pub(super) fn fault(polygon: PolygonView<'_>, arena: &Bump) -> UserResult<Option<Fault>> {
    let mut work = Work::default();
    if let Some(fault) = vertices_fault(polygon, arena) {
        return Ok(Some(fault));
    }
    if let Some(fault) = edges_fault(polygon, &mut work, arena)? {
        return Ok(Some(fault));
    }
    if let Some(ring) = polygon.rings().position(sphere::is_clockwise) {
        return Ok(Some(Fault::WrongDirection { ring }));
    }
    holes_fault(polygon, &mut work)
}

/// The polygon with its rings the right way round. Error where that does not make it valid.
pub(super) fn made_valid<'a>(encoded: &[u8], arena: &'a Bump) -> UserResult<Value<'a>> {
    let polygon = PolygonView::new(encoded)?;
    let mended: &'a mut [u8] = arena.alloc_slice_copy(encoded);
    if polygon.rings().any(sphere::is_clockwise) {
        let mut wrong = ArenaVec::with_capacity_in(polygon.ring_count(), arena);
        wrong.extend(polygon.rings().map(sphere::is_clockwise));
        reverse_rings(mended, |ring| wrong[ring])?;
    }
    match fault(PolygonView::new(mended)?, arena)? {
        None => Ok(Value::Geography(mended)),
        Some(fault) => Err(UserError::data("22023", format!("invalid polygon: {fault}"))),
    }
}

/// Counts what would take a quadratic time for polygons made to that end.
#[derive(Default)]
struct Work(u64);

impl Work {
    fn charge(&mut self, pairs: u64) -> UserResult<()> {
        self.0 += pairs;
        if self.0 > POLYGON_EDGE_PAIRS_MAX {
            return Err(UserError::limit(format!(
                "the polygon is too complicated to be validated: more than {POLYGON_EDGE_PAIRS_MAX} pairs of edges are close to \
                 each other"
            )));
        }
        Ok(())
    }
}

fn vertices_fault(polygon: PolygonView<'_>, arena: &Bump) -> Option<Fault> {
    for (number, ring) in polygon.rings().enumerate() {
        let mut vertices = ArenaVec::with_capacity_in(ring.len(), arena);
        for vertex in 0..ring.len() {
            let (here, next) = ring.edge(vertex);
            if (sphere::dot(here, here) - 1.0).abs() > 1e-9 {
                return Some(Fault::OffSphere { ring: number, vertex });
            }
            if sphere::norm(sphere::add(here, next)) < 1e-15 {
                return Some(Fault::Antipodes { ring: number, vertex });
            }
            vertices.push(here);
        }
        vertices.sort_unstable_by(|a, b| a.partial_cmp(b).expect("coordinates are finite"));
        if vertices.windows(2).any(|pair| pair[0] == pair[1]) {
            return Some(Fault::RepeatedVertex { ring: number });
        }
    }
    None
}

/// An edge with the box that holds its arc.
#[derive(Clone, Copy)]
struct Boxed {
    least: Vector,
    most: Vector,
    ends: (Vector, Vector),
    edge: Edge,
}

fn boxed(ends: (Vector, Vector), edge: Edge) -> Boxed {
    let (a, b) = ends;
    // An arc leaves its chord by this much at most.
    let bulge = 1.0 - sphere::norm(sphere::add(a, b)) / 2.0 + 1e-14;
    let axes = [0, 1, 2];
    Boxed { least: axes.map(|x| a[x].min(b[x]) - bulge), most: axes.map(|x| a[x].max(b[x]) + bulge), ends, edge }
}

/// Sorted along one axis, only edges that overlap there are compared.
fn edges_fault(polygon: PolygonView<'_>, work: &mut Work, arena: &Bump) -> UserResult<Option<Fault>> {
    let count = polygon.rings().map(Ring::len).sum();
    let mut edges = ArenaVec::with_capacity_in(count, arena);
    for (ring, view) in polygon.rings().enumerate() {
        edges.extend(view.edges().enumerate().map(|(vertex, ends)| boxed(ends, Edge { ring, vertex })));
    }
    let extent = |axis: usize| {
        let least = edges.iter().map(|edge| edge.least[axis]).fold(f64::INFINITY, f64::min);
        edges.iter().map(|edge| edge.most[axis]).fold(f64::NEG_INFINITY, f64::max) - least
    };
    let extents = [0, 1, 2].map(extent);
    let axis = (0..3).max_by(|a, b| extents[*a].total_cmp(&extents[*b])).expect("three axes");
    edges.sort_unstable_by(|a: &Boxed, b| a.least[axis].total_cmp(&b.least[axis]));
    for (index, first) in edges.iter().enumerate() {
        let overlapping = edges[index + 1..].iter().take_while(|second| second.least[axis] <= first.most[axis]);
        let mut pairs = 0;
        for second in overlapping {
            pairs += 1;
            let apart = (0..3).any(|x| second.least[x] > first.most[x] || second.most[x] < first.least[x]);
            if apart {
                continue;
            }
            let (a, b) = first.ends;
            let (c, d) = second.ends;
            match sphere::edges_meet(a, b, c, d) {
                Meeting::Apart => {}
                Meeting::Cross => return Ok(Some(Fault::Crossing { first: first.edge, second: second.edge })),
                Meeting::Vertex if (a == c && b == d) || (a == d && b == c) => {
                    return Ok(Some(Fault::SharedEdge { first: first.edge, second: second.edge }));
                }
                Meeting::Vertex => {}
            }
        }
        work.charge(pairs)?;
    }
    Ok(None)
}

fn holes_fault(polygon: PolygonView<'_>, work: &mut Work) -> UserResult<Option<Fault>> {
    // The middle of an edge is on no other ring, as edges do not cross; a vertex may be.
    let middle = |ring: RingView<'_>| {
        let (a, b) = ring.edge(0);
        sphere::normalized(sphere::add(a, b)).unwrap_or(a)
    };
    let outer = polygon.rings().next().expect("a polygon has a ring");
    for (number, hole) in polygon.rings().enumerate().skip(1) {
        work.charge(outer.len() as u64)?;
        if !sphere::ring_contains(outer, middle(hole)) {
            return Ok(Some(Fault::HoleOutside { ring: number }));
        }
        for (other_number, other) in polygon.rings().enumerate().skip(1) {
            if other_number == number {
                continue;
            }
            work.charge(other.len() as u64)?;
            if sphere::ring_contains(other, middle(hole)) {
                return Ok(Some(Fault::HoleInHole { inner: number, outer: other_number }));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_pairs_of_edges_as_the_limit_and_not_one_more() {
        let mut work = Work::default();
        work.charge(POLYGON_EDGE_PAIRS_MAX).expect("at the limit");
        let said = work.charge(1).expect_err("one past it").to_string();
        assert!(said.contains("more than 20000000 pairs of edges"), "{said}");
    }
}
