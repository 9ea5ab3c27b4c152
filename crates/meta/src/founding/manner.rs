//! What each node is started with anew and should be the same on all: compared before a cluster is
//! founded (docs/decisions/0083-settings-of-founders.md), and not kept.

use super::declaration::Declaration;
use super::founded::name;
use crate::TEXT_BYTES_MAX;
use crate::bytes::{Malformed, Reader, put_text, put_u32};
use std::collections::BTreeMap;

/// Of a node that keeps data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manner {
    /// As `--durability` is written.
    pub durability: String,
    /// A checksum of what a new database begins with, if anything is given.
    pub schema: Option<u32>,
    pub classes: Option<u32>,
    pub decimal_scale: Option<u32>,
}

impl Manner {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_text(out, &self.durability);
        for checksum in [self.schema, self.classes, self.decimal_scale] {
            out.push(u8::from(checksum.is_some()));
            put_u32(out, checksum.unwrap_or_default());
        }
    }

    pub(super) fn take(rest: &mut Reader<'_>) -> Result<Manner, Malformed> {
        let durability = rest.text()?.to_string();
        if durability.len() > TEXT_BYTES_MAX {
            return Err(Malformed("a node's durability is too long"));
        }
        let mut checksum = || {
            let (given, checksum) = (rest.u8()?, rest.u32()?);
            match given {
                0 => Ok(None),
                1 => Ok(Some(checksum)),
                _ => Err(Malformed("a flag is neither 0 nor 1")),
            }
        };
        let (schema, classes, decimal_scale) = (checksum()?, checksum()?, checksum()?);
        Ok(Manner { durability, schema, classes, decimal_scale })
    }
}

/// How two of these nodes differ, for their operator. `declared`, `manners`: by place.
pub(super) fn differing(declared: &BTreeMap<u32, Declaration>, manners: &BTreeMap<u32, Manner>) -> Option<String> {
    let known = || declared.iter().filter_map(|(place, one)| Some((one, manners.get(place)?)));
    let (first, own) = known().next()?;
    let begins_empty = declared.values().all(|one| one.database.is_none());
    known().skip(1).find_map(|(other, manner)| {
        let how = if own.durability != manner.durability {
            let (one, another) = (&own.durability, &manner.durability);
            format!(
                "{} was started with --durability {one} and {} with --durability {another}",
                name(first),
                name(other)
            )
        } else {
            let of_a_new_database = [
                ("--schema", own.schema, manner.schema),
                ("--classes", own.classes, manner.classes),
                ("--decimal-scale", own.decimal_scale, manner.decimal_scale),
            ];
            let differs = of_a_new_database.into_iter().find(|(_, one, another)| one != another);
            let (option, one, another) = differs.filter(|_| begins_empty)?;
            one_without(option, (first, one), (other, another))
        };
        Some(format!("{how}: start one of them again with what the other has"))
    })
}

fn one_without(option: &str, one: (&Declaration, Option<u32>), other: (&Declaration, Option<u32>)) -> String {
    let (first, second) = (name(one.0), name(other.0));
    match (one.1, other.1) {
        (Some(_), None) => format!("{first} was started with {option} and {second} without"),
        (None, _) => format!("{second} was started with {option} and {first} without"),
        (Some(_), Some(_)) => format!("{first} and {second} were started with different {option}"),
    }
}
