//! Where a statement must run: what its equalities say about partitioning columns.
//!
//! While a statement is bound, every block notes its equalities and every use of a table its
//! partitioning column. When it is done, each column is followed through the equalities of its
//! block and of the blocks around it to constants and parameters. A statement is single-partition
//! when one of these fixes all its partitioned tables.

use ferrite_catalog::Table;
use ferrite_expr::{CompareOperator, Expr};
use ferrite_plan::{Aggregation, Query, QueryBody, Touches};
use ferrite_value::SqlType;

#[derive(Default)]
pub(crate) struct Facts {
    blocks: Vec<Block>,
    open: Vec<usize>,
    uses: Vec<Use>,
    /// A replicated table that the statement changes.
    pub writes_replicated: Option<String>,
    pub writes: bool,
}

#[derive(Default)]
struct Block {
    parent: Option<usize>,
    equalities: Vec<(Expr, Expr)>,
    lists: Vec<ListedKeys>,
    /// All conditions, to say why a column is not fixed.
    conditions: Vec<Expr>,
}

/// `column IN (...)` with nothing but constants and parameters in the list.
struct ListedKeys {
    column: Expr,
    keys: Vec<Expr>,
    /// Somewhere the column stands as another kind of number: this counts where it is an integer.
    is_number: bool,
}

/// A partitioned table in the statement.
struct Use {
    table: String,
    /// The partitioning column; None for views that have none.
    column: Option<(String, SqlType)>,
    /// What must be fixed: the column, or the value that goes into it.
    start: Expr,
    block: Option<usize>,
    /// Equalities that hold for this source only (ON of its outer join).
    own: Vec<(Expr, Expr)>,
    /// The other columns of the primary key, with their names.
    key_columns: Vec<(Expr, String)>,
}

/// More values than this are not told apart: their partitions are soon all of them.
const KEYS_MAX: usize = 64;

/// Where one statement can run.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Reaches {
    Any,
    /// On the partition of one of these values, which are all equal.
    Key {
        keys: Vec<Expr>,
        sql_type: SqlType,
    },
    /// On the partitions of these values, and why not on one.
    Several {
        keys: Vec<(Expr, SqlType)>,
        reason: String,
    },
    /// Everywhere, and why.
    All(String),
}

impl Reaches {
    /// The same without reasons. A constant is known now, so it goes before a parameter.
    pub fn touches(&self) -> Touches {
        match self {
            Reaches::Any => Touches::Replicated,
            Reaches::Key { keys, sql_type } => {
                let constant = keys.iter().find(|key| matches!(key, Expr::Constant(_)));
                let key = constant.or(keys.first()).cloned();
                key.map_or(Touches::Several, |key| Touches::OneKey { key, sql_type: *sql_type })
            }
            Reaches::Several { .. } | Reaches::All(_) => Touches::Several,
        }
    }
}

impl Facts {
    pub fn open_block(&mut self) {
        self.blocks.push(Block { parent: self.open.last().copied(), ..Block::default() });
        self.open.push(self.blocks.len() - 1);
    }

    pub fn close_block(&mut self) {
        self.open.pop();
    }

    /// The number that the next block will have.
    pub fn next_block(&self) -> usize {
        self.blocks.len()
    }

    pub fn add_equalities(&mut self, conjuncts: &[Expr]) {
        let Some(block) = self.open.last().copied() else { return };
        self.blocks[block].equalities.extend(conjuncts.iter().filter_map(equality));
        self.blocks[block].lists.extend(conjuncts.iter().filter_map(list_of_keys));
        self.blocks[block].conditions.extend_from_slice(conjuncts);
    }

    pub fn add_read(&mut self, table: &Table, slot: u16, on: &[Expr]) {
        if !table.is_partitioned() {
            return;
        }
        let column = partition_column(table);
        self.uses.push(Use {
            table: described(table),
            start: Expr::column(slot, table.partition_column.unwrap_or_default()),
            column,
            block: self.open.last().copied(),
            own: on.iter().filter_map(equality).collect(),
            key_columns: key_columns(table, slot),
        });
    }

    /// The statement changes `table`, in the rows where `key` is the partitioning column's value.
    pub fn add_write(&mut self, table: &Table, key: Expr) {
        let block = self.open.last().copied();
        self.add_write_in(table, key, block);
    }

    pub fn add_write_in(&mut self, table: &Table, key: Expr, block: Option<usize>) {
        self.writes = true;
        if !table.is_partitioned() {
            self.writes_replicated.get_or_insert_with(|| table.name.clone());
            return;
        }
        let key_columns = match key {
            Expr::Column { slot, .. } => key_columns(table, slot),
            _ => Vec::new(),
        };
        let column = partition_column(table);
        self.uses.push(Use { table: described(table), column, start: key, block, own: Vec::new(), key_columns });
    }

