//! Ports, and how many connections the process has file descriptors for.
//!
//! What is set on a listening socket holds for every connection that it accepts, which spares
//! system calls for each.

use crate::options::ServerError;
use ferrite_base::limits;
use ferrite_member::bind;
use ferrite_notice::Notice;
use mio::net::TcpListener;
use rustix::net::sockopt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Of each network thread: what it waits with, and what wakes it.
const DESCRIPTORS_PER_THREAD: usize = 2;

/// A port, and its address, which may have been chosen by the system. A port that another process
/// has is waited for, until `ends` is set.
pub fn listen_on(address: SocketAddr, ends: &AtomicBool) -> Result<(TcpListener, SocketAddr), ServerError> {
    let failed = |error| ServerError::Listen(address, error);
    let listener = bind(address, ends).map_err(failed)?;
    keep_alive(&listener).map_err(failed)?;
    // The system's own choice grows to megabytes, which are not counted, for each connection that
    // does not read.
    sockopt::set_socket_send_buffer_size(&listener, limits::SOCKET_SEND_BYTES).map_err(|error| failed(error.into()))?;
    // Many may come at once, after a restart: as many as the system lets wait (net.core.somaxconn).
    rustix::net::listen(&listener, i32::MAX).map_err(|error| failed(error.into()))?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// A peer that is gone without a word holds its connection, its memory and a file descriptor for
/// two minutes, not for ever.
fn keep_alive(listener: &TcpListener) -> io::Result<()> {
    sockopt::set_socket_keepalive(listener, true)?;
    sockopt::set_tcp_keepidle(listener, Duration::from_secs(limits::KEEPALIVE_IDLE_SECONDS))?;
    sockopt::set_tcp_keepintvl(listener, Duration::from_secs(limits::KEEPALIVE_INTERVAL_SECONDS))?;
    sockopt::set_tcp_keepcnt(listener, limits::KEEPALIVE_PROBES_MAX)?;
    Ok(())
}

/// The wanted number of connections, or fewer where the process may not open that many files. What
/// the log, snapshots, backups, Java and administrators need is kept, and `peers`: what connections
/// of other nodes may take.
pub fn connections_max(wanted: usize, network_threads: usize, peers: usize) -> usize {
    let Some(descriptors) = ferrite_io::descriptors() else { return wanted };
    let room = connections_within(descriptors.most, descriptors.open, network_threads, peers);
    if room < wanted {
        ferrite_io::notify(Notice::ConnectionsLimited { most: room, files: descriptors.most });
    }
    wanted.min(room)
}

fn connections_within(most: usize, open: usize, network_threads: usize, peers: usize) -> usize {
    let kept = limits::DESCRIPTORS_RESERVED + limits::ADMIN_CONNECTIONS_RESERVED + peers;
    let room = most.saturating_sub(open + network_threads * DESCRIPTORS_PER_THREAD);
    // Where there is little, half is kept; the server then does little else at a time.
    room.saturating_sub(kept.min(room / 2)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_some_descriptors() {
        let kept = limits::DESCRIPTORS_RESERVED + limits::ADMIN_CONNECTIONS_RESERVED;
        assert_eq!(connections_within(1_024, 20, 2, 0), 1_000 - kept);
        assert_eq!(connections_within(1_024, 20, 2, 100), 900 - kept);
        assert_eq!(connections_within(128, 20, 2, 100), 52, "no more than half");
        assert_eq!(connections_within(20 + 4 + 2 * kept, 20, 2, 0), kept);
        assert_eq!(connections_within(20 + 4 + 50, 20, 2, 0), 25, "where there is little, half");
        assert_eq!(connections_within(20, 30, 2, 0), 1);
        assert_eq!(connections_within(usize::MAX, 30, 2, 0), usize::MAX - 34 - kept);
        let now = ferrite_io::descriptors().expect("the system says");
        assert!(now.open >= 3 && now.most > now.open, "{now:?}");
    }

    #[test]
    fn as_many_connections_may_wait_as_the_system_lets() {
        let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").expect("the system says");
        let most: usize = most.trim().parse().expect("a number");
        let (_listener, address) =
            listen_on("127.0.0.1:0".parse().expect("an address"), &AtomicBool::new(false)).expect("a free port");
        // More than any library's usual number, unless the system wants it so.
        let waiting: Vec<_> = (0..most.min(300))
            .map(|_| std::net::TcpStream::connect_timeout(&address, Duration::from_millis(900)))
            .collect::<Result<_, _>>()
            .expect("there is room for all");
        assert_eq!(waiting.len(), most.min(300));
    }

    #[test]
    fn accepted_connections_are_kept_alive() {
        let (listener, address) =
            listen_on("127.0.0.1:0".parse().expect("an address"), &AtomicBool::new(false)).expect("a free port");
        let _peer = std::net::TcpStream::connect(address).expect("it listens");
        let accepted = loop {
            match listener.accept() {
                Ok((accepted, _)) => break accepted,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        };
        // The system takes as much again for itself.
        let buffer = sockopt::socket_send_buffer_size(&accepted).expect("an option of the socket");
        assert!((limits::SOCKET_SEND_BYTES..=2 * limits::SOCKET_SEND_BYTES).contains(&buffer), "{buffer}");
        assert!(sockopt::socket_keepalive(&accepted).expect("an option of the socket"));
        let idle = sockopt::tcp_keepidle(&accepted).expect("an option of the socket");
        let between = sockopt::tcp_keepintvl(&accepted).expect("an option of the socket");
        let probes = sockopt::tcp_keepcnt(&accepted).expect("an option of the socket");
        assert_eq!(
            (idle.as_secs(), between.as_secs()),
            (limits::KEEPALIVE_IDLE_SECONDS, limits::KEEPALIVE_INTERVAL_SECONDS)
        );
        assert_eq!(probes, limits::KEEPALIVE_PROBES_MAX);
    }
}
