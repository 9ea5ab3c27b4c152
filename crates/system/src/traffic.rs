//! What connections and network threads count: bytes, messages, calls and latencies. Reported when
//! somebody asks.

use crate::latency::Latencies;
use std::collections::HashMap;

/// Procedures that are counted for one connection; calls of further ones count for the connection
/// only.
const PROCEDURES_COUNTED_MAX: usize = 1_000;

/// About one connection, since it was opened.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    pub bytes_read: u64,
    pub messages_read: u64,
    pub bytes_written: u64,
    pub messages_written: u64,
    /// Of calls by procedure.
    calls: HashMap<String, u64>,
    /// Microseconds from handing calls over to having their answers; all procedures together.
    pub waits: u64,
    pub wait_total: u64,
    pub wait_min: u64,
    pub wait_max: u64,
}

impl Traffic {
    pub fn called(&mut self, procedure: &str, count: u64) {
        if count == 0 {
            return;
        }
        if let Some(calls) = self.calls.get_mut(procedure) {
            *calls += count;
        } else if self.calls.len() < PROCEDURES_COUNTED_MAX {
            self.calls.insert(procedure.to_owned(), count);
        }
    }

    #[inline]
    pub fn waited(&mut self, micros: u64, calls: u64) {
        self.wait_min = if self.waits == 0 { micros } else { self.wait_min.min(micros) };
        self.wait_max = self.wait_max.max(micros);
        self.wait_total += micros * calls;
        self.waits += calls;
    }

    /// Calls by procedure, sorted by name.
    pub fn calls(&self) -> Vec<(&str, u64)> {
        let mut calls: Vec<_> = self.calls.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        calls.sort_unstable();
        calls
    }

    /// What was counted since `earlier`; the least and the most stay those since the start.
    pub fn since(&self, earlier: &Traffic) -> Traffic {
        let calls =
            self.calls.iter().map(|(name, count)| (name.clone(), count - earlier.calls.get(name).unwrap_or(&0)));
        Traffic {
            bytes_read: self.bytes_read - earlier.bytes_read,
            messages_read: self.messages_read - earlier.messages_read,
            bytes_written: self.bytes_written - earlier.bytes_written,
            messages_written: self.messages_written - earlier.messages_written,
            calls: calls.filter(|(_, count)| *count > 0).collect(),
            waits: self.waits - earlier.waits,
            wait_total: self.wait_total - earlier.wait_total,
            ..*self
        }
    }
}

#[derive(Clone, Debug)]
pub struct ConnectionReport {
    /// As the login told it to the client.
    pub connection_id: i64,
    pub peer: String,
    pub admin: bool,
    pub traffic: Traffic,
    pub outstanding_calls: usize,
    pub outstanding_bytes: usize,
    pub unread_answers: usize,
}

/// What a network thread tells of itself.
#[derive(Clone, Debug, Default)]
pub struct NetworkReport {
    pub connections: Vec<ConnectionReport>,
    /// Of connections that are gone: bytes and messages.
    pub closed: Traffic,
    pub latencies: Latencies,
    pub accepted: u64,
    pub refused: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_has_a_limit_and_intervals_are_differences() {
        let mut traffic = Traffic::default();
        for number in 0..PROCEDURES_COUNTED_MAX + 5 {
            traffic.called(&format!("p{number}"), 2);
        }
        assert_eq!(traffic.calls().len(), PROCEDURES_COUNTED_MAX);
        let before = traffic.clone();
        traffic.called("p7", 1);
        traffic.waited(30, 2);
        traffic.waited(10, 1);
        let later = traffic.since(&before);
        assert_eq!(later.calls(), [("p7", 1)]);
        assert_eq!((later.waits, later.wait_total, later.wait_min, later.wait_max), (3, 70, 10, 30));
    }
}
