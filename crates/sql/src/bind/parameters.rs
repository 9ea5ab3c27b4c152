//! Parameters without names, and where their types come from.
//!
//! A `?` takes the type of what it meets: its neighbour, or what becomes of the expression, the
//! subquery or the column that it is in. Often that is known only after the `?` has been bound, as
//! in `COALESCE(?, ?) = n`. So a statement is bound on trial, by a binder of its own, as often as a
//! trial learns another type. A trial gathers what all contexts propose, and the types are chosen
//! at its end ([`proposals`](super::proposals)); what else it makes is thrown away. The plan is
//! made by a last pass that knows all types from the start: there, an expression's type never
//! changes after the expression has been bound, and a value cannot reach a place that was made for
//! another type.
//!
//! A parameter whose type nothing in the statement decides is *undecided*: it is described as
//! VARCHAR, and the type of each value decides. Where the meaning would depend on the type, as in
//! `? < ?`, that is error 42P18.

use super::Binder;
use super::proposals::{Proposal, Proposals, Types};
use super::types::{self, Typed};
use crate::parse::statement::SqlKind;
use ferrite_base::limits::PARAMETER_TRIALS_MAX;
use ferrite_base::{ErrorKind, UserError, UserResult};
use ferrite_expr::{Expr, Function};
use ferrite_plan::{Adoption, Parameter, Query, QueryBody, SubqueryKind};
use ferrite_value::{ColumnType, OwnedValue, SqlType};
use std::collections::BTreeMap;

#[derive(Clone, Default)]
pub(super) struct BoundParameter {
    name: Option<String>,
    /// None while no context has said it.
    column_type: Option<ColumnType>,
    adoption: Adoption,
    array: bool,
    /// It had no type when this pass began.
    began_open: bool,
    /// This pass has come across it.
    is_met: bool,
}

/// What a pass notes of parameters without a type.
#[derive(Default)]
pub(super) struct Undecided {
    on_trial: bool,
    /// Columns of sources, groups and windows whose type is that of these parameters, by slot and
    /// place.
    columns: BTreeMap<(u16, u16), Vec<u16>>,
    /// What their contexts say.
    proposals: Proposals,
}

