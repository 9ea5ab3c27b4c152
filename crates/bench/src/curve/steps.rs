//! Which rates a curve is measured at, when enough clients were added, and where the curve bends:
//! plain functions of figures.

/// Another client counts as growth when the best throughput so far becomes better by this part.
const GROWTH_MIN: f64 = 0.03;
/// This many clients in a row without growth, and the maximum is found: one alone may have met a
/// bad second.
const WITHOUT_GROWTH_MAX: usize = 2;
/// Finer steps are made from the maximum down to here,
const FINE_DOWN_TO: f64 = 0.95;
const FINE_STEP: f64 = 0.01;
/// then each pass is so much of the one before,
const BACK_OFF: f64 = 0.9;
/// and half of it below this.
const HALVE_BELOW: f64 = 0.7;
/// Less load than this share of the maximum shows nothing new.
const SHARE_MIN: f64 = 0.05;
/// A bend that is flatter than this is none: the curve's distance from a straight line, both axes
/// from 0 to 1.
const BEND_MIN: f64 = 0.15;

/// Whether to try with one more client, after throughputs with 1, 2, 3... clients.
pub fn add_client(throughputs: &[f64], clients_max: usize) -> bool {
    let mut best = 0.0;
    let mut without_growth = 0;
    for throughput in throughputs {
        if *throughput > best * (1.0 + GROWTH_MIN) {
            without_growth = 0;
        } else {
            without_growth += 1;
        }
        best = throughput.max(best);
    }
    throughputs.len() < clients_max && without_growth < WITHOUT_GROWTH_MAX
}

/// The least number of clients that comes within [`GROWTH_MIN`] of the best, and the best
/// throughput.
pub fn maximum(throughputs: &[f64]) -> Option<(usize, f64)> {
    let best = throughputs.iter().copied().fold(0.0, f64::max);
    let enough = throughputs.iter().position(|throughput| *throughput * (1.0 + GROWTH_MIN) >= best)?;
    (best > 0.0).then_some((enough + 1, best))
}

/// Shares of the maximum, from 1 down.
pub fn shares() -> Vec<f64> {
    let fine = ((1.0 - FINE_DOWN_TO) / FINE_STEP).round() as usize;
    let mut shares: Vec<f64> = (0..=fine).map(|step| 1.0 - step as f64 * FINE_STEP).collect();
    let mut share = FINE_DOWN_TO;
    loop {
        share *= if share < HALVE_BELOW { 0.5 } else { BACK_OFF };
        if share < SHARE_MIN {
            return shares;
        }
        shares.push(share);
    }
}

/// A place on the curve: throughput, and a latency that is above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    pub throughput: f64,
    pub latency: f64,
}

/// The index of the place where latency begins to rise faster than throughput: the one farthest
/// below the straight line from the first place to the last, with latency on a logarithmic scale
/// (the method named Kneedle). None when there is no bend.
pub fn knee(places: &[CurvePoint]) -> Option<usize> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|a, b| places[*a].throughput.total_cmp(&places[*b].throughput));
    let first = places[*order.first()?];
    let last = places[*order.last()?];
    let highest = places.iter().map(|place| place.latency).fold(0.0, f64::max).max(1.0).ln();
    let lowest = places.iter().map(|place| place.latency).fold(f64::INFINITY, f64::min).max(1.0).ln();
    if last.throughput <= first.throughput || highest <= lowest {
        return None;
    }
    let below_the_line = |place: CurvePoint| {
        let x = (place.throughput - first.throughput) / (last.throughput - first.throughput);
        let y = (place.latency.max(1.0).ln() - lowest) / (highest - lowest);
        x - y
    };
    let farthest =
        order.into_iter().max_by(|a, b| below_the_line(places[*a]).total_cmp(&below_the_line(places[*b])))?;
    (below_the_line(places[farthest]) >= BEND_MIN).then_some(farthest)
}

