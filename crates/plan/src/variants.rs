//! Programs whose `?` took their types from their neighbours, for values of other types.
//!
//! `int_column * ?` makes its parameter a BIGINT. A caller who gives 2.5 means a product with
//! decimals, so the statement is compiled again with a parameter of the value's type, when such a
//! combination of types first comes, and kept beside the program. Where there is no more room, the
//! least recently called variant goes; compiled again, it is the same program. What a program
//! declares stays as it is, and a value of a declared type costs nothing.

use crate::long_read::tables_read;
use crate::presets::{Adoption, Declared};
use crate::program::{Parameter, Program, Routing, SnapshotPlan};
use bumpalo::Bump;
use ferrite_base::{TableId, UserResult, limits};
use ferrite_catalog::Catalog;
use ferrite_value::{SqlType, Value};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// For each parameter, the type that it is given in place of its neighbour's.
pub type Presets = Box<[Option<SqlType>]>;

/// Parameters of which each is tried by itself where a statement does not take the types of all.
const TRIED_IN_PART_MAX: usize = 8;

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
    kept: RwLock<KeptVariants>,
}

/// The variants that are kept, at most `STATEMENT_VARIANTS_MAX`.
#[derive(Debug, Default)]
struct KeptVariants {
    variants: Vec<KeptVariant>,
    /// The next to be considered for replacement: the first that was not called since the hand came
    /// by goes (the clock algorithm).
    hand: usize,
}

