//! Where results go: standard output or the file of `\o`. Gives up in the middle of a long result
//! at Ctrl-C.

use crate::interrupt::Interrupts;
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Stdout, Write};

pub struct Output {
    terminal: BufWriter<Stdout>,
    file: Option<BufWriter<File>>,
    interrupts: Interrupts,
}

impl Output {
    pub fn new(interrupts: Interrupts) -> Output {
        Output { terminal: BufWriter::new(io::stdout()), file: None, interrupts }
    }

    /// To a file, or back to the terminal.
    pub fn redirect(&mut self, path: Option<&str>) -> io::Result<()> {
        self.flush()?;
        self.file = path.map(File::create).transpose()?.map(BufWriter::new);
        Ok(())
    }

    pub fn is_file(&self) -> bool {
        self.file.is_some()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.interrupts.seen() {
            // Not `Interrupted`: that kind is tried again.
            return Err(io::Error::other("interrupted"));
        }
        match &mut self.file {
            Some(file) => file.write(bytes),
            None => self.terminal.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.file {
            Some(file) => file.flush(),
            None => self.terminal.flush(),
        }
    }
}

/// Whether nobody reads any more: `ferrite sql ... | head`.
pub fn is_closed(error: &io::Error) -> bool {
    error.kind() == ErrorKind::BrokenPipe
}
