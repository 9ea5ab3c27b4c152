//! How much of a table one lot replaces. It holds the partitions of all groups meanwhile, and how
//! long a row takes depends on the table's indexes and views.
//!
//! Each lot scans the table, so small pieces make many scans: a lot may take as long for the rows
//! as for the scan. So, once lots have grown, all of them together take about three times as long
//! as with one scan.

/// A lot may take this long for the rows, however short the scan is.
const AIM_NANOS: u64 = 250_000_000;
/// In the first lot: about 256 KiB.
const BUCKETS_AT_FIRST: usize = 16;
const BUCKETS_MAX: usize = 1 << 16;
/// The next lot has no less than this part of the last one.
const SHRINKS_TO_MIN: usize = 4;

pub struct EqualizingPace {
    /// How many the next lot replaces.
    buckets: usize,
    /// When the last lot was asked for.
    begun: u64,
    /// How long it took to read what is to be replaced.
    read: u64,
}

impl EqualizingPace {
    pub fn new() -> EqualizingPace {
        EqualizingPace { buckets: BUCKETS_AT_FIRST, begun: 0, read: 0 }
    }

    pub fn buckets(&self) -> usize {
        self.buckets
    }

    pub fn begin(&mut self, now: u64) {
        self.begun = now;
    }

    pub fn end_read(&mut self, now: u64) {
        self.read = now.saturating_sub(self.begun);
    }

    /// `buckets`: how many were replaced. The time includes what the lot has waited before it
    /// began, so one measurement does not change much.
    pub fn end_replace(&mut self, buckets: usize, now: u64) {
        let for_rows = now.saturating_sub(self.begun).saturating_sub(self.read);
        let allowed = self.read.max(AIM_NANOS);
        if for_rows > allowed {
            let fewer = (buckets as u128 * u128::from(allowed) / u128::from(for_rows)) as usize;
            self.buckets = fewer.max(self.buckets / SHRINKS_TO_MIN).max(1);
        } else if buckets >= self.buckets {
            self.buckets = (self.buckets * 2).min(BUCKETS_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    /// The buckets of lot after lot, and the longest lot, where a scan and a bucket take so long.
    fn lots(scan: u64, bucket: u64, mut left: usize) -> (Vec<usize>, u64) {
        let mut pace = EqualizingPace::new();
        let mut all = Vec::new();
        let mut longest = 0;
        while left > 0 {
            let buckets = pace.buckets().min(left);
            pace.begin(0);
            pace.end_read(scan * MILLI);
            pace.begin(0);
            let took = (scan + bucket * buckets as u64) * MILLI;
            pace.end_replace(buckets, took);
            longest = longest.max(took / MILLI);
            all.push(buckets);
            left -= buckets;
        }
        (all, longest)
    }

    #[test]
    fn lots_grow_while_they_are_short_and_shrink_where_rows_are_slow() {
        let (all, longest) = lots(10, 0, 1_000);
        assert_eq!(all, [16, 32, 64, 128, 256, 504]);
        assert_eq!(longest, 10);
        let (all, longest) = lots(10, 80, 100);
        assert_eq!(all[..3], [16, 4, 3], "{all:?}");
        assert!(all[1..].iter().all(|buckets| *buckets <= 6) && longest < 1_500, "{all:?}");
    }

    #[test]
    fn small_pieces_do_not_make_a_scan_for_each_bucket() {
        let (all, longest) = lots(1_000, 50, 500);
        let in_all = all.len() as u64 * 2 * 1_000 + 500 * 50;
        assert!(in_all < 3 * 500 * 50, "{in_all} ms: {all:?}");
        assert!(longest <= 3_000, "{longest} ms");
    }
}
