//! The first byte of each message between nodes: whose it is. What follows is that part's own.

use std::fmt;

/// Whose a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Letter {
    /// Of a replica group: [`crate::Groups::received`].
    Group = 1,
    /// [`crate::Metadata::received`].
    Metadata = 2,
    /// A snapshot on its way.
    Transfer = 3,
    /// Calls of clients that are connected elsewhere, and what became of them.
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
}

/// Why a message is nobody's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoLetter {
    Empty,
    Unknown(u8),
}

impl fmt::Display for NoLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoLetter::Empty => f.write_str("a message between nodes is empty"),
            NoLetter::Unknown(byte) => write!(
                f,
                "a message between nodes is of kind {byte}, which this release does not know: start the same release on \
                 all nodes"
            ),
        }
    }
}

impl std::error::Error for NoLetter {}

impl Letter {
    pub const ALL: [Letter; 9] = [
        Letter::Group,
        Letter::Metadata,
        Letter::Transfer,
        Letter::Calls,
        Letter::Answers,
        Letter::Health,
        Letter::ProceduresAsked,
        Letter::Procedures,
        Letter::Figures,
    ];

    /// The message with its first byte, in the same memory where there is room for one byte more.
    pub fn encode(self, mut message: Vec<u8>) -> Vec<u8> {
        message.insert(0, self as u8);
        message
    }

    /// Whose the message is, and what follows the first byte.
    pub fn decode(bytes: &[u8]) -> Result<(Letter, &[u8]), NoLetter> {
        let (first, rest) = bytes.split_first().ok_or(NoLetter::Empty)?;
        let known = Letter::ALL.into_iter().find(|letter| *letter as u8 == *first);
        known.map(|letter| (letter, rest)).ok_or(NoLetter::Unknown(*first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_read_back_and_others_are_refused_by_name() {
        for (letter, byte) in Letter::ALL.into_iter().zip(1..) {
            let message = letter.encode(vec![7, 8]);
            assert_eq!(message, [byte, 7, 8]);
            assert_eq!(Letter::decode(&message), Ok((letter, &[7, 8][..])));
            assert_eq!(Letter::decode(&message[..1]), Ok((letter, &[][..])));
        }
        for byte in [0, Letter::ALL.len() as u8 + 1, 255] {
            let refused = Letter::decode(&[byte, 1]).unwrap_err();
            assert_eq!(refused, NoLetter::Unknown(byte));
            assert!(refused.to_string().contains(&format!("is of kind {byte}, which this release does not know")));
        }
        assert_eq!(Letter::decode(&[]), Err(NoLetter::Empty));
    }
}
