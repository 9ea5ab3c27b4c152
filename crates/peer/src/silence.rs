//! Connections whose other end is gone without notice.
//!
//! A machine that lost its power, or is cut off, closes nothing. A connection on which nothing is
//! sent would stay open for ever, and what is sent on one would be tried again for minutes.

use ferrite_base::limits;
use ferrite_io::limit_retransmission_pause;
use rustix::net::sockopt;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// The system closes the connection when its other end has been silent for some seconds.
pub(crate) fn notice(stream: &impl AsFd) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(limits::PEER_KEEPALIVE_IDLE_SECONDS))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(limits::PEER_KEEPALIVE_INTERVAL_SECONDS))?;
    sockopt::set_tcp_keepcnt(stream, limits::PEER_KEEPALIVE_PROBES_MAX)?;
    // After a short cut, data on its way is soon sent again. Systems that do not know the limit
    // double the pauses between attempts, except for the first ones if little is on its way.
    limit_retransmission_pause(stream, limits::PEER_RETRANSMISSION_MILLISECONDS_MAX)?;
    sockopt::set_tcp_thin_linear_timeouts(stream, true)?;
    sockopt::set_tcp_user_timeout(stream, limits::PEER_UNACKNOWLEDGED_MILLISECONDS_MAX)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    #[test]
    fn silence_is_noticed_within_seconds() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let stream = TcpStream::connect(listener.local_addr().expect("it listens")).expect("it is reached");
        notice(&stream).expect("options of the system");
        assert!(sockopt::socket_keepalive(&stream).expect("an option of the socket"));
        assert!(sockopt::tcp_thin_linear_timeouts(&stream).expect("an option of the socket"));
        let idle = sockopt::tcp_keepidle(&stream).expect("an option of the socket").as_secs();
        let between = sockopt::tcp_keepintvl(&stream).expect("an option of the socket").as_secs();
        let probes = sockopt::tcp_keepcnt(&stream).expect("an option of the socket");
        assert_eq!((idle, between), (limits::PEER_KEEPALIVE_IDLE_SECONDS, limits::PEER_KEEPALIVE_INTERVAL_SECONDS));
        assert_eq!(probes, limits::PEER_KEEPALIVE_PROBES_MAX);
        let unacknowledged = sockopt::tcp_user_timeout(&stream).expect("an option of the socket");
        assert_eq!(unacknowledged, limits::PEER_UNACKNOWLEDGED_MILLISECONDS_MAX);
    }
}
