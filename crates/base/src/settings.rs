//! What an operator may set: the limits of `limits.rs` that are not fixed, as they are in force for
//! one server.
//!
//! Owns names, ranges and defaults. Promises that no setting exceeds what the formats hold. Does
//! not know command lines; who parses one calls [`Settings::set`].

use crate::limits;
use std::time::Duration;

/// Limits in force. [`Settings::default`] has none on memory and disk, which depend on the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Bytes that the process may take; None: as much as it gets.
    pub memory_bytes: Option<usize>,
    /// Free bytes of the disk below which writes are refused.
    pub disk_reserve_bytes: u64,
    /// As in `limits.rs`, each.
    pub sql: SqlLimits,
    pub frame_bytes: usize,
    pub result_bytes: usize,
    pub temporary_bytes: usize,
    pub transaction_bytes: usize,
    pub connection_outstanding_calls: usize,
    pub connection_outstanding_bytes: usize,
    pub node_outstanding_calls: usize,
    pub node_outstanding_bytes: usize,
    pub connections: usize,
    pub connection_answer_bytes: usize,
    pub connection_unread_seconds: u64,
    pub login_seconds: u64,
    pub frame_seconds: u64,
    pub compound_calls: usize,
    pub compound_stage_calls: usize,
    pub compound_seconds: u64,
    pub schema_seconds: u64,
    pub stop_seconds: u64,
    /// This and the next cannot be set by name.
    pub stop_grace: Duration,
    pub log_look_interval: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            memory_bytes: None,
            disk_reserve_bytes: 0,
            sql: SqlLimits::default(),
            frame_bytes: limits::FRAME_BYTES_MAX,
            result_bytes: limits::RESULT_BYTES_MAX,
            temporary_bytes: limits::TEMPORARY_BYTES_MAX,
            transaction_bytes: limits::TRANSACTION_BYTES_MAX,
            connection_outstanding_calls: limits::CONNECTION_OUTSTANDING_CALLS_MAX,
            connection_outstanding_bytes: limits::CONNECTION_OUTSTANDING_BYTES_MAX,
            node_outstanding_calls: limits::NODE_OUTSTANDING_CALLS_MAX,
            node_outstanding_bytes: limits::NODE_OUTSTANDING_BYTES_MAX,
            connections: limits::CONNECTIONS_MAX,
            connection_answer_bytes: limits::CONNECTION_ANSWER_BYTES_MAX,
            connection_unread_seconds: limits::CONNECTION_UNREAD_SECONDS_MAX,
            login_seconds: limits::LOGIN_SECONDS_MAX,
            frame_seconds: limits::FRAME_SECONDS_MAX,
            compound_calls: limits::COMPOUND_CALLS_MAX,
            compound_stage_calls: limits::COMPOUND_STAGE_CALLS_MAX,
            compound_seconds: limits::COMPOUND_SECONDS_MAX,
            schema_seconds: limits::SCHEMA_SECONDS_MAX,
            stop_seconds: limits::STOP_SECONDS_MAX,
            stop_grace: limits::STOP_GRACE,
            log_look_interval: limits::LOG_LOOK_INTERVAL,
        }
    }
}

/// What one call may take, whoever executes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallLimits {
    /// How long it may execute before it is interrupted and rolled back.
    pub time_max: Duration,
    /// What it may be answered.
    pub result_bytes: usize,
    /// What one statement of it may hold.
    pub temporary_bytes: usize,
}

impl CallLimits {
    pub fn new(time_max: Duration, settings: &Settings) -> CallLimits {
        CallLimits { time_max, result_bytes: settings.result_bytes, temporary_bytes: settings.temporary_bytes }
    }
}

/// So long, and else as by default.
impl From<Duration> for CallLimits {
    fn from(time_max: Duration) -> CallLimits {
        CallLimits::new(time_max, &Settings::default())
    }
}

/// What SQL from clients may bring in. It is asked at the door and nowhere behind it: what was
/// accepted under other settings, and comes from the log, a snapshot or a backup, is held to
/// [`SqlLimits::CEILING`] only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SqlLimits {
    /// Declared sizes of columns; those that are there already stay as they are.
    pub value_bytes: usize,
    /// A table's columns together, likewise.
    pub row_bytes: usize,
    pub statement_bytes: usize,
    /// In one batch or procedure.
    pub statements: usize,
    /// Of one statement or procedure.
    pub parameters: usize,
}

impl SqlLimits {
    /// What the formats hold.
    pub const CEILING: SqlLimits = SqlLimits {
        value_bytes: limits::VALUE_BYTES_MAX,
        row_bytes: limits::ROW_BYTES_CEILING,
        statement_bytes: limits::STATEMENT_BYTES_CEILING,
        statements: limits::STATEMENTS_CEILING,
        parameters: limits::PARAMETERS_CEILING,
    };
}

impl Default for SqlLimits {
    fn default() -> SqlLimits {
        SqlLimits {
            value_bytes: limits::VALUE_BYTES_MAX,
            row_bytes: limits::ROW_BYTES_MAX,
            statement_bytes: limits::STATEMENT_BYTES_MAX,
            statements: limits::STATEMENTS_MAX,
            parameters: limits::PARAMETERS_MAX,
        }
    }
}

