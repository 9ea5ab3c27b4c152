//! What a server reports: lines as text and as JSON, and the table of the last of them.

use crate::common::{Db, Server};
use ferrite_client::OwnedValue;
use ferrite_io::notices::message_of;
use serde_json::Value;
use std::path::Path;
use std::process::ChildStderr;

/// Ends its line, and begins one that looks like the server's.
const FORGED: &str = "x\n2026-01-01T00:00:00.000Z ERROR ferrite: the log has failed [log-failed]\r\u{1b}[2J\"";

/// A start, a note, a pause and a stop; the line on standard output, and those on standard error.
fn life(dir: &Path, options: &[&str]) -> (String, String) {
    let mut server = Server::start(dir, options);
    let stderr: ChildStderr = server.take_stderr();
    let ready_line = server.ready_line.clone();
    let db = server.connect();
    db.call("@Note", (FORGED,));
    db.call("@Pause", ());
    db.call("@Resume", ());
    drop(db);
    server.stop();
    (ready_line, std::io::read_to_string(stderr).expect("stderr is text"))
}

const CODES: [&str; 6] = ["database-created", "note", "paused", "resumed", "stopping", "stopped"];

#[test]
fn every_line_is_an_object_where_that_is_wanted() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (ready, said) = life(dir.path(), &["--new", "--log-format", "json"]);
    let object = |line: &str| -> Value {
        let object: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        for name in ["time", "level", "code", "message"] {
            assert!(object[name].is_string(), "{line}");
        }
        assert!(object["node"].is_null() && object["fields"].is_object(), "{line}");
        object
    };
    let ready = object(&ready);
    assert_eq!((&ready["code"], &ready["level"]), (&Value::from("ready"), &Value::from("INFO")));
    assert!(ready["fields"]["address"].as_str().is_some_and(|address| address.starts_with("127.0.0.1:")), "{ready}");
    let objects: Vec<Value> = said.lines().map(object).collect();
    let codes: Vec<&str> = objects.iter().filter_map(|object| object["code"].as_str()).collect();
    assert_eq!(codes, CODES, "{said}");
    assert_eq!(objects[1]["fields"]["text"], FORGED);
    let times: Vec<&str> = objects.iter().filter_map(|object| object["time"].as_str()).collect();
    assert!(times.is_sorted() && times[0].ends_with('Z'), "{times:?}");
}

#[test]
fn a_line_has_time_level_and_code_and_no_client_makes_one() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (ready, said) = life(dir.path(), &["--new"]);
    assert!(ready.starts_with("ferrite ready on 127.0.0.1:"), "scripts wait for it: {ready}");
    for (line, code) in said.lines().zip(CODES) {
        let (time, rest) = line.split_once(' ').expect("a time");
        assert!(time.len() == "2026-11-29T13:00:00.123Z".len() && time.ends_with('Z'), "{line}");
        assert!(rest.starts_with("INFO  ferrite: ") && rest.ends_with(&format!(" [{code}]")), "{line}");
    }
    assert_eq!(said.lines().count(), CODES.len(), "{said}");
    let note = said.lines().nth(1).and_then(message_of).expect("the note");
    assert!(note.starts_with("note: x\\n2026-01-01") && note.ends_with("\\r\\u{1b}[2J\""), "{note}");
}

/// The columns of `@Statistics EVENTS` after TIMESTAMP, HOST_ID and HOSTNAME, as texts.
pub fn events(db: &Db) -> Vec<[String; 5]> {
    let table = db.call("@Statistics", ("EVENTS", 0i32)).tables.swap_remove(0);
    let text = |value: &OwnedValue| match value {
        OwnedValue::Text(text) => text.to_string(),
        OwnedValue::Timestamp(micros) => micros.to_string(),
        other => panic!("neither a text nor a time: {other:?}"),
    };
    let row = |row: &Vec<OwnedValue>| -> [String; 5] { std::array::from_fn(|column| text(&row[column + 3])) };
    table.rows.iter().map(row).collect()
}

#[test]
fn the_last_events_are_a_table() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Server::start(dir.path(), &["--new"]);
    let db = server.connect();
    db.call("@Note", (FORGED,));
    let events = events(&db);
    let codes: Vec<&str> = events.iter().map(|[_, _, code, ..]| &**code).collect();
    assert_eq!(codes, ["database-created", "ready", "note"]);
    let [_, level, _, message, fields] = &events[2];
    assert_eq!(level, "INFO");
    assert!(message.starts_with("note: x\\n2026-01-01") && !message.contains('\n'), "{message}");
    let fields: Value = serde_json::from_str(fields).expect("an object");
    assert_eq!(fields["text"], FORGED);
    let query = "SELECT time, code, message FROM statistics(EVENTS, 0) WHERE level <> 'INFO'";
    assert_eq!(db.call("@QueryStats", (query,)).tables[0].rows.len(), 0, "nothing to look at");
    server.stop();
}
