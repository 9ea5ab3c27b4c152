//! The tests of this crate that can share a process. One program, since each costs a link.

mod cluster_seeds;
mod kept;
mod planted_faults;
mod poisoned;
mod seeds;