impl Binder<'_> {
    /// Makes room for parameters without names, some of which may have their types already.
    pub fn add_placeholders(&mut self, presets: &[Option<SqlType>]) {
        for preset in presets {
            self.parameters.push(BoundParameter {
                column_type: preset.map(types::widest),
                began_open: preset.is_none(),
                ..BoundParameter::default()
            });
        }
    }

    pub fn add_declared_parameter(&mut self, name: &str, column_type: ColumnType) {
        self.parameters.push(BoundParameter {
            name: Some(name.to_owned()),
            column_type: Some(column_type),
            ..BoundParameter::default()
        });
    }

    pub fn parameter_count(&self) -> usize {
        self.parameters.len()
    }

    pub fn parameter_type(&self, index: u16) -> Option<ColumnType> {
        self.parameters.get(usize::from(index)).and_then(|parameter| parameter.column_type)
    }

    /// How the parameters came by their types.
    pub fn adoptions(&self) -> Vec<Adoption> {
        let adoption = |parameter: &BoundParameter| match parameter.column_type {
            Some(_) => parameter.adoption,
            None => Adoption::Undecided,
        };
        self.parameters.iter().map(adoption).collect()
    }

    /// The parameters as the program declares them; what nothing has decided is text.
    pub fn finished_parameters(&self) -> Vec<Parameter> {
        self.parameters
            .iter()
            .map(|parameter| Parameter {
                name: parameter.name.clone(),
                column_type: parameter.column_type.unwrap_or(ColumnType::unbounded(SqlType::Varchar)),
                array: parameter.array,
                table: false,
            })
            .collect()
    }

    /// Finds the types of the parameters in the statement.
    pub(super) fn learn_types(&mut self, statement: &SqlKind) -> UserResult<()> {
        self.learn_types_within(statement, PARAMETER_TRIALS_MAX)
    }

    fn learn_types_within(&mut self, statement: &SqlKind, trials_max: usize) -> UserResult<()> {
        self.begin_pass();
        for _ in 0..trials_max {
            if !self.parameters.iter().any(|parameter| parameter.began_open) {
                return Ok(());
            }
            let mut trial = Binder::new(self.catalog, self.plan.reach);
            trial.parameters = std::mem::take(&mut self.parameters);
            trial.declared_parameters = self.declared_parameters;
            trial.registers.clone_from(&self.registers);
            trial.variables.clone_from(&self.variables);
            trial.undecided.on_trial = true;
            let bound = trial.plan_of(statement);
            let learned = trial.end_trial();
            self.parameters = std::mem::take(&mut trial.parameters);
            // The error may be one of types that were not known yet.
            let is_provisional = |error: &UserError| learned && error.kind() == ErrorKind::Compile;
            if let Err(error) = bound
                && !is_provisional(&error)
            {
                return Err(error);
            }
            let is_left = self.parameters.iter().any(BoundParameter::is_undecided);
            self.begin_pass();
            if !learned || !is_left {
                return Ok(());
            }
        }
        Err(UserError::limit(format!("the types of the parameters are not found in {trials_max} trials"))
            .with_hint("say the types of some of them: CAST(? AS BIGINT), CAST(? AS VARCHAR)"))
    }

    fn begin_pass(&mut self) {
        for parameter in &mut self.parameters {
            parameter.began_open = parameter.name.is_none() && parameter.column_type.is_none();
            parameter.is_met = false;
        }
    }

    /// Ends a trial: whether it has found a type for a parameter that had none.
    fn end_trial(&mut self) -> bool {
        for (index, column_type, adoption) in std::mem::take(&mut self.undecided.proposals).chosen() {
            self.decide(index, column_type, adoption);
        }
        self.has_learned()
    }

    /// Whether a parameter that had no type when this pass began has one now.
    pub(super) fn has_learned(&self) -> bool {
        self.parameters.iter().any(|parameter| parameter.began_open && parameter.column_type.is_some())
    }

    /// A `?` as an expression.
    pub fn parameter(&mut self, index: u16) -> Typed {
        if let Some(parameter) = self.parameters.get_mut(usize::from(index)) {
            parameter.is_met = true;
        }
        let sql_type = self.parameter_type(index).map(|column_type| column_type.sql_type);
        Typed::of(Expr::Parameter(index), sql_type)
    }

    fn decide(&mut self, index: u16, column_type: ColumnType, adoption: Adoption) {
        if let Some(parameter) = self.parameters.get_mut(usize::from(index))
            && parameter.column_type.is_none()
        {
            parameter.column_type = Some(column_type);
            parameter.adoption = adoption;
        }
    }

    /// A context says what type the parameter has: at the end of a trial that counts among others.
    fn propose_for(&mut self, index: u16, proposal: Proposal) {
        match self.undecided.on_trial {
            true if self.parameters.get(usize::from(index)).is_some_and(|parameter| parameter.began_open) => {
                self.undecided.proposals.add(index, proposal);
            }
            true => {}
            false => self.decide(index, proposal.column_type, proposal.adoption),
        }
    }

    /// The parameter after IN, whose elements are compared with the operand.
    pub fn settle_array_parameter(&mut self, index: u16, operand: &Typed) {
        let proposal = Proposal::of(types::widest(operand.decided_type()), Adoption::Compared).taking(Types::ALL);
        if self.undecided.on_trial && self.is_undecided(&operand.expr) && operand.sql_type.is_none() {
            // The elements have the type of the operand: a text, if nothing else decides.
            self.propose(&mut operand.clone(), proposal.assumed());
        } else {
            self.propose_for(index, proposal);
        }
        if let Some(parameter) = self.parameters.get_mut(usize::from(index)) {
            parameter.array = true;
        }
    }

    /// Gives what has no type yet the type that its context wants.
    pub fn settle(&mut self, typed: &mut Typed, column_type: ColumnType) {
        self.propose(typed, Proposal::of(column_type, Adoption::Fixed));
    }

    /// [`Binder::settle`] where the context takes other types, too, and with what is to become of
    /// values of other types. To parameters that are only part of the expression the type is
    /// carried: their values decide.
    pub fn propose(&mut self, typed: &mut Typed, proposal: Proposal) {
        if typed.sql_type.is_some() {
            return;
        }
        let parameters = self.parameters_of(&typed.expr).unwrap_or_default();
        let lone = matches!(typed.expr, Expr::Parameter(_));
        let proposal = if lone { proposal } else { proposal.carried() };
        for index in &parameters {
            self.propose_for(*index, proposal);
        }
        if !parameters.is_empty() {
            typed.sql_type = Some(proposal.column_type.sql_type);
        }
    }

    /// [`Binder::propose`] for an output column of a query.
    pub fn propose_output(&mut self, query: &Query, position: usize, proposal: Proposal) {
        for index in self.parameters_of_output(query, position).unwrap_or_default() {
            self.propose_for(index, proposal.carried());
        }
    }

    /// Whether parameters decide the type of an output column.
    pub fn is_open_output(&self, query: &Query, position: usize) -> bool {
        self.parameters_of_output(query, position).is_some_and(|parameters| !parameters.is_empty())
    }

    /// The type of an output column; None while nothing says it.
    pub fn output_type(&self, query: &Query, position: usize) -> Option<SqlType> {
        match self.parameters_of_output(query, position) {
            None => Some(query.columns[position].sql_type),
            Some(parameters) => self.type_met(&parameters),
        }
    }

    /// Brings values of one place (of a CASE, of VALUES, of a set operation) to one type: the
    /// parameters among them take it. None where nothing says which.
    pub fn one_type(&mut self, values: &mut [&mut Typed]) -> UserResult<Option<SqlType>> {
        let common =
            |values: &[&mut Typed]| values.iter().map(|typed| typed.sql_type).try_fold(None, types::common_type);
        let Some(met) = common(values)? else {
            self.are_alike(values.iter().map(|typed| &typed.expr));
            return Ok(None);
        };
        let proposal = Proposal::common_with(met, Adoption::Computed);
        values.iter_mut().for_each(|typed| self.propose(typed, proposal));
        // A parameter is as wide as its kind.
        common(values)
    }

    /// Notes that these have one type, which nothing says yet.
    pub fn are_alike<'e>(&mut self, exprs: impl Iterator<Item = &'e Expr>) {
        if self.undecided.on_trial {
            let alike = exprs.filter_map(|expr| self.parameters_of(expr)).flatten().collect();
            self.undecided.proposals.are_alike(alike);
        }
    }

    /// [`Binder::are_alike`] for an output column of two queries.
    pub fn outputs_are_alike(&mut self, queries: [&Query; 2], position: usize) {
        if self.undecided.on_trial {
            let parameters = queries.map(|query| self.parameters_of_output(query, position));
            self.undecided.proposals.are_alike(parameters.into_iter().flatten().flatten().collect());
        }
    }

    /// Whether types may be provisional: what does not fit is refused by the last pass.
    pub fn is_on_trial(&self) -> bool {
        self.undecided.on_trial
    }

    /// Both sides of a comparison that says nothing about their type. An error, unless it may be
    /// learned later, or one side is NULL.
    pub fn compared_undecided(&mut self, left: &Expr, right: &Expr) -> UserResult<()> {
        if self.undecided.on_trial {
            let [left, right] = [left, right].map(|expr| self.parameters_of(expr).unwrap_or_default());
            self.note_compared(left, right);
            return Ok(());
        }
        if self.is_undecided(left) && self.is_undecided(right) { Err(cannot_be_found_out()) } else { Ok(()) }
    }

    /// [`Binder::compared_undecided`] with an output column of a query.
    pub fn compared_with_undecided(&mut self, operand: &Expr, query: &Query, position: usize) -> UserResult<()> {
        let others = self.parameters_of_output(query, position).unwrap_or_default();
        let own = self.parameters_of(operand).unwrap_or_default();
        if own.is_empty() || others.is_empty() {
            return Ok(());
        }
        if !self.undecided.on_trial {
            return Err(cannot_be_found_out());
        }
        self.note_compared(own, others);
        Ok(())
    }

    fn note_compared(&mut self, left: Vec<u16>, right: Vec<u16>) {
        if !left.is_empty() && !right.is_empty() {
            self.undecided.proposals.are_compared([left, right].concat());
        }
    }

    /// They are numbers, if nothing else says what they are and they are compared with nothing:
    /// SUM(?). The aggregate takes these types.
    pub fn numbers_if_undecided(&mut self, expr: &Expr, takes: Types) {
        if self.undecided.on_trial {
            let number = Proposal::of(ColumnType::fixed(SqlType::Bigint), Adoption::Undecided);
            for index in self.parameters_of(expr).unwrap_or_default() {
                self.propose_for(index, number.taking(takes).assumed());
            }
        }
    }

    /// A column of `sql_type`, or else of the type that these expressions have.
    pub fn column_like(&mut self, slot: u16, column: u16, sql_type: SqlType, of: &[Expr]) -> Typed {
        let parameters = self.parameters_of_all(of.iter()).unwrap_or_default();
        if !parameters.is_empty() {
            self.undecided.columns.insert((slot, column), parameters);
        }
        self.read(Expr::column(slot, column), sql_type)
    }

    /// The columns of a source are those of the query.
    pub fn note_columns_of(&mut self, slot: u16, query: &Query) {
        let columns = self.undecided_columns(slot, query);
        self.undecided.columns.extend(columns);
    }

    /// [`Binder::note_columns_of`] for a table of WITH that is computed once.
    pub fn note_columns_of_common(&mut self, slot: u16, table: u16) {
        let Some(query) = self.plan.common_tables.get(usize::from(table)) else { return };
        let columns = self.undecided_columns(slot, query);
        self.undecided.columns.extend(columns);
    }

    fn undecided_columns(&self, slot: u16, query: &Query) -> Vec<((u16, u16), Vec<u16>)> {
        let columns = (0..query.columns.len()).filter_map(|position| {
            let parameters = self.parameters_of_output(query, position)?;
            (!parameters.is_empty()).then_some(((slot, position as u16), parameters))
        });
        columns.collect()
    }

    /// The columns of a group's row from `first` on are this many places further behind.
    pub fn move_columns(&mut self, slot: u16, first: u16, by: u16) {
        if by > 0 && !self.undecided.columns.is_empty() {
            let moved = self.undecided.columns.range((slot, first)..=(slot, u16::MAX));
            let moved: Vec<_> =
                moved.map(|((_, place), parameters)| ((slot, place + by), parameters.clone())).collect();
            self.undecided.columns.retain(|(of, place), _| *of != slot || *place < first);
            self.undecided.columns.extend(moved);
        }
    }

    /// The columns of a source are those of another.
    pub fn note_columns_of_slot(&mut self, slot: u16, other: u16) {
        let of_other = self.undecided.columns.range((other, 0)..=(other, u16::MAX));
        let columns: Vec<_> = of_other.map(|((_, place), parameters)| ((slot, *place), parameters.clone())).collect();
        self.undecided.columns.extend(columns);
    }

    /// A column as it is read: of `sql_type`, unless its type is still to be learned.
    pub fn read(&self, expr: Expr, sql_type: SqlType) -> Typed {
        match self.parameters_of(&expr) {
            Some(parameters) if !parameters.is_empty() => Typed::of(expr, self.type_met(&parameters)),
            _ => Typed::new(expr, sql_type),
        }
    }

    /// Nothing has said its type, when this pass began; and it is not NULL.
    pub fn is_undecided(&self, expr: &Expr) -> bool {
        self.parameters_of(expr).is_some_and(|parameters| !parameters.is_empty())
    }

    /// The parameters that decide the type of an expression, none for NULL. None where the type is
    /// known from the start of the pass.
    pub fn parameters_of(&self, expr: &Expr) -> Option<Vec<u16>> {
        match expr {
            Expr::Constant(OwnedValue::Null) => Some(Vec::new()),
            Expr::Parameter(index) => self.parameters.get(usize::from(*index))?.began_open.then(|| vec![*index]),
            Expr::Column { slot, column } => self.undecided.columns.get(&(*slot, *column)).cloned(),
            Expr::Case { branches, otherwise } => {
                self.parameters_of_all(branches.iter().map(|(_, result)| result).chain([&**otherwise]))
            }
            Expr::Call { function: Function::Greatest | Function::Least, arguments } => {
                self.parameters_of_all(arguments.iter())
            }
            Expr::Subquery { subquery, operand: None } => {
                let subquery = self.plan.subqueries.get(usize::from(*subquery))?;
                match subquery.kind {
                    SubqueryKind::Scalar => self.parameters_of_output(&subquery.query, 0),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn parameters_of_all<'e>(&self, exprs: impl Iterator<Item = &'e Expr>) -> Option<Vec<u16>> {
        let mut all = Vec::new();
        for expr in exprs {
            all.append(&mut self.parameters_of(expr)?);
        }
        Some(all)
    }

    fn parameters_of_output(&self, query: &Query, position: usize) -> Option<Vec<u16>> {
        match &query.body {
            QueryBody::Select(select) => self.parameters_of(select.output.get(position)?),
            QueryBody::Values(rows) => self.parameters_of_all(rows.iter().filter_map(|row| row.get(position))),
            QueryBody::SetOperation { left, right, .. } => {
                let mut parameters = self.parameters_of_output(left, position)?;
                parameters.append(&mut self.parameters_of_output(right, position)?);
                Some(parameters)
            }
            QueryBody::Recursive { first, .. } => self.parameters_of_output(first, position),
            QueryBody::Series { .. } => None,
        }
    }

    /// The type that one of them has met in this pass.
    fn type_met(&self, parameters: &[u16]) -> Option<SqlType> {
        parameters.iter().find_map(|index| self.parameter_type(*index)).map(|met| met.sql_type)
    }
}

impl BoundParameter {
    fn is_undecided(&self) -> bool {
        self.is_met && self.began_open && self.column_type.is_none()
    }
}

#[cold]
pub(super) fn cannot_be_found_out() -> UserError {
    UserError::compile("42P18", "the type of a parameter cannot be found out: it is compared with parameters only")
        .with_hint("say the type of one of them: CAST(? AS BIGINT), CAST(? AS VARCHAR)")
}

#[cfg(test)]
mod tests {
    use super::PARAMETER_TRIALS_MAX;
    use crate::bind::Binder;
    use crate::parse::parse_batch;
    use crate::parse::statement::Body;
    use crate::planner::context::Reach;
    use ferrite_base::UserResult;
    use ferrite_catalog::Catalog;
    use ferrite_value::SqlType;

    /// The types of the parameters of a query, found in at most this many trials.
    fn found(text: &str, trials: usize) -> UserResult<Vec<Option<SqlType>>> {
        let catalog = Catalog::default();
        let statements = parse_batch(text)?;
        let Body::Sql(sql) = &statements[0].body else { panic!("a query: {text}") };
        let mut binder = Binder::new(&catalog, Reach::Local);
        let count = sql.placeholders;
        binder.add_placeholders(&vec![None; count.into()]);
        binder.learn_types_within(&sql.kind, trials)?;
        Ok((0..count).map(|index| binder.parameter_type(index).map(|known| known.sql_type)).collect())
    }

    #[test]
    fn types_are_found_within_the_limit_of_trials() {
        // The first trial finds one of the types, the second no other.
        let text = "SELECT ?, CASE WHEN t.a = ? THEN 1 END FROM (VALUES (1)) AS t (a)";
        assert_eq!(found(text, 2).expect("two suffice"), [None, Some(SqlType::Bigint)]);
        let error = found(text, 1).expect_err("one does not");
        assert_eq!(error.message(), "the types of the parameters are not found in 1 trials");
        const { assert!(PARAMETER_TRIALS_MAX > 2) };
    }

    /// A trial for each comparison would bind a long statement as often as it has parameters.
    #[test]
    fn a_chain_of_comparisons_needs_no_more_trials_than_one() {
        let columns: Vec<String> = (0..100).map(|number| format!("a{number}")).collect();
        let equalities: Vec<String> = columns.windows(2).map(|pair| format!("t.{} = t.{}", pair[0], pair[1])).collect();
        let text = format!(
            "SELECT t.a0 FROM (VALUES ({})) AS t ({}) WHERE {} AND t.a99 = 5",
            ["?"; 100].join(", "),
            columns.join(", "),
            equalities.join(" AND ")
        );
        assert_eq!(found(&text, 1).expect("one suffices"), [Some(SqlType::Bigint); 100]);
    }
}
