//! One group: its stream, what it has committed, and, while it is led, the leader's tables.

use super::{AMOUNT, Counts, PARTITIONS, Random};
use ferrite_base::{Epoch, GroupId};
use ferrite_multi::{Agent, AgentEffect, InDoubt, Ledger, LotId, Outcome, Record, ToAgent};
use std::collections::{BTreeMap, BTreeSet};

/// Changes of partitions.
pub type Redo = Vec<(u32, i64)>;

pub enum Entry {
    Lot(Record<Redo>),
    /// A transaction of one partition.
    Batch(u32),
}

/// What a group's tables have.
#[derive(Clone, Default)]
pub struct Tables {
    pub values: BTreeMap<u32, i64>,
    /// The lots that have changed each partition.
    pub lots: BTreeMap<u32, Vec<LotId>>,
}

impl Tables {
    fn apply(&mut self, lot: LotId, redo: &Redo) {
        for (partition, change) in redo {
            *self.values.entry(*partition).or_insert(AMOUNT) += change;
            self.lots.entry(*partition).or_default().push(lot);
        }
    }
}

struct Hold {
    lot: LotId,
    partition: u32,
    undo: Tables,
    redo: Redo,
}

pub struct Group {
    pub id: GroupId,
    pub epoch: Epoch,
    pub stream: Vec<Entry>,
    pub committed: usize,
    /// Of the committed part.
    pub ledger: Ledger<Redo>,
    pub agent: Option<Agent>,
    /// The highest sequencer that the leader has heard of.
    pub order: Epoch,
    pub tables: Tables,
    hold: Option<Hold>,
    /// Reads that wait until what they saw is committed.
    confirming: Vec<(LotId, usize)>,
    /// What a lot that reads has seen: the lots that had changed the partition.
    pub seen: BTreeMap<LotId, BTreeSet<LotId>>,
    /// Records that have been committed since this was looked at.
    pub news: Vec<Record<Redo>>,
    pub wrong: Vec<String>,
}

impl Group {
    pub fn new(id: GroupId) -> Group {
        Group {
            id,
            epoch: Epoch(0),
            stream: Vec::new(),
            committed: 0,
            ledger: Ledger::default(),
            agent: None,
            order: Epoch(0),
            tables: Tables::default(),
            hold: None,
            confirming: Vec::new(),
            seen: BTreeMap::new(),
            news: Vec::new(),
            wrong: Vec::new(),
        }
    }

    pub fn led(&self) -> Option<Epoch> {
        self.agent.as_ref().map(|_| self.epoch)
    }

    pub fn receive(&mut self, message: ToAgent, now: u64) {
        if let ToAgent::NewOrder { epoch } = &message {
            self.order = self.order.max(*epoch);
        }
        self.agent.as_mut().expect("it is led").receive(message, now);
    }

    pub fn depose(&mut self, random: &mut Random, counts: &mut Counts) {
        self.agent = None;
        self.hold = None;
        self.confirming.clear();
        let tail = self.stream.len() - self.committed;
        let kept = random.below(tail as u64 + 1) as usize;
        counts.lost_tails += u64::from(kept < tail);
        self.stream.truncate(self.committed + kept);
    }

    /// All that is left of the stream counts as soon as the next epoch is open.
    pub fn elect(&mut self) {
        self.epoch = Epoch(self.epoch.0 + 1);
        self.order = Epoch(0);
        while self.committed < self.stream.len() {
            self.commit_one();
        }
        let mut ledger = Ledger::default();
        let values = (0..PARTITIONS).map(|partition| (partition, AMOUNT)).collect();
        let mut tables = Tables { values, ..Tables::default() };
        for entry in &self.stream {
            let Entry::Lot(record) = entry else { continue };
            let lot = record.lot();
            match ledger.apply(record.clone()) {
                Ok(ferrite_multi::Applied::Committed(InDoubt { redo, .. })) => {
                    tables.apply(lot.expect("of a lot"), &redo);
                }
                Ok(_) => {}
                Err(error) => self.wrong.push(format!("the stream of {} contradicts itself: {error}", self.id)),
            }
        }
        self.tables = tables;
        self.agent = Some(Agent::new(self.id, self.epoch, &ledger));
    }

    pub fn commit_some(&mut self, random: &mut Random, _now: u64) {
        if self.agent.is_none() {
            return;
        }
        let open = self.stream.len() - self.committed;
        for _ in 0..random.below(open as u64 + 1) {
            let lot = self.commit_one();
            let agent = self.agent.as_mut().expect("it is led");
            match lot {
                Some(Record::Prepared { lot, .. }) => agent.prepared(lot),
                Some(Record::Decided { lot, .. }) => agent.decided(lot),
                Some(Record::Refused { lot, .. }) => agent.refused(lot),
                Some(Record::Ordered { epoch, .. }) => agent.ordered(epoch),
                _ => {}
            }
        }
        let committed = self.committed;
        let confirmed: Vec<LotId> =
            self.confirming.iter().filter(|(_, end)| *end <= committed).map(|(lot, _)| *lot).collect();
        self.confirming.retain(|(_, end)| *end > committed);
        let agent = self.agent.as_mut().expect("it is led");
        confirmed.into_iter().for_each(|lot| agent.confirmed(lot));
    }

