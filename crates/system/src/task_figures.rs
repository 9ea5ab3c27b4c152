//! What became of the tasks' calls, for `@Statistics`.

use ferrite_catalog::{RunOn, Task};
use std::sync::{Mutex, PoisonError};

/// How often something took how long, in nanoseconds.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Measured {
    pub count: u64,
    pub total: u64,
    least: Option<u64>,
    pub most: u64,
}

impl Measured {
    fn add(&mut self, nanos: u64) {
        self.count += 1;
        self.total += nanos;
        self.least = Some(self.least.map_or(nanos, |least| least.min(nanos)));
        self.most = self.most.max(nanos);
    }

    pub fn least(&self) -> u64 {
        self.least.unwrap_or(0)
    }

    pub fn average(&self) -> u64 {
        self.total / self.count.max(1)
    }
}

/// A task on one partition, or on all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunFigures {
    pub task: String,
    /// -1: it does not run on partitions.
    pub partition: i32,
    pub scope: &'static str,
    enabled: bool,
    paused: bool,
    /// Why it was stopped.
    pub failure: Option<String>,
    pub scheduling: Measured,
    /// How late calls were sent.
    pub waiting: Measured,
    pub executing: Measured,
    pub failures: u64,
}

impl RunFigures {
    pub fn new(task: &Task, partition: Option<u32>) -> RunFigures {
        RunFigures {
            task: task.name.clone(),
            partition: partition.map_or(-1, |partition| partition as i32),
            scope: match task.run_on {
                RunOn::Database => "DATABASE",
                RunOn::Hosts => "HOST",
                RunOn::Partitions => "PARTITION",
            },
            enabled: task.enabled,
            paused: false,
            failure: None,
            scheduling: Measured::default(),
            waiting: Measured::default(),
            executing: Measured::default(),
            failures: 0,
        }
    }

    pub fn state(&self) -> &'static str {
        match (self.enabled, self.failure.is_some(), self.paused) {
            (false, ..) => "DISABLED",
            (_, true, _) => "ERROR",
            (_, _, true) => "PAUSED",
            _ => "RUNNING",
        }
    }

    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    pub fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
    }

    pub fn scheduled(&mut self, nanos: u64) {
        self.scheduling.add(nanos);
    }

    pub fn waited(&mut self, nanos: u64) {
        self.waiting.add(nanos);
    }

    pub fn answered(&mut self, nanos: u64, failed: bool) {
        self.executing.add(nanos);
        self.failures += u64::from(failed);
    }

    pub fn failed(&mut self, why: String) {
        self.failure = Some(why);
    }
}

/// The latest figures of all runs.
#[derive(Default)]
pub struct Figures(Mutex<Vec<RunFigures>>);

impl Figures {
    pub fn set(&self, runs: Vec<RunFigures>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = runs;
    }

    pub fn all(&self) -> Vec<RunFigures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
