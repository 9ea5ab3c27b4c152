//! The Java side of the bridge: its sources are part of this program and are compiled with the JDK that is found, when it is first needed. So
//! neither building this program nor running it without Java procedures needs a JDK, and there is no compiled file to keep in step.

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
    "org/voltdb/Bytes.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/Bytes.java";
    "org/voltdb/CallContext.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/CallContext.java";
    "org/voltdb/CompoundContext.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/CompoundContext.java";
    "org/voltdb/Expectation.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/Expectation.java";
    "org/voltdb/Json.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/Json.java";
    "org/voltdb/ProcInfo.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/ProcInfo.java";
    "org/voltdb/ProcedureContext.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/ProcedureContext.java";
    "org/voltdb/SQLFailureException.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/SQLFailureException.java";
    "org/voltdb/SQLStmt.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/SQLStmt.java";
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
    "org/voltdb/types/GeographyPointValue.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/types/GeographyPointValue.java";
    "org/voltdb/types/GeographyValue.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/types/GeographyValue.java";
    "org/voltdb/types/TimestampType.java": "../../../clients/java/procedure-api/src/main/java/org/voltdb/types/TimestampType.java";
    "org/voltdb/Bridge.java": "../bridge/org/voltdb/Bridge.java";
    "org/voltdb/CompoundCall.java": "../bridge/org/voltdb/CompoundCall.java";
    "org/voltdb/CompoundResponse.java": "../bridge/org/voltdb/CompoundResponse.java";
    "org/voltdb/Crew.java": "../bridge/org/voltdb/Crew.java";
    "org/voltdb/Decoder.java": "../bridge/org/voltdb/Decoder.java";
    "org/voltdb/Exchange.java": "../bridge/org/voltdb/Exchange.java";
    "org/voltdb/Failure.java": "../bridge/org/voltdb/Failure.java";
    "org/voltdb/FunctionClass.java": "../bridge/org/voltdb/FunctionClass.java";
    "org/voltdb/FutureCall.java": "../bridge/org/voltdb/FutureCall.java";
    "org/voltdb/JarLoader.java": "../bridge/org/voltdb/JarLoader.java";
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

pub(crate) fn compile(jdk: &Jdk) -> UserResult<Compiled> {
    let failed = |what: &str| {
        UserError::new(ErrorKind::Compile, "FE021", "the server's own Java classes could not be compiled")
            .with_detail(what.to_owned())
            .with_hint("the JDK, or the folder for temporary files, cannot be used")
    };
    let folder =
        tempfile::Builder::new().prefix("ferrite-java-").tempdir().map_err(|error| failed(&error.to_string()))?;
    let mut compile = Command::new(jdk.home.join("bin/javac"));
    compile
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
    pack.args(["--create", "--no-compress", "--no-manifest", "--file"])
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
    let output = command.output().map_err(|error| format!("{}: {error}", command.get_program().to_string_lossy()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}
