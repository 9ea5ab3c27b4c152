//! The constant part of a procedure's requests, assembled once.

use ferrite_wire::invocation::write_call;
use ferrite_wire::writer::Put;
use ferrite_wire::{EncodeError, ParameterSet};
use std::sync::Arc;

/// Bytes of the handle and of an empty parameter set, which end the shortest plain request.
const HANDLE_BYTES: usize = 8;
const EMPTY_SET_BYTES: usize = 2;

/// A procedure ready to be called: a request is a copy of these bytes, a handle and the parameters.
/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Everything up to the handle, the length still open.
    prefix: Arc<[u8]>,
}

impl Prepared {
    /// Looks nothing up: a name that the server does not know is found out by calling it.
    pub fn new(procedure: &str) -> Result<Prepared, EncodeError> {
        let mut request = Vec::new();
        write_call(&mut request, procedure, 0, &())?;
        request.truncate(request.len() - HANDLE_BYTES - EMPTY_SET_BYTES);
        Ok(Prepared { prefix: request.into() })
    }

    /// Where in a request the handle stands.
    #[inline]
    pub fn handle_at(&self) -> usize {
        self.prefix.len()
    }

    /// Appends a whole request. On an error `out` is as before.
    #[inline]
    pub fn write(
        &self,
        out: &mut Vec<u8>,
        handle: i64,
        parameters: &(impl ParameterSet + ?Sized),
    ) -> Result<(), EncodeError> {
        let start = out.len();
        // One check of the capacity for the common small request.
        out.reserve(self.prefix.len() + 64);
        out.extend_from_slice(&self.prefix);
        out.put_i64(handle);
        let mut result = parameters.write_set(out);
        if out.len() - start - 4 > ferrite_base::limits::FRAME_BYTES_MAX {
            result = result.and(Err(EncodeError::FrameTooLarge));
        }
        match result {
            Ok(()) => out.patch_length(start),
            Err(_) => out.truncate(start),
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_what_a_plain_call_writes() {
        let (mut expected, mut out) = (vec![7], vec![7]);
        let parameters = (5_551_234_567i64, 3i32, "x");
        write_call(&mut expected, "Vote", 14, &parameters).unwrap();
        Prepared::new("Vote").unwrap().write(&mut out, 14, &parameters).unwrap();
        assert_eq!(out, expected);
    }

    #[test]
    fn a_failed_write_leaves_nothing() {
        let mut out = vec![7];
        let prepared = Prepared::new("Vote").unwrap();
        assert_eq!(prepared.write(&mut out, 1, &vec![0i8; 40_000]), Err(EncodeError::TooMany));
        let oversized = vec![0u8; ferrite_base::limits::FRAME_BYTES_MAX];
        assert_eq!(prepared.write(&mut out, 1, &(oversized,)), Err(EncodeError::FrameTooLarge));
        assert_eq!(out, [7]);
    }
}
