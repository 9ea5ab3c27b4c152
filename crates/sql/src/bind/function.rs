//! Function calls: scalar functions by name, the ones that are short for CASE, and aggregates.

use super::Binder;
use super::comparison::compared_with;
use super::folding::Branches;
use super::literal::constant_as;
use super::proposals::{Proposal, Types};
use super::scope::{ArgumentColumns, object_name};
use super::size::check_count;
use super::types::{Typed, common_type, widest};
use crate::errors::as_written;
use ferrite_base::limits::AGGREGATES_MAX;
use ferrite_base::{UserError, UserResult, earlier};
use ferrite_expr::function::Resolved;
use ferrite_expr::{Aggregate, AggregateKind, CompareOperator, Expr, Function};
use ferrite_plan::Adoption;
use ferrite_value::temporal::TimeUnit;
use ferrite_value::{ColumnType, SqlType};
use sqlparser::ast;

impl Binder<'_> {
    pub fn function(&mut self, function: &ast::Function) -> UserResult<Typed> {
        let name = object_name(&function.name)?;
        if super::texts::is_text_aggregate(&name) {
            return self.text_aggregate(&name, function);
        }
        if super::percentile::is_percentile(&name) {
            return self.percentile(&name, function);
        }
        if function.null_treatment.is_some() || !function.within_group.is_empty() {
            return Err(UserError::not_supported(format!("NULLS and WITHIN GROUP of {name}")));
        }
        let (arguments, distinct) = arguments_of(&name, &function.args)?;
        // What is stored is computed by SQL's function, whatever users declare later.
        let stored = self.schema_object.is_some() && super::suggest::is_function(&name);
        if let Some(user) = self.catalog.functions.get(&name).filter(|_| !stored) {
            return self.user_function(user, function, &arguments, distinct);
        }
        if let Some(over) = &function.over {
            if distinct {
                return Err(UserError::not_supported(format!("DISTINCT in the window function {name}")));
            }
            return self.window_function(&name, &arguments, function.filter.as_deref(), over);
        }
        if let Some(kind) = aggregate_named(&name) {
            return self.aggregate(&name, kind, &arguments, distinct, function.filter.as_deref());
        }
        if function.filter.is_some() {
            return Err(UserError::compile(
                "42601",
                format!("FILTER is not allowed in {name}, which is not an aggregate"),
            ));
        }
        if is_only_window(&name) {
            return Err(UserError::compile("42P20", format!("the window function {name} needs OVER"))
                .with_hint(format!("{name}(...) OVER (PARTITION BY ... ORDER BY ...)")));
        }
        if distinct {
            return Err(UserError::compile("42601", format!("DISTINCT is not allowed in {name}")));
        }
        let arguments: Vec<&ast::Expr> = arguments
            .into_iter()
            .map(|argument| argument.ok_or_else(|| UserError::compile("42601", format!("{name}(*) is not a function"))))
            .collect::<UserResult<_>>()?;
        match name.as_str() {
            "COALESCE" | "IFNULL" | "NVL" => self.coalesce(&arguments),
            "NULLIF" => self.null_if(&arguments),
            "DECODE" => self.decode(&arguments),
            "MIGRATING" => self.migrating(&arguments),
            "GROUPING" => self.grouping(&arguments),
            _ if Function::takes_unit(&name) && !arguments.is_empty() => self.function_of_time(&name, &arguments),
            _ => self.call(&name, &arguments),
        }
    }

    /// A scalar function.
    pub fn call(&mut self, name: &str, arguments: &[&ast::Expr]) -> UserResult<Typed> {
        let bound = self.expressions(arguments)?;
        match name {
            "GREATEST" => self.extreme_of(name, Function::Greatest, bound),
            "LEAST" => self.extreme_of(name, Function::Least, bound),
            _ => {
                let resolve = |types: &[Option<SqlType>]| Function::resolve(name, types);
                self.call_of(resolve, bound).map_err(|error| super::suggest::function(error, name))
            }
        }
    }

    /// The function that `resolve` finds for the arguments' types.
    pub fn call_of(
        &mut self,
        resolve: impl Fn(&[Option<SqlType>]) -> UserResult<Resolved>,
        mut bound: Vec<Typed>,
    ) -> UserResult<Typed> {
        let types: Vec<Option<SqlType>> = bound.iter().map(|typed| typed.sql_type).collect();
        let resolved = resolve(&types)?;
        for (place, typed) in bound.iter_mut().enumerate().filter(|(_, typed)| typed.sql_type.is_none()) {
            let to = resolved.argument_types[place];
            // Where values of several types are taken as they are, the value decides; a count of
            // characters is always an integer.
            let taken_as = |given: SqlType| {
                let mut types = types.clone();
                types[place] = Some(given);
                resolve(&types).ok().map(|other| other.argument_types[place])
            };
            let others = [SqlType::Float, SqlType::Decimal, SqlType::Date, SqlType::Varbinary, SqlType::Geography];
            let adoption = if others.into_iter().any(|other| other != to && taken_as(other) == Some(other)) {
                Adoption::Carried
            } else if to == SqlType::Varchar && taken_as(SqlType::Float) == Some(to) {
                // Made a text as CAST makes it.
                Adoption::Computed
            } else {
                Adoption::Fixed
            };
            let is_possible = Types::that(|given| taken_as(given).is_some());
            self.propose(typed, Proposal::of(widest(to), adoption).taking(is_possible));
        }
        self.resolved_call(resolved, bound)
    }

    /// GREATEST and LEAST: their arguments are compared with each other, and one of them is the
    /// result.
    fn extreme_of(&mut self, name: &str, function: Function, mut arguments: Vec<Typed>) -> UserResult<Typed> {
        let resolve = |arguments: &[Typed]| {
            let types: Vec<Option<SqlType>> = arguments.iter().map(|typed| typed.sql_type).collect();
            Function::resolve(name, &types)
        };
        if !arguments.is_empty() && arguments.iter().all(|typed| typed.sql_type.is_none()) {
            if let [first, others @ ..] = arguments.as_slice() {
                others.iter().try_for_each(|other| self.compared_undecided(&first.expr, &other.expr))?;
            }
            let arguments = arguments.into_iter().map(|typed| typed.expr).collect();
            let expr = self.folding.fold(Expr::Call { function, arguments })?;
            return Ok(Typed::of(expr, None));
        }
        let proposal = Proposal::common_with(resolve(&arguments)?.result_type, Adoption::Computed);
        arguments.iter_mut().for_each(|typed| self.propose(typed, proposal));
        // A parameter is as wide as its kind.
        self.resolved_call(resolve(&arguments)?, arguments)
    }

    /// A function whose first argument is a unit of time; TRUNCATE of numbers has the same name.
    fn function_of_time(&mut self, name: &str, arguments: &[&ast::Expr]) -> UserResult<Typed> {
        let unit = match arguments[0] {
            ast::Expr::Identifier(ident) if ident.quote_style.is_none() => Some(ident.value.to_uppercase()),
            ast::Expr::Value(value) => match &value.value {
                ast::Value::SingleQuotedString(text) => Some(text.to_uppercase()),
                _ => None,
            },
            _ => None,
        };
        match (name, unit) {
            ("TRUNCATE", unit) if unit.as_deref().is_none_or(|unit| TimeUnit::from_name(unit).is_none()) => {
                self.call(name, arguments)
            }
            ("TIME_WINDOW", Some(unit)) if arguments.len() == 4 => {
                let ast::Expr::Identifier(edge) = arguments[3] else {
                    return Err(UserError::syntax(format!(
                        "TIME_WINDOW takes START or END, not {}",
                        as_written(arguments[3])
                    )));
                };
                let bound = self.expressions(&arguments[1..3])?;
                let edge = edge.value.to_uppercase();
                let resolve = |types: &[Option<SqlType>]| {
                    let resolved = Function::resolve_with_unit(name, &unit, types)?;
                    Ok(Resolved { function: resolved.function.with_window_edge(&edge)?, ..resolved })
                };
                self.call_of(resolve, bound)
            }
            (_, Some(unit)) => self.call_with_unit(name, &unit, &arguments[1..]),
            (_, None) => Err(no_unit(name, arguments[0])),
        }
    }

    fn call_with_unit(&mut self, name: &str, unit: &str, arguments: &[&ast::Expr]) -> UserResult<Typed> {
        let bound = self.expressions(arguments)?;
        self.call_of(|types| Function::resolve_with_unit(name, unit, types), bound)
    }

    fn expressions(&mut self, arguments: &[&ast::Expr]) -> UserResult<Vec<Typed>> {
        arguments.iter().map(|argument| self.expression(argument)).collect()
    }

    pub fn resolved_call(&mut self, resolved: Resolved, bound: Vec<Typed>) -> UserResult<Typed> {
        let mut arguments = Vec::with_capacity(bound.len());
        for (mut typed, to) in bound.into_iter().zip(&resolved.argument_types) {
            let takes = Types::that(|given| given.same_kind(*to));
            self.propose(&mut typed, Proposal::of(widest(*to), Adoption::Fixed).taking(takes));
            arguments.push(match typed.sql_type {
                // A hexadecimal literal is a number where one is needed.
                Some(SqlType::Varbinary) if to.is_integer() => constant_as(typed, *to)?,
                // What it answers is made of it.
                _ if resolved.result_type == SqlType::Timestamp => self.folding.convert_common(typed, *to)?,
                _ => self.folding.convert(typed, *to)?,
            });
        }
        let expr = self.folding.fold(Expr::Call { function: resolved.function, arguments: arguments.into() })?;
        Ok(Typed::new(expr, resolved.result_type))
    }

    pub fn extract(&mut self, field: &ast::DateTimeField, operand: &ast::Expr) -> UserResult<Typed> {
        let unit = match field {
            ast::DateTimeField::Custom(ident) => ident.value.to_uppercase(),
            other => other.to_string().to_uppercase(),
        };
        self.call_with_unit("EXTRACT", &unit, &[operand])
    }

    pub fn trim(
        &mut self,
        side: Option<&ast::TrimWhereField>,
        what: Option<&ast::Expr>,
        operand: &ast::Expr,
    ) -> UserResult<Typed> {
        let mut bound = vec![self.expression(operand)?];
        if let Some(what) = what {
            bound.push(self.expression(what)?);
        }
        let side = match side {
            None | Some(ast::TrimWhereField::Both) => ferrite_expr::function::TrimSide::Both,
            Some(ast::TrimWhereField::Leading) => ferrite_expr::function::TrimSide::Leading,
            Some(ast::TrimWhereField::Trailing) => ferrite_expr::function::TrimSide::Trailing,
        };
        let resolve = |types: &[Option<SqlType>]| {
            Ok(Resolved { function: Function::Trim(side), ..Function::resolve("TRIM", types)? })
        };
        self.call_of(resolve, bound)
    }

    /// The first argument that is not NULL.
    fn coalesce(&mut self, arguments: &[&ast::Expr]) -> UserResult<Typed> {
        let mut bound: Vec<Typed> = Vec::with_capacity(arguments.len());
        let mut perhaps = false;
        for argument in arguments {
            let (typed, _) = self.evaluated_perhaps(perhaps, |binder| binder.expression(argument))?;
            perhaps |= !typed.is_null();
            bound.push(typed);
        }
        let common = self.one_type(&mut bound.iter_mut().collect::<Vec<_>>())?;
        let Some(mut last) = bound.pop() else {
            return Err(UserError::compile("42883", "COALESCE takes one argument or more"));
        };
        // After a constant that is not NULL none is asked for; they only have a say in the type.
        if let Some(decided) = bound.iter().position(|typed| typed.constant().is_some() && !typed.is_null()) {
            last = bound.swap_remove(decided);
            bound.truncate(decided);
            if let Some(sql_type) = common {
                last = Typed::new(self.folding.convert_common(last, sql_type)?, sql_type);
            }
        }
        let mut branches = Vec::with_capacity(bound.len());
        for typed in bound {
            let operand = Box::new(self.again(&typed)?.expr);
            branches.push((Expr::IsNull { operand, negated: true }, typed));
        }
        self.searched_case(branches, last)
    }

    fn null_if(&mut self, arguments: &[&ast::Expr]) -> UserResult<Typed> {
        let [left, right] = arguments else { return Err(UserError::compile("42883", "NULLIF takes 2 arguments")) };
        let mut left = self.expression(left)?;
        let right = self.expression(right)?;
        if right.sql_type.is_some() {
            // It is not only compared, but the result, too, which has its type.
            self.propose(&mut left, compared_with(&right).adopted(Adoption::Carried));
        }
        let again = self.again(&left)?;
        let equal = self.compare(again, CompareOperator::Equal, right)?.expr;
        let null = Typed::of(Expr::null(), left.sql_type);
        self.searched_case(vec![(equal, null)], left)
    }

    /// DECODE(x, a, result, b, result, ..., otherwise); a NULL among the values matches NULL.
    fn decode(&mut self, arguments: &[&ast::Expr]) -> UserResult<Typed> {
        if arguments.len() < 3 {
            return Err(UserError::compile("42883", "DECODE takes 3 arguments or more"));
        }
        let operand = self.expression(arguments[0])?;
        let mut rest = &arguments[1..];
        let mut branches = Branches::with_capacity(rest.len() / 2);
        while let [value, result, tail @ ..] = rest {
            let condition = |binder: &mut Self| -> UserResult<Expr> {
                let value = binder.expression(value)?;
                let operand = binder.again(&operand)?;
                if value.is_null() {
                    return Ok(Expr::IsNull { operand: Box::new(operand.expr), negated: false });
                }
                if earlier::values() {
                    return Ok(binder.compare(operand, CompareOperator::Equal, value)?.expr);
                }
                // NULL equals NULL, wherever it comes from.
                let (left, right) = binder.comparable(operand, value)?;
                binder.folding.fold(Expr::IsDistinct { left: Box::new(left), right: Box::new(right), negated: true })
            };
            branches.add(self, condition, |binder| binder.expression(result))?;
            rest = tail;
        }
        let mut otherwise = match rest {
            [otherwise] => branches.otherwise(self, otherwise)?,
            _ => Typed::null(),
        };
        let mut branches = branches.bound;
        let known = branches.iter().map(|(_, result)| result.sql_type).try_fold(otherwise.sql_type, common_type);
        if let Ok(Some(known)) = known {
            let proposal = Proposal::common_with(known, Adoption::Result);
            branches.iter_mut().for_each(|(_, result)| self.propose(result, proposal));
            self.propose(&mut otherwise, proposal);
        }
        let results = || branches.iter().map(|(_, result): &(Expr, Typed)| result.sql_type);
        let common = results().try_fold(otherwise.sql_type, common_type);
        let types = || results().chain([otherwise.sql_type]).flatten();
        // Where texts stand beside other values, all are texts.
        if common.is_err() && types().any(|of| of == SqlType::Varchar) && !types().any(|of| of == SqlType::Varbinary) {
            for result in branches.iter_mut().map(|(_, result)| result).chain([&mut otherwise]) {
                if result.sql_type.is_some() {
                    let (text, _) = self
                        .evaluated_perhaps(true, |binder| binder.folding.convert(result.clone(), SqlType::Varchar))?;
                    *result = Typed::new(text, SqlType::Varchar);
                }
            }
        }
        self.searched_case(branches, otherwise)
    }

    /// MIGRATING: of the one table in reach whose rows may be.
    pub fn migrating(&mut self, arguments: &[&ast::Expr]) -> UserResult<Typed> {
        if !arguments.is_empty() {
            return Err(UserError::compile("42883", "MIGRATING takes no arguments"));
        }
        let rows = self.migrating_rows()?;
        let arguments = [rows].into();
        Ok(Typed::boolean(Expr::Call { function: Function::Migrating, arguments }))
    }

    fn aggregate(
        &mut self,
        name: &str,
        kind: AggregateKind,
        arguments: &[Option<&ast::Expr>],
        distinct: bool,
        filter: Option<&ast::Expr>,
    ) -> UserResult<Typed> {
        if distinct && arguments == [None] {
            return Err(UserError::compile("42601", format!("{name}(*) is not a function")));
        }
        let row: Option<Vec<&ast::Expr>> = match arguments {
            _ if kind != AggregateKind::Count || !distinct => None,
            [Some(ast::Expr::Tuple(row))] => Some(row.iter().collect()),
            [_] => None,
            several => several.iter().copied().collect(),
        };
        self.gathered(name, |binder| match row {
            Some(row) => binder.count_of_rows(&row, filter),
            None => binder.one_argument(name, kind, arguments, distinct, filter),
        })
    }

    /// An aggregate of the block, bound by `bind`.
    pub fn gathered(&mut self, name: &str, bind: impl FnOnce(&mut Self) -> UserResult<Aggregate>) -> UserResult<Typed> {
        let allowed = self.scope().is_some_and(|scope| std::mem::replace(&mut scope.aggregates.allowed, false));
        if !allowed {
            return Err(UserError::compile("42803", format!("the aggregate {name} is not allowed here")).with_hint(
                "aggregates are allowed in the SELECT list, HAVING and ORDER BY, but not inside each other",
            ));
        }
        let windows = self.scope().is_some_and(|scope| std::mem::replace(&mut scope.windows.allowed, false));
        let first_subquery = self.plan.subqueries.len();
        self.arguments.push(ArgumentColumns::of(self.scope_depth()));
        let bound = bind(self);
        let columns = self.arguments.pop();
        let aggregate = bound?;
        if columns.is_some_and(|columns| columns.are_outer()) && !earlier::values() {
            return Err(UserError::compile(
                "42803",
                format!("the aggregate {name} of columns of the outer query only is not allowed in a subquery"),
            )
            .with_hint("compute it in the outer query, or in a derived table that the outer query reads"));
        }
        let inside = first_subquery..self.plan.subqueries.len();
        if let Some(scope) = self.scope() {
            scope.aggregates.allowed = true;
            if !inside.is_empty() {
                scope.aggregates.inside.push(inside);
            }
            scope.windows.allowed = windows;
        }
        self.add_aggregate(aggregate)
    }

    /// COUNT(DISTINCT a, b): how many different rows of values there are without a NULL in them.
    fn count_of_rows(&mut self, row: &[&ast::Expr], filter: Option<&ast::Expr>) -> UserResult<Aggregate> {
        let filter = filter.map(|filter| self.condition(filter)).transpose()?;
        let mut arguments = Vec::with_capacity(row.len());
        for expr in row {
            let (typed, _) = self.evaluated_perhaps(filter.is_some(), |binder| binder.expression(expr))?;
            arguments.push(typed.expr);
        }
        let mut argument = Expr::Call { function: Function::Together, arguments: arguments.into() };
        if let Some(filter) = filter {
            argument = Expr::Case { branches: [(filter, argument)].into(), otherwise: Box::new(Expr::null()) };
        }
        let kind = AggregateKind::Count;
        let argument_type = SqlType::Varbinary;
        let result_type = SqlType::Bigint;
        Ok(Aggregate { kind, distinct: true, argument: Some(argument), argument_type, result_type, user: None })
    }

    fn one_argument(
        &mut self,
        name: &str,
        kind: AggregateKind,
        arguments: &[Option<&ast::Expr>],
        distinct: bool,
        filter: Option<&ast::Expr>,
    ) -> UserResult<Aggregate> {
        let (kind, argument, argument_type) = self.aggregate_argument(name, kind, arguments, filter)?;
        let result_type = Aggregate::result_type_for(kind, argument_type)?;
        // These are the same for distinct values as for all.
        let distinct = distinct
            && !matches!(
                kind,
                AggregateKind::Min
                    | AggregateKind::Max
                    | AggregateKind::ApproximateCountDistinct
                    | AggregateKind::BoolAnd
                    | AggregateKind::BoolOr
            );
        Ok(Aggregate { kind, distinct, argument, argument_type, result_type, user: None })
    }

    /// The value that an aggregate takes from each row, and its type. FILTER makes it NULL for the
    /// rows that do not count.
    pub fn aggregate_argument(
        &mut self,
        name: &str,
        kind: AggregateKind,
        arguments: &[Option<&ast::Expr>],
        filter: Option<&ast::Expr>,
    ) -> UserResult<(AggregateKind, Option<Expr>, SqlType)> {
        let [argument] = arguments else {
            return Err(UserError::compile("42883", format!("{name} takes one argument")));
        };
        let filter = filter.map(|filter| self.condition(filter)).transpose()?;
        let filtered = |expr: Expr| match &filter {
            None => expr,
            Some(filter) => {
                Expr::Case { branches: vec![(filter.clone(), expr)].into(), otherwise: Box::new(Expr::null()) }
            }
        };
        let Some(argument) = argument else {
            return match (kind, &filter) {
                (AggregateKind::Count, None) => Ok((AggregateKind::CountRows, None, SqlType::Bigint)),
                (AggregateKind::Count, Some(_)) => Ok((kind, Some(filtered(Expr::integer(1))), SqlType::Bigint)),
                _ => Err(UserError::compile("42601", format!("{name}(*) is not a function"))),
            };
        };
        let (mut typed, _) = self.evaluated_perhaps(filter.is_some(), |binder| binder.expression(argument))?;
        match kind {
            AggregateKind::BoolAnd | AggregateKind::BoolOr => {
                self.propose(&mut typed, Proposal::of(ColumnType::fixed(SqlType::Boolean), Adoption::Computed));
            }
            AggregateKind::Count | AggregateKind::ApproximateCountDistinct => {}
            _ => self.numbers_if_undecided(&typed.expr, Types::of_aggregate(kind)),
        }
        let argument_type = typed.sql_type.unwrap_or(match kind {
            AggregateKind::BoolAnd | AggregateKind::BoolOr => SqlType::Boolean,
            _ => SqlType::Bigint,
        });
        Ok((kind, Some(filtered(typed.expr)), argument_type))
    }

    fn add_aggregate(&mut self, aggregate: Aggregate) -> UserResult<Typed> {
        let result_type = aggregate.result_type;
        let alike: Vec<Expr> =
            one_of_the_values(&aggregate).filter(|value| self.is_undecided(value)).cloned().into_iter().collect();
        let slot = match self.scope().and_then(|scope| scope.aggregates.slot) {
            Some(slot) => slot,
            None => {
                let slot = self.plan.new_slot()?;
                if let Some(scope) = self.scope() {
                    scope.aggregates.slot = Some(slot);
                }
                slot
            }
        };
        let Some(scope) = self.scope() else { return Err(UserError::internal("an aggregate without a query")) };
        let found = &mut scope.aggregates.found;
        let group_count = scope.aggregates.group_count;
        let position = match found.iter().position(|other| *other == aggregate) {
            Some(position) => position,
            None => {
                check_count(found.len() + 1, AGGREGATES_MAX, "aggregates in one SELECT")?;
                found.push(aggregate);
                found.len() - 1
            }
        };
        let column = group_count + position as u16;
        Ok(self.column_like(slot, column, result_type, &alike))
    }
}

