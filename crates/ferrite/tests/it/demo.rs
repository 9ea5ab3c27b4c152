//! `ferrite demo`: what it says at its end is true, also when the leader of a cluster is killed in
//! the middle. The demo itself compares what was acknowledged with what is there.

use std::process::Command;

fn demo(options: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_ferrite"))
        .args(["demo", "--plain", "--outstanding", "200"])
        .args(options)
        .output()
        .expect("the program under test can be started");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {error}\n{said}", output.status);
    assert!(said.contains(" votes accepted, and "), "{said}");
    said
}

#[test]
fn one_server_counts_what_it_has_accepted() {
    let said = demo(&["--duration", "2"]);
    assert!(said.contains("and as many rows counted"), "{said}");
    assert!(said.contains("server --dir mydata --new"), "{said}");
}

#[test]
fn a_cluster_goes_on_when_its_leader_is_killed() {
    let said = demo(&["--duration", "4", "--nodes", "3"]);
    for words in [" has a copy", "the leader, is killed", "leads and answers", "is back", "docs/cluster.md"] {
        assert!(said.contains(words), "no {words:?} in {said}");
    }
}