    fn commit_one(&mut self) -> Option<Record<()>> {
        let entry = &self.stream[self.committed];
        self.committed += 1;
        match entry {
            Entry::Batch(partition) => {
                let doubt = self.ledger.in_doubt().values().any(|part| part.redo.iter().any(|(of, _)| of == partition));
                if doubt {
                    self.wrong.push(format!("{} executes where a part is in doubt", self.id));
                }
                None
            }
            Entry::Lot(record) => {
                let record = record.clone();
                if let Err(error) = self.ledger.apply(record.clone()) {
                    self.wrong.push(format!("the stream of {} contradicts itself: {error}", self.id));
                }
                self.news.push(record.clone());
                Some(record.map(|_| ()))
            }
        }
    }

    /// A call of one partition, where it is not held.
    pub fn execute_one(&mut self, random: &mut Random) {
        let partition = random.below(u64::from(PARTITIONS)) as u32;
        let is_held = self.hold.as_ref().is_some_and(|hold| hold.partition == partition);
        if !is_held && self.agent.as_ref().is_some_and(Agent::is_settled) {
            self.stream.push(Entry::Batch(partition));
        }
    }

    pub fn carry_out(&mut self, effect: AgentEffect, now: u64, random: &mut Random, counts: &mut Counts) {
        let agent = self.agent.as_mut().expect("its effect");
        match effect {
            AgentEffect::Hold { lot, partitions } => {
                assert!(self.hold.is_none(), "one lot at a time");
                if lot.epoch < self.order {
                    self.wrong.push(format!("{} holds for {lot}, whose sequencer was replaced", self.id));
                }
                if agent.held(lot) {
                    let undo = self.tables.clone();
                    self.hold = Some(Hold { lot, partition: partitions[0].0, undo, redo: Vec::new() });
                }
            }
            AgentEffect::Run { lot, work } => {
                let hold = self.hold.as_mut().filter(|hold| hold.lot == lot).expect("it is held");
                let change = i64::from_le_bytes(work.try_into().expect("eight bytes"));
                let value = self.tables.values[&hold.partition] + change;
                let ok = value >= 0 && !random.percent(3);
                if ok && change != 0 {
                    self.tables.apply(lot, &vec![(hold.partition, change)]);
                    hold.redo.push((hold.partition, change));
                }
                let lots = self.tables.lots.get(&hold.partition);
                self.seen.insert(lot, lots.into_iter().flatten().copied().collect());
                agent.ran(lot, ok, value.to_le_bytes().to_vec(), now);
            }
            AgentEffect::Prepare { lot, settled, participants } => {
                let hold = self.hold.as_ref().filter(|hold| hold.lot == lot);
                let redo = hold.map(|hold| hold.redo.clone()).unwrap_or_default();
                self.stream.push(Entry::Lot(Record::Prepared { lot, settled, participants, redo }));
            }
            AgentEffect::Append(record) => {
                counts.refused += u64::from(matches!(record, Record::Refused { .. }));
                self.append(record);
            }
            AgentEffect::Commit { lot } => {
                assert!(self.hold.take().is_some_and(|hold| hold.lot == lot), "its hold ends");
            }
            AgentEffect::StepBack { lot } => {
                let hold = self.hold.take().filter(|hold| hold.lot == lot).expect("its hold ends");
                self.tables = hold.undo;
            }
            AgentEffect::Release { lot } => {
                let hold = self.hold.take().filter(|hold| hold.lot == lot).expect("its hold ends");
                self.tables = hold.undo;
                self.confirming.push((lot, self.stream.len()));
            }
            AgentEffect::ToSequencer(_) | AgentEffect::ToAgent { .. } => unreachable!("the world sends it"),
        }
    }

    fn append(&mut self, record: Record<()>) {
        // A part that an earlier leader prepared counts from here on.
        if let Record::Decided { lot, outcome: Outcome::Committed, .. } = &record
            && self.hold.as_ref().is_none_or(|hold| hold.lot != *lot)
            && let Some(part) = self.ledger.in_doubt().get(lot)
        {
            self.tables.apply(*lot, &part.redo);
        }
        self.stream.push(Entry::Lot(record.map(|()| Vec::new())));
    }

    /// Nothing is left of any lot.
    pub fn is_at_rest(&self) -> Result<(), String> {
        let agent = self.agent.as_ref().ok_or("it is not led")?;
        if !agent.is_idle() || self.hold.is_some() || self.committed < self.stream.len() {
            return Err(format!("lots are under way: {:?}", agent.in_doubt().collect::<Vec<_>>()));
        }
        if !self.ledger.in_doubt().is_empty() || !self.ledger.outcomes().is_empty() {
            return Err(format!("lots are remembered: {:?}", self.ledger));
        }
        Ok(())
    }
}
