//! Runs one load against one session, tells about each second, and puts the report together.

use crate::error::BenchResult;
use crate::generator::Workload;
use crate::load::{LoadPlan, LoadResult, Progress, run_load};
use crate::measurement::Measurement;
use crate::options::LoadOptions;
use crate::process::Usage;
use crate::report::{FsyncReport, LoadReport, per_transaction, ratio, second_line};
use crate::session::{Environment, Fsyncs, Session};
use std::sync::Arc;
use std::time::Duration;

pub fn load_plan(environment: &Environment, session: &Session, options: &LoadOptions) -> LoadPlan {
    LoadPlan {
        address: session.address().to_string(),
        connections: usize::from(options.connections),
        threads: usize::from(options.threads),
        shape: options.shape(),
        stop: Arc::clone(&environment.stop),
    }
}

/// Runs the load, printing a line per second, and returns what came of it with the report begun.
pub fn measure<W: Workload>(
    name: &str,
    environment: &Environment,
    session: &Session,
    options: &LoadOptions,
    make: impl FnMut(usize) -> W,
) -> BenchResult<(LoadResult<W>, LoadReport)> {
    measure_with(name, environment, session, options, |plan, watch| run_load(plan, make, watch))
}

/// [`measure`] for a load that is run in a way of its own.
pub fn measure_with<W>(
    name: &str,
    environment: &Environment,
    session: &Session,
    options: &LoadOptions,
    run: impl FnOnce(&LoadPlan, &mut dyn FnMut(Progress<'_>)) -> BenchResult<LoadResult<W>>,
) -> BenchResult<(LoadResult<W>, LoadReport)> {
    println!("{}", heading(name, session, options));
    let plan = load_plan(environment, session, options);
    let mut before: (Option<Usage>, Option<Fsyncs>) = (None, None);
    let mut after = (None, None);
    let result = run(&plan, &mut |progress| match progress {
        Progress::MeasurementBegins => before = (session.usage(), session.fsyncs()),
        Progress::Second(second, measurement) => println!("{}", second_line(second, measurement)),
        Progress::MeasurementEnds => after = (session.usage(), session.fsyncs()),
    })?;
    let mut report = LoadReport::new(name, &session.description(), options, &result);
    report.server_cpu_microseconds_per_transaction = server_cpu(before.0, after.0, &result.total);
    report.fsyncs = fsync_report(before.1, after.1, result.measured);
    Ok((result, report))
}

fn heading(name: &str, session: &Session, options: &LoadOptions) -> String {
    let server = match session.process() {
        Some(process) => process.ready_line().to_string(),
        None => session.address().to_string(),
    };
    let pace = match options.rate {
        Some(rate) => format!("{rate} calls/s by schedule, at most {} outstanding", options.outstanding),
        None => format!("{} outstanding", options.outstanding),
    };
    let (connections, threads) = (options.connections, options.threads);
    let (warmup, duration) = (options.warmup, options.duration.as_secs_f64());
    format!(
        "{name}: {server}\n{pace}, {connections} connection(s), {threads} thread(s), {warmup} s warm-up, {duration} s"
    )
}

fn server_cpu(before: Option<Usage>, after: Option<Usage>, total: &Measurement) -> Option<f64> {
    Some(per_transaction(after?.cpu.saturating_sub(before?.cpu), total))
}

fn fsync_report(before: Option<Fsyncs>, after: Option<Fsyncs>, measured: Duration) -> Option<FsyncReport> {
    let after = after?;
    let count = after.count.saturating_sub(before?.count);
    let per_second = ratio(count as f64, measured.as_secs_f64());
    Some(FsyncReport { count, per_second, median_microseconds: after.median_microseconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_and_fsyncs_are_differences() {
        let usage = |milliseconds| Some(Usage { cpu: Duration::from_millis(milliseconds), resident_bytes: 0 });
        let total = Measurement { succeeded: 90, aborted: 10, ..Measurement::default() };
        assert_eq!(server_cpu(usage(5), usage(6), &total), Some(10.0));
        assert_eq!(server_cpu(None, usage(6), &total), None);
        let fsyncs = |count| Some(Fsyncs { count, median_microseconds: Some(200.0) });
        let report = fsync_report(fsyncs(10), fsyncs(30), Duration::from_secs(4));
        assert_eq!(report, Some(FsyncReport { count: 20, per_second: 5.0, median_microseconds: Some(200.0) }));
        assert_eq!(fsync_report(None, fsyncs(30), Duration::from_secs(4)), None);
    }
}
