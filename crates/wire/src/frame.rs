//! Cutting the byte stream into frames: an `i32` length, then that many bytes (wire-protocol 1.2).

use ferrite_base::limits::FRAME_BYTES_MAX;
use std::fmt;

/// Bytes of the length field.
pub const LENGTH_BYTES: usize = 4;

/// The length field names no acceptable frame. Alignment is lost: the connection can only be
/// closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameError {
    pub length: i32,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "frame length {} is not between 1 and {FRAME_BYTES_MAX}", self.length)
    }
}

impl std::error::Error for FrameError {}

/// The size of the frame at the start of `buffer`, its length field included, as soon as four bytes
/// are there; tells how much room to make for the rest.
#[inline]
pub fn size(buffer: &[u8]) -> Result<Option<usize>, FrameError> {
    let Some((length, _)) = buffer.split_first_chunk::<LENGTH_BYTES>() else {
        return Ok(None);
    };
    let length = i32::from_be_bytes(*length);
    if length <= 0 || length as usize > FRAME_BYTES_MAX {
        return Err(FrameError { length });
    }
    Ok(Some(LENGTH_BYTES + length as usize))
}

/// The first frame of `buffer`: how many bytes it takes there, and its body without the length
/// field. `None` while it is incomplete.
#[inline]
pub fn split(buffer: &[u8]) -> Result<Option<(usize, &[u8])>, FrameError> {
    match size(buffer)? {
        Some(size) if size <= buffer.len() => Ok(Some((size, &buffer[LENGTH_BYTES..size]))),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_frames_wait() {
        for length in 0..7 {
            assert_eq!(split(&[0, 0, 0, 3, 7, 8, 9][..length]), Ok(None));
        }
        assert_eq!(split(&[0, 0, 0, 3, 7, 8, 9]), Ok(Some((7, &[7, 8, 9][..]))));
        assert_eq!(split(&[0, 0, 0, 1, 7, 8, 9]), Ok(Some((5, &[7][..]))));
        assert_eq!(size(&[0, 0, 1, 0]), Ok(Some(260)));
    }

    #[test]
    fn the_limit_and_one_past_it() {
        let limit = FRAME_BYTES_MAX as i32;
        assert_eq!(size(&limit.to_be_bytes()), Ok(Some(FRAME_BYTES_MAX + 4)));
        assert_eq!(split(&limit.to_be_bytes()), Ok(None));
        assert_eq!(split(&(limit + 1).to_be_bytes()), Err(FrameError { length: limit + 1 }));
        assert_eq!(split(&1i32.to_be_bytes()), Ok(None));
        assert_eq!(split(&0i32.to_be_bytes()), Err(FrameError { length: 0 }));
        assert_eq!(split(&(-1i32).to_be_bytes()), Err(FrameError { length: -1 }));
        assert_eq!(split(&i32::MAX.to_be_bytes()), Err(FrameError { length: i32::MAX }));
    }
}
