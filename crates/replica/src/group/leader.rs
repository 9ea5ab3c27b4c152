//! The leader: sends entries, counts which members have them, commits what all members have.

use super::entry::{Header, Mark};
use super::hand_over::Handing;
use super::history::History;
use super::message::Effect;
use super::progress::{Pace, Progress, Watch};
use super::{Group, GroupConfiguration, Member, Role};
use ferrite_base::checksum::crc32c;
use ferrite_base::{NodeId, Position, planted};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub(super) struct Leading {
    /// The first entry of the epoch.
    pub(super) start: Position,
    pub(super) open: bool,
    /// Counts the turns in which something was sent.
    pub(super) round: u64,
    /// A read waits for a round that begins after it.
    wanted: bool,
    confirmed: u64,
    /// Members and learners, without this node.
    pub(super) others: BTreeMap<NodeId, Progress>,
    sent_last: u64,
    ticked_last: u64,
    /// This node's own log, and whether it stands still.
    own: Watch,
    pub(super) stands_still: bool,
    /// When a change was last proposed in this epoch.
    pub(super) proposed: Option<u64>,
    pub(super) handing: Handing,
    pub(super) pace: Pace,
}

/// Between two heartbeats of a leader that hands over, at most.
const SOON_NANOS: u64 = 2_000_000;

impl Leading {
    /// For a node without others, from `end` on.
    pub fn alone(end: Position) -> Leading {
        Leading {
            start: end,
            open: true,
            round: 0,
            wanted: false,
            confirmed: 0,
            others: BTreeMap::new(),
            sent_last: 0,
            ticked_last: 0,
            own: Watch { end, since: 0 },
            stands_still: false,
            proposed: None,
            handing: Handing::default(),
            pace: Pace::default(),
        }
    }

    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Whether a member has not reported its position in this epoch, and nothing of the epoch is
    /// committed. Members hear of an epoch at times of their own: until then they are asked
    /// repeatedly.
    fn asks(&self, configuration: &GroupConfiguration, commit: Position) -> bool {
        let is_asked = |member: &Member| self.followed(*member).is_some_and(|progress| !progress.matched);
        commit < self.start && configuration.members().iter().any(is_asked)
    }

    /// Whether another member can run all procedures, not counting those in `without`. `heard`: and
    /// is not silent at that time, after that many nanoseconds.
    pub(super) fn has_able(
        &self,
        configuration: &GroupConfiguration,
        without: &BTreeSet<NodeId>,
        heard: Option<(u64, u64)>,
    ) -> bool {
        let lives = |progress: &Progress| heard.is_none_or(|(now, failure)| !progress.is_silent(now, failure));
        let is_able = |progress: &Progress| progress.able && lives(progress);
        let others = configuration.members().iter().filter(|member| !without.contains(&member.node));
        others.filter_map(|member| self.followed(*member)).any(is_able)
    }

    /// Whether one of these nodes follows, as a member or not, and has been heard of.
    pub(super) fn is_followed(&self, among: impl Fn(NodeId) -> bool, now: u64, failure: u64) -> bool {
        self.others.iter().any(|(node, progress)| among(*node) && progress.answers(now, failure))
    }

    /// None if another process of the node has come meanwhile.
    pub(super) fn followed(&self, member: Member) -> Option<&Progress> {
        self.others.get(&member.node).filter(|progress| progress.member == member)
    }
}

impl Group {
    pub(super) fn begin_to_lead(&mut self, configuration: GroupConfiguration, now: u64) {
        let next = Position(self.stream.end().position.0 + 1);
        let others = configuration.members().iter().filter(|member| **member != self.here);
        let others = others.map(|member| (member.node, Progress::new(*member, next, now))).collect();
        let leading = Leading {
            start: next,
            open: false,
            round: 0,
            wanted: false,
            confirmed: 0,
            others,
            sent_last: 0,
            ticked_last: now,
            own: Watch { end: self.stream.end().position, since: now },
            stands_still: false,
            proposed: None,
            handing: Handing::default(),
            pace: Pace::default(),
        };
        self.role = Role::Leading(leading);
        self.start_epoch(configuration);
    }

