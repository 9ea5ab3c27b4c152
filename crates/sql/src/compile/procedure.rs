//! Procedures: names of parameters and variables, blocks, loops, and what a procedure answers.

use super::origin::OfProcedure;
use crate::bind::Binder;
use crate::bind::types::{Typed, can_store};
use crate::errors::as_written;
use crate::parse::context;
use crate::parse::procedure::{Node, ProcedureBody, Return, Written};
use crate::parse::statement::{SqlKind, SqlStatement};
use crate::planner::context::Reach;
use crate::planner::routing::{Reaches, several_keys};
use ferrite_base::{UserError, UserResult};
use ferrite_catalog::{Catalog, Procedure, ProcedurePartitioning};
use ferrite_expr::Expr;
use ferrite_plan::Variants;
use ferrite_plan::snapshot_plan;
use ferrite_plan::{
    Parameter, Plan, Program, Query, Register, ReturnValue, Routing, SnapshotPlan, StatementText, Step, Touches,
};
use ferrite_value::{ColumnType, OwnedValue, SqlType};
use sqlparser::ast;

/// Compiles a stored procedure against the catalog.
pub fn compile_procedure(catalog: &Catalog, procedure: &Procedure) -> UserResult<Program> {
    let mut program = compile(catalog, procedure)?;
    // Those of one partition are short by their users' word: they run where they are.
    if matches!(program.routing, Routing::All | Routing::Several { .. }) {
        let snapshot_plan = snapshot_plan(&program, catalog, |catalog| compile(catalog, procedure));
        program.set_snapshot_plan(snapshot_plan);
    }
    Ok(program)
}

/// [`compile_procedure`], without a look at how it could run on a snapshot.
pub(crate) fn compile(catalog: &Catalog, procedure: &Procedure) -> UserResult<Program> {
    compile_with(catalog, procedure, &[])
}

/// [`compile`], with parameters of the types that `presets` name, by their places.
pub(crate) fn compile_with(
    catalog: &Catalog,
    procedure: &Procedure,
    presets: &[Option<SqlType>],
) -> UserResult<Program> {
    let body = crate::parse::procedure::parse_body(&procedure.body)?;
    let local = procedure.partitioning.is_some() || procedure.directed;
    let mut binder = Binder::new(catalog, if local { Reach::Local } else { Reach::All });
    let procedural = procedure.parameters.is_some() || body.steps.iter().any(is_procedural);
    match &procedure.parameters {
        Some(parameters) => {
            for (name, column_type) in parameters {
                binder.add_declared_parameter(name, *column_type);
            }
        }
        None => {
            let preset = |place| presets.get(place).copied().flatten();
            let presets: Vec<_> = (0..usize::from(body.placeholders)).map(preset).collect();
            binder.add_placeholders(&presets);
        }
    }
    binder.declared_parameters = procedural;
    for (position, (name, column_type)) in procedure.parameters.iter().flatten().enumerate() {
        binder.variables.push(crate::bind::scope::Variable {
            name: name.clone(),
            row: None,
            expr: Expr::Parameter(position as u16),
            column_type: *column_type,
        });
    }
    let mut compiler = Compiler {
        binder,
        local,
        statements: Vec::new(),
        block: 0,
        labels: Vec::new(),
        next_label: 0,
        returns_value: returns_value(&body),
        writes: false,
        everywhere: false,
        keys: Vec::new(),
    };
    let steps = compiler.steps(&body.steps)?;
    compiler.finish(procedure, steps)
}

struct Compiler<'c> {
    binder: Binder<'c>,
    /// Runs on one partition.
    local: bool,
    statements: Vec<StatementText>,
    /// Variables from here on are the innermost block's own; the outermost has the parameters, too.
    block: usize,
    /// Names of the blocks around, innermost last, and whether ITERATE may name them.
    labels: Vec<(Option<String>, u16, bool)>,
    next_label: u16,
    /// Somewhere it returns a value, and then nothing else is answered.
    returns_value: bool,
    writes: bool,
    /// Some statement needs all partitions.
    everywhere: bool,
    /// What fixes the partitioned tables that the statements use.
    keys: Vec<(Expr, SqlType)>,
}

fn is_procedural(node: &Node) -> bool {
    match node {
        Node::Sql(written) => written.value.targets().is_some(),
        _ => true,
    }
}

