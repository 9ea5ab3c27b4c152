//! Status codes of responses (wire-protocol 5.2) and the handles that have a meaning of their own
//! (3.5, 9).

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(i8)]
pub enum Status {
    Success = 1,
    UserAbort = -1,
    GracefulFailure = -2,
    UnexpectedFailure = -3,
    /// Made by clients.
    ConnectionLost = -4,
    ServerUnavailable = -5,
    /// Made by clients.
    ConnectionTimeout = -6,
    ResponseUnknown = -7,
    TransactionRestart = -8,
    OperationalFailure = -9,
    Mispartitioned = -10,
    Misrouted = -11,
    ReplicationHashNotFound = -12,
    UnsupportedDynamicChange = -13,
    /// Made by clients.
    ClientError = -14,
    /// Made by clients.
    ClientRequestTimeout = -15,
    /// Made by clients.
    ClientResponseTimeout = -16,
    CompoundUserAbort = -17,
    CompoundTimeout = -18,
    MixedVersionsUnavailable = -19,
    CannotUpdateConfiguration = -20,
    ConfigurationUpdateFailed = -21,
    UserNoLongerValid = -22,
}

impl Status {
    pub const ALL: [Status; 23] = [
        Status::Success,
        Status::UserAbort,
        Status::GracefulFailure,
        Status::UnexpectedFailure,
        Status::ConnectionLost,
        Status::ServerUnavailable,
        Status::ConnectionTimeout,
        Status::ResponseUnknown,
        Status::TransactionRestart,
        Status::OperationalFailure,
        Status::Mispartitioned,
        Status::Misrouted,
        Status::ReplicationHashNotFound,
        Status::UnsupportedDynamicChange,
        Status::ClientError,
        Status::ClientRequestTimeout,
        Status::ClientResponseTimeout,
        Status::CompoundUserAbort,
        Status::CompoundTimeout,
        Status::MixedVersionsUnavailable,
        Status::CannotUpdateConfiguration,
        Status::ConfigurationUpdateFailed,
        Status::UserNoLongerValid,
    ];

    #[inline]
    pub fn code(self) -> i8 {
        self as i8
    }

    /// The status with this code; `None` for codes of later servers, which are failures when
    /// negative.
    pub fn from_code(code: i8) -> Option<Status> {
        Self::ALL.into_iter().find(|status| status.code() == code)
    }

    /// Words for messages and counters.
    pub fn name(self) -> &'static str {
        match self {
            Status::Success => "success",
            Status::UserAbort => "user abort",
            Status::GracefulFailure => "graceful failure",
            Status::UnexpectedFailure => "unexpected failure",
            Status::ConnectionLost => "connection lost",
            Status::ServerUnavailable => "server unavailable",
            Status::ConnectionTimeout => "connection timeout",
            Status::ResponseUnknown => "response unknown",
            Status::TransactionRestart => "transaction restart",
            Status::OperationalFailure => "operational failure",
            Status::Mispartitioned => "transaction mispartitioned",
            Status::Misrouted => "transaction misrouted",
            Status::ReplicationHashNotFound => "replication hash not found",
            Status::UnsupportedDynamicChange => "unsupported dynamic change",
            Status::ClientError => "client error, transaction not sent",
            Status::ClientRequestTimeout => "client request timeout",
            Status::ClientResponseTimeout => "client response timeout",
            Status::CompoundUserAbort => "compound procedure user abort",
            Status::CompoundTimeout => "compound procedure timeout",
            Status::MixedVersionsUnavailable => "unavailable while versions are mixed",
            Status::CannotUpdateConfiguration => "cannot update configuration",
            Status::ConfigurationUpdateFailed => "configuration update failed",
            Status::UserNoLongerValid => "user no longer valid",
        }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The application status of a response whose procedure set none.
pub const APPLICATION_STATUS_NOT_SET: i8 = -128;

/// Handles with a meaning of their own.
pub mod handles {
    /// Keep-alive `@Ping` of several clients.
    pub const PING: i64 = i64::MAX;
    /// Unasked: the tables of `@Statistics TOPO`, to subscribers.
    pub const TOPOLOGY_PUSH: i64 = i64::MAX - 1;
    /// Unasked: the table of `@SystemCatalog PROCEDURES`, to subscribers.
    pub const PROCEDURES_PUSH: i64 = i64::MAX - 2;
    /// The lowest handle that clients keep out of their own numbering.
    pub const RESERVED_MIN: i64 = i64::MAX - 64;

    /// Belongs to messages that nobody asked for.
    #[inline]
    pub fn is_reserved(handle: i64) -> bool {
        (RESERVED_MIN..PING).contains(&handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_statuses_correspond() {
        for code in i8::MIN..=i8::MAX {
            match Status::from_code(code) {
                Some(status) => assert_eq!(status.code(), code),
                None => assert!(!(-22..=-1).contains(&code) && code != 1),
            }
        }
    }

    #[test]
    fn reserved_handles_lie_between_the_ping_and_2_to_the_63_less_65() {
        assert!(!handles::is_reserved(handles::PING));
        assert!(handles::is_reserved(handles::TOPOLOGY_PUSH));
        assert!(handles::is_reserved(i64::MAX - 64));
        assert!(!handles::is_reserved(i64::MAX - 65));
        assert!(!handles::is_reserved(-1));
    }
}
