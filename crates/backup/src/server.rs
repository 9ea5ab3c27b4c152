//! What a backup needs of the server that it is taken of or goes into.

use ferrite_base::{PartitionId, UserResult};
use ferrite_catalog::Catalog;
use ferrite_partition::coordinator::TakenSnapshot;
use ferrite_value::Value;
use std::sync::Arc;

/// Names of staging tables begin so.
pub const STAGING: &str = "FERRITE_RESTORE_";

pub trait Server {
    fn catalog(&self) -> Arc<Catalog>;

    fn partitions(&self) -> usize;

    /// Where rows with this partitioning value belong.
    fn partition_of(&self, value: &Value<'_>) -> UserResult<PartitionId>;

    /// Statements of one transaction. Durable when this returns. No loads may be on their way. An
    /// error of the kind `OutcomeUnknown` means that it may have been carried out; after any other
    /// it was not.
    fn change_schema(&self, text: &str) -> UserResult<()>;

    /// Drops all tables whose names begin so, when all loads have ended.
    fn drop_tables(&self, prefix: &str) -> UserResult<()>;

    /// Sends rows, as a table on the wire, for one partition, or for all copies of a replicated
    /// table. An error may be one of a load before.
    fn load(&self, table: &str, partition: Option<PartitionId>, rows: Vec<u8>) -> UserResult<()>;

    fn wait_for_loads(&self) -> UserResult<()>;

    /// How the names of this restore's staging tables begin: with [`STAGING`], and where several
    /// restores may be under way unknown to each other, with more that no other has.
    fn staging(&self) -> &str {
        STAGING
    }

    /// Bytes of rows gathered for one partition before they are sent.
    fn batch_bytes(&self) -> usize {
        1 << 20
    }

    /// All stores as they are now.
    fn take_snapshot(&self) -> UserResult<TakenSnapshot>;
}

/// Statements that drop all tables whose names begin so. Empty where there are none.
pub fn drop_statements(catalog: &Catalog, prefix: &str) -> String {
    let names = catalog.tables.values().filter(|table| table.name.starts_with(prefix));
    names.map(|table| format!("DROP TABLE {};\n", table.name)).collect()
}
