//! What planning knows of the program around a query, and numbers in it.

use super::estimate::{NoStatistics, ROWS_UNKNOWN, Statistics};
use super::routing::Facts;
use ferrite_base::{UserError, UserResult};
use ferrite_catalog::{Catalog, Table};
use ferrite_expr::Expr;
use ferrite_plan::{Query, Subquery};

/// Which stores the program will see when it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// One partition's.
    Local,
    /// All partitions'.
    All,
}

/// How far a subquery is.
#[derive(Default)]
pub(super) struct PlannedSubquery {
    pub(super) done: bool,
    /// It has become one that looks for this among its rows.
    pub(super) operand: Option<Expr>,
}

/// Lives for one program: slots and subqueries are numbered through the whole of it.
pub(crate) struct PlanContext<'c> {
    pub catalog: &'c Catalog,
    pub reach: Reach,
    pub statistics: &'c dyn Statistics,
    slots: u16,
    pub subqueries: Vec<Subquery>,
    pub(super) subqueries_planned: Vec<PlannedSubquery>,
    /// Tables of WITH that are computed once.
    pub common_tables: Vec<Query>,
    /// This many of them are planned.
    pub(super) common_planned: usize,
    /// What the statement says about partitions.
    pub facts: Facts,
}

impl<'c> PlanContext<'c> {
    pub fn new(catalog: &'c Catalog, reach: Reach) -> Self {
        let statistics = &NoStatistics;
        let facts = Facts::default();
        PlanContext {
            catalog,
            reach,
            statistics,
            slots: 0,
            subqueries: Vec::new(),
            subqueries_planned: Vec::new(),
            common_tables: Vec::new(),
            common_planned: 0,
            facts,
        }
    }

    /// Rows of the table that the program will see, as far as that is known.
    pub fn rows(&self, table: &Table) -> f64 {
        let rows = self.statistics.rows(table.id).map_or(ROWS_UNKNOWN, |rows| rows as f64);
        match self.reach {
            Reach::Local if table.is_partitioned() => rows / self.statistics.partitions().max(1) as f64,
            _ => rows,
        }
    }

    /// A new slot.
    pub fn new_slot(&mut self) -> UserResult<u16> {
        let slot = self.slots;
        self.slots = slot.checked_add(1).ok_or_else(|| UserError::limit("too many tables in one procedure"))?;
        Ok(slot)
    }

    /// How many slots there are.
    pub fn slots(&self) -> u16 {
        self.slots
    }
}
