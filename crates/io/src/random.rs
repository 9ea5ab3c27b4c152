//! Random numbers, from the operating system.

use std::fs::File;
use std::io::Read;
use std::sync::OnceLock;

pub trait Random: Send {
    fn fill(&mut self, bytes: &mut [u8]);

    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

#[derive(Clone, Copy, Default, Debug)]
pub struct SystemRandom;

impl Random for SystemRandom {
    /// # Panics
    /// If the operating system has no random device: nothing that needs one could go on safely.
    fn fill(&mut self, bytes: &mut [u8]) {
        // It stays open: a process that has no descriptors left goes on.
        static DEVICE: OnceLock<File> = OnceLock::new();
        let reason = "the operating system's random device /dev/urandom can be read";
        let mut device = DEVICE.get_or_init(|| File::open("/dev/urandom").expect(reason));
        device.read_exact(bytes).expect(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ() {
        assert_ne!(SystemRandom.next_u64(), SystemRandom.next_u64());
    }
}
