//! The bytes to load: from a file or standard input, read ahead by a thread so that neither side
//! waits for the other, or from the script that is being run.

use crate::script::ScriptReader;
use crate::source;
use mio::Waker;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

pub const CHUNK_BYTES: usize = 1 << 17;
/// Chunks read ahead.
const CHUNKS_AHEAD: usize = 16;

type Reader = Box<dyn BufRead + Send>;

/// Appends lines; false at the end.
type NextLines<'s> = Box<dyn FnMut(&mut Vec<u8>) -> io::Result<bool> + 's>;

/// What can be loaded.
pub enum Input<'s> {
    Stream {
        reader: Reader,
        name: String,
        progress: Option<(Arc<AtomicU64>, u64)>,
    },
    /// Lines of a script, one at a time.
    Lines(NextLines<'s>),
}

/// Counts what goes through it: of a compressed file the compressed bytes, whose number is known.
struct Counted {
    file: File,
    bytes: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl<'s> Input<'s> {
    /// A file, or standard input for `-`.
    pub fn open(path: &Path) -> io::Result<Input<'s>> {
        if path == Path::new("-") || path == Path::new("stdin") {
            let reader = source::open(Path::new("-"))?;
            return Ok(Input::Stream { reader, name: "-".to_owned(), progress: None });
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let bytes = Arc::new(AtomicU64::new(0));
        let progress = metadata.is_file().then(|| (Arc::clone(&bytes), metadata.len()));
        let reader = source::unpacked(BufReader::with_capacity(CHUNK_BYTES, Counted { file, bytes }))?;
        Ok(Input::Stream { reader, name: path.to_string_lossy().into_owned(), progress })
    }

    /// What follows in a script, up to a line that is `mark`.
    /// `ended` becomes true when all of it has been read.
    pub fn inline<R: BufRead>(script: &'s mut ScriptReader<R>, mark: &str, ended: &'s Cell<bool>) -> Input<'s> {
        let mark = mark.as_bytes().to_vec();
        let mut line = Vec::new();
        Input::Lines(Box::new(move |out| {
            let before = out.len();
            while !ended.get() && out.len() - before < CHUNK_BYTES {
                ended.set(!script.next_line(&mut line)? || line.trim_ascii() == mark);
                if !ended.get() {
                    out.extend_from_slice(&line);
                }
            }
            Ok(out.len() > before)
        }))
    }

    /// The file's name; `-` for what has none.
    pub fn name(&self) -> &str {
        match self {
            Input::Stream { name, .. } => name,
            Input::Lines(_) => "-",
        }
    }

    /// Begins to read. The waker is told of each chunk that has come.
    pub fn start(self, waker: Arc<Waker>) -> io::Result<Feed<'s>> {
        match self {
            Input::Lines(next) => Ok(Feed::Lines(next)),
            Input::Stream { reader, progress, .. } => {
                let (sender, receiver) = sync_channel(CHUNKS_AHEAD);
                std::thread::Builder::new()
                    .name("read".to_owned())
                    .spawn(move || read_ahead(reader, &sender, &waker))?;
                Ok(Feed::Thread { receiver, progress })
            }
        }
    }
}

fn read_ahead(mut reader: Reader, sender: &SyncSender<io::Result<Vec<u8>>>, waker: &Waker) {
    loop {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        // Not more than what has come: a pipe's rows are loaded as they come.
        let read = reader.fill_buf().map(|bytes| {
            let bytes = &bytes[..bytes.len().min(CHUNK_BYTES)];
            chunk.extend_from_slice(bytes);
            bytes.len()
        });
        let (message, last) = match read {
            Ok(bytes) => {
                reader.consume(bytes);
                (Ok(chunk), bytes == 0)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => (Err(error), true),
        };
        // The loader is gone when it has failed.
        if sender.send(message).is_err() || waker.wake().is_err() || last {
            return;
        }
    }
}

/// What [`Feed::next`] brought.
pub enum Chunk {
    Bytes,
    NotYet,
    End,
    Failed(String),
}

/// An input that is being read.
pub enum Feed<'s> {
    Thread { receiver: Receiver<io::Result<Vec<u8>>>, progress: Option<(Arc<AtomicU64>, u64)> },
    Lines(NextLines<'s>),
}

impl Feed<'_> {
    /// Appends what has come, without waiting for a thread that has not read any yet.
    pub fn next(&mut self, out: &mut Vec<u8>) -> Chunk {
        match self {
            Feed::Lines(next) => match next(out) {
                Ok(true) => Chunk::Bytes,
                Ok(false) => Chunk::End,
                Err(error) => Chunk::Failed(error.to_string()),
            },
            Feed::Thread { receiver, .. } => match receiver.try_recv() {
                Ok(message) => took(message, out),
                Err(TryRecvError::Empty) => Chunk::NotYet,
                Err(TryRecvError::Disconnected) => Chunk::End,
            },
        }
    }

    /// As [`Feed::next`], but waits.
    pub fn wait(&mut self, out: &mut Vec<u8>) -> Chunk {
        match self {
            Feed::Thread { receiver, .. } => receiver.recv().map_or(Chunk::End, |message| took(message, out)),
            Feed::Lines(_) => self.next(out),
        }
    }

    /// How much has been read, of 1.
    pub fn share(&self) -> Option<f64> {
        match self {
            Feed::Thread { progress: Some((read, all)), .. } if *all > 0 => {
                Some((read.load(Ordering::Relaxed) as f64 / *all as f64).min(1.0))
            }
            _ => None,
        }
    }
}

fn took(message: io::Result<Vec<u8>>, out: &mut Vec<u8>) -> Chunk {
    match message {
        Ok(chunk) if chunk.is_empty() => Chunk::End,
        Ok(chunk) => {
            out.extend_from_slice(&chunk);
            Chunk::Bytes
        }
        Err(error) => Chunk::Failed(error.to_string()),
    }
}
