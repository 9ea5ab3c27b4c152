//! Window functions: calls with OVER, the windows they name, their frames.

use super::Binder;
use super::ordering::{OrderItem, is_null, order_item};
use super::proposals::{Proposal, Types};
use super::scope::fold_name;
use super::size::check_count;
use super::types::{Typed, widest};
use crate::errors::as_written;
use ferrite_base::{UserError, UserResult, limits};
use ferrite_expr::{Aggregate, AggregateKind, Expr};
use ferrite_plan::Adoption;
use ferrite_plan::{FrameBound, FrameUnit, Window, WindowFrame, WindowFunction, WindowKind};
use ferrite_value::temporal::{MICROSECONDS_PER_DAY, TimeUnit};
use ferrite_value::{ColumnType, SqlType};
use sqlparser::ast;

/// An expression that rows are ordered by, and whether in descending order.
type OrderKey = (Expr, bool);

/// Longest chain of windows that are made from each other.
const WINDOW_CHAIN_MAX: usize = 16;

impl Binder<'_> {
    /// Takes in the WINDOW clause; its windows are bound where they are used.
    pub fn name_windows(&mut self, definitions: &[ast::NamedWindowDefinition]) -> UserResult<()> {
        for ast::NamedWindowDefinition(name, definition) in definitions {
            let spec = match definition {
                ast::NamedWindowExpr::WindowSpec(spec) => spec.clone(),
                ast::NamedWindowExpr::NamedWindow(other) => ast::WindowSpec {
                    window_name: Some(other.clone()),
                    partition_by: Vec::new(),
                    order_by: Vec::new(),
                    window_frame: None,
                },
            };
            let name = fold_name(name);
            let Some(scope) = self.scope() else { return Err(UserError::internal("WINDOW outside a query")) };
            if scope.windows.named.iter().any(|(other, _)| *other == name) {
                return Err(UserError::compile("42712", format!("WINDOW names {name} twice")));
            }
            scope.windows.named.push((name, spec));
        }
        Ok(())
    }

    /// `name(arguments) OVER window`
    pub fn window_function(
        &mut self,
        name: &str,
        arguments: &[Option<&ast::Expr>],
        filter: Option<&ast::Expr>,
        over: &ast::WindowType,
    ) -> UserResult<Typed> {
        let allowed = self.scope().is_some_and(|scope| std::mem::replace(&mut scope.windows.allowed, false));
        if !allowed {
            return Err(UserError::compile("42P20", format!("the window function {name} is not allowed here")).with_hint(
                "window functions are allowed in the SELECT list and ORDER BY, but not inside each other; use a derived table",
            ));
        }
        let result = self.window_function_inside(name, arguments, filter, over);
        if let Some(scope) = self.scope() {
            scope.windows.allowed = true;
        }
        result
    }

    fn window_function_inside(
        &mut self,
        name: &str,
        arguments: &[Option<&ast::Expr>],
        filter: Option<&ast::Expr>,
        over: &ast::WindowType,
    ) -> UserResult<Typed> {
        let spec = match over {
            ast::WindowType::WindowSpec(spec) => spec.clone(),
            ast::WindowType::NamedWindow(name) => ast::WindowSpec {
                window_name: Some(name.clone()),
                partition_by: Vec::new(),
                order_by: Vec::new(),
                window_frame: None,
            },
        };
        let spec = self.whole_spec(spec)?;
        let mut partition_by = Vec::with_capacity(spec.partition_by.len());
        for expr in &spec.partition_by {
            partition_by.push(self.expression(expr)?.expr);
        }
        check_count(spec.partition_by.len() + spec.order_by.len(), limits::SORT_KEYS_MAX, "keys in one window")?;
        let (order_by, types) = self.window_order(&spec)?;
        let frame = self.window_frame(spec.window_frame.as_ref(), &types)?;
        let (kind, arguments, result_type) = self.window_kind(name, arguments, filter)?;
        let alike = alike(&kind, &arguments);
        let slot = match self.scope().and_then(|scope| scope.windows.slot) {
            Some(slot) => slot,
            None => self.plan.new_slot()?,
        };
        let Some(scope) = self.scope() else { return Err(UserError::internal("a window function outside a query")) };
        let windows = &mut scope.windows;
        windows.slot = Some(slot);
        let same = |window: &Window| window.partition_by == partition_by && window.order_by == order_by;
        let window = match windows.windows.iter().position(same) {
            Some(position) => &mut windows.windows[position],
            None => {
                windows.windows.push(Window { partition_by, order_by, functions: Vec::new() });
                windows.windows.last_mut().ok_or_else(|| UserError::internal("the window pushed above"))?
            }
        };
        let known = window
            .functions
            .iter()
            .find(|other| other.kind == kind && other.arguments == arguments && other.frame == frame)
            .map(|other| other.output);
        let output = match known {
            Some(output) => output,
            None => {
                let output = windows.results;
                if usize::from(output) >= limits::TABLE_COLUMNS_MAX {
                    return Err(UserError::limit(format!(
                        "SELECT has more than {} window functions",
                        limits::TABLE_COLUMNS_MAX
                    )));
                }
                windows.results += 1;
                window.functions.push(WindowFunction { kind, arguments, frame, output });
                output
            }
        };
        Ok(self.column_like(slot, output, result_type, &alike))
    }

    /// What a window is ordered by, each descending or not, and the types of its ORDER BY's
    /// entries.
    fn window_order(&mut self, spec: &ast::WindowSpec) -> UserResult<(Vec<OrderKey>, Vec<SqlType>)> {
        let mut order_by = Vec::with_capacity(spec.order_by.len());
        let mut types = Vec::with_capacity(spec.order_by.len());
        for item in &spec.order_by {
            let OrderItem { expr, descending, nulls_apart } = order_item(item)?;
            let mut typed = self.expression(expr)?;
            if let Some(distance) = spec.window_frame.as_ref().and_then(distance_of) {
                // Something that a distance is added to.
                let is_time = matches!(distance, ast::Expr::Interval(_));
                let of = if is_time { SqlType::Timestamp } else { SqlType::Bigint };
                let is_taken = |given: SqlType| match given {
                    SqlType::Timestamp | SqlType::Date => true,
                    given => given.is_numeric() && !is_time,
                };
                let proposal = Proposal::of(ColumnType::fixed(of), Adoption::Carried).taking(Types::that(is_taken));
                self.propose(&mut typed, proposal);
            }
            if nulls_apart {
                order_by.push((is_null(typed.expr.clone()), descending));
            }
            types.push(typed.decided_type());
            order_by.push((typed.expr, descending));
        }
        Ok((order_by, types))
    }

    /// The window with what it takes from the named window that it begins with.
    fn whole_spec(&mut self, mut spec: ast::WindowSpec) -> UserResult<ast::WindowSpec> {
        for _ in 0..WINDOW_CHAIN_MAX {
            let Some(base) = spec.window_name.take() else { return Ok(spec) };
            let name = fold_name(&base);
            let named = self.scope().and_then(|scope| {
                scope.windows.named.iter().find(|(other, _)| *other == name).map(|(_, found)| found.clone())
            });
            let Some(base) = named else {
                return Err(UserError::not_found(format!("window {name}"))
                    .with_hint("WINDOW name AS (...) stands after HAVING"));
            };
            let twice = (!spec.partition_by.is_empty() && !base.partition_by.is_empty())
                || (!spec.order_by.is_empty() && !base.order_by.is_empty());
            if twice {
                return Err(UserError::compile("42P20", format!("window {name} has such a clause already")));
            }
            spec = ast::WindowSpec {
                window_name: base.window_name,
                partition_by: if spec.partition_by.is_empty() { base.partition_by } else { spec.partition_by },
                order_by: if spec.order_by.is_empty() { base.order_by } else { spec.order_by },
                window_frame: spec.window_frame.or(base.window_frame),
            };
        }
        Err(UserError::compile("42P20", "the definitions of these windows are circular"))
    }

    fn window_frame(&mut self, frame: Option<&ast::WindowFrame>, ordered_by: &[SqlType]) -> UserResult<WindowFrame> {
        let Some(frame) = frame else {
            return Ok(WindowFrame {
                unit: FrameUnit::Range,
                start: FrameBound::UnboundedPreceding,
                end: FrameBound::CurrentRow,
            });
        };
        let unit = match frame.units {
            ast::WindowFrameUnits::Rows => FrameUnit::Rows,
            ast::WindowFrameUnits::Range => FrameUnit::Range,
            ast::WindowFrameUnits::Groups => FrameUnit::Groups,
        };
        if unit == FrameUnit::Groups && ordered_by.is_empty() {
            return Err(UserError::compile("42P20", "GROUPS needs ORDER BY in its window"));
        }
        let start = self.frame_bound(&frame.start_bound, unit, ordered_by)?;
        let end = match &frame.end_bound {
            Some(bound) => self.frame_bound(bound, unit, ordered_by)?,
            None => FrameBound::CurrentRow,
        };
        // What the start may be counts up: preceding, current, following.
        let rank = |bound: &FrameBound| match bound {
            FrameBound::UnboundedPreceding => 0,
            FrameBound::Preceding(_) => 1,
            FrameBound::CurrentRow => 2,
            FrameBound::Following(_) => 3,
            FrameBound::UnboundedFollowing => 4,
        };
        let starts_nowhere = start == FrameBound::UnboundedFollowing || end == FrameBound::UnboundedPreceding;
        if starts_nowhere || rank(&start) > rank(&end) {
            return Err(UserError::compile("42P20", "the frame of a window ends before it starts"));
        }
        Ok(WindowFrame { unit, start, end })
    }

    fn frame_bound(
        &mut self,
        bound: &ast::WindowFrameBound,
        unit: FrameUnit,
        ordered_by: &[SqlType],
    ) -> UserResult<FrameBound> {
        let (offset, preceding) = match bound {
            ast::WindowFrameBound::CurrentRow => return Ok(FrameBound::CurrentRow),
            ast::WindowFrameBound::Preceding(None) => return Ok(FrameBound::UnboundedPreceding),
            ast::WindowFrameBound::Following(None) => return Ok(FrameBound::UnboundedFollowing),
            ast::WindowFrameBound::Preceding(Some(offset)) => (offset, true),
            ast::WindowFrameBound::Following(Some(offset)) => (offset, false),
        };
        let count = match unit {
            FrameUnit::Range => self.distance(offset, ordered_by)?,
            _ => self.row_count(if preceding { "PRECEDING" } else { "FOLLOWING" }, offset)?,
        };
        Ok(if preceding { FrameBound::Preceding(count) } else { FrameBound::Following(count) })
    }

    /// The offset of RANGE: how far a row's value of the one ORDER BY may be.
    fn distance(&mut self, offset: &ast::Expr, ordered_by: &[SqlType]) -> UserResult<Expr> {
        let [ordered_by] = ordered_by else {
            return Err(UserError::compile("42P20", "RANGE with an offset needs exactly one ORDER BY in its window")
                .with_hint("use ROWS to count rows, or GROUPS to count different values"));
        };
        let distance_type = match ordered_by {
            SqlType::Timestamp | SqlType::Date => SqlType::Bigint,
            numeric if numeric.is_numeric() => *numeric,
            other => {
                return Err(UserError::compile(
                    "42P20",
                    format!("RANGE with an offset is not for values of type {other}"),
                )
                .with_hint("use ROWS to count rows, or GROUPS to count different values"));
            }
        };
        if let ast::Expr::Interval(interval) = offset {
            return interval_distance(interval, *ordered_by, "the offset of RANGE").map(Expr::integer);
        }
        let mut typed = self.expression(offset)?;
        self.settle(&mut typed, widest(distance_type));
        let given = typed.decided_type();
        let fits = if distance_type.is_integer() { given.is_integer() } else { given.is_numeric() };
        if !fits || typed.expr.any(&mut |inner| matches!(inner, Expr::Column { .. })) {
            let error = UserError::compile(
                "42P20",
                format!("the offset of RANGE must be a number, as ORDER BY is {ordered_by}"),
            );
            return Err(match ordered_by {
                SqlType::Timestamp => error.with_hint("of a TIMESTAMP it is microseconds, or INTERVAL '5' MINUTE"),
                SqlType::Date => error.with_hint("of a DATE it is days, or INTERVAL '7' DAY"),
                _ => error,
            });
        }
        self.folding.convert(typed, distance_type)
    }

    fn window_kind(
        &mut self,
        name: &str,
        arguments: &[Option<&ast::Expr>],
        filter: Option<&ast::Expr>,
    ) -> UserResult<(WindowKind, Vec<Expr>, SqlType)> {
        if let Some(kind) = super::function::aggregate_named(name) {
            return self.window_aggregate(name, kind, arguments, filter);
        }
        let (kind, least, most) = match name {
            "ROW_NUMBER" => (WindowKind::RowNumber, 0, 0),
            "RANK" => (WindowKind::Rank, 0, 0),
            "DENSE_RANK" => (WindowKind::DenseRank, 0, 0),
            "PERCENT_RANK" => (WindowKind::PercentRank, 0, 0),
            "CUME_DIST" => (WindowKind::CumeDist, 0, 0),
            "NTILE" => (WindowKind::Ntile, 1, 1),
            "LAG" => (WindowKind::Lag, 1, 3),
            "LEAD" => (WindowKind::Lead, 1, 3),
            "FIRST_VALUE" => (WindowKind::FirstValue, 1, 1),
            "LAST_VALUE" => (WindowKind::LastValue, 1, 1),
            "NTH_VALUE" => (WindowKind::NthValue, 2, 2),
            _ => {
                return Err(UserError::compile("42883", format!("{name} is not a window function")).with_hint(
                    "they are ROW_NUMBER, RANK, DENSE_RANK, PERCENT_RANK, CUME_DIST, NTILE, LAG, LEAD, FIRST_VALUE, \
                     LAST_VALUE, NTH_VALUE, COUNT, SUM, AVG, MIN and MAX",
                ));
            }
        };
        if filter.is_some() {
            return Err(UserError::compile("42601", format!("FILTER is not allowed in {name}")));
        }
        if !(least..=most).contains(&arguments.len()) || arguments.contains(&None) {
            let wanted = if least == most { least.to_string() } else { format!("{least} to {most}") };
            return Err(UserError::compile("42883", format!("{name} takes {wanted} arguments")));
        }
        let mut bound = Vec::with_capacity(arguments.len());
        for argument in arguments.iter().flatten() {
            bound.push(self.expression(argument)?);
        }
        let count_at = match kind {
            WindowKind::Ntile => Some(0),
            WindowKind::Lag | WindowKind::Lead | WindowKind::NthValue => Some(1),
            _ => None,
        };
        if let Some(count) = count_at.and_then(|place| bound.get_mut(place)) {
            self.propose(count, Proposal::count());
            if count.sql_type.is_some_and(|sql_type| !sql_type.is_integer()) {
                return Err(UserError::compile("42804", format!("{name} takes a whole number of rows")));
            }
        }
        let result_type = match kind {
            WindowKind::PercentRank | WindowKind::CumeDist => SqlType::Float,
            WindowKind::RowNumber | WindowKind::Rank | WindowKind::DenseRank | WindowKind::Ntile => SqlType::Bigint,
            _ => {
                let values = bound.iter_mut().enumerate().filter(|(place, _)| Some(*place) != count_at);
                let mut values: Vec<&mut Typed> = values.map(|(_, typed)| typed).collect();
                self.one_type(&mut values)?.unwrap_or(SqlType::Varchar)
            }
        };
        let mut exprs = Vec::with_capacity(bound.len());
        for (place, typed) in bound.into_iter().enumerate() {
            if Some(place) == count_at {
                exprs.push(typed.expr);
                continue;
            }
            exprs.push(self.folding.convert_common(typed, result_type)?);
        }
        Ok((kind, exprs, result_type))
    }

    fn window_aggregate(
        &mut self,
        name: &str,
        kind: AggregateKind,
        arguments: &[Option<&ast::Expr>],
        filter: Option<&ast::Expr>,
    ) -> UserResult<(WindowKind, Vec<Expr>, SqlType)> {
        if kind == AggregateKind::ApproximateCountDistinct {
            return Err(UserError::not_supported(format!("{name} as a window function")));
        }
        let (kind, argument, argument_type) = self.aggregate_argument(name, kind, arguments, filter)?;
        let result_type = Aggregate::result_type_for(kind, argument_type)?;
        let aggregate = Aggregate { kind, distinct: false, argument: None, argument_type, result_type, user: None };
        Ok((WindowKind::Aggregate(aggregate), argument.into_iter().collect(), result_type))
    }
}

