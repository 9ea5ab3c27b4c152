//! How long a connection waits before it sends again what was not acknowledged: an option of the
//! system that the libraries below do not know yet.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// `TCP_RTO_MAX_MS` of Linux 6.15 and later.
const TCP_RTO_MAX_MS: libc::c_int = 44;

/// The pauses between two attempts grow to that and no further; without it they double, up to two
/// minutes. `milliseconds`: 1,000 to 120,000. False: the system does not know the option.
pub fn limit_retransmission_pause(stream: &impl AsFd, milliseconds: u16) -> io::Result<bool> {
    let value = libc::c_int::from(milliseconds);
    // SAFETY: the system reads one number, which is there until the call returns.
    let outcome = unsafe {
        libc::setsockopt(
            stream.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            TCP_RTO_MAX_MS,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    match outcome {
        0 => Ok(true),
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(false),
            error => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn the_system_takes_the_option_or_does_not_know_it() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let known = limit_retransmission_pause(&listener, 1_000).expect("the system's least");
        let refused = limit_retransmission_pause(&listener, 1).map_err(|error| error.raw_os_error());
        assert_eq!(refused, if known { Err(Some(libc::EINVAL)) } else { Ok(false) });
    }
}
