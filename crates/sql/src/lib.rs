//! From text to programs: parse, bind, plan.
//!
//! Owns the dialect, name resolution, typing and the choice of access paths. Knows catalogs and expressions; knows no
//! rows, partitions at run time, or clients.

pub mod plan;
