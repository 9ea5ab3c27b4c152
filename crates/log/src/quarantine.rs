//! What is cut from a log at the operator's word is kept in a folder of its own, named by whoever
//! asked. Nobody reads it again.
//!
//! Whole segments are moved there, bytes of a segment that stays are copied first: until they are
//! durable nothing is changed.

use std::path::{Path, PathBuf};

use ferrite_io::{Disk, DiskResult, OpenMode};

use crate::error::LogError;

/// Left free beside the copy, for what the file system needs to note it.
const ROOM_BESIDE: u64 = 1 << 20;

pub(crate) struct Quarantine<'a> {
    disk: &'a dyn Disk,
    dir: &'a Path,
    folder: &'a Path,
    /// What was put there.
    pub files: Vec<PathBuf>,
}

impl<'a> Quarantine<'a> {
    pub fn new(disk: &'a dyn Disk, dir: &'a Path, folder: &'a Path) -> Self {
        Quarantine { disk, dir, folder, files: Vec::new() }
    }

    /// Copies these bytes of a segment, which begin at that position, and makes the copy durable.
    /// Comes first, so that without room for it nothing was changed.
    pub fn keep_bytes(&mut self, segment: &Path, position: u64, bytes: &[u8]) -> Result<(), LogError> {
        let needed = bytes.len() as u64 + ROOM_BESIDE;
        let free = self.disk.space(self.dir)?.free;
        let no_room = |free| LogError::NoRoomToKeep { folder: self.folder.to_path_buf(), needed, free };
        if free < needed {
            return Err(no_room(free));
        }
        let name = segment.file_stem().unwrap_or_default().to_string_lossy();
        let path = self.folder.join(format!("{name}-from-byte-{position}"));
        let copy = || -> DiskResult<()> {
            self.disk.create_dir(self.folder)?;
            let file = self.disk.open(&path, OpenMode::Create)?;
            file.write_at(bytes, 0)?;
            file.sync_data()?;
            self.disk.sync_dir(self.folder)
        };
        copy().map_err(|error| {
            // Half a copy helps nobody. That it cannot be removed either changes nothing for who
            // reads the error.
            let _ = self.disk.remove(&path);
            if error.is_out_of_space() { no_room(free) } else { LogError::Disk(error) }
        })?;
        self.files.push(path);
        Ok(())
    }

    /// Takes a segment out of the log: moved, where there is something in it.
    pub fn drop_file(&mut self, segment: &Path, keep: bool) -> DiskResult<()> {
        let name = segment.file_name().filter(|_| keep);
        match name {
            Some(name) => {
                self.disk.create_dir(self.folder)?;
                let to = self.folder.join(name);
                self.disk.rename(segment, &to)?;
                self.disk.sync_dir(self.folder)?;
                self.files.push(to);
            }
            None => self.disk.remove(segment)?,
        }
        self.disk.sync_dir(self.dir)
    }
}
