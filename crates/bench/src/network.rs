//! A network of its own for the nodes of a cluster: a network namespace for each, and one for this
//! thread with a bridge between them, on which packets can be lost.
//!
//! Nothing of it is named outside. The kernel removes it all when the last process in it has ended,
//! however that was. Needs root, `ip` and `tc` (iproute2), and `nft` (nftables).

use crate::error::{BenchError, BenchResult, Doing};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// The nodes' addresses begin so, and their clients' too.
const PREFIX: &str = "10.77.0.";
const CLIENTS: usize = 254;
/// What a slow link keeps before it loses packets.
const SLOW_LATENCY: &str = "400ms";

/// One end of a way that packets take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Nodes are counted from 0.
    Node(usize),
    /// Of all clients.
    Clients,
}

impl End {
    fn address(self) -> String {
        match self {
            End::Node(place) => format!("{PREFIX}{}", place + 1),
            End::Clients => format!("{PREFIX}{CLIENTS}"),
        }
    }
}

/// Packets from one to the other are lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loss {
    pub from: End,
    pub to: End,
    /// Of a hundred packets, at random. 100: all.
    pub percent: u32,
}

/// What is wrong with the network.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trouble {
    pub losses: Vec<Loss>,
    /// A node whose link is slow, both ways, and how many kilobits a second it takes.
    pub slow: Option<(usize, u32)>,
}

impl Trouble {
    /// Both directions between each of these and each of those.
    pub fn between(these: &[End], those: &[End]) -> Trouble {
        let loss = |from, to| Loss { from, to, percent: 100 };
        let ways = these.iter().flat_map(|one| those.iter().map(move |other| (*one, *other)));
        Trouble { losses: ways.flat_map(|(one, other)| [loss(one, other), loss(other, one)]).collect(), slow: None }
    }

    fn rules(&self) -> String {
        let rule = |loss: &Loss| {
            let some = match loss.percent {
                100 => String::new(),
                percent => format!(" numgen random mod 100 < {percent}"),
            };
            format!("ip saddr {} ip daddr {}{some} drop", loss.from.address(), loss.to.address())
        };
        let rules: Vec<String> = self.losses.iter().map(rule).collect();
        let rules = rules.join("; ");
        // One transaction: what was lost before and what is lost now change at one moment.
        let mut text = String::from("table bridge trouble {}\ndelete table bridge trouble\ntable bridge trouble {\n");
        for hook in ["forward", "input", "output"] {
            text.push_str(&format!("chain {hook} {{ type filter hook {hook} priority 0; {rules}\n}}\n"));
        }
        text.push_str("}\n");
        text
    }
}

/// See above.
#[derive(Debug)]
pub struct Network {
    namespaces: Vec<File>,
    /// Those whose links are slow now.
    slow: Mutex<Option<usize>>,
}

impl Network {
    /// Makes it. From then on the calling thread is in it, and so are threads and processes that it
    /// starts: they reach all nodes, as the nodes' clients.
    pub fn new(nodes: usize) -> BenchResult<Network> {
        assert!(nodes < CLIENTS, "each node has an address");
        for (program, package) in [("ip", "iproute2"), ("tc", "iproute2"), ("nft", "nftables")] {
            if !is_there(program) {
                return Err(BenchError::Load(format!(
                    "splitting the network needs the program {program}; on Debian: apt-get install {package}"
                )));
            }
        }
        own_namespace().map_err(|error| {
            BenchError::Load(format!("splitting the network needs network namespaces, so root ({error})"))
        })?;
        let namespaces = (0..nodes).map(|_| another_namespace()).collect::<BenchResult<Vec<File>>>()?;
        let network = Network { namespaces, slow: Mutex::new(None) };
        ip("link set lo up", None)?;
        ip("link add bridge type bridge", None)?;
        ip(&format!("addr add {}/24 dev bridge", End::Clients.address()), None)?;
        ip("link set bridge up", None)?;
        for (place, namespace) in network.namespaces.iter().enumerate() {
            // Each of iproute2's processes has its own /proc/self.
            let of_node = format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd());
            let port = port(place);
            ip(&format!("link add {port} type veth peer name eth0 netns {of_node}"), None)?;
            ip(&format!("link set {port} master bridge"), None)?;
            ip(&format!("link set {port} up"), None)?;
            ip("link set lo up", Some(namespace))?;
            ip(&format!("addr add {}/24 dev eth0", End::Node(place).address()), Some(namespace))?;
            ip("link set eth0 up", Some(namespace))?;
        }
        network.heal()?;
        Ok(network)
    }

    /// Where a node is, as an address without a port.
    pub fn address(&self, place: usize) -> String {
        End::Node(place).address()
    }

    /// For processes of a node.
    pub fn namespace(&self, place: usize) -> &File {
        &self.namespaces[place]
    }

    /// From now on exactly this is wrong.
    pub fn trouble(&self, trouble: &Trouble) -> BenchResult<()> {
        let doing = || format!("changing which packets are lost ({})", trouble.rules());
        let mut child = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.as_mut().map_err(|error| io::Error::new(error.kind(), error.to_string())).doing("nft")?;
        child.stdin.take().expect("its input was asked for").write_all(trouble.rules().as_bytes()).doing(doing())?;
        let mut said = String::new();
        let mut stderr = child.stderr.take().expect("its errors were asked for");
        io::Read::read_to_string(&mut stderr, &mut said).doing(doing())?;
        if !child.wait().doing(doing())?.success() {
            return Err(BenchError::Load(format!("{}: nft says: {}", doing(), said.trim())));
        }
        let mut slow = self.slow.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = slow.take() {
            for (device, namespace) in self.link(place) {
                tc(&format!("qdisc del dev {device} root"), namespace)?;
            }
        }
        if let Some((place, rate)) = trouble.slow {
            *slow = Some(place);
            for (device, namespace) in self.link(place) {
                let how = format!("tbf rate {rate}kbit burst 16kb latency {SLOW_LATENCY}");
                tc(&format!("qdisc replace dev {device} root {how}"), namespace)?;
            }
        }
        Ok(())
    }

    /// Nothing is wrong any more.
    pub fn heal(&self) -> BenchResult<()> {
        self.trouble(&Trouble::default())
    }

    /// Both ends of a node's link, each of which sends.
    fn link(&self, place: usize) -> [(String, Option<&File>); 2] {
        [(port(place), None), ("eth0".to_string(), Some(&self.namespaces[place]))]
    }
}

