//! What a run has shown: as text for people, as JSON for programs.

use crate::load::LoadResult;
use crate::measurement::{Latency, Measurement, SecondSummary, worst_second};
use crate::options::LoadOptions;
use serde::Serialize;
use std::fmt::Write as _;
use std::time::Duration;

/// Everything about one run. Times are in microseconds unless named otherwise.
#[derive(Clone, Debug, Serialize)]
pub struct LoadReport {
    pub workload: String,
    /// What it said of itself, or its address.
    pub server: String,
    pub load: LoadDescription,
    pub measured_seconds: f64,
    pub transactions: u64,
    pub transactions_per_second: f64,
    pub latency_microseconds: Latency,
    pub aborted: u64,
    pub failed: u64,
    /// No answer because a connection broke, or none in time.
    pub unknown: u64,
    pub first_failure: Option<String>,
    pub payload_megabytes_per_second: Option<f64>,
    /// All nodes together. None for a server that was not started here.
    pub server_cpu_microseconds_per_transaction: Option<f64>,
    /// The parts of that, with more than one node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeReport>,
    pub client_cpu_microseconds_per_transaction: f64,
    pub memory: Option<MemoryReport>,
    pub fsyncs: Option<FsyncReport>,
    pub worst_second: Option<SecondSummary>,
    pub seconds: Vec<SecondSummary>,
    /// What the load itself has to say, in words and numbers.
    pub details: Vec<(String, u64)>,
    /// What was compared, all of it found equal.
    pub validated: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct LoadDescription {
    pub outstanding: u32,
    pub connections: u16,
    pub threads: u16,
    pub rate: Option<f64>,
    pub warmup_seconds: u64,
}

impl From<&LoadOptions> for LoadDescription {
    fn from(options: &LoadOptions) -> Self {
        LoadDescription {
            outstanding: options.outstanding,
            connections: options.connections,
            threads: options.threads,
            rate: options.rate,
            warmup_seconds: options.warmup,
        }
    }
}

/// One process of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeReport {
    /// Its name, and the part that it played when the load began.
    pub node: String,
    pub cpu_microseconds_per_transaction: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MemoryReport {
    pub rows_added: u64,
    /// Growth of the server process.
    pub resident_bytes_per_row: Option<f64>,
    /// Growth of rows, indexes and views by the server's own account.
    pub accounted_bytes_per_row: Option<f64>,
}

impl MemoryReport {
    /// From before and after. None when no rows came or nothing is known.
    pub fn new(
        rows: (i64, i64),
        resident: (Option<u64>, Option<u64>),
        accounted: (Option<u64>, Option<u64>),
    ) -> Option<MemoryReport> {
        let rows_added = u64::try_from(rows.1 - rows.0).ok().filter(|rows| *rows > 0)?;
        let per_row = |(before, after): (Option<u64>, Option<u64>)| {
            Some((after? as f64 - before.unwrap_or(0) as f64) / rows_added as f64)
        };
        let resident_bytes_per_row = resident.0.and_then(|_| per_row(resident));
        let accounted_bytes_per_row = per_row(accounted);
        (resident_bytes_per_row.is_some() || accounted_bytes_per_row.is_some()).then_some(MemoryReport {
            rows_added,
            resident_bytes_per_row,
            accounted_bytes_per_row,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FsyncReport {
    pub count: u64,
    pub per_second: f64,
    pub median_microseconds: Option<f64>,
}

impl LoadReport {
    /// The part of a report that every load has.
    pub fn new<W>(workload: &str, server: &str, options: &LoadOptions, result: &LoadResult<W>) -> LoadReport {
        let seconds = result.measured.as_secs_f64();
        let transactions = result.total.succeeded;
        LoadReport {
            workload: workload.to_string(),
            server: server.to_string(),
            load: options.into(),
            measured_seconds: seconds,
            transactions,
            transactions_per_second: ratio(transactions as f64, seconds),
            latency_microseconds: result.total.latency(),
            aborted: result.total.aborted,
            failed: result.total.failed,
            unknown: result.total.lost + result.unanswered,
            first_failure: result.first_failure.clone(),
            payload_megabytes_per_second: (result.total.payload_bytes > 0)
                .then(|| ratio(result.total.payload_bytes as f64 / 1e6, seconds)),
            server_cpu_microseconds_per_transaction: None,
            nodes: Vec::new(),
            client_cpu_microseconds_per_transaction: per_transaction(result.client_cpu, &result.total),
            memory: None,
            fsyncs: None,
            worst_second: worst_second(&result.seconds),
            seconds: result.seconds.clone(),
            details: Vec::new(),
            validated: Vec::new(),
        }
    }

    fn latency_text(&self) -> String {
        let latency = &self.latency_microseconds;
        format!(
            "average {}, p50 {}, p95 {}, p99 {}, p99.9 {}, p99.99 {}, max {}",
            duration_text(latency.average),
            duration_text(latency.p50 as f64),
            duration_text(latency.p95 as f64),
            duration_text(latency.p99 as f64),
            duration_text(latency.p99_9 as f64),
            duration_text(latency.p99_99 as f64),
            duration_text(latency.max as f64),
        )
    }

    /// Several lines for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<30}{value}");
        };
        line("transactions", format!("{} in {:.1} s", grouped(self.transactions), self.measured_seconds));
        line("transactions per second", grouped(self.transactions_per_second.round() as u64));
        let from = if self.load.rate.is_some() { " (from the intended send)" } else { "" };
        line("latency", format!("{}{from}", self.latency_text()));
        if let Some(worst) = &self.worst_second {
            let transactions = grouped(worst.transactions);
            let p99 = duration_text(worst.p99 as f64);
            let max = duration_text(worst.max as f64);
            line(
                "worst second",
                format!("{transactions} transactions, p99 {p99}, max {max} (second {})", worst.second),
            );
        }
        line(
            "not successful",
            format!(
                "{} aborted, {} failed, {} without an answer",
                grouped(self.aborted),
                grouped(self.failed),
                grouped(self.unknown)
            ),
        );
        if let Some(failure) = &self.first_failure {
            line("first failure", failure.clone());
        }
        if let Some(megabytes) = self.payload_megabytes_per_second {
            line("values", format!("{megabytes:.1} MB/s"));
        }
        let client = format!("client {:.3}", self.client_cpu_microseconds_per_transaction);
        line(
            "CPU-us per transaction",
            match self.server_cpu_microseconds_per_transaction {
                Some(server) => format!("server {server:.3}, {client}"),
                None => client,
            },
        );
        for node in &self.nodes {
            let cpu = node.cpu_microseconds_per_transaction;
            line(&format!("  {}", node.node), cpu.map_or("unknown".to_string(), |cpu| format!("{cpu:.3}")));
        }
        if let Some(memory) = &self.memory {
            let part = |name: &str, bytes: Option<f64>| bytes.map(|bytes| format!("{bytes:.1} {name}"));
            let parts = [
                part("by growth of the process", memory.resident_bytes_per_row),
                part("by the server's account", memory.accounted_bytes_per_row),
            ];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            line("bytes per row", format!("{} ({} rows)", parts.join(", "), grouped(memory.rows_added)));
        }
        if let Some(fsyncs) = &self.fsyncs {
            let median = fsyncs.median_microseconds.map(duration_text).unwrap_or("unknown".to_string());
            line("fsyncs", format!("{} ({:.0}/s), median {median}", grouped(fsyncs.count), fsyncs.per_second));
        }
        for (name, number) in &self.details {
            line(name, grouped(*number));
        }
        for sentence in &self.validated {
            line("validated", sentence.clone());
        }
        text
    }
}

pub fn per_transaction(cpu: Duration, measurement: &Measurement) -> f64 {
    ratio(cpu.as_secs_f64() * 1e6, measurement.answered() as f64)
}

/// 0 when nothing was divided by.
pub fn ratio(dividend: f64, divisor: f64) -> f64 {
    if divisor > 0.0 { dividend / divisor } else { 0.0 }
}

/// One line about a second.
pub fn second_line(second: i64, measurement: &Measurement) -> String {
    let summary = SecondSummary::new(second, measurement);
    let mut line = format!(
        "{:>8} {:>11}/s   p50 {:>8}  p99 {:>8}  max {:>8}",
        if second < 0 { "warm-up".to_string() } else { format!("{} s", second + 1) },
        grouped(summary.transactions),
        duration_text(summary.p50 as f64),
        duration_text(summary.p99 as f64),
        duration_text(summary.max as f64),
    );
    if measurement.payload_bytes > 0 {
        let _ = write!(line, "  {:.1} MB/s", measurement.payload_bytes as f64 / 1e6);
    }
    if summary.aborted + summary.failed > 0 {
        let _ = write!(line, "  {} aborted, {} failed", grouped(summary.aborted), grouped(summary.failed));
    }
    line
}

/// 1234567 as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Microseconds with three digits and a unit that suits.
pub fn duration_text(microseconds: f64) -> String {
    match microseconds {
        us if us < 1_000.0 => format!("{us:.0} us"),
        us if us < 10_000.0 => format!("{:.2} ms", us / 1e3),
        us if us < 100_000.0 => format!("{:.1} ms", us / 1e3),
        us if us < 1_000_000.0 => format!("{:.0} ms", us / 1e3),
        us => format!("{:.2} s", us / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (123_456, "123,456"), (1_234_567, "1,234,567")]
        {
            assert_eq!(grouped(number), text);
        }
        for (microseconds, text) in
            [(0.0, "0 us"), (999.4, "999 us"), (1_234.0, "1.23 ms"), (12_345.0, "12.3 ms"), (2_345_000.0, "2.35 s")]
        {
            assert_eq!(duration_text(microseconds), text);
        }
    }

    #[test]
    fn memory_per_row() {
        let report = MemoryReport::new((100, 1_100), (Some(5_000), Some(125_000)), (None, None)).unwrap();
        assert_eq!((report.rows_added, report.resident_bytes_per_row), (1_000, Some(120.0)));
        assert_eq!(report.accounted_bytes_per_row, None);
        let report = MemoryReport::new((0, 10), (None, None), (Some(1_000), Some(2_000))).unwrap();
        assert_eq!((report.resident_bytes_per_row, report.accounted_bytes_per_row), (None, Some(100.0)));
        assert_eq!(MemoryReport::new((10, 10), (Some(1), Some(2)), (None, None)), None);
        assert_eq!(MemoryReport::new((0, 10), (None, None), (None, None)), None);
    }

    #[test]
    fn a_report_of_a_known_run() {
        let mut total = Measurement { succeeded: 2_000, payload_bytes: 4_000_000, ..Measurement::default() };
        (0..2_000).for_each(|_| total.record_latency(1_500_000));
        let result = LoadResult {
            seconds: vec![SecondSummary::new(0, &total)],
            total,
            measured: Duration::from_secs(2),
            client_cpu: Duration::from_millis(1),
            workloads: vec![()],
            unanswered: 0,
            first_failure: None,
        };
        let options = LoadOptions {
            duration: Duration::from_secs(2),
            warmup: 0,
            rate: Some(1_000.0),
            outstanding: 10,
            connections: 1,
            threads: 1,
            json: None,
        };
        let report = LoadReport::new("voter", "here:1", &options, &result);
        assert_eq!(report.transactions_per_second, 1_000.0);
        assert_eq!(report.client_cpu_microseconds_per_transaction, 0.5);
        assert_eq!(report.payload_megabytes_per_second, Some(2.0));
        assert!(report.text().contains("p99.99 1.50 ms"), "{}", report.text());
        assert!(report.text().contains("from the intended send"));
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["latency_microseconds"]["p50"], 1500);
        assert_eq!(json["load"]["rate"], 1000.0);
        assert_eq!(json["worst_second"]["transactions"], 2000);
    }
}
