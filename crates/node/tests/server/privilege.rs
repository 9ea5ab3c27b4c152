//! What runs code, touches files or stops the server: taken from every client as long as only this
//! machine reaches the client port, and on the administration port only where other machines do.

use crate::common::{Db, connect, connect_admin, connect_to, options, start, text_of};
use crate::jar;
use ferrite_catalog::base64;
use ferrite_client::{ClientError, ParameterSet, Status};
use ferrite_node::{Server, ServerOptions};
use ferrite_value::OwnedValue;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A server that other machines could reach, for the moment of a test; and a client of it.
fn open(dir: &Path, change: impl FnOnce(&mut ServerOptions)) -> (Server, Db) {
    let mut options = options(dir, 2);
    options.listen = "0.0.0.0:0".parse().expect("an address");
    change(&mut options);
    let server = start(options);
    let client = connect_to(([127, 0, 0, 1], server.address().port()).into());
    (server, client)
}

fn with_admin(options: &mut ServerOptions) {
    options.admin_listen = Some("127.0.0.1:0".parse().expect("an address"));
}

/// The words with which a call was refused for want of a privilege.
fn refusal(db: &Db, procedure: &str, parameters: impl ParameterSet) -> Option<String> {
    match db.0.call_blocking(procedure, parameters) {
        Err(ClientError::Failed(response)) if text_of(&response).contains("--trust-clients") => {
            assert_eq!(response.status(), Some(Status::UnexpectedFailure));
            Some(text_of(&response).to_owned())
        }
        // It was taken; what came of it is another matter.
        Err(ClientError::Failed(_)) | Ok(_) => None,
        Err(error) => panic!("{procedure}: {error}"),
    }
}

/// Calls everything that needs a privilege.
fn refusals(db: &Db, backups: &Path) -> Vec<(&'static str, Option<String>)> {
    let (classes, path) = (jar::jar(&["a/B.class"]), backups.to_str().expect("a plain path"));
    let load = format!("LOAD CLASSES '{}'", base64::encode(&classes));
    let json = format!("{{path:'{path}',nonce:'json',block:true}}");
    vec![
        ("@UpdateClasses", refusal(db, "@UpdateClasses", (OwnedValue::Bytes(classes.into()), OwnedValue::Null))),
        ("LOAD", refusal(db, "@AdHoc", (load.as_str(),))),
        ("REMOVE", refusal(db, "@AdHoc", ("DROP TABLE none IF EXISTS; REMOVE CLASSES 'a.B'",))),
        ("@SnapshotSave", refusal(db, "@SnapshotSave", (path, "one", 1i8))),
        ("@SnapshotSave in JSON", refusal(db, "@SnapshotSave", (json.as_str(),))),
        ("@SnapshotScan", refusal(db, "@SnapshotScan", (path,))),
        ("@SnapshotRestore", refusal(db, "@SnapshotRestore", (path, "one"))),
        ("@SnapshotDelete", refusal(db, "@SnapshotDelete", (path, "one"))),
        ("@Shutdown", refusal(db, "@Shutdown", ())),
    ]
}

fn count_stops(server: &Server) -> Arc<AtomicUsize> {
    let stops = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&stops);
    server.on_shutdown(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    stops
}

#[test]
fn clients_that_come_from_anywhere_may_not_run_code_or_touch_files() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let backups = dir.path().join("backups");
    let (server, client) = open(dir.path(), with_admin);
    let stops = count_stops(&server);
    let admin = connect_admin(&server);
    let address = server.admin_address().expect("there is one").to_string();
    for (what, refusal) in refusals(&client, &backups) {
        let said = refusal.unwrap_or_else(|| panic!("{what} was taken"));
        assert!(said.contains("accepted on the administration port only") && said.contains(&address), "{said}");
    }
    client.fails("@Pause", (), Status::UnexpectedFailure, "@Pause is not available to this client");
    assert!(!backups.exists(), "nothing was written");
    assert_eq!(stops.load(Ordering::Relaxed), 0);
    // Everything else goes on: what only names classes, and the database's own snapshot.
    client.sql("CREATE TABLE t (a INTEGER NOT NULL, PRIMARY KEY (a))");
    client.sql("INSERT INTO t VALUES (1)");
    client.call("@SnapshotSave", ());
    client.fails("@AdHoc", ("CREATE PROCEDURE FROM CLASS a.Missing",), Status::GracefulFailure, "a.Missing");
    for (what, refusal) in refusals(&admin, &backups) {
        assert_eq!(refusal, None, "{what}");
    }
    assert!(backups.join("json.manifest").is_file());
    assert_eq!(stops.load(Ordering::Relaxed), 1);
    server.stop().expect("the log is closed");
}