/// The first offset of a frame by RANGE.
fn distance_of(frame: &ast::WindowFrame) -> Option<&ast::Expr> {
    let by_range = frame.units == ast::WindowFrameUnits::Range;
    let bounds = [Some(&frame.start_bound), frame.end_bound.as_ref()];
    bounds.into_iter().flatten().filter(|_| by_range).find_map(|bound| match bound {
        ast::WindowFrameBound::Preceding(Some(offset)) | ast::WindowFrameBound::Following(Some(offset)) => {
            Some(&**offset)
        }
        _ => None,
    })
}

/// INTERVAL '5' MINUTE as microseconds, or days of a DATE.
pub(crate) fn interval_distance(interval: &ast::Interval, of: SqlType, what: &str) -> UserResult<i64> {
    let malformed = || {
        UserError::compile("42P20", format!("{what} cannot be {}", as_written(interval))).with_hint(
            "write INTERVAL '5' MINUTE; with units from MICROSECOND to WEEK, for MONTH and YEAR have no fixed length",
        )
    };
    let ast::Interval { value, leading_field: Some(unit), leading_precision: None, last_field: None, .. } = interval
    else {
        return Err(malformed());
    };
    let count = match value.as_ref() {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) | ast::Value::Number(text, _) => text.trim().parse::<i64>().ok(),
            _ => None,
        },
        _ => None,
    };
    let unit = TimeUnit::from_name(&unit.to_string().to_uppercase()).and_then(TimeUnit::microseconds);
    let microseconds = count.zip(unit).and_then(|(count, unit)| count.checked_mul(unit)).ok_or_else(malformed)?;
    match of {
        SqlType::Timestamp => Ok(microseconds),
        SqlType::Date if microseconds % MICROSECONDS_PER_DAY == 0 => Ok(microseconds / MICROSECONDS_PER_DAY),
        _ => Err(malformed()),
    }
}

/// The arguments whose type the result has, with all that belongs to it.
fn alike(kind: &WindowKind, arguments: &[Expr]) -> Vec<Expr> {
    match kind {
        WindowKind::Lag | WindowKind::Lead if arguments.len() == 3 => {
            vec![arguments[0].clone(), arguments[2].clone()]
        }
        WindowKind::Lag | WindowKind::Lead => vec![arguments[0].clone()],
        WindowKind::FirstValue | WindowKind::LastValue | WindowKind::NthValue => vec![arguments[0].clone()],
        WindowKind::Aggregate(aggregate) if super::function::is_extreme(aggregate.kind) => arguments.to_vec(),
        _ => Vec::new(),
    }
}
