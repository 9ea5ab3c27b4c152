//! The layout that ARCHITECTURE.md draws, as a test: which crate may depend on which, which crate
//! may use which library, and which crates must not touch the world outside. A new arrow is a
//! decision: it is added here or it does not land.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Every crate from the floor up, with the crates of ours that it may use. A crate may name only
/// crates above it in this list.
const ARROWS: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("notice", &["base"]),
    ("io", &["base", "notice"]),
    ("value", &["base"]),
    ("expr", &["base", "value"]),
    ("wire", &["base", "value"]),
    ("client", &["base", "value", "wire"]),
    ("catalog", &["base", "value", "expr"]),
    ("plan", &["base", "value", "expr", "catalog"]),
    ("sql", &["base", "value", "expr", "catalog", "plan"]),
    ("table", &["base", "value", "expr", "catalog"]),
    ("snapshot", &["base", "io", "table"]),
    ("exec", &["base", "value", "expr", "catalog", "plan", "table"]),
    ("log", &["base", "notice", "io"]),
    ("replica", &["base"]),
    ("multi", &["base"]),
    ("isolation", &[]),
    ("meta", &["base", "notice", "io", "replica"]),
    ("peer", &["base", "notice", "io"]),
    ("group", &["base", "io", "log", "replica"]),
    (
        "partition",
        &[
            "base", "notice", "io", "value", "expr", "wire", "catalog", "plan", "sql", "table", "snapshot", "exec",
            "log", "replica", "multi", "group",
        ],
    ),
    ("cluster", &["base", "notice", "io", "replica", "meta", "group", "partition"]),
    ("backup", &["base", "io", "value", "wire", "catalog", "table", "snapshot", "partition"]),
    (
        "system",
        &["base", "io", "value", "expr", "wire", "catalog", "plan", "sql", "snapshot", "log", "partition", "backup"],
    ),
    (
        "member",
        &[
            "base",
            "notice",
            "io",
            "value",
            "wire",
            "plan",
            "snapshot",
            "partition",
            "log",
            "system",
            "replica",
            "multi",
            "meta",
            "group",
            "peer",
            "cluster",
        ],
    ),
    (
        "node",
        &[
            "base",
            "notice",
            "io",
            "value",
            "wire",
            "catalog",
            "plan",
            "sql",
            "snapshot",
            "partition",
            "backup",
            "log",
            "system",
            "meta",
            "group",
            "cluster",
            "member",
        ],
    ),
    (
        "sim",
        &[
            "base",
            "notice",
            "io",
            "value",
            "isolation",
            "wire",
            "catalog",
            "plan",
            "sql",
            "table",
            "snapshot",
            "log",
            "replica",
            "meta",
            "group",
            "partition",
            "cluster",
            "backup",
            "member",
            "node",
        ],
    ),
    ("java", &["base", "notice", "io", "value", "expr", "wire", "catalog", "plan"]),
    ("bench", &["base", "io", "value", "wire", "client"]),
    ("torture", &["value", "client", "isolation", "bench"]),
    ("compare", &["bench"]),
    ("shell", &["base", "io", "value", "wire", "client"]),
    (
        "ferrite",
        &[
            "base",
            "notice",
            "io",
            "value",
            "catalog",
            "plan",
            "sql",
            "partition",
            "member",
            "node",
            "java",
            "client",
            "bench",
            "torture",
            "shell",
        ],
    ),
    ("differential", &["base", "value", "expr", "catalog", "plan", "sql", "table", "exec"]),
];

