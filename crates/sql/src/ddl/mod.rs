//! Schema statements to changes of the catalog. Expressions in them are bound; procedures are
//! compiled, to see whether they can be.

mod alter;
pub(crate) mod missing_indexes;
mod names;
mod parts;
pub(crate) mod schema;
mod view;
