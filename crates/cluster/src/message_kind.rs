//! The first byte of each message between nodes: which part it is for. What follows is that part's
//! own.

use std::fmt;

/// The part that a message is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageKind {
    /// For a replica group: [`crate::Groups::dispatch`].
    Group = 1,
    /// [`crate::Metadata::handle_message`].
    Metadata = 2,
    /// A snapshot on its way.
    Transfer = 3,
    /// Calls of clients that are connected elsewhere, and their outcomes.
    Calls = 4,
    Answers = 5,
    /// Every second from each node to all others: that it runs, and how it is. A byte follows.
    Health = 6,
    /// A node without a copy asks the one that leads which procedures there are. The version of the
    /// catalog that it knows of follows, or nothing.
    ProceduresAsked = 7,
    /// The answer, where there is another version.
    Procedures = 8,
    /// Every second from each node to all others: figures for operators.
    Figures = 9,
    /// Of transactions over groups, and which groups the sender leads.
    Lots = 10,
}

/// Why a message is for no part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnknownKind {
    Empty,
    Unknown(u8),
}

impl fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnknownKind::Empty => f.write_str("a message between nodes is empty"),
            UnknownKind::Unknown(byte) => write!(
                f,
                "a message between nodes is of kind {byte}, which this release does not know: start the same release on \
                 all nodes"
            ),
        }
    }
}

impl std::error::Error for UnknownKind {}

impl MessageKind {
    pub const ALL: [MessageKind; 10] = [
        MessageKind::Group,
        MessageKind::Metadata,
        MessageKind::Transfer,
        MessageKind::Calls,
        MessageKind::Answers,
        MessageKind::Health,
        MessageKind::ProceduresAsked,
        MessageKind::Procedures,
        MessageKind::Figures,
        MessageKind::Lots,
    ];

    /// The message with its first byte, in the same memory where there is room for one byte more.
    pub fn encode(self, mut message: Vec<u8>) -> Vec<u8> {
        message.insert(0, self as u8);
        message
    }

    /// The message's kind, and what follows the first byte.
    pub fn decode(bytes: &[u8]) -> Result<(MessageKind, &[u8]), UnknownKind> {
        let (first, rest) = bytes.split_first().ok_or(UnknownKind::Empty)?;
        let known = MessageKind::ALL.into_iter().find(|message_kind| *message_kind as u8 == *first);
        known.map(|message_kind| (message_kind, rest)).ok_or(UnknownKind::Unknown(*first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_read_back_and_unknown_ones_are_refused_by_number() {
        for (message_kind, byte) in MessageKind::ALL.into_iter().zip(1..) {
            let message = message_kind.encode(vec![7, 8]);
            assert_eq!(message, [byte, 7, 8]);
            assert_eq!(MessageKind::decode(&message), Ok((message_kind, &[7, 8][..])));
            assert_eq!(MessageKind::decode(&message[..1]), Ok((message_kind, &[][..])));
        }
        for byte in [0, MessageKind::ALL.len() as u8 + 1, 255] {
            let refused = MessageKind::decode(&[byte, 1]).unwrap_err();
            assert_eq!(refused, UnknownKind::Unknown(byte));
            assert!(refused.to_string().contains(&format!("is of kind {byte}, which this release does not know")));
        }
        assert_eq!(MessageKind::decode(&[]), Err(UnknownKind::Empty));
    }
}
