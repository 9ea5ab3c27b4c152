//! What keeps a catalog version's classes loaded.

use std::any::Any;
use std::sync::Arc;

/// A share in the classes of a catalog version: they stay loaded, for the next version to take
/// over, while a procedure or function of theirs is there.
#[derive(Clone)]
pub(crate) struct Loader {
    _classes: Option<Arc<dyn Any + Send + Sync>>,
}

impl Loader {
    /// None where nobody shares them any more.
    pub(crate) fn of(classes: Option<Arc<impl Any + Send + Sync>>) -> Loader {
        Loader { _classes: classes.map(|classes| classes as Arc<dyn Any + Send + Sync>) }
    }
}
