//! `ferrite sql`, `load` and `dump` as processes against a server process: what they print is kept
//! in the files beside.
//!
//! A case is a line `$ WORDS`, then lines `< TEXT` for its standard input, then what it prints,
//! standard output before standard error, then `[exit N]` if that is not 0. `= FILE` begins a file
//! that is made first. Times are blotted out.
//!
//! `GOLDEN=write cargo test -p ferrite --test it shell::` writes the files anew: look at the
//! difference.

use crate::common::Server;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One case of a file, with the lines before it that belong to nothing.
struct Case {
    before: String,
    files: Vec<(String, String)>,
    line: String,
    input: Vec<String>,
    expected: String,
}

fn parse(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let (mut before, mut files): (String, Vec<(String, String)>) = Default::default();
    let mut in_case = false;
    for line in text.lines() {
        if let Some(words) = line.strip_prefix("$ ") {
            let (before, files) = (std::mem::take(&mut before), std::mem::take(&mut files));
            cases.push(Case { before, files, line: words.into(), input: Vec::new(), expected: String::new() });
            in_case = true;
        } else if let Some(name) = line.strip_prefix("= ") {
            files.push((name.to_owned(), String::new()));
            in_case = false;
        } else if let (false, Some((_, content))) = (in_case, files.last_mut()) {
            content.push_str(line.strip_prefix('.').unwrap_or(line));
            content.push('\n');
        } else if let Some(comment) = line.strip_prefix("#! ") {
            before.push_str(&format!("#! {comment}\n"));
            in_case = false;
        } else if let (true, Some(case)) = (in_case, cases.last_mut()) {
            match line.strip_prefix("< ") {
                Some(input) => case.input.push(input.to_owned()),
                None => case.expected.push_str(&format!("{line}\n")),
            }
        }
    }
    cases
}

/// Words as a POSIX shell splits them, as far as cases need it.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in line.chars() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (Some(_), other) => word.get_or_insert_default().push(other),
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, other) => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

/// Numbers before a unit of time, and rates, become `T`.
fn without_times(text: &str) -> String {
    let mut out = String::new();
    for (index, line) in text.lines().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let words: Vec<&str> = line.split(' ').collect();
        let blotted = words.iter().enumerate().map(|(at, word)| {
            let next = words.get(at + 1).copied().unwrap_or_default();
            let number = word.trim_start_matches('(').starts_with(|first: char| first.is_ascii_digit());
            let is_time = ["ms", "s,", "s)", "rows/s"].iter().any(|unit| next.starts_with(unit)) && number;
            if is_time {
                word.trim_end_matches(|other: char| other.is_ascii_digit() || ".,".contains(other)).to_owned() + "T"
            } else {
                (*word).to_owned()
            }
        });
        out.push_str(&blotted.collect::<Vec<_>>().join(" "));
    }
    out.push_str(if text.ends_with('\n') { "\n" } else { "" });
    out
}

fn run(server: &Server, directory: &Path, case: &Case) -> String {
    for (name, content) in &case.files {
        std::fs::write(directory.join(name), content).expect("a file for the case");
    }
    let words = words(&case.line);
    let mut child = Command::new(env!("CARGO_BIN_EXE_ferrite"))
        .args(&words)
        .env("FERRITE_SERVER", &server.address)
        .env_remove("NO_COLOR")
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program under test can be started");
    let mut input = child.stdin.take().expect("stdin is a pipe");
    let lines: String = case.input.iter().map(|line| format!("{line}\n")).collect();
    // A program that fails early does not read its input.
    let _ = input.write_all(lines.as_bytes());
    drop(input);
    let output = child.wait_with_output().expect("the program ends");
    let mut shown = String::from_utf8(output.stdout).expect("stdout is text");
    if !shown.is_empty() && !shown.ends_with('\n') {
        shown.push('\n');
    }
    shown.push_str(&String::from_utf8(output.stderr).expect("stderr is text"));
    if !output.status.success() {
        shown.push_str(&format!("[exit {}]\n", output.status.code().expect("it ended by itself")));
    }
    let directory = directory.canonicalize().expect("it is there");
    let shown = shown.replace(&*directory.to_string_lossy(), "DIRECTORY");
    without_times(&shown.replace(&server.address, "SERVER"))
}

