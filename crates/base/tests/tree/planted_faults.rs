//! Planted faults: each has a place in the code.

use crate::production;
use ferrite_base::planted_fault::PlantedFault;

#[test]
fn each_has_a_place() {
    let code: Vec<String> = production::sources()
        .into_iter()
        .filter(|source| !source.path.starts_with("crates/base/"))
        .map(|source| source.code)
        .collect();
    let has_place = |fault: &PlantedFault| code.iter().any(|code| code.contains(&format!("planted!({fault:?})")));
    let without: Vec<&PlantedFault> = PlantedFault::ALL.iter().filter(|fault| !has_place(fault)).collect();
    assert!(without.is_empty(), "nothing asks for {without:?}");
}
