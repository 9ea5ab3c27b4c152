//! The files of one backup wherever they lie, as one directory: those on this node's machine, and
//! those on the machines of the other nodes that lead groups, read from there piece by piece.
//!
//! Invariants:
//! - all files are of one backup: that of the only manifest that the nodes have, copies of it
//!   aside;
//! - a file is where it has the size that the manifest says; what has another size is missing;
//! - a piece comes from the node that was found to have the file. Where its group is led by another
//!   node meanwhile, it is not read, and what reads it fails.
//!
//! No more than one piece of a file is in memory for each that is asked for at a time.

use super::answers::{AnswerRows, RowsAnswer, malformed, of_group};
use super::{Backups, HOST, spawn};
use crate::submit::Submit;
use crossbeam_channel::unbounded;
use ferrite_backup::{listing, request, save};
use ferrite_base::{GroupId, UserError, UserResult};
use ferrite_io::{Clock, Disk, DiskError, DiskFile, DiskLock, DiskResult, LockError, OpenMode, SystemClock};
use ferrite_partition::Reply;
use ferrite_snapshot::{Files, Manifest};
use ferrite_system::result::{SystemResult, SystemTable, cells};
use ferrite_value::SqlType::{Bigint, Varbinary, Varchar};
use ferrite_value::{OwnedValue, Value};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The call by which a node says what it has of a backup; only nodes make it.
pub const OF_FILES: &str = "@BackupFiles";
/// What is asked of it: names and sizes, or bytes of one file.
const LIST: i64 = 0;
const READ: i64 = 1;
/// Of a file, in one answer.
const PIECE_BYTES: usize = 512 << 10;

/// How other nodes are asked.
struct Asking {
    submit: Arc<Submit>,
    /// What the caller has said of the backup.
    asked: Vec<OwnedValue>,
}

/// A node that leads a group, and what it has of the backup.
#[derive(Clone)]
pub struct NodeFiles {
    pub group: GroupId,
    pub host_id: i64,
    pub host_name: String,
    files: BTreeMap<String, u64>,
}

/// A file that is not read here.
#[derive(Clone)]
struct FarFile {
    asking: Arc<Asking>,
    group: GroupId,
    host_id: i64,
    path: PathBuf,
    bytes: u64,
}

/// The directory.
pub struct FilesOfNodes {
    here: Arc<dyn Disk>,
    dir: PathBuf,
    far: BTreeMap<String, FarFile>,
}

/// What was found of a backup.
pub struct FoundBackup {
    pub files: FilesOfNodes,
    /// Which node leads which group.
    pub leaders: BTreeMap<GroupId, (i64, String)>,
    /// Nodes on which files are to be read.
    pub read_on: Vec<String>,
}

/// Empty for one that is no file of a backup.
fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

impl NodeFiles {
    fn name(&self) -> String {
        format!("node {} ({})", self.host_id, self.host_name)
    }

    fn of(group: GroupId, rows: &AnswerRows) -> Option<NodeFiles> {
        let mut all: Option<NodeFiles> = None;
        for row in rows {
            let [
                OwnedValue::Integer(host_id),
                OwnedValue::Text(host_name),
                OwnedValue::Text(name),
                OwnedValue::Integer(bytes),
            ] = &row[..]
            else {
                return None;
            };
            let host_name = host_name.to_string();
            let all =
                all.get_or_insert_with(|| NodeFiles { group, host_id: *host_id, host_name, files: BTreeMap::new() });
            // The first row is the node's only.
            if !name.is_empty() {
                all.files.insert(name.to_string(), u64::try_from(*bytes).ok()?);
            }
        }
        all
    }
}

impl Asking {
    /// The group's leader answers.
    fn ask<K: Clone + Send + Sync + 'static>(
        &self,
        group: GroupId,
        what: i64,
        name: &str,
        range: (u64, usize),
        to: RowsAnswer<K>,
    ) {
        let mut parameters = vec![Value::Integer(what), Value::Text(name)];
        parameters.extend([Value::Integer(range.0 as i64), Value::Integer(range.1 as i64)]);
        parameters.extend(self.asked.iter().map(OwnedValue::as_value));
        self.submit.call_leader(OF_FILES, group, &parameters, Arc::new(to), SystemClock.wall_micros());
    }

    /// What each group's leader has.
    fn list(&self) -> UserResult<Vec<NodeFiles>> {
        let groups: Vec<GroupId> = self.submit.routes.table().groups().collect();
        let (to, heard) = unbounded();
        groups.iter().for_each(|group| self.ask(*group, LIST, "", (0, 0), RowsAnswer(*group, to.clone())));
        drop(to);
        let mut nodes = BTreeMap::new();
        for (group, rows) in heard {
            let rows = rows.map_err(|error| of_group(group, error))?;
            nodes.insert(group, NodeFiles::of(group, &rows).ok_or_else(malformed)?);
        }
        match groups.iter().find(|group| !nodes.contains_key(group)) {
            Some(group) => {
                Err(of_group(*group, UserError::parameters("its leader has not answered").with_hint("try again")))
            }
            None => Ok(nodes.into_values().collect()),
        }
    }
}

