//! The workloads for systems that do not speak our protocol: the same calls, from the same
//! generators, and the same checks.

use ferrite_bench::area_codes::area_codes;
use ferrite_bench::generator::LoadOutcome;
use ferrite_bench::kv;
use ferrite_bench::options::{KvOptions, VoteProcedure, WorkloadKind};
use ferrite_bench::random::FastRandom;
use ferrite_bench::voter::CONTESTANT_NAMES;
use ferrite_bench::voter_load::VoterLoad;
use ferrite_bench::workloads::{CONTESTANTS, VOTES_MAX};

/// What a call was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobNote {
    Vote,
    Read,
    Write,
}

/// A workload that makes calls and counts answers.
pub struct Job {
    kind: WorkloadKind,
    votes: VoterLoad,
    values: kv::Shape,
    random: FastRandom,
    key: Vec<u8>,
    pub tally: JobTally,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobTally {
    pub accepted: u64,
    pub rejected: u64,
    pub hits: u64,
    pub misses: u64,
    pub writes: u64,
    pub wrong: u64,
    pub first_failure: Option<String>,
}

impl Job {
    pub fn new(kind: WorkloadKind, seed: u64, values: &KvOptions) -> Job {
        Job {
            kind,
            votes: VoterLoad::new(VoteProcedure::Psm, CONTESTANTS, VOTES_MAX, seed),
            values: kv::Shape::new(values),
            random: FastRandom::new(seed),
            key: Vec::new(),
            tally: JobTally::default(),
        }
    }

    pub fn votes(&self) -> bool {
        self.kind == WorkloadKind::Voter
    }

    pub fn contestants(&self) -> impl Iterator<Item = (u16, &'static str)> {
        (1..=CONTESTANTS).zip(CONTESTANT_NAMES.split(','))
    }

    /// Area codes and their states.
    pub fn areas(&self) -> Vec<(u16, String)> {
        area_codes().iter().map(|area| (area.code, area.state_name().to_string())).collect()
    }

    pub fn keys(&self) -> u32 {
        self.values.pool_size
    }

    /// Phone, contestant, votes allowed.
    #[inline]
    pub fn next_vote(&mut self) -> (i64, i32, i64) {
        let (_, phone, contestant) = self.votes.next_vote();
        (phone, i32::from(contestant), i64::from(VOTES_MAX))
    }

    /// Whether to read or to write, and which key.
    #[inline]
    pub fn next_key(&mut self) -> (JobNote, u32) {
        let key = self.random.below(self.values.pool_size);
        let read = self.random.next_u64() >> 32 < self.values.reads;
        (if read { JobNote::Read } else { JobNote::Write }, key)
    }

    /// Hands over a key, and a value for it.
    #[inline]
    pub fn with_pair<R>(&mut self, key: u32, act: impl FnOnce(&[u8], &[u8]) -> R) -> R {
        let key = self.values.write_key(&mut self.key, key);
        act(key.as_bytes(), self.values.value(&mut self.random))
    }

    /// What a vote was answered with.
    pub fn voted(&mut self, answer: i64) -> LoadOutcome {
        match answer {
            0 => self.tally.accepted += 1,
            1 | 2 => self.tally.rejected += 1,
            _ => return self.failed(|| format!("a vote was answered with {answer}")),
        }
        LoadOutcome::Succeeded { payload_bytes: 0 }
    }

    /// A value of this many bytes was read.
    pub fn was_read(&mut self, bytes: usize) -> LoadOutcome {
        if !self.values.value_bytes.contains(&bytes) {
            return self.failed(|| format!("a value of {bytes} bytes was read"));
        }
        self.tally.hits += 1;
        LoadOutcome::Succeeded { payload_bytes: bytes as u64 }
    }

    pub fn was_written(&mut self) -> LoadOutcome {
        self.tally.writes += 1;
        LoadOutcome::Succeeded { payload_bytes: *self.values.value_bytes.end() as u64 }
    }

    #[cold]
    pub fn failed(&mut self, why: impl FnOnce() -> String) -> LoadOutcome {
        self.tally.wrong += 1;
        if self.tally.first_failure.is_none() {
            self.tally.first_failure = Some(why());
        }
        LoadOutcome::Failed
    }

    /// In what `count`, the votes or keys that are there, differs from what was answered.
    pub fn findings(&self, count: i64) -> Vec<String> {
        let mut findings = Vec::new();
        let (expected, what) = match self.votes() {
            true => (self.tally.accepted, "votes"),
            false => (u64::from(self.keys()), "keys"),
        };
        if u64::try_from(count) != Ok(expected) {
            findings.push(format!("{count} {what} are there, {expected} should be"));
        }
        if self.tally.wrong > 0 {
            let first = self.tally.first_failure.as_deref().unwrap_or("unknown");
            findings.push(format!("{} calls failed or were answered wrongly; the first: {first}", self.tally.wrong));
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_bench::workloads::kv_options;

    fn job_of(kind: WorkloadKind) -> Job {
        Job::new(kind, 7, &kv_options(kind, 7))
    }

    #[test]
    fn calls_are_those_of_the_workload() {
        let mut job = job_of(WorkloadKind::Kv);
        let reads = (0..10_000).filter(|_| job.next_key().0 == JobNote::Read).count();
        assert!((8_800..9_200).contains(&reads), "{reads}");
        assert!(job_of(WorkloadKind::Read).next_key().0 == JobNote::Read);
        assert!(job_of(WorkloadKind::Write).next_key().0 == JobNote::Write);
        job.with_pair(12, |key, value| {
            assert_eq!((key.len(), value.len()), (32, 1024));
            assert!(key.starts_with(b"K  ") && key.ends_with(b" 12"));
        });
        let mut job = job_of(WorkloadKind::Voter);
        assert!((0..1_000).map(|_| job.next_vote()).all(|(phone, _, limit)| phone > 2_000_000_000 && limit == 2));
        assert_eq!((job.contestants().count(), job.areas().len()), (6, 305));
    }

    #[test]
    fn what_is_wrong_is_found() {
        let mut job = job_of(WorkloadKind::Voter);
        assert!((0..3).all(|answer| job.voted(answer) == LoadOutcome::Succeeded { payload_bytes: 0 }));
        assert_eq!(job.findings(1), [""; 0]);
        assert_eq!(job.findings(2).len(), 1);
        job.voted(9);
        assert!(job.findings(1)[0].contains("answered with 9"));
        let mut job = job_of(WorkloadKind::Read);
        assert_eq!(job.was_read(1024), LoadOutcome::Succeeded { payload_bytes: 1024 });
        assert_eq!(job.findings(100_000), [""; 0]);
        assert_eq!(job.was_read(3), LoadOutcome::Failed);
        assert_eq!(job.findings(100_000).len(), 1);
    }
}
