//! A seed with a planted fault: which rule finds it.
//!
//! The places of the faults are in the server's code, where it was built with debug assertions
//! (`ferrite_base::planted_fault`).

use crate::invariants::Violation;
use crate::{cluster, run};
use ferrite_base::planted_fault::PlantedFault::{self, *};
use ferrite_base::planted_fault::with_planted;

/// Which simulator is to find a fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Simulator {
    Node,
    Cluster,
    /// Clusters of several groups.
    Groups,
    /// The same with snapshots of each group.
    Snapshots,
    /// The same with messages about lots that take seconds.
    Stalls,
    /// The same with accepted losses of one group.
    Losses,
}

/// What the seed violates with the fault.
pub fn run_planted(fault: PlantedFault, seed: u64, show: bool) -> Option<Violation> {
    with_planted(fault, || run_seed(must_find(fault).0, seed, show))
}

/// What the seed violates in that simulator.
pub fn run_seed(simulator: Simulator, seed: u64, show: bool) -> Option<Violation> {
    match simulator {
        Simulator::Node => run(seed, show).violation,
        Simulator::Cluster => cluster::run(seed, show).violation,
        Simulator::Groups => cluster::run_with_groups(seed, show).violation,
        Simulator::Snapshots => cluster::run_with_snapshots(seed, show).violation,
        Simulator::Stalls => cluster::run_with_stalls(seed, show).violation,
        Simulator::Losses => cluster::run_with_losses(seed, show).violation,
    }
}

const FRESH: &str = "no read is older than what was acknowledged";
const CYCLES: &str = "one order explains what clients saw";
const TIME: &str = "time does not go back";
const COMMITTED: &str = "a committed entry never changes";
const ACKNOWLEDGED: &str = "what was acknowledged is there";
const SCHEMA: &str = "the schema is one that was made";
const HANDED_OVER: &str = "a hand-over fails no call";
const EQUAL_COPIES: &str = "copies at one position are equal";
const EQUAL_TABLES: &str = "copies of replicated tables are equal";
const MADE_ANEW: &str = "no copy is made anew for nothing";
const OPENED: &str = "a healthy disk can be opened";
const ASSERTED: &str = "nothing panics";
const RESTS: &str = "without faults all comes to rest";
const ACCEPTED: &str = "a leader whose loss was accepted acknowledges nothing";
const ABLE: &str = "a member that runs all procedures leads";
const ROT: &str = "rot is never passed over in silence";
const SHORTENED: &str = "a shortened log is never passed over in silence";
const BACKED_UP: &str = "a backup that is whole can be restored, wholly or not at all";
const RESTORED: &str = "a restore is there wholly or not at all";

