//! Expressions as text, with names in place of numbers.

use ferrite_base::TableId;
use ferrite_catalog::Catalog;
use ferrite_expr::{Aggregate, ArithmeticOperator, CompareOperator, Expr, Function};
use ferrite_plan::{
    Input, Plan, Program, Query, QueryBody, ReturnValue, Select, Step, SubqueryKind, Window, WindowKind,
};
use ferrite_value::{OwnedValue, convert::to_text_string};

/// What each slot of a program holds.
pub(super) struct Names<'p> {
    program: &'p Program,
    pub(super) catalog: &'p Catalog,
    slots: Vec<SlotSource>,
}

#[derive(Clone)]
enum SlotSource {
    Unknown,
    Table(TableId),
    Columns(Vec<String>),
}

impl<'p> Names<'p> {
    pub fn of(program: &'p Program, catalog: &'p Catalog) -> Self {
        let mut names = Names { program, catalog, slots: vec![SlotSource::Unknown; usize::from(program.slots)] };
        names.steps(&program.body);
        for query in &program.common_tables {
            names.query(query);
        }
        for subquery in &program.subqueries {
            names.query(&subquery.query);
        }
        names
    }

    fn name_slot(&mut self, slot: u16, held: SlotSource) {
        if let Some(place) = self.slots.get_mut(usize::from(slot)) {
            *place = held;
        }
    }

    fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Execute { plan, .. } | Step::Analyze { plan, .. } => match plan {
                    Plan::Query(query) => self.query(query),
                    Plan::Insert(insert) => {
                        if let ferrite_plan::InsertSource::Query(query) = &insert.source {
                            self.query(query);
                        }
                    }
                    Plan::Update(update) => {
                        self.name_slot(update.slot, SlotSource::Table(update.table));
                        update.joined.iter().for_each(|joined| self.select(joined));
                    }
                    Plan::Delete(delete) => {
                        self.name_slot(delete.slot, SlotSource::Table(delete.table));
                        delete.joined.iter().for_each(|joined| self.select(joined));
                    }
                    Plan::Truncate { .. } => {}
                },
                Step::Fetch { query, .. } => self.query(query),
                Step::If { branches, otherwise } => {
                    branches.iter().for_each(|(_, body)| self.steps(body));
                    self.steps(otherwise);
                }
                Step::While { body, .. } | Step::Block { body, .. } => self.steps(body),
                Step::For { query, body, .. } => {
                    self.query(query);
                    self.steps(body);
                }
                Step::Return(ReturnValue::Tables(tables)) => tables.iter().for_each(|(_, query)| self.query(query)),
                _ => {}
            }
        }
    }

    fn query(&mut self, query: &Query) {
        match &query.body {
            QueryBody::Select(select) => self.select(select),
            QueryBody::SetOperation { left, right, .. } => {
                self.query(left);
                self.query(right);
            }
            QueryBody::Values(_) | QueryBody::Series { .. } => {}
            QueryBody::Recursive { first, step, .. } => {
                self.query(first);
                self.query(step);
            }
        }
    }

    fn select(&mut self, select: &Select) {
        for source in &select.sources {
            self.input(source.slot, &source.input);
        }
        if let Some(aggregation) = &select.aggregation {
            let keys = aggregation.group_by.iter().map(|key| self.expr(key));
            let aggregates = aggregation.aggregates.iter().map(|aggregate| self.aggregate(aggregate));
            let set = (!aggregation.sets.is_empty()).then(|| "grouping set".to_owned());
            let columns = keys.chain(set).chain(aggregates).collect();
            self.name_slot(aggregation.slot, SlotSource::Columns(columns));
        }
    }

    /// A window with its functions.
    pub fn window(&self, window: &Window) -> String {
        let list = |exprs: &[Expr]| exprs.iter().map(|expr| self.expr(expr)).collect::<Vec<_>>().join(", ");
        let functions: Vec<String> = window
            .functions
            .iter()
            .map(|function| {
                let name = match &function.kind {
                    WindowKind::RowNumber => "ROW_NUMBER",
                    WindowKind::Rank => "RANK",
                    WindowKind::DenseRank => "DENSE_RANK",
                    WindowKind::PercentRank => "PERCENT_RANK",
                    WindowKind::CumeDist => "CUME_DIST",
                    WindowKind::Ntile => "NTILE",
                    WindowKind::Lag => "LAG",
                    WindowKind::Lead => "LEAD",
                    WindowKind::FirstValue => "FIRST_VALUE",
                    WindowKind::LastValue => "LAST_VALUE",
                    WindowKind::NthValue => "NTH_VALUE",
                    WindowKind::Aggregate(aggregate) => aggregate.kind.name(),
                };
                let star = matches!(&function.kind, WindowKind::Aggregate(_)) && function.arguments.is_empty();
                format!("{name}({})", if star { "*".to_owned() } else { list(&function.arguments) })
            })
            .collect();
        let mut text = format!("window {}", functions.join(", "));
        if !window.partition_by.is_empty() {
            text.push_str(&format!(" partition by {}", list(&window.partition_by)));
        }
        if !window.order_by.is_empty() {
            let keys: Vec<String> = window
                .order_by
                .iter()
                .map(|(expr, descending)| {
                    format!("{}{}", self.expr(expr), if *descending { " descending" } else { "" })
                })
                .collect();
            text.push_str(&format!(" order by {}", keys.join(", ")));
        }
        text
    }

    fn input(&mut self, slot: u16, input: &Input) {
        match input {
            Input::Table { table, .. } => self.name_slot(slot, SlotSource::Table(*table)),
            Input::Derived { query, .. } => {
                self.query(query);
                let columns = query.columns.iter().map(|column| column.name.clone()).collect();
                self.name_slot(slot, SlotSource::Columns(columns));
            }
            Input::Common { table } => {
                if let Some(query) = self.program.common_tables.get(usize::from(*table)) {
                    let columns = query.columns.iter().map(|column| column.name.clone()).collect();
                    self.name_slot(slot, SlotSource::Columns(columns));
                }
            }
            Input::Hashed(hashed) => self.input(slot, &hashed.input),
            Input::Measured(input) => self.input(slot, input),
            Input::One | Input::Working { .. } => {}
        }
    }

    pub fn table(&self, id: TableId) -> String {
        self.catalog.table(id).map_or_else(|| format!("table {id}"), |table| table.name.clone())
    }

    pub fn slot(&self, slot: u16) -> String {
        match self.slots.get(usize::from(slot)) {
            Some(SlotSource::Table(table)) => self.table(*table),
            _ => format!("#{slot}"),
        }
    }

    pub fn column(&self, slot: u16, column: u16) -> String {
        match self.slots.get(usize::from(slot)) {
            Some(SlotSource::Table(table)) => self
                .catalog
                .table(*table)
                .and_then(|table| table.columns.get(usize::from(column)).map(|found| found.name.clone()))
                .unwrap_or_default(),
            Some(SlotSource::Columns(columns)) => columns.get(usize::from(column)).cloned().unwrap_or_default(),
            _ => format!("#{slot}.{column}"),
        }
    }

    pub fn aggregate(&self, aggregate: &Aggregate) -> String {
        match &aggregate.argument {
            None => "COUNT(*)".to_owned(),
            Some(argument) => {
                let distinct = if aggregate.distinct { "DISTINCT " } else { "" };
                let argument = match argument {
                    Expr::Call { function: Function::Together, arguments } => self.list(arguments, ", "),
                    argument => self.expr(argument),
                };
                let name = aggregate.user.as_ref().map_or(aggregate.kind.name(), |function| &function.name);
                format!("{name}({distinct}{argument})")
            }
        }
    }

    fn list(&self, exprs: &[Expr], separator: &str) -> String {
        exprs.iter().map(|expr| self.expr(expr)).collect::<Vec<_>>().join(separator)
    }

    pub fn expr(&self, expr: &Expr) -> String {
        let not = |negated: bool| if negated { "NOT " } else { "" };
        match expr {
            Expr::Constant(value @ OwnedValue::Text(_)) => format!("'{}'", to_text_string(&value.as_value())),
            Expr::Constant(OwnedValue::Null) => "NULL".to_owned(),
            Expr::Constant(value) => to_text_string(&value.as_value()),
            Expr::Parameter(index) => {
                let name = self.program.parameters.get(usize::from(*index)).and_then(|found| found.name.clone());
                name.unwrap_or_else(|| format!("?{index}"))
            }
            Expr::Register(index) => {
                self.program.registers.get(usize::from(*index)).map(|found| found.name.clone()).unwrap_or_default()
            }
            Expr::Column { slot, column } => match self.slots.get(usize::from(*slot)) {
                Some(SlotSource::Table(table)) => format!("{}.{}", self.table(*table), self.column(*slot, *column)),
                _ => self.column(*slot, *column),
            },
            Expr::Negate { operand, .. } => format!("-{}", self.expr(operand)),
            Expr::Arithmetic { operator, left, right, .. } => {
                let sign = match operator {
                    ArithmeticOperator::Add => "+",
                    ArithmeticOperator::Subtract => "-",
                    ArithmeticOperator::Multiply => "*",
                    ArithmeticOperator::Divide => "/",
                    ArithmeticOperator::Remainder => "%",
                };
                format!("({} {sign} {})", self.expr(left), self.expr(right))
            }
            Expr::Concatenate(left, right) => format!("({} || {})", self.expr(left), self.expr(right)),
            Expr::Compare { operator, left, right } => {
                format!("{} {} {}", self.expr(left), sign(*operator), self.expr(right))
            }
            Expr::And(operands) => format!("({})", self.list(operands, " AND ")),
            Expr::Or(operands) => format!("({})", self.list(operands, " OR ")),
            Expr::Not(operand) => format!("NOT {}", self.expr(operand)),
            Expr::IsNull { operand, negated } => format!("{} IS {}NULL", self.expr(operand), not(*negated)),
            Expr::IsDistinct { left, right, negated } => {
                format!("{} IS {}DISTINCT FROM {}", self.expr(left), not(*negated), self.expr(right))
            }
            Expr::Like { operand, pattern, prefix_only, negated, .. } => {
                let word = if *prefix_only { "STARTS WITH" } else { "LIKE" };
                format!("{} {}{word} {}", self.expr(operand), not(*negated), self.expr(pattern))
            }
            Expr::InList { operand, list, negated } => {
                format!("{} {}IN ({})", self.expr(operand), not(*negated), self.list(list, ", "))
            }
            Expr::InArray { operand, array, negated } => {
                format!("{} {}IN {}", self.expr(operand), not(*negated), self.expr(array))
            }
            Expr::Case { branches, otherwise } => {
                let branches: Vec<String> = branches
                    .iter()
                    .map(|(condition, result)| format!("WHEN {} THEN {}", self.expr(condition), self.expr(result)))
                    .collect();
                format!("CASE {} ELSE {} END", branches.join(" "), self.expr(otherwise))
            }
            Expr::Cast { operand, to } => format!("CAST({} AS {})", self.expr(operand), to.sql_type),
            Expr::Call { function: Function::Together, arguments } => format!("({})", self.list(arguments, ", ")),
            Expr::Call { function: Function::EscapedPattern, arguments } => {
                format!("{} ESCAPE {}", self.expr(&arguments[0]), self.expr(&arguments[1]))
            }
            Expr::Call { function, arguments } => format!("{function:?}({})", self.list(arguments, ", ")),
            Expr::User { function, arguments } => format!("{}({})", function.name, self.list(arguments, ", ")),
            Expr::Subquery { subquery, operand } => match operand {
                None => format!("subquery {subquery}"),
                Some(operand) => format!("{} {} subquery {subquery}", self.expr(operand), self.relation(*subquery)),
            },
        }
    }

    /// How an operand is compared with a subquery's rows.
    fn relation(&self, subquery: u16) -> String {
        match self.program.subqueries.get(usize::from(subquery)).map(|found| found.kind) {
            Some(SubqueryKind::Any(operator)) => format!("{} ANY", sign(operator)),
            Some(SubqueryKind::Among { .. }) => "IN".to_owned(),
            Some(SubqueryKind::All(operator)) => format!("{} ALL", sign(operator)),
            _ => "=".to_owned(),
        }
    }
}

fn sign(operator: CompareOperator) -> &'static str {
    match operator {
        CompareOperator::Equal => "=",
        CompareOperator::NotEqual => "<>",
        CompareOperator::Less => "<",
        CompareOperator::LessOrEqual => "<=",
        CompareOperator::Greater => ">",
        CompareOperator::GreaterOrEqual => ">=",
    }
}
