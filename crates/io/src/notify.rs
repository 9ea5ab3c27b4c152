//! Puts notices on the streams: what happens to standard error, what scripts wait for to standard
//! output.
//!
//! Owns nothing. Promises that a caller is not held up ([`crate::stdio`]).

use crate::notices::{self, LogFormat};
use crate::stdio;
use ferrite_notice::Notice;

/// A line on standard error, where the server's log goes; returns at once.
pub fn notify(notice: Notice) {
    let line = notices::keep(notice);
    stdio::ERROR.lines(line.as_bytes());
}

/// The line on standard output that scripts wait for: a text has neither time nor code.
pub fn announce(notice: Notice) {
    let text = format!("{notice}\n");
    let line = notices::keep(notice);
    let line = if notices::format() == LogFormat::Json { line } else { text };
    stdio::OUT.lines(line.as_bytes());
}

/// Passes on what other code in this process prints. Its lines are not the server's: they are not
/// kept, and as texts they stay as they are.
pub fn pass_on(stream: &stdio::Stream, lines: &[u8]) {
    if notices::format() == LogFormat::Text {
        return stream.lines(lines);
    }
    let mut objects = String::new();
    for line in String::from_utf8_lossy(lines).lines() {
        objects.push_str(&notices::line_of(Notice::JavaPrints { line: line.to_owned() }));
    }
    stream.lines(objects.as_bytes());
}
