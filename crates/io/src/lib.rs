//! The seam to the world: clock, random numbers, disk. The real ones live here; a simulated one can take their place.
//!
//! Owns no state. Promises that every error names the operation and the file. Does not know what is stored.
//! Everything is `dyn`: the calls behind it are one per batch, so an indirect call costs nothing that could be measured.

mod clock;
mod disk;
mod machine;
mod metered_disk;
mod patient_disk;
mod priority;
mod random;
mod real_disk;
pub mod simulated;
mod volatile_disk;

pub use clock::{Clock, SystemClock, coarse_monotonic};
pub use disk::{
    Disk, DiskError, DiskFile, DiskLock, DiskResult, LockError, OpenMode, SECTOR_BYTES, SectorBuffer, Space,
};
pub use machine::{Descriptors, descriptors, memory_bytes, raise_descriptors};
pub use metered_disk::MeteredDisk;
pub use patient_disk::PatientDisk;
pub use priority::{Yielding, lower_priority};
pub use random::{Random, SystemRandom};
pub use real_disk::RealDisk;
pub use volatile_disk::VolatileDisk;