    /// The same leader in a higher epoch. Learners, and members that stay, keep what is known of
    /// them. But a node that has not heard of the epoch yet does not take what is sent in it: until
    /// it has answered, members are asked where their streams end.
    pub(super) fn continue_to_lead(
        &mut self,
        mut leading: Leading,
        before: &GroupConfiguration,
        configuration: GroupConfiguration,
        now: u64,
    ) {
        let next = Position(self.stream.end().position.0 + 1);
        leading.start = next;
        leading.proposed = None;
        leading.handing.in_new_epoch();
        // A node that has left comes back as a learner, if it can.
        leading.others.retain(|_, progress| configuration.has(progress.member) || !before.has(progress.member));
        for member in configuration.members().iter().filter(|member| **member != self.here) {
            match leading.others.get_mut(&member.node).filter(|progress| progress.member == *member) {
                Some(progress) => {
                    progress.doubt(leading.round);
                    // As a learner it was given more than a member is.
                    if !before.has(*member) {
                        progress.watch = Watch { end: Position(next.0 - 1), since: now };
                    }
                }
                None => drop(leading.others.insert(member.node, Progress::new(*member, next, now))),
            }
        }
        self.role = Role::Leading(leading);
        self.start_epoch(configuration);
    }

    fn start_epoch(&mut self, configuration: GroupConfiguration) {
        let body = configuration.encode(self.stream.end());
        let bytes = u32::try_from(body.len()).expect("a configuration is small");
        let header = Header::after(self.id, self.stream.end(), configuration.epoch, true, crc32c(&body), bytes);
        self.stream.push(&header);
        self.effects.push(Effect::Start { header, body });
    }

    /// The leader gives its next entry its place. None if this node does not lead, or not yet.
    pub fn append(&mut self, body: u32, bytes: u32) -> Option<Header> {
        if !self.is_open() {
            return None;
        }
        let header = Header::after(self.id, self.stream.end(), self.epoch(), false, body, bytes);
        self.stream.push(&header);
        Some(header)
    }

    /// The round that has to be confirmed before a read that has just run may be answered, besides
    /// the commit of what it saw; 0: none. None if this node does not lead.
    pub fn read(&mut self) -> Option<u64> {
        let Role::Leading(leading) = &mut self.role else { return None };
        if !leading.open {
            return None;
        }
        let is_alone = self.configuration.as_ref().is_some_and(|configuration| configuration.members().len() == 1);
        if is_alone && !self.lead.is_doubtful() || planted!(NoRound) {
            return Some(0);
        }
        leading.wanted = true;
        Some(leading.round + 1)
    }

    /// Whether this node leads, and the process follows: it was heard of within the failure time,
    /// or has that long yet.
    pub fn follows(&self, member: Member) -> bool {
        matches!(&self.role, Role::Leading(leading) if leading.followed(member).is_some())
    }

    /// The same for one that has been heard of since it was first asked.
    pub fn is_answered_by(&self, member: Member, now: u64) -> bool {
        let answers = |progress: &Progress| progress.answers(now, self.timing.failure);
        matches!(&self.role, Role::Leading(leading) if leading.followed(member).is_some_and(answers))
    }

    /// Whether a member without which nothing is committed and no read confirmed has been silent
    /// for this long, or its process is known to be gone.
    pub fn is_unanswered(&self, nanos: u64, now: u64) -> bool {
        let (Role::Leading(leading), Some(configuration)) = (&self.role, &self.configuration) else { return false };
        let is_silent = |progress: &Progress| progress.is_silent(now, nanos);
        let mut others = configuration.members().iter().filter(|member| **member != self.here);
        others.any(|member| leading.followed(*member).is_none_or(is_silent))
    }

    /// For a leader: the nodes that follow and have answered in this epoch, and how many entries
    /// are not durable yet on each.
    pub fn behind(&self) -> Vec<(NodeId, u64)> {
        let Role::Leading(leading) = &self.role else { return Vec::new() };
        let end = self.end().position.0;
        let answered = leading.others.iter().filter(|(_, progress)| progress.answered);
        answered.map(|(node, progress)| (*node, end.saturating_sub(progress.durable.0))).collect()
    }

    /// The connection to a node was lost: what was on its way may not have come.
    pub fn disconnected(&mut self, node: NodeId) {
        if let Role::Leading(leading) = &mut self.role
            && let Some(progress) = leading.others.get_mut(&node)
        {
            progress.doubt(leading.round);
        }
    }

