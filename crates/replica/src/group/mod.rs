//! One replica group as one node sees it: a pure state machine (docs/replication.md).
//!
//! ```text
//! configured, appended, written, received, sealed, promised, tick  ->  effects
//! ```
//!
//! Owns what this node knows of the group's stream, its role, and the commit position. Promises the
//! invariants of docs/replication.md, section 7, in whatever order messages come, even twice or
//! never. Does not know what entries say, nor sockets, disks or clocks: the caller tells it the
//! time and carries out the effects, in order.

mod configuration;
mod entry;
mod follower;
mod hand_over;
mod history;
mod leader;
mod membership;
mod message;
mod progress;
mod stream;

pub use configuration::{GroupConfiguration, Member, Sealed, decide, suffices};
pub use entry::{Header, Mark};
pub use hand_over::{Among, CannotHandOver, Successor};
pub use history::History;
pub use message::{Effect, Envelope, Message, Proposal, Remembered, Said, Timing};

use ferrite_base::{Epoch, GroupId, NodeId, Position, planted};
use leader::Leading;
use std::collections::BTreeSet;
use stream::Stream;

#[derive(Debug)]
pub struct Group {
    id: GroupId,
    here: Member,
    timing: Timing,
    /// Durable: nothing is acknowledged at a lower epoch.
    promised: Epoch,
    /// The newest that is known.
    configuration: Option<GroupConfiguration>,
    stream: Stream,
    /// The log has everything that was acknowledged here.
    intact: bool,
    commit: Position,
    role: Role,
    /// A seal that is not answered yet.
    sealing: Option<Sealing>,
    /// A node that follows and has nothing of the stream gets a snapshot, not the stream's first
    /// entries.
    snapshots: bool,
    lead: Lead,
    /// This node's tables show everything up to there, as last reported.
    applied: Position,
    /// Nodes whose processes end: none of them is to lead next.
    ending: BTreeSet<NodeId>,
    /// This node can run all procedures of the database, as last reported.
    able: bool,
    effects: Vec<Effect>,
}

/// Whether this node may lead on while it hears nothing (docs/replication.md, section 8).
#[derive(Clone, Copy, Debug)]
struct Lead {
    /// The voters can decide without any of the members: that the loss of what they have is
    /// accepted, too.
    dispensable: bool,
    /// They cannot have done so yet.
    holds: bool,
}

impl Lead {
    /// Nothing is committed or confirmed meanwhile.
    fn is_doubtful(self) -> bool {
        self.dispensable && !self.holds && !planted!(LateCommit)
    }
}

#[derive(Debug)]
enum Role {
    /// `verified`: up to there the stream is the leader's, as it has said in the current epoch.
    Following {
        verified: Option<Position>,
        round: u64,
    },
    Leading(Leading),
}

#[derive(Clone, Copy, Debug)]
struct Sealing {
    epoch: Epoch,
    promised: bool,
    /// The end of the stream when the seal came; answered once that is durable.
    end: Position,
}

impl Group {
    /// Begins with what the log and the node's file hold, in no role.
    pub fn new(id: GroupId, here: Member, timing: Timing, remembered: Remembered) -> Group {
        let Remembered { promised, mut history, end, commit, intact } = remembered;
        history.forget_oldest(commit);
        assert!(commit <= end.position, "what is committed is in the log");
        // A node that has an epoch's first entry may have acknowledged in it.
        let promised = promised.max(end.epoch);
        Group {
            id,
            here,
            timing,
            promised,
            configuration: None,
            stream: Stream::new(history, end),
            intact,
            commit,
            role: Role::Following { verified: None, round: 0 },
            sealing: None,
            snapshots: false,
            lead: Lead { dispensable: false, holds: true },
            applied: Position(0),
            ending: BTreeSet::new(),
            able: true,
            effects: Vec::new(),
        }
    }

