//! The Java side of the bridge. Its classes are part of this program, compiled with it where there
//! was a JDK (`build.rs`). Its sources are, too: where there was none, they are compiled with the
//! JDK that is found, when the JVM is first needed. So building this program needs no JDK, and
//! there is no compiled file in the repository to keep in step.

use crate::bridge_jar::{self, COMPILED};
use crate::locate::Jdk;
use ferrite_base::{ErrorKind, UserError, UserResult};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

macro_rules! sources {
    ($($name:literal: $path:literal;)*) => {
        &[$(($name, include_str!($path))),*]
    };
}

const SOURCES: &[(&str, &str)] = sources! {
    "org/voltcore/logging/Level.java": "../../../clients/java/procedure-api/src/main/java/org/voltcore/logging/Level.java";
    "org/voltcore/logging/VoltLogger.java": "../../../clients/java/procedure-api/src/main/java/org/voltcore/logging/VoltLogger.java";
    "org/voltdb/Bytes.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/Bytes.java";
    "org/voltdb/CallContext.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/CallContext.java";
    "org/voltdb/CompoundContext.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/CompoundContext.java";
    "org/voltdb/DeprecatedProcedureAPIAccess.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/DeprecatedProcedureAPIAccess.java";
    "org/voltdb/Expectation.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/Expectation.java";
    "org/voltdb/Json.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/Json.java";
    "org/voltdb/ProcInfo.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/ProcInfo.java";
    "org/voltdb/ProcedureContext.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/ProcedureContext.java";
    "org/voltdb/SQLFailureException.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/SQLFailureException.java";
    "org/voltdb/SQLStmt.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/SQLStmt.java";
    "org/voltdb/SQLStmtAdHocHelper.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/SQLStmtAdHocHelper.java";
    "org/voltdb/VoltCompoundProcedure.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/VoltCompoundProcedure.java";
    "org/voltdb/VoltNonTransactionalProcedure.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/VoltNonTransactionalProcedure.java";
    "org/voltdb/VoltOverflowException.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/VoltOverflowException.java";
    "org/voltdb/VoltProcedure.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/VoltProcedure.java";
    "org/voltdb/VoltTable.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/VoltTable.java";
    "org/voltdb/VoltTableRow.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/VoltTableRow.java";
    "org/voltdb/VoltType.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/VoltType.java";
    "org/voltdb/VoltTypeException.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/VoltTypeException.java";
    "org/voltdb/client/ClientResponse.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/client/ClientResponse.java";
    "org/voltdb/client/ClientResponseWithPartitionKey.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/client/ClientResponseWithPartitionKey.java";
    "org/voltdb/exceptions/ConstraintFailureException.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/exceptions/ConstraintFailureException.java";
    "org/voltdb/exceptions/SQLException.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/exceptions/SQLException.java";
    "org/voltdb/exceptions/SerializableException.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/exceptions/SerializableException.java";
    "org/voltdb/types/GeographyPointValue.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/types/GeographyPointValue.java";
    "org/voltdb/types/GeographyValue.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/types/GeographyValue.java";
    "org/voltdb/types/TimestampType.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/types/TimestampType.java";
    "org/voltdb/Bridge.java": "../bridge/org/voltdb/Bridge.java";
    "org/voltdb/CompoundCall.java": "../bridge/org/voltdb/CompoundCall.java";
    "org/voltdb/CompoundResponse.java": "../bridge/org/voltdb/CompoundResponse.java";
    "org/voltdb/WorkerPool.java": "../bridge/org/voltdb/WorkerPool.java";
    "org/voltdb/Decoder.java": "../bridge/org/voltdb/Decoder.java";
    "org/voltdb/Exchange.java": "../bridge/org/voltdb/Exchange.java";
    "org/voltdb/Failure.java": "../bridge/org/voltdb/Failure.java";
    "org/voltdb/FunctionClass.java": "../bridge/org/voltdb/FunctionClass.java";
    "org/voltdb/FutureCall.java": "../bridge/org/voltdb/FutureCall.java";
    "org/voltdb/JarLoader.java": "../bridge/org/voltdb/JarLoader.java";
    "org/voltdb/Lines.java": "../bridge/org/voltdb/Lines.java";
    "org/voltdb/ProcedureClass.java": "../bridge/org/voltdb/ProcedureClass.java";
    "org/voltdb/Runner.java": "../bridge/org/voltdb/Runner.java";
    "org/voltdb/StagedCall.java": "../bridge/org/voltdb/StagedCall.java";
    "org/voltdb/Watch.java": "../bridge/org/voltdb/Watch.java";
};

