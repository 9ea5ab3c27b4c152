//! The list of a backup's files in CSV, with which its schema's file begins, as comments: they may
//! lie on several machines, and none of them says that another one is missing.

use ferrite_io::{Disk, DiskResult, OpenMode};
use std::path::Path;

/// Of a schema's file, which begins with the list.
const LIST_BYTES_MAX: usize = 16 << 20;

/// Before the name of each file.
const FILE_OF_BACKUP: &str = "-- file of this backup: ";

/// What the schema's file begins with: the names of all other files.
pub(crate) fn list_of_files(names: &[String]) -> String {
    names.iter().map(|name| format!("{FILE_OF_BACKUP}{name}\n")).collect()
}

/// The names that stand in the schema's file of a backup; none in that of one server's.
fn listed(text: &[u8]) -> Vec<String> {
    let lines = text.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    lines.map_while(|line| line.strip_prefix(FILE_OF_BACKUP)).map(str::to_owned).collect()
}

/// What is wrong with a backup in CSV, whose schema is in this file, and of whose other files these
/// are there.
pub fn fault(disk: &dyn Disk, schema: &Path, nonce: &str, is_there: impl Fn(&str) -> bool) -> Option<String> {
    let read = || -> DiskResult<Vec<u8>> {
        let file = disk.open(schema, OpenMode::Read)?;
        let mut text = vec![0; usize::try_from(file.bytes()?).unwrap_or(usize::MAX).min(LIST_BYTES_MAX)];
        let there = file.read_at(&mut text, 0)?;
        text.truncate(there);
        Ok(text)
    };
    match read() {
        Ok(text) => {
            let missing: Vec<String> = listed(&text).into_iter().filter(|name| !is_there(name)).collect();
            (!missing.is_empty()).then(|| format!("the backup {nonce} lacks files: {}", missing.join(", ")))
        }
        Err(error) => Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_io::RealDisk;

    #[test]
    fn files_that_the_list_names_and_that_are_not_there_are_a_fault() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let fault = |text: &str, there: &[&str]| {
            std::fs::write(dir.path().join("mon.schema.sql"), text).expect("a file");
            fault(&RealDisk, &dir.path().join("mon.schema.sql"), "mon", |name| there.contains(&name))
        };
        let names = ["mon-T-group_1.csv".to_owned(), "mon-T-group_2.csv".to_owned()];
        let text = list_of_files(&names) + "CREATE TABLE t (a INTEGER);\n-- file of this backup: mon-U.csv\n";
        assert_eq!(fault(&text, &["mon-T-group_1.csv", "mon-T-group_2.csv"]), None);
        let lacks = fault(&text, &["mon-T-group_1.csv"]).expect("one is missing");
        assert_eq!(lacks, "the backup mon lacks files: mon-T-group_2.csv");
        assert_eq!(fault("CREATE TABLE t (a INTEGER);\n", &[]), None, "one server's has no list");
        std::fs::remove_file(dir.path().join("mon.schema.sql")).expect("it is there");
        assert!(super::fault(&RealDisk, &dir.path().join("mon.schema.sql"), "mon", |_| true).is_some());
    }
}
