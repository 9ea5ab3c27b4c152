//! Programs whose `?` took their types from their neighbours, for values of other types.
//!
//! `int_column * ?` makes its parameter a BIGINT. A caller who gives 2.5 means a product with
//! decimals, so the statement is compiled again with a parameter of the value's type: once for each
//! combination of types, when it first comes, and kept beside the program. What a program declares
//! stays as it is, and a value of a declared type costs nothing.

use crate::long_read::tables_read;
use crate::program::{Parameter, Program, Routing, SnapshotPlan};
use bumpalo::Bump;
use ferrite_base::{TableId, UserResult, limits};
use ferrite_catalog::Catalog;
use ferrite_value::decimal::Rest;
use ferrite_value::{ColumnType, Decimal, SqlType, Value, convert, temporal, text};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// How a `?` came by its type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Adoption {
    /// It cannot have another.
    #[default]
    Fixed,
    /// It is stored in an integer column, which takes whole numbers of any type.
    Stored,
    /// Nothing in the statement says its type: the value's type decides.
    Undecided,
    /// Its type was met elsewhere, after COALESCE or a subquery had carried it there: the value's
    /// type decides, as a literal's would.
    Carried,
    /// It is computed with: the value's type decides.
    Computed,
    /// It is compared: a value that is of the type keeps it, so that indexes serve; others are
    /// compared as they are.
    Compared,
}

/// For each parameter, the type that it is given in place of its neighbour's.
pub type Presets = Box<[Option<SqlType>]>;

/// Where a program came from: compiles it again for parameters of other types.
pub trait Recompile: fmt::Debug + Send + Sync {
    /// Whether a variant may have all partitions where `program` has one: a procedure that is bound
    /// to one partition may not.
    fn reaches_all(&self) -> bool;

    /// A variant of `program`; on all partitions if `everywhere`.
    fn compile(&self, program: &Program, catalog: &Catalog, presets: &Presets, everywhere: bool)
    -> UserResult<Program>;
}

/// The other programs of a program.
#[derive(Debug)]
pub struct Variants {
    origin: Arc<dyn Recompile>,
    adoptions: Box<[Adoption]>,
    /// Of the lifted literals of a template, whose types were proven.
    pinned: Presets,
    /// Tables whose indexes are not there: the program runs on snapshots.
    without_indexes: Vec<TableId>,
    /// By their presets; None where the statement cannot be compiled so. None goes while the
    /// program lives: results are known by where their columns stand.
    made: RwLock<Vec<(Presets, Option<Arc<Program>>)>>,
}

/// The values of a call, with the program that takes them; None for the one that was called.
pub struct Fitted<'a> {
    pub program: Option<Arc<Program>>,
    pub values: &'a [Value<'a>],
}

