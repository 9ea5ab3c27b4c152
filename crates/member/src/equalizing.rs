//! After an accepted loss, a group continues from an older copy than the others: its
//! copies of replicated tables lack what the others have. The node that leads the first group makes
//! them equal again (docs/decisions/0129).
//!
//! A round compares the digests of all groups, takes what differs from the *source* bucket by
//! bucket, and has all groups replace it, by lots; then it compares again. When nothing differs,
//! the metadata record it, and the groups' copies are used again.
//!
//! Invariants:
//! - a group is called equal only after all groups were compared, in one lot, while it was known to
//!   be unequal since the same loss;
//! - meanwhile no transaction changes a replicated table in any group: all groups would change it,
//!   and one that is unequal refuses. So what was read of the source in one lot counts in the next;
//! - after any failure, and where another node leads the first group, work begins with a
//!   comparison.
//!
//! It has neither threads nor clocks. Its calls are those of lots, each with a number that its
//! answer names.

mod pace;

use crate::lots::{GroupsCall, LookUpAgain, MergeRule};
use ferrite_base::{CatalogVersion, Epoch, GroupId, TableId, planted};
use ferrite_meta::State;
use ferrite_notice::Notice;
use ferrite_partition::equalize::{BUCKETS_MAX, EqualizeStep, GroupDigest, decode_rows, of_table};
use ferrite_partition::lots::LotProgram;
use ferrite_partition::{AnswerBatch, Reply, StoreSet};
use pace::EqualizingPace;
use std::collections::{BTreeMap, VecDeque};

/// Between two attempts, and between two times that the metadata are asked to record it.
const AGAIN_NANOS: u64 = 1_000_000_000;
/// About what the rows of a bucket have: what differs is sent with what lies in the same bucket.
const BUCKET_BYTES: u64 = 16 * 1024;
/// About what is read and replaced by one lot, which scans the whole table for it.
const PIECE_BYTES: u64 = 8 * 1024 * 1024;

/// Groups that are unequal, each with the epoch that began with its loss.
pub type UnequalGroups = BTreeMap<GroupId, Epoch>;

/// What a group says, by group; or why there is no answer.
pub type GroupsSaid = Result<BTreeMap<GroupId, Vec<u8>>, String>;

/// What is to be done.
#[derive(Debug)]
pub enum EqualizingWish {
    /// A lot of all groups, whose answer has this number.
    Call {
        number: u64,
        step: EqualizeStep,
        is_read: bool,
    },
    /// The metadata are to record that the group is equal since that loss.
    Equal {
        group: GroupId,
        loss: Epoch,
    },
    Say(Notice),
}

/// Buckets of one table.
#[derive(Clone, Debug)]
struct Piece {
    table: TableId,
    buckets: u32,
    wanted: Vec<u32>,
}

#[derive(Debug)]
enum EqualizingPhase {
    /// Nothing is under way until then.
    Waits { until: u64 },
    /// All groups say what they have.
    Compares,
    /// The same of tables that differ, in buckets.
    Divides { buckets: Vec<(TableId, u32)> },
    /// The source shows the rows of the first piece.
    Reads { pieces: VecDeque<Piece> },
    /// All groups replace what they have in the first piece.
    Replaces { pieces: VecDeque<Piece> },
}

/// While this node leads the first group.
pub struct Equalizing {
    /// So many bytes a lot may change in a group.
    bytes_max: u64,
    groups: Vec<GroupId>,
    unequal: UnequalGroups,
    phase: EqualizingPhase,
    /// Of the last call.
    number: u64,
    /// Rows that were replaced since the copies were last found to differ.
    replaced: u64,
    /// Those of the round, which began with a comparison.
    replaced_in_round: u64,
    /// Why the last attempt failed, as it was reported.
    reported: Option<String>,
    pace: EqualizingPace,
    now: u64,
}