impl FoundBackup {
    /// Looks for the backup's files on all nodes that lead groups.
    pub fn of(
        node: &Backups,
        submit: &Arc<Submit>,
        asked: Vec<OwnedValue>,
        request: &request::Restore,
    ) -> UserResult<FoundBackup> {
        let asking = Arc::new(Asking { submit: Arc::clone(submit), asked });
        let of_groups = asking.list()?;
        let leaders = of_groups.iter().map(|of| (of.group, (of.host_id, of.host_name.clone()))).collect();
        let own = i64::from(node.identity.host_id);
        let mut nodes: BTreeMap<(bool, i64), NodeFiles> = BTreeMap::new();
        for of in of_groups {
            nodes.entry((of.host_id != own, of.host_id)).or_insert(of);
        }
        let looking = Looking { here: &node.disk, own, asking, request, nodes: nodes.into_values().collect() };
        let (files, read_on) = looking.find()?;
        Ok(FoundBackup { files, leaders, read_on })
    }
}

/// The nodes, this one first.
struct Looking<'l> {
    here: &'l Arc<dyn Disk>,
    own: i64,
    asking: Arc<Asking>,
    request: &'l request::Restore,
    nodes: Vec<NodeFiles>,
}

impl Looking<'_> {
    fn nothing_far(&self) -> FilesOfNodes {
        FilesOfNodes { here: Arc::clone(self.here), dir: self.request.dir.clone(), far: BTreeMap::new() }
    }

    /// This file is read on that node.
    fn read_on(&self, files: &mut FilesOfNodes, node: &NodeFiles, name: &str) {
        if node.host_id == self.own {
            return;
        }
        let bytes = node.files[name];
        let path = self.request.dir.join(name);
        let asking = Arc::clone(&self.asking);
        let far = FarFile { asking, group: node.group, host_id: node.host_id, path, bytes };
        files.far.insert(name.to_owned(), far);
    }

    fn find(&self) -> UserResult<(FilesOfNodes, Vec<String>)> {
        let mut files = self.nothing_far();
        let nonce = &self.request.nonce;
        let Some((manifest, node)) = self.manifest()? else {
            // One in CSV is no backup that is restored, and that is said where it is found.
            for node in &self.nodes {
                node.files.keys().for_each(|name| self.read_on(&mut files, node, name));
            }
            let is_here = |name: &str| self.nodes.iter().any(|node| node.files.contains_key(name));
            return if is_here(&save::schema_name(nonce)) { Ok((files, Vec::new())) } else { Err(self.no_manifest()) };
        };
        let places = Files::new(Arc::clone(self.here), &self.request.dir);
        self.read_on(&mut files, node, name_of(&places.manifest_path(nonce)));
        let mut read_on = vec![node.name()];
        let mut missing = Vec::new();
        for (partition, expected) in (0..).zip(&manifest.files) {
            let name = name_of(&places.rows_path(nonce, partition)).to_owned();
            match self.nodes.iter().find(|node| node.files.get(&name) == Some(&expected.bytes)) {
                Some(node) => {
                    self.read_on(&mut files, node, &name);
                    read_on.push(node.name());
                }
                None => missing.push(self.missing(name)),
            }
        }
        if !missing.is_empty() {
            let words = format!("the backup {nonce} lacks files: {}; {}", missing.join(", "), self.search_words());
            let hint = "copy them into that directory on the machine of one of these nodes";
            return Err(UserError::parameters(words).with_hint(hint));
        }
        read_on.sort();
        read_on.dedup();
        Ok((files, read_on))
    }

    /// The file's name, and where one of that name is that is not of the backup.
    fn missing(&self, name: String) -> String {
        let others: Vec<String> =
            self.nodes.iter().filter(|node| node.files.contains_key(&name)).map(NodeFiles::name).collect();
        if others.is_empty() { name } else { format!("{name} (which has another size on {})", others.join(", ")) }
    }

    fn search_words(&self) -> String {
        let names: Vec<String> = self.nodes.iter().map(NodeFiles::name).collect();
        format!("looked in {} on {}, which lead", self.request.dir.display(), names.join(", "))
    }

    /// The backup is not there, or only its beginning.
    fn no_manifest(&self) -> UserError {
        let nonce = &self.request.nonce;
        let search = self.search_words();
        if self.nodes.iter().all(|node| node.files.is_empty()) {
            let words = format!("there is no backup {nonce}: no node has {nonce}.manifest; {search}");
            return UserError::parameters(words).with_hint("@SnapshotScan shows which backups are there");
        }
        let words = format!("the backup {nonce} is incomplete: no node has {nonce}.manifest, its last file; {search}");
        UserError::parameters(words).with_hint("restore another one, and remove this one's files with @SnapshotDelete")
    }

    /// The backup's, and a node that has it.
    fn manifest(&self) -> UserResult<Option<(Manifest, &NodeFiles)>> {
        let nonce = &self.request.nonce;
        let mut found: Option<(Manifest, &NodeFiles)> = None;
        for node in &self.nodes {
            let mut files = self.nothing_far();
            node.files.keys().for_each(|name| self.read_on(&mut files, node, name));
            let files = Files::new(Arc::new(files), &self.request.dir);
            let path = files.manifest_path(nonce);
            let name = name_of(&path);
            if !node.files.contains_key(name) {
                continue;
            }
            let read = files.manifest(nonce);
            let manifest = read.map_err(|error| UserError::parameters(format!("{}: {error}", node.name())))?;
            match &found {
                None => found = Some((manifest, node)),
                Some((known, first)) if known.database != manifest.database => {
                    let nodes = format!("{} and {}", first.name(), node.name());
                    let words = format!("{nodes} have different backups with the name {nonce}");
                    return Err(
                        UserError::parameters(words).with_hint("remove the files of the one that is not wanted")
                    );
                }
                Some(_) => {}
            }
        }
        Ok(found)
    }
}

