//! What a run leaves behind: one JSON file for every kind of run, so that runs can be compared by
//! `ferrite bench diff`.
//!
//! At the top stand which bench it was, when, with which command line, by which version, on which
//! machine; beside them the fields of the run itself. Parts of a run that repeat, such as the
//! points of a curve, are lists of objects with a `name`.

use crate::error::{BenchResult, Doing};
use serde::Serialize;
use std::fs::OpenOptions;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Serialize)]
struct Kept<'a, T> {
    bench: &'a str,
    ferrite: &'static str,
    /// Figures of a build without optimisation, or with assertions, compare with their like only.
    build: &'static str,
    finished_unix_seconds: u64,
    command_line: Vec<String>,
    machine: Machine,
    #[serde(flatten)]
    run: &'a T,
}

/// Where it ran, as far as figures depend on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    pub cores: usize,
    pub processor: Option<String>,
    pub memory_megabytes: Option<u64>,
    pub kernel: Option<String>,
}

impl Machine {
    pub fn here() -> Machine {
        let read = |file: &str| std::fs::read_to_string(file).ok();
        Machine {
            cores: cores(),
            processor: read("/proc/cpuinfo").and_then(|text| after_colon(&text, "model name").map(str::to_string)),
            memory_megabytes: read("/proc/meminfo").and_then(|text| {
                let kilobytes: u64 = after_colon(&text, "MemTotal")?.trim_end_matches(" kB").parse().ok()?;
                Some(kilobytes / 1024)
            }),
            kernel: read("/proc/sys/kernel/osrelease").map(|text| text.trim().to_string()),
        }
    }

    /// One line for the heading of a report.
    pub fn line(&self) -> String {
        let cores = format!("{} core{}", self.cores, if self.cores == 1 { "" } else { "s" });
        let memory = self.memory_megabytes.map(|megabytes| format!("{:.0} GiB", megabytes as f64 / 1024.0));
        let kernel = self.kernel.as_ref().map(|kernel| format!("Linux {kernel}"));
        [Some(cores), self.processor.clone(), memory, kernel].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// Cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn after_colon<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

/// Writes what a run has found. `run` must become a JSON object.
pub fn keep(file: Option<&Path>, bench: &str, run: &impl Serialize) -> BenchResult<()> {
    let Some(file) = file else { return Ok(()) };
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let kept = Kept {
        bench,
        ferrite: env!("CARGO_PKG_VERSION"),
        build: if cfg!(debug_assertions) { "with assertions" } else { "release" },
        finished_unix_seconds: since_1970.as_secs(),
        command_line: std::env::args().skip(1).collect(),
        machine: Machine::here(),
        run,
    };
    let mut json = serde_json::to_vec_pretty(&kept).map_err(std::io::Error::from).doing("writing the report")?;
    json.push(b'\n');
    std::fs::write(file, json).doing(format_args!("writing {}", file.display()))
}

/// Whether a file can be written, asked before a run of hours and not after it.
pub fn check_writable(file: &Path) -> BenchResult<()> {
    let opened = OpenOptions::new().create(true).append(true).open(file);
    opened.map(drop).doing(format_args!("making {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Run {
        transactions_per_second: f64,
    }

    #[test]
    fn every_file_says_what_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("run.json");
        check_writable(&file).unwrap();
        keep(Some(&file), "voter", &Run { transactions_per_second: 2.5 }).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        assert_eq!((json["bench"].as_str(), json["transactions_per_second"].as_f64()), (Some("voter"), Some(2.5)));
        assert_eq!(json["machine"]["cores"].as_u64(), Some(cores() as u64));
        keep(None, "voter", &Run { transactions_per_second: 1.0 }).unwrap();
        let error = check_writable(&directory.path().join("absent").join("run.json")).unwrap_err();
        assert!(error.to_string().contains("run.json"), "{error}");
    }

    #[test]
    fn proc_files_are_read_by_name() {
        assert_eq!(after_colon("a: 1\nMemTotal:   24 kB\n", "MemTotal"), Some("24 kB"));
        assert_eq!(after_colon("nothing\n", "MemTotal"), None);
        assert!(Machine::here().line().contains("core"));
    }
}
