//! Addresses to listen on, as the command line has them: numbers, or a name that is looked up.

use std::net::{SocketAddr, ToSocketAddrs};

const EXAMPLES: &str = "such as 127.0.0.1:21212, localhost:21212, or 0.0.0.0:21212 for all addresses of the machine";

/// A server listens on one address. Of what a name stands for it is the IPv4 address where there is
/// one, which is what clients try first; which of several cannot be guessed.
pub fn listen(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if text.rsplit_once(':').is_none_or(|(host, port)| host.is_empty() || port.parse::<u16>().is_err()) {
        return Err(format!("say an address and a port, {EXAMPLES}"));
    }
    let found = text.to_socket_addrs().map_err(|error| format!("{error}; say an address and a port, {EXAMPLES}"))?;
    one(text, found.collect())
}

fn one(text: &str, mut found: Vec<SocketAddr>) -> Result<SocketAddr, String> {
    if found.iter().any(SocketAddr::is_ipv4) {
        found.retain(SocketAddr::is_ipv4);
    }
    found.sort();
    found.dedup();
    match found[..] {
        [address] => Ok(address),
        [] => Err(format!("{text} has no address; say one, {EXAMPLES}")),
        _ => {
            let all: Vec<String> = found.iter().map(SocketAddr::to_string).collect();
            Err(format!("{text} stands for several addresses; say one of {}, or 0.0.0.0 for all", all.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(all: &[&str]) -> Vec<SocketAddr> {
        all.iter().map(|text| text.parse().expect("an address")).collect()
    }

    #[test]
    fn names_are_looked_up() {
        assert_eq!(listen("127.0.0.1:21212"), Ok(addresses(&["127.0.0.1:21212"])[0]));
        assert_eq!(listen("[::1]:0"), Ok(addresses(&["[::1]:0"])[0]));
        let found = listen("localhost:21212").expect("every machine has it");
        assert!(found.ip().is_loopback() && found.port() == 21_212, "{found}");
        for wrong in ["localhost", "21212", ":21212", "localhost:", "127.0.0.1:65536", "", "::1"] {
            let error = listen(wrong).expect_err(wrong);
            assert!(error.contains("say an address and a port, such as 127.0.0.1:21212"), "{wrong}: {error}");
        }
    }

    #[test]
    fn of_several_addresses_none_is_guessed() {
        let both = addresses(&["[::1]:5", "127.0.0.1:5", "127.0.0.1:5"]);
        assert_eq!(one("localhost:5", both.clone()), Ok(both[1]));
        assert_eq!(one("six:5", vec![both[0]]), Ok(both[0]));
        let error = one("host:5", addresses(&["10.0.0.2:5", "10.0.0.1:5", "[::1]:5"])).expect_err("which one?");
        assert!(error.contains("say one of 10.0.0.1:5, 10.0.0.2:5, or 0.0.0.0"), "{error}");
        assert!(one("host:5", Vec::new()).is_err());
    }
}
