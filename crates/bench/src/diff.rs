//! `ferrite bench diff A B`: two kept runs side by side, every figure with its ratio, and which
//! differences are more than noise.
//!
//! Noise is taken from the runs themselves: how far their seconds lie apart. A difference counts
//! when it is larger than two standard deviations of a second, of both runs together. That is
//! strict for an average over many seconds, and on purpose: two runs differ by more than chance
//! within a run explains (other placement in memory, other neighbours on the machine).

use crate::error::{BenchError, BenchResult, Doing};
use crate::options::DiffOptions;
use crate::report::grouped;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// This many standard deviations apart is a difference.
const DEVIATIONS: f64 = 2.0;
/// Fewer seconds say nothing about noise.
const SECONDS_MIN: usize = 3;
/// What is not a figure of a run but how it was made: shown only where it differs.
const SETTINGS: &[&str] = &["load", "settings", "machine", "ferrite", "build", "bench", "workload", "server", "plan"];
/// What differs always and means nothing.
const IGNORED: &[&str] = &[
    "command_line",
    "finished_unix_seconds",
    "seconds",
    "first_failure",
    "validated",
    "measured_seconds",
    "worst_second",
];

pub fn run_diff(options: &DiffOptions) -> BenchResult<()> {
    let before = read(&options.before)?;
    let after = read(&options.after)?;
    let comparison = Comparison::new(&before, &after)?;
    ferrite_io::out!("{}", comparison.text(&options.before.to_string_lossy(), &options.after.to_string_lossy()));
    Ok(())
}

fn read(file: &Path) -> BenchResult<Value> {
    let text = std::fs::read(file).doing(format_args!("reading {}", file.display()))?;
    let value: Value = serde_json::from_slice(&text)
        .map_err(|error| BenchError::Load(format!("{} is not a kept run: {error}", file.display())))?;
    match value {
        Value::Object(_) => Ok(value),
        _ => Err(BenchError::Load(format!("{} is not a kept run: it holds no JSON object", file.display()))),
    }
}

/// How far the seconds of a run lie apart: standard deviation by mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Noise {
    transactions: Option<f64>,
    p50: Option<f64>,
    p99: Option<f64>,
    max: Option<f64>,
}

impl Noise {
    /// Of an object with a list `seconds`.
    fn of(value: &Value) -> Option<Noise> {
        let seconds = value.get("seconds")?.as_array()?;
        let spread = |name: &str| {
            let series: Option<Vec<f64>> = seconds.iter().map(|second| second.get(name)?.as_f64()).collect();
            series.as_deref().and_then(relative_deviation)
        };
        Some(Noise { transactions: spread("transactions"), p50: spread("p50"), p99: spread("p99"), max: spread("max") })
    }

    fn of_figure(&self, path: &str) -> Option<f64> {
        let name = path.rsplit('.').next().unwrap_or(path);
        match name {
            "max" | "p99_99" => self.max,
            "p50" | "average" => self.p50,
            _ if name.starts_with("p9") => self.p99,
            _ => self.transactions,
        }
    }
}

/// None for too few values, or when their mean is 0.
fn relative_deviation(values: &[f64]) -> Option<f64> {
    if values.len() < SECONDS_MIN {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64;
    (mean > 0.0).then(|| variance.sqrt() / mean)
}

#[derive(Clone, Debug, PartialEq)]
struct Figure {
    value: f64,
    noise: Option<f64>,
}

/// Figures and settings of one run by their paths.
#[derive(Debug, Default)]
struct Flat {
    figures: BTreeMap<String, Figure>,
    settings: BTreeMap<String, String>,
    /// Paths of figures as they were met.
    order: Vec<String>,
}

impl Flat {
    fn of(run: &Value) -> Flat {
        let mut flat = Flat::default();
        flat.add("", run, Noise::default(), false);
        flat
    }

    fn add(&mut self, path: &str, value: &Value, noise: Noise, setting: bool) {
        match value {
            Value::Object(fields) => {
                let noise = Noise::of(value).unwrap_or(noise);
                for (name, field) in fields {
                    // A part's name is in its path already.
                    if !(IGNORED.contains(&name.as_str()) || name == "name" && field.is_string()) {
                        let setting = setting || SETTINGS.contains(&name.as_str());
                        self.add(&join(path, name), field, noise, setting);
                    }
                }
            }
            Value::Array(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    match element.as_array().map(Vec::as_slice) {
                        // A pair of a name and its figure.
                        Some([Value::String(name), figure]) => self.add(&join(path, name), figure, noise, setting),
                        _ => {
                            let name = element.get("name").and_then(Value::as_str);
                            let name = name.map_or_else(|| (index + 1).to_string(), str::to_string);
                            self.add(&join(path, &name), element, noise, setting);
                        }
                    }
                }
            }
            Value::Number(number) if !setting => {
                let figure = Figure { value: number.as_f64().unwrap_or(f64::NAN), noise: noise.of_figure(path) };
                self.figures.insert(path.to_string(), figure);
                self.order.push(path.to_string());
            }
            Value::Null => {}
            other => {
                let text = other.as_str().map_or_else(|| other.to_string(), str::to_string);
                self.settings.insert(path.to_string(), text);
            }
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_string() } else { format!("{path}.{name}") }
}

/// What a difference means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Better,
    Worse,
    /// More than noise, of a figure that is neither good nor bad.
    Other,
    WithinNoise,
    /// The noise is not known.
    Unknown,
}