/// Which groups may differ from others, as the metadata say.
pub fn unequal_groups(state: &State) -> UnequalGroups {
    let unequal = state.groups().iter().filter(|(_, group)| group.unequal);
    unequal.filter_map(|(id, group)| Some((*id, group.loss?.0))).collect()
}

/// The lot of a step, by the schema of that version: one answer comes. `again`: done instead where
/// the groups have other schemas.
pub fn call_of(
    step: &EqualizeStep,
    is_read: bool,
    catalog_version: CatalogVersion,
    reply: Reply,
    again: LookUpAgain,
) -> GroupsCall {
    let name = match step {
        EqualizeStep::Digest(_) => "compare",
        EqualizeStep::Rows { .. } => "read",
        EqualizeStep::Replace { .. } => "replace",
    };
    GroupsCall {
        program: LotProgram::Equalize(name.to_owned()),
        catalog_version,
        parameters: step.encode(),
        stores: StoreSet::All,
        merges: Box::new([MergeRule::Append]),
        is_read,
        time_max_millis: 0,
        reply,
        again,
        behind: Vec::new(),
    }
}

/// What the answer to such a lot says.
pub fn said_by(answers: &AnswerBatch) -> GroupsSaid {
    let unreadable = || "an answer cannot be read".to_owned();
    let response = answers.first().ok_or_else(unreadable)?;
    if !answers.is_success() {
        return Err(response.status_text.unwrap_or_default().to_owned());
    }
    let table = response.tables().next().and_then(Result::ok).ok_or_else(unreadable)?;
    of_table(&table).ok_or_else(unreadable)
}

/// Why a step is not done where groups have other schemas.
pub const OTHER_SCHEMA: &str = "the groups have different versions of the schema";

impl Equalizing {
    /// `transaction_bytes_max`: of one transaction.
    pub fn new(groups: impl IntoIterator<Item = GroupId>, transaction_bytes_max: usize) -> Equalizing {
        Equalizing {
            bytes_max: (transaction_bytes_max as u64 / 4).clamp(1, PIECE_BYTES),
            groups: groups.into_iter().collect(),
            unequal: UnequalGroups::new(),
            phase: EqualizingPhase::Waits { until: 0 },
            number: 0,
            replaced: 0,
            replaced_in_round: 0,
            reported: None,
            pace: EqualizingPace::new(),
            now: 0,
        }
    }

    /// This node does not lead the first group, or does so anew: what is under way is another
    /// leader's business.
    pub fn rest(&mut self) {
        self.unequal.clear();
        // An answer that is still on its way has another number than all later calls.
        self.number += 1;
    }

    /// Whether [`Equalizing::advance`] has something to do now.
    pub fn is_due(&self, unequal: &UnequalGroups, now: u64) -> bool {
        let may_begin = matches!(self.phase, EqualizingPhase::Waits { until } if now >= until);
        *unequal != self.unequal || may_begin && !unequal.is_empty()
    }

    /// The group whose copies are right: the first that has lost nothing; if all have, the first.
    fn source(&self) -> GroupId {
        let is_whole = |group: &&GroupId| !self.unequal.contains_key(group);
        *self.groups.iter().find(is_whole).or(self.groups.first()).expect("a cluster has a group")
    }

    /// `unequal`: as the metadata say now. To be called again and again.
    pub fn advance(&mut self, unequal: &UnequalGroups, now: u64, out: &mut Vec<EqualizingWish>) {
        self.now = now;
        if *unequal != self.unequal {
            // What was asked of others is not about these losses.
            self.unequal = unequal.clone();
            (self.replaced, self.reported) = (0, None);
            self.phase = EqualizingPhase::Waits { until: now };
        }
        if let EqualizingPhase::Waits { until } = self.phase
            && now >= until
            && !self.unequal.is_empty()
        {
            if planted!(EqualUnchecked) {
                return self.are_equal(now, out);
            }
            self.phase = EqualizingPhase::Compares;
            self.call(EqualizeStep::Digest(Vec::new()), true, out);
        }
    }

