//! Statements and procedures to programs: each is bound, then planned, and what it says about
//! partitions decides where the program runs.

pub(crate) mod adhoc;
pub(crate) mod class;
mod origin;
pub(crate) mod procedure;
