//! A connection as bytes, for clients that do what the Rust client does not.

use ferrite_wire::{HashScheme, LoginRequest, ParameterSet, Response, Service, frame, invocation};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

pub struct Raw(pub TcpStream);

impl Raw {
    /// Connects and logs in.
    pub fn connect(address: SocketAddr) -> Raw {
        Raw::connect_numbered(address).0
    }

    /// With the number by which the server knows the connection.
    pub fn connect_numbered(address: SocketAddr) -> (Raw, i64) {
        let mut raw = Raw(TcpStream::connect(address).expect("the server takes connections"));
        let mut bytes = Vec::new();
        let request = LoginRequest {
            version: 1,
            scheme: HashScheme::Sha256,
            service: Service::Database,
            user: "",
            digest: &[0; 32],
        };
        request.write(&mut bytes);
        raw.send(&bytes);
        let answer = raw.frame().expect("a login is answered");
        assert_eq!(answer[1], 0, "the login is accepted");
        let number = i64::from_be_bytes(answer[6..14].try_into().expect("eight bytes"));
        (raw, number)
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("bytes can be sent");
    }

    pub fn call(&mut self, procedure: &str, handle: i64, parameters: &impl ParameterSet) {
        self.send(&call(procedure, handle, parameters));
    }

    /// The next frame's body; None when the server has closed the connection.
    pub fn frame(&mut self) -> Option<Vec<u8>> {
        let mut length = [0; frame::LENGTH_BYTES];
        self.0.read_exact(&mut length).ok()?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut body).ok()?;
        Some(body)
    }

    /// Handle, status and text of the next answer.
    pub fn answer(&mut self) -> Option<(i64, i8, String)> {
        let body = self.frame()?;
        let response = Response::parse(&body).expect("the answer is well-formed");
        Some((response.handle, response.status_code, response.status_text.unwrap_or_default().to_owned()))
    }
}

pub fn call(procedure: &str, handle: i64, parameters: &impl ParameterSet) -> Vec<u8> {
    let mut bytes = Vec::new();
    invocation::write_call(&mut bytes, procedure, handle, parameters).expect("a call that fits a frame");
    bytes
}