    /// A derived table's columns equal the expressions inside it, as long as it shows all rows that
    /// these make.
    pub fn derived_columns(&mut self, slot: u16, query: &Query) {
        let mut pairs = Vec::new();
        shown_columns(slot, query, true, &mut pairs);
        // They go to the block around: all inner blocks see them, and they say nothing about other
        // tables' rows.
        if let Some(block) = self.open.last().copied() {
            self.blocks[block].equalities.extend(pairs);
        }
    }

    /// The group's row equals the group's keys.
    pub fn grouped(&mut self, aggregation: &Aggregation) {
        let Some(block) = self.open.last().copied() else { return };
        if !aggregation.sets.is_empty() {
            return;
        }
        let slot = aggregation.slot;
        let keys = aggregation.group_by.iter().enumerate();
        let pairs: Vec<_> = keys.map(|(position, key)| (Expr::column(slot, position as u16), key.clone())).collect();
        self.blocks[block].equalities.extend(pairs);
    }

    /// What has been noted, as an answer; the notes are gone after it.
    pub fn finish(&mut self) -> Reaches {
        let facts = std::mem::take(self);
        if let Some(table) = &facts.writes_replicated {
            return Reaches::All(format!("table {table} is replicated, and is changed on every partition"));
        }
        let mut common: Option<(Vec<Expr>, SqlType)> = None;
        let mut several: Vec<(Expr, SqlType)> = Vec::new();
        let mut why_several: Option<String> = None;
        for used in &facts.uses {
            let Some((column, sql_type)) = &used.column else {
                return Reaches::All(format!("{} has rows on every partition", used.table));
            };
            let keys = facts.fixed_values(used);
            if keys.is_empty()
                && let Some(list) = facts.listed_values(used)
            {
                why_several.get_or_insert_with(|| {
                    format!("{}: its partitioning column {column} is fixed to several values", used.table)
                });
                several.extend(list.iter().map(|key| (key.clone(), *sql_type)));
                continue;
            }
            if keys.is_empty() {
                let hint = facts.hint(used, column, *sql_type).map(|hint| format!("; hint: {hint}"));
                return Reaches::All(format!(
                    "{}: its partitioning column {column} is not fixed by an equality with a constant or parameter{}",
                    used.table,
                    hint.unwrap_or_default()
                ));
            }
            several.push((keys[0].clone(), *sql_type));
            common = match common {
                None => Some((keys, *sql_type)),
                Some((known, sql_type)) => {
                    let shared: Vec<Expr> = known.into_iter().filter(|key| keys.contains(key)).collect();
                    if shared.is_empty() {
                        why_several.get_or_insert_with(|| {
                            format!(
                                "{}: its partitioning column {column} is fixed to another value than elsewhere in the statement",
                                used.table
                            )
                        });
                    }
                    Some((shared, sql_type))
                }
            };
        }
        if let Some(reason) = why_several {
            return several_keys(several, reason);
        }
        match common {
            None => Reaches::Any,
            Some((keys, sql_type)) => Reaches::Key { keys, sql_type },
        }
    }

