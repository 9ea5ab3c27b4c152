//! A cursor over received bytes that only ever shrinks. All integers are big-endian (wire-protocol
//! 0.3).

use crate::DecodeError;

type Result<T> = std::result::Result<T, DecodeError>;

/// The bytes not read yet. After an error the position is unspecified; the caller gives up the
/// message.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes }
    }

    /// What is left, without consuming it.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes left.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Everything must have been read by now.
    #[inline]
    pub fn expect_end(&self) -> Result<()> {
        if self.bytes.is_empty() { Ok(()) } else { Err(DecodeError::TrailingBytes) }
    }

    #[inline]
    pub fn raw_bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(DecodeError::Truncated)?;
        self.bytes = rest;
        Ok(taken)
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk::<N>().ok_or(DecodeError::Truncated)?;
        self.bytes = rest;
        Ok(*taken)
    }

    #[inline]
    pub fn i8(&mut self) -> Result<i8> {
        Ok(i8::from_be_bytes(self.array()?))
    }

    #[inline]
    pub fn i16(&mut self) -> Result<i16> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    #[inline]
    pub fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    #[inline]
    pub fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    #[inline]
    pub fn i128(&mut self) -> Result<i128> {
        Ok(i128::from_be_bytes(self.array()?))
    }

    #[inline]
    pub fn f64(&mut self) -> Result<f64> {
        Ok(f64::from_be_bytes(self.array()?))
    }

    /// An `i16` count of things that take at least `bytes_each` bytes each: refused when they
    /// cannot all be there.
    #[inline]
    pub fn short_count(&mut self, bytes_each: usize) -> Result<usize> {
        let count = self.i16()?;
        self.check_count(count.into(), bytes_each)
    }

    /// The same with an `i32` count.
    #[inline]
    pub fn count(&mut self, bytes_each: usize) -> Result<usize> {
        let count = self.i32()?;
        self.check_count(count.into(), bytes_each)
    }

    #[inline]
    fn check_count(&self, count: i64, bytes_each: usize) -> Result<usize> {
        let count = usize::try_from(count).map_err(|_| DecodeError::NegativeLength)?;
        if count.saturating_mul(bytes_each) > self.bytes.len() {
            return Err(DecodeError::Truncated);
        }
        Ok(count)
    }

    /// Bytes behind an `i32` length; -1 is null.
    #[inline]
    pub fn nullable_bytes(&mut self) -> Result<Option<&'a [u8]>> {
        let length = self.i32()?;
        if length < 0 {
            return if length == -1 { Ok(None) } else { Err(DecodeError::NegativeLength) };
        }
        self.raw_bytes(length as usize).map(Some)
    }

    /// Bytes behind an `i32` length that may not be null.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        self.nullable_bytes()?.ok_or(DecodeError::UnexpectedNull)
    }

    /// UTF-8 text behind an `i32` length; -1 is null.
    #[inline]
    pub fn nullable_string(&mut self) -> Result<Option<&'a str>> {
        self.nullable_bytes()?.map(utf8).transpose()
    }

    /// UTF-8 text behind an `i32` length that may not be null.
    #[inline]
    pub fn string(&mut self) -> Result<&'a str> {
        utf8(self.bytes()?)
    }
}

#[inline]
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| DecodeError::NotUtf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shrinks_and_stops_at_the_end() {
        let mut reader = Reader::new(&[1, 0, 2, 0, 0, 0, 3, 0xff]);
        assert_eq!(reader.i8(), Ok(1));
        assert_eq!(reader.i16(), Ok(2));
        assert_eq!(reader.i32(), Ok(3));
        assert_eq!(reader.expect_end(), Err(DecodeError::TrailingBytes));
        assert_eq!(reader.i16(), Err(DecodeError::Truncated));
        assert_eq!(reader.i8(), Ok(-1));
        assert_eq!(reader.expect_end(), Ok(()));
    }

    #[test]
    fn lengths_and_counts_are_checked_before_use() {
        assert_eq!(Reader::new(&[0xff; 4]).nullable_bytes(), Ok(None));
        assert_eq!(Reader::new(&[0xff, 0xff, 0xff, 0xfe]).nullable_bytes(), Err(DecodeError::NegativeLength));
        assert_eq!(Reader::new(&[0x7f, 0xff, 0xff, 0xff]).nullable_bytes(), Err(DecodeError::Truncated));
        assert_eq!(Reader::new(&[0xff; 4]).bytes(), Err(DecodeError::UnexpectedNull));
        assert_eq!(Reader::new(&[0, 0, 0, 1, 0xff]).string(), Err(DecodeError::NotUtf8));
        assert_eq!(Reader::new(&[0, 2, 9, 9]).short_count(1), Ok(2));
        assert_eq!(Reader::new(&[0, 2, 9]).short_count(1), Err(DecodeError::Truncated));
        assert_eq!(Reader::new(&[0x80, 2, 9]).short_count(1), Err(DecodeError::NegativeLength));
    }
}
