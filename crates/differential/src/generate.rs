//! Random expressions over what a scope has. Queries and data changes, which make the scopes, are
//! in the rooms below.

pub mod change;
pub mod query;

use crate::datum::{Datum, Type};
use crate::functions::{self, AggregateUse, Function, Growth, Kind};
use crate::random::Random;
use crate::schema::Schema;
use crate::tree::{AggregateCall, Common, Direction, Expr, Query, Window};

/// Beyond it a number is not computed with, so that nothing overflows where nothing is wild:
/// DECIMAL holds 10^26, BIGINT 9 * 10^18, FLOAT has every eighth up to 10^15.
const BOUND_MAX: f64 = 1e14;

/// What expressions are made of at one place.
#[derive(Clone, Default)]
pub struct Scope {
    /// Columns, or the expressions that rows are grouped by.
    pub leaves: Vec<Expr>,
    /// Columns of the queries around.
    pub outer: Vec<Expr>,
    /// What aggregates are made of; None where there are none.
    pub aggregated: Option<Box<Scope>>,
    /// Window functions may stand here.
    pub windows: bool,
    /// Columns that together tell all rows of the scope apart; empty if none do.
    pub key: Vec<Expr>,
}

/// Makes the parts of one statement.
pub struct Generator<'g> {
    pub random: &'g mut Random,
    pub schema: &'g Schema,
    /// Functions may be used whose errors depend on values.
    pub hazardous: bool,
    /// Tables of WITH that stand to use.
    pub common: Vec<(Common, Vec<(Type, f64)>)>,
    pub aliases: usize,
    /// How many queries are around.
    pub nesting: usize,
}

