//! The node that gets the snapshot.
//!
//! It writes into a directory of its own, under names of its own, in the order of the files:
//!
//! | file | |
//! |---|---|
//! | `transfer` | what was announced: made durable before the first byte is taken |
//! | the manifest, as `.partial` | then the rows files, each fsynced and read back when it is whole |
//! | the manifest | its name is the last step: now there is a snapshot |
//!
//! Nothing is written down of how far it is. After a start it reads what is there, as loading does,
//! and goes on behind the last block that is what it should be.

use super::layout::Layout;
use super::message::{FORMAT, FileOffset, Refusal, TransferId, TransferMessage, decode, encode};
use crate::error::{SnapshotError, SnapshotResult};
use crate::files::{Files, MANIFEST_BYTES_MAX, own_name};
use crate::load::{Verified, Verifier};
use crate::manifest::Manifest;
use crate::reader::Reader;
use ferrite_base::checksum::crc32c;
use ferrite_base::limits::DISK_RESERVE_BYTES;
use ferrite_io::{DiskFile, DiskResult, OpenMode, small_file};
use std::path::PathBuf;

const ANNOUNCED: &str = "transfer";
const ANNOUNCED_PARTIAL: &str = "transfer.partial";
const MAGIC: &[u8; 8] = b"FERRXFER";

/// How far a sink is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SinkProgress {
    /// Nothing was announced.
    Idle,
    /// There is something to do: call [`Sink::step`].
    Working,
    /// It waits for what comes next.
    Waiting,
    /// It is whole: the node may take it in, see [`Sink::taking_in`].
    Installed(TransferId),
    Refused(Refusal),
}

/// Takes a snapshot.
pub struct Sink {
    files: Files,
    database: [u8; 16],
    /// Of the node's own snapshots, the highest number.
    above: u64,
    /// The last that the node has made its own.
    taken_in: Option<TransferId>,
    job: Option<Job>,
}

/// A snapshot that was announced.
struct Job {
    id: TransferId,
    layout: Layout,
    work: Work,
    /// Everything before has come.
    at: u64,
    /// Once it is whole.
    manifest: Option<Manifest>,
    /// The file in which `at` is, open to be written.
    open: Option<Box<dyn DiskFile>>,
    /// The source was asked to go on from there.
    asked: Option<u64>,
    /// The file that did not read back as it should, and is sent a second time.
    again: Option<u32>,
}

enum Work {
    /// Looks from this file on what an earlier process has left.
    Look(u32),
    /// Looks through the beginning of a file: up to where it is what it should be.
    Prefix(u32, Box<Reader>),
    Receive,
    /// A file is whole; whether an earlier process has left it.
    Verify(u32, Option<Box<Verifier>>, bool),
    Commit,
    Done,
    /// The node reads it, and makes it its own.
    TakenIn,
    Refused(Refusal),
}

impl Sink {
    /// In a directory of its own, which is made if it is not there. Goes on with what an earlier
    /// process has left.
    pub fn open(files: Files, database: [u8; 16]) -> SnapshotResult<Sink> {
        files.create_dir()?;
        let announced = read_announced(&files)?.filter(|(id, _)| id.database == database);
        let job = announced.map(|(id, layout)| Job::new(id, layout, Work::Look(0)));
        Ok(Sink { files, database, above: 0, taken_in: None, job })
    }

    /// Takes only snapshots with higher numbers: the node has others of its own, and what is taken
    /// is to be its newest. What is left here of one that the node has taken in goes.
    pub fn above(mut self, number: u64) -> SnapshotResult<Sink> {
        self.above = number;
        if self.job.as_ref().is_some_and(|job| job.id.snapshot <= number) {
            self.abandon()?;
        }
        Ok(self)
    }

    /// The node begins to read the snapshot that is installed, and to make it its own. Until it
    /// has, or has abandoned it, the files stay: whoever announces another has no answer, and asks
    /// again.
    ///
    /// # Panics
    /// When there is none.
    pub fn taking_in(&mut self) {
        let job = self.job.as_mut().filter(|job| matches!(job.work, Work::Done));
        job.expect("there is a snapshot that is installed").work = Work::TakenIn;
    }

