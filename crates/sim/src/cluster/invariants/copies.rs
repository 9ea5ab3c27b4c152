//! 8. Copies that have applied the same entries have the same contents, row ids too.

use ferrite_base::NodeId;

pub fn check(all: &[(NodeId, Vec<String>)]) -> Result<(), String> {
    let Some(((first, expected), others)) = all.split_first() else { return Ok(()) };
    for (node, found) in others {
        if found == expected {
            continue;
        }
        let short = |line: Option<&String>| line.map_or("nothing", |line| line).chars().take(200).collect::<String>();
        let at = found.iter().zip(expected).take_while(|(found, expected)| found == expected).count();
        return Err(format!(
            "line {at}: node {node} has {}; node {first} has {}",
            short(found.get(at)),
            short(expected.get(at))
        ));
    }
    Ok(())
}
