//! A notice as it was given: with its time and its node, and the lines that this makes.

use crate::{Level, Notice};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

/// Before each further line of a trace.
const INDENT: &str = "    ";

/// A notice, when it was given, and by which node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoggedNotice {
    /// Microseconds since 1970.
    pub micros: i64,
    /// None: the process does not belong to a cluster, or not yet.
    pub node: Option<u32>,
    pub notice: Notice,
}

/// The members of an object in the order in which they are written.
#[derive(Serialize)]
struct Object<'n> {
    time: &'n str,
    level: &'static str,
    code: &'static str,
    node: Option<u32>,
    message: &'n str,
    fields: Map<String, Value>,
}

impl LoggedNotice {
    pub fn level(&self) -> Level {
        self.notice.level()
    }

    /// The notice's text on one line.
    pub fn message(&self) -> String {
        let mut message = String::new();
        push_printable(&mut message, &self.notice.to_string());
        message
    }

    /// `2026-11-29T13:00:00.123Z INFO  ferrite: this node leads group 0 from epoch 5 [leads]` and a
    /// line feed; a trace follows on indented lines.
    pub fn text(&self) -> String {
        let notice = &self.notice;
        let level = notice.level().name();
        let mut text = format!("{} {level:5} ferrite: {} [{}]\n", time(self.micros), self.message(), notice.code());
        for line in notice.trace().into_iter().flat_map(str::lines) {
            text.push_str(INDENT);
            push_printable(&mut text, line.trim_start());
            text.push('\n');
        }
        text
    }

    /// One JSON object and a line feed.
    pub fn json(&self) -> String {
        let notice = &self.notice;
        let object = Object {
            time: &time(self.micros),
            level: notice.level().name(),
            code: notice.code(),
            node: self.node,
            message: &notice.to_string(),
            fields: notice.fields(),
        };
        let mut line = serde_json::to_string(&object).expect("texts and numbers can be written as JSON");
        line.push('\n');
        line
    }
}

/// RFC 3339, to the millisecond, in UTC.
fn time(micros: i64) -> String {
    Timestamp::from_microsecond(micros).map_or_else(|_| format!("{micros}us"), |time| format!("{time:.3}"))
}

/// Line ends would begin lines that look like the server's, escape sequences would change what a
/// terminal shows, and marks of direction the order in which it shows it.
fn push_printable(line: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                line.extend(character.escape_unicode());
            }
            _ if character.is_control() => line.extend(character.escape_default()),
            _ => line.push(character),
        }
    }
}

/// The message of a line that [`LoggedNotice::text`] has made, for programs that read a node's
/// lines; those of releases that wrote neither time nor code, too. None: the line is another's.
pub fn message_of(line: &str) -> Option<&str> {
    let line = line.trim_end();
    let (before, message) = line.split_once("ferrite: ")?;
    if !before.is_empty() && !before.ends_with(' ') {
        return None;
    }
    let Some((text, code)) = message.strip_suffix(']').and_then(|message| message.rsplit_once(" [")) else {
        return Some(message);
    };
    let is_code = !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    Some(if is_code { text } else { message })
}