    /// A node that follows and has nothing of the stream is to get a snapshot:
    /// [`Effect::NeedsSnapshot`]. What was there before a stream's first entry is not in it.
    pub fn with_snapshots(mut self) -> Group {
        self.snapshots = true;
        self
    }

    /// A node without others continues where its log ends: it leads, and all that is there is
    /// committed.
    ///
    /// # Panics
    /// If the configuration has other nodes.
    pub fn alone(
        here: Member,
        configuration: &GroupConfiguration,
        remembered: Remembered,
        timing: Timing,
        id: GroupId,
    ) -> Group {
        assert!(matches!(configuration.members(), [one] if one.node == here.node), "there are other members");
        let end = remembered.end.position;
        let mut group = Group::new(id, here, timing, Remembered { commit: end, ..remembered });
        // This is not the process that began the epoch.
        group.configuration = Some(GroupConfiguration::alone(configuration.epoch, here));
        group.promised = group.promised.max(configuration.epoch);
        group.role = Role::Leading(Leading::alone(end));
        group
    }

    pub fn id(&self) -> GroupId {
        self.id
    }

    pub fn configuration(&self) -> Option<&GroupConfiguration> {
        self.configuration.as_ref()
    }

    pub fn commit(&self) -> Position {
        self.commit
    }

    pub fn end(&self) -> Mark {
        self.stream.end()
    }

    pub fn history(&self) -> &History {
        &self.stream.history
    }

    /// Takes calls: leads, and everything from before its epoch is committed.
    pub fn is_open(&self) -> bool {
        matches!(&self.role, Role::Leading(leading) if leading.is_open())
    }

    pub fn is_leading(&self) -> bool {
        matches!(self.role, Role::Leading(_))
    }

    /// Whether the voters can decide without any of the members: then this node leads only as long
    /// as [`Group::may_lead`] says.
    pub fn is_dispensable(&self) -> bool {
        self.lead.dispensable && !planted!(AloneForEver)
    }

    /// What the voters can do, with the next configuration or with other voters.
    pub fn is_led_among(&mut self, dispensable: bool, may_lead: bool) {
        self.lead = Lead { dispensable, holds: may_lead };
    }

    /// As of now, after what is durable and what was read. What waited for it is committed.
    pub fn may_lead(&mut self, holds: bool) {
        if !std::mem::replace(&mut self.lead.holds, holds) && holds {
            self.advance();
        }
    }

    /// This node's tables show everything up to there.
    pub fn applies(&mut self, applied: Position) {
        self.applied = applied;
    }

    /// As last reported.
    pub fn applied(&self) -> Position {
        self.applied
    }

    /// This node can run all procedures of the database, or cannot.
    pub fn runs_all(&mut self, able: bool) {
        self.able = able;
    }

    /// As last reported.
    pub fn is_able(&self) -> bool {
        self.able
    }

    /// What is to be done, in order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// The same, appended to `into`, whose memory is reused.
    pub fn move_effects(&mut self, into: &mut Vec<Effect>) {
        into.append(&mut self.effects);
    }

    pub fn here(&self) -> Member {
        self.here
    }

    /// Whether the entry is in the stream.
    pub fn has(&self, entry: Mark) -> bool {
        self.stream.has(entry)
    }

    /// The last entry up to `position` that is here; the checksum is 0 where it is forgotten.
    pub fn mark_at(&self, position: Position) -> Mark {
        self.stream.mark_at(position)
    }

    fn epoch(&self) -> Epoch {
        self.configuration.as_ref().map_or(Epoch(0), |configuration| configuration.epoch)
    }

    fn send(&mut self, to: NodeId, message: Message) {
        let envelope = Envelope { from: self.here, epoch: self.epoch(), message };
        self.effects.push(Effect::Send { to, envelope });
    }

    /// Everything up to there is in this node's log.
    pub fn durable(&self) -> Position {
        self.stream.durable()
    }

