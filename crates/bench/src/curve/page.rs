//! The report of a curve as one HTML file, which needs no network and follows the reader's light or
//! dark; and its table as CSV.

use super::chart::{Dot, Series, escape, latency, svg};
use super::{CurveReport, Loop, Point, percent};
use crate::report::grouped;
use crate::results::Machine;
use std::fmt::Write as _;

const PAGE: &str = include_str!("page.html");

/// A line per pass, with everything that was measured.
pub fn csv(report: &CurveReport) -> String {
    let mut out =
        "name,loop,clients,share,target_per_second,transactions_per_second,average_us,p50_us,p95_us,p99_us,p99_9_us,\
                   p99_99_us,max_us,failed,server_cpu_us,client_cpu_us\n"
            .to_string();
    let optional = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.3}"));
    for point in report.fire_hose.iter().chain(&report.points) {
        let latency = &point.pass.latency_microseconds;
        let _ = writeln!(
            out,
            "{},{},{},{},{},{:.0},{:.1},{},{},{},{},{},{},{},{},{:.3}",
            point.name,
            point.kind.name(),
            point.clients,
            optional(point.share),
            point.target_per_second.map_or(String::new(), |rate| format!("{rate:.0}")),
            point.pass.transactions_per_second,
            latency.average,
            latency.p50,
            latency.p95,
            latency.p99,
            latency.p99_9,
            latency.p99_99,
            latency.max,
            point.pass.failed,
            optional(point.pass.server_cpu_microseconds_per_transaction),
            point.pass.client_cpu_microseconds_per_transaction,
        );
    }
    out
}

/// Class, name, which points, which percentile.
type Line = (&'static str, &'static str, Loop, fn(&Point) -> u64);

/// The lines of the chart.
const LINES: [Line; 4] = [
    ("p50", "p50, open loop", Loop::Open, |point| point.pass.latency_microseconds.p50),
    ("p99", "p99, open loop", Loop::Open, |point| point.pass.latency_microseconds.p99),
    ("p999", "p99.9, open loop", Loop::Open, |point| point.pass.latency_microseconds.p99_9),
    ("closed", "p99, closed loop", Loop::Closed, |point| point.pass.latency_microseconds.p99),
];

pub fn html(report: &CurveReport, machine: &Machine) -> String {
    let title = format!("Throughput against latency: {}", report.settings.workload);
    let knee = report.knee_point();
    let chart = svg(
        &LINES.map(|(class, name, kind, figure)| Series { class, dots: dots(report, name, kind, figure) }),
        knee.map(|point| {
            let rate = point.pass.transactions_per_second;
            (rate, format!("knee: {}/s", grouped(rate.round() as u64)))
        }),
    );
    let legend: String = LINES
        .iter()
        .map(|(class, name, kind, _)| {
            let dashed = if *kind == Loop::Closed { " class=\"dashed\"" } else { "" };
            format!("<label class=\"{class}\"><input type=\"checkbox\" value=\"{class}\" checked><i{dashed}></i>{name}</label>\n")
        })
        .collect();
    [
        ("title", escape(&title)),
        ("subtitle", escape(&format!("{} · {}", report.settings.server, machine.line()))),
        ("cards", cards(report)),
        ("legend", legend),
        ("chart", chart),
        ("head", HEAD.to_string()),
        ("passes", rows(report, &report.points)),
        ("firehose", rows(report, &report.fire_hose)),
        ("settings", settings(report, machine)),
    ]
    .into_iter()
    .fold(PAGE.to_string(), |page, (name, value)| page.replace(&format!("{{{{{name}}}}}"), &value))
}

fn dots(report: &CurveReport, line: &str, kind: Loop, figure: fn(&Point) -> u64) -> Vec<Dot> {
    // In the order of the rates asked for: where they could not be kept, the line turns back.
    let points = report.points.iter().rev().filter(|point| point.kind == kind);
    points
        .map(|point| {
            let figures = &point.pass.latency_microseconds;
            let tip = format!(
                "{}{} of the maximum, {} loop\n{}/s\np50 {}   p95 {}\np99 {}   p99.9 {}\nlongest {}",
                if point.fell_short() { "rate not kept: " } else { "" },
                point.share.map_or(String::new(), percent),
                kind.name(),
                grouped(point.pass.transactions_per_second.round() as u64),
                latency(figures.p50 as f64),
                latency(figures.p95 as f64),
                latency(figures.p99 as f64),
                latency(figures.p99_9 as f64),
                latency(figures.max as f64),
            );
            let tip = format!("{line}: {}\n{tip}", latency(figure(point) as f64));
            Dot {
                throughput: point.pass.transactions_per_second,
                latency: figure(point) as f64,
                short: point.fell_short(),
                tip,
            }
        })
        .collect()
}

fn cards(report: &CurveReport) -> String {
    let card = |value: String, name: String| format!("<div class=\"card\"><b>{value}</b><span>{name}</span></div>\n");
    let clients = report.clients_at_maximum;
    let mut out = card(
        format!("{}/s", grouped(report.maximum_per_second.round() as u64)),
        format!("maximum, {clients} client{}", if clients == 1 { "" } else { "s" }),
    );
    match report.knee_point() {
        Some(point) => {
            let rate = grouped(point.pass.transactions_per_second.round() as u64);
            out += &card(
                format!("{rate}/s"),
                format!("knee, {} of the maximum", point.share.map_or(String::new(), percent)),
            );
            out += &card(latency(point.pass.latency_microseconds.p99 as f64), "p99 at the knee, open loop".to_string());
        }
        None => out += &card("none".to_string(), "knee: latency does not bend".to_string()),
    }
    if let (Some(low), Some(high)) = (report.p99_microseconds_at_20_percent, report.p99_microseconds_at_80_percent) {
        let name = format!("p99 at 80 % ({}) by p99 at 20 % ({})", latency(high), latency(low));
        out += &card(format!("{:.2} ×", high / low), name);
    }
    out
}

