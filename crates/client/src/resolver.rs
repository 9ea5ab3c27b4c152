//! Names of hosts, looked up away from the loop: a name server that is slow, or lost together with
//! a node, must not hold up the calls to the others.

use mio::Waker;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

type Lookup = fn(&str) -> io::Result<Vec<SocketAddr>>;

/// What became of a look-up.
#[derive(Debug)]
pub(crate) struct Found {
    pub link: usize,
    /// What was looked up: the link may have another address by now.
    pub address: String,
    pub addresses: io::Result<Vec<SocketAddr>>,
}

/// At most one look-up is under way for each link.
#[derive(Debug)]
pub(crate) struct Resolver {
    lookup: Lookup,
    waker: Arc<Waker>,
    sender: Sender<Found>,
    found: Receiver<Found>,
    /// Links whose look-ups are under way.
    looking: Vec<usize>,
}

impl Resolver {
    pub fn new(waker: Arc<Waker>) -> Resolver {
        Resolver::with(waker, |address| Ok(address.to_socket_addrs()?.collect()))
    }

    fn with(waker: Arc<Waker>, lookup: Lookup) -> Resolver {
        let (sender, found) = channel();
        Resolver { lookup, waker, sender, found, looking: Vec::new() }
    }

    /// Begins to look an address up for a link, unless that is under way. The waker is used when it
    /// has been found.
    pub fn look_up(&mut self, link: usize, address: &str) -> io::Result<()> {
        if self.looking.contains(&link) {
            return Ok(());
        }
        let sender = self.sender.clone();
        let waker = Arc::clone(&self.waker);
        let lookup = self.lookup;
        let address = address.to_string();
        thread::Builder::new().name("ferrite-resolver".to_string()).spawn(move || {
            let addresses = lookup(&address);
            // Both fail only when the driver is gone.
            let _ = sender.send(Found { link, address, addresses });
            let _ = waker.wake();
        })?;
        self.looking.push(link);
        Ok(())
    }

    /// The next link whose address was found, or was not.
    #[inline]
    pub fn next(&mut self) -> Option<Found> {
        if self.looking.is_empty() {
            return None;
        }
        let found = self.found.try_recv().ok()?;
        self.looking.retain(|link| *link != found.link);
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    static HELD: Mutex<()> = Mutex::new(());
    static SLOW: AtomicUsize = AtomicUsize::new(0);

    fn lookup(address: &str) -> io::Result<Vec<SocketAddr>> {
        if address.starts_with("slow") {
            SLOW.fetch_add(1, Ordering::SeqCst);
            drop(HELD.lock());
        }
        Ok(vec![([127, 0, 0, 1], 7).into()])
    }

    /// Waits for the waker, and takes what there is.
    fn next(poll: &mut mio::Poll, resolver: &mut Resolver) -> Found {
        let mut events = mio::Events::with_capacity(1);
        loop {
            if let Some(found) = resolver.next() {
                return found;
            }
            poll.poll(&mut events, None).unwrap();
        }
    }

    #[test]
    fn a_slow_name_server_holds_up_nobody_else() {
        let mut poll = mio::Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), mio::Token(0)).unwrap());
        let mut resolver = Resolver::with(waker, lookup);
        let held = HELD.lock().unwrap();
        resolver.look_up(0, "slow:1").unwrap();
        resolver.look_up(0, "slow:1").unwrap();
        resolver.look_up(1, "quick:1").unwrap();
        let found = next(&mut poll, &mut resolver);
        assert_eq!((found.link, found.address.as_str()), (1, "quick:1"));
        assert!(resolver.next().is_none());
        drop(held);
        let found = next(&mut poll, &mut resolver);
        assert_eq!((found.link, found.addresses.unwrap().len()), (0, 1));
        assert_eq!(SLOW.load(Ordering::SeqCst), 1, "one look-up for each link");
    }
}
