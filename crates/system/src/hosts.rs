//! The nodes of a cluster, as clients know them.

/// All nodes that keep data or may, and which of them leads. Of a server alone: itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hosts {
    /// In ascending order of their ids.
    pub hosts: Vec<Host>,
    /// The id of the host that leads the partitions. None: no host is known to lead.
    pub leader: Option<i32>,
    /// Of the leadership: one that is known of another never gives way to an earlier one.
    pub epoch: u64,
    /// Copies of everything beside the first.
    pub kfactor: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    pub id: i32,
    /// It has a copy of the partitions that counts.
    pub keeps: bool,
    /// Where clients reach it, and administrators: names or addresses with ports.
    pub clients: Option<String>,
    pub administrators: Option<String>,
}

impl Hosts {
    /// Whether the host has a copy that counts.
    pub fn keeps(&self, id: i32) -> bool {
        self.hosts.iter().any(|host| host.id == id && host.keeps)
    }

    /// Of a server without others.
    pub fn alone(id: i32) -> Hosts {
        let host = Host { id, keeps: true, clients: None, administrators: None };
        Hosts { hosts: vec![host], leader: Some(id), epoch: 0, kfactor: 0 }
    }

    /// Whether these come after others that are known.
    pub fn replaces(&self, known: &Hosts) -> bool {
        self.epoch >= known.epoch && self != known
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
        let known = Hosts { epoch: 5, ..Hosts::alone(1) };
        assert!(!known.replaces(&known), "nothing has changed");
        assert!(Hosts { leader: None, ..known.clone() }.replaces(&known), "in the same epoch something else may");
        assert!(Hosts { epoch: 6, leader: Some(2), ..known.clone() }.replaces(&known));
        assert!(!Hosts { epoch: 4, leader: Some(2), ..known.clone() }.replaces(&known));
    }

    #[test]
    fn addresses_have_a_host_and_a_port() {
        assert_eq!(split("db1:21212"), Some(("db1", "21212")));
        assert_eq!(split("[::1]:21212"), Some(("::1", "21212")));
        assert_eq!(split("db1"), None);
    }
}
