//! Where the JDK is: `JAVA_HOME`, the `java` of the path, or the places where systems install them.

use crate::bridge_jar;
use ferrite_base::{ErrorKind, UserError, UserResult};
use std::env;
use std::path::{Path, PathBuf};

/// The oldest release that will do.
pub const JAVA_VERSION_MIN: u32 = 17;
/// Folders that hold JDKs.
const FOLDERS: [&str; 5] =
    ["/usr/lib/jvm", "/usr/java", "/opt/java", "/usr/local/java", "/Library/Java/JavaVirtualMachines"];
const LIBRARIES: [&str; 2] = ["lib/server/libjvm.so", "lib/server/libjvm.dylib"];

/// A JDK that can be used.
#[derive(Clone, Debug)]
pub struct Jdk {
    pub home: PathBuf,
    pub library: PathBuf,
}

/// The JDK to use. `JAVA_HOME` goes first, and where it does not fit that is an error, not a reason
/// to take another.
pub fn find() -> UserResult<Jdk> {
    if let Some(home) = env::var_os("JAVA_HOME").filter(|home| !home.is_empty()) {
        let home = PathBuf::from(home);
        return examine(&home).map_err(|reason| missing(&format!("JAVA_HOME is {}: {reason}", home.display())));
    }
    let on_path = env::var_os("PATH").and_then(|path| {
        let java = env::split_paths(&path).map(|folder| folder.join(program())).find(|java| java.is_file())?;
        Some(java.canonicalize().ok()?.parent()?.parent()?.to_path_buf())
    });
    let mut reasons = Vec::new();
    for home in on_path.into_iter().chain(installed()) {
        match examine(&home) {
            Ok(jdk) => return Ok(jdk),
            Err(reason) => reasons.push(format!("{}: {reason}", home.display())),
        }
    }
    Err(missing(&if reasons.is_empty() { "none was found".to_owned() } else { reasons.join("; ") }))
}

/// What a folder that will do has: a JRE is enough, unless the server must compile.
fn program() -> &'static str {
    if bridge_jar::is_missing() { "javac" } else { "java" }
}

fn installed() -> Vec<PathBuf> {
    let mut homes: Vec<PathBuf> = FOLDERS
        .iter()
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .flat_map(|home| [home.join("Contents/Home"), home])
        .filter(|home| home.join("bin").join(program()).is_file())
        .collect();
    homes.sort();
    homes
}

/// The JDK at `home`, or why there is none that would do.
fn examine(home: &Path) -> Result<Jdk, String> {
    let library = LIBRARIES.iter().map(|library| home.join(library)).find(|library| library.is_file());
    let library = library.ok_or("there is no JVM (lib/server/libjvm.so)")?;
    let release = std::fs::read_to_string(home.join("release")).unwrap_or_default();
    let version = major_version(&release).ok_or("its release file does not tell the version")?;
    if version < JAVA_VERSION_MIN {
        return Err(format!("it is version {version}, {JAVA_VERSION_MIN} or newer is needed"));
    }
    if bridge_jar::is_missing() && !home.join("bin/javac").is_file() {
        return Err("it is only a JRE, without javac".to_owned());
    }
    Ok(Jdk { home: home.to_path_buf(), library })
}

/// From the line `JAVA_VERSION="17.0.15"`.
fn major_version(release: &str) -> Option<u32> {
    let line = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION="))?;
    let digits: String = line.trim_matches('"').chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn missing(detail: &str) -> UserError {
    UserError::new(ErrorKind::Compile, "FE020", "Java procedures need a JDK, and there is none that can be used")
        .with_detail(detail.to_owned())
        .with_hint(format!(
            "install a JDK of version {JAVA_VERSION_MIN} or newer (on Debian: apt-get install default-jdk-headless), or let JAVA_HOME say \
             where it is, and start the server again"
        ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(major_version("A=\"b\"\nJAVA_VERSION=\"17.0.15\"\n"), Some(17));
        assert_eq!(major_version("JAVA_VERSION=\"21\""), Some(21));
        assert_eq!(major_version("JAVA_VERSION=\"1.8.0_292\""), Some(1));
        assert_eq!(major_version(""), None);
    }

    #[test]
    fn a_folder_without_a_jvm_says_so() {
        let reason = examine(Path::new("/nonexistent")).unwrap_err();
        assert!(reason.contains("libjvm"), "{reason}");
        assert!(missing("none was found").hint().is_some_and(|hint| hint.contains("JAVA_HOME")));
    }
}
