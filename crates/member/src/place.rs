//! Which of the cluster's nodes this one is, and where it listens: by the machine's own addresses,
//! or by its operator's options.

use ferrite_base::limits::LISTEN_WAIT;
use ferrite_meta::{Kind, State};
use ferrite_notice::Notice;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Where nodes hear each other by default: the original server's port for that.
pub const PORT: u16 = 3_021;

/// How often a port is tried that another process has.
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// Listens there. A process that was killed keeps its ports until the system has freed its memory,
/// so a port that is taken is tried again for [`LISTEN_WAIT`], or until `ends` is set.
pub fn bind(address: SocketAddr, ends: &AtomicBool) -> io::Result<mio::net::TcpListener> {
    let begun = Instant::now();
    let mut said = false;
    loop {
        match mio::net::TcpListener::bind(address) {
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse
                    && begun.elapsed() < LISTEN_WAIT
                    && !ends.load(Ordering::Relaxed) =>
            {
                if !std::mem::replace(&mut said, true) {
                    ferrite_io::notify(Notice::PortTaken { address });
                }
                thread::sleep(TRY_AGAIN);
            }
            outcome => return outcome,
        }
    }
}

/// The list of `--cluster`, each with its port.
///
/// # Errors
/// A text for the operator.
pub fn hosts(list: &[String]) -> Result<Vec<String>, String> {
    let mut hosts: Vec<String> = Vec::new();
    for text in list {
        let host = with_port(text.trim())?;
        if hosts.contains(&host) {
            return Err(format!("--cluster names {host} twice: give each node once"));
        }
        hosts.push(host);
    }
    Ok(hosts)
}

fn with_port(text: &str) -> Result<String, String> {
    let wrong = || {
        format!(
            "--cluster: '{text}' is not a node: say names or addresses, each with its port if that is not {PORT}, such as db1,db2,db3"
        )
    };
    // An address of version 6 has colons of its own.
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, PORT).to_string());
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
        None => (text, PORT),
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
    if host.is_empty() || port == 0 || text.len() > ferrite_meta::TEXT_BYTES_MAX || !host.bytes().all(is_name) {
        return Err(wrong());
    }
    Ok(format!("{host}:{port}"))
}

/// Where a node of the list is, as far as it can be looked up.
pub fn addresses(host: &str) -> Vec<SocketAddr> {
    let mut found: Vec<SocketAddr> = host.to_socket_addrs().map(Iterator::collect).unwrap_or_default();
    // What clients try first.
    found.sort_by_key(|address| !address.is_ipv4());
    found.dedup();
    found
}

/// This node's place in the list, from 1, and where it listens. `said`: `--cluster-listen`;
/// `named`: `--cluster-as`.
///
/// # Errors
/// A text for the operator.
pub fn find(hosts: &[String], said: Option<SocketAddr>, named: Option<&str>) -> Result<(u32, SocketAddr), String> {
    if let Some(named) = named {
        let place =
            self::hosts(&[named.to_owned()])?.first().and_then(|named| hosts.iter().position(|host| host == named));
        let place =
            place.ok_or_else(|| format!("--cluster-as {named} is none of --cluster {}", hosts.join(",")))? as u32 + 1;
        return Ok((place, listen_at(hosts, place, said)?));
    }
    let found: Vec<Vec<SocketAddr>> = hosts.iter().map(|host| addresses(host)).collect();
    find_among(hosts, &found, said, is_own)
}

/// Where the node at that place listens, once it is known to be this one.
pub fn listen_at(hosts: &[String], place: u32, said: Option<SocketAddr>) -> Result<SocketAddr, String> {
    if let Some(said) = said {
        return Ok(said);
    }
    let host = &hosts[place as usize - 1];
    let own = addresses(host).into_iter().find(|address| is_own(address.ip()));
    let found: Vec<Vec<SocketAddr>> = hosts.iter().map(|host| addresses(host)).collect();
    let own = own.ok_or_else(|| not_here(hosts, place, &found, is_own))?;
    Ok(reachable(own, &found))
}

/// Why a directory's node cannot be on this machine. Mostly the directory is another machine's.
fn not_here(hosts: &[String], place: u32, found: &[Vec<SocketAddr>], is_own: impl Fn(IpAddr) -> bool) -> String {
    let host = &hosts[place as usize - 1];
    let here = hosts.iter().zip(found).find(|(_, all)| all.iter().any(|address| is_own(address.ip())));
    let here = here.map_or_else(String::new, |(other, _)| format!("; this machine is {other}"));
    format!(
        "this directory is that of node {host}, which is not an address of this machine{here}. Check --dir, and which volume is \
         mounted there; never start a copied directory. Only where addresses are translated on the way, say where the node listens \
         with --cluster-listen"
    )
}

