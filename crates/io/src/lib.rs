//! The seam to the world: clock, random numbers, disk, standard output and error. The real ones
//! live here; a simulated one can take the place of the first three.
//!
//! A node's threads begin and end here, too, since a panic of one ends the process.
//!
//! Owns no state but the lines that wait to be written to the latter, and the last notices.
//! Promises that every error names the operation and the file. Does not know what is stored.
//! Everything is `dyn`: the calls behind it are one per batch, so an indirect call costs nothing
//! that could be measured.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]
// A line to a stream that nobody reads would hold up the thread that says it; `ferrite_io::stdio`
// does not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod clock;
mod disk;
mod machine;
mod metered_disk;
pub mod notices;
mod notify;
mod panic;
mod patient_disk;
mod priority;
mod random;
mod real_disk;
mod retransmission;
pub mod simulated;
pub mod small_file;
pub mod stdio;
mod steady_clock;
pub mod threads;
mod volatile_disk;

pub use clock::{Clock, SystemClock, coarse_monotonic};
pub use disk::{
    Disk, DiskError, DiskFile, DiskLock, DiskResult, LockError, OpenMode, SECTOR_BYTES, SectorBuffer, Space,
};
pub use machine::{
    Descriptors, address_space_bytes, at_exit, descriptors, ignore_harmless_signals, memory_bytes, raise_descriptors,
};
pub use metered_disk::MeteredDisk;
pub use notices::LogFormat;
pub use notify::{announce, notify, pass_on};
pub use panic::AbortOnPanic;
pub use patient_disk::PatientDisk;
pub use priority::{ThreadNumber, Yielding, lower_priority};
pub use random::{Random, SystemRandom};
pub use real_disk::RealDisk;
pub use retransmission::limit_retransmission_pause;
pub use steady_clock::SteadyClock;
pub use volatile_disk::VolatileDisk;