impl<'g> Generator<'g> {
    pub fn new(random: &'g mut Random, schema: &'g Schema) -> Generator<'g> {
        let hazardous = schema.wild || random.chance(8);
        Generator { random, schema, hazardous, common: Vec::new(), aliases: 0, nesting: 0 }
    }

    pub fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("r{}", self.aliases)
    }

    pub fn condition(&mut self, scope: &Scope, depth: usize) -> Expr {
        if self.nesting < 3 && depth > 0 && self.random.chance(9) {
            return self.subquery_condition(scope, depth - 1);
        }
        // Most conditions compare a column with something, as people's do.
        let function = self.random.pick(functions::CONDITIONS);
        self.apply(function, scope, depth, Type::Boolean).unwrap_or(Expr::Literal(Datum::Boolean(true)))
    }

    /// An expression of the type, with `depth` levels at most.
    pub fn expr(&mut self, ty: Type, scope: &Scope, depth: usize) -> Expr {
        if depth == 0 || self.random.chance(35) {
            return self.leaf(ty, scope);
        }
        if ty != Type::Boolean
            && self.nesting < 2
            && self.random.chance(4)
            && let Some(expr) = self.scalar_subquery(ty, scope)
        {
            return expr;
        }
        if scope.windows
            && self.random.chance(12)
            && let Some(call) = self.window_call(ty, scope)
        {
            return call;
        }
        if ty == Type::Boolean && self.random.chance(80) {
            return self.condition(scope, depth);
        }
        for _ in 0..20 {
            let function = self.random.pick(functions::FUNCTIONS);
            let fits = match function.result {
                Kind::Of(result) => result == ty,
                // There are few of them, which a choice of all favours none the less.
                _ => true,
            };
            if !fits || (function.hazardous && !self.hazardous) {
                continue;
            }
            if let Some(expr) = self.apply(function, scope, depth, ty) {
                return expr;
            }
        }
        self.leaf(ty, scope)
    }

    /// A call of the function that answers `ty`, unless its result may be too large.
    fn apply(&mut self, function: &'static Function, scope: &Scope, depth: usize, ty: Type) -> Option<Expr> {
        let any = match function.result {
            Kind::Any => ty,
            _ => self.type_in(scope),
        };
        let other = self.type_in(scope);
        let mut arguments = Vec::with_capacity(function.arguments.len());
        for (place, kind) in function.arguments.iter().enumerate() {
            let ty = match kind {
                Kind::Of(ty) => *ty,
                Kind::Any => any,
                Kind::Other => other,
                Kind::Pair => unreachable!("only an aggregate has a pair"),
            };
            // The first argument is a column more often than not; a constant alone would be folded.
            let depth = if place == 0 && self.random.chance(40) { 0 } else { depth - 1 };
            let argument = self.expr(ty, scope, depth);
            // Ours takes a query that stands first in an IN list for the whole of it.
            let in_list = place == 1 && function.ours.contains("IN ({1}");
            let is_query = matches!(argument, Expr::Scalar { .. });
            arguments.push(if in_list && is_query { self.leaf(ty, scope) } else { argument });
        }
        let expr = Expr::Apply { function, arguments, ty };
        (!ty.is_number() || self.hazardous || bound(&expr) <= BOUND_MAX).then_some(expr)
    }

    /// A type that columns of the scope have.
    fn type_in(&mut self, scope: &Scope) -> Type {
        if scope.leaves.is_empty() || self.random.chance(10) {
            return *self.random.pick(&Type::ALL);
        }
        self.random.pick(&scope.leaves).type_of()
    }

    pub fn leaf(&mut self, ty: Type, scope: &Scope) -> Expr {
        let of_type =
            |leaves: &[Expr]| -> Vec<Expr> { leaves.iter().filter(|leaf| leaf.type_of() == ty).cloned().collect() };
        if !scope.outer.is_empty() && self.random.chance(20) {
            let outer = of_type(&scope.outer);
            if !outer.is_empty() {
                return self.random.pick(&outer).clone();
            }
        }
        if let Some(inner) = &scope.aggregated
            && self.random.chance(60)
            && let Some(call) = self.aggregate_call(ty, inner)
        {
            return call;
        }
        let leaves = of_type(&scope.leaves);
        if !leaves.is_empty() && self.random.chance(72) {
            return self.random.pick(&leaves).clone();
        }
        self.literal(ty)
    }

    pub fn literal(&mut self, ty: Type) -> Expr {
        if self.random.chance(6) {
            return Expr::Literal(Datum::Null(ty));
        }
        Expr::Literal(Datum::random(self.random, ty, self.schema.wild))
    }

    fn aggregate_call(&mut self, ty: Type, inner: &Scope) -> Option<Expr> {
        let candidates: Vec<_> = functions::AGGREGATES
            .iter()
            .filter(|function| matches!(function.place, AggregateUse::Aggregate | AggregateUse::Group))
            .filter(|function| function.result == Kind::Of(ty))
            .collect();
        if candidates.is_empty() {
            return None;
        }
        let function = *self.random.pick(&candidates);
        let argument = function.argument.map(|kind| {
            let ty = match kind {
                Kind::Of(ty) => ty,
                _ => self.type_in(inner),
            };
            let depth = self.random.below(2);
            let first = self.without_subqueries(|generator| generator.expr(ty, inner, depth));
            Box::new(match kind {
                Kind::Pair => {
                    let other = self.type_in(inner);
                    let second = self.without_subqueries(|generator| generator.expr(other, inner, 0));
                    Expr::Apply { function: &functions::PAIR, arguments: vec![first, second], ty: Type::Integer }
                }
                _ => first,
            })
        });
        let distinct = function.ours.contains("{d}") && self.random.chance(20);
        let filter = self
            .random
            .chance(15)
            .then(|| Box::new(self.without_subqueries(|generator| generator.condition(inner, 1))));
        let call = Expr::Aggregate(AggregateCall { function, distinct, argument, filter, window: None, ty });
        (self.hazardous || bound(&call) <= BOUND_MAX).then_some(call)
    }

    /// A window function over the rows of the scope, which may be groups.
    fn window_call(&mut self, ty: Type, scope: &Scope) -> Option<Expr> {
        let inner = Scope { windows: false, ..scope.clone() };
        let candidates: Vec<_> = functions::AGGREGATES
            .iter()
            .filter(|function| matches!(function.result, Kind::Any) || function.result == Kind::Of(ty))
            .filter(|function| function.place != AggregateUse::Positional || !scope.key.is_empty())
            .filter(|function| function.place != AggregateUse::Group)
            .collect();
        if candidates.is_empty() {
            return None;
        }
        let function = *self.random.pick(&candidates);
        let argument = function.argument.map(|kind| {
            let ty = match kind {
                Kind::Of(ty) => ty,
                Kind::Any if function.result == Kind::Any => ty,
                _ => self.type_in(&inner),
            };
            let depth = self.random.below(2);
            Box::new(self.without_subqueries(|generator| generator.expr(ty, &inner, depth)))
        });
        let window = self.window(&inner, function.place);
        // Theirs takes no aggregate in it.
        let rows = Scope { aggregated: None, ..inner };
        let filter = (function.place == AggregateUse::Aggregate && self.random.chance(10))
            .then(|| Box::new(self.without_subqueries(|generator| generator.condition(&rows, 1))));
        let call =
            Expr::Aggregate(AggregateCall { function, distinct: false, argument, filter, window: Some(window), ty });
        (self.hazardous || bound(&call) <= BOUND_MAX).then_some(call)
    }

    pub fn window(&mut self, scope: &Scope, place: AggregateUse) -> Window {
        const ROWS: [&str; 6] = [
            "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
            "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING",
            "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
            "ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING",
            "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
        ];
        const PEERS: [&str; 5] = [
            "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
            "GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW",
            "GROUPS BETWEEN CURRENT ROW AND 1 FOLLOWING",
            "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
        ];
        const NEAR: [&str; 6] = [
            "RANGE BETWEEN 1 PRECEDING AND CURRENT ROW",
            "RANGE BETWEEN 2 PRECEDING AND 3 FOLLOWING",
            "RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
            "RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING",
            "RANGE BETWEEN 1 FOLLOWING AND 4 FOLLOWING",
            "RANGE BETWEEN 0 PRECEDING AND 0 FOLLOWING",
        ];
        const NEAR_IN_TIME: [&str; 3] = [
            "RANGE BETWEEN INTERVAL '2' DAY PRECEDING AND CURRENT ROW",
            "RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND INTERVAL '30' DAY FOLLOWING",
            "RANGE BETWEEN INTERVAL '1' DAY FOLLOWING AND UNBOUNDED FOLLOWING",
        ];
        let mut partition = Vec::new();
        if self.random.chance(60) && !scope.leaves.is_empty() {
            partition.push(self.random.pick(&scope.leaves).clone());
        }
        let mut order = Vec::new();
        if (self.random.chance(75) || place != AggregateUse::Aggregate) && !scope.leaves.is_empty() {
            let expr = self.random.pick(&scope.leaves).clone();
            order.push((expr, self.direction()));
        }
        let total = place == AggregateUse::Positional || (!scope.key.is_empty() && self.random.chance(40));
        if total {
            for column in &scope.key {
                order.push((column.clone(), self.direction()));
            }
        }
        let frame = match place {
            AggregateUse::Ranking => None,
            _ if total && self.random.chance(50) => Some(*self.random.pick(&ROWS)),
            AggregateUse::Aggregate if order.len() == 1 && self.random.chance(35) => match order[0].0.type_of() {
                ty if ty.is_number() => Some(*self.random.pick(&NEAR)),
                Type::Date | Type::Timestamp => Some(*self.random.pick(&NEAR_IN_TIME)),
                _ => None,
            },
            AggregateUse::Aggregate if !order.is_empty() && self.random.chance(35) => Some(*self.random.pick(&PEERS)),
            _ => None,
        };
        Window { partition, order, frame }
    }

    fn direction(&mut self) -> Direction {
        use Direction::{Down, DownNullsFirst, Up, UpNullsLast};
        *self.random.pick(&[Up, Up, Down, UpNullsLast, DownNullsFirst])
    }

    fn without_subqueries<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> T {
        let nesting = std::mem::replace(&mut self.nesting, usize::MAX);
        let made = make(self);
        self.nesting = nesting;
        made
    }

    /// The scope of a subquery at a place: columns only can be seen from within.
    fn outer_for(&mut self, scope: &Scope) -> Vec<Expr> {
        if self.random.chance(40) {
            return Vec::new();
        }
        let columns = scope.leaves.iter().chain(&scope.outer);
        // A name without its table would mean the subquery's own.
        columns.filter(|leaf| matches!(leaf, Expr::Column { qualifier: Some(_), .. })).cloned().collect()
    }

    fn subquery_condition(&mut self, scope: &Scope, depth: usize) -> Expr {
        let outer = self.outer_for(scope);
        match self.random.below(4) {
            0 => {
                let types = vec![Type::Integer];
                let query = Box::new(self.subquery(&types, outer));
                Expr::Exists { negated: self.random.chance(40), query }
            }
            1 => {
                let types = vec![self.type_in(scope), self.type_in(scope)];
                let left = types.iter().map(|ty| self.expr(*ty, scope, 0)).collect();
                let query = Box::new(self.subquery(&types, outer));
                Expr::In { negated: self.random.chance(35), left, query }
            }
            2 => {
                let ty = self.type_in(scope);
                let left = vec![self.expr(ty, scope, depth.min(1))];
                let query = Box::new(self.subquery(&[ty], outer));
                Expr::In { negated: self.random.chance(35), left, query }
            }
            _ => {
                let ty = self.type_in(scope);
                let left = Box::new(self.expr(ty, scope, depth.min(1)));
                let comparison = *self.random.pick(&["=", "<>", "<", "<=", ">", ">="]);
                let query = Box::new(self.subquery(&[ty], outer));
                Expr::Quantified { left, comparison, all: self.random.chance(50), query }
            }
        }
    }

    fn subquery(&mut self, types: &[Type], outer: Vec<Expr>) -> Query {
        self.nesting += 1;
        let query = self.query_of(types, outer);
        self.nesting -= 1;
        query
    }

    /// A query that answers one row at most: an aggregate over everything, or the first of a total
    /// order.
    fn scalar_subquery(&mut self, ty: Type, scope: &Scope) -> Option<Expr> {
        let outer = self.outer_for(scope);
        self.nesting += 1;
        let query = self.single_row_query(ty, outer);
        self.nesting -= 1;
        Some(Expr::Scalar { query: Box::new(query?), ty })
    }
}

