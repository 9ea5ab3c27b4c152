//! What a comparison found, as a table of ratios: for each workload and each promise, this database
//! against the others.

use super::{CompareReport, Compared, Promise};
use ferrite_bench::report::{duration_text, grouped};
use std::fmt::Write as _;

const OURS: &str = "FerriteDB";

/// How often faster this database is than each other in its group.
pub fn add_ratios(results: &mut [Compared]) {
    let ours: Vec<(String, Promise, f64)> = results
        .iter()
        .filter(|result| result.system.starts_with(OURS))
        .map(|result| (result.workload.clone(), result.promise, result.pass.transactions_per_second))
        .collect();
    for result in results.iter_mut().filter(|result| !result.system.starts_with(OURS)) {
        let own = ours.iter().find(|(workload, promise, _)| *workload == result.workload && *promise == result.promise);
        result.ferrite_is_times = own.map(|(_, _, rate)| rate / result.pass.transactions_per_second);
    }
}

/// One result as soon as it is there.
pub fn line(result: &Compared) -> String {
    let rate = grouped(result.pass.transactions_per_second.round() as u64);
    format!("{:<38} {rate:>11}/s   {} ({}){}", result.name, result.system, result.with, connections(result))
}

fn connections(result: &Compared) -> String {
    match result.connections {
        0 => ", in this process".to_string(),
        1 => ", 1 connection".to_string(),
        count => format!(", {count} connections"),
    }
}

pub fn text(report: &CompareReport) -> String {
    let mut out = String::new();
    let mut group = None;
    // Writing to a string cannot fail.
    for result in &report.results {
        let this = (result.workload.as_str(), result.promise);
        if group != Some(this) {
            group = Some(this);
            let _ = writeln!(out, "\n{}, {}", result.workload, result.promise.sentence());
            let _ = writeln!(
                out,
                "  {:<17} {:<42} {:>5} {:>11} {:>9} {:>9} {:>9} {:>9} {:>10}",
                "", "settings", "conn.", "per second", "p50", "p99", "CPU srv", "CPU cli", "FerriteDB"
            );
        }
        let pass = &result.pass;
        let cpu = |value: Option<f64>| value.map_or("-".to_string(), |value| format!("{value:.2} us"));
        let times = match result.ferrite_is_times {
            Some(times) => format!("{times:.1} x"),
            None => "-".to_string(),
        };
        let _ = writeln!(
            out,
            "  {:<17} {:<42} {:>5} {:>11} {:>9} {:>9} {:>9} {:>9} {times:>10}",
            result.system,
            result.with,
            result.connections,
            grouped(pass.transactions_per_second.round() as u64),
            duration_text(pass.latency_microseconds.p50 as f64),
            duration_text(pass.latency_microseconds.p99 as f64),
            cpu(pass.server_cpu_microseconds_per_transaction),
            cpu(Some(pass.client_cpu_microseconds_per_transaction)),
        );
    }
    let settings = &report.settings;
    let _ = writeln!(
        out,
        "\nFerriteDB: how often faster it is. CPU per transaction, of the server's processes and of the one client thread; SQLite runs in\n\
         the client's thread. {} calls outstanding in all; latency is mostly that number divided by the throughput. Every run was checked:\n\
         votes counted, keys there, each value read of the right size. PostgreSQL besides: {}.",
        settings.outstanding, settings.postgres
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CompareSettings;
    use ferrite_bench::measurement::Measurement;
    use ferrite_bench::workloads::Pass;

    fn result(workload: &str, promise: Promise, system: &str, rate: f64) -> Compared {
        let pass = Pass {
            transactions: 1,
            transactions_per_second: rate,
            measured_seconds: 1.0,
            latency_microseconds: Measurement::default().latency(),
            failed: 0,
            server_cpu_microseconds_per_transaction: None,
            client_cpu_microseconds_per_transaction: 1.0,
            seconds: Vec::new(),
        };
        Compared {
            name: format!("{workload}, {system}"),
            workload: workload.to_string(),
            promise,
            system: system.to_string(),
            with: "settings".to_string(),
            connections: 0,
            ferrite_is_times: None,
            pass,
        }
    }

    #[test]
    fn ratios_are_within_a_group() {
        let mut results = vec![
            result("voter", Promise::Nothing, "FerriteDB 1", 100.0),
            result("voter", Promise::Nothing, "Redis 7", 20.0),
            result("voter", Promise::Anything, "Redis 7", 50.0),
            result("kv", Promise::Nothing, "FerriteDB 1", 300.0),
            result("kv", Promise::Nothing, "Redis 7", 600.0),
        ];
        add_ratios(&mut results);
        let times: Vec<Option<f64>> = results.iter().map(|result| result.ferrite_is_times).collect();
        assert_eq!(times, [None, Some(5.0), None, None, Some(0.5)]);
        let settings = CompareSettings {
            outstanding: 10,
            value_bytes: 1024,
            warmup_seconds: 1,
            measured_seconds: 1.0,
            seed: 1,
            postgres: "jit off".to_string(),
        };
        let text = text(&CompareReport { settings, results });
        assert!(text.contains("5.0 x") && text.contains("0.5 x"), "{text}");
        assert_eq!(text.matches("per second").count(), 3, "a heading for each group: {text}");
    }
}