    /// What the groups say to the call of that number.
    pub fn answered(&mut self, number: u64, said: GroupsSaid, now: u64, out: &mut Vec<EqualizingWish>) {
        if number != self.number {
            return;
        }
        self.now = now;
        let phase = std::mem::replace(&mut self.phase, EqualizingPhase::Waits { until: now + AGAIN_NANOS });
        let followed = said.and_then(|said| match phase {
            EqualizingPhase::Waits { .. } => Ok(()),
            EqualizingPhase::Compares => self.compared(&said, now, out),
            EqualizingPhase::Divides { buckets } => self.divided(&buckets, &said, out),
            EqualizingPhase::Reads { pieces } => self.read(pieces, &said, out),
            EqualizingPhase::Replaces { pieces } => self.replaced(pieces, &said, now, out),
        });
        if let Err(reason) = followed {
            self.failed(reason, out);
        }
    }

    fn failed(&mut self, reason: String, out: &mut Vec<EqualizingWish>) {
        if self.reported.as_ref() != Some(&reason) {
            let groups = self.unequal.keys().copied().collect();
            out.push(EqualizingWish::Say(Notice::NotMadeEqual { groups, reason: reason.clone() }));
            self.reported = Some(reason);
        }
    }

    fn call(&mut self, step: EqualizeStep, is_read: bool, out: &mut Vec<EqualizingWish>) {
        self.number += 1;
        self.pace.begin(self.now);
        out.push(EqualizingWish::Call { number: self.number, step, is_read });
    }

    /// By table, the buckets in which any group differs from the source, with their bytes.
    fn differences(&self, said: &BTreeMap<GroupId, Vec<u8>>) -> Result<BTreeMap<TableId, BTreeMap<u32, u64>>, String> {
        let digest = |group: &GroupId| {
            let bytes = said.get(group).ok_or_else(|| format!("group {group} has not answered"))?;
            let digest =
                GroupDigest::decode(bytes).map_err(|_| format!("the digest of group {group} cannot be read"))?;
            // Its leader may be one of before the loss.
            match self.unequal.contains_key(group) && !digest.is_unequal {
                true => Err(format!("the leader of group {group} does not know yet that its copies may differ")),
                false => Ok(digest),
            }
        };
        let source = digest(&self.source())?;
        let mut all = BTreeMap::<TableId, BTreeMap<u32, u64>>::new();
        for group in &self.groups {
            for (table, buckets) in source.differences(&digest(group)?) {
                let known = all.entry(table).or_default();
                for (bucket, bytes) in buckets {
                    let most = known.entry(bucket).or_default();
                    *most = bytes.max(*most);
                }
            }
        }
        Ok(all)
    }

    fn compared(
        &mut self,
        said: &BTreeMap<GroupId, Vec<u8>>,
        now: u64,
        out: &mut Vec<EqualizingWish>,
    ) -> Result<(), String> {
        let differences = self.differences(said)?;
        if differences.is_empty() {
            self.are_equal(now, out);
            return Ok(());
        }
        let of_table = |(table, buckets): (&TableId, &BTreeMap<u32, u64>)| {
            let bytes: u64 = buckets.values().sum();
            let wanted = (bytes / BUCKET_BYTES).min(u64::from(BUCKETS_MAX)).max(1);
            (*table, (wanted as u32).next_power_of_two().min(BUCKETS_MAX))
        };
        let buckets: Vec<(TableId, u32)> = differences.iter().map(of_table).collect();
        self.replaced_in_round = 0;
        self.phase = EqualizingPhase::Divides { buckets: buckets.clone() };
        self.call(EqualizeStep::Digest(buckets), true, out);
        Ok(())
    }

