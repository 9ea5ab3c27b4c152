//! One file's bytes in three states: what programs read, what the device was given, what survives a loss of power.

use crate::simulated::SimulatedRandom;

/// Writes are lost and kept in pieces of this size: what drives promise to write whole, most of the time.
const PIECE_BYTES: usize = 512;

enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

#[derive(Default)]
pub(super) struct Inode {
    /// Through the page cache.
    cache: Vec<u8>,
    /// Past the page cache.
    device: Vec<u8>,
    durable: Vec<u8>,
    /// What turns `durable` into `device`.
    pending: Vec<Change>,
}

/// How much of what is not durable a loss of power leaves.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tearing {
    Nothing,
    All,
    /// Each piece with this chance in a hundred, in any order.
    Pieces(u64),
}

impl Tearing {
    pub(super) fn choose(random: &mut SimulatedRandom) -> Tearing {
        match random.below(8) {
            0 | 1 => Tearing::Nothing,
            2 => Tearing::All,
            3 => Tearing::Pieces(95),
            4 => Tearing::Pieces(10),
            _ => Tearing::Pieces(50),
        }
    }
}

impl Inode {
    pub(super) fn len(&self) -> usize {
        self.cache.len()
    }

    pub(super) fn read(&self, buffer: &mut [u8], offset: u64, direct: bool) -> usize {
        let bytes = if direct { &self.device } else { &self.cache };
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        count
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        let offset = offset as usize;
        put(&mut self.cache, offset, bytes);
        put(&mut self.device, offset, bytes);
        self.pending.push(Change::Write { offset, bytes: bytes.to_vec() });
    }

    pub(super) fn set_len(&mut self, length: usize) {
        self.cache.resize(length, 0);
        self.device.resize(length, 0);
        self.pending.push(Change::Length(length));
    }

    pub(super) fn sync(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            match change {
                Change::Write { offset, bytes } => put(&mut self.durable, offset, &bytes),
                Change::Length(length) => self.durable.resize(length, 0),
            }
        }
    }

    /// An fsync that failed: some of what was pending has reached the device, the rest is forgotten, though programs still read it. A
    /// second fsync has nothing to do and succeeds.
    pub(super) fn lose_pending(&mut self, random: &mut SimulatedRandom) {
        self.tear(Tearing::choose(random), random);
        self.device = self.durable.clone();
        // The file's length is the system's to know, not the device's.
        if self.device.len() != self.cache.len() {
            self.device.resize(self.cache.len(), 0);
            self.pending.push(Change::Length(self.cache.len()));
        }
    }

    /// What the machine finds when it starts again.
    pub(super) fn lose_power(&mut self, tearing: Tearing, random: &mut SimulatedRandom) {
        self.tear(tearing, random);
        self.device = self.durable.clone();
        self.cache = self.durable.clone();
    }

    fn tear(&mut self, tearing: Tearing, random: &mut SimulatedRandom) {
        let pending = std::mem::take(&mut self.pending);
        let chance = match tearing {
            Tearing::Nothing => return,
            Tearing::All => 100,
            Tearing::Pieces(chance) => chance,
        };
        let mut pieces = Vec::new();
        for change in &pending {
            match change {
                // File systems write the length down in order.
                Change::Length(length) => {
                    if random.percent(chance) {
                        self.durable.resize(*length, 0);
                    }
                }
                Change::Write { offset, bytes } => {
                    for (number, piece) in bytes.chunks(PIECE_BYTES).enumerate() {
                        if random.percent(chance) {
                            pieces.push((offset + number * PIECE_BYTES, piece));
                        }
                    }
                }
            }
        }
        // Two writes to one place may arrive in the wrong order.
        if chance < 100 && random.percent(25) {
            for last in (1..pieces.len()).rev() {
                pieces.swap(last, random.below(last as u64 + 1) as usize);
            }
        }
        for (offset, piece) in pieces {
            // Once in a while even a sector is torn.
            let torn = chance < 100 && random.percent(5);
            let kept = if torn { random.below(piece.len() as u64 + 1) as usize } else { piece.len() };
            put(&mut self.durable, offset, &piece[..kept]);
        }
    }

    /// One bit changes on the device, unnoticed.
    pub(super) fn rot(&mut self, position: u64, bit: u8) {
        for bytes in [&mut self.cache, &mut self.device, &mut self.durable] {
            if let Some(byte) = bytes.get_mut(position as usize) {
                *byte ^= 1 << (bit % 8);
            }
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.cache
    }

    pub(super) fn replace(&mut self, bytes: Vec<u8>) {
        self.cache.clone_from(&bytes);
        self.device.clone_from(&bytes);
        self.durable = bytes;
        self.pending.clear();
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, part: &[u8]) {
    let end = offset + part.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(part);
}