/// A jar with the compiled classes. It is needed until the JVM has opened it.
pub(crate) struct Compiled {
    pub jar: PathBuf,
    _folder: TempDir,
}

pub(crate) fn compiled(jdk: &Jdk) -> UserResult<Compiled> {
    if bridge_jar::is_missing() {
        compile(jdk)
    } else {
        unpack().map_err(|error| failed("unpacked", &error.to_string()))
    }
}

fn folder() -> std::io::Result<TempDir> {
    tempfile::Builder::new().prefix("ferrite-java-").tempdir()
}

/// The classes that were compiled with this program.
fn unpack() -> std::io::Result<Compiled> {
    let folder = folder()?;
    let jar = folder.path().join("bridge.jar");
    std::fs::write(&jar, COMPILED)?;
    Ok(Compiled { jar, _folder: folder })
}

#[cold]
fn failed(what: &str, why: &str) -> UserError {
    UserError::new(ErrorKind::Compile, "FE021", format!("the server's own Java classes could not be {what}"))
        .with_detail(why.to_owned())
        .with_hint("the JDK, or the folder for temporary files, cannot be used")
}

fn compile(jdk: &Jdk) -> UserResult<Compiled> {
    let failed = |why: &str| failed("compiled", why);
    let folder = folder().map_err(|error| failed(&error.to_string()))?;
    let mut compile = Command::new(jdk.home.join("bin/javac"));
    // The server's working directory may be gone.
    compile
        .current_dir(folder.path())
        .args(["--release", "17", "-nowarn", "-proc:none", "-encoding", "UTF-8", "-d"])
        .arg(folder.path().join("classes"));
    for (name, text) in SOURCES {
        let path = folder.path().join("sources").join(name);
        write(&path, text).map_err(|error| failed(&format!("{}: {error}", path.display())))?;
        compile.arg(path);
    }
    run(&mut compile).map_err(|what| failed(&what))?;
    let jar = folder.path().join("bridge.jar");
    let mut pack = Command::new(jdk.home.join("bin/jar"));
    pack.current_dir(folder.path())
        .args(["--create", "--no-compress", "--no-manifest", "--file"])
        .arg(&jar)
        .arg("-C")
        .arg(folder.path().join("classes"))
        .arg(".");
    run(&mut pack).map_err(|what| failed(&what))?;
    Ok(Compiled { jar, _folder: folder })
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, text)
}

fn run(command: &mut Command) -> Result<(), String> {
    let named = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{named}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    // Some faults the tools tell on their standard output.
    let said = [&output.stderr, &output.stdout].map(|bytes| String::from_utf8_lossy(bytes).trim().to_owned());
    Err(format!("{named} ended with {}\n{}", output.status, said.join("\n")).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_catalog::Classes;
    use ferrite_catalog::references::{PROCEDURE_API, api_of_class};

    /// With `FERRITE_WRITE_PROCEDURE_API` in its environment this writes the list anew. Without a
    /// JDK there is nothing to compare with.
    #[test]
    fn the_list_of_the_api_is_what_is_compiled() {
        let Ok(jdk) = crate::locate::find() else { return };
        if !jdk.home.join("bin/javac").is_file() {
            return;
        }
        let compiled = compile(&jdk).expect("the sources compile");
        let jar = std::fs::read(&compiled.jar).expect("a jar");
        let classes = Classes::default().with_jar(&jar).expect("a jar");
        let list: String = classes
            .class_names()
            .filter_map(|name| api_of_class(&classes.class_bytes(&name).expect("a class")))
            .collect();
        assert!(list.contains("\n getLong (I)J\n"), "{list}");
        if std::env::var_os("FERRITE_WRITE_PROCEDURE_API").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../catalog/src/procedure_api.txt");
            std::fs::write(path, &list).expect("the list can be written");
        }
        assert!(
            list == PROCEDURE_API,
            "crates/catalog/src/procedure_api.txt is not what the sources of the API say; write it anew with \
             FERRITE_WRITE_PROCEDURE_API=1 cargo test -p ferrite-java"
        );
    }

    /// What is compiled with the program and what it would compile itself are the same classes.
    #[test]
    fn the_classes_that_come_with_the_program_are_those_of_its_sources() {
        let Ok(jdk) = crate::locate::find() else { return };
        if bridge_jar::is_missing() || !jdk.home.join("bin/javac").is_file() {
            return;
        }
        let names = |compiled: &Compiled| -> Vec<String> {
            let jar = std::fs::read(&compiled.jar).expect("a jar");
            Classes::default().with_jar(&jar).expect("a jar").class_names().collect()
        };
        let here = compile(&jdk).expect("the sources compile");
        assert_eq!(names(&unpack().expect("the jar can be written")), names(&here));
    }
}
