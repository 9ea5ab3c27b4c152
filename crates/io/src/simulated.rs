//! The world made up from a seed: a clock that goes when it is told to, random numbers that repeat,
//! a disk that loses, tears and fails.
//!
//! Two runs with the same seed that ask for the same things in the same order get the same answers.

mod clock;
mod content;
mod disk;
mod inode;
mod names;
mod random;

pub use clock::SimulatedClock;
pub use disk::{CrashPoint, Fault, FaultKind, HeldSyncs, PowerLost, Restart, SimulatedDisk};
pub use random::SimulatedRandom;
