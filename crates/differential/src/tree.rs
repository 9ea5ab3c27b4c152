//! Queries and data changes as trees that print in both dialects.

use crate::datum::{Datum, Type};
use crate::functions::{Aggregate, Function};

#[derive(Clone, Debug)]
pub enum Expr {
    Column {
        qualifier: Option<String>,
        name: String,
        ty: Type,
        bound: f64,
    },
    Literal(Datum),
    Apply {
        function: &'static Function,
        arguments: Vec<Expr>,
        ty: Type,
    },
    /// A query of one row at most and one column.
    Scalar {
        query: Box<Query>,
        ty: Type,
    },
    Exists {
        negated: bool,
        query: Box<Query>,
    },
    In {
        negated: bool,
        left: Vec<Expr>,
        query: Box<Query>,
    },
    Quantified {
        left: Box<Expr>,
        comparison: &'static str,
        all: bool,
        query: Box<Query>,
    },
    Aggregate(AggregateCall),
}

/// An aggregate over a group, or over a window, or a window function.
#[derive(Clone, Debug)]
pub struct AggregateCall {
    pub function: &'static Aggregate,
    pub distinct: bool,
    pub argument: Option<Box<Expr>>,
    pub filter: Option<Box<Expr>>,
    pub window: Option<Window>,
    pub ty: Type,
}

#[derive(Clone, Debug)]
pub struct Window {
    pub partition: Vec<Expr>,
    pub order: Vec<(Expr, Direction)>,
    pub frame: Option<&'static str>,
}

#[derive(Clone, Default, Debug)]
pub struct Query {
    pub with: Vec<Common>,
    pub body: Body,
    /// DISTINCT ON this many of the first columns of `order`, which has all columns then.
    pub distinct_on: usize,
    /// Numbers of output columns from 1, and which way.
    pub order: Vec<(usize, Direction)>,
    pub limit: Option<u64>,
    pub offset: Option<u64>,
}

/// NULL is the lowest value, or stands at the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    Up,
    Down,
    UpNullsLast,
    DownNullsFirst,
}

#[derive(Clone, Debug)]
pub struct Common {
    pub name: String,
    pub query: Query,
    /// The step of a recursion over numbers: how far it counts.
    pub recursive_to: Option<i64>,
}

