//! Names to numbers: resolves names against the catalog, and settles types. What it answers is a
//! bound tree: a plan in its plainest form, which the planner is given next.
//!
//! A [`Binder`] lives for one program. What it numbers (slots, registers, subqueries, parameters)
//! is numbered through the whole program.

mod aggregation;
mod arithmetic;
pub(crate) mod change;
pub(crate) mod common;
mod comparison;
pub(crate) mod digits;
pub(crate) mod distinct_on;
pub(crate) mod expression;
pub(crate) mod folding;
pub(crate) mod from;
pub(crate) mod function;
pub(crate) mod grouping;
pub(crate) mod literal;
pub(crate) mod number;
pub(crate) mod ordering;
pub(crate) mod parameters;
pub(crate) mod percentile;
pub(crate) mod place;
pub(crate) mod plain_view;
mod projection;
pub(crate) mod proposals;
pub(crate) mod query;
pub(crate) mod returning;
pub(crate) mod row;
pub(crate) mod scope;
pub(crate) mod series;
mod size;
mod subquery;
pub(crate) mod suggest;
pub(crate) mod texts;
mod time_arithmetic;
pub(crate) mod types;
pub(crate) mod user;
pub(crate) mod window;

use crate::parse::statement::SqlKind;
use crate::planner::context::{PlanContext, Reach};
use ferrite_base::{UserError, UserResult};
use ferrite_catalog::Catalog;
use ferrite_plan::{Plan, Register};
use scope::{Scope, Variable};

pub(crate) struct Binder<'c> {
    pub catalog: &'c Catalog,
    /// What planning needs to know of the program, and numbers in it.
    pub plan: PlanContext<'c>,
    /// Names of WITH in reach, innermost last.
    common_names: Vec<common::CommonName>,
    /// How often a table of WITH has been bound.
    common_bound: usize,
    parameters: Vec<parameters::BoundParameter>,
    /// What a trial learns of them; see [`parameters`].
    undecided: parameters::Undecided,
    /// Parameters were declared with names; `?` is then an error.
    pub declared_parameters: bool,
    pub registers: Vec<Register>,
    /// Variables and parameters in reach, innermost last.
    pub variables: Vec<Variable>,
    /// FROM scopes in reach, innermost last.
    scopes: Vec<Scope>,
    /// Queries being bound, innermost last.
    frames: Vec<QueryFrame>,
    /// Aggregates whose arguments are being bound, innermost last.
    arguments: Vec<scope::ArgumentColumns>,
    /// A view is being defined: it may read a stream.
    pub streams_allowed: bool,
    /// What is being defined whose values are kept with the rows, if something is.
    pub schema_object: Option<&'static str>,
    pub folding: folding::Folding,
    /// The SELECT that is bound next is EXISTS's own: nobody reads its list.
    list_is_unread: bool,
    /// Plain views in what is bound.
    views: plain_view::Views,
    /// How deep the recursion is.
    depth: usize,
    /// Expressions bound so far; see [`size`].
    expressions: usize,
    /// For each subquery the parts of its expressions, those of subqueries inside included.
    subquery_parts: Vec<usize>,
}

struct QueryFrame {
    /// Scopes from here on are the query's own.
    first_scope: usize,
    correlated: bool,
}

impl<'c> Binder<'c> {
    pub fn new(catalog: &'c Catalog, reach: Reach) -> Self {
        Binder {
            catalog,
            plan: PlanContext::new(catalog, reach),
            common_names: Vec::new(),
            common_bound: 0,
            parameters: Vec::new(),
            undecided: parameters::Undecided::default(),
            declared_parameters: false,
            registers: Vec::new(),
            variables: Vec::new(),
            scopes: Vec::new(),
            frames: Vec::new(),
            arguments: Vec::new(),
            streams_allowed: false,
            schema_object: None,
            folding: folding::Folding::default(),
            list_is_unread: false,
            views: plain_view::Views::default(),
            depth: 0,
            expressions: 0,
            subquery_parts: Vec::new(),
        }
    }

    /// The binder's door: binds a statement that is not a schema change, once the types of its
    /// parameters are known. Queries go on in `query.rs`, data changes in `change.rs`.
    pub fn statement(&mut self, statement: &SqlKind) -> UserResult<Plan> {
        self.learn_types(statement)?;
        let plan = self.plan_of(statement)?;
        if self.has_learned() {
            // An expression may have been bound for another type.
            return Err(UserError::internal("the type of a parameter was found after its expression was bound"));
        }
        Ok(plan)
    }

    fn plan_of(&mut self, statement: &SqlKind) -> UserResult<Plan> {
        match statement {
            SqlKind::Query(query) => Ok(Plan::Query(self.in_frame(|binder| binder.query(query))?.0)),
            SqlKind::Insert { insert, upsert } => self.insert(insert, *upsert),
            SqlKind::Update(update) => self.update(update),
            SqlKind::Delete { delete, offset, migrate } => self.delete(delete, offset.as_deref(), *migrate),
            SqlKind::Explain { .. } => Err(UserError::not_supported("EXPLAIN inside a procedure")
                .with_hint("@ExplainProc shows the plans of a procedure")),
            SqlKind::Truncate { table } => {
                let table = self.changeable_table(table, "truncated")?;
                Ok(Plan::Truncate { table: table.id })
            }
        }
    }

    /// Guards a recursive step.
    pub fn deeper<T>(&mut self, step: impl FnOnce(&mut Self) -> UserResult<T>) -> UserResult<T> {
        if self.depth >= ferrite_base::limits::NESTING_MAX {
            return Err(crate::parse::tokens::too_deep());
        }
        self.depth += 1;
        let result = step(self);
        self.depth -= 1;
        result
    }

    /// Runs `bind` as a query of its own and says whether it refers to rows outside.
    pub fn in_frame<T>(&mut self, bind: impl FnOnce(&mut Self) -> UserResult<T>) -> UserResult<(T, bool)> {
        self.frames.push(QueryFrame { first_scope: self.scopes.len(), correlated: false });
        let result = bind(self);
        let frame = self.frames.pop().expect("the frame pushed above");
        Ok((result?, frame.correlated))
    }
}
