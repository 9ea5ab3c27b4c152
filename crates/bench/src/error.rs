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
    /// The data afterwards are not what the clients were told. The benchmark's figures are worth
    /// nothing.
    Wrong(Vec<String>),
    /// This build is slower than another in these benches.
    Slower(Vec<String>),
    /// Whether this build is slower than another could not be told in these benches.
    Undecided(Vec<String>),
}

impl BenchError {
    /// What the program ends with.
    pub fn exit_code(&self) -> u8 {
        if matches!(self, BenchError::Undecided(_)) { 2 } else { 1 }
    }
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
            BenchError::Slower(benches) => write!(f, "slower than the other build: {}", benches.join(", ")),
            BenchError::Undecided(benches) => {
                let benches = benches.join(", ");
                write!(f, "undecided: {benches}; give it more --time, or a quieter machine")
            }
        }
    }
}

impl std::error::Error for BenchError {}

/// Puts what was being done in front of an error.
pub trait Doing<T> {
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