fn find_among(
    hosts: &[String],
    found: &[Vec<SocketAddr>],
    said: Option<SocketAddr>,
    is_own: impl Fn(IpAddr) -> bool,
) -> Result<(u32, SocketAddr), String> {
    let is_here = |address: &SocketAddr| match said {
        Some(said) if said.ip().is_unspecified() => address.port() == said.port() && is_own(address.ip()),
        Some(said) => *address == said,
        None => is_own(address.ip()),
    };
    let here: Vec<(usize, SocketAddr)> = (0..)
        .zip(found)
        .filter_map(|(place, all)| Some((place, *all.iter().find(|address| is_here(address))?)))
        .collect();
    match (&here[..], said) {
        ([(place, address)], said) => Ok((*place as u32 + 1, said.unwrap_or_else(|| reachable(*address, found)))),
        ([], Some(said)) => Err(format!(
            "--cluster-listen {said} is none of --cluster {}: the list names every node where others reach it, this one too. Where \
             that is another address than this machine's own, say which node this is with --cluster-as",
            hosts.join(",")
        )),
        ([], None) => Err(format!(
            "none of --cluster {} is an address of this machine{}: name every node as the others reach it, this one too. Where \
             addresses are translated, say which of them this node is with --cluster-as, and where it listens with \
             --cluster-listen",
            hosts.join(","),
            unknown(hosts, found)
        )),
        (several, _) => {
            let names: Vec<&str> = several.iter().map(|(place, _)| hosts[*place].as_str()).collect();
            Err(format!(
                "{} of --cluster are all this machine: say which of them this node is with --cluster-listen",
                names.join(" and ")
            ))
        }
    }
}

/// The nodes without a known address, for the operator.
fn unknown(hosts: &[String], found: &[Vec<SocketAddr>]) -> String {
    let unknown: Vec<&str> =
        hosts.iter().zip(found).filter(|(_, found)| found.is_empty()).map(|(host, _)| host.as_str()).collect();
    if unknown.is_empty() { String::new() } else { format!(" (no address is known of {})", unknown.join(" and ")) }
}

/// Many machines know themselves by a loopback address, at which no other reaches them.
fn reachable(own: SocketAddr, found: &[Vec<SocketAddr>]) -> SocketAddr {
    let all_loopback = found.iter().flatten().all(|address| address.ip().is_loopback());
    if !own.ip().is_loopback() || all_loopback {
        return own;
    }
    let anywhere: IpAddr = if own.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    SocketAddr::new(anywhere, own.port())
}

/// The warnings to an operator where clients or other nodes do not reach this one: at `host`, by
/// which the cluster knows it. It listens `at`, and for clients at those addresses.
pub fn unreached(host: &str, at: SocketAddr, clients: &[SocketAddr]) -> impl Iterator<Item = Notice> {
    only_local_clients(host, clients).into_iter().chain(not_reached(host, at))
}

/// The warning to an operator where other nodes reach this one and clients of other machines do
/// not: a start by the directory alone forgets --listen.
fn only_local_clients(host: &str, clients: &[SocketAddr]) -> Option<Notice> {
    let all = addresses(host);
    let is_for_others = all.iter().any(|address| !address.ip().is_loopback());
    let clients = clients.first().filter(|clients| is_for_others && clients.ip().is_loopback())?;
    Some(Notice::OnlyLocalClients { address: *clients })
}

/// How long an attempt to reach this node at its own address may take.
const REACH_TIME_MAX: Duration = Duration::from_secs(1);

/// The warning to an operator where other nodes do not reach this one: it listens elsewhere than at
/// its address in the cluster, and nothing answers there.
fn not_reached(host: &str, at: SocketAddr) -> Option<Notice> {
    let all = addresses(host);
    let listens =
        |address: &SocketAddr| address.port() == at.port() && (at.ip().is_unspecified() || address.ip() == at.ip());
    // Where it is translated on the way, something answers.
    let is_reached = |address: &SocketAddr| TcpStream::connect_timeout(address, REACH_TIME_MAX).is_ok();
    if all.is_empty() || all.iter().any(listens) || all.iter().any(is_reached) {
        return None;
    }
    Some(Notice::ListensElsewhere { host: host.to_owned(), address: at })
}

/// Why a node with data at this address cannot join.
pub fn nothing_for(host: &str, state: &State) -> String {
    let with_data = state.latest().filter(|(_, node)| node.kind == Kind::Data);
    let hosts: Vec<&str> = with_data.filter_map(|(_, node)| node.host()).filter(|other| *other != host).collect();
    format!(
        "{host} is not the address of a node with data of this cluster, and each of its groups of partitions stays on the nodes \
         that it was given when the cluster was founded ({}): this node would keep nothing. To replace a node that is lost, \
         start this one with an empty directory at that node's address. At another address a node can be a witness (ferrite \
         witness)",
        hosts.join(", ")
    )
}