fn returns_value(body: &ProcedureBody) -> bool {
    fn any(nodes: &[Node]) -> bool {
        nodes.iter().any(|node| match node {
            Node::Return(Return::Value(_) | Return::Tables(_)) => true,
            Node::If { branches, otherwise } => branches.iter().any(|(_, body)| any(body)) || any(otherwise),
            Node::While { body, .. } | Node::For { body, .. } | Node::Block { body, .. } => any(body),
            _ => false,
        })
    }
    any(&body.steps)
}

impl Compiler<'_> {
    fn finish(mut self, procedure: &Procedure, body: Vec<Step>) -> UserResult<Program> {
        let parameters = self.binder.finished_parameters();
        let routing = if let Some(partitioning) = &procedure.partitioning {
            route_by(self.binder.catalog, procedure, partitioning, &parameters)?
        } else if procedure.directed {
            Routing::Directed
        } else if self.everywhere {
            Routing::All
        } else if self.keys.is_empty() {
            Routing::Any
        } else {
            match several_keys(std::mem::take(&mut self.keys), String::new()) {
                Reaches::Several { keys, .. } => Routing::Several { keys },
                _ => Routing::All,
            }
        };
        if matches!(routing, Routing::All | Routing::Several { .. }) {
            for statement in &mut self.statements {
                statement.multi_partition_reason.get_or_insert_with(|| {
                    "the procedure is not partitioned; CREATE PROCEDURE ... PARTITION ON would bind it to one"
                        .to_owned()
                });
            }
        }
        Ok(Program {
            name: procedure.name.clone(),
            parameters,
            registers: std::mem::take(&mut self.binder.registers),
            slots: self.binder.plan.slots(),
            subqueries: std::mem::take(&mut self.binder.plan.subqueries),
            common_tables: std::mem::take(&mut self.binder.plan.common_tables),
            body,
            read_only: !self.writes,
            snapshot_plan: SnapshotPlan::None,
            routing,
            statements: self.statements,
            external: None,
            variants: Variants::of(self.binder.adoptions(), || OfProcedure(procedure.clone())),
        })
    }

    /// A block inside another: its variables hide those around it.
    fn nodes(&mut self, nodes: &[Node]) -> UserResult<Vec<Step>> {
        let scope = self.binder.variables.len();
        let around = std::mem::replace(&mut self.block, scope);
        let steps = self.steps(nodes)?;
        self.block = around;
        self.binder.variables.truncate(scope);
        Ok(steps)
    }

    fn steps(&mut self, nodes: &[Node]) -> UserResult<Vec<Step>> {
        let mut steps = Vec::with_capacity(nodes.len());
        for node in nodes {
            self.node(node, &mut steps)?;
        }
        Ok(steps)
    }

    fn node(&mut self, node: &Node, steps: &mut Vec<Step>) -> UserResult<()> {
        match node {
            Node::Sql(written) => {
                let step =
                    self.sql(written).map_err(|error| context::compile_error(&written.text, written.start, error))?;
                steps.push(step);
            }
            Node::Declare { names, column_type, default } => {
                self.declare(names, *column_type, default.as_ref(), steps)?
            }
            Node::Set { name, value } => {
                let (register, column_type) = self.binder.register_named(name)?;
                let typed = self.binder.expression(value)?;
                steps.push(Step::Assign { register, value: self.assigned(typed, column_type, name)? });
            }
            Node::If { branches, otherwise } => {
                let mut bound = Vec::with_capacity(branches.len());
                for (condition, body) in branches {
                    bound.push((self.condition(condition)?, self.nodes(body)?));
                }
                let otherwise = self.nodes(otherwise)?;
                steps.push(Step::If { branches: bound, otherwise });
            }
            Node::While { label, condition, body } => {
                let condition = match condition {
                    Some(condition) => self.condition(condition)?,
                    None => Expr::Constant(OwnedValue::Boolean(true)),
                };
                let (label, body) = self.labelled(label, true, |compiler| compiler.nodes(body))?;
                steps.push(Step::While { label, condition, body });
            }
            Node::For { label, row, query, body } => {
                let step = self.for_loop(label, row, query, body)?;
                steps.push(step);
            }
            Node::Block { label, body } => {
                let (label, body) = self.labelled(label, false, |compiler| compiler.nodes(body))?;
                steps.push(Step::Block { label, body });
            }
            Node::Leave(name) => steps.push(Step::Leave { label: self.label_named(name, false)? }),
            Node::Iterate(name) => steps.push(Step::Iterate { label: self.label_named(name, true)? }),
            Node::Return(value) => {
                let value = self.return_value(value)?;
                steps.push(Step::Return(value));
            }
            Node::Signal { state, message } => {
                let message = match message {
                    Some(message) => {
                        let typed = self.binder.expression(message)?;
                        self.assigned(typed, ColumnType::unbounded(SqlType::Varchar), "MESSAGE_TEXT")?
                    }
                    None => Expr::Constant(OwnedValue::Text(format!("SQLSTATE {state}").into())),
                };
                steps.push(Step::Signal { state: state.clone(), message });
            }
        }
        // Conditions and assignments may hold queries too.
        self.note_reach(None)
    }

    fn declare(
        &mut self,
        names: &[String],
        column_type: ColumnType,
        default: Option<&ast::Expr>,
        steps: &mut Vec<Step>,
    ) -> UserResult<()> {
        let column_type = crate::bind::literal::declared(self.binder.catalog, column_type)?;
        for (position, name) in names.iter().enumerate() {
            let repeated = names[..position].contains(name);
            let mut own = self.binder.variables[self.block..].iter();
            if repeated || own.any(|variable| variable.row.is_none() && variable.name == *name) {
                return Err(UserError::compile("42710", format!("variable {name} is declared twice")));
            }
        }
        let value = match default {
            Some(default) => {
                let typed = self.binder.expression(default)?;
                Some(self.assigned(typed, column_type, &names[0])?)
            }
            None => None,
        };
        for name in names {
            let register = self.new_register(name, column_type)?;
            self.binder.variables.push(crate::bind::scope::Variable {
                name: name.clone(),
                row: None,
                expr: Expr::Register(register),
                column_type,
            });
            // Without a default too: inside a loop the variable starts anew with each round.
            steps.push(Step::Assign { register, value: value.clone().unwrap_or_else(Expr::null) });
        }
        Ok(())
    }

    fn new_register(&mut self, name: &str, column_type: ColumnType) -> UserResult<u16> {
        let register = u16::try_from(self.binder.registers.len())
            .map_err(|_| UserError::limit("too many variables in one procedure"))?;
        self.binder.registers.push(Register { name: name.to_owned(), column_type });
        Ok(register)
    }

    fn condition(&mut self, condition: &ast::Expr) -> UserResult<Expr> {
        let condition = self.binder.condition(condition)?;
        self.planned(condition)
    }

    /// What is bound is planned at once: it says on which partitions it must run.
    fn planned(&mut self, mut expr: Expr) -> UserResult<Expr> {
        self.binder.plan.plan_expression(&mut expr)?;
        Ok(expr)
    }

    /// A value for a variable of this type.
    fn assigned(&mut self, typed: Typed, to: ColumnType, name: &str) -> UserResult<Expr> {
        let value = self.fitted(typed, to, name)?;
        self.planned(value)
    }

    /// Of the type's kind, and for narrow integers within its range.
    fn fitted(&mut self, mut typed: Typed, to: ColumnType, name: &str) -> UserResult<Expr> {
        self.binder.settle(&mut typed, to);
        let Some(from) = typed.sql_type else { return Ok(typed.expr) };
        if !can_store(from, to.sql_type) {
            return Err(UserError::compile(
                "42804",
                format!("a {from} value cannot be assigned to {name} of type {to}"),
            )
            .with_hint("use CAST"));
        }
        let wide = from.same_kind(to.sql_type) && (!to.sql_type.is_integer() || from <= to.sql_type);
        if wide && typed.constant().is_none() {
            return Ok(typed.expr);
        }
        if typed.constant().is_some() {
            let stored = crate::bind::change::stored_constant(&typed, &to, name, "").map_err(|error| {
                let overflows = error.message().starts_with("Constant value");
                let message = format!("the constant overflows {to}, the type of variable {name}");
                if overflows { error.with_message(message) } else { error }
            })?;
            return Ok(Expr::Constant(stored));
        }
        let exact = self.binder.folding.convert_stored(typed.expr, from, to.sql_type)?;
        self.binder.folding.fold(Expr::Cast { operand: Box::new(exact), to: integer_or_unbounded(to) })
    }

    fn labelled(
        &mut self,
        name: &Option<String>,
        loops: bool,
        bind: impl FnOnce(&mut Self) -> UserResult<Vec<Step>>,
    ) -> UserResult<(u16, Vec<Step>)> {
        if name.is_some() && self.labels.iter().any(|(other, _, _)| other == name) {
            return Err(UserError::compile("42710", "a label has the name of one around it"));
        }
        let label = self.next_label;
        self.next_label += 1;
        self.labels.push((name.clone(), label, loops));
        let body = bind(self);
        self.labels.pop();
        Ok((label, body?))
    }

    fn label_named(&self, name: &str, must_loop: bool) -> UserResult<u16> {
        let found = self.labels.iter().rev().find(|(label, _, _)| label.as_deref() == Some(name));
        match found {
            Some((_, label, loops)) if *loops || !must_loop => Ok(*label),
            Some(_) => Err(UserError::compile("42601", format!("ITERATE {name}: {name} is not a loop"))),
            None => {
                Err(UserError::not_found(name).with_hint("LEAVE and ITERATE name the label of a block around them"))
            }
        }
    }

    fn for_loop(
        &mut self,
        label: &Option<String>,
        row: &str,
        query: &Written<Box<ast::Query>>,
        body: &[Node],
    ) -> UserResult<Step> {
        let (statement, bound) = self.written_query(query)?;
        let scope = self.binder.variables.len();
        let mut into = Vec::with_capacity(bound.columns.len());
        for column in &bound.columns {
            let column_type = ColumnType::unbounded(column.sql_type);
            let register = self.new_register(&format!("{row}.{}", column.name), column_type)?;
            into.push(register);
            self.binder.variables.push(crate::bind::scope::Variable {
                name: column.name.clone(),
                row: Some(row.to_owned()),
                expr: Expr::Register(register),
                column_type,
            });
        }
        let result = self.labelled(label, true, |compiler| compiler.nodes(body));
        self.binder.variables.truncate(scope);
        let (label, body) = result?;
        Ok(Step::For { label, statement, query: bound, into, body })
    }

    fn written_query(&mut self, query: &Written<Box<ast::Query>>) -> UserResult<(u16, Query)> {
        let planned = |binder: &mut Binder<'_>| {
            let (mut bound, _) = binder.in_frame(|binder| binder.query(&query.value))?;
            binder.plan.plan_query(&mut bound)?;
            Ok(bound)
        };
        let query_plan =
            planned(&mut self.binder).map_err(|error| context::compile_error(&query.text, query.start, error))?;
        let statement = self.statement_text(&query.text)?;
        Ok((statement, query_plan))
    }

    fn statement_text(&mut self, text: &str) -> UserResult<u16> {
        let number = u16::try_from(self.statements.len()).map_err(|_| UserError::limit("too many statements"))?;
        self.statements.push(StatementText::new(text.to_owned(), Touches::Several));
        self.note_reach(Some(number))?;
        Ok(number)
    }

    /// What the statement just bound says about partitions.
    fn note_reach(&mut self, statement: Option<u16>) -> UserResult<()> {
        self.writes |= self.binder.plan.facts.writes;
        if self.local
            && let Some(table) = &self.binder.plan.facts.writes_replicated
        {
            return Err(UserError::compile(
                "0A000",
                format!("Trying to write to replicated table '{table}' in a single-partition procedure."),
            )
            .with_hint("leave out PARTITION ON, so that the procedure runs on all partitions"));
        }
        let reached = self.binder.plan.facts.finish();
        if let Some(statement) = statement {
            self.statements[usize::from(statement)].touches = reached.touches();
        }
        match reached {
            Reaches::Any => {}
            Reaches::Key { keys, sql_type } => self.keys.extend(keys.into_iter().take(1).map(|key| (key, sql_type))),
            Reaches::Several { keys, reason } => {
                self.keys.extend(keys);
                if let Some(statement) = statement
                    && !self.local
                {
                    self.statements[usize::from(statement)].multi_partition_reason = Some(reason);
                }
            }
            Reaches::All(reason) => {
                self.everywhere = true;
                if let Some(statement) = statement
                    && !self.local
                {
                    self.statements[usize::from(statement)].multi_partition_reason = Some(reason);
                }
            }
        }
        Ok(())
    }

    fn sql(&mut self, written: &Written<SqlStatement>) -> UserResult<Step> {
        if let Some(targets) = written.value.targets() {
            return self.select_into(written, targets);
        }
        let mut plan = self.binder.statement(&written.value.kind)?;
        if self.returns_value && matches!(plan, Plan::Query(_)) {
            return Err(UserError::compile(
                "42601",
                "the result of this SELECT goes nowhere: the procedure returns a value",
            )
            .with_hint("use SELECT ... INTO variables, or RETURN TABLE (SELECT ...)"));
        }
        self.binder.plan.plan_statement(&mut plan)?;
        let statement = self.statement_text(&written.text)?;
        Ok(Step::Execute { statement, plan, emit: !self.returns_value })
    }

    fn select_into(&mut self, written: &Written<SqlStatement>, targets: &[ast::Expr]) -> UserResult<Step> {
        let SqlKind::Query(query) = &written.value.kind else {
            return Err(UserError::internal("INTO without a query"));
        };
        let mut query = query.clone();
        if let ast::SetExpr::Select(select) = query.body.as_mut() {
            select.into = None;
        }
        let (mut bound, _) = self.binder.in_frame(|binder| binder.query(&query))?;
        if bound.columns.len() != targets.len() {
            return Err(UserError::compile(
                "42601",
                format!("the query has {} columns and INTO {} variables", bound.columns.len(), targets.len()),
            ));
        }
        let mut into = Vec::with_capacity(targets.len());
        for (position, target) in targets.iter().enumerate() {
            let ast::Expr::Identifier(ident) = target else {
                return Err(UserError::syntax(format!("INTO takes variables, not {}", as_written(target))));
            };
            let name = crate::bind::scope::fold_name(ident);
            let (register, column_type) = self.binder.register_named(&name)?;
            let from = bound.columns[position].sql_type;
            if !can_store(from, column_type.sql_type) {
                return Err(UserError::compile(
                    "42804",
                    format!("a {from} value cannot be assigned to {name} of type {column_type}"),
                )
                .with_hint("use CAST"));
            }
            self.binder.cast_output(&mut bound, position, column_type.sql_type)?;
            into.push(register);
        }
        self.binder.plan.plan_query(&mut bound)?;
        let statement = self.statement_text(&written.text)?;
        Ok(Step::Fetch { statement, query: bound, into })
    }

    fn return_value(&mut self, value: &Return) -> UserResult<ReturnValue> {
        match value {
            Return::Nothing => Ok(ReturnValue::Nothing),
            Return::Value(expr) => {
                let mut typed = self.binder.expression(expr)?;
                self.binder.settle(&mut typed, ColumnType::fixed(SqlType::Bigint));
                match typed.sql_type {
                    None => Ok(ReturnValue::Status(self.planned(typed.expr)?)),
                    Some(sql_type) if sql_type.is_integer() => Ok(ReturnValue::Status(self.planned(typed.expr)?)),
                    Some(other) => Err(UserError::compile("42804", format!("RETURN takes an integer, not {other}"))
                        .with_hint("return other values with RETURN TABLE (SELECT ...)")),
                }
            }
            Return::Tables(queries) => {
                let mut tables = Vec::with_capacity(queries.len());
                for query in queries {
                    tables.push(self.written_query(query)?);
                }
                Ok(ReturnValue::Tables(tables))
            }
        }
    }
}

