//! Schema changes: text to a new catalog, then the stores follow it. Used by the coordinator and by
//! replay alike.

use crate::schema_limits;
use ferrite_base::{CatalogVersion, IndexId, SqlLimits, TableId, UserError, UserResult, Watcher, earlier};
use ferrite_catalog::{Catalog, Change, Effect, FunctionValues, Ids, base64, references, settle};
use ferrite_snapshot::{Manifest, SchemaBase, SchemaChange};
use ferrite_sql::Statement;
use ferrite_table::{SchemaUndo, Store};
use std::sync::Arc;

/// How a catalog came about, for a snapshot to tell: replay's own way to it.
#[derive(Clone, Default)]
pub struct SchemaHistory {
    pub base: Option<Arc<SchemaBase>>,
    /// Since the base, or since the beginning.
    pub changes: Vec<Arc<SchemaChange>>,
}

impl SchemaHistory {
    pub fn add(&mut self, version: u64, time: i64, text: &str) {
        self.changes.push(Arc::new(SchemaChange { version, time, text: text.to_owned() }));
    }

    /// The change that leads to that version, if it is known.
    pub fn change(&self, version: u64) -> Option<Arc<SchemaChange>> {
        self.changes.iter().find(|change| change.version == version).cloned()
    }

    /// The history that a snapshot tells.
    pub fn of(manifest: &Manifest) -> SchemaHistory {
        let changes = manifest.changes.iter().cloned().map(Arc::new).collect();
        SchemaHistory { base: manifest.base.clone().map(Arc::new), changes }
    }

    /// The catalog that it leads to.
    pub fn catalog(&self) -> UserResult<Catalog> {
        let mut catalog = match &self.base {
            Some(base) => base_catalog(base)?,
            None => Catalog::before_history(),
        };
        for change in &self.changes {
            catalog = Catalog::clone(&*plan(&catalog, &change.text)?.catalog);
            if catalog.version.0 != change.version {
                return Err(UserError::internal(format!(
                    "a schema change leads to version {} in place of {}",
                    catalog.version, change.version
                )));
            }
        }
        Ok(catalog)
    }

    /// The same in one text, once there are many changes and if that leads to the very same
    /// catalog. The last change `remains` where there are several groups: one of them may not have
    /// followed yet, and is sent it (docs/decisions/0123-schema-changes-of-several-groups.md).
    pub fn condense(&mut self, catalog: &Catalog, remains: bool) {
        if !self.is_long() {
            return;
        }
        let last = if remains { self.changes.pop() } else { None };
        let at_once = match &last {
            None => SchemaHistory::at_once(catalog),
            Some(_) if self.changes.is_empty() => None,
            Some(_) => self.catalog().ok().and_then(|before| SchemaHistory::at_once(&before)),
        };
        if let Some(history) = at_once {
            *self = history;
        }
        self.changes.extend(last);
    }

    fn is_long(&self) -> bool {
        let bytes: usize = self.changes.iter().map(|change| change.text.len()).sum();
        self.changes.len() >= CHANGES_BEFORE_BASE || bytes >= CHANGES_BYTES_BEFORE_BASE
    }

    /// A history that leads to `catalog` in one text. None: that text would not lead to the very
    /// same catalog.
    pub fn at_once(catalog: &Catalog) -> Option<SchemaHistory> {
        let base = SchemaBase {
            version: catalog.version.0,
            next_table_id: catalog.next_table_id,
            next_index_id: catalog.next_index_id,
            text: said_before(catalog.values) + &ferrite_catalog::schema_text(catalog),
            tables: catalog.tables.values().map(|table| (table.id.0, table.name.clone())).collect(),
            indexes: catalog
                .tables
                .values()
                .flat_map(|table| {
                    table.indexes.iter().map(|index| (index.id.0, table.name.clone(), index.distinct_name()))
                })
                .map(|(id, table, index)| (id, format!("{table}\0{index}")))
                .collect(),
        };
        // Debug shows every field, so that equal texts mean equal catalogs.
        let same = base_catalog(&base).is_ok_and(|made| format!("{made:?}") == format!("{catalog:?}"));
        same.then(|| SchemaHistory { base: Some(Arc::new(base)), changes: Vec::new() })
    }
}

/// Below this number the changes themselves are kept.
const CHANGES_BEFORE_BASE: usize = 100;
/// Nor are they kept when they are longer than this, as those with Java classes are.
const CHANGES_BYTES_BEFORE_BASE: usize = 4 * 1024 * 1024;