    /// The node has given its own snapshots numbers up to this one meanwhile.
    pub fn raise(&mut self, number: u64) {
        self.above = self.above.max(number);
    }

    /// The node has made the snapshot its own: what is left of it here goes. Whoever still asks
    /// about it hears that it is loaded.
    pub fn taken_in(&mut self) -> DiskResult<()> {
        let id = self.job.as_ref().map(|job| job.id);
        self.abandon()?;
        if let Some(id) = id {
            self.above = self.above.max(id.snapshot);
            self.taken_in = Some(id);
        }
        Ok(())
    }

    pub fn files(&self) -> &Files {
        &self.files
    }

    pub fn progress(&self) -> SinkProgress {
        match &self.job {
            None => SinkProgress::Idle,
            Some(Job { work: Work::Receive | Work::TakenIn, .. }) => SinkProgress::Waiting,
            Some(Job { work: Work::Done, id, .. }) => SinkProgress::Installed(*id),
            Some(Job { work: Work::Refused(refusal), .. }) => SinkProgress::Refused(*refusal),
            Some(_) => SinkProgress::Working,
        }
    }

    /// What came from the source. The answer, if there is one, is written to the end of `out`. An
    /// error is of this node's disk: what is there will be looked at again.
    pub fn receive(&mut self, id: &TransferId, message: &TransferMessage<'_>, out: &mut Vec<u8>) -> SnapshotResult<()> {
        match message {
            TransferMessage::Install { format, anew, sizes } => self.install(id, *format, *anew, sizes, out),
            TransferMessage::Chunk { at, bytes } => {
                let Some(job) = self.job.as_mut().filter(|job| job.id == *id) else { return Ok(()) };
                let taken = job.chunk(&self.files, *at, bytes, out);
                job.after(taken)
            }
            TransferMessage::Acked { .. }
            | TransferMessage::Installed
            | TransferMessage::Loaded
            | TransferMessage::Refused(_) => Ok(()),
        }
    }

    /// The next piece of work, about a block. The answer, if there is one, is written to the end of
    /// `out`.
    pub fn step(&mut self, out: &mut Vec<u8>) -> SnapshotResult<SinkProgress> {
        if let Some(job) = &mut self.job {
            let done = job.step(&self.files, out);
            job.after(done)?;
        }
        Ok(self.progress())
    }

    /// Gives up what is there, a snapshot that is installed included.
    pub fn abandon(&mut self) -> DiskResult<()> {
        self.job = None;
        for snapshot in self.files.find()?.snapshots {
            self.files.remove(&own_name(snapshot))?;
        }
        self.files.remove_leftovers(&self.files.find()?)?;
        for name in self.files.disk().list(self.files.dir())? {
            if name == ANNOUNCED || name == ANNOUNCED_PARTIAL {
                self.files.disk().remove(&self.files.dir().join(name))?;
            }
        }
        self.files.sync()
    }