    /// What the author of the statement may have thought to fix the column, and what would.
    fn hint(&self, used: &Use, column: &str, sql_type: SqlType) -> Option<String> {
        let mut conditions: Vec<&Expr> = Vec::new();
        let mut block = used.block;
        while let Some(facts) = block.and_then(|index| self.blocks.get(index)) {
            conditions.extend(&facts.conditions);
            block = facts.parent;
        }
        let equal = self.equal_values(used);
        let reads = |expr: &Expr, wanted: &Expr| expr.any(&mut |part| part == wanted);
        let fixed_by = |expr: &Expr| matches!(expr, Expr::Column { .. }) && equal.contains(&expr);
        let mentioned = conditions.iter().filter(|condition| equal.iter().any(|value| reads(condition, value)));
        let said = mentioned.filter_map(|condition| match condition {
            Expr::Or(parts) if parts.iter().any(|part| equality(part).is_some_and(|(left, right)| fixed_by(&left) || fixed_by(&right))) => {
                Some(format!("the equality on {column} stands under OR; write {column} IN (...), or a statement for each value"))
            }
            Expr::InArray { operand, .. } if fixed_by(operand) => {
                Some(format!("the array's values may be on any partition; a call for each value of {column} needs one"))
            }
            Expr::Compare { operator: CompareOperator::Equal, left, right } => {
                let own_right = fixed_by(right) || (!fixed_by(left) && equal.iter().any(|value| reads(right, value)));
                let (own, other) = if own_right { (right, left) } else { (left, right) };
                let computed = !other.any(&mut |part| matches!(part, Expr::Column { .. }));
                match own.as_ref() {
                    own if fixed_by(own) && computed => Some(format!(
                        "{column} is compared with something computed; compute it before, and give it as a parameter"
                    )),
                    // A column: a join, of which more is said below.
                    own if fixed_by(own) && matches!(other.as_ref(), Expr::Column { .. }) => None,
                    own if fixed_by(own) => Some(format!(
                        "{column} is compared with an expression over columns, which is another value for each row; only a constant or a parameter fixes it"
                    )),
                    Expr::Cast { .. } if computed => Some(format!(
                        "{column} is converted before it is compared; compare it with a value of its own type, {sql_type}"
                    )),
                    _ if computed => Some(format!("{column} stands inside an expression; compare the column itself")),
                    _ => None,
                }
            }
            Expr::Compare { left, right, .. } if fixed_by(left) || fixed_by(right) => {
                Some(format!("a range of {column} has rows on every partition; only an equality fixes it"))
            }
            _ => None,
        });
        if let Some(said) = said.into_iter().next() {
            return Some(said);
        }
        let fixed = self.uses.iter().find(|other| other.column.is_some() && !self.fixed_values(other).is_empty());
        if let Some((other, Some((other_column, _)))) = fixed.map(|other| (other, &other.column)) {
            let name = |used: &Use| used.table.split(' ').next_back().unwrap_or_default().to_owned();
            return Some(format!(
                "{}.{other_column} is fixed; join by it too: {}.{column} = {}.{other_column}",
                name(other),
                name(used),
                name(other)
            ));
        }
        let given = conditions.iter().filter_map(|condition| equality(condition));
        let parts: Vec<&str> = given
            .filter_map(|(left, right)| {
                used.key_columns.iter().find(|(part, _)| *part == left || *part == right).map(|(_, name)| name.as_str())
            })
            .collect();
        (!parts.is_empty()).then(|| {
            format!("the primary key is only given in part ({}); add an equality on {column}", parts.join(", "))
        })
    }

    /// The constants and parameters of a list that the use's partitioning value is in.
    fn listed_values(&self, used: &Use) -> Option<&[Expr]> {
        let equal = self.equal_values(used);
        let fixes = |list: &&ListedKeys| equal.contains(&&list.column) && (!list.is_number || used.is_integer());
        let mut block = used.block;
        while let Some(facts) = block.and_then(|index| self.blocks.get(index)) {
            if let Some(list) = facts.lists.iter().find(fixes) {
                return Some(&list.keys);
            }
            block = facts.parent;
        }
        None
    }

    /// Constants and parameters that the use's partitioning value equals.
    fn fixed_values(&self, used: &Use) -> Vec<Expr> {
        self.equal_values(used).into_iter().filter(|expr| is_key(expr)).cloned().collect()
    }

    /// All that the use's partitioning value equals.
    fn equal_values<'f>(&'f self, used: &'f Use) -> Vec<&'f Expr> {
        let mut equal = vec![&used.start];
        let mut position = 0;
        while position < equal.len() {
            let current = equal[position];
            let mut block = used.block;
            let mut found: Vec<&Expr> = Vec::new();
            found.extend(used.own.iter().filter_map(|pair| used.other_side(pair, current)));
            while let Some(index) = block {
                let Some(facts) = self.blocks.get(index) else { break };
                found.extend(facts.equalities.iter().filter_map(|pair| used.other_side(pair, current)));
                block = facts.parent;
            }
            for expr in found {
                if !equal.contains(&expr) {
                    equal.push(expr);
                }
            }
            position += 1;
        }
        equal
    }
}

impl Use {
    fn is_integer(&self) -> bool {
        self.column.as_ref().is_some_and(|(_, sql_type)| sql_type.is_integer())
    }

    /// What a pair says that `expr`, which the partitioning value equals, equals. Beside numbers of
    /// another kind an integer stands as one of them; only a constant or parameter is taken there,
    /// so that `expr` is an integer whenever the partitioning column is one.
    fn other_side<'e>(&self, pair: &'e (Expr, Expr), expr: &Expr) -> Option<&'e Expr> {
        let is_number = |side: &Expr| matches!(as_integer(side), Some(inner) if inner == expr);
        match pair {
            (left, right) if left == expr => Some(right),
            (left, right) if right == expr => Some(left),
            (left, right) if self.is_integer() && is_key(right) && is_number(left) => Some(right),
            (left, right) if self.is_integer() && is_key(left) && is_number(right) => Some(left),
            _ => None,
        }
    }
}