    fn divided(
        &mut self,
        buckets: &[(TableId, u32)],
        said: &BTreeMap<GroupId, Vec<u8>>,
        out: &mut Vec<EqualizingWish>,
    ) -> Result<(), String> {
        let differences = self.differences(said)?;
        let mut pieces = VecDeque::<Piece>::new();
        for (table, buckets) in buckets {
            let mut bytes = self.bytes_max;
            for (bucket, more) in differences.get(table).into_iter().flatten() {
                match pieces.back_mut() {
                    Some(piece) if bytes + more < self.bytes_max => piece.wanted.push(*bucket),
                    _ => {
                        bytes = 0;
                        pieces.push_back(Piece { table: *table, buckets: *buckets, wanted: vec![*bucket] });
                    }
                }
                bytes += more;
            }
        }
        self.next(pieces, out);
        Ok(())
    }

    /// The next piece, or a comparison.
    fn next(&mut self, mut pieces: VecDeque<Piece>, out: &mut Vec<EqualizingWish>) {
        let Some(mut first) = pieces.pop_front() else {
            self.phase = EqualizingPhase::Compares;
            return self.call(EqualizeStep::Digest(Vec::new()), true, out);
        };
        if first.wanted.len() > self.pace.buckets() {
            let wanted = first.wanted.split_off(self.pace.buckets());
            pieces.push_front(Piece { table: first.table, buckets: first.buckets, wanted });
        }
        pieces.push_front(first.clone());
        let Piece { table, buckets, wanted } = first;
        let source = self.source();
        self.phase = EqualizingPhase::Reads { pieces };
        self.call(EqualizeStep::Rows { source, table, buckets, wanted }, true, out);
    }

    fn read(
        &mut self,
        pieces: VecDeque<Piece>,
        said: &BTreeMap<GroupId, Vec<u8>>,
        out: &mut Vec<EqualizingWish>,
    ) -> Result<(), String> {
        self.pace.end_read(self.now);
        let source = self.source();
        let rows = said.get(&source).and_then(|bytes| decode_rows(bytes).ok());
        let rows = rows.ok_or_else(|| format!("the rows of group {source} cannot be read"))?;
        let Piece { table, buckets, wanted } = pieces.front().cloned().expect("a piece was read");
        self.phase = EqualizingPhase::Replaces { pieces };
        let unequal = self.unequal.keys().copied().collect();
        let bytes_max = self.bytes_max;
        self.call(EqualizeStep::Replace { unequal, table, buckets, wanted, bytes_max, rows }, false, out);
        Ok(())
    }

    fn replaced(
        &mut self,
        mut pieces: VecDeque<Piece>,
        said: &BTreeMap<GroupId, Vec<u8>>,
        now: u64,
        out: &mut Vec<EqualizingWish>,
    ) -> Result<(), String> {
        let changed = |bytes: &Vec<u8>| bytes.first_chunk().map_or(0, |count| u64::from_le_bytes(*count));
        let rows: u64 = said.values().map(changed).sum();
        (self.replaced, self.replaced_in_round) = (self.replaced + rows, self.replaced_in_round + rows);
        let piece = pieces.pop_front().expect("a piece was replaced");
        self.pace.end_replace(piece.wanted.len(), now);
        if pieces.is_empty() && self.replaced_in_round == 0 {
            self.phase = EqualizingPhase::Waits { until: now + AGAIN_NANOS };
            return Err("tables differ, and no group has changed a row of them".to_owned());
        }
        self.next(pieces, out);
        Ok(())
    }

    fn are_equal(&mut self, now: u64, out: &mut Vec<EqualizingWish>) {
        // Until the metadata have recorded it, they are asked again.
        self.phase = EqualizingPhase::Waits { until: now + AGAIN_NANOS };
        if self.replaced > 0 {
            let source = self.source();
            out.push(EqualizingWish::Say(Notice::MadeEqual { source, rows: self.replaced }));
            self.replaced = 0;
        }
        self.reported = None;
        out.extend(self.unequal.iter().map(|(group, loss)| EqualizingWish::Equal { group: *group, loss: *loss }));
    }
}

#[cfg(test)]
mod tests;