fn check(name: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/shell").join(name);
    let text = std::fs::read_to_string(&path).expect("the golden file");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let server = Server::start(&directory.path().join("data"), &["--partitions", "2", "--durability", "none"]);
    let write = std::env::var_os("GOLDEN").is_some_and(|value| value == "write");
    let mut written = String::new();
    for case in parse(&text) {
        let got = run(&server, directory.path(), &case);
        if write {
            written.push_str(&case.before);
            for (name, content) in &case.files {
                written.push_str(&format!("= {name}\n"));
                let escaped = content.lines().map(|line| {
                    let special = [".", "$ ", "= ", "#! "].iter().any(|start| line.starts_with(start));
                    format!("{}{line}\n", if special { "." } else { "" })
                });
                written.extend(escaped);
            }
            written.push_str(&format!("$ {}\n", case.line));
            written.extend(case.input.iter().map(|line| format!("< {line}\n")));
            written.push_str(&format!("{}\n\n", got.trim_end()).replace("\n\n\n", "\n\n"));
            continue;
        }
        assert_eq!(got.trim_end(), case.expected.trim_end(), "{name}: $ {}", case.line);
    }
    if write {
        std::fs::write(&path, format!("{}\n", written.trim_end())).expect("the golden file can be written");
    }
    server.stop();
}

#[test]
fn results_look_as_they_should() {
    check("results.golden");
}

#[test]
fn errors_point_and_hint() {
    check("errors.golden");
}

#[test]
fn commands_do_what_they_say() {
    check("commands.golden");
}

#[test]
fn files_are_loaded() {
    check("load.golden");
}

/// Of several addresses those that are up are used, wherever they are in the list.
#[test]
fn addresses_that_are_down_are_passed_over() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let server = Server::start(&folder.path().join("data"), &["--partitions", "1", "--durability", "none"]);
    let db = server.connect();
    db.sql("CREATE TABLE t (id BIGINT NOT NULL, PRIMARY KEY (id))");
    let ports = ferrite_bench::cluster::free_ports(2).expect("free ports");
    let servers = format!("127.0.0.1:{},{},127.0.0.1:{}", ports[0], server.address, ports[1]);
    std::fs::write(folder.path().join("one.csv"), "1\n2\n").expect("a file");
    std::fs::write(folder.path().join("two.csv"), "3\n4\n5\n").expect("a file");
    let bench = ["bench", "kv", "--duration", "1", "--warmup", "0", "--pool-size", "1000"];
    let commands: [&[&str]; 4] =
        [&["load", "t", "one.csv"], &["sql", "-c", "\\copy t from 'two.csv'"], &["dump", "t"], &bench];
    for command in commands {
        let mut run = Command::new(env!("CARGO_BIN_EXE_ferrite"));
        let output = run.args(command).args(["--server", &servers]).current_dir(folder.path()).output();
        let output = output.expect("the program under test can be started");
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(db.scalar("SELECT COUNT(*) FROM t"), 5);
    // Where none is up, the reason is told.
    let servers = format!("127.0.0.1:{},127.0.0.1:{}", ports[0], ports[1]);
    for command in [&["load", "t", "one.csv"][..], &bench] {
        let mut run = Command::new(env!("CARGO_BIN_EXE_ferrite"));
        let output = run.args(command).args(["--server", &servers]).current_dir(folder.path()).output();
        let output = output.expect("the program under test can be started");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(&format!("127.0.0.1:{}", ports[1])), "{said}");
    }
    server.stop();
}
