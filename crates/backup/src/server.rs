//! What a backup needs of the server that it is taken of or goes into.

use ferrite_base::{PartitionId, UserResult};
use ferrite_catalog::Catalog;
use ferrite_partition::coordinator::TakenSnapshot;
use ferrite_value::Value;
use std::sync::Arc;

/// Names of staging tables begin so.
pub use ferrite_partition::execute::STAGING;

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

/// Whether a restore makes tables of this name: behind [`STAGING`] is its number, if it has one,
/// and that of the table. Anything else is a table of the database.
pub fn is_staging(name: &str) -> bool {
    let Some(numbers) = name.strip_prefix(STAGING) else { return false };
    let is_hex = |text: &str| text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'F'));
    let table = match numbers.split_once('_') {
        Some((restore, table)) if is_hex(restore) => table,
        Some(_) => return false,
        None => numbers,
    };
    !table.is_empty() && table.bytes().all(|byte| byte.is_ascii_digit())
}

/// Statements that drop all staging tables whose names begin so. Empty where there are none.
pub fn drop_statements(catalog: &Catalog, prefix: &str) -> String {
    let names = catalog.tables.values().filter(|table| table.name.starts_with(prefix) && is_staging(&table.name));
    names.map(|table| format!("DROP TABLE {};\n", table.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_a_restore_gives_are_those_of_staging_tables() {
        for name in ["FERRITE_RESTORE_7", "FERRITE_RESTORE_0123456789ABCDEF_12"] {
            assert!(is_staging(name), "{name}");
        }
        for name in
            ["FERRITE_RESTORE_", "FERRITE_RESTORE_MINE", "FERRITE_RESTORE_1_2", "RESTORE_7", "FERRITE_RESTORE_7B"]
        {
            assert!(!is_staging(name), "{name}");
        }
    }
}
