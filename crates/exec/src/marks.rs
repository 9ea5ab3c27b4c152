//! Places in the undo of several stores, to come back to together.

use ferrite_table::{Store, UndoMark};
use smallvec::SmallVec;

/// The stores' places to come back to.
pub type Marks = SmallVec<[UndoMark; 4]>;

pub fn set_marks(stores: &[Store]) -> Marks {
    stores.iter().map(|store| store.mark()).collect()
}

/// Undoes in every store what was done since `marks`.
pub fn roll_back(stores: &mut [Store], marks: Marks) {
    for (store, mark) in stores.iter_mut().zip(marks) {
        store.rollback_to(mark);
    }
}