impl Verdict {
    fn of(path: &str, before: &Figure, after: &Figure) -> Verdict {
        let noise = match (before.noise, after.noise) {
            _ if before.value == after.value => return Verdict::WithinNoise,
            (Some(before), Some(after)) => DEVIATIONS * before.hypot(after),
            _ => return Verdict::Unknown,
        };
        let scale = before.value.abs().min(after.value.abs());
        if (after.value - before.value).abs() <= noise * scale {
            return Verdict::WithinNoise;
        }
        match (more_is_better(path), after.value > before.value) {
            (None, _) => Verdict::Other,
            (Some(wanted), more) if wanted == more => Verdict::Better,
            _ => Verdict::Worse,
        }
    }

    fn mark(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "WORSE",
            Verdict::Other => "differs",
            Verdict::WithinNoise => "",
            Verdict::Unknown => "?",
        }
    }
}

/// None where neither is.
fn more_is_better(path: &str) -> Option<bool> {
    let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
    if name.contains("per_second") {
        // Fsyncs of a group commit are neither good nor bad.
        return (!path.contains("fsyncs")).then_some(true);
    }
    let less = ["microseconds", "bytes_per_row", "aborted", "failed", "unknown", "pauses"];
    if less.iter().any(|word| name.contains(word)) || parent.contains("latency") || parent.contains("microseconds") {
        return Some(false);
    }
    None
}

#[derive(Debug)]
struct Line {
    path: String,
    before: f64,
    after: f64,
    noise: Option<f64>,
    verdict: Verdict,
}

#[derive(Debug)]
struct Comparison {
    lines: Vec<Line>,
    /// What differs in how the runs were made.
    settings: Vec<(String, String, String)>,
    only_before: Vec<String>,
    only_after: Vec<String>,
}

impl Comparison {
    fn new(before: &Value, after: &Value) -> BenchResult<Comparison> {
        let before = Flat::of(before);
        let after = Flat::of(after);
        let mut lines = Vec::new();
        for path in &before.order {
            let (Some(left), Some(right)) = (before.figures.get(path), after.figures.get(path)) else { continue };
            let noise = left.noise.zip(right.noise).map(|(left, right)| DEVIATIONS * left.hypot(right));
            let verdict = Verdict::of(path, left, right);
            lines.push(Line { path: path.clone(), before: left.value, after: right.value, noise, verdict });
        }
        if lines.is_empty() {
            return Err(BenchError::Load("the two files have no figure in common".to_string()));
        }
        let absent = |from: &Flat, other: &Flat| {
            from.order.iter().filter(|path| !other.figures.contains_key(*path)).cloned().collect::<Vec<_>>()
        };
        let mut settings = Vec::new();
        let names: std::collections::BTreeSet<&String> = before.settings.keys().chain(after.settings.keys()).collect();
        for name in names {
            let text = |flat: &Flat| flat.settings.get(name).cloned().unwrap_or_else(|| "(not there)".to_string());
            let left = text(&before);
            let right = text(&after);
            if left != right {
                settings.push((name.clone(), left, right));
            }
        }
        Ok(Comparison { lines, settings, only_before: absent(&before, &after), only_after: absent(&after, &before) })
    }

