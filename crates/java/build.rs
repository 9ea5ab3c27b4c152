//! Compiles the Java side of the bridge where there is a JDK, so that the server need not do it at
//! each of its starts. Where there is none, the jar is empty, and the server compiles the sources,
//! which it has too, with the JDK that it finds then.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

const FOLDERS: [&str; 2] = ["bridge", "../../clients/java/procedure-api/src/main/java"];

fn main() {
    println!("cargo::rerun-if-env-changed=JAVA_HOME");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where to write"));
    let mut sources = Vec::new();
    for folder in FOLDERS {
        println!("cargo::rerun-if-changed={folder}");
        find(Path::new(folder), &mut sources).expect("the sources can be listed");
    }
    sources.sort();
    let jar = out.join("bridge.jar");
    if let Err(reason) = compile(&out, &sources, &jar) {
        println!("cargo::warning=the server will compile its Java classes itself when it first needs them: {reason}");
        fs::write(&jar, "").expect("the jar can be written");
    }
}

fn find(folder: &Path, sources: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, sources)?;
        } else if path.extension().is_some_and(|extension| extension == "java") {
            sources.push(path);
        }
    }
    Ok(())
}

fn tool(name: &str) -> Command {
    match env::var_os("JAVA_HOME").filter(|home| !home.is_empty()) {
        Some(home) => Command::new(Path::new(&home).join("bin").join(name)),
        None => Command::new(name),
    }
}

fn compile(out: &Path, sources: &[PathBuf], jar: &Path) -> Result<(), String> {
    let classes = out.join("classes");
    let _ = fs::remove_dir_all(&classes);
    let mut javac = tool("javac");
    javac.args(["--release", "17", "-nowarn", "-proc:none", "-encoding", "UTF-8", "-d"]).arg(&classes).args(sources);
    run(&mut javac)?;
    let mut pack = tool("jar");
    // The same bytes for the same sources.
    pack.args(["--create", "--no-compress", "--no-manifest", "--date", "1980-01-02T00:00:00Z", "--file"]).arg(jar);
    run(pack.arg("-C").arg(&classes).arg("."))
}

fn run(command: &mut Command) -> Result<(), String> {
    let named = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{named}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{named}: {}", said.lines().next().unwrap_or_default())) }
}
