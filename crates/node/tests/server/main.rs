//! Tests of one node that can share a process: they know of nothing but their own server. One
//! program, since each is linked with the whole database; what looks at its process as a whole
//! stands beside this folder.

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../partition/tests/common/in_rust.rs"]
mod in_rust;
#[path = "../../../partition/tests/common/jar.rs"]
mod jar;
#[path = "../common/script.rs"]
mod script;

mod administration;
mod alter_table;
mod backup;
mod bad_calls;
mod call_timeout;
mod cancel;
mod codes;
mod compound;
mod connection_limits;
mod decimals;
mod disk_space;
mod endless;
mod expected_answers;
mod expiry;
mod first_start;
mod limits;
mod log_failure;
mod long_reads;
mod memory;
mod multi_partition;
mod old_database;
mod overload;
mod plain_views;
mod plan_cache;
mod privilege;
mod schema_time;
mod schema_under_load;
mod settings;
mod snapshots;
mod stop;
mod system_procedures;
mod tasks;
mod two_servers;
