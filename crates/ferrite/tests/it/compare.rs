//! `ferrite bench compare` is done by the program `ferrite-compare` beside `ferrite`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// A folder with nothing but `ferrite`. On the disk of the original, so that a link will do.
fn alone() -> tempfile::TempDir {
    let original = Path::new(env!("CARGO_BIN_EXE_ferrite"));
    let folder = tempfile::tempdir_in(original.parent().unwrap()).unwrap();
    fs::hard_link(original, folder.path().join("ferrite")).unwrap();
    folder
}

fn compare(folder: &Path, options: &[&str]) -> Output {
    Command::new(folder.join("ferrite")).args(["bench", "compare"]).args(options).output().unwrap()
}

#[test]
fn a_missing_program_is_named_with_what_to_do() {
    let folder = alone();
    let output = compare(folder.path(), &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let program = folder.path().join("ferrite-compare");
    assert!(said.starts_with(&format!("ferrite: there is no {}", program.display())), "{said}");
    assert!(said.contains("cargo build --release --bin ferrite-compare"), "{said}");
}

#[test]
fn a_program_that_cannot_be_started_is_another_error() {
    let folder = alone();
    fs::write(folder.path().join("ferrite-compare"), "not executable").unwrap();
    let said = String::from_utf8_lossy(&compare(folder.path(), &[]).stderr).into_owned();
    assert!(said.starts_with("ferrite: starting ") && said.contains("ermission denied"), "{said}");
}

#[test]
fn the_program_gets_the_command_line_and_its_exit_code_is_ours() {
    let folder = alone();
    let program = folder.path().join("ferrite-compare");
    fs::write(&program, "#!/bin/sh\necho \"$@\"\necho \"$FERRITE_PROGRAM\"\nexit 7\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let output = compare(folder.path(), &["--systems", "redis", "--duration=2"]);
    assert_eq!(output.status.code(), Some(7));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let own = folder.path().join("ferrite").canonicalize().unwrap();
    assert_eq!(said, format!("bench compare --systems redis --duration=2\n{}\n", own.display()));
}

/// Help and mistakes need no program.
#[test]
fn options_are_understood_without_the_program() {
    let folder = alone();
    let output = compare(folder.path(), &["--help"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("Usage: ferrite bench compare [OPTIONS]"));
    let output = compare(folder.path(), &["--systems", "oracle"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("invalid value 'oracle'"));
}
