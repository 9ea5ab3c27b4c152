//! Which version of the schema the node routes calls with. Each group that it hosts has a schema of
//! its own, which its stream leads to; a schema change reaches them one after the other.
//!
//! With one group, its version is the node's. With several:
//!
//! - calls are routed with the lowest version of the groups whose calls are executed here, so that
//!   a new version is used when all of them have it; where none is, with the highest version;
//! - a version that is in use is not given up for a lower one while a group here has it: a group
//!   that begins to be led here may have to catch up.

use crate::mailbox::Mail;
use crate::publish::Publisher;
use ferrite_base::GroupId;
use ferrite_member::Clients;
use ferrite_partition::{Compiled, is_same_schema};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub struct GroupSchemas {
    publisher: Publisher,
    known: Mutex<GroupVersions>,
}

struct GroupVersions {
    /// Of each group that is hosted here.
    versions: BTreeMap<GroupId, Arc<Compiled>>,
    /// Groups whose calls are executed here.
    served: BTreeSet<GroupId>,
}

impl GroupVersions {
    /// The version to use. None: that of before.
    fn choice(&self, used: &Arc<Compiled>) -> Option<&Arc<Compiled>> {
        let served = self.versions.iter().filter(|(group, _)| self.served.contains(group)).map(|(_, known)| known);
        let lowest = served.min_by_key(|known| known.catalog.version);
        let chosen = lowest.or_else(|| self.versions.values().max_by_key(|known| known.catalog.version))?;
        let is_used = |known: &Arc<Compiled>| is_same_schema(known, used);
        let is_earlier = chosen.catalog.version < used.catalog.version && self.versions.values().any(is_used);
        (!is_used(chosen) && !is_earlier).then_some(chosen)
    }
}

impl GroupSchemas {
    /// `versions`: as they were recovered.
    pub fn new(publisher: Publisher, versions: BTreeMap<GroupId, Arc<Compiled>>) -> GroupSchemas {
        let known = Mutex::new(GroupVersions { versions, served: BTreeSet::new() });
        GroupSchemas { publisher, known }
    }

    fn lock(&self) -> MutexGuard<'_, GroupVersions> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether calls of the group are executed here.
    pub fn serves(&self, group: GroupId) -> bool {
        self.lock().served.contains(&group)
    }

    /// The schema of a group that is hosted here.
    pub fn of(&self, group: GroupId) -> Option<Arc<Compiled>> {
        self.lock().versions.get(&group).cloned()
    }

    fn settle(&self, known: &GroupVersions) {
        if let Some(chosen) = known.choice(&self.publisher.compiled.load()) {
            self.publisher.publish(Arc::clone(chosen));
        }
    }
}

impl Clients for GroupSchemas {
    fn publish(&self, group: GroupId, compiled: Arc<Compiled>) {
        let mut known = self.lock();
        known.versions.insert(group, Arc::clone(&compiled));
        if known.versions.len() == 1 {
            drop(known);
            return self.publisher.publish(compiled);
        }
        self.settle(&known);
    }

    fn leads(&self, group: GroupId, leads: bool) {
        let mut known = self.lock();
        match leads {
            true => known.served.insert(group),
            false => known.served.remove(&group),
        };
        if known.versions.len() > 1 {
            self.settle(&known);
        }
    }

    fn compiled(&self) -> Arc<Compiled> {
        self.publisher.compiled.load_full()
    }

    fn topology_changed(&self) {
        self.publisher.network.iter().for_each(|mailbox| mailbox.send(Mail::TopologyChanged));
    }

    fn procedures_changed(&self) {
        self.publisher.network.iter().for_each(|mailbox| mailbox.send(Mail::CatalogChanged));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_base::CatalogVersion;
    use ferrite_catalog::Catalog;

    fn version(number: u64) -> Arc<Compiled> {
        let mut catalog = Catalog::default();
        catalog.version = CatalogVersion(number);
        Arc::new(Compiled::new(Arc::new(catalog), &Default::default()).expect("an empty schema compiles"))
    }

    fn chosen(versions: &[u64], served: &[u32], used: u64) -> Option<u64> {
        let versions = (0..).map(GroupId).zip(versions.iter().map(|number| version(*number))).collect();
        let known = GroupVersions { versions, served: served.iter().copied().map(GroupId).collect() };
        known.choice(&version(used)).map(|chosen| chosen.catalog.version.0)
    }

    #[test]
    fn a_version_is_used_when_all_groups_have_it_whose_calls_are_executed_here() {
        assert_eq!(chosen(&[6, 5, 5], &[0, 1], 5), None, "the second has not got there");
        assert_eq!(chosen(&[6, 6, 5], &[0, 1], 5), Some(6), "a copy is not waited for");
        assert_eq!(chosen(&[5, 6, 5], &[], 5), Some(6));
        assert_eq!(chosen(&[6, 5], &[0, 1], 6), None, "the second has come late, and follows");
        assert_eq!(chosen(&[5, 5], &[0, 1], 6), Some(5), "a loss was accepted");
        assert_eq!(chosen(&[6, 6], &[0], 6), None, "two groups' are the same");
    }
}
