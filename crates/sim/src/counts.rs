//! What a seed came to, and how much it has tried.

use crate::invariants::Violation;

/// What a seed came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeedReport {
    pub seed: u64,
    pub trace: u64,
    pub counts: Counts,
    pub violation: Option<Violation>,
}

/// How much a seed has tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub operations: u64,
    pub acknowledged: u64,
    pub unknown: u64,
    pub recoveries: u64,
    pub power_losses: u64,
    pub crashes_in_recovery: u64,
    pub failures: u64,
    pub rot: u64,
    pub rot_refused: u64,
    /// Segments of the log removed, and noticed to be missing.
    pub removed: u64,
    pub missed: u64,
    /// Logs cut short, overwritten at their end, or brought from elsewhere; and refused.
    pub shortened: u64,
    pub shortened_refused: u64,
    /// Logs that were removed while they were written.
    pub swept_away: u64,
    pub schema_changes: u64,
    pub snapshots: u64,
    pub restored: u64,
    pub restores_failed: u64,
    /// Restores whose last step had an unknown outcome when they ended.
    pub restores_unknown: u64,
    /// Restores in whose middle the node ended.
    pub restores_cut_short: u64,
    /// Backups of the simulated database that were restored into another.
    pub backups_restored: u64,
    /// Planted panics after which a call was rolled back, and those that ended the process.
    pub faults_undone: u64,
    pub faults_final: u64,
    /// Lives with durability memory that ended without their last snapshot, and those of them that
    /// ended while one was written.
    pub ended_unsaved: u64,
    pub ended_saving: u64,
    /// Newest snapshots whose manifest was removed, and noticed to be missing.
    pub manifests_removed: u64,
    pub manifests_missed: u64,
    /// Starts with durability memory after a life with another, and the reverse.
    pub to_memory: u64,
    pub from_memory: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.operations += other.operations;
        self.acknowledged += other.acknowledged;
        self.unknown += other.unknown;
        self.recoveries += other.recoveries;
        self.power_losses += other.power_losses;
        self.crashes_in_recovery += other.crashes_in_recovery;
        self.failures += other.failures;
        self.rot += other.rot;
        self.rot_refused += other.rot_refused;
        self.removed += other.removed;
        self.missed += other.missed;
        self.shortened += other.shortened;
        self.shortened_refused += other.shortened_refused;
        self.swept_away += other.swept_away;
        self.schema_changes += other.schema_changes;
        self.snapshots += other.snapshots;
        self.restored += other.restored;
        self.restores_failed += other.restores_failed;
        self.restores_unknown += other.restores_unknown;
        self.restores_cut_short += other.restores_cut_short;
        self.backups_restored += other.backups_restored;
        self.faults_undone += other.faults_undone;
        self.faults_final += other.faults_final;
        self.ended_unsaved += other.ended_unsaved;
        self.ended_saving += other.ended_saving;
        self.manifests_removed += other.manifests_removed;
        self.manifests_missed += other.manifests_missed;
        self.to_memory += other.to_memory;
        self.from_memory += other.from_memory;
    }
}
