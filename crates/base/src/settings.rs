//! What an operator may set: the limits of `limits.rs` that are not fixed, as they are in force for one server.
//!
//! Owns names, ranges and defaults. Does not know command lines; who parses one calls [`Settings::set`].

/// A number of bytes: digits, perhaps with K, M, G or T for powers of 1024.
pub fn bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.char_indices().last()? {
        (at, 'K' | 'k') => (&text[..at], 10),
        (at, 'M' | 'm') => (&text[..at], 20),
        (at, 'G' | 'g') => (&text[..at], 30),
        (at, 'T' | 't') => (&text[..at], 40),
        _ => (text, 0),
    };
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Limits in force. [`Settings::default`] has none on memory and disk, which depend on the machine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// Bytes that the process may take; None: as much as it gets.
    pub memory_bytes: Option<usize>,
    /// Free bytes of the disk from which on writes are refused.
    pub disk_reserve_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_digits_and_a_power() {
        let read = ["0", "17", "500K", "16g", "2T"].map(bytes);
        assert_eq!(read, [Some(0), Some(17), Some(512_000), Some(16 << 30), Some(2 << 40)]);
        for text in ["", "K", "-1", "+1", "1.5G", "16GB", "x", "99999999999999999999", "20000000T", "1µ"] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }
}
