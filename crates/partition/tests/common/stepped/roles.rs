//! What a database is in its group: a copy that is given entries, a leader, and from one to the
//! other.

use super::{Bytes, Database};
use crossbeam_channel::{Sender, unbounded};
use ferrite_base::{NodeId, Position, Sequence};
use ferrite_group::{Begin, FIRST_GROUP, Found, GroupAppender, GroupHost, GroupPlace, Replication};
use ferrite_io::Clock;
use ferrite_partition::applier::{Applier, CopyEvents, CopyStart, Intake};
use ferrite_partition::commit::{Completion, Parties};
use ferrite_partition::event::CommittedState;
use ferrite_partition::lots::LotLedger;
use ferrite_partition::schema::SchemaHistory;
use ferrite_partition::{Delivery, Event, GroupInboxes, OwnLog, Promoted, SteppedBack, SteppingBack};
use ferrite_replica::group::{GroupConfiguration, Member, Timing};
use std::sync::Arc;

impl Database {
    pub fn follow_empty(&mut self, inboxes: Vec<Sender<Event>>) {
        let leader = Member { node: NodeId(1), incarnation: ferrite_base::Incarnation(1) };
        let place = GroupPlace::before_the_first(ferrite_base::Epoch(0), leader);
        let sequences = vec![Sequence(0); self.partitions as usize];
        let compiled = self.current.lock().expect("no panic").clone();
        let lots = LotLedger::default();
        self.follow_from(
            place,
            sequences,
            CommittedState { compiled, history: SchemaHistory::default(), lots },
            inboxes,
        );
    }

    pub fn follow_from(
        &mut self,
        place: GroupPlace,
        sequences: Vec<Sequence>,
        state: CommittedState,
        inboxes: Vec<Sender<Event>>,
    ) {
        let CommittedState { compiled, history, lots } = state;
        let (current, fault) = (Arc::clone(&self.current), Arc::clone(&self.fault));
        let contents = self.contents_cut.0.clone();
        let events = CopyEvents {
            publish: Box::new(move |compiled| *current.lock().expect("no panic") = compiled),
            contents: Box::new(move |cut| contents.send(cut).expect("the test keeps it")),
            fault: Box::new(move |seen| {
                let before = fault.lock().expect("no panic").replace(seen.clone());
                assert!(before.is_none(), "a copy ends once");
            }),
        };
        let start = CopyStart { here: NodeId(1), place, sequences, compiled, history, lots };
        self.copying = Some(Applier::new(start, GroupInboxes::single(inboxes), events));
    }

    /// The copy reads there what it is not given, as if it were its own log.
    pub fn reads_log_of(&mut self, leader: &Database) {
        let (applier, intake) = self.copying.take().expect("it is a copy");
        let group = Arc::clone(leader.parties.lock().expect("no panic").group.group());
        self.copying = Some((applier.with_log(OwnLog::new(group, leader.log_index())), intake));
    }

    pub fn intake(&self) -> Intake {
        self.copying.as_ref().expect("it is a copy").1.clone()
    }

    pub fn applied(&self) -> Position {
        self.intake().applied()
    }

    /// Gives a copy entries, in arrivals of some, and lets the parties do some of their work in
    /// between. They go to its own log, too.
    pub fn feed(&mut self, entries: &[(Position, Bytes)]) {
        let mut rest = entries;
        while !rest.is_empty() {
            let count = (1 + self.random.below(8) as usize).min(rest.len());
            let (some, behind) = rest.split_at(count);
            rest = behind;
            let mut arrival = Vec::new();
            for (_, bytes) in some {
                let (tell, _) = unbounded();
                let completion = Completion { parties: Parties::Asking(tell), buffers: None };
                self.parties.lock().expect("no panic").group.append_own(bytes.clone(), completion);
                arrival.extend_from_slice(bytes);
            }
            self.intake().entries(arrival).expect("there is room for the test's few");
            for _ in 0..self.random.below(40) {
                self.step();
            }
        }
    }

    /// An applier that was asked to has ended with this; `group` has opened.
    pub fn lead(&mut self, promoted: Promoted, group: &GroupAppender<Completion>) {
        self.copying = None;
        promoted.lead(group, &self.inboxes, &self.jobs);
        self.parties.lock().expect("no panic").group = group.clone();
    }

    /// The leader was deposed.
    pub fn begin_to_step_back(&mut self) -> SteppingBack {
        SteppingBack::begin(&self.jobs, self.inboxes.len())
    }

    /// This node's member of a cluster's group, which goes on where the copy stands.
    pub fn in_a_cluster(
        &self,
        here: Member,
        clock: Arc<dyn Clock>,
        host: Arc<dyn GroupHost>,
    ) -> Arc<Replication<Completion>> {
        let parties = self.parties.lock().expect("no panic");
        let applied = parties.group.place();
        let (history, end) = (applied.history.clone(), applied.end);
        let found = Found { applied, history, end, uncommitted: Vec::new() };
        let begin = Begin {
            id: FIRST_GROUP,
            here,
            promised: end.epoch,
            intact: true,
            timing: Timing::DEFAULT,
            snapshots: false,
            message_bytes_max: usize::MAX,
            window_bytes_max: usize::MAX,
        };
        Replication::of_cluster(begin, found, parties.log.appender(), clock, host)
    }

    /// Makes a copy the leader, of an epoch of its own, when everything it was given is applied.
    pub fn promote(&mut self) {
        let (to, promoted) = unbounded();
        self.intake().send(Delivery::Promote(to));
        self.settle();
        let promoted: Promoted = promoted.try_recv().expect("nothing is in the way");
        self.copying = None;
        let (group, told) = {
            let parties = self.parties.lock().expect("no panic");
            let place = promoted.place.clone();
            let epoch = ferrite_base::Epoch(place.end.epoch.0 + 1);
            let leader = place.configuration.leader;
            let group =
                GroupAppender::alone(FIRST_GROUP, leader, place, parties.log.appender(), Arc::clone(&self.clock));
            let (tell, told) = unbounded();
            let completion = Completion { parties: Parties::Asking(tell), buffers: None };
            group.start_epoch(GroupConfiguration::alone(epoch, leader), completion);
            (group, told)
        };
        self.settle();
        told.try_recv().expect("the log completes it").expect("a healthy log");
        promoted.lead(&group, &self.inboxes, &self.jobs);
        self.parties.lock().expect("no panic").group = group;
        self.settle();
    }

    /// Makes a leader at rest a copy.
    pub fn step_down(&mut self) {
        self.settle();
        let mut stepping = SteppingBack::begin(&self.jobs, self.inboxes.len());
        self.settle();
        let SteppedBack { sequences, compiled, history, lots } = stepping.try_end().expect("nothing is in the way");
        let place = self.parties.lock().expect("no panic").group.place();
        let inboxes = self.inboxes.clone();
        self.follow_from(place, sequences, CommittedState { compiled, history, lots }, inboxes);
    }
}
