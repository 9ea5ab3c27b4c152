//! Plans of ad hoc statements, by the shape of their texts: a text that differs from one before in
//! values only needs no compiling.
//!
//! Owns the plans and which of them to forget. Network threads look plans up and send the call to
//! its partition like any procedure's; the system thread, which compiles what is not found, brings
//! them. A shape gets its plan when it is met for the second time, so that texts that never come
//! again cost nothing but an entry. Everything here is for one version of the catalog.

use bumpalo::Bump;
use ferrite_base::limits;
use ferrite_catalog::Catalog;
use ferrite_partition::Compiled;
use ferrite_plan::{Program, is_short};
use ferrite_sql::{Argument, Parameterizer, Statistics, Template, find_template, template};
use ferrite_system::plans::{Compilations, PlanCacheStatistics};
use ferrite_wire::{Parameters, parameters};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// In a key, before and between the literals that stay in the text. No shape has this byte.
const KEPT: u8 = 7;

/// A program for all texts of a shape.
pub struct CachedPlan {
    pub program: Arc<Program>,
    /// See [`Compiled::is_short`].
    pub is_short: bool,
    arguments: Box<[Argument]>,
    /// How many of the arguments the caller gives.
    given: usize,
}

#[derive(Clone)]
enum Entry {
    /// Compiled once, as it was written.
    Met,
    Plan(Arc<CachedPlan>),
    /// Some literals make other plans: the plan is found by the shape and these.
    Keeps(Arc<[bool]>),
    /// No plan but its own does for a text of this shape.
    Never,
}

struct Slot {
    key: Arc<[u8]>,
    entry: Entry,
    /// Since the hand came by.
    used: AtomicBool,
}

#[derive(Default)]
struct Entries {
    compiled: Option<Arc<Compiled>>,
    places: HashMap<Arc<[u8]>, usize>,
    slots: Vec<Slot>,
    /// The next slot to be considered for eviction: a plan that was not used since the last time is
    /// evicted (the clock algorithm).
    hand: usize,
}

#[derive(Default)]
pub struct PlanCache {
    entries: RwLock<Entries>,
    hits: AtomicU64,
    misses: AtomicU64,
    evictions: AtomicU64,
    compilations: Mutex<Compilations>,
}

impl PlanCache {
    /// The plan for `text`, which is taken apart by `parameterizer`; None when there is none yet,
    /// or when it wants another number of parameters than `given`.
    pub fn find(
        &self,
        compiled: &Arc<Compiled>,
        parameterizer: &mut Parameterizer,
        text: &str,
        given: usize,
    ) -> Option<Arc<CachedPlan>> {
        let plan = parameterizer.parameterize(text).and_then(|()| {
            let entries = self.read();
            if !entries.compiled.as_ref().is_some_and(|known| Arc::ptr_eq(known, compiled)) {
                return None;
            }
            let entry = match entries.get(parameterizer.shape())? {
                Entry::Keeps(parameterized) => entries.get(&key_with_kept(parameterizer, text, parameterized))?,
                entry => entry,
            };
            match entry {
                Entry::Plan(plan) if plan.given == given => Some(Arc::clone(plan)),
                _ => None,
            }
        });
        let counter = if plan.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        plan
    }

    /// Takes note of a text that was compiled, as it is written, to `exact`; at the second meeting
    /// makes the plan for its shape.
    pub fn met(
        &self,
        compiled: &Arc<Compiled>,
        statistics: &dyn Statistics,
        parameterizer: &mut Parameterizer,
        text: &str,
        exact: &Program,
    ) {
        if parameterizer.parameterize(text).is_none() {
            return;
        }
        let shape: Arc<[u8]> = parameterizer.shape().into();
        let catalog = &compiled.catalog;
        match self.state(compiled, &shape) {
            None => self.put(compiled, shape, Entry::Met),
            Some(Entry::Met) => match find_template(catalog, statistics, text, parameterizer.literals(), exact) {
                None => self.put(compiled, shape, Entry::Never),
                Some((template, parameterized)) if parameterized.iter().all(|parameterized| *parameterized) => {
                    self.put(compiled, shape, Entry::Plan(CachedPlan::new(template, catalog)));
                }
                Some((template, parameterized)) => {
                    let key = key_with_kept(parameterizer, text, &parameterized);
                    self.put(compiled, shape, Entry::Keeps(parameterized.into()));
                    self.put(compiled, key.into(), Entry::Plan(CachedPlan::new(template, catalog)));
                }
            },
            Some(Entry::Keeps(parameterized)) => {
                let key: Arc<[u8]> = key_with_kept(parameterizer, text, &parameterized).into();
                match self.state(compiled, &key) {
                    None => self.put(compiled, key, Entry::Met),
                    Some(Entry::Met) => {
                        let entry = match template(
                            catalog,
                            statistics,
                            text,
                            parameterizer.literals(),
                            &parameterized,
                            exact,
                        ) {
                            Some(template) => Entry::Plan(CachedPlan::new(template, catalog)),
                            None => Entry::Never,
                        };
                        self.put(compiled, key, entry);
                    }
                    Some(_) => {}
                }
            }
            Some(Entry::Plan(_) | Entry::Never) => {}
        }
    }

    /// A text took this long to compile.
    pub fn compiled_in(&self, time: Duration, failed: bool) {
        self.compilations.lock().unwrap_or_else(PoisonError::into_inner).add(time, failed);
    }

