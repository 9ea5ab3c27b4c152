//! Connection set-up: login request and response (wire-protocol section 2).

use crate::writer::Put;
use crate::{DecodeError, Reader};
use std::fmt;

/// How the password was hashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i8)]
pub enum HashScheme {
    Sha1 = 0,
    Sha256 = 1,
    /// No digest (Kerberos).
    None = 2,
}

impl HashScheme {
    pub fn digest_bytes(self) -> usize {
        match self {
            HashScheme::Sha1 => 20,
            HashScheme::Sha256 => 32,
            HashScheme::None => 0,
        }
    }

    fn from_code(code: i8) -> Option<HashScheme> {
        match code {
            0 => Some(HashScheme::Sha1),
            1 => Some(HashScheme::Sha256),
            2 => Some(HashScheme::None),
            _ => None,
        }
    }
}

/// What the connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
    Database,
    Kerberos,
}

impl Service {
    pub fn name(self) -> &'static str {
        match self {
            Service::Database => "database",
            Service::Kerberos => "kerberos",
        }
    }
}

/// Why a login is refused. The discriminants are the protocol's codes (wire-protocol 2.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i8)]
pub enum LoginFailure {
    /// User or password wrong, or a digest of the wrong length.
    Rejected = -1,
    TooManyConnections = 1,
    TooSlow = 2,
    /// Malformed login or unknown hash scheme.
    Malformed = 3,
    Rejoining = 4,
    ServiceNotAvailable = 5,
    TlsRequired = 6,
    CertificateRequired = 7,
    CertificateRevoked = 8,
}

impl LoginFailure {
    pub const ALL: [LoginFailure; 9] = [
        LoginFailure::Rejected,
        LoginFailure::TooManyConnections,
        LoginFailure::TooSlow,
        LoginFailure::Malformed,
        LoginFailure::Rejoining,
        LoginFailure::ServiceNotAvailable,
        LoginFailure::TlsRequired,
        LoginFailure::CertificateRequired,
        LoginFailure::CertificateRevoked,
    ];

    pub fn code(self) -> i8 {
        self as i8
    }

    pub fn from_code(code: i8) -> Option<LoginFailure> {
        Self::ALL.into_iter().find(|failure| failure.code() == code)
    }

    /// The SQLSTATE of the refusal with this code. It is not sent: the answer to a login has no
    /// room for it.
    pub fn sqlstate(code: i8) -> &'static str {
        match Self::from_code(code) {
            Some(LoginFailure::Rejected | LoginFailure::CertificateRequired | LoginFailure::CertificateRevoked) => {
                "28000"
            }
            Some(LoginFailure::TooManyConnections) => "53300",
            Some(LoginFailure::Malformed) => "08P01",
            Some(LoginFailure::Rejoining) => "57P03",
            Some(LoginFailure::TooSlow | LoginFailure::ServiceNotAvailable | LoginFailure::TlsRequired) | None => {
                "08004"
            }
        }
    }
}

impl fmt::Display for LoginFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LoginFailure::Rejected => "user name or password is wrong",
            LoginFailure::TooManyConnections => "the server has too many connections",
            LoginFailure::TooSlow => "the login took too long",
            LoginFailure::Malformed => "the server did not understand the login",
            LoginFailure::Rejoining => "the node is rejoining its cluster; try another node",
            LoginFailure::ServiceNotAvailable => "the requested service is not available",
            LoginFailure::TlsRequired => "the server requires TLS",
            LoginFailure::CertificateRequired => "the server requires a client certificate",
            LoginFailure::CertificateRevoked => "the client certificate is revoked",
        })
    }
}

impl std::error::Error for LoginFailure {}

/// The first frame of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoginRequest<'a> {
    /// 0 (no scheme byte), 1 or 2.
    pub version: i8,
    pub scheme: HashScheme,
    pub service: Service,
    /// May be empty.
    pub user: &'a str,
    /// As long as the scheme says.
    pub digest: &'a [u8],
}

