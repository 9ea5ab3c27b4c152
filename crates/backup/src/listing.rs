//! Which backups stand in a directory, and their files gone.

use crate::csv_files;
use crate::groups_csv::table_of_name;
use crate::request::checked_nonce;
use crate::restore::schema_of;
use crate::save::{SCHEMA_FILE, schema_name};
use ferrite_base::{UserError, UserResult};
use ferrite_io::{Disk, DiskResult};
use ferrite_snapshot::Files;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

const MANIFEST: &str = ".manifest";

/// One backup as a scan sees it.
pub struct Seen {
    pub nonce: String,
    pub created_ms: i64,
    pub bytes: u64,
    pub tables: String,
    /// Of the database that it was taken of; 0 where that is not known.
    pub partitions: u32,
    /// Names and bytes.
    pub files: Vec<(String, u64)>,
    /// What is wrong with it.
    pub fault: Option<String>,
}

/// All backups in a directory, whole or not, by their nonces.
pub fn list(disk: &Arc<dyn Disk>, dir: &Path) -> UserResult<Vec<Seen>> {
    let names = disk.list(dir).map_err(|error| UserError::parameters(error.to_string()))?;
    let files = Files::new(Arc::clone(disk), dir);
    let mut backups: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
    for name in &names {
        if let Some(nonce) = nonce_of(name) {
            backups.entry(nonce).or_default().push(name);
        }
    }
    let seen = backups.into_iter().map(|(nonce, names)| {
        let own: Vec<_> = names.iter().map(|name| (String::clone(name), bytes_of(&dir.join(name)))).collect();
        let mut seen = Seen {
            nonce: nonce.to_owned(),
            created_ms: 0,
            bytes: own.iter().map(|(_, bytes)| bytes).sum(),
            tables: String::new(),
            partitions: 0,
            files: own,
            fault: None,
        };
        let schema = dir.join(schema_name(nonce));
        if let Ok(metadata) = fs::metadata(&schema) {
            let modified = metadata.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
            seen.created_ms = modified.map_or(0, |time| time.as_millis() as i64);
            let of_csv = |name: &String| {
                let rest = name.strip_prefix(nonce)?.strip_prefix('-').filter(|rest| rest.ends_with(".csv"))?;
                Some(table_of_name(rest).to_owned())
            };
            // Of several groups, each has a file of the table.
            let tables: BTreeSet<String> = names.into_iter().filter_map(of_csv).collect();
            seen.tables = tables.into_iter().collect::<Vec<_>>().join(",");
            let is_there = |name: &str| seen.files.iter().any(|(own, _)| own == name);
            seen.fault = csv_files::fault(&**disk, &schema, nonce, is_there);
            return seen;
        }
        match files.manifest(nonce) {
            Ok(manifest) => {
                seen.created_ms = manifest.taken / 1_000;
                seen.partitions = manifest.map.partitions();
                match schema_of(&manifest) {
                    Ok(catalog) => seen.tables = catalog.tables.keys().cloned().collect::<Vec<_>>().join(","),
                    Err(error) => seen.fault = Some(error.to_string()),
                }
                for (partition, file) in manifest.files.iter().enumerate() {
                    let path = files.rows_path(nonce, partition as u32);
                    if bytes_of(&path) != file.bytes {
                        seen.fault = Some(format!("{} is missing or has another size", path.display()));
                    }
                }
            }
            Err(error) => seen.fault = Some(error.to_string()),
        }
        seen
    });
    Ok(seen.collect())
}

/// The nonce in the name of a backup's file; None for all other files, and for those of a
/// database's own snapshots.
fn nonce_of(name: &str) -> Option<&str> {
    let whole = name.strip_suffix(".partial").unwrap_or(name);
    let nonce = if let Some(nonce) = whole.strip_suffix(MANIFEST).or(whole.strip_suffix(SCHEMA_FILE)) {
        nonce
    } else if let Some(rows) = whole.strip_suffix(".rows") {
        rows.rsplit_once("-p")?.0
    } else {
        whole.strip_suffix(".csv")?.split_once('-')?.0
    };
    // A nonce has no dash in it, and the names of the database's own snapshots have one.
    checked_nonce(nonce).ok()
}

/// 0 for one that is not there.
fn bytes_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// Names and bytes of the backup's files. None where the directory is not there.
pub fn files_of(disk: &Arc<dyn Disk>, dir: &Path, nonce: &str) -> UserResult<Vec<(String, u64)>> {
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let names = disk.list(dir).map_err(|error| UserError::parameters(error.to_string()))?;
    let own = names.into_iter().filter(|name| nonce_of(name) == Some(nonce));
    let with_bytes = |name: String| {
        let bytes = bytes_of(&dir.join(&name));
        (name, bytes)
    };
    Ok(own.map(with_bytes).collect())
}

/// Whether a file of that name is one of the backup.
pub fn is_of(name: &str, nonce: &str) -> bool {
    !name.contains('/') && nonce_of(name) == Some(nonce)
}

/// A file of a backup that was to go.
pub struct Removed {
    pub name: String,
    pub bytes: u64,
    pub result: DiskResult<()>,
}

/// Removes the files of a backup, first that which says that it is whole. None where there are
/// none.
pub fn remove(disk: &Arc<dyn Disk>, dir: &Path, nonce: &str) -> UserResult<Vec<Removed>> {
    let mut own = files_of(disk, dir, nonce)?;
    own.sort_by_key(|(name, _)| !(name.ends_with(MANIFEST) || name.ends_with(SCHEMA_FILE)));
    let remove = |(name, bytes): (String, u64)| {
        let result = disk.remove(&dir.join(&name));
        Removed { name, bytes, result }
    };
    Ok(own.into_iter().map(remove).collect())
}