    pub(super) fn acked(&mut self, from: Member, durable: Mark, compares: bool, round: u64, now: u64) {
        let Role::Leading(leading) = &mut self.role else { return };
        let Some(progress) = leading.others.get_mut(&from.node).filter(|progress| progress.member == from) else {
            return;
        };
        if !self.stream.has(durable) || compares && self.stream.contradicts(durable) {
            self.effects.push(Effect::Diverged(from.node));
            self.propose_without(&[from.node], now);
            return;
        }
        if round > leading.round {
            // No question has this number.
            return;
        }
        (progress.heard, progress.answered) = (now, true);
        progress.has_made_durable(durable.position);
        if durable.position > progress.durable || !progress.matched {
            progress.progressed = now;
        }
        if !progress.matched && round >= progress.asked_since {
            // It has answered what it was asked: this is its position.
            progress.matched = true;
            progress.next = Position(durable.position.max(progress.present).0 + 1);
        }
        progress.durable = progress.durable.max(durable.position);
        progress.present = progress.present.max(progress.durable);
        progress.next = progress.next.max(Position(progress.present.0 + 1));
        progress.round = progress.round.max(round);
        self.advance();
    }

    pub(super) fn mismatched(&mut self, from: Member, history: &History, end: Position, round: u64, now: u64) {
        let common = self.stream.history.common_end(self.stream.end().position, history, end);
        let Role::Leading(leading) = &mut self.role else { return };
        let sent = leading.round;
        let Some(progress) = leading.others.get_mut(&from.node).filter(|progress| progress.member == from) else {
            return;
        };
        (progress.heard, progress.answered) = (now, true);
        let is_old = round <= progress.round;
        progress.round = progress.round.max(round);
        if common < progress.durable {
            if is_old {
                // An answer to an old question: it has reported more since.
                return;
            }
            // It went back when it took a snapshot, while it was made a member.
            progress.durable = common;
            self.propose_without(&[from.node], now);
        }
        let Role::Leading(leading) = &mut self.role else { return };
        let Some(progress) = leading.others.get_mut(&from.node) else { return };
        // Members of the first epoch have all begun with the same.
        let is_member = self.configuration.as_ref().is_some_and(|configuration| configuration.has(from));
        if self.snapshots && common == Position(0) && !is_member {
            progress.matched = false;
            self.effects.push(Effect::NeedsSnapshot(from.node));
            return;
        }
        // What it lacks is on its way again.
        if progress.matched && round <= progress.rewound {
            return;
        }
        progress.rewound = sent;
        progress.matched = true;
        progress.progressed = now;
        progress.present = common;
        progress.next = Position(common.0 + 1);
        self.advance();
    }

    /// What a copy has in its tables, and what it can run, counts when another is to lead.
    pub(super) fn has_applied(&mut self, from: Member, applied: Position, able: bool) {
        if let Role::Leading(leading) = &mut self.role
            && let Some(progress) = leading.others.get_mut(&from.node).filter(|progress| progress.member == from)
        {
            // A node that takes another's snapshot goes back: then it is not a member.
            progress.applied = progress.applied.max(applied);
            progress.able = able;
        }
    }

    /// What all members have is committed, once the epoch's start is; rounds that all have answered
    /// are confirmed.
    pub(super) fn advance(&mut self) {
        if self.lead.is_doubtful() {
            return;
        }
        let Role::Leading(leading) = &mut self.role else { return };
        let Some(configuration) = &self.configuration else { return };
        let waits = |member: &&Member| !planted!(GoneNotAwaited) || leading.followed(**member).is_some();
        let others = || configuration.members().iter().filter(|member| **member != self.here).filter(waits);
        // A process that is gone acknowledges nothing more: nothing commits before it has left the
        // configuration.
        let fsyncs = others().filter(|_| !planted!(OwnFsyncOnly));
        let durable = fsyncs.map(|member| leading.followed(*member).map_or(Position(0), |progress| progress.durable));
        let durable = durable.fold(self.stream.durable(), Position::min);
        let round = others().map(|member| leading.followed(*member).map_or(0, |progress| progress.round));
        let round = if planted!(OneRound) { round.max() } else { round.min() };
        if durable >= leading.start {
            let opens = !std::mem::replace(&mut leading.open, true);
            self.commit_to(durable);
            if opens {
                self.effects.push(Effect::Opened);
            }
        }
        let Role::Leading(leading) = &mut self.role else { return };
        let round = round.or_else(|| {
            // No other node may lead yet: what waits was true.
            let waits = std::mem::take(&mut leading.wanted) || leading.round > leading.confirmed;
            waits.then(|| {
                leading.round += 1;
                leading.round
            })
        });
        if let Some(round) = round.filter(|round| *round > leading.confirmed) {
            leading.confirmed = round;
            self.effects.push(Effect::Confirmed(round));
        }
    }

