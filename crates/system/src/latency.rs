//! Latencies as a network thread sees them, from handing calls over to having their answers, in the
//! buckets that monitoring tools read.
//!
//! The layout is that of HdrHistogram for values from one microsecond to an hour with three digits:
//! tools decode it by that library's rules. All calls of a batch have the same latency, so counting
//! costs one step per batch.

/// Highest value that is told apart, in microseconds; longer ones count as this.
const HIGHEST_MICROS: u64 = 3_600_000_000;
const SIGNIFICANT_DIGITS: u32 = 3;
/// Values below this have a bucket each; above, the width doubles with each power of two.
const EXACT_BELOW: u64 = 2048;
const EXACT_BITS: u32 = EXACT_BELOW.ilog2();
const HALF: usize = EXACT_BELOW as usize / 2;
/// One bucket group for each doubling until the highest value fits.
const DOUBLINGS: usize = 22;
const BUCKETS: usize = (DOUBLINGS + 1) * HALF;
const _: () =
    assert!(EXACT_BELOW << (DOUBLINGS - 1) > HIGHEST_MICROS && EXACT_BELOW << (DOUBLINGS - 2) <= HIGHEST_MICROS);

#[derive(Clone, Debug)]
pub struct Latencies {
    buckets: Vec<u64>,
    count: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies { buckets: vec![0; BUCKETS], count: 0 }
    }
}

impl Latencies {
    #[inline]
    pub fn record(&mut self, micros: u64, calls: u64) {
        self.buckets[bucket_of(micros.clamp(1, HIGHEST_MICROS))] += calls;
        self.count += calls;
    }

    pub fn merge(&mut self, other: &Latencies) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(mine, others)| *mine += others);
        self.count += other.count;
    }

    /// What was recorded since `earlier`.
    pub fn since(&self, earlier: &Latencies) -> Latencies {
        let buckets = self.buckets.iter().zip(&earlier.buckets).map(|(now, then)| now - then).collect();
        Latencies { buckets, count: self.count - earlier.count }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// The latency, in microseconds, that this part (0 to 1) of all calls did not exceed; 0 when
    /// there were none.
    pub fn quantile(&self, part: f64) -> u64 {
        let rank = ((self.count as f64 * part).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return highest_of(bucket);
            }
        }
        0
    }

    /// As tools read it, all numbers little-endian: lowest and highest value, digits, count, then
    /// every bucket.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(28 + 8 * BUCKETS);
        bytes.extend_from_slice(&1u64.to_le_bytes());
        bytes.extend_from_slice(&HIGHEST_MICROS.to_le_bytes());
        bytes.extend_from_slice(&SIGNIFICANT_DIGITS.to_le_bytes());
        bytes.extend_from_slice(&self.count.to_le_bytes());
        self.buckets.iter().for_each(|count| bytes.extend_from_slice(&count.to_le_bytes()));
        bytes
    }

    /// [`Latencies::to_bytes`] in the Snappy block format.
    pub fn to_compressed_bytes(&self) -> Vec<u8> {
        compress(&self.to_bytes())
    }
}

fn bucket_of(micros: u64) -> usize {
    let doubling = 64 - (micros | (EXACT_BELOW - 1)).leading_zeros() - EXACT_BITS;
    let within = (micros >> doubling) as usize;
    // The first group has both halves; of each further one only the upper half is new.
    (doubling as usize + 1) * HALF + within - HALF
}

/// The highest value that falls into a bucket.
fn highest_of(bucket: usize) -> u64 {
    if bucket < EXACT_BELOW as usize {
        return bucket as u64;
    }
    let doubling = bucket / HALF - 1;
    let within = (bucket % HALF + HALF) as u64;
    ((within + 1) << doubling) - 1
}

