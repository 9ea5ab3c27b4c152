//! docs/decisions/README.md lists each decision once, in order, with its status.

use std::path::Path;

#[test]
fn each_decision_is_listed_once_and_in_order() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/decisions");
    let entries = std::fs::read_dir(&folder).expect("the folder of decisions");
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let mut pages: Vec<String> = names.filter(|name| name != "README.md").collect();
    pages.sort();
    assert!(pages.len() > 80, "only {} decisions", pages.len());
    let expected: Vec<String> = pages.iter().map(|page| format!("- [{}]({page})", &page[..4])).collect();
    let list = std::fs::read_to_string(folder.join("README.md")).expect("the list");
    let entries = list.lines().filter(|line| line.starts_with("- ["));
    let links: Vec<&str> = entries.map(|line| line.find(')').map_or(line, |end| &line[..=end])).collect();
    let wanted = expected.iter().map(String::as_str).chain(std::iter::repeat("nothing"));
    let list = list.split_whitespace().collect::<Vec<_>>().join(" ");
    let list = list.split_once(" - [0").expect("the list begins with a page").1;
    let statuses = ["· *holds", "· *superseded by", "· *planned*"];
    let has_status = |entry: &str| statuses.iter().any(|status| entry.contains(status));
    let without_status = list.split(" - [").filter(|entry| !has_status(entry));
    let without_status: Vec<&str> = without_status.map(|entry| &entry[..entry.len().min(60)]).collect();
    assert!(without_status.is_empty(), "these end with no status, such as `· *holds*`: {without_status:#?}");
    let differs = links.iter().copied().chain(["nothing"]).zip(wanted).find(|(link, wanted)| link != wanted);
    assert_eq!(differs, None, "docs/decisions/README.md lists each page once, in the order of numbers: found, wanted");
}
