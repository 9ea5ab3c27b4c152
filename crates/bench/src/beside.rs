//! A query that is run again and again beside a load: how long it takes, while the load shows what
//! it does to others.

use crate::error::{BenchError, BenchResult, Doing};
use crate::session::Session;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Runs `load` and, if there is one, the query beside it. Returns what the load returned, and how
/// long each query took.
pub fn with_query_beside<R>(
    session: &Session,
    query: Option<&str>,
    load: impl FnOnce() -> BenchResult<R>,
) -> BenchResult<(R, Vec<Duration>)> {
    let Some(query) = query else { return Ok((load()?, Vec::new())) };
    let client = session.another_client()?;
    let stop = AtomicBool::new(false);
    let (result, times) = thread::scope(|scope| {
        let repeated = scope.spawn(|| {
            let mut times = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let started = Instant::now();
                client.call_blocking("@AdHoc", (query,)).doing(query)?;
                times.push(started.elapsed());
            }
            Ok::<_, BenchError>(times)
        });
        let result = load();
        stop.store(true, Ordering::Relaxed);
        (result, repeated.join())
    });
    let mut times =
        times.map_err(|_| BenchError::Load("the thread of the query beside the load panicked".to_string()))??;
    client.close();
    times.sort();
    Ok((result?, times))
}

/// The same as lines of a report.
pub fn details(times: &[Duration]) -> Vec<(String, u64)> {
    let Some(longest) = times.last() else { return Vec::new() };
    vec![
        ("queries beside".to_string(), times.len() as u64),
        ("  median, milliseconds".to_string(), times[times.len() / 2].as_millis() as u64),
        ("  longest, milliseconds".to_string(), longest.as_millis() as u64),
    ]
}