/// How large a number the expression can be.
pub fn bound(expr: &Expr) -> f64 {
    let grown = |growth: Growth, parts: &mut dyn Iterator<Item = f64>| match growth {
        Growth::At(bound) => bound,
        Growth::Widest => parts.fold(1.0, f64::max),
        Growth::Sum => parts.fold(1.0, |sum, part| sum + part),
        Growth::Product => parts.fold(1.0, |product, part| product * part.max(1.0)),
    };
    match expr {
        Expr::Column { bound, .. } => *bound,
        Expr::Literal(datum) => datum.bound(),
        Expr::Apply { function, arguments, .. } => {
            // What a condition compares, and a CASE tests, does not flow into the result; counting
            // it does no harm.
            grown(function.growth, &mut arguments.iter().filter(|part| part.type_of().is_number()).map(bound))
        }
        Expr::Scalar { query, .. } => query.select().map_or(BOUND_MAX, |select| bound(&select.items[0])),
        Expr::Aggregate(call) => {
            let argument = call.argument.iter().map(|argument| bound(argument));
            match call.function.growth {
                // A sum over some thousand rows.
                Growth::Product => argument.fold(1.0, f64::max) * 1e4,
                growth => grown(growth, &mut argument.into_iter()),
            }
        }
        Expr::Exists { .. } | Expr::In { .. } | Expr::Quantified { .. } => 0.0,
    }
}