/// Each fault, in the order in which they are declared, with what must find it.
const MUST_FIND: [(PlantedFault, Simulator, &[&str]); PlantedFault::ALL.len()] = [
    (AnswerBeforeFsync, Simulator::Node, &[SCHEMA, ACKNOWLEDGED]),
    (TornBlockAccepted, Simulator::Node, &[ROT, OPENED]),
    (FsyncRetried, Simulator::Node, &[OPENED]),
    (PartLost, Simulator::Node, &[OPENED]),
    (TransactionLost, Simulator::Node, &[OPENED]),
    (SegmentNameNotDurable, Simulator::Node, &[OPENED]),
    (RotIsCut, Simulator::Node, &[ROT, SHORTENED]),
    (RecoveredNotMarked, Simulator::Node, &[ROT, SHORTENED]),
    (ReadAtOnce, Simulator::Node, &["what was read is durable, and was so"]),
    (LogWritesOn, Simulator::Node, &[OPENED, ASSERTED]),
    (SchemaPublishedEarly, Simulator::Node, &[SCHEMA]),
    (SchemaAnsweredEarly, Simulator::Node, &[SCHEMA]),
    (RestoreTableByTable, Simulator::Node, &[RESTORED]),
    (LoadsNotAsked, Simulator::Node, &[RESTORED]),
    (StagingKept, Simulator::Node, &["nothing is left of a restore"]),
    (UnknownIsFailed, Simulator::Node, &["what was told of a restore is so", BACKED_UP]),
    (BackupNamesNotDurable, Simulator::Node, &["a backup that has a manifest is whole, whenever the power goes"]),
    (EndNotRecorded, Simulator::Node, &[SHORTENED]),
    (EndNotAsked, Simulator::Node, &[SHORTENED]),
    (FilesNotChecked, Simulator::Node, &[ACKNOWLEDGED, SCHEMA]),
    (IdleEndNotRecorded, Simulator::Node, &[]),
    (ForeignSegmentTaken, Simulator::Node, &[]),
    (OlderCopyTaken, Simulator::Node, &[]),
    (NoRound, Simulator::Cluster, &[FRESH, TIME]),
    (LeaseForEver, Simulator::Cluster, &[FRESH]),
    (LongLease, Simulator::Cluster, &[FRESH, TIME]),
    (OneRound, Simulator::Cluster, &[FRESH]),
    (SealInLease, Simulator::Cluster, &[FRESH, HANDED_OVER]),
    (TermForgetsLeases, Simulator::Cluster, &[HANDED_OVER]),
    (ClockDrift, Simulator::Cluster, &[FRESH, TIME]),
    (EarlyAcknowledgement, Simulator::Cluster, &[ACKNOWLEDGED, COMMITTED]),
    (OwnFsyncOnly, Simulator::Cluster, &[COMMITTED, MADE_ANEW]),
    (ReceivedIsCommitted, Simulator::Cluster, &[COMMITTED]),
    (AddedMemberLeads, Simulator::Cluster, &[COMMITTED, SCHEMA, MADE_ANEW]),
    (OldEpoch, Simulator::Cluster, &[ASSERTED]),
    (FsyncCoversLater, Simulator::Cluster, &[MADE_ANEW, ASSERTED]),
    (LogNotIntact, Simulator::Cluster, &[ACKNOWLEDGED, COMMITTED]),
    (CallersLeft, Simulator::Cluster, &[MADE_ANEW]),
    (LogStopsShort, Simulator::Cluster, &["one leader acknowledges in each epoch"]),
    (LeadsAfterSeal, Simulator::Cluster, &[ASSERTED]),
    (UndrainedHandOver, Simulator::Cluster, &[HANDED_OVER]),
    (HeldForEver, Simulator::Cluster, &[RESTS]),
    (NotAppliedAgain, Simulator::Cluster, &[MADE_ANEW]),
    (CutBeforeRecord, Simulator::Cluster, &[OPENED]),
    (CutAheadOfLog, Simulator::Cluster, &[OPENED]),
    (LeaseInHandOver, Simulator::Cluster, &[FRESH]),
    (GoneNotAwaited, Simulator::Cluster, &[ACKNOWLEDGED]),
    (AloneForEver, Simulator::Cluster, &[ACCEPTED]),
    (LateCommit, Simulator::Cluster, &[ACCEPTED]),
    (AcceptAtOnce, Simulator::Cluster, &[]),
    (NotApplied, Simulator::Cluster, &["a copy leads when it has applied"]),
    (LowestLeads, Simulator::Cluster, &["of equal copies the one leads that has applied"]),
    (TimeOfEntries, Simulator::Cluster, &[TIME]),
    (TimeUnlimited, Simulator::Cluster, &[TIME]),
    (TimeTooEarly, Simulator::Cluster, &["rows are what the operations made"]),
    (NumbersOfEntries, Simulator::Cluster, &[]),
    (UnableHanded, Simulator::Cluster, &[ABLE]),
    (UnableLeads, Simulator::Cluster, &[ABLE]),
    (PauseOfLeader, Simulator::Cluster, &["no write is executed while the database is paused"]),
    (LatePause, Simulator::Cluster, &[]),
    (VoteBeforeCommit, Simulator::Groups, &[ACKNOWLEDGED]),
    (AnswerAfterOneVote, Simulator::Groups, &[ASSERTED]),
    (AbortAfterPrepare, Simulator::Groups, &["what failed or was refused is not there"]),
    (RefusedWithoutRecord, Simulator::Stalls, &[ACKNOWLEDGED]),
    (ForgottenEarly, Simulator::Groups, &[ASSERTED, RESTS]),
    (PreparedAfterRefusal, Simulator::Stalls, &[ASSERTED]),
    (LeadsInDoubt, Simulator::Groups, &[EQUAL_COPIES, MADE_ANEW]),
    (OldOrder, Simulator::Stalls, &[]),
    (GatesToldEarly, Simulator::Groups, &[MADE_ANEW, ASSERTED, ACKNOWLEDGED]),
    (PartLentEarly, Simulator::Groups, &[MADE_ANEW]),
    (FreshOfOne, Simulator::Groups, &[CYCLES, "what was read is durable, and was so"]),
    (ReleasedSeparately, Simulator::Groups, &[CYCLES]),
    (AbortKeepsSequence, Simulator::Groups, &[OPENED, MADE_ANEW]),
    (UndoForgotten, Simulator::Groups, &[ASSERTED]),
    (ChangeAdoptedEarly, Simulator::Groups, &[MADE_ANEW]),
    (EqualUnchecked, Simulator::Losses, &[EQUAL_TABLES]),
    (ChangeKept, Simulator::Groups, &[EQUAL_COPIES]),
    (PartAppliedAtOnce, Simulator::Groups, &[OPENED, MADE_ANEW, ASSERTED]),
    (PartsNotInManifest, Simulator::Snapshots, &[OPENED, MADE_ANEW]),
    (DeposesAll, Simulator::Groups, &[]),
    (TruncatesOthers, Simulator::Snapshots, &[OPENED, MADE_ANEW, "what a snapshot needs is in the log"]),
];

/// Which simulator must find the fault, and by which rules. None: it cannot show there, and
/// docs/simulator.md names the tests that find it.
pub fn must_find(fault: PlantedFault) -> (Simulator, &'static [&'static str]) {
    let (_, simulator, rules) = MUST_FIND[fault as usize];
    (simulator, rules)
}

const _: () = {
    let mut number = 0;
    while number < MUST_FIND.len() {
        assert!(MUST_FIND[number].0 as usize == number, "the table has the faults in the order of their declaration");
        number += 1;
    }
};