    fn install(
        &mut self,
        id: &TransferId,
        format: u32,
        anew: bool,
        sizes: &[u64],
        out: &mut Vec<u8>,
    ) -> SnapshotResult<()> {
        let mut refuse = |refusal| encode(out, id, &TransferMessage::Refused(refusal));
        if format != FORMAT {
            refuse(Refusal::Format(FORMAT));
            return Ok(());
        }
        if id.database != self.database {
            refuse(Refusal::Database);
            return Ok(());
        }
        let Some(layout) = Layout::new(sizes, MANIFEST_BYTES_MAX).filter(|_| id.snapshot > 0) else {
            refuse(Refusal::Sizes);
            return Ok(());
        };
        if self.taken_in == Some(*id) {
            encode(out, id, &TransferMessage::Loaded);
            return Ok(());
        }
        if id.snapshot <= self.above {
            refuse(Refusal::Number(self.above));
            return Ok(());
        }
        if let Some(job) = self.job.as_mut().filter(|job| job.id == *id) {
            match job.layout == layout {
                true => job.answer(out),
                false => refuse(Refusal::Sizes),
            }
            return Ok(());
        }
        if let Some(Job { id: other, .. }) = self.job.as_ref().filter(|_| !anew) {
            refuse(Refusal::Other(other.node, other.snapshot));
            return Ok(());
        }
        if self.job.as_ref().is_some_and(|job| matches!(job.work, Work::TakenIn)) {
            return Ok(());
        }
        self.abandon()?;
        let needed = layout.bytes().saturating_add(DISK_RESERVE_BYTES);
        if self.files.disk().space(self.files.dir())?.free < needed {
            refuse(Refusal::NoRoom(needed));
            return Ok(());
        }
        write_announced(&self.files, id, sizes)?;
        let mut job = Job::new(*id, layout, Work::Receive);
        job.answer(out);
        self.job = Some(job);
        Ok(())
    }
}

impl Job {
    fn new(id: TransferId, layout: Layout, work: Work) -> Job {
        Job { id, layout, work, at: 0, manifest: None, open: None, asked: None, again: None }
    }

    /// Says how far it is. While it looks at what is there, nothing: it says so later.
    fn answer(&mut self, out: &mut Vec<u8>) {
        match &self.work {
            Work::Receive => self.ack(out, true),
            Work::Done | Work::TakenIn => encode(out, &self.id, &TransferMessage::Installed),
            Work::Refused(refusal) => encode(out, &self.id, &TransferMessage::Refused(*refusal)),
            _ => {}
        }
    }

    fn ack(&mut self, out: &mut Vec<u8>, again: bool) {
        if again {
            self.asked = Some(self.at);
        }
        encode(out, &self.id, &TransferMessage::Acked { at: self.layout.offset(self.at), again });
    }

    /// After an error of the disk nothing is believed of what was written.
    fn after(&mut self, outcome: SnapshotResult<()>) -> SnapshotResult<()> {
        if outcome.is_err() {
            self.open = None;
            self.manifest = None;
            self.work = Work::Look(0);
        }
        outcome
    }

    fn path(&self, files: &Files, file: u32) -> PathBuf {
        let name = own_name(self.id.snapshot);
        match file.checked_sub(1) {
            None => files.partial_manifest_path(&name),
            Some(place) => files.rows_path(&name, self.manifest().partitions().id(place as usize).0),
        }
    }

    fn chunk(&mut self, files: &Files, at: FileOffset, bytes: &[u8], out: &mut Vec<u8>) -> SnapshotResult<()> {
        if !matches!(self.work, Work::Receive) {
            return Ok(());
        }
        let file = self.layout.offset(self.at).file;
        let fits = at.file == file && self.at + bytes.len() as u64 <= self.layout.end(file);
        if self.layout.place(at) != Some(self.at) || !fits {
            // Lost, repeated or out of order. The source is asked once for each place: it may have
            // sent more before it hears of it.
            let again = self.asked != Some(self.at);
            self.ack(out, again);
            return Ok(());
        }
        let open = match &self.open {
            Some(open) => open,
            None => {
                let mode = if at.offset == 0 { OpenMode::Create } else { OpenMode::Write };
                self.open.insert(files.disk().open(&self.path(files, file), mode)?)
            }
        };
        open.write_at(bytes, at.offset)?;
        self.at += bytes.len() as u64;
        if self.at == self.layout.end(file) {
            open.sync_data_in_pieces()?;
            self.open = None;
            self.work = Work::Verify(file, None, false);
        } else {
            self.ack(out, false);
        }
        Ok(())
    }

