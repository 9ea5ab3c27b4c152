//! The planted faults of `crates/sim/cluster-faults.patch` fit the code: each place that the patch
//! changes is there, word by word.

use std::fs;
use std::path::Path;

/// Of each change: the file, and the lines that stand there without it.
fn places(patch: &str) -> Vec<(String, String)> {
    let mut places: Vec<(String, String)> = Vec::new();
    let mut file = String::new();
    for line in patch.lines() {
        if let Some(path) = line.strip_prefix("+++ b/") {
            file = path.to_owned();
        } else if line.starts_with("@@ ") {
            places.push((file.clone(), String::new()));
        } else if !line.starts_with("--- ")
            && let Some((_, before)) = places.last_mut()
            && let Some(kept) = line.strip_prefix([' ', '-']).or_else(|| line.is_empty().then_some(""))
        {
            before.push_str(kept);
            before.push('\n');
        }
    }
    places
}

#[test]
fn the_patch_fits_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let patch = fs::read_to_string(root.join("crates/sim/cluster-faults.patch")).expect("the patch can be read");
    let places = places(&patch);
    assert!(places.len() > 30 && patch.matches("planted(\"").count() > 40, "{} places", places.len());
    let fits = |(file, before): &&(String, String)| {
        fs::read_to_string(root.join(file)).is_ok_and(|code| code.contains(before.as_str()))
    };
    let wrong: Vec<String> = places
        .iter()
        .filter(|place| !fits(place))
        .map(|(file, before)| format!("{file} has no longer:\n{before}"))
        .collect();
    assert!(
        wrong.is_empty(),
        "mend crates/sim/cluster-faults.patch (CONTRIBUTING, \"A planted fault\")\n{}",
        wrong.join("\n")
    );
}

#[test]
fn places_are_what_stands_there_without_the_fault() {
    let patch = "--- a/x.rs\n+++ b/x.rs\n@@ -1,3 +1,3 @@ fn f\n one\n-two\n+TWO\n three\n@@ -9 +9,2 @@\n nine\n+ten\n";
    let place = |text: &str| ("x.rs".to_owned(), text.to_owned());
    assert_eq!(places(patch), [place("one\ntwo\nthree\n"), place("nine\n")]);
}
