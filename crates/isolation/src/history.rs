//! Transactions as clients know them.

/// A list, by its key.
pub type ListKey = i64;

/// What was appended. No two transactions append the same element to a list.
pub type Element = i64;

/// One operation of a transaction, in their order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    Append {
        key: ListKey,
        element: Element,
    },
    /// The whole list, as the client was told.
    Read {
        key: ListKey,
        list: Vec<Element>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransactionOutcome {
    Committed,
    /// The client was told that nothing was executed.
    Aborted,
    /// Nobody knows: it took place if anything of it was ever seen.
    Unknown,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// When the client sent it, and when it knew the outcome, by one clock. The end of one whose
    /// outcome is unknown does not count.
    pub began: u64,
    pub ended: u64,
    pub outcome: TransactionOutcome,
    /// Reads of one that is not committed are left out.
    pub operations: Vec<Operation>,
}

impl Transaction {
    pub fn appends(&self) -> impl Iterator<Item = (ListKey, Element)> {
        self.operations.iter().filter_map(|operation| match operation {
            Operation::Append { key, element } => Some((*key, *element)),
            Operation::Read { .. } => None,
        })
    }
}
