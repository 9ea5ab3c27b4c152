//! What docs/quick-start.md tells a newcomer to type, and what it says they will see.

use crate::common::Server;
use std::path::Path;
use std::process::Command;

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The first fenced block in this language, and what follows it.
fn block<'t>(text: &'t str, language: &str) -> (&'t str, &'t str) {
    let (_, rest) = text.split_once(&format!("```{language}\n")).expect("the page has such a block");
    rest.split_once("```\n").expect("the block ends")
}

#[test]
fn the_sql_runs_and_shows_what_the_page_shows() {
    let page = file("docs/quick-start.md");
    let (script, after) = block(&page, "sql");
    let shown: Vec<&str> =
        after.lines().skip_while(|line| line.is_empty()).take_while(|line| !line.is_empty()).collect();
    let shown: String = shown.iter().map(|line| format!("{}\n", line.trim_start_matches("    "))).collect();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Server::start(&dir.path().join("bank"), &[]);
    let path = dir.path().join("script.sql");
    std::fs::write(&path, script).expect("the file can be written");
    let run = || {
        let mut shell = Command::new(env!("CARGO_BIN_EXE_ferrite"));
        shell.args(["sql", "--server", &server.address, "-f"]).arg(&path).output().expect("it can be started")
    };
    let output = run();
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{error}");
    let trimmed = |text: &str| text.lines().map(|line| format!("{}\n", line.trim())).collect::<String>();
    assert!(trimmed(&out).contains(&trimmed(&shown)), "the page shows\n{shown}\nthe shell\n{out}");
    // Whoever does it twice is told what to do.
    let again = run();
    let error = String::from_utf8_lossy(&again.stderr);
    assert!(error.contains("object name already exists: ACCOUNTS") && error.contains("hint: drop it first"), "{error}");
    server.stop();
}

#[test]
fn the_java_project_names_the_driver_as_it_is() {
    let page = file("docs/quick-start.md");
    let (project, _) = block(&page, "xml");
    let driver = file("clients/java/driver/pom.xml");
    let start = driver.find("<groupId>io.ferritedb").expect("the driver's group");
    let end = start + driver[start..].find("</version>").expect("the driver's version");
    let plain = |text: &str| text.split_whitespace().collect::<String>();
    assert!(plain(project).contains(&plain(&driver[start..end])), "{project}");
    let plugin = driver.find("<artifactId>maven-compiler-plugin").expect("the compiler");
    let end = plugin + driver[plugin..].find("</version>").expect("the compiler's version");
    assert!(plain(project).contains(&plain(&driver[plugin..end])), "{project}");
}
