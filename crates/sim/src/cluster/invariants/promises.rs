//! 1. What a node has promised, and its incarnation, never go back, across crashes too.

use super::noted;
use crate::cluster::ledger::Book;
use ferrite_group::Identity;

const NAME: &str = "promises and incarnations never go back";

pub fn note(book: &mut Book, identity: &Identity) {
    if let Some(known) = book.identities.get(&identity.node) {
        let kept = known.promised.iter().all(|(group, epoch)| identity.promised.get(group) >= Some(epoch));
        if identity.incarnation < known.incarnation || !kept || identity.cluster != known.cluster {
            noted(&mut book.violation, NAME, format!("{identity:?} after {known:?}"));
        }
    }
    book.identities.insert(identity.node, identity.clone());
}