/// What the aggregate takes of each row, where its result is one of these values and has their
/// type.
fn one_of_the_values(aggregate: &Aggregate) -> Option<&Expr> {
    fn percentile_of(argument: &Expr) -> Option<&Expr> {
        match argument {
            // By FILTER.
            Expr::Case { branches, .. } => percentile_of(&branches.first()?.1),
            Expr::Call { function: Function::Together, arguments } => arguments.get(1),
            _ => None,
        }
    }
    match aggregate.kind {
        AggregateKind::Percentile(_) => percentile_of(aggregate.argument.as_ref()?),
        kind if is_extreme(kind) => aggregate.argument.as_ref(),
        _ => None,
    }
}

/// MIN or MAX.
pub(super) fn is_extreme(kind: AggregateKind) -> bool {
    matches!(kind, AggregateKind::Min | AggregateKind::Max)
}

/// A function of time without a unit: units are words of the statement, which decide its type.
#[cold]
fn no_unit(name: &str, given: &ast::Expr) -> UserError {
    let given = match given {
        ast::Expr::Value(value) if matches!(value.value, ast::Value::Placeholder(_)) => "a parameter".to_owned(),
        other => as_written(other),
    };
    UserError::compile("42601", format!("{name} needs a unit of time, not {given}"))
        .with_hint(format!("write the unit first: {name}(DAY, ...)"))
}

