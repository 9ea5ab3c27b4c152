//! Geometry on the unit sphere: orientation, containment, distance, area and centroid. Edges are
//! the shorter arcs of great circles; a ring's inside is on the left of its edges.
//!
//! Orientation is exact: a determinant that rounding could have turned is computed anew without
//! rounding (Shewchuk, "Adaptive precision floating-point arithmetic and fast robust geometric
//! predicates", 1997), and one that is zero is decided by moving the points by symbolic, infinitely
//! small amounts (Edelsbrunner and Mücke, "Simulation of simplicity", 1990). So a point on the
//! common border of two polygons is in one of them, and in no case in both or in none.
//!
//! Knows neither degrees nor encodings.

use std::f64::consts::{PI, TAU};

/// Mean radius of the earth in meters, for distances and areas.
pub const EARTH_RADIUS_METERS: f64 = 6_371_008.8;

pub type Vector = [f64; 3];

#[inline]
pub fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

#[inline]
pub fn cross(a: Vector, b: Vector) -> Vector {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

#[inline]
pub fn add(a: Vector, b: Vector) -> Vector {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

#[inline]
pub fn subtract(a: Vector, b: Vector) -> Vector {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

#[inline]
pub fn scale(a: Vector, factor: f64) -> Vector {
    [a[0] * factor, a[1] * factor, a[2] * factor]
}

#[inline]
pub fn norm(a: Vector) -> f64 {
    dot(a, a).sqrt()
}

/// None for the zero vector.
pub fn normalized(a: Vector) -> Option<Vector> {
    let length = norm(a);
    (length > 0.0).then(|| scale(a, 1.0 / length))
}

/// The direction of `a × b`, with twice its length; precise for neighbours too, where the plain
/// product is mostly rounding.
#[inline]
fn double_cross(a: Vector, b: Vector) -> Vector {
    cross(add(a, b), subtract(b, a))
}

/// The angle between two points, in radians, precise for neighbours and for antipodes.
pub fn angle(a: Vector, b: Vector) -> f64 {
    2.0 * norm(subtract(a, b)).atan2(norm(add(a, b)))
}

/// 1 if a, b, c run counter-clockwise, -1 if clockwise, 0 only if two of them are equal.
pub fn orientation(a: Vector, b: Vector, c: Vector) -> i32 {
    // More than rounding adds up to for unit vectors.
    const ROUNDING: f64 = 1e-15;
    let determinant = dot(cross(a, b), c);
    if determinant.abs() > ROUNDING {
        return if determinant > 0.0 { 1 } else { -1 };
    }
    if a == b || b == c || c == a { 0 } else { exact_orientation(a, b, c) }
}

#[cold]
fn exact_orientation(a: Vector, b: Vector, c: Vector) -> i32 {
    // In ascending order; each exchange turns the sign.
    let mut points = [a, b, c];
    let mut sign = 1;
    for (left, right) in [(0, 1), (1, 2), (0, 1)] {
        if points[left].partial_cmp(&points[right]) == Some(std::cmp::Ordering::Greater) {
            points.swap(left, right);
            sign = -sign;
        }
    }
    let [a, b, c] = points;
    let mut determinant = Expansion::default();
    for (axis, x) in a.into_iter().enumerate() {
        let next = (axis + 1) % 3;
        let last = (axis + 2) % 3;
        determinant.add_product(x, b[next], c[last]);
        determinant.add_product(-x, b[last], c[next]);
    }
    match determinant.sign() {
        0 => sign * perturbed_orientation(a, b, c),
        exact => sign * exact,
    }
}

/// The sign for three different points in one plane with the center, given in ascending order,
/// after each coordinate has been moved by its own power of an infinitely small number.
fn perturbed_orientation(a: Vector, b: Vector, c: Vector) -> i32 {
    let minor = |p: Vector, q: Vector, first: usize, second: usize| {
        let mut value = Expansion::default();
        value.add_product(p[first], q[second], 1.0);
        value.add_product(-p[second], q[first], 1.0);
        value.sign()
    };
    let plain = |x: f64| (x > 0.0) as i32 - (x < 0.0) as i32;
    let terms = [
        minor(b, c, 0, 1),
        minor(b, c, 2, 0),
        minor(b, c, 1, 2),
        minor(c, a, 0, 1),
        plain(c[0]),
        -plain(c[1]),
        minor(c, a, 2, 0),
        plain(c[2]),
        minor(a, b, 0, 1),
        -plain(b[0]),
        plain(b[1]),
        plain(a[0]),
    ];
    terms.into_iter().find(|term| *term != 0).unwrap_or(1)
}

/// A sum of doubles that no rounding has touched: parts of ascending size that do not overlap.
#[derive(Default)]
struct Expansion {
    parts: [f64; Expansion::PARTS],
    length: usize,
}

impl Expansion {
    /// Six products of three doubles have four parts each.
    const PARTS: usize = 24;

    /// Adds `x * y * z`.
    fn add_product(&mut self, x: f64, y: f64, z: f64) {
        let product = x * y;
        let error = x.mul_add(y, -product);
        for factor in [error, product] {
            let product = factor * z;
            let error = factor.mul_add(z, -product);
            self.add(error);
            self.add(product);
        }
    }

    fn add(&mut self, value: f64) {
        let mut sum = value;
        let mut kept = 0;
        for index in 0..self.length {
            let part = self.parts[index];
            let total = sum + part;
            let virtual_part = total - sum;
            let error = (sum - (total - virtual_part)) + (part - virtual_part);
            if error != 0.0 {
                self.parts[kept] = error;
                kept += 1;
            }
            sum = total;
        }
        if sum != 0.0 {
            self.parts[kept] = sum;
            kept += 1;
        }
        self.length = kept;
    }

    /// The largest part decides.
    fn sign(&self) -> i32 {
        let largest = if self.length == 0 { 0.0 } else { self.parts[self.length - 1] };
        (largest > 0.0) as i32 - (largest < 0.0) as i32
    }
}

/// How two edges meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meeting {
    Apart,
    /// They cross at a point inside both.
    Cross,
    /// They have an end in common.
    Vertex,
}

/// The edges a-b and c-d.
pub fn edges_meet(a: Vector, b: Vector, c: Vector, d: Vector) -> Meeting {
    if a == c || a == d || b == c || b == d {
        return Meeting::Vertex;
    }
    if a == b || c == d {
        return Meeting::Apart;
    }
    let side = -orientation(a, b, c);
    let cross = orientation(a, b, d) == side && -orientation(c, d, b) == side && orientation(c, d, a) == side;
    if cross { Meeting::Cross } else { Meeting::Apart }
}

/// Whether b lies on the way when turning counter-clockwise about `center` from a to c.
fn is_ordered(a: Vector, b: Vector, c: Vector, center: Vector) -> bool {
    let turns = (orientation(b, center, a) >= 0) as u8
        + (orientation(c, center, b) >= 0) as u8
        + (orientation(a, center, c) > 0) as u8;
    turns >= 2
}

/// A direction that depends on the vertex alone, against which edges at that vertex are sorted.
fn reference_direction(a: Vector) -> Vector {
    let largest = if a[0].abs() > a[1].abs() {
        if a[0].abs() > a[2].abs() { 0 } else { 2 }
    } else if a[1].abs() > a[2].abs() {
        1
    } else {
        2
    };
    // No coordinate system's axis, so that no usual edge points there.
    let mut other = [0.012, 0.0053, 0.00457];
    other[(largest + 2) % 3] = 1.0;
    normalized(cross(a, other)).unwrap_or([1.0, 0.0, 0.0])
}

/// Whether going from a to b changes sides at the edge c-d. Where they share a vertex, the edges
/// around it are counted so that going past the vertex of a ring changes sides as often as it
/// should.
fn changes_sides(a: Vector, b: Vector, c: Vector, d: Vector) -> bool {
    match edges_meet(a, b, c, d) {
        Meeting::Apart => false,
        Meeting::Cross => true,
        Meeting::Vertex if a == b || c == d => false,
        Meeting::Vertex if a == d => is_ordered(reference_direction(a), c, b, a),
        Meeting::Vertex if b == c => is_ordered(reference_direction(b), d, a, b),
        Meeting::Vertex if a == c => is_ordered(reference_direction(a), d, b, a),
        Meeting::Vertex => is_ordered(reference_direction(b), c, a, b),
    }
}

/// A ring of vertices, the first not repeated at the end.
pub trait Ring: Copy {
    fn len(self) -> usize;
    fn vertex(self, index: usize) -> Vector;

    fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The edge that starts at a vertex.
    fn edge(self, index: usize) -> (Vector, Vector) {
        let next = if index + 1 == self.len() { 0 } else { index + 1 };
        (self.vertex(index), self.vertex(next))
    }

    fn edges(self) -> impl Iterator<Item = (Vector, Vector)> {
        (0..self.len()).map(move |index| self.edge(index))
    }
}

/// Where lines to all points start; close to a pole, on no usual edge.
const ORIGIN: Vector = [-0.009_999_466_435_025_02, 0.002_592_454_260_932_412, 0.999_946_643_502_502];

/// Whether the ring's left side holds the point.
pub fn ring_contains(ring: impl Ring, point: Vector) -> bool {
    let before = ring.vertex(0);
    let corner = ring.vertex(1);
    let after = ring.vertex(2);
    // What is known of the second vertex says whether the origin is inside.
    let corner_inside = is_ordered(reference_direction(corner), before, after, corner);
    let crossings = |to: Vector| ring.edges().fold(false, |odd, (c, d)| odd ^ changes_sides(ORIGIN, to, c, d));
    (crossings(point) ^ crossings(corner)) ^ corner_inside
}

/// Area of the left side, in steradians, 0 to 4π.
pub fn ring_area(ring: impl Ring) -> f64 {
    let first = ring.vertex(0);
    // Fans of signed triangles (Eriksson, "On the measure of solid angles", 1990) add up modulo the
    // whole sphere.
    let mut sum = 0.0;
    for index in 1..ring.len() - 1 {
        let (b, c) = ring.edge(index);
        let determinant = dot(first, cross(subtract(b, first), subtract(c, first)));
        sum += 2.0 * determinant.atan2(1.0 + dot(first, b) + dot(b, c) + dot(c, first));
    }
    // Rounding must not make a sphere of nothing.
    if sum.abs() < 1e-15 { 0.0 } else { sum.rem_euclid(2.0 * TAU) }
}

/// Whether the ring runs clockwise, so that its left side is the larger part of the sphere.
pub fn is_clockwise(ring: impl Ring) -> bool {
    ring_area(ring) > TAU
}

/// The integral of the position over the ring's left side, up to the whole sphere's, which is zero:
/// by Stokes half the sum of each edge's normal times its length.
pub fn ring_moment(ring: impl Ring) -> Vector {
    let mut sum = [0.0; 3];
    for (a, b) in ring.edges() {
        if let Some(normal) = normalized(double_cross(a, b)) {
            sum = add(sum, scale(normal, angle(a, b) / 2.0));
        }
    }
    sum
}

/// The angle from a point to the nearest point of an edge, in radians.
pub fn distance_to_edge(point: Vector, (a, b): (Vector, Vector)) -> f64 {
    let normal = double_cross(a, b);
    // Is the foot of the perpendicular between the ends?
    let between = dot(cross(point, normal), a) > 0.0 && dot(cross(normal, point), b) > 0.0;
    if between && let Some(normal) = normalized(normal) {
        // The distance from the plane, by way of the nearer end where that is more precise.
        let near = if dot(point, a) > dot(point, b) { a } else { b };
        return dot(subtract(point, near), normal).abs().min(1.0).asin();
    }
    angle(point, a).min(angle(point, b)).min(PI)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    struct Vertices<'a>(&'a [Vector]);

    impl Ring for Vertices<'_> {
        fn len(self) -> usize {
            self.0.len()
        }

        fn vertex(self, index: usize) -> Vector {
            self.0[index]
        }
    }

    const X: Vector = [1.0, 0.0, 0.0];
    const Y: Vector = [0.0, 1.0, 0.0];
    const Z: Vector = [0.0, 0.0, 1.0];

    fn opposite(a: Vector) -> Vector {
        scale(a, -1.0)
    }

    #[test]
    fn an_octant_is_an_eighth_of_the_sphere_either_way_round() {
        assert!((ring_area(Vertices(&[X, Y, Z])) - PI / 2.0).abs() < 1e-15);
        assert!((ring_area(Vertices(&[X, Z, Y])) - 7.0 * PI / 2.0).abs() < 1e-14);
        let center = normalized(ring_moment(Vertices(&[X, Y, Z]))).expect("not at the center");
        assert!(angle(center, normalized([1.0, 1.0, 1.0]).expect("not zero")) < 1e-15);
    }

    #[test]
    fn the_eight_octants_hold_every_point_once() {
        let signs = [1.0, -1.0];
        let mut points = vec![X, Y, Z, opposite(X), opposite(Y), opposite(Z), ORIGIN];
        for x in [-1.0, -0.5, 0.0, 0.5, 1.0] {
            for y in [-1.0, -0.25, 0.0, 0.25, 1.0] {
                points.extend([-1.0, 0.0, 0.75].into_iter().filter_map(|z| normalized([x, y, z])));
            }
        }
        for point in points {
            let mut holders = 0;
            for (x, y, z) in signs.iter().flat_map(|x| signs.iter().flat_map(move |y| signs.map(|z| (*x, *y, z)))) {
                let mut ring = [scale(X, x), scale(Y, y), scale(Z, z)];
                if x * y * z < 0.0 {
                    ring.swap(1, 2);
                }
                holders += ring_contains(Vertices(&ring), point) as u32;
            }
            assert_eq!(holders, 1, "{point:?}");
        }
    }

    #[test]
    fn orientation_is_antisymmetric_where_the_determinant_is_zero() {
        let middle = normalized(add(X, Y)).expect("not zero");
        let points = [X, Y, middle, opposite(X), [0.6, 0.8, 0.0], [0.8, 0.6, 0.0]];
        for a in points {
            for b in points {
                for c in points {
                    let sign = orientation(a, b, c);
                    assert_eq!(sign, orientation(b, c, a));
                    assert_eq!(sign, -orientation(b, a, c));
                    assert_eq!(sign == 0, a == b || b == c || c == a);
                }
            }
        }
    }

    #[test]
    fn distances() {
        assert!((angle(X, Y) - PI / 2.0).abs() < 1e-15);
        assert!((angle(X, opposite(X)) - PI).abs() < 1e-15);
        assert!((distance_to_edge(Z, (X, Y)) - PI / 2.0).abs() < 1e-15);
        let above = normalized([1.0, 1.0, 1e-9]).expect("not zero");
        assert!((distance_to_edge(above, (X, Y)) - 1e-9 / 2f64.sqrt()).abs() < 1e-17);
        assert!((distance_to_edge(opposite(Y), (X, Y)) - PI / 2.0).abs() < 1e-15);
    }
}
