//! How long the compiling of a client's statements may take: as long as a call may execute. What
//! was compiled once and is compiled again, as procedures are at a start, is not asked about.

use ferrite_base::{UserError, UserResult, Watcher};
use ferrite_io::coarse_monotonic;
use ferrite_partition::cancel::{CallId, GroupCancellations};
use std::time::Duration;

/// Compiles on behalf of a call, until its time is up or its client no longer wants it.
pub fn within<T>(
    cancellations: &GroupCancellations,
    time_max: Duration,
    call: CallId,
    compile: impl FnOnce() -> UserResult<T>,
) -> UserResult<T> {
    let begun = coarse_monotonic();
    let cancellations = cancellations.clone();
    let watcher = Watcher::new(move || {
        let taken = coarse_monotonic().saturating_sub(begun);
        if cancellations.stops(call, taken) {
            return Err(cancellations.error());
        }
        check(taken, time_max)
    });
    watcher.watch(compile)
}

fn check(taken: Duration, time_max: Duration) -> UserResult<()> {
    if taken <= time_max {
        return Ok(());
    }
    Err(UserError::limit(format!("compiling takes longer than {} seconds", time_max.as_secs_f64()))
        .with_detail("the limit is --query-timeout")
        .with_hint("send the statements in several calls, make a procedure of them, or start the server with a longer --query-timeout"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_long_as_a_call_may_execute_and_not_longer() {
        let most = Duration::from_secs(10);
        check(most, most).expect("at the limit");
        let error = check(most + Duration::from_nanos(1), most).expect_err("one past it").to_string();
        assert!(error.contains("longer than 10 seconds") && error.contains("--query-timeout"), "{error}");
    }
}
