//! One file's bytes in three states: what programs read, what the device was given, what survives a
//! loss of power.

use crate::simulated::SimulatedRandom;
use crate::simulated::content::Content;

/// Writes are lost and kept in pieces of this size: what drives promise to write whole, most of the
/// time.
const PIECE_BYTES: usize = 512;

#[derive(Clone)]
enum Change {
    Write {
        offset: usize,
        bytes: Vec<u8>,
    },
    /// That many zeros: files are made of them.
    Zeros {
        offset: usize,
        count: usize,
    },
    Length(usize),
}

#[derive(Clone, Default)]
pub(super) struct Inode {
    /// Through the page cache.
    cache: Content,
    /// Past the page cache.
    device: Content,
    durable: Content,
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
        let content = if direct { &self.device } else { &self.cache };
        content.read(buffer, offset as usize)
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        let offset = offset as usize;
        self.cache.write(bytes, offset);
        self.device.write(bytes, offset);
        self.pending.push(if bytes.iter().all(|byte| *byte == 0) {
            Change::Zeros { offset, count: bytes.len() }
        } else {
            Change::Write { offset, bytes: bytes.to_vec() }
        });
    }

    pub(super) fn set_len(&mut self, length: usize) {
        self.cache.resize(length);
        self.device.resize(length);
        self.pending.push(Change::Length(length));
    }

    pub(super) fn sync(&mut self) {
        self.durable.clone_from(&self.device);
        self.pending.clear();
    }

    /// An fsync that failed: some of what was pending has reached the device, the rest is
    /// forgotten, though programs still read it. A second fsync has nothing to do and succeeds.
    pub(super) fn lose_pending(&mut self, random: &mut SimulatedRandom) {
        self.tear(Tearing::choose(random), random);
        self.device.clone_from(&self.durable);
        // The file's length is the system's to know, not the device's.
        if self.device.len() != self.cache.len() {
            self.device.resize(self.cache.len());
            self.pending.push(Change::Length(self.cache.len()));
        }
    }

    /// What the machine finds when it starts again.
    pub(super) fn lose_power(&mut self, tearing: Tearing, random: &mut SimulatedRandom) {
        self.tear(tearing, random);
        self.device.clone_from(&self.durable);
        self.cache.clone_from(&self.durable);
    }

    fn tear(&mut self, tearing: Tearing, random: &mut SimulatedRandom) {
        let pending = std::mem::take(&mut self.pending);
        let chance = match tearing {
            Tearing::Nothing => return,
            Tearing::All => 100,
            Tearing::Pieces(chance) => chance,
        };
        let mut pieces: Vec<(usize, &[u8])> = Vec::new();
        for change in &pending {
            match change {
                // File systems write the length down in order.
                Change::Length(length) => {
                    if random.percent(chance) {
                        self.durable.resize(*length);
                    }
                }
                Change::Write { offset, bytes } => {
                    for (number, piece) in bytes.chunks(PIECE_BYTES).enumerate() {
                        if random.percent(chance) {
                            pieces.push((offset + number * PIECE_BYTES, piece));
                        }
                    }
                }
                Change::Zeros { offset, count } => {
                    for start in (0..*count).step_by(PIECE_BYTES) {
                        if random.percent(chance) {
                            pieces.push((offset + start, &[0; PIECE_BYTES][..PIECE_BYTES.min(count - start)]));
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
            self.durable.write(&piece[..kept], offset);
        }
    }

    /// One bit changes on the device, unnoticed.
    pub(super) fn rot(&mut self, position: u64, bit: u8) {
        for content in [&mut self.cache, &mut self.device, &mut self.durable] {
            let mut byte = [0];
            if content.read(&mut byte, position as usize) == 1 {
                content.write(&[byte[0] ^ (1 << (bit % 8))], position as usize);
            }
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.cache.len()];
        self.cache.read(&mut bytes, 0);
        bytes
    }

    /// What the device was given until now; its pages are shared.
    pub(super) fn device(&self) -> Content {
        self.device.clone()
    }

    pub(super) fn replace(&mut self, content: Content) {
        self.cache.clone_from(&content);
        self.device.clone_from(&content);
        self.durable = content;
        self.pending.clear();
    }
}