/// Latency at a throughput between two measured ones, on the straight line between their
/// logarithms. None outside of what was measured.
pub fn latency_at(places: &[CurvePoint], throughput: f64) -> Option<f64> {
    let mut sorted = places.to_vec();
    sorted.sort_by(|a, b| a.throughput.total_cmp(&b.throughput));
    sorted.windows(2).find(|pair| (pair[0].throughput..=pair[1].throughput).contains(&throughput)).map(|pair| {
        let width = pair[1].throughput - pair[0].throughput;
        let part = if width > 0.0 { (throughput - pair[0].throughput) / width } else { 0.0 };
        let low = pair[0].latency.max(1.0).ln();
        let high = pair[1].latency.max(1.0).ln();
        (low + part * (high - low)).exp()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_added_until_throughput_no_longer_grows() {
        for (throughputs, more) in [
            (&[][..], true),
            (&[100.0], true),
            (&[100.0, 200.0], true),
            (&[100.0, 200.0, 201.0], true),
            (&[100.0, 200.0, 201.0, 190.0], false),
            // One that did not help, and another that did.
            (&[100.0, 200.0, 201.0, 250.0], true),
            (&[100.0, 101.0, 102.0], false),
        ] {
            assert_eq!(add_client(throughputs, 16), more, "{throughputs:?}");
        }
        assert!(!add_client(&[1.0, 2.0, 4.0], 3), "no more than allowed");
    }

    #[test]
    fn the_maximum_names_as_few_clients_as_reach_it() {
        assert_eq!(maximum(&[100.0, 200.0, 201.0, 190.0]), Some((2, 201.0)));
        assert_eq!(maximum(&[100.0]), Some((1, 100.0)));
        assert_eq!(maximum(&[]), None);
        assert_eq!(maximum(&[0.0, 0.0]), None);
    }

    #[test]
    fn steps_are_fine_near_the_maximum_and_halve_at_the_low_end() {
        let percent: Vec<f64> = shares().iter().map(|share| (share * 1_000.0).round() / 10.0).collect();
        assert_eq!(percent, [100.0, 99.0, 98.0, 97.0, 96.0, 95.0, 85.5, 77.0, 69.3, 34.6, 17.3, 8.7]);
    }

    fn places(figures: &[(f64, f64)]) -> Vec<CurvePoint> {
        figures.iter().map(|&(throughput, latency)| CurvePoint { throughput, latency }).collect()
    }

    #[test]
    fn the_knee_is_where_latency_takes_off() {
        // A queue with one server: service of 100 us, latency 100 / (1 - load).
        let queue: Vec<(f64, f64)> = [0.1, 0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999]
            .iter()
            .map(|load| (*load, 100.0 / (1.0 - load)))
            .collect();
        let found = knee(&places(&queue)).unwrap();
        assert!((0.7..=0.95).contains(&queue[found].0), "{:?}", queue[found]);
        // Flat, and then a wall; the order of the passes does not matter.
        assert_eq!(
            knee(&places(&[(100.0, 9e5), (95.0, 1_050.0), (80.0, 1_000.0), (40.0, 980.0), (10.0, 1_000.0)])),
            Some(1)
        );
    }

    #[test]
    fn a_straight_line_has_no_knee() {
        let line: Vec<(f64, f64)> = (1..=10).map(|step| (f64::from(step), f64::from(step).exp())).collect();
        assert_eq!(knee(&places(&line)), None);
        assert_eq!(knee(&places(&[(1.0, 5.0), (2.0, 5.0)])), None);
        assert_eq!(knee(&places(&[(1.0, 5.0)])), None);
        assert_eq!(knee(&[]), None);
    }

    #[test]
    fn latency_between_two_places() {
        let curve = places(&[(100.0, 10_000.0), (50.0, 100.0), (10.0, 100.0)]);
        assert!((latency_at(&curve, 75.0).unwrap() - 1_000.0).abs() < 1e-6);
        assert!((latency_at(&curve, 10.0).unwrap() - 100.0).abs() < 1e-9);
        assert_eq!(latency_at(&curve, 5.0), None);
        assert_eq!(latency_at(&curve, 101.0), None);
    }
}
