//! A store whose changes no log takes. Promises that [`Store::redo`] still tells whether anything
//! has changed; what it holds cannot be replayed.

use crate::redo;
use crate::store::Store;

impl Store {
    /// From here on changes leave no redo.
    pub fn keep_no_redo(&mut self) {
        self.keeps_redo = false;
    }

    /// Whether a change is to be written to the redo. Otherwise a byte stands for it, so that a
    /// rollback takes it back and a commit knows of it.
    #[inline]
    pub(crate) fn writes_redo(&mut self) -> bool {
        if !self.keeps_redo {
            self.redo.push(redo::UNLOGGED);
        }
        self.keeps_redo
    }
}
