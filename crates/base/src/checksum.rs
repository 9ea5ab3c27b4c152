//! The one checksum of the project: CRC-32C (Castagnoli), as the redo log's format names it.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// CRC-32C of `parts` as if they stood one after another.
pub fn crc32c_of(parts: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    digest.finalize() as u32
}

/// CRC-32C of `parts` as if they stood behind the bytes whose CRC-32C is `before`.
pub fn crc32c_behind(before: u32, parts: &[&[u8]]) -> u32 {
    // What has been added so far, as the algorithm keeps it: inverted.
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!before));
    for part in parts {
        digest.update(part);
    }
    digest.finalize() as u32
}

/// CRC-32C of bytes that come piece by piece.
pub struct Crc32c(Digest);

impl Default for Crc32c {
    fn default() -> Crc32c {
        Crc32c(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }
}

impl Crc32c {
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn end(self) -> u32 {
        self.0.finalize() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_published_check_value() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c_of(&[b"1234", b"", b"56789"]), 0xe306_9283);
        assert_eq!(crc32c_behind(0, &[b"1234", b"56789"]), 0xe306_9283);
        assert_eq!(crc32c_behind(crc32c(b"1234"), &[b"56", b"", b"789"]), 0xe306_9283);
        assert_eq!(crc32c_behind(crc32c(b"123456789"), &[]), 0xe306_9283);
        let mut pieces = Crc32c::default();
        [&b"1"[..], b"2345678", b"", b"9"].into_iter().for_each(|piece| pieces.add(piece));
        assert_eq!(pieces.end(), 0xe306_9283);
    }
}
