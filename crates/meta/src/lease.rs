//! How long a node may lead without asking, and when nobody may think so any more
//! (docs/replication.md, section 8).

/// A lease, counted from the question that it answers.
pub const LEASE_NANOS: u64 = 2_000_000_000;
/// Two clocks differ in speed by at most one part in so many.
const RHO: u64 = 100;
const MARGIN_NANOS: u64 = 100_000_000;

/// After this on another's clock, counted from the answer, a lease has surely ended.
pub const LEASE_ENDED_NANOS: u64 = LEASE_NANOS + 2 * LEASE_NANOS / RHO + MARGIN_NANOS;
