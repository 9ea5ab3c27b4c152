//! `ferrite check`: what of a schema and its classes would be refused here, or does less than it
//! says, all at once and without a server.

mod engine;
mod names;

use clap::Args;
use engine::{Engine, Finding, Severity};
use ferrite_base::limits::QUERY_TIME_MAX;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Nothing could be judged.
const UNREADABLE: u8 = 2;

#[derive(Args)]
#[command(
    after_help = "Exit status: 0: everything is accepted, perhaps with warnings. 1: something is refused. 2: a file cannot be read."
)]
pub struct Options {
    /// The schema: DDL as for `ferrite server --schema`, or a script as for `ferrite sql -f` or
    /// sqlcmd.
    #[arg(value_name = "SCHEMA.sql")]
    schema: PathBuf,
    /// Jars with the classes that the schema names. They are loaded before it.
    #[arg(value_name = "JAR")]
    jars: Vec<PathBuf>,
    /// Do not check the SQL in Java procedures. Finding it needs a JDK, and loads the classes,
    /// which runs their constructors.
    #[arg(long)]
    no_java: bool,
    /// Print one JSON object, for programs.
    #[arg(long)]
    json: bool,
}

pub fn run(options: &Options) -> ExitCode {
    let mut jars = Vec::new();
    for path in &options.jars {
        match std::fs::read(path) {
            Ok(jar) => jars.push((path.display().to_string(), jar)),
            Err(error) => return unreadable(path, &error),
        }
    }
    let text = match std::fs::read_to_string(&options.schema) {
        Ok(text) => text,
        Err(error) => return unreadable(&options.schema, &error),
    };
    let java = || ferrite_java::runtime(Vec::new(), QUERY_TIME_MAX, || std::process::exit(1));
    let mut engine = Engine::new((!options.no_java).then(java));
    for (name, jar) in jars {
        engine.jar(&name, &jar);
    }
    engine.script(&options.schema, &text);
    let found = engine.finish();
    let out = if options.json { as_json(&found) } else { as_text(&found) };
    // Whoever reads may have had enough.
    let _ = std::io::stdout().write_all(out.as_bytes());
    if found.count(Severity::Refused) == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn unreadable(path: &Path, error: &std::io::Error) -> ExitCode {
    ferrite_io::errln!("ferrite: {}", ferrite_shell::source::cannot_read(path, error));
    ExitCode::from(UNREADABLE)
}

/// A finding is `FILE:LINE:COLUMN: severity: words`, as compilers write it, with what belongs to it
/// below.
fn as_text(found: &engine::Found) -> String {
    let mut out = String::new();
    for Finding { file, place, severity, statement, message, detail, hint } in &found.findings {
        let at = place.map_or_else(String::new, |place| format!(":{}:{}", place.line, place.column));
        let first = message.lines().next().unwrap_or_default();
        let _ = writeln!(out, "{file}{at}: {}: {first}", severity.word());
        let below = message.lines().skip(1).map(str::to_owned).chain(detail.clone());
        below.for_each(|line| out.extend(["    ", line.trim(), "\n"]));
        if let Some(statement) = statement {
            out.extend(["    in: ", statement, "\n"]);
        }
        if let Some(hint) = hint {
            out.extend(["    hint: ", hint, "\n"]);
        }
    }
    let count = |severity| found.count(severity);
    let _ = writeln!(
        out,
        "{} statements and {} classes: {} refused, {} not judged, {} warnings",
        found.statements,
        found.classes,
        count(Severity::Refused),
        count(Severity::NotJudged),
        count(Severity::Warning)
    );
    out
}

fn as_json(found: &engine::Found) -> String {
    let finding = |finding: &Finding| {
        serde_json::json!({
            "file": finding.file,
            "line": finding.place.map(|place| place.line),
            "column": finding.place.map(|place| place.column),
            "severity": finding.severity.word(),
            "message": finding.message,
            "detail": finding.detail,
            "hint": finding.hint,
            "statement": finding.statement,
        })
    };
    let all = serde_json::json!({
        "statements": found.statements,
        "classes": found.classes,
        "refused": found.count(Severity::Refused),
        "notJudged": found.count(Severity::NotJudged),
        "warnings": found.count(Severity::Warning),
        "findings": found.findings.iter().map(finding).collect::<Vec<_>>(),
    });
    format!("{all:#}\n")
}