/// Whether it is one of this machine's: others cannot be listened on.
fn is_own(address: IpAddr) -> bool {
    !address.is_unspecified() && TcpListener::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(|text| (*text).to_owned()).collect()
    }

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_list_names_each_node_once_with_its_port() {
        let given = texts(&["db1", " db2:4000", "10.0.0.3", "::1", "[::2]:7"]);
        let expected = texts(&["db1:3021", "db2:4000", "10.0.0.3:3021", "[::1]:3021", "[::2]:7"]);
        assert_eq!(hosts(&given), Ok(expected));
        assert!(hosts(&texts(&["db1", "db1:3021"])).expect_err("twice").contains("names db1:3021 twice"));
        for wrong in ["", ":3", "db:", "db:x", "db:70000", "db:0", "a b", "a,b"] {
            assert!(hosts(&texts(&[wrong])).expect_err(wrong).contains("is not a node"), "{wrong}");
        }
    }

    #[test]
    fn the_place_is_where_this_machine_is() {
        let hosts = texts(&["a:1", "b:2", "c:3"]);
        let found = [vec![at("10.0.0.1:1")], vec![at("127.0.1.1:2"), at("10.0.0.2:2")], vec![]];
        let find = |said: Option<&str>, own: &[&str]| {
            let is_own = |ip: IpAddr| own.iter().any(|own| own.parse() == Ok(ip));
            find_among(&hosts, &found, said.map(at), is_own)
        };
        assert_eq!(find(None, &["10.0.0.1"]), Ok((1, at("10.0.0.1:1"))));
        assert_eq!(find(None, &["127.0.1.1", "10.0.0.2"]), Ok((2, at("0.0.0.0:2"))), "others do not reach 127.0.1.1");
        assert_eq!(find(Some("10.0.0.2:2"), &[]), Ok((2, at("10.0.0.2:2"))));
        assert_eq!(find(Some("0.0.0.0:1"), &["10.0.0.1"]), Ok((1, at("0.0.0.0:1"))));
        let refused = |said: Option<&str>, own: &[&str]| find(said, own).expect_err("no place");
        assert!(refused(Some("10.0.0.1:9"), &["10.0.0.1"]).contains("is none of --cluster a:1,b:2,c:3"));
        assert!(refused(None, &[]).contains("is an address of this machine (no address is known of c:3): name"));
        assert!(refused(None, &["10.0.0.1", "10.0.0.2"]).contains("a:1 and b:2 of --cluster are all this machine"));
    }

    #[test]
    fn a_directory_on_the_wrong_machine_is_named() {
        let (hosts, found) = (texts(&["a:1", "b:2"]), [vec![at("10.0.0.1:1")], vec![at("10.0.0.2:2")]]);
        let said = not_here(&hosts, 2, &found, |ip| ip == at("10.0.0.1:0").ip());
        assert!(
            said.contains("that of node b:2, which is not an address of this machine; this machine is a:1. Check"),
            "{said}"
        );
        let said = not_here(&hosts, 2, &found, |_| false);
        assert!(said.contains("this machine. Check --dir"), "{said}");
    }

    #[test]
    fn clients_that_reach_a_node_only_from_its_own_machine_are_told_of() {
        let told = |host: &str, clients: &str| only_local_clients(host, &[at(clients)]);
        let said = told("203.0.113.2:3021", "127.0.0.1:21212").expect("others do not reach it").to_string();
        assert!(said.contains("--listen 0.0.0.0:21212"), "{said}");
        assert_eq!(told("203.0.113.2:3021", "0.0.0.0:21212"), None);
        assert_eq!(told("203.0.113.2:3021", "203.0.113.2:21212"), None);
        assert_eq!(told("127.0.0.1:3021", "127.0.0.1:21212"), None, "all nodes are on one machine");
    }

    #[test]
    fn nodes_of_one_machine_listen_where_they_say() {
        let hosts = texts(&["127.0.0.1:5001", "127.0.0.1:5002"]);
        assert_eq!(super::find(&hosts, Some(at("127.0.0.1:5002")), None), Ok((2, at("127.0.0.1:5002"))));
        assert!(super::find(&hosts, None, None).is_err());
        assert_eq!(listen_at(&hosts, 1, None), Ok(at("127.0.0.1:5001")));
    }

    #[test]
    fn a_node_that_listens_elsewhere_than_where_others_look_is_reported() {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let there = free.local_addr().expect("a bound socket has an address");
        let elsewhere = at("127.0.0.1:1");
        assert_eq!(not_reached(&there.to_string(), there), None);
        assert_eq!(not_reached(&there.to_string(), SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), there.port())), None);
        assert_eq!(not_reached(&there.to_string(), elsewhere), None, "something passes connections on");
        drop(free);
        let expected = Notice::ListensElsewhere { host: there.to_string(), address: elsewhere };
        assert_eq!(
            not_reached(&there.to_string(), elsewhere).map(|notice| notice.to_string()),
            Some(expected.to_string())
        );
    }

    #[test]
    fn a_node_whose_address_is_translated_is_named() {
        let hosts = texts(&["203.0.113.1:3021", "203.0.113.2:3021"]);
        let named = |named, said| super::find(&hosts, said, Some(named));
        let said = Some(at("127.0.0.1:3021"));
        assert_eq!(named("203.0.113.2", said), Ok((2, at("127.0.0.1:3021"))));
        assert!(named("203.0.113.2", None).expect_err("where").contains("--cluster-listen"));
        assert!(named("203.0.113.9", said).expect_err("which").contains("is none of --cluster"));
        assert!(super::find(&hosts, said, None).expect_err("which").contains("--cluster-as"));
    }
}