/// What stands as another kind of number, if it is an integer.
fn as_integer(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Cast { operand, to } if to.has_all_of(SqlType::Bigint) => Some(operand),
        _ => None,
    }
}

/// What a query's columns equal inside it. In a set operation each side makes rows of its own:
/// there only the side's own columns count, for what else they equal, the other side's do not.
fn shown_columns(slot: u16, query: &Query, whole: bool, pairs: &mut Vec<(Expr, Expr)>) {
    if query.limit.is_some() || query.offset.is_some() {
        return;
    }
    match &query.body {
        QueryBody::Select(select) => {
            let own = |expr: &Expr| match expr {
                Expr::Column { slot, .. } => select.sources.iter().any(|source| source.slot == *slot),
                _ => false,
            };
            for (position, expr) in select.output.iter().enumerate().take(query.columns.len()) {
                let inner = match (&select.aggregation, expr) {
                    (None, expr) => expr,
                    (Some(aggregation), Expr::Column { slot, column })
                        if *slot == aggregation.slot && aggregation.sets.is_empty() =>
                    {
                        match aggregation.group_by.get(usize::from(*column)) {
                            Some(key) => key,
                            None => continue,
                        }
                    }
                    _ => continue,
                };
                // A window that other partitions' rows reach is not decided by one partition.
                let windows = select.windowing.iter().flat_map(|windowing| &windowing.windows);
                if windows.into_iter().any(|window| !window.partition_by.contains(expr)) {
                    continue;
                }
                if whole || own(inner) {
                    pairs.push((Expr::column(slot, position as u16), inner.clone()));
                }
            }
        }
        QueryBody::SetOperation { left, right, .. } => {
            shown_columns(slot, left, false, pairs);
            shown_columns(slot, right, false, pairs);
        }
        _ => {}
    }
}

fn is_key(expr: &Expr) -> bool {
    matches!(expr, Expr::Constant(_) | Expr::Parameter(_))
}

/// The partitions of all these values, each named once.
pub(crate) fn several_keys(keys: Vec<(Expr, SqlType)>, reason: String) -> Reaches {
    let mut distinct: Vec<(Expr, SqlType)> = Vec::new();
    for key in keys {
        if !distinct.contains(&key) {
            // Looked at here, so that a list of any length is not compared with itself.
            if distinct.len() == KEYS_MAX {
                return Reaches::All(reason);
            }
            distinct.push(key);
        }
    }
    Reaches::Several { keys: distinct, reason }
}

fn list_of_keys(conjunct: &Expr) -> Option<ListedKeys> {
    let list = |operand: &Expr, keys: Vec<Expr>| {
        let number = as_integer(operand);
        ListedKeys { column: number.unwrap_or(operand).clone(), keys, is_number: number.is_some() }
    };
    match conjunct {
        // The same with OR: every part fixes the same column.
        Expr::Or(parts) => {
            let mut lists = parts.iter().map(|part| match equality(part) {
                Some((operand, value)) if is_key(&value) => Some(list(&operand, vec![value])),
                Some((value, operand)) if is_key(&value) => Some(list(&operand, vec![value])),
                _ => list_of_keys(part),
            });
            let mut all = lists.next()??;
            for other in lists {
                let mut other = other.filter(|other| other.column == all.column)?;
                all.keys.append(&mut other.keys);
                all.is_number |= other.is_number;
            }
            Some(all)
        }
        Expr::InList { operand, list: keys, negated: false } if keys.iter().all(is_key) => {
            Some(list(operand, keys.to_vec()))
        }
        _ => None,
    }
}

fn equality(conjunct: &Expr) -> Option<(Expr, Expr)> {
    match conjunct {
        Expr::Compare { operator: CompareOperator::Equal, left, right } => {
            Some((left.as_ref().clone(), right.as_ref().clone()))
        }
        _ => None,
    }
}

fn partition_column(table: &Table) -> Option<(String, SqlType)> {
    let column = table.columns.get(usize::from(table.partition_column?))?;
    Some((column.name.clone(), column.column_type.sql_type))
}

fn key_columns(table: &Table, slot: u16) -> Vec<(Expr, String)> {
    let columns = table.primary_key_index().and_then(|index| index.key_columns()).unwrap_or_default();
    let others = columns.into_iter().filter(|column| Some(*column) != table.partition_column);
    others.map(|column| (Expr::column(slot, column), table.columns[usize::from(column)].name.clone())).collect()
}

fn described(table: &Table) -> String {
    match table.kind {
        ferrite_catalog::TableKind::Table => format!("table {}", table.name),
        ferrite_catalog::TableKind::View => format!("view {}", table.name),
        ferrite_catalog::TableKind::Stream => format!("stream {}", table.name),
    }
}