/// Window functions that are nothing else.
pub(crate) fn is_only_window(name: &str) -> bool {
    matches!(
        name,
        "ROW_NUMBER"
            | "RANK"
            | "DENSE_RANK"
            | "PERCENT_RANK"
            | "CUME_DIST"
            | "NTILE"
            | "LAG"
            | "LEAD"
            | "FIRST_VALUE"
            | "LAST_VALUE"
            | "NTH_VALUE"
    )
}

pub(crate) fn aggregate_named(name: &str) -> Option<AggregateKind> {
    Some(match name {
        "COUNT" => AggregateKind::Count,
        "SUM" => AggregateKind::Sum,
        "AVG" => AggregateKind::Average,
        "MIN" => AggregateKind::Min,
        "MAX" => AggregateKind::Max,
        "APPROX_COUNT_DISTINCT" => AggregateKind::ApproximateCountDistinct,
        "BOOL_AND" | "EVERY" => AggregateKind::BoolAnd,
        "BOOL_OR" => AggregateKind::BoolOr,
        "VAR_POP" => AggregateKind::VariancePopulation,
        "VAR_SAMP" | "VARIANCE" => AggregateKind::VarianceSample,
        "STDDEV_POP" => AggregateKind::DeviationPopulation,
        "STDDEV_SAMP" | "STDDEV" => AggregateKind::DeviationSample,
        _ => return None,
    })
}

/// The arguments (None for `*`) and whether DISTINCT stands before them.
fn arguments_of<'a>(
    name: &str,
    arguments: &'a ast::FunctionArguments,
) -> UserResult<(Vec<Option<&'a ast::Expr>>, bool)> {
    let list = match arguments {
        ast::FunctionArguments::None => return Ok((Vec::new(), false)),
        ast::FunctionArguments::List(list) if list.clauses.is_empty() => list,
        _ => return Err(UserError::not_supported(format!("such arguments of {name}"))),
    };
    let mut bound = Vec::with_capacity(list.args.len());
    for argument in &list.args {
        bound.push(match argument {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr),
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard) => None,
            _ => return Err(UserError::not_supported(format!("such arguments of {name}"))),
        });
    }
    Ok((bound, matches!(list.duplicate_treatment, Some(ast::DuplicateTreatment::Distinct))))
}
