//! Numbers, texts and lists as bytes, little-endian.

use ferrite_base::bytes::ReadFault;
use std::fmt;

/// Why bytes cannot be decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the metadata's bytes are malformed: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

impl From<ReadFault> for Malformed {
    fn from(fault: ReadFault) -> Malformed {
        match fault {
            ReadFault::EndsEarly => Malformed("they end early"),
            ReadFault::LeftOver => Malformed("bytes are left over"),
            ReadFault::Malformed(reason) => Malformed(reason),
        }
    }
}

pub(crate) type Reader<'a> = ferrite_base::bytes::Reader<'a, Malformed>;

pub(crate) fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub(crate) fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

/// A text that is longer than its length can say is cut: the state refuses far shorter ones.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    let text = &text[..text.floor_char_boundary(usize::from(u16::MAX))];
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn put_list<T>(out: &mut Vec<u8>, parts: &[T], mut put: impl FnMut(&mut Vec<u8>, &T)) {
    put_u32(out, u32::try_from(parts.len()).expect("a list has fewer than 2^32 parts"));
    parts.iter().for_each(|part| put(out, part));
}