impl Variants {
    /// None where every parameter has a type that nothing can change.
    pub fn of<R: Recompile + 'static>(adoptions: Vec<Adoption>, origin: impl FnOnce() -> R) -> Option<Arc<Variants>> {
        if adoptions.iter().all(|adoption| *adoption == Adoption::Fixed) {
            return None;
        }
        let pinned = vec![None; adoptions.len()].into();
        Some(Arc::new(Variants::new(Arc::new(origin()), adoptions.into(), pinned, Vec::new())))
    }

    fn new(
        origin: Arc<dyn Recompile>,
        adoptions: Box<[Adoption]>,
        pinned: Presets,
        without_indexes: Vec<TableId>,
    ) -> Variants {
        Variants { origin, adoptions, pinned, without_indexes, made: RwLock::default() }
    }

    /// Whether a call of `program` with this value of its routing parameter is run by a variant,
    /// which is then compiled for all partitions: in it the parameter is converted before it is
    /// compared or stored. A procedure that is bound to one partition has no such variants; its
    /// partitioning parameter is of the column's type.
    pub fn reaches_all(&self, program: &Program, index: u16, value: Value<'_>) -> bool {
        let place = usize::from(index);
        let (Some(adoption), Some(parameter)) = (self.adoptions.get(place), program.parameters.get(place)) else {
            return false;
        };
        let arena = Bump::new();
        let value = whole(value, *adoption, parameter, &arena).unwrap_or(value);
        self.origin.reaches_all() && !value.is_null() && preset(value, *adoption, parameter).is_some()
    }

    /// What `given` is to be converted to and run by, for a call of `program`, whose variants these
    /// are. A value that fits nothing is left as it is, for the conversion to refuse. Takes no
    /// memory where all values fit.
    pub fn fit<'a>(&self, program: &Program, catalog: &Catalog, given: &'a [Value<'a>], arena: &'a Bump) -> Fitted<'a> {
        let mut presets: Option<Presets> = None;
        let mut values: Option<&'a mut [Value<'a>]> = None;
        for (place, (value, parameter)) in given.iter().zip(&program.parameters).enumerate() {
            let adoption = self.adoptions.get(place).copied().unwrap_or_default();
            if adoption == Adoption::Fixed || value.is_null() {
                continue;
            }
            let whole = whole(*value, adoption, parameter, arena);
            if let Some(whole) = whole {
                values.get_or_insert_with(|| arena.alloc_slice_copy(given))[place] = whole;
            }
            if let Some(preset) = preset(whole.unwrap_or(*value), adoption, parameter) {
                presets.get_or_insert_with(|| self.pinned.clone())[place] = Some(preset);
            }
        }
        if let Some(presets) = &mut presets {
            self.keep_own_types(presets, program, given);
        }
        let program = presets.and_then(|presets| self.made_for(program, catalog, presets));
        Fitted { program, values: values.map_or(given, |values| values) }
    }

    /// In a variant, values that are of the declared types keep these where their types decide:
    /// what the parameters meet there may be of another type.
    #[cold]
    fn keep_own_types(&self, presets: &mut Presets, program: &Program, given: &[Value<'_>]) {
        for (place, (value, parameter)) in given.iter().zip(&program.parameters).enumerate() {
            let decides = matches!(self.adoptions.get(place), Some(Adoption::Carried | Adoption::Undecided));
            if decides && presets[place].is_none() && !value.is_null() && !parameter.array {
                presets[place] = Some(parameter.column_type.sql_type);
            }
        }
    }

    #[cold]
    fn made_for(&self, program: &Program, catalog: &Catalog, presets: Presets) -> Option<Arc<Program>> {
        let known = |made: &[(Presets, Option<Arc<Program>>)]| {
            made.iter().find(|(known, _)| *known == presets).map(|(_, program)| program.clone())
        };
        if let Some(known) = known(&self.made.read().unwrap_or_else(PoisonError::into_inner)) {
            return known;
        }
        let mut made = self.made.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known(&made) {
            return known;
        }
        if made.len() >= limits::STATEMENT_VARIANTS_MAX {
            return None;
        }
        let variant = self.compile(program, catalog, &presets).ok().map(Arc::new);
        made.push((presets, variant.clone()));
        variant
    }

    fn compile(&self, program: &Program, catalog: &Catalog, presets: &Presets) -> UserResult<Program> {
        let stripped;
        let catalog = if self.without_indexes.is_empty() {
            catalog
        } else {
            stripped = catalog.without_indexes(&self.without_indexes);
            &stripped
        };
        let everywhere = self.origin.reaches_all() && self.presets_route(program, presets);
        let mut variant = self.origin.compile(program, catalog, presets, everywhere)?;
        variant.name.clone_from(&program.name);
        variant.variants = None;
        Ok(variant)
    }

    /// Whether the routing parameter is among those of other types: the call has all partitions
    /// then.
    fn presets_route(&self, program: &Program, presets: &Presets) -> bool {
        let Routing::Parameter { index, .. } = program.routing else { return false };
        let place = usize::from(index);
        presets[place].is_some() && self.pinned[place].is_none()
    }

    /// The same for a program that stands for many texts: parameters that `given` does not mark are
    /// literals.
    pub fn of_template(&self, program: &Program, given: &[bool]) -> Option<Arc<Variants>> {
        let adoption = |(adoption, given): (&Adoption, &bool)| if *given { *adoption } else { Adoption::Fixed };
        let adoptions: Vec<Adoption> = self.adoptions.iter().zip(given).map(adoption).collect();
        if adoptions.iter().all(|adoption| *adoption == Adoption::Fixed) {
            return None;
        }
        let pin = |(parameter, given): (&Parameter, &bool)| (!given).then_some(parameter.column_type.sql_type);
        let pinned = program.parameters.iter().zip(given).map(pin).collect();
        let variants = Variants::new(Arc::clone(&self.origin), adoptions.into(), pinned, self.without_indexes.clone());
        Some(Arc::new(variants))
    }

    fn on_snapshots(&self, tables: &[TableId]) -> Arc<Variants> {
        let (adoptions, pinned) = (self.adoptions.clone(), self.pinned.clone());
        Arc::new(Variants::new(Arc::clone(&self.origin), adoptions, pinned, tables.to_vec()))
    }
}

