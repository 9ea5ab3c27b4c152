//! A start that fails leaves no thread of the server behind. The only test of its program, so that
//! no other server is there.

mod common;

use common::options;
use ferrite_node::Server;
use std::fs;

/// Names of this process's threads, as far as they belong to a server.
fn threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").expect("the system lists threads");
    let name = |task: std::io::Result<fs::DirEntry>| fs::read_to_string(task.ok()?.path().join("comm")).ok();
    let ours = ["memory", "log", "partition-", "coordinator", "system", "network-", "expiry", "report-"];
    tasks.filter_map(name).filter(|name| ours.iter().any(|ours| name.starts_with(ours))).collect()
}

#[test]
fn a_start_that_fails_leaves_no_thread() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    fs::write(dir.path().join("data"), "a file where the directory should be").expect("a file can be written");
    for _ in 0..3 {
        assert!(Server::start(options(dir.path(), 2)).is_err());
    }
    let mut bad_schema = options(&dir.path().join("other"), 2);
    bad_schema.schema = Some("CREATE TABLE broken (a NOSUCHTYPE)".to_owned());
    assert!(Server::start(bad_schema).is_err());
    assert_eq!(threads(), Vec::<String>::new());
}