/// Libraries that belong to certain crates only. The others (hash functions, arenas and the like)
/// may be used anywhere.
const LIBRARIES: &[(&str, &[&str])] = &[
    ("arc-swap", &["member", "node"]),
    ("base64", &["catalog"]),
    ("clap", &["bench", "torture", "compare", "shell", "sim", "ferrite"]),
    ("crossbeam-channel", &["peer", "partition", "cluster", "member", "node", "sim"]),
    ("flate2", &["catalog", "system", "shell"]),
    ("hdrhistogram", &["bench", "node"]),
    ("jiff", &["notice", "expr"]),
    ("jni", &["java"]),
    ("libloading", &["compare"]),
    ("mimalloc", &["ferrite", "compare"]),
    ("mio", &["peer", "member", "node", "client", "bench", "compare", "shell"]),
    ("raft", &["meta"]),
    ("ratatui", &["bench", "ferrite"]),
    ("regex", &["expr"]),
    ("rustix", &["base", "io", "system", "peer", "node", "java", "client", "bench", "compare", "shell", "ferrite"]),
    ("rustyline", &["shell"]),
    ("serde", &["notice", "bench", "torture", "compare"]),
    ("serde_json", &["notice", "io", "bench", "shell", "ferrite"]),
    ("sha2", &["client", "partition"]),
    ("signal-hook", &["bench", "shell", "ferrite"]),
    ("slog", &["meta"]),
    ("sqlparser", &["sql"]),
    ("tempfile", &["bench", "torture", "compare", "java"]),
    ("unicode-width", &["shell"]),
];

/// Libraries for tests and benchmarks: never among a crate's own dependencies.
const TEST_ONLY: &[&str] = &["bolero", "proptest"];

/// Crates whose behaviour is a function of what they are given: a simulator can run them, and a
/// seed repeats them.
const PURE: &[&str] =
    &["notice", "value", "expr", "wire", "catalog", "plan", "sql", "table", "exec", "replica", "meta", "isolation"];

/// What a pure crate may not mention outside its tests. (`std::net` holds plain address types too;
/// sockets are what is barred.)
const OUTSIDE: &[&str] = &[
    "std::fs",
    "std::thread",
    "std::process",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "Instant::now",
    "SystemTime",
    "thread_rng",
    "RandomState::new",
];

struct Manifest {
    name: String,
    directory: PathBuf,
    dependencies: BTreeSet<String>,
    development: BTreeSet<String>,
}

fn crates_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate lies in crates/").to_path_buf()
}

/// Reads the dependency names of a manifest. Ours are all one line per dependency, which the parser
/// relies on and checks.
fn read_manifest(directory: &Path) -> Manifest {
    let text = std::fs::read_to_string(directory.join("Cargo.toml")).expect("a crate has a manifest");
    let mut manifest = Manifest {
        name: directory.file_name().expect("a crate has a name").to_string_lossy().into_owned(),
        directory: directory.to_path_buf(),
        dependencies: BTreeSet::new(),
        development: BTreeSet::new(),
    };
    let mut section = String::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            assert!(!line.contains("dependencies."), "{}: write the dependency on one line: {line}", manifest.name);
            section = line.trim_matches(['[', ']']).to_string();
            continue;
        }
        let Some((key, _)) = line.split_once('=') else { continue };
        if line.starts_with('#') {
            continue;
        }
        let of_workspace = key.trim().ends_with(".workspace") || line.contains("workspace = true");
        let declares = section.ends_with("dependencies");
        assert!(!declares || of_workspace, "{}: the workspace names versions, not {line}", manifest.name);
        let name = key.trim().trim_end_matches(".workspace").trim_matches('"').to_string();
        match section.as_str() {
            "dependencies" | "build-dependencies" => manifest.dependencies.insert(name),
            "dev-dependencies" => manifest.development.insert(name),
            target if target.starts_with("target.") && target.ends_with(".dependencies") => {
                manifest.dependencies.insert(name)
            }
            _ => false,
        };
    }
    manifest
}

fn manifests() -> Vec<Manifest> {
    let mut found: Vec<Manifest> = std::fs::read_dir(crates_directory())
        .expect("crates/ is readable")
        .map(|entry| entry.expect("crates/ is readable").path())
        .filter(|path| path.join("Cargo.toml").is_file())
        .map(|path| read_manifest(&path))
        .collect();
    found.sort_by(|left, right| left.name.cmp(&right.name));
    found
}

fn own_crate(dependency: &str) -> Option<&str> {
    dependency.strip_prefix("ferrite-")
}

