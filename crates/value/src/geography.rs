//! GEOGRAPHY_POINT and GEOGRAPHY: their text (WKT) and the encoded polygon (wire-protocol 7.4,
//! 7.5).
//!
//! Knows no spatial predicates: those are `sphere`'s, and work on the unit-sphere vertices of a
//! [`PolygonView`].

use crate::Point;
use crate::sphere::{self, Ring as _};
use ferrite_base::{UserError, UserResult};
use std::f64::consts::PI;
use std::fmt;

/// Bytes of a polygon beside its rings: flags, ring count, bound.
const POLYGON_BYTES: usize = 40;
/// Bytes of a ring beside its vertices.
const RING_BYTES: usize = 43;
/// Bytes of a vertex.
const VERTEX_BYTES: usize = 24;
/// Where the first ring begins.
const RINGS_START: usize = 7;
/// Where a ring's vertices begin, from its start.
const RING_VERTICES_START: usize = 5;
/// Bytes of a bound.
const BOUND_BYTES: usize = 33;
/// Coordinates that mean NULL, and fill bounds that nobody computed.
const NO_COORDINATE: f64 = 360.0;

/// A polygon in degrees: rings in the order of their text, the closing vertex left out; holes (all
/// rings but the first) are clockwise, as in text.
#[derive(Clone, PartialEq, Debug)]
pub struct Polygon {
    pub rings: Vec<Vec<Point>>,
}

impl Polygon {
    /// `POLYGON ((lng lat, ...), (...))`: at least one ring, each closed and of at least three
    /// different vertices.
    pub fn parse(text: &str) -> UserResult<Polygon> {
        let mut reader = WktReader::new(text, "POLYGON");
        reader.keyword()?;
        reader.expect(b'(')?;
        let mut rings = Vec::new();
        loop {
            rings.push(reader.ring()?);
            if !reader.accept(b',') {
                break;
            }
        }
        reader.expect(b')')?;
        reader.end()?;
        Ok(Polygon { rings })
    }

    /// The bytes that a column stores and the wire carries.
    pub fn encode(&self) -> Vec<u8> {
        let vertices: usize = self.rings.iter().map(Vec::len).sum();
        let mut out = Vec::with_capacity(POLYGON_BYTES + RING_BYTES * self.rings.len() + VERTEX_BYTES * vertices);
        out.extend_from_slice(&[0, 1, (self.rings.len() > 1) as u8]);
        out.extend_from_slice(&(self.rings.len() as i32).to_be_bytes());
        for (index, ring) in self.rings.iter().enumerate() {
            out.push(0);
            out.extend_from_slice(&(ring.len() as i32).to_be_bytes());
            // Every encoded ring is counter-clockwise: holes are turned round, keeping their first
            // vertex first.
            let (first, rest) = ring.split_first().expect("a ring has vertices");
            encode_vertex(*first, &mut out);
            if index == 0 {
                rest.iter().for_each(|point| encode_vertex(*point, &mut out));
            } else {
                rest.iter().rev().for_each(|point| encode_vertex(*point, &mut out));
            }
            out.push(0);
            out.extend_from_slice(&((index > 0) as i32).to_be_bytes());
            encode_bound(&mut out);
        }
        encode_bound(&mut out);
        out
    }

    /// From stored or received bytes, which are checked throughout.
    pub fn decode(bytes: &[u8]) -> UserResult<Polygon> {
        let rings = decode_vertices(bytes)?;
        let to_points = |ring: Ring| {
            let mut points: Vec<Point> = ring.vertices.into_iter().map(point_from_vertex).collect();
            if ring.depth > 0 {
                points[1..].reverse();
            }
            points
        };
        Ok(Polygon { rings: rings.into_iter().map(to_points).collect() })
    }
}

/// `POLYGON ((0.0 0.0, 1.0 0.0, 1.0 1.0, 0.0 0.0))`.
impl fmt::Display for Polygon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("POLYGON (")?;
        for (index, ring) in self.rings.iter().enumerate() {
            f.write_str(if index == 0 { "(" } else { ", (" })?;
            for (index, point) in ring.iter().chain(ring.first()).enumerate() {
                f.write_str(if index == 0 { "" } else { ", " })?;
                write!(f, "{} {}", Coordinate(point.longitude), Coordinate(point.latitude))?;
            }
            f.write_str(")")?;
        }
        f.write_str(")")
    }
}

/// An encoded ring as it stands: vertices on the unit sphere, counter-clockwise.
#[derive(Clone, PartialEq, Debug)]
pub struct Ring {
    pub vertices: Vec<[f64; 3]>,
    /// 0 outer ring, 1 hole.
    pub depth: i32,
}

