//! Identifiers. Each is a number with a type of its own, so that one cannot be passed for another.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The id as an index into a dense vector.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A table, view or stream. Given out by the catalog, never used twice in the life of a
    /// database, and so fit to stand in the redo log.
    TableId(u32)
}
id! {
    /// An index, given out like a [`TableId`].
    IndexId(u32)
}
id! {
    /// A procedure's place in one catalog version; means nothing in another version.
    ProcedureId(u32)
}
id! {
    /// A partition of the cluster, from 0.
    PartitionId(u32)
}
id! {
    /// A row's place in its table within one partition: page number and slot.
    RowId(u32)
}
id! {
    /// A node of the cluster; never given to another one in the life of a database.
    NodeId(u32)
}
id! {
    /// The number of a transaction's redo record within its partition, from 1; 0 is "before the
    /// first".
    Sequence(u64)
}
id! {
    /// The term of a partition's leadership.
    Epoch(u64)
}
id! {
    /// Partitions that share a leader, members and one stream of entries (docs/replication.md).
    GroupId(u32)
}
id! {
    /// The number of an entry in its group's stream, from 1; 0 is "before the first".
    Position(u64)
}
id! {
    /// Counts the starts of a node's process.
    Incarnation(u64)
}
id! {
    /// Counts the schema changes of a database.
    CatalogVersion(u64)
}

/// Published as partition id of the multi-partition coordinator (wire-protocol 11.3).
pub const MULTI_PARTITION: PartitionId = PartitionId(16383);
