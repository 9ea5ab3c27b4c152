//! Numbers, texts and lists as bytes, little-endian. A count that is read allocates nothing by
//! itself.

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

pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, tail) = self.0.split_first_chunk::<N>().ok_or(Malformed("they end early"))?;
        self.0 = tail;
        Ok(*head)
    }

    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_le_bytes)
    }

    pub fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("a flag is neither 0 nor 1")),
        }
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn slice(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.0.split_at_checked(length).ok_or(Malformed("they end early"))?;
        self.0 = tail;
        Ok(head)
    }

    /// Two bytes of length, then the text.
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        let length = usize::from(u16::from_le_bytes(self.array()?));
        std::str::from_utf8(self.slice(length)?).map_err(|_| Malformed("a text is not UTF-8"))
    }

    /// A count of at most `max`, then as many parts.
    pub fn list<T>(
        &mut self,
        max: usize,
        mut part: impl FnMut(&mut Reader<'a>) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.u32()? as usize;
        if count > max {
            return Err(Malformed("a list is too long"));
        }
        let mut parts = Vec::new();
        for _ in 0..count {
            parts.push(part(self)?);
        }
        Ok(parts)
    }

    pub fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("bytes are left over")) }
    }
}

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
