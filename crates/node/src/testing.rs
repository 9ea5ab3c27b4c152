//! A node without threads, for tests.

use crate::compound::Compounds;
use crate::connections::{ConnectionLimits, Connections};
use crate::routes::Routes;
use crate::shared::Shared;
use crate::work::Work;
use arc_swap::ArcSwap;
use crossbeam_channel::unbounded;
use ferrite_base::Settings;
use ferrite_catalog::Catalog;
use ferrite_partition::long_read::{Home, LongReads};
use ferrite_partition::{Compiled, RowCounts};
use ferrite_system::Identity;
use ferrite_value::ring::Ring;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// A node that nobody runs, with an empty schema.
pub fn shared(partitions: usize) -> Shared {
    let compiled = Compiled::new(Arc::new(Catalog::default()), &Default::default()).expect("an empty schema compiles");
    Shared {
        compiled: Arc::new(ArcSwap::new(Arc::new(compiled))),
        routes: Arc::new(Routes::new(
            Ring::new_default(partitions as u32),
            (0..partitions).map(|_| unbounded().0).collect(),
            unbounded().0,
        )),
        system: unbounded().0,
        plan_cache: Default::default(),
        expiry: unbounded().0,
        expired: Default::default(),
        task_thread: unbounded().0,
        tasks: Default::default(),
        compounds: Arc::new(Compounds::new(&Settings::default(), Arc::new(ferrite_io::SystemClock)).0),
        long_reads: LongReads::new(2, Home::Coordinator(unbounded().0)).0.line(),
        cancellations: Arc::default(),
        connections: Arc::new(Connections::new(ConnectionLimits::default())),
        work: Arc::new(Work::new(&Settings::default())),
        row_counts: Arc::new(RowCounts::new(partitions)),
        network: Arc::new([]),
        identity: Arc::new(Identity {
            host_id: 0,
            host_name: "host1".to_owned(),
            listen: "127.0.0.1:21212".parse().expect("an address"),
            admin_listen: Some("127.0.0.1:21211".parse().expect("an address")),
            clients_trusted: true,
            drop_migrating: false,
            backups: ferrite_backup::request::Place { own: "/data/one".into(), root: None },
            cluster_start_ms: 1_795_215_464_349,
            leader_address: [127, 0, 0, 1],
            build: "14.0.0_test".to_owned(),
            version: "14.0.0",
            dir: "/data/one".into(),
            durability: "interval=5".to_owned(),
            query_time_max: std::time::Duration::from_secs(10),
        }),
        log: Arc::default(),
        recovery: Default::default(),
        snapshots: unbounded().0,
        snapshot_status: Arc::default(),
        disk: Arc::new(ferrite_io::RealDisk),
        backup: Default::default(),
        started: Instant::now(),
        mode: Default::default(),
        settings: Default::default(),
        shutdown: OnceLock::new(),
        baselines: Default::default(),
    }
}
