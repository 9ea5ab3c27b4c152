//! What became of the calls: counts and latencies since the measuring began and since the last
//! line. Each end is counted once in both.

use hdrhistogram::Histogram;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const LATENCY_MAX_US: u64 = 3_600_000_000;

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Answered,
    /// The server answered that it was rolled back.
    Aborted,
    /// It was not sent, or the answer was not what such a call gives.
    Failed,
    /// No answer in time, or the connection broke: it may have taken place.
    Unknown,
}

struct Counts {
    began: Instant,
    answered: u64,
    aborted: u64,
    failed: u64,
    unknown: u64,
    latency_us: Histogram<u64>,
}

impl Counts {
    fn new() -> Counts {
        let latency_us = Histogram::new_with_max(LATENCY_MAX_US, 3).expect("the bounds are fixed and fit");
        Counts { began: Instant::now(), answered: 0, aborted: 0, failed: 0, unknown: 0, latency_us }
    }

    fn count(&mut self, end: End, latency: Duration) {
        match end {
            End::Answered => self.answered += 1,
            End::Aborted => self.aborted += 1,
            End::Failed => self.failed += 1,
            End::Unknown => self.unknown += 1,
        }
        self.latency_us.saturating_record(latency.as_micros() as u64);
    }

    fn line(&self, latencies: bool) -> String {
        let seconds = self.began.elapsed().as_secs_f64();
        let mut line = format!(
            "Throughput {:.0}/s, Aborts/Failures {}/{}",
            self.answered as f64 / seconds,
            self.aborted,
            self.failed + self.unknown
        );
        if latencies {
            let ms = |us: f64| us / 1000.0;
            let p95 = self.latency_us.value_at_percentile(95.0) as f64;
            write!(line, ", Avg/95% Latency {:.2}/{:.2}ms", ms(self.latency_us.mean()), ms(p95)).expect("text grows");
        }
        line
    }
}

pub struct Figures {
    spans: Mutex<(Counts, Counts)>,
}

impl Figures {
    pub(crate) fn new() -> Figures {
        Figures { spans: Mutex::new((Counts::new(), Counts::new())) }
    }

    fn with<R>(&self, what: impl FnOnce(&mut (Counts, Counts)) -> R) -> R {
        what(&mut self.spans.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn count(&self, end: End, latency: Duration) {
        self.with(|(total, span)| {
            total.count(end, latency);
            span.count(end, latency);
        });
    }

    /// Forgets the warm-up.
    pub(crate) fn begin(&self) {
        self.with(|spans| *spans = (Counts::new(), Counts::new()));
    }

    /// The line of the span that ends now.
    pub(crate) fn span(&self, latencies: bool) -> String {
        let span = self.with(|(_, span)| std::mem::replace(span, Counts::new()));
        format!("{} {}", time_of_day(), span.line(latencies))
    }

    /// The report at the end, and a line in the file of figures if one is wanted.
    pub(crate) fn report(&self, latencies: bool, file: Option<&Path>) -> std::io::Result<String> {
        self.with(|(total, _)| {
            let mut text = format!("Average: {}\n", total.line(false));
            let ms = |percentile: f64| total.latency_us.value_at_percentile(percentile) as f64 / 1000.0;
            if latencies {
                writeln!(text, "Average latency: {:.2} ms", total.latency_us.mean() / 1000.0).expect("text grows");
                for percentile in [10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9] {
                    writeln!(text, "{:>8} % of the calls within {:>10.2} ms", percentile, ms(percentile))
                        .expect("text grows");
                }
                text.push_str("Calls by latency:\n");
                for bucket in
                    total.latency_us.iter_log(1000, 2.0).filter(|bucket| bucket.count_since_last_iteration() > 0)
                {
                    let share = bucket.count_since_last_iteration() as f64 / total.latency_us.len() as f64;
                    let bar = "#".repeat((share * 50.0).ceil() as usize);
                    let upper = bucket.value_iterated_to() as f64 / 1000.0;
                    writeln!(text, "{upper:>10.0} ms {:>6.2} % {bar}", share * 100.0).expect("text grows");
                }
            }
            if let Some(path) = file {
                let elapsed = total.began.elapsed();
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let mut line =
                    format!("{},{},{}", now.saturating_sub(elapsed).as_millis(), elapsed.as_millis(), total.answered);
                for percentile in [0.0, 100.0, 95.0, 99.0, 99.9, 99.99, 99.999] {
                    write!(line, ",{:.2}", ms(percentile)).expect("text grows");
                }
                let mut out = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
                writeln!(out, "{line},{},{},{}", total.failed, total.aborted, total.unknown)?;
            }
            Ok(text)
        })
    }
}

/// Hours, minutes and seconds, in universal time.
fn time_of_day() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
