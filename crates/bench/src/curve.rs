//! `ferrite bench curve`: throughput against latency. First a fire-hose, with one more client each
//! time until throughput no longer grows; then passes at rates from that maximum down. Each rate is
//! measured twice: in closed loop with a limiter, as the published curves were, and in open loop,
//! where every call counts from the moment it was due (no coordinated omission).
//!
//! | room | what is in it |
//! |---|---|
//! | [`steps`] | which rates; where the curve bends |
//! | [`chart`] | the curve as SVG |
//! | [`page`] | the report: one HTML file that needs nothing else; the table as CSV |

pub mod chart;
pub mod page;
pub mod steps;

use crate::error::{BenchError, BenchResult, Doing};
use crate::generator::Shape;
use crate::load::LoadPlan;
use crate::options::CurveOptions;
use crate::random::seed_or_random;
use crate::report::{duration_text, grouped, second_line};
use crate::results::{Machine, check_writable, keep};
use crate::session::{Environment, Session};
use crate::workloads::{Pass, Subject};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use steps::CurvePoint;

/// A rate counts as kept when so much of it was done.
const KEPT: f64 = 0.98;

#[derive(Clone, Debug, Serialize)]
pub struct CurveReport {
    pub settings: CurveSettings,
    /// With the fire-hose.
    pub maximum_per_second: f64,
    pub clients_at_maximum: usize,
    pub fire_hose: Vec<Point>,
    pub points: Vec<Point>,
    /// The name of the point in open loop where latency begins to rise faster than throughput.
    pub knee: Option<String>,
    /// p99 in open loop, between measured rates.
    pub p99_microseconds_at_20_percent: Option<f64>,
    pub p99_microseconds_at_80_percent: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct CurveSettings {
    pub workload: String,
    pub server: String,
    pub outstanding_per_client: u32,
    pub threads: u16,
    pub warmup_seconds: u64,
    pub pass_seconds: f64,
    pub seed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Loop {
    /// As fast as answers come.
    FireHose,
    /// With a limiter; latency from the send.
    Closed,
    /// By schedule; latency from when a call was due.
    Open,
}

impl Loop {
    pub fn name(self) -> &'static str {
        match self {
            Loop::FireHose => "fire-hose",
            Loop::Closed => "closed",
            Loop::Open => "open",
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Such as `95 % open`; unique in its list.
    pub name: String,
    pub kind: Loop,
    pub clients: usize,
    /// Of the maximum; None for the fire-hose.
    pub share: Option<f64>,
    pub target_per_second: Option<f64>,
    #[serde(flatten)]
    pub pass: Pass,
}

impl Point {
    /// By the rate that was asked for: where it could not be kept, less was done with more latency,
    /// which is no other place on the way up but the wall at the end of it.
    fn place(&self) -> CurvePoint {
        let p99 = self.pass.latency_microseconds.p99;
        let throughput = self.target_per_second.unwrap_or(self.pass.transactions_per_second);
        CurvePoint { throughput, latency: p99 as f64 }
    }

    /// Whether less was done than asked for.
    pub fn fell_short(&self) -> bool {
        self.target_per_second.is_some_and(|target| self.pass.transactions_per_second < KEPT * target)
    }
}

/// Measures, prints, writes the three files.
pub fn run_curve(environment: &Environment, options: &CurveOptions) -> BenchResult<CurveReport> {
    let files = Files::new(&options.out)?;
    let session = Session::open(environment, &options.target)?;
    let seed = seed_or_random(options.seed);
    let run = Run { environment, options, session: &session, subject: Subject::new(options.workload, seed) };
    ferrite_io::outln!("{}", run.heading());
    let fire_hose = run.fire_hose()?;
    let rates: Vec<f64> = fire_hose.iter().map(|point| point.pass.transactions_per_second).collect();
    let (clients, maximum) = steps::maximum(&rates)
        .ok_or_else(|| BenchError::Load("stopped before there was a maximum to back off from".to_string()))?;
    ferrite_io::outln!("maximum {}/s with {clients} client(s); backing off from it", grouped(maximum.round() as u64));
    let points = run.back_off(clients, maximum)?;
    let report = CurveReport::new(run.settings(seed), (clients, maximum), fire_hose, points);
    session.close()?;
    ferrite_io::out!("{}", report.text());
    files.write(&report)?;
    Ok(report)
}

struct Files {
    csv: PathBuf,
    json: PathBuf,
    html: PathBuf,
}

impl Files {
    /// Names them, and makes sure that they can be written before minutes are spent.
    fn new(prefix: &Path) -> BenchResult<Files> {
        let named = |extension: &str| {
            let mut name = prefix.as_os_str().to_os_string();
            name.push(extension);
            let file = PathBuf::from(name);
            check_writable(&file).map(|()| file)
        };
        Ok(Files { csv: named(".csv")?, json: named(".json")?, html: named(".html")? })
    }

    fn write(&self, report: &CurveReport) -> BenchResult<()> {
        let write =
            |file: &Path, text: String| std::fs::write(file, text).doing(format_args!("writing {}", file.display()));
        write(&self.csv, page::csv(report))?;
        keep(Some(&self.json), "curve", report)?;
        write(&self.html, page::html(report, &Machine::here()))?;
        ferrite_io::outln!("written: {}, {}, {}", self.csv.display(), self.json.display(), self.html.display());
        Ok(())
    }
}

struct Run<'r> {
    environment: &'r Environment,
    options: &'r CurveOptions,
    session: &'r Session,
    subject: Subject,
}

impl Run<'_> {
    fn settings(&self, seed: u64) -> CurveSettings {
        CurveSettings {
            workload: self.options.workload.to_string(),
            server: self.session.description(),
            outstanding_per_client: self.options.outstanding,
            threads: self.options.threads,
            warmup_seconds: self.options.warmup,
            pass_seconds: self.options.duration.as_secs_f64(),
            seed,
        }
    }

    fn heading(&self) -> String {
        let options = self.options;
        format!(
            "curve, {}: {}\n{} outstanding per client, {} thread(s), passes of {} s after {} s",
            options.workload,
            self.session.description(),
            options.outstanding,
            options.threads,
            options.duration.as_secs_f64(),
            options.warmup
        )
    }

    fn stopped(&self) -> bool {
        self.environment.stop.load(Ordering::Relaxed)
    }

    fn fire_hose(&self) -> BenchResult<Vec<Point>> {
        let mut points: Vec<Point> = Vec::new();
        let mut rates = Vec::new();
        while steps::add_client(&rates, usize::from(self.options.clients_max)) && !self.stopped() {
            let clients = points.len() + 1;
            let name = format!("{clients} client{}", if clients == 1 { "" } else { "s" });
            let point = self.pass(name, Loop::FireHose, clients, None)?;
            rates.push(point.pass.transactions_per_second);
            points.push(point);
        }
        Ok(points)
    }

    fn back_off(&self, clients: usize, maximum: f64) -> BenchResult<Vec<Point>> {
        let mut points = Vec::new();
        for share in steps::shares() {
            for kind in [Loop::Closed, Loop::Open] {
                if self.stopped() {
                    return Ok(points);
                }
                let name = format!("{} {}", percent(share), kind.name());
                points.push(self.pass(name, kind, clients, Some((share, share * maximum)))?);
            }
        }
        Ok(points)
    }

    /// One pass on fresh data, told in a line.
    fn pass(&self, name: String, kind: Loop, clients: usize, pace: Option<(f64, f64)>) -> BenchResult<Point> {
        self.subject.prepare(self.session)?;
        let plan = LoadPlan {
            address: self.session.address().to_string(),
            connections: clients,
            threads: usize::from(self.options.threads).min(clients),
            shape: Shape {
                outstanding: self.options.outstanding as usize * clients,
                rate: pace.map(|(_, rate)| rate),
                limiter: kind == Loop::Closed,
                warmup: Duration::from_secs(self.options.warmup),
                duration: Some(self.options.duration),
            },
            stop: Arc::clone(&self.environment.stop),
        };
        let pass = self.subject.run(self.session, &plan, |second, measurement| {
            if self.options.verbose {
                ferrite_io::outln!("  {}", second_line(second, measurement));
            }
        })?;
        let share = pace.map(|(share, _)| share);
        let target_per_second = pace.map(|(_, rate)| rate);
        let point = Point { name, kind, clients, share, target_per_second, pass };
        ferrite_io::outln!("{}", line(&point));
        Ok(point)
    }
}

/// A pass in a line.
fn line(point: &Point) -> String {
    let latency = &point.pass.latency_microseconds;
    format!(
        "{:<15} {:>11}/s   p50 {:>8}  p99 {:>8}  p99.9 {:>8}  max {:>8}{}",
        point.name,
        grouped(point.pass.transactions_per_second.round() as u64),
        duration_text(latency.p50 as f64),
        duration_text(latency.p99 as f64),
        duration_text(latency.p99_9 as f64),
        duration_text(latency.max as f64),
        if point.fell_short() { "   rate not kept" } else { "" }
    )
}

/// `95 %`, `85.5 %`.
pub fn percent(share: f64) -> String {
    let tenths = (share * 1_000.0).round() / 10.0;
    if tenths.fract() == 0.0 { format!("{tenths:.0} %") } else { format!("{tenths:.1} %") }
}

impl CurveReport {
    pub fn new(
        settings: CurveSettings,
        (clients_at_maximum, maximum_per_second): (usize, f64),
        fire_hose: Vec<Point>,
        points: Vec<Point>,
    ) -> CurveReport {
        let open: Vec<&Point> = points.iter().filter(|point| point.kind == Loop::Open).collect();
        let places: Vec<CurvePoint> = open.iter().map(|point| point.place()).collect();
        CurveReport {
            settings,
            maximum_per_second,
            clients_at_maximum,
            knee: steps::knee(&places).map(|place| open[place].name.clone()),
            p99_microseconds_at_20_percent: steps::latency_at(&places, 0.2 * maximum_per_second),
            p99_microseconds_at_80_percent: steps::latency_at(&places, 0.8 * maximum_per_second),
            fire_hose,
            points,
        }
    }

    pub fn knee_point(&self) -> Option<&Point> {
        let name = self.knee.as_ref()?;
        self.points.iter().find(|point| point.name == *name)
    }

    fn text(&self) -> String {
        let mut text = match self.knee_point() {
            Some(point) => format!(
                "knee at {}: {}/s with p99 {}\n",
                point.name.trim_end_matches(" open"),
                grouped(point.pass.transactions_per_second.round() as u64),
                duration_text(point.pass.latency_microseconds.p99 as f64)
            ),
            None => "no knee: latency does not bend within what was measured\n".to_string(),
        };
        if let (Some(low), Some(high)) = (self.p99_microseconds_at_20_percent, self.p99_microseconds_at_80_percent) {
            text.push_str(&format!(
                "p99 at 80 % of the maximum {}, at 20 % {}: {:.2} times\n",
                duration_text(high),
                duration_text(low),
                high / low
            ));
        }
        text
    }
}
