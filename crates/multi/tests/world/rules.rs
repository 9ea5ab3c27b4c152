//! What must hold: one outcome of a lot in all streams, what callers were told, what readers saw,
//! and that everything is forgotten in the end.

use super::group::Redo;
use super::{AMOUNT, PARTITIONS, World};
use ferrite_base::GroupId;
use ferrite_multi::{LotId, Outcome, Record};
use std::collections::{BTreeMap, BTreeSet};

/// What committed streams say of a lot.
#[derive(Default)]
pub struct Fact {
    participants: Vec<GroupId>,
    prepared: BTreeSet<GroupId>,
    refused: BTreeSet<GroupId>,
    decided: BTreeMap<GroupId, Outcome>,
}

impl World {
    pub fn check(&mut self) -> Result<(), String> {
        for id in self.groups.keys().copied().collect::<Vec<_>>() {
            let group = self.groups.get_mut(&id).expect("it is there");
            if let Some(wrong) = group.wrong.pop() {
                return Err(wrong);
            }
            for record in std::mem::take(&mut group.news) {
                self.note(id, record)?;
            }
        }
        for lot in std::mem::take(&mut self.answered) {
            self.check_told(lot)?;
        }
        self.wrong.pop().map_or(Ok(()), Err)
    }

    fn note(&mut self, id: GroupId, record: Record<Redo>) -> Result<(), String> {
        let Some(lot) = record.lot() else { return Ok(()) };
        let fact = self.facts.entry(lot).or_default();
        match record {
            Record::Prepared { .. } if self.wanted[&lot].refuses => return Err(format!("{lot} was to change nothing")),
            Record::Prepared { participants, .. } => {
                fact.participants = participants;
                fact.prepared.insert(id);
            }
            Record::Refused { .. } => drop(fact.refused.insert(id)),
            Record::Decided { outcome, .. } => drop(fact.decided.insert(id, outcome)),
            Record::Ordered { .. } | Record::Settled { .. } => {}
        }
        if !fact.prepared.is_disjoint(&fact.refused) {
            return Err(format!("{id} has prepared and refused {lot}"));
        }
        let commits = fact.decided.values().any(|outcome| *outcome == Outcome::Committed);
        let aborts = fact.decided.values().any(|outcome| *outcome == Outcome::Aborted) || !fact.refused.is_empty();
        if commits && (aborts || !fact.participants.iter().all(|group| fact.prepared.contains(group))) {
            return Err(format!("{lot} is committed without all of its parts"));
        }
        match self.told.get(&lot) {
            Some(Outcome::Committed) if aborts => Err(format!("{lot} was answered as committed, and is aborted")),
            Some(Outcome::Aborted) if commits => Err(format!("{lot} was answered as aborted, and is committed")),
            _ => Ok(()),
        }
    }

    /// At the moment of the answer.
    fn check_told(&mut self, lot: LotId) -> Result<(), String> {
        let fact = self.facts.entry(lot).or_default();
        let groups = &self.wanted[&lot].groups;
        match self.told[&lot] {
            Outcome::Committed if !groups.iter().all(|group| fact.prepared.contains(group)) => {
                Err(format!("{lot} is answered as committed before all parts are"))
            }
            Outcome::Aborted if fact.decided.values().any(|outcome| *outcome == Outcome::Committed) => {
                Err(format!("{lot} is answered as aborted, and is committed"))
            }
            _ => Ok(()),
        }
    }

    /// A lot that was read in one group was read in all of its groups; one that had been answered
    /// when the read was begun, too.
    pub fn check_read(&mut self, lot: LotId) {
        let wanted = &self.wanted[&lot];
        let seen = |group: &GroupId| self.groups[group].seen.get(&lot);
        let all: BTreeSet<LotId> = wanted.groups.iter().filter_map(seen).flatten().copied().collect();
        for earlier in &wanted.after {
            let mut changed = self.wanted[earlier].groups.iter().take(2);
            if changed.any(|group| seen(group).is_some_and(|seen| !seen.contains(earlier))) {
                self.wrong.push(format!("{lot} has not read {earlier}, which had been answered"));
            }
        }
        for other in all {
            let of = &self.wanted[&other];
            // The first two of its groups were changed.
            for group in of.groups.iter().take(2).filter(|group| wanted.groups.contains(group)) {
                if of.partition == wanted.partition && !seen(group).is_some_and(|seen| seen.contains(&other)) {
                    self.wrong.push(format!("{lot} has read {other} in part"));
                }
            }
            if self.told.get(&other) == Some(&Outcome::Aborted) {
                self.wrong.push(format!("{lot} has read {other}, which was aborted"));
            }
        }
    }

    pub fn check_rest(&mut self) -> Result<(), String> {
        self.check()?;
        for (id, group) in &self.groups {
            group.is_at_rest().map_err(|what| format!("at rest, {id}: {what}"))?;
        }
        let sum: i64 = self.groups.values().flat_map(|group| group.tables.values.values()).sum();
        let expected = self.groups.len() as i64 * i64::from(PARTITIONS) * AMOUNT;
        if sum != expected {
            return Err(format!("the sum is {sum}, and was {expected}"));
        }
        for (lot, outcome) in &self.told {
            let fact = self.facts.get(lot);
            let decided = fact.map_or(0, |fact| fact.decided.len());
            let groups = self.wanted[lot].groups.len();
            if *outcome == Outcome::Committed && decided != groups {
                return Err(format!("{lot} was answered as committed, and {decided} of {groups} groups have that"));
            }
        }
        Ok(())
    }
}
