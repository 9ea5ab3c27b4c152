//! One world: some groups, each with a stream, one leader at a time and the values of its
//! partitions; callers that move amounts between them.

mod group;
mod rules;

use ferrite_base::{Epoch, GroupId, PartitionId};
use ferrite_multi::{AgentEffect, LotId, LotPart, Outcome, Sequencer, SequencerEffect, ToAgent, ToSequencer};
use group::Group;
use std::collections::{BTreeMap, VecDeque};

pub const MILLI: u64 = 1_000_000;
/// Partitions of a group.
pub const PARTITIONS: u32 = 2;
/// What each has at first.
pub const AMOUNT: i64 = 100;
/// The system makes trouble for so long.
const TROUBLE_MILLIS: u64 = 4_000;
/// And is at rest within that.
const REST_MILLIS: u64 = 6_000;

/// A generator of numbers that follow from a seed (SplitMix64).
pub struct Random(u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    pub committed: u64,
    pub aborted: u64,
    pub reads: u64,
    pub stale_reads: u64,
    pub resolved: u64,
    pub refused: u64,
    pub replaced: u64,
    pub sequencers: u64,
    pub lost_tails: u64,
    pub unknown: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        let pairs = [
            (&mut self.committed, other.committed),
            (&mut self.aborted, other.aborted),
            (&mut self.reads, other.reads),
            (&mut self.stale_reads, other.stale_reads),
            (&mut self.resolved, other.resolved),
            (&mut self.refused, other.refused),
            (&mut self.replaced, other.replaced),
            (&mut self.sequencers, other.sequencers),
            (&mut self.lost_tails, other.lost_tails),
            (&mut self.unknown, other.unknown),
        ];
        pairs.into_iter().for_each(|(sum, count)| *sum += count);
    }
}

/// Who speaks: the sequencer of an epoch, or a group's leader of an epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Speaker {
    Sequencer(Epoch),
    Agent(GroupId, Epoch),
}

pub enum Said {
    ToAgent(ToAgent),
    ToSequencer(ToSequencer),
}

/// What a lot is for.
pub struct Wanted {
    pub groups: Vec<GroupId>,
    pub partition: u32,
    pub reads: bool,
    /// It changes something, and is released all the same.
    pub refuses: bool,
    pub failed: bool,
    /// Some are given up by their caller.
    pub gives_up_at: u64,
    /// Of one that reads: the lots of its partition that had been answered as committed when it
    /// was begun.
    pub after: Vec<LotId>,
}

