//! The consistent-hash ring (wire-protocol 11.2): which partition owns a token.
//!
//! Immutable. Knows nothing of nodes; how a ring travels in `@Statistics TOPO` is the node's
//! affair, which finds the bytes here.

use crate::hash::{partition_token_bytes, partition_token_i64};
use crate::{OwnedValue, SqlType};
use ferrite_base::PartitionId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Tokens of a new cluster's ring.
pub const TOKENS_DEFAULT: u32 = 16_384;
/// Distance between the tokens of the default ring.
const SPACING_DEFAULT: u32 = spacing(TOKENS_DEFAULT);
/// Keys tried for `@GetPartitionKeys`.
const KEYS_TRIED_MAX: i32 = 500_000;

const fn spacing(tokens: u32) -> u32 {
    i32::MAX as u32 / (tokens / 2)
}

/// A ring, ready for look-ups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Ascending, the first is `i32::MIN`.
    tokens: Box<[i32]>,
    /// Owner of each token's range.
    owners: Box<[u16]>,
    partition_count: u32,
    /// Distance of evenly spread tokens; 0 if they are not.
    spacing: u32,
}

impl Ring {
    /// The ring that a new cluster of `partition_count` partitions has.
    pub fn new_default(partition_count: u32) -> Ring {
        Ring::new_even(TOKENS_DEFAULT, partition_count)
    }

    /// The same construction with another number of tokens. Requires `token_count` even and at
    /// least `partition_count`.
    pub fn new_even(token_count: u32, partition_count: u32) -> Ring {
        assert!(partition_count >= 1 && partition_count <= token_count && partition_count <= u16::MAX as u32);
        assert!(token_count >= 2 && token_count.is_multiple_of(2));
        let step = spacing(token_count);
        let tokens = (0..token_count).map(|index| token_from_offset(index * step)).collect();
        let owners = spread(token_count, partition_count);
        Ring { tokens, owners, partition_count, spacing: step }
    }

    /// Any legal ring: starts at `i32::MIN`, strictly ascending, at most 65,535 partitions. None if
    /// it is not one.
    pub fn from_entries(entries: &[(i32, PartitionId)]) -> Option<Ring> {
        let legal = entries.first()?.0 == i32::MIN && entries.is_sorted_by(|a, b| a.0 < b.0);
        let partition_count = entries.iter().map(|entry| entry.1.0).max()?.checked_add(1)?;
        if !legal || partition_count > u16::MAX as u32 {
            return None;
        }
        let token_count = entries.len() as u32;
        let even_step = if token_count >= 2 { spacing(token_count) } else { 0 };
        let is_even = token_count.is_multiple_of(2)
            && entries.iter().enumerate().all(|(index, entry)| entry.0 == token_from_offset(index as u32 * even_step));
        Some(Ring {
            tokens: entries.iter().map(|entry| entry.0).collect(),
            owners: entries.iter().map(|entry| entry.1.0 as u16).collect(),
            partition_count,
            spacing: if is_even { even_step } else { 0 },
        })
    }

    /// What [`Ring::raw_bytes`] wrote, or another server. None if it is not a legal ring.
    pub fn from_raw_bytes(bytes: &[u8]) -> Option<Ring> {
        let (count, pairs) = bytes.split_first_chunk::<4>()?;
        let count = usize::try_from(i32::from_be_bytes(*count)).ok()?;
        let (pairs, rest) = pairs.as_chunks::<8>();
        if pairs.len() != count || !rest.is_empty() {
            return None;
        }
        let entry = |[a, b, c, d, e, f, g, h]: &[u8; 8]| {
            let partition = u32::try_from(i32::from_be_bytes([*e, *f, *g, *h])).ok()?;
            Some((i32::from_be_bytes([*a, *b, *c, *d]), PartitionId(partition)))
        };
        Ring::from_entries(&pairs.iter().map(entry).collect::<Option<Vec<_>>>()?)
    }

    pub fn partition_count(&self) -> u32 {
        self.partition_count
    }

    /// Owner of a token: that of the greatest ring token not above it.
    #[inline]
    pub fn partition_of(&self, token: i32) -> PartitionId {
        let offset = offset_from_token(token);
        let index = if self.spacing == SPACING_DEFAULT {
            // A division by a constant is a multiplication; this line runs for every call.
            (offset / SPACING_DEFAULT) as usize
        } else if let Some(index) = offset.checked_div(self.spacing) {
            index as usize
        } else {
            self.tokens.partition_point(|candidate| *candidate <= token) - 1
        };
        // The last range is the longer one, as the spacing is rounded down.
        PartitionId(self.owners[index.min(self.owners.len() - 1)] as u32)
    }

