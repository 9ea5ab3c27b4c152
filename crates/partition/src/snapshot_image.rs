//! What a snapshot on disk shows, made stores: for a node that starts, and for one that gets
//! another node's.

use crate::lots::LotLedger;
use crate::schema::SchemaHistory;
use ferrite_base::{GroupMap, UserError, planted};
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
    pub lots: LotLedger,
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
        let lots = lots_of(&manifest).map_err(|detail| SnapshotError::Damaged {
            path: path(),
            position: 0,
            detail: detail.to_owned(),
        })?;
        Ok(SnapshotImage { manifest, catalog: Arc::new(catalog), history, lots, ring })
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

/// What a manifest has of lots: nothing where the database has one group, which takes part in none.
pub(crate) fn lots_in_manifest(map: &GroupMap, lots: &LotLedger) -> Vec<u8> {
    let mut out = Vec::new();
    if map.is_single() {
        assert!(*lots == LotLedger::default(), "the only group takes part in no lots");
        return out;
    }
    match planted!(PartsNotInManifest) {
        true => LotLedger::default().encode(&mut out),
        false => lots.encode(&mut out),
    }
    out
}

fn lots_of(manifest: &Manifest) -> Result<LotLedger, &'static str> {
    if manifest.lots.is_empty() {
        return Ok(LotLedger::default());
    }
    LotLedger::decode(&manifest.lots).map_err(|_| "what it has of lots is malformed")
}
