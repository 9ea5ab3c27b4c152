//! The progress line of a load: rows, rate, share, time left. On a terminal only, and gone at the
//! end.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(200);
/// Columns of the bar.
const BAR: usize = 20;

pub struct Progress {
    shown: bool,
    begun: Instant,
    next: Instant,
    /// Rows and time of the last line, for the rate now.
    before: (u64, Instant),
    rate: f64,
}

impl Progress {
    pub fn new(quiet: bool) -> Progress {
        let now = Instant::now();
        Progress {
            shown: !quiet && io::stderr().is_terminal(),
            begun: now,
            next: now + INTERVAL,
            before: (0, now),
            rate: 0.0,
        }
    }

    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Redraws if it is time. `share` is how much of the input has been read, if its size is known.
    pub fn show(&mut self, now: Instant, rows: u64, rejected: u64, share: Option<f64>) {
        if !self.shown || now < self.next {
            return;
        }
        self.next = now + INTERVAL;
        let (rows_before, at_before) = self.before;
        let rate_now = (rows - rows_before) as f64 / now.duration_since(at_before).as_secs_f64().max(1e-6);
        // Smoothed, so that it can be read.
        self.rate = if self.rate == 0.0 { rate_now } else { 0.7 * self.rate + 0.3 * rate_now };
        self.before = (rows, now);
        let _ =
            write!(io::stderr(), "\r\x1b[K{}", line(rows, rejected, self.rate, share, now.duration_since(self.begun)));
        let _ = io::stderr().flush();
    }

    pub fn clear(&self) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(rows: u64, rejected: u64, rate: f64, share: Option<f64>, elapsed: Duration) -> String {
    let mut line = match share {
        Some(share) => {
            let full = ((share * BAR as f64) as usize).min(BAR);
            format!("[{}{}] {:3.0} %  ", "#".repeat(full), "-".repeat(BAR - full), share * 100.0)
        }
        None => String::new(),
    };
    line.push_str(&format!("{} rows  {} rows/s", grouped(rows), grouped(rate as u64)));
    if rejected > 0 {
        line.push_str(&format!("  {} rejected", grouped(rejected)));
    }
    if let Some(share) = share.filter(|share| *share > 0.01) {
        let left = elapsed.as_secs_f64() * (1.0 - share) / share;
        line.push_str(&format!("  {} left", short_time(left)));
    }
    line
}

fn short_time(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02} h", seconds / 3600, seconds / 60 % 60),
    }
}

/// `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_it_is() {
        assert_eq!(
            line(1_234_567, 2, 500_000.0, Some(0.5), Duration::from_secs(90)),
            "[##########----------]  50 %  1,234,567 rows  500,000 rows/s  2 rejected  1:30 min left"
        );
        assert_eq!(line(1, 0, 0.0, None, Duration::ZERO), "1 rows  0 rows/s");
    }
}