    fn step(&mut self, files: &Files, out: &mut Vec<u8>) -> SnapshotResult<()> {
        match std::mem::replace(&mut self.work, Work::Look(0)) {
            Work::Look(file) => self.inspect(files, file, out)?,
            Work::Prefix(file, mut reader) => {
                let good = reader.position();
                match reader.next_block() {
                    Ok(Some(_)) => self.work = Work::Prefix(file, reader),
                    Ok(None) => self.receive_from(file, reader.position(), out),
                    Err(SnapshotError::Disk(error)) => return Err(error.into()),
                    Err(
                        SnapshotError::Damaged { .. } | SnapshotError::Version { .. } | SnapshotError::Schema { .. },
                    ) => {
                        self.receive_from(file, good, out);
                    }
                }
            }
            Work::Verify(0, _, looks) => self.judge_manifest(files, looks, out)?,
            Work::Verify(file, verifier, looks) => self.verify(files, file, verifier, looks, out)?,
            Work::Commit => {
                files.sync()?;
                let manifest = self.manifest.as_ref().expect("the rows were compared with it");
                files.commit(&own_name(self.id.snapshot), manifest)?;
                self.work = Work::Done;
                self.answer(out);
            }
            work @ (Work::Receive | Work::Done | Work::TakenIn | Work::Refused(_)) => self.work = work,
        }
        Ok(())
    }

    /// What an earlier process has left of a file.
    fn inspect(&mut self, files: &Files, file: u32, out: &mut Vec<u8>) -> SnapshotResult<()> {
        let name = own_name(self.id.snapshot);
        if file == 0 && files.find()?.snapshots.contains(&self.id.snapshot) {
            // It had got its name, so all was there. That it still is, loading will tell.
            let manifest = files.manifest(&name).ok().filter(|manifest| self.is_expected(manifest));
            match manifest {
                Some(_) => {
                    self.work = Work::Done;
                    self.answer(out);
                }
                None => {
                    files.remove(&name)?;
                    self.receive_from(0, 0, out);
                }
            }
            return Ok(());
        }
        if file == self.layout.files() {
            self.work = Work::Commit;
            return Ok(());
        }
        let path = self.path(files, file);
        let there = path.file_name().is_some_and(|name| {
            files.disk().list(files.dir()).is_ok_and(|names| names.iter().any(|there| name == there.as_str()))
        });
        if !there {
            self.receive_from(file, 0, out);
            return Ok(());
        }
        let open = files.disk().open(&path, OpenMode::Write)?;
        // What is read back is what the disk has.
        open.sync_data()?;
        let bytes = open.bytes()?;
        if bytes == self.layout.size(file) {
            self.at = self.layout.end(file);
            self.work = Work::Verify(file, None, true);
        } else if file > 0 && bytes < self.layout.size(file) {
            let identity = files.identity(self.manifest(), file as usize - 1);
            self.work = Work::Prefix(file, Box::new(Reader::open(&**files.disk(), &path, identity, None)?));
        } else {
            self.receive_from(file, 0, out);
        }
        Ok(())
    }

    fn manifest(&self) -> &Manifest {
        self.manifest.as_ref().expect("the manifest comes before the rows")
    }

    fn is_expected(&self, manifest: &Manifest) -> bool {
        let bytes = manifest.encode();
        let sizes = manifest.files.iter().map(|file| file.bytes);
        crc32c(&bytes) == self.id.manifest
            && (manifest.database, manifest.snapshot) == (self.id.database, self.id.snapshot)
            && manifest.files.len() + 1 == self.layout.files() as usize
            && bytes.len() as u64 == self.layout.size(0)
            && (1..).zip(sizes).all(|(file, size)| self.layout.size(file) == size)
    }

    /// The manifest is whole: it must be the one that was announced.
    fn judge_manifest(&mut self, files: &Files, looks: bool, out: &mut Vec<u8>) -> SnapshotResult<()> {
        match files.read_manifest(&self.path(files, 0)) {
            Ok(manifest) if self.is_expected(&manifest) => {
                self.manifest = Some(manifest);
                self.whole(0);
            }
            Err(SnapshotError::Disk(error)) => return Err(error.into()),
            Err(SnapshotError::Version { .. } | SnapshotError::Schema { .. }) => {
                self.refuse(Refusal::Format(FORMAT), out);
            }
            Ok(_) | Err(SnapshotError::Damaged { .. }) => self.damaged(0, 0, looks, out),
        }
        Ok(())
    }