pub struct World {
    pub random: Random,
    pub now: u64,
    pub groups: BTreeMap<GroupId, Group>,
    pub sequencers: BTreeMap<Epoch, Sequencer>,
    pub wanted: BTreeMap<LotId, Wanted>,
    /// What callers were told.
    pub told: BTreeMap<LotId, Outcome>,
    /// In order, of each pair.
    links: BTreeMap<(Speaker, Speaker), VecDeque<(u64, Said)>>,
    pub counts: Counts,
    pub facts: BTreeMap<LotId, rules::Fact>,
    /// Lots answered since this was looked at.
    pub answered: Vec<LotId>,
    pub wrong: Vec<String>,
    rests: bool,
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut random = Random(seed);
        let count = 2 + random.below(3) as u32;
        let groups = (0..count).map(|id| (GroupId(id), Group::new(GroupId(id)))).collect();
        World {
            random,
            now: 0,
            groups,
            sequencers: BTreeMap::new(),
            wanted: BTreeMap::new(),
            told: BTreeMap::new(),
            links: BTreeMap::new(),
            counts: Counts::default(),
            facts: BTreeMap::new(),
            answered: Vec::new(),
            wrong: Vec::new(),
            rests: false,
        }
    }

    pub fn run(mut self) -> Result<Counts, String> {
        for group in self.groups.keys().copied().collect::<Vec<_>>() {
            self.elect(group);
        }
        while self.now < TROUBLE_MILLIS * MILLI {
            self.trouble();
            self.step()?;
        }
        self.rests = true;
        // The sequencer of a first group that is led may have ended alone.
        let first = &self.groups[&GroupId(0)];
        if first.led().is_some_and(|epoch| !self.sequencers.contains_key(&epoch)) {
            self.depose(GroupId(0));
        }
        let leaderless: Vec<GroupId> =
            self.groups.iter().filter(|(_, group)| group.agent.is_none()).map(|(id, _)| *id).collect();
        leaderless.into_iter().for_each(|group| self.elect(group));
        let newest = *self.sequencers.keys().next_back().expect("there was one");
        self.sequencers.retain(|epoch, _| *epoch == newest);
        let end = self.now + REST_MILLIS * MILLI;
        while self.now < end {
            self.step()?;
        }
        self.check_rest().map_err(|what| format!("{what}; {:?}", self.sequencers))?;
        Ok(self.counts)
    }

    /// Leaders end, others follow, the first group's with a sequencer; links break.
    fn trouble(&mut self) {
        let ids: Vec<GroupId> = self.groups.keys().copied().collect();
        for id in &ids {
            let is_led = self.groups[id].agent.is_some();
            if is_led && self.random.below(4_000) < 5 {
                self.depose(*id);
            } else if !is_led && self.random.below(1_000) < 15 {
                self.elect(*id);
            }
        }
        if self.random.below(4_000) < 6 {
            let links: Vec<(Speaker, Speaker)> = self.links.keys().copied().collect();
            if !links.is_empty() {
                let (from, to) = links[self.random.below(links.len() as u64) as usize];
                self.cut(from, to);
            }
        }
        // One that was replaced speaks a while longer.
        if self.sequencers.len() > 1 && self.random.percent(1) {
            let oldest = *self.sequencers.keys().next().expect("there are two");
            self.end_sequencer(oldest);
        }
    }

    fn end_sequencer(&mut self, epoch: Epoch) {
        self.sequencers.remove(&epoch);
        let lost = self.wanted.keys().filter(|lot| lot.epoch == epoch && !self.told.contains_key(lot)).count();
        self.counts.unknown += lost as u64;
        let party = Speaker::Sequencer(epoch);
        self.links.retain(|(from, to), _| *from != party && *to != party);
        for group in self.groups.values_mut() {
            if let Some(agent) = &mut group.agent {
                agent.sequencer_lost(epoch, self.now);
            }
        }
        self.carry_out_all();
    }

    /// Both directions: what is on its way is lost, and both sides hear of it.
    fn cut(&mut self, from: Speaker, to: Speaker) {
        self.links.remove(&(from, to));
        self.links.remove(&(to, from));
        for (one, other) in [(from, to), (to, from)] {
            match (one, other) {
                (Speaker::Sequencer(epoch), Speaker::Agent(group, of)) => {
                    let Some(sequencer) = self.sequencers.get_mut(&epoch) else { continue };
                    sequencer.lost(group);
                    if self.groups[&group].led() == Some(of) {
                        sequencer.led(group, of);
                    }
                }
                (Speaker::Agent(group, of), Speaker::Sequencer(epoch)) => {
                    let now = self.now;
                    let group = self.groups.get_mut(&group).expect("it is there");
                    if group.led() == Some(of) {
                        group.agent.as_mut().expect("it is led").sequencer_lost(epoch, now);
                    }
                }
                _ => {}
            }
        }
        self.carry_out_all();
    }

    /// The group's leader ends; of what it has not committed a part may be left.
    fn depose(&mut self, id: GroupId) {
        let group = self.groups.get_mut(&id).expect("it is there");
        let epoch = group.epoch;
        group.depose(&mut self.random, &mut self.counts);
        let party = Speaker::Agent(id, epoch);
        self.links.retain(|(from, to), _| *from != party && *to != party);
        for sequencer in self.sequencers.values_mut() {
            sequencer.lost(id);
        }
        // The one of the first group ends with its process, or is cut off and does not know yet.
        if id == GroupId(0) && self.random.percent(60) {
            self.end_sequencer(epoch);
        }
        self.carry_out_all();
    }

    fn elect(&mut self, id: GroupId) {
        let group = self.groups.get_mut(&id).expect("it is there");
        group.elect();
        let epoch = group.epoch;
        self.counts.replaced += 1;
        if id == GroupId(0) {
            let ids: Vec<GroupId> = self.groups.keys().copied().collect();
            self.sequencers.insert(epoch, Sequencer::new(epoch, ids));
            self.counts.sequencers += 1;
        }
        // A sequencer that was replaced hears of others late, or never.
        let newest = self.sequencers.keys().next_back().copied();
        let leads: Vec<(GroupId, Epoch)> =
            self.groups.values().filter_map(|group| Some((group.id, group.led()?))).collect();
        for (epoch, sequencer) in &mut self.sequencers {
            if Some(*epoch) == newest || self.random.percent(50) {
                leads.iter().for_each(|(group, epoch)| sequencer.led(*group, *epoch));
            }
        }
        self.carry_out_all();
    }

    fn step(&mut self) -> Result<(), String> {
        self.now += 100_000 + self.random.below(900_000);
        self.call();
        self.deliver();
        for id in self.groups.keys().copied().collect::<Vec<_>>() {
            let group = self.groups.get_mut(&id).expect("it is there");
            group.commit_some(&mut self.random, self.now);
            if !self.rests && self.random.percent(30) {
                group.execute_one(&mut self.random);
            }
            if let Some(agent) = &mut group.agent {
                agent.tick(self.now);
            }
        }
        for sequencer in self.sequencers.values_mut() {
            sequencer.tick(self.now);
        }
        self.give_up();
        self.carry_out_all();
        self.check()
    }

    /// A caller wants to move an amount between groups, or to read them.
    fn call(&mut self) {
        if self.rests {
            return;
        }
        let epochs: Vec<Epoch> = self.sequencers.keys().copied().collect();
        for epoch in epochs {
            let sequencer = self.sequencers.get_mut(&epoch).expect("it is there");
            if !sequencer.can_begin() || !self.random.percent(60) {
                continue;
            }
            let ids: Vec<GroupId> = self.groups.keys().copied().collect();
            let first = self.random.below(ids.len() as u64) as usize;
            let count = 2 + self.random.below(ids.len() as u64 - 1) as usize;
            let groups: Vec<GroupId> = (0..count).map(|place| ids[(first + place) % ids.len()]).collect();
            let reads = self.random.percent(25);
            let rides = !reads && self.random.percent(60);
            let amount = 1 + self.random.below(5) as i64;
            let partition = self.random.below(u64::from(PARTITIONS)) as u32;
            let part = |(place, group): (usize, &GroupId)| {
                let change = match place {
                    _ if reads => 0,
                    0 => -amount,
                    1 => amount,
                    // Only read, in a lot that writes.
                    _ => 0,
                };
                LotPart { group: *group, partitions: vec![PartitionId(partition)], work: change.to_le_bytes().to_vec() }
            };
            let parts = groups.iter().enumerate().map(part).collect();
            let Some(lot) = sequencer.begin(parts, rides) else { continue };
            let refuses = !reads && !rides && lot.number % 4 == 0;
            let gives_up_at = if self.random.percent(10) { self.now + self.random.below(20) * MILLI } else { u64::MAX };
            let is_before = |(other, outcome): (&LotId, &Outcome)| {
                let counts = *outcome == Outcome::Committed && self.wanted[other].partition == partition;
                counts.then_some(*other)
            };
            let after = if reads { self.told.iter().filter_map(is_before).collect() } else { Vec::new() };
            self.wanted.insert(lot, Wanted { groups, partition, reads, refuses, failed: false, gives_up_at, after });
        }
    }

    fn give_up(&mut self) {
        let now = self.now;
        let due = self.wanted.iter_mut().filter(|(_, wanted)| wanted.gives_up_at <= now);
        let lots: Vec<LotId> = due
            .map(|(lot, wanted)| {
                wanted.gives_up_at = u64::MAX;
                *lot
            })
            .collect();
        for lot in lots {
            let Some(sequencer) = self.sequencers.get_mut(&lot.epoch) else { continue };
            // The process may end with the answer on its way to the caller, and nothing to others.
            if sequencer.abandon(lot) && !self.rests && self.random.percent(30) {
                let told =
                    sequencer.effects().into_iter().filter(|effect| matches!(effect, SequencerEffect::Decided { .. }));
                told.collect::<Vec<_>>().into_iter().for_each(|effect| self.carry_out_sequencer(lot.epoch, effect));
                self.end_sequencer(lot.epoch);
                if self.groups[&GroupId(0)].led() == Some(lot.epoch) {
                    self.depose(GroupId(0));
                }
            }
        }
    }

    fn say(&mut self, from: Speaker, to: Speaker, said: Said) {
        let slow = !self.rests && self.random.percent(3);
        let delay = self.random.below(if slow { 300 * MILLI } else { 3 * MILLI });
        let link = self.links.entry((from, to)).or_default();
        let before = link.back().map_or(0, |(due, _)| *due);
        link.push_back(((self.now + delay).max(before), said));
    }

    fn deliver(&mut self) {
        loop {
            let now = self.now;
            let due = self.links.iter_mut().find(|(_, link)| link.front().is_some_and(|(due, _)| *due <= now));
            let Some(((from, to), link)) = due else { break };
            let (from, to) = (*from, *to);
            let (_, said) = link.pop_front().expect("something is due");
            match (to, said) {
                (Speaker::Agent(group, epoch), Said::ToAgent(message)) => {
                    let group = self.groups.get_mut(&group).expect("it is there");
                    if group.led() == Some(epoch) {
                        group.receive(message, now);
                    }
                }
                (Speaker::Sequencer(epoch), Said::ToSequencer(message)) => {
                    let (Speaker::Agent(group, of), Some(sequencer)) = (from, self.sequencers.get_mut(&epoch)) else {
                        continue;
                    };
                    sequencer.receive(group, of, message);
                }
                _ => unreachable!("it was sent to the other kind"),
            }
            self.carry_out_all();
        }
    }

    /// What sequencers and agents want done.
    fn carry_out_all(&mut self) {
        loop {
            let mut any = false;
            for epoch in self.sequencers.keys().copied().collect::<Vec<_>>() {
                let effects = self.sequencers.get_mut(&epoch).expect("it is there").effects();
                any |= !effects.is_empty();
                effects.into_iter().for_each(|effect| self.carry_out_sequencer(epoch, effect));
            }
            for id in self.groups.keys().copied().collect::<Vec<_>>() {
                let Some(agent) = &mut self.groups.get_mut(&id).expect("it is there").agent else { continue };
                let effects = agent.effects();
                any |= !effects.is_empty();
                effects.into_iter().for_each(|effect| self.carry_out_agent(id, effect));
            }
            if !any {
                return;
            }
        }
    }

    fn carry_out_sequencer(&mut self, epoch: Epoch, effect: SequencerEffect) {
        match effect {
            SequencerEffect::Send { group, message } => {
                if let Some(of) = self.groups[&group].led() {
                    self.say(Speaker::Sequencer(epoch), Speaker::Agent(group, of), Said::ToAgent(message));
                }
            }
            SequencerEffect::Ran { lot, group, ok, result } => {
                let wanted = self.wanted.get_mut(&lot).expect("it was begun");
                wanted.failed |= !ok;
                assert!(result.len() == 8 && wanted.groups.contains(&group), "what was run there");
                let sequencer = self.sequencers.get_mut(&epoch).expect("it speaks");
                if sequencer.has_run(lot) {
                    if wanted.failed {
                        sequencer.abandon(lot);
                    } else if wanted.reads || wanted.refuses {
                        sequencer.release(lot);
                    } else {
                        sequencer.prepare(lot);
                    }
                }
            }
            SequencerEffect::Decided { lot, outcome } => {
                self.told.insert(lot, outcome);
                self.answered.push(lot);
                match outcome {
                    Outcome::Committed => self.counts.committed += 1,
                    Outcome::Aborted => self.counts.aborted += 1,
                }
            }
            SequencerEffect::Settled { .. } => panic!("none is awaited"),
            SequencerEffect::Read { lot, is_fresh } => {
                let count = if is_fresh { &mut self.counts.reads } else { &mut self.counts.stale_reads };
                *count += 1;
                if is_fresh {
                    self.check_read(lot);
                }
            }
        }
    }

    fn carry_out_agent(&mut self, id: GroupId, effect: AgentEffect) {
        let group = self.groups.get_mut(&id).expect("it is there");
        let from = Speaker::Agent(id, group.epoch);
        match effect {
            AgentEffect::ToSequencer(message) => {
                let to = match &message {
                    ToSequencer::Done { lot, .. }
                    | ToSequencer::Vote { lot, .. }
                    | ToSequencer::Settled { lot }
                    | ToSequencer::Fresh { lot }
                    | ToSequencer::Verdict { lot, .. } => lot.epoch,
                    ToSequencer::Ordered { epoch, .. } => *epoch,
                };
                if self.sequencers.contains_key(&to) {
                    self.say(from, Speaker::Sequencer(to), Said::ToSequencer(message));
                }
            }
            AgentEffect::ToAgent { group, message } => {
                self.counts.resolved += u64::from(matches!(message, ToAgent::Resolve { .. }));
                if let Some(of) = self.groups[&group].led() {
                    self.say(from, Speaker::Agent(group, of), Said::ToAgent(message));
                }
            }
            other => group.carry_out(other, self.now, &mut self.random, &mut self.counts),
        }
    }
}
