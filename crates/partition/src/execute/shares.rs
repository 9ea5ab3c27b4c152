//! A call of which this group runs its shares, and other groups theirs (`ferrite_plan::divide`).

use super::{Executor, Request};
use ferrite_base::{GroupPartitions, PartitionId, UserError, UserResult};
use ferrite_exec::{Call, OwnShare, ResultSink, Scratch};
use ferrite_plan::{Indivisible, Program, Share, Step, divide, owner_of_key};
use ferrite_table::Store;
use std::cell::RefCell;
use std::time::Duration;

/// Bytes of an answer before its first table, without texts.
const HEAD_BYTES: usize = 22;

/// What is this group's of a call.
pub(crate) struct GroupShares<'g> {
    /// The partitions of the group.
    pub of: &'g GroupPartitions,
    /// It runs what one group is to run, whichever.
    pub is_first: bool,
    /// Whether each statement leaves a table, once it has run.
    emits: RefCell<Vec<bool>>,
}

impl<'g> GroupShares<'g> {
    pub fn new(of: &'g GroupPartitions, is_first: bool) -> GroupShares<'g> {
        GroupShares { of, is_first, emits: RefCell::default() }
    }

    /// `stores`: those that are held, which need not be all of the group.
    pub(super) fn run(
        &self,
        stores: &mut [Store],
        call: &Call<'_>,
        scratch: &mut Scratch,
        sink: &mut impl ResultSink,
    ) -> UserResult<()> {
        let shares = self.own_shares(stores, call)?;
        let emits = |(step, share): (&Step, &OwnShare)| {
            *share != OwnShare::None && matches!(step, Step::Execute { emit: true, .. })
        };
        *self.emits.borrow_mut() = call.program.body.iter().zip(&shares).map(emits).collect();
        let is_elsewhere = |partition: PartitionId| self.of.place_of(partition).is_none();
        ferrite_exec::run_shares(stores, call, &shares, &is_elsewhere, scratch, sink)
    }

    /// What all partitions of the group are to do is done on all.
    pub(super) fn require_all(&self, stores: &[Store]) -> UserResult<()> {
        let is_held = |id: &PartitionId| stores.iter().any(|store| store.partition() == *id);
        self.of.ids().find(|id| !is_held(id)).map_or(Ok(()), |missing| Err(not_held(missing)))
    }

    fn own_shares(&self, stores: &[Store], call: &Call<'_>) -> UserResult<Vec<OwnShare>> {
        let program = call.program;
        let is_partitioned = |id| stores[0].table(id).definition().is_partitioned();
        let shares = divide(program, &is_partitioned).map_err(|why| indivisible(program, &why))?;
        let own = |share: &Share| {
            Ok(match share {
                Share::Owner { key, sql_type } => {
                    let owner = owner_of_key(key, *sql_type, call.parameters, stores[0].ring())?;
                    match self.of.place_of(owner) {
                        None => OwnShare::None,
                        Some(_) if stores.iter().any(|store| store.partition() == owner) => OwnShare::Whole,
                        Some(_) => return Err(not_held(owner)),
                    }
                }
                Share::Any if self.is_first => OwnShare::Whole,
                Share::Any => OwnShare::None,
                Share::Rows => OwnShare::OwnRows,
                Share::Same => {
                    self.require_all(stores)?;
                    OwnShare::Whole
                }
            })
        };
        shares.iter().map(own).collect()
    }
}

/// A fault of the party that began the lot.
#[cold]
fn not_held(partition: PartitionId) -> UserError {
    UserError::internal(format!("partition {partition} is needed and was not held"))
}

#[cold]
fn indivisible(program: &Program, why: &Indivisible) -> UserError {
    let subject = match why.statement {
        Some(statement) => format!("statement {} of {}", statement + 1, program.name),
        None => program.name.clone(),
    };
    UserError::not_supported(format!("{subject} over several groups of partitions"))
        .with_detail(format!("{subject}: {}", why.reason))
}

impl Executor {
    /// Runs this group's shares of the program. By statement, the table that it leaves, its length
    /// in front; None where another group has it. On failure the stores are as before; on success
    /// the changes are in the stores' redo and undo, for the caller to take and commit.
    /// `own_time`: how long it may take by its own wish.
    pub(crate) fn call_shares(
        &mut self,
        stores: &mut [Store],
        request: &Request<'_>,
        shares: &GroupShares<'_>,
        own_time: Option<Duration>,
    ) -> UserResult<Vec<Option<Vec<u8>>>> {
        self.within_time(own_time, |executor| executor.shares_within(stores, request, shares))
    }

    fn shares_within(
        &mut self,
        stores: &mut [Store],
        request: &Request<'_>,
        shares: &GroupShares<'_>,
    ) -> UserResult<Vec<Option<Vec<u8>>>> {
        // What is kept belongs to the catalog's programs.
        let kept = std::mem::take(&mut self.headers);
        let mut out = Vec::new();
        let (result, writer) = self.execute(stores, request, Some(shares), None, &mut out);
        let result = result.map(|()| writer.finish());
        self.headers = kept;
        result?;
        Ok(tables(&out[HEAD_BYTES..], &shares.emits.borrow()))
    }
}

/// Cuts an answer's tables apart.
fn tables(mut rest: &[u8], emits: &[bool]) -> Vec<Option<Vec<u8>>> {
    let mut next = |emits: &bool| {
        emits.then(|| {
            let length = u32::from_be_bytes(rest[..4].try_into().expect("four bytes")) as usize;
            let (table, behind) = rest.split_at(4 + length);
            rest = behind;
            table.to_vec()
        })
    };
    let tables = emits.iter().map(&mut next).collect();
    assert!(rest.is_empty(), "each statement that is to leave a table has left one");
    tables
}
