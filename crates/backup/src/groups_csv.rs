//! A backup in CSV of a database whose partitions are in several groups: each group's leader writes
//! a file for each partitioned table, with the rows that the group has; the first group's leader
//! also those of replicated tables, which are the same in all groups.
//!
//! Invariants: those of [`groups`](crate::groups), where the schema's file stands for the manifest.
//! The schema's file names all others, in comments.
//! Files have no identity: only the process that has written some removes them.

use crate::request::Save;
use crate::save::{self, CsvFile, csv_name, failed};
use ferrite_base::{GroupId, UserResult};
use ferrite_catalog::{Catalog, Table};
use ferrite_io::Disk;
use ferrite_partition::coordinator::GroupCut;
use ferrite_snapshot::Files;
use ferrite_table::Store;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What one group has written.
pub struct CsvPart {
    pub paths: Vec<PathBuf>,
    pub bytes: u64,
}

/// The group's file of a table. None: another group has the rows, too, and writes them.
fn file_name(nonce: &str, table: &Table, group: GroupId, is_first: bool) -> Option<String> {
    let name = csv_name(nonce, &table.name);
    match table.is_partitioned() {
        true => Some(format!("{}-group_{group}.csv", name.strip_suffix(".csv").expect("it is a CSV file"))),
        false => is_first.then_some(name),
    }
}

/// The table of a file of that name, without the nonce.
pub fn table_of_name(rest: &str) -> &str {
    let name = rest.strip_suffix(".csv").unwrap_or(rest);
    name.split_once("-group_").map_or(name, |(table, _)| table)
}

/// The files that a group writes, by the tables.
fn own<'c>(catalog: &'c Catalog, request: &Save, group: GroupId, is_first: bool) -> Vec<(&'c Table, String)> {
    let tables = save::tables(catalog, request).into_iter().map(|name| &*catalog.tables[&name]);
    tables.filter_map(|table| Some((table, file_name(&request.nonce, table, group, is_first)?))).collect()
}

/// Names of all files that groups write, the first one first.
pub fn names(catalog: &Catalog, request: &Save, groups: impl Iterator<Item = GroupId>) -> Vec<String> {
    let of_group = |(number, group)| own(catalog, request, group, number == 0).into_iter().map(|(_, name)| name);
    (0..).zip(groups).flat_map(of_group).collect()
}

/// Writes one group's files. On an error they are gone again.
pub fn write_part(
    disk: &Arc<dyn Disk>,
    request: &Save,
    group: GroupId,
    is_first: bool,
    cut: &GroupCut,
) -> UserResult<CsvPart> {
    let files = Files::new(Arc::clone(disk), &request.dir);
    files.create_dir().map_err(failed)?;
    let mut part = CsvPart { paths: Vec::new(), bytes: 0 };
    let outcome = own(&cut.catalog, request, group, is_first).into_iter().try_for_each(|(table, name)| {
        let stores = if table.is_partitioned() { &cut.stores[..] } else { &cut.stores[..1] };
        part.bytes += write_file(&**disk, request, table, name, stores, &mut part.paths)?;
        Ok(())
    });
    let outcome = outcome.and_then(|()| files.sync().map_err(failed));
    if let Err(error) = outcome {
        remove(disk, &part.paths);
        return Err(error);
    }
    Ok(part)
}

/// Writes one file, where there is none of that name, and notes it.
fn write_file(
    disk: &dyn Disk,
    request: &Save,
    table: &Table,
    name: String,
    stores: &[Store],
    written: &mut Vec<PathBuf>,
) -> UserResult<u64> {
    // Looked at for each: another node may write to the same directory.
    save::refuse_older(disk, request, |other| other == name)?;
    let path = request.dir.join(name);
    written.push(path.clone());
    let mut out = CsvFile::create(disk, &path).map_err(failed)?;
    stores.iter().try_for_each(|store| out.write_rows(store, table)).map_err(failed)?;
    out.finish().map_err(failed)
}

/// Removes what this process has written for a backup that does not come to be.
pub fn remove(disk: &Arc<dyn Disk>, paths: &[PathBuf]) {
    for path in paths {
        // What cannot be removed has no schema beside it, and is seen for what it is.
        let _ = disk.remove(path);
    }
}

/// Which of the files are not in this machine's directory.
pub fn elsewhere(disk: &Arc<dyn Disk>, dir: &Path, names: Vec<String>) -> Vec<String> {
    let here = disk.list(dir).unwrap_or_default();
    names.into_iter().filter(|name| !here.contains(name)).collect()
}