impl Program {
    /// Says how it runs on a snapshot; its variants must run there too.
    pub fn set_snapshot_plan(&mut self, plan: SnapshotPlan) {
        let tables = match &plan {
            SnapshotPlan::Same if self.variants.is_some() => tables_read(self),
            _ => Vec::new(),
        };
        if !tables.is_empty() {
            self.without_indexes(&tables);
        }
        self.snapshot_plan = plan;
    }

    /// The program was compiled without the indexes of these tables; so are its variants.
    pub fn without_indexes(&mut self, tables: &[TableId]) {
        self.variants = self.variants.take().map(|variants| variants.on_snapshots(tables));
    }

    /// With the variants of a template; `given` marks the parameters that are the caller's.
    pub fn as_template(&mut self, given: &[bool]) {
        let variants = self.variants.take();
        self.variants = variants.and_then(|variants| variants.of_template(self, given));
        if let SnapshotPlan::Other(other) = &mut self.snapshot_plan {
            Arc::make_mut(other).as_template(given);
        }
    }
}

/// The integer that is wanted in place of a FLOAT that is one; of a text that is none, a DECIMAL
/// that compares with integers as it does.
fn whole<'a>(value: Value<'a>, adoption: Adoption, parameter: &Parameter, arena: &'a Bump) -> Option<Value<'a>> {
    if !matches!(adoption, Adoption::Stored | Adoption::Compared) || !parameter.column_type.sql_type.is_integer() {
        return None;
    }
    let of_one = |value: Value<'a>| match value {
        Value::Float(number) => convert::whole_float(number).map(Value::Integer),
        // A text with more digits than DECIMAL holds equals no integer, however it is rounded.
        Value::Text(written) if adoption == Adoption::Compared && text::parse_integer(written).is_none() => {
            match text::parse_decimal_truncated(written) {
                Ok((_, Rest::Zero)) | Err(_) => None,
                Ok((number, _)) => Some(Value::Decimal(number.beside_integers(written.trim().starts_with('-')))),
            }
        }
        _ => None,
    };
    match value {
        Value::Array(elements) if parameter.array && elements.iter().any(|element| of_one(*element).is_some()) => {
            let whole = elements.iter().map(|element| of_one(*element).unwrap_or(*element));
            Some(Value::Array(arena.alloc_slice_fill_iter(whole)))
        }
        value => of_one(value),
    }
}

/// The type that a value is given, where the declared one would not do.
fn preset(value: Value<'_>, adoption: Adoption, parameter: &Parameter) -> Option<SqlType> {
    let declared = parameter.column_type.sql_type;
    match value {
        Value::Array(elements) if parameter.array => {
            let types = elements.iter().filter_map(|element| preset_of_one(*element, adoption, declared));
            // Among FLOAT and DECIMAL, all are compared as FLOAT.
            types.reduce(|one, other| if one == other { one } else { SqlType::Float })
        }
        value if !parameter.array => preset_of_one(value, adoption, declared),
        _ => None,
    }
}