fn port(place: usize) -> String {
    format!("node-{}", place + 1)
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// The calling thread gets a network namespace of its own.
fn own_namespace() -> io::Result<()> {
    // SAFETY: nothing but the network namespace is no longer shared; the table of open files stays
    // the process's.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
    Ok(())
}

/// A network namespace that lives for as long as this is open, or a process is in it.
fn another_namespace() -> BenchResult<File> {
    let make = || {
        own_namespace()?;
        File::open("/proc/thread-self/ns/net")
    };
    let thread = thread::Builder::new().name("namespace".to_string()).spawn(make).doing("starting a thread")?;
    thread.join().expect("it only makes system calls").doing("making a network namespace")
}

/// The process is to begin in that network namespace.
pub(crate) fn begin_in(command: &mut Command, namespace: &File) -> io::Result<()> {
    let namespace = namespace.try_clone()?;
    let enter = move || Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?);
    // SAFETY: between fork and exec only a system call is made, which neither allocates nor takes a
    // lock.
    unsafe { command.pre_exec(enter) };
    Ok(())
}

fn ip(what: &str, namespace: Option<&File>) -> BenchResult<()> {
    run("ip", what, namespace)
}

fn tc(what: &str, namespace: Option<&File>) -> BenchResult<()> {
    run("tc", what, namespace)
}

fn run(program: &str, what: &str, namespace: Option<&File>) -> BenchResult<()> {
    let doing = || format!("{program} {what}");
    let mut command = Command::new(program);
    command.args(what.split(' '));
    if let Some(namespace) = namespace {
        begin_in(&mut command, namespace).doing(doing())?;
    }
    let output = command.output().doing(doing())?;
    if output.status.success() {
        Ok(())
    } else {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
        Err(BenchError::Load(format!("{}: {said}", doing())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    #[test]
    fn rules_name_both_ends_and_come_in_one_piece() {
        let mut trouble = Trouble::between(&[End::Node(0)], &[End::Node(2), End::Clients]);
        assert_eq!(trouble.losses.len(), 4);
        trouble.losses.push(Loss { from: End::Node(1), to: End::Node(0), percent: 30 });
        let rules = trouble.rules();
        for rule in [
            "ip saddr 10.77.0.1 ip daddr 10.77.0.3 drop",
            "ip saddr 10.77.0.3 ip daddr 10.77.0.1 drop",
            "ip saddr 10.77.0.254 ip daddr 10.77.0.1 drop",
            "ip saddr 10.77.0.2 ip daddr 10.77.0.1 numgen random mod 100 < 30 drop",
        ] {
            assert_eq!(rules.matches(rule).count(), 3, "{rule}: {rules}");
        }
        assert_eq!(rules.matches("delete table").count(), 1);
    }

    /// Whether a connection from a thread in this namespace to a listener there comes about.
    fn reaches(network: &Network, to: usize, listener: &TcpListener) -> bool {
        let port = listener.local_addr().expect("it has an address").port();
        let address = format!("{}:{port}", network.address(to)).parse().expect("an address");
        TcpStream::connect_timeout(&address, Duration::from_millis(500)).is_ok()
    }

    fn within<T: Send>(namespace: &File, run: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let enter = || {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).expect("it is there");
                run()
            };
            scope.spawn(enter).join().expect("no panic")
        })
    }

    #[test]
    fn packets_are_lost_one_way_or_both_until_it_is_healed() {
        let made = thread::spawn(|| {
            let network = match Network::new(3) {
                Ok(network) => network,
                Err(error) => return ferrite_io::outln!("skipped: {error}"),
            };
            let listen = |place| within(network.namespace(place), || TcpListener::bind("0.0.0.0:0").expect("a port"));
            let listeners: Vec<TcpListener> = (0..3).map(listen).collect();
            let from_to = |from, to: usize| {
                let reach = || reaches(&network, to, &listeners[to]);
                match from {
                    End::Node(place) => within(network.namespace(place), reach),
                    End::Clients => reach(),
                }
            };
            let all = || {
                let pairs = [(0, 1), (1, 0), (1, 2), (0, 2)];
                let of_clients = (0..3).map(|to| from_to(End::Clients, to));
                pairs
                    .map(|(from, to)| from_to(End::Node(from), to))
                    .into_iter()
                    .chain(of_clients)
                    .collect::<Vec<bool>>()
            };
            assert_eq!(all(), [true; 7]);
            network.trouble(&Trouble::between(&[End::Node(0)], &[End::Node(1), End::Node(2)])).expect("it is allowed");
            assert_eq!(all(), [false, false, true, false, true, true, true]);
            // Without answers there is no connection, whichever way packets are lost.
            let loss = Loss { from: End::Node(2), to: End::Clients, percent: 100 };
            network.trouble(&Trouble { losses: vec![loss], slow: Some((1, 8_000)) }).expect("it is allowed");
            assert_eq!(all(), [true, true, true, true, true, true, false]);
            network.heal().expect("it is allowed");
            assert_eq!(all(), [true; 7]);
        });
        made.join().expect("no panic");
    }
}
