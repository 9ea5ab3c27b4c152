//! What a snapshot on disk shows, made stores: for a node that starts, and for one that gets
//! another node's.

use crate::schema::SchemaHistory;
use ferrite_base::UserError;
use ferrite_catalog::Catalog;
use ferrite_snapshot::{Files, Manifest, SnapshotError, own_name};
use ferrite_table::{Loading, Store};
use ferrite_value::ring::Ring;
use std::sync::Arc;

/// A snapshot whose manifest was read, and its schema made.
pub(crate) struct SnapshotImage {
    pub manifest: Manifest,
    pub catalog: Arc<Catalog>,
    pub history: SchemaHistory,
    ring: Arc<Ring>,
}

impl SnapshotImage {
    pub fn open(files: &Files, snapshot: u64) -> Result<SnapshotImage, SnapshotError> {
        let name = own_name(snapshot);
        let manifest = files.manifest(&name)?;
        let path = || files.manifest_path(&name);
        let history = SchemaHistory::of(&manifest);
        let refuse = |error: UserError| SnapshotError::Schema { path: path(), detail: error.to_string() };
        let catalog = history.catalog().map_err(refuse)?;
        if catalog.version.0 != manifest.catalog_version {
            let detail = format!("the schema cannot be made: it is version {}", catalog.version);
            return Err(SnapshotError::Damaged { path: path(), position: 120, detail });
        }
        let ring = Arc::new(Ring::new_default(manifest.map.partitions()));
        Ok(SnapshotImage { manifest, catalog: Arc::new(catalog), history, ring })
    }

    /// The rows of the partition at that place in its group. `pace` is called after each block with
    /// its bytes and rows.
    pub fn load(&self, files: &Files, place: usize, pace: impl FnMut(u64, u64)) -> Result<Store, SnapshotError> {
        let name = own_name(self.manifest.snapshot);
        let partition = self.manifest.partitions().id(place);
        let path = files.rows_path(&name, partition.0);
        let refuse = |error: UserError| SnapshotError::Schema { path: path.clone(), detail: error.to_string() };
        let identity = files.identity(&self.manifest, place);
        let loading = Loading::begin(partition, Arc::clone(&self.ring), &self.catalog).map_err(refuse)?;
        let expected = self.manifest.files[place];
        ferrite_snapshot::load(&**files.disk(), &path, identity, expected, loading, pace)
    }
}
