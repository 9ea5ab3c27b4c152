//! Files in and out, through gzip where they are compressed.

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// A file, or standard input for `-`.
pub fn open(path: &Path) -> io::Result<Box<dyn BufRead + Send>> {
    if path == Path::new("-") {
        return unpacked(BufReader::new(io::stdin()));
    }
    unpacked(BufReader::with_capacity(1 << 17, File::open(path)?))
}

/// The stream as it is, or what gzip packed into it.
pub fn unpacked(mut reader: impl BufRead + Send + 'static) -> io::Result<Box<dyn BufRead + Send>> {
    if reader.fill_buf()?.starts_with(&GZIP_MAGIC) {
        Ok(Box::new(BufReader::with_capacity(1 << 17, MultiGzDecoder::new(reader))))
    } else {
        Ok(Box::new(reader))
    }
}

/// The message about a file that cannot be read. Where a relative name is not found, it says what
/// it is relative to: most often the caller is in another directory.
pub fn cannot_read(path: &Path, error: &io::Error) -> String {
    let seen_from =
        std::env::current_dir().ok().filter(|_| error.kind() == io::ErrorKind::NotFound && path.is_relative());
    let place = seen_from.map_or_else(String::new, |dir| format!("; the current directory is {}", dir.display()));
    format!("cannot read {}: {error}{place}", path.display())
}

pub fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Writes a whole file, compressed if its name ends in `.gz`.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    if is_gzip_name(path) {
        let mut encoder = GzEncoder::new(file, Compression::default());
        encoder.write_all(bytes)?;
        encoder.finish()?;
        Ok(())
    } else {
        file.write_all(bytes)
    }
}

pub fn is_gzip_name(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"))
}