impl<'a> LoginRequest<'a> {
    /// Parses a frame's body. The error is what to answer with before closing.
    pub fn parse(body: &'a [u8]) -> Result<LoginRequest<'a>, LoginFailure> {
        let malformed = |_: DecodeError| LoginFailure::Malformed;
        let mut reader = Reader::new(body);
        let version = reader.i8().map_err(malformed)?;
        let scheme = match version {
            ..0 => return Err(LoginFailure::Malformed),
            0 => HashScheme::Sha1,
            1.. => HashScheme::from_code(reader.i8().map_err(malformed)?).ok_or(LoginFailure::Malformed)?,
        };
        let service = match reader.string().map_err(malformed)? {
            "database" => Service::Database,
            "kerberos" => Service::Kerberos,
            _ => return Err(LoginFailure::ServiceNotAvailable),
        };
        let user = reader.string().map_err(malformed)?;
        let digest = reader.rest();
        if digest.len() != scheme.digest_bytes() {
            return Err(LoginFailure::Rejected);
        }
        Ok(LoginRequest { version, scheme, service, user, digest })
    }

    /// Appends the whole frame. Version 0 can carry SHA-1 only.
    pub fn write(&self, out: &mut Vec<u8>) {
        assert_eq!(self.digest.len(), self.scheme.digest_bytes(), "the digest has the length of its scheme");
        assert!(self.version > 0 || self.scheme == HashScheme::Sha1, "version 0 has no scheme byte");
        let start = out.len();
        out.put_i32(0);
        out.put_i8(self.version);
        if self.version > 0 {
            out.put_i8(self.scheme as i8);
        }
        out.put_string(self.service.name());
        out.put_string(self.user);
        out.extend_from_slice(self.digest);
        out.patch_length(start);
    }
}

/// What a client learns from a login that succeeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoginAccepted<'a> {
    /// Unique within the cluster.
    pub host_id: i32,
    /// Unique within the cluster.
    pub connection_id: i64,
    /// Milliseconds since 1970; with the address the identity of the cluster, the same from every
    /// node.
    pub cluster_start_ms: i64,
    pub leader_address: [u8; 4],
    pub build: &'a str,
}

impl LoginAccepted<'_> {
    /// Appends the whole frame. It must leave in one write: one client takes the first bytes it
    /// gets for all of it.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.put_i32(0);
        out.put_i8(0);
        out.put_i8(0);
        out.put_i32(self.host_id);
        out.put_i64(self.connection_id);
        out.put_i64(self.cluster_start_ms);
        out.extend_from_slice(&self.leader_address);
        out.put_string(self.build);
        out.patch_length(start);
    }
}

/// Appends the whole frame that refuses a login.
pub fn write_failure(out: &mut Vec<u8>, failure: LoginFailure) {
    out.put_i32(2);
    out.put_i8(0);
    out.put_i8(failure.code());
}

/// The same, and why, for clients that read on: others read the code, and close. An extension of
/// ours (docs/errors.md).
pub fn write_failure_because(out: &mut Vec<u8>, failure: LoginFailure, reason: &str) {
    let start = out.len();
    out.put_i32(0);
    out.put_i8(0);
    out.put_i8(failure.code());
    out.put_string(reason);
    out.patch_length(start);
}

/// The server's answer to a login.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoginResponse<'a> {
    Accepted(LoginAccepted<'a>),
    Refused {
        /// Which [`LoginFailure::from_code`] may know.
        code: i8,
        /// Of a node that is not open yet: what it waits for.
        reason: Option<&'a str>,
    },
}

impl<'a> LoginResponse<'a> {
    /// Parses a frame's body.
    pub fn parse(body: &'a [u8]) -> Result<LoginResponse<'a>, DecodeError> {
        let mut reader = Reader::new(body);
        let version = reader.i8()?;
        if version != 0 {
            return Err(DecodeError::UnknownLayout(version));
        }
        let result = reader.i8()?;
        if result != 0 {
            // Of another server something else may follow, which says nothing to this client.
            let reason = Some(reader).filter(|rest| !rest.is_empty()).and_then(|mut rest| rest.string().ok());
            return Ok(LoginResponse::Refused { code: result, reason });
        }
        let accepted = LoginAccepted {
            host_id: reader.i32()?,
            connection_id: reader.i64()?,
            cluster_start_ms: reader.i64()?,
            leader_address: reader.array()?,
            build: reader.string()?,
        };
        reader.expect_end()?;
        Ok(LoginResponse::Accepted(accepted))
    }
}
