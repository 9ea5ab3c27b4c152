//! What is appended.

use std::sync::Arc;

/// Bytes for the log.
#[derive(Debug)]
pub enum Payload {
    /// Nobody else has them: given back, emptied, when the append completes.
    Own(Vec<u8>),
    /// Whoever sends them to other nodes, too, has them as well.
    Shared(Arc<Vec<u8>>),
}

impl Payload {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Payload::Own(bytes) => bytes,
            Payload::Shared(bytes) => bytes,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.as_slice().len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    /// Memory to be used again; none where somebody else has it.
    pub(crate) fn into_emptied(self) -> Vec<u8> {
        match self {
            Payload::Own(mut bytes) => {
                bytes.clear();
                bytes
            }
            Payload::Shared(_) => Vec::new(),
        }
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Payload {
        Payload::Own(bytes)
    }
}

impl From<Arc<Vec<u8>>> for Payload {
    fn from(bytes: Arc<Vec<u8>>) -> Payload {
        Payload::Shared(bytes)
    }
}