    fn verify(
        &mut self,
        files: &Files,
        file: u32,
        verifier: Option<Box<Verifier>>,
        looks: bool,
        out: &mut Vec<u8>,
    ) -> SnapshotResult<()> {
        let mut verifier = match verifier {
            Some(verifier) => verifier,
            None => {
                let expected = self.manifest().files[file as usize - 1];
                let identity = files.identity(self.manifest(), file as usize - 1);
                let path = self.path(files, file);
                match Verifier::open(&**files.disk(), &path, identity, expected) {
                    Ok(verifier) => Box::new(verifier),
                    Err(SnapshotError::Disk(error)) => return Err(error.into()),
                    Err(
                        SnapshotError::Damaged { .. } | SnapshotError::Version { .. } | SnapshotError::Schema { .. },
                    ) => {
                        self.damaged(file, 0, looks, out);
                        return Ok(());
                    }
                }
            }
        };
        let good = verifier.position();
        match verifier.step() {
            Ok(Verified::Some(_)) => self.work = Work::Verify(file, Some(verifier), looks),
            Ok(Verified::All) => self.whole(file),
            Err(SnapshotError::Disk(error)) => return Err(error.into()),
            Err(SnapshotError::Version { .. } | SnapshotError::Schema { .. }) => {
                self.refuse(Refusal::Format(FORMAT), out);
            }
            Err(SnapshotError::Damaged { .. }) => self.damaged(file, good, looks, out),
        }
        Ok(())
    }

    /// The file is what it should be. The next one may be there already, where only the manifest
    /// was lost.
    fn whole(&mut self, file: u32) {
        self.at = self.layout.end(file);
        self.work = Work::Look(file + 1);
    }

    /// The file is not, from there on.
    fn damaged(&mut self, file: u32, good: u64, looks: bool, out: &mut Vec<u8>) {
        if !looks && self.again.replace(file) == Some(file) {
            self.refuse(Refusal::Damaged(file), out);
        } else {
            self.receive_from(file, if looks { good } else { 0 }, out);
        }
    }

    fn receive_from(&mut self, file: u32, offset: u64, out: &mut Vec<u8>) {
        self.at = self.layout.start(file) + offset;
        self.open = None;
        self.work = Work::Receive;
        self.ack(out, true);
    }

    fn refuse(&mut self, refusal: Refusal, out: &mut Vec<u8>) {
        self.work = Work::Refused(refusal);
        self.answer(out);
    }
}

/// What was announced to an earlier process; None where that is nothing that can be read.
fn read_announced(files: &Files) -> SnapshotResult<Option<(TransferId, Layout)>> {
    let bytes_max = 1_024 + 8 * ferrite_base::limits::PARTITIONS_MAX;
    let Some(bytes) = small_file::read(&**files.disk(), files.dir(), ANNOUNCED, bytes_max)? else { return Ok(None) };
    let announced = || {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (checksum, message) = rest.split_first_chunk::<4>()?;
        let sound = crc32c(message).to_le_bytes() == *checksum;
        match decode(message).ok().filter(|_| sound)? {
            (id, TransferMessage::Install { format: FORMAT, sizes, .. }) => {
                Some((id, Layout::new(&sizes, MANIFEST_BYTES_MAX)?))
            }
            _ => None,
        }
    };
    Ok(announced())
}

fn write_announced(files: &Files, id: &TransferId, sizes: &[u64]) -> DiskResult<()> {
    let mut message = Vec::new();
    encode(&mut message, id, &TransferMessage::Install { format: FORMAT, anew: false, sizes: sizes.to_vec() });
    let bytes = [&MAGIC[..], &crc32c(&message).to_le_bytes(), &message].concat();
    small_file::replace(&**files.disk(), files.dir(), ANNOUNCED, ANNOUNCED_PARTIAL, &bytes)
}
