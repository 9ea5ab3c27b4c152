//! How many file descriptors the connections of other nodes may take.

use ferrite_base::limits;
use ferrite_peer::Lane;

/// Of what the process may open, one in this many may be a stranger's.
const DESCRIPTORS_PER_STRANGER: usize = 16;

/// Connections to the cluster port that have not identified themselves: fewer where the process may
/// open few files, so that they leave some to the log and to the vote.
pub fn peer_strangers_max() -> usize {
    ferrite_io::descriptors().map_or(limits::PEER_STRANGERS_MAX, |descriptors| strangers_within(descriptors.most))
}

fn strangers_within(most: usize) -> usize {
    (most / DESCRIPTORS_PER_STRANGER).clamp(4, limits::PEER_STRANGERS_MAX)
}

/// What connections of other nodes may take: strangers', and in both directions those of the
/// members of a large group.
pub fn peer_connections_max() -> usize {
    peer_strangers_max() + 2 * Lane::ALL.len() * limits::CLUSTER_MEMBERS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_leave_some_descriptors() {
        assert_eq!([64, 128, 1_024, usize::MAX].map(strangers_within), [4, 8, 64, limits::PEER_STRANGERS_MAX]);
    }
}
