//! The options that each node gets at every start and that should be the same on all: compared
//! before a cluster is founded (docs/decisions/0083-settings-of-founders.md), and not kept.

use super::declaration::Declaration;
use super::founded::name;
use crate::bytes::{Malformed, Reader, put_text, put_u32};
use crate::{Kind, TEXT_BYTES_MAX};
use ferrite_notice::Notice;
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

    pub(super) fn decode(rest: &mut Reader<'_>) -> Result<Manner, Malformed> {
        let durability = rest.short_text()?.to_string();
        if durability.len() > TEXT_BYTES_MAX {
            return Err(Malformed("a node's durability is too long"));
        }
        let mut checksum = || {
            let given = rest.u8()?;
            let checksum = rest.u32()?;
            match given {
                0 => Ok(None),
                1 => Ok(Some(checksum)),
                _ => Err(Malformed("a flag is neither 0 nor 1")),
            }
        };
        let schema = checksum()?;
        let classes = checksum()?;
        let decimal_scale = checksum()?;
        Ok(Manner { durability, schema, classes, decimal_scale })
    }
}

/// How two of these nodes differ, for their operator. `declared`, `manners`: by place.
pub(super) fn differing(declared: &BTreeMap<u32, Declaration>, manners: &BTreeMap<u32, Manner>) -> Option<Notice> {
    let known = || declared.iter().filter_map(|(place, one)| Some((one, manners.get(place)?)));
    let (first, own) = known().next()?;
    let begins_empty = declared.values().all(|one| one.database.is_none());
    known().skip(1).find_map(|(other, manner)| {
        let (of_first, of_other): (Vec<_>, Vec<_>) = differences(own, manner, begins_empty).into_iter().unzip();
        (!of_first.is_empty()).then(|| Notice::OptionsDiffer {
            first: name(first),
            of_first: of_first.join(" "),
            second: name(other),
            of_second: of_other.join(" "),
        })
    })
}

/// Some nodes with data are in racks, and others have none: for their operator, who has most likely
/// forgotten one. Without it, a node counts as a rack of its own.
pub(super) fn racks_differ(declared: &BTreeMap<u32, Declaration>) -> Option<Notice> {
    let with_data = || declared.values().filter(|one| one.kind == Kind::Data);
    let (with, rack) = with_data().find_map(|one| Some((one, one.rack.as_ref()?)))?;
    let without = with_data().find(|one| one.rack.is_none())?;
    Some(Notice::OptionsDiffer {
        first: name(with),
        of_first: format!("--rack {rack}"),
        second: name(without),
        of_second: "no --rack".to_owned(),
    })
}

/// Each option in which two nodes differ, as the first has it and as the second has it.
/// `begins_empty`: what a new database begins with counts.
pub(super) fn differences(first: &Manner, second: &Manner, begins_empty: bool) -> Vec<(String, String)> {
    let mut options = Vec::new();
    if first.durability != second.durability {
        let as_written = |manner: &Manner| format!("--durability {}", manner.durability);
        options.push((as_written(first), as_written(second)));
    }
    let of_a_new_database = [
        ("--schema", first.schema, second.schema),
        ("--classes", first.classes, second.classes),
        ("--decimal-scale", first.decimal_scale, second.decimal_scale),
    ];
    for (option, one, other) in of_a_new_database.into_iter().filter(|(_, one, other)| begins_empty && one != other) {
        options.push(match (one, other) {
            (Some(_), None) => (option.to_owned(), format!("no {option}")),
            (None, _) => (format!("no {option}"), option.to_owned()),
            (Some(_), Some(_)) => (option.to_owned(), format!("another {option}")),
        });
    }
    options
}