    /// Forgets everything: the catalog has changed.
    pub fn clear(&self) {
        *self.write() = Entries::default();
    }

    pub fn statistics(&self) -> PlanCacheStatistics {
        PlanCacheStatistics {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            evictions: self.evictions.load(Ordering::Relaxed),
            entries: self.read().slots.len() as u64,
            compilations: *self.compilations.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    fn state(&self, compiled: &Arc<Compiled>, key: &[u8]) -> Option<Entry> {
        let entries = self.read();
        let current = entries.compiled.as_ref().is_some_and(|known| Arc::ptr_eq(known, compiled));
        if current { entries.get(key).cloned() } else { None }
    }

    fn put(&self, compiled: &Arc<Compiled>, key: Arc<[u8]>, entry: Entry) {
        let mut entries = self.write();
        if !entries.compiled.as_ref().is_some_and(|known| Arc::ptr_eq(known, compiled)) {
            *entries = Entries { compiled: Some(Arc::clone(compiled)), ..Entries::default() };
        }
        if entries.put(key, entry) {
            self.evictions.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Entries> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Entries> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn get(&self, key: &[u8]) -> Option<&Entry> {
        let slot = &self.slots[*self.places.get(key)?];
        // Written only when it changes, so that threads share the line.
        if !slot.used.load(Ordering::Relaxed) {
            slot.used.store(true, Ordering::Relaxed);
        }
        Some(&slot.entry)
    }

    /// Adds or replaces. Says whether another entry had to go.
    fn put(&mut self, key: Arc<[u8]>, entry: Entry) -> bool {
        if let Some(place) = self.places.get(&key) {
            self.slots[*place].entry = entry;
            return false;
        }
        let slot = Slot { key: Arc::clone(&key), entry, used: AtomicBool::new(false) };
        if self.slots.len() < limits::PLAN_CACHE_ENTRIES_MAX {
            self.places.insert(key, self.slots.len());
            self.slots.push(slot);
            return false;
        }
        while std::mem::take(self.slots[self.hand].used.get_mut()) {
            self.hand = (self.hand + 1) % self.slots.len();
        }
        self.places.remove(&self.slots[self.hand].key);
        self.places.insert(key, self.hand);
        self.slots[self.hand] = slot;
        self.hand = (self.hand + 1) % self.slots.len();
        true
    }
}

/// The shape and the literals that are not parameterized.
fn key_with_kept(parameterizer: &Parameterizer, text: &str, parameterized: &[bool]) -> Vec<u8> {
    let mut key = parameterizer.shape().to_vec();
    for (literal, parameterized) in parameterizer.literals().iter().zip(parameterized) {
        if !parameterized {
            key.push(KEPT);
            key.extend_from_slice(literal.written(text).as_bytes());
        }
    }
    key
}

impl CachedPlan {
    fn new(template: Template, catalog: &Catalog) -> Arc<CachedPlan> {
        let given = template.arguments.iter().filter(|argument| matches!(argument, Argument::Given)).count();
        let is_short = is_short(&template.program, catalog);
        Arc::new(CachedPlan { program: Arc::new(template.program), is_short, arguments: template.arguments, given })
    }

    /// Appends the parameter set for `text`, last taken apart by `parameterizer`. None, with
    /// something appended, when a literal is none that the plan was made for.
    pub fn write_parameters(
        &self,
        parameterizer: &Parameterizer,
        text: &str,
        given: &Parameters<'_>,
        arena: &Bump,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        out.extend_from_slice(&(self.arguments.len() as i16).to_be_bytes());
        let mut rest = given.value_bytes().len();
        let mut given = given.encoded();
        for argument in &self.arguments {
            match argument {
                Argument::Given => {
                    let encoded = given.next()?.ok()?;
                    rest -= encoded.len();
                    out.extend_from_slice(encoded);
                }
                Argument::Literal { number, sql_type } => {
                    let literal = parameterizer.literals().get(usize::from(*number))?;
                    let value = literal.as_parameter(text, *sql_type, arena)?;
                    parameters::write_value(out, &value).ok()?;
                }
            }
        }
        // Bytes left over are malformed, which is reported where the call is decoded as it came.
        (rest == 0).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Arc<[u8]> {
        number.to_be_bytes().as_slice().into()
    }

    #[test]
    fn the_least_used_go_first() {
        let mut entries = Entries::default();
        for number in 0..limits::PLAN_CACHE_ENTRIES_MAX {
            assert!(!entries.put(key(number), Entry::Met), "at the limit nothing goes");
        }
        for number in 0..10 {
            assert!(entries.get(&key(number)).is_some());
        }
        assert!(entries.put(key(usize::MAX), Entry::Met), "one past the limit something goes");
        assert!(entries.put(key(usize::MAX - 1), Entry::Met));
        assert!(!entries.put(key(usize::MAX), Entry::Never), "replaced in its place");
        for number in 0..10 {
            assert!(entries.get(&key(number)).is_some(), "{number} was used");
        }
        assert!(entries.get(&key(10)).is_none() && entries.get(&key(11)).is_none());
        assert!(entries.get(&key(12)).is_some());
        assert_eq!(entries.slots.len(), limits::PLAN_CACHE_ENTRIES_MAX);
        assert_eq!(entries.places.len(), limits::PLAN_CACHE_ENTRIES_MAX);
    }
}