const HEAD: &str = "<tr><th>pass</th><th>loop</th><th>wanted/s</th><th>done/s</th><th>average</th><th>p50</th><th>p95</th><th>p99</th>\
<th>p99.9</th><th>p99.99</th><th>longest</th><th title=\"CPU-microseconds per transaction\">server CPU</th>\
<th title=\"CPU-microseconds per transaction\">client CPU</th></tr>";

fn rows(report: &CurveReport, points: &[Point]) -> String {
    let mut out = String::new();
    for point in points {
        let pass = &point.pass;
        let figures = &pass.latency_microseconds;
        let name = point.share.map_or_else(|| point.name.clone(), percent);
        let at_knee = if report.knee.as_ref() == Some(&point.name) { " class=\"at-knee\"" } else { "" };
        let short = if point.fell_short() { " class=\"short\" title=\"the rate was not kept\"" } else { "" };
        let wanted = point.target_per_second.map_or("–".to_string(), |rate| grouped(rate.round() as u64));
        let done = grouped(pass.transactions_per_second.round() as u64);
        let _ = write!(
            out,
            "<tr{at_knee}><td>{}</td><td>{}</td><td>{wanted}</td><td{short}>{done}</td>",
            escape(&name),
            point.kind.name()
        );
        let percentiles = [figures.p50, figures.p95, figures.p99, figures.p99_9, figures.p99_99, figures.max];
        for value in std::iter::once(figures.average).chain(percentiles.map(|value| value as f64)) {
            let _ = write!(out, "<td>{}</td>", latency(value));
        }
        let cpu = |value: Option<f64>| value.map_or("–".to_string(), |value| format!("{value:.2} µs"));
        let _ = writeln!(
            out,
            "<td>{}</td><td>{}</td></tr>",
            cpu(pass.server_cpu_microseconds_per_transaction),
            cpu(Some(pass.client_cpu_microseconds_per_transaction))
        );
    }
    out
}

fn settings(report: &CurveReport, machine: &Machine) -> String {
    let settings = &report.settings;
    let failed: u64 = report.fire_hose.iter().chain(&report.points).map(|point| point.pass.failed).sum();
    [
        ("workload", settings.workload.clone()),
        ("server", settings.server.clone()),
        ("machine", machine.line()),
        (
            "window",
            format!(
                "{} calls without an answer per client, {} thread(s)",
                settings.outstanding_per_client, settings.threads
            ),
        ),
        (
            "each pass",
            format!("{} s after {} s of warm-up, on data made anew", settings.pass_seconds, settings.warmup_seconds),
        ),
        ("checked", "after each pass, that what the clients were told is what the server has".to_string()),
        ("calls that failed", grouped(failed)),
        ("seed", settings.seed.to_string()),
    ]
    .iter()
    .map(|(name, value)| format!("<dt>{name}</dt><dd>{}</dd>\n", escape(value)))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::CurveSettings;
    use crate::measurement::Latency;
    use crate::workloads::Pass;

    fn point(share: Option<f64>, kind: Loop, rate: f64, p99: u64) -> Point {
        let name = share.map_or("1 client".to_string(), |share| format!("{} {}", percent(share), kind.name()));
        let latency = Latency { average: 90.0, p50: 80, p95: 95, p99, p99_9: p99 * 2, p99_99: p99 * 3, max: p99 * 4 };
        let pass = Pass {
            transactions: 1_000,
            transactions_per_second: rate,
            measured_seconds: 1.0,
            latency_microseconds: latency,
            failed: 0,
            server_cpu_microseconds_per_transaction: None,
            client_cpu_microseconds_per_transaction: 0.1,
            seconds: Vec::new(),
        };
        Point { name, kind, clients: 1, share, target_per_second: share.map(|share| share * 1_000.0), pass }
    }

    fn report() -> CurveReport {
        let settings = CurveSettings {
            workload: "voter".to_string(),
            server: "1 partition <here>".to_string(),
            outstanding_per_client: 10,
            threads: 1,
            warmup_seconds: 1,
            pass_seconds: 1.0,
            seed: 7,
        };
        let mut points = Vec::new();
        for (share, rate, p99) in [(1.0, 900.0, 500_000), (0.95, 950.0, 300), (0.5, 500.0, 110), (0.1, 100.0, 100)] {
            points.push(point(Some(share), Loop::Closed, rate, p99));
            points.push(point(Some(share), Loop::Open, rate, p99));
        }
        CurveReport::new(settings, (1, 1_000.0), vec![point(None, Loop::FireHose, 1_000.0, 9_000)], points)
    }

    #[test]
    fn the_page_is_whole_and_needs_nothing_else() {
        let page = html(&report(), &Machine::here());
        assert!(!page.contains("{{") && !page.contains("http") && !page.contains("<here>"), "{page}");
        assert_eq!(page.matches("<circle").count(), 16);
        assert!(page.contains("knee: 950/s") && page.contains("prefers-color-scheme"));
        assert!(page.contains("the rate was not kept"), "900 of 1,000 is short");
    }

    #[test]
    fn the_table_has_a_line_per_pass() {
        let text = csv(&report());
        assert_eq!(text.lines().count(), 1 + 1 + 8);
        let columns = |line: &str| line.split(',').count();
        assert!(text.lines().all(|line| columns(line) == columns(text.lines().next().unwrap())), "{text}");
    }
}