    /// Owner of a partitioning value's token; values that have none (NULL) are at home in
    /// partition 0.
    #[inline]
    pub fn partition_of_optional(&self, token: Option<i32>) -> PartitionId {
        match token {
            Some(token) => self.partition_of(token),
            None => PartitionId(0),
        }
    }

    /// (token, owner), ascending.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (i32, PartitionId)> {
        self.tokens.iter().zip(&self.owners).map(|(token, owner)| (*token, PartitionId(*owner as u32)))
    }

    /// Raw format: `i32 count`, then (`i32 token`, `i32 partition`) each.
    pub fn raw_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(4 + 8 * self.tokens.len());
        bytes.extend_from_slice(&(self.tokens.len() as i32).to_be_bytes());
        for (token, owner) in self.entries() {
            bytes.extend_from_slice(&token.to_be_bytes());
            bytes.extend_from_slice(&(owner.0 as i32).to_be_bytes());
        }
        bytes
    }

    /// JSON format before its compression: one object, tokens as keys.
    pub fn json_text(&self) -> String {
        use std::fmt::Write;
        let mut text = String::with_capacity(16 * self.tokens.len() + 2);
        for (token, owner) in self.entries() {
            let separator = if text.is_empty() { '{' } else { ',' };
            write!(text, "{separator}\"{token}\":{owner}").expect("writing to a String cannot fail");
        }
        text.push('}');
        text
    }

    /// One key per partition (`@GetPartitionKeys`, wire-protocol 11.4), in the order in which they
    /// are found. `key_type`: any integer type, VARCHAR or VARBINARY; None for others.
    pub fn partition_keys(&self, key_type: SqlType) -> Option<Vec<(PartitionId, OwnedValue)>> {
        let make_key: fn(i32) -> (i32, OwnedValue) = match key_type {
            SqlType::Varchar => |number| {
                let text = number.to_string();
                (partition_token_bytes(text.as_bytes()), OwnedValue::Text(text.into()))
            },
            SqlType::Varbinary => |number| {
                let bytes = number.to_be_bytes();
                (partition_token_bytes(&bytes), OwnedValue::Bytes(bytes.into()))
            },
            other if other.is_integer() => {
                |number| (partition_token_i64(number as i64), OwnedValue::Integer(number as i64))
            }
            _ => return None,
        };
        let mut found = vec![false; self.partition_count as usize];
        let mut keys = Vec::with_capacity(found.len());
        for number in 0..KEYS_TRIED_MAX {
            if keys.len() == found.len() {
                break;
            }
            let (token, key) = make_key(number);
            let partition = self.partition_of(token);
            if !std::mem::replace(&mut found[partition.index()], true) {
                keys.push((partition, key));
            }
        }
        Some(keys)
    }
}

#[inline]
fn offset_from_token(token: i32) -> u32 {
    (token as u32) ^ 0x8000_0000
}

#[inline]
fn token_from_offset(offset: u32) -> i32 {
    (offset ^ 0x8000_0000) as i32
}

/// Owners of evenly spread tokens. Each new partition takes, one by one, the lowest token of the
/// partition that has most (ties: the highest id), until counts differ by at most one.
fn spread(token_count: u32, partition_count: u32) -> Box<[u16]> {
    // Token indices per partition, the lowest on top.
    let mut owned: Vec<BinaryHeap<Reverse<u32>>> = vec![(0..token_count).map(Reverse).collect()];
    for _ in 1..partition_count {
        owned.push(BinaryHeap::new());
        loop {
            let richest = (0..owned.len()).max_by_key(|id| owned[*id].len()).expect("there is a partition");
            let poorest = (0..owned.len()).min_by_key(|id| owned[*id].len()).expect("there is a partition");
            if owned[richest].len() - owned[poorest].len() <= 1 {
                break;
            }
            let token = owned[richest].pop().expect("the richest has a token");
            owned[poorest].push(token);
        }
    }
    let mut owners = vec![0; token_count as usize];
    for (partition, tokens) in owned.iter().enumerate() {
        tokens.iter().for_each(|Reverse(token)| owners[*token as usize] = partition as u16);
    }
    owners.into()
}
