//! The operator's tool on a cluster some of whose nodes are gone: `ferrite admin status` for
//! programs, several addresses, and backups that name their machine.

use super::{Cluster, PATIENCE, TABLE, addresses};
use crate::common::Db;
use ferrite_client::{Client, ClientOptions, OwnedValue};
use serde_json::{Value, json};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

fn ferrite(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_ferrite")).args(arguments).output();
    output.expect("the program under test can be started")
}

impl Cluster {
    /// The addresses of all nodes, those that are gone too.
    fn all_addresses(&self, gone: &[String]) -> String {
        let there = self.running().map(|(place, _)| self.address(place));
        gone.iter().cloned().chain(there).collect::<Vec<_>>().join(",")
    }
}

/// The exit code of `--check`, and what `--json` says.
fn status(servers: &str) -> (Option<i32>, Value) {
    let output = ferrite(&["admin", "status", "--json", "--check", "--server", servers]);
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or(Value::Null))
}

fn await_status(servers: &str, expected: i32, is: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (code, said) = status(servers);
        if code == Some(expected) && is(&said) {
            return said;
        }
        assert!(Instant::now() < deadline, "{code:?}: {said:#}");
    }
}

fn safety(servers: &str) -> String {
    let client = Client::connect(ClientOptions::new(servers.split(','))).expect("a node takes connections");
    let response = Db(client).0.call_blocking("@SystemInformation", ("OVERVIEW",)).expect("it answers");
    let is = |row: &&Vec<OwnedValue>| row[1] == OwnedValue::Text("CLUSTERSAFETY".into());
    match &response.tables[0].rows.iter().find(is).expect("the key is there")[2] {
        OwnedValue::Text(safety) => safety.to_string(),
        other => panic!("not a text: {other:?}"),
    }
}

#[test]
fn the_status_for_programs_tells_whole_degraded_and_no_service_apart() {
    let mut cluster = Cluster::start_with(3, 1, &["--durability", "interval=20"]);
    cluster.statement(TABLE);
    cluster.write(5);
    let all = cluster.all_addresses(&[]);
    let said = await_status(&all, 0, |said| said["nodes"][2]["uptime_seconds"].is_u64());
    assert_eq!((&said["state"], &said["reasons"]), (&json!("whole"), &json!([])), "{said:#}");
    assert_eq!((&said["cluster"]["paused"], &said["cluster"]["safety"]), (&json!(false), &json!("FULL")), "{said:#}");
    assert_eq!(
        (&said["nodes"][1]["durability"], &said["nodes"][0]["behind_entries"]),
        (&json!("interval=20"), &json!(0))
    );
    assert_eq!((&said["groups"][0]["leader"], &said["voters"]["voters_there"]), (&json!(1), &json!(3)), "{said:#}");
    assert_eq!(safety(&all), "FULL");
    // The node that was asked first is the one that dies. With its copy, or without one to spare.
    let gone = [cluster.address(0)];
    cluster.kill(0);
    let two = cluster.all_addresses(&gone);
    let said = await_status(&two, 3, |said| said["nodes"][0]["presence"] == "silent");
    assert!(said["reasons"].to_string().contains("node 1 is silent"), "{said:#}");
    // What follows the first address that does not answer.
    let rows = ferrite(&["sql", "--server", &two, "-c", "SELECT COUNT(*) FROM t"]);
    assert!(rows.status.success(), "{}", String::from_utf8_lossy(&rows.stderr));
    let shown = ferrite(&["admin", "status", "--server", &two]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("\nstate: degraded: ") && shown.contains("interval=20"), "{shown}");
    let last = cluster.running().map(|(place, _)| place).last().expect("two run");
    let gone = [gone[0].clone(), cluster.address(last)];
    cluster.kill(last);
    let one = cluster.all_addresses(&gone);
    await_status(&one, 4, |said| said["state"] == "no service");
    assert_eq!(safety(one.split(',').next_back().expect("one is left")), "REDUCED");
    // Without --check the answer is what counts.
    assert!(ferrite(&["admin", "status", "--server", &one]).status.success());
    let nobody = addresses(2).join(",");
    assert_eq!(status(&nobody), (Some(1), Value::Null));
    // Its operator reads there that it is alone, whether it led or not, and when it is no longer.
    let left = cluster.running().map(|(_, node)| node.lines.clone()).next().expect("one is left");
    left.wait("a majority of the voters, so no leader can be chosen: node 1 is not reached");
    cluster.start_again(last);
    left.wait("this node reaches a majority of the voters again");
}

#[test]
fn a_status_that_is_watched_ends_when_nothing_reads_it() {
    let cluster = Cluster::start(1, 0);
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrite"));
    command.args(["admin", "status", "--json", "--watch", "1", "--server", &cluster.address(0)]);
    let mut watch = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it can be started");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(watch.stdout.take().expect("a pipe")));
    for _ in 0..2 {
        let line = lines.next().expect("a line for each second").expect("it is text");
        let said: Value = serde_json::from_str(&line).expect("each line is an object");
        assert_eq!(said["groups"][0]["leader"], 1, "{said:#}");
    }
    drop(lines);
    let output = watch.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}

#[test]
fn a_backup_and_a_restore_name_the_node_on_whose_machine_they_look() {
    let mut cluster = Cluster::start(3, 1);
    cluster.statement(TABLE);
    cluster.write(3);
    cluster.await_whole(1);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let dir = folder.path().to_str().expect("a path of ASCII");
    // Through a node that does not lead.
    let (done, said) = cluster.admin(2, &["backup", dir, "--name", "mon"]);
    assert!(
        done && said.contains("backup mon is complete on node 1 (") && said.contains(&format!(", in {dir}")),
        "{said}"
    );
    let (done, said) = cluster.admin(1, &["restore", dir, "--name", "tue"]);
    assert!(!done && said.contains("tue.manifest") && said.contains("that of node 1 ("), "{said}");
    cluster.statement("DROP TABLE t");
    let (done, said) = cluster.admin(1, &["restore", dir, "--name", "mon"]);
    assert!(done && said.contains(&format!("restored 1 tables from {dir} on node 1 (")), "{said}");
    cluster.check();
}