    /// Sends what is due, and checks which nodes are missing. To be called after appends and reads,
    /// and every few milliseconds.
    pub fn tick(&mut self, now: u64) {
        let epoch = self.epoch();
        let commit = self.commit;
        let end = self.stream.end().position;
        let timing = self.timing;
        let Role::Leading(leading) = &mut self.role else { return };
        if now.saturating_sub(std::mem::replace(&mut leading.ticked_last, now)) >= timing.failure / 2 {
            // This node stood still: no other node is to blame for the silence.
            leading.others.values_mut().for_each(|progress| (progress.heard, progress.watch.since) = (now, now));
            leading.own.since = now;
        }
        leading.others.values_mut().for_each(|progress| progress.watch.observe(progress.durable, end, now));
        leading.own.observe(self.stream.durable(), end, now);
        leading.pace.sample(commit, now);
        // If there is another member, it may lead.
        let is_alone = self.configuration.as_ref().is_none_or(|configuration| configuration.members().len() == 1);
        let stands_still = !is_alone && leading.own.is_late(now, timing.stall);
        if std::mem::replace(&mut leading.stands_still, stands_still) != stands_still {
            self.effects.push(Effect::StandsStill(stands_still));
        }
        // What was proposed in vain is looked at again.
        let again = leading.proposed.take_if(|proposed| now.saturating_sub(*proposed) >= timing.propose).is_some();
        let asks = self.configuration.as_ref().is_some_and(|known| leading.asks(known, self.commit));
        // What is committed last is applied as soon as that is known.
        let soon = if leading.handing.is_under_way() { SOON_NANOS } else { u64::MAX };
        let heartbeat = timing.heartbeat.min(soon);
        let due = asks || again || leading.wanted || now.saturating_sub(leading.sent_last) >= heartbeat;
        let behind = leading.others.values().any(|progress| progress.matched && progress.next <= end);
        if leading.others.is_empty() || !(due || behind) {
            return self.hand_over_if_possible(now);
        }
        leading.round += 1;
        let round = leading.round;
        if due {
            leading.wanted = false;
            leading.sent_last = now;
        }
        for progress in leading.others.values_mut() {
            let to = progress.member.node;
            if progress.is_stuck(now, timing.resend) {
                progress.next = Position(progress.present.0 + 1);
                progress.progressed = now;
            }
            let last = Position(progress.next.0 - 1);
            let up_to = if progress.matched && progress.next <= end {
                self.stream.reach(progress.present, last, timing.window_bytes)
            } else {
                last
            };
            if up_to > last || due {
                // Without an entry: a heartbeat, or the question where its stream ends. A heartbeat
                // does not ask for what is still on its way in another lane.
                let heartbeat = progress.matched && up_to == last;
                let (after, up_to) = if heartbeat {
                    (progress.present, progress.present)
                } else if progress.matched {
                    (last, up_to)
                } else {
                    // Its answer tells where the streams part, wherever it is asked.
                    (end, end)
                };
                let after = after.min(end);
                let up_to = up_to.min(end);
                progress.next = progress.next.max(Position(up_to.0 + 1));
                self.effects.push(Effect::SendEntries { to, epoch, after, up_to, commit, round });
            }
        }
        self.hand_over_if_possible(now);
        self.review(now);
    }

    /// Whether a node that has reported its position lacks entries that were not sent to it: if
    /// that follows from what came, [`Group::tick`] is to be called at once.
    pub fn has_to_send(&self) -> bool {
        let Role::Leading(leading) = &self.role else { return false };
        let end = self.stream.end().position;
        leading.others.values().any(|progress| progress.matched && progress.next <= end)
    }

    /// When [`Group::tick`] has something to do next, if nothing comes earlier: now, or at a time.
    /// None: not before something comes.
    pub fn next_tick(&self, now: u64) -> Option<u64> {
        let Role::Leading(leading) = &self.role else { return None };
        if leading.handing.is_under_way() {
            return Some(now);
        }
        if leading.others.is_empty() {
            return None;
        }
        let asks = self.configuration.as_ref().is_some_and(|known| leading.asks(known, self.commit));
        let at_once = !leading.open || asks || leading.wanted || self.has_to_send();
        let proposes = leading.proposed.map_or(u64::MAX, |proposed| proposed.saturating_add(self.timing.propose));
        let heartbeat = leading.sent_last.saturating_add(self.timing.heartbeat);
        Some(if at_once { now } else { heartbeat.min(proposes).max(now) })
    }
}