    /// Whether the last configuration that is known has the node, in this process or an earlier
    /// one: then a seal may ask for what it has. None is known yet: then it may, too.
    pub fn may_be_asked(&self) -> bool {
        self.configuration.as_ref().is_none_or(|configuration| configuration.has_node(self.here.node))
    }

    /// A node that is not a member continues after what a snapshot shows, whatever its stream was.
    /// The snapshot is durable before this machine hears anything more. False, and nothing is done:
    /// others may rely on what this node has, or the leader has confirmed that its stream goes as
    /// far.
    pub fn install(&mut self, history: History, end: Mark) -> bool {
        let reaches = match self.role {
            Role::Following { verified, .. } => verified.is_some_and(|verified| verified >= end.position),
            Role::Leading(_) => true,
        };
        if self.may_be_asked() || reaches || self.sealing.is_some() {
            return false;
        }
        self.promised = self.promised.max(end.epoch);
        self.commit = end.position;
        self.stream = Stream::new(history, end);
        self.intact = true;
        self.role = Role::Following { verified: None, round: 0 };
        true
    }

    /// The metadata has decided, and this node has applied it.
    pub fn configured(&mut self, configuration: GroupConfiguration, now: u64) {
        if configuration.epoch <= self.epoch() {
            return;
        }
        let is_chosen = configuration.leader == self.here;
        // A seal that came after this was decided forbids acknowledging in its epoch.
        let may_lead = is_chosen
            && self.promised <= configuration.epoch
            && self.sealing.is_none_or(|s| s.epoch <= configuration.epoch);
        if self.sealing.is_some_and(|sealing| sealing.epoch <= configuration.epoch) {
            self.sealing = None;
        }
        self.promised = self.promised.max(configuration.epoch);
        let before = self.configuration.replace(configuration.clone());
        let role = std::mem::replace(&mut self.role, Role::Following { verified: None, round: 0 });
        match role {
            Role::Leading(leading) if may_lead => {
                let before = before.expect("a leader has a configuration");
                self.continue_to_lead(leading, &before, configuration, now);
            }
            Role::Following { .. } if may_lead => self.begin_to_lead(configuration, now),
            Role::Leading(_) => self.effects.push(Effect::Deposed { commit: self.commit }),
            Role::Following { .. } => {}
        }
    }

    /// The metadata asks for the promise of `epoch`.
    pub fn seal(&mut self, epoch: Epoch) {
        if epoch < self.promised || self.sealing.is_some_and(|sealing| sealing.epoch > epoch) {
            return;
        }
        if !planted!(LeadsAfterSeal) {
            self.step_down();
        }
        let end = self.stream.end().position;
        let again = self.sealing.filter(|sealing| sealing.epoch == epoch);
        match again {
            // Perhaps it could not be written: writing it twice does no harm.
            Some(sealing) if !sealing.promised => self.effects.push(Effect::Promise(epoch)),
            _ if epoch == self.promised && self.epoch() < epoch => {
                // Promised before, and nothing was acknowledged since.
                self.sealing = Some(Sealing { epoch, promised: true, end });
                self.answer_seal();
            }
            _ if epoch > self.promised => {
                self.sealing = Some(Sealing { epoch, promised: false, end });
                self.effects.push(Effect::Promise(epoch));
            }
            // A configuration of this epoch is there already.
            _ => {}
        }
    }

    /// The promise of `epoch` is durable.
    pub fn promised(&mut self, epoch: Epoch) {
        self.promised = self.promised.max(epoch);
        if let Some(sealing) = self.sealing.as_mut().filter(|sealing| sealing.epoch == epoch) {
            sealing.promised = true;
            self.answer_seal();
        }
    }

    fn answer_seal(&mut self) {
        let Some(Sealing { epoch, promised: true, end }) = self.sealing else { return };
        if self.stream.durable() < end {
            return;
        }
        assert_eq!(self.stream.end().position, end, "nothing is appended after a promise");
        self.effects.push(Effect::Sealed(Sealed {
            member: self.here,
            epoch,
            end: self.stream.end(),
            history: self.stream.history.clone(),
            intact: self.intact,
            applied: self.applied.min(self.stream.end().position),
            able: self.able,
        }));
    }

