//! Calls in flight, by handle.
//!
//! A handle is a slot number and the slot's generation, so that an answer that comes too late, or
//! twice, finds nothing instead of another call.

/// Generations stay below this, which keeps handles positive and away from the reserved ones
/// (wire-protocol 3.5).
const GENERATION_MAX: u32 = 0x3fff_ffff;
const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Slot<C> {
    generation: u32,
    /// While free: the next free slot.
    next_free: u32,
    context: Option<C>,
}

/// Contexts by handle. Taking and giving back is a few instructions; memory grows to the most calls
/// ever in flight.
#[derive(Debug)]
pub struct Slab<C> {
    slots: Vec<Slot<C>>,
    first_free: u32,
    used: usize,
}

impl<C> Default for Slab<C> {
    fn default() -> Self {
        Slab { slots: Vec::new(), first_free: NONE, used: 0 }
    }
}

#[inline]
fn handle(index: u32, generation: u32) -> i64 {
    (i64::from(generation) << 32) | i64::from(index)
}

impl<C> Slab<C> {
    #[inline]
    pub fn len(&self) -> usize {
        self.used
    }

    /// Keeps `context` and returns its handle.
    ///
    /// # Panics
    /// With 2^32 - 1 calls in flight.
    #[inline]
    pub fn insert(&mut self, context: C) -> i64 {
        self.used += 1;
        if self.first_free == NONE {
            let index = self.slots.len() as u32;
            assert!(index != NONE, "fewer than 2^32 - 1 calls are in flight");
            self.slots.push(Slot { generation: 1, next_free: NONE, context: Some(context) });
            return handle(index, 1);
        }
        let index = self.first_free;
        let slot = &mut self.slots[index as usize];
        self.first_free = slot.next_free;
        slot.context = Some(context);
        handle(index, slot.generation)
    }

    /// Takes the context of this handle out. `None` for a handle that was never given, or was taken
    /// already.
    #[inline]
    pub fn remove(&mut self, handle: i64) -> Option<C> {
        let index = handle as u32;
        let generation = (handle >> 32) as u32;
        let slot = self.slots.get_mut(index as usize)?;
        if handle < 0 || slot.generation != generation {
            return None;
        }
        let context = slot.context.take()?;
        slot.generation = if generation >= GENERATION_MAX { 1 } else { generation + 1 };
        slot.next_free = self.first_free;
        self.first_free = index;
        self.used -= 1;
        Some(context)
    }

    /// All contexts with their handles.
    pub fn iter(&self) -> impl Iterator<Item = (i64, &C)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(index, slot)| Some((handle(index as u32, slot.generation), slot.context.as_ref()?)))
    }

    /// Takes everything out. Handles given before stay invalid.
    pub fn drain(&mut self) -> Vec<C> {
        let handles: Vec<i64> = self.iter().map(|(handle, _)| handle).collect();
        handles.into_iter().filter_map(|handle| self.remove(handle)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_good_once() {
        let mut slab = Slab::default();
        let a = slab.insert('a');
        let b = slab.insert('b');
        assert_ne!(a, b);
        assert_eq!(slab.remove(a), Some('a'));
        assert_eq!(slab.remove(a), None);
        let c = slab.insert('c');
        assert_eq!(c as u32, a as u32, "the slot is used again");
        assert_ne!(c, a, "under another handle");
        assert_eq!(slab.remove(a), None);
        assert_eq!(slab.len(), 2);
        assert_eq!(slab.drain(), ['c', 'b']);
        assert_eq!(slab.len(), 0);
    }

    #[test]
    fn foreign_handles_find_nothing() {
        let mut slab = Slab::default();
        let a = slab.insert(());
        for foreign in [0, -1, i64::MIN, i64::MAX, i64::MAX - 1, a + 1, a | i64::MIN, a + (1 << 32)] {
            assert_eq!(slab.remove(foreign), None, "{foreign:#x}");
        }
        assert_eq!(slab.len(), 1);
    }

    #[test]
    fn generations_wrap_below_the_reserved_handles() {
        let mut slab = Slab::default();
        slab.insert(());
        slab.slots[0].generation = GENERATION_MAX;
        let last = handle(0, GENERATION_MAX);
        assert!(last > 0 && !ferrite_wire::handles::is_reserved(last));
        assert_eq!(slab.remove(last), Some(()));
        assert_eq!(slab.insert(()), handle(0, 1));
    }
}
