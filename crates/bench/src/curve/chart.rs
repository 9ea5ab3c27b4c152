//! The curve as SVG: throughput to the right, latency upwards on a logarithmic scale. Colours are
//! classes, which the page defines for light and dark.

use crate::report::{duration_text, grouped};
use std::fmt::Write as _;

pub const WIDTH: f64 = 960.0;
pub const HEIGHT: f64 = 460.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 56.0;

/// One line of the chart.
pub struct Series {
    /// Class of its elements; the page has a colour for it and a box to switch it off.
    pub class: &'static str,
    pub dots: Vec<Dot>,
}

pub struct Dot {
    pub throughput: f64,
    /// Microseconds.
    pub latency: f64,
    /// Less was done than asked for.
    pub short: bool,
    /// What the page shows when one points at it; lines end with newlines.
    pub tip: String,
}

/// From a value to a place on the paper.
struct Scales {
    throughput_max: f64,
    /// Decimal logarithms of microseconds.
    low: f64,
    high: f64,
}

impl Scales {
    fn new(series: &[Series]) -> Scales {
        let dots = || series.iter().flat_map(|series| &series.dots);
        let throughput = dots().map(|dot| dot.throughput).fold(0.0, f64::max).max(1.0);
        let lowest = dots().map(|dot| dot.latency).fold(f64::INFINITY, f64::min).clamp(1.0, 1e9);
        let highest = dots().map(|dot| dot.latency).fold(1.0, f64::max);
        let low = lowest.log10().floor();
        Scales { throughput_max: throughput * 1.04, low, high: highest.log10().ceil().max(low + 1.0) }
    }

    fn x(&self, throughput: f64) -> f64 {
        LEFT + throughput / self.throughput_max * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, latency: f64) -> f64 {
        let share = (latency.max(1.0).log10() - self.low) / (self.high - self.low);
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    }
}

/// The whole `svg` element. `knee` is a throughput and what to write there.
pub fn svg(series: &[Series], knee: Option<(f64, String)>) -> String {
    let scales = Scales::new(series);
    let mut out = format!(
        "<svg id=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Latency against throughput\">\n"
    );
    // Writing to a string cannot fail.
    axes(&mut out, &scales);
    if let Some((throughput, label)) = knee {
        let x = scales.x(throughput);
        let (anchor, shift) = if x > WIDTH - 260.0 { ("end", -8.0) } else { ("start", 8.0) };
        let _ = writeln!(
            out,
            "<line class=\"knee\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>\
             <text class=\"knee-label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            HEIGHT - BOTTOM,
            x + shift,
            TOP + 14.0,
            escape(&label)
        );
    }
    for line in series {
        let path: Vec<String> = line
            .dots
            .iter()
            .map(|dot| format!("{:.1},{:.1}", scales.x(dot.throughput), scales.y(dot.latency)))
            .collect();
        let _ = writeln!(out, "<g class=\"series {0}\"><polyline points=\"{1}\"/>", line.class, path.join(" "));
        for dot in &line.dots {
            let x = scales.x(dot.throughput);
            let y = scales.y(dot.latency);
            let tip = escape(&dot.tip);
            let class = if dot.short { " class=\"short\"" } else { "" };
            // The title is what a browser without scripts shows, and what a screen reader says.
            let _ = writeln!(
                out,
                "<circle{class} cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" tabindex=\"0\" data-tip=\"{tip}\"><title>{tip}</title></circle>"
            );
        }
        out.push_str("</g>\n");
    }
    out.push_str("</svg>");
    out
}

fn axes(out: &mut String, scales: &Scales) {
    let bottom = HEIGHT - BOTTOM;
    let right = WIDTH - RIGHT;
    for exponent in scales.low as i32..=scales.high as i32 {
        let latency = 10f64.powi(exponent);
        let y = scales.y(latency);
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            y + 4.0,
            latency_tick(exponent)
        );
        for step in 2..10 {
            let y = scales.y(latency * f64::from(step));
            if exponent < scales.high as i32 {
                let _ = writeln!(
                    out,
                    "<line class=\"grid minor\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
                );
            }
        }
    }
    let step = tick_step(scales.throughput_max);
    let mut throughput = 0.0;
    while throughput <= scales.throughput_max {
        let x = scales.x(throughput);
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
             <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 20.0,
            throughput_tick(throughput)
        );
        throughput += step;
    }
    let _ = writeln!(
        out,
        "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\
         <line class=\"axis\" x1=\"{LEFT}\" x2=\"{LEFT}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
         <text class=\"axis-name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">transactions per second</text>\
         <text class=\"axis-name\" x=\"{LEFT}\" y=\"{:.1}\" text-anchor=\"start\">latency (logarithmic)</text>",
        (LEFT + right) / 2.0,
        HEIGHT - 12.0,
        TOP - 14.0
    );
}

/// About seven ticks, of 1, 2 or 5 times a power of ten.
fn tick_step(maximum: f64) -> f64 {
    let rough = maximum / 7.0;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= rough).unwrap_or(10.0);
    factor * power
}

fn throughput_tick(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{} M", (value / 1e4).round() / 100.0),
        value if value >= 1e3 => format!("{} k", (value / 10.0).round() / 100.0),
        value => grouped(value.round() as u64),
    }
}

fn latency_tick(exponent: i32) -> String {
    match exponent {
        ..=2 => format!("{} µs", 10u64.pow(exponent.max(0) as u32)),
        3..=5 => format!("{} ms", 10u64.pow(exponent as u32 - 3)),
        _ => format!("{} s", 10u64.pow((exponent as u32 - 6).min(12))),
    }
}

pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// `1.23 ms`, with the proper sign for micro.
pub fn latency(microseconds: f64) -> String {
    duration_text(microseconds).replace(" us", " µs")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(dots: &[(f64, f64)]) -> Vec<Series> {
        let dots = dots.iter().map(|&(throughput, latency)| Dot {
            throughput,
            latency,
            short: false,
            tip: "a < b".to_string(),
        });
        vec![Series { class: "p99", dots: dots.collect() }]
    }

    #[test]
    fn everything_lies_on_the_paper() {
        for dots in [&[(1_000.0, 50.0), (900_000.0, 3e6)][..], &[(5.0, 0.0)], &[(0.0, 1.0), (0.0, 1.0)], &[]] {
            let drawn = svg(&series(dots), dots.first().map(|dot| (dot.0, "knee".to_string())));
            for part in drawn.split('"').filter_map(|part| part.parse::<f64>().ok()) {
                assert!((0.0..=WIDTH).contains(&part), "{part} in {drawn}");
            }
            assert_eq!(drawn.matches("<circle").count(), dots.len());
            assert!(!drawn.contains("a < b") && !drawn.contains("NaN"), "{drawn}");
        }
    }

    #[test]
    fn ticks_are_round() {
        for (maximum, step) in [(936_000.0, 200_000.0), (7.0, 1.0), (104.0, 20.0), (30_000.0, 5_000.0)] {
            assert_eq!(tick_step(maximum), step, "{maximum}");
        }
        for (value, text) in [(0.0, "0"), (500.0, "500"), (20_000.0, "20 k"), (1_500_000.0, "1.5 M")] {
            assert_eq!(throughput_tick(value), text);
        }
        assert_eq!([0, 2, 3, 5, 6].map(latency_tick), ["1 µs", "100 µs", "1 ms", "100 ms", "1 s"]);
    }
}
