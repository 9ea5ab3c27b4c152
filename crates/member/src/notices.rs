//! Notices that peers can cause: the same one is given now and then, not each time.

use ferrite_notice::Notice;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const AGAIN_AFTER: Duration = Duration::from_secs(60);
const REMEMBERED: usize = 64;

#[derive(Default)]
pub struct Notices(Mutex<BTreeMap<String, Instant>>);

impl Notices {
    pub fn say(&self, notice: Notice) {
        if self.is_new(&notice.to_string(), Instant::now()) {
            ferrite_io::notify(notice);
        }
    }

    /// Beyond what is remembered, nothing is printed.
    fn is_new(&self, line: &str, now: Instant) -> bool {
        let mut said = self.0.lock().expect("no panic with the lines");
        said.retain(|_, at| now.duration_since(*at) < AGAIN_AFTER);
        let new = said.len() < REMEMBERED && !said.contains_key(line);
        if new {
            said.insert(line.to_owned(), now);
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_said_once_a_minute_and_a_flood_not_at_all() {
        let (notices, now) = (Notices::default(), Instant::now());
        assert!(notices.is_new("a", now) && !notices.is_new("a", now + AGAIN_AFTER / 2));
        assert!(notices.is_new("a", now + AGAIN_AFTER));
        let later = now + 2 * AGAIN_AFTER;
        let said = (0..2 * REMEMBERED).filter(|number| notices.is_new(&number.to_string(), later)).count();
        assert_eq!(said, REMEMBERED);
    }
}