#[derive(Debug)]
struct KeptVariant {
    presets: Presets,
    /// None where the statement cannot be compiled so.
    program: Option<Arc<Program>>,
    is_used: AtomicBool,
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
        Variants { origin, adoptions, pinned, without_indexes, kept: RwLock::default() }
    }

    /// Whether a call may have all partitions where `program` has one. A procedure that is bound to
    /// one may not; its partitioning parameter is of the column's type.
    pub fn may_reach_all(&self) -> bool {
        self.origin.reaches_all()
    }

    /// Whether a call of `program` with this value of its routing parameter is run by a variant
    /// that is compiled for all partitions: in it the parameter is converted before it is compared
    /// or stored.
    pub fn reaches_all(&self, program: &Program, index: u16, value: Value<'_>) -> bool {
        let arena = Bump::new();
        let found = self.beside(program, index, value, &arena);
        let has_preset = |(declared, value): (Declared, Value<'_>)| declared.preset(value).is_some();
        self.may_reach_all() && !value.is_null() && found.is_some_and(has_preset)
    }

    /// What [`Declared::equal_integer`] says of the value of a routing parameter. Rows that equal
    /// the value are on the partition of that integer, or on none.
    pub fn equal_integer(&self, program: &Program, index: u16, value: Value<'_>) -> Option<Option<i64>> {
        let arena = Bump::new();
        let (declared, value) = self.beside(program, index, value, &arena)?;
        declared.equal_integer(value)
    }

    /// What a parameter is declared as, and its value as [`Variants::fit`] takes it.
    fn beside<'a>(
        &self,
        program: &Program,
        index: u16,
        value: Value<'a>,
        arena: &'a Bump,
    ) -> Option<(Declared, Value<'a>)> {
        let place = usize::from(index);
        let declared = declared(program.parameters.get(place)?, *self.adoptions.get(place)?);
        Some((declared, declared.whole(value, arena).unwrap_or(value)))
    }

    /// Whether `program`, whose variants these are, takes the values itself.
    pub fn none_for<'a>(&self, program: &Program, given: impl Iterator<Item = Value<'a>>) -> bool {
        given.zip(&program.parameters).enumerate().all(|(place, (value, parameter))| {
            let adoption = self.adoptions.get(place).copied().unwrap_or_default();
            adoption == Adoption::Fixed || value.is_null() || declared(parameter, adoption).preset(value).is_none()
        })
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
            let declared = declared(parameter, adoption);
            let whole = declared.whole(*value, arena);
            if let Some(whole) = whole {
                values.get_or_insert_with(|| arena.alloc_slice_copy(given))[place] = whole;
            }
            if let Some(preset) = declared.preset(whole.unwrap_or(*value)) {
                presets.get_or_insert_with(|| self.pinned.clone())[place] = Some(preset);
            }
        }
        if let Some(presets) = &mut presets {
            self.keep_other_types(presets, program, values.as_deref().unwrap_or(given));
        }
        let program = match presets {
            Some(presets) => self.made_for(program, catalog, presets),
            None => None,
        };
        Fitted { program, values: values.map_or(given, |values| values) }
    }

    /// In a variant the other values keep their types: what their parameters meet there may be of
    /// another type.
    #[cold]
    fn keep_other_types(&self, presets: &mut Presets, program: &Program, given: &[Value<'_>]) {
        for (place, (value, parameter)) in given.iter().zip(&program.parameters).enumerate() {
            if presets[place].is_none() {
                let adoption = self.adoptions.get(place).copied().unwrap_or_default();
                let kept = declared(parameter, adoption).kept(*value);
                // Where the call goes was decided by a value of the declared type.
                let routes = matches!(program.routing, Routing::Parameter { index, .. } if usize::from(index) == place);
                presets[place] = kept.filter(|kept| !routes || kept.same_kind(parameter.column_type.sql_type));
            }
        }
    }

    #[cold]
    fn made_for(&self, program: &Program, catalog: &Catalog, presets: Presets) -> Option<Arc<Program>> {
        if let Some(known) = self.kept.read().unwrap_or_else(PoisonError::into_inner).find(&presets) {
            return known;
        }
        // Outside the lock: other threads call what is there meanwhile.
        let variant = self.compile(program, catalog, &presets).ok();
        let variant = variant.or_else(|| self.compile_in_part(program, catalog, &presets)).map(Arc::new);
        self.kept.write().unwrap_or_else(PoisonError::into_inner).add(presets, variant)
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

    /// Where the statement means nothing with all of the types: a variant with those that it takes.
    /// The other values are converted.
    fn compile_in_part(&self, program: &Program, catalog: &Catalog, presets: &Presets) -> Option<Program> {
        let is_set = |place: &usize| presets[*place].is_some() && self.pinned[*place].is_none();
        let places: Vec<usize> = (0..presets.len()).filter(is_set).collect();
        if !(2..=TRIED_IN_PART_MAX).contains(&places.len()) {
            return None;
        }
        let mut taken = self.pinned.clone();
        let mut variant = None;
        for place in places {
            taken[place] = presets[place];
            match self.compile(program, catalog, &taken) {
                Ok(compiled) => variant = Some(compiled),
                Err(_) => taken[place] = None,
            }
        }
        variant
    }

    /// Whether the routing parameter is among those of other types: the call has all partitions
    /// then. A number beside integers is compared as it is, so that it routes as well.
    fn presets_route(&self, program: &Program, presets: &Presets) -> bool {
        let Routing::Parameter { index, .. } = program.routing else { return false };
        let place = usize::from(index);
        let declared = declared(&program.parameters[place], self.adoptions[place]);
        let is_converted =
            |preset: SqlType| !preset.same_kind(declared.sql_type) && !declared.is_number_beside_integers(preset);
        presets[place].is_some_and(is_converted) && self.pinned[place].is_none()
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
        let adoptions = self.adoptions.clone();
        let pinned = self.pinned.clone();
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

impl KeptVariants {
    fn find(&self, presets: &Presets) -> Option<Option<Arc<Program>>> {
        let kept = self.variants.iter().find(|kept| kept.presets == *presets)?;
        // Written only when it changes, so that threads share the line.
        if !kept.is_used.load(Ordering::Relaxed) {
            kept.is_used.store(true, Ordering::Relaxed);
        }
        Some(kept.program.clone())
    }

    /// Keeps a variant, in place of another where there is no room. Returns the one that is kept:
    /// another thread may have added it first.
    fn add(&mut self, presets: Presets, program: Option<Arc<Program>>) -> Option<Arc<Program>> {
        if let Some(known) = self.find(&presets) {
            return known;
        }
        let added = KeptVariant { presets, program: program.clone(), is_used: AtomicBool::new(false) };
        if self.variants.len() < limits::STATEMENT_VARIANTS_MAX {
            self.variants.push(added);
            return program;
        }
        while std::mem::take(self.variants[self.hand].is_used.get_mut()) {
            self.hand = (self.hand + 1) % self.variants.len();
        }
        self.variants[self.hand] = added;
        self.hand = (self.hand + 1) % self.variants.len();
        program
    }
}

fn declared(parameter: &Parameter, adoption: Adoption) -> Declared {
    Declared { sql_type: parameter.column_type.sql_type, is_array: parameter.array, adoption }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn presets(number: usize) -> Presets {
        (0..7).map(|place| (number >> place & 1 == 1).then_some(SqlType::Float)).collect()
    }

    #[test]
    fn the_least_recently_called_combination_goes_first() {
        let mut kept = KeptVariants::default();
        let limit = limits::STATEMENT_VARIANTS_MAX;
        (0..limit).for_each(|number| drop(kept.add(presets(number), None)));
        assert!((0..limit).all(|number| kept.variants[number].presets == presets(number)), "at the limit all stay");
        assert!((0..10).all(|number| kept.find(&presets(number)).is_some()));
        kept.add(presets(limit), None);
        kept.add(presets(limit + 1), None);
        assert!((0..10).all(|number| kept.find(&presets(number)).is_some()), "they were called");
        assert!([10, 11].iter().all(|number| kept.find(&presets(*number)).is_none()), "one past it they go");
        assert!((12..limit + 2).all(|number| kept.find(&presets(number)).is_some()));
        assert_eq!(kept.variants.len(), limit);
    }

    #[test]
    fn what_another_thread_has_added_first_is_kept() {
        let mut kept = KeptVariants::default();
        (0..2).for_each(|_| drop(kept.add(presets(1), None)));
        assert_eq!(kept.variants.len(), 1);
    }
}
