//! A cursor over the bytes of a format of ours, all of which are little-endian.
//!
//! Promises that no bytes make it panic or allocate: a length is compared with what is there before
//! anything is taken off, and a count alone reserves nothing. Does not know the formats: each has
//! an error of its own, which it makes of a [`ReadFault`]. What others have defined is big-endian,
//! and has readers of its own: the client protocol (`ferrite_wire`), class files and GEOGRAPHY
//! values.

use std::marker::PhantomData;

/// Why bytes cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadFault {
    EndsEarly,
    LeftOver,
    Malformed(&'static str),
}

/// What is left to read. After an error the place is unspecified.
pub struct Reader<'b, E = ReadFault> {
    rest: &'b [u8],
    error: PhantomData<fn() -> E>,
}

impl<E> Clone for Reader<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Reader<'_, E> {}

impl<'b, E: From<ReadFault>> Reader<'b, E> {
    #[inline]
    pub fn new(bytes: &'b [u8]) -> Reader<'b, E> {
        Reader { rest: bytes, error: PhantomData }
    }

    #[inline]
    pub fn rest(&self) -> &'b [u8] {
        self.rest
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Everything must have been read.
    pub fn end(&self) -> Result<(), E> {
        if self.rest.is_empty() { Ok(()) } else { Err(ReadFault::LeftOver.into()) }
    }

    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'b [u8], E> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or_else(|| E::from(ReadFault::EndsEarly))?;
        self.rest = rest;
        Ok(bytes)
    }

    /// All that is left.
    pub fn remainder(&mut self) -> &'b [u8] {
        std::mem::take(&mut self.rest)
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], E> {
        let (array, rest) = self.rest.split_first_chunk().ok_or_else(|| E::from(ReadFault::EndsEarly))?;
        self.rest = rest;
        Ok(*array)
    }

    #[inline]
    pub fn u8(&mut self) -> Result<u8, E> {
        self.array().map(u8::from_le_bytes)
    }

    #[inline]
    pub fn u16(&mut self) -> Result<u16, E> {
        self.array().map(u16::from_le_bytes)
    }

    #[inline]
    pub fn u32(&mut self) -> Result<u32, E> {
        self.array().map(u32::from_le_bytes)
    }

    #[inline]
    pub fn u64(&mut self) -> Result<u64, E> {
        self.array().map(u64::from_le_bytes)
    }

    #[inline]
    pub fn i64(&mut self) -> Result<i64, E> {
        self.array().map(i64::from_le_bytes)
    }

    pub fn flag(&mut self) -> Result<bool, E> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(ReadFault::Malformed("a flag is neither 0 nor 1").into()),
        }
    }

    /// Text of that many bytes.
    pub fn text(&mut self, length: usize) -> Result<&'b str, E> {
        std::str::from_utf8(self.bytes(length)?).map_err(|_| ReadFault::Malformed("a text is not UTF-8").into())
    }

    /// Two bytes of a length, then text.
    pub fn short_text(&mut self) -> Result<&'b str, E> {
        let length = self.u16()?;
        self.text(length.into())
    }

    /// Four bytes of a count, which is at most `max`, then as many parts.
    pub fn list<T>(
        &mut self,
        max: usize,
        mut part: impl FnMut(&mut Reader<'b, E>) -> Result<T, E>,
    ) -> Result<Vec<T>, E> {
        let count = self.u32()? as usize;
        if count > max {
            return Err(ReadFault::Malformed("a list is too long").into());
        }
        let mut parts = Vec::new();
        for _ in 0..count {
            parts.push(part(self)?);
        }
        Ok(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(bytes: &[u8]) -> Reader<'_> {
        Reader::new(bytes)
    }

    #[test]
    fn what_is_read_is_taken_off_the_front() {
        let mut reader = reader(&[1, 2, 0, 3, 0, 0, 0, 1, b'a', b'b', 9]);
        assert_eq!((reader.u8(), reader.u16(), reader.u32()), (Ok(1), Ok(2), Ok(3)));
        assert_eq!((reader.flag(), reader.text(2)), (Ok(true), Ok("ab")));
        assert_eq!((reader.end(), reader.remainder(), reader.end()), (Err(ReadFault::LeftOver), &[9][..], Ok(())));
    }

    #[test]
    fn what_is_not_there_is_not_read() {
        assert_eq!(reader(&[1; 7]).u64(), Err(ReadFault::EndsEarly));
        assert_eq!(reader(&[1; 7]).bytes(8), Err(ReadFault::EndsEarly));
        assert_eq!(reader(&[1; 7]).bytes(usize::MAX), Err(ReadFault::EndsEarly));
        assert_eq!(reader(&[1; 7]).bytes(7), Ok(&[1; 7][..]));
        assert_eq!(reader(&[2]).flag(), Err(ReadFault::Malformed("a flag is neither 0 nor 1")));
        assert_eq!(reader(&[0xff]).text(1), Err(ReadFault::Malformed("a text is not UTF-8")));
        assert_eq!(reader(&[2, 0, b'a']).short_text(), Err(ReadFault::EndsEarly));
        assert_eq!(reader(&[2, 0, b'a', b'b', b'c']).short_text(), Ok("ab"));
    }

    #[test]
    fn a_count_allocates_nothing_by_itself() {
        let all = u32::MAX.to_le_bytes();
        assert_eq!(reader(&all).list(usize::MAX, Reader::u8), Err(ReadFault::EndsEarly));
        assert_eq!(reader(&[2, 0, 0, 0, 7, 8]).list(1, Reader::u8), Err(ReadFault::Malformed("a list is too long")));
        assert_eq!(reader(&[2, 0, 0, 0, 7, 8]).list(2, Reader::u8), Ok(vec![7, 8]));
    }
}