impl Disk for FilesOfNodes {
    fn create_dir(&self, path: &Path) -> DiskResult<()> {
        self.here.create_dir(path)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> DiskResult<Box<dyn DiskFile>> {
        let far = self.far.get(name_of(path));
        match far.filter(|far| far.path == path && matches!(mode, OpenMode::Read | OpenMode::ReadDirect)) {
            Some(far) => Ok(Box::new(far.clone())),
            None => self.here.open(path, mode),
        }
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DiskLock>, LockError> {
        self.here.lock(path)
    }

    fn list(&self, dir: &Path) -> DiskResult<Vec<String>> {
        let mut names =
            self.here.list(dir).or_else(|error| if self.far.is_empty() { Err(error) } else { Ok(Vec::new()) })?;
        if dir == self.dir {
            names.extend(self.far.keys().cloned());
            names.sort();
            names.dedup();
        }
        Ok(names)
    }

    fn remove(&self, path: &Path) -> DiskResult<()> {
        self.here.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> DiskResult<()> {
        self.here.rename(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> DiskResult<()> {
        self.here.sync_dir(dir)
    }
}

impl FarFile {
    fn fails(&self, operation: &'static str, reason: impl Into<String>) -> DiskError {
        DiskError::new(operation, &self.path, io::Error::other(reason.into()))
    }

    /// Fills the buffer, all of whose bytes the file has.
    fn fill(&self, buffer: &mut [u8], offset: u64) -> DiskResult<()> {
        let name = name_of(&self.path);
        let (to, heard) = unbounded();
        let mut pieces: Vec<Option<&mut [u8]>> = buffer.chunks_mut(PIECE_BYTES).map(Some).collect();
        for (number, piece) in pieces.iter().enumerate() {
            let length = piece.as_ref().map_or(0, |piece| piece.len());
            let from = offset + (number * PIECE_BYTES) as u64;
            self.asking.ask(self.group, READ, name, (from, length), RowsAnswer(number, to.clone()));
        }
        drop(to);
        for (number, rows) in heard {
            let rows = rows.map_err(|error| self.fails("read", format!("on node {}: {error}", self.host_id)))?;
            let [row] = &rows[..] else { return Err(self.fails("read", malformed().to_string())) };
            let [OwnedValue::Integer(host_id), OwnedValue::Bytes(bytes)] = &row[..] else {
                return Err(self.fails("read", malformed().to_string()));
            };
            if *host_id != self.host_id {
                let words = format!(
                    "group {} is led by node {host_id} now, and the file is on node {}",
                    self.group, self.host_id
                );
                return Err(self.fails("read", words));
            }
            let piece = pieces.get_mut(number).and_then(Option::take);
            match piece.filter(|piece| piece.len() == bytes.len()) {
                Some(piece) => piece.copy_from_slice(bytes),
                None => return Err(self.fails("read", format!("it has changed on node {}", self.host_id))),
            }
        }
        match pieces.iter().all(Option::is_none) {
            true => Ok(()),
            false => Err(self.fails("read", format!("node {} has not answered", self.host_id))),
        }
    }
}

impl DiskFile for FarFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn bytes(&self) -> DiskResult<u64> {
        Ok(self.bytes)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> DiskResult<usize> {
        let there = self.bytes.saturating_sub(offset);
        let length = buffer.len().min(usize::try_from(there).unwrap_or(usize::MAX));
        self.fill(&mut buffer[..length], offset)?;
        Ok(length)
    }

    fn write_at(&self, _: &[u8], _: u64) -> DiskResult<()> {
        Err(self.fails("write", "it is on another node"))
    }

    fn sync_data(&self) -> DiskResult<()> {
        Err(self.fails("fsync", "it is on another node"))
    }

    fn preallocate(&self, _: u64) -> DiskResult<bool> {
        Err(self.fails("preallocate", "it is on another node"))
    }

    fn is_in_place(&self) -> DiskResult<bool> {
        Ok(true)
    }
}

/// `@BackupFiles(group, what, name, offset, length, ...)`, with the parameters of
/// `@SnapshotRestore` behind: what this node has of the backup.
pub fn serve(node: &Arc<Backups>, parameters: &[Value<'_>], reply: &Reply) -> UserResult<()> {
    let unknown = || UserError::parameters("@BackupFiles takes a group, what is asked, a file and a range of it");
    let [
        Value::Integer(_),
        Value::Integer(what),
        Value::Text(name),
        Value::Integer(offset),
        Value::Integer(length),
        asked @ ..,
    ] = parameters
    else {
        return Err(unknown());
    };
    let request = request::restore(asked, &node.identity.backups)?;
    let what = *what;
    let offset = u64::try_from(*offset).map_err(|_| unknown())?;
    let length = usize::try_from(*length).ok().filter(|length| *length <= PIECE_BYTES).ok_or_else(unknown)?;
    let name = (*name).to_owned();
    let node = Arc::clone(node);
    let reply = reply.clone();
    spawn(move || {
        let result = match what {
            LIST => node.list_files(&request),
            READ => node.read_file(&request, &name, offset, length),
            _ => Err(unknown()),
        };
        super::answer(&reply, &result);
    })
}

impl Backups {
    fn list_files(&self, request: &request::Restore) -> SystemResult {
        let columns: Vec<_> = HOST.into_iter().chain([("NAME", Varchar), ("SIZE", Bigint)]).collect();
        let mut table = SystemTable::new(&columns);
        let host_id = self.identity.host_id;
        let host = self.identity.host_name.as_str();
        table.row(cells![host_id, host, "", 0i64]);
        for (name, bytes) in listing::files_of(&self.disk, &request.dir, &request.nonce)? {
            table.row(cells![host_id, host, name, bytes as i64]);
        }
        Ok(vec![table])
    }

    /// Shorter than asked for where the file ends.
    fn read_file(&self, request: &request::Restore, name: &str, offset: u64, length: usize) -> SystemResult {
        let failed = |error: DiskError| UserError::parameters(error.to_string());
        if !listing::is_of(name, &request.nonce) {
            return Err(UserError::parameters(format!("{name} is not a file of the backup {}", request.nonce)));
        }
        let file = self.disk.open(&request.dir.join(name), OpenMode::Read).map_err(failed)?;
        let mut bytes = vec![0; length];
        let read = file.read_at(&mut bytes, offset).map_err(failed)?;
        bytes.truncate(read);
        let mut table = SystemTable::new(&[HOST[0], ("DATA", Varbinary)]);
        table.row(cells![self.identity.host_id, bytes]);
        Ok(vec![table])
    }
}