/// The rings of an encoded polygon. Flags and bounds are not looked at, lengths and numbers are.
pub fn decode_vertices(bytes: &[u8]) -> UserResult<Vec<Ring>> {
    let to_ring = |ring: RingView<'_>| Ring {
        vertices: (0..ring.len()).map(|index| ring.vertex(index)).collect(),
        depth: ring.depth,
    };
    Ok(PolygonView::new(bytes)?.rings().map(to_ring).collect())
}

/// An encoded polygon, checked throughout and read where it lies.
#[derive(Clone, Copy, Debug)]
pub struct PolygonView<'a> {
    bytes: &'a [u8],
    ring_count: usize,
}

/// A ring of a [`PolygonView`].
#[derive(Clone, Copy, Debug)]
pub struct RingView<'a> {
    vertices: &'a [[u8; VERTEX_BYTES]],
    /// 0 outer ring, 1 hole.
    pub depth: i32,
}

impl<'a> PolygonView<'a> {
    pub fn new(bytes: &'a [u8]) -> UserResult<PolygonView<'a>> {
        Self::check(bytes).ok_or_else(|| UserError::data("22023", "malformed GEOGRAPHY value"))
    }

    fn check(bytes: &'a [u8]) -> Option<PolygonView<'a>> {
        let mut rest = bytes;
        split_off(&mut rest, 3)?;
        let ring_count = take_i32(&mut rest)?;
        // Bounded by what is there before anything is allocated for them.
        if ring_count < 1 || ring_count as usize > rest.len() / RING_BYTES {
            return None;
        }
        for _ in 0..ring_count {
            let ring = take_ring(&mut rest)?;
            if !(0..ring.len()).all(|index| ring.vertex(index).iter().all(|coordinate| coordinate.is_finite())) {
                return None;
            }
        }
        split_off(&mut rest, BOUND_BYTES)?;
        rest.is_empty().then_some(PolygonView { bytes, ring_count: ring_count as usize })
    }

    pub fn ring_count(self) -> usize {
        self.ring_count
    }

    /// The outer ring, then the holes.
    pub fn rings(self) -> impl Iterator<Item = RingView<'a>> {
        let mut rest = &self.bytes[RINGS_START..];
        (0..self.ring_count).map(move |_| take_ring(&mut rest).expect("checked when the view was made"))
    }
}

impl sphere::Ring for RingView<'_> {
    fn len(self) -> usize {
        self.vertices.len()
    }

    fn vertex(self, index: usize) -> [f64; 3] {
        let (coordinates, _) = self.vertices[index].as_chunks::<8>();
        [0, 1, 2].map(|axis| f64::from_be_bytes(coordinates[axis]))
    }
}

/// Turns those rings of an encoded polygon round whose number `is_wrong`, keeping their first
/// vertices first.
pub fn reverse_rings(bytes: &mut [u8], is_wrong: impl Fn(usize) -> bool) -> UserResult<()> {
    let ring_count = PolygonView::new(bytes)?.ring_count();
    let mut start = RINGS_START;
    for number in 0..ring_count {
        let length = take_ring(&mut &bytes[start..]).expect("checked above").len();
        let vertices = &mut bytes[start + RING_VERTICES_START..][..length * VERTEX_BYTES];
        if is_wrong(number) {
            vertices.as_chunks_mut::<VERTEX_BYTES>().0[1..].reverse();
        }
        start += RING_BYTES + length * VERTEX_BYTES;
    }
    Ok(())
}

fn take_ring<'a>(rest: &mut &'a [u8]) -> Option<RingView<'a>> {
    split_off(rest, 1)?;
    let vertex_count = take_i32(rest)?;
    if vertex_count < 3 || vertex_count as usize > rest.len() / VERTEX_BYTES {
        return None;
    }
    let (vertices, _) = split_off(rest, vertex_count as usize * VERTEX_BYTES)?.as_chunks();
    split_off(rest, 1)?;
    let depth = take_i32(rest)?;
    split_off(rest, BOUND_BYTES)?;
    Some(RingView { vertices, depth })
}

fn split_off<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(count)?;
    *rest = after;
    Some(taken)
}

fn take_i32(rest: &mut &[u8]) -> Option<i32> {
    Some(i32::from_be_bytes(split_off(rest, 4)?.try_into().expect("four bytes")))
}

fn encode_vertex(point: Point, out: &mut Vec<u8>) {
    for coordinate in vertex_from_point(point) {
        out.extend_from_slice(&coordinate.to_be_bytes());
    }
}