/// A limit that can be set by name.
struct Named {
    name: &'static str,
    /// The least and the most that it may be set to.
    range: (u64, u64),
    /// Why there may not be more, where something holds no more.
    because: &'static str,
    put: fn(&mut Settings, u64),
    get: fn(&Settings) -> u64,
}

/// One that is held by the field `$field`.
macro_rules! named {
    ($name:literal, $($field:ident).+, $least:expr, $most:expr, $because:expr) => {
        Named {
            name: $name,
            range: ($least as u64, $most as u64),
            because: $because,
            put: |settings, value| settings.$($field).+ = value as _,
            get: |settings| settings.$($field).+ as u64,
        }
    };
}

const MEBIBYTE: u64 = 1 << 20;
const TEBIBYTE: u64 = 1 << 40;
/// Frames up to this size may come in one read, where nobody asks for the setting.
pub const FRAME_BYTES_LEAST: usize = 256 * 1024;

const IN_A_FRAME: &str = "a frame of the client protocol holds no more";

const NAMED: &[Named] = &[
    named!(
        "value-bytes",
        sql.value_bytes,
        64,
        SqlLimits::CEILING.value_bytes,
        "drivers of the client protocol hold no larger values"
    ),
    named!(
        "row-bytes",
        sql.row_bytes,
        1_024,
        SqlLimits::CEILING.row_bytes,
        "a row must fit into a frame of the client protocol, 52428800 bytes, with all that is around it"
    ),
    // Shorter texts may have their plans cached, where nobody asks for the setting.
    named!(
        "statement-bytes",
        sql.statement_bytes,
        limits::PLAN_CACHE_TEXT_BYTES_MAX,
        SqlLimits::CEILING.statement_bytes,
        "compiling a text takes many times its size in memory"
    ),
    named!(
        "statements",
        sql.statements,
        1,
        SqlLimits::CEILING.statements,
        "a response of the client protocol counts its tables in 16 bits"
    ),
    named!(
        "parameters",
        sql.parameters,
        1,
        SqlLimits::CEILING.parameters,
        "a call of the client protocol counts its parameters in 16 bits"
    ),
    named!("frame-bytes", frame_bytes, FRAME_BYTES_LEAST, limits::FRAME_BYTES_MAX, IN_A_FRAME),
    named!("result-bytes", result_bytes, MEBIBYTE, limits::RESULT_BYTES_MAX, IN_A_FRAME),
    named!("temporary-bytes", temporary_bytes, MEBIBYTE, TEBIBYTE, ""),
    named!("transaction-bytes", transaction_bytes, MEBIBYTE, limits::TRANSACTION_BYTES_CEILING, ""),
    named!("connection-outstanding-calls", connection_outstanding_calls, 1, 1_000_000_000, ""),
    named!("connection-outstanding-bytes", connection_outstanding_bytes, 1_024, TEBIBYTE, ""),
    named!("node-outstanding-calls", node_outstanding_calls, 1, 1_000_000_000, ""),
    named!("node-outstanding-bytes", node_outstanding_bytes, MEBIBYTE, TEBIBYTE, ""),
    named!("connections", connections, 1, 1_000_000, ""),
    named!("connection-unread-seconds", connection_unread_seconds, 1, 86_400, ""),
    named!("connection-answer-bytes", connection_answer_bytes, 128 * MEBIBYTE, TEBIBYTE, ""),
    named!("login-seconds", login_seconds, 1, 86_400, ""),
    named!("frame-seconds", frame_seconds, 1, 86_400, ""),
    named!("compound-calls", compound_calls, 1, 1_000_000, ""),
    named!("compound-stage-calls", compound_stage_calls, 1, 1_000, ""),
    named!("compound-seconds", compound_seconds, 1, 86_400, ""),
    named!("schema-seconds", schema_seconds, 1, 86_400, ""),
    named!("stop-seconds", stop_seconds, 1, 86_400, ""),
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
            Some(number) if number > most && !limit.because.is_empty() => {
                Err(format!("{name} must be from {least} to {most}: {}", limit.because))
            }
            _ => Err(format!("{name} must be from {least} to {most}")),
        }
    }

    pub fn names() -> Vec<&'static str> {
        NAMED.iter().map(|limit| limit.name).collect()
    }

    /// Each limit that can be set, with its value.
    pub fn values(&self) -> impl Iterator<Item = (&'static str, u64)> {
        NAMED.iter().map(|limit| (limit.name, (limit.get)(self)))
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
            for good in [most, least] {
                settings.set(limit.name, &good.to_string()).expect("at the end of the range");
                assert_eq!(settings.values().find(|(name, _)| *name == limit.name), Some((limit.name, good)));
            }
            let (changed, default) = (settings.values(), Settings::default());
            let changed: Vec<_> = changed.zip(default.values()).filter(|(now, before)| now != before).collect();
            assert_eq!(changed.len(), 1, "{}, and no other", limit.name);
            for bad in [least - 1, most + 1] {
                let error = settings.set(limit.name, &bad.to_string()).expect_err("one past it");
                assert!(error.contains(limit.name) && error.contains(&least.to_string()), "{error}");
                assert!(bad < least || error.ends_with(limit.because), "it says what holds no more: {error}");
            }
        }
        let error = Settings::default().set("nothing", "1").expect_err("no such limit");
        assert!(error.contains("temporary-bytes"), "{error}");
    }
}
