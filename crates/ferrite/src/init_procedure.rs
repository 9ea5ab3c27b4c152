//! `ferrite init-procedure NAME`: a Maven project with one Java procedure and its test, to begin
//! with.

use clap::Parser;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Parser)]
pub struct Options {
    /// Name of the procedure, its class and the new folder
    name: String,
    /// Where to create the folder
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    into: PathBuf,
}

/// Paths within the project, and texts; `@NAME@` stands for the name in both.
const FILES: &[(&str, &str)] = &[
    ("pom.xml", include_str!("../templates/procedure/pom.xml")),
    ("README.md", include_str!("../templates/procedure/README.md")),
    ("schema.sql", include_str!("../templates/procedure/schema.sql")),
    ("load.sql", include_str!("../templates/procedure/load.sql")),
    (".gitignore", "target/\n"),
    ("src/main/java/procedures/@NAME@.java", include_str!("../templates/procedure/Procedure.java")),
    ("src/test/java/procedures/@NAME@Test.java", include_str!("../templates/procedure/ProcedureTest.java")),
    ("src/test/java/procedures/TestServer.java", include_str!("../templates/procedure/TestServer.java")),
];

pub fn run(options: &Options) -> ExitCode {
    let name = &options.name;
    if let Some(why) = unfit(name) {
        ferrite_io::errln!("ferrite: {name} cannot be the name of a procedure: {why}");
        return ExitCode::FAILURE;
    }
    let folder = options.into.join(name);
    if let Err(error) = write(&folder, name) {
        ferrite_io::errln!("ferrite: {}: {error}", folder.display());
        return ExitCode::FAILURE;
    }
    ferrite_io::outln!("created {}: a procedure, its test, and a README with the next steps", folder.display());
    ferrite_io::outln!("  test it:  mvn test");
    ferrite_io::outln!("  load it:  mvn package && ferrite sql --file load.sql");
    ferrite_io::outln!("  call it:  ferrite sql --command \"exec {name} first 5\"");
    ExitCode::SUCCESS
}

/// What names nothing else in a Java project.
const TAKEN: &[&str] = &[
    "abstract",
    "assert",
    "boolean",
    "break",
    "byte",
    "case",
    "catch",
    "char",
    "class",
    "const",
    "continue",
    "default",
    "do",
    "double",
    "else",
    "enum",
    "extends",
    "final",
    "finally",
    "float",
    "for",
    "goto",
    "if",
    "implements",
    "import",
    "instanceof",
    "int",
    "interface",
    "long",
    "native",
    "new",
    "package",
    "private",
    "protected",
    "public",
    "return",
    "short",
    "static",
    "strictfp",
    "super",
    "switch",
    "synchronized",
    "this",
    "throw",
    "throws",
    "transient",
    "try",
    "void",
    "volatile",
    "while",
    "true",
    "false",
    "null",
    "record",
    "var",
    "yield",
    "sealed",
    "permits",
    // Classes that the project's files name: one of its own by such a name would be meant
    // instead.
    "AutoCloseable",
    "Exception",
    "Iterable",
    "Override",
    "Process",
    "ProcessBuilder",
    "SQLStmt",
    "String",
    "System",
    "VoltProcedure",
    "VoltTable",
];

/// Why a name is neither a class's nor a procedure's.
fn unfit(name: &str) -> Option<&'static str> {
    let letters = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !letters || !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Some("use letters, digits and _, beginning with a letter");
    }
    if TAKEN.contains(&name) {
        return Some("it is a reserved word or a well-known class of Java");
    }
    if name.len() > 100 {
        return Some("it is too long");
    }
    (name == "TestServer").then_some("the test has a class of that name")
}

/// Makes a new folder; one that is there stays as it is.
fn write(folder: &Path, name: &str) -> io::Result<()> {
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::create_dir(folder)?;
    for (path, text) in FILES {
        let path = folder.join(path.replace("@NAME@", name));
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, text.replace("@NAME@", name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_made_once_and_under_a_name_that_fits() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let make = |name: &str| run(&Options { name: name.to_owned(), into: dir.path().join("new") });
        assert_eq!(make("Count"), ExitCode::SUCCESS);
        for (path, _) in FILES {
            let text = fs::read_to_string(dir.path().join("new/Count").join(path.replace("@NAME@", "Count")));
            assert!(!text.expect("the file is there").contains("@NAME@"), "{path}");
        }
        let long = "a".repeat(101);
        for name in ["Count", "", "1st", "a-b", "a.b", "../x", "class", "TestServer", "String", "VoltTable", &long] {
            assert_eq!(make(name), ExitCode::FAILURE, "{name}");
        }
    }
}