/// Snappy's block format. Runs of one byte become copies, all else stays as it is: counts are
/// mostly zeros.
fn compress(bytes: &[u8]) -> Vec<u8> {
    const COPY_LENGTH_MAX: usize = 64;
    const LITERAL_LENGTH_MAX: usize = 60;
    let mut out = Vec::new();
    let mut rest = bytes.len();
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
    let mut start = 0;
    let literal = |out: &mut Vec<u8>, bytes: &[u8]| {
        for part in bytes.chunks(LITERAL_LENGTH_MAX) {
            out.push(((part.len() - 1) << 2) as u8);
            out.extend_from_slice(part);
        }
    };
    let mut at = 1;
    while at < bytes.len() {
        let run = bytes[at..].iter().take_while(|byte| **byte == bytes[at - 1]).count();
        if run < 4 {
            at += run.max(1);
            continue;
        }
        literal(&mut out, &bytes[start..at]);
        let mut left = run;
        while left > 0 {
            let length = left.min(COPY_LENGTH_MAX);
            // A copy with a two-byte offset, of one byte back: it repeats that byte.
            out.extend_from_slice(&[((length - 1) << 2) as u8 | 2, 1, 0]);
            left -= length;
        }
        at += run;
        start = at;
        at += 1;
    }
    literal(&mut out, &bytes[start.min(bytes.len())..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decompress(mut bytes: &[u8]) -> Vec<u8> {
        let mut length = 0usize;
        for shift in (0..).step_by(7) {
            length |= usize::from(bytes[0] & 0x7f) << shift;
            let last = bytes[0] < 0x80;
            bytes = &bytes[1..];
            if last {
                break;
            }
        }
        let mut out: Vec<u8> = Vec::new();
        while let Some(tag) = bytes.first() {
            let count = usize::from(tag >> 2) + 1;
            if tag & 3 == 0 {
                out.extend_from_slice(&bytes[1..=count]);
                bytes = &bytes[1 + count..];
            } else {
                assert_eq!(&bytes[1..3], [1, 0]);
                out.resize(out.len() + count, *out.last().unwrap());
                bytes = &bytes[3..];
            }
        }
        assert_eq!(out.len(), length);
        out
    }

    #[test]
    fn each_value_falls_into_a_bucket_that_is_right_to_three_digits() {
        let values = (0..5000).chain((0..60).map(|power| (1u64 << power).saturating_sub(power)));
        for value in values.map(|value: u64| value.clamp(1, HIGHEST_MICROS)) {
            let highest = highest_of(bucket_of(value));
            assert!(highest >= value && highest - value <= value / 1000, "{value} {highest}");
        }
        assert_eq!(bucket_of(HIGHEST_MICROS).min(BUCKETS - 1), bucket_of(HIGHEST_MICROS));
    }

    #[test]
    fn quantiles_and_differences() {
        let mut all = Latencies::default();
        assert_eq!(all.quantile(0.5), 0);
        all.record(100, 98);
        let before = all.clone();
        all.record(1000, 1);
        all.record(u64::MAX, 1);
        assert_eq!((all.count(), all.quantile(0.5), all.quantile(0.99)), (100, 100, 1000));
        assert!(all.quantile(1.0) >= HIGHEST_MICROS);
        let later = all.since(&before);
        assert_eq!((later.count(), later.quantile(0.0)), (2, 1000));
        let mut sum = Latencies::default();
        sum.merge(&before);
        sum.merge(&later);
        assert_eq!(sum.to_bytes(), all.to_bytes());
    }

    #[test]
    fn bytes_are_laid_out_as_tools_expect() {
        let mut all = Latencies::default();
        all.record(7, 3);
        let bytes = all.to_bytes();
        // As an original server begins its own, but for the count.
        let begin = [1, 0, 0, 0, 0, 0, 0, 0, 0, 164, 147, 214, 0, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(bytes[..28], begin);
        assert_eq!(bytes.len(), 188_444);
        assert_eq!(bytes[28 + 7 * 8], 3);
        let compressed = all.to_compressed_bytes();
        assert!(compressed.len() < 10_000);
        assert_eq!(compressed[..3], [156, 192, 11]);
        assert_eq!(decompress(&compressed), bytes);
        for sample in [&b""[..], b"a", b"aaaa", b"aaaaa", b"abcabcabc", b"abbbbbbbbc"] {
            assert_eq!(decompress(&compress(sample)), sample);
        }
    }
}