fn encode_bound(out: &mut Vec<u8>) {
    out.push(0);
    for _ in 0..4 {
        out.extend_from_slice(&NO_COORDINATE.to_be_bytes());
    }
}

/// On the unit sphere.
pub fn vertex_from_point(point: Point) -> [f64; 3] {
    // Multiply, then divide: clients convert degrees this way, and the vectors hold the last bit.
    let latitude = point.latitude * PI / 180.0;
    let longitude = point.longitude * PI / 180.0;
    [latitude.cos() * longitude.cos(), latitude.cos() * longitude.sin(), latitude.sin()]
}

/// Degrees of a vertex.
pub fn point_from_vertex([x, y, z]: [f64; 3]) -> Point {
    Point { longitude: y.atan2(x) * 180.0 / PI, latitude: z.atan2((x * x + y * y).sqrt()) * 180.0 / PI }
}

/// `POINT (lng lat)`.
pub fn parse_point(text: &str) -> UserResult<Point> {
    let mut reader = WktReader::new(text, "POINT");
    reader.keyword()?;
    reader.expect(b'(')?;
    let point = reader.coordinates()?;
    reader.expect(b')')?;
    reader.end()?;
    Ok(point)
}

/// `POINT (2.5 48.5)`.
impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "POINT ({} {})", Coordinate(self.longitude), Coordinate(self.latitude))
    }
}

/// Is it on the earth: longitude -180 to 180, latitude -90 to 90?
pub fn point_is_valid(point: Point) -> bool {
    (-180.0..=180.0).contains(&point.longitude) && (-90.0..=90.0).contains(&point.latitude)
}

/// One to twelve decimals.
struct Coordinate(f64);

impl fmt::Display for Coordinate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:.12}", self.0);
        let digits = text.trim_end_matches('0');
        let digits = if digits.ends_with('.') { &text[..digits.len() + 1] } else { digits };
        f.write_str(if digits == "-0.0" { "0.0" } else { digits })
    }
}

/// Reads well-known text of one kind.
struct WktReader<'a> {
    text: &'a str,
    position: usize,
    kind: &'static str,
}

impl<'a> WktReader<'a> {
    fn new(text: &'a str, kind: &'static str) -> WktReader<'a> {
        WktReader { text, position: 0, kind }
    }

    #[cold]
    fn error(&self, what: &str) -> UserError {
        UserError::data("22023", format!("invalid {} text at character {}: {what}", self.kind, self.position + 1))
            .with_hint("write POINT(longitude latitude) or POLYGON((longitude latitude, ...))")
    }

    fn rest(&mut self) -> &'a [u8] {
        let rest = &self.text.as_bytes()[self.position..];
        let blank = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.position += blank;
        &rest[blank..]
    }

    fn keyword(&mut self) -> UserResult<()> {
        let matches = self.rest().get(..self.kind.len()).is_some_and(|w| w.eq_ignore_ascii_case(self.kind.as_bytes()));
        if !matches {
            return Err(self.error("another kind of shape"));
        }
        self.position += self.kind.len();
        Ok(())
    }

    fn accept(&mut self, byte: u8) -> bool {
        let found = self.rest().first() == Some(&byte);
        self.position += found as usize;
        found
    }

    fn expect(&mut self, byte: u8) -> UserResult<()> {
        if self.accept(byte) { Ok(()) } else { Err(self.error(&format!("expected '{}'", byte as char))) }
    }

    fn end(&mut self) -> UserResult<()> {
        if self.rest().is_empty() { Ok(()) } else { Err(self.error("text after the shape")) }
    }

    fn number(&mut self) -> UserResult<f64> {
        let rest = self.rest();
        let length = rest.iter().take_while(|b| matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')).count();
        let number = self.text[self.position..self.position + length].parse();
        let number = number.map_err(|_| self.error("expected a number"))?;
        self.position += length;
        Ok(number)
    }

    fn coordinates(&mut self) -> UserResult<Point> {
        let point = Point { longitude: self.number()?, latitude: self.number()? };
        if !point_is_valid(point) {
            return Err(self.error("longitude must be within -180 and 180, latitude within -90 and 90"));
        }
        Ok(point)
    }

    fn ring(&mut self) -> UserResult<Vec<Point>> {
        self.expect(b'(')?;
        let mut points = vec![self.coordinates()?];
        while self.accept(b',') {
            points.push(self.coordinates()?);
        }
        self.expect(b')')?;
        if points.len() < 4 {
            return Err(self.error("a ring needs at least four vertices, the last equal to the first"));
        }
        if points.pop().as_ref() != points.first() {
            return Err(self.error("a ring's last vertex must equal its first"));
        }
        Ok(points)
    }
}