fn integer_or_unbounded(column_type: ColumnType) -> ColumnType {
    if column_type.sql_type.is_variable_length() { ColumnType::unbounded(column_type.sql_type) } else { column_type }
}

/// To the partition that owns the partitioning parameter's value.
pub(crate) fn route_by(
    catalog: &Catalog,
    procedure: &Procedure,
    partitioning: &ProcedurePartitioning,
    parameters: &[Parameter],
) -> UserResult<Routing> {
    let table = catalog.table(partitioning.table).ok_or_else(|| {
        UserError::ddl("42P01", format!("the table that procedure {} is partitioned on is gone", procedure.name))
    })?;
    let column = table
        .columns
        .get(usize::from(partitioning.column))
        .ok_or_else(|| UserError::internal("the partitioning column is not in its table"))?;
    let Some(parameter) = parameters.get(usize::from(partitioning.parameter)) else {
        return Err(UserError::ddl(
            "42601",
            format!(
                "procedure {} is partitioned by parameter {}, but has only {} parameters",
                procedure.name,
                partitioning.parameter,
                parameters.len()
            ),
        )
        .with_hint("parameters count from 0"));
    };
    let column_type = column.column_type.sql_type;
    if parameter.array || parameter.table || !can_route(parameter.column_type.sql_type, column_type) {
        return Err(UserError::ddl(
            "42804",
            format!(
                "parameter {} of procedure {} has type {}, which does not suit partitioning column {} of type {column_type}",
                partitioning.parameter, procedure.name, parameter.column_type.sql_type, column.name
            ),
        ));
    }
    Ok(Routing::Parameter { index: partitioning.parameter, sql_type: column_type })
}

/// Whether a parameter of this type can carry the partitioning column's value.
fn can_route(parameter: SqlType, column: SqlType) -> bool {
    parameter.same_kind(column) || (parameter == SqlType::Varchar && column == SqlType::Varbinary)
}
