//! A server that follows a script: each connection is handed to a function that reads and writes
//! frames as it likes.

#![allow(dead_code, reason = "each test file uses its part")]

pub mod cluster;

use ferrite_wire::{Invocation, LoginAccepted, LoginRequest, frame};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// One connection as the script sees it.
pub struct Peer {
    pub stream: TcpStream,
    input: Vec<u8>,
}

/// What the script has to know of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    pub procedure: String,
    pub handle: i64,
    /// The whole frame.
    pub frame: Vec<u8>,
}

impl Peer {
    pub fn of(stream: TcpStream) -> Peer {
        Peer { stream, input: Vec::new() }
    }

    /// Waits for the login without taking it.
    pub fn login_comes(&mut self) -> bool {
        self.stream.peek(&mut [0]).is_ok_and(|bytes| bytes > 0)
    }

    /// The next frame, length included. None when the client has closed the connection.
    pub fn frame(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some((size, _)) = frame::split(&self.input).expect("clients send whole frames") {
                return Some(self.input.drain(..size).collect());
            }
            let mut chunk = [0; 65_536];
            match self.stream.read(&mut chunk) {
                Ok(0) | Err(_) => return None,
                Ok(bytes) => self.input.extend_from_slice(&chunk[..bytes]),
            }
        }
    }

    pub fn call(&mut self) -> Option<Call> {
        let frame = self.frame()?;
        let invocation = Invocation::parse(&frame[4..]).expect("clients send whole calls");
        Some(Call { procedure: invocation.procedure.to_string(), handle: invocation.handle, frame })
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Reads the login and accepts it.
    pub fn accept_login(&mut self) {
        self.accept_login_as(0, 2);
    }

    /// Reads the login and accepts it as this host of the cluster that was founded then.
    pub fn accept_login_as(&mut self, host_id: i32, cluster_start_ms: i64) {
        let login = self.frame().expect("a client logs in first");
        LoginRequest::parse(&login[4..]).expect("the login is well-formed");
        let mut out = Vec::new();
        LoginAccepted { host_id, connection_id: 1, cluster_start_ms, leader_address: [127, 0, 0, 1], build: "x" }
            .write(&mut out);
        self.send(&out).expect("the client listens");
    }

    pub fn answer(&mut self, handle: i64, value: i64) {
        let mut out = Vec::new();
        ferrite_wire::response::write_scalar(&mut out, handle, value);
        // The client may be gone already; the test says whether it should.
        let _ = self.send(&out);
    }
}

/// Listens; runs `script` for each connection in a thread, with the connection's number. Returns
/// the address.
pub fn serve(script: impl Fn(Peer, usize) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let script = std::sync::Arc::new(script);
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (stream, script) = (stream.unwrap(), std::sync::Arc::clone(&script));
            stream.set_nodelay(true).unwrap();
            thread::spawn(move || script(Peer::of(stream), number));
        }
    });
    address
}

/// A gate that a script waits at until the test opens it.
pub struct Latch {
    open: Sender<()>,
    wait: std::sync::Mutex<Receiver<()>>,
}

impl Latch {
    pub fn new() -> Latch {
        let (open, wait) = channel();
        Latch { open, wait: wait.into() }
    }

    /// Lets one wait through, now or later.
    pub fn open(&self) {
        self.open.send(()).unwrap();
    }

    pub fn wait(&self) {
        self.wait.lock().unwrap().recv().unwrap();
    }
}

pub fn bytes_of_hex(hex: &str) -> Vec<u8> {
    let hex: String = hex.split_whitespace().collect();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}
