//! Rejected records: a file in which each stands as it came, below a line that says where it was
//! and what is wrong with it. With those lines as comments, the corrected file can be loaded as the
//! first was.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

/// What a line about a record begins with.
pub const MARK: &str = "# line ";

pub struct Rejects {
    path: PathBuf,
    /// Made at the first record.
    file: Option<BufWriter<File>>,
    /// Copied to the front, so that the fields keep their names.
    pub header: Option<Vec<u8>>,
    pub count: u64,
}

impl Rejects {
    pub fn new(path: PathBuf) -> Rejects {
        Rejects { path, file: None, header: None, count: 0 }
    }

    pub fn path(&self) -> &PathBuf {
        &self.path
    }

    pub fn write(&mut self, line: u64, reason: &str, record: &[u8]) -> io::Result<()> {
        self.count += 1;
        if self.file.is_none() {
            let mut file = BufWriter::new(File::create(&self.path)?);
            if let Some(header) = &self.header {
                file.write_all(header)?;
                file.write_all(b"\n")?;
            }
            self.file = Some(file);
        }
        let file = self.file.as_mut().expect("made above");
        writeln!(file, "{MARK}{line}: {}", reason.replace(['\n', '\r'], "; "))?;
        file.write_all(record)?;
        file.write_all(b"\n")
    }

    pub fn finish(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), BufWriter::flush)
    }
}
