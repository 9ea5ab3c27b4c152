//! The program, as `ferrite bench compare` starts it.

use std::process::Command;

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrite-compare"));
    command.args(["bench", "compare"]);
    command
}

/// SQLite's library is on every machine that builds this with Python; where it is not, that is what
/// the program says.
#[test]
fn a_result_has_the_command_line_of_the_bench() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("result.json");
    let options = ["--systems", "sqlite", "--workloads", "read", "--duration", "0.2", "--warmup", "0", "--json"];
    let output = program().args(options).arg(&file).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    if error.contains("not installed") {
        assert!(error.contains("libsqlite3-0"), "{error}");
        return;
    }
    assert!(output.status.success(), "{error}");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!((json["bench"].as_str(), json["results"].as_array().map(Vec::len)), (Some("compare"), Some(2)));
    let line: Vec<&str> = json["command_line"].as_array().unwrap().iter().filter_map(|word| word.as_str()).collect();
    assert_eq!(line[..4], ["bench", "compare", "--systems", "sqlite"]);
}

#[test]
fn the_server_is_the_program_that_started_it() {
    let output =
        program().args(["--systems", "ferrite"]).env("FERRITE_PROGRAM", "/absent/other-name").output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.starts_with("ferrite: starting /absent/other-name"), "{error}");
}