/// The catalog that a base represents: its text's, with the ids that it lists.
fn base_catalog(base: &SchemaBase) -> UserResult<Catalog> {
    let made = if base.text.is_empty() {
        Catalog::before_history()
    } else {
        (*plan(&Catalog::before_history(), &base.text)?.catalog).clone()
    };
    made.with_ids(&Ids {
        version: CatalogVersion(base.version),
        next_table_id: base.next_table_id,
        next_index_id: base.next_index_id,
        tables: base.tables.iter().map(|(id, name)| (name.clone(), TableId(*id))).collect(),
        indexes: base
            .indexes
            .iter()
            .filter_map(|(id, name)| {
                let (table, index) = name.split_once('\0')?;
                Some(((table.to_owned(), index.to_owned()), IndexId(*id)))
            })
            .collect(),
    })
}

/// A bound schema change, not yet carried out.
pub struct Planned {
    pub catalog: Arc<Catalog>,
    pub effects: Vec<Effect>,
    /// What was accepted but does nothing, for the user to know.
    pub warnings: Vec<String>,
    /// Tables that trade their rows with each other, the one thing for which a count of rows is
    /// answered.
    pub swapped: Vec<TableId>,
}

/// What a logged change begins with after which functions have the values of decision 0024.
const ROUNDED_LITERALS: &str = "SET FUNCTION_VALUES CURRENT;\n";
/// The same with literals that keep all digits (docs/decisions/0072): today's values.
const CURRENT_VALUES: &str = "SET FUNCTION_VALUES 3;\n";

/// Binds the DDL statements of `text`, each against the catalog that those before it leave. They
/// were accepted before, and mean what they meant then.
pub fn plan(catalog: &Catalog, text: &str) -> UserResult<Planned> {
    let mut next = catalog.clone();
    let (text, said) = values_said(catalog, text);
    next.values = said;
    said.hold(|| plan_from(catalog, next.clone(), text, &SqlLimits::CEILING, true))
}

/// The statements of a logged change, and the values that functions have in them.
fn values_said<'t>(before: &Catalog, text: &'t str) -> (&'t str, FunctionValues) {
    if let Some(text) = text.strip_prefix(CURRENT_VALUES) {
        return (text, FunctionValues::Current);
    }
    if let Some(text) = text.strip_prefix(ROUNDED_LITERALS) {
        return (text, FunctionValues::RoundedLiterals);
    }
    let begins = before.version.0 == 0 && text.starts_with(ferrite_catalog::DECIMAL_SCALE);
    let says = begins && before.values == FunctionValues::Earlier;
    (text, if says { FunctionValues::RoundedLiterals } else { before.values })
}

/// The same for what comes from a client, with the limits that are set.
pub fn plan_within(catalog: &Catalog, text: &str, limits: &SqlLimits) -> UserResult<Planned> {
    let mut next = catalog.clone();
    next.values = FunctionValues::Current;
    plan_from(catalog, next, text, limits, false)
}

/// Binds what is in `text` against `next`, which is `catalog` except for what the text says of
/// itself. What was accepted earlier must not keep a database shut: a statement that is refused
/// today may be valid by the rules of earlier builds. Then it is a view that is computed when it is
/// read, and refused there; what has rows was never refused since.
fn plan_from(
    catalog: &Catalog,
    mut next: Catalog,
    text: &str,
    limits: &SqlLimits,
    accepted: bool,
) -> UserResult<Planned> {
    let statements = ferrite_sql::parse_batch(text)?;
    let mut effects = Vec::new();
    let mut warnings = Vec::new();
    let mut swapped = Vec::new();
    for (index, statement) in statements.iter().enumerate() {
        let step = step(&next, statement, limits)
            .or_else(|error| match accepted {
                true => earlier::with(|| step(&next, statement, limits)).map_err(|_| error),
                false => Err(error),
            })
            .map_err(|error| ferrite_sql::ddl_error(index + 1, statement, error))?;
        if let Change::SwapTables { one, other } = &step.change {
            swapped.extend([one, other].iter().filter_map(|name| Some(next.table_named(name)?.id)));
        }
        next = step.catalog;
        effects.extend(step.effects);
        warnings.extend(step.warnings);
    }
    if !accepted {
        let known = ferrite_sql::missing_indexes(catalog);
        let advice = ferrite_sql::missing_indexes(&next).into_iter().filter(|(name, _)| !known.contains_key(name));
        warnings.extend(advice.map(|(_, advice)| advice));
    }
    let effects = settle(effects, catalog, &next);
    // However many statements it took, it is one version.
    next.version = ferrite_base::CatalogVersion(catalog.version.0 + 1);
    Ok(Planned { catalog: Arc::new(next), effects, warnings, swapped })
}