// A tree of a few nodes that lives for one query: a box per SELECT would be noise.
#[allow(clippy::large_enum_variant, reason = "trees of tests are small")]
#[derive(Clone, Debug)]
pub enum Body {
    Select(Select),
    Set { operator: &'static str, left: Box<Body>, right: Box<Body> },
}

impl Default for Body {
    fn default() -> Body {
        Body::Select(Select::default())
    }
}

#[derive(Clone, Default, Debug)]
pub struct Select {
    pub distinct: bool,
    pub items: Vec<Expr>,
    pub from: Option<From>,
    pub condition: Option<Expr>,
    pub group: Vec<Expr>,
    pub having: Option<Expr>,
}

#[derive(Clone, Debug)]
pub enum From {
    Table {
        name: String,
        alias: String,
    },
    Derived {
        query: Box<Query>,
        alias: String,
    },
    /// Rows without columns in them, as a table.
    Values {
        rows: Vec<Vec<Expr>>,
        alias: String,
    },
    Join {
        kind: JoinKind,
        left: Box<From>,
        right: Box<From>,
        on: On,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JoinKind {
    Comma,
    Cross,
    Inner,
    Left,
    Right,
    Full,
}

#[derive(Clone, Debug)]
pub enum On {
    /// A comma or CROSS JOIN.
    Nothing,
    Condition(Expr),
    Using(Vec<String>),
}

#[allow(clippy::large_enum_variant, reason = "trees of tests are small")]
#[derive(Clone, Debug)]
pub enum Change {
    Insert {
        table: String,
        columns: Vec<String>,
        rows: Vec<Vec<Expr>>,
    },
    InsertSelect {
        table: String,
        columns: Vec<String>,
        query: Query,
    },
    /// By the primary key, of which no two rows have the same.
    Upsert {
        table: String,
        key: Vec<String>,
        columns: Vec<String>,
        rows: Vec<Vec<Expr>>,
    },
    Update {
        table: String,
        set: Vec<(String, Expr)>,
        condition: Option<Expr>,
    },
    Delete {
        table: String,
        condition: Option<Expr>,
    },
    Truncate {
        table: String,
    },
}

impl Expr {
    pub fn type_of(&self) -> Type {
        match self {
            Expr::Column { ty, .. } | Expr::Apply { ty, .. } | Expr::Scalar { ty, .. } => *ty,
            Expr::Literal(datum) => datum.type_of(),
            Expr::Aggregate(call) => call.ty,
            Expr::Exists { .. } | Expr::In { .. } | Expr::Quantified { .. } => Type::Boolean,
        }
    }

    /// The parts that are expressions at the same level, which are not within a subquery.
    pub fn parts(&self) -> Vec<&Expr> {
        match self {
            Expr::Apply { arguments, .. } => arguments.iter().collect(),
            Expr::In { left, .. } => left.iter().collect(),
            Expr::Quantified { left, .. } => vec![left],
            Expr::Aggregate(call) => {
                let mut parts: Vec<&Expr> = call.argument.iter().chain(&call.filter).map(|part| &**part).collect();
                if let Some(window) = &call.window {
                    parts.extend(&window.partition);
                    parts.extend(window.order.iter().map(|(expr, _)| expr));
                }
                parts
            }
            _ => Vec::new(),
        }
    }

    pub fn subquery(&self) -> Option<&Query> {
        match self {
            Expr::Scalar { query, .. }
            | Expr::Exists { query, .. }
            | Expr::In { query, .. }
            | Expr::Quantified { query, .. } => Some(query),
            _ => None,
        }
    }

    /// It, or something within it (subqueries too), is so.
    pub fn any(&self, test: &dyn Fn(&Expr) -> bool) -> bool {
        test(self)
            || self.parts().iter().any(|part| part.any(test))
            || self.subquery().is_some_and(|query| query.any(test))
    }
}

impl Query {
    pub fn any(&self, test: &dyn Fn(&Expr) -> bool) -> bool {
        self.with.iter().any(|common| common.query.any(test)) || self.body.any(test)
    }

    /// The tables and views that FROM clauses name, but for those within subqueries of expressions.
    pub fn tables(&self) -> Vec<String> {
        let mut names: Vec<String> = self.with.iter().flat_map(|common| common.query.tables()).collect();
        self.body.tables(&mut names);
        names
    }

    /// Its only SELECT, if it is one.
    pub fn select(&self) -> Option<&Select> {
        match &self.body {
            Body::Select(select) => Some(select),
            Body::Set { .. } => None,
        }
    }
}

impl Body {
    fn tables(&self, names: &mut Vec<String>) {
        match self {
            Body::Set { left, right, .. } => {
                left.tables(names);
                right.tables(names);
            }
            Body::Select(select) => select.from.iter().for_each(|from| from.tables(names)),
        }
    }

    fn any(&self, test: &dyn Fn(&Expr) -> bool) -> bool {
        match self {
            Body::Set { left, right, .. } => left.any(test) || right.any(test),
            Body::Select(select) => {
                let expressions = select.items.iter().chain(&select.condition).chain(&select.group);
                expressions.chain(&select.having).any(|expr| expr.any(test))
                    || select.from.as_ref().is_some_and(|from| from.any(test))
            }
        }
    }
}

impl From {
    fn tables(&self, names: &mut Vec<String>) {
        match self {
            From::Table { name, .. } => names.push(name.clone()),
            From::Derived { query, .. } => names.extend(query.tables()),
            From::Values { .. } => {}
            From::Join { left, right, .. } => {
                left.tables(names);
                right.tables(names);
            }
        }
    }

    fn any(&self, test: &dyn Fn(&Expr) -> bool) -> bool {
        match self {
            From::Table { .. } => false,
            From::Derived { query, .. } => query.any(test),
            From::Values { rows, .. } => rows.iter().flatten().any(|expr| expr.any(test)),
            From::Join { left, right, on, .. } => {
                left.any(test) || right.any(test) || matches!(on, On::Condition(condition) if condition.any(test))
            }
        }
    }
}

impl Change {
    pub fn table(&self) -> &str {
        match self {
            Change::Insert { table, .. }
            | Change::InsertSelect { table, .. }
            | Change::Upsert { table, .. }
            | Change::Update { table, .. }
            | Change::Delete { table, .. }
            | Change::Truncate { table } => table,
        }
    }

    pub fn any(&self, test: &dyn Fn(&Expr) -> bool) -> bool {
        match self {
            Change::Insert { rows, .. } | Change::Upsert { rows, .. } => {
                rows.iter().flatten().any(|expr| expr.any(test))
            }
            Change::InsertSelect { query, .. } => query.any(test),
            Change::Update { set, condition, .. } => {
                set.iter().map(|(_, expr)| expr).chain(condition).any(|expr| expr.any(test))
            }
            Change::Delete { condition, .. } => condition.iter().any(|expr| expr.any(test)),
            Change::Truncate { .. } => false,
        }
    }
}