#[test]
fn without_an_administration_port_nobody_may() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (server, client) = open(dir.path(), |_| {});
    let stops = count_stops(&server);
    for (what, refusal) in refusals(&client, &dir.path().join("backups")) {
        let said = refusal.unwrap_or_else(|| panic!("{what} was taken"));
        assert!(said.contains("no administration port") && said.contains("--admin-listen"), "{said}");
    }
    for procedure in ["@Pause", "@Resume", "@PrepareShutdown", "@CancelShutdown"] {
        assert!(refusal(&client, procedure, ()).is_some(), "{procedure}");
    }
    assert_eq!(stops.load(Ordering::Relaxed), 0);
    server.stop().expect("the log is closed");
}

#[test]
fn trusted_clients_and_those_of_this_machine_may() {
    for trusted in [true, false] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let backups = dir.path().join("backups");
        let (server, client) = if trusted {
            open(dir.path(), |options| options.trust_clients = true)
        } else {
            let server = start(options(dir.path(), 1));
            let client = connect(&server);
            (server, client)
        };
        let stops = count_stops(&server);
        for (what, refusal) in refusals(&client, &backups) {
            assert_eq!(refusal, None, "{what}");
        }
        assert!(backups.join("json.manifest").is_file());
        assert_eq!(stops.load(Ordering::Relaxed), 1);
        server.stop().expect("the log is closed");
    }
}

#[test]
fn backups_stay_in_their_directory() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (root, outside) = (dir.path().join("backups"), dir.path().join("outside"));
    let server = start(ServerOptions { backup_dir: Some(root.clone()), ..options(dir.path(), 1) });
    let db = connect(&server);
    db.sql("CREATE TABLE t (a INTEGER)");
    let outcome = |response: &ferrite_client::OwnedResponse| {
        let table = &response.tables[0];
        let column = |name| table.column_index(name).expect("a column of the answer");
        (table.rows[0][column("RESULT")].clone(), table.rows[0][column("ERR_MSG")].clone())
    };
    let success = OwnedValue::Text("SUCCESS".into());
    assert_eq!(outcome(&db.call("@SnapshotSave", ("monday", "one", 1i8))).0, success);
    assert!(root.join("monday/one.manifest").is_file());
    let (result, why) = outcome(&db.call("@SnapshotSave", (outside.to_str().expect("a plain path"), "one", 1i8)));
    assert_ne!(result, success);
    let OwnedValue::Text(why) = why else { panic!("{why:?}") };
    assert!(why.contains("lies outside of --backup-dir") && why.contains(root.to_str().expect("plain")), "{why}");
    assert!(!outside.exists());
    let path = outside.to_str().expect("a plain path");
    db.fails("@SnapshotScan", (path,), Status::GracefulFailure, "--backup-dir");
    db.fails("@SnapshotDelete", ("..", "one"), Status::GracefulFailure, "leads upwards");
    db.fails("@SnapshotRestore", (path, "one"), Status::GracefulFailure, "--backup-dir");
    server.stop().expect("the log is closed");
    let mut within = options(dir.path(), 1);
    within.backup_dir = Some(within.dir.join("backups"));
    let error = Server::start(within).err().expect("no place for backups").to_string();
    assert!(error.contains("--backup-dir") && error.contains("own directory"), "{error}");
}
