//! Seeds that once failed, kept with their stories.

use std::path::Path;

/// Of each file `NAME.seed` in the directory, beside others: its first line says which seed it is,
/// and those below what once went wrong with it.
pub fn seeds(directory: &str) -> Vec<u64> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let mut seeds = Vec::new();
    for entry in std::fs::read_dir(directory).expect("the directory of kept seeds") {
        let path = entry.expect("a readable directory").path();
        if path.extension().is_none_or(|extension| extension != "seed") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a readable story");
        let number = text.lines().next().and_then(|line| line.strip_prefix("seed ")).and_then(|seed| seed.parse().ok());
        seeds.push(number.unwrap_or_else(|| panic!("{} does not begin with its seed", path.display())));
        assert!(text.lines().count() > 2, "{} has no story", path.display());
    }
    seeds
}
