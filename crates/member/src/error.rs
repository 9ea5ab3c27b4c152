//! Why a node's start as one of a cluster fails.

use ferrite_io::threads::ThreadError;
use ferrite_partition::recovery::StartError;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug)]
pub enum MemberError {
    Start(StartError),
    Thread(ThreadError),
    /// The node cannot be one of a cluster, or not of this one.
    Cluster(String),
    Listen(SocketAddr, io::Error),
    /// The node's copy is given up: the same process may be started again at once, and gets
    /// everything from the leader.
    CopyGivenUp(String),
    /// Another release has written in the directory what this one does not understand. Each with
    /// the number of its formats.
    LaterRelease {
        dir: PathBuf,
        written: (String, u32),
        here: (&'static str, u32),
    },
    /// The start was given up before its end.
    Ended,
}

impl fmt::Display for MemberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemberError::Start(error) => error.fmt(f),
            MemberError::Thread(error) => error.fmt(f),
            MemberError::Cluster(text) | MemberError::CopyGivenUp(text) => f.write_str(text),
            MemberError::Listen(address, error) => {
                write!(f, "cannot listen for other nodes on {address}: {error}; see --cluster and --cluster-listen")
            }
            MemberError::LaterRelease { dir, written, here } => write!(
                f,
                "{} was last used by a later release, {} (formats {}); this is {} (formats {}). Nothing was changed: start that release \
                 or a later one here",
                dir.display(),
                written.0,
                written.1,
                here.0,
                here.1
            ),
            MemberError::Ended => f.write_str("ended before the other nodes were there"),
        }
    }
}

impl std::error::Error for MemberError {}

impl From<ThreadError> for MemberError {
    fn from(error: ThreadError) -> MemberError {
        MemberError::Thread(error)
    }
}
