//! Hash joins: a source's rows in a hash table, found by the keys of the rows before.
//!
//! The first question is answered by reading the rows, which is as fast and keeps nothing; the
//! second builds the table. What it holds counts against the statement's temporary memory.

use crate::evaluator::Evaluator;
use crate::row_table::RowTable;
use crate::rows::{END, Flow, Identity, JoinRow, JoinTable, Kept};
use ferrite_base::UserResult;
use ferrite_plan::Hashed;
use ferrite_value::{Value, compare};
use std::rc::Rc;

impl<'s> Evaluator<'s> {
    /// Binds `slot` to each row of the input that passes its filter and has the keys asked for.
    #[inline(never)]
    pub(crate) fn each_hashed_row(
        &self,
        slot: u16,
        hashed: &'s Hashed,
        visit: &mut dyn FnMut(Identity) -> UserResult<Flow>,
    ) -> UserResult<Flow> {
        let Some(wanted) = self.keys(&hashed.probed)? else { return Ok(Flow::More) };
        match self.kept_join(slot) {
            None => {
                self.keep_join(slot, Kept::Asked);
                self.each_input_row(slot, &hashed.input, &mut |identity| {
                    let passes = self.passes(&hashed.filter)?
                        && self.keys(&hashed.built)?.is_some_and(|keys| equal(&keys, &wanted));
                    if passes { visit(identity) } else { Ok(Flow::More) }
                })
            }
            Some(None) => {
                let table = Rc::new(self.build(slot, hashed)?);
                self.keep_join(slot, Kept::Built(Rc::clone(&table)));
                self.each_match_in(slot, &table, &wanted, visit)
            }
            Some(Some(table)) => self.each_match_in(slot, &table, &wanted, visit),
        }
    }

    fn build(&self, slot: u16, hashed: &'s Hashed) -> UserResult<JoinTable<'s>> {
        let mut table = JoinTable { keys: RowTable::new(hashed.built.len()), chains: Vec::new(), rows: Vec::new() };
        self.each_input_row(slot, &hashed.input, &mut |identity| {
            if !self.passes(&hashed.filter)? {
                return Ok(Flow::More);
            }
            let Some(keys) = self.keys(&hashed.built)? else { return Ok(Flow::More) };
            let place = table.rows.len() as u32;
            let (key, new) = table.keys.insert(&keys);
            self.charge(size_of::<JoinRow<'_>>())?;
            if new {
                self.charge(table.keys.row_bytes() + size_of::<(u32, u32)>())?;
                table.chains.push((place, place));
            } else {
                let last = &mut table.chains[key].1;
                table.rows[*last as usize].next = place;
                *last = place;
            }
            table.rows.push(JoinRow { row: self.bound(slot), identity, next: END });
            Ok(Flow::More)
        })?;
        Ok(table)
    }

    fn each_match_in(
        &self,
        slot: u16,
        table: &JoinTable<'s>,
        wanted: &[Value<'s>],
        visit: &mut dyn FnMut(Identity) -> UserResult<Flow>,
    ) -> UserResult<Flow> {
        if table.rows.is_empty() {
            return Ok(Flow::More);
        }
        // A column has values of one kind; those of another kind hash otherwise even where they are
        // equal.
        if !same_kinds(table.keys.row(0), wanted) {
            for key in 0..table.keys.len() {
                self.tick()?;
                if equal(table.keys.row(key), wanted) && self.each_in_chain(slot, table, key, visit)? == Flow::Enough {
                    return Ok(Flow::Enough);
                }
            }
            return Ok(Flow::More);
        }
        match table.keys.find(wanted) {
            Some(key) => self.each_in_chain(slot, table, key, visit),
            None => Ok(Flow::More),
        }
    }

    fn each_in_chain(
        &self,
        slot: u16,
        table: &JoinTable<'s>,
        key: usize,
        visit: &mut dyn FnMut(Identity) -> UserResult<Flow>,
    ) -> UserResult<Flow> {
        let mut place = table.chains[key].0;
        while place != END {
            let row = &table.rows[place as usize];
            self.tick()?;
            self.bind(slot, row.row);
            if visit(row.identity)? == Flow::Enough {
                return Ok(Flow::Enough);
            }
            place = row.next;
        }
        Ok(Flow::More)
    }
}

fn equal(left: &[Value<'_>], right: &[Value<'_>]) -> bool {
    left.iter().zip(right).all(|(left, right)| compare::compare(left, right).is_some_and(|ordering| ordering.is_eq()))
}

fn same_kinds(left: &[Value<'_>], right: &[Value<'_>]) -> bool {
    left.iter().zip(right).all(|(left, right)| std::mem::discriminant(left) == std::mem::discriminant(right))
}