#[test]
fn every_crate_is_drawn_in_the_layout() {
    let drawn: BTreeSet<String> = ARROWS.iter().map(|(name, _)| name.to_string()).collect();
    let found: BTreeSet<String> = manifests().into_iter().map(|manifest| manifest.name).collect();
    assert_eq!(found, drawn, "crates/ and the layout in this test differ");
}

#[test]
fn the_layout_points_down() {
    let mut above = BTreeSet::new();
    for (name, uses) in ARROWS {
        for used in *uses {
            assert!(above.contains(used), "{name} may not use {used}: it stands at the same height or higher");
        }
        above.insert(*name);
    }
}

#[test]
fn crates_depend_only_along_the_arrows() {
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let height = |name: &str| ARROWS.iter().position(|(other, _)| *other == name);
    for manifest in manifests() {
        let uses = allowed[manifest.name.as_str()];
        for dependency in manifest.dependencies.iter().filter_map(|name| own_crate(name)) {
            assert!(uses.contains(&dependency), "{} must not depend on {dependency}", manifest.name);
        }
        // Tests may reach for more, but not upwards.
        for dependency in manifest.development.iter().filter_map(|name| own_crate(name)) {
            assert!(height(dependency) < height(&manifest.name), "{}'s tests must not use {dependency}", manifest.name);
        }
    }
}

#[test]
fn libraries_stay_in_their_crates() {
    let owners: BTreeMap<&str, &[&str]> = LIBRARIES.iter().copied().collect();
    for manifest in manifests() {
        for dependency in manifest.dependencies.iter().filter(|name| own_crate(name).is_none()) {
            assert!(!TEST_ONLY.contains(&dependency.as_str()), "{} ships the test library {dependency}", manifest.name);
            if let Some(owners) = owners.get(dependency.as_str()) {
                assert!(owners.contains(&manifest.name.as_str()), "{} must not use {dependency}", manifest.name);
            }
        }
    }
}

#[test]
fn pure_crates_do_not_touch_the_world() {
    for manifest in manifests().iter().filter(|manifest| PURE.contains(&manifest.name.as_str())) {
        for library in ["mio", "rustix", "crossbeam-channel", "tempfile"] {
            assert!(!manifest.dependencies.contains(library), "{} is pure and must not use {library}", manifest.name);
        }
        for (path, text) in source_files(&manifest.directory.join("src")) {
            for word in OUTSIDE {
                assert!(!text.contains(word), "{} is in a pure crate and mentions {word}", path.display());
            }
        }
    }
}

#[test]
fn files_are_reached_through_the_io_seam_only() {
    for manifest in
        manifests().iter().filter(|manifest| ["log", "snapshot", "partition"].contains(&manifest.name.as_str()))
    {
        for (path, text) in source_files(&manifest.directory.join("src")) {
            for word in ["std::fs::", "use std::fs"] {
                assert!(!text.contains(word), "{} goes around the io seam: {word}", path.display());
            }
        }
    }
}

#[test]
fn every_library_has_its_reason_written_down() {
    let root = crates_directory().parent().expect("crates/ lies in the repository").to_path_buf();
    let reasons = std::fs::read_to_string(root.join("docs/dependencies.md")).expect("docs/dependencies.md exists");
    let workspace = std::fs::read_to_string(root.join("Cargo.toml")).expect("the workspace has a manifest");
    let declared = workspace
        .lines()
        .skip_while(|line| line.trim() != "[workspace.dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name.trim())
        .filter(|name| own_crate(name).is_none() && !name.starts_with('#'));
    for name in declared {
        assert!(reasons.contains(&format!("`{name}`")), "docs/dependencies.md gives no reason for {name}");
    }
}

/// The sources under a directory with comments and test modules left out.
fn source_files(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a crate has sources") {
        let path = entry.expect("a crate's sources are readable").path();
        if path.is_dir() {
            found.extend(source_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            let text = std::fs::read_to_string(&path).expect("a source file is text");
            let shipped = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
            let code: Vec<&str> = shipped.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
            found.push((path, code.join("\n")));
        }
    }
    found
}
