//! Runs one load against one session, tells about each second, and puts the report together.

use crate::error::BenchResult;
use crate::generator::Workload;
use crate::load::{LoadPlan, LoadResult, Progress, run_load};
use crate::measurement::Measurement;
use crate::options::LoadOptions;
use crate::process::Usage;
use crate::report::{FsyncReport, LoadReport, NodeReport, per_transaction, ratio, second_line};
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
    ferrite_io::outln!("{}", heading(name, session, options));
    let plan = load_plan(environment, session, options);
    let mut before: (Vec<(String, Option<Usage>)>, Option<Fsyncs>) = (Vec::new(), None);
    let mut after = (Vec::new(), None);
    let result = run(&plan, &mut |progress| match progress {
        Progress::MeasurementBegins => before = (session.usage_by_node(), session.fsyncs()),
        Progress::Second(second, measurement) => ferrite_io::outln!("{}", second_line(second, measurement)),
        Progress::MeasurementEnds => after = (session.usage_by_node(), session.fsyncs()),
    })?;
    let mut report = LoadReport::new(name, &session.description(), options, &result);
    let nodes = cpu_by_node(&before.0, &after.0, &result.total);
    let all: Option<Vec<f64>> = nodes.iter().map(|node| node.cpu_microseconds_per_transaction).collect();
    report.server_cpu_microseconds_per_transaction = all.filter(|all| !all.is_empty()).map(|all| all.iter().sum());
    if nodes.len() > 1 {
        report.nodes = nodes;
    }
    report.fsyncs = fsync_report(before.1, after.1, result.measured);
    Ok((result, report))
}

fn heading(name: &str, session: &Session, options: &LoadOptions) -> String {
    let server = session.heading();
    let pace = match options.rate {
        Some(rate) => format!("{rate} calls/s by schedule, at most {} outstanding", options.outstanding),
        None => format!("{} outstanding", options.outstanding),
    };
    let connections = options.connections;
    let threads = options.threads;
    let warmup = options.warmup;
    let duration = options.duration.as_secs_f64();
    format!(
        "{name}: {server}\n{pace}, {connections} connection(s), {threads} thread(s), {warmup} s warm-up, {duration} s"
    )
}

/// What each process spent between two looks at the same processes.
fn cpu_by_node(
    before: &[(String, Option<Usage>)],
    after: &[(String, Option<Usage>)],
    total: &Measurement,
) -> Vec<NodeReport> {
    let spent = |before: Option<Usage>, after: Option<Usage>| {
        Some(per_transaction(after?.cpu.saturating_sub(before?.cpu), total))
    };
    let nodes = before.iter().zip(after).map(|((name, before), (_, after))| NodeReport {
        node: name.clone(),
        cpu_microseconds_per_transaction: spent(*before, *after),
    });
    nodes.collect()
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
        let of = |usages: [Option<Usage>; 2]| usages.map(|usage| ("node".to_string(), usage));
        let spent = cpu_by_node(&of([usage(5), None]), &of([usage(6), usage(6)]), &total);
        let spent: Vec<_> = spent.into_iter().map(|node| node.cpu_microseconds_per_transaction).collect();
        assert_eq!(spent, [Some(10.0), None]);
        let fsyncs = |count| Some(Fsyncs { count, median_microseconds: Some(200.0) });
        let report = fsync_report(fsyncs(10), fsyncs(30), Duration::from_secs(4));
        assert_eq!(report, Some(FsyncReport { count: 20, per_second: 5.0, median_microseconds: Some(200.0) }));
        assert_eq!(fsync_report(None, fsyncs(30), Duration::from_secs(4)), None);
    }
}
