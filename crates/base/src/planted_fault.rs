//! Faults planted on purpose. Each breaks one promise of the server, and the simulator must find
//! it: a rule that has never reported anything may be unable to.
//!
//! The places are code: `planted!(NoRound)` is true while that fault is planted on this thread.
//! Builds without debug assertions, so release builds, have the constant `false` there, and nothing
//! else of it (docs/decisions/0110-planted-faults.md). Does not know what the places do with it.

/// Whether that fault of [`PlantedFault`](crate::planted_fault::PlantedFault) is planted.
#[cfg(debug_assertions)]
#[macro_export]
macro_rules! planted {
    ($fault:ident) => {
        $crate::planted_fault::is_planted($crate::planted_fault::PlantedFault::$fault)
    };
}

/// Whether that fault of [`PlantedFault`](crate::planted_fault::PlantedFault) is planted: never.
#[cfg(not(debug_assertions))]
#[macro_export]
macro_rules! planted {
    ($fault:ident) => {{
        const _: $crate::planted_fault::PlantedFault = $crate::planted_fault::PlantedFault::$fault;
        false
    }};
}

macro_rules! planted_faults {
    ($($fault:ident $breaks:literal,)*) => {
        /// What can be planted. docs/simulator.md has them with the seeds that find them.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum PlantedFault {
            $(#[doc = $breaks] $fault,)*
        }

        impl PlantedFault {
            pub const ALL: &[PlantedFault] = &[$(PlantedFault::$fault),*];

            /// What the server does wrong.
            pub fn breaks(self) -> &'static str {
                match self {
                    $(PlantedFault::$fault => $breaks,)*
                }
            }
        }
    };
}

planted_faults! {
    AnswerBeforeFsync "answers leave before the fsync",
    TornBlockAccepted "a torn block is accepted, its checksum wrong",
    FsyncRetried "a failed fsync is tried again",
    PartLost "a part of a multi-partition transaction is lost",
    TransactionLost "such a transaction is not written at all",
    SegmentNameNotDurable "the name of a new segment is not made durable",
    RotIsCut "rot is cut like a torn tail",
    RecoveredNotMarked "nothing says, after a start, that what was recovered is durable",
    ReadAtOnce "a read is answered at once",
    LogWritesOn "the log writes on after a failure",
    SchemaPublishedEarly "a schema change is published before it is durable",
    SchemaAnsweredEarly "a schema change is answered before it is durable",
    RestoreTableByTable "a restore fills each table by a transaction of its own",
    LoadsNotAsked "a restore does not look at the answers of its loads",
    StagingKept "staging tables are not dropped, neither after a failure nor at a start",
    UnknownIsFailed "a restore whose last step has an unknown outcome is reported as failed",
    BackupNamesNotDurable "names of a backup's files are not made durable before its manifest",
    EndNotRecorded "the log does not record its end when it is opened and closed",
    EndNotAsked "recovery does not ask how far the log reached",
    FilesNotChecked "the log does not check that its files are in their place",
    IdleEndNotRecorded "the log's thread does not record its end each second",
    ForeignSegmentTaken "a segment's database is not compared, nor that of `redo-begun`",
    OlderCopyTaken "the block that was known to be durable may be another one",

    // Of a cluster.
    NoRound "reads wait for no round",
    LeaseForEver "a lease never ends",
    LongLease "a lease holds for twice as long at the leader",
    OneRound "one other member's round is enough",
    SealInLease "a leader is replaced within its lease",
    TermForgetsLeases "a new leader of the voters forgets others' leases",
    ClockDrift "clocks differ by a fifth from the true rate",
    EarlyAcknowledgement "an entry is acknowledged before it is durable",
    OwnFsyncOnly "a leader counts its own fsync only",
    ReceivedIsCommitted "a copy takes all that came as committed",
    AddedMemberLeads "an added member counts like any other when leaders are elected",
    OldEpoch "messages of an old epoch are taken",
    FsyncCoversLater "an fsync covers what was appended after it began",
    LogNotIntact "a member without its log suffices to lead",
    CallersLeft "callers are not told that a leader is deposed: its partitions keep what the copy applies again",
    LogStopsShort "of two orders to read from the log the second is forgotten",
    LeadsAfterSeal "a seal is answered, and the leader continues",
    UndrainedHandOver "a hand-over waits for no call",
    HeldForEver "calls stay held after a hand-over",
    NotAppliedAgain "what a deposed leader took back is not applied again",
    CutBeforeRecord "a copy's cut forgets which log it needs",
    CutAheadOfLog "a copy's snapshot counts before its log has what it shows",
    LeaseInHandOver "a lease is used while a hand-over is undecided",
    GoneNotAwaited "a member that is gone is not waited for",
    AloneForEver "a leader of a dispensable group commits without a lease, and leads on",
    LateCommit "such a leader commits what is durable after its time",
    AcceptAtOnce "a loss is accepted as soon as the group is sealed",
    NotApplied "a hand-over does not ask what a copy has applied",
    LowestLeads "of equal copies the one of the lowest number leads, not the one that has applied",
    TimeOfEntries "a next leader counts on the times of entries only",
    TimeUnlimited "a leader shows its clock, whatever its members know",
    TimeTooEarly "`NOW` is half a second before what may be shown",
    NumbersOfEntries "numbers of transactions begin above those of entries only",
    UnableHanded "a leader hands over to a member that cannot run all procedures, though another can",
    UnableLeads "after a loss the longest stream leads, also on such a member",
    PauseOfLeader "only the node that leads at the pause refuses writes",
    LatePause "a resume is answered where the state shows no pause, and one is under way",
    VoteBeforeCommit "an agent votes before its part is committed",
    AnswerAfterOneVote "a lot is answered after the first of its votes",
    AbortAfterPrepare "a lot is aborted though all were asked to prepare",
    RefusedWithoutRecord "an agent says that there is no part, and nothing in the stream keeps it from preparing one",
    ForgottenEarly "outcomes are forgotten before all have settled",
    PreparedAfterRefusal "a part is prepared that was refused",
    LeadsInDoubt "a new leader takes calls before it knows how the lots ended that are in doubt",
    OldOrder "an agent obeys a sequencer that was replaced",
    GatesToldEarly "gates hear of a part that is prepared, before its lot is decided",
    PartLentEarly "the stores of a part take calls when it is prepared, before its lot is decided",
    FreshOfOne "a read of several groups is answered when the first group has confirmed it",
    ReleasedSeparately "each group of a lot that only reads is released as soon as it has run its part",
    AbortKeepsSequence "a part that was aborted keeps its sequence numbers",
    UndoForgotten "a part that is prepared can be undone no more",
    ChangeAdoptedEarly "stores go back with a schema change before its outcome is in the stream",
    EqualUnchecked "after an accepted loss, replicated tables are called equal without a comparison",
    ChangeKept "a schema change stays in the stores when its lot is aborted",
    PartAppliedAtOnce "copies and replay make the changes of a part when it is prepared",
    PartsNotInManifest "a snapshot does not have the parts that are in doubt",
    DeposesAll "a group that leads again makes the calls of other groups, which do not, run on",
    TruncatesOthers "the log is cut by the snapshots of one group, though another group needs more",
}

