//! Functions on points and polygons of the earth, which is a sphere here; distances are in meters,
//! areas in square meters.
//!
//! The geometry itself is `ferrite_value::sphere`'s, what makes a polygon valid is in [`validity`].

mod validity;

use super::Function;
use crate::arithmetic;
use crate::checks::{check_length, mismatch};
use bumpalo::Bump;
use ferrite_base::{UserError, UserResult};
use ferrite_value::geography::{
    self, Polygon, PolygonView, RingView, point_from_vertex, point_is_valid, vertex_from_point,
};
use ferrite_value::sphere::{self, EARTH_RADIUS_METERS, Ring, Vector};
use ferrite_value::{Point, Value, text};

pub(super) fn call<'a>(function: Function, arguments: &[Value<'a>], arena: &'a Bump) -> UserResult<Value<'a>> {
    use Function::*;
    match (function, arguments) {
        (PointFromText, [Value::Text(text)]) => geography::parse_point(text).map(Value::Point),
        (PolygonFromText, [Value::Text(text)]) => {
            let encoded = Polygon::parse(text)?.encode();
            check_length(encoded.len())?;
            Ok(Value::Geography(arena.alloc_slice_copy(&encoded)))
        }
        (ValidPolygonFromText, [Value::Text(text)]) => {
            let encoded = Polygon::parse(text)?.encode();
            check_length(encoded.len())?;
            validity::made_valid(&encoded, arena)
        }
        (MakeValidPolygon, [Value::Geography(polygon)]) => validity::made_valid(polygon, arena),
        (IsValid, [Value::Geography(polygon)]) => {
            Ok(Value::Boolean(validity::fault(PolygonView::new(polygon)?, arena)?.is_none()))
        }
        (IsInvalidReason, [Value::Geography(polygon)]) => {
            Ok(match validity::fault(PolygonView::new(polygon)?, arena)? {
                None => Value::Text("Valid Polygon"),
                Some(fault) => Value::Text(bumpalo::format!(in arena, "{}", fault).into_bump_str()),
            })
        }
        (AsText, [value @ (Value::Point(_) | Value::Geography(_))]) => {
            let text = text::to_text(*value, arena);
            check_length(text.len())?;
            Ok(Value::Text(text))
        }
        (Longitude, [Value::Point(point)]) => Ok(Value::Float(point.longitude)),
        (Latitude, [Value::Point(point)]) => Ok(Value::Float(point.latitude)),
        (NumberOfPoints, [Value::Geography(polygon)]) => {
            // As in text, where the first vertex of each ring stands at its end again.
            let points: usize = PolygonView::new(polygon)?.rings().map(|ring| ring.len() + 1).sum();
            Ok(Value::Integer(points as i64))
        }
        (NumberOfInteriorRings, [Value::Geography(polygon)]) => {
            Ok(Value::Integer(PolygonView::new(polygon)?.ring_count() as i64 - 1))
        }
        (Contains, [Value::Geography(polygon), Value::Point(point)]) => {
            Ok(Value::Boolean(contains(PolygonView::new(polygon)?, vertex_from_point(*point))))
        }
        (Distance, [left, right]) => finite("DISTANCE", distance(left, right)?),
        (DistanceWithin, [left, right, Value::Float(most)]) => {
            if *most < 0.0 {
                return Err(UserError::out_of_range("the distance of DWITHIN must not be negative"));
            }
            Ok(Value::Boolean(distance(left, right)? <= *most))
        }
        (Area, [Value::Geography(polygon)]) => {
            let (outer, holes) = rings(PolygonView::new(polygon)?);
            let area = sphere::ring_area(outer) - holes.map(sphere::ring_area).sum::<f64>();
            finite("AREA", area * EARTH_RADIUS_METERS * EARTH_RADIUS_METERS)
        }
        (Centroid, [Value::Geography(polygon)]) => {
            let (outer, holes) = rings(PolygonView::new(polygon)?);
            let moment = holes
                .fold(sphere::ring_moment(outer), |moment, hole| sphere::subtract(moment, sphere::ring_moment(hole)));
            // A polygon without an area has no center.
            let center = sphere::normalized(moment).map(point_from_vertex).filter(|center| point_is_valid(*center));
            Ok(center.map_or(Value::Null, Value::Point))
        }
        (function, arguments) => Err(mismatch(&format!("{function:?}"), arguments)),
    }
}

fn rings<'a>(polygon: PolygonView<'a>) -> (RingView<'a>, impl Iterator<Item = RingView<'a>>) {
    let mut rings = polygon.rings();
    (rings.next().expect("a polygon has a ring"), rings)
}

fn contains(polygon: PolygonView<'_>, point: Vector) -> bool {
    let (outer, mut holes) = rings(polygon);
    sphere::ring_contains(outer, point) && !holes.any(|hole| sphere::ring_contains(hole, point))
}

/// In meters; 0 from a polygon to a point in it.
fn distance(left: &Value<'_>, right: &Value<'_>) -> UserResult<f64> {
    let radians = match (left, right) {
        (Value::Point(left), Value::Point(right)) => between_points(*left, *right),
        (Value::Geography(polygon), Value::Point(point)) | (Value::Point(point), Value::Geography(polygon)) => {
            to_polygon(PolygonView::new(polygon)?, vertex_from_point(*point))
        }
        (left, right) => return Err(mismatch("DISTANCE", &[*left, *right])),
    };
    Ok(radians * EARTH_RADIUS_METERS)
}

/// Polygons that came as bytes may have vertices far from the sphere.
fn finite(name: &str, result: f64) -> UserResult<Value<'static>> {
    if arithmetic::is_float_value(result) {
        return Ok(Value::Float(result));
    }
    Err(UserError::out_of_range(format!("{name} has no finite result: the polygon is not on the unit sphere")))
}

fn between_points(left: Point, right: Point) -> f64 {
    sphere::angle(vertex_from_point(left), vertex_from_point(right))
}

fn to_polygon(polygon: PolygonView<'_>, point: Vector) -> f64 {
    if contains(polygon, point) {
        return 0.0;
    }
    let edges = polygon.rings().flat_map(|ring| ring.edges());
    edges.map(|edge| sphere::distance_to_edge(point, edge)).fold(f64::INFINITY, f64::min)
}