/// A schema change as the log has it. The first one of a database says what holds for all that
/// follow: that functions have today's values, and what DECIMAL(p, s) means. The first one that is
/// made to an old database says the former alone.
pub fn logged_text(before: &Catalog, text: &str) -> String {
    let mut logged = String::new();
    if before.version.0 == 0 || before.values != FunctionValues::Current {
        logged.push_str(CURRENT_VALUES);
    }
    if before.version.0 == 0 {
        logged.push_str(&ferrite_catalog::decimal_scale_text(before.decimals));
    }
    logged.push_str(text);
    logged
}

/// What a text that leads to a catalog of such values begins with.
fn said_before(values: FunctionValues) -> String {
    // The others follow from how the text continues.
    if values == FunctionValues::Current { CURRENT_VALUES.to_owned() } else { String::new() }
}

/// One statement of a schema change.
pub struct Step {
    pub change: Change,
    pub catalog: Catalog,
    pub effects: Vec<Effect>,
    pub warnings: Vec<String>,
}

/// Binds one DDL statement against the catalog that those before it have left.
pub fn step(catalog: &Catalog, statement: &Statement, limits: &SqlLimits) -> UserResult<Step> {
    let (change, warnings) = ferrite_sql::bind_ddl(catalog, statement)?;
    let (next, effects) = catalog.apply(&change)?;
    schema_limits::check(&change, catalog, &next, limits)?;
    Ok(Step { change, catalog: next, effects, warnings })
}

/// What is asked of new classes where they come from a client: refuses those that unpack to more
/// than they may, and answers warnings about what they need that is not there.
pub fn judge_classes(before: &Catalog, after: &Catalog) -> UserResult<Vec<String>> {
    after.classes.check_unpacked(&before.classes)?;
    Ok(references::class_warnings(before, after))
}

/// Carries the change out on all stores: on every one, or on none. `time` is the transaction's.
pub fn apply(stores: &mut [Store], planned: &Planned, time: i64) -> UserResult<()> {
    let apply = || ferrite_table::change_schema(stores, &planned.catalog, &planned.effects, time);
    planned.catalog.values.hold(apply)
}

/// The same, of a change that is not in the log yet, which `watcher` may end.
pub fn apply_watched(stores: &mut [Store], planned: &Planned, time: i64, watcher: &Watcher) -> UserResult<SchemaUndo> {
    ferrite_table::change_schema_watched(stores, &planned.catalog, &planned.effects, time, watcher)
}

/// The statement that loads a jar.
pub fn load_classes(jar: &[u8]) -> String {
    format!("LOAD CLASSES '{}';\n", base64::encode(jar))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_catalog::DECIMAL_SCALE;

    fn history(changes: u64) -> SchemaHistory {
        let mut history = SchemaHistory::default();
        history.add(1, 0, &format!("{CURRENT_VALUES}{DECIMAL_SCALE} DECLARED; CREATE TABLE t1 (a INT);"));
        (2..=changes).for_each(|version| history.add(version, 0, &format!("CREATE TABLE t{version} (a INT);")));
        history
    }

    #[test]
    fn the_last_change_can_still_be_sent_when_the_others_are_one_text() {
        let mut long = history(120);
        let catalog = long.catalog().expect("it is a schema");
        let before = format!("{catalog:?}");
        long.condense(&catalog, true);
        let base = long.base.as_ref().expect("there are many");
        assert_eq!((base.version, long.changes.len()), (119, 1));
        assert!(long.change(120).is_some());
        assert_eq!(format!("{:?}", long.catalog().expect("it is the same")), before);
        long.condense(&catalog, true);
        assert_eq!(long.changes.len(), 1);
        let mut short = history(5);
        short.condense(&catalog, true);
        assert!(short.base.is_none());
        let mut of_one_group = history(120);
        of_one_group.condense(&catalog, false);
        assert_eq!((of_one_group.base.expect("there are many").version, of_one_group.changes.len()), (120, 0));
    }
}
