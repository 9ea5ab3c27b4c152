//! Tasks: procedures that the server calls by itself, on a schedule.

use crate::cron::Cron;
use ferrite_value::OwnedValue;

#[derive(Clone, PartialEq, Debug)]
pub struct Task {
    pub name: String,
    pub schedule: Schedule,
    /// As written; looked up when it is called.
    pub procedure: String,
    pub parameters: Vec<OwnedValue>,
    pub on_error: OnError,
    pub run_on: RunOn,
    pub enabled: bool,
}

/// When a task's procedure is called next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Schedule {
    /// So long after the last call has ended.
    Delay(Interval),
    /// So long after the last call began; a time at which the last one still goes on is passed
    /// over.
    Every(Interval),
    /// By the calendar, with the text that says it.
    Cron(Cron, String),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    pub count: u32,
    pub unit: IntervalUnit,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IntervalUnit {
    Milliseconds,
    Seconds,
    Minutes,
    Hours,
    Days,
}

impl IntervalUnit {
    pub const ALL: [IntervalUnit; 5] = [
        IntervalUnit::Milliseconds,
        IntervalUnit::Seconds,
        IntervalUnit::Minutes,
        IntervalUnit::Hours,
        IntervalUnit::Days,
    ];

    pub fn name(self) -> &'static str {
        match self {
            IntervalUnit::Milliseconds => "MILLISECONDS",
            IntervalUnit::Seconds => "SECONDS",
            IntervalUnit::Minutes => "MINUTES",
            IntervalUnit::Hours => "HOURS",
            IntervalUnit::Days => "DAYS",
        }
    }
}

impl Interval {
    pub fn nanos(self) -> u64 {
        let unit = match self.unit {
            IntervalUnit::Milliseconds => 1,
            IntervalUnit::Seconds => 1_000,
            IntervalUnit::Minutes => 60_000,
            IntervalUnit::Hours => 3_600_000,
            IntervalUnit::Days => 86_400_000,
        };
        u64::from(self.count).saturating_mul(unit * 1_000_000)
    }
}

impl Schedule {
    /// The word in SQL.
    pub fn kind(&self) -> &'static str {
        match self {
            Schedule::Delay(_) => "DELAY",
            Schedule::Every(_) => "EVERY",
            Schedule::Cron(..) => "CRON",
        }
    }

    /// What follows the word.
    pub fn arguments(&self) -> String {
        match self {
            Schedule::Delay(interval) | Schedule::Every(interval) => {
                format!("{} {}", interval.count, interval.unit.name())
            }
            Schedule::Cron(_, text) => text.clone(),
        }
    }
}

/// What a call that fails does to its task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnError {
    #[default]
    Stop,
    Log,
    Ignore,
}

impl OnError {
    pub fn name(self) -> &'static str {
        match self {
            OnError::Stop => "STOP",
            OnError::Log => "LOG",
            OnError::Ignore => "IGNORE",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RunOn {
    /// Once.
    #[default]
    Database,
    /// Once on each node.
    Hosts,
    /// A directed procedure, on each partition by itself.
    Partitions,
}

impl RunOn {
    pub fn name(self) -> &'static str {
        match self {
            RunOn::Database => "DATABASE",
            RunOn::Hosts => "HOSTS",
            RunOn::Partitions => "PARTITIONS",
        }
    }
}