    /// This node no longer leads, and never will again in this epoch. Returns that epoch: its
    /// callers and the metadata hear of it.
    pub fn resign(&mut self) -> Option<Epoch> {
        let epoch = self.is_leading().then(|| self.epoch());
        self.step_down();
        epoch
    }

    /// A leader that must no longer lead: it cannot answer for what it has not committed.
    fn step_down(&mut self) {
        if self.is_leading() {
            self.role = Role::Following { verified: None, round: 0 };
            self.effects.push(Effect::Deposed { commit: self.commit });
        }
    }

    /// The log has made this entry durable, and so all that was written before it. It may have been
    /// dropped since: then what is in its place was written later.
    pub fn written(&mut self, entry: Mark) {
        self.note_written(entry);
        self.report_written();
    }

    /// The same for one of several entries that one fsync has made durable:
    /// [`Group::report_written`] reports once what follows from all of them.
    pub fn note_written(&mut self, entry: Mark) {
        if self.stream.has(entry) {
            let covered = if planted!(FsyncCoversLater) { self.stream.end().position } else { entry.position };
            self.stream.written(covered);
            self.prove();
        }
    }

    /// What follows from the entries that were noted as written.
    pub fn report_written(&mut self) {
        self.answer_seal();
        match &self.role {
            Role::Leading(_) => self.advance(),
            Role::Following { .. } => self.acknowledge(),
        }
    }

    pub fn handle_message(&mut self, envelope: Envelope, now: u64) {
        let Envelope { from, epoch, message } = envelope;
        if let Message::Refused { promised } = message {
            // A change of the members reaches one of them before the leader, which continues with
            // it. If another is to lead, nothing is committed or confirmed here any more, since
            // that takes the answers of all members; the metadata says what it is.
            if promised > self.epoch() {
                self.effects.push(Effect::AskMetadata(promised));
            }
            return;
        }
        if epoch > self.epoch() {
            self.effects.push(Effect::AskMetadata(epoch));
            return;
        }
        match message {
            Message::Append { previous, entries, commit, round } => {
                self.asked_to_append(from, epoch, previous, &entries, commit, round);
            }
            Message::Acked { durable, compares, round } if epoch == self.epoch() => {
                self.acked(from, durable, compares, round, now);
            }
            Message::Mismatch { history, end, round } if epoch == self.epoch() => {
                self.mismatched(from, &history, end, round, now);
            }
            Message::Differs { entry } => self.differed(from, entry, now),
            Message::Knows { applied, able, .. } if epoch == self.epoch() => self.has_applied(from, applied, able),
            // What was said in an earlier epoch.
            _ => {}
        }
    }

    /// This node's tables do not match what the leader said of an entry: it leaves the members.
    pub fn differs(&mut self, entry: Position) {
        let leader = self.configuration.as_ref().map(|configuration| configuration.leader);
        if let Some(leader) = leader.filter(|leader| *leader != self.here) {
            self.send(leader.node, Message::Differs { entry });
        }
    }

    fn commit_to(&mut self, position: Position) {
        assert!(position <= self.stream.end().position, "only what is there is committed");
        if position > self.commit {
            self.commit = position;
            self.stream.history.forget_oldest(position);
            self.effects.push(Effect::Commit(position));
            self.prove();
        }
    }

    /// A log that may lack what was acknowledged is complete again when this process is a member,
    /// and what the members had when it became one is committed and durable here.
    fn prove(&mut self) {
        if self.intact {
            return;
        }
        let Some(configuration) = &self.configuration else { return };
        let reached = self.commit.min(self.stream.durable());
        let epoch = configuration.epoch;
        let begun = self.stream.history.starts().iter().any(|(begun, first)| *begun == epoch && *first <= reached);
        self.intact = begun && configuration.has(self.here);
    }
}
