//! Why a benchmark could not be run, or what was wrong with its outcome.

use ferrite_client::ClientError;
use std::fmt;
use std::io;

pub type BenchResult<T> = Result<T, BenchError>;

#[derive(Debug)]
pub enum BenchError {
    /// A call to the server failed while doing this.
    Call { doing: String, reason: ClientError },
    /// The operating system refused something.
    System { doing: String, reason: io::Error },
    /// The server process did not start, or ended early.
    Server(String),
    /// The load did not run as it should have.
    Load(String),
    /// The data afterwards are not what the clients were told. The benchmark's figures are worth nothing.
    Wrong(Vec<String>),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Call { doing, reason } => write!(f, "{doing}: {reason}"),
            BenchError::System { doing, reason } => write!(f, "{doing}: {reason}"),
            BenchError::Server(what) | BenchError::Load(what) => f.write_str(what),
            BenchError::Wrong(findings) => {
                f.write_str("the result is wrong:")?;
                findings.iter().try_for_each(|finding| write!(f, "\n  {finding}"))
            }
        }
    }
}

impl std::error::Error for BenchError {}

/// Puts what was being done in front of an error.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl fmt::Display) -> BenchResult<T>;
}

impl<T> Doing<T> for Result<T, ClientError> {
    fn doing(self, what: impl fmt::Display) -> BenchResult<T> {
        self.map_err(|reason| BenchError::Call { doing: what.to_string(), reason })
    }
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, what: impl fmt::Display) -> BenchResult<T> {
        self.map_err(|reason| BenchError::System { doing: what.to_string(), reason })
    }
}