    fn text(&self, before: &str, after: &str) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "A: {before}\nB: {after}");
        if !self.settings.is_empty() {
            let _ = writeln!(text, "\nthe runs were made differently:");
            for (name, left, right) in &self.settings {
                let _ = writeln!(text, "  {name}: {left}  |  {right}");
            }
        }
        let width = self.lines.iter().map(|line| line.path.len()).max().unwrap_or(0).max(6);
        let _ = writeln!(text, "\n{:<width$} {:>16} {:>16} {:>8} {:>8}", "figure", "A", "B", "B / A", "noise");
        for line in &self.lines {
            let ratio = match line.before {
                0.0 if line.after == 0.0 => "=".to_string(),
                0.0 => "-".to_string(),
                before => format!("{:.3}", line.after / before),
            };
            let noise = line.noise.map_or("-".to_string(), |noise| format!("{:.1} %", noise * 100.0));
            let left = number(line.before);
            let right = number(line.after);
            let row =
                format!("{:<width$} {left:>16} {right:>16} {ratio:>8} {noise:>8}  {}", line.path, line.verdict.mark());
            let _ = writeln!(text, "{}", row.trim_end());
        }
        for (which, paths) in [("A", &self.only_before), ("B", &self.only_after)] {
            if !paths.is_empty() {
                let _ = writeln!(text, "\nonly in {which}: {}", paths.join(", "));
            }
        }
        let count = |verdict| self.lines.iter().filter(|line| line.verdict == verdict).count();
        let _ = writeln!(
            text,
            "\n{} better, {} worse, {} otherwise different; noise: {DEVIATIONS} standard deviations of the runs' seconds{}",
            count(Verdict::Better),
            count(Verdict::Worse),
            count(Verdict::Other),
            if count(Verdict::Unknown) > 0 { "; ?: no seconds to know the noise from" } else { "" }
        );
        text
    }
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        let sign = if value < 0.0 { "-" } else { "" };
        return format!("{sign}{}", grouped(value.abs() as u64));
    }
    if value.abs() >= 1_000.0 { number(value.round()) } else { format!("{value:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(rates: [u64; 4], p99: u64, memory: f64) -> Value {
        let seconds: Vec<Value> =
            rates.iter().map(|rate| json!({ "transactions": rate, "p50": 10, "p99": p99, "max": 50 })).collect();
        let mean = rates.iter().sum::<u64>() as f64 / 4.0;
        json!({
            "bench": "voter",
            "server": "1 partition",
            "load": { "outstanding": 10, "rate": null },
            "transactions_per_second": mean,
            "latency_microseconds": { "p99": p99 },
            "details": [["votes accepted", mean]],
            "memory": { "resident_bytes_per_row": memory },
            "seconds": seconds,
        })
    }

    fn verdicts(before: &Value, after: &Value) -> BTreeMap<String, Verdict> {
        let comparison = Comparison::new(before, after).unwrap();
        comparison.lines.into_iter().map(|line| (line.path, line.verdict)).collect()
    }

    #[test]
    fn differences_beyond_the_spread_of_the_seconds_are_marked() {
        let before = run([100, 102, 98, 100], 20, 100.0);
        // A deviation of 1.6 % each: 4.6 % for both.
        let within = verdicts(&before, &run([103, 105, 101, 103], 20, 100.0));
        assert!(within.values().all(|verdict| *verdict == Verdict::WithinNoise), "{within:?}");
        let beyond = verdicts(&before, &run([110, 112, 108, 110], 30, 90.0));
        assert_eq!(beyond["transactions_per_second"], Verdict::Better);
        assert_eq!(beyond["latency_microseconds.p99"], Verdict::Worse);
        assert_eq!(beyond["memory.resident_bytes_per_row"], Verdict::Better);
        assert_eq!(beyond["details.votes accepted"], Verdict::Other);
        assert_eq!(verdicts(&run([110; 4], 30, 1.0), &before)["transactions_per_second"], Verdict::Worse);
    }

    #[test]
    fn without_seconds_nothing_is_claimed() {
        let (before, after) = (json!({ "ratio": 0.5 }), json!({ "ratio": 0.9 }));
        assert_eq!(verdicts(&before, &after)["ratio"], Verdict::Unknown);
        assert_eq!(verdicts(&before, &before)["ratio"], Verdict::WithinNoise);
    }

    #[test]
    fn parts_are_found_by_name_wherever_they_stand() {
        let part = |name: &str, rate: u64| json!({ "name": name, "rate_per_second": rate });
        let before = json!({ "points": [part("90 %", 9), part("50 %", 5)] });
        let after = json!({ "points": [part("50 %", 6), part("70 %", 7)] });
        let comparison = Comparison::new(&before, &after).unwrap();
        assert_eq!(comparison.lines.len(), 1);
        assert_eq!((comparison.lines[0].before, comparison.lines[0].after), (5.0, 6.0));
        assert_eq!(comparison.only_before, ["points.90 %.rate_per_second"]);
        assert_eq!(comparison.only_after, ["points.70 %.rate_per_second"]);
    }

    #[test]
    fn settings_are_told_apart_from_figures() {
        let (before, mut after) = (run([100; 4], 20, 1.0), run([100; 4], 20, 1.0));
        after["load"]["outstanding"] = json!(20);
        let comparison = Comparison::new(&before, &after).unwrap();
        assert_eq!(comparison.settings, [("load.outstanding".to_string(), "10".to_string(), "20".to_string())]);
        let text = comparison.text("a.json", "b.json");
        assert!(text.contains("made differently") && text.contains("0 better, 0 worse"), "{text}");
    }

    #[test]
    fn files_that_are_no_runs_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        for (name, content, complaint) in
            [("text", "no json", "not a kept run"), ("list", "[1]", "no JSON object"), ("empty", "", "not a kept run")]
        {
            let file = directory.path().join(name);
            std::fs::write(&file, content).unwrap();
            let error = read(&file).unwrap_err().to_string();
            assert!(error.contains(complaint), "{error}");
        }
        assert!(read(&directory.path().join("absent")).unwrap_err().to_string().contains("absent"));
        assert!(Comparison::new(&json!({ "a": 1 }), &json!({ "b": 1 })).is_err());
    }

    #[test]
    fn numbers_for_people() {
        for (value, text) in [(1_234_567.0, "1,234,567"), (1_234.56, "1,235"), (-2.0, "-2"), (0.5, "0.500")] {
            assert_eq!(number(value), text);
        }
    }
}
