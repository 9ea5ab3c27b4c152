//! What an operator may set: the limits of `limits.rs` that are not fixed, as they are in force for one server.
//!
//! Owns names, ranges and defaults. Does not know command lines; who parses one calls [`Settings::set`].

use crate::limits;

/// Limits in force. [`Settings::default`] has none on memory and disk, which depend on the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Bytes that the process may take; None: as much as it gets.
    pub memory_bytes: Option<usize>,
    /// Free bytes of the disk from which on writes are refused.
    pub disk_reserve_bytes: u64,
    /// As in `limits.rs`, each.
    pub temporary_bytes: usize,
    pub transaction_bytes: usize,
    pub node_outstanding_calls: usize,
    pub node_outstanding_bytes: usize,
    pub connections: usize,
    pub connection_answer_bytes: usize,
    pub connection_unread_seconds: u64,
    pub login_seconds: u64,
    pub compound_calls: usize,
    pub compound_stage_calls: usize,
    pub compound_seconds: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            memory_bytes: None,
            disk_reserve_bytes: 0,
            temporary_bytes: limits::TEMPORARY_BYTES_MAX,
            transaction_bytes: limits::TRANSACTION_BYTES_MAX,
            node_outstanding_calls: limits::NODE_OUTSTANDING_CALLS_MAX,
            node_outstanding_bytes: limits::NODE_OUTSTANDING_BYTES_MAX,
            connections: limits::CONNECTIONS_MAX,
            connection_answer_bytes: limits::CONNECTION_ANSWER_BYTES_MAX,
            connection_unread_seconds: limits::CONNECTION_UNREAD_SECONDS_MAX,
            login_seconds: limits::LOGIN_SECONDS_MAX,
            compound_calls: limits::COMPOUND_CALLS_MAX,
            compound_stage_calls: limits::COMPOUND_STAGE_CALLS_MAX,
            compound_seconds: limits::COMPOUND_SECONDS_MAX,
        }
    }
}

/// A limit that can be set by name.
struct Named {
    name: &'static str,
    /// The least and the most that it may be set to.
    range: (u64, u64),
    put: fn(&mut Settings, u64),
}

const MEBIBYTE: u64 = 1 << 20;
const TEBIBYTE: u64 = 1 << 40;

const NAMED: &[Named] = &[
    Named { name: "temporary-bytes", range: (MEBIBYTE, TEBIBYTE), put: |s, value| s.temporary_bytes = value as usize },
    Named {
        name: "transaction-bytes",
        range: (MEBIBYTE, 2 << 30),
        put: |s, value| s.transaction_bytes = value as usize,
    },
    Named {
        name: "node-outstanding-calls",
        range: (1, 1_000_000_000),
        put: |s, value| s.node_outstanding_calls = value as usize,
    },
    Named {
        name: "node-outstanding-bytes",
        range: (MEBIBYTE, TEBIBYTE),
        put: |s, value| s.node_outstanding_bytes = value as usize,
    },
    Named { name: "connections", range: (1, 1_000_000), put: |s, value| s.connections = value as usize },
    Named {
        name: "connection-unread-seconds",
        range: (1, 86_400),
        put: |s, value| s.connection_unread_seconds = value,
    },
    Named {
        name: "connection-answer-bytes",
        range: (128 * MEBIBYTE, TEBIBYTE),
        put: |s, value| s.connection_answer_bytes = value as usize,
    },
    Named { name: "login-seconds", range: (1, 86_400), put: |s, value| s.login_seconds = value },
    Named { name: "compound-calls", range: (1, 1_000_000), put: |s, value| s.compound_calls = value as usize },
    Named { name: "compound-stage-calls", range: (1, 1_000), put: |s, value| s.compound_stage_calls = value as usize },
    Named { name: "compound-seconds", range: (1, 86_400), put: |s, value| s.compound_seconds = value },
];

impl Settings {
    /// Sets a limit by its name in docs/limits.md. The error says what would do.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let Some(limit) = NAMED.iter().find(|limit| limit.name == name) else {
            return Err(format!("there is no limit {name} to set; there are {}", Settings::names().join(", ")));
        };
        let (least, most) = limit.range;
        match bytes(value) {
            Some(number) if (least..=most).contains(&number) => {
                (limit.put)(self, number);
                Ok(())
            }
            _ => Err(format!("{name} must be from {least} to {most}")),
        }
    }

    pub fn names() -> Vec<&'static str> {
        NAMED.iter().map(|limit| limit.name).collect()
    }
}

/// A number of bytes or others: digits, perhaps with K, M, G or T for powers of 1024.
pub fn bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.char_indices().last()? {
        (at, 'K' | 'k') => (&text[..at], 10),
        (at, 'M' | 'm') => (&text[..at], 20),
        (at, 'G' | 'g') => (&text[..at], 30),
        (at, 'T' | 't') => (&text[..at], 40),
        _ => (text, 0),
    };
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_digits_and_a_power() {
        let read = ["0", "17", "500K", "16g", "2T"].map(bytes);
        assert_eq!(read, [Some(0), Some(17), Some(512_000), Some(16 << 30), Some(2 << 40)]);
        for text in ["", "K", "-1", "+1", "1.5G", "16GB", "x", "99999999999999999999", "20000000T", "1µ"] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }

    #[test]
    fn limits_are_set_within_their_ranges() {
        for limit in NAMED {
            let (least, most) = limit.range;
            let mut settings = Settings::default();
            for good in [least, most] {
                settings.set(limit.name, &good.to_string()).expect("at the end of the range");
            }
            assert!(settings != Settings::default(), "{}", limit.name);
            for bad in [least - 1, most + 1] {
                let error = settings.set(limit.name, &bad.to_string()).expect_err("one past it");
                assert!(error.contains(limit.name) && error.contains(&least.to_string()), "{error}");
            }
        }
        let error = Settings::default().set("nothing", "1").expect_err("no such limit");
        assert!(error.contains("temporary-bytes"), "{error}");
    }
}
