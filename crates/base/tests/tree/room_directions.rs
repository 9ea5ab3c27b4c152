//! Arrows inside a crate that were cut, and stay cut: which room may not use which.
//!
//! A crate's own story has a direction, as the crates have one (see `crate_directions.rs`). Of
//! `sql` it is parse, bind, plan: a later step takes what an earlier one made and knows nothing of
//! how.

use std::path::{Path, PathBuf};

/// In these files of a crate these paths do not occur.
const CUT: &[(&str, &str, &[&str])] = &[
    ("sql", "planner", &["crate::bind", "crate::parse", "crate::compile", "crate::ddl", "sqlparser"]),
    // It fills what the planner is given, and plans nothing.
    ("sql", "bind", &["crate::compile", "crate::ddl", "plan_statement", "plan_query", "plan_expression"]),
    ("sql", "bind", &["planner::routing", "planner::access", "planner::{", "planner::*"]),
    ("sql", "compile", &["crate::ddl"]),
    ("sql", "parse", &["crate::bind", "crate::planner", "crate::compile", "crate::ddl"]),
    ("sql", "errors.rs", &["crate::bind", "crate::parse", "crate::planner", "crate::compile", "crate::ddl"]),
    ("sql", "explaining.rs", &["crate::bind", "crate::compile", "crate::ddl"]),
    ("sql", "spelling.rs", &["crate::"]),
    // Leaves: what threads of a node tell each other, and what they look at.
    ("node", "message.rs", &["crate::"]),
    ("node", "mode.rs", &["crate::"]),
    ("node", "connections.rs", &["crate::"]),
    ("node", "routes.rs", &["crate::"]),
    ("node", "cancelling.rs", &["crate::"]),
];

fn sources(place: &Path) -> Vec<PathBuf> {
    if place.is_file() {
        return vec![place.to_owned()];
    }
    let entries = std::fs::read_dir(place).unwrap_or_else(|error| panic!("{}: {error}", place.display()));
    let paths = entries.map(|entry| entry.expect("a room is readable").path());
    paths.flat_map(|path| sources(&path)).filter(|path| path.extension().is_some_and(|end| end == "rs")).collect()
}

#[test]
fn cut_arrows_stay_cut() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate lies in crates/");
    for (name, room, forbidden) in CUT {
        let files = sources(&crates.join(name).join("src").join(room));
        assert!(!files.is_empty(), "{name} has no room {room}");
        for path in files {
            let text = std::fs::read_to_string(&path).expect("a source file is text");
            let shipped = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
            for (number, line) in shipped.lines().enumerate() {
                let code = line.split("//").next().unwrap_or_default();
                for word in *forbidden {
                    assert!(
                        !code.contains(word),
                        "{}:{}: {room} may not use {word}: {line}",
                        path.display(),
                        number + 1
                    );
                }
            }
        }
    }
}