fn preset_of_one(value: Value<'_>, adoption: Adoption, declared: SqlType) -> Option<SqlType> {
    let compared = adoption == Adoption::Compared;
    match (value, declared, adoption) {
        (_, _, Adoption::Fixed | Adoption::Stored) => None,
        (value, _, Adoption::Undecided) => type_of(value).filter(|given| *given != declared),
        (Value::Float(_), to, _) if to.is_integer() => Some(SqlType::Float),
        (Value::Decimal(number), to, _) if to.is_integer() => {
            (!compared || number.to_i64_exact().is_none()).then_some(SqlType::Decimal)
        }
        (Value::Timestamp(_), to, _) if to.is_integer() => Some(SqlType::Timestamp),
        (Value::Text(written), to, _) if to.is_integer() => {
            if written == "\\N" || text::parse_integer(written).is_some() {
                None
            } else if holds(written) {
                Some(SqlType::Decimal)
            } else {
                // CAST of a text that is not a number fails where it is evaluated.
                let otherwise = matches!(adoption, Adoption::Carried | Adoption::Computed).then_some(SqlType::Varchar);
                text::parse_float(written).map(|_| SqlType::Float).or(otherwise)
            }
        }
        (Value::Timestamp(at), SqlType::Date, _) => {
            (at.rem_euclid(temporal::MICROSECONDS_PER_DAY) != 0).then_some(SqlType::Timestamp)
        }
        (Value::Date(_), to, _) if to.is_integer() => Some(SqlType::Date),
        (value, _, Adoption::Carried) => type_of(value).filter(|given| !is_of(value, *given, declared)),
        // A number that DECIMAL does not hold, too large or with more digits, is a FLOAT, as a
        // literal is.
        (Value::Float(number), SqlType::Decimal, _) => {
            let held = Decimal::from_f64(number).is_some_and(|decimal| decimal.to_f64() == number);
            (!held).then_some(SqlType::Float)
        }
        (Value::Text(written), SqlType::Decimal, _) if !holds(written) && text::parse_float(written).is_some() => {
            Some(SqlType::Float)
        }
        (
            Value::Text(_),
            SqlType::Decimal | SqlType::Float | SqlType::Timestamp | SqlType::Date,
            Adoption::Computed,
        ) => {
            let arena = Bump::new();
            let is_one = convert::to_declared(value, &ColumnType::unbounded(declared), &arena).is_ok();
            (!is_one).then_some(SqlType::Varchar)
        }
        _ => None,
    }
}

/// Whether a value of type `given` is one of `declared`, or a text that says one.
fn is_of(value: Value<'_>, given: SqlType, declared: SqlType) -> bool {
    match (value, declared) {
        (Value::Text(written), SqlType::Float) => text::parse_float(written).is_some(),
        (Value::Text(written), SqlType::Decimal) => text::parse_decimal(written).is_ok(),
        (Value::Text(written), SqlType::Timestamp) => temporal::parse_timestamp(written).is_some(),
        (Value::Text(written), SqlType::Date) => temporal::date_from_text(written).is_some(),
        _ => given == declared || given.is_integer() && declared.is_integer(),
    }
}

/// The type that a value is of by itself.
fn type_of(value: Value<'_>) -> Option<SqlType> {
    Some(match value {
        Value::Null | Value::Array(_) | Value::Table(_) => return None,
        Value::Boolean(_) => SqlType::Boolean,
        Value::Integer(_) => SqlType::Bigint,
        Value::Float(_) => SqlType::Float,
        Value::Decimal(_) => SqlType::Decimal,
        Value::Timestamp(_) => SqlType::Timestamp,
        Value::Date(_) => SqlType::Date,
        Value::Text(_) => SqlType::Varchar,
        Value::Bytes(_) => SqlType::Varbinary,
        Value::Point(_) => SqlType::Point,
        Value::Geography(_) => SqlType::Geography,
    })
}

/// Whether a text is a number that DECIMAL holds with all its digits.
fn holds(written: &str) -> bool {
    matches!(text::parse_decimal_truncated(written), Ok((_, Rest::Zero)))
}
