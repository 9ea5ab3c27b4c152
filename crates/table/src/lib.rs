//! One partition's tables in memory: rows in pages, indexes, materialized views, undo and redo.
//!
//! [`Store`] is the door. Single-threaded: one transaction at a time changes it. Knows no SQL,
//! plans, files or threads; it knows the schema, by table and index id. The forms of pages, rows
//! and redo are in docs/format/pages.md.
//!
//! From the bottom up: `snapshot_pins` and `page_table` keep pages, for snapshots too; `layout`,
//! `pages`, `long_values` and `row` keep rows; `hash_table`, `integer_map`, `key_bytes`,
//! `bytes_map`, `index` and `look_up` find them; `table` changes both in step under `undo`;
//! `view_plan` and `view_maintenance` keep views, `float_sum` adds for them; `store` and `redo` put
//! it together; `upcoming` reads ahead for replay, and asks early for what it needs; `schema`
//! follows changes of the schema; `snapshot` shows others what there is; `image` writes and reads
//! rows for snapshots on disk and `load` makes a store of them; `compaction` gives memory back
//! after deletions; `verify` checks all of it.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod bytes_map;
mod compaction;
mod compaction_state;
mod constraint;
mod contents;
mod evaluation;
mod float_sum;
mod hash_table;
mod hashing;
mod image;
mod index;
mod integer_map;
mod key_bytes;
mod layout;
mod load;
mod long_values;
mod look_up;
mod memory;
mod page_directory;
mod page_table;
mod pages;
mod redo;
mod row;
mod schema;
mod snapshot;
mod snapshot_pins;
mod store;
mod table;
mod tags;
mod undo;
mod unlogged;
mod upcoming;
mod verify;
mod view_maintenance;
mod view_plan;

pub use constraint::UNIQUE_VIOLATION;
pub use evaluation::take_work;
pub use image::{ImageError, RunReader, Shape, StoredColumn};
pub use index::{HashedKey, finds_by_hash};
pub use layout::stands_apart;
pub use load::Loading;
pub use look_up::Rows;
pub use memory::{IndexMemory, TableMemory};
pub use pages::Scan;
pub use redo::RedoError;
pub use row::RowRef;
pub use schema::{SchemaUndo, change_schema, change_schema_watched};
pub use store::Store;
pub use table::TableData;
pub use undo::UndoMark;
pub use upcoming::Upcoming;

/// Asks the processor to have an address at hand soon.
#[inline(always)]
pub(crate) fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing as far as the program is concerned, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch(address.cast(), std::arch::x86_64::_MM_HINT_T0);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
