//! What the comparison asks of every system but ours: to be filled, driven and counted.

use super::load::Job;
use super::pipeline::{Driven, Moment, Plan};
use ferrite_bench::error::BenchResult;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A system other than ours.
pub(crate) trait Peer {
    fn prepare(&mut self, job: &mut Job) -> BenchResult<()>;

    /// `watch` is told the CPU time of the server's processes.
    fn drive(
        &self,
        job: &mut Job,
        plan: Plan,
        stop: &AtomicBool,
        watch: impl FnMut(Moment, Option<Duration>),
    ) -> BenchResult<Driven>;

    fn count(&self, job: &Job) -> BenchResult<i64>;
}