impl PlantedFault {
    /// As its place and commands name it.
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    pub fn from_name(name: &str) -> Option<PlantedFault> {
        PlantedFault::ALL.iter().copied().find(|fault| fault.name() == name)
    }
}

#[cfg(debug_assertions)]
pub use on_threads::{is_planted, plant_everywhere, with_planted};

/// The builds that have the places.
#[cfg(debug_assertions)]
mod on_threads {
    use super::PlantedFault;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering};

    thread_local! {
        static HERE: Cell<Option<PlantedFault>> = const { Cell::new(None) };
    }

    /// Its number, counted from 1; 0: none.
    static EVERYWHERE: AtomicUsize = AtomicUsize::new(0);

    /// Whether it is planted on this thread; [`planted!`](crate::planted) asks.
    pub fn is_planted(fault: PlantedFault) -> bool {
        HERE.get() == Some(fault) || EVERYWHERE.load(Ordering::Relaxed) == fault as usize + 1
    }

    /// Plants it on all threads of the process, until its end.
    pub fn plant_everywhere(fault: PlantedFault) {
        EVERYWHERE.store(fault as usize + 1, Ordering::Relaxed);
    }

    /// Runs `body` with the fault planted on this thread, and no other. A simulation runs on one
    /// thread, so that others beside it have none.
    pub fn with_planted<T>(fault: PlantedFault, body: impl FnOnce() -> T) -> T {
        struct Uproot(Option<PlantedFault>);
        impl Drop for Uproot {
            fn drop(&mut self) {
                HERE.set(self.0);
            }
        }
        let _before = Uproot(HERE.replace(Some(fault)));
        body()
    }
}

/// Other builds have nothing to run it with.
#[cfg(not(debug_assertions))]
pub fn with_planted<T>(fault: PlantedFault, _body: impl FnOnce() -> T) -> T {
    panic!("{fault:?} needs a build with debug assertions");
}

#[cfg(not(debug_assertions))]
const _: () = assert!(!planted!(NoRound), "the places are constants without debug assertions");

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_planted_on_one_thread_until_the_end_even_by_a_panic() {
        assert!(!planted!(NoRound));
        with_planted(PlantedFault::NoRound, || {
            assert!(planted!(NoRound) && !planted!(OneRound));
            std::thread::scope(|scope| scope.spawn(|| assert!(!planted!(NoRound))).join()).expect("no other thread");
            let inside = || with_planted(PlantedFault::OneRound, || std::panic::resume_unwind(Box::new(())));
            assert!(std::panic::catch_unwind(inside).is_err());
            assert!(planted!(NoRound) && !planted!(OneRound));
        });
        assert!(!planted!(NoRound));
    }

    #[test]
    fn names_are_those_of_the_places() {
        assert_eq!(PlantedFault::from_name("NoRound"), Some(PlantedFault::NoRound));
        assert_eq!(PlantedFault::from_name("no-round"), None);
    }
}
