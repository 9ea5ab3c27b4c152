//! How long a node may lead without asking, and when no node may think so any more
//! (docs/replication.md, section 8).

/// A lease, counted from the question that it answers.
pub const LEASE_NANOS: u64 = 2_000_000_000;
/// Two clocks differ in speed by at most one part in this many.
const RHO: u64 = 100;
const MARGIN_NANOS: u64 = 100_000_000;

/// After this on another's clock, counted from the answer, a lease has certainly ended.
pub const LEASE_ENDED_NANOS: u64 = LEASE_NANOS + 2 * LEASE_NANOS / RHO + MARGIN_NANOS;

/// A leader whose lease ended this long ago commits nothing where others could do without its
/// group's members, and gives up its lead.
pub const CUT_OFF_NANOS: u64 = 3_000_000_000;
const LEAD_NANOS: u64 = LEASE_NANOS + CUT_OFF_NANOS;
/// After this on another's clock, counted from the seal of its group, a leader of which nothing is
/// known commits nothing any more: no lease was granted to it since.
pub const LEAD_ENDED_NANOS: u64 = LEAD_NANOS + 2 * LEAD_NANOS / RHO + MARGIN_NANOS;
