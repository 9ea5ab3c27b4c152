//! The tests of this crate that can share a process. One program, since each costs a link.

#[path = "../common/calls.rs"]
mod calls;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/hosting.rs"]
mod hosting;
#[path = "../common/in_rust.rs"]
mod in_rust;
#[path = "../common/jar.rs"]
mod jar;
#[path = "../common/learner.rs"]
mod learner;
#[path = "../common/stepped.rs"]
mod stepped;
#[path = "../common/work.rs"]
mod work;

mod batches;
mod contents;
mod copies;
mod deposed;
mod entries;
mod external;
mod faults;
mod followed;
mod groups;
mod installs;
mod losses;
mod lots;
mod memory;
mod recovery;
mod row_counts;
mod seats;
mod snapshots;
mod variants;
