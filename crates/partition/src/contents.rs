//! A copy's tables compared with its leader's: what is hashed beside everything else, and what is
//! known so far.

pub use crate::content_hashes::{ContentHashes, TableHashes, hash_tables};
use crate::delivery::Delivery;
use crate::waker::WakingSender;
use ferrite_base::{Epoch, Position};
use ferrite_table::Store;

/// A copy's stores as they are after an entry that the leader has marked.
pub struct ContentCut {
    pub(crate) mark: (Epoch, Position),
    pub(crate) stores: Vec<Store>,
    /// The applier, which compares.
    pub(crate) back: WakingSender<Delivery>,
}

impl ContentCut {
    /// Reads all rows, and tells the copy's applier. `pace` as with [`hash_tables`].
    pub fn hash<E>(self, mut pace: impl FnMut(u64) -> Result<(), E>) -> Result<(), E> {
        let partitions = self.stores.iter().map(|store| hash_tables(store, &mut pace));
        let partitions = partitions.collect::<Result<Vec<_>, E>>()?;
        // An applier that has ended need not know.
        let _ = self.back.send(Delivery::Contents(ContentHashes::new(self.mark, &partitions)));
        Ok(())
    }
}

/// What a copy knows of the place that its leader marked last.
pub(crate) struct Checking {
    pub mark: (Epoch, Position),
    pub own: Option<ContentHashes>,
    pub said: Option<ContentHashes>,
}
