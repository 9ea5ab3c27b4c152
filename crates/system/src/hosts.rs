//! The nodes of a cluster, as clients know them.

/// All nodes that keep data or may, and which of them lead. Of a server alone: itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hosts {
    /// In ascending order of their ids.
    pub hosts: Vec<Host>,
    /// The groups of partitions, in ascending order of their numbers. The first one also has what
    /// belongs to no partition.
    pub groups: Vec<GroupHosts>,
    /// By partition: the place of its group in `groups`. Empty: there is one group.
    pub partitions: Vec<usize>,
    /// Copies of everything beside the first.
    pub kfactor: u32,
}

/// Where one group is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupHosts {
    /// The ids of the hosts that have a copy that counts, in ascending order.
    pub keep: Vec<i32>,
    /// The id of the host that leads it. None: no host is known to.
    pub leader: Option<i32>,
    /// Of the leadership: one that is known of another never gives way to an earlier one.
    pub epoch: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    pub id: i32,
    /// Where clients reach it, and administrators: names or addresses with ports.
    pub clients: Option<String>,
    pub administrators: Option<String>,
}

impl Hosts {
    /// Whether the host has a copy of any group that counts.
    pub fn keeps(&self, id: i32) -> bool {
        self.groups.iter().any(|group| group.keep.contains(&id))
    }

    /// Where a partition is.
    pub fn of_partition(&self, partition: usize) -> Option<&GroupHosts> {
        self.groups.get(self.partitions.get(partition).copied().unwrap_or(0))
    }

    /// Where transactions over several partitions are led.
    pub fn of_all(&self) -> Option<&GroupHosts> {
        self.groups.first()
    }

    /// Of a server without others.
    pub fn alone(id: i32) -> Hosts {
        let host = Host { id, clients: None, administrators: None };
        let group = GroupHosts { keep: vec![id], leader: Some(id), epoch: 0 };
        Hosts { hosts: vec![host], groups: vec![group], partitions: Vec::new(), kfactor: 0 }
    }

    /// Whether these come after others that are known: no group's leadership is an earlier one.
    pub fn replaces(&self, known: &Hosts) -> bool {
        let comes_after = |(one, other): (&GroupHosts, &GroupHosts)| one.epoch >= other.epoch;
        self.groups.iter().zip(&known.groups).all(comes_after) && self != known
    }
}

/// The parts of a name or address with a port; an IPv6 address loses its brackets.
pub fn split(address: &str) -> Option<(&str, &str)> {
    let (host, port) = address.rsplit_once(':')?;
    Some((host.trim_start_matches('[').trim_end_matches(']'), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_leadership_never_comes_back() {
        let of = |leaders: &[(Option<i32>, u64)]| {
            let group =
                |(leader, epoch): &(Option<i32>, u64)| GroupHosts { keep: vec![1, 2], leader: *leader, epoch: *epoch };
            Hosts { groups: leaders.iter().map(group).collect(), ..Hosts::alone(1) }
        };
        let known = of(&[(Some(1), 5), (Some(2), 9)]);
        assert!(!known.replaces(&known), "nothing has changed");
        assert!(of(&[(None, 5), (Some(2), 9)]).replaces(&known), "in the same epoch something else may");
        assert!(of(&[(Some(2), 6), (Some(2), 9)]).replaces(&known));
        assert!(of(&[(Some(1), 5), (Some(1), 10)]).replaces(&known), "of any group");
        assert!(!of(&[(Some(2), 4), (Some(2), 9)]).replaces(&known));
        assert!(!of(&[(Some(2), 6), (Some(1), 8)]).replaces(&known), "the second group's is an earlier one");
    }

    #[test]
    fn addresses_have_a_host_and_a_port() {
        assert_eq!(split("db1:21212"), Some(("db1", "21212")));
        assert_eq!(split("[::1]:21212"), Some(("::1", "21212")));
        assert_eq!(split("db1"), None);
    }
}
