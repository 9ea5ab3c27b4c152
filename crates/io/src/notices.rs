//! Notices for the operator on their way out: each gets its time, becomes a line, and is kept for a
//! while.
//!
//! A process is one node, so what this owns exists once for it, as the streams do: the form of the
//! lines, the number of the node, and the last notices, which `@Statistics EVENTS` shows. A notice
//! holds up no thread: the lock here is held to put one in, or to copy pointers. Does not know the
//! streams: [`crate::notify`] puts the lines there.

use crate::clock::{Clock, SystemClock};
use ferrite_base::limits::{EVENT_BYTES_MAX, EVENTS_MAX};
pub use ferrite_notice::message_of;
use ferrite_notice::{Level, LoggedNotice, Notice};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How lines are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogFormat {
    /// For people, and for collectors that split at spaces.
    #[default]
    Text,
    /// One object on each line.
    Json,
}

/// A notice that was given, as it is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptNotice {
    /// Microseconds since 1970.
    pub micros: i64,
    pub level: Level,
    pub code: &'static str,
    pub message: String,
    /// A JSON object; an empty one where that would be too long.
    pub fields: String,
}

static IS_JSON: AtomicBool = AtomicBool::new(false);
/// The number of this node in its cluster; 0: none, or none yet.
static NODE: AtomicU32 = AtomicU32::new(0);
static RECENT: Mutex<Recent> = Mutex::new(Recent(VecDeque::new()));

/// From now on lines have this form.
pub fn set_format(format: LogFormat) {
    IS_JSON.store(format == LogFormat::Json, Ordering::Relaxed);
}

pub fn format() -> LogFormat {
    if IS_JSON.load(Ordering::Relaxed) { LogFormat::Json } else { LogFormat::Text }
}

/// From now on lines in JSON name this node.
pub fn set_node(node: u32) {
    NODE.store(node, Ordering::Relaxed);
}

/// The notices that are kept, oldest first.
pub fn recent() -> Vec<Arc<KeptNotice>> {
    locked().0.iter().cloned().collect()
}

/// Keeps a notice; returns its line.
pub(crate) fn keep(notice: Notice) -> String {
    let logged = logged(notice);
    let kept = kept(&logged);
    locked().add(kept);
    line(&logged)
}

/// A notice that is not kept, as a line.
pub(crate) fn line_of(notice: Notice) -> String {
    line(&logged(notice))
}

fn line(logged: &LoggedNotice) -> String {
    match format() {
        LogFormat::Text => logged.text(),
        LogFormat::Json => logged.json(),
    }
}

fn logged(notice: Notice) -> LoggedNotice {
    let node = NODE.load(Ordering::Relaxed);
    LoggedNotice { micros: SystemClock.wall_micros(), node: (node != 0).then_some(node), notice }
}

fn kept(logged: &LoggedNotice) -> KeptNotice {
    let mut message = logged.message();
    message.truncate(message.floor_char_boundary(EVENT_BYTES_MAX));
    let mut fields = serde_json::Value::Object(logged.notice.fields()).to_string();
    if fields.len() > EVENT_BYTES_MAX {
        "{}".clone_into(&mut fields);
    }
    KeptNotice { micros: logged.micros, level: logged.level(), code: logged.notice.code(), message, fields }
}

fn locked() -> std::sync::MutexGuard<'static, Recent> {
    RECENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// At most [`EVENTS_MAX`]; a new one takes the place of the oldest.
struct Recent(VecDeque<Arc<KeptNotice>>);

impl Recent {
    fn add(&mut self, notice: KeptNotice) {
        if self.0.len() == EVENTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Arc::new(notice));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(text: &str) -> KeptNotice {
        kept(&LoggedNotice { micros: 7, node: None, notice: Notice::Note { text: text.to_owned() } })
    }

    #[test]
    fn as_many_notices_as_the_limit_are_kept_and_not_one_more() {
        let mut recent = Recent(VecDeque::new());
        for number in 0..EVENTS_MAX {
            recent.add(note(&number.to_string()));
        }
        assert_eq!((recent.0.len(), &*recent.0[0].message), (EVENTS_MAX, "note: 0"));
        recent.add(note("new"));
        assert_eq!((recent.0.len(), &*recent.0[0].message), (EVENTS_MAX, "note: 1"));
        assert_eq!(recent.0[EVENTS_MAX - 1].message, "note: new");
    }

    #[test]
    fn as_many_bytes_of_a_notice_as_the_limit_are_kept_and_not_one_more() {
        let whole = "x".repeat(EVENT_BYTES_MAX - "note: ".len());
        assert_eq!(note(&whole).message, format!("note: {whole}"));
        assert_eq!(note(&format!("{whole}y")).message, format!("note: {whole}"));
        // Not within a character.
        assert_eq!(note(&format!("{}é", &whole[1..])).message, format!("note: {}", &whole[1..]));
        let fields = "x".repeat(EVENT_BYTES_MAX - r#"{"text":""}"#.len());
        assert_eq!(note(&fields).fields.len(), EVENT_BYTES_MAX);
        assert_eq!(note(&format!("{fields}y")).fields, "{}");
    }

    #[test]
    fn what_is_kept_is_what_the_line_says() {
        let kept = note("two\nlines");
        let expected = KeptNotice {
            micros: 7,
            level: Level::Info,
            code: "note",
            message: "note: two\\nlines".to_owned(),
            fields: r#"{"text":"two\nlines"}"#.to_owned(),
        };
        assert_eq!(kept, expected);
    }
}
